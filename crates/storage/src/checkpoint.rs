//! Checkpoint files: saved images of shards. One round writes one file; the manifest says which
//! block of which file counts.

use std::sync::Arc;

use headwater_core::ids::{Lsn, ShardNo, StreamId};

use crate::codec::{self, Cursor};
use crate::disk::{Disk, DiskFile};
use crate::error::{Error, Result};
use crate::log::file::FileNo;
use crate::manifest::{BlockRef, Manifest};

/// The directory of the checkpoint files.
pub(crate) const DIR: &str = "checkpoint";

const MAGIC: [u8; 8] = *b"HWATRCKP";
const VERSION: u32 = 1;
pub(crate) const HEADER_LEN: usize = 40;
pub(crate) const BLOCK_HEADER_BYTES: usize = 24;
pub(crate) const IMAGE: u8 = 1;
pub(crate) const HEADS: u8 = 2;
/// A stream id and a file number.
const HEAD_BYTES: usize = 12;

const _: () = assert!(HEADER_LEN == 8 + 4 + 8 + 16 + 4 && BLOCK_HEADER_BYTES == 4 + 4 + 8 + 8);

/// Images of shards on their way into a checkpoint. Dropping it unfinished removes the file.
pub struct CheckpointRound {
    disk: Arc<dyn Disk>,
    number: u64,
    file: Arc<dyn DiskFile>,
    position: u64,
    images: Vec<(ShardNo, Lsn, BlockRef)>,
    /// The manifest may refer to the file.
    named: bool,
}

impl CheckpointRound {
    /// Starts file `number`.
    pub(crate) fn create(disk: Arc<dyn Disk>, number: u64, directory_id: u128) -> Result<Self> {
        let path = path(number);
        let failed = |source| Error::io(&path, "creating a checkpoint", source);
        let file = disk.create(&path).map_err(failed)?;
        let images = Vec::new();
        let mut round = Self { disk, number, file, position: 0, images, named: false };
        round.write(&header(number, directory_id))?;
        Ok(round)
    }

    /// Adds the image of `shard`, which holds its every entry up to `lsn`.
    ///
    /// # Errors
    /// `Full` or `Io`; drop the round then.
    pub fn add(&mut self, shard: ShardNo, lsn: Lsn, image: &[u8]) -> Result<()> {
        let block = self.write_block(IMAGE, shard.0, lsn, image)?;
        self.images.push((shard, lsn, block));
        Ok(())
    }

    /// Adds the newest file of every stream.
    pub(crate) fn add_heads(&mut self, heads: &[(StreamId, FileNo)], lsn: Lsn) -> Result<BlockRef> {
        let mut bytes = Vec::with_capacity(heads.len() * HEAD_BYTES);
        for (stream, no) in heads {
            bytes.extend_from_slice(&stream.0.to_le_bytes());
            bytes.extend_from_slice(&no.to_le_bytes());
        }
        self.write_block(HEADS, 0, lsn, &bytes)
    }

    /// Makes the file durable.
    pub(crate) fn sync(&self) -> Result<()> {
        let synced = self.file.sync().and_then(|()| self.disk.sync_dir(DIR));
        synced.map_err(|e| Error::io(&path(self.number), "syncing a checkpoint", e))
    }

    pub(crate) fn images(&self) -> &[(ShardNo, Lsn, BlockRef)] {
        &self.images
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// From now on a manifest may refer to the file, so it stays.
    pub(crate) fn keep(mut self) {
        self.named = true;
    }

    fn write_block(&mut self, kind: u8, shard: u8, lsn: Lsn, body: &[u8]) -> Result<BlockRef> {
        let (position, len) = (self.position, body.len() as u64);
        let block = BlockRef { file: self.number, position, len, crc: crc32c::crc32c(body) };
        self.write(&block_header(kind, shard, lsn, &block))?;
        self.write(body)?;
        Ok(block)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let written = self.file.write_at(bytes, self.position);
        written.map_err(|e| Error::io(&path(self.number), "writing a checkpoint", e))?;
        self.position += bytes.len() as u64;
        Ok(())
    }
}

impl Drop for CheckpointRound {
    fn drop(&mut self) {
        if !self.named {
            // What cannot be removed now is removed at the next start.
            drop(self.disk.remove(&path(self.number)));
        }
    }
}

/// `checkpoint/0000000003.ckpt`
pub(crate) fn path(number: u64) -> String {
    format!("{DIR}/{number:010}.ckpt")
}

pub(crate) fn parse_name(name: &str) -> Option<u64> {
    codec::digits(name.strip_suffix(".ckpt")?, 10)
}

/// The start of checkpoint file `number`.
pub(crate) fn header(number: u64, directory_id: u128) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.extend_from_slice(&number.to_le_bytes());
    out.extend_from_slice(&directory_id.to_le_bytes());
    codec::put_crc(&mut out);
    assert_eq!(out.len(), HEADER_LEN, "the layout in docs/format.md");
    out
}

