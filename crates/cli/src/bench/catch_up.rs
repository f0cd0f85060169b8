//! `headwater bench catch-up`: writing one long stream, and reading all of it.

use std::rc::Rc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;

use super::connection::LARGE_BUFFER;
use super::load::{Content, MessageSize, at_least_one};
use super::pages::read_whole;
use super::progress::{Position, Progress, millis};
use super::report::{Report, mb_per_second};
use super::session::{Job, Session};
use super::tally::{SharedTally, Tally};
use super::{Common, seconds};
use crate::failure::{Exit, Failure};
use crate::units::Size;

/// Measure writing a long stream and reading it back.
///
/// Writes one stream, then readers read it from its beginning until they are up to date, again and
/// again for the given time, and each at least once. With --pid it also tells how many bytes the
/// server wrote for each byte appended.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Length of the stream.
    #[arg(long, value_name = "SIZE", default_value_t = Size(256 << 20))]
    bytes: Size,

    /// Size of an append.
    #[arg(long, value_name = "SIZE", default_value_t = MessageSize(64 << 10))]
    size: MessageSize,

    /// Connections that write.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = at_least_one)]
    connections: usize,

    /// Readers, a connection each.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = at_least_one)]
    readers: usize,

    /// How long to read.
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0, value_parser = super::positive)]
    seconds: f64,

    #[command(flatten)]
    pub(super) common: Common,
}

const EXAMPLES: &str = "\
Examples:
  headwater bench catch-up
  headwater bench catch-up --bytes 1GiB --readers 8";

pub(super) async fn run(args: Args, session: &Session) -> Result<Report, Failure> {
    let size = args.size.bytes();
    let appends = args.bytes.0 / size;
    if appends == 0 {
        return Err(Failure::new(Exit::Usage, "--bytes is less than one append of --size"));
    }
    Session::make_room(args.connections + args.readers)?;
    let stream = session.create(1, Content::Bytes.media_type()).await?.start;
    let path = session.target.stream(stream);
    let mut report = Report::new("catch-up");
    report.add("bytes", appends * size);
    report.add("size", size);

    let message = Content::Bytes.message(args.size.0);
    let request = session.target.with_body("POST", &path, Content::Bytes.media_type(), &message);
    let job = Job {
        what: "append",
        count: usize::try_from(appends).unwrap_or(usize::MAX),
        connections: args.connections,
        until: None,
    };
    let meter = session.meter()?;
    let begun = Instant::now();
    let written = session.each(job, move |_| request.clone()).await?;
    written.borrow().all_succeeded(job.what)?;
    let stored = written.borrow().done() * size;
    let elapsed = begun.elapsed();
    let mut usage = Report::default();
    meter.tell(&mut usage, written.borrow().done(), stored);
    report.number("write_mb_per_s", mb_per_second(stored, elapsed), 1);
    report.number("write_p99_ms", written.borrow().latency.quantile_ms(0.99), 3);
    report.add_from(&usage, "server_cpu_us_per_op", "write_cpu_us_per_append");
    report.add_from(&usage, "server_written_mb", "server_written_mb");
    report.add_from(&usage, "server_written_per_byte", "server_written_per_byte");

    read(&args, session, path, stored, &mut report).await?;
    Ok(report)
}

async fn read(
    args: &Args,
    session: &Session,
    path: String,
    stored: u64,
    report: &mut Report,
) -> Result<(), Failure> {
    let tally = Tally::shared();
    let meter = session.meter()?;
    let begun = Instant::now();
    let workers = start_readers(args, session, path, stored, &tally).await?;
    let _bar = bar(&tally, begun, seconds(args.seconds));
    session.finish(workers, None).await;
    let elapsed = begun.elapsed();

    let tally = tally.borrow();
    tally.any_succeeded("read")?;
    report.add("readers", args.readers);
    report.number("seconds", Some(elapsed.as_secs_f64()), 3);
    report.add("reads", tally.done());
    report.number("mb_per_s", mb_per_second(tally.bytes, elapsed), 1);
    report.latency(&tally.latency);
    tally.tell(report);
    let mut usage = Report::default();
    meter.tell(&mut usage, tally.bytes / 1_000_000, 0);
    report.add_from(&usage, "server_cpu_us_per_op", "server_cpu_us_per_mb");
    for name in ["server_cores", "server_rss_mb", "client_cores"] {
        report.add_from(&usage, name, name);
    }
    Ok(())
}

async fn start_readers(
    args: &Args,
    session: &Session,
    path: String,
    stored: u64,
    tally: &SharedTally,
) -> Result<JoinSet<()>, Failure> {
    let path: Rc<str> = path.into();
    let until = Instant::now() + seconds(args.seconds);
    let mut workers = JoinSet::new();
    for _ in 0..args.readers {
        let mut worker = session.worker_with_buffer(tally, LARGE_BUFFER).await?;
        let (target, path) = (Rc::clone(&session.target), Rc::clone(&path));
        workers.spawn_local(async move {
            loop {
                let begun = Instant::now();
                // Bytes count as they come, so that an interrupted read is told as well.
                let count = |bytes| worker.tally.borrow_mut().bytes += bytes;
                let read = read_whole(&target, &path, &mut worker.connection, count).await;
                let mut tally = worker.tally.borrow_mut();
                match read {
                    Ok(bytes) if bytes == stored => tally.succeeded(begun.elapsed(), 0),
                    Ok(bytes) => {
                        tally.failed(format_args!("{bytes} bytes of {stored} were read"));
                    }
                    Err(error) => return tally.failed(error),
                }
                if Instant::now() >= until {
                    return;
                }
            }
        });
    }
    Ok(workers)
}

fn bar(tally: &SharedTally, begun: Instant, length: Duration) -> Progress {
    let tally = Rc::clone(tally);
    Progress::show("read", millis(length), move || {
        let rate = mb_per_second(tally.borrow().bytes, begun.elapsed()).unwrap_or(0.0);
        Position { at: millis(begun.elapsed()), text: format!("{rate:.0} MB/s") }
    })
}
