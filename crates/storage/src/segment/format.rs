//! The layout of a segment's fixed parts.

use headwater_core::ids::{Offset, Record, StreamId};

use super::{SegmentNo, path};
use crate::codec::{self, Cursor};
use crate::error::{Error, Result};
use crate::log::file::FileNo;
use crate::log::footer::Span;

/// The bytes in front of the first run.
pub(super) const HEADER_LEN: usize = 36;
/// One block.
pub(super) const ITEM_BYTES: u64 = 12;
/// One run.
pub(super) const RUN_BYTES: usize = 68;
/// Runs in one page of the table; only the last page has fewer.
pub(super) const PAGE_RUNS: usize = 64;
/// One page of the table, as the directory describes it.
pub(super) const DIRECTORY_ENTRY_BYTES: usize = 16;
/// The fixed end.
pub(crate) const TRAILER_LEN: usize = 56;

const MAGIC: [u8; 8] = *b"HWATRSEG";
const VERSION: u32 = 1;

const _: () = assert!(HEADER_LEN == 8 + 4 + 4 + 16 + 4);
const _: () = assert!(RUN_BYTES == 3 * 8 + 11 * 4 && ITEM_BYTES == 3 * 4);
const _: () = assert!(DIRECTORY_ENTRY_BYTES == 8 + 4 + 4);
const _: () = assert!(TRAILER_LEN == 8 + 4 + 4 + 16 + 5 * 4 + 4);

/// A part of a stream that lies in one piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RunEntry {
    pub(crate) stream: StreamId,
    /// Without bytes it only says where to look for older ones.
    pub(crate) span: Span,
    /// The log files whose entries it replaces, from the first to the last.
    pub(crate) files: [FileNo; 2],
    /// Where its bytes start.
    pub(crate) payload_at: u32,
    /// Where the heads of its blocks start, and how long they are together.
    pub(crate) heads_at: u32,
    pub(crate) heads_len: u32,
    /// Its blocks; none are listed when there is only one.
    pub(super) first_item: u32,
    pub(super) item_count: u32,
    pub(super) items_crc: u32,
}

/// Some messages of a run; everything counts from the start of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockItem {
    pub(crate) offset: u32,
    pub(crate) record: u32,
    /// Where its head starts among the run's heads.
    pub(crate) head: u32,
}

impl RunEntry {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let Self { stream, span, files, payload_at, heads_at, heads_len, .. } = self;
        for field in [stream.0, span.first.0, span.first_record.0] {
            out.extend_from_slice(&field.to_le_bytes());
        }
        let [oldest, newest] = *files;
        for field in [span.len, span.records, span.prev_file, oldest, newest] {
            out.extend_from_slice(&field.to_le_bytes());
        }
        let (items, crc) = ([self.first_item, self.item_count], self.items_crc);
        for field in [*payload_at, *heads_at, *heads_len, items[0], items[1], crc] {
            out.extend_from_slice(&field.to_le_bytes());
        }
    }

    pub(super) fn decode(cursor: &mut Cursor<'_>) -> Option<Self> {
        let stream = StreamId(cursor.u64()?);
        let (first, first_record) = (Offset(cursor.u64()?), Record(cursor.u64()?));
        let (len, records, prev_file) = (cursor.u32()?, cursor.u32()?, cursor.u32()?);
        let span = Span { first, first_record, len, records, prev_file };
        let files = [cursor.u32()?, cursor.u32()?];
        Some(Self {
            stream,
            span,
            files,
            payload_at: cursor.u32()?,
            heads_at: cursor.u32()?,
            heads_len: cursor.u32()?,
            first_item: cursor.u32()?,
            item_count: cursor.u32()?,
            items_crc: cursor.u32()?,
        })
    }
}

impl BlockItem {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        for field in [self.offset, self.record, self.head] {
            out.extend_from_slice(&field.to_le_bytes());
        }
    }

    pub(super) fn decode(cursor: &mut Cursor<'_>) -> Option<Self> {
        Some(Self { offset: cursor.u32()?, record: cursor.u32()?, head: cursor.u32()? })
    }
}

