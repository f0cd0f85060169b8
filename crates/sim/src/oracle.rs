//! Comparing the engine with the model.

use std::collections::BTreeSet;
use std::fmt;

use headwater_core::ids::{BucketId, Offset, StreamName};
use headwater_core::state;
use headwater_core::stream::read::Facts;
use headwater_server::engine::Engine;
use headwater_storage::{Chunk, Kind, Reader};

use crate::history::History;
use crate::model::{Age, Change, Life, Model, Stream};

/// A broken promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation(pub String);

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether everything is as promised.
pub(crate) type Check<T = ()> = Result<T, Violation>;

macro_rules! violation {
    ($($text:tt)*) => { Err($crate::oracle::Violation(format!($($text)*))) };
}
pub(crate) use violation;

/// The first difference between what the engine knows of a stream and what it should know.
pub(crate) fn difference(facts: &Facts, hidden: bool, stream: &Stream) -> Option<String> {
    let differs = |what: &str, got: &dyn fmt::Debug, expected: &dyn fmt::Debug| {
        Some(format!("{what} is {got:?} instead of {expected:?}"))
    };
    if facts.id != stream.id {
        return differs("the incarnation", &facts.id, &stream.id);
    }
    if hidden != stream.hidden {
        return differs("soft-deleted", &hidden, &stream.hidden);
    }
    let (got, expected) = ((facts.tail.0, facts.next.0), (stream.tail(), stream.next() as u64));
    if got != expected {
        return differs("the tail (and record)", &got, &expected);
    }
    let (got, expected) =
        ((facts.retained.0, facts.first.0), (stream.retained(), stream.first as u64));
    if got != expected {
        return differs("the earliest offset (and record)", &got, &expected);
    }
    if facts.closed != stream.closed {
        return differs("closed", &facts.closed, &stream.closed);
    }
    if facts.content != stream.content {
        return differs("the content type", &facts.content, &stream.content);
    }
    if facts.attributes != stream.attributes {
        return differs("the attributes", &facts.attributes, &stream.attributes);
    }
    let got = facts.snapshot.as_ref().map(|it| (it.offset.0, it.record.0, it.digest, it.blob));
    let expected =
        stream.snapshot.as_ref().map(|it| (it.offset, it.record as u64, it.digest, it.blob));
    if got != expected {
        return differs("the snapshot", &got, &expected);
    }
    let life = match &facts.life {
        state::Life::Endless => Life::Endless,
        state::Life::Ttl { window, .. } => Life::Window(window.millis()),
        state::Life::Until { at, .. } => Life::Until(at.at().0),
    };
    if life != stream.life {
        return differs("the lifetime", &life, &stream.life);
    }
    None
}

/// As [`difference`], and whether the newest renewal can be the one that the log should hold.
pub(crate) fn difference_after_restart(
    facts: &Facts,
    hidden: bool,
    stream: &Stream,
    read: u64,
) -> Option<String> {
    let renewed = match &facts.life {
        state::Life::Ttl { renewed_at, .. } => renewed_at.0,
        state::Life::Endless | state::Life::Until { .. } => stream.renewed,
    };
    let most = stream.renewed.max(read);
    if !hidden && !(stream.renewed..=most).contains(&renewed) {
        return Some(format!("renewed at {renewed}, not {}..={most}", stream.renewed));
    }
    difference(facts, hidden, stream)
}

/// Finds what a restart made of the changes in flight. The names that it returns ended by the
/// engine's own doing.
pub(crate) fn resolve(
    engine: &Engine,
    history: &History,
    buckets: &[BucketId],
) -> Check<(Model, Vec<StreamName>, usize, usize)> {
    let ended = history.ended();
    let mut reasons = Vec::new();
    for (model, happened, lost) in history.candidates() {
        match fits(engine, history, (&model, buckets), &ended) {
            Ok(gone) => return Ok((model, gone, happened, lost)),
            Err(why) => reasons.push(why),
        }
    }
    violation!(
        "after the restart no order of events fits; \
         from all {} in flight down to none: {reasons:#?}",
        reasons.len() - 1
    )
}

