//! The store: a data directory, open.
//!
//! ```text
//! engine's shards     reserve → enqueue ─┐
//! engine's lane                          └► commit ─► completions
//! engine's readers    boundary, extent, read
//! engine's upkeep     maintain, checkpoint, reclaim, compact
//! ```
//! Nothing in here starts a thread, reads a clock or draws a random number. Locks are taken in the
//! order upkeep → writer → queue → room → index, and none of queue, room and index is ever held
//! during a disk call.

mod compact;
mod open;
mod upkeep;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use headwater_core::ids::{Lineage, Lsn, Offset, Record, ShardNo, StreamId, Timestamp};
use parking_lot::Mutex;

use crate::blob::Blobs;
use crate::disk::Disk;
use crate::entry::{DataHead, Entry};
use crate::error::Result;
use crate::health::Health;
use crate::location::Location;
use crate::log::allocator::Allocator;
use crate::log::debt::Debt;
use crate::log::lane::Lane;
use crate::log::recover::Recovery;
use crate::log::room::{Permit, Use};
use crate::pins::{Pin, Pins};
use crate::read::{Extent, Reader, Shelf};
use crate::ring::Ring;
use crate::space::Space;
pub use compact::Need;
pub(crate) use open::{DIRS, RESTORING};
use upkeep::Ledger;

/// The limits of a store.
#[derive(Debug, Clone)]
pub struct Options {
    /// Room allocated for one log file; less where free space is small, more for one large group.
    /// At most 2 GiB.
    pub log_file_bytes: u64,
    /// Free bytes that only essential use may take; by default the smaller of 256 MiB and 5 % of
    /// the disk.
    pub disk_reserve: Option<u64>,
    /// No group is added to a frame that would become longer than this; a larger group gets a
    /// frame of its own.
    pub frame_bytes_max: u64,
    /// The newest frames that are kept in memory.
    pub ring_bytes: u64,
    /// Parts of footers that are kept in memory.
    pub footer_cache_bytes: u64,
    /// Log files and segments that are kept open for reading.
    pub open_files_max: usize,
    /// Log files are compacted when so many bytes of them have left the ring and are below the
    /// checkpoint.
    pub compact_bytes: u64,
    /// One step of a compaction goes on for about so many bytes.
    pub compact_step_bytes: u64,
    /// A segment is finished once it is this long.
    pub segment_bytes: u64,
    /// A stream's bytes in one piece of this length or more are not merged again.
    pub long_run_bytes: u64,
    /// The replay debt at which the engine takes a checkpoint; storage only reports the debt.
    pub replay_bytes_max: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            log_file_bytes: 64 << 20,
            disk_reserve: None,
            frame_bytes_max: 4 << 20,
            ring_bytes: 64 << 20,
            footer_cache_bytes: 64 << 20,
            open_files_max: 256,
            compact_bytes: 256 << 20,
            compact_step_bytes: 1 << 20,
            segment_bytes: 64 << 20,
            long_run_bytes: 64 << 10,
            replay_bytes_max: 256 << 20,
        }
    }
}

/// What a start brings along, since storage has neither clock nor dice.
#[derive(Debug, Clone, Copy)]
pub struct Start {
    /// The new log's id: random, never used before.
    pub log_id: u128,
    /// The data directory's id: random, used only when the directory is new.
    pub directory_id: u128,
    /// The wall clock.
    pub now: Timestamp,
}

/// Receives what recovery finds: first every image, then the entries above them in log order. An
/// error text means that the bytes cannot be what was written, and ends the recovery as `Corrupt`.
pub trait Visitor {
    /// The saved image of a shard, which holds its every entry up to `lsn`.
    fn image(&mut self, shard: ShardNo, lsn: Lsn, image: &[u8]) -> Result<(), String>;

    /// An entry above the image of its shard.
    fn entry(
        &mut self,
        lsn: Lsn,
        shard: ShardNo,
        meta: &[u8],
        data: Option<&DataHead>,
    ) -> Result<(), String>;
}

/// An open data directory. `T` is what the engine wants back when a group is durable.
pub struct Store<T> {
    disk: Arc<dyn Disk>,
    options: Options,
    directory_id: u128,
    newest_time: Timestamp,
    recovery: Recovery,
    health: Arc<Health>,
    allocator: Arc<Allocator>,
    debt: Arc<Debt>,
    lane: Lane<T>,
    location: Arc<Location>,
    ring: Arc<Ring>,
    shelf: Arc<Shelf>,
    pins: Arc<Pins>,
    blobs: Blobs,
    space: Arc<Space>,
    /// Bytes that nobody needs any more, as far as the engine has said since the last survey.
    freed: AtomicU64,
    /// Held by whatever writes footers, segments, checkpoints or the manifest, or removes files.
    upkeep: Mutex<Ledger>,
}

impl<T: Send> Store<T> {
    // ---- facts -----------------------------------------------------------------------------

    /// The random id of the data directory.
    pub fn directory_id(&self) -> u128 {
        self.directory_id
    }

    /// The newest node time that was found at open.
    pub fn newest_time(&self) -> Timestamp {
        self.newest_time
    }

    /// What recovery found and did at open.
    pub fn recovered(&self) -> &Recovery {
        &self.recovery
    }

    /// The limits in force.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// The snapshot bodies.
    pub fn blobs(&self) -> &Blobs {
        &self.blobs
    }

    /// Whether the log runs and more than the reserve is free.
    ///
    /// # Errors
    /// `Full` in the reserve, `Io` when the log has stopped or the disk does not answer.
    pub fn check_writable(&self) -> Result<()> {
        self.health.check()?;
        self.space.check(0, Use::Normal)
    }

