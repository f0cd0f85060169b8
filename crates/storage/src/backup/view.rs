//! A data directory that lies elsewhere, to be read only.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use crate::disk::{Disk, DiskFile};

/// Files by the path that they would have in a data directory.
#[derive(Default)]
pub struct View(BTreeMap<String, Arc<dyn DiskFile>>);

/// One of them.
enum Held {
    /// The first `held` bytes of a file, and zeroes up to `len`.
    Prefix { file: Arc<dyn DiskFile>, held: u64, len: u64 },
    /// What is in memory.
    Bytes(Vec<u8>),
}

impl View {
    pub(super) fn add_bytes(&mut self, path: &str, bytes: Vec<u8>) {
        self.0.insert(path.to_owned(), Arc::new(Held::Bytes(bytes)));
    }

    pub(super) fn add_prefix(&mut self, path: &str, file: Arc<dyn DiskFile>, held: u64, len: u64) {
        self.0.insert(path.to_owned(), Arc::new(Held::Prefix { file, held, len }));
    }
}

fn read_only<T>() -> io::Result<T> {
    Err(io::ErrorKind::ReadOnlyFilesystem.into())
}

impl Disk for View {
    fn create(&self, _path: &str) -> io::Result<Arc<dyn DiskFile>> {
        read_only()
    }

    fn open(&self, path: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.0.get(path).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        let parts = self.0.keys().map(|path| path.rsplit_once('/').unwrap_or(("", path)));
        Ok(parts.filter(|(d, _)| *d == dir).map(|(_, name)| name.to_owned()).collect())
    }

    fn create_dir(&self, _dir: &str) -> io::Result<()> {
        read_only()
    }

    fn rename(&self, _from: &str, _to: &str) -> io::Result<()> {
        read_only()
    }

    fn remove(&self, _path: &str) -> io::Result<()> {
        read_only()
    }

    fn sync_dir(&self, _dir: &str) -> io::Result<()> {
        read_only()
    }

    fn available(&self) -> io::Result<u64> {
        Ok(0)
    }

    fn capacity(&self) -> io::Result<u64> {
        Ok(0)
    }
}

impl DiskFile for Held {
    fn read_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize> {
        match self {
            Self::Prefix { file, held, len } => {
                let within = |end: u64| {
                    let rest = usize::try_from(end.saturating_sub(position));
                    rest.unwrap_or(usize::MAX).min(buf.len())
                };
                let (held, len) = (within(*held), within(*len));
                let read = file.read_at(&mut buf[..held], position)?;
                if read < held {
                    return Ok(read);
                }
                buf[held..len].fill(0);
                Ok(len)
            }
            Self::Bytes(bytes) => {
                let rest = usize::try_from(position).ok().and_then(|at| bytes.get(at..));
                let rest = rest.unwrap_or_default();
                let len = rest.len().min(buf.len());
                buf[..len].copy_from_slice(&rest[..len]);
                Ok(len)
            }
        }
    }

    fn len(&self) -> io::Result<u64> {
        match self {
            Self::Prefix { file, held, len } => {
                // A file that was cut short must look like it.
                let real = file.len()?;
                Ok(if real < *held { real } else { *len })
            }
            Self::Bytes(bytes) => Ok(bytes.len() as u64),
        }
    }

    fn write_at(&self, _bytes: &[u8], _position: u64) -> io::Result<()> {
        read_only()
    }

    fn allocate(&self, _len: u64) -> io::Result<()> {
        read_only()
    }

    fn set_len(&self, _len: u64) -> io::Result<()> {
        read_only()
    }

    fn sync(&self) -> io::Result<()> {
        read_only()
    }
}
