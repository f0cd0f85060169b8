//! A world: one server, its clients and its accidents, driven from a seed.

mod act;
mod crash;
mod damage;
mod exhaustive;
mod look;
mod nth;
mod reads;
mod rot;
mod script;

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{self, AssertUnwindSafe};
use std::pin::Pin;
use std::sync::Arc;

use headwater_core::ids::{Lsn, StreamId};
use headwater_server::engine::{Durable, Engine, Pending, Watch};
use headwater_storage::{Error, Kind, Options, Reader};

use crate::bug::Bug;
use crate::clock::SimClock;
use crate::disk::FaultDisk;
use crate::history::History;
use crate::model::{Action, Answer};
use crate::oracle::{self, Check, Expected, Violation, violation};
use crate::record::{Asked, Record};
use crate::rng::Rng;
use crate::trace::Trace;
use crate::workload::Workload;

pub use damage::{Damage, damage};
pub use exhaustive::{Explored, Start, explore};
pub use nth::{Points, SCENARIOS, fail_each};
pub use reads::fail_each_read;

/// How a world is run.
#[derive(Debug, Clone)]
pub struct Config {
    /// The only accident, in the second life: which, and after how many others of its kind. `None`
    /// leaves them to the seed.
    pub accident: Option<(Accident, u64)>,
    /// Lives of the process.
    pub generations: u32,
    /// Steps in each life.
    pub steps: u32,
    /// What is broken on purpose.
    pub bug: Option<Bug>,
    /// Whether to keep the trace as text.
    pub lines: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self { accident: None, generations: 4, steps: 150, bug: None, lines: false }
    }
}

/// What can be made to happen at a chosen moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accident {
    /// The process dies in a change of the disk.
    Death,
    /// A sync fails.
    FailedSync,
    /// A write fails.
    FailedWrite,
}

/// What came of a world.
#[derive(Debug)]
pub struct Report {
    /// The same for the same seed.
    pub trace: u64,
    /// The trace as text, if it was kept.
    pub lines: Vec<String>,
    /// How often each rare thing happened.
    pub coverage: BTreeMap<&'static str, u64>,
    /// Whether the accident of [`Config::accident`] came to pass.
    pub happened: bool,
    /// The first broken promise.
    pub violation: Option<Violation>,
}

/// Rare things that enough worlds must reach; a run that never meets them proves little.
pub const SOMETIMES: [&str; 42] = [
    "answered after several in one frame",
    "batch appended",
    "bucket deleted",
    "checkpoint finished with changes in flight",
    "clean stop",
    "cold read",
    "died in a call",
    "died in recovery",
    "disk full",
    "disk full over",
    "duplicate after a crash",
    "expired at an access",
    "expired in the background",
    "footer rebuilt at the start",
    "fork chain of three",
    "fork cut inside a message",
    "kill",
    "kill, then power cut",
    "live reader kept a stream",
    "live reader woken",
    "log file reclaimed",
    "power cut",
    "producer fenced",
    "purged in the background",
    "read across other work",
    "replayed state compared",
    "retained",
    "rot harmless",
    "rot noticed in a read",
    "rot noticed at the start",
    "segment replaced",
    "segment written",
    "segments merged",
    "segments replaced under a reader",
    "snapshot repeated",
    "snapshot replaced",
    "snapshot visible",
    "sync failed",
    "torn tail cut",
    "unknown outcome: happened",
    "unknown outcome: lost",
    "write failed",
];

/// A snapshot's body takes room in pieces of this size.
const SNAPSHOT_PIECE_BYTES: u64 = 4 << 20;

/// Runs the world of `seed`.
pub fn run(seed: u64, config: &Config) -> Report {
    let mut world = World::new(seed, config);
    let lived = panic::catch_unwind(AssertUnwindSafe(|| world.live(config)));
    let violation =
        lived.unwrap_or_else(|payload| violation!("panic: {}", message(&*payload))).err();
    let lines = world.trace.lines();
    Report {
        trace: world.trace.hash(),
        lines,
        coverage: world.coverage,
        happened: world.happened,
        violation,
    }
}

/// Turns a panic into a violation.
fn guarded<T>(f: impl FnOnce() -> Check<T>) -> Check<T> {
    let done = panic::catch_unwind(AssertUnwindSafe(f));
    done.unwrap_or_else(|payload| violation!("panic: {}", message(&*payload)))
}

fn message(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("of no text")
}

/// A command whose answer is not out yet.
struct Flight {
    pending: Pending,
    action: Action,
    expected: Answer,
    /// The append that was queued.
    asked: Option<Asked>,
    /// The newest change that the answer was decided from.
    needs: Lsn,
}

