//! A disk that counts what is written and times what is synced. It wraps the real one, so that
//! storage needs no clock for it.

use std::io;
use std::sync::Arc;

use headwater_storage::{Disk, DiskFile};
use tokio::time::Instant;

use super::count::{Count, Durations};

/// The kinds of files, by the directories that they are in. What is in none of them is the last.
pub(crate) const KINDS: [&str; 5] = ["log", "segment", "checkpoint", "blob", "other"];

/// What was done to files of each kind. Several threads write, about as often as a disk can.
#[derive(Debug, Default)]
pub(crate) struct Written {
    kinds: [Kind; KINDS.len()],
}

#[derive(Debug, Default)]
pub(crate) struct Kind {
    pub(crate) bytes: Count,
    pub(crate) syncs: Durations,
}

impl Written {
    pub(crate) fn kind(&self, at: usize) -> &Kind {
        &self.kinds[at]
    }
}

/// The disk below, watched.
pub(crate) struct Watched<D> {
    disk: D,
    written: Arc<Written>,
}

impl<D: Disk> Watched<D> {
    pub(crate) fn new(disk: D, written: Arc<Written>) -> Self {
        Self { disk, written }
    }
}

fn kind_of(path: &str) -> usize {
    let dir = path.split('/').next().unwrap_or_default();
    KINDS.iter().position(|kind| *kind == dir).unwrap_or(KINDS.len() - 1)
}

impl<D: Disk> Disk for Watched<D> {
    fn create(&self, path: &str) -> io::Result<Arc<dyn DiskFile>> {
        let (file, written) = (self.disk.create(path)?, Arc::clone(&self.written));
        Ok(Arc::new(WatchedFile { file, written, kind: kind_of(path) }))
    }

    /// What exists already is mostly read, and goes without.
    fn open(&self, path: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.disk.open(path)
    }

    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        self.disk.list(dir)
    }

    fn create_dir(&self, dir: &str) -> io::Result<()> {
        self.disk.create_dir(dir)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        self.disk.remove(path)
    }

    fn sync_dir(&self, dir: &str) -> io::Result<()> {
        self.disk.sync_dir(dir)
    }

    fn available(&self) -> io::Result<u64> {
        self.disk.available()
    }

    fn capacity(&self) -> io::Result<u64> {
        self.disk.capacity()
    }
}

struct WatchedFile {
    file: Arc<dyn DiskFile>,
    written: Arc<Written>,
    kind: usize,
}

impl DiskFile for WatchedFile {
    fn read_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize> {
        self.file.read_at(buf, position)
    }

    fn read_now(&self, buf: &mut [u8], position: u64) -> io::Result<Option<usize>> {
        self.file.read_now(buf, position)
    }

    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<()> {
        self.file.write_at(bytes, position)?;
        self.written.kind(self.kind).bytes.add_shared(bytes.len() as u64);
        Ok(())
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.file.allocate(len)
    }

    fn prepare(&self, from: u64, to: u64) -> io::Result<()> {
        self.file.prepare(from, to)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn is_empty(&self) -> io::Result<bool> {
        self.file.is_empty()
    }

    fn sync(&self) -> io::Result<()> {
        let began = Instant::now();
        self.file.sync()?;
        self.written.kind(self.kind).syncs.took_shared(began.elapsed());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use headwater_storage::MemDisk;

    use super::super::count::Total;
    use super::*;

    #[test]
    fn writes_and_syncs_of_created_files_are_counted_by_directory() {
        let written = Arc::new(Written::default());
        let disk = Watched::new(MemDisk::with_capacity(1 << 20), Arc::clone(&written));
        disk.create_dir("log").unwrap();
        for path in ["log/1", "somewhere"] {
            let file = disk.create(path).unwrap();
            file.write_at(b"abc", 0).unwrap();
            file.sync().unwrap();
        }
        let counted = |at: usize| {
            let mut total = Total::default();
            written.kind(at).syncs.add_to(&mut total);
            (written.kind(at).bytes.get(), total.counts.iter().sum::<u64>())
        };
        let expected = [(3, 1), (0, 0), (0, 0), (0, 0), (3, 1)];
        assert_eq!(std::array::from_fn::<_, { KINDS.len() }, _>(counted), expected);
        assert_eq!(disk.open("log/1").unwrap().len().unwrap(), 3);
    }
}
