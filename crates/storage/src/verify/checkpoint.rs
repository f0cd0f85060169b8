//! Checkpoint files: every block, named by the manifest or not.

use headwater_core::ids::ShardNo;

use super::Scan;
use super::report::{Fact, Finding, Part, Value, Verdict};
use super::window::Window;
use crate::checkpoint::{
    BLOCK_HEADER_BYTES, HEADER_LEN, HEADS, IMAGE, block_header, check_header, path,
};
use crate::codec::Cursor;
use crate::error::{Error, Result};
use crate::manifest::{BlockRef, Manifest};

/// A block that the manifest names, and what it must be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Named {
    pub(super) block: BlockRef,
    kind: u8,
    shard: u8,
}

impl Named {
    pub(super) fn all(manifest: &Manifest) -> Vec<Self> {
        let shards = ShardNo::all().zip(&manifest.shards);
        let images = shards.filter_map(|(shard, saved)| {
            saved.image.map(|block| Self { block, kind: IMAGE, shard: shard.0 })
        });
        let heads = manifest.heads.map(|block| Self { block, kind: HEADS, shard: 0 });
        images.chain(heads).collect()
    }

    /// What is lost with it.
    fn loss(&self) -> String {
        match self.kind {
            HEADS => "the checkpoint's index of streams is damaged".to_owned(),
            _ => format!("the image of shard {} is damaged: all its streams", self.shard),
        }
    }
}

impl Scan<'_> {
    pub(super) fn checkpoint(&mut self, no: u64, named: &[Named]) {
        if let Err(error) = self.read_checkpoint(no, named) {
            self.find_error(Part::Checkpoint, &error);
        }
    }

    fn read_checkpoint(&mut self, no: u64, named: &[Named]) -> Result<()> {
        let path = path(no);
        let file = self.disk.open(&path);
        let file = file.map_err(|e| Error::io(&path, "opening a checkpoint", e))?;
        let mut window = Window::new(file.clone(), &path)?;
        self.enter(&path, window.len());
        if let Err(error) = check_header(&path, no, &*file) {
            self.find_error(Part::Header, &error);
            if error.kind == crate::error::Kind::Format {
                return Ok(());
            }
        }
        let mut waiting: Vec<Named> = named.to_vec();
        let mut at = HEADER_LEN as u64;
        while at < window.len() {
            // A named block tells its own length: the walk goes on even if its header is bad.
            let name = waiting.iter().position(|named| named.block.position == at);
            let name = name.map(|index| waiting.swap_remove(index));
            let Some(len) = self.block(&mut window, &path, at, name)? else { break };
            at += BLOCK_HEADER_BYTES as u64 + len;
        }
        for named in waiting {
            let at = named.block.position;
            let finding = Finding::new(Verdict::Damage, Part::Checkpoint, &path, at, named.loss());
            self.find(finding);
        }
        Ok(())
    }

    /// Checks the block at `at`; its length, if the walk can go on behind it.
    fn block(
        &mut self,
        window: &mut Window,
        path: &str,
        at: u64,
        named: Option<Named>,
    ) -> Result<Option<u64>> {
        let header = window.get(at, BLOCK_HEADER_BYTES)?;
        let found = header.as_deref().and_then(parse);
        let block = named.map(|named| named.block).or_else(|| {
            found.map(|(_, _, crc, _, len)| BlockRef { file: 0, position: at, len, crc })
        });
        let body = match block {
            Some(block) => {
                let len = usize::try_from(block.len).unwrap_or(usize::MAX);
                window.get(at + BLOCK_HEADER_BYTES as u64, len)?.zip(Some(block))
            }
            None => None,
        };
        let (Some((kind, shard, _, lsn, _)), Some((body, block))) = (found, body) else {
            self.find(damaged(path, at, block.map_or(0, |block| block.len), named));
            return Ok(None);
        };
        let sound = crc32c::crc32c(&body) == block.crc;
        let expected = named.is_none_or(|named| {
            let same = (kind, shard) == (named.kind, named.shard);
            let header_bytes = block_header(kind, shard, headwater_core::ids::Lsn(lsn), &block);
            same && header.as_deref() == Some(&header_bytes[..])
        });
        self.watcher.fact(&|| Fact {
            what: if kind == IMAGE { "image" } else { "heads" },
            at,
            fields: vec![
                ("shard", Value::Number(shard.into())),
                ("lsn", Value::Number(lsn)),
                ("len", Value::Number(block.len)),
                ("intact", Value::Flag(sound && expected)),
            ],
        });
        if !sound || !expected {
            self.find(damaged(path, at, block.len, named));
        } else if kind == IMAGE
            && let Err(detail) = self.watcher.image(ShardNo(shard), named.is_some(), &body)
        {
            let detail = format!("the image makes no sense: {detail}");
            self.find(Finding::new(Verdict::Damage, Part::Checkpoint, path, at, detail));
        }
        Ok(Some(block.len))
    }
}

fn damaged(path: &str, at: u64, len: u64, named: Option<Named>) -> Finding {
    let unnamed = || "a block is damaged that no manifest names any more".to_owned();
    let detail = named.map_or_else(unnamed, |named| named.loss());
    let len = len.saturating_add(BLOCK_HEADER_BYTES as u64);
    Finding::new(Verdict::Damage, Part::Checkpoint, path, at, detail).spanning(len)
}

/// Kind, shard, crc, lsn and length of a block, of which nothing is verified yet.
fn parse(bytes: &[u8]) -> Option<(u8, u8, u32, u64, u64)> {
    let mut cursor = Cursor::new(bytes);
    let (kind, shard, zero) = (cursor.u8()?, cursor.u8()?, cursor.u16()?);
    let block = (kind, shard, cursor.u32()?, cursor.u64()?, cursor.u64()?);
    (zero == 0 && matches!(kind, IMAGE | HEADS)).then_some(block)
}
