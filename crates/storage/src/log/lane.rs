//! The lane: the group-commit writer of the log.
//!
//! ```text
//! enqueue ─► queue of frames in memory ─► commit: one write, one sync ─► ring, index, durable
//! ```
//! At most one frame is ever on its way to the medium: frame n+1 is written after n is synced.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use headwater_core::ids::{Lsn, SHARD_COUNT, Timestamp};
use parking_lot::{Condvar, Mutex};

use super::allocator::Allocator;
use super::debt::Debt;
use super::file::{self, FileNo, LogFile};
use super::footer::Summary;
use super::frame::{self, HEADER_LEN};
use super::group::{self, Placed, Size};
use super::room::{Permit, Place};
use crate::entry::Entry;
use crate::error::{Error, Result};
use crate::health::Health;
use crate::location::Location;
use crate::ring::Ring;

/// A group that is at least this long gets a frame of its own, which is encoded before anybody has
/// to wait for it.
const ALONE_BYTES: u64 = 256 << 10;

/// Memory taken for a frame before its size is known, at most.
const FRAME_BYTES_EXPECTED_MAX: usize = 64 << 10;

/// The writer of one log. `T` is what the engine wants back when a group is durable.
pub(crate) struct Lane<T> {
    queue: Mutex<Queue<T>>,
    work: Condvar,
    writer: Mutex<Writer>,
    enqueued: AtomicU64,
    durable: AtomicU64,
    /// The bytes of all frames.
    committed: AtomicU64,
    frame_bytes_max: u64,
    parts: Parts,
}

/// What the lane works with.
pub(crate) struct Parts {
    pub(crate) allocator: Arc<Allocator>,
    pub(crate) health: Arc<Health>,
    pub(crate) debt: Arc<Debt>,
    pub(crate) location: Arc<Location>,
    pub(crate) ring: Arc<Ring>,
}

struct Queue<T> {
    frames: VecDeque<Pending<T>>,
    /// The newest group.
    enqueued: Lsn,
    /// The newest entry of each shard, to know which images are still true.
    touched: Box<[Lsn; SHARD_COUNT]>,
    /// Somebody waits for `work`.
    sleeping: bool,
    /// The size of the last frame, as a guess at the next.
    frame_bytes: usize,
}

/// A frame that is being collected.
struct Pending<T> {
    /// Where it goes.
    file: Arc<LogFile>,
    position: u64,
    first_lsn: Lsn,
    groups: u32,
    /// Room for the header, then the groups.
    buffer: Vec<u8>,
    /// Entries with data; positions are in `buffer`.
    placed: Vec<Placed>,
    done: Vec<(Lsn, T)>,
}

/// The end of the log on the medium.
struct Writer {
    log_id: u128,
    slot: u64,
    prev_crc: u32,
    /// The file that the last frame went to.
    file_no: FileNo,
    /// Never goes backwards.
    time: Timestamp,
}

impl<T> Lane<T> {
    /// A lane for the new log `log_id` whose first group is the one after `last`.
    pub(crate) fn new(
        parts: Parts,
        frame_bytes_max: u64,
        log_id: u128,
        last: Lsn,
        time: Timestamp,
        touched: Box<[Lsn; SHARD_COUNT]>,
    ) -> Self {
        let frames = VecDeque::new();
        let queue = Queue { frames, enqueued: last, touched, sleeping: false, frame_bytes: 0 };
        Self {
            queue: Mutex::new(queue),
            work: Condvar::new(),
            writer: Mutex::new(Writer { log_id, slot: 0, prev_crc: 0, file_no: 0, time }),
            enqueued: AtomicU64::new(last.0),
            durable: AtomicU64::new(last.0),
            committed: AtomicU64::new(0),
            frame_bytes_max,
            parts,
        }
    }

    pub(crate) fn durable(&self) -> Lsn {
        Lsn(self.durable.load(Ordering::Acquire))
    }

    pub(crate) fn enqueued(&self) -> Lsn {
        Lsn(self.enqueued.load(Ordering::Acquire))
    }

