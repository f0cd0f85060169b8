//! An idempotent producer: several requests in flight; whatever has no answer is sent again after
//! the restart, with the same epoch and sequence number, and is then there exactly once.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::http::{Client, Lost, Request, Response};
use crate::judge::{Round, Verdict};
use crate::life::Sight;
use crate::log::Checked;
use crate::message::Key;
use crate::plain::{body, frame};
use crate::rng::Rng;
use crate::world::{Form, Owed, Stream, World};

/// How many requests are in flight at a time.
pub const WINDOW: usize = 5;

/// A producer: one session after the other, each on one stream.
#[derive(Debug, Default)]
pub struct Producer {
    session: Option<Session>,
}

/// What a producer is to one stream.
#[derive(Debug)]
struct Session {
    stream: Arc<Stream>,
    writer: u32,
    epoch: u64,
    next_seq: u64,
    next_n: u32,
    /// Appends without a final answer, by sequence number.
    pending: VecDeque<Pending>,
    /// The oldest append without an answer when the newest requests were sent.
    sent_from: u64,
    /// Nothing more is begun.
    ended: bool,
}

/// An append that has no final answer.
#[derive(Debug, Clone)]
struct Pending {
    seq: u64,
    first: Key,
    count: u32,
    close: bool,
    /// What was certain when it was first sent.
    sight: Sight,
    /// Whether an attempt had no answer, so that it may be there already.
    in_doubt: bool,
}

impl Producer {
    /// Writes until the round is over.
    pub fn work(&mut self, round: &Round<'_>, mut rng: Rng) {
        let mut clients: Vec<Client> = (0..WINDOW).map(|_| Client::new(round.address)).collect();
        while round.goes_on() {
            let is_over = |session: &Session| {
                session.ended || (session.pending.is_empty() && rng.clone().one_in(200))
            };
            if self.session.as_ref().is_none_or(is_over) {
                self.session = begin(round.world, &mut rng);
            }
            match &mut self.session {
                Some(session) => session.step(round, &mut clients, &mut rng),
                None => round.rest(),
            }
        }
    }

    /// After a restart and its audit: sends again what had no answer, one after the other, and
    /// compares each answer with what the audit has seen.
    pub fn retry(&mut self, world: &World, client: &mut Client) {
        let Some(session) = &mut self.session else { return };
        if !session.stream.lives() {
            session.abandon(world);
            return;
        }
        for _ in 0..WINDOW {
            let Some(pending) = session.pending.front().cloned() else { break };
            let (is_there, is_known) = {
                let ledger = session.stream.ledger();
                let is_there = ledger.log.has(pending.first);
                (is_there, is_there || ledger.life.retained <= pending.sight.floor)
            };
            if pending.in_doubt {
                world.count("retries", 1);
                world.count(if is_there { "unknown: present" } else { "unknown: absent" }, 1);
            }
            session.sent_from = pending.seq;
            let answer = client.call(&session.request(world, &pending));
            let status = answer.as_ref().map_or(0, |answer| answer.status);
            session.answered(world, &pending, answer);
            if is_known && matches!(status, 200 | 204) && (status == 204) != is_there {
                let (key, stream) = (pending.first, &session.stream);
                world.breach(format!(
                    "{stream}, retry of {key} (seq {}): {status}, but the audit has seen that it \
                     is there: {is_there}",
                    pending.seq
                ));
            }
            if session.ended {
                break;
            }
        }
    }
}

fn begin(world: &World, rng: &mut Rng) -> Option<Session> {
    let stream = rng.pick(&world.streams_where(Stream::writable)).cloned()?;
    let writer = world.new_writer();
    stream.ledger().producers.push(writer);
    let (pending, epoch) = (VecDeque::new(), rng.below(3));
    Some(Session {
        stream,
        writer,
        epoch,
        next_seq: 0,
        next_n: 0,
        pending,
        sent_from: 0,
        ended: false,
    })
}

