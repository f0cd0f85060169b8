//! Lookups: from a stream and a position to the piece that holds it.

use std::sync::Arc;

use bytes::Bytes;
use headwater_core::ids::{Offset, Record, StreamId};

use super::{CacheKey, Cached, HandleKey, Index, Location, Stop};
use crate::disk::DiskFile;
use crate::error::{Error, Result};
use crate::log::file::{self, FileNo};
use crate::log::footer::{Item, Span, Table};
use crate::segment::{self, BlockItem, Directory, Page, RunEntry, SegmentNo};

/// One piece of a stream with a head of its own, as an index knows it: an entry in the log, or a
/// block in a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Spot {
    pub(crate) stop: Stop,
    pub(crate) stream: StreamId,
    pub(crate) offset: Offset,
    pub(crate) end: Offset,
    pub(crate) record: Record,
    pub(crate) record_end: Record,
    pub(crate) layout: Layout,
}

/// Where head and payload are in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Payload directly behind head; `len` is that of both.
    Entry { position: u32, len: u32 },
    /// Far from each other.
    Block { head_at: u64, head_len: u32, payload_at: u64 },
}

/// What to look for in a stream.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Key {
    /// The piece that holds this byte.
    Byte(Offset),
    /// The piece that holds this message.
    Message(Record),
}

/// How many pieces to look up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limit {
    /// Pieces that start here or later are of no interest.
    pub(crate) to: Offset,
    pub(crate) count: usize,
}

impl Limit {
    const ONE: Self = Self { to: Offset(u64::MAX), count: 1 };
}

/// Whether a read may wait for the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// It may.
    Fine,
    /// It fails with `WouldWait` instead.
    No,
}

impl Wait {
    /// Before anything that the disk has to be asked for.
    fn may(self) -> Result<()> {
        match self {
            Self::Fine => Ok(()),
            Self::No => Err(Error::would_wait()),
        }
    }
}

/// Where to look first while a dead file is still there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Prefer {
    /// In what replaces it, which lasts.
    Live,
    /// In itself: a reader that was under way when it died may need what was left out.
    Dead,
}

/// What one stop holds of a stream.
enum Held {
    Entries(Span),
    Run(RunEntry),
}

impl Held {
    fn span(&self) -> &Span {
        match self {
            Self::Entries(span) => span,
            Self::Run(run) => &run.span,
        }
    }

    /// The oldest log file that it stands for.
    fn oldest(&self, stop: Stop) -> FileNo {
        match self {
            Self::Entries(_) => stop.file_no,
            Self::Run(run) => run.files[0],
        }
    }
}

impl Location {
    /// The piece of `stream` that holds what `key` says, or `None` when no file does.
    pub(crate) fn find(&self, stream: StreamId, key: Key) -> Result<Option<Spot>> {
        if let Some(spot) = self.find_warm(stream, key) {
            return Ok(Some(spot));
        }
        let Some(stop) = self.path(stream, key, Wait::Fine)?.pop() else { return Ok(None) };
        Ok(self.spots(stream, stop, key, Limit::ONE, Wait::Fine)?.into_iter().next())
    }

    /// The same, from memory alone: `None` also when it would take the disk to know.
    pub(crate) fn find_warm(&self, stream: StreamId, key: Key) -> Option<Spot> {
        let index = self.index.read();
        let mut no = index.head(stream);
        loop {
            let run = index.warm.get(&no)?.runs.get(&stream)?;
            let (starts_before, ends_after) = key.against(&run.span);
            if starts_before {
                let at = key.position(run.span, &run.items);
                let spot = entry_spot(stream, no, run.span, &run.items, at);
                return spot.filter(|_| ends_after);
            }
            no = run.span.prev_file;
        }
    }

    /// The stops on the way from the newest bytes of `stream` back to those that hold `key`; empty
    /// when none do.
    pub(crate) fn path(&self, stream: StreamId, key: Key, wait: Wait) -> Result<Vec<Stop>> {
        if let Some(path) = self.walk(stream, key, Prefer::Live, wait)? {
            return Ok(path);
        }
        Ok(self.walk(stream, key, Prefer::Dead, wait)?.unwrap_or_default())
    }

