//! `headwater bench snapshots`: what large publishes do to appends that happen meanwhile.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::time::Instant;

use super::connection::{Connection, SMALL_BUFFER};
use super::latency::Latency;
use super::load::{Content, MessageSize, at_least_one};
use super::progress::Progress;
use super::report::{Report, mb_per_second};
use super::session::{Session, Window, Worker};
use super::tally::Tally;
use super::target::Target;
use super::wire::Head;
use super::{Common, positive, refuse_unsupported, seconds};
use crate::failure::{Exit, Failure};
use crate::units::Size;

/// Measure appends while snapshots are published (an extension of Headwater).
///
/// One connection appends one message after the other. In every second phase another connection
/// publishes snapshots of another stream, back to back. Compare the two latencies.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Size of a snapshot.
    #[arg(long, value_name = "SIZE", default_value_t = Size(128 << 20))]
    snapshot_size: Size,

    /// Size of a message.
    #[arg(long, value_name = "SIZE", default_value_t = MessageSize(256))]
    size: MessageSize,

    /// Pairs of a phase without and one with snapshots.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = at_least_one)]
    rounds: usize,

    /// Length of a phase.
    #[arg(long, value_name = "SECONDS", default_value_t = 3.0, value_parser = positive)]
    seconds: f64,

    #[command(flatten)]
    pub(super) common: Common,
}

const EXAMPLES: &str = "\
Examples:
  headwater bench snapshots
  headwater bench snapshots --snapshot-size 16MiB --rounds 3 --json";

/// What snapshots are made of, again and again: to make new bytes would take the CPU from what is
/// measured.
const BLOCK_BYTES: usize = 1 << 20;

/// One pair of phases.
#[derive(Debug, Clone, Copy)]
struct Round {
    quiet_ms: f64,
    publishing_ms: f64,
}

/// The stream whose snapshots are published.
#[derive(Debug, Clone)]
struct Publisher {
    target: Target,
    path: String,
    snapshot_len: u64,
}

/// Publishing, on a thread of its own: what it sends must not hold up the appends on ours.
#[derive(Debug)]
struct Publishing {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<io::Result<u64>>,
    begun: Instant,
}

pub(super) async fn run(args: Args, session: &Session) -> Result<Report, Failure> {
    let media_type = Content::Bytes.media_type();
    let streams = session.create(2, media_type).await?;
    let publisher = Publisher {
        target: Target::clone(&session.target),
        path: session.target.stream(streams.start + 1),
        snapshot_len: args.snapshot_size.0,
    };
    publisher.refuse_unsupported().await?;
    let message = Content::Bytes.message(args.size.0);
    let path = session.target.stream(streams.start);
    let append = session.target.with_body("POST", &path, media_type, &message);

    let tally = Tally::shared();
    let mut worker = session.worker(&tally).await?;
    let phase_len = seconds(args.seconds);
    let (mut rounds, mut snapshots, mut publishing_for) = (Vec::new(), 0, Duration::ZERO);
    let phases = u32::try_from(args.rounds * 2).unwrap_or(u32::MAX);
    let bar =
        Progress::timed("snapshots", Window::after(Duration::ZERO, phase_len * phases), &tally);
    while rounds.len() < args.rounds {
        let quiet = phase(&mut worker, &append, phase_len, session).await;
        let publishing = publisher.start();
        let busy = phase(&mut worker, &append, phase_len, session).await;
        let (published, took) = publishing.end()?;
        let p99s = quiet.quantile_ms(0.99).zip(busy.quantile_ms(0.99));
        // A phase that was cut short says nothing.
        let Some((quiet_ms, publishing_ms)) = p99s.filter(|_| !session.is_interrupted()) else {
            break;
        };
        snapshots += published;
        publishing_for += took;
        rounds.push(Round { quiet_ms, publishing_ms });
    }
    drop(bar);

    let tally = tally.borrow();
    tally.any_succeeded("append")?;
    let mut report = Report::new("snapshots");
    report.add("snapshot_size", args.snapshot_size.0);
    report.add("size", args.size.0);
    report.add("rounds", rounds.len());
    report.add("appends", tally.done());
    report.add("snapshots", snapshots);
    let bytes = snapshots * args.snapshot_size.0;
    report.number("publish_mb_per_s", mb_per_second(bytes, publishing_for), 1);
    report.number("quiet_p99_ms", median(&rounds, |round| round.quiet_ms), 3);
    report.number("publishing_p99_ms", median(&rounds, |round| round.publishing_ms), 3);
    report.number("p99_ratio", median(&rounds, |round| round.publishing_ms / round.quiet_ms), 2);
    tally.tell(&mut report);
    Ok(report)
}

