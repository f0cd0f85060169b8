//! `headwater bench idle`: what streams and readers cost while nothing happens.

use std::rc::Rc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::Common;
use super::connection::Connection;
use super::load::Content;
use super::meter::{Usage, server_usage};
use super::report::{Report, per, per_second};
use super::session::{Job, Session};
use super::tally::Tally;
use crate::failure::{Exit, Failure};

/// Measure what idle streams and idle readers cost (needs --pid).
///
/// Creates streams with one message each, then connects readers that wait for more, and tells how
/// the server's memory and its open files have grown.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, mut_arg("pid", |pid| pid.required(true)))]
pub(crate) struct Args {
    /// Streams to create.
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    streams: usize,

    /// SSE readers to connect, all to one stream.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    readers: usize,

    #[command(flatten)]
    pub(super) common: Common,
}

const EXAMPLES: &str = "\
Examples:
  headwater bench idle --pid $(pidof headwater)
  headwater bench idle --pid 4242 --streams 1000000 --readers 0";

/// What a server does after the last answer belongs to what the streams cost.
const SETTLING: Duration = Duration::from_secs(1);
const CREATING_CONNECTIONS: usize = 64;
/// An idle reader gets the head of an answer and then next to nothing.
const READER_BUFFER: usize = 1024;

pub(super) async fn run(args: Args, session: &Session) -> Result<Report, Failure> {
    Session::make_room(args.readers + CREATING_CONNECTIONS)?;
    let Some(pid) = args.common.pid else {
        return Err(Failure::new(Exit::Usage, "--pid is missing"));
    };
    let mut report = Report::new("idle");
    let before = server_usage(pid)?;

    let begun = Instant::now();
    let created = create(args.streams, session).await?;
    let elapsed = begun.elapsed();
    settle(session).await;
    let with_streams = server_usage(pid)?;
    report.add("streams", created);
    report.number("creates_per_s", per_second(created as f64, elapsed), 1);
    report.number("bytes_per_stream", growth(before, with_streams, created), 0);
    report.add("descriptors", with_streams.descriptors);
    report.number("server_rss_mb", Some(with_streams.resident_bytes as f64 / 1e6), 1);

    let readers = connect(args.readers, session).await?;
    settle(session).await;
    let with_readers = server_usage(pid)?;
    let connected = readers.len() as u64;
    report.add("readers", connected);
    report.number("bytes_per_reader", growth(with_streams, with_readers, connected), 0);
    report.add("descriptors_with_readers", with_readers.descriptors);
    report.number("server_rss_with_readers_mb", Some(with_readers.resident_bytes as f64 / 1e6), 1);
    settle(session).await;
    let idle = server_usage(pid)?.cpu.saturating_sub(with_readers.cpu).as_secs_f64();
    report.number("server_cores_idle", per_second(idle, SETTLING), 3);
    drop(readers);
    Ok(report)
}

/// How many were created: all, unless interrupted.
async fn create(streams: usize, session: &Session) -> Result<u64, Failure> {
    let first = session.reserve(streams).start;
    let target = Rc::clone(&session.target);
    let message = Content::Text.message(100);
    let job = Job {
        what: "create streams",
        count: streams,
        connections: CREATING_CONNECTIONS,
        until: None,
    };
    let media_type = Content::Text.media_type();
    let tally = session
        .each(job, move |n| {
            target.with_body("PUT", &target.stream(first + n), media_type, &message)
        })
        .await?;
    let tally = tally.borrow();
    tally.all_succeeded(job.what)?;
    Ok(tally.done())
}

/// Connections whose SSE answers have begun.
async fn connect(count: usize, session: &Session) -> Result<Vec<Connection>, Failure> {
    let mut readers = Vec::new();
    if count == 0 || session.is_interrupted() {
        return Ok(readers);
    }
    let stream = session.create(1, Content::Text.media_type()).await?.start;
    let path = format!("{}?offset=-1&live=sse", session.target.stream(stream));
    let request = session.target.request("GET", &path);
    let tally = Tally::shared();
    while readers.len() < count && !session.is_interrupted() {
        let mut worker = session.worker_with_buffer(&tally, READER_BUFFER).await?;
        let broken = |error| Failure::because(Exit::Unavailable, "cannot open a reader", &error);
        worker.connection.send(&request).await.map_err(broken)?;
        let head = worker.connection.head().await.map_err(broken)?;
        if head.status != 200 {
            let what = format!("cannot open a reader: the server answered {}", head.status);
            return Err(Failure::new(Exit::Failed, what));
        }
        readers.push(worker.connection);
    }
    Ok(readers)
}

async fn settle(session: &Session) {
    session.wait_for(sleep(SETTLING)).await;
}

fn growth(before: Usage, after: Usage, count: u64) -> Option<f64> {
    per(after.resident_bytes.saturating_sub(before.resident_bytes) as f64, count)
}
