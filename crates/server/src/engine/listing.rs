//! What is asked of buckets: their facts, and pages of listings. A page costs as much as the page,
//! however many streams there are.

use headwater_core::access::{Key, KeyId};
use headwater_core::ids::{BucketId, Lsn, Timestamp};
use headwater_core::refusal::Refusal;
use headwater_core::stream::read::Facts;

use super::{Durable, Engine, Fault};

/// What a client may know of a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BucketFacts {
    /// How many streams keep it from being deleted.
    pub streams: u64,
    /// When it was created.
    pub created_at: Timestamp,
}

/// A page of a bucket's streams.
#[derive(Debug, Clone, Default)]
pub struct Listing {
    /// In the order of their names.
    pub streams: Vec<Facts>,
    /// The name to go on after, whatever became of that stream.
    pub last: Option<String>,
    /// Whether more follow.
    pub has_more: bool,
}

/// An answer that may leave the engine only when what it was taken from is durable.
#[derive(Debug)]
pub struct Held<T> {
    value: Result<T, Refusal>,
    durable: Durable,
}

impl<T> Held<T> {
    /// The answer, when it is durable.
    pub async fn wait(self) -> Result<Result<T, Refusal>, Fault> {
        self.durable.wait().await?;
        Ok(self.value)
    }

    /// As [`Held::wait`], for callers that drive the engine themselves.
    pub fn poll(&mut self) -> Result<Option<&Result<T, Refusal>>, Fault> {
        Ok(self.durable.poll()?.then_some(&self.value))
    }
}

impl Engine {
    /// Every API key, in the order of their ids, expired ones too.
    pub fn keys(&self) -> Held<Vec<Key>> {
        let shard = self.shard(KeyId::shard()).lock();
        let value = Ok(shard.state.keys().cloned().collect());
        Held { value, durable: self.durable(shard.state.keys_touched()) }
    }

    /// Ends every stream whose lifetime is over, so that counts are exact.
    pub fn settle_expired(&self) {
        while self.expire_due() {}
    }

    /// Looks at a bucket.
    pub fn look_bucket(&self, id: &BucketId) -> Held<BucketFacts> {
        self.settle_expired();
        let shard = self.shard(id.shard()).lock();
        let value = shard
            .state
            .bucket(id)
            .map(|bucket| BucketFacts { streams: bucket.streams(), created_at: bucket.created_at });
        Held { value, durable: self.durable(shard.state.bucket_touched(id)) }
    }

    /// A page of the streams of a bucket whose names start with `prefix`, after `after`.
    pub fn list(&self, id: &BucketId, prefix: &str, after: &str, limit: usize) -> Held<Listing> {
        self.settle_expired();
        let shard = self.shard(id.shard()).lock();
        let mut lsn = shard.state.bucket_touched(id);
        let page = match shard.state.bucket(id) {
            Ok(bucket) => bucket.page(id, prefix, after, limit),
            // The base name space exists, also before its first stream.
            Err(_) if id.is_base() => {
                return Held { value: Ok(Listing::default()), durable: self.durable(lsn) };
            }
            Err(refusal) => return Held { value: Err(refusal), durable: self.durable(lsn) },
        };
        drop(shard);
        let now = self.now();
        let last = page.names.last().map(|name| name.local().to_owned());
        let mut streams = Vec::with_capacity(page.names.len());
        for name in page.names {
            let shard = self.shard(name.shard()).lock();
            if let Ok(stream) = shard.state.live(&name, now) {
                lsn = lsn.max(stream.touched());
                streams.push(stream.facts());
            }
        }
        let listing = Listing { streams, last, has_more: page.has_more };
        Held { value: Ok(listing), durable: self.durable(lsn) }
    }

    /// At most `limit` buckets whose ids start with `prefix`, after `after`, in order.
    pub fn list_buckets(
        &self,
        prefix: &str,
        after: &str,
        limit: usize,
    ) -> (Vec<(BucketId, BucketFacts)>, Durable) {
        self.settle_expired();
        let mut lsn = Lsn::ZERO;
        let mut found = Vec::new();
        for shard in &self.shards {
            let shard = shard.lock();
            let buckets = shard
                .state
                .buckets_after(after)
                .skip_while(|(id, _)| id.as_str() < prefix)
                .take_while(|(id, _)| id.as_str().starts_with(prefix))
                .take(limit);
            for (id, bucket) in buckets {
                lsn = lsn.max(bucket.touched());
                let facts =
                    BucketFacts { streams: bucket.streams(), created_at: bucket.created_at };
                found.push((id.clone(), facts));
            }
        }
        found.sort_by(|one, other| one.0.cmp(&other.0));
        found.truncate(limit);
        (found, self.durable(lsn))
    }
}
