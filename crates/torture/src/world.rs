//! Everything that the workers share: the streams, what is known of them, and the broken promises.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::life::{Life, Sight, Tri};
use crate::log::{Breach, Checked, Log, Seen};
use crate::message::{Key, Recipe};
use crate::record::{Record, now};
use crate::rng::Rng;

/// A stream takes no more appends once it is this long, so that audits stay short.
const STREAM_BYTES_MAX: u64 = 1 << 20;

/// What a stream carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Numbered records.
    Json,
    /// Text.
    Text,
    /// Bytes.
    Bytes,
}

impl Form {
    /// Its content type.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Text => "text/plain",
            Self::Bytes => "application/octet-stream",
        }
    }

    /// The bytes that follow each message and count in offsets.
    pub fn separator(self) -> u64 {
        u64::from(self == Self::Json)
    }
}

/// A stream's name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Place {
    /// In a bucket.
    Bucket(&'static str, String),
    /// On the base surface.
    Base(String),
}

impl Place {
    /// The path on a surface of the generator's choice.
    pub fn path(&self, rng: &mut Rng) -> String {
        match self {
            Self::Bucket(..) if rng.one_in(2) => self.trimming_path(),
            place => place.to_string(),
        }
    }

    /// The path on which a publish moves the boundary as well, if there is one.
    pub fn trimming_path(&self) -> String {
        match self {
            Self::Bucket(..) => format!("/ds{self}"),
            place @ Self::Base(_) => place.to_string(),
        }
    }

    /// The path of something below the stream, on the surface where a publish trims or not.
    pub fn below(&self, what: &str, trimming: bool) -> String {
        match self {
            Self::Bucket(..) if trimming => format!("/ds{self}/{what}"),
            Self::Bucket(..) => format!("{self}/{what}"),
            Self::Base(_) => format!("{self}/~/{what}"),
        }
    }

    /// Whether it has a surface on which a publish trims.
    pub fn can_trim(&self) -> bool {
        matches!(self, Self::Bucket(..))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bucket(bucket, name) => write!(f, "/{bucket}/{name}"),
            Self::Base(path) => write!(f, "/v1/stream/{path}"),
        }
    }
}

/// The piece of a source's message that a fork begins with.
#[derive(Debug, Clone, Copy)]
pub struct Piece {
    /// The stream that the message was written to.
    pub stream: u32,
    /// The message.
    pub key: Key,
    /// How many of its bytes.
    pub len: u64,
}

/// An append without an answer.
#[derive(Debug, Clone, Copy)]
pub struct Unknown {
    /// Its first message.
    pub first: Key,
    /// How many messages it has.
    pub count: u32,
    /// The record that it was to begin at, if it said so.
    pub record_match: Option<u64>,
}

/// An acknowledged append whose place the answer did not tell.
#[derive(Debug, Clone, Copy)]
pub struct Owed {
    /// The message.
    pub key: Key,
    /// It lies at or above this.
    pub floor: u64,
}

/// What is known of a stream.
#[derive(Debug, Default)]
pub struct Ledger {
    /// Its messages.
    pub log: Log,
    /// Its facts.
    pub life: Life,
    /// Its history.
    pub record: Record,
    /// Appends of plain writers that may be there.
    pub unknown: Vec<Unknown>,
    /// Messages that must be there.
    pub owed: Vec<Owed>,
    /// Writers whose messages have no gaps.
    pub producers: Vec<u32>,
}

impl Ledger {
    /// What is certain now.
    pub fn sight(&self) -> Sight {
        self.life.sight(now(), self.log.floor())
    }

    /// An append was acknowledged; `sight` is what was certain when it began.
    pub fn acked(&mut self, sight: &Sight, messages: &[Seen]) -> Checked {
        for seen in messages {
            self.record.acked(seen);
        }
        self.log.acked(sight.floor, messages)
    }