/// Sequential appends for a while, and how long they took.
async fn phase(worker: &mut Worker, append: &[u8], length: Duration, session: &Session) -> Latency {
    let mut latency = Latency::new();
    let until = Instant::now() + length;
    while Instant::now() < until && !worker.is_broken() && !session.is_interrupted() {
        let sent = Instant::now();
        if let Some((head, bytes)) = worker.exchange(append).await {
            let took = sent.elapsed();
            latency.record(took);
            worker.answered(&head, took, bytes);
        }
    }
    latency
}

impl Publisher {
    /// A small publish, so that a server without snapshots is told from one that fails.
    async fn refuse_unsupported(&self) -> Result<(), Failure> {
        let small = Self { snapshot_len: 1, ..self.clone() };
        let lost = |error| Failure::because(Exit::Unavailable, "cannot publish", &error);
        let open = Connection::open(self.target.address, SMALL_BUFFER);
        let mut connection = open.await.map_err(lost)?;
        let head = small.publish(&mut connection, &[0]).await.map_err(lost)?;
        refuse_unsupported(head.status, "snapshot")
    }

    fn start(&self) -> Publishing {
        let is_over = Arc::new(AtomicBool::new(false));
        let (publisher, told) = (self.clone(), Arc::clone(&is_over));
        let thread = thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(publisher.publish_until(&told))
        });
        Publishing { is_over, thread, begun: Instant::now() }
    }

    /// Publishes whole snapshots until told to end. Returns how many.
    async fn publish_until(&self, is_over: &AtomicBool) -> io::Result<u64> {
        let block = vec![0x5a; BLOCK_BYTES];
        let mut connection = Connection::open(self.target.address, SMALL_BUFFER).await?;
        let mut count = 0;
        while !is_over.load(Ordering::Relaxed) {
            let head = self.publish(&mut connection, &block).await?;
            if !head.is_success() {
                let what = format!("publishing: the server answered {}", head.status);
                return Err(io::Error::other(what));
            }
            count += 1;
        }
        Ok(count)
    }

    /// Appends a byte, and publishes a snapshot there: a second one at the same offset would be
    /// refused or, with the same bytes, be no work.
    async fn publish(&self, connection: &mut Connection, block: &[u8]) -> io::Result<Head> {
        let media_type = Content::Bytes.media_type();
        let append = self.target.with_body("POST", &self.path, media_type, b"x");
        let (head, _) = connection.exchange(&append).await?;
        let Some(offset) = head.next_offset.as_deref().filter(|_| head.is_success()) else {
            return Err(io::Error::other(format!(
                "appending: the server answered {}",
                head.status
            )));
        };
        let path = self.target.part(&self.path, &format!("snapshot/{offset}"));
        connection
            .send(&self.target.body_head("PUT", &path, media_type, self.snapshot_len))
            .await?;
        let mut left = self.snapshot_len;
        while left > 0 {
            let len = usize::try_from(left).map_or(block.len(), |left| left.min(block.len()));
            connection.send(&block[..len]).await?;
            left -= len as u64;
        }
        Ok(connection.answer().await?.0)
    }
}

impl Publishing {
    /// Waits for the snapshot that is under way. Returns how many there were, and in which time.
    fn end(self) -> Result<(u64, Duration), Failure> {
        self.is_over.store(true, Ordering::Relaxed);
        let result = self.thread.join().expect("the publisher does not panic");
        let failed = |error| Failure::because(Exit::Failed, "cannot publish snapshots", &error);
        Ok((result.map_err(failed)?, self.begun.elapsed()))
    }
}

fn median(rounds: &[Round], figure: impl Fn(&Round) -> f64) -> Option<f64> {
    let mut figures: Vec<f64> = rounds.iter().map(figure).collect();
    figures.sort_by(f64::total_cmp);
    let upper = figures.get(figures.len() / 2)?;
    let lower = figures.get((figures.len() - 1) / 2)?;
    Some(f64::midpoint(*lower, *upper))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_or_between_the_two_in_the_middle() {
        let of = |figures: &[f64]| {
            let round = |quiet_ms: &f64| Round { quiet_ms: *quiet_ms, publishing_ms: 0.0 };
            median(&figures.iter().map(round).collect::<Vec<_>>(), |round| round.quiet_ms)
        };
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(of(&[4.0, 1.0, 3.0, 2.0]), Some(2.5));
    }
}
