//! Background work, one bounded step at a time: expiry, purges, snapshot bodies that nobody names,
//! checkpoints, log files without a live byte, and compaction.

use std::sync::atomic::Ordering;

use headwater_core::command::Command;
use headwater_core::ids::{Lsn, Offset, StreamId, StreamName, Timestamp};
use headwater_core::state::Now;
use headwater_storage::{Error, Need};

use super::shard::Shard;
use super::{Engine, Round};

/// How many streams one step ends or renews.
const STREAMS_A_STEP: usize = 256;

/// How long to wait between attempts to gain room on a full disk, in milliseconds.
const PRESSED_REST_MS: u64 = 500;

/// With more checkpoint files than this, a checkpoint writes every shard, so that old files go.
const CHECKPOINT_FILES_MAX: usize = 8;

impl Engine {
    /// Does one step of background work; false when there was nothing to do.
    pub fn maintain(&self) -> Result<bool, Error> {
        let mut busy = self.store.maintain()?;
        busy |= self.expire_due();
        busy |= self.purge_one();
        busy |= self.remove_blob();
        busy |= self.checkpoint_if_due()?;
        busy |= self.compact()?;
        Ok(busy)
    }

    /// Does one step of compaction.
    pub fn compact(&self) -> Result<bool, Error> {
        self.store.compact(&|stream, start, end| {
            let shard = self.shard(stream.shard()).lock();
            let stream = shard.state.stream(stream);
            Need {
                from: stream.and_then(|stream| stream.needed_from(start, end)),
                older: stream.is_some_and(|stream| stream.needs(Offset::ZERO, start)),
            }
        })
    }

    /// Ends streams whose lifetime is over, and records that live readers keep others alive.
    pub(crate) fn expire_due(&self) -> bool {
        // Whoever needs exact counts waits for a sweep that is under way.
        let _sweep = self.sweep.lock();
        let now = self.now();
        if now.node.0 < self.quiet_until.load(Ordering::Acquire) {
            return false;
        }
        self.quiet_until.store(u64::MAX, Ordering::Release);
        let mut busy = false;
        for shard in &self.shards {
            let mut shard = shard.lock();
            let due = take_due(&mut shard, now);
            busy |= !due.is_empty();
            let mut over: Vec<StreamName> = Vec::new();
            let mut kept: Vec<StreamId> = Vec::new();
            for id in due {
                let Some(stream) = shard.state.stream(id) else { continue };
                if !stream.hidden && stream.expired(now) {
                    over.push(stream.name.clone());
                } else {
                    // No deadline: live readers hold the window.
                    kept.extend(stream.deadline().is_none().then_some(id));
                    self.arm(&mut shard, id, now);
                }
            }
            if let Some((at, _)) = shard.due.first() {
                self.quiet_until.fetch_min(at.0, Ordering::AcqRel);
            }
            drop(shard);
            for name in over {
                self.background(&Command::Expire(name));
            }
            for id in kept {
                self.background(&Command::Renew(id));
            }
        }
        busy
    }

    fn purge_one(&self) -> bool {
        let Some(id) = self.backlog.lock().purges.pop_front() else { return false };
        if self.background(&Command::Purge(id)) {
            return true;
        }
        self.backlog.lock().purges.push_back(id);
        false
    }

    fn remove_blob(&self) -> bool {
        let Some(blob) = self.backlog.lock().blobs.pop_front() else { return false };
        if let Err(error) = self.store.blobs().remove(blob) {
            tracing::warn!(%blob, %error, "a superseded snapshot stays on disk until the restart");
        }
        true
    }

    /// Submits a command that nobody waits for; false when there was no room for it.
    pub(super) fn background(&self, command: &Command) -> bool {
        self.submit(command)
            .inspect_err(|fault| tracing::warn!(%fault, "background work is put off"))
            .is_ok()
    }