    /// The server refused an append, so it must never appear.
    pub fn refused(&mut self, key: Key) -> Checked {
        self.record.refused(key);
        self.log.refused(key)
    }

    /// A read returned these messages for everything from `from` to `to`.
    pub fn observed(&mut self, from: u64, to: u64, messages: &[Seen]) -> Checked {
        self.record.read(from, to, messages);
        self.log.observed(from, to, messages)
    }

    /// An answer says that the stream is open and ends at `tail`.
    pub fn open_at(&mut self, sight: &Sight, tail: u64) -> Checked {
        self.record.tail(sight.at, tail, false);
        self.log.tail(sight.floor, tail)
    }

    /// An answer says that the stream is closed and ends at `tail`.
    pub fn closed_at(&mut self, sight: &Sight, tail: u64) -> Checked {
        self.record.tail(sight.at, tail, true);
        self.life.closed_at(tail, self.log.floor())
    }
}

/// One incarnation of a stream.
#[derive(Debug)]
pub struct Stream {
    /// Its number in this run, which its messages name.
    pub no: u32,
    /// Its name.
    pub place: Place,
    /// What it carries.
    pub form: Form,
    /// What it was forked from.
    pub source: Option<Arc<Self>>,
    /// The piece that it begins with.
    pub piece: Option<Piece>,
    /// The round in which it was made, and in which it was last known to live.
    pub round: AtomicU32,
    /// Where its own messages begin. Unknown (`u64::MAX`) while a fork at the tail is under way.
    pub base: AtomicU64,
    /// A guess at the next record, for optimistic appends.
    pub next_record: AtomicU64,
    /// Whether a later incarnation has taken the name.
    pub superseded: AtomicBool,
    /// What is known of it.
    ledger: Mutex<Ledger>,
}

impl Stream {
    /// The facts, for a moment.
    pub fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().expect("no worker panics with a ledger in its hands")
    }

    /// Where its own messages begin.
    pub fn base(&self) -> u64 {
        self.base.load(Ordering::SeqCst)
    }

    /// Whether appends are welcome.
    pub fn writable(&self) -> bool {
        let ledger = self.ledger();
        ledger.life.lives()
            && ledger.life.closed == Tri::No
            && ledger.log.floor().saturating_sub(self.base()) < STREAM_BYTES_MAX
    }

    /// Whether it was created and whether it was deleted.
    pub fn ends(&self) -> (Tri, Tri) {
        let life = &self.ledger().life;
        (life.born, life.gone)
    }

    /// Whether so much has been asked of it that it should come to its end.
    pub fn is_long_told(&self) -> bool {
        self.ledger().record.is_long()
    }

    /// Decides both, for tests.
    #[cfg(test)]
    pub(crate) fn settle_ends(&self, born: Tri, gone: Tri) {
        let life = &mut self.ledger().life;
        (life.born, life.gone) = (born, gone);
    }

    /// How many forks deep it is.
    pub fn depth(&self) -> usize {
        let sources = std::iter::successors(self.source.as_ref(), |it| it.source.as_ref());
        sources.count()
    }

    /// Whether it is there and nobody is about to delete it.
    pub fn lives(&self) -> bool {
        self.ledger().life.lives()
    }
}

impl fmt::Display for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s{} {}", self.no, self.place)?;
        match &self.source {
            Some(source) => write!(f, " (fork of s{} at {})", source.no, self.base()),
            None => Ok(()),
        }
    }
}

/// A run.
#[derive(Debug)]
pub struct World {
    /// What messages look like.
    pub recipe: Recipe,
    /// The round that is going on.
    pub round: AtomicU32,
    streams: Mutex<Vec<Arc<Stream>>>,
    enrolled: AtomicU32,
    writers: AtomicU32,
    breaches: Mutex<Vec<String>>,
    counts: Mutex<BTreeMap<&'static str, u64>>,
}

