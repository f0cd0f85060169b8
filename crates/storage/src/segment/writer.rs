//! Writing a segment: bytes go to the file as they come, everything that describes them at the end.

use std::sync::Arc;

use headwater_core::ids::{Offset, StreamId};

use super::format::{self, BlockItem, ITEM_BYTES, PAGE_RUNS, RunEntry, Trailer};
use super::{Segment, SegmentNo, path};
use crate::codec::CHUNK_BYTES;
use crate::disk::{Disk, DiskFile, SYNC_BYTES};
use crate::error::{Error, Result};
use crate::log::file::FileNo;
use crate::log::footer::Span;
use crate::log::group;

/// A block is closed once it has so many bytes: with messages of up to 16 KiB it is then read in
/// one piece.
const BLOCK_BYTES: u32 = 240 << 10;
/// A block is closed once it has so many messages: finding one of them walks over the others.
const BLOCK_MESSAGES: usize = 1024;
/// Bytes are handed to the file in pieces of about this size.
const WRITE_BYTES: usize = 256 << 10;

/// A segment that is being written. Dropping it unfinished removes the file.
pub(super) struct SegmentWriter {
    disk: Arc<dyn Disk>,
    no: SegmentNo,
    directory_id: u128,
    file: Arc<dyn DiskFile>,
    /// Where `buffer` goes.
    position: u64,
    buffer: Vec<u8>,
    unsynced: u64,
    heads: Vec<u8>,
    items: Vec<u8>,
    table: Vec<u8>,
    runs: u32,
    directory: Vec<u8>,
    streams: Option<[StreamId; 2]>,
    open: Option<OpenRun>,
    finished: bool,
}

/// The run that bytes are added to.
struct OpenRun {
    stream: StreamId,
    span: Span,
    files: [FileNo; 2],
    payload_at: u32,
    heads_at: u32,
    blocks: Vec<BlockItem>,
    block: OpenBlock,
}

/// The block that bytes are added to.
#[derive(Default)]
struct OpenBlock {
    len: u32,
    /// The messages that have ended.
    lens: Vec<u32>,
    /// Bytes of the message that has not ended.
    message_len: u32,
    crcs: Vec<u32>,
    /// The checksum of the chunk that is not full.
    crc: u32,
    chunk_len: usize,
}

/// Where a run begins, and what it stands for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Begin {
    pub(super) stream: StreamId,
    /// `len` and `records` are 0: they come with the bytes.
    pub(super) span: Span,
    pub(super) files: [FileNo; 2],
}

impl SegmentWriter {
    pub(super) fn create(disk: Arc<dyn Disk>, no: SegmentNo, directory_id: u128) -> Result<Self> {
        let path = path(no);
        let file = disk.create(&path).map_err(|e| Error::io(&path, "creating a segment", e))?;
        Ok(Self {
            disk,
            no,
            directory_id,
            file,
            position: 0,
            buffer: format::header(no, directory_id),
            unsynced: 0,
            heads: Vec::new(),
            items: Vec::new(),
            table: Vec::new(),
            runs: 0,
            directory: Vec::new(),
            streams: None,
            open: None,
            finished: false,
        })
    }

    /// The bytes so far.
    pub(super) fn len(&self) -> u64 {
        let described = self.heads.len() + self.items.len() + self.table.len();
        self.position + (self.buffer.len() + described) as u64
    }

    /// Begins a run. Runs come in rising order of stream and log file.
    pub(super) fn begin(&mut self, begin: Begin) {
        assert!(self.open.is_none(), "one run ends before the next begins");
        let Begin { stream, span, files } = begin;
        let payload_at = narrow(self.position + self.buffer.len() as u64);
        let heads_at = narrow(self.heads.len() as u64);
        let (blocks, block) = (Vec::new(), OpenBlock::default());
        self.open = Some(OpenRun { stream, span, files, payload_at, heads_at, blocks, block });
    }

