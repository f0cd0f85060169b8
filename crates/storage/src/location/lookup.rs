//! Lookups: from a stream and a position to the entry that holds it.

use std::sync::Arc;

use headwater_core::ids::{Offset, Record, StreamId};

use super::{Cached, Location};
use crate::disk::DiskFile;
use crate::error::{Error, Result};
use crate::log::file::{self, FileNo};
use crate::log::footer::{Item, Span, Table};

/// One entry of a stream, as an index knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Spot {
    pub(crate) file_no: FileNo,
    pub(crate) stream: StreamId,
    pub(crate) offset: Offset,
    pub(crate) end: Offset,
    pub(crate) record: Record,
    pub(crate) record_end: Record,
    /// Where the data head starts in the file.
    pub(crate) position: u32,
    /// Head and payload together.
    pub(crate) len: u32,
}

/// What to look for in a stream.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Key {
    /// The entry that holds this byte.
    Byte(Offset),
    /// The entry that holds this message.
    Message(Record),
}

/// How many entries to look up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limit {
    /// Entries that start here or later are of no interest.
    pub(crate) to: Offset,
    pub(crate) count: usize,
}

impl Limit {
    const ONE: Self = Self { to: Offset(u64::MAX), count: 1 };
}

impl Location {
    /// The entry of `stream` that holds what `key` says, or `None` when no file does.
    pub(crate) fn find(&self, stream: StreamId, key: Key) -> Result<Option<Spot>> {
        if let Some(spot) = self.find_warm(stream, key) {
            return Ok(Some(spot));
        }
        let Some(no) = self.path(stream, key)?.pop() else { return Ok(None) };
        Ok(self.spots(stream, no, key, Limit::ONE)?.into_iter().next())
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
                return spot(stream, no, run.span, &run.items, at).filter(|_| ends_after);
            }
            no = run.span.prev_file;
        }
    }

    /// The files that hold `stream` from its newest back to the one that holds `key`; empty when
    /// none does.
    pub(crate) fn path(&self, stream: StreamId, key: Key) -> Result<Vec<FileNo>> {
        let mut path = Vec::new();
        let mut no = self.index.read().head(stream);
        while no > 0 {
            let Some(span) = self.span(stream, no)? else { break };
            let (starts_before, ends_after) = key.against(&span);
            path.push(no);
            if starts_before {
                // Beyond the end: the caller asks for more than is durable.
                return Ok(if ends_after { path } else { Vec::new() });
            }
            if span.prev_file >= no {
                let detail = "a footer names an earlier file that is not earlier";
                return Err(Error::corrupt(&file::path(no), 0, detail));
            }
            no = span.prev_file;
        }
        Ok(Vec::new())
    }

    /// What file `no` holds of `stream`; `None` when there is no such file (any more).
    fn span(&self, stream: StreamId, no: FileNo) -> Result<Option<Span>> {
        {
            let index = self.index.read();
            if let Some(run) = index.warm.get(&no).and_then(|live| live.runs.get(&stream)) {
                return Ok(Some(run.span));
            }
            if !index.footed.contains_key(&no) {
                return Ok(None);
            }
        }
        let table = self.table(no)?;
        let entry = table.find(stream).ok_or_else(|| stream_missing(stream, no))?;
        Ok(Some(entry.span))
    }

    /// The entries of `stream` in file `no`, from the one that `key` says.
    pub(crate) fn spots(
        &self,
        stream: StreamId,
        no: FileNo,
        key: Key,
        limit: Limit,
    ) -> Result<Vec<Spot>> {
        {
            let index = self.index.read();
            if let Some(run) = index.warm.get(&no).and_then(|live| live.runs.get(&stream)) {
                return Ok(spots(stream, no, run.span, &run.items, key, limit));
            }
        }
        let table = self.table(no)?;
        let entry = table.find(stream).ok_or_else(|| stream_missing(stream, no))?;
        let cached = self.footers.lock().get((no, Some(stream)));
        let items = if let Some(Cached::Items(items)) = cached {
            items
        } else {
            let items = table.load_items(entry, &*self.handle(no)?)?;
            let weight = size_of_val(&*items) as u64 + 64;
            self.footers.lock().insert(
                (no, Some(stream)),
                Cached::Items(Arc::clone(&items)),
                weight,
            );
            items
        };
        Ok(spots(stream, no, entry.span, &items, key, limit))
    }

    /// The streams of a file with a footer.
    pub(crate) fn table(&self, no: FileNo) -> Result<Arc<Table>> {
        if let Some(Cached::Table(table)) = self.footers.lock().get((no, None)) {
            return Ok(table);
        }
        let table = Arc::new(Table::load(no, &*self.handle(no)?)?);
        let cached = Cached::Table(Arc::clone(&table));
        self.footers.lock().insert((no, None), cached, table.weight());
        Ok(table)
    }

    /// Reads exactly `len` bytes of file `no`. Nothing is verified.
    pub(crate) fn read(&self, no: FileNo, position: u64, len: usize) -> Result<Vec<u8>> {
        let path = || file::path(no);
        let mut bytes = vec![0; len];
        let read = self.handle(no)?.read_at(&mut bytes, position);
        let read = read.map_err(|e| Error::io(&path(), "reading stream bytes", e))?;
        if read < len {
            let end = position + read as u64;
            return Err(Error::corrupt(&path(), end, "the file ends inside an entry"));
        }
        Ok(bytes)
    }

    fn handle(&self, no: FileNo) -> Result<Arc<dyn DiskFile>> {
        if let Some(live) = self.index.read().warm.get(&no) {
            return Ok(Arc::clone(&live.file.handle));
        }
        if let Some(handle) = self.handles.lock().get(u64::from(no)) {
            return Ok(handle);
        }
        let path = file::path(no);
        let handle = self.disk.open(&path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => Error::corrupt(&path, 0, "the log file is missing"),
            _ => Error::io(&path, "opening a log file", error),
        })?;
        self.handles.lock().insert(u64::from(no), Arc::clone(&handle), 1);
        Ok(handle)
    }
}

