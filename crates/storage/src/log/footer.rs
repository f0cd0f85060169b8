//! The footer of a finished log file: which bytes of which stream it holds, and where.
//!
//! ```text
//! ··· last frame │ items of all streams │ table, sorted by stream │ trailer │ end of file
//! ```
//! The trailer is read first, then the table (both verified), then the items of one stream.

use std::collections::HashMap;
use std::sync::Arc;

use headwater_core::ids::{Lsn, Offset, Record, StreamId, Timestamp};

use super::file::{self, FileNo};
use super::frame;
use super::group::Placed;
use crate::codec::{self, Cursor};
use crate::disk::{DiskFile, read_exactly};
use crate::error::{Error, Result};
use crate::hash::IdHash;

/// One entry with data.
pub(crate) const ITEM_BYTES: u64 = 16;
/// One stream.
pub(crate) const TABLE_ENTRY_BYTES: u64 = 48;
/// The fixed end.
pub(crate) const TRAILER_BYTES: u64 = 96;

const MAGIC: [u8; 8] = *b"HWATRFTR";
const VERSION: u32 = 1;
const SEALED: u32 = 1;

const _: () = assert!(size_of::<Item>() as u64 == ITEM_BYTES && ITEM_BYTES == 4 * 4);
const _: () = assert!(TABLE_ENTRY_BYTES == 3 * 8 + 6 * 4);
const _: () = assert!(TRAILER_BYTES == 8 + 4 + 4 + 16 + 5 * 8 + 5 * 4 + 4);

/// One entry with data; offset and record count from the start of its run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) offset: u32,
    pub(crate) record: u32,
    /// Where the data head starts in the file.
    pub(crate) position: u32,
    /// Head and payload together.
    pub(crate) len: u32,
}

/// The part of a stream that one file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) first: Offset,
    pub(crate) first_record: Record,
    /// Bytes of the stream.
    pub(crate) len: u32,
    /// Messages of the stream.
    pub(crate) records: u32,
    /// The newest earlier file with bytes of the stream; 0 if there is none.
    pub(crate) prev_file: FileNo,
}

impl Span {
    pub(crate) fn end(&self) -> Offset {
        Offset(self.first.0.saturating_add(u64::from(self.len)))
    }

    pub(crate) fn record_end(&self) -> Record {
        Record(self.first_record.0.saturating_add(u64::from(self.records)))
    }
}

/// A stream's entries in one file, growing while the file does.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    pub(crate) span: Span,
    pub(crate) items: Vec<Item>,
}

impl Run {
    /// An empty run that begins where `placed` does.
    pub(crate) fn starting_at(placed: &Placed, prev_file: FileNo) -> Self {
        let (first, first_record) = (placed.offset, placed.record);
        let span = Span { first, first_record, len: 0, records: 0, prev_file };
        Self { span, items: Vec::new() }
    }

    /// Adds an entry; says what is wrong when it does not continue the run.
    pub(crate) fn push(&mut self, placed: &Placed) -> Result<(), String> {
        let span = &mut self.span;
        if placed.offset != span.end() || placed.record != span.record_end() {
            let (at, is) = (span.end(), placed.offset);
            return Err(format!("stream {:x} continues at {is} instead of {at}", placed.stream.0));
        }
        let (offset, record) = (span.len, span.records);
        self.items.push(Item { offset, record, position: placed.position, len: placed.len });
        span.len += placed.payload_len;
        span.records += placed.count;
        Ok(())
    }
}

/// The streams of a file that is written to.
pub(crate) type Runs = HashMap<StreamId, Run, IdHash>;

/// What a file holds as part of its log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Summary {
    pub(crate) no: FileNo,
    pub(crate) log_id: u128,
    /// The first group, or the next one if the file holds none.
    pub(crate) first_lsn: Lsn,
    /// The last group; just before `first_lsn` if the file holds none.
    pub(crate) last_lsn: Lsn,
    pub(crate) last_slot: u64,
    pub(crate) last_crc: u32,
    pub(crate) newest_time: Timestamp,
    /// Where the last frame ends.
    pub(crate) frames_end: u64,
    /// The last frame is a seal.
    pub(crate) sealed: bool,
}

