//! The state of one shard: its streams, and the buckets whose ids hash to it. Only `apply` (in
//! [`crate::entry`]) changes what is here, so that a replayed shard equals the live one; the few
//! fields that replay cannot know are marked *soft* and are left out of images and comparisons.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, Range};
use std::sync::Arc;

use bytes::Bytes;

use crate::access::{Key, KeyId};
use crate::content::{ContentType, Mode};
use crate::ids::{
    BlobId, BucketId, Lineage, Lsn, Offset, Record, ShardNo, StreamId, StreamName, Timestamp,
};
use crate::refusal::Refusal;

mod image;
mod life;
mod names;
mod place;
mod slab;
mod streams;

pub use life::{Deadline, Grace, Life};
pub use names::Names;
use streams::Streams;

/// The two clocks that a decision may look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// Node time: orders everything, never goes backwards.
    pub node: Timestamp,
    /// The wall clock: compared with `Stream-Expires-At` and nothing else.
    pub wall: Timestamp,
}

/// One shard.
#[derive(Debug)]
pub struct State {
    pub(crate) shard: ShardNo,
    pub(crate) streams: Streams,
    pub(crate) buckets: BTreeMap<BucketId, Bucket>,
    /// The counter of the next [`StreamId`] of this shard.
    pub(crate) next_stream: u64,
    /// API keys; only in the shard [`KeyId::shard`].
    pub(crate) keys: BTreeMap<KeyId, Key>,
    /// Soft: the newest entry that removed something, so that a "not found" can wait for it.
    pub(crate) removed_lsn: Lsn,
    /// Soft: the newest entry that added or removed a key.
    pub(crate) keys_lsn: Lsn,
}

/// A name space of streams.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Bucket {
    /// When it was created.
    pub created_at: Timestamp,
    /// Streams that listings show, in the order of their names.
    pub(crate) listed: BTreeSet<StreamName>,
    /// Soft-deleted streams that only forks hold.
    pub(crate) held: u64,
    /// Soft: the newest entry that touched this bucket.
    pub(crate) touched: Soft<Lsn>,
}

impl Bucket {
    /// How many streams keep this bucket from being deleted.
    pub fn streams(&self) -> u64 {
        self.held.saturating_add(self.listed.len() as u64)
    }

    /// How many of those are soft-deleted and held by forks alone.
    pub fn held(&self) -> u64 {
        self.held
    }

    /// The newest entry that touched this bucket.
    pub fn touched(&self) -> Lsn {
        self.touched.0
    }
}

/// One incarnation of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stream {
    /// This incarnation.
    pub id: StreamId,
    /// Its name; taken until the stream is purged.
    pub name: StreamName,
    /// As sent at creation, or inherited, or the default.
    pub content: ContentType,
    /// When it was created.
    pub created_at: Timestamp,
    /// When a message was last appended, or the stream created or closed.
    pub written_at: Timestamp,
    /// Where the next message will start.
    pub tail: Offset,
    /// The ordinal that the next message will have.
    pub next: Record,
    /// Nothing more can be appended.
    pub closed: bool,
    /// Deleted by a client, kept for its forks.
    pub hidden: bool,
    /// When it expires; nothing for [`Life::Endless`], which most are.
    pub(crate) life: Option<Box<Life>>,
    /// Soft: the newest entry that touched this stream.
    pub(crate) touched: Soft<Lsn>,
    /// What most streams do not have.
    pub(crate) extra: Option<Box<Extra>>,
}

/// The parts of a stream that most streams do not have.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Extra {
    pub(crate) producers: BTreeMap<Arc<str>, ProducerState>,
    pub(crate) stream_seq: Option<Bytes>,
    pub(crate) closed_by: Option<ProducerStamp>,
    pub(crate) snapshot: Option<Arc<Snapshot>>,
    /// The application's JSON object, as sent.
    pub(crate) attributes: Option<Bytes>,
    pub(crate) origin: Option<Origin>,
    /// Live forks of this stream and what each inherits of it.
    pub(crate) forks: BTreeMap<StreamId, Range<Offset>>,
    /// The boundary of retention: the earliest offset that may be read, and its message's ordinal.
    pub(crate) retained: (Offset, Record),
}

/// Where a fork came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The source as the client named it, for idempotent re-creation.
    pub source: StreamName,
    /// The source's incarnation, which counts this fork.
    pub source_id: StreamId,
    /// The fork offset that was asked for or defaulted to.
    pub anchor: Offset,
    /// The sub-offset that was asked for.
    pub sub_offset: u64,
    /// Whose bytes the inherited range is made of; `None` when nothing is inherited.
    pub lineage: Option<Arc<Lineage>>,
}

/// A value that replay cannot know: equal to any other, so that a replayed state can be compared
/// with a live one.
#[derive(Debug, Clone, Copy, Default)]
pub struct Soft<T>(pub T);

