//! Finding a run in a segment: the directory is read once, then one page of the table, then the
//! items of one run. Each part is verified before it is used.

use std::sync::Arc;

use headwater_core::ids::StreamId;

use super::format::{
    BlockItem, DIRECTORY_ENTRY_BYTES, ITEM_BYTES, PAGE_RUNS, RUN_BYTES, RunEntry, TRAILER_LEN,
    Trailer,
};
use super::{SegmentNo, path};
use crate::codec::Cursor;
use crate::disk::{DiskFile, read_exactly};
use crate::error::{Error, Result};
use crate::log::file::FileNo;

/// The first run of each page.
#[derive(Debug)]
pub(crate) struct Directory {
    trailer: Trailer,
    pages: Vec<PageRef>,
}

#[derive(Debug, Clone, Copy)]
struct PageRef {
    /// The stream and the oldest log file of the page's first run.
    first: (StreamId, FileNo),
    crc: u32,
}

/// Runs in rising order of stream and log file.
pub(crate) type Page = Arc<[RunEntry]>;

impl Directory {
    /// Reads and verifies the end of segment `no`.
    pub(crate) fn load(no: SegmentNo, handle: &dyn DiskFile) -> Result<Self> {
        let path = path(no);
        let failed = |source| Error::io(&path, "reading a segment", source);
        let len = handle.len().map_err(failed)?;
        let at = len.saturating_sub(TRAILER_LEN as u64);
        let damaged = || Error::corrupt(&path, at, "the end of the segment is damaged");
        let bytes = read_exactly(handle, at, TRAILER_LEN as u64).map_err(failed)?;
        let trailer = Trailer::parse(no, &bytes.ok_or_else(damaged)?, len)?;
        let trailer = trailer.ok_or_else(damaged)?;
        let directory_len = trailer.directory_len() as u64;
        let bytes = read_exactly(handle, trailer.directory_at(), directory_len).map_err(failed)?;
        let bytes = bytes.filter(|bytes| crc32c::crc32c(bytes) == trailer.directory_crc);
        let at = trailer.directory_at();
        let damaged = || Error::corrupt(&path, at, "the directory of the segment is damaged");
        let pages = Self::parse(&bytes.ok_or_else(damaged)?).ok_or_else(damaged)?;
        Ok(Self { trailer, pages })
    }

    fn parse(bytes: &[u8]) -> Option<Vec<PageRef>> {
        let mut cursor = Cursor::new(bytes);
        let mut pages = Vec::with_capacity(bytes.len() / DIRECTORY_ENTRY_BYTES);
        while !cursor.is_at_end() {
            let first = (StreamId(cursor.u64()?), cursor.u32()?);
            pages.push(PageRef { first, crc: cursor.u32()? });
        }
        Some(pages)
    }

    /// Where the heads of all blocks start.
    pub(crate) fn heads_at(&self) -> u32 {
        self.trailer.heads_at
    }

    /// How many pages the table has.
    pub(crate) fn pages(&self) -> usize {
        self.pages.len()
    }

    /// The page that has the run of `stream` for log file `file_no`, if any has.
    pub(crate) fn page_of(&self, stream: StreamId, file_no: FileNo) -> Option<usize> {
        let after = self.pages.partition_point(|page| page.first <= (stream, file_no));
        after.checked_sub(1)
    }

    /// Reads and verifies a page.
    pub(crate) fn load_page(&self, number: usize, handle: &dyn DiskFile) -> Result<Page> {
        let path = path(self.trailer.no);
        let at = self.trailer.table_at() + (number * PAGE_RUNS * RUN_BYTES) as u64;
        let damaged = || Error::corrupt(&path, at, "the table of the segment is damaged");
        let page = self.pages.get(number).ok_or_else(damaged)?;
        let runs = (self.trailer.runs as usize - number * PAGE_RUNS).min(PAGE_RUNS);
        let bytes = read_exactly(handle, at, (runs * RUN_BYTES) as u64);
        let bytes = bytes.map_err(|e| Error::io(&path, "reading a segment", e))?;
        let bytes = bytes.filter(|bytes| crc32c::crc32c(bytes) == page.crc);
        let bytes = bytes.ok_or_else(damaged)?;
        let mut cursor = Cursor::new(&bytes);
        let parsed: Option<Vec<_>> = (0..runs).map(|_| RunEntry::decode(&mut cursor)).collect();
        Ok(parsed.ok_or_else(damaged)?.into())
    }

    /// Reads and verifies the blocks of a run.
    pub(crate) fn load_items(
        &self,
        run: &RunEntry,
        handle: &dyn DiskFile,
    ) -> Result<Arc<[BlockItem]>> {
        if run.item_count == 0 {
            return Ok(Arc::new([BlockItem { offset: 0, record: 0, head: 0 }]));
        }
        let path = path(self.trailer.no);
        let at = u64::from(self.trailer.items_at) + u64::from(run.first_item) * ITEM_BYTES;
        let bytes = read_exactly(handle, at, u64::from(run.item_count) * ITEM_BYTES);
        let bytes = bytes.map_err(|e| Error::io(&path, "reading a segment", e))?;
        let bytes = bytes.filter(|bytes| crc32c::crc32c(bytes) == run.items_crc);
        let damaged = || Error::corrupt(&path, at, "the items of a run are damaged");
        let bytes = bytes.ok_or_else(damaged)?;
        let mut cursor = Cursor::new(&bytes);
        let items = (0..run.item_count).map(|_| BlockItem::decode(&mut cursor));
        let items: Option<Vec<_>> = items.collect();
        Ok(items.ok_or_else(damaged)?.into())
    }

    /// The memory that this takes, for the cache.
    pub(crate) fn weight(&self) -> u64 {
        (self.pages.len() * size_of::<PageRef>() + size_of::<Self>()) as u64
    }
}

/// The run for log file `file_no` among those of `page`.
pub(crate) fn find(page: &[RunEntry], stream: StreamId, file_no: FileNo) -> Option<&RunEntry> {
    let after = page.partition_point(|run| (run.stream, run.files[0]) <= (stream, file_no));
    let run = page.get(after.checked_sub(1)?)?;
    (run.stream == stream && file_no <= run.files[1]).then_some(run)
}

/// The head of one block among a run's heads.
pub(crate) fn head_len(run: &RunEntry, items: &[BlockItem], at: usize) -> Option<u32> {
    let start = items.get(at)?.head;
    let end = items.get(at + 1).map_or(run.heads_len, |next| next.head);
    end.checked_sub(start)
}
