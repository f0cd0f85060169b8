//! A file through a window: large positioned reads, small looks.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use crate::disk::DiskFile;
use crate::error::{Error, Result};

/// Read at a time. Larger ones are no faster and leave the processor's cache.
const WINDOW_BYTES: usize = 1 << 20;

pub(super) struct Window {
    file: Arc<dyn DiskFile>,
    path: String,
    len: u64,
    start: u64,
    bytes: Bytes,
}

impl Window {
    pub(super) fn new(file: Arc<dyn DiskFile>, path: &str) -> Result<Self> {
        let path = path.to_owned();
        let len = file.len().map_err(|e| Error::io(&path, "reading the length", e))?;
        Ok(Self { file, path, len, start: 0, bytes: Bytes::new() })
    }

    /// The length of the file.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// `len` bytes at `at`; `None` when the file ends before.
    pub(super) fn get(&mut self, at: u64, len: usize) -> Result<Option<Bytes>> {
        if at.checked_add(len as u64).is_none_or(|end| end > self.len) {
            return Ok(None);
        }
        let inside = at >= self.start && at + len as u64 <= self.start + self.bytes.len() as u64;
        if !inside {
            self.move_to(at, len)?;
        }
        let from = usize::try_from(at - self.start).unwrap_or(usize::MAX);
        let to = from.saturating_add(len);
        Ok((to <= self.bytes.len()).then(|| self.bytes.slice(from..to)))
    }

    /// What is left at `at`, up to a window of it.
    pub(super) fn rest(&mut self, at: u64) -> Result<Bytes> {
        let left = usize::try_from(self.len.saturating_sub(at)).unwrap_or(usize::MAX);
        Ok(self.get(at, left.min(WINDOW_BYTES))?.unwrap_or_default())
    }

    fn move_to(&mut self, at: u64, len: usize) -> Result<()> {
        let left = usize::try_from(self.len - at).unwrap_or(usize::MAX);
        let size = len.max(WINDOW_BYTES).min(left);
        // The old buffer serves again unless somebody still holds a part of it.
        let old = std::mem::take(&mut self.bytes);
        let mut buffer = old.try_into_mut().unwrap_or_else(|_shared| BytesMut::new());
        buffer.resize(size, 0);
        let read = self.file.read_at(&mut buffer, at);
        let read = read.map_err(|source| {
            let mut error = Error::io(&self.path, "the medium does not give the bytes", source);
            error.at.offset = Some(at);
            error
        })?;
        buffer.truncate(read);
        (self.start, self.bytes) = (at, buffer.freeze());
        Ok(())
    }
}
