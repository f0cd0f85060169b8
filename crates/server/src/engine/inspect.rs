//! Windows into the engine for those who check it. Nothing here waits for durability, so nothing
//! of it may go out to a client.

use headwater_core::access::{Key, KeyId};
use headwater_core::ids::{BucketId, Lsn, Offset, Record, ShardNo, StreamId, StreamName};
use headwater_core::stream::read::Facts;
use headwater_storage::{Blobs, Error, Reader};

use super::Engine;

/// A bucket as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BucketNow {
    /// How many streams keep it from being deleted.
    pub streams: u64,
    /// What its listing shows.
    pub listed: Vec<StreamName>,
}

/// How much there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Contents {
    /// Streams, those that only forks hold included.
    pub streams: u64,
    /// Buckets, without the base name space.
    pub buckets: u64,
    /// Bodies of snapshots; forks share them.
    pub snapshots: u64,
}

impl Engine {
    /// Counts what there is, one shard after the other.
    pub fn contents(&self) -> Contents {
        let mut contents = Contents::default();
        for shard in &self.shards {
            let (streams, buckets) = shard.lock().state.counts();
            contents.streams += streams as u64;
            contents.buckets += buckets as u64;
        }
        contents.snapshots = self.blob_uses.lock().len() as u64;
        contents
    }

    /// The incarnation under `name`, and whether it is soft-deleted; expired ones too.
    pub fn peek(&self, name: &StreamName) -> Option<(StreamId, bool)> {
        let shard = self.shard(name.shard()).lock();
        shard.state.find(name).map(|stream| (stream.id, stream.hidden))
    }

    /// Everything about the stream under `name`, whatever its condition, and whether it is
    /// soft-deleted.
    pub fn facts_now(&self, name: &StreamName) -> Option<(Facts, bool)> {
        let shard = self.shard(name.shard()).lock();
        shard.state.find(name).map(|stream| (stream.facts(), stream.hidden))
    }

    /// Whether images are taken and wait to become the newest checkpoint.
    pub fn in_checkpoint(&self) -> bool {
        self.round.lock().is_some()
    }

    /// Every stream that takes up a name, sorted.
    pub fn names(&self) -> Vec<StreamName> {
        let mut names: Vec<_> = self
            .shards
            .iter()
            .flat_map(|shard| {
                let shard = shard.lock();
                shard.state.streams().map(|stream| stream.name.clone()).collect::<Vec<_>>()
            })
            .collect();
        names.sort();
        names
    }

    /// A bucket as it is now, if it exists.
    pub fn bucket_now(&self, id: &BucketId) -> Option<BucketNow> {
        let shard = self.shard(id.shard()).lock();
        let bucket = shard.state.bucket(id).ok()?;
        let listed = bucket.page(id, "", "", usize::MAX - 1).names;
        Some(BucketNow { streams: bucket.streams(), listed })
    }

    /// The API keys as they are now.
    pub fn keys_now(&self) -> Vec<Key> {
        self.shard(KeyId::shard()).lock().state.keys().cloned().collect()
    }

    /// The first shard whose state is not equal to the other engine's.
    pub fn differs_from(&self, other: &Self) -> Option<ShardNo> {
        ShardNo::all().find(|no| self.shard(*no).lock().state != other.shard(*no).lock().state)
    }

    /// Up to where the log is durable, and the newest position handed out.
    pub fn positions(&self) -> (Lsn, Lsn) {
        (self.store.durable(), self.store.enqueued())
    }

    /// The newest entry that what is under `name` now comes from: a look waits for it.
    pub fn stream_touched(&self, name: &StreamName) -> Lsn {
        self.shard(name.shard()).lock().state.touched(name)
    }

    /// As [`Engine::stream_touched`], for a bucket.
    pub fn bucket_touched(&self, id: &BucketId) -> Lsn {
        self.shard(id.shard()).lock().state.bucket_touched(id)
    }

    /// The snapshot bodies.
    pub fn blobs(&self) -> &Blobs {
        self.store.blobs()
    }

    /// A range of a stream; both ends are message boundaries.
    pub fn range(&self, facts: &Facts, from: Offset, to: Offset) -> Reader {
        self.store.read(facts.id, facts.lineage.as_deref(), from, to)
    }

    /// The ordinal of the message that starts at `offset`, if one does.
    pub fn record_at(&self, facts: &Facts, offset: Offset) -> Result<Option<Record>, Error> {
        let lineage = facts.lineage.as_deref();
        self.store.boundary(facts.id, lineage, offset, facts.tail, facts.next)
    }

    /// Where message `record` starts.
    pub fn start_of(&self, facts: &Facts, record: Record) -> Result<Offset, Error> {
        let lineage = facts.lineage.as_deref();
        self.store.offset_of(facts.id, lineage, record, facts.tail, facts.next)
    }
}