    pub(crate) fn committed_bytes(&self) -> u64 {
        self.committed.load(Ordering::Relaxed)
    }

    /// The time of the newest frame.
    pub(crate) fn newest_time(&self) -> Timestamp {
        self.writer.lock().time
    }

    /// The newest entry of each shard that was ever enqueued.
    pub(crate) fn touched(&self) -> Box<[Lsn; SHARD_COUNT]> {
        self.queue.lock().touched.clone()
    }

    /// See [`crate::Store::enqueue`].
    pub(crate) fn enqueue(&self, permit: Permit, entries: &[Entry], done: T) -> Lsn {
        group::check(entries);
        let Size { body, footer } = group::measure(entries);
        let alone = (body >= ALONE_BYTES).then(|| {
            let (mut buffer, mut placed) = (frame_buffer(body, 0), Vec::new());
            group::encode(entries, &mut buffer, &mut placed);
            (buffer, placed)
        });
        let mut queue = self.queue.lock();
        let lsn = queue.enqueued.next();
        let join = queue.frames.back().is_some_and(|frame| {
            let fits = frame.buffer.len() as u64 + body <= self.frame_bytes_max;
            alone.is_none() && fits
        });
        let place = self.parts.allocator.room().lock().place(permit, body, footer, join);
        if let Place::NewFrame { file, position } = place {
            queue.frames.push_back(Pending::starting_at(file, position, lsn));
        }
        let expected = queue.frame_bytes;
        let frame = queue.frames.back_mut().expect("a frame was open or has just been opened");
        if let Some((buffer, placed)) = alone {
            (frame.buffer, frame.placed) = (buffer, placed);
        } else {
            if frame.buffer.is_empty() {
                frame.buffer = frame_buffer(body, expected);
            }
            group::encode(entries, &mut frame.buffer, &mut frame.placed);
        }
        frame.groups += 1;
        frame.done.push((lsn, done));
        for entry in entries {
            queue.touched[entry.shard.index()] = lsn;
        }
        queue.enqueued = lsn;
        self.enqueued.store(lsn.0, Ordering::Release);
        self.wake(queue);
        lsn
    }

    /// See [`crate::Store::wait_for_work`].
    pub(crate) fn wait_for_work(&self, timeout: Duration) -> bool {
        let mut queue = self.queue.lock();
        if queue.frames.is_empty() {
            queue.sleeping = true;
            self.work.wait_for(&mut queue, timeout);
            queue.sleeping = false;
        }
        !queue.frames.is_empty()
    }

    fn wake(&self, queue: parking_lot::MutexGuard<'_, Queue<T>>) {
        let sleeping = queue.sleeping;
        drop(queue);
        if sleeping {
            self.work.notify_one();
        }
    }

    /// See [`crate::Store::commit`].
    pub(crate) fn commit(&self, now: Timestamp) -> Result<Vec<(Lsn, T)>> {
        let mut writer = self.writer.lock();
        self.parts.health.check()?;
        let next = {
            let mut queue = self.queue.lock();
            let next = queue.frames.pop_front();
            queue.frame_bytes = next.as_ref().map_or(queue.frame_bytes, |f| f.buffer.len());
            next
        };
        let Some(mut frame) = next else { return Ok(Vec::new()) };
        let (file, position) = (Arc::clone(&frame.file), frame.position);
        let last = Lsn(frame.first_lsn.0 + u64::from(frame.groups) - 1);
        let header = writer.header(frame.first_lsn, frame.groups, frame.buffer.len(), now, false);
        let summary = writer.write(&file, position, header, &mut frame.buffer);
        let summary = summary.map_err(|error| self.parts.health.stop(error))?;
        let published = self.publish(&mut writer, &file, position, summary, frame.buffer, {
            frame.placed.iter_mut().for_each(|placed| placed.shift(position));
            &frame.placed
        });
        published.map_err(|error| self.parts.health.stop(error))?;
        self.durable.store(last.0, Ordering::Release);
        Ok(frame.done)
    }