    /// Free bytes of the disk, the reserve included.
    ///
    /// # Errors
    /// `Io`.
    pub fn available(&self) -> Result<u64> {
        self.space.available()
    }

    /// Free bytes that only essential use may take.
    ///
    /// # Errors
    /// `Io`.
    pub fn reserve_bytes(&self) -> Result<u64> {
        self.space.reserve()
    }

    // ---- writing ---------------------------------------------------------------------------

    /// Reserves room in the log for a group of up to `bytes`, see [`crate::group_bytes`] and
    /// [`crate::room_for`]. Takes no disk call unless the allocated room has run out.
    ///
    /// # Errors
    /// `Full` when there is no room; it clears by itself. `Io` when the log has stopped.
    pub fn reserve(&self, bytes: u64, usage: Use) -> Result<Permit> {
        self.allocator.reserve(bytes, usage)
    }

    /// Queues a group; it becomes durable as a whole or not at all. Never waits for the disk. The
    /// order of the calls is the order of the lsns. `done` comes back from the `commit` that made
    /// the group durable.
    ///
    /// # Panics
    /// When the group is empty or larger than its permit, or a message length is 0 or the lengths
    /// do not cover the payload.
    pub fn enqueue(&self, permit: Permit, group: &[Entry], done: T) -> Lsn {
        self.lane.enqueue(permit, group, done)
    }

    /// Waits until something is queued, or for `timeout`. Returns whether something is.
    pub fn wait_for_work(&self, timeout: Duration) -> bool {
        self.lane.wait_for_work(timeout)
    }

    /// Takes what is queued, up to one frame, and makes it durable with one write and one sync.
    /// Returns the completions in order; none when nothing was queued.
    ///
    /// # Errors
    /// After any error the store is dead: every later call fails, and only recovery knows what is
    /// durable.
    pub fn commit(&self, now: Timestamp) -> Result<Vec<(Lsn, T)>> {
        self.lane.commit(now)
    }

    /// Everything up to here is durable and readable.
    pub fn durable(&self) -> Lsn {
        self.lane.durable()
    }

    /// The bytes of all frames that were committed since the start.
    pub fn committed_bytes(&self) -> u64 {
        self.lane.committed_bytes()
    }

    /// The newest lsn that was handed out.
    pub fn enqueued(&self) -> Lsn {
        self.lane.enqueued()
    }

    // ---- reading ---------------------------------------------------------------------------

    /// The ordinal of the message that starts at `offset`, if one does. The end of the stream,
    /// `tail`, counts as the start of message `next`; bytes below `lineage.end` belong to the
    /// ancestors.
    ///
    /// # Errors
    /// `Corrupt` when the bytes around `offset` are damaged or gone, `Io` when they cannot be read.
    pub fn boundary(
        &self,
        stream: StreamId,
        lineage: Option<&Lineage>,
        offset: Offset,
        tail: Offset,
        next: Record,
    ) -> Result<Option<Record>> {
        // Between finding a file and opening it, nobody may remove it.
        let _pin = self.pin();
        match offset.cmp(&tail) {
            std::cmp::Ordering::Less => self.shelf.boundary(stream, lineage, offset),
            std::cmp::Ordering::Equal => Ok(Some(next)),
            std::cmp::Ordering::Greater => Ok(None),
        }
    }

    /// Where message `record` starts. The stream has messages below `next` and ends at `tail`,
    /// which is the answer for `next` itself and anything beyond.
    ///
    /// # Errors
    /// As [`Store::boundary`].
    pub fn offset_of(
        &self,
        stream: StreamId,
        lineage: Option<&Lineage>,
        record: Record,
        tail: Offset,
        next: Record,
    ) -> Result<Offset> {
        if record >= next {
            return Ok(tail);
        }
        if record == Record(0) {
            return Ok(Offset::ZERO);
        }
        let _pin = self.pin();
        self.shelf.offset_of(stream, lineage, record)
    }

    /// Whole messages from the boundary `from` up to the boundary `upto`: as many as fit in
    /// `bytes_max`, but at least one.
    ///
    /// # Errors
    /// As [`Store::boundary`].
    pub fn extent(
        &self,
        stream: StreamId,
        lineage: Option<&Lineage>,
        from: Offset,
        upto: Offset,
        bytes_max: u64,
    ) -> Result<Extent> {
        self.extent_within(stream, lineage, from, upto, bytes_max, u64::MAX)
    }

    /// The same with a limit on the number of messages, too.
    ///
    /// # Errors
    /// As [`Store::boundary`].
    pub fn extent_within(
        &self,
        stream: StreamId,
        lineage: Option<&Lineage>,
        from: Offset,
        upto: Offset,
        bytes_max: u64,
        messages_max: u64,
    ) -> Result<Extent> {
        let _pin = self.pin();
        self.shelf.extent(stream, lineage, [from, upto], bytes_max, messages_max)
    }

    /// Reads the bytes between two boundaries that are durable. The reader holds a [`Pin`].
    pub fn read(
        &self,
        stream: StreamId,
        lineage: Option<&Lineage>,
        from: Offset,
        to: Offset,
    ) -> Reader {
        Reader::new(Arc::clone(&self.shelf), self.pin(), stream, lineage, [from, to])
    }

    /// Keeps every log file that is not dead yet from being removed.
    pub fn pin(&self) -> Pin {
        self.pins.pin()
    }
}
