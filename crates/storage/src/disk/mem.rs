//! A disk in memory: for tests, and for a server that should forget.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};

use super::{Disk, DiskFile};

/// Files in memory with an optional size limit. Cloning shares the disk; [`MemDisk::copy`] does
/// not.
#[derive(Clone)]
pub struct MemDisk {
    tree: Arc<Mutex<Tree>>,
    room: Arc<Room>,
}

#[derive(Default)]
struct Tree {
    dirs: BTreeSet<String>,
    files: BTreeMap<String, Arc<MemFile>>,
}

/// The room that all files of one disk share. Only lengths count.
struct Room {
    capacity: AtomicU64,
    used: AtomicU64,
}

struct MemFile {
    bytes: RwLock<Vec<u8>>,
    room: Arc<Room>,
}

impl MemDisk {
    /// A disk without a practical limit.
    pub fn new() -> Self {
        Self::with_capacity(u64::MAX / 2)
    }

    /// A disk that is full when its files have `bytes` together.
    pub fn with_capacity(bytes: u64) -> Self {
        let room = Room { capacity: AtomicU64::new(bytes), used: AtomicU64::new(0) };
        Self { tree: Arc::default(), room: Arc::new(room) }
    }

    /// Changes the size of the disk, as if somebody else freed or took room.
    pub fn set_capacity(&self, bytes: u64) {
        self.room.capacity.store(bytes, Ordering::SeqCst);
    }

    /// A second disk with the same content and a life of its own.
    #[must_use]
    pub fn copy(&self) -> Self {
        let copy = Self::with_capacity(self.room.capacity.load(Ordering::SeqCst));
        {
            let (from, mut to) = (self.tree.lock(), copy.tree.lock());
            to.dirs.clone_from(&from.dirs);
            for (path, file) in &from.files {
                let bytes = file.bytes.read().clone();
                copy.room.used.fetch_add(bytes.len() as u64, Ordering::SeqCst);
                let room = Arc::clone(&copy.room);
                to.files
                    .insert(path.clone(), Arc::new(MemFile { bytes: RwLock::new(bytes), room }));
            }
        }
        copy
    }

    /// Every file with its content, sorted by path.
    pub fn contents(&self) -> Vec<(String, Vec<u8>)> {
        let tree = self.tree.lock();
        tree.files.iter().map(|(path, file)| (path.clone(), file.bytes.read().clone())).collect()
    }
}

impl Default for MemDisk {
    fn default() -> Self {
        Self::new()
    }
}

impl Disk for MemDisk {
    fn create(&self, path: &str) -> io::Result<Arc<dyn DiskFile>> {
        let mut tree = self.tree.lock();
        tree.require_parent(path)?;
        if tree.files.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let file = MemFile { bytes: RwLock::default(), room: Arc::clone(&self.room) };
        let file = Arc::new(file);
        tree.files.insert(path.to_owned(), Arc::clone(&file));
        Ok(file)
    }

    fn open(&self, path: &str) -> io::Result<Arc<dyn DiskFile>> {
        let tree = self.tree.lock();
        let file = tree.files.get(path).ok_or(io::ErrorKind::NotFound)?;
        Ok(Arc::clone(file) as _)
    }

    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        let tree = self.tree.lock();
        tree.require_dir(dir)?;
        let names = tree.files.keys().filter_map(|path| match (dir, path.rsplit_once('/')) {
            ("", None) => Some(path.clone()),
            (dir, Some((parent, name))) if parent == dir => Some(name.to_owned()),
            _ => None,
        });
        Ok(names.collect())
    }

    fn create_dir(&self, dir: &str) -> io::Result<()> {
        let mut tree = self.tree.lock();
        tree.require_parent(dir)?;
        tree.dirs.insert(dir.to_owned());
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut tree = self.tree.lock();
        tree.require_parent(to)?;
        let file = tree.files.remove(from).ok_or(io::ErrorKind::NotFound)?;
        tree.files.insert(to.to_owned(), file);
        Ok(())
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        self.tree.lock().files.remove(path).ok_or(io::ErrorKind::NotFound)?;
        Ok(())
    }

    fn sync_dir(&self, dir: &str) -> io::Result<()> {
        self.tree.lock().require_dir(dir)
    }

    fn available(&self) -> io::Result<u64> {
        let used = self.room.used.load(Ordering::SeqCst);
        Ok(self.room.capacity.load(Ordering::SeqCst).saturating_sub(used))
    }

    fn capacity(&self) -> io::Result<u64> {
        Ok(self.room.capacity.load(Ordering::SeqCst))
    }
}

impl Tree {
    fn require_dir(&self, dir: &str) -> io::Result<()> {
        let known = dir.is_empty() || self.dirs.contains(dir);
        if known { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }
    }

    fn require_parent(&self, path: &str) -> io::Result<()> {
        self.require_dir(path.rsplit_once('/').map_or("", |(parent, _)| parent))
    }
}

impl MemFile {
    /// Takes or gives back room for a new length; the caller holds the file's bytes.
    fn resize(&self, bytes: &mut Vec<u8>, len: u64) -> io::Result<()> {
        let old = bytes.len() as u64;
        if len > old {
            let used = self.room.used.fetch_add(len - old, Ordering::SeqCst) + (len - old);
            if used > self.room.capacity.load(Ordering::SeqCst) {
                self.room.used.fetch_sub(len - old, Ordering::SeqCst);
                return Err(io::ErrorKind::StorageFull.into());
            }
        } else {
            self.room.used.fetch_sub(old - len, Ordering::SeqCst);
        }
        bytes.resize(to_usize(len)?, 0);
        if len < old {
            bytes.shrink_to_fit();
        }
        Ok(())
    }
}

impl DiskFile for MemFile {
    fn read_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize> {
        let bytes = self.bytes.read();
        let start = to_usize(position)?.min(bytes.len());
        let len = buf.len().min(bytes.len() - start);
        buf[..len].copy_from_slice(&bytes[start..start + len]);
        Ok(len)
    }

    fn read_now(&self, buf: &mut [u8], position: u64) -> io::Result<Option<usize>> {
        self.read_at(buf, position).map(Some)
    }

    fn write_at(&self, new: &[u8], position: u64) -> io::Result<()> {
        let mut bytes = self.bytes.write();
        let start = to_usize(position)?;
        let end = start.checked_add(new.len()).ok_or(io::ErrorKind::FileTooLarge)?;
        if end > bytes.len() {
            self.resize(&mut bytes, end as u64)?;
        }
        bytes[start..end].copy_from_slice(new);
        Ok(())
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.resize(&mut self.bytes.write(), len)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.resize(&mut self.bytes.write(), len)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes.read().len() as u64)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for MemFile {
    fn drop(&mut self) {
        self.room.used.fetch_sub(self.bytes.get_mut().len() as u64, Ordering::SeqCst);
    }
}

fn to_usize(value: u64) -> io::Result<usize> {
    usize::try_from(value).map_err(|_too_large| io::ErrorKind::FileTooLarge.into())
}
