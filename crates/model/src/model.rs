//! The HTTP interface as a model: what each request changes, and what its answer must be. Written
//! from `docs/spec`, in the plainest form there is: a stream keeps all its messages in a list, a
//! fork copies them, and nothing is ever shared, paged, indexed or stored.

use std::collections::BTreeMap;

use crate::ask::{Ask, Body, Expect, Surface};

mod buckets;
mod create;
mod extras;
mod read;
mod write;

pub use create::EPOCH_MS;

/// A stream's bucket and id; streams of the base surface have no bucket.
pub type Key = (String, String);

/// What a request comes to: refusals return early.
type Answer = Result<Expect, Expect>;

/// How long a stream lives, in milliseconds of the server's clock.
#[derive(Debug, Clone, PartialEq)]
enum Life {
    Endless,
    /// It is certainly alive before `early` and certainly gone from `late` on.
    Ttl {
        seconds: u64,
        early: u64,
        late: u64,
    },
    Until {
        text: String,
        at: u64,
    },
}

/// A published snapshot.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    /// Its offset.
    pub offset: u64,
    /// Its digest.
    pub digest: String,
    content_type: String,
    body: Vec<u8>,
}

/// What a producer has done.
#[derive(Debug, Clone)]
pub struct Producer {
    /// The highest epoch.
    pub epoch: u64,
    /// The highest accepted number in it.
    pub seq: u64,
    records: Option<(u64, u64)>,
}

/// How a fork was asked for: where from, at which offset if one was given, and how far past it.
pub type ForkedFrom = (Key, Option<u64>, u64);

/// A stream.
#[derive(Debug, Clone)]
pub struct Stream {
    id: u64,
    content_type: String,
    /// Every message since offset 0, a JSON one with its separator.
    messages: Vec<Vec<u8>>,
    /// Whether it is closed.
    pub closed: bool,
    closed_by: Option<(String, u64, u64)>,
    life: Life,
    inherited_life: bool,
    /// Producers by id.
    pub producers: BTreeMap<String, Producer>,
    seq: Option<String>,
    /// The visible snapshot.
    pub snapshot: Option<Snapshot>,
    /// The earliest readable offset.
    pub retained: u64,
    attributes: serde_json::Value,
    parent: Option<u64>,
    forked_from: Option<ForkedFrom>,
    /// Kept only for its forks.
    deleted: bool,
    created_at: u64,
    written_at: u64,
}

impl Stream {
    /// Whether it holds JSON.
    pub fn is_json(&self) -> bool {
        media_type(&self.content_type) == "application/json"
    }

    /// Its content type.
    pub fn kind(&self) -> &str {
        &self.content_type
    }

    /// How it was forked, if it was.
    pub fn forked_from(&self) -> Option<&ForkedFrom> {
        self.forked_from.as_ref()
    }

    /// Whether it is a fork.
    pub fn is_fork(&self) -> bool {
        self.forked_from.is_some()
    }

    /// The end of each message, and 0 before them.
    pub fn boundaries(&self) -> Vec<u64> {
        let mut ends = vec![0];
        for message in &self.messages {
            ends.push(ends[ends.len() - 1] + message.len() as u64);
        }
        ends
    }

    /// The end of the last message.
    pub fn tail(&self) -> u64 {
        self.messages.iter().map(|message| message.len() as u64).sum()
    }

    /// How many messages there were before `offset`, if it is a boundary.
    fn record_at(&self, offset: u64) -> Option<u64> {
        self.boundaries().binary_search(&offset).ok().map(|index| index as u64)
    }

    /// The ordinal of the first message that is retained.
    pub fn first(&self) -> u64 {
        self.record_at(self.retained).expect("retention keeps to boundaries")
    }

    /// The ordinal of the next message.
    pub fn next(&self) -> u64 {
        self.messages.len() as u64
    }

    /// Where record `n` begins; it is not above the next one.
    fn offset_of(&self, n: u64) -> u64 {
        self.boundaries()[usize::try_from(n).expect("a record in memory")]
    }

    fn push(&mut self, mut message: Vec<u8>) {
        if self.is_json() {
            message.push(b'\n');
        }
        self.messages.push(message);
    }

