//! Opening a data directory: restore every shard's image, apply the log above it with the same
//! function that an append uses, then publish.

mod replay;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, OnceLock};

use headwater_core::ids::BlobId;
use headwater_storage::{Error, Options, Start, Store};
use parking_lot::Mutex;

use super::tide::Tide;
use super::{Backlog, Engine, Seams};
use crate::clock::NodeClock;

/// Why a data directory could not be opened.
#[derive(Debug)]
pub struct OpenError(pub Error);

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cannot open the data directory")
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

pub(super) fn open(seams: Seams, options: Options) -> Result<Arc<Engine>, OpenError> {
    let clock = NodeClock::new(seams.clock);
    let replay_bytes_max = options.replay_bytes_max;
    let start =
        Start { log_id: seams.log_id, directory_id: seams.directory_id, now: clock.now().node };
    let (store, shards) =
        replay::replay(|visitor| Store::open(seams.disk, options, start, visitor));
    let store = store.map_err(OpenError)?;
    clock.catch_up(store.newest_time());
    let engine = Engine {
        tide: Tide::new(store.durable()),
        store: Arc::new(store),
        shards: shards.into_iter().map(Mutex::new).collect(),
        clock,
        blob_uses: Mutex::new(HashMap::new()),
        backlog: Mutex::new(Backlog::default()),
        round: Mutex::new(None),
        sweep: Mutex::new(()),
        quiet_until: AtomicU64::new(u64::MAX),
        replay_bytes_max,
        pressed: AtomicBool::new(false),
        pressed_until: AtomicU64::new(0),
        usage: OnceLock::new(),
    };
    engine.resume();
    // Replay has met bytes of streams that ended later in the log.
    engine.store.retain(&|id| engine.shard(id.shard()).lock().state.stream(id).is_some());
    engine.collect_orphans().map_err(OpenError)?;
    Ok(Arc::new(engine))
}

impl Engine {
    /// Rebuilds what surrounds the states, and takes up what a crash interrupted.
    fn resume(&self) {
        let now = self.now();
        for shard in &self.shards {
            let mut shard = shard.lock();
            shard.state.grant_recovery_grace();
            let mut timed = Vec::new();
            for stream in shard.state.streams() {
                if let Some(snapshot) = stream.snapshot() {
                    self.use_blob(snapshot.blob);
                }
                if stream.hidden && !stream.has_forks() {
                    self.backlog.lock().purges.push_back(stream.id);
                }
                if stream.deadline().is_some() {
                    timed.push(stream.id);
                }
            }
            for id in timed {
                self.arm(&mut shard, id, now);
            }
        }
    }

    /// Removes snapshot bodies that no stream names: their publish never became durable. Nobody is
    /// writing one yet.
    fn collect_orphans(&self) -> Result<(), Error> {
        let named: HashSet<BlobId> = self.blob_uses.lock().keys().copied().collect();
        for blob in self.store.blobs().list()? {
            if !named.contains(&blob) {
                self.store.blobs().remove(blob)?;
            }
        }
        Ok(())
    }
}
