//! What readers ask of the engine: one look at a stream, and a way to learn that it changed.

use std::sync::Arc;

use headwater_core::command::Command;
use headwater_core::ids::{StreamId, StreamName};
use headwater_core::refusal::Refusal;
use headwater_core::state::{Life, Stream};
use headwater_core::stream::read::Facts;
use tokio::sync::Notify;

use super::shard::Waiter;
use super::tide::BellNo;
use super::{Durable, Engine, Fault};

/// A look at a stream. The facts may leave the engine only by [`Look::wait`].
#[derive(Debug)]
pub struct Look {
    facts: Result<Facts, Refusal>,
    durable: Durable,
}

impl Look {
    /// The facts, when they are durable.
    pub async fn wait(self) -> Result<Result<Facts, Refusal>, Fault> {
        self.durable.wait().await?;
        Ok(self.facts)
    }

    /// As [`Look::wait`], for callers that drive the engine themselves.
    pub fn poll(&mut self) -> Result<Option<&Result<Facts, Refusal>>, Fault> {
        Ok(self.durable.poll()?.then_some(&self.facts))
    }
}

impl Engine {
    /// Looks at the stream under `name`.
    pub fn look(&self, name: &StreamName) -> Look {
        let now = self.now();
        let shard = self.shard(name.shard()).lock();
        if shard.state.find(name).is_some_and(|stream| !stream.hidden && stream.expired(now)) {
            drop(shard);
            // Whoever finds it expired makes it final.
            // Without room for that it stays expired, and nobody can use it.
            self.background(&Command::Expire(name.clone()));
            return self.look_again(name);
        }
        let facts = shard.state.live(name, now).map(Stream::facts);
        let durable = self.durable(shard.state.touched(name));
        drop(shard);
        self.explained(name, facts, durable)
    }

    fn look_again(&self, name: &StreamName) -> Look {
        let shard = self.shard(name.shard()).lock();
        let facts = shard.state.live(name, self.now()).map(Stream::facts);
        let durable = self.durable(shard.state.touched(name));
        drop(shard);
        self.explained(name, facts, durable)
    }

    /// Tells a missing bucket from a missing stream.
    fn explained(
        &self,
        name: &StreamName,
        facts: Result<Facts, Refusal>,
        durable: Durable,
    ) -> Look {
        let bucket = name.bucket();
        if facts == Err(Refusal::StreamNotFound) && !bucket.is_base() {
            let shard = self.shard(bucket.shard()).lock();
            if let Err(refusal) = shard.state.bucket(&bucket) {
                let durable = self.durable(shard.state.bucket_touched(&bucket));
                return Look { facts: Err(refusal), durable };
            }
        }
        Look { facts, durable }
    }

    /// Looks at one incarnation, as live readers do: the name may mean another stream by now.
    pub fn look_at(&self, id: StreamId) -> Look {
        let now = self.now();
        let shard = self.shard(id.shard()).lock();
        let facts = match shard.state.stream(id) {
            None => Err(Refusal::StreamNotFound),
            Some(stream) if stream.hidden => Err(Refusal::StreamDeleted),
            Some(stream) if stream.expired(now) => Err(Refusal::StreamNotFound),
            Some(stream) => Ok(stream.facts()),
        };
        let lsn = shard.state.stream(id).map_or(shard.applied, Stream::touched);
        let durable = self.durable(lsn);
        Look { facts, durable }
    }

    /// Whether a stream can be used now; nothing may be told to a client because of it.
    pub fn exists(&self, name: &StreamName) -> bool {
        self.shard(name.shard()).lock().state.live(name, self.now()).is_ok()
    }

    /// Renews the TTL window because of a read. Recovery makes up for renewals that were not
    /// recorded within an eighth of the window; a later one is recorded, and the answer must wait
    /// until the record is durable, since a crash may only lengthen a life.
    pub fn renew(&self, facts: &Facts) -> Durable {
        if facts.life == Life::Endless {
            return Durable::Now;
        }
        self.renew_incarnation(facts.id)
    }

    /// As [`Engine::renew`].
    pub fn renew_incarnation(&self, id: StreamId) -> Durable {
        let due = self.shard(id.shard()).lock().state.renew(id, self.now());
        // On a full disk a read is answered all the same.
        let recorded = due.then(|| self.submit(&Command::Renew(id)).ok()).flatten();
        recorded.map_or(Durable::Now, |pending| pending.durable)
    }

    /// How many live readers an incarnation has.
    pub fn readers(&self, id: StreamId) -> usize {
        self.shard(id.shard()).lock().waiters.get(&id).map_or(0, Waiter::readers)
    }

    /// Joins the live readers of an incarnation.
    pub fn watch(self: &Arc<Self>, id: StreamId) -> Watch {
        let now = self.now();
        let mut shard = self.shard(id.shard()).lock();
        let bell = self.tide.bell();
        let notify = shard.waiters.entry(id).or_default().join(bell);
        shard.state.count_reader(id, true, now);
        self.arm(&mut shard, id, now);
        Watch { engine: Arc::clone(self), id, bell, notify }
    }
}

/// Membership among the live readers of a stream; dropping it leaves. While it is held, the
/// stream's TTL window does not run.
pub struct Watch {
    engine: Arc<Engine>,
    id: StreamId,
    bell: BellNo,
    notify: Arc<Notify>,
}

impl Watch {
    /// Completes at the first publication after this call. Call it, look at the stream, then
    /// await it: nothing that happens in between is missed.
    pub fn changed(&self) -> impl Future<Output = ()> + Send + use<> {
        Arc::clone(&self.notify).notified_owned()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let now = self.engine.now();
        let mut shard = self.engine.shard(self.id.shard()).lock();
        if shard.waiters.get_mut(&self.id).is_some_and(|waiter| waiter.leave(self.bell)) {
            shard.waiters.remove(&self.id);
        }
        shard.state.count_reader(self.id, false, now);
        self.engine.arm(&mut shard, self.id, now);
    }
}
