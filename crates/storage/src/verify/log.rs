//! One log file: its frames, the data of every entry, and the footer that must agree with them.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use headwater_core::ids::{Lsn, StreamId};
use memchr::memmem;

use super::Scan;
use super::report::{Fact, Finding, Part, Piece, Seen, Value, Verdict};
use super::window::Window;
use crate::codec::CHUNK_BYTES;
use crate::disk::DiskFile;
use crate::entry::DataHead;
use crate::error::{Error, Kind, Result};
use crate::hash::IdHash;
use crate::log::file::{self, FileNo, Header};
use crate::log::footer::{Item, Run, Runs, Span, Summary, Table, Trailer};
use crate::log::frame::{self, Defect, Frame, HEADER_LEN};
use crate::log::group::{self, Found, Head, Placed};

/// What is known of a log file from outside.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Place {
    /// It is below the manifest's floor, so it has a footer.
    pub(super) finished: bool,
    pub(super) directory_id: Option<u128>,
}

/// How a log file ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct End {
    pub(super) log_id: u128,
    /// The first and the last frame; none if there was none.
    pub(super) first: Option<First>,
    pub(super) summary: Option<Summary>,
    /// It has an intact trailer.
    pub(super) footed: bool,
    /// It is shorter than it was made.
    pub(super) shortened: bool,
    /// Bytes behind the last frame that are not zero, without a frame among them.
    pub(super) torn: u64,
}

/// What a file's first frame continues.
#[derive(Debug, Clone, Copy)]
pub(super) struct First {
    pub(super) at: u64,
    pub(super) slot: u64,
    pub(super) prev_crc: u32,
    pub(super) lsn: Lsn,
}

/// A log file that is being read.
struct Open {
    no: FileNo,
    path: String,
    log_id: u128,
    window: Window,
    table: Option<Table>,
    items: HashMap<StreamId, Arc<[Item]>, IdHash>,
    runs: Runs,
    /// A frame is damaged, so `runs` lack something.
    broken: bool,
    first: Option<First>,
    summary: Option<Summary>,
}

