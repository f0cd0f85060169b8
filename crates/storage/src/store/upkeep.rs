//! Upkeep: footers, files ahead of need, checkpoints, reclaim, and the clean stop. Compaction has a
//! page of its own.

use std::collections::BTreeSet;
use std::sync::Arc;

use headwater_core::ids::{Lsn, Offset, SHARD_COUNT, StreamId, Timestamp};

use super::Store;
use super::compact::Compacting;
use crate::checkpoint::{self, CheckpointRound};
use crate::error::{Error, Kind, Result};
use crate::location::Wait;
use crate::log::file::{self, FileNo};
use crate::manifest::{Manifest, ShardRef};
use crate::pins::Dead;
use crate::segment;

/// The manifest in force, and the numbers that go on from it.
pub(super) struct Ledger {
    pub(super) manifest: Manifest,
    /// The newest checkpoint file that was started.
    last_round: u64,
    pub(super) compacting: Compacting,
}

impl Ledger {
    pub(super) fn new(manifest: Manifest) -> Self {
        let compacting = Compacting::new(manifest.last_segment);
        Self { last_round: manifest.last_checkpoint, manifest, compacting }
    }
}

impl<T: Send> Store<T> {
    /// One bounded step of upkeep: writes a footer, allocates a log file ahead of need, or removes
    /// files that nobody pins any more. Returns whether there was something to do.
    ///
    /// # Errors
    /// `Io`. A full disk is no error here.
    pub fn maintain(&self) -> Result<bool> {
        let _ledger = self.upkeep.lock();
        self.health.check()?;
        self.location.cool(self.ring.oldest_file());
        for path in self.allocator.take_skipped() {
            self.remove(&path)?;
        }
        Ok(self.location.write_footer()?.is_some()
            || self.allocator.allocate_ahead()?
            || self.remove_free()?)
    }

    /// The bytes that a restart would replay: those of frames above the oldest image.
    pub fn replay_debt(&self) -> u64 {
        self.debt.bytes()
    }

    /// Starts a checkpoint. Add the images of all shards that changed since their last one, or of
    /// all shards; then [`Store::finish_checkpoint`].
    ///
    /// # Errors
    /// `Full` or `Io`; the checkpoint in force stays.
    pub fn begin_checkpoint(&self) -> Result<CheckpointRound> {
        self.health.check()?;
        let number = {
            let mut ledger = self.upkeep.lock();
            ledger.last_round += 1;
            ledger.last_round
        };
        CheckpointRound::create(Arc::clone(&self.disk), number, self.directory_id)
    }

    /// Makes a round the checkpoint in force: footers first, then the images, then the manifest.
    /// A shard that is not in the round keeps its image, and if it has not changed since, the image
    /// counts for everything that is durable now.
    ///
    /// # Errors
    /// `Full` leaves the checkpoint in force; after `Io` the store is dead.
    ///
    /// # Panics
    /// When an image holds an entry that is not durable yet: wait for it first.
    pub fn finish_checkpoint(&self, mut round: CheckpointRound) -> Result<()> {
        let mut ledger = self.upkeep.lock();
        self.health.check()?;
        // In this order: an entry up to `durable` has already touched its shard.
        let durable = self.lane.durable();
        let touched = self.lane.touched();
        let waits = round.images().iter().find(|(_, lsn, _)| *lsn > durable);
        assert!(waits.is_none(), "an image is finished only when its lsn is durable");
        while self.location.write_footer()?.is_some() {}
        let mut manifest = ledger.manifest.clone();
        let floor = manifest.floor;
        manifest.files = self.location.footed();
        if let Some((newest, footed)) = manifest.files.last().filter(|(no, _)| *no >= floor) {
            (manifest.floor, manifest.floor_lsn) = (newest + 1, footed.last_lsn.next());
        }
        let heads = (0..SHARD_COUNT).flat_map(|shard| {
            let mut heads = self.location.heads_before(shard, manifest.floor);
            heads.sort_unstable();
            heads
        });
        manifest.heads = Some(round.add_heads(&heads.collect::<Vec<_>>(), durable)?);
        round.sync()?;
        for (shard, lsn, block) in round.images() {
            // A shard that was quiet may count as saved further than its newest entry, and files up
            // to there may be gone: that never goes back.
            let saved = manifest.shards[shard.index()].lsn.max(*lsn);
            manifest.shards[shard.index()] = ShardRef { lsn: saved, image: Some(*block) };
        }
        for (saved, touched) in manifest.shards.iter_mut().zip(touched.iter()) {
            if *touched <= saved.lsn {
                saved.lsn = saved.lsn.max(durable);
            }
        }
        manifest.lsn = durable;
        manifest.newest_time = self.lane.newest_time();
        manifest.last_checkpoint = round.number();
        let adopted = self.adopt(&mut ledger, manifest);
        if adopted.as_ref().err().is_none_or(|error| error.kind != Kind::Full) {
            // Unless it is certain that no manifest names it, the file stays.
            round.keep();
        }
        adopted?;
        self.debt.cover(ledger.manifest.saved());
        checkpoint::remove_unnamed(&*self.disk, &ledger.manifest)
    }