impl Summary {
    /// What a file holds whose only frame is this one, ending at `frames_end`.
    pub(crate) fn after(no: FileNo, header: &frame::Header, crc: u32, frames_end: u64) -> Self {
        Self {
            no,
            log_id: header.log_id,
            first_lsn: header.first_lsn,
            last_lsn: Lsn(header.first_lsn.0 + u64::from(header.groups) - 1),
            last_slot: header.slot,
            last_crc: crc,
            newest_time: header.time,
            frames_end,
            sealed: header.seal,
        }
    }
}

/// A footer as bytes.
pub(crate) fn encode(summary: &Summary, runs: &Runs) -> Vec<u8> {
    let mut streams: Vec<_> = runs.iter().collect();
    streams.sort_unstable_by_key(|(stream, _)| **stream);
    let mut out = Vec::new();
    let mut table = Vec::new();
    let mut item_count = 0u32;
    for (stream, run) in streams {
        let start = out.len();
        for item in &run.items {
            for field in [item.offset, item.record, item.position, item.len] {
                out.extend_from_slice(&field.to_le_bytes());
            }
        }
        let count = u32::try_from(run.items.len()).expect("a file has fewer than 2^32 entries");
        for field in [stream.0, run.span.first.0, run.span.first_record.0] {
            table.extend_from_slice(&field.to_le_bytes());
        }
        let crc = crc32c::crc32c(&out[start..]);
        let span = &run.span;
        for field in [span.len, span.records, span.prev_file, item_count, count, crc] {
            table.extend_from_slice(&field.to_le_bytes());
        }
        item_count += count;
    }
    out.extend_from_slice(&table);
    let trailer = encode_trailer(summary, runs.len(), item_count, crc32c::crc32c(&table));
    out.extend_from_slice(&trailer);
    out
}

fn encode_trailer(summary: &Summary, streams: usize, items: u32, table_crc: u32) -> Vec<u8> {
    let streams = u32::try_from(streams).expect("a file has fewer than 2^32 streams");
    let mut out = MAGIC.to_vec();
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.extend_from_slice(&summary.no.to_le_bytes());
    out.extend_from_slice(&summary.log_id.to_le_bytes());
    let (first, last, time) = (summary.first_lsn.0, summary.last_lsn.0, summary.newest_time.0);
    for field in [first, last, summary.last_slot, time, summary.frames_end] {
        out.extend_from_slice(&field.to_le_bytes());
    }
    let flags = u32::from(summary.sealed) * SEALED;
    for field in [summary.last_crc, flags, streams, items, table_crc] {
        out.extend_from_slice(&field.to_le_bytes());
    }
    codec::put_crc(&mut out);
    assert_eq!(out.len() as u64, TRAILER_BYTES, "the layout in docs/format.md");
    out
}

/// The fixed end of a footer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Trailer {
    pub(crate) summary: Summary,
    streams: u32,
    items: u32,
    table_crc: u32,
}

impl Trailer {
    /// The trailer in the last bytes of file `no`, if it is intact and fits the file's length.
    ///
    /// # Errors
    /// `Format` when it says that it is of another version.
    pub(crate) fn parse(no: FileNo, bytes: &[u8], file_len: u64) -> Result<Option<Self>> {
        let mut cursor = Cursor::new(bytes);
        if cursor.array() != Some(MAGIC) {
            return Ok(None);
        }
        let Some(intact) = codec::check_crc(bytes) else { return Ok(None) };
        if cursor.u32() != Some(VERSION) {
            let detail = format!("a footer of another version than {VERSION}");
            return Err(Error::format(&file::path(no), detail));
        }
        let trailer = Self::parse_intact(intact);
        Ok(trailer.filter(|t| t.summary.no == no && t.end() == Some(file_len)))
    }

