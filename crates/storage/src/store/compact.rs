//! When to compact what, and making the outcome count.
//!
//! - Log files that have left the ring and are below the checkpoint are regrouped into segments, a
//!   batch at a time.
//! - Segments of short runs are merged once there are several of one level.
//! - When the engine says that much was freed, a survey finds out where, and what is wasteful is
//!   written anew without it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use headwater_core::ids::{Lsn, Offset, StreamId};

use super::Store;
use super::upkeep::Ledger;
use crate::error::{Error, Kind, Result};
use crate::location::Stop;
use crate::log::file::FileNo;
use crate::manifest::Manifest;
use crate::pins::Dead;
use crate::segment::{Compaction, LEVEL_LAST, Plan, Progress, Runs, Segment, SegmentNo, Tools};

/// Log files in one batch, at most: small ones of short lives may be many.
const BATCH_FILES_MAX: usize = 64;
/// When log files that could be compacted make so many batches, compaction is behind.
const BEHIND_BATCHES: u64 = 4;
/// Segments of one level, counted by the log files that they stand for, are merged when there are
/// so many.
const MERGE_FAN: usize = 8;
/// A file is worth writing anew for the room of one part in so many.
const WASTE_SHARE: u64 = 5;

/// What is still needed of a part of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Need {
    /// From this boundary of messages on; nothing when none of it is.
    pub from: Option<Offset>,
    /// Whether anything before the part is.
    pub older: bool,
}

/// What is known about compactions, past and under way.
#[derive(Default)]
pub(super) struct Compacting {
    round: Option<Round>,
    next_no: SegmentNo,
    /// Files that cannot be read: they stay as they are.
    damaged: BTreeSet<Stop>,
    /// Files whose waste is not known yet.
    to_survey: Vec<Stop>,
    surveyed: BTreeMap<Stop, Usage>,
    /// Free bytes when there was last no room for an output: no use trying before there are more.
    full_at: Option<u64>,
}

enum Round {
    Running(Box<Compaction>),
    /// Everything is written; it may count when the log is durable up to what it was decided from.
    Written(Box<Compaction>, Lsn),
}

/// What a file holds, in stream bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Usage {
    held: u64,
    needed: u64,
}

impl Usage {
    fn wasted(self) -> u64 {
        self.held - self.needed
    }

    /// Nothing that is worth keeping, or a share of waste that is worth the work.
    fn is_wasteful(self) -> bool {
        self.wasted() > 0 && self.wasted() >= self.held / WASTE_SHARE
    }
}

impl Compacting {
    pub(super) fn new(last_no: SegmentNo) -> Self {
        Self { next_no: last_no + 1, ..Self::default() }
    }
}