    /// How many checkpoint files the manifest refers to. When they become many (say, 8), add all
    /// shards to the next round, so that the old ones can go.
    pub fn checkpoint_files(&self) -> usize {
        let ledger = self.upkeep.lock();
        let files: BTreeSet<_> = ledger.manifest.blocks().map(|block| block.file).collect();
        files.len()
    }

    /// Finds dead log files, those wholly below the checkpoint in which `live` says of no stream
    /// that its bytes in the given range are still needed, and gives them up. They are removed at
    /// once, or when the last pin that is older goes. Returns how many were found.
    ///
    /// # Errors
    /// `Full` when the manifest cannot be written; `Io`.
    pub fn reclaim(&self, live: &dyn Fn(StreamId, Offset, Offset) -> bool) -> Result<usize> {
        let mut ledger = self.upkeep.lock();
        self.health.check()?;
        let saved = ledger.manifest.saved();
        let mut dead = BTreeSet::new();
        for (no, footed) in &ledger.manifest.files {
            if footed.last_lsn <= saved && self.is_dead(*no, live)? {
                dead.insert(*no);
            }
        }
        if !dead.is_empty() {
            let mut manifest = ledger.manifest.clone();
            manifest.files.retain(|(no, _)| !dead.contains(no));
            self.adopt(&mut ledger, manifest)?;
            self.location.doom(&dead);
            self.pins.condemn(dead.iter().copied().map(Dead::File));
        }
        self.remove_free()?;
        Ok(dead.len())
    }

    /// A stream has ended for good: where it lies is forgotten when the readers that are under way
    /// have gone.
    pub fn forget(&self, stream: StreamId) {
        self.pins.condemn([Dead::Stream(stream)]);
    }

    /// Forgets where every stream lies that is not live: after recovery, which has seen the bytes
    /// of streams that were purged later in the log.
    pub fn retain(&self, live: &dyn Fn(StreamId) -> bool) {
        self.location.retain(live);
    }

    /// The clean stop: commits what is queued, seals the log, and leaves nothing for recovery to
    /// do. Returns the last completions. Afterwards every call that writes fails.
    ///
    /// # Errors
    /// As [`Store::commit`].
    pub fn seal(&self, now: Timestamp) -> Result<Vec<(Lsn, T)>> {
        let _ledger = self.upkeep.lock();
        let mut done = Vec::new();
        while !self.lane.is_idle() {
            done.append(&mut self.lane.commit(now)?);
        }
        self.lane.seal(now)?;
        while self.location.write_footer()?.is_some() {}
        self.health.close();
        for path in self.allocator.close() {
            self.remove(&path)?;
        }
        let synced = self.disk.sync_dir(file::DIR);
        synced.map_err(|e| Error::io(file::DIR, "syncing the directory", e))?;
        Ok(done)
    }

    /// Makes a manifest the one in force.
    pub(super) fn adopt(&self, ledger: &mut Ledger, manifest: Manifest) -> Result<()> {
        manifest.store(&*self.disk).map_err(|error| match error.kind {
            Kind::Full => error,
            // Either manifest may be the one that a restart finds, so nothing may go on.
            _ => self.health.stop(error),
        })?;
        ledger.manifest = manifest;
        Ok(())
    }

    fn is_dead(&self, no: FileNo, live: &dyn Fn(StreamId, Offset, Offset) -> bool) -> Result<bool> {
        match self.location.table(no, Wait::Fine) {
            Ok(table) => Ok(table
                .streams
                .iter()
                .all(|entry| !live(entry.stream, entry.span.first, entry.span.end()))),
            // Whatever it holds, it is kept; reading it tells about the damage.
            Err(error) if error.kind == Kind::Corrupt => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub(super) fn remove_free(&self) -> Result<bool> {
        let free = self.pins.take_free();
        for dead in &free {
            match dead {
                Dead::File(no) => {
                    self.location.drop_file(*no);
                    self.remove(&file::path(*no))?;
                }
                Dead::Segment(no) => {
                    self.location.drop_segment(*no);
                    self.remove(&segment::path(*no))?;
                }
                Dead::Stream(stream) => self.location.forget(*stream),
            }
        }
        Ok(!free.is_empty())
    }

    fn remove(&self, path: &str) -> Result<()> {
        self.disk.remove(path).map_err(|e| Error::io(path, "removing a file", e))
    }
}