impl Session {
    fn step(&mut self, round: &Round<'_>, clients: &mut [Client], rng: &mut Rng) {
        if !self.stream.lives() {
            self.abandon(round.world);
            return;
        }
        if self.pending.is_empty() && rng.one_in(30) {
            self.new_epoch();
        }
        self.fill(rng);
        if self.pending.is_empty() {
            self.ended = true;
            return;
        }
        let doubtful = self.pending.iter().any(|pending| pending.in_doubt || pending.close);
        if doubtful {
            // Without an answer although the server is up: it has just been told to end.
            round.rest();
        }
        if !doubtful && rng.one_in(4) {
            self.send_batch(round.world, &mut clients[0]);
            return;
        }
        let pipelined = rng.one_in(2);
        self.sent_from = self.pending.front().map_or(0, |oldest| oldest.seq);
        let sent: Vec<(usize, Pending, Result<(), Lost>)> = (0..clients.len())
            .zip(self.pending.clone())
            .map(|(lane, pending)| {
                let lane = if pipelined { 0 } else { lane };
                let sent = clients[lane].send(&self.request(round.world, &pending));
                (lane, pending, sent)
            })
            .collect();
        for (lane, pending, sent) in sent {
            let answer = sent.and_then(|()| clients[lane].receive("POST"));
            self.answered(round.world, &pending, answer);
        }
    }

    fn new_epoch(&mut self) {
        self.epoch += 1;
        self.next_seq = 0;
    }

    /// Begins appends until the window is full.
    fn fill(&mut self, rng: &mut Rng) {
        let is_closing = self.pending.back().is_some_and(|pending| pending.close);
        if is_closing || !self.stream.writable() {
            return;
        }
        // An epoch begins with its first append alone: an overtaken one is refused for good.
        let begins = self.pending.front().map_or(self.next_seq, |oldest| oldest.seq) == 0;
        let window = if begins { 1 } else { rng.within(1, WINDOW as u64) };
        let window = usize::try_from(window).expect("a window is small");
        while self.pending.len() < window {
            let is_json = self.stream.form == Form::Json;
            let count = if is_json && rng.one_in(3) { 3 } else { 1 };
            let close = rng.one_in(4000);
            let first = Key { writer: self.writer, n: self.next_n };
            let mut ledger = self.stream.ledger();
            (0..count).for_each(|by| ledger.record.append(first.plus(by)));
            let sight = ledger.sight();
            drop(ledger);
            let seq = self.next_seq;
            self.pending.push_back(Pending { seq, first, count, close, sight, in_doubt: false });
            self.next_seq += 1;
            self.next_n += count;
            if close {
                return;
            }
        }
    }

    fn request(&self, world: &World, pending: &Pending) -> Request {
        let mut rng = Rng::of(u64::from(self.writer), &[pending.seq]);
        let request = Request::new("POST", self.stream.place.path(&mut rng));
        let request = self.stamp(request, pending.seq);
        let request = if pending.close {
            self.stream.may_close();
            request.header("Stream-Closed", "true")
        } else {
            request
        };
        let body = body(world, &self.stream, pending.first, pending.count);
        request.body(self.stream.form.content_type(), body)
    }

    fn stamp(&self, request: Request, seq: u64) -> Request {
        request
            .header("Producer-Id", format!("producer-{}", self.writer))
            .header("Producer-Epoch", self.epoch)
            .header("Producer-Seq", seq)
    }

    /// Sends the whole window as one request.
    fn send_batch(&mut self, world: &World, client: &mut Client) {
        let Some(first) = self.pending.front().cloned() else { return };
        let mut frames = Vec::new();
        for pending in &self.pending {
            frame(&mut frames, &body(world, &self.stream, pending.first, pending.count));
        }
        let request = Request::new("POST", self.stream.place.below("append-batch", false));
        let request = self.stamp(request, first.seq).body(self.stream.form.content_type(), frames);
        let answer = client.call(&request);
        match world.judge(&self.stream, &first.sight, "producer's batch", answer) {
            Verdict::Done(answer) => self.batch_done(world, &answer),
            Verdict::Unknown => {
                world.count("unknown outcomes", self.pending.len() as u64);
                self.pending.iter_mut().for_each(|pending| pending.in_doubt = true);
            }
            Verdict::NotDone => {}
            Verdict::Gone | Verdict::Closed => self.abandon(world),
            Verdict::Refused(answer) => {
                world.unexpected(&self.stream, "producer's batch", &answer);
                self.abandon(world);
            }
        }
    }

