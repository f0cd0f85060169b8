//! One run of a work: its server, its streams, its workers, and its end.
//!
//! Everything runs on one thread. Workers are tasks that share a [`Tally`]; to end a phase early is
//! to drop them, so that Ctrl-C leaves the figures of what was done until then.

use std::cell::Cell;
use std::future::Future;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::Common;
use super::connection::{Connection, SMALL_BUFFER};
use super::descriptors;
use super::meter::Meter;
use super::progress::Progress;
use super::tally::{SharedTally, Tally};
use super::target::Target;
use super::wire::Head;
use crate::failure::{Exit, Failure};

/// What a work has to know and to hold.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) target: Rc<Target>,
    pub(crate) common: Common,
    interrupted: watch::Receiver<bool>,
    /// The streams 0 to here are ours to delete.
    streams: Cell<usize>,
}

/// A number of requests that are made one by one and sent over several connections.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Job {
    /// Completes "cannot …".
    pub(crate) what: &'static str,
    pub(crate) count: usize,
    pub(crate) connections: usize,
    /// No request begins after this.
    pub(crate) until: Option<Instant>,
}

/// The time during which everything counts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    pub(crate) from: Instant,
    pub(crate) until: Instant,
}

/// One connection of a phase. It counts what fails, and connects anew where that helps.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) connection: Connection,
    pub(crate) tally: SharedTally,
    broken_in_a_row: u32,
}

/// How long an answer may take before the run goes on without it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// For preparing and cleaning up.
pub(crate) const SIDE_CONNECTIONS: usize = 16;
/// A worker whose connections break so often in a row gives up.
const BROKEN_MAX: u32 = 10;

impl Session {
    /// Looks whether the server is there.
    pub(crate) async fn open(
        common: Common,
        interrupted: watch::Receiver<bool>,
    ) -> Result<Self, Failure> {
        let target = Rc::new(Target::new(&common.url, common.auth.clone())?);
        Connection::open(target.address, SMALL_BUFFER).await.map_err(|error| {
            let what = format!("cannot connect to {}", common.url);
            let hint = "start a server, for example with `headwater dev`, or give --url".to_owned();
            Failure::because(Exit::Unavailable, what, &error).hint(hint)
        })?;
        Ok(Self { target, common, interrupted, streams: Cell::new(0) })
    }

    pub(crate) fn is_interrupted(&self) -> bool {
        *self.interrupted.borrow()
    }

    pub(crate) fn meter(&self) -> Result<Meter, Failure> {
        Meter::start(self.common.pid)
    }

    /// So many new names of streams.
    pub(crate) fn reserve(&self, count: usize) -> Range<usize> {
        let first = self.streams.get();
        self.streams.set(first + count);
        first..first + count
    }

    /// Names from `first` on were not needed.
    pub(crate) fn release(&self, first: usize) {
        self.streams.set(self.streams.get().min(first));
    }

    /// So many new streams.
    pub(crate) async fn create(
        &self,
        count: usize,
        content_type: &'static str,
    ) -> Result<Range<usize>, Failure> {
        let names = self.reserve(count);
        let job = Job::preparing("create streams", count);
        let (target, first) = (Rc::clone(&self.target), names.start);
        let tally = self
            .each(job, move |n| {
                target.with_body("PUT", &target.stream(first + n), content_type, b"")
            })
            .await?;
        tally.borrow().all_succeeded(job.what)?;
        Ok(names)
    }

    /// Deletes what this session has created. Failures do not matter: they are the server's.
    pub(crate) async fn clean_up(&self) -> Result<(), Failure> {
        if self.common.keep || self.streams.get() == 0 {
            return Ok(());
        }
        let target = Rc::clone(&self.target);
        let job = Job::preparing("delete streams", self.streams.get());
        let uninterrupted = Self {
            target: Rc::clone(&self.target),
            common: self.common.clone(),
            interrupted: watch::channel(false).1,
            streams: Cell::new(0),
        };
        let deleted =
            uninterrupted.each(job, move |n| target.request("DELETE", &target.stream(n))).await?;
        drop(deleted);
        Ok(())
    }