    fn walk(
        &self,
        stream: StreamId,
        key: Key,
        prefer: Prefer,
        wait: Wait,
    ) -> Result<Option<Vec<Stop>>> {
        let mut path = Vec::new();
        let mut no = self.index.read().head(stream);
        while no > 0 {
            let Some((stop, held)) = self.held(stream, no, prefer, wait)? else { break };
            let (starts_before, ends_after) = key.against(held.span());
            path.push(stop);
            if starts_before {
                // Beyond the end: the caller asks for more than is durable.
                return Ok(ends_after.then_some(path));
            }
            let prev_file = held.span().prev_file;
            if prev_file >= held.oldest(stop) {
                let detail = "an index names an earlier file that is not earlier";
                return Err(Error::corrupt(&stop.path(), 0, detail));
            }
            no = prev_file;
        }
        Ok(None)
    }

    /// What there is of `stream` in place of log file `no`; `None` when nothing is left.
    fn held(
        &self,
        stream: StreamId,
        no: FileNo,
        prefer: Prefer,
        wait: Wait,
    ) -> Result<Option<(Stop, Held)>> {
        let (warm, stops) = {
            let index = self.index.read();
            let run = index.warm.get(&no).and_then(|live| live.runs.get(&stream));
            (run.map(|run| run.span), index.stops(stream, no, prefer))
        };
        if let Some(span) = warm {
            return Ok(Some((Stop::log(no), Held::Entries(span))));
        }
        for stop in stops {
            let held = if let Some(segment) = stop.segment {
                self.run(segment, stream, no, wait)?.map(Held::Run)
            } else {
                let table = self.table(no, wait)?;
                let entry = table.find(stream).ok_or_else(|| stream_missing(stream, no))?;
                Some(Held::Entries(entry.span))
            };
            if let Some(held) = held {
                return Ok(Some((stop, held)));
            }
        }
        Ok(None)
    }

    /// The pieces of `stream` at `stop`, from the one that `key` says.
    pub(crate) fn spots(
        &self,
        stream: StreamId,
        stop: Stop,
        key: Key,
        limit: Limit,
        wait: Wait,
    ) -> Result<Vec<Spot>> {
        if let Some(no) = stop.segment {
            return self.block_spots(stream, stop, no, key, limit, wait);
        }
        let no = stop.file_no;
        let of = |span: Span, items: &[Item]| {
            let first = key.position(span, items);
            let at = (first..items.len()).take(limit.count);
            at.map_while(|at| entry_spot(stream, no, span, items, at))
                .take_while(|spot| spot.offset < limit.to)
                .collect()
        };
        {
            let index = self.index.read();
            if let Some(run) = index.warm.get(&no).and_then(|live| live.runs.get(&stream)) {
                return Ok(of(run.span, &run.items));
            }
        }
        let table = self.table(no, wait)?;
        let entry = table.find(stream).ok_or_else(|| stream_missing(stream, no))?;
        let cache_key = CacheKey::Items(no, stream);
        if let Some(Cached::Items(items)) = self.cached(cache_key) {
            return Ok(of(entry.span, &items));
        }
        wait.may()?;
        let items = table.load_items(entry, &*self.log_handle(no, wait)?)?;
        self.keep(cache_key, Cached::Items(Arc::clone(&items)), size_of_val(&*items) as u64);
        Ok(of(entry.span, &items))
    }

    fn block_spots(
        &self,
        stream: StreamId,
        stop: Stop,
        no: SegmentNo,
        key: Key,
        limit: Limit,
        wait: Wait,
    ) -> Result<Vec<Spot>> {
        let run = self.run(no, stream, stop.file_no, wait)?;
        let run = run.ok_or_else(|| stream_missing_in_segment(stream, no))?;
        let directory = self.directory(no, wait)?;
        let cache_key = CacheKey::Blocks(no, stream, run.files[0]);
        let items = if let Some(Cached::Blocks(items)) = self.cached(cache_key) {
            items
        } else {
            wait.may()?;
            let items = directory.load_items(&run, &*self.segment_handle(no)?)?;
            let weight = size_of_val(&*items) as u64;
            self.keep(cache_key, Cached::Blocks(Arc::clone(&items)), weight);
            items
        };
        let heads_at = directory.heads_at();
        let first = key.position(run.span, &items);
        Ok((first..items.len())
            .take(limit.count)
            .map_while(|at| block_spot(stop, &run, &items, at, heads_at))
            .take_while(|spot| spot.offset < limit.to)
            .collect())
    }

