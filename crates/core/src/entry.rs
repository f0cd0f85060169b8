//! What was decided: the log stores entries, recovery replays them, and [`State::apply`] is the
//! only thing that changes a shard. An entry belongs to exactly one shard; entries that must happen
//! together travel in one group.

use std::ops::Range;

use bytes::Bytes;

use crate::access::{Key, KeyId};
use crate::ids::{BlobId, BucketId, Lsn, Offset, Record, ShardNo, StreamId, StreamName, Timestamp};
use crate::state::{Snapshot, State};
use crate::stream::append::Appended;
use crate::stream::create::Created;

pub(crate) mod form;

/// One change of one shard.
#[derive(Debug, Clone, PartialEq)]
pub enum Entry {
    /// A bucket began.
    BucketCreated {
        /// Its id.
        bucket: BucketId,
        /// When.
        at: Timestamp,
    },
    /// An empty bucket ended.
    BucketDeleted {
        /// Its id.
        bucket: BucketId,
    },
    /// A bucket's listing gained a stream.
    Listed {
        /// The stream.
        name: StreamName,
    },
    /// A bucket's listing lost a stream that forks still hold.
    Held {
        /// The stream.
        name: StreamName,
    },
    /// A bucket lost a stream.
    Unlisted {
        /// The stream.
        name: StreamName,
        /// Whether it was counted as held.
        held: bool,
    },
    /// A stream began.
    Created(Box<Created>),
    /// Messages were appended, or the stream was closed, or both.
    Appended(Appended),
    /// A stream was deleted or expired while forks need its bytes.
    Hidden {
        /// The incarnation.
        id: StreamId,
    },
    /// A stream ended for good.
    Removed {
        /// The incarnation.
        id: StreamId,
    },
    /// A stream gained a fork.
    ForkAdded {
        /// The source.
        source: StreamId,
        /// The fork.
        fork: StreamId,
        /// The offsets of the source that it inherits: from the earliest readable one then to
        /// where it was cut.
        inherited: Range<Offset>,
    },
    /// A stream lost a fork.
    ForkReleased {
        /// The source.
        source: StreamId,
        /// The fork.
        fork: StreamId,
    },
    /// A snapshot became the visible one.
    Published {
        /// The incarnation.
        id: StreamId,
        /// The snapshot.
        snapshot: Box<Snapshot>,
        /// Whether history below it was discarded at once.
        retain: bool,
        /// When: it renews the TTL window.
        at: Timestamp,
    },
    /// History below a boundary was discarded.
    Retained {
        /// The incarnation.
        id: StreamId,
        /// The boundary.
        offset: Offset,
        /// The ordinal of the message there.
        record: Record,
        /// When: it renews the TTL window.
        at: Timestamp,
    },
    /// A read renewed the TTL window.
    Renewed {
        /// The incarnation.
        id: StreamId,
        /// When.
        at: Timestamp,
    },
    /// The application's attributes were replaced.
    AttributesSet {
        /// The incarnation.
        id: StreamId,
        /// The JSON object as sent; `None` for `{}`.
        json: Option<Bytes>,
        /// When: it renews the TTL window.
        at: Timestamp,
    },
    /// An API key began.
    KeyCreated(Box<Key>),
    /// An API key ended.
    KeyRevoked {
        /// Its name.
        id: KeyId,
    },
}

/// What applying an entry means for the world outside the shard, to be published once the entry is
/// durable.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Effects {
    /// Live readers of this stream have something to look at.
    pub changed: Option<StreamId>,
    /// This incarnation is gone: its place in the log may be forgotten.
    pub removed: Option<StreamId>,
    /// This stream has a deadline to watch.
    pub timed: Option<StreamId>,
    /// One more stream names this blob.
    pub blob_used: Option<BlobId>,
    /// One stream fewer names this blob.
    pub blob_dropped: Option<BlobId>,
    /// This soft-deleted stream lost its last fork and can be purged.
    pub purgeable: Option<StreamId>,
    /// About how many bytes of the stream cannot be read any more.
    pub freed: u64,
}

impl Effects {
    /// Whether there is anything to do once the entry is durable but to wake live readers.
    pub fn need_follow_up(&self) -> bool {
        // Every field by name, so that a new one is thought of here.
        let Self { changed: _, timed: _, blob_used: _, removed, blob_dropped, purgeable, freed } =
            self;
        removed.is_some() || blob_dropped.is_some() || purgeable.is_some() || *freed > 0
    }
}

impl Entry {
    /// The shard that this entry changes.
    pub fn shard(&self) -> ShardNo {
        match self {
            Self::BucketCreated { bucket, .. } | Self::BucketDeleted { bucket } => bucket.shard(),
            Self::Listed { name } | Self::Held { name } | Self::Unlisted { name, .. } => {
                name.bucket().shard()
            }
            Self::Created(created) => created.id.shard(),
            Self::Appended(appended) => appended.id.shard(),
            Self::Hidden { id }
            | Self::Removed { id }
            | Self::Published { id, .. }
            | Self::Retained { id, .. }
            | Self::Renewed { id, .. }
            | Self::AttributesSet { id, .. } => id.shard(),
            Self::ForkAdded { source, .. } | Self::ForkReleased { source, .. } => source.shard(),
            Self::KeyCreated(_) | Self::KeyRevoked { .. } => KeyId::shard(),
        }
    }
}

