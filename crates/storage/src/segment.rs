//! Segments: the log regrouped, so that a stream's bytes lie side by side.
//!
//! ```text
//! header │ bytes of stream 1 │ bytes of stream 2 │ … │ heads │ items │ table │ directory │ trailer
//! ```
//! A segment stands for a range of log files and a range of streams. What it holds of a stream are
//! **runs**, each in place of the stream's entries in some of those log files; whoever follows a
//! stream backwards from file to file finds the segment where a file was. A run is cut into
//! **blocks** of whole messages, each with the same head as an entry in the log, and all heads are
//! together behind the bytes. Segments are written once, by [`Compaction`], and never changed.

mod compact;
mod format;
mod merge;
mod table;
mod writer;

use headwater_core::ids::StreamId;

use crate::codec;
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::log::file::FileNo;
pub(crate) use compact::{Compaction, Plan, Progress, Tools};
pub(crate) use format::{BlockItem, RunEntry, TRAILER_LEN, header};
pub(crate) use merge::Runs;
pub(crate) use table::{Directory, Page, find, head_len};

/// The directory of the segments.
pub(crate) const DIR: &str = "segment";

/// A segment's number: counting up for ever.
pub(crate) type SegmentNo = u32;

/// The level of segments whose runs are long: merging them would gain nothing.
pub(crate) const LEVEL_LAST: u32 = u32::MAX;

/// What the manifest says of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) no: SegmentNo,
    /// How often its bytes were merged, or [`LEVEL_LAST`].
    pub(crate) level: u32,
    /// The log files that it stands for, from the first to the last.
    pub(crate) files: [FileNo; 2],
    /// The streams that it holds, from the first to the last.
    pub(crate) streams: [StreamId; 2],
    /// The whole file.
    pub(crate) len: u64,
}

impl Segment {
    /// Whether it may hold what log file `no` held of `stream`.
    pub(crate) fn covers(&self, stream: StreamId, no: FileNo) -> bool {
        let ([first, last], [low, high]) = (self.files, self.streams);
        first <= no && no <= last && low <= stream && stream <= high
    }
}

/// Removes segments that are not `named`: those of a compaction that did not finish, and those that
/// were replaced but not removed.
pub(crate) fn remove_unnamed(disk: &dyn Disk, named: &[Segment]) -> Result<()> {
    let failed = |source| Error::io(DIR, "removing segments", source);
    for name in disk.list(DIR).map_err(failed)? {
        let Some(no) = parse_name(&name) else { continue };
        if named.binary_search_by_key(&no, |segment| segment.no).is_err() {
            disk.remove(&path(no)).map_err(failed)?;
        }
    }
    Ok(())
}

/// Whether `bytes` begin like segment `no`, of data directory `directory_id` if that is known.
///
/// # Errors
/// `Corrupt`, and `Format` when it says that it is of another version.
pub(crate) fn check_header(no: SegmentNo, directory_id: Option<u128>, bytes: &[u8]) -> Result<()> {
    let found = format::parse_header(no, bytes)?;
    let damaged = |detail: &str| Err(Error::corrupt(&path(no), 0, detail));
    match (found, directory_id) {
        (None, _) => damaged("the header is damaged"),
        (Some(found), Some(id)) if found != id => damaged("the segment is from another directory"),
        _ => Ok(()),
    }
}

/// The trailer of segment `no` as one of directory `directory_id`; `None` when it is damaged.
///
/// # Errors
/// `Format` when it says that it is of another version.
pub(crate) fn adopt_trailer(
    no: SegmentNo,
    bytes: &[u8],
    len: u64,
    directory_id: u128,
) -> Result<Option<Vec<u8>>> {
    let trailer = format::Trailer::parse(no, bytes, len)?;
    Ok(trailer.map(|trailer| format::Trailer { directory_id, ..trailer }.encode()))
}

/// `segment/0000000007.seg`
pub(crate) fn path(no: SegmentNo) -> String {
    format!("{DIR}/{no:010}.seg")
}

/// The number in a file name, if it is the name of a segment.
pub(crate) fn parse_name(name: &str) -> Option<SegmentNo> {
    SegmentNo::try_from(codec::digits(name.strip_suffix(".seg")?, 10)?).ok()
}