    /// The run of `stream` that stands for log file `file_no` in segment `no`.
    fn run(
        &self,
        no: SegmentNo,
        stream: StreamId,
        file_no: FileNo,
        wait: Wait,
    ) -> Result<Option<RunEntry>> {
        let directory = self.directory(no, wait)?;
        let Some(number) = directory.page_of(stream, file_no) else { return Ok(None) };
        let key = CacheKey::Page(no, number);
        let page: Page = if let Some(Cached::Page(page)) = self.cached(key) {
            page
        } else {
            wait.may()?;
            let page = directory.load_page(number, &*self.segment_handle(no)?)?;
            self.keep(key, Cached::Page(Arc::clone(&page)), size_of_val(&*page) as u64);
            page
        };
        Ok(segment::find(&page, stream, file_no).copied())
    }

    /// The streams of a file with a footer.
    pub(crate) fn table(&self, no: FileNo, wait: Wait) -> Result<Arc<Table>> {
        if let Some(Cached::Table(table)) = self.cached(CacheKey::Table(no)) {
            return Ok(table);
        }
        wait.may()?;
        let table = Arc::new(Table::load(no, &*self.log_handle(no, wait)?)?);
        self.keep(CacheKey::Table(no), Cached::Table(Arc::clone(&table)), table.weight());
        Ok(table)
    }

    /// The first run of each page of a segment.
    pub(crate) fn directory(&self, no: SegmentNo, wait: Wait) -> Result<Arc<Directory>> {
        let key = CacheKey::Directory(no);
        if let Some(Cached::Directory(directory)) = self.cached(key) {
            return Ok(directory);
        }
        wait.may()?;
        let directory = Arc::new(Directory::load(no, &*self.segment_handle(no)?)?);
        self.keep(key, Cached::Directory(Arc::clone(&directory)), directory.weight());
        Ok(directory)
    }

    fn cached(&self, key: CacheKey) -> Option<Cached> {
        self.footers.lock().get(key)
    }

    fn keep(&self, key: CacheKey, value: Cached, weight: u64) {
        /// What a value costs beside its own bytes, about.
        const OVERHEAD_BYTES: u64 = 128;
        self.footers.lock().insert(key, value, weight + OVERHEAD_BYTES);
    }

    /// Reads exactly `len` bytes at `stop`. Nothing is verified.
    pub(crate) fn read(&self, stop: Stop, position: u64, len: usize, wait: Wait) -> Result<Bytes> {
        let handle = match stop.segment {
            Some(no) => self.handle(HandleKey::Segment(no), &segment::path(no), wait)?,
            None => self.log_handle(stop.file_no, wait)?,
        };
        self.buffers.read(len, |bytes| {
            let read = match wait {
                Wait::Fine => handle.read_at(bytes, position).map(Some),
                Wait::No => handle.read_now(bytes, position),
            };
            match read.map_err(|e| Error::io(&stop.path(), "reading stream bytes", e))? {
                Some(read) if read == len => Ok(()),
                Some(read) if wait == Wait::Fine => {
                    let end = position + read as u64;
                    Err(Error::corrupt(&stop.path(), end, "the file ends inside an entry"))
                }
                _ => Err(Error::would_wait()),
            }
        })
    }

    fn log_handle(&self, no: FileNo, wait: Wait) -> Result<Arc<dyn DiskFile>> {
        if let Some(live) = self.index.read().warm.get(&no) {
            return Ok(Arc::clone(&live.file.handle));
        }
        self.handle(HandleKey::Log(no), &file::path(no), wait)
    }

    pub(crate) fn segment_handle(&self, no: SegmentNo) -> Result<Arc<dyn DiskFile>> {
        self.handle(HandleKey::Segment(no), &segment::path(no), Wait::Fine)
    }

    fn handle(&self, key: HandleKey, path: &str, wait: Wait) -> Result<Arc<dyn DiskFile>> {
        if let Some(handle) = self.handles.lock().get(key) {
            return Ok(handle);
        }
        wait.may()?;
        let handle = self.disk.open(path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => Error::corrupt(path, 0, "the file is missing"),
            _ => Error::io(path, "opening a file of stream bytes", error),
        })?;
        self.handles.lock().insert(key, Arc::clone(&handle), 1);
        Ok(handle)
    }
}