impl Scan<'_> {
    /// Reads log file `no`. Nothing when it holds no log, which only the newest file may.
    pub(super) fn log_file(&mut self, no: FileNo, place: &Place) -> Option<End> {
        match self.read_log(no, place) {
            Ok(end) => end,
            Err(error) => {
                self.find_error(Part::File, &error);
                None
            }
        }
    }

    fn read_log(&mut self, no: FileNo, place: &Place) -> Result<Option<End>> {
        let path = file::path(no);
        let handle =
            self.disk.open(&path).map_err(|e| Error::io(&path, "opening a log file", e))?;
        let mut window = Window::new(Arc::clone(&handle), &path)?;
        self.enter(&path, window.len());
        let header = Header::parse(no, &window.rest(0)?);
        if let Err(error) = &header {
            self.find_error(Part::Header, error);
            return Ok(None);
        }
        let header = header?;
        let Some(log_id) = self.log_id(&path, header, place, &mut window)? else { return Ok(None) };
        let shortened = header.is_some_and(|header| window.len() < header.size);
        let (runs, items) = (Runs::default(), HashMap::default());
        let table = self.footer(no, &path, &*handle, place.finished || shortened);
        let (first, summary) = (None, None);
        let mut open =
            Open { no, path, log_id, window, table, items, runs, broken: false, first, summary };
        self.items(&mut open, &*handle);
        let torn = self.frames(&mut open)?;
        self.compare(&open);
        self.watcher.fact(&|| footer_fact(&open));
        let footed = open.table.is_some();
        Ok(Some(End { log_id, first: open.first, summary: open.summary, footed, shortened, torn }))
    }

    /// The log that the file belongs to, from its header or else from its first frame.
    fn log_id(
        &mut self,
        path: &str,
        header: Option<Header>,
        place: &Place,
        window: &mut Window,
    ) -> Result<Option<u128>> {
        if let Some(header) = header {
            self.watcher.fact(&|| Fact {
                what: "header",
                at: 0,
                fields: vec![
                    ("number", Value::Number(header.no.into())),
                    ("log_id", Value::Id(header.log_id)),
                    ("directory_id", Value::Id(header.directory_id)),
                    ("allocated", Value::Number(header.size)),
                ],
            });
            if place.directory_id.is_some_and(|id| id != header.directory_id) {
                let detail = "the log file is from another data directory";
                self.find(Finding::new(Verdict::Damage, Part::Header, path, 0, detail));
            }
            return Ok(Some(header.log_id));
        }
        let at = file::HEADER_BYTES;
        let frame = window.get(at, HEADER_LEN)?.and_then(|head| frame::peek(&head));
        let whole = frame.map(|(_, len)| window.get(at, len)).transpose()?.flatten();
        let found = whole.and_then(|bytes| frame::parse_any(&bytes).ok());
        let (verdict, detail) = match found {
            None if !place.finished => (Verdict::Torn, "the file was being made"),
            _ => (Verdict::Damage, "the header is damaged"),
        };
        let finding = Finding::new(verdict, Part::Header, path, 0, detail);
        self.find(finding.spanning(file::HEADER_BYTES));
        Ok(found.map(|frame| frame.header.log_id))
    }

    fn footer(
        &mut self,
        no: FileNo,
        path: &str,
        handle: &dyn DiskFile,
        expected: bool,
    ) -> Option<Table> {
        match Table::load(no, handle) {
            Ok(table) => Some(table),
            Err(error) if error.kind == Kind::Format => {
                self.find_error(Part::Footer, &error);
                None
            }
            Err(error) => {
                if expected {
                    let at = error.at.offset.unwrap_or(0);
                    let finding =
                        Finding::new(Verdict::Damage, Part::Footer, path, at, error.detail);
                    let len = handle.len().unwrap_or(at);
                    self.find(finding.spanning(len.saturating_sub(at)));
                }
                None
            }
        }
    }

    fn items(&mut self, open: &mut Open, handle: &dyn DiskFile) {
        let Some(table) = &open.table else { return };
        for entry in &table.streams {
            match table.load_items(entry, handle) {
                Ok(items) => {
                    open.items.insert(entry.stream, items);
                }
                Err(error) => {
                    let at = error.at.offset.unwrap_or(0);
                    let detail = "the index of a stream's entries is damaged";
                    let found = Finding::new(Verdict::Damage, Part::Footer, &open.path, at, detail);
                    self.watcher.finding(found.concerning([entry.stream]));
                }
            }
        }
    }

    /// Follows the frames; returns how many bytes of a torn tail there are.
    fn frames(&mut self, open: &mut Open) -> Result<u64> {
        let mut at = file::HEADER_BYTES;
        let trailer = open.table.as_ref().map(|table| table.trailer.summary);
        let end = trailer.map_or(open.window.len(), |summary| summary.frames_end);
        while at < end {
            if let Some((bytes, frame)) = Self::frame_at(open, at)? {
                self.frame(open, at, &bytes, &frame);
                at += bytes.len() as u64;
                if frame.header.seal && trailer.is_none() {
                    return Ok(0);
                }
                continue;
            }
            let (next, last_byte) = find_frame(&mut open.window, open.log_id, at, end)?;
            match next {
                Some(next) => self.broken(open, at, next)?,
                None if trailer.is_some() => self.broken(open, at, end)?,
                None => {
                    let torn = last_byte.map_or(0, |last| last + 1 - at);
                    if torn > 0 {
                        self.salvage(open, at, at + torn)?;
                    }
                    return Ok(torn);
                }
            }
            at = next.unwrap_or(end);
        }
        Ok(0)
    }

    /// The intact frame at `at`, if there is one.
    fn frame_at(open: &mut Open, at: u64) -> Result<Option<(Bytes, Frame)>> {
        let head = open.window.get(at, HEADER_LEN)?;
        let Some((id, len)) = head.and_then(|head| frame::peek(&head)) else { return Ok(None) };
        if id != open.log_id {
            return Ok(None);
        }
        let Some(bytes) = open.window.get(at, len)? else { return Ok(None) };
        match frame::parse(&bytes, open.log_id) {
            Ok(frame) => Ok(Some((bytes, frame))),
            Err(Defect::Version(version)) => {
                let detail = format!("a frame of version {version}");
                Err(Error::format(&open.path, detail))
            }
            Err(Defect::Absent | Defect::Checksum) => Ok(None),
        }
    }

    fn frame(&mut self, open: &mut Open, at: u64, bytes: &Bytes, frame: &Frame) {
        let header = &frame.header;
        self.watcher.fact(&|| frame_fact(at, frame));
        let first =
            First { at, slot: header.slot, prev_crc: header.prev_crc, lsn: header.first_lsn };
        open.first.get_or_insert(first);
        let after = Summary::after(open.no, header, frame.crc, at + bytes.len() as u64);
        if let Some(before) = &open.summary {
            let expected = (before.last_slot + 1, before.last_crc, before.last_lsn.next());
            // Whoever skipped damage has said so already.
            let resumed = before.frames_end != at;
            if !resumed && (header.slot, header.prev_crc, header.first_lsn) != expected {
                let detail = "the frame does not continue the one before";
                self.find(Finding::new(Verdict::Damage, Part::Frame, &open.path, at, detail));
            }
        }
        let first_lsn = open.summary.map_or(after.first_lsn, |summary| summary.first_lsn);
        open.summary = Some(Summary { first_lsn, ..after });
        let decoded = {
            let mut visit = |group: u32, found: Found<'_>| {
                let lsn = Lsn(header.first_lsn.0 + u64::from(group));
                self.entry(open, at, bytes, lsn, &found);
                Ok(())
            };
            group::decode(bytes, HEADER_LEN..bytes.len(), header.groups, &mut visit)
        };
        if let Err(detail) = decoded {
            let finding = Finding::new(Verdict::Damage, Part::Frame, &open.path, at, detail);
            self.find(finding.spanning(bytes.len() as u64));
        }
    }

    fn entry(
        &mut self,
        open: &mut Open,
        frame_at: u64,
        frame: &Bytes,
        lsn: Lsn,
        found: &Found<'_>,
    ) {
        let saved = self.manifest.as_ref().map(|m| m.shards[found.shard.index()].lsn);
        let data = found.data.as_ref().map(|(head, _)| head);
        let is_saved = saved.is_some_and(|saved| lsn <= saved);
        let seen = Seen { lsn, shard: found.shard, meta: found.meta, data, is_saved };
        if let Err(detail) = self.watcher.entry(seen) {
            let detail = format!("an entry makes no sense: {detail}");
            self.find(Finding::new(Verdict::Damage, Part::Entry, &open.path, frame_at, detail));
        }
        if let Some((data, placed)) = &found.data {
            let start = placed.position as usize;
            let bytes = &frame[start..start + placed.len as usize];
            self.payload(&open.path, frame_at + start as u64, data, bytes);
            let in_file = u32::try_from(frame_at).unwrap_or(u32::MAX);
            let placed = Placed { position: placed.position.saturating_add(in_file), ..*placed };
            let run = open.runs.entry(placed.stream);
            let run = run.or_insert_with(|| Run::starting_at(&placed, 0));
            if run.push(&placed).is_err() {
                // Something was lost before it, and was told.
                *run = Run::starting_at(&placed, 0);
            }
        }
    }

    /// Checks each chunk of an entry's data; `bytes` are its intact head and the payload.
    fn payload(&mut self, path: &str, at: u64, data: &DataHead, bytes: &[u8]) {
        let head_len = bytes.len().saturating_sub(usize::try_from(data.payload_len).unwrap_or(0));
        let (head, payload) = bytes.split_at(head_len);
        // At the end of a head are the checksums of the chunks, and its own.
        let (crcs, _own) = head.split_at(head_len.saturating_sub(4));
        let chunks = payload.len().div_ceil(CHUNK_BYTES);
        let (_, crcs) = crcs.split_at(crcs.len().saturating_sub(4 * chunks));
        let (crcs, _) = crcs.as_chunks::<4>();
        let chunks = payload.chunks(CHUNK_BYTES).zip(crcs);
        for (number, (chunk, crc)) in chunks.enumerate() {
            let offset = data.offset.plus((number * CHUNK_BYTES) as u64);
            if crc32c::crc32c(chunk) == u32::from_le_bytes(*crc) {
                let piece = Piece { stream: data.stream, offset, record: data.record };
                self.watcher.bytes(piece, chunk);
                continue;
            }
            let at = at + (head_len + number * CHUNK_BYTES) as u64;
            let detail =
                format!("bytes {} to {} of a stream", offset.0, offset.0 + chunk.len() as u64);
            let finding = Finding::new(Verdict::Damage, Part::Entry, path, at, detail);
            self.watcher.finding(finding.spanning(chunk.len() as u64).concerning([data.stream]));
        }
    }

    /// Everything from `from` to `to` is no intact frame, but there must be some.
    fn broken(&mut self, open: &mut Open, from: u64, to: u64) -> Result<()> {
        open.broken = true;
        let streams = self.salvage(open, from, to)?;
        let detail =
            "a frame is damaged: what its entries changed is lost, their data may be intact";
        let finding = Finding::new(Verdict::Damage, Part::Frame, &open.path, from, detail);
        self.find(finding.spanning(to - from).concerning(streams));
        Ok(())
    }

    /// Tells of the intact data in a part of the file that is no intact frame. Where there is a
    /// footer, it says where the entries are; else they are followed as far as that goes.
    fn salvage(&mut self, open: &mut Open, from: u64, to: u64) -> Result<Vec<StreamId>> {
        let inside = |item: &Item| (from..to).contains(&u64::from(item.position));
        let all = open.items.iter().flat_map(|(stream, items)| items.iter().map(|i| (*stream, *i)));
        let mut known: Vec<_> = all.filter(|(_, item)| inside(item)).collect();
        if known.is_empty() {
            return self.salvage_blindly(open, from, to);
        }
        known.sort_unstable_by_key(|(_, item)| item.position);
        for (stream, item) in &known {
            let at = u64::from(item.position);
            let bytes = open.window.get(at, item.len as usize)?;
            let head = bytes.as_deref().and_then(Head::parse);
            let whole = |head: &Head<'_>| head.len + head.payload_len as usize == item.len as usize;
            let head = head.filter(|head| head.stream == *stream && whole(head));
            let data = head.and_then(|head| data_of(&head));
            if let (Some(data), Some(bytes)) = (data, &bytes) {
                self.payload(&open.path, at, &data, bytes);
            } else {
                let detail = "the head of an entry's data is damaged";
                let damage = Finding::new(Verdict::Damage, Part::Entry, &open.path, at, detail);
                self.find(damage.spanning(item.len.into()).concerning([*stream]));
            }
        }
        Ok(known.into_iter().map(|(stream, _)| stream).collect())
    }

    fn salvage_blindly(&mut self, open: &mut Open, from: u64, to: u64) -> Result<Vec<StreamId>> {
        let len = usize::try_from(to - from).unwrap_or(0);
        let mut streams = Vec::new();
        let Some(bytes) = open.window.get(from, len)?.filter(|bytes| bytes.len() > HEADER_LEN)
        else {
            return Ok(streams);
        };
        let path = open.path.clone();
        let mut visit = |_group: u32, found: Found<'_>| {
            if let Some((data, placed)) = &found.data {
                let start = placed.position as usize;
                let bytes = &bytes[start..start + placed.len as usize];
                self.payload(&path, from + start as u64, data, bytes);
                streams.push(placed.stream);
            }
            Ok(())
        };
        // Where it ends is where the damage is, or the end.
        drop(group::decode(&bytes, HEADER_LEN..bytes.len(), u32::MAX, &mut visit));
        Ok(streams)
    }

    /// The footer must say what the frames do.
    fn compare(&mut self, open: &Open) {
        let (Some(table), Some(summary)) = (&open.table, &open.summary) else { return };
        let at = table.trailer.summary.frames_end;
        if table.trailer.summary != *summary {
            let damaged = summary.frames_end != at;
            if !damaged {
                let detail = "the footer does not agree with the frames";
                self.find(Finding::new(Verdict::Damage, Part::Footer, &open.path, at, detail));
            }
            return;
        }
        // After damage the runs differ for a reason that was told.
        for entry in table.streams.iter().filter(|_| !open.broken) {
            let run = open.runs.get(&entry.stream);
            let same = run.is_some_and(|run| {
                let span = Span { prev_file: entry.span.prev_file, ..run.span };
                // Without its items there is nothing to compare them with.
                let items = open.items.get(&entry.stream);
                span == entry.span && items.is_none_or(|items| run.items[..] == items[..])
            });
            if !same {
                let detail = "the footer does not agree with the frames";
                let finding = Finding::new(Verdict::Damage, Part::Footer, &open.path, at, detail);
                self.find(finding.concerning([entry.stream]));
            }
        }
    }
}