    /// A renewal: exact, unless a live reader may leave later than its answer.
    fn renew(&mut self, now: u64, exact: bool) {
        if let Life::Ttl { seconds, early, late } = &mut self.life {
            *early = now + *seconds * 1000;
            // Both ends of a window are cut to whole milliseconds.
            let grace = if exact { 1 } else { READER_LEAVES_MS };
            *late = (*late).max(*early + grace);
        }
    }
}

/// How much of the server's clock may pass until it sees that a live reader has gone.
const READER_LEAVES_MS: u64 = 3_600_000;

/// A page has at most this many bytes, unless its one message is longer.
pub const PAGE_BYTES: u64 = 200;

/// All there is.
#[derive(Debug, Clone, Default)]
pub struct Model {
    /// The server's clock, in milliseconds.
    pub now: u64,
    buckets: BTreeMap<String, u64>,
    /// Every stream that has a name, soft-deleted ones included.
    pub streams: BTreeMap<Key, Stream>,
    ids: u64,
    /// Streams that are gone since somebody last looked here; the server may take a moment.
    pub purged: Vec<Key>,
}

impl Model {
    /// Nothing yet.
    pub fn new(now: u64) -> Self {
        Self { now, ..Self::default() }
    }

    /// Whether there is such a bucket.
    pub fn has_bucket(&self, id: &str) -> bool {
        self.buckets.contains_key(id)
    }

    /// Carries a request out and says what its answer is.
    pub fn answer(&mut self, ask: &Ask) -> Expect {
        let mut expect = self.dispatch(ask).unwrap_or_else(|refusal| refusal);
        if ask.method == "HEAD" && matches!(expect.body, Body::Problem(_)) {
            expect.headers.retain(|(name, _)| *name != "content-type");
        }
        // What 410 says of discarded history leads to the bootstrap of the surface that was asked.
        for (_, value) in expect.headers.iter_mut().filter(|(name, _)| *name == "link") {
            *value = format!("<{}>; rel=\"bootstrap\"", ask.at("bootstrap"));
        }
        expect
    }

    fn dispatch(&mut self, ask: &Ask) -> Answer {
        let is_id = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-".contains(c);
        let fits = (4..=64).contains(&ask.bucket.len()) && ask.bucket.chars().all(is_id);
        if ask.surface != Surface::Base && !fits {
            return Err(Expect::problem(400, "INVALID_BUCKET_ID"));
        }
        let Some(id) = &ask.stream else { return self.bucket(ask) };
        if ask.surface != Surface::Base && id.contains("..") {
            return Err(Expect::problem(400, "INVALID_STREAM_ID"));
        }
        let key = key(ask.surface, &ask.bucket, id);
        let (resource, offset) = match ask.resource.split_once('/') {
            Some((resource, offset)) => (resource, Some(offset)),
            None => (ask.resource.as_str(), None),
        };
        match (ask.method, resource, offset) {
            ("PUT", "", None) => self.create(ask, key),
            ("POST", "", None) => self.append(ask, &key),
            ("POST", "append-batch", None) => self.batch(ask, &key),
            ("GET", "", None) => self.read(ask, &key),
            ("HEAD", "", None) => self.head(&key),
            ("DELETE", "", None) => self.delete(&key),
            ("PUT", "snapshot", _) => self.publish(ask, &key, offset),
            ("GET" | "HEAD", "snapshot", None) => self.newest_snapshot(ask, &key),
            ("GET" | "HEAD", "snapshot", Some(at)) => self.snapshot(ask, &key, at),
            ("DELETE", "snapshot", Some(at)) => self.delete_snapshot(&key, at),
            ("PUT", "retention", _) => self.retain(ask, &key, offset),
            ("GET" | "HEAD", "bootstrap", None) => self.bootstrap(ask, &key),
            ("GET", "attrs", None) => self.attributes(&key),
            ("PUT", "attrs", None) => self.set_attributes(ask, &key),
            _ => unreachable!("nobody asks {ask}"),
        }
    }

