//! A disk with a page cache, which forgets like a real one.
//!
//! ```text
//! write ──► cache (what the process sees) ── sync ──► medium (what a power cut leaves)
//!                └─ un-synced: kept, lost or torn, each write on its own
//! ```
//!
//! [`DiskFile::sync`] moves one file's bytes and length to the medium, [`Disk::sync_dir`] the names
//! of one directory, and nothing else does. A failed sync drops what it could not write and calls
//! it clean, as Linux does: a later sync will not bring it back.

mod medium;
mod outcomes;
mod power;

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use headwater_storage::{Disk, DiskFile};
use parking_lot::Mutex;

pub use medium::Failure;
pub(crate) use medium::{Faults, Lie, Nth, SIMULATED, flip_bit};
use medium::{FileOp, Io, Medium, NameOp};

use crate::rng::Rng;
use crate::trace::Trace;

/// A handle to the disk, valid for one life of the process: once that has ended, all its handles
/// fail, so that what is dropped late cannot touch what the next life sees.
#[derive(Clone)]
pub(crate) struct FaultDisk {
    medium: Arc<Mutex<Medium>>,
    life: u64,
}

struct FaultFile {
    disk: FaultDisk,
    inode: u64,
    path: String,
}

impl FaultDisk {
    /// An empty disk of `capacity` bytes whose accidents come from `rng`.
    pub(crate) fn new(capacity: u64, rng: Rng, trace: Trace) -> Self {
        Self { medium: Arc::new(Mutex::new(Medium::new(capacity, rng, trace))), life: 0 }
    }

    /// Ends the life of the process: kill, then perhaps a power cut. Returns the next life's disk.
    #[must_use]
    pub(crate) fn crash(&self, power_cut: bool) -> Self {
        let mut medium = self.medium.lock();
        medium.end_life();
        if power_cut {
            medium.cut_power();
        }
        Self { medium: Arc::clone(&self.medium), life: medium.life }
    }

    /// A second disk with the same content, cache included, that shares nothing with this one.
    #[must_use]
    pub(crate) fn copy(&self) -> Self {
        let copy = self.medium.lock().copy();
        let life = copy.life;
        Self { medium: Arc::new(Mutex::new(copy)), life }
    }

    /// Begins to note what the disk looks like before each change.
    pub(crate) fn note_moments(&self) {
        self.medium.lock().moments = Some(Vec::new());
    }

    /// Every disk that a power cut may leave: now, or before any change since
    /// [`FaultDisk::note_moments`], each under a number of its own. True when there were too many
    /// to try all.
    pub(crate) fn outcomes(&self) -> (BTreeMap<u64, Self>, bool) {
        let mut medium = self.medium.lock();
        let mut moments = medium.moments.take().unwrap_or_default();
        moments.push(medium.copy());
        let mut outcomes = BTreeMap::new();
        let mut capped = false;
        for moment in moments {
            capped |= moment.outcomes(&mut |left| {
                let life = left.life;
                outcomes
                    .entry(left.fingerprint())
                    .or_insert_with(|| Self { medium: Arc::new(Mutex::new(left)), life });
            });
        }
        (outcomes, capped)
    }

    /// Every file with its bytes, as the process sees them.
    pub(crate) fn contents(&self) -> Vec<(String, Vec<u8>)> {
        let medium = self.medium.lock();
        let files = medium.names.iter();
        files.map(|(path, inode)| (path.clone(), medium.files[inode].cache.clone())).collect()
    }

    /// Puts other bytes into a file, at rest.
    pub(crate) fn replace(&self, path: &str, bytes: &[u8]) {
        let mut medium = self.medium.lock();
        let Some(inode) = medium.names.get(path).copied() else { return };
        let file = medium.file(inode);
        file.cache = bytes.to_vec();
        file.durable = bytes.to_vec();
        file.pending.clear();
    }

    /// Looks at or changes the medium itself.
    pub(crate) fn with<T>(&self, f: impl FnOnce(&mut Medium) -> T) -> T {
        f(&mut self.medium.lock())
    }

