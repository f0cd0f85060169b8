//! A writer without producer headers: one request in flight. An append without an answer may be
//! there once or not at all, and is never repeated.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::http::{Client, Connection, Request};
use crate::judge::{Round, Verdict};
use crate::life::Sight;
use crate::message::Key;
use crate::rng::Rng;
use crate::world::{Form, Stream, Unknown, World};

/// The most messages in one request.
const MESSAGES_MAX: u64 = 4;

/// A plain writer.
#[derive(Debug)]
pub struct Plain {
    next: Key,
}

/// One append under way.
struct Append {
    stream: Arc<Stream>,
    first: Key,
    count: u32,
    record_match: Option<u64>,
    sight: Sight,
}

impl Plain {
    /// A writer that has written nothing.
    pub fn new(world: &World) -> Self {
        Self { next: Key { writer: world.new_writer(), n: 0 } }
    }

    /// Writes until the round is over.
    pub fn work(&mut self, round: &Round<'_>, mut rng: Rng) {
        let mut client = Client::new(round.address);
        while round.goes_on() {
            let streams = round.world.streams_where(Stream::writable);
            match rng.pick(&streams) {
                Some(stream) if rng.one_in(60) => hang_up(round, stream, &mut rng),
                Some(stream) if rng.one_in(8) => {
                    self.batch(round.world, &mut client, stream, &mut rng);
                }
                Some(stream) => self.append(round.world, &mut client, stream, &mut rng, false),
                None => round.rest(),
            }
        }
    }

    fn begin(&mut self, stream: &Arc<Stream>, count: u64) -> Append {
        let count = u32::try_from(count).expect("a request has few messages");
        let first = self.next;
        self.next = first.plus(count);
        let mut ledger = stream.ledger();
        (0..count).for_each(|by| ledger.record.append(first.plus(by)));
        let sight = ledger.sight();
        drop(ledger);
        Append { stream: Arc::clone(stream), first, count, record_match: None, sight }
    }

    /// Appends once, and closes the stream with it if told to.
    pub fn append(
        &mut self,
        world: &World,
        client: &mut Client,
        stream: &Arc<Stream>,
        rng: &mut Rng,
        close: bool,
    ) {
        let is_json = stream.form == Form::Json;
        let count = if is_json { rng.within(1, MESSAGES_MAX) } else { 1 };
        let mut append = self.begin(stream, count);
        let mut request = Request::new("POST", stream.place.path(rng))
            .body(stream.form.content_type(), body(world, stream, append.first, append.count));
        if is_json && rng.one_in(3) {
            let next = stream.next_record.load(Ordering::SeqCst);
            append.record_match = Some(next);
            request = request.header("Stream-Record-Match", next);
        }
        if close {
            stream.may_close();
            request = request.header("Stream-Closed", "true");
        }
        let answer = client.call(&request);
        append.finish(world, close, world.judge(stream, &append.sight, "append", answer));
    }

    /// Appends several messages, each on its own, in one request.
    fn batch(&mut self, world: &World, client: &mut Client, stream: &Arc<Stream>, rng: &mut Rng) {
        let append = self.begin(stream, rng.within(1, 2 * MESSAGES_MAX));
        let mut frames = Vec::new();
        for by in 0..append.count {
            frame(&mut frames, &world.recipe.message(stream.no, append.first.plus(by)));
        }
        let request = Request::new("POST", stream.place.below("append-batch", false))
            .body(stream.form.content_type(), frames);
        let answer = client.call(&request);
        match world.judge(stream, &append.sight, "batch", answer) {
            Verdict::Done(answer) => {
                let results: Vec<serde_json::Value> =
                    serde_json::from_slice(&answer.body).unwrap_or_default();
                if results.len() != append.count as usize {
                    world.unexpected(stream, "batch", &answer);
                }
                for (by, result) in (0..).zip(&results) {
                    append.single(by).frame_done(world, result);
                }
            }
            Verdict::Unknown => {
                // Not atomic together: each may be there or not.
                for by in 0..append.count {
                    append.single(by).unknown(world);
                }
            }
            verdict => append.finish(world, false, verdict),
        }
    }
}

impl Append {
    fn single(&self, by: u32) -> Self {
        let stream = Arc::clone(&self.stream);
        Self { stream, first: self.first.plus(by), count: 1, ..*self }
    }