    fn parse_intact(bytes: &[u8]) -> Option<Self> {
        let mut cursor = Cursor::new(bytes);
        cursor.take(12)?;
        let no = cursor.u32()?;
        let log_id = cursor.u128()?;
        let first_lsn = Lsn(cursor.u64()?);
        let last_lsn = Lsn(cursor.u64()?);
        let last_slot = cursor.u64()?;
        let newest_time = Timestamp(cursor.u64()?);
        let frames_end = cursor.u64()?;
        let last_crc = cursor.u32()?;
        let sealed = cursor.u32()? & SEALED != 0;
        let streams = cursor.u32()?;
        let items = cursor.u32()?;
        let table_crc = cursor.u32()?;
        let summary = Summary {
            no,
            log_id,
            first_lsn,
            last_lsn,
            last_slot,
            last_crc,
            newest_time,
            frames_end,
            sealed,
        };
        Some(Self { summary, streams, items, table_crc })
    }

    fn table_at(&self) -> Option<u64> {
        self.summary.frames_end.checked_add(u64::from(self.items) * ITEM_BYTES)
    }

    fn table_len(&self) -> u64 {
        u64::from(self.streams) * TABLE_ENTRY_BYTES
    }

    /// Where the file ends, if the trailer is true.
    fn end(&self) -> Option<u64> {
        self.table_at()?.checked_add(self.table_len() + TRAILER_BYTES)
    }
}

/// The streams of a finished file, sorted.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) trailer: Trailer,
    pub(crate) streams: Vec<TableEntry>,
}

/// One stream of a finished file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TableEntry {
    pub(crate) stream: StreamId,
    pub(crate) span: Span,
    first_item: u32,
    item_count: u32,
    items_crc: u32,
}

impl Table {
    /// Reads and verifies the footer of file `no`, without its items.
    pub(crate) fn load(no: FileNo, handle: &dyn DiskFile) -> Result<Self> {
        let path = file::path(no);
        let failed = |source| Error::io(&path, "reading a footer", source);
        let len = handle.len().map_err(failed)?;
        let at = len.saturating_sub(TRAILER_BYTES);
        let damaged = || Error::corrupt(&path, at, "the footer is damaged");
        let bytes = read_exactly(handle, at, TRAILER_BYTES).map_err(failed)?.ok_or_else(damaged)?;
        let trailer = Trailer::parse(no, &bytes, len)?.ok_or_else(damaged)?;
        let table_at = trailer.table_at().ok_or_else(damaged)?;
        let bytes = read_exactly(handle, table_at, trailer.table_len()).map_err(failed)?;
        let bytes = bytes.filter(|bytes| crc32c::crc32c(bytes) == trailer.table_crc);
        let damaged = || Error::corrupt(&path, table_at, "the table of the footer is damaged");
        let streams = Self::parse(&bytes.ok_or_else(damaged)?, &trailer).ok_or_else(damaged)?;
        Ok(Self { trailer, streams })
    }

    fn parse(bytes: &[u8], trailer: &Trailer) -> Option<Vec<TableEntry>> {
        let mut cursor = Cursor::new(bytes);
        let mut streams = Vec::with_capacity(trailer.streams as usize);
        while !cursor.is_at_end() {
            let stream = StreamId(cursor.u64()?);
            let first = Offset(cursor.u64()?);
            let first_record = Record(cursor.u64()?);
            let len = cursor.u32()?;
            let records = cursor.u32()?;
            let prev_file = cursor.u32()?;
            let first_item = cursor.u32()?;
            let item_count = cursor.u32()?;
            let items_crc = cursor.u32()?;
            first_item.checked_add(item_count).filter(|end| *end <= trailer.items)?;
            let span = Span { first, first_record, len, records, prev_file };
            streams.push(TableEntry { stream, span, first_item, item_count, items_crc });
        }
        Some(streams)
    }

    pub(crate) fn find(&self, stream: StreamId) -> Option<&TableEntry> {
        let at = self.streams.binary_search_by_key(&stream, |entry| entry.stream).ok()?;
        self.streams.get(at)
    }