    fn act<T>(&self, f: impl FnOnce(&mut Medium) -> io::Result<T>) -> io::Result<T> {
        let mut medium = self.medium.lock();
        if medium.dead || medium.life != self.life {
            return Err(io::Error::other("the process of this handle has ended"));
        }
        f(&mut medium)
    }
}

impl Disk for FaultDisk {
    fn create(&self, path: &str) -> io::Result<Arc<dyn DiskFile>> {
        let inode = self.act(|medium| {
            medium.step("create", path, &[])?;
            medium.trip(Io::Grow)?;
            medium.require_parent(path)?;
            if medium.names.contains_key(path) {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            let inode = medium.new_inode();
            medium.rename_now(NameOp::Add { path: path.to_owned(), inode });
            Ok(inode)
        })?;
        Ok(Arc::new(FaultFile { disk: self.clone(), inode, path: path.to_owned() }))
    }

    fn open(&self, path: &str) -> io::Result<Arc<dyn DiskFile>> {
        let inode = self.act(|medium| {
            medium.trip(Io::Look)?;
            let inode = *medium.names.get(path).ok_or(io::ErrorKind::NotFound)?;
            medium.file(inode).open += 1;
            Ok(inode)
        })?;
        Ok(Arc::new(FaultFile { disk: self.clone(), inode, path: path.to_owned() }))
    }

    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        self.act(|medium| {
            medium.trip(Io::Look)?;
            medium.require_dir(dir)?;
            Ok(medium.names.keys().filter_map(|path| medium::name_in(dir, path)).collect())
        })
    }

    fn create_dir(&self, dir: &str) -> io::Result<()> {
        self.act(|medium| {
            medium.step("create_dir", dir, &[])?;
            medium.trip(Io::Grow)?;
            medium.require_parent(dir)?;
            if !medium.dirs.contains(dir) {
                medium.rename_now(NameOp::AddDir { path: dir.to_owned() });
            }
            Ok(())
        })
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.act(|medium| {
            medium.step("rename", to, &[])?;
            medium.trip(Io::Name)?;
            medium.require_parent(to)?;
            let inode = *medium.names.get(from).ok_or(io::ErrorKind::NotFound)?;
            let (from, to) = (from.to_owned(), to.to_owned());
            medium.rename_now(NameOp::Rename { from, to, inode });
            Ok(())
        })
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        self.act(|medium| {
            medium.step("remove", path, &[])?;
            medium.trip(Io::Name)?;
            let inode = *medium.names.get(path).ok_or(io::ErrorKind::NotFound)?;
            medium.rename_now(NameOp::Remove { path: path.to_owned(), inode });
            Ok(())
        })
    }

    fn sync_dir(&self, dir: &str) -> io::Result<()> {
        self.act(|medium| {
            medium.step("sync_dir", dir, &[])?;
            medium.trip(Io::Sync)?;
            medium.require_dir(dir)?;
            medium.sync_names(dir);
            Ok(())
        })
    }

    fn available(&self) -> io::Result<u64> {
        self.act(|medium| Ok(medium.capacity.saturating_sub(medium.used())))
    }

    fn capacity(&self) -> io::Result<u64> {
        self.act(|medium| Ok(medium.capacity))
    }
}

impl DiskFile for FaultFile {
    fn read_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize> {
        self.disk.act(|medium| medium.read(self.inode, buf, position))
    }

    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<()> {
        self.disk.act(|medium| medium.write(self.inode, &self.path, bytes, position))
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.set_len(len)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.disk.act(|medium| {
            medium.step("set_len", &self.path, &[len])?;
            let grows = len > medium.file(self.inode).cache.len() as u64;
            medium.trip(if grows { Io::Grow } else { Io::Name })?;
            medium.require_room(self.inode, len)?;
            medium.file(self.inode).change(FileOp::Len(len));
            Ok(())
        })
    }

    fn len(&self) -> io::Result<u64> {
        self.disk.act(|medium| {
            medium.trip(Io::Look)?;
            Ok(medium.file(self.inode).cache.len() as u64)
        })
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.act(|medium| medium.sync(self.inode, &self.path))
    }
}