    /// Notes when `id` is to be looked at.
    pub(super) fn arm(&self, shard: &mut Shard, id: StreamId, now: Now) {
        if let Some(at) = shard.arm(id, now) {
            self.quiet_until.fetch_min(at.0, Ordering::AcqRel);
        }
    }

    fn checkpoint_if_due(&self) -> Result<bool, Error> {
        if self.round.lock().is_some() {
            return self.finish_checkpoint();
        }
        let debt = self.store.replay_debt();
        let wanted = debt > 0 && self.store.wants_checkpoint();
        let pressed = self.is_pressed();
        if pressed {
            // On a small disk the newest files may be all that there are.
            self.store.forget_newest();
        }
        if debt < self.replay_bytes_max && !wanted && !pressed {
            return Ok(false);
        }
        if debt == 0 {
            return Ok(self.reclaim()? > 0);
        }
        self.begin_checkpoint()?;
        Ok(true)
    }

    /// Whether a write lately found no room: what was deleted since may give some, but only files
    /// below a checkpoint can go.
    fn is_pressed(&self) -> bool {
        let now = self.now().node.0;
        let rested = now >= self.pressed_until.load(Ordering::Acquire);
        let pressed = rested && self.pressed.swap(false, Ordering::AcqRel);
        if pressed {
            self.pressed_until.store(now + PRESSED_REST_MS, Ordering::Release);
        }
        pressed
    }

    /// Notes that a write found no room.
    pub(super) fn press(&self) {
        self.pressed.store(true, Ordering::Release);
    }

    /// Takes the images of all shards that changed, holding one shard at a time.
    pub fn begin_checkpoint(&self) -> Result<(), Error> {
        let all = self.store.checkpoint_files() > CHECKPOINT_FILES_MAX;
        let mut images = self.store.begin_checkpoint()?;
        let (mut newest, mut positions) = (Lsn::ZERO, Vec::new());
        for shard in &self.shards {
            let shard = shard.lock();
            if shard.applied > shard.checkpointed || (all && shard.applied > Lsn::ZERO) {
                let (image, lsn) = (shard.state.image(), shard.applied);
                let no = shard.state.shard();
                drop(shard);
                images.add(no, lsn, &image)?;
                newest = newest.max(lsn);
                positions.push((no, lsn));
            }
        }
        *self.round.lock() = Some(Round { images, newest, positions });
        Ok(())
    }

    /// Makes the images the newest checkpoint once the log is durable up to all of them; false
    /// while it is not.
    pub fn finish_checkpoint(&self) -> Result<bool, Error> {
        let mut slot = self.round.lock();
        if slot.as_ref().is_none_or(|round| self.store.durable() < round.newest) {
            return Ok(false);
        }
        let Some(round) = slot.take() else { return Ok(false) };
        self.store.finish_checkpoint(round.images)?;
        for (no, lsn) in round.positions {
            self.shard(no).lock().checkpointed = lsn;
        }
        self.reclaim()?;
        Ok(true)
    }

    /// Gives up log files below the checkpoint in which nothing is needed; returns how many.
    fn reclaim(&self) -> Result<usize, Error> {
        self.store.reclaim(&|stream, _start, end| {
            let shard = self.shard(stream.shard()).lock();
            // The state may know of a delete or a boundary that a crash would take back: bytes go
            // only by decisions that are durable. And a stream's files go oldest first, since each
            // is found by way of the next: a fork may need old bytes when newer ones are dead.
            shard.applied > self.store.durable()
                || shard.state.stream(stream).is_some_and(|live| live.needs(Offset::ZERO, end))
        })
    }
}

fn take_due(shard: &mut Shard, now: Now) -> Vec<StreamId> {
    let mut due = Vec::new();
    while due.len() < STREAMS_A_STEP
        && let Some(&(at, id)) = shard.due.first()
        && at <= Timestamp(now.node.0)
    {
        shard.due.pop_first();
        due.push(id);
    }
    due
}
