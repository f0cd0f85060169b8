//! The two threads that drive an engine in production: the lane commits, the keeper does
//! background work.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use headwater_core::ids::Lsn;
use headwater_storage::{Error, Kind};

use super::Engine;
use crate::metrics::Commits;

/// How long the lane waits for work before it looks whether it should stop.
const LANE_PATIENCE: Duration = Duration::from_millis(200);

/// How long the keeper rests when there was nothing to do.
const KEEPER_REST: Duration = Duration::from_millis(50);

/// While clients write, the keeper rests after a step for as long as the step took, so that they
/// have most of the processor and of the disk. Steps shorter than the first are nothing, and no
/// rest is longer than the second.
const KEEPER_PACE: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(20)];

/// The operating system's numbers for "no descriptor left", in the process and in the system.
const NO_DESCRIPTORS: [i32; 2] = [24, 23];

/// How long the keeper rests when the disk is full, or no descriptor is left.
const FULL_REST: Duration = Duration::from_secs(1);

/// Called once when the log has failed: a failed write or sync is never retried, and nothing that
/// was applied can be undone, so the process must end.
pub(crate) type OnFailure = Arc<dyn Fn(Error) + Send + Sync>;

/// The running threads of one engine.
pub(crate) struct Threads {
    engine: Arc<Engine>,
    stop: Arc<AtomicBool>,
    lane: JoinHandle<()>,
    keeper: JoinHandle<()>,
}

impl Threads {
    /// Starts them.
    pub(crate) fn start(
        engine: &Arc<Engine>,
        commits: Arc<Commits>,
        on_failure: OnFailure,
    ) -> std::io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let lane = spawn("lane", engine, &stop, Arc::clone(&on_failure), move |engine| {
            engine.store.wait_for_work(LANE_PATIENCE);
            commit(engine, &commits)
        })?;
        let keeper = spawn("keeper", engine, &stop, on_failure, |engine| {
            let (began, durable) = (Instant::now(), engine.store.durable());
            match engine.maintain() {
                Ok(true) => pace(engine, began.elapsed(), durable),
                Ok(false) => thread::park_timeout(KEEPER_REST),
                // A checkpoint or a file ahead of need can wait.
                Err(error) if error.kind == Kind::Full || lacks_descriptors(&error) => {
                    tracing::warn!(%error, "upkeep waits for room");
                    thread::park_timeout(FULL_REST);
                }
                Err(error) => return Err(error),
            }
            Ok(())
        })?;
        Ok(Self { engine: Arc::clone(engine), stop, lane, keeper })
    }

    /// Stops them and seals the log: the next start has nothing to repair.
    pub(crate) fn stop(self) -> Result<(), Error> {
        self.stop.store(true, Ordering::Release);
        self.keeper.thread().unpark();
        for thread in [self.keeper, self.lane] {
            if thread.join().is_err() {
                tracing::error!("a thread of the engine had panicked");
            }
        }
        self.engine.seal()
    }
}

impl Engine {
    /// Commits the rest and seals the log. Nothing can be submitted afterwards.
    pub fn seal(&self) -> Result<(), Error> {
        let done = self.store.seal(self.now().node)?;
        self.publish(done);
        Ok(())
    }
}

/// Commits, and counts what that was.
fn commit(engine: &Engine, commits: &Commits) -> Result<(), Error> {
    let (began, lsn, bytes) =
        (Instant::now(), engine.store.durable(), engine.store.committed_bytes());
    if engine.commit()? {
        // Each group has a lsn.
        let groups = engine.store.durable().0 - lsn.0;
        commits.note(began.elapsed(), groups, engine.store.committed_bytes() - bytes);
    }
    Ok(())
}

/// Rests after a step of background work, if it took something from clients and is not behind.
fn pace(engine: &Engine, took: Duration, durable_before: Lsn) {
    let [shortest, longest] = KEEPER_PACE;
    let in_the_way = took >= shortest && engine.store.durable() > durable_before;
    if in_the_way && !engine.store.is_behind() {
        thread::park_timeout(took.min(longest));
    }
}

fn lacks_descriptors(error: &Error) -> bool {
    let code = error.source.as_ref().and_then(std::io::Error::raw_os_error);
    code.is_some_and(|code| NO_DESCRIPTORS.contains(&code))
}

fn spawn(
    name: &str,
    engine: &Arc<Engine>,
    stop: &Arc<AtomicBool>,
    on_failure: OnFailure,
    step: impl Fn(&Engine) -> Result<(), Error> + Send + 'static,
) -> std::io::Result<JoinHandle<()>> {
    let (engine, stop) = (Arc::clone(engine), Arc::clone(stop));
    thread::Builder::new().name(name.to_owned()).spawn(move || {
        while !stop.load(Ordering::Acquire) {
            if let Err(error) = step(&engine) {
                on_failure(error);
                return;
            }
        }
    })
}