    /// Sends what `make` makes of 0, 1, 2, … Ends when all is answered, at the job's end, or when
    /// interrupted.
    pub(crate) async fn each(
        &self,
        job: Job,
        make: impl Fn(usize) -> Vec<u8> + 'static,
    ) -> Result<SharedTally, Failure> {
        let (tally, make) = (Tally::shared(), Rc::new(make));
        let next = Rc::new(Cell::new(0));
        let mut workers = JoinSet::new();
        for _ in 0..job.connections.min(job.count) {
            let mut worker = self.worker(&tally).await?;
            let (make, next) = (Rc::clone(&make), Rc::clone(&next));
            workers.spawn_local(async move {
                while let Some(n) = job.take(&next) {
                    let request = make(n);
                    let sent = Instant::now();
                    match worker.exchange(&request).await {
                        Some((head, bytes)) => worker.answered(&head, sent.elapsed(), bytes),
                        None if worker.is_broken() => return,
                        None => {}
                    }
                }
            });
        }
        let _bar = Progress::counting(job.what, job.count as u64, &tally);
        self.finish(workers, job.until.map(|until| until + PATIENCE)).await;
        Ok(tally)
    }

    /// Waits for all `workers`, but not beyond `limit` and not after an interrupt.
    pub(crate) async fn finish(&self, mut workers: JoinSet<()>, limit: Option<Instant>) {
        let all = async { while workers.join_next().await.is_some() {} };
        self.wait_for(async {
            match limit {
                // What is late then is dropped with its worker.
                Some(limit) => drop(timeout_at(limit, all).await),
                None => all.await,
            }
        })
        .await;
    }

    /// Waits for `work`, unless the person wants the end first.
    pub(crate) async fn wait_for(&self, work: impl Future<Output = ()>) {
        let mut interrupted = self.interrupted.clone();
        tokio::select! {
            // The sender lives as long as the process listens for signals.
            Ok(_) = interrupted.wait_for(|interrupted| *interrupted) => {}
            () = work => {}
        }
    }

    /// Waits until `moment`, or until interrupted.
    pub(crate) async fn wait_until(&self, moment: Instant) {
        self.wait_for(sleep_until(moment)).await;
    }

    pub(crate) async fn worker(&self, tally: &SharedTally) -> Result<Worker, Failure> {
        self.worker_with_buffer(tally, SMALL_BUFFER).await
    }

    pub(crate) async fn worker_with_buffer(
        &self,
        tally: &SharedTally,
        buffer: usize,
    ) -> Result<Worker, Failure> {
        let connection = Connection::open(self.target.address, buffer).await.map_err(|error| {
            let what = format!("cannot open another connection to {}", self.common.url);
            Failure::because(Exit::Unavailable, what, &error)
        })?;
        Ok(Worker { connection, tally: Rc::clone(tally), broken_in_a_row: 0 })
    }

    /// Room for so many connections beside those of preparations.
    pub(crate) fn make_room(connections: usize) -> Result<(), Failure> {
        descriptors::make_room(connections + SIDE_CONNECTIONS)
    }
}

impl Job {
    /// Something to be done before or after what is measured.
    pub(crate) fn preparing(what: &'static str, count: usize) -> Self {
        Self { what, count, connections: SIDE_CONNECTIONS, until: None }
    }

    /// The number of the next request, if there is one.
    fn take(&self, next: &Cell<usize>) -> Option<usize> {
        let n = next.get();
        let is_over = self.until.is_some_and(|until| Instant::now() >= until);
        if n >= self.count || is_over {
            return None;
        }
        next.set(n + 1);
        Some(n)
    }
}

impl Window {
    /// Begins when the warm-up is over.
    pub(crate) fn after(warm_up: Duration, length: Duration) -> Self {
        let from = Instant::now() + warm_up;
        Self { from, until: from + length }
    }

    /// How much of it is over.
    pub(crate) fn elapsed(self) -> Duration {
        Instant::now().min(self.until).saturating_duration_since(self.from)
    }
}

impl Worker {
    /// A request and the head and body length of its answer. `None` if the connection broke, which
    /// is counted.
    pub(crate) async fn exchange(&mut self, request: &[u8]) -> Option<(Head, u64)> {
        match self.connection.exchange(request).await {
            Ok(answer) => {
                self.broken_in_a_row = 0;
                Some(answer)
            }
            Err(error) => {
                self.tally.borrow_mut().failed(&error);
                self.broken_in_a_row += 1;
                if self.connection.reopen().await.is_err() {
                    self.broken_in_a_row = BROKEN_MAX;
                }
                None
            }
        }
    }

    /// Whether nothing more is to be expected.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken_in_a_row >= BROKEN_MAX
    }

    pub(crate) fn answered(&self, head: &Head, took: Duration, bytes: u64) {
        self.tally.borrow_mut().answered(head, took, bytes);
    }
}