/// A reader that takes its time.
struct SlowRead {
    reader: Reader,
    expected: Expected,
    name: String,
}

struct Watched {
    watch: Watch,
    id: StreamId,
    since: u64,
    changed: Pin<Box<dyn Future<Output = ()>>>,
}

#[expect(clippy::struct_excessive_bools, reason = "they are independent of each other")]
struct World {
    rng: Rng,
    options: Options,
    trace: Trace,
    coverage: BTreeMap<&'static str, u64>,
    clock: SimClock,
    disk: FaultDisk,
    /// The disk as it was when this life began; for worlds that recover the wrong thing.
    earlier: Option<FaultDisk>,
    engine: Option<Arc<Engine>>,
    workload: Workload,
    history: History,
    record: Record,
    flights: Vec<Flight>,
    slow: Vec<SlowRead>,
    watched: Vec<Watched>,
    /// Reads whose answers wait until their renewals are recorded.
    renewals: Vec<(Durable, StreamId, u64)>,
    /// The engine has failed: only a restart helps.
    down: bool,
    /// Node time when this life began, less what the clock had counted by then.
    born: u64,
    elapsed: u64,
    roomy: u64,
    tight: bool,
    /// The accident that was asked for came to pass.
    happened: bool,
    /// Commands are being sent again that got no answer before the crash.
    retrying: bool,
    /// Nothing happens that the script does not say.
    scripted: bool,
    bug: Option<Bug>,
}

impl World {
    fn new(seed: u64, config: &Config) -> Self {
        let mut rng = Rng::new(seed);
        let trace = if config.lines { Trace::with_lines() } else { Trace::default() };
        let log_file_bytes = *rng.pick(&[16, 32, 32, 64]) << 10;
        let options = Options {
            log_file_bytes,
            disk_reserve: Some(3 * log_file_bytes),
            frame_bytes_max: *rng.pick(&[500, 4_000, 1 << 20]),
            ring_bytes: *rng.pick(&[0, 2_000, 1 << 20]),
            footer_cache_bytes: *rng.pick(&[0, 500, 1 << 20]),
            open_files_max: *rng.pick(&[1, 2, 64]),
            compact_bytes: *rng.pick(&[1, 10_000, 40_000]),
            segment_bytes: *rng.pick(&[500, 4_000, 1 << 20]),
            compact_step_bytes: *rng.pick(&[300, 5_000, 1 << 20]),
            long_run_bytes: *rng.pick(&[1, 300, 4_000]),
            replay_bytes_max: *rng.pick(&[10_000, 40_000, 1 << 20]),
        };
        let roomy = 64 << 20;
        let disk = FaultDisk::new(roomy, rng.fork(), trace.clone());
        disk.with(|medium| medium.faults.lie = config.bug.and_then(Bug::lie));
        let workload = Workload::new(rng.fork());
        trace.line(format_args!("seed {seed}: {options:?}"));
        Self {
            rng,
            options,
            trace,
            coverage: BTreeMap::new(),
            clock: SimClock::new(),
            disk,
            earlier: None,
            engine: None,
            workload,
            history: History::default(),
            record: Record::default(),
            flights: Vec::new(),
            slow: Vec::new(),
            watched: Vec::new(),
            renewals: Vec::new(),
            down: false,
            born: 0,
            elapsed: 0,
            roomy,
            tight: false,
            happened: false,
            retrying: false,
            scripted: false,
            bug: config.bug,
        }
    }

    fn live(&mut self, config: &Config) -> Check {
        self.recover()?;
        for generation in 0..config.generations {
            self.trace.line(format_args!("generation {generation}"));
            match config.accident {
                None => self.plan_accidents(),
                Some((accident, after)) if generation == 1 => self.plan(accident, after),
                Some(_) => {}
            }
            let steps = self.rng.within(1, u64::from(config.steps));
            for _ in 0..steps.max(u64::from(config.steps / 2)) {
                let stepped = self.step().and_then(|()| self.poll());
                // What a process says while it dies in the middle of a call is not heard.
                self.down |= self.disk.with(|medium| medium.dead);
                if self.down {
                    break;
                }
                stepped?;
            }
            if generation == 1 {
                let waiting = self.disk.with(|medium| medium.faults.is_waiting());
                self.happened = config.accident.is_some() && !waiting;
            }
            self.end_of_life()?;
        }
        self.wind_down()?;
        self.record.check()?;
        self.rot()
    }