fn data_of(head: &Head<'_>) -> Option<DataHead> {
    let lens = head.lens()?;
    let Head { stream, offset, record, payload_len, .. } = *head;
    Some(DataHead { stream, offset, record, lens, payload_len: payload_len.into() })
}

/// The next intact frame of the log behind `at`, and the last byte up to it that is not zero.
fn find_frame(
    window: &mut Window,
    log_id: u128,
    at: u64,
    end: u64,
) -> Result<(Option<u64>, Option<u64>)> {
    let (mut from, mut last) = (at, None);
    while from < end {
        let bytes = window.rest(from)?;
        let len = usize::try_from(end - from).unwrap_or(usize::MAX).min(bytes.len());
        if let Some(index) = bytes[..len].iter().rposition(|byte| *byte != 0) {
            last = Some(from + index as u64);
        }
        for index in memmem::find_iter(&bytes[..len], &frame::MAGIC) {
            let candidate = from + index as u64;
            if candidate > at && is_frame(window, log_id, candidate)? {
                return Ok((Some(candidate), last));
            }
        }
        // A magic may lie across the border.
        from += (len.saturating_sub(frame::MAGIC.len() - 1)).max(1) as u64;
        if len < frame::MAGIC.len() {
            break;
        }
    }
    Ok((None, last))
}

