//! Recovery: reads the log back, tells what it holds, and leaves it sealed and durable.
//!
//! First everything is read and checked, and nothing is changed. Only when no damage was found:
//!
//! 1. cut bytes of a torn tail are kept in a file of their own;
//! 2. what a stop right after a failed sync may have left in the page cache alone is written
//!    again in place: the last valid frame, and footers that no manifest relies on yet;
//! 3. every file that was read is synced, files without a frame are removed, and the directory is
//!    synced;
//! 4. the old log gets its seal, durable;
//! 5. finished files get their footers.
//!
//! Only then may the new log's first file come to be.

mod chain;
mod check;
mod repair;

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use headwater_core::ids::{Lsn, SHARD_COUNT, Timestamp};

use super::debt::Debt;
use super::file::{self, FileNo};
use super::footer::{self, TRAILER_BYTES, Trailer};
use super::frame::{Frame, HEADER_LEN};
use super::group::{self, Found, Placed};
use crate::disk::{Disk, DiskFile};
use crate::error::{Error, Result};
use crate::location::Location;
use crate::manifest::Manifest;
use crate::store::Visitor;
use chain::{Chain, Ended, Frames};

/// The directory that keeps cut bytes.
pub(crate) const CUT_DIR: &str = "cut";

/// What recovery found and did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recovery {
    /// The last log had ended with a seal, or there was none.
    pub clean: bool,
    /// Bytes of a torn tail that were cut: never acknowledged, but worth a line in the log.
    pub cut_bytes: u64,
    /// The files that keep the cut bytes, relative to the data directory.
    pub cut_files: Vec<String>,
    /// Log files that were read.
    pub files: u64,
    /// Groups in them.
    pub groups: u64,
}

/// What the new log starts from.
pub(crate) struct Recovered {
    pub(crate) report: Recovery,
    /// The newest group.
    pub(crate) last: Lsn,
    pub(crate) newest_time: Timestamp,
    /// The number for the next log file.
    pub(crate) next_no: FileNo,
    /// The newest entry of each shard, as far as it was read.
    pub(crate) touched: Box<[Lsn; SHARD_COUNT]>,
}

/// What recovery works with.
pub(crate) struct Recover<'a> {
    pub(crate) disk: &'a dyn Disk,
    pub(crate) manifest: &'a Manifest,
    pub(crate) location: &'a Location,
    pub(crate) debt: &'a Debt,
    pub(crate) visitor: &'a mut dyn Visitor,
    /// Memory for the next file.
    pub(crate) spare: Option<BytesMut>,
}

/// A file that is read.
struct Scanned {
    no: FileNo,
    handle: Arc<dyn DiskFile>,
    len: u64,
    bytes: Bytes,
    /// None when the header is not intact, which only a crash while it was made explains.
    header: Option<file::Header>,
    trailer: Option<Trailer>,
}

