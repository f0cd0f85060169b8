//! The real disk: one directory of the operating system, locked for this process. The only place
//! that opens files.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{FallocateFlags, fallocate, statvfs};
use rustix::io::{ReadWriteFlags, preadv2};

use super::{Disk, DiskFile};
use crate::error::{Error, Kind, Place, Result};
use crate::manifest;

/// A directory on a local file system. Holding one holds the exclusive lock on it.
pub struct OsDisk {
    root: PathBuf,
    /// Nothing can be changed through it.
    read_only: bool,
    /// Released by the operating system when the process ends, however it ends.
    _lock: Option<File>,
}

struct OsFile(File);

/// The name of the file whose lock keeps a second process out.
const LOCK: &str = "LOCK";

/// Zeroes written at a time where the file system cannot allocate.
const ZERO_BYTES: usize = 1 << 20;

/// Zeroes written at a time to prepare room. The kernel keeps bytes in memory in the units in which
/// they were written, and later syncs whole units: with larger ones than a page each small frame
/// would cost as much as they have.
const PAGE_BYTES: usize = 4 << 10;

impl OsDisk {
    /// Takes `dir` for this process, creating it when missing.
    ///
    /// # Errors
    /// [`Kind::Locked`] when another process holds it; [`Kind::Io`] when it cannot be made or read.
    pub fn open(dir: impl AsRef<Path>) -> Result<Self> {
        let root = dir.as_ref().to_owned();
        let failed = |source| Error::io(&root.display().to_string(), "opening", source);
        create_durably(&root).map_err(failed)?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let lock = options.open(root.join(LOCK)).map_err(failed)?;
        let locked = lock.try_lock();
        Self::locked(root, false, Some(lock), locked)
    }

    /// Looks at `dir` without changing anything in it. Others may look, too, but none may open it
    /// meanwhile. A directory that no process ever opened has no lock to hold.
    ///
    /// # Errors
    /// As [`OsDisk::open`]; [`Kind::Io`] also when there is no such directory.
    pub fn open_to_read(dir: impl AsRef<Path>) -> Result<Self> {
        let disk = Self::watch(dir)?;
        match File::open(disk.root.join(LOCK)) {
            Ok(lock) => {
                let locked = lock.try_lock_shared();
                Self::locked(disk.root, true, Some(lock), locked)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(disk),
            Err(source) => Err(Error::io(&disk.root.display().to_string(), "opening", source)),
        }
    }

    /// As [`OsDisk::open`], of a directory that has been opened before.
    ///
    /// # Errors
    /// [`Kind::Format`] when it has not, or is not there: where a disk is missing, its mount point
    /// looks like a directory that is new.
    pub fn open_existing(dir: impl AsRef<Path>) -> Result<Self> {
        if dir.as_ref().join(manifest::PATH).is_file() {
            return Self::open(dir);
        }
        let path = dir.as_ref().display().to_string();
        Err(Error::format(&path, "there is no data directory here, and one must exist"))
    }

    /// Looks at `dir` without changing anything in it, while another process may.
    ///
    /// # Errors
    /// [`Kind::Io`] when there is no such directory.
    pub fn watch(dir: impl AsRef<Path>) -> Result<Self> {
        let root = dir.as_ref().to_owned();
        let read = fs::read_dir(&root);
        read.map_err(|source| Error::io(&root.display().to_string(), "opening", source))?;
        Ok(Self { root, read_only: true, _lock: None })
    }

    fn locked(
        root: PathBuf,
        read_only: bool,
        lock: Option<File>,
        locked: std::result::Result<(), TryLockError>,
    ) -> Result<Self> {
        let path = root.display().to_string();
        match locked {
            Ok(()) => Ok(Self { root, read_only, _lock: lock }),
            Err(TryLockError::Error(source)) => Err(Error::io(&path, "opening", source)),
            Err(TryLockError::WouldBlock) => Err(Error {
                kind: Kind::Locked,
                at: Place { path, offset: None },
                detail: "another process holds this data directory".to_owned(),
                source: None,
            }),
        }
    }

    fn may_change(&self) -> io::Result<()> {
        if self.read_only { Err(io::ErrorKind::ReadOnlyFilesystem.into()) } else { Ok(()) }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }
}

/// Makes a directory and its parents so that a power cut does not take the whole tree away.
fn create_durably(dir: &Path) -> io::Result<()> {
    if dir.as_os_str().is_empty() || dir.is_dir() {
        return Ok(());
    }
    let parent = dir.parent().unwrap_or(Path::new(""));
    create_durably(parent)?;
    match fs::create_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => {}
        made => made?,
    }
    let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    File::open(parent)?.sync_all()
}

