//! The actor that creates, forks, closes and deletes streams. Nobody else does, so it knows what
//! each answer must be.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::http::{Client, Request, Response};
use crate::judge::{Round, Verdict};
use crate::life::{Sight, Tri};
use crate::log::{Breach, Checked, breach};
use crate::message::Key;
use crate::plain::Plain;
use crate::rng::Rng;
use crate::world::{Form, Piece, Place, Stream, World};

/// The buckets of the streams that everybody works on.
pub const BUCKETS: [&str; 2] = ["main-0", "main-1"];

/// With fewer streams to write to, new ones are made first.
const WRITABLE_MIN: usize = 10;

/// With more streams, some are deleted first.
const LIVING_MAX: usize = 36;

/// Forks of forks are not made deeper than this, and not of streams that are longer, so that a
/// round of a long run has no more to read than one of a short run.
const FORK_DEPTH_MAX: usize = 12;

/// See [`FORK_DEPTH_MAX`].
const FORK_SOURCE_BYTES_MAX: u64 = 2 << 20;

/// The actor.
#[derive(Debug)]
pub struct Lifecycle {
    writer: Plain,
}

impl Lifecycle {
    /// An actor that has done nothing.
    pub fn new(world: &World) -> Self {
        Self { writer: Plain::new(world) }
    }

    /// Acts until the round is over.
    pub fn work(&mut self, round: &Round<'_>, mut rng: Rng) {
        let mut client = Client::new(round.address);
        while round.goes_on() {
            self.step(round.world, &mut client, &mut rng);
            // Writers and readers shall get something done as well.
            (0..5).for_each(|_| round.rest());
        }
    }

    fn step(&mut self, world: &World, client: &mut Client, rng: &mut Rng) {
        let living = world.streams_where(Stream::lives);
        if let Some(stream) = living.iter().find(|stream| stream.is_long_told()) {
            return delete(world, client, stream, rng);
        }
        let writable = world.streams_where(Stream::writable).len();
        let choice = if writable < WRITABLE_MIN { 0 } else { rng.below(10) };
        let Some(stream) = rng.pick(&living).filter(|_| choice > 0) else {
            return create(world, client, rng);
        };
        match choice {
            _ if living.len() > LIVING_MAX => delete(world, client, stream, rng),
            1..6 if may_be_forked(stream) => fork(world, client, stream, rng),
            6 => self.close(world, client, stream, rng),
            7 => delete(world, client, stream, rng),
            _ => create(world, client, rng),
        }
    }

    fn close(&mut self, world: &World, client: &mut Client, stream: &Arc<Stream>, rng: &mut Rng) {
        if rng.one_in(2) && stream.writable() {
            return self.writer.append(world, client, stream, rng, true);
        }
        stream.may_close();
        let sight = stream.ledger().sight();
        let request = Request::new("POST", stream.place.path(rng)).header("Stream-Closed", "true");
        match world.judge(stream, &sight, "close", client.call(&request)) {
            Verdict::Done(answer) => {
                let checked = if answer.flag("stream-closed") {
                    world.tail_told(stream, &sight, &answer)
                } else {
                    breach!("a close is answered without Stream-Closed")
                };
                world.check(stream, "close", checked);
                world.count("closes", 1);
            }
            Verdict::Refused(answer) => world.unexpected(stream, "close", &answer),
            Verdict::Gone | Verdict::Closed | Verdict::Unknown | Verdict::NotDone => {}
        }
    }
}

/// A name: a new one, or that of a stream that was gone before this round began, so that nobody
/// still means the old one.
fn place(world: &World, rng: &mut Rng) -> impl FnOnce(u32) -> Place {
    let round = world.round();
    let free = world.streams_where(|stream| {
        !stream.superseded.load(Ordering::SeqCst)
            && stream.round.load(Ordering::SeqCst) < round
            && stream.ledger().life.gone == Tri::Yes
    });
    let wants = rng.one_in(4);
    // A source that forks still need keeps its name.
    let held = world.held();
    let again = rng.pick(&free).filter(|stream| wants && !held.contains(&stream.no)).cloned();
    let choice = rng.below(4);
    move |no| match again {
        Some(stream) => {
            stream.superseded.store(true, Ordering::SeqCst);
            stream.place.clone()
        }
        None if choice == 0 => Place::Base(format!("deep/s{no}")),
        None if choice == 1 => Place::Bucket(BUCKETS[0], format!("s{no}")),
        None => Place::Bucket(BUCKETS[1], format!("s{no}")),
    }
}