impl<T> PartialEq for Soft<T> {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}
impl<T> Eq for Soft<T> {}

/// What is known of one producer on one stream (base protocol §6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProducerState {
    /// Its current epoch.
    pub epoch: u64,
    /// The highest sequence number accepted in that epoch.
    pub seq: u64,
    /// When that was.
    pub at: Timestamp,
    /// The messages of its last batch, from (inclusive) and to (exclusive).
    pub last: (Record, Record),
}

/// One request of a producer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProducerStamp {
    /// The client's name for it.
    pub id: Arc<str>,
    /// Its incarnation.
    pub epoch: u64,
    /// The number of this request within the epoch.
    pub seq: u64,
}

/// A BLAKE3-256 digest of a snapshot's content type and body (`extensions.md` §4).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Digest(pub [u8; 32]);

impl std::fmt::Display for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl std::fmt::Debug for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// The visible snapshot of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The consistency boundary: everything below is folded in.
    pub offset: Offset,
    /// The ordinal of the first message that is not folded in.
    pub record: Record,
    /// Over content type and body.
    pub digest: Digest,
    /// As sent.
    pub content: ContentType,
    /// Where the body is stored.
    pub blob: BlobId,
    /// Bytes of the body.
    pub len: u64,
}

impl Stream {
    /// Whether its lifetime is over.
    pub fn expired(&self, now: Now) -> bool {
        self.deadline().is_some_and(|deadline| deadline.in_ms(now) == 0)
    }

    /// When it expires, as far as is known now; later reads may move it.
    pub fn deadline(&self) -> Option<Deadline> {
        self.life().deadline().filter(|_| !self.hidden)
    }

    /// The newest entry that touched this stream: what was seen here may be told to a client once
    /// the log is durable up to there.
    pub fn touched(&self) -> Lsn {
        self.touched.0
    }

    /// When it expires, if ever.
    pub fn life(&self) -> &Life {
        self.life.as_deref().unwrap_or(&Life::Endless)
    }

    /// The earliest offset that may be read.
    pub fn retained(&self) -> Offset {
        self.boundary_of_retention().0
    }

    /// The ordinal of the message at [`Stream::retained`].
    pub fn first(&self) -> Record {
        self.boundary_of_retention().1
    }

    fn boundary_of_retention(&self) -> (Offset, Record) {
        self.extra.as_ref().map(|extra| extra.retained).unwrap_or_default()
    }

    /// Bytes that are kept for this stream: its own messages behind the boundary of retention, not
    /// those that it inherits, and the visible snapshot.
    pub fn kept_bytes(&self) -> u64 {
        let inherited = self.lineage().map_or(Offset::ZERO, |lineage| lineage.end);
        let messages = self.tail.since(self.retained().max(inherited).min(self.tail));
        messages + self.snapshot().map_or(0, |snapshot| snapshot.len)
    }

    /// Whether its messages are JSON values.
    pub fn is_json(&self) -> bool {
        self.content.mode() == Mode::Json
    }

    /// The visible snapshot.
    pub fn snapshot(&self) -> Option<&Arc<Snapshot>> {
        self.extra.as_ref()?.snapshot.as_ref()
    }

    /// The application's attributes, as sent.
    pub fn attributes(&self) -> Option<&Bytes> {
        self.extra.as_ref()?.attributes.as_ref()
    }

    /// Where a fork came from.
    pub fn origin(&self) -> Option<&Origin> {
        self.extra.as_ref()?.origin.as_ref()
    }

    /// Whose bytes lie below this stream's own.
    pub fn lineage(&self) -> Option<&Arc<Lineage>> {
        self.origin()?.lineage.as_ref()
    }

    /// Live forks of this stream and the range of offsets that each inherits of it: from what was
    /// the earliest readable offset then to where the fork was cut.
    pub fn forks(&self) -> impl Iterator<Item = (StreamId, Range<Offset>)> {
        let forks = self.extra.iter().flat_map(|extra| &extra.forks);
        forks.map(|(id, inherited)| (*id, inherited.clone()))
    }

    /// Whether any fork still needs bytes of this stream.
    pub fn has_forks(&self) -> bool {
        self.extra.as_ref().is_some_and(|extra| !extra.forks.is_empty())
    }

    /// Whether anybody may still read a byte of this incarnation's in `start..end`.
    pub fn needs(&self, start: Offset, end: Offset) -> bool {
        let overlaps = |range: Range<Offset>| start < range.end && end > range.start;
        (!self.hidden && end > self.retained()) || self.forks().any(|(_, range)| overlaps(range))
    }

    /// The boundary from which on bytes of this incarnation's in `start..end` may still be read;
    /// none if nobody may read any.
    pub fn needed_from(&self, start: Offset, end: Offset) -> Option<Offset> {
        let own = (!self.hidden && end > self.retained()).then_some(self.retained());
        let forks = self.forks().filter(|(_, range)| start < range.end && end > range.start);
        let from = own.into_iter().chain(forks.map(|(_, range)| range.start)).min();
        from.map(|from| from.max(start))
    }