impl Index {
    /// Where to look for what log file `no` held of `stream`, in this order.
    fn stops(&self, stream: StreamId, no: FileNo, prefer: Prefer) -> Vec<Stop> {
        let log = self.footed.contains_key(&no).then(|| Stop::log(no));
        let log_is_dead = self.doomed.contains(&no);
        let here = |segments: &[super::Segment]| -> Vec<Stop> {
            let covering = segments.iter().filter(|segment| segment.covers(stream, no));
            covering.map(|segment| Stop { file_no: no, segment: Some(segment.no) }).collect()
        };
        let (mut live, mut dead) = (here(&self.segments), Vec::new());
        let logs = if log_is_dead { &mut dead } else { &mut live };
        logs.extend(log);
        // The oldest first: each that followed may have left out more.
        dead.extend(here(&self.doomed_segments));
        match prefer {
            Prefer::Live => live.into_iter().chain(dead).collect(),
            Prefer::Dead => dead.into_iter().chain(live).collect(),
        }
    }
}

fn stream_missing(stream: StreamId, no: FileNo) -> Error {
    let detail = format!("the footer does not name stream {:016x}, which others do", stream.0);
    Error::corrupt(&file::path(no), 0, detail)
}

fn stream_missing_in_segment(stream: StreamId, no: SegmentNo) -> Error {
    let detail = format!("the table does not name stream {:016x} any more", stream.0);
    Error::corrupt(&segment::path(no), 0, detail)
}

/// Positions that count from the start of a span.
trait Relative {
    fn offset(&self) -> u32;
    fn record(&self) -> u32;
}

impl Relative for Item {
    fn offset(&self) -> u32 {
        self.offset
    }

    fn record(&self) -> u32 {
        self.record
    }
}

impl Relative for BlockItem {
    fn offset(&self) -> u32 {
        self.offset
    }

    fn record(&self) -> u32 {
        self.record
    }
}

/// Where the piece that `items[at]` describes starts and ends.
fn bounds<T: Relative>(span: Span, items: &[T], at: usize) -> Option<[(Offset, Record); 2]> {
    let place = |item: &T| {
        let offset = span.first.0.saturating_add(u64::from(item.offset()));
        let record = span.first_record.0.saturating_add(u64::from(item.record()));
        (Offset(offset), Record(record))
    };
    let end = items.get(at + 1).map_or((span.end(), span.record_end()), place);
    Some([place(items.get(at)?), end])
}

/// The entry that `items[at]` describes.
fn entry_spot(stream: StreamId, no: FileNo, span: Span, items: &[Item], at: usize) -> Option<Spot> {
    let [(offset, record), (end, record_end)] = bounds(span, items, at)?;
    let Item { position, len, .. } = *items.get(at)?;
    let layout = Layout::Entry { position, len };
    Some(Spot { stop: Stop::log(no), stream, offset, end, record, record_end, layout })
}

/// The block that `items[at]` describes.
fn block_spot(
    stop: Stop,
    run: &RunEntry,
    items: &[BlockItem],
    at: usize,
    heads_at: u32,
) -> Option<Spot> {
    let [(offset, record), (end, record_end)] = bounds(run.span, items, at)?;
    let item = items.get(at)?;
    let layout = Layout::Block {
        head_at: u64::from(heads_at) + u64::from(run.heads_at) + u64::from(item.head),
        head_len: segment::head_len(run, items, at)?,
        payload_at: u64::from(run.payload_at) + u64::from(item.offset),
    };
    Some(Spot { stop, stream: run.stream, offset, end, record, record_end, layout })
}

impl Key {
    /// Whether a file's part of the stream starts at or before this, and whether it ends after.
    fn against(self, span: &Span) -> (bool, bool) {
        match self {
            Self::Byte(byte) => (span.first <= byte, span.end() > byte),
            Self::Message(record) => (span.first_record <= record, span.record_end() > record),
        }
    }

    /// The last item that starts at or before this.
    fn position<T: Relative>(self, span: Span, items: &[T]) -> usize {
        let after = match self {
            Self::Byte(byte) => {
                let byte = byte.0.saturating_sub(span.first.0);
                items.partition_point(|item| u64::from(item.offset()) <= byte)
            }
            Self::Message(record) => {
                let record = record.0.saturating_sub(span.first_record.0);
                items.partition_point(|item| u64::from(item.record()) <= record)
            }
        };
        after.saturating_sub(1)
    }
}