    /// Reads and verifies the items of one stream.
    pub(crate) fn load_items(
        &self,
        entry: &TableEntry,
        handle: &dyn DiskFile,
    ) -> Result<Arc<[Item]>> {
        let path = file::path(self.trailer.summary.no);
        let at = self.trailer.summary.frames_end + u64::from(entry.first_item) * ITEM_BYTES;
        let len = u64::from(entry.item_count) * ITEM_BYTES;
        let failed = |source| Error::io(&path, "reading a footer", source);
        let bytes = read_exactly(handle, at, len).map_err(failed)?;
        let bytes = bytes.filter(|bytes| crc32c::crc32c(bytes) == entry.items_crc);
        let damaged = || Error::corrupt(&path, at, "the footer is damaged");
        let (items, _) = bytes.as_ref().ok_or_else(damaged)?.as_chunks::<16>();
        let field = |item: &[u8; 16], at: usize| {
            u32::from_le_bytes([item[at], item[at + 1], item[at + 2], item[at + 3]])
        };
        let parse = |item: &[u8; 16]| Item {
            offset: field(item, 0),
            record: field(item, 4),
            position: field(item, 8),
            len: field(item, 12),
        };
        Ok(items.iter().map(parse).collect())
    }

    /// The memory that this takes, for the cache.
    pub(crate) fn weight(&self) -> u64 {
        (self.streams.len() * size_of::<TableEntry>() + size_of::<Self>()) as u64
    }
}

/// Whether the whole footer of file `no` can be read and is what was written.
pub(crate) fn is_intact(no: FileNo, handle: &dyn DiskFile) -> bool {
    let Ok(table) = Table::load(no, handle) else { return false };
    table.streams.iter().all(|entry| table.load_items(entry, handle).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{Disk, MemDisk};

    fn placed(stream: u64, offset: u64, record: u64, position: u32) -> Placed {
        Placed {
            stream: StreamId(stream),
            offset: Offset(offset),
            record: Record(record),
            payload_len: 10,
            count: 2,
            position,
            len: 30,
        }
    }

    fn example() -> (Summary, Runs) {
        let mut runs = Runs::default();
        for (at, stream) in (0u32..).zip([9, 2, 9, 5, 9]) {
            let run = runs
                .get(&StreamId(stream))
                .map_or((100, 20), |run: &Run| (run.span.end().0, run.span.record_end().0));
            let placed = placed(stream, run.0, run.1, 200 + at * 50);
            let run = runs.entry(StreamId(stream)).or_insert_with(|| Run::starting_at(&placed, 3));
            run.push(&placed).unwrap();
        }
        let summary = Summary {
            no: 7,
            log_id: 1,
            first_lsn: Lsn(5),
            last_lsn: Lsn(9),
            last_slot: 4,
            last_crc: 77,
            newest_time: Timestamp(8),
            frames_end: 500,
            sealed: true,
        };
        (summary, runs)
    }

    #[test]
    fn a_footer_comes_back_as_it_was_written() {
        let (summary, runs) = example();
        let file = MemDisk::new().create("x").unwrap();
        let footer = encode(&summary, &runs);
        file.write_at(&footer, summary.frames_end).unwrap();
        let table = Table::load(7, &*file).unwrap();
        assert_eq!(table.trailer.summary, summary);
        assert_eq!(table.streams.len(), 3);
        for (stream, run) in &runs {
            let entry = table.find(*stream).unwrap();
            assert_eq!(entry.span, run.span);
            assert_eq!(table.load_items(entry, &*file).unwrap()[..], run.items[..]);
        }
        assert!(is_intact(7, &*file) && !is_intact(8, &*file));
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let (summary, runs) = example();
        let footer = encode(&summary, &runs);
        for bit in 0..footer.len() * 8 {
            let mut bad = footer.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            let file = MemDisk::new().create("x").unwrap();
            file.write_at(&bad, summary.frames_end).unwrap();
            assert!(!is_intact(7, &*file), "bit {bit}");
        }
    }

    #[test]
    fn a_run_has_no_gap() {
        let mut run = Run::starting_at(&placed(1, 100, 20, 0), 0);
        run.push(&placed(1, 100, 20, 0)).unwrap();
        assert!(run.push(&placed(1, 111, 22, 0)).is_err());
        assert!(run.push(&placed(1, 110, 23, 0)).is_err());
        run.push(&placed(1, 110, 22, 0)).unwrap();
    }
}
