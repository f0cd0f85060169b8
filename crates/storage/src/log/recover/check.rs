//! What a log that was read must look like, and what is a torn tail and what is damage.

use memchr::memmem;

use super::chain::{Chain, Ended};
use super::{Scanned, index_of};
use crate::error::{Error, Result};
use crate::log::file::{self, FileNo};
use crate::log::frame::{self, Defect};
use crate::manifest::Manifest;

/// What must hold when everything was read.
pub(super) fn end(manifest: &Manifest, chain: &Chain, unused: &[Scanned]) -> Result<()> {
    if let (Some(ended), false) = (chain.files.last(), chain.is_sealed()) {
        check_torn(ended, unused)?;
    }
    for scanned in unused {
        let Some(header) = scanned.header else { continue };
        if let Some(at) = frame_after(&scanned.bytes, 0, header.log_id) {
            let detail = format!("the frame at byte {at} does not continue the log");
            return Err(Error::corrupt(&file::path(scanned.no), at, detail));
        }
        // No frame goes into a file before its length is durable.
        let body = scanned.bytes.get(index_of(file::HEADER_BYTES)..).unwrap_or_default();
        if scanned.len < header.size && body.iter().any(|byte| *byte != 0) {
            let detail = "the file is shorter than it was made, and no footer explains it";
            return Err(Error::corrupt(&file::path(scanned.no), scanned.len, detail));
        }
    }
    if chain.last < manifest.lsn {
        let detail = format!(
            "the log ends at lsn {}, but lsn {} was durable when the manifest was written",
            chain.last.0, manifest.lsn.0
        );
        let (no, at) = chain.files.last().map_or((manifest.floor, 0), Ended::end);
        return Err(Error::corrupt(&file::path(no), at, detail));
    }
    Ok(())
}

/// A file without an intact header was being made when the process stopped: it must be the last,
/// and no frame can be in it.
pub(super) fn unborn(scanned: &Scanned, last_file: bool) -> Result<()> {
    let path = file::path(scanned.no);
    let frame_at = memmem::find_iter(&scanned.bytes, &frame::MAGIC)
        .find(|at| frame::parse_any(&scanned.bytes[*at..]).is_ok());
    match frame_at {
        None if last_file => Ok(()),
        None => Err(Error::corrupt(&path, 0, "the header is damaged, but there are later files")),
        Some(at) => {
            let detail = format!("the header is damaged, but there is a frame at byte {at}");
            Err(Error::corrupt(&path, 0, detail))
        }
    }
}

/// A footer says how its file ends, and must be right.
pub(super) fn trailer(scanned: &Scanned, ended: &Ended) -> Result<()> {
    let Some(trailer) = &scanned.trailer else { return Ok(()) };
    if trailer.summary == ended.summary {
        return Ok(());
    }
    Err(frames_missing(scanned.no, ended.summary.frames_end, trailer.summary.frames_end))
}

pub(super) fn frames_missing(no: FileNo, end: u64, expected: u64) -> Error {
    let detail = format!("the frames do not end as the footer says, which is at byte {expected}");
    Error::corrupt(&file::path(no), end, detail)
}

/// The end of an unsealed log is a torn tail only if no frame of the same log follows.
fn check_torn(ended: &Ended, unused: &[Scanned]) -> Result<()> {
    let (no, end) = ended.end();
    if ended.footed {
        let detail = "the file was finished, so a frame must follow, but none does";
        return Err(Error::corrupt(&file::path(no), end, detail));
    }
    if ended.shortened {
        let detail = "the file is shorter than it was made, and no footer explains it";
        return Err(Error::corrupt(&file::path(no), end, detail));
    }
    let id = ended.summary.log_id;
    let here = frame_after(&ended.bytes, index_of(end), id).map(|at| (no, at));
    let there = || {
        let mut later = unused.iter().filter(|scanned| scanned.no > no);
        later.find_map(|scanned| Some((scanned.no, frame_after(&scanned.bytes, 0, id)?)))
    };
    let Some((other, at)) = here.or_else(there) else { return Ok(()) };
    if other > no + 1 && unused.iter().all(|scanned| scanned.no != no + 1) {
        let detail = format!("the log file is missing, but file {other} is there");
        return Err(Error::corrupt(&file::path(no + 1), 0, detail));
    }
    let other = file::path(other);
    let detail = format!("a frame is damaged, but an intact one follows in {other} at byte {at}");
    Err(Error::corrupt(&file::path(no), end, detail))
}

/// Where a frame of log `log_id` starts in `bytes`, at `from` or later.
fn frame_after(bytes: &[u8], from: usize, log_id: u128) -> Option<u64> {
    let mut candidates = memmem::find_iter(&bytes[from..], &frame::MAGIC).map(|at| from + at);
    let intact =
        |at: &usize| matches!(frame::parse(&bytes[*at..], log_id), Ok(_) | Err(Defect::Version(_)));
    candidates.find(intact).map(|at| at as u64)
}
