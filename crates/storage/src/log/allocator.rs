//! Log files ahead of need: allocating one may take a while, so nobody who holds a lock of the
//! lane ever waits for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::file::{self, FileNo, Header, LogFile};
use super::room::{FIXED_BYTES, Permit, Room, Use};
use crate::disk::Disk;
use crate::error::{Error, Kind, Result};
use crate::health::Health;
use crate::log::group::GROUP_BYTES_MAX;
use crate::space::Space;

/// A log file is at most this part of the free space, so that a small disk is not one file.
const FREE_SHARE: u64 = 16;
/// But it is not made smaller than this for lack of space.
const FILE_BYTES_MIN: u64 = 256 << 10;
/// The first file of a log is this large, since a start waits for it to be prepared.
const FIRST_FILE_BYTES: u64 = 4 << 20;
/// Allocated room that only essential use may have: this much, or this part of a file.
const HELD_BACK_BYTES: u64 = 64 << 10;
const HELD_BACK_SHARE: u64 = 16;

/// Makes log files and gives out permits for the room in them.
pub(crate) struct Allocator {
    disk: Arc<dyn Disk>,
    space: Arc<Space>,
    health: Arc<Health>,
    log_file_bytes: u64,
    log_id: u128,
    directory_id: u128,
    room: Arc<Mutex<Room>>,
    /// Held while a file is made, so that two threads in need make one.
    next_no: Mutex<FileNo>,
    /// How many wait for `next_no` because they need a file at once.
    in_need: AtomicUsize,
}

impl Allocator {
    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        space: Arc<Space>,
        health: Arc<Health>,
        log_file_bytes: u64,
        [log_id, directory_id]: [u128; 2],
        next_no: FileNo,
    ) -> Self {
        let held_back = HELD_BACK_BYTES.min(log_file_bytes / HELD_BACK_SHARE);
        let room = Arc::new(Mutex::new(Room::new(held_back)));
        let next_no = Mutex::new(next_no);
        let in_need = AtomicUsize::new(0);
        Self { disk, space, health, log_file_bytes, log_id, directory_id, room, next_no, in_need }
    }

    pub(crate) fn room(&self) -> &Mutex<Room> {
        &self.room
    }

    /// See [`crate::Store::reserve`].
    pub(crate) fn reserve(&self, bytes: u64, usage: Use) -> Result<Permit> {
        self.health.check()?;
        if bytes > GROUP_BYTES_MAX {
            let detail = format!("a group has at most {GROUP_BYTES_MAX} bytes, not {bytes}");
            return Err(Error::full(detail));
        }
        if let Some(permit) = Room::reserve(&self.room, bytes, usage) {
            return Ok(permit);
        }
        self.in_need.fetch_add(1, Ordering::Relaxed);
        let mut next_no = self.next_no.lock();
        self.in_need.fetch_sub(1, Ordering::Relaxed);
        loop {
            if let Some(permit) = Room::reserve(&self.room, bytes, usage) {
                return Ok(permit);
            }
            self.add_file(&mut next_no, [self.log_file_bytes, bytes], usage, &|| false)?;
        }
    }

    /// Allocates the next file if it is time to and the disk has room, and prepares it as long as
    /// nobody needs it at once. Returns whether there is one more.
    pub(crate) fn allocate_ahead(&self) -> Result<bool> {
        if !self.room.lock().wants_file() {
            return Ok(false);
        }
        let mut next_no = self.next_no.lock();
        if !self.room.lock().wants_file() {
            return Ok(false);
        }
        let is_first = self.room.lock().front().is_none();
        let size_max = if is_first { FIRST_FILE_BYTES } else { u64::MAX };
        let sizes = [self.log_file_bytes.min(size_max), 0];
        let is_worth_it = is_first || !self.room.lock().has_long_frames();
        let may_prepare = || is_worth_it && self.in_need.load(Ordering::Relaxed) == 0;
        match self.add_file(&mut next_no, sizes, Use::Normal, &may_prepare) {
            Ok(()) => Ok(true),
            // Whoever needs the room is told; it is there again when space comes back.
            Err(error) if error.kind == Kind::Full => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Adds a file of so many bytes, if they are to be had, but with room for a group of so many.
    fn add_file(
        &self,
        next_no: &mut FileNo,
        [size, bytes]: [u64; 2],
        usage: Use,
        may_prepare: &dyn Fn() -> bool,
    ) -> Result<()> {
        let least = self.room.lock().wanted(bytes) + file::HEADER_BYTES + FIXED_BYTES;
        let share = (self.space.available()? / FREE_SHARE).max(FILE_BYTES_MIN);
        let size = size.min(share).max(least);
        self.space.check(size, usage)?;
        let Self { log_id, directory_id, .. } = *self;
        let header = Header { no: *next_no, log_id, directory_id, size };
        let made = file::create(&*self.disk, header, may_prepare);
        let file = made.map_err(|error| match error.kind {
            Kind::Full => error,
            // A file that may or may not be there has no place in the log.
            _ => self.health.stop(error),
        })?;
        *next_no += 1;
        self.room.lock().add(Arc::new(file));
        Ok(())
    }

    /// Lets go of the room; returns the path of every file that never got a frame.
    pub(crate) fn close(&self) -> Vec<String> {
        self.room.lock().close().into_iter().map(file::path).collect()
    }

    /// The paths of files that were passed over and can be removed.
    pub(crate) fn take_skipped(&self) -> Vec<String> {
        self.room.lock().take_skipped().into_iter().map(file::path).collect()
    }

    /// The file and position behind everything that was placed.
    pub(crate) fn front(&self) -> Option<(Arc<LogFile>, u64)> {
        self.room.lock().front()
    }
}