fn stream_missing(stream: StreamId, no: FileNo) -> Error {
    let detail = format!("the footer does not name stream {:016x}, which others do", stream.0);
    Error::corrupt(&file::path(no), 0, detail)
}

fn spots(
    stream: StreamId,
    file_no: FileNo,
    span: Span,
    items: &[Item],
    key: Key,
    limit: Limit,
) -> Vec<Spot> {
    (key.position(span, items)..items.len())
        .take(limit.count)
        .map_while(|at| spot(stream, file_no, span, items, at))
        .take_while(|spot| spot.offset < limit.to)
        .collect()
}

/// The entry that `items[at]` describes.
fn spot(stream: StreamId, file_no: FileNo, span: Span, items: &[Item], at: usize) -> Option<Spot> {
    let offset = |at: u32| Offset(span.first.0.saturating_add(u64::from(at)));
    let record = |at: u32| Record(span.first_record.0.saturating_add(u64::from(at)));
    let item = items.get(at)?;
    let next = items.get(at + 1);
    Some(Spot {
        file_no,
        stream,
        offset: offset(item.offset),
        end: next.map_or_else(|| span.end(), |next| offset(next.offset)),
        record: record(item.record),
        record_end: next.map_or_else(|| span.record_end(), |next| record(next.record)),
        position: item.position,
        len: item.len,
    })
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
    fn position(self, span: Span, items: &[Item]) -> usize {
        let after = match self {
            Self::Byte(byte) => {
                let byte = byte.0.saturating_sub(span.first.0);
                items.partition_point(|item| u64::from(item.offset) <= byte)
            }
            Self::Message(record) => {
                let record = record.0.saturating_sub(span.first_record.0);
                items.partition_point(|item| u64::from(item.record) <= record)
            }
        };
        after.saturating_sub(1)
    }
}