fn create(world: &World, client: &mut Client, rng: &mut Rng) {
    let form = *rng.pick(&[Form::Json, Form::Text, Form::Bytes]).expect("there are three");
    let stream = world.enrol(place(world, rng), form, None);
    let is_closed = rng.one_in(12);
    let mut request = Request::new("PUT", stream.place.path(rng));
    let first = Key { writer: world.new_writer(), n: 0 };
    let count = u32::from(is_closed || rng.one_in(3));
    let body = crate::plain::body(world, &stream, first, count);
    request = request.body(form.content_type(), if count == 0 { Vec::new() } else { body });
    if is_closed {
        stream.may_close();
        request = request.header("Stream-Closed", "true");
    }
    let sight = {
        let mut ledger = stream.ledger();
        (0..count).for_each(|by| ledger.record.append(first.plus(by)));
        ledger.sight()
    };
    match world.judge(&stream, &sight, "create", client.call(&request)) {
        Verdict::Done(answer) => {
            world.count("creates", 1);
            let checked = created(world, &stream, &sight, (first, count), is_closed, &answer);
            world.check(&stream, "create", checked);
        }
        Verdict::Unknown => {
            let unknown = crate::world::Unknown { first, count, record_match: None };
            if count > 0 {
                stream.ledger().unknown.push(unknown);
            }
        }
        Verdict::NotDone => never(&stream),
        Verdict::Gone | Verdict::Closed => {
            world.breach(format!("{stream}: it cannot be created"));
        }
        // The name was free for all that was known, but its purge may still be under way.
        Verdict::Refused(answer) if answer.status == 409 && is_taken_again(&stream) => {
            world.count("names not free yet", 1);
            never(&stream);
        }
        Verdict::Refused(answer) => world.unexpected(&stream, "create", &answer),
    }
}

fn is_taken_again(stream: &Stream) -> bool {
    !stream.place.to_string().ends_with(&format!("/s{}", stream.no))
}

fn created(
    world: &World,
    stream: &Stream,
    sight: &Sight,
    (first, count): (Key, u32),
    is_closed: bool,
    answer: &Response,
) -> Checked {
    if answer.status != 201 {
        return breach!("a new stream was there already: {}", answer.brief());
    }
    let end = answer.number("stream-next-offset").unwrap_or(u64::MAX);
    let placed = world.placed(stream, first, count, end, Some(0))?;
    let mut ledger = stream.ledger();
    ledger.acked(sight, &placed)?;
    if placed.first().map_or(end, |first| first.start) != 0 {
        return breach!("a new stream does not begin at 0: its tail is {end}");
    }
    if is_closed { ledger.closed_at(sight, end) } else { Ok(()) }
}

fn never(stream: &Stream) {
    let life = &mut stream.ledger().life;
    (life.born, life.gone) = (Tri::No, Tri::Yes);
}

fn delete(world: &World, client: &mut Client, stream: &Arc<Stream>, rng: &mut Rng) {
    stream.ledger().life.gone = Tri::Maybe;
    stream.round.store(world.round(), Ordering::SeqCst);
    let sight = stream.ledger().sight();
    let request = Request::new("DELETE", stream.place.path(rng));
    match world.judge(stream, &sight, "delete", client.call(&request)) {
        Verdict::Done(_) => {
            stream.ledger().life.gone = Tri::Yes;
            world.count("deletes", 1);
        }
        Verdict::Refused(answer) => world.unexpected(stream, "delete", &answer),
        Verdict::Gone => world.breach(format!("{stream}: it was gone before it was deleted")),
        Verdict::Closed | Verdict::Unknown | Verdict::NotDone => {}
    }
}

fn may_be_forked(source: &Stream) -> bool {
    source.depth() < FORK_DEPTH_MAX && source.ledger().log.floor() <= FORK_SOURCE_BYTES_MAX
}