    /// Adds bytes to the open run; `ends` are the positions in `bytes` at which messages end.
    pub(super) fn push(&mut self, bytes: &[u8], ends: &[u32]) -> Result<()> {
        let run = self.open.as_mut().expect("a run was begun");
        let mut start = 0;
        for end in ends.iter().map(|end| *end as usize) {
            run.block.add(&bytes[start..end]);
            start = end;
            if run.end_message() {
                run.close_block(&mut self.heads);
            }
        }
        run.block.add(&bytes[start..]);
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= WRITE_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    /// Ends the open run.
    pub(super) fn end(&mut self) {
        let mut run = self.open.take().expect("a run was begun");
        run.close_block(&mut self.heads);
        let first_item = narrow(self.items.len() as u64 / ITEM_BYTES);
        let (mut item_count, mut items_crc) = (0, 0);
        if run.blocks.len() > 1 {
            let start = self.items.len();
            run.blocks.iter().for_each(|block| block.encode(&mut self.items));
            item_count = narrow(run.blocks.len() as u64);
            items_crc = crc32c::crc32c(&self.items[start..]);
        }
        let entry = RunEntry {
            stream: run.stream,
            span: run.span,
            files: run.files,
            payload_at: run.payload_at,
            heads_at: run.heads_at,
            heads_len: narrow(self.heads.len() as u64) - run.heads_at,
            first_item,
            item_count,
            items_crc,
        };
        self.list(&entry);
    }

    /// Adds a run to the table.
    fn list(&mut self, entry: &RunEntry) {
        let new_page = (self.runs as usize).is_multiple_of(PAGE_RUNS);
        if new_page {
            self.close_page();
            self.directory.extend_from_slice(&entry.stream.0.to_le_bytes());
            self.directory.extend_from_slice(&entry.files[0].to_le_bytes());
        }
        entry.encode(&mut self.table);
        self.runs += 1;
        let first = self.streams.map_or(entry.stream, |[first, _]| first);
        self.streams = Some([first, entry.stream]);
    }

    /// The checksum of the last page goes behind its key.
    fn close_page(&mut self) {
        if self.runs > 0 {
            let page = (self.runs as usize - 1) / PAGE_RUNS * PAGE_RUNS * format::RUN_BYTES;
            let crc = crc32c::crc32c(&self.table[page..]);
            self.directory.extend_from_slice(&crc.to_le_bytes());
        }
    }

    /// Completes the segment and makes its bytes durable, but not its name.
    pub(super) fn finish(mut self, level: u32, files: [FileNo; 2]) -> Result<Segment> {
        assert!(self.open.is_none(), "every run has ended");
        self.close_page();
        let heads_at = narrow(self.position + self.buffer.len() as u64);
        let trailer = Trailer {
            no: self.no,
            directory_id: self.directory_id,
            heads_at,
            items_at: narrow(u64::from(heads_at) + self.heads.len() as u64),
            items: narrow(self.items.len() as u64 / ITEM_BYTES),
            runs: self.runs,
            directory_crc: crc32c::crc32c(&self.directory),
        };
        let parts = [&mut self.heads, &mut self.items, &mut self.table, &mut self.directory];
        for part in parts.map(std::mem::take) {
            self.flush()?;
            self.buffer = part;
        }
        self.buffer.extend_from_slice(&trailer.encode());
        self.flush()?;
        self.sync()?;
        self.finished = true;
        let streams = self.streams.expect("a segment is begun for a run");
        Ok(Segment { no: self.no, level, files, streams, len: self.position })
    }

    fn flush(&mut self) -> Result<()> {
        for piece in self.buffer.chunks(SYNC_BYTES) {
            let written = self.file.write_at(piece, self.position);
            written.map_err(|e| Error::io(&path(self.no), "writing a segment", e))?;
            self.position += piece.len() as u64;
            self.unsynced += piece.len() as u64;
            if self.unsynced >= SYNC_BYTES as u64 {
                self.sync()?;
                self.unsynced = 0;
            }
        }
        self.buffer.clear();
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        self.file.sync().map_err(|e| Error::io(&path(self.no), "syncing a segment", e))
    }
}

impl Drop for SegmentWriter {
    fn drop(&mut self) {
        if !self.finished {
            // No manifest names it; what cannot be removed now is removed at the next start.
            drop(self.disk.remove(&path(self.no)));
        }
    }
}

impl OpenRun {
    /// The open message has ended; whether its block is full now.
    fn end_message(&mut self) -> bool {
        let block = &mut self.block;
        block.lens.push(std::mem::take(&mut block.message_len));
        block.len >= BLOCK_BYTES || block.lens.len() >= BLOCK_MESSAGES
    }

    fn close_block(&mut self, heads: &mut Vec<u8>) {
        let mut block = std::mem::take(&mut self.block);
        assert_eq!(block.message_len, 0, "a run ends where a message does");
        if block.lens.is_empty() {
            return;
        }
        if block.chunk_len > 0 {
            block.crcs.push(block.crc);
        }
        let Span { first, first_record, len, records, .. } = &mut self.span;
        let head = narrow(heads.len() as u64) - self.heads_at;
        self.blocks.push(BlockItem { offset: *len, record: *records, head });
        let offset = Offset(first.0 + u64::from(*len));
        let record = headwater_core::ids::Record(first_record.0 + u64::from(*records));
        let crcs = block.crcs.iter().copied();
        group::put_head(heads, (self.stream, offset, record), block.len, &block.lens, crcs);
        *len += block.len;
        *records += narrow(block.lens.len() as u64);
    }
}

impl OpenBlock {
    fn add(&mut self, mut bytes: &[u8]) {
        let len = narrow(bytes.len() as u64);
        self.len += len;
        self.message_len += len;
        while !bytes.is_empty() {
            let room = CHUNK_BYTES - self.chunk_len;
            let (now, later) = bytes.split_at(bytes.len().min(room));
            self.crc = crc32c::crc32c_append(self.crc, now);
            self.chunk_len += now.len();
            if self.chunk_len == CHUNK_BYTES {
                self.crcs.push(std::mem::take(&mut self.crc));
                self.chunk_len = 0;
            }
            bytes = later;
        }
    }
}

fn narrow(value: u64) -> u32 {
    u32::try_from(value).expect("a segment has fewer than 2^32 bytes")
}
