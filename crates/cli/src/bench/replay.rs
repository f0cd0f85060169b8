//! `headwater bench replay`: reading many small streams whole, as many clients that start do.

use std::cell::Cell;
use std::rc::Rc;

use tokio::task::JoinSet;
use tokio::time::Instant;

use super::Common;
use super::connection::LARGE_BUFFER;
use super::load::{Content, JSON_BYTES_MIN, MessageSize, at_least_one};
use super::pages::read_whole;
use super::progress::Progress;
use super::report::{Report, mb_per_second, per_second};
use super::session::{Job, Session};
use super::tally::{SharedTally, Tally};
use crate::failure::{Exit, Failure};

/// Measure replaying many small streams.
///
/// Fills JSON streams with small messages, a few hundred in a request, then reads each of them from
/// its beginning until it is up to date.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Streams to fill and to read.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = at_least_one)]
    streams: usize,

    /// Messages in each stream.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = at_least_one)]
    messages: usize,

    /// Size of a message.
    #[arg(long, value_name = "SIZE", default_value_t = MessageSize(100))]
    size: MessageSize,

    /// Times that each stream is read.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = at_least_one)]
    rounds: usize,

    /// Connections that read.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = at_least_one)]
    connections: usize,

    #[command(flatten)]
    pub(super) common: Common,
}

const EXAMPLES: &str = "\
Examples:
  headwater bench replay
  headwater bench replay --streams 100 --messages 10000 --json";

/// Messages in one request that fills a stream.
const MESSAGES_PER_APPEND: usize = 250;

pub(super) async fn run(args: Args, session: &Session) -> Result<Report, Failure> {
    let MessageSize(size) = args.size;
    if size < JSON_BYTES_MIN {
        return Err(Failure::new(Exit::Usage, "--size is too small for a JSON string"));
    }
    Session::make_room(args.connections)?;
    let streams = session.create(args.streams, Content::Json.media_type()).await?;
    let begun = Instant::now();
    fill(&args, session, streams.start, size).await?;
    let filled = begun.elapsed();

    let tally = Tally::shared();
    let meter = session.meter()?;
    let begun = Instant::now();
    // Each message has a separator or a bracket beside it.
    let expected = (args.messages * (size + 1)) as u64;
    let workers = start_readers(&args, session, streams.start, expected, &tally).await?;
    let bar = Progress::counting("replay", (args.streams * args.rounds) as u64, &tally);
    session.finish(workers, None).await;
    let elapsed = begun.elapsed();
    drop(bar);

    let tally = tally.borrow();
    tally.any_succeeded("read")?;
    let messages = (args.streams * args.messages) as f64;
    let mut report = Report::new("replay");
    report.add("streams", args.streams);
    report.add("messages", args.messages);
    report.add("size", size);
    report.add("rounds", args.rounds);
    report.add("connections", args.connections);
    report.number("write_messages_per_s", per_second(messages, filled), 0);
    report.number("seconds", Some(elapsed.as_secs_f64()), 3);
    report.number("streams_per_s", per_second(tally.done() as f64, elapsed), 1);
    report.number("mb_per_s", mb_per_second(tally.bytes, elapsed), 1);
    report.latency(&tally.latency);
    tally.tell(&mut report);
    meter.tell(&mut report, tally.done(), 0);
    Ok(report)
}

async fn fill(args: &Args, session: &Session, first: usize, size: usize) -> Result<(), Failure> {
    let message = Content::Json.message(size);
    let array = |count: usize| {
        let mut array = b"[".to_vec();
        array.extend_from_slice(&vec![message.as_slice(); count].join(&b','));
        array.push(b']');
        array
    };
    let per_stream = args.messages.div_ceil(MESSAGES_PER_APPEND);
    let last = args.messages - (per_stream - 1) * MESSAGES_PER_APPEND;
    let (full, rest) = (array(MESSAGES_PER_APPEND), array(last));
    let (target, streams) = (Rc::clone(&session.target), args.streams);
    let job = Job::preparing("fill the streams", streams * per_stream);
    let tally = session
        .each(job, move |n| {
            let body = if n / streams == per_stream - 1 { &rest } else { &full };
            let stream = target.stream(first + n % streams);
            target.with_body("POST", &stream, Content::Json.media_type(), body)
        })
        .await?;
    tally.borrow().all_succeeded(job.what)
}

async fn start_readers(
    args: &Args,
    session: &Session,
    first: usize,
    expected: u64,
    tally: &SharedTally,
) -> Result<JoinSet<()>, Failure> {
    let (next, streams, reads) = (Rc::new(Cell::new(0)), args.streams, args.streams * args.rounds);
    let mut workers = JoinSet::new();
    for _ in 0..args.connections.min(args.streams) {
        let mut worker = session.worker_with_buffer(tally, LARGE_BUFFER).await?;
        let (target, next) = (Rc::clone(&session.target), Rc::clone(&next));
        workers.spawn_local(async move {
            while next.get() < reads {
                let stream = target.stream(first + next.replace(next.get() + 1) % streams);
                let begun = Instant::now();
                let read = read_whole(&target, &stream, &mut worker.connection, |_| {}).await;
                let took = begun.elapsed();
                let mut tally = worker.tally.borrow_mut();
                match read {
                    Ok(bytes) if bytes >= expected => {
                        tally.succeeded(took, bytes);
                    }
                    Ok(bytes) => {
                        let what = format!("{bytes} bytes were read, at least {expected} expected");
                        tally.failed(what);
                    }
                    // The rest of the answer may still be on the connection.
                    Err(error) => return tally.failed(error),
                }
            }
        });
    }
    Ok(workers)
}
