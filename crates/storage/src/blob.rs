//! Snapshot bodies: one file each, under a name of their own before anything refers to them.
//!
//! A blob is written once and never changed. Its trailer holds a checksum per 64 KiB, so any part
//! of it can be read and verified alone. A file without an intact trailer is an unfinished blob.

use std::sync::Arc;

use bytes::Bytes;
use headwater_core::ids::BlobId;

use crate::codec::{self, CHUNK_BYTES, Cursor};
use crate::disk::{Disk, DiskFile, SYNC_BYTES};
use crate::error::{Error, Result};
use crate::log::room::Use;
use crate::space::Space;

/// The directory of the blobs.
pub(crate) const DIR: &str = "blob";

const MAGIC: [u8; 8] = *b"HWATRBLB";
const VERSION: u32 = 1;
const HEADER_LEN: usize = 32;
pub(crate) const HEADER_BYTES: u64 = HEADER_LEN as u64;
const TRAILER_LEN: usize = 32;
const TRAILER_BYTES: u64 = TRAILER_LEN as u64;
const _: () = assert!(HEADER_LEN == 8 + 4 + 16 + 4 && TRAILER_LEN == 8 + 4 + 4 + 8 + 4 + 4);

/// One read returns no more than this.
const READ_BYTES_MAX: usize = 4 << 20;

/// The snapshot bodies of a data directory.
pub struct Blobs {
    disk: Arc<dyn Disk>,
    space: Arc<Space>,
}

/// A blob that is being written. Dropping it unfinished removes the file.
pub struct BlobWriter {
    disk: Arc<dyn Disk>,
    space: Arc<Space>,
    id: BlobId,
    file: Arc<dyn DiskFile>,
    len: u64,
    /// Less than a block that waits for its checksum.
    block: Vec<u8>,
    crcs: Vec<u8>,
    unsynced: u64,
    finished: bool,
}

/// A finished blob, open for reading: it stays readable when it is removed meanwhile.
pub struct BlobReader {
    id: BlobId,
    file: Arc<dyn DiskFile>,
    len: u64,
    crcs: Vec<u8>,
}

impl Blobs {
    pub(crate) fn new(disk: Arc<dyn Disk>, space: Arc<Space>) -> Self {
        Self { disk, space }
    }

    /// Starts a blob.
    ///
    /// # Errors
    /// `Full` when the disk is down to its reserve; `Io` also when the id is taken.
    pub fn create(&self, id: BlobId) -> Result<BlobWriter> {
        self.space.check(SYNC_BYTES as u64, Use::Normal)?;
        let created = self.disk.create(&path(id));
        let file = created.map_err(|e| Error::io(&path(id), "creating a blob", e))?;
        let writer = BlobWriter {
            disk: Arc::clone(&self.disk),
            space: Arc::clone(&self.space),
            id,
            file,
            len: 0,
            block: Vec::new(),
            crcs: Vec::new(),
            unsynced: 0,
            finished: false,
        };
        writer.put(&header(id), 0)?;
        Ok(writer)
    }

    /// Opens a finished blob.
    ///
    /// # Errors
    /// `Corrupt` when it is missing, unfinished or damaged at its ends.
    pub fn open(&self, id: BlobId) -> Result<BlobReader> {
        let path = path(id);
        let file = self.disk.open(&path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => Error::corrupt(&path, 0, "the blob is missing"),
            _ => Error::io(&path, "opening a blob", error),
        })?;
        BlobReader::load(id, file)
    }

    /// Removes a blob; fine if there is none.
    ///
    /// # Errors
    /// `Io`.
    pub fn remove(&self, id: BlobId) -> Result<()> {
        match self.disk.remove(&path(id)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::io(&path(id), "removing a blob", error))
            }
            _ => Ok(()),
        }
    }

    /// Every blob that has a file, finished or not, in ascending order.
    ///
    /// # Errors
    /// `Io`.
    pub fn list(&self) -> Result<Vec<BlobId>> {
        let names = self.disk.list(DIR).map_err(|e| Error::io(DIR, "listing blobs", e))?;
        Ok(names.iter().filter_map(|name| parse_name(name)).collect())
    }
}

impl BlobWriter {
    /// Adds bytes.
    ///
    /// # Errors
    /// `Full` when the disk is down to its reserve, or `Io`; drop the writer then.
    pub fn write(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let room = CHUNK_BYTES - self.block.len();
            let (now, later) = bytes.split_at(bytes.len().min(room));
            self.block.extend_from_slice(now);
            if self.block.len() == CHUNK_BYTES {
                self.put_block()?;
            }
            bytes = later;
        }
        Ok(())
    }

    /// Makes the blob durable, name included, and returns its length.
    ///
    /// # Errors
    /// `Full` or `Io`; the file is gone then.
    pub fn finish(mut self) -> Result<u64> {
        if !self.block.is_empty() {
            self.put_block()?;
        }
        let mut end = std::mem::take(&mut self.crcs);
        let crcs_crc = crc32c::crc32c(&end);
        end.extend_from_slice(&trailer(self.len, crcs_crc));
        self.put(&end, HEADER_BYTES + self.len)?;
        let synced = self.file.sync().and_then(|()| self.disk.sync_dir(DIR));
        synced.map_err(|e| self.failed(e))?;
        self.finished = true;
        Ok(self.len)
    }

    fn put_block(&mut self) -> Result<()> {
        self.put(&self.block, HEADER_BYTES + self.len)?;
        self.crcs.extend_from_slice(&crc32c::crc32c(&self.block).to_le_bytes());
        self.len += self.block.len() as u64;
        self.unsynced += self.block.len() as u64;
        self.block.clear();
        if self.unsynced >= SYNC_BYTES as u64 {
            self.file.sync().map_err(|e| self.failed(e))?;
            self.unsynced = 0;
            self.space.check(SYNC_BYTES as u64, Use::Normal)?;
        }
        Ok(())
    }

    fn put(&self, bytes: &[u8], position: u64) -> Result<()> {
        self.file.write_at(bytes, position).map_err(|e| self.failed(e))
    }

    fn failed(&self, source: std::io::Error) -> Error {
        Error::io(&path(self.id), "writing a blob", source)
    }
}