impl World {
    /// A run that has not begun.
    pub fn new(seed: u64) -> Self {
        Self {
            recipe: Recipe::new(seed),
            round: AtomicU32::new(0),
            streams: Mutex::default(),
            enrolled: AtomicU32::new(0),
            writers: AtomicU32::new(1),
            breaches: Mutex::default(),
            counts: Mutex::default(),
        }
    }

    /// Counts something for the report.
    pub fn count(&self, what: &'static str, by: u64) {
        *self.counts.lock().expect("counting does not panic").entry(what).or_insert(0) += by;
    }

    /// What was counted.
    pub fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.counts.lock().expect("counting does not panic").clone()
    }

    /// Takes down a broken promise.
    pub fn breach(&self, what: impl fmt::Display) {
        let what = format!("round {}: {what}", self.round());
        self.breaches.lock().expect("taking down does not panic").push(what);
    }

    /// The broken promises so far.
    pub fn breaches(&self) -> Vec<String> {
        self.breaches.lock().expect("taking down does not panic").clone()
    }

    /// Takes down what a check says about a stream, if it says anything. True if it does not.
    pub fn check(&self, stream: &Stream, during: &str, checked: Checked) -> bool {
        if let Err(Breach(what)) = checked {
            self.breach(format!("{stream}, {during}: {what}"));
            return false;
        }
        true
    }

    /// Judges the history of a stream that nothing more will be asked of.
    pub fn judge_history(&self, stream: &Stream) {
        let base = stream.base();
        if base == u64::MAX {
            // A fork that never came to be: nobody knows where it would have begun.
            return;
        }
        let judged = stream.ledger().record.judge(base);
        if let Ok(events) = judged {
            self.count("events judged", events as u64);
        }
        self.check(stream, "at its end", judged.map(|_events| ()));
    }

    /// A number for a new writer.
    pub fn new_writer(&self) -> u32 {
        self.writers.fetch_add(1, Ordering::SeqCst)
    }

    /// The round that is going on.
    pub fn round(&self) -> u32 {
        self.round.load(Ordering::SeqCst)
    }

    /// Makes a stream known that is about to be created.
    pub fn enrol(
        &self,
        place: impl FnOnce(u32) -> Place,
        form: Form,
        fork: Option<(Arc<Stream>, u64, Option<Piece>)>,
    ) -> Arc<Stream> {
        let mut streams = self.all();
        let no = self.enrolled.fetch_add(1, Ordering::SeqCst);
        let (source, base, piece) = match fork {
            Some((source, base, piece)) => (Some(source), base, piece),
            None => (None, 0, None),
        };
        let stream = Arc::new(Stream {
            no,
            place: place(no),
            form,
            source,
            piece,
            round: AtomicU32::new(self.round()),
            base: AtomicU64::new(base),
            next_record: AtomicU64::new(0),
            superseded: AtomicBool::new(false),
            ledger: Mutex::default(),
        });
        if piece.is_some() {
            stream.ledger().record.append(Key::PIECE);
        }
        streams.push(Arc::clone(&stream));
        stream
    }

    fn all(&self) -> MutexGuard<'_, Vec<Arc<Stream>>> {
        self.streams.lock().expect("no worker panics with the list in its hands")
    }

    /// All streams that something may still be asked of, oldest first.
    pub fn streams(&self) -> Vec<Arc<Stream>> {
        self.all().clone()
    }

    /// Those of which `keep` holds.
    pub fn streams_where(&self, keep: impl Fn(&Stream) -> bool) -> Vec<Arc<Stream>> {
        let mut streams = self.streams();
        streams.retain(|stream| keep(stream));
        streams
    }

    /// Forgets those of which `gone` holds, and returns them.
    pub fn take_out(&self, gone: impl Fn(&Stream) -> bool) -> Vec<Arc<Stream>> {
        self.all().extract_if(.., |stream| gone(stream)).collect()
    }
}
