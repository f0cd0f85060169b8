//! How much buckets and the server may keep. The counters are made at the start from what there is
//! and follow every entry that is applied, so that nothing of them is stored; without quotas
//! nothing is counted.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use headwater_core::command::Command;
use headwater_core::ids::{BucketId, StreamId};
use headwater_core::refusal::Refusal;
use headwater_core::state::{State, Stream};
use parking_lot::RwLock;

use super::Engine;

/// What may be kept. `None` is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Quotas {
    /// Streams on the server, those that only forks hold included.
    pub streams_max: Option<u64>,
    /// Streams in a bucket, likewise.
    pub bucket_streams_max: Option<u64>,
    /// Bytes that a bucket retains, visible snapshots included: its streams take no more creates
    /// and appends once it has so many. Those under way in the same moment are taken.
    pub bucket_bytes_max: Option<u64>,
}

/// What is kept.
pub(super) struct Usage {
    quotas: Quotas,
    streams: AtomicU64,
    /// Bytes by bucket, if anybody asks for them.
    bytes: RwLock<HashMap<BucketId, Arc<AtomicU64>>>,
}

/// A stream's share of what is kept.
pub(super) struct Share {
    bucket: BucketId,
    bytes: u64,
}

impl Engine {
    /// Has quotas hold from now on. Called once, before anybody changes anything.
    pub fn impose(&self, quotas: Quotas) {
        if quotas == Quotas::default() {
            return;
        }
        let usage = Usage { quotas, streams: AtomicU64::new(0), bytes: RwLock::default() };
        for shard in &self.shards {
            for stream in shard.lock().state.streams() {
                usage.follow(None, Some(&Share::of(stream)));
            }
        }
        let _imposed_already = self.usage.set(usage).is_err();
    }
}

impl Share {
    fn of(stream: &Stream) -> Self {
        Self { bucket: stream.name.bucket(), bytes: stream.kept_bytes() }
    }

    /// The share of a stream, if there is one and it counts.
    pub(super) fn find(state: &State, stream: Option<StreamId>) -> Option<Self> {
        state.stream(stream?).map(Self::of)
    }
}

impl Usage {
    /// Takes note of what became of a stream.
    pub(super) fn follow(&self, before: Option<&Share>, after: Option<&Share>) {
        match (before, after) {
            (None, Some(_)) => {
                self.streams.fetch_add(1, Ordering::Relaxed);
            }
            (Some(_), None) => {
                self.streams.fetch_sub(1, Ordering::Relaxed);
            }
            (None, None) | (Some(_), Some(_)) => {}
        }
        if self.quotas.bucket_bytes_max.is_none() {
            return;
        }
        let Some(bucket) = before.or(after).map(|share| &share.bucket) else {
            return;
        };
        let bytes = |share: Option<&Share>| share.map_or(0, |share| share.bytes);
        // Wrapping: what was counted is taken away again, and never more.
        let change = bytes(after).wrapping_sub(bytes(before));
        self.bytes_of(bucket).fetch_add(change, Ordering::Relaxed);
    }

    /// Why a command that would add something is refused. `bucket_streams` are those that its
    /// bucket has.
    pub(super) fn refuse(&self, command: &Command, bucket_streams: u64) -> Option<Refusal> {
        let (name, creates) = match command {
            Command::Create(create) => (&create.name, true),
            Command::Append(append) => (&append.name, false),
            _ => return None,
        };
        let reached = |max: Option<u64>, has: u64| max.filter(|max| has >= *max);
        if creates {
            let streams = self.streams.load(Ordering::Relaxed);
            if let Some(limit) = reached(self.quotas.streams_max, streams) {
                return Some(Refusal::StreamLimit { limit });
            }
            if let Some(limit) = reached(self.quotas.bucket_streams_max, bucket_streams) {
                return Some(Refusal::BucketStreamLimit { limit });
            }
        }
        self.quotas.bucket_bytes_max?;
        let bytes = self.bytes_of(&name.bucket()).load(Ordering::Relaxed);
        reached(self.quotas.bucket_bytes_max, bytes)
            .map(|limit| Refusal::BucketBytesLimit { limit })
    }

    fn bytes_of(&self, bucket: &BucketId) -> Arc<AtomicU64> {
        if let Some(bytes) = self.bytes.read().get(bucket) {
            return Arc::clone(bytes);
        }
        Arc::clone(self.bytes.write().entry(bucket.clone()).or_default())
    }

    /// Forgets a bucket that is gone.
    pub(super) fn forget(&self, bucket: &BucketId) {
        self.bytes.write().remove(bucket);
    }
}