impl Drop for BlobWriter {
    fn drop(&mut self) {
        if !self.finished {
            // Nothing refers to it; what cannot be removed is found by `Blobs::list` later.
            drop(self.disk.remove(&path(self.id)));
        }
    }
}

impl BlobReader {
    pub(crate) fn load(id: BlobId, file: Arc<dyn DiskFile>) -> Result<Self> {
        let path = path(id);
        let failed = |source| Error::io(&path, "reading a blob", source);
        let damaged = |at| Error::corrupt(&path, at, "the blob is damaged or unfinished");
        let end = file.len().map_err(failed)?;
        let mut head = [0; HEADER_LEN];
        file.read_at(&mut head, 0).map_err(failed)?;
        check_version(&path, &head)?;
        if head[..] != header(id) {
            return Err(damaged(0));
        }
        let at = end.saturating_sub(TRAILER_BYTES);
        let mut tail = [0; TRAILER_LEN];
        file.read_at(&mut tail, at).map_err(failed)?;
        let (len, crcs_crc) = parse_trailer(&tail).ok_or_else(|| damaged(at))?;
        let crcs_len = codec::chunk_count(len).saturating_mul(4);
        let crcs_at = HEADER_BYTES.saturating_add(len);
        if crcs_at.saturating_add(crcs_len) != at {
            return Err(damaged(at));
        }
        let mut crcs = vec![0; usize::try_from(crcs_len).map_err(|_too_large| damaged(at))?];
        file.read_at(&mut crcs, crcs_at).map_err(failed)?;
        if crc32c::crc32c(&crcs) != crcs_crc {
            return Err(damaged(crcs_at));
        }
        Ok(Self { id, file, len, crcs })
    }

    /// How many bytes the blob has.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Verified bytes from `start` on, at most `max` and at most 4 MiB; empty only at the end or
    /// when `max` is 0.
    ///
    /// # Errors
    /// `Corrupt` when a block that was asked for is damaged, or `Io`.
    pub fn read(&self, start: u64, max: usize) -> Result<Bytes> {
        let max = max.min(READ_BYTES_MAX) as u64;
        let end = start.saturating_add(max).min(self.len);
        if start >= end {
            return Ok(Bytes::new());
        }
        let chunk = CHUNK_BYTES as u64;
        let first = start / chunk;
        let aligned = first * chunk;
        let aligned_end = end.next_multiple_of(chunk).min(self.len);
        let small = |value| usize::try_from(value).expect("a read has at most a few MiB");
        let mut bytes = vec![0; small(aligned_end - aligned)];
        let path = path(self.id);
        let read = self.file.read_at(&mut bytes, HEADER_BYTES + aligned);
        read.map_err(|e| Error::io(&path, "reading a blob", e))?;
        let (expected, _) = self.crcs.as_chunks::<4>();
        let expected = expected.iter().skip(small(first));
        for (number, (crc, expected)) in codec::chunk_crcs(&bytes).zip(expected).enumerate() {
            if crc != u32::from_le_bytes(*expected) {
                let at = HEADER_BYTES + aligned + (number * CHUNK_BYTES) as u64;
                return Err(Error::corrupt(&path, at, "the checksum of a block does not match"));
            }
        }
        Ok(Bytes::from(bytes).slice(small(start - aligned)..small(end - aligned)))
    }
}

/// `blob/00000000000000000000000000000007`
pub(crate) fn path(id: BlobId) -> String {
    format!("{DIR}/{id}")
}

pub(crate) fn parse_name(name: &str) -> Option<BlobId> {
    let legal = |b: u8| matches!(b, b'0'..=b'9' | b'a'..=b'f');
    let ours = name.len() == 32 && name.bytes().all(legal);
    ours.then(|| u128::from_str_radix(name, 16).ok())?.map(BlobId)
}

fn header(id: BlobId) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.extend_from_slice(&id.0.to_le_bytes());
    codec::put_crc(&mut out);
    assert_eq!(out.len(), HEADER_LEN, "the layout in docs/format.md");
    out
}

fn check_version(path: &str, head: &[u8]) -> Result<()> {
    let mut cursor = Cursor::new(head);
    match (cursor.array(), cursor.u32()) {
        (Some(MAGIC), Some(version)) if version != VERSION => {
            let detail = format!("blob version {version}, this program knows {VERSION}");
            Err(Error::format(path, detail))
        }
        _ => Ok(()),
    }
}

fn trailer(len: u64, crcs_crc: u32) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.extend_from_slice(&crcs_crc.to_le_bytes());
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(&0u32.to_le_bytes());
    codec::put_crc(&mut out);
    assert_eq!(out.len(), TRAILER_LEN, "the layout in docs/format.md");
    out
}

fn parse_trailer(bytes: &[u8]) -> Option<(u64, u32)> {
    let mut cursor = Cursor::new(codec::check_crc(bytes)?);
    let (magic, version) = (cursor.array()?, cursor.u32()?);
    let crcs_crc = cursor.u32()?;
    let len = cursor.u64()?;
    (magic == MAGIC && version == VERSION).then_some((len, crcs_crc))
}
