//! Compaction: reads log files or segments, leaves out what nobody needs, and writes segments in
//! which each stream's bytes are in one piece. It works in steps, so that whoever drives it can do
//! other things in between, and changes nothing but its own new files.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use headwater_core::ids::{Offset, StreamId};

use super::merge::{self, Runs, SourceRun};
use super::writer::{Begin, SegmentWriter};
use super::{LEVEL_LAST, Segment, SegmentNo};
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::location::Stop;
use crate::log::file::FileNo;
use crate::log::footer::Span;
use crate::pins::Pin;
use crate::read::{Reader, Shelf};
use crate::store::Need;

/// A segment of long runs that is shorter than this is merged again all the same, so that files do
/// not become many.
const SEGMENT_BYTES_MIN: u64 = 8 << 20;
/// Positions in a segment have 32 bits.
const RUN_BYTES_MAX: u64 = 1 << 30;

/// What is to be compacted, and into what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Log files and segments; none may hold what lies between two others.
    pub(crate) inputs: Vec<Stop>,
    /// The log files that they stand for, from the first to the last.
    pub(crate) files: [FileNo; 2],
    /// The level of what is written.
    pub(crate) level: u32,
}

/// A compaction under way. Dropping it removes what it wrote.
pub(crate) struct Compaction {
    pub(crate) plan: Plan,
    shelf: Arc<Shelf>,
    disk: Arc<dyn Disk>,
    directory_id: u128,
    next_no: SegmentNo,
    segment_bytes: u64,
    long_run_bytes: u64,
    /// Keeps the inputs.
    _pin: Pin,
    sources: Vec<Runs>,
    /// Runs of the stream whose turn it is.
    pieces: VecDeque<Piece>,
    copying: Option<Copying>,
    short: Option<SegmentWriter>,
    long: Option<SegmentWriter>,
    written: Vec<Segment>,
}

/// A run to be written.
struct Piece {
    begin: Begin,
    bytes: Range<Offset>,
    /// Where its bytes are read from, the newest first.
    path: Vec<Stop>,
}

struct Copying {
    reader: Reader,
    long: bool,
}

/// How far a compaction has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// There is more to do.
    More,
    /// Every output is durable, its name included.
    Finished,
}

/// What a compaction works with.
pub(crate) struct Tools {
    pub(crate) shelf: Arc<Shelf>,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) directory_id: u128,
    pub(crate) pin: Pin,
    pub(crate) next_no: SegmentNo,
    /// See [`crate::Options`].
    pub(crate) segment_bytes: u64,
    pub(crate) long_run_bytes: u64,
}

impl Compaction {
    pub(crate) fn start(plan: Plan, tools: Tools) -> Result<Self> {
        let Tools { shelf, disk, directory_id, pin, next_no, segment_bytes, long_run_bytes } =
            tools;
        let open = |stop: &Stop| Runs::open(&shelf.location, *stop);
        let sources = plan.inputs.iter().map(open).collect::<Result<_>>()?;
        Ok(Self {
            plan,
            shelf,
            disk,
            directory_id,
            next_no,
            segment_bytes,
            long_run_bytes,
            _pin: pin,
            sources,
            pieces: VecDeque::new(),
            copying: None,
            short: None,
            long: None,
            written: Vec::new(),
        })
    }

    /// What was written; it stays from now on.
    pub(crate) fn take_written(&mut self) -> Vec<Segment> {
        std::mem::take(&mut self.written)
    }

    /// They do not stay after all.
    pub(crate) fn give_back(&mut self, written: Vec<Segment>) {
        self.written = written;
    }

    /// The number for the next segment.
    pub(crate) fn next_no(&self) -> SegmentNo {
        self.next_no
    }

    /// Goes on for about `budget` bytes. `need` tells what is still needed of a range of a stream.
    ///
    /// # Errors
    /// `Corrupt` when an input is damaged; `Full` or `Io`. It cannot go on then.
    pub(crate) fn step(
        &mut self,
        mut budget: u64,
        need: &dyn Fn(StreamId, Offset, Offset) -> Need,
    ) -> Result<Progress> {
        while budget > 0 {
            if let Some(copying) = self.copying.take() {
                budget = budget.saturating_sub(self.copy(copying)?);
            } else if let Some(piece) = self.pieces.pop_front() {
                self.begin(piece)?;
            } else {
                let runs = merge::next_stream(&mut self.sources, &self.shelf.location)?;
                if runs.is_empty() {
                    return self.finish();
                }
                self.plan_stream(&runs, need);
            }
            // What is small costs time, too.
            budget = budget.saturating_sub(256);
        }
        Ok(Progress::More)
    }