impl Entry {
    /// The stream that this entry begins, changes or ends.
    pub fn stream(&self) -> Option<StreamId> {
        match self {
            Self::Created(created) => Some(created.id),
            Self::Appended(appended) => Some(appended.id),
            Self::Hidden { id }
            | Self::Removed { id }
            | Self::Published { id, .. }
            | Self::Retained { id, .. }
            | Self::Renewed { id, .. }
            | Self::AttributesSet { id, .. } => Some(*id),
            Self::ForkAdded { source, .. } | Self::ForkReleased { source, .. } => Some(*source),
            Self::BucketCreated { .. }
            | Self::BucketDeleted { .. }
            | Self::Listed { .. }
            | Self::Held { .. }
            | Self::Unlisted { .. }
            | Self::KeyCreated(_)
            | Self::KeyRevoked { .. } => None,
        }
    }
}

impl State {
    /// Carries out a decided entry. Cannot fail: an entry that does not fit the state is a bug, or
    /// damage that checksums let through, and is ignored piecewise rather than guessed at.
    pub fn apply(&mut self, entry: &Entry) -> Effects {
        debug_assert_eq!(entry.shard(), self.shard, "an entry reaches its own shard");
        match entry {
            Entry::BucketCreated { bucket, at } => self.apply_bucket_created(bucket, *at),
            Entry::BucketDeleted { bucket } => self.apply_bucket_deleted(bucket),
            Entry::Listed { name } => self.apply_listed(name),
            Entry::Held { name } => self.apply_held(name),
            Entry::Unlisted { name, held } => self.apply_unlisted(name, *held),
            Entry::Created(created) => self.apply_created(created),
            Entry::Appended(appended) => self.apply_appended(appended),
            Entry::Hidden { id } => self.apply_hidden(*id),
            Entry::Removed { id } => self.apply_removed(*id),
            Entry::ForkAdded { source, fork, inherited } => {
                self.apply_fork_added(*source, *fork, inherited)
            }
            Entry::ForkReleased { source, fork } => self.apply_fork_released(*source, *fork),
            Entry::Published { id, snapshot, retain, at } => {
                self.apply_published(*id, snapshot, *retain, *at)
            }
            Entry::Retained { id, offset, record, at } => {
                self.apply_retained(*id, *offset, *record, *at)
            }
            Entry::Renewed { id, at } => self.apply_renewed(*id, *at),
            Entry::AttributesSet { id, json, at } => self.apply_attributes(*id, json.as_ref(), *at),
            Entry::KeyCreated(key) => self.apply_key_created(key),
            Entry::KeyRevoked { id } => self.apply_key_revoked(*id),
        }
    }

    /// Notes where in the log `entry` stands, so that whatever was decided from it can wait for it.
    pub fn mark(&mut self, entry: &Entry, lsn: Lsn) {
        match entry {
            Entry::BucketCreated { bucket, .. } => self.mark_bucket(bucket, lsn),
            Entry::Listed { name } | Entry::Held { name } | Entry::Unlisted { name, .. } => {
                self.mark_bucket(&name.bucket(), lsn);
            }
            Entry::BucketDeleted { .. } | Entry::Removed { .. } => self.removed_lsn = lsn,
            Entry::Created(created) => self.mark_stream(created.id, lsn),
            Entry::Appended(appended) => self.mark_stream(appended.id, lsn),
            Entry::Hidden { id }
            | Entry::Published { id, .. }
            | Entry::Retained { id, .. }
            | Entry::Renewed { id, .. }
            | Entry::AttributesSet { id, .. } => self.mark_stream(*id, lsn),
            Entry::ForkAdded { source, .. } | Entry::ForkReleased { source, .. } => {
                self.mark_stream(*source, lsn);
            }
            Entry::KeyCreated(_) | Entry::KeyRevoked { .. } => self.keys_lsn = lsn,
        }
    }

    fn mark_stream(&mut self, id: StreamId, lsn: Lsn) {
        if let Some(stream) = self.streams.get_mut(id) {
            stream.touched.0 = lsn;
        }
    }

    fn mark_bucket(&mut self, id: &BucketId, lsn: Lsn) {
        if let Some(bucket) = self.buckets.get_mut(id) {
            bucket.touched.0 = lsn;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_were_freed_are_followed_up_even_when_nothing_else_is() {
        let waking = Effects { changed: Some(StreamId(1)), ..Effects::default() };
        assert!(!waking.need_follow_up());
        assert!(Effects { freed: 1, ..waking }.need_follow_up());
    }
}
