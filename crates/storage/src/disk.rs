//! The seam to the medium: files by name, positioned reads and writes, and the syncs that make
//! them last.
//!
//! What survives a power cut:
//!
//! | after | this is safe |
//! |---|---|
//! | [`DiskFile::sync`] | every byte written and every length set on that file before the call |
//! | [`Disk::sync_dir`] | every create, rename and remove in that directory before the call |
//!
//! Anything else may be there, be missing, or be there in part. Two implementations are kept
//! honest by one contract suite (`tests/it/disk.rs`): [`OsDisk`] and [`MemDisk`].

mod mem;
mod os;

use std::io;
use std::sync::Arc;

pub use mem::MemDisk;
pub use os::OsDisk;

/// A directory tree of files. Paths are relative and separated by `/`; the root is `""`.
pub trait Disk: Send + Sync {
    /// Makes a new, empty file.
    ///
    /// # Errors
    /// `AlreadyExists` when the name is taken, `StorageFull` when there is no room for it.
    fn create(&self, path: &str) -> io::Result<Arc<dyn DiskFile>>;
    /// Opens an existing file for reading and writing.
    ///
    /// # Errors
    /// `NotFound` when there is none.
    fn open(&self, path: &str) -> io::Result<Arc<dyn DiskFile>>;
    /// The names of the files in `dir`, sorted; directories are left out.
    fn list(&self, dir: &str) -> io::Result<Vec<String>>;
    /// Makes a directory; fine if it exists.
    fn create_dir(&self, dir: &str) -> io::Result<()>;
    /// Renames a file, replacing `to` at one stroke if it exists.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file's name. Open handles stay readable; the room comes back when the last closes.
    fn remove(&self, path: &str) -> io::Result<()>;
    /// Makes creates, renames and removes in `dir` survive a power cut.
    fn sync_dir(&self, dir: &str) -> io::Result<()>;
    /// Free bytes that this process may use.
    fn available(&self) -> io::Result<u64>;
    /// The size of the medium in bytes.
    fn capacity(&self) -> io::Result<u64>;
}

/// One open file. Calls may come from several threads at once.
pub trait DiskFile: Send + Sync {
    /// Reads into `buf` from `position`; fewer bytes than asked for only at the end of the file.
    fn read_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize>;
    /// The same, but only as far as it takes no wait for the medium: `None` when it would, or when
    /// nobody can tell.
    fn read_now(&self, _buf: &mut [u8], _position: u64) -> io::Result<Option<usize>> {
        Ok(None)
    }
    /// Writes all of `bytes` at `position`, growing the file when needed.
    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<()>;
    /// Sets the length to `len` and makes sure that no write below it can run out of room. New
    /// bytes read as zero.
    ///
    /// # Errors
    /// `StorageFull` when there is not that much room.
    fn allocate(&self, len: u64) -> io::Result<()>;
    /// Makes later writes between two positions quick to sync, if that takes anything: what is
    /// there may be overwritten with zeroes. By default it takes nothing.
    fn prepare(&self, _from: u64, _to: u64) -> io::Result<()> {
        Ok(())
    }
    /// Sets the length; new bytes read as zero but have no room yet.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// The length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Whether there is no byte in it.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Makes the bytes and the length survive a power cut. A failed sync is never retried: the
    /// operating system may already have dropped what it could not write.
    fn sync(&self) -> io::Result<()>;
}

/// Bytes of one file other than the log's that are written before they are synced: a sync of the
/// log may have to wait for the one that is under way on the same disk, and for no more than that.
pub(crate) const SYNC_BYTES: usize = 256 << 10;

/// Reads `len` bytes; `None` when the file ends too early.
pub(crate) fn read_exactly(
    handle: &dyn DiskFile,
    at: u64,
    len: u64,
) -> io::Result<Option<Vec<u8>>> {
    // A damaged length must not become a huge allocation.
    let held = handle.len()?;
    let fits = at.checked_add(len).is_some_and(|end| end <= held);
    let (true, Ok(len)) = (fits, usize::try_from(len)) else { return Ok(None) };
    let mut bytes = vec![0; len];
    let read = handle.read_at(&mut bytes, at)?;
    Ok((read == len).then_some(bytes))
}