    fn finish(&self, world: &World, close: bool, verdict: Verdict) {
        match verdict {
            Verdict::Done(answer) => {
                let end = answer.number("stream-next-offset").unwrap_or(0);
                let record = answer.number("stream-record-start");
                if let Some(asked) = self.record_match.filter(|asked| record != Some(*asked)) {
                    world.breach(format!(
                        "{}: an append for record {asked} became {record:?}",
                        self.stream
                    ));
                }
                self.acked(world, end, record);
                if let Some(next) = answer.number("stream-record-next") {
                    self.stream.next_record.store(next, Ordering::SeqCst);
                }
                if close {
                    let mut ledger = self.stream.ledger();
                    let checked = ledger.closed_at(&self.sight, end);
                    drop(ledger);
                    world.check(&self.stream, "append and close", checked);
                    world.count("closes", 1);
                }
            }
            Verdict::Refused(answer) if answer.status == 412 && self.record_match.is_some() => {
                let next = answer.number("stream-record-next").unwrap_or(0);
                if Some(next) == self.record_match {
                    world.unexpected(&self.stream, "Stream-Record-Match", &answer);
                }
                self.stream.next_record.store(next, Ordering::SeqCst);
                world.count("record match refused", 1);
                self.refused(world);
            }
            Verdict::Refused(answer) => {
                world.unexpected(&self.stream, "append", &answer);
                self.refused(world);
            }
            Verdict::Gone | Verdict::Closed | Verdict::NotDone => self.refused(world),
            Verdict::Unknown => self.unknown(world),
        }
    }

    fn frame_done(&self, world: &World, result: &serde_json::Value) {
        match result["status"].as_u64() {
            Some(204) => {
                let end = result["stream_next_offset"].as_str().and_then(|end| end.parse().ok());
                self.acked(world, end.unwrap_or(0), result["stream_record_start"].as_u64());
            }
            // A close or a delete came between.
            Some(404 | 409 | 410) => self.refused(world),
            _ => world.breach(format!("{}, batch: an unexpected result: {result}", self.stream)),
        }
    }

    fn acked(&self, world: &World, end: u64, record: Option<u64>) {
        world.count("acked appends", self.count.into());
        let placed = world.placed(&self.stream, self.first, self.count, end, record);
        let mut ledger = self.stream.ledger();
        let checked = placed.and_then(|placed| ledger.acked(&self.sight, &placed));
        let checked = checked.and_then(|()| ledger.life.open(&self.sight));
        drop(ledger);
        world.check(&self.stream, "append", checked);
    }

    fn refused(&self, world: &World) {
        let mut ledger = self.stream.ledger();
        let checked = (0..self.count).try_for_each(|by| ledger.refused(self.first.plus(by)));
        drop(ledger);
        world.check(&self.stream, "refused append", checked);
    }

    fn unknown(&self, world: &World) {
        world.count("unknown outcomes", 1);
        let &Self { first, count, record_match, .. } = self;
        self.stream.ledger().unknown.push(Unknown { first, count, record_match });
    }
}

/// A client that goes away in the middle of an append: what it had not sent to the end must not be
/// there, the rest is as unknown as any. It is a writer of its own, since nobody waits for it.
fn hang_up(round: &Round<'_>, stream: &Arc<Stream>, rng: &mut Rng) {
    let world = round.world;
    let append = Plain::new(world).begin(stream, 1);
    let request = Request::new("POST", stream.place.path(rng))
        .body(stream.form.content_type(), body(world, stream, append.first, 1));
    let is_whole = rng.one_in(2);
    let cut = if is_whole { 0 } else { rng.within(1, 60) };
    let sent = Connection::open(round.address)
        .and_then(|mut connection| Ok(connection.send_all_but(cut, &request)?));
    world.count("hang-ups", 1);
    if is_whole && sent.is_ok() { append.unknown(world) } else { append.refused(world) }
}

/// The body of an append.
pub fn body(world: &World, stream: &Stream, first: Key, count: u32) -> Vec<u8> {
    let messages: Vec<Vec<u8>> =
        (0..count).map(|by| world.recipe.message(stream.no, first.plus(by))).collect();
    match stream.form {
        Form::Json => [b"[".as_slice(), &messages.join(&b","[..]), b"]"].concat(),
        Form::Text | Form::Bytes => messages.concat(),
    }
}

/// Adds a frame of a batch.
pub fn frame(out: &mut Vec<u8>, payload: &[u8]) {
    let len = u32::try_from(payload.len()).expect("a message is short");
    out.extend_from_slice(&len.to_be_bytes());
    out.extend_from_slice(payload);
}