fn fits(
    engine: &Engine,
    history: &History,
    (model, buckets): (&Model, &[BucketId]),
    ended: &BTreeSet<StreamName>,
) -> Result<Vec<StreamName>, String> {
    let mut gone = Vec::new();
    for name in engine.names() {
        if !model.streams.contains_key(&name) {
            return Err(format!("{} exists and should not", name.key()));
        }
    }
    for (name, stream) in &model.streams {
        let over = ended.contains(name) || history.age(stream, engine.now()) != Age::Alive;
        let Some((facts, hidden)) = engine.facts_now(name) else {
            if model.purgeable(stream) || over {
                gone.push(name.clone());
                continue;
            }
            return Err(format!("{} is missing", name.key()));
        };
        if hidden && !stream.hidden && over && facts.id == stream.id {
            gone.push(name.clone());
            continue;
        }
        let read = match history.reads.get(&stream.id) {
            _ if history.watched.contains(&stream.id) => engine.now().node.0,
            read => read.copied().unwrap_or(0),
        };
        if let Some(why) = difference_after_restart(&facts, hidden, stream, read) {
            return Err(format!("{}: {why}", name.key()));
        }
    }
    for bucket in buckets {
        let (exists, expected) = (engine.bucket_now(bucket).is_some(), model.has_bucket(bucket));
        if exists != expected {
            return Err(format!("bucket {} exists: {exists}, not {expected}", bucket.as_str()));
        }
    }
    Ok(gone)
}

/// Streams that the engine has ended by itself, in an order in which that makes sense.
pub(crate) fn absorb(
    engine: &Engine,
    history: &mut History,
    expired: &mut u64,
    purged: &mut u64,
) -> Check {
    loop {
        let Some(change) = next_own(engine, history)? else { return Ok(()) };
        match change {
            Change::Purged(_) => *purged += 1,
            _ => *expired += 1,
        }
        history.push_own(engine, change);
    }
}

fn next_own(engine: &Engine, history: &History) -> Check<Option<Change>> {
    let now = engine.now();
    // A stream that was hidden for a fork comes before that fork, should both have ended.
    for (name, stream) in &history.live.streams {
        let over = !stream.hidden && history.age(stream, now) != Age::Alive;
        let held = over && history.live.has_forks(stream.id);
        if held && engine.peek(name) == Some((stream.id, true)) {
            return Ok(Some(Change::Ended(name.clone())));
        }
    }
    let mut wrong = None;
    for (name, stream) in &history.live.streams {
        let seen = engine.peek(name);
        if seen == Some((stream.id, stream.hidden)) {
            continue;
        }
        let change =
            if stream.hidden { Change::Purged(name.clone()) } else { Change::Ended(name.clone()) };
        if history.live.purgeable(stream) && seen.is_none() {
            return Ok(Some(change));
        }
        let over = !stream.hidden && history.age(stream, now) != Age::Alive;
        let held = history.live.has_forks(stream.id);
        match seen {
            None if over && !held => return Ok(Some(change)),
            // Its forks may have ended in the same step: they come first.
            None if held => wrong = Some((name, seen)),
            _ => {
                return violation!(
                    "{} ended by itself before its time: the engine has {seen:?}, expected {:?}",
                    name.key(),
                    (stream.id, stream.hidden)
                );
            }
        }
    }
    match wrong {
        Some((name, _)) => violation!("{} was purged while forks need it", name.key()),
        None => Ok(None),
    }
}

/// Everything about every stream and bucket. Nothing may be in flight.
pub(crate) fn check_everything(engine: &Engine, model: &Model) -> Check {
    let (got, expected) = (engine.names(), model.streams.keys().cloned().collect::<Vec<_>>());
    if got != expected {
        return violation!("the streams are {got:?} instead of {expected:?}");
    }
    for (name, stream) in &model.streams {
        let Some((facts, hidden)) = engine.facts_now(name) else {
            return violation!("{} is missing", name.key());
        };
        if let Some(why) = difference(&facts, hidden, stream) {
            return violation!("{}: {why}", name.key());
        }
        if !hidden {
            check_range(engine, &facts, stream, stream.first, stream.next())?;
            check_snapshot(engine, name, stream)?;
        }
    }
    for bucket in &model.buckets {
        let (streams, listed) = model.bucket(bucket);
        let Some(now) = engine.bucket_now(bucket) else {
            return violation!("bucket {} is missing", bucket.as_str());
        };
        if (now.streams, &now.listed) != (streams, &listed) {
            return violation!(
                "bucket {} has {} streams and lists {:?} instead of {streams} and {listed:?}",
                bucket.as_str(),
                now.streams,
                now.listed
            );
        }
    }
    Ok(())
}

/// Reads a range of records and compares bytes, boundaries and ordinals.
pub(crate) fn check_range(
    engine: &Engine,
    facts: &Facts,
    stream: &Stream,
    from: usize,
    to: usize,
) -> Check {
    let (start, end) = (stream.start_of(from), stream.start_of(to));
    let mut expected = Expected::new(stream, from, to);
    let mut reader = engine.range(facts, Offset(start), Offset(end));
    while expected.step(&mut reader, facts.name.key())? {}
    Ok(())
}