/// Where a fork is to begin.
struct Anchor {
    base: u64,
    offset: Option<u64>,
    sub_offset: u64,
    piece: Option<Piece>,
}

fn fork(world: &World, client: &mut Client, source: &Arc<Stream>, rng: &mut Rng) {
    let anchor = anchor(world, source, rng);
    let from = Some((Arc::clone(source), anchor.base, anchor.piece));
    let stream = world.enrol(place(world, rng), source.form, from);
    let mut request = Request::new("PUT", stream.place.path(rng))
        .header("Stream-Forked-From", source.place.path(rng));
    if let Some(offset) = anchor.offset {
        request = request.header("Stream-Fork-Offset", format!("{offset:020}"));
        if anchor.sub_offset > 0 {
            request = request.header("Stream-Fork-Sub-Offset", anchor.sub_offset);
        }
    }
    let sight = stream.ledger().sight();
    let source_sight = source.ledger().sight();
    match world.judge(&stream, &sight, "fork", client.call(&request)) {
        Verdict::Done(answer) => {
            world.count("forks", 1);
            let checked = forked(&stream, source, &anchor, &source_sight, &answer);
            world.check(&stream, "fork", checked);
        }
        Verdict::Unknown => stream.ledger().life.retained = source_sight.retained,
        Verdict::NotDone => never(&stream),
        Verdict::Gone => {
            if !may_be_trimmed(source, &anchor) {
                world.breach(format!("{stream}: its source is not found"));
            }
            never(&stream);
        }
        Verdict::Closed => world.breach(format!("{stream}: a fork cannot be closed")),
        Verdict::Refused(answer) => {
            if answer.status == 409 && is_taken_again(&stream) {
                world.count("names not free yet", 1);
            } else if !may_be_trimmed(source, &anchor) {
                world.unexpected(&stream, "fork", &answer);
            }
            never(&stream);
        }
    }
}

/// Whether the source's boundary may forbid this fork.
fn may_be_trimmed(source: &Stream, anchor: &Anchor) -> bool {
    let ledger = source.ledger();
    anchor.offset.is_some() && ledger.life.retained_max > 0
}

fn anchor(world: &World, source: &Stream, rng: &mut Rng) -> Anchor {
    let at_tail = Anchor { base: u64::MAX, offset: None, sub_offset: 0, piece: None };
    let ledger = source.ledger();
    if rng.one_in(3) {
        return at_tail;
    }
    let from = ledger.life.retained + rng.below(ledger.log.floor() + 1);
    let Some(seen) = ledger.log.at_or_above(from).copied() else { return at_tail };
    let whole = Anchor { base: seen.start, offset: Some(seen.start), sub_offset: 0, piece: None };
    if !rng.one_in(3) || seen.key == Key::PIECE {
        return whole;
    }
    if source.form == Form::Json {
        return Anchor { base: seen.end, sub_offset: 1, ..whole };
    }
    let message = world.recipe.message(source.no, seen.key);
    let len = 1 + rng.below(message.len() as u64 - 1);
    let piece = Some(Piece { stream: source.no, key: seen.key, len });
    Anchor { sub_offset: len, piece, ..whole }
}

fn forked(
    stream: &Stream,
    source: &Stream,
    anchor: &Anchor,
    source_sight: &Sight,
    answer: &Response,
) -> Checked {
    if answer.status != 201 {
        return breach!("a new fork was there already: {}", answer.brief());
    }
    let Some(tail) = answer.number("stream-next-offset") else {
        return Err(Breach("a fork is answered without its tail".to_owned()));
    };
    let own = anchor.piece.map_or(0, |piece| piece.len);
    if anchor.offset.is_none() {
        stream.base.store(tail, Ordering::SeqCst);
        source.ledger().log.tail(source_sight.floor, tail)?;
    } else if tail != anchor.base + own {
        return breach!("a fork at {} with {own} bytes of its own ends at {tail}", anchor.base);
    }
    let source = source.ledger();
    let mut ledger = stream.ledger();
    ledger.life.inherit(stream.base(), source_sight, &source.life);
    ledger.log.tail(0, tail)
}
