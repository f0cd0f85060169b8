//! The naive reference: what the streams are, kept as plainly as possible. Forks are copies, every
//! message stays in a list, nothing is compact. [`Model::expect`] says what the engine must answer.

mod expect;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use headwater_core::content::ContentType;
use headwater_core::ids::{BlobId, BucketId, StreamId, StreamName};
use headwater_core::moment::Lifetime;
use headwater_core::state::{Digest, Now, ProducerStamp};

pub(crate) use expect::{Action, Answer, Expect};

/// Everything on one server.
#[derive(Debug, Clone, Default)]
pub(crate) struct Model {
    pub(crate) streams: BTreeMap<StreamName, Stream>,
    /// Without the base name space, which always exists.
    pub(crate) buckets: Vec<BucketId>,
}

/// One incarnation.
#[derive(Debug, Clone)]
pub(crate) struct Stream {
    pub(crate) id: StreamId,
    pub(crate) content: ContentType,
    /// Every message since record 0: inherited and discarded ones, too.
    pub(crate) messages: Vec<Bytes>,
    /// The first record that may be read.
    pub(crate) first: usize,
    pub(crate) closed: bool,
    pub(crate) closed_by: Option<ProducerStamp>,
    pub(crate) hidden: bool,
    pub(crate) snapshot: Option<Snapshot>,
    pub(crate) producers: BTreeMap<Arc<str>, Producer>,
    /// The last `Stream-Seq`.
    pub(crate) last_seq: Option<Bytes>,
    pub(crate) attributes: Option<Bytes>,
    pub(crate) asked: Option<Lifetime>,
    pub(crate) life: Life,
    /// Node time of the newest write.
    pub(crate) renewed: u64,
    pub(crate) origin: Option<Origin>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    Endless,
    /// So many milliseconds since the last renewal.
    Window(u64),
    /// A moment of the wall clock.
    Until(u64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Producer {
    pub(crate) epoch: u64,
    pub(crate) seq: u64,
    pub(crate) last: (u64, u64),
}

#[derive(Debug, Clone)]
pub(crate) struct Snapshot {
    pub(crate) offset: u64,
    pub(crate) record: usize,
    pub(crate) digest: Digest,
    pub(crate) blob: BlobId,
    pub(crate) body: Bytes,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) source: StreamName,
    pub(crate) source_id: StreamId,
    pub(crate) anchor: u64,
    pub(crate) sub_offset: u64,
}

/// One atomic change.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    BucketCreated(BucketId),
    BucketDeleted(BucketId),
    Created(StreamName, Box<Stream>),
    Appended {
        name: StreamName,
        appended: Box<Appended>,
        at: u64,
    },
    /// Deleted or expired: hidden while forks need it.
    Ended(StreamName),
    /// A hidden stream without forks is gone.
    Purged(StreamName),
    Published {
        name: StreamName,
        snapshot: Snapshot,
        retain: bool,
        at: u64,
    },
    Retained {
        name: StreamName,
        first: usize,
        at: u64,
    },
    AttributesSet {
        name: StreamName,
        json: Option<Bytes>,
        at: u64,
    },
}

/// What one append brings.
#[derive(Debug, Clone)]
pub(crate) struct Appended {
    pub(crate) messages: Vec<Bytes>,
    pub(crate) stamp: Option<ProducerStamp>,
    pub(crate) stream_seq: Option<Bytes>,
    pub(crate) close: bool,
}

/// Whether a stream's lifetime is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Age {
    Alive,
    /// Recovery may have lengthened its life: the engine knows.
    Either,
    Over,
}

impl Change {
    /// The stream whose live readers have something to look at.
    pub(crate) fn wakes(&self) -> Option<&StreamName> {
        match self {
            Self::Appended { name, .. }
            | Self::Ended(name)
            | Self::Published { name, .. }
            | Self::Retained { name, .. } => Some(name),
            Self::BucketCreated(_)
            | Self::BucketDeleted(_)
            | Self::Created(..)
            | Self::Purged(_)
            | Self::AttributesSet { .. } => None,
        }
    }
}

impl Model {
    pub(crate) fn apply(&mut self, change: &Change) {
        match change {
            Change::BucketCreated(bucket) => self.buckets.push(bucket.clone()),
            Change::BucketDeleted(bucket) => {
                self.buckets.retain(|kept| kept != bucket);
                // Expired streams in it had ended before.
                self.streams.retain(|name, _| name.bucket() != *bucket);
            }
            Change::Created(name, stream) => {
                self.streams.insert(name.clone(), (**stream).clone());
            }
            Change::Ended(name) => {
                let Some(id) = self.streams.get(name).map(|stream| stream.id) else { return };
                if self.has_forks(id) {
                    self.with(name, Stream::hide);
                } else {
                    self.streams.remove(name);
                }
            }
            Change::Purged(name) => {
                self.streams.remove(name);
            }
            Change::Appended { name, appended, at } => self.with(name, |stream| {
                stream.append(appended);
                stream.renew(*at);
            }),
            Change::Published { name, snapshot, retain, at } => self.with(name, |stream| {
                if *retain {
                    stream.first = snapshot.record;
                }
                stream.snapshot = Some(snapshot.clone());
                stream.renew(*at);
            }),
            Change::Retained { name, first, at } => self.with(name, |stream| {
                stream.first = *first;
                stream.renew(*at);
            }),
            Change::AttributesSet { name, json, at } => self.with(name, |stream| {
                stream.attributes.clone_from(json);
                stream.renew(*at);
            }),
        }
    }

