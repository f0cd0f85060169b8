//! Log files: their names, their header, and how one comes to be.

use std::io;
use std::sync::Arc;

use crate::codec::{self, Cursor};
use crate::disk::{Disk, DiskFile};
use crate::error::{Error, Result};

/// The directory of the log files.
pub(crate) const DIR: &str = "log";

/// The bytes in front of the first frame.
pub(crate) const HEADER_BYTES: u64 = HEADER_LEN as u64;
/// The same as a `usize`, for buffers.
pub(crate) const HEADER_LEN: usize = 60;

/// How much of a new file is prepared at a time.
const PREPARED_BYTES: u64 = 1 << 20;

const MAGIC: [u8; 8] = *b"HWATRLOG";
const VERSION: u32 = 1;

const _: () = assert!(HEADER_LEN == 8 + 4 + 4 + 16 + 16 + 8 + 4);

/// A log file's number: counting up for ever, across logs and restarts. 0 is no file.
pub(crate) type FileNo = u32;

/// A log file that frames are written to, or will be.
pub(crate) struct LogFile {
    pub(crate) no: FileNo,
    pub(crate) handle: Arc<dyn DiskFile>,
    /// The allocated length.
    pub(crate) size: u64,
}

/// What a file says about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) no: FileNo,
    pub(crate) log_id: u128,
    pub(crate) directory_id: u128,
    /// The length that was allocated; only a footer makes a file shorter.
    pub(crate) size: u64,
}

/// `log/0000000007.log`
pub(crate) fn path(no: FileNo) -> String {
    format!("{DIR}/{no:010}.log")
}

/// The number in a file name, if it is the name of a log file.
pub(crate) fn parse_name(name: &str) -> Option<FileNo> {
    let no = codec::digits(name.strip_suffix(".log")?, 10)?;
    // There is always a number before and one after.
    FileNo::try_from(no).ok().filter(|no| (1..FileNo::MAX).contains(no))
}

impl Header {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&self.no.to_le_bytes());
        out.extend_from_slice(&self.log_id.to_le_bytes());
        out.extend_from_slice(&self.directory_id.to_le_bytes());
        out.extend_from_slice(&self.size.to_le_bytes());
        codec::put_crc(&mut out);
        assert_eq!(out.len(), HEADER_LEN, "the layout in docs/format.md");
        out
    }

    /// The header at the start of file `no`; `None` when there is none, or not an intact one.
    ///
    /// # Errors
    /// `Format` when the file says that it is of another version.
    pub(crate) fn parse(no: FileNo, bytes: &[u8]) -> Result<Option<Self>> {
        let mut cursor = Cursor::new(bytes);
        if cursor.array() != Some(MAGIC) {
            return Ok(None);
        }
        let Some(version) = cursor.u32() else { return Ok(None) };
        // No version is 0: it is what a header torn by a crash shows.
        if version != VERSION && version != 0 {
            let detail = format!("log file version {version}, this program knows {VERSION}");
            return Err(Error::format(&path(no), detail));
        }
        let Some(intact) = bytes.get(..HEADER_LEN).and_then(codec::check_crc) else {
            return Ok(None);
        };
        Ok(Self::parse_intact(intact).filter(|header| header.no == no))
    }

    fn parse_intact(bytes: &[u8]) -> Option<Self> {
        let mut cursor = Cursor::new(bytes);
        cursor.take(12)?;
        let no = cursor.u32()?;
        let log_id = cursor.u128()?;
        let directory_id = cursor.u128()?;
        let size = cursor.u64()?;
        Some(Self { no, log_id, directory_id, size })
    }
}

/// Makes a log file of `header.size` bytes, durable with its header and its name, so that no frame
/// can ever be in a file that a crash might take away. As long as `may_prepare` agrees, it is also
/// prepared for quick syncs, from its start on.
///
/// # Errors
/// `Full` when there is no room for it; the file is gone then. After `Io` it may be there.
pub(crate) fn create(
    disk: &dyn Disk,
    header: Header,
    may_prepare: &dyn Fn() -> bool,
) -> Result<LogFile> {
    let path = path(header.no);
    let failed = |what: &str, source| Error::io(&path, what, source);
    let handle = disk.create(&path).map_err(|e| failed("creating a log file", e))?;
    let filled = handle
        .allocate(header.size)
        .and_then(|()| prepare(&*handle, header.size, may_prepare))
        .and_then(|()| handle.write_at(&header.encode(), 0))
        .and_then(|()| handle.sync())
        .and_then(|()| disk.sync_dir(DIR));
    if let Err(source) = filled {
        disk.remove(&path).map_err(|e| failed("removing a log file without room", e))?;
        return Err(failed("allocating a log file", source));
    }
    Ok(LogFile { no: header.no, handle, size: header.size })
}

/// Piece by piece, each with a sync of its own: one large sync would hold up the log's.
fn prepare(file: &dyn DiskFile, size: u64, may_go_on: &dyn Fn() -> bool) -> io::Result<()> {
    let mut done = 0;
    while done < size && may_go_on() {
        let end = size.min(done + PREPARED_BYTES);
        file.prepare(done, end)?;
        file.sync()?;
        done = end;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_log_files_have_log_file_names() {
        assert_eq!(parse_name("0000000007.log"), Some(7));
        assert_eq!(path(7), "log/0000000007.log");
        for other in [
            "7.log",
            "0000000000.log",
            "+000000007.log",
            "4294967295.log",
            "9999999999.log",
            "LOCK",
            "",
        ] {
            assert_eq!(parse_name(other), None, "{other}");
        }
    }

    #[test]
    fn a_header_comes_back_unless_a_bit_flipped() {
        let header = Header { no: 7, log_id: 1, directory_id: 2, size: 3 };
        let good = header.encode();
        assert_eq!(Header::parse(7, &good).unwrap(), Some(header));
        assert_eq!(Header::parse(8, &good).unwrap(), None);
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(!matches!(Header::parse(7, &bad), Ok(Some(_))), "bit {bit}");
        }
    }
}