    /// Things that will go wrong in this life, if it lasts long enough.
    fn plan_accidents(&mut self) {
        let after = self.rng.below(400);
        match self.rng.below(8) {
            0 => self.plan(Accident::FailedSync, after / 4),
            1 => self.plan(Accident::FailedWrite, after / 3),
            2..=4 => self.plan(Accident::Death, after),
            _ => {}
        }
        self.tight = self.rng.one_in(6);
    }

    fn plan(&mut self, accident: Accident, after: u64) {
        self.disk.with(|medium| match accident {
            Accident::Death => medium.faults.die_in = Some(after),
            Accident::FailedSync => medium.faults.fail_sync_in = Some(after),
            Accident::FailedWrite => medium.faults.fail_write_in = Some(after),
        });
    }

    fn step(&mut self) -> Check {
        match self.rng.below(100) {
            0..=49 => self.submit_next(),
            50..=52 => self.submit_batch(),
            53..=69 => self.commit(),
            70..=75 => self.maintain_a_while(),
            76..=78 => self.begin_checkpoint(),
            79..=81 => self.finish_checkpoint(),
            82..=86 => self.read_something(),
            87..=88 => self.read_slowly(),
            89..=90 => self.watch(),
            91..=94 => self.let_time_pass(),
            95 => self.abandon_blob(),
            96 => {
                self.change_capacity();
                Ok(())
            }
            97 => self.compare_replay(),
            _ => self.check(),
        }
    }

    fn engine(&self) -> Arc<Engine> {
        Arc::clone(self.engine.as_ref().expect("the process is running"))
    }

    fn sometimes(&mut self, what: &'static str) {
        debug_assert!(SOMETIMES.contains(&what), "{what} is not listed");
        *self.coverage.entry(what).or_insert(0) += 1;
    }

    /// An engine call failed: allowed if the disk made it, or if there was no room.
    fn failed(&mut self, doing: &str, error: &Error) -> Check {
        self.trace.line(format_args!("{doing}: {error}"));
        let (dead, broken) = self.disk.with(|medium| (medium.dead, medium.failed));
        if dead || broken.is_some() {
            self.down = true;
            return Ok(());
        }
        if error.kind == Kind::Full && self.is_tight() {
            self.sometimes("disk full");
            return Ok(());
        }
        violation!("{doing} failed on a healthy disk: {error}")
    }

    /// Whether lack of room is to be expected.
    fn is_tight(&self) -> bool {
        let (capacity, used) = self.disk.with(|medium| (medium.capacity, medium.used()));
        if self.disk.with(|medium| medium.full) {
            return true;
        }
        let reserve = self.options.disk_reserve.unwrap_or(0);
        // A snapshot's body asks for room piece by piece, and the log for files ahead of need.
        let wanted = SNAPSHOT_PIECE_BYTES + 3 * self.options.log_file_bytes;
        capacity.saturating_sub(used) < reserve + wanted
    }

    fn commit(&mut self) -> Check {
        let engine = self.engine();
        let before = self.history.unsettled();
        match engine.commit() {
            Ok(busy) => {
                let durable = engine.positions().0;
                self.history.settle(durable);
                self.trace.line(format_args!("commit: {busy}, durable {}", durable.0));
                if before > self.history.unsettled() + 1 {
                    self.sometimes("answered after several in one frame");
                }
                self.poll()?;
                self.check_woken()?;
                if !busy && (!self.flights.is_empty() || self.history.unsettled() > 0) {
                    return violation!("nothing is queued, but answers are still waiting");
                }
                Ok(())
            }
            Err(error) => {
                self.failed("commit", &error)?;
                if !self.down {
                    return violation!("a commit ran out of room that was reserved: {error}");
                }
                let changes = self.disk.with(|medium| medium.changes);
                if engine.commit().is_ok_and(|busy| busy)
                    || self.disk.with(|medium| medium.changes) != changes
                {
                    return violation!("a failed commit was tried again");
                }
                Ok(())
            }
        }
    }

    /// Commits until nothing is queued.
    fn commit_all(&mut self) -> Check {
        let engine = self.engine();
        let queued = || {
            let (durable, enqueued) = engine.positions();
            durable < enqueued
        };
        while !self.down && (queued() || !self.flights.is_empty()) {
            self.commit()?;
        }
        Ok(())
    }

    /// One step of upkeep, or several in a row.
    fn maintain_a_while(&mut self) -> Check {
        for _ in 0..*self.rng.pick(&[1, 1, 12]) {
            if self.down {
                break;
            }
            self.maintain()?;
        }
        Ok(())
    }

    fn maintain(&mut self) -> Check {
        let engine = self.engine();
        let files = self.log_files();
        let segments = self.segments();
        match engine.maintain() {
            Ok(busy) => self.trace.line(format_args!("maintain: {busy}")),
            Err(error) => self.failed("maintain", &error)?,
        }
        self.note_reclaim(&files);
        self.note_segments(&segments);
        self.absorb()
    }

