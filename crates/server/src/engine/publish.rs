//! Publishing: what leaves the engine once the log is durable, and how callers wait for it.

use std::sync::Arc;

use headwater_core::command::Receipt;
use headwater_core::entry::Effects;
use headwater_core::ids::{BlobId, Lsn};
use headwater_core::refusal::Refusal;
use headwater_storage::Error;
use tokio::sync::Notify;

use super::tide::{BellNo, Pump, Ticket};
use super::{Engine, Fault, Outcome};

/// What is due when a group is durable. That of an append which nobody reads live takes no memory
/// of its own.
#[derive(Default)]
pub(crate) struct Done {
    /// Live readers with something to look at.
    pub(super) wake: Vec<(BellNo, Arc<Notify>)>,
    /// What leaves something to be done in the background.
    pub(super) effects: Vec<Effects>,
}

/// Resolves when everything that an answer was decided from is durable.
#[derive(Debug)]
pub enum Durable {
    /// It is already.
    Now,
    /// It will be; an error means that the log has stopped.
    Soon(Ticket),
}

/// A decided command. The outcome may leave the engine only by [`Pending::wait`].
#[derive(Debug)]
pub struct Pending {
    pub(super) outcome: Outcome,
    pub(super) durable: Durable,
}

impl Durable {
    /// Waits.
    pub async fn wait(self) -> Result<(), Fault> {
        match self {
            Self::Now => Ok(()),
            Self::Soon(ticket) => ticket.await,
        }
    }

    /// Whether it is durable by now; for callers that drive the engine themselves.
    pub fn poll(&mut self) -> Result<bool, Fault> {
        match self {
            Self::Now => Ok(true),
            Self::Soon(ticket) => ticket.check(),
        }
    }
}

impl Pending {
    /// The outcome, when it is durable. [`Outcome::Stale`] is about evidence and waits for nothing.
    pub async fn wait(self) -> Result<Outcome, Fault> {
        self.durable.wait().await?;
        Ok(self.outcome)
    }

    /// As [`Pending::wait`], for callers that drive the engine themselves.
    pub fn poll(&mut self) -> Result<Option<&Outcome>, Fault> {
        Ok(self.durable.poll()?.then_some(&self.outcome))
    }
}

impl Outcome {
    /// Accepted or refused.
    ///
    /// # Panics
    /// On [`Outcome::Stale`], which only commands with evidence can meet.
    pub fn decided(self) -> Result<Receipt, Refusal> {
        match self {
            Self::Accepted(receipt) => Ok(receipt),
            Self::Refused(refusal) => Err(refusal),
            Self::Stale => panic!("a command without evidence has none that could be stale"),
        }
    }
}

impl Engine {
    /// Makes what is queued durable with one write and one sync, and publishes it. False when
    /// nothing was queued. After an error the log is dead and the process must stop: what is
    /// applied cannot be undone.
    pub fn commit(&self) -> Result<bool, Error> {
        let done = self.store.commit(self.now().node).inspect_err(|_failed| self.tide.stop())?;
        let busy = !done.is_empty();
        if busy {
            self.publish(done);
        }
        Ok(busy)
    }

    pub(super) fn publish(&self, done: Vec<(Lsn, Done)>) {
        for (_, done) in done {
            for (bell, readers) in done.wake {
                self.tide.note(bell, readers);
            }
            for effects in &done.effects {
                self.follow_up(effects);
            }
        }
        self.tide.rise(self.store.durable());
    }

    /// Has the calling thread wake its own tasks when they have waited long enough, once per commit
    /// at most, instead of leaving that to the commit. For a thread whose tasks are its own: it
    /// must drive the pump like one of them.
    pub(crate) fn attend(&self) -> Option<Pump> {
        self.tide.attend()
    }

    /// What a durable entry leaves to be done in the background.
    fn follow_up(&self, effects: &Effects) {
        if let Some(id) = effects.removed {
            self.store.forget(id);
        }
        if effects.freed > 0 {
            self.store.note_freed(effects.freed);
        }
        if let Some(blob) = effects.blob_dropped {
            self.release_blob(blob);
        }
        if let Some(id) = effects.purgeable {
            self.backlog.lock().purges.push_back(id);
        }
    }

    pub(super) fn use_blob(&self, blob: BlobId) {
        *self.blob_uses.lock().entry(blob).or_insert(0) += 1;
    }

    fn release_blob(&self, blob: BlobId) {
        let mut uses = self.blob_uses.lock();
        if let Some(count) = uses.get_mut(&blob) {
            *count -= 1;
            if *count == 0 {
                uses.remove(&blob);
                self.backlog.lock().blobs.push_back(blob);
            }
        }
    }

    /// Resolves when the log is durable up to `lsn`.
    pub(super) fn durable(&self, lsn: Lsn) -> Durable {
        if self.store.durable() >= lsn {
            return Durable::Now;
        }
        Durable::Soon(Ticket::new(&self.tide, lsn))
    }
}

/// Whoever still waits learns that there is nothing to wait for.
impl Drop for Engine {
    fn drop(&mut self) {
        self.tide.stop();
    }
}