    /// Joins the runs of one stream, as far as they are needed and touch each other.
    fn plan_stream(&mut self, runs: &[SourceRun], need: &dyn Fn(StreamId, Offset, Offset) -> Need) {
        for run in runs {
            let needed = need(run.stream, run.span.first, run.span.end());
            let Some(from) = needed.from.filter(|from| *from < run.span.end()) else {
                if needed.older {
                    // What lies further back is found by way of this run.
                    let (first, first_record) = (run.span.end(), run.span.record_end());
                    self.add_piece(run, Span { first, first_record, ..run.span }, Vec::new());
                }
                continue;
            };
            let last = self.pieces.back_mut();
            if let Some(last) = last.filter(|last| from <= run.span.first && last.joins(run)) {
                last.bytes.end = run.span.end();
                last.begin.files[1] = run.files[1];
                last.path.insert(0, run.stop);
                continue;
            }
            let span = Span { first: from.max(run.span.first), ..run.span };
            self.add_piece(run, span, vec![run.stop]);
        }
    }

    fn add_piece(&mut self, run: &SourceRun, span: Span, path: Vec<Stop>) {
        let end = run.span.end().max(span.first);
        let bytes = span.first..end;
        let span = Span { len: 0, records: 0, ..span };
        let begin = Begin { stream: run.stream, span, files: run.files };
        self.pieces.push_back(Piece { begin, bytes, path });
    }

    /// Begins to write a run, with the bytes that come first.
    fn begin(&mut self, mut piece: Piece) -> Result<()> {
        let Range { start, end } = piece.bytes;
        let (stream, path) = (piece.begin.stream, piece.path);
        let mut reader = Reader::over(Arc::clone(&self.shelf), stream, path, [start, end]);
        let first = reader.next()?;
        if let Some(chunk) = &first {
            piece.begin.span.first_record = chunk.record;
        }
        let long = end.since(start) >= self.long_run_bytes;
        let writer = self.writer(long)?;
        writer.begin(piece.begin);
        match first {
            None => self.end_run(long),
            Some(chunk) => {
                writer.push(&chunk.bytes, &chunk.ends)?;
                self.copying = Some(Copying { reader, long });
                Ok(())
            }
        }
    }

    /// Copies some bytes of the run that is being written; returns how many.
    fn copy(&mut self, mut copying: Copying) -> Result<u64> {
        let long = copying.long;
        let Some(chunk) = copying.reader.next()? else {
            self.end_run(long)?;
            return Ok(0);
        };
        self.writer(long)?.push(&chunk.bytes, &chunk.ends)?;
        self.copying = Some(copying);
        Ok(chunk.bytes.len() as u64)
    }

    fn writer(&mut self, long: bool) -> Result<&mut SegmentWriter> {
        let slot = if long { &mut self.long } else { &mut self.short };
        if let Some(writer) = slot {
            return Ok(writer);
        }
        let (disk, no) = (Arc::clone(&self.disk), self.next_no);
        self.next_no += 1;
        Ok(slot.insert(SegmentWriter::create(disk, no, self.directory_id)?))
    }

    fn end_run(&mut self, long: bool) -> Result<()> {
        let limit = self.segment_bytes;
        let writer = self.writer(long)?;
        writer.end();
        if writer.len() >= limit {
            self.finish_segment(long)?;
        }
        Ok(())
    }

    fn finish_segment(&mut self, long: bool) -> Result<()> {
        let slot = if long { &mut self.long } else { &mut self.short };
        if let Some(writer) = slot.take() {
            let keep = long && writer.len() >= SEGMENT_BYTES_MIN;
            let level = if keep { LEVEL_LAST } else { self.plan.level };
            self.written.push(writer.finish(level, self.plan.files)?);
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<Progress> {
        self.finish_segment(false)?;
        self.finish_segment(true)?;
        if !self.written.is_empty() {
            let synced = self.disk.sync_dir(super::DIR);
            synced.map_err(|e| Error::io(super::DIR, "syncing the directory", e))?;
        }
        Ok(Progress::Finished)
    }
}

impl Drop for Compaction {
    fn drop(&mut self) {
        for segment in &self.written {
            // What cannot be removed now is removed at the next start.
            drop(self.disk.remove(&super::path(segment.no)));
        }
    }
}

impl Piece {
    /// Whether `run` goes on exactly where this ends, with nothing of the stream between them.
    fn joins(&self, run: &SourceRun) -> bool {
        let Begin { stream, files: [oldest, newest], .. } = self.begin;
        let touches = stream == run.stream && self.bytes.end == run.span.first;
        let next = (oldest..=newest).contains(&run.span.prev_file);
        let len = self.bytes.end.since(self.bytes.start) + u64::from(run.span.len);
        touches && next && self.bytes.start < self.bytes.end && len <= RUN_BYTES_MAX
    }
}