    fn with(&mut self, name: &StreamName, f: impl FnOnce(&mut Stream)) {
        if let Some(stream) = self.streams.get_mut(name) {
            f(stream);
        }
    }

    pub(crate) fn has_forks(&self, id: StreamId) -> bool {
        let mut origins = self.streams.values().filter_map(|stream| stream.origin.as_ref());
        origins.any(|origin| origin.source_id == id)
    }

    /// Whether a soft-deleted stream is only waiting to be purged.
    pub(crate) fn purgeable(&self, stream: &Stream) -> bool {
        stream.hidden && !self.has_forks(stream.id)
    }

    pub(crate) fn has_bucket(&self, bucket: &BucketId) -> bool {
        bucket.is_base() || self.buckets.contains(bucket)
    }

    /// The streams that keep a bucket from being deleted, and those that its listing shows.
    pub(crate) fn bucket(&self, bucket: &BucketId) -> (u64, Vec<StreamName>) {
        let here: Vec<_> =
            self.streams.iter().filter(|(name, _)| name.bucket() == *bucket).collect();
        let shown = here.iter().filter(|(_, stream)| !stream.hidden);
        (here.len() as u64, shown.map(|(name, _)| (*name).clone()).collect())
    }

    /// How many streams `name` is away from one that is no fork.
    pub(crate) fn depth(&self, name: &StreamName) -> usize {
        let origin = |name: &StreamName| {
            let origin = self.streams.get(name)?.origin.as_ref()?;
            Some(origin.source.clone())
        };
        std::iter::successors(origin(name), origin).take(100).count()
    }
}

impl Stream {
    pub(crate) fn is_json(&self) -> bool {
        self.content.as_str() == "application/json"
    }

    pub(crate) fn next(&self) -> usize {
        self.messages.len()
    }

    pub(crate) fn tail(&self) -> u64 {
        self.start_of(self.next())
    }

    /// Where message `record` starts.
    pub(crate) fn start_of(&self, record: usize) -> u64 {
        self.messages[..record].iter().map(|message| message.len() as u64).sum()
    }

    /// The ordinal of the message that starts at `offset`.
    pub(crate) fn record_at(&self, offset: u64) -> Option<usize> {
        let mut start = 0;
        for (record, message) in self.messages.iter().enumerate() {
            if start >= offset {
                return (start == offset).then_some(record);
            }
            start += message.len() as u64;
        }
        (start == offset).then_some(self.next())
    }

    pub(crate) fn retained(&self) -> u64 {
        self.start_of(self.first)
    }

    fn append(&mut self, appended: &Appended) {
        let first = self.messages.len() as u64;
        self.messages.extend(appended.messages.iter().cloned());
        if let Some(stamp) = &appended.stamp {
            let last = (first, self.messages.len() as u64);
            let known = Producer { epoch: stamp.epoch, seq: stamp.seq, last };
            self.producers.insert(Arc::clone(&stamp.id), known);
        }
        if appended.stream_seq.is_some() {
            self.last_seq.clone_from(&appended.stream_seq);
        }
        if appended.close {
            self.closed = true;
            self.closed_by.clone_from(&appended.stamp);
        }
    }

    fn renew(&mut self, at: u64) {
        self.renewed = self.renewed.max(at);
    }

    fn hide(&mut self) {
        self.hidden = true;
        self.snapshot = None;
        self.attributes = None;
        self.producers.clear();
    }

    /// Whether its life is over, when reads have renewed it at node time `read`.
    pub(crate) fn age(&self, read: u64, now: Now) -> Age {
        let window = match self.life {
            Life::Until(at) if !self.hidden && now.wall.0 >= at => return Age::Over,
            Life::Endless | Life::Until(_) => return Age::Alive,
            Life::Window(_) if self.hidden => return Age::Alive,
            Life::Window(window) => window,
        };
        let renewed = self.renewed.max(read);
        let least = renewed.saturating_add(window);
        // A window is never short; counting in whole milliseconds may make it one longer.
        let most = least.saturating_add(1);
        match now.node.0 {
            now if now < least => Age::Alive,
            now if now < most => Age::Either,
            _ => Age::Over,
        }
    }
}