impl Disk for OsDisk {
    fn create(&self, path: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.may_change()?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        Ok(Arc::new(OsFile(options.open(self.path(path))?)))
    }

    fn open(&self, path: &str) -> io::Result<Arc<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        options.read(true).write(!self.read_only);
        Ok(Arc::new(OsFile(options.open(self.path(path))?)))
    }

    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(self.path(dir))? {
            let entry = entry?;
            let ours = !dir.is_empty() || entry.file_name() != LOCK;
            if ours && entry.file_type()?.is_file() {
                // A name that is not text is not one of ours.
                names.extend(entry.file_name().into_string().ok());
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn create_dir(&self, dir: &str) -> io::Result<()> {
        self.may_change()?;
        match fs::create_dir(self.path(dir)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            other => other,
        }
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.may_change()?;
        fs::rename(self.path(from), self.path(to))
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        self.may_change()?;
        fs::remove_file(self.path(path))
    }

    fn sync_dir(&self, dir: &str) -> io::Result<()> {
        File::open(self.path(dir))?.sync_all()
    }

    fn available(&self) -> io::Result<u64> {
        let stat = statvfs(&self.root)?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    fn capacity(&self) -> io::Result<u64> {
        let stat = statvfs(&self.root)?;
        Ok(stat.f_blocks.saturating_mul(stat.f_frsize))
    }
}

impl DiskFile for OsFile {
    fn read_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize> {
        let mut done = 0;
        while done < buf.len() {
            match self.0.read_at(&mut buf[done..], position + done as u64) {
                Ok(0) => break,
                Ok(len) => done += len,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    fn read_now(&self, buf: &mut [u8], position: u64) -> io::Result<Option<usize>> {
        let mut parts = [io::IoSliceMut::new(buf)];
        match preadv2(&self.0, &mut parts, position, ReadWriteFlags::NOWAIT) {
            Ok(read) => Ok(Some(read)),
            // Also where the kernel or the file system does not know the flag.
            Err(_would_wait) => Ok(None),
        }
    }

    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, position)
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        let old = self.0.metadata()?.len();
        if len < old {
            self.0.set_len(len)?;
        }
        if len == 0 {
            return Ok(());
        }
        match fallocate(&self.0, FallocateFlags::empty(), 0, len) {
            Err(rustix::io::Errno::OPNOTSUPP) => self.fill(old.min(len), len, ZERO_BYTES),
            other => Ok(other?),
        }
    }

    /// Room that was allocated counts as unwritten, and the first sync of a write to it also has to
    /// sync that this has changed. Written zeroes make that one write to the medium less.
    fn prepare(&self, from: u64, to: u64) -> io::Result<()> {
        self.fill(from, to, PAGE_BYTES)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }
}

impl OsFile {
    /// Writes zeroes, so many at a time; also what `allocate` means on a file system that cannot.
    fn fill(&self, from: u64, to: u64, piece: usize) -> io::Result<()> {
        let zeroes = vec![0; piece];
        let mut position = from;
        while position < to {
            let len = usize::try_from(to - position).unwrap_or(usize::MAX).min(piece);
            self.0.write_all_at(&zeroes[..len], position)?;
            position += len as u64;
        }
        Ok(())
    }
}