/// The start of segment `no`.
pub(crate) fn header(no: SegmentNo, directory_id: u128) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.extend_from_slice(&no.to_le_bytes());
    out.extend_from_slice(&directory_id.to_le_bytes());
    codec::put_crc(&mut out);
    assert_eq!(out.len(), HEADER_LEN, "the layout in docs/format.md");
    out
}

/// The directory id in the header of segment `no`; `None` when it is damaged.
///
/// # Errors
/// `Format` when it says that it is of another version.
pub(super) fn parse_header(no: SegmentNo, bytes: &[u8]) -> Result<Option<u128>> {
    let mut cursor = Cursor::new(bytes);
    let (magic, version) = (cursor.array(), cursor.u32());
    let Some(intact) = bytes.get(..HEADER_LEN).and_then(codec::check_crc) else { return Ok(None) };
    if magic == Some(MAGIC) && version != Some(VERSION) {
        let detail = format!("a segment of another version than {VERSION}");
        return Err(Error::format(&path(no), detail));
    }
    let mut cursor = Cursor::new(intact);
    let (found, found_no) = (cursor.take(12).is_some() && magic == Some(MAGIC), cursor.u32());
    Ok(cursor.u128().filter(|_| found && found_no == Some(no)))
}

/// The fixed end of a segment: where its parts lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Trailer {
    pub(super) no: SegmentNo,
    pub(super) directory_id: u128,
    /// Where the heads start: the end of the bytes.
    pub(super) heads_at: u32,
    /// Where the items start: the end of the heads.
    pub(super) items_at: u32,
    pub(super) items: u32,
    pub(super) runs: u32,
    pub(super) directory_crc: u32,
}

impl Trailer {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&self.no.to_le_bytes());
        out.extend_from_slice(&self.directory_id.to_le_bytes());
        let Self { heads_at, items_at, items, runs, directory_crc, .. } = *self;
        for field in [heads_at, items_at, items, runs, directory_crc] {
            out.extend_from_slice(&field.to_le_bytes());
        }
        codec::put_crc(&mut out);
        assert_eq!(out.len(), TRAILER_LEN, "the layout in docs/format.md");
        out
    }

    /// The trailer of segment `no`, which is `len` bytes long; `None` when it is damaged.
    ///
    /// # Errors
    /// `Format` when it says that it is of another version.
    pub(super) fn parse(no: SegmentNo, bytes: &[u8], len: u64) -> Result<Option<Self>> {
        let mut cursor = Cursor::new(bytes);
        let (magic, version) = (cursor.array(), cursor.u32());
        let Some(intact) = codec::check_crc(bytes).filter(|_| magic == Some(MAGIC)) else {
            return Ok(None);
        };
        if version != Some(VERSION) {
            let detail = format!("a segment of another version than {VERSION}");
            return Err(Error::format(&path(no), detail));
        }
        Ok(Self::parse_intact(intact).filter(|t| t.no == no && t.end() == Some(len)))
    }

    fn parse_intact(bytes: &[u8]) -> Option<Self> {
        let mut cursor = Cursor::new(bytes);
        cursor.take(12)?;
        let no = cursor.u32()?;
        let directory_id = cursor.u128()?;
        let (heads_at, items_at) = (cursor.u32()?, cursor.u32()?);
        let (items, runs) = (cursor.u32()?, cursor.u32()?);
        let directory_crc = cursor.u32()?;
        Some(Self { no, directory_id, heads_at, items_at, items, runs, directory_crc })
    }

    /// Where the table starts.
    pub(super) fn table_at(&self) -> u64 {
        u64::from(self.items_at) + u64::from(self.items) * ITEM_BYTES
    }

    /// Where the directory starts.
    pub(super) fn directory_at(&self) -> u64 {
        self.table_at() + u64::from(self.runs) * RUN_BYTES as u64
    }

    pub(super) fn pages(&self) -> usize {
        (self.runs as usize).div_ceil(PAGE_RUNS)
    }

    pub(super) fn directory_len(&self) -> usize {
        self.pages() * DIRECTORY_ENTRY_BYTES
    }

    /// Where the file ends, if this is true.
    fn end(&self) -> Option<u64> {
        let sane = self.heads_at <= self.items_at && self.heads_at as usize >= HEADER_LEN;
        let end = self.directory_at() + (self.directory_len() + TRAILER_LEN) as u64;
        sane.then_some(end)
    }
}