fn check_snapshot(engine: &Engine, name: &StreamName, stream: &Stream) -> Check {
    let Some(snapshot) = &stream.snapshot else { return Ok(()) };
    let mut got = Vec::new();
    let mut read = || -> Result<(), headwater_storage::Error> {
        let blob = engine.blobs().open(snapshot.blob)?;
        while (got.len() as u64) < blob.len() {
            got.extend_from_slice(&blob.read(got.len() as u64, 1000)?);
        }
        Ok(())
    };
    match read() {
        Ok(()) if got == snapshot.body => Ok(()),
        Ok(()) => violation!("{}: the snapshot has other bytes", name.key()),
        Err(error) => violation!("{}: the snapshot cannot be read: {error}", name.key()),
    }
}

/// What is still to come out of a reader.
pub(crate) struct Expected {
    bytes: Vec<u8>,
    ends: Vec<u64>,
    offset: u64,
    record: u64,
    end: u64,
}

impl Expected {
    pub(crate) fn new(stream: &Stream, from: usize, to: usize) -> Self {
        let offset = stream.start_of(from);
        let bytes = stream.messages[from..to].concat();
        let ends = (from + 1..=to).map(|record| stream.start_of(record)).collect();
        let end = offset + bytes.len() as u64;
        Self { bytes, ends, offset, record: from as u64, end }
    }

    /// Reads one piece; false at the end.
    pub(crate) fn step(&mut self, reader: &mut Reader, name: &str) -> Check<bool> {
        match reader.next() {
            Ok(chunk) => self.take(chunk, name),
            Err(error) => violation!("{name}: reading at {}: {error}", self.offset),
        }
    }

    /// Compares what a reader gave; false at the end.
    pub(crate) fn take(&mut self, chunk: Option<Chunk>, name: &str) -> Check<bool> {
        let Some(chunk) = chunk else {
            return if self.offset == self.end {
                Ok(false)
            } else {
                violation!("{name}: the read ends at {} of {}", self.offset, self.end)
            };
        };
        let start = self.bytes.len() - to_usize(self.end - self.offset);
        let Some(expected) = self.bytes.get(start..start + chunk.bytes.len()) else {
            return violation!("{name}: the read goes on beyond {}", self.end);
        };
        if chunk.offset.0 != self.offset || chunk.record.0 != self.record {
            return violation!(
                "{name}: a piece says offset {} record {} at offset {} record {}",
                chunk.offset.0,
                chunk.record.0,
                self.offset,
                self.record
            );
        }
        if chunk.bytes != expected {
            return violation!("{name}: wrong bytes after offset {}", self.offset);
        }
        let end = self.offset + chunk.bytes.len() as u64;
        let due = self.ends.iter().take_while(|at| **at <= end).count();
        let due: Vec<u64> = self.ends.drain(..due).collect();
        let got: Vec<u64> = chunk.ends.iter().map(|at| self.offset + u64::from(*at)).collect();
        if got != due {
            return violation!("{name}: messages end at {got:?} instead of {due:?}");
        }
        self.offset = end;
        self.record += due.len() as u64;
        Ok(true)
    }
}

/// What a damaged disk may lead to: a refusal, or right bytes. Never wrong ones.
pub(crate) fn check_damaged(engine: &Engine, model: &Model) -> Check<bool> {
    let mut noticed = false;
    for (name, stream) in &model.streams {
        let Some((facts, false)) = engine.facts_now(name) else {
            if stream.hidden || engine.peek(name).is_some() {
                continue;
            }
            return violation!("{} vanished without a word", name.key());
        };
        if let Some(why) = difference(&facts, false, stream) {
            return violation!("{}: {why}", name.key());
        }
        let mut expected = Expected::new(stream, stream.first, stream.next());
        let mut reader = engine.range(&facts, facts.retained, facts.tail);
        loop {
            match expected.step(&mut reader, name.key()) {
                Ok(true) => {}
                Ok(false) => break,
                Err(Violation(why)) if why.contains("reading at") => {
                    noticed = true;
                    break;
                }
                Err(violation) => return Err(violation),
            }
        }
    }
    Ok(noticed)
}

/// Whether an error reports damage, as it should after some was done.
pub(crate) fn reports_damage(kind: Kind) -> bool {
    matches!(kind, Kind::Corrupt | Kind::Format)
}

fn to_usize(value: u64) -> usize {
    usize::try_from(value).expect("streams here are small")
}