impl Recover<'_> {
    /// Reads the log, tells the visitor, repairs what an unclean stop left.
    ///
    /// # Errors
    /// `Corrupt` and `Format` leave everything as it was.
    pub(crate) fn run(mut self, now: Timestamp) -> Result<Recovered> {
        let names = self.names()?;
        let (scan, first) = self.files_to_read(&names)?;
        let mut chain = Chain::new(first, self.manifest.newest_time);
        let mut unused = Vec::new();
        for (at, no) in scan.iter().enumerate() {
            let scanned = self.load(*no)?;
            let last = at + 1 == scan.len();
            if !self.follow(&mut chain, &scanned, last)? {
                unused.push(scanned);
            }
        }
        check::end(self.manifest, &chain, &unused)?;
        self.debt.cover(self.manifest.saved());
        self.repair(chain, &unused, &names, now)
    }

    /// The numbers of all log files, rising.
    fn names(&self) -> Result<Vec<FileNo>> {
        let names = self.disk.list(file::DIR);
        let names = names.map_err(|e| Error::io(file::DIR, "listing log files", e))?;
        Ok(names.iter().filter_map(|name| file::parse_name(name)).collect())
    }

    /// The files that may hold entries above the checkpoint, or a part of the index that the
    /// checkpoint does not have, and the lsn that they must begin with.
    fn files_to_read(&self, names: &[FileNo]) -> Result<(Vec<FileNo>, Lsn)> {
        let Manifest { floor, floor_lsn, files, .. } = self.manifest;
        for (no, _) in files {
            if names.binary_search(no).is_err() {
                let detail = "the log file is missing, but the manifest names it";
                return Err(Error::corrupt(&file::path(*no), 0, detail));
            }
        }
        let saved = self.manifest.saved();
        let mut named = files.iter().skip_while(|(_, footed)| footed.last_lsn <= saved).peekable();
        let first = named.peek().map_or(*floor_lsn, |(_, footed)| footed.first_lsn);
        let newer = names.iter().copied().filter(|no| no >= floor);
        Ok((named.map(|(no, _)| *no).chain(newer).collect(), first))
    }

    fn load(&mut self, no: FileNo) -> Result<Scanned> {
        let path = file::path(no);
        let failed = |source| Error::io(&path, "reading a log file", source);
        let handle = self.disk.open(&path).map_err(failed)?;
        let len = handle.len().map_err(failed)?;
        let too_large = |_| Error::corrupt(&path, 0, "the log file is too large");
        // Files are large, and memory that the system has yet to give is slow.
        let mut bytes = self.spare.take().unwrap_or_default();
        bytes.resize(u32::try_from(len).map_err(too_large)? as usize, 0);
        let read = handle.read_at(&mut bytes, 0).map_err(failed)?;
        bytes.truncate(read);
        let header = file::Header::parse(no, &bytes)?;
        let ours = header.filter(|header| header.directory_id == self.manifest.directory_id);
        if header.is_some() && ours.is_none() {
            return Err(Error::corrupt(&path, 0, "the log file is from another data directory"));
        }
        let tail = bytes.len().saturating_sub(usize::try_from(TRAILER_BYTES).unwrap_or(0));
        let mut trailer = Trailer::parse(no, &bytes[tail..], len)?;
        if no >= self.manifest.floor && !footer::is_intact(no, &*handle) {
            // It is written again from the frames.
            trailer = None;
        }
        Ok(Scanned { no, handle, len, bytes: bytes.freeze(), header: ours, trailer })
    }

    /// Follows the log through one file. Returns whether the file holds a frame.
    fn follow(&mut self, chain: &mut Chain, scanned: &Scanned, last_file: bool) -> Result<bool> {
        let Some(header) = scanned.header else {
            return check::unborn(scanned, last_file).map(|()| false);
        };
        chain.enter(header.log_id, scanned.no)?;
        let mut frames = Frames::default();
        while let Some(frame) = chain.next_frame(scanned, frames.end)? {
            self.visit(chain, scanned, &frame, &mut frames)?;
        }
        let Some(ended) = frames.ended(scanned) else {
            let finished = scanned.trailer.as_ref().map(|trailer| trailer.summary.frames_end);
            return finished
                .map_or(Ok(false), |end| Err(check::frames_missing(scanned.no, 0, end)));
        };
        check::trailer(scanned, &ended)?;
        self.index(scanned, &ended, &frames.placed)?;
        if let Some(before) = chain.files.last_mut() {
            self.spare = before.let_go();
        }
        chain.files.push(ended);
        Ok(true)
    }

    /// Takes one frame: its entries go to the visitor, its data to `frames`.
    fn visit(
        &mut self,
        chain: &mut Chain,
        scanned: &Scanned,
        frame: &Frame,
        frames: &mut Frames,
    ) -> Result<()> {
        let start = frames.end;
        let body = start + HEADER_LEN..start + frame.len;
        let first = frame.header.first_lsn;
        let (shards, visitor) = (&self.manifest.shards, &mut *self.visitor);
        let mut visit = |group: u32, found: Found<'_>| {
            let lsn = Lsn(first.0 + u64::from(group));
            let shard = found.shard;
            chain.touched[shard.index()] = lsn;
            let (data, placed) = found.data.unzip();
            frames.placed.extend(placed);
            if lsn > shards[shard.index()].lsn {
                visitor.entry(lsn, shard, found.meta, data.as_ref())?;
            }
            Ok(())
        };
        let decoded = group::decode(&scanned.bytes, body, frame.header.groups, &mut visit);
        let at = start as u64;
        decoded.map_err(|detail| Error::corrupt(&file::path(scanned.no), at, detail))?;
        chain.advance(frame);
        frames.add(scanned, frame);
        self.debt.add(frames.last_lsn(), frame.len as u64);
        Ok(())
    }

    /// Makes the file's data known to the index, as far as the checkpoint does not have it.
    fn index(&self, scanned: &Scanned, ended: &Ended, placed: &[Placed]) -> Result<()> {
        if scanned.no < self.manifest.floor {
            return Ok(());
        }
        if ended.footed {
            for entry in placed {
                self.location.set_head(entry.stream, scanned.no);
            }
            return Ok(());
        }
        let added = self.location.add_frame(&ended.file, ended.summary, placed);
        added.map_err(|detail| Error::corrupt(&file::path(scanned.no), 0, detail))?;
        self.location.finish_file(scanned.no);
        Ok(())
    }
}

fn index_of(position: u64) -> usize {
    usize::try_from(position).expect("a log file that was read fits in memory")
}