impl Drop for FaultFile {
    fn drop(&mut self) {
        // Handles of an ended life have been closed by its end.
        let _ended = self.disk.act(|medium| {
            medium.close(self.inode);
            Ok(())
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(seed: u64) -> FaultDisk {
        FaultDisk::new(1 << 20, Rng::new(seed), Trace::default())
    }

    fn read(disk: &FaultDisk, path: &str) -> Option<Vec<u8>> {
        let file = disk.open(path).ok()?;
        let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
        let len = file.read_at(&mut bytes, 0).unwrap();
        bytes.truncate(len);
        Some(bytes)
    }

    #[test]
    fn what_was_synced_survives_every_power_cut() {
        for seed in 0..200 {
            let disk = disk(seed);
            let file = disk.create("a").unwrap();
            file.write_at(b"hello", 0).unwrap();
            file.sync().unwrap();
            disk.sync_dir("").unwrap();
            file.write_at(&[7; 2000], 5).unwrap();
            disk.create("b").unwrap();
            let disk = disk.crash(true);
            assert_eq!(&read(&disk, "a").unwrap()[..5], b"hello", "seed {seed}");
        }
    }

    #[test]
    fn what_was_not_synced_is_kept_lost_and_torn_over_many_power_cuts() {
        let mut seen = [false; 5];
        for seed in 0..400 {
            let disk = disk(seed);
            let file = disk.create("a").unwrap();
            disk.sync_dir("").unwrap();
            disk.create("b").unwrap();
            file.write_at(&[7; 2048], 0).unwrap();
            let disk = disk.crash(true);
            let bytes = read(&disk, "a").unwrap();
            let kept = bytes.iter().map(|byte| usize::from(*byte == 7)).sum::<usize>();
            seen[0] |= kept == 0;
            seen[1] |= kept == 2048;
            seen[2] |= kept > 0 && kept < 2048 && kept % 512 == 0;
            seen[3] |= kept < bytes.len();
            seen[4] |= read(&disk, "b").is_none();
        }
        assert_eq!(seen, [true; 5]);
    }

    #[test]
    fn a_kill_keeps_the_cache_and_a_later_power_cut_may_lose_it() {
        let lost = (0..50).filter(|seed| {
            let disk = disk(*seed);
            let file = disk.create("a").unwrap();
            disk.sync_dir("").unwrap();
            file.write_at(b"x", 0).unwrap();
            let disk = disk.crash(false);
            assert_eq!(read(&disk, "a").unwrap(), b"x");
            read(&disk.crash(true), "a").unwrap() != b"x"
        });
        assert!(lost.count() > 5);
    }

    #[test]
    fn a_failed_sync_is_not_made_good_by_the_next_one() {
        let lost = (0..50).filter(|seed| {
            let disk = disk(*seed);
            let file = disk.create("a").unwrap();
            disk.sync_dir("").unwrap();
            file.write_at(b"x", 0).unwrap();
            disk.with(|medium| medium.faults.fail_sync_in = Some(0));
            file.sync().unwrap_err();
            file.sync().unwrap();
            assert_eq!(read(&disk, "a").unwrap(), b"x", "the cache still has it");
            read(&disk.crash(true), "a").unwrap() != b"x"
        });
        assert!(lost.count() > 5);
    }

    #[test]
    fn a_handle_of_an_ended_life_changes_nothing() {
        let disk = disk(1);
        let file = disk.create("a").unwrap();
        let next = disk.crash(false);
        file.write_at(b"x", 0).unwrap_err();
        disk.remove("a").unwrap_err();
        assert_eq!(read(&next, "a").unwrap(), b"");
    }

    #[test]
    fn room_ends_at_the_capacity_and_comes_back_with_the_last_handle() {
        let disk = FaultDisk::new(1000, Rng::new(1), Trace::default());
        let file = disk.create("a").unwrap();
        file.allocate(900).unwrap();
        assert_eq!(file.allocate(1001).unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(disk.available().unwrap(), 100);
        disk.remove("a").unwrap();
        assert_eq!(disk.available().unwrap(), 100);
        drop(file);
        assert_eq!(disk.available().unwrap(), 1000);
    }
}