    fn begin_checkpoint(&mut self) -> Check {
        let engine = self.engine();
        if engine.in_checkpoint() {
            return Ok(());
        }
        match engine.begin_checkpoint() {
            Ok(()) => self.trace.line(format_args!("checkpoint begins")),
            Err(error) => self.failed("beginning a checkpoint", &error)?,
        }
        Ok(())
    }

    fn finish_checkpoint(&mut self) -> Check {
        let files = self.log_files();
        match self.engine().finish_checkpoint() {
            Ok(done) => {
                self.trace.line(format_args!("checkpoint finished: {done}"));
                if done && self.history.unsettled() > 0 {
                    self.sometimes("checkpoint finished with changes in flight");
                }
            }
            Err(error) => self.failed("finishing a checkpoint", &error)?,
        }
        self.note_reclaim(&files);
        Ok(())
    }

    fn log_files(&self) -> Vec<(String, u64)> {
        self.disk.with(|medium| medium.files_in("log"))
    }

    fn segments(&self) -> Vec<(String, u64)> {
        self.disk.with(|medium| medium.files_in("segment"))
    }

    fn note_segments(&mut self, before: &[(String, u64)]) {
        let now = self.segments();
        let lacks = |files: &[(String, u64)], path: &str| !files.iter().any(|it| it.0 == path);
        let written = now.iter().any(|(path, _)| lacks(before, path));
        let replaced = before.iter().filter(|(path, _)| lacks(&now, path)).count();
        if written {
            self.sometimes("segment written");
        }
        if replaced > 1 {
            self.sometimes("segments merged");
        }
        if replaced > 0 {
            self.sometimes("segment replaced");
            if !self.slow.is_empty() {
                self.sometimes("segments replaced under a reader");
            }
            if self.bug == Some(Bug::SegmentReclaimed)
                && let [(path, _), ..] = &now[..]
            {
                let gone = headwater_storage::Disk::remove(&self.disk, path);
                debug_assert!(gone.is_ok(), "it was there");
            }
        }
    }

    fn note_reclaim(&mut self, before: &[(String, u64)]) {
        let now = self.log_files();
        if before.iter().any(|(path, _)| !now.iter().any(|(kept, _)| kept == path)) {
            self.sometimes("log file reclaimed");
            if self.bug == Some(Bug::OldestLogFileReclaimed)
                && let [(path, _), _, ..] = &now[..]
            {
                let gone = headwater_storage::Disk::remove(&self.disk, path);
                debug_assert!(gone.is_ok(), "it was there");
            }
        }
    }

    /// Takes note of what the engine has ended by itself.
    fn absorb(&mut self) -> Check {
        let (mut expired, mut purged) = (0, 0);
        let engine = self.engine();
        oracle::absorb(&engine, &mut self.history, &mut expired, &mut purged)?;
        for _ in 0..expired {
            self.sometimes("expired in the background");
        }
        for _ in 0..purged {
            self.sometimes("purged in the background");
        }
        Ok(())
    }

    fn let_time_pass(&mut self) -> Check {
        let ms = *self.rng.pick(&[1, 20, 200, 1_000, 4_000]);
        self.clock.advance(ms);
        self.elapsed += ms;
        if self.rng.one_in(8) {
            let jump = i64::try_from(self.rng.below(7_200_000)).expect("below two hours");
            self.clock.jump_wall(jump - 3_600_000);
        }
        self.trace.line(format_args!("{ms} ms pass"));
        let now = self.engine().now().node.0;
        if now != self.born + self.elapsed {
            return violation!("node time is {now} instead of {}", self.born + self.elapsed);
        }
        Ok(())
    }

    /// Somebody else takes or frees room on the disk.
    fn change_capacity(&mut self) {
        if !self.tight {
            return;
        }
        let spare = self.rng.below(8 * self.options.log_file_bytes);
        let roomy = self.rng.one_in(3).then_some(self.roomy);
        self.disk.with(|medium| {
            medium.capacity = roomy.unwrap_or_else(|| medium.used() + spare);
        });
        self.trace.line(format_args!("{spare} bytes are free; {roomy:?}"));
    }

    /// All of it, now.
    fn check(&mut self) -> Check {
        self.commit_all()?;
        if self.down {
            return Ok(());
        }
        self.absorb()?;
        self.commit_all()?;
        if self.down {
            return Ok(());
        }
        oracle::check_everything(&self.engine(), &self.history.live)
    }
}
