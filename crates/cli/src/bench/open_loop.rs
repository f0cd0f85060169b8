//! `headwater bench open-loop`: how long appends take at a rate that the server does not choose.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;

use super::load::Load;
use super::pace::Pace;
use super::progress::Progress;
use super::report::{Report, per_second};
use super::session::{PATIENCE, Session, Window};
use super::tally::{SharedTally, Tally};
use super::{Common, Timing, positive};
use crate::failure::{Exit, Failure};

/// Measure the latency of appends at a fixed rate.
///
/// Appends are due at even intervals, whatever the server does. Latency counts from the moment an
/// append was due and not from when it could be sent, so that a stalled server cannot hide the
/// appends that it kept waiting.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    load: Load,

    /// Appends a second.
    #[arg(long, value_name = "N", default_value_t = 5000.0, value_parser = positive)]
    rate: f64,

    #[command(flatten)]
    timing: Timing,

    #[command(flatten)]
    pub(super) common: Common,
}

const EXAMPLES: &str = "\
Examples:
  headwater bench open-loop
  headwater bench open-loop --rate 20000 --connections 256 --json";

/// The moments at which appends are due, handed out one by one.
#[derive(Debug)]
struct Schedule {
    begin: Instant,
    interval: Duration,
    next: Cell<u32>,
    end: Instant,
}

pub(super) async fn run(args: Args, session: &Session) -> Result<Report, Failure> {
    let requests = args.load.prepare(session, None).await?;
    // A timer for each connection.
    Session::make_room(args.load.connections * 2)?;
    let tally = Tally::shared();
    let window = Window::after(args.timing.warm_up(), args.timing.length());
    let schedule = Rc::new(Schedule::new(args.rate, window));
    let workers = start(session, &args.load, &requests, &schedule, &tally, window.from).await?;
    let _bar = Progress::timed("open-loop", window, &tally);

    session.wait_until(window.from).await;
    let meter = session.meter()?;
    session.wait_until(window.until).await;
    let elapsed = window.elapsed();
    let mut usage = Report::default();
    let done = tally.borrow().done();
    meter.tell(&mut usage, done, done * args.load.size.bytes());
    // Late ones count as well: they are what this is about.
    session.finish(workers, Some(window.until + PATIENCE)).await;
    let drained = Instant::now().saturating_duration_since(window.until);

    let tally = tally.borrow();
    tally.any_succeeded("append")?;
    let mut report = Report::new("open-loop");
    args.load.tell(&mut report);
    report.number("rate", Some(args.rate), 1);
    report.number("seconds", Some(elapsed.as_secs_f64()), 3);
    report.add("appends", tally.done());
    report.number("appends_per_s", per_second(tally.done() as f64, elapsed + drained), 1);
    report.latency(&tally.latency);
    tally.tell(&mut report);
    report.extend(usage);
    Ok(report)
}

/// One task for each connection; each takes the next moment that is due and waits for it.
async fn start(
    session: &Session,
    load: &Load,
    requests: &Rc<[Vec<u8>]>,
    schedule: &Rc<Schedule>,
    tally: &SharedTally,
    from: Instant,
) -> Result<JoinSet<()>, Failure> {
    let mut workers = JoinSet::new();
    for first in 0..load.connections {
        let mut worker = session.worker(tally).await?;
        let pace = Pace::new()
            .map_err(|error| Failure::because(Exit::Failed, "cannot make a timer", &error))?;
        let (requests, schedule) = (Rc::clone(requests), Rc::clone(schedule));
        let step = load.connections;
        workers.spawn_local(async move {
            let mut n = first;
            while let Some(due) = schedule.take() {
                if let Err(error) = pace.until(due).await {
                    worker.tally.borrow_mut().failed(error);
                    return;
                }
                let answer = worker.exchange(&requests[n % requests.len()]).await;
                n += step;
                match answer {
                    Some((head, _)) if due >= from => worker.answered(&head, due.elapsed(), 0),
                    None if worker.is_broken() => return,
                    Some(_) | None => {}
                }
            }
        });
    }
    Ok(workers)
}

impl Schedule {
    /// From now until the window is over.
    fn new(rate: f64, window: Window) -> Self {
        Self {
            begin: Instant::now(),
            interval: Duration::from_secs_f64(1.0 / rate),
            next: Cell::new(0),
            end: window.until,
        }
    }

    fn take(&self) -> Option<Instant> {
        let n = self.next.get();
        let due = self.begin + self.interval * n;
        self.next.set(n.checked_add(1)?);
        (due < self.end).then_some(due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_even_and_end_with_the_window() {
        let window = Window::after(Duration::from_secs(1), Duration::from_secs(1));
        let schedule = Schedule::new(10.0, window);
        let due: Vec<Instant> = std::iter::from_fn(|| schedule.take()).collect();
        // One more or less, since the schedule begins a little after the window was made.
        assert!((19..=20).contains(&due.len()), "{}", due.len());
        assert!(due.is_sorted() && due[1] - due[0] == Duration::from_millis(100));
    }
}
