//! `headwater bench bootstrap`: a snapshot and every message after it, in one answer.

use std::io;

use tokio::time::Instant;

use super::connection::{Connection, LARGE_BUFFER};
use super::load::{Content, MessageSize, at_least_one, frames};
use super::progress::Progress;
use super::report::{Report, mb_per_second};
use super::session::{Job, Session, Window};
use super::tally::{SharedTally, Tally};
use super::{Common, refuse_unsupported, seconds};
use crate::failure::{Exit, Failure};

/// Measure bootstraps (an extension of Headwater).
///
/// Publishes a small snapshot, appends the messages after it, and then gets the bootstrap again and
/// again for the given time, at least once.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Messages after the snapshot.
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = at_least_one)]
    messages: usize,

    /// Size of a message.
    #[arg(long, value_name = "SIZE", default_value_t = MessageSize(1024))]
    size: MessageSize,

    /// How long to read.
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0, value_parser = super::positive)]
    seconds: f64,

    #[command(flatten)]
    pub(super) common: Common,
}

const EXAMPLES: &str = "\
Examples:
  headwater bench bootstrap
  headwater bench bootstrap --messages 1000 --size 64KiB --url http://127.0.0.1:4437/demo";

/// About how much a batch holds.
const BATCH_BYTES: usize = 1 << 20;
/// What a batch may hold (`extensions.md` §8).
const FRAMES_MAX: usize = 4096;

pub(super) async fn run(args: Args, session: &Session) -> Result<Report, Failure> {
    let MessageSize(size) = args.size;
    let media_type = Content::Bytes.media_type();
    let stream = session.create(1, media_type).await?.start;
    let path = session.target.stream(stream);
    publish_first(session, &path).await?;
    append(&args, session, &path, size).await?;

    let tally = Tally::shared();
    let mut worker = session.worker_with_buffer(&tally, LARGE_BUFFER).await?;
    let request = session.target.request("GET", &session.target.part(&path, "bootstrap"));
    let meter = session.meter()?;
    let begun = Instant::now();
    let until = begun + seconds(args.seconds);
    let window = Window { from: begun, until };
    let bar = Progress::timed("bootstrap", window, &tally);
    let expected = (args.messages * size) as u64;
    let all = read_all(&mut worker.connection, &request, until, expected, &tally);
    session.wait_for(all).await;
    let elapsed = begun.elapsed();
    drop(bar);

    let tally = tally.borrow();
    tally.any_succeeded("bootstrap")?;
    let mut report = Report::new("bootstrap");
    report.add("messages", args.messages);
    report.add("size", size);
    report.number("seconds", Some(elapsed.as_secs_f64()), 3);
    report.add("bootstraps", tally.done());
    report.number("mb_per_s", mb_per_second(tally.bytes, elapsed), 1);
    report.latency(&tally.latency);
    tally.tell(&mut report);
    meter.tell(&mut report, tally.done(), 0);
    Ok(report)
}

/// A message, and a snapshot that covers it.
async fn publish_first(session: &Session, path: &str) -> Result<(), Failure> {
    let target = &session.target;
    let mut worker = session.worker(&Tally::shared()).await?;
    let lost =
        || Failure::new(Exit::Unavailable, "cannot publish a snapshot: the connection broke");
    let append = target.with_body("POST", path, Content::Bytes.media_type(), b"covered");
    let (head, _) = worker.exchange(&append).await.ok_or_else(lost)?;
    let Some(offset) = head.next_offset.filter(|_| (200..300).contains(&head.status)) else {
        let what = format!("cannot append: the server answered {}", head.status);
        return Err(Failure::new(Exit::Failed, what));
    };
    let snapshot = target.part(path, &format!("snapshot/{offset}"));
    let publish = target.with_body("PUT", &snapshot, Content::Bytes.media_type(), &[0; 1024]);
    let (head, _) = worker.exchange(&publish).await.ok_or_else(lost)?;
    refuse_unsupported(head.status, "snapshot")
}

async fn append(args: &Args, session: &Session, path: &str, size: usize) -> Result<(), Failure> {
    let per_batch = (BATCH_BYTES / size).clamp(1, FRAMES_MAX).min(args.messages);
    let batches = args.messages.div_ceil(per_batch);
    let last = args.messages - (batches - 1) * per_batch;
    let message = Content::Bytes.message(size);
    let batch_path = session.target.part(path, "append-batch");
    let batch = |count| {
        let body = frames(&message, count);
        session.target.with_body("POST", &batch_path, Content::Bytes.media_type(), &body)
    };
    let (full, rest) = (batch(per_batch), batch(last));
    let job = Job::preparing("append batches", batches);
    let tally = session
        .each(job, move |n| if n == batches - 1 { rest.clone() } else { full.clone() })
        .await?;
    tally.borrow().all_succeeded(job.what)
}

/// Bytes count as they come, so that an interrupted bootstrap is told as well.
async fn read_all(
    connection: &mut Connection,
    request: &[u8],
    until: Instant,
    expected: u64,
    tally: &SharedTally,
) {
    loop {
        let begun = Instant::now();
        match read(connection, request, tally).await {
            Ok(bytes) if bytes > expected => tally.borrow_mut().succeeded(begun.elapsed(), 0),
            Ok(bytes) => {
                let what = format!("{bytes} bytes are too few for {expected} bytes of messages");
                tally.borrow_mut().failed(what);
            }
            Err(error) => return tally.borrow_mut().failed(error),
        }
        if Instant::now() >= until {
            return;
        }
    }
}

async fn read(connection: &mut Connection, request: &[u8], tally: &SharedTally) -> io::Result<u64> {
    connection.send(request).await?;
    let mut head = connection.head().await?;
    let mut bytes = 0;
    while let Some(piece) = connection.piece(&mut head.framing).await? {
        bytes += piece.len() as u64;
        tally.borrow_mut().bytes += piece.len() as u64;
    }
    if !head.keep_alive {
        connection.reopen().await?;
    }
    if head.is_success() {
        Ok(bytes)
    } else {
        Err(io::Error::other(format!("the server answered {}", head.status)))
    }
}