    /// A stream as most are: empty, open, and without an end.
    pub(crate) fn new(
        id: StreamId,
        name: StreamName,
        content: ContentType,
        created_at: Timestamp,
    ) -> Self {
        Self {
            id,
            name,
            content,
            created_at,
            written_at: created_at,
            tail: Offset::ZERO,
            next: Record(0),
            closed: false,
            hidden: false,
            life: None,
            touched: Soft::default(),
            extra: None,
        }
    }

    pub(crate) fn live_for(&mut self, life: Life) {
        self.life = (life != Life::Endless).then(|| Box::new(life));
    }

    /// A recorded renewal.
    pub(crate) fn renew(&mut self, at: Timestamp) {
        if let Some(life) = &mut self.life {
            life.renew(at);
        }
    }

    pub(crate) fn retain(&mut self, boundary: (Offset, Record)) {
        // Nothing is discarded from most streams, ever: they need no room for saying so.
        if boundary != (Offset::ZERO, Record(0)) || self.extra.is_some() {
            self.extra_mut().retained = boundary;
        }
    }

    pub(crate) fn extra_mut(&mut self) -> &mut Extra {
        self.extra.get_or_insert_default()
    }
}

impl State {
    /// An empty shard: no streams, and no bucket but the base name space.
    pub fn new(shard: ShardNo) -> Self {
        let mut buckets = BTreeMap::new();
        // The base name space is there from the start: nobody creates it.
        if BucketId::base().shard() == shard {
            buckets.insert(BucketId::base(), Bucket::default());
        }
        Self {
            shard,
            streams: Streams::new(),
            buckets,
            next_stream: 0,
            keys: BTreeMap::new(),
            removed_lsn: Lsn::ZERO,
            keys_lsn: Lsn::ZERO,
        }
    }

    /// Which shard this is.
    pub fn shard(&self) -> ShardNo {
        self.shard
    }

    /// The counter of the next incarnation: every one that there was is below.
    pub fn next_counter(&self) -> u64 {
        self.next_stream
    }

    /// The stream under `name`, whatever its condition: soft-deleted and expired ones too.
    pub fn find(&self, name: &StreamName) -> Option<&Stream> {
        self.streams.named(name)
    }

    /// An incarnation of this shard.
    pub fn stream(&self, id: StreamId) -> Option<&Stream> {
        self.streams.get(id)
    }

    /// Every incarnation of this shard, in the order of their ids. Costs a sort, so that the same
    /// shard always gives the same sequence.
    pub fn streams(&self) -> impl ExactSizeIterator<Item = &Stream> {
        let mut streams: Vec<_> = self.streams.iter().collect();
        streams.sort_unstable_by_key(|stream| stream.id);
        streams.into_iter()
    }

    /// The stream that a client may use: 404 when missing or expired, 410 when soft-deleted.
    pub fn live(&self, name: &StreamName, now: Now) -> Result<&Stream, Refusal> {
        match self.find(name) {
            None => Err(Refusal::StreamNotFound),
            Some(stream) if stream.hidden => Err(Refusal::StreamDeleted),
            Some(stream) if stream.expired(now) => Err(Refusal::StreamNotFound),
            Some(stream) => Ok(stream),
        }
    }

    /// A bucket of this shard.
    pub fn bucket(&self, id: &BucketId) -> Result<&Bucket, Refusal> {
        self.buckets.get(id).ok_or(Refusal::BucketNotFound)
    }

    /// Every bucket of this shard, in order, from `after` (exclusive) on.
    /// The base name space is not among them.
    pub fn buckets_after(&self, after: &str) -> impl Iterator<Item = (&BucketId, &Bucket)> {
        self.buckets.range::<str, _>((Bound::Excluded(after), Bound::Unbounded))
    }

    /// How many incarnations and how many buckets this shard has, without the base name space.
    pub fn counts(&self) -> (usize, usize) {
        let base = usize::from(self.buckets.contains_key(""));
        (self.streams.len(), self.buckets.len() - base)
    }

    /// The newest entry that touched `name` or may have removed it.
    pub fn touched(&self, name: &StreamName) -> Lsn {
        self.find(name).map_or(self.removed_lsn, Stream::touched)
    }

    /// As [`State::touched`], for a bucket.
    pub fn bucket_touched(&self, id: &BucketId) -> Lsn {
        self.buckets.get(id).map_or(self.removed_lsn, Bucket::touched)
    }
}

/// Equal contents, soft fields aside: what replay must reproduce.
impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        self.shard == other.shard
            && self.next_stream == other.next_stream
            && self.streams == other.streams
            && self.buckets == other.buckets
            && self.keys == other.keys
    }
}