fn is_frame(window: &mut Window, log_id: u128, at: u64) -> Result<bool> {
    let head = window.get(at, HEADER_LEN)?;
    let Some((id, len)) = head.and_then(|head| frame::peek(&head)) else { return Ok(false) };
    if id != log_id {
        return Ok(false);
    }
    let bytes = window.get(at, len)?;
    Ok(bytes.is_some_and(|bytes| frame::parse(&bytes, log_id).is_ok()))
}

fn frame_fact(at: u64, frame: &Frame) -> Fact {
    let header = &frame.header;
    Fact {
        what: if header.seal { "seal" } else { "frame" },
        at,
        fields: vec![
            ("slot", Value::Number(header.slot)),
            ("lsn", Value::Number(header.first_lsn.0)),
            ("groups", Value::Number(header.groups.into())),
            ("len", Value::Number(frame.len as u64)),
            ("time_ms", Value::Number(header.time.0)),
        ],
    }
}

fn footer_fact(open: &Open) -> Fact {
    let trailer: Option<&Trailer> = open.table.as_ref().map(|table| &table.trailer);
    let streams = open.table.as_ref().map_or(0, |table| table.streams.len() as u64);
    let mut fields = vec![("intact", Value::Flag(trailer.is_some()))];
    if let Some(Trailer { summary, .. }) = trailer {
        fields.extend([
            ("first_lsn", Value::Number(summary.first_lsn.0)),
            ("last_lsn", Value::Number(summary.last_lsn.0)),
            ("sealed", Value::Flag(summary.sealed)),
            ("streams", Value::Number(streams)),
            ("entries", Value::Number(open.items.values().map(|items| items.len() as u64).sum())),
        ]);
    }
    Fact { what: "footer", at: trailer.map_or(0, |trailer| trailer.summary.frames_end), fields }
}