pub(crate) fn block_header(kind: u8, shard: u8, lsn: Lsn, block: &BlockRef) -> Vec<u8> {
    let mut out = vec![kind, shard, 0, 0];
    out.extend_from_slice(&block.crc.to_le_bytes());
    out.extend_from_slice(&lsn.0.to_le_bytes());
    out.extend_from_slice(&block.len.to_le_bytes());
    assert_eq!(out.len(), BLOCK_HEADER_BYTES, "the layout in docs/format.md");
    out
}

/// Reads the image of a shard that the manifest names.
pub(crate) fn load_image(
    disk: &dyn Disk,
    shard: ShardNo,
    lsn: Lsn,
    block: BlockRef,
) -> Result<Vec<u8>> {
    // The manifest's lsn moves on while a shard stays as it is, so the block's may be older.
    load_block(disk, block, IMAGE, shard.0, lsn)
}

/// The engine cannot make sense of an image.
pub(crate) fn unusable(block: BlockRef, detail: String) -> Error {
    Error::corrupt(&path(block.file), block.position, detail)
}

/// Reads the newest file of every stream.
pub(crate) fn load_heads(
    disk: &dyn Disk,
    block: BlockRef,
    lsn: Lsn,
) -> Result<Vec<(StreamId, FileNo)>> {
    let bytes = load_block(disk, block, HEADS, 0, lsn)?;
    let mut cursor = Cursor::new(&bytes);
    let mut heads = Vec::with_capacity(bytes.len() / HEAD_BYTES);
    while let (Some(stream), Some(no)) = (cursor.u64(), cursor.u32()) {
        heads.push((StreamId(stream), no));
    }
    Ok(heads)
}

fn load_block(
    disk: &dyn Disk,
    block: BlockRef,
    kind: u8,
    shard: u8,
    lsn_max: Lsn,
) -> Result<Vec<u8>> {
    let path = path(block.file);
    let failed = |source| Error::io(&path, "reading a checkpoint", source);
    let damaged = || Error::corrupt(&path, block.position, "the checkpoint is damaged");
    let file = disk.open(&path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Error::corrupt(&path, 0, "the checkpoint file is missing"),
        _ => failed(error),
    })?;
    let end = block.position.checked_add(block.len).ok_or_else(damaged)?;
    if file.len().map_err(failed)? < end.saturating_add(BLOCK_HEADER_BYTES as u64) {
        return Err(damaged());
    }
    check_header(&path, block.file, &*file)?;
    let len = usize::try_from(block.len).map_err(|_too_large| damaged())?;
    let mut bytes = vec![0; BLOCK_HEADER_BYTES + len];
    file.read_at(&mut bytes, block.position).map_err(failed)?;
    let body = bytes.split_off(BLOCK_HEADER_BYTES);
    let lsn = Cursor::new(bytes.get(8..).unwrap_or_default()).u64().ok_or_else(damaged)?;
    let expected = block_header(kind, shard, Lsn(lsn), &block);
    let intact = bytes == expected && Lsn(lsn) <= lsn_max && crc32c::crc32c(&body) == block.crc;
    if intact { Ok(body) } else { Err(damaged()) }
}

pub(crate) fn check_header(path: &str, number: u64, file: &dyn DiskFile) -> Result<()> {
    let mut bytes = [0; HEADER_LEN];
    let read = file.read_at(&mut bytes, 0);
    read.map_err(|e| Error::io(path, "reading a checkpoint", e))?;
    let mut cursor = Cursor::new(&bytes);
    let (magic, version) = (cursor.array(), cursor.u32());
    if magic == Some(MAGIC) && version != Some(VERSION) {
        let detail = format!("a checkpoint of another version than {VERSION}");
        return Err(Error::format(path, detail));
    }
    let ours = magic == Some(MAGIC) && cursor.u64() == Some(number);
    if ours && codec::check_crc(&bytes).is_some() {
        return Ok(());
    }
    Err(Error::corrupt(path, 0, "the header is damaged"))
}

/// Removes checkpoint files that `manifest` does not refer to.
pub(crate) fn remove_unnamed(disk: &dyn Disk, manifest: &Manifest) -> Result<()> {
    let failed = |source| Error::io(DIR, "removing old checkpoints", source);
    for name in disk.list(DIR).map_err(failed)? {
        let Some(number) = parse_name(&name) else { continue };
        // A newer file belongs to a round that is still running.
        let old = number <= manifest.last_checkpoint;
        if old && manifest.blocks().all(|block| block.file != number) {
            disk.remove(&path(number)).map_err(failed)?;
        }
    }
    Ok(())
}

/// Removes the files of rounds that no manifest ever named.
pub(crate) fn remove_unfinished(disk: &dyn Disk, manifest: &Manifest) -> Result<()> {
    let failed = |source| Error::io(DIR, "removing an unfinished checkpoint", source);
    for name in disk.list(DIR).map_err(failed)? {
        if parse_name(&name).is_some_and(|number| number > manifest.last_checkpoint) {
            disk.remove(&format!("{DIR}/{name}")).map_err(failed)?;
        }
    }
    Ok(())
}