    /// The stream of that name, or what is said when there is none.
    fn stream(&mut self, key: &Key) -> Result<&mut Stream, Expect> {
        if !key.0.is_empty() && !self.buckets.contains_key(&key.0) {
            return Err(Expect::problem(404, "BUCKET_NOT_FOUND"));
        }
        match self.streams.get_mut(key) {
            None => Err(Expect::problem(404, "STREAM_NOT_FOUND")),
            Some(stream) if stream.deleted => Err(Expect::problem(410, "STREAM_DELETED")),
            Some(stream) => Ok(stream),
        }
    }

    fn delete(&mut self, key: &Key) -> Answer {
        self.stream(key)?;
        self.bury(key);
        Ok(Expect::empty(204))
    }

    /// Takes a stream away: at once if no fork needs it, and then perhaps its source as well.
    fn bury(&mut self, key: &Key) {
        self.streams.get_mut(key).expect("the caller has it").deleted = true;
        while let Some(key) = self.streams.iter().find_map(|(key, stream)| {
            let held = self.streams.values().any(|fork| fork.parent == Some(stream.id));
            (stream.deleted && !held).then(|| key.clone())
        }) {
            self.streams.remove(&key);
            self.purged.push(key);
        }
    }

    /// Lets time pass.
    pub fn pass(&mut self, ms: u64) {
        self.now += ms;
    }

    /// The server is started anew, which may lengthen each window by an eighth.
    pub fn restart(&mut self) {
        for stream in self.streams.values_mut() {
            if let Life::Ttl { seconds, late, .. } = &mut stream.life {
                *late += *seconds * 125;
            }
        }
    }

    /// Streams that have expired, or may have; somebody has to ask for them, which makes it final.
    pub fn doubtful(&self) -> Vec<Key> {
        let now = self.now;
        let in_doubt = |stream: &Stream| match stream.life {
            Life::Endless => false,
            Life::Ttl { early, .. } => early <= now,
            Life::Until { at, .. } => at <= now,
        };
        let live = self.streams.iter().filter(|(_, stream)| !stream.deleted);
        live.filter(|(_, stream)| in_doubt(stream)).map(|(key, _)| key.clone()).collect()
    }

    /// What somebody who asked for a doubtful stream was told; false if that cannot be.
    #[must_use]
    pub fn settle(&mut self, key: &Key, alive: bool) -> bool {
        let now = self.now;
        if !alive {
            self.bury(key);
        }
        !alive || matches!(self.streams[key].life, Life::Ttl { late, .. } if now < late)
    }
}

/// The name of a stream.
pub fn key(surface: Surface, bucket: &str, id: &str) -> Key {
    match surface {
        Surface::Base => (String::new(), format!("{bucket}/{id}")),
        Surface::Root | Surface::Ds => (bucket.to_owned(), id.to_owned()),
    }
}

/// An offset as the server writes it.
pub fn offset(n: u64) -> String {
    format!("{n:020}")
}

/// A position as a client may write it.
#[derive(Debug, Clone, Copy, PartialEq)]
enum At {
    Start,
    Now,
    Number(u64),
}

fn parse_offset(text: &str) -> Result<At, Expect> {
    match text {
        "-1" => Ok(At::Start),
        "now" => Ok(At::Now),
        _ => parse_number(text, 20).map(At::Number).ok_or(Expect::problem(400, "INVALID_OFFSET")),
    }
}

/// Digits and nothing else.
fn parse_number(text: &str, digits_max: usize) -> Option<u64> {
    let fits = (1..=digits_max).contains(&text.len());
    (fits && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
}

fn media_type(content_type: &str) -> String {
    content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

fn check_content_type(text: &str) -> Result<(), Expect> {
    let kind = media_type(text);
    let good = kind.split_once('/').is_some_and(|(a, b)| !a.is_empty() && !b.is_empty());
    if good { Ok(()) } else { Err(Expect::problem(400, "INVALID_CONTENT_TYPE")) }
}

/// Whether `Stream-Closed` says so.
fn asks_to_close(ask: &Ask) -> bool {
    ask.header("stream-closed").is_some_and(|value| value.eq_ignore_ascii_case("true"))
}