    fn batch_done(&mut self, world: &World, answer: &Response) {
        let results: Vec<serde_json::Value> =
            serde_json::from_slice(&answer.body).unwrap_or_default();
        if results.len() != self.pending.len() {
            world.unexpected(&self.stream, "producer's batch", answer);
            return self.abandon(world);
        }
        for result in results {
            let Some(pending) = self.pending.front().cloned() else { return };
            let end = result["stream_next_offset"].as_str().and_then(|end| end.parse().ok());
            match result["status"].as_u64() {
                Some(204) => {
                    let record = result["stream_record_start"].as_u64();
                    self.acked(world, &pending, end.unwrap_or(0), record);
                }
                Some(404 | 409 | 410) => return self.abandon(world),
                _ => {
                    world.unexpected(&self.stream, "producer's batch", answer);
                    return self.abandon(world);
                }
            }
        }
    }

    fn answered(&mut self, world: &World, pending: &Pending, answer: Result<Response, Lost>) {
        if self.ended {
            return;
        }
        match world.judge(&self.stream, &pending.sight, "producer", answer) {
            Verdict::Done(answer) if answer.status == 200 => {
                let end = answer.number("stream-next-offset").unwrap_or(0);
                self.acked(world, pending, end, answer.number("stream-record-start"));
                if pending.close {
                    self.closed(world, pending, end);
                }
            }
            Verdict::Done(answer) if answer.status == 204 => self.repeated(world, pending, &answer),
            Verdict::Refused(answer) if answer.header("producer-expected-seq").is_some() => {
                // One of several connections was overtaken by another.
                let expected = answer.number("producer-expected-seq").unwrap_or(0);
                let oldest = self.sent_from;
                if expected < oldest || expected >= pending.seq {
                    world.breach(format!(
                        "{}: the server expects seq {expected} of producer-{} where {oldest} is \
                         the first without an ack",
                        self.stream, self.writer
                    ));
                }
            }
            Verdict::Unknown => {
                world.count("unknown outcomes", 1);
                for entry in self.pending.iter_mut().filter(|entry| entry.seq == pending.seq) {
                    entry.in_doubt = true;
                }
            }
            Verdict::NotDone => {}
            Verdict::Gone | Verdict::Closed => self.abandon(world),
            Verdict::Done(answer) | Verdict::Refused(answer) => {
                world.unexpected(&self.stream, "producer", &answer);
                self.abandon(world);
            }
        }
    }

    fn acked(&mut self, world: &World, pending: &Pending, end: u64, record: Option<u64>) {
        world.count("acked appends", pending.count.into());
        self.settled(pending.seq);
        let placed = world.placed(&self.stream, pending.first, pending.count, end, record);
        let mut ledger = self.stream.ledger();
        let acked = |ledger: &mut crate::world::Ledger| -> Checked {
            ledger.acked(&pending.sight, &placed?)?;
            ledger.life.open(&pending.sight)
        };
        let checked = acked(&mut ledger);
        drop(ledger);
        world.check(&self.stream, "producer", checked);
    }

    /// The server says that it has had this one already.
    fn repeated(&mut self, world: &World, pending: &Pending, answer: &Response) {
        world.count("duplicates answered", 1);
        self.settled(pending.seq);
        if !pending.in_doubt {
            world.unexpected(&self.stream, "a new append was called a duplicate", answer);
        }
        let floor = pending.sight.floor;
        let owed = (0..pending.count).map(|by| Owed { key: pending.first.plus(by), floor });
        self.stream.ledger().owed.extend(owed);
        if pending.close {
            self.closed(world, pending, answer.number("stream-next-offset").unwrap_or(0));
        }
    }

    fn closed(&mut self, world: &World, pending: &Pending, tail: u64) {
        self.ended = true;
        let mut ledger = self.stream.ledger();
        let checked = ledger.closed_at(&pending.sight, tail);
        drop(ledger);
        world.check(&self.stream, "producer's close", checked);
        world.count("closes", 1);
    }

    fn settled(&mut self, seq: u64) {
        self.pending.retain(|pending| pending.seq != seq);
    }

    /// Nothing more can be written here. What is in doubt may be there.
    fn abandon(&mut self, world: &World) {
        self.ended = true;
        let mut ledger = self.stream.ledger();
        let mut refused = self.pending.drain(..).filter(|pending| !pending.in_doubt);
        let checked = refused.try_for_each(|pending| {
            (0..pending.count).try_for_each(|by| ledger.refused(pending.first.plus(by)))
        });
        drop(ledger);
        world.check(&self.stream, "producer's refused append", checked);
    }
}