    /// Makes a durable frame readable.
    fn publish(
        &self,
        writer: &mut Writer,
        file: &Arc<LogFile>,
        position: u64,
        summary: Summary,
        buffer: Vec<u8>,
        placed: &[Placed],
    ) -> Result<()> {
        let Parts { location, ring, debt, .. } = &self.parts;
        if writer.file_no != file.no {
            location.finish_file(writer.file_no);
            writer.file_no = file.no;
        }
        self.committed.fetch_add(buffer.len() as u64, Ordering::Relaxed);
        debt.add(summary.last_lsn, buffer.len() as u64);
        ring.push(file.no, position, share(buffer));
        let added = location.add_frame(file, summary, placed);
        added.map_err(|detail| Error::corrupt(&file::path(file.no), position, detail))
    }

    /// Writes the seal: the log is complete. Nothing may be queued any more.
    pub(crate) fn seal(&self, now: Timestamp) -> Result<()> {
        let mut writer = self.writer.lock();
        self.parts.health.check()?;
        let Some((file, position)) = self.parts.allocator.front() else { return Ok(()) };
        // A log without a frame needs no seal: its file is removed.
        if writer.slot > 0 {
            let next = self.durable().next();
            let mut buffer = vec![0; HEADER_LEN];
            let header = writer.header(next, 0, buffer.len(), now, true);
            let summary = writer.write(&file, position, header, &mut buffer);
            let summary = summary.map_err(|error| self.parts.health.stop(error))?;
            self.publish(&mut writer, &file, position, summary, buffer, &[])?;
            self.parts.location.finish_file(file.no);
        }
        Ok(())
    }

    /// Whether nothing waits for a commit.
    pub(crate) fn is_idle(&self) -> bool {
        self.queue.lock().frames.is_empty()
    }
}

impl<T> Pending<T> {
    fn starting_at(file: Arc<LogFile>, position: u64, lsn: Lsn) -> Self {
        let (buffer, placed, done) = (Vec::new(), Vec::new(), Vec::new());
        Self { file, position, first_lsn: lsn, groups: 0, buffer, placed, done }
    }
}

impl Writer {
    fn header(
        &mut self,
        first_lsn: Lsn,
        groups: u32,
        frame_len: usize,
        now: Timestamp,
        seal: bool,
    ) -> frame::Header {
        self.time = self.time.max(now);
        frame::Header {
            log_id: self.log_id,
            slot: self.slot,
            prev_crc: self.prev_crc,
            first_lsn,
            groups,
            body_len: u32::try_from(frame_len - HEADER_LEN).expect("below GROUP_BYTES_MAX"),
            time: self.time,
            seal,
        }
    }

    /// One write, one sync.
    fn write(
        &mut self,
        file: &LogFile,
        position: u64,
        header: frame::Header,
        buffer: &mut [u8],
    ) -> Result<Summary> {
        let crc = frame::finish(buffer, &header);
        let written = file.handle.write_at(buffer, position).and_then(|()| file.handle.sync());
        written.map_err(|e| Error::io(&file::path(file.no), "committing a frame", e))?;
        self.slot += 1;
        self.prev_crc = crc;
        Ok(Summary::after(file.no, &header, crc, position + buffer.len() as u64))
    }
}

impl Placed {
    /// Turns a position in a frame into one in the file.
    fn shift(&mut self, frame: u64) {
        let frame = u32::try_from(frame).expect("a log file has fewer than 2^32 bytes");
        self.position += frame;
    }
}

/// A buffer with room for the header, which comes last, and for `body` bytes or more.
fn frame_buffer(body: u64, expected: usize) -> Vec<u8> {
    let body = usize::try_from(body).expect("a group fits in memory");
    let mut buffer =
        Vec::with_capacity(expected.min(FRAME_BYTES_EXPECTED_MAX).max(HEADER_LEN + body));
    buffer.resize(HEADER_LEN, 0);
    buffer
}

/// Hands a buffer to the ring, without the memory that it did not use.
fn share(mut buffer: Vec<u8>) -> Bytes {
    if buffer.capacity() > buffer.len() + buffer.len() / 2 {
        buffer.shrink_to_fit();
    }
    Bytes::from(buffer)
}
