//! `headwater bench create`: how fast streams come into being.

use std::rc::Rc;

use tokio::time::Instant;

use super::load::{Content, at_least_one};
use super::report::{Report, per_second};
use super::session::{Job, Session};
use super::{Common, seconds};
use crate::failure::Failure;

/// Measure the creation of streams.
///
/// Ends after so many seconds or so many streams, whichever comes first.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Connections, each with one request in flight.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = at_least_one)]
    connections: usize,

    /// At most so many streams.
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = at_least_one)]
    streams: usize,

    /// How long to measure.
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0, value_parser = super::positive)]
    seconds: f64,

    #[command(flatten)]
    pub(super) common: Common,
}

const EXAMPLES: &str = "\
Examples:
  headwater bench create
  headwater bench create --streams 10000 --connections 1";

pub(super) async fn run(args: Args, session: &Session) -> Result<Report, Failure> {
    Session::make_room(args.connections)?;
    let first = session.reserve(args.streams).start;
    let target = Rc::clone(&session.target);
    let media_type = Content::Bytes.media_type();
    let meter = session.meter()?;
    let begun = Instant::now();
    let job = Job {
        what: "create streams",
        count: args.streams,
        connections: args.connections,
        until: Some(begun + seconds(args.seconds)),
    };
    let tally = session
        .each(job, move |n| target.with_body("PUT", &target.stream(first + n), media_type, b""))
        .await?;
    let elapsed = begun.elapsed();

    let tally = tally.borrow();
    // Every connection may have been interrupted while it created one more.
    let answered = usize::try_from(tally.done() + tally.failed).unwrap_or(usize::MAX);
    session.release(first + answered + args.connections);
    tally.any_succeeded(job.what)?;
    let mut report = Report::new("create");
    report.add("connections", args.connections);
    report.number("seconds", Some(elapsed.as_secs_f64()), 3);
    report.add("creates", tally.done());
    report.number("creates_per_s", per_second(tally.done() as f64, elapsed), 1);
    report.latency(&tally.latency);
    tally.tell(&mut report);
    meter.tell(&mut report, tally.done(), 0);
    Ok(report)
}