impl<T: Send> Store<T> {
    /// Notes that `bytes` of streams are not needed any more.
    pub fn note_freed(&self, bytes: u64) {
        self.freed.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Forgets the newest frames that are kept in memory, so that the files that they are in may be
    /// compacted like all others. Reads take longer until there are new ones: this is for when room
    /// on the disk is worth more.
    pub fn forget_newest(&self) {
        self.ring.clear();
    }

    /// One bounded step of compaction; false when there is nothing to do, or nothing before the log
    /// is durable. `need` tells what is needed of a part of a stream, as of now: a part that is not
    /// needed will never be needed again.
    ///
    /// # Errors
    /// `Io`. A full disk and damage in what was to be compacted are no errors here.
    pub fn compact(&self, need: &dyn Fn(StreamId, Offset, Offset) -> Need) -> Result<bool> {
        let mut ledger = self.upkeep.lock();
        self.health.check()?;
        match ledger.compacting.round.take() {
            Some(Round::Running(compaction)) => self.go_on(&mut ledger, compaction, need),
            Some(Round::Written(compaction, decided)) => {
                self.finish_round(&mut ledger, compaction, decided)
            }
            None => {
                if self.survey(&mut ledger, need)? {
                    return Ok(true);
                }
                let Some(plan) = self.plan(&ledger)? else { return Ok(false) };
                self.start_round(&mut ledger, plan)
            }
        }
    }

    /// Whether much waits to be compacted, so that whoever drives compaction should not rest.
    pub fn is_behind(&self) -> bool {
        let ready = self.ready_logs(&self.upkeep.lock());
        let bytes: u64 = ready.iter().map(|(_, len)| len).sum();
        bytes > BEHIND_BATCHES.saturating_mul(self.options.compact_bytes)
    }

    /// Whether the last survey found waste in log files that only a checkpoint can free.
    pub fn wants_checkpoint(&self) -> bool {
        let ledger = self.upkeep.lock();
        let saved = ledger.manifest.saved();
        let is_behind = |stop: &Stop| {
            let files = &ledger.manifest.files;
            let found = files.iter().find(|(no, _)| *no == stop.file_no);
            stop.segment.is_none() && found.is_none_or(|(_, footed)| footed.last_lsn > saved)
        };
        let surveyed = &ledger.compacting.surveyed;
        surveyed.iter().any(|(stop, usage)| usage.is_wasteful() && is_behind(stop))
    }

    fn start_round(&self, ledger: &mut Ledger, plan: Plan) -> Result<bool> {
        let inputs = plan.inputs.clone();
        let tools = Tools {
            shelf: Arc::clone(&self.shelf),
            disk: Arc::clone(&self.disk),
            directory_id: self.directory_id,
            pin: self.pin(),
            next_no: ledger.compacting.next_no,
            segment_bytes: self.options.segment_bytes,
            long_run_bytes: self.options.long_run_bytes,
        };
        match Compaction::start(plan, tools) {
            Ok(compaction) => {
                ledger.compacting.round = Some(Round::Running(Box::new(compaction)));
                Ok(true)
            }
            Err(error) => self.give_up(ledger, &inputs, error),
        }
    }

    fn go_on(
        &self,
        ledger: &mut Ledger,
        mut compaction: Box<Compaction>,
        need: &dyn Fn(StreamId, Offset, Offset) -> Need,
    ) -> Result<bool> {
        let stepped = compaction.step(self.options.compact_step_bytes, need);
        ledger.compacting.next_no = compaction.next_no();
        match stepped {
            Ok(Progress::More) => ledger.compacting.round = Some(Round::Running(compaction)),
            Ok(Progress::Finished) => {
                // What is left out was found needless in states that may not be durable yet.
                let decided = self.lane.enqueued();
                ledger.compacting.round = Some(Round::Written(compaction, decided));
            }
            Err(error) => {
                let inputs = compaction.plan.inputs.clone();
                drop(compaction);
                return self.give_up(ledger, &inputs, error);
            }
        }
        Ok(true)
    }

    /// A round cannot go on; what it wrote is gone.
    fn give_up(&self, ledger: &mut Ledger, inputs: &[Stop], error: Error) -> Result<bool> {
        match error.kind {
            Kind::Full => ledger.compacting.full_at = Some(self.space.available()?),
            Kind::Corrupt | Kind::Format => {
                let guilty = |stop: &&Stop| stop.path() == error.at.path;
                let mut found: Vec<_> = inputs.iter().filter(guilty).copied().collect();
                if found.is_empty() {
                    found = inputs.to_vec();
                }
                ledger.compacting.damaged.extend(found);
            }
            Kind::Io | Kind::Locked | Kind::WouldWait => return Err(error),
        }
        Ok(true)
    }

    /// Makes the outcome of a round count.
    fn finish_round(
        &self,
        ledger: &mut Ledger,
        mut compaction: Box<Compaction>,
        decided: Lsn,
    ) -> Result<bool> {
        if self.lane.durable() < decided {
            ledger.compacting.round = Some(Round::Written(compaction, decided));
            return Ok(false);
        }
        // Without those that a reclaim has given up meanwhile.
        let named = |stop: &Stop| names(&ledger.manifest, *stop);
        let inputs: Vec<_> = compaction.plan.inputs.iter().copied().filter(named).collect();
        let written = compaction.take_written();
        let mut manifest = ledger.manifest.clone();
        manifest.files.retain(|(no, _)| !inputs.contains(&Stop::log(*no)));
        manifest.segments.retain(|segment| !inputs.contains(&segment_stop(segment)));
        manifest.segments.extend(&written);
        manifest.segments.sort_unstable_by_key(|segment| segment.no);
        manifest.last_segment = ledger.compacting.next_no - 1;
        let segments = manifest.segments.clone();
        if let Err(error) = self.adopt(ledger, manifest) {
            // Unless it is certain that no manifest names them, they stay.
            if error.kind == Kind::Full {
                compaction.give_back(written);
                drop(compaction);
                return self.give_up(ledger, &inputs, error);
            }
            return Err(error);
        }
        self.location.set_segments(segments);
        let logs = inputs.iter().filter(|stop| stop.segment.is_none());
        self.location.doom(&logs.map(|stop| stop.file_no).collect());
        self.pins.condemn(inputs.iter().map(|stop| match stop.segment {
            None => Dead::File(stop.file_no),
            Some(no) => Dead::Segment(no),
        }));
        let surveyed = &mut ledger.compacting.surveyed;
        surveyed.retain(|stop, _| !inputs.contains(stop));
        // Its pin goes first: then the inputs can go, too.
        drop(compaction);
        self.remove_free()?;
        Ok(true)
    }

    // ---- what to compact -------------------------------------------------------------------

    /// The most useful thing to compact now.
    fn plan(&self, ledger: &Ledger) -> Result<Option<Plan>> {
        let ready = self.ready_logs(ledger);
        let plan = self
            .plan_logs(&ready)
            .or_else(|| plan_merge(ledger))
            .or_else(|| plan_waste(ledger, &ready));
        let Some(mut plan) = plan else { return Ok(None) };
        // What is written is at most what is read; a smaller batch is better than none.
        let available = self.space.available()?;
        if ledger.compacting.full_at.is_some_and(|full| available <= full) {
            return Ok(None);
        }
        while size(&ledger.manifest, &plan) > available && plan.inputs.len() > 1 && plan.level == 0
        {
            plan.inputs.pop();
            plan.files[1] = plan.inputs.last().map_or(plan.files[0], |stop| stop.file_no);
        }
        Ok(Some(plan))
    }

    /// Log files that may be compacted, in order.
    fn ready_logs(&self, ledger: &Ledger) -> Vec<(FileNo, u64)> {
        let saved = ledger.manifest.saved();
        let hot = self.ring.oldest_file().unwrap_or(FileNo::MAX);
        let ready = ledger.manifest.files.iter().filter(|(no, footed)| {
            let damaged = ledger.compacting.damaged.contains(&Stop::log(*no));
            footed.last_lsn <= saved && *no < hot && !damaged
        });
        ready.map(|(no, footed)| (*no, footed.len)).collect()
    }

    fn plan_logs(&self, ready: &[(FileNo, u64)]) -> Option<Plan> {
        let mut bytes = 0;
        let mut batch = Vec::new();
        for (no, len) in ready {
            batch.push(*no);
            bytes += len;
            if bytes >= self.options.compact_bytes || batch.len() == BATCH_FILES_MAX {
                return logs(&batch);
            }
        }
        None
    }

    // ---- where the waste is ----------------------------------------------------------------

    /// Looks into one file, when a survey is due or under way; false when it is neither.
    fn survey(
        &self,
        ledger: &mut Ledger,
        need: &dyn Fn(StreamId, Offset, Offset) -> Need,
    ) -> Result<bool> {
        let Ledger { manifest, compacting, .. } = ledger;
        if compacting.to_survey.is_empty() {
            let held: u64 = manifest.segments.iter().map(|segment| segment.len).sum();
            let due = self.options.log_file_bytes.max(held / (2 * WASTE_SHARE));
            if self.freed.load(Ordering::Relaxed) < due {
                return Ok(false);
            }
            self.freed.store(0, Ordering::Relaxed);
            compacting.surveyed.clear();
            let logs = self.location.footed().into_iter().map(|(no, _)| Stop::log(no));
            let all = logs.chain(manifest.segments.iter().map(segment_stop));
            compacting.to_survey = all.filter(|stop| !compacting.damaged.contains(stop)).collect();
        }
        let Some(stop) = compacting.to_survey.pop() else { return Ok(false) };
        match self.usage(stop, need) {
            Ok(usage) => {
                compacting.surveyed.insert(stop, usage);
            }
            Err(error) if error.kind == Kind::Corrupt => {
                compacting.damaged.insert(stop);
            }
            Err(error) => return Err(error),
        }
        Ok(true)
    }

    fn usage(&self, stop: Stop, need: &dyn Fn(StreamId, Offset, Offset) -> Need) -> Result<Usage> {
        let mut usage = Usage::default();
        let mut runs = Runs::open(&self.location, stop)?;
        while let Some(run) = runs.peek() {
            let end = run.span.end();
            usage.held += u64::from(run.span.len);
            let from = need(run.stream, run.span.first, end).from;
            usage.needed += from.map_or(0, |from| end.0.saturating_sub(from.0));
            runs.advance(&self.location)?;
        }
        Ok(usage)
    }
}

/// The bytes that a compaction reads.
fn size(manifest: &Manifest, plan: &Plan) -> u64 {
    let logs = manifest.files.iter().map(|(no, footed)| (Stop::log(*no), footed.len));
    let segments = manifest.segments.iter().map(|s| (segment_stop(s), s.len));
    let inputs = logs.chain(segments).filter(|(stop, _)| plan.inputs.contains(stop));
    inputs.map(|(_, len)| len).sum()
}

fn logs(batch: &[FileNo]) -> Option<Plan> {
    let files = [*batch.first()?, *batch.last()?];
    Some(Plan { inputs: batch.iter().copied().map(Stop::log).collect(), files, level: 0 })
}

/// The oldest segments of the lowest level that has enough of them.
fn plan_merge(ledger: &Ledger) -> Option<Plan> {
    let mut levels: BTreeMap<u32, BTreeMap<[FileNo; 2], Vec<Stop>>> = BTreeMap::new();
    for segment in &ledger.manifest.segments {
        let stop = segment_stop(segment);
        if segment.level != LEVEL_LAST && !ledger.compacting.damaged.contains(&stop) {
            let groups = levels.entry(segment.level).or_default();
            groups.entry(segment.files).or_default().push(stop);
        }
    }
    let (level, groups) = levels.into_iter().find(|(_, groups)| groups.len() >= MERGE_FAN)?;
    let groups: Vec<_> = groups.into_iter().take(MERGE_FAN).collect();
    let first = groups.iter().map(|([first, _], _)| *first).min()?;
    let last = groups.iter().map(|([_, last], _)| *last).max()?;
    let inputs = groups.into_iter().flat_map(|(_, stops)| stops).collect();
    Some(Plan { inputs, files: [first, last], level: level + 1 })
}

/// The file with the largest share of waste, or all such log files.
fn plan_waste(ledger: &Ledger, ready: &[(FileNo, u64)]) -> Option<Plan> {
    let surveyed = &ledger.compacting.surveyed;
    let wasteful = |stop: Stop| surveyed.get(&stop).is_some_and(|usage| usage.is_wasteful());
    let batch: Vec<_> =
        ready.iter().map(|(no, _)| *no).filter(|no| wasteful(Stop::log(*no))).collect();
    if !batch.is_empty() {
        return logs(&batch[..batch.len().min(BATCH_FILES_MAX)]);
    }
    let segments = ledger.manifest.segments.iter().filter(|s| wasteful(segment_stop(s)));
    let worst = segments.max_by_key(|segment| {
        let usage = surveyed.get(&segment_stop(segment)).copied().unwrap_or_default();
        usage.wasted() * 1000 / usage.held.max(1)
    })?;
    let level = if worst.level == LEVEL_LAST { 0 } else { worst.level };
    Some(Plan { inputs: vec![segment_stop(worst)], files: worst.files, level })
}

fn names(manifest: &Manifest, stop: Stop) -> bool {
    match stop.segment {
        None => manifest.files.iter().any(|(no, _)| *no == stop.file_no),
        Some(no) => manifest.segments.iter().any(|segment| segment.no == no),
    }
}

/// A segment as a whole.
fn segment_stop(segment: &Segment) -> Stop {
    Stop { file_no: segment.files[1], segment: Some(segment.no) }
}
