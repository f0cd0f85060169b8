//! The engine: shards of pure state in front of one log. Everything here is synchronous and spawns
//! nothing, so that the server's threads and the simulator drive the same code:
//!
//! - [`Engine::submit`] decides a command, applies it and queues it for the log;
//! - [`Engine::commit`] makes what is queued durable and publishes it;
//! - [`Engine::maintain`] does one step of background work.
//!
//! ```text
//! submit: lock shards → decide → room → apply → queue ─┐
//! commit:                    one write, one sync  ◄────┘ → durable → replies, wake-ups
//! ```

mod fault;
mod inspect;
mod listing;
mod maintain;
mod publish;
mod quota;
mod reader;
mod recovery;
mod run;
mod shard;
mod submit;
mod tide;

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, OnceLock};

use headwater_core::ids::{BlobId, Lsn, ShardNo, StreamId};
use headwater_core::state::Now;
use headwater_storage::{CheckpointRound, Disk, Options, Recovery, Store};
use parking_lot::Mutex;

pub use fault::{Effect, Fault};
pub use inspect::{BucketNow, Contents};
pub use listing::{BucketFacts, Held, Listing};
pub use publish::{Durable, Pending};
pub use quota::Quotas;
pub use reader::{Look, Watch};
pub use recovery::OpenError;
pub(crate) use run::{OnFailure, Threads};
pub use submit::Outcome;
pub use tide::Ticket;
pub(crate) use tide::{BELLS_MAX, Pump};

use crate::clock::{Clock, NodeClock};
use publish::Done;
use quota::Usage;
use shard::Shard;
use tide::Tide;

/// What an engine is built from.
pub struct Seams {
    /// Where bytes are kept.
    pub disk: Arc<dyn Disk>,
    /// What tells time.
    pub clock: Box<dyn Clock>,
    /// A random id for the new log, never used before.
    pub log_id: u128,
    /// A random id for the data directory, used only when it is new.
    pub directory_id: u128,
}

/// One node's streams.
pub struct Engine {
    store: Arc<Store<Done>>,
    tide: Arc<Tide>,
    shards: Box<[Mutex<Shard>]>,
    clock: NodeClock,
    /// How many streams name each snapshot body; forks share them.
    blob_uses: Mutex<HashMap<BlobId, u32>>,
    backlog: Mutex<Backlog>,
    round: Mutex<Option<Round>>,
    /// Held by whoever looks for expired streams.
    sweep: Mutex<()>,
    /// Node time in milliseconds before which no stream is due to expire.
    quiet_until: AtomicU64,
    replay_bytes_max: u64,
    /// Whether a write found no room since upkeep last looked.
    pressed: AtomicBool,
    /// Node time in milliseconds before which upkeep does not try to gain room again.
    pressed_until: AtomicU64,
    /// What is kept, while there are quotas.
    usage: OnceLock<Usage>,
}

/// Work that publishing found, for [`Engine::maintain`].
#[derive(Default)]
struct Backlog {
    purges: VecDeque<StreamId>,
    blobs: VecDeque<BlobId>,
}

/// A checkpoint whose images are taken, waiting until the log is durable up to the newest of them.
struct Round {
    images: CheckpointRound,
    newest: Lsn,
    positions: Vec<(ShardNo, Lsn)>,
}

impl Engine {
    /// Opens or creates a data directory and recovers what it holds.
    pub fn open(seams: Seams, options: Options) -> Result<Arc<Self>, OpenError> {
        recovery::open(seams, options)
    }

    /// The present, on both clocks.
    pub fn now(&self) -> Now {
        self.clock.now()
    }

    /// What recovery found and did at the start.
    pub fn recovered(&self) -> &Recovery {
        self.store.recovered()
    }

    /// The bytes behind the streams.
    pub(crate) fn store(&self) -> &Store<Done> {
        &self.store
    }

    /// A number of this data directory's own, for entity tags.
    pub(crate) fn salt(&self) -> u64 {
        u64::try_from(self.store.directory_id() >> 64).expect("64 bits are left")
    }

    fn shard(&self, no: ShardNo) -> &Mutex<Shard> {
        &self.shards[no.index()]
    }
}