/// Where the frames of log file `no` end, and the length that was allocated; `None` when its header
/// is not there. Where it breaks off is for [`is_broken_at`] to judge.
///
/// # Errors
/// `Format` when it is of another version, `Io`.
pub(crate) fn frames_end(no: FileNo, handle: &Arc<dyn DiskFile>) -> Result<Option<(u64, u64)>> {
    let path = file::path(no);
    let mut window = Window::new(Arc::clone(handle), &path)?;
    let header = window.get(0, file::HEADER_LEN)?;
    let header = header.map(|bytes| Header::parse(no, &bytes)).transpose()?.flatten();
    let Some(header) = header else { return Ok(None) };
    let mut at = file::HEADER_BYTES;
    while let Some(head) = window.get(at, HEADER_LEN)? {
        let Some((id, len)) = frame::peek(&head).filter(|(id, _)| *id == header.log_id) else {
            break;
        };
        let whole = window.get(at, len)?;
        if whole.is_none_or(|bytes| frame::parse(&bytes, id).is_err()) {
            break;
        }
        at += len as u64;
    }
    Ok(Some((at, header.size)))
}

/// Whether the log goes on behind something at `at` that is no intact frame: then it is damaged. A
/// writer that goes on meanwhile completes each frame before it begins the next.
///
/// # Errors
/// As [`frames_end`].
pub(crate) fn is_broken_at(no: FileNo, handle: &Arc<dyn DiskFile>, at: u64) -> Result<bool> {
    let path = file::path(no);
    let mut window = Window::new(Arc::clone(handle), &path)?;
    let header = window.get(0, file::HEADER_LEN)?;
    let header = header.map(|bytes| Header::parse(no, &bytes)).transpose()?.flatten();
    let Some(header) = header else { return Ok(false) };
    let trailer = Table::load(no, &**handle).ok().map(|table| table.trailer.summary.frames_end);
    let end = trailer.unwrap_or(window.len());
    let (next, _) = find_frame(&mut window, header.log_id, at, end)?;
    let goes_on = next.is_some() || trailer.is_some_and(|end| at < end);
    // It is looked at again only now.
    let mut window = Window::new(Arc::clone(handle), &path)?;
    Ok(goes_on && !is_frame(&mut window, header.log_id, at)?)
}
