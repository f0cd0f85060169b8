//! Following a log: which frame comes next, and what a file held.

use std::ops::Range;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use headwater_core::ids::{Lsn, SHARD_COUNT, Timestamp};

use super::{Scanned, index_of};
use crate::error::{Error, Result};
use crate::log::file::{self, FileNo, LogFile};
use crate::log::footer::Summary;
use crate::log::frame::{self, Defect, Frame};
use crate::log::group::Placed;

/// How far the log has been followed.
pub(super) struct Chain {
    /// The log of the newest file.
    log: Option<Log>,
    /// The newest group.
    pub(super) last: Lsn,
    pub(super) time: Timestamp,
    pub(super) touched: Box<[Lsn; SHARD_COUNT]>,
    pub(super) groups: u64,
    /// Files with frames that need a footer, or have one, in order.
    pub(super) files: Vec<Ended>,
}

/// A log that is being followed.
struct Log {
    id: u128,
    /// The slot and checksum that the next frame continues; none while any would do.
    expected: Option<(u64, u32)>,
    sealed: bool,
}

/// A file with frames.
pub(super) struct Ended {
    pub(super) file: Arc<LogFile>,
    pub(super) summary: Summary,
    pub(super) footed: bool,
    /// Its length is less than was allocated.
    pub(super) shortened: bool,
    /// The last frame: where it lies, and its bytes.
    pub(super) last_frame: (u64, Bytes),
    /// The file as it was read.
    pub(super) bytes: Bytes,
}

/// The frames of one file, while it is read.
pub(super) struct Frames {
    pub(super) summary: Option<Summary>,
    pub(super) placed: Vec<Placed>,
    pub(super) last_frame: Range<usize>,
    /// Where the next frame would be.
    pub(super) end: usize,
}

impl Default for Frames {
    fn default() -> Self {
        let end = index_of(file::HEADER_BYTES);
        Self { summary: None, placed: Vec::new(), last_frame: end..end, end }
    }
}

impl Frames {
    pub(super) fn add(&mut self, scanned: &Scanned, frame: &Frame) {
        self.last_frame = self.end..self.end + frame.len;
        self.end += frame.len;
        let after = Summary::after(scanned.no, &frame.header, frame.crc, self.end as u64);
        let first_lsn = self.summary.map_or(after.first_lsn, |summary| summary.first_lsn);
        self.summary = Some(Summary { first_lsn, ..after });
    }

    pub(super) fn last_lsn(&self) -> Lsn {
        self.summary.map_or(Lsn::ZERO, |summary| summary.last_lsn)
    }

    pub(super) fn ended(&self, scanned: &Scanned) -> Option<Ended> {
        let (no, handle, size) = (scanned.no, Arc::clone(&scanned.handle), scanned.len);
        Some(Ended {
            file: Arc::new(LogFile { no, handle, size }),
            summary: self.summary?,
            footed: scanned.trailer.is_some(),
            shortened: scanned.header.is_some_and(|header| scanned.len < header.size),
            last_frame: (
                self.last_frame.start as u64,
                scanned.bytes.slice(self.last_frame.clone()),
            ),
            bytes: scanned.bytes.clone(),
        })
    }
}

impl Ended {
    /// Where its log ends.
    pub(super) fn end(&self) -> (FileNo, u64) {
        (self.file.no, self.summary.frames_end)
    }

    /// Only the newest file's bytes are needed once it was read. Returns their memory, unless a
    /// part of them is still in use.
    pub(super) fn let_go(&mut self) -> Option<BytesMut> {
        self.last_frame.1 = Bytes::new();
        std::mem::take(&mut self.bytes).try_into_mut().ok()
    }
}

impl Chain {
    /// Nothing was read yet; the next group is `first`.
    pub(super) fn new(first: Lsn, time: Timestamp) -> Self {
        let last = Lsn(first.0.saturating_sub(1));
        let touched = Box::new([Lsn::ZERO; SHARD_COUNT]);
        Self { log: None, last, time, touched, groups: 0, files: Vec::new() }
    }

    pub(super) fn is_sealed(&self) -> bool {
        self.files.last().is_some_and(|ended| ended.summary.sealed)
    }

    /// A file of log `log_id` comes next.
    pub(super) fn enter(&mut self, log_id: u128, no: FileNo) -> Result<()> {
        match &self.log {
            Some(log) if log.id == log_id => return Ok(()),
            // Nothing is known of what came before the first file.
            None => {
                self.log = Some(Log { id: log_id, expected: None, sealed: false });
                return Ok(());
            }
            Some(_) => {}
        }
        if let (Some(ended), false) = (self.files.last(), self.is_sealed()) {
            let path = file::path(ended.file.no);
            let detail = format!("the log has no seal, but file {no} belongs to a later log");
            return Err(Error::corrupt(&path, ended.summary.frames_end, detail));
        }
        self.log = Some(Log { id: log_id, expected: Some((0, 0)), sealed: false });
        Ok(())
    }

    /// The frame at `position`, if it is the one that continues the log.
    pub(super) fn next_frame(&self, scanned: &Scanned, position: usize) -> Result<Option<Frame>> {
        let log = self.log.as_ref().expect("a log was entered");
        if log.sealed {
            return Ok(None);
        }
        let path = file::path(scanned.no);
        let rest = scanned.bytes.get(position..).unwrap_or_default();
        let frame = match frame::parse(rest, log.id) {
            Ok(frame) => frame,
            Err(Defect::Absent | Defect::Checksum) => return Ok(None),
            Err(Defect::Version(version)) => {
                return Err(Error::format(&path, format!("a frame of version {version}")));
            }
        };
        let Frame { header, .. } = &frame;
        let continues = log.expected.is_none_or(|next| next == (header.slot, header.prev_crc));
        if !continues {
            return Ok(None);
        }
        let first = header.first_lsn;
        if first != self.last.next() {
            let last = self.last.0;
            let detail = format!("lsn {} follows lsn {last}: a file is missing", first.0);
            return Err(Error::corrupt(&path, position as u64, detail));
        }
        Ok(Some(frame))
    }

    pub(super) fn advance(&mut self, frame: &Frame) {
        let log = self.log.as_mut().expect("a frame was found in a log");
        log.expected = Some((frame.header.slot + 1, frame.crc));
        log.sealed = frame.header.seal;
        let groups = u64::from(frame.header.groups);
        self.last = Lsn(frame.header.first_lsn.0 + groups - 1);
        self.time = self.time.max(frame.header.time);
        self.groups += groups;
    }
}
