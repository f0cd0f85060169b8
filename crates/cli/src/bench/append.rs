//! `headwater bench append`: how many appends a server takes when there are always more.

use std::rc::Rc;

use tokio::task::JoinSet;
use tokio::time::Instant;

use super::load::{Load, at_least_one};
use super::progress::Progress;
use super::report::{Report, mb_per_second, per_second};
use super::session::{PATIENCE, Session, Window};
use super::tally::{SharedTally, Tally};
use super::witness::Witness;
use super::{Common, Timing};
use crate::failure::{Exit, Failure};

/// Measure appends in a closed loop.
///
/// Every connection sends its next append as soon as the last one is answered: this finds the most
/// that the server takes. The latencies are those under that load.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    load: Load,

    /// Send N messages in each request (append-batch, an extension of Headwater).
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    batch: Option<usize>,

    /// Also check what the clients saw: appends in order, and all of them there at the end.
    #[arg(long, conflicts_with = "batch")]
    check: bool,

    #[command(flatten)]
    timing: Timing,

    #[command(flatten)]
    pub(super) common: Common,
}

const EXAMPLES: &str = "\
Examples:
  headwater bench append
  headwater bench append --connections 1 --streams 1
  headwater bench append --batch 100 --url http://127.0.0.1:4437/demo --json";

pub(super) async fn run(args: Args, session: &Session) -> Result<Report, Failure> {
    let requests = args.load.prepare(session, args.batch).await?;
    if args.batch.is_some() {
        refuse_without_batches(session, &requests).await?;
    }
    let tally = Tally::shared();
    let window = Window::after(args.timing.warm_up(), args.timing.length());
    let witness = args.check.then(|| Rc::new(Witness::new(requests.len(), args.load.unit())));
    let witness = witness.as_ref();
    let workers = start(session, args.load.connections, &requests, window, &tally, witness).await?;
    let _bar = Progress::timed("append", window, &tally);

    session.wait_until(window.from).await;
    let meter = session.meter()?;
    session.wait_until(window.until).await;
    let elapsed = window.elapsed();
    let messages = tally.borrow().done() * args.batch.unwrap_or(1) as u64;
    let bytes = messages * args.load.size.bytes();
    let mut usage = Report::default();
    meter.tell(&mut usage, messages, bytes);
    session.finish(workers, Some(window.until + PATIENCE)).await;
    if let Some(witness) = witness {
        for stream in 0..requests.len() {
            args.load.read_back(session, stream, witness).await?;
        }
    }

    let tally = tally.borrow();
    tally.any_succeeded("append")?;
    let mut report = Report::new("append");
    args.load.tell(&mut report);
    report.add("batch", args.batch);
    report.number("seconds", Some(elapsed.as_secs_f64()), 3);
    report.add("appends", messages);
    report.number("appends_per_s", per_second(messages as f64, elapsed), 1);
    report.number("mb_per_s", mb_per_second(bytes, elapsed), 2);
    report.latency(&tally.latency);
    tally.tell(&mut report);
    report.extend(usage);
    if let Some(witness) = witness {
        witness.judge(&mut report)?;
    }
    Ok(report)
}

/// One task for each connection, until the window is over.
async fn start(
    session: &Session,
    connections: usize,
    requests: &Rc<[Vec<u8>]>,
    window: Window,
    tally: &SharedTally,
    witness: Option<&Rc<Witness>>,
) -> Result<JoinSet<()>, Failure> {
    let mut workers = JoinSet::new();
    for first in 0..connections {
        let mut worker = session.worker(tally).await?;
        let (requests, witness) = (Rc::clone(requests), witness.cloned());
        workers.spawn_local(async move {
            let mut n = first;
            loop {
                let sent = Instant::now();
                if sent >= window.until || worker.is_broken() {
                    return;
                }
                let stream = n % requests.len();
                let noted = witness.as_ref().map(|witness| witness.append(stream, n as u64));
                let answer = worker.exchange(&requests[stream]).await;
                if let Some((witness, noted)) = witness.as_ref().zip(noted)
                    && let Some((head, _)) = &answer
                {
                    witness.appended(&noted, head);
                }
                n += connections;
                let now = Instant::now();
                if let Some((head, _)) = answer
                    && sent >= window.from
                    && now <= window.until
                {
                    worker.answered(&head, now - sent, 0);
                }
            }
        });
    }
    Ok(workers)
}

/// A batch is tried once, so that a server without batches is told from one that fails.
async fn refuse_without_batches(
    session: &Session,
    requests: &Rc<[Vec<u8>]>,
) -> Result<(), Failure> {
    let mut worker = session.worker(&Tally::shared()).await?;
    match worker.exchange(&requests[0]).await {
        Some((head, _)) => super::refuse_unsupported(head.status, "append-batch"),
        None => Err(Failure::new(Exit::Unavailable, "cannot append a batch: the connection broke")),
    }
}
