//! `headwater bench fan-out`: one stream, many readers, and how late the last one learns.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use super::connection::Connection;
use super::deliveries::{Deliveries, MARK_BYTES, Mark, Page};
use super::latency::Latency;
use super::load::{Content, MessageSize, at_least_one};
use super::pace::Pace;
use super::progress::Progress;
use super::report::{Report, per_second};
use super::session::{PATIENCE, Session, Window};
use super::tally::{SharedTally, Tally};
use super::target::Target;
use super::witness::Witness;
use super::{Common, Timing, positive};
use crate::failure::{Exit, Failure};

/// Measure live delivery to many readers.
///
/// Every reader follows the same JSON stream by server-sent events. Each message tells its number
/// and when it was due; a reader counts what it lost and what it got twice.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// SSE readers, a connection each.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = at_least_one)]
    readers: usize,

    /// Appends a second.
    #[arg(long, value_name = "N", default_value_t = 10.0, value_parser = positive)]
    rate: f64,

    /// Size of a message.
    #[arg(long, value_name = "SIZE", default_value_t = MessageSize(256))]
    size: MessageSize,

    /// Also check by offsets what writer and readers saw.
    #[arg(long)]
    check: bool,

    #[command(flatten)]
    timing: Timing,

    #[command(flatten)]
    pub(super) common: Common,
}

const EXAMPLES: &str = "\
Examples:
  headwater bench fan-out
  headwater bench fan-out --readers 100 --rate 50 --json";

/// What the readers and the writer share.
#[derive(Debug)]
struct Scene {
    target: Rc<Target>,
    path: String,
    /// Marks count from here.
    epoch: Instant,
    /// Deliveries of messages due before this are not measured, only counted.
    from: Cell<Instant>,
    ready: Cell<usize>,
    reconnects: Cell<u64>,
    deliveries: Vec<RefCell<Deliveries>>,
    tally: SharedTally,
    witness: Option<Witness>,
}

/// A little memory each, since there are many.
const READER_BUFFER: usize = 4 * 1024;
/// Before a reader connects anew.
const RECONNECT_DELAY: Duration = Duration::from_millis(5);
/// How often we look whether everybody has everything.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);
/// What follows a message of a JSON stream in offsets.
const JSON_SEPARATOR: u64 = 1;
/// A message around its mark: `{"m":"` and `"}`.
const AROUND_BYTES: usize = 8;

pub(super) async fn run(args: Args, session: &Session) -> Result<Report, Failure> {
    Session::make_room(args.readers)?;
    let padding = args.padding()?;
    let stream = session.create(1, Content::Json.media_type()).await?.start;
    let tally = Tally::shared();
    let far = Instant::now() + Duration::from_hours(24);
    let scene = Rc::new(Scene {
        target: Rc::clone(&session.target),
        path: session.target.stream(stream),
        epoch: Instant::now(),
        from: Cell::new(far),
        ready: Cell::new(0),
        reconnects: Cell::new(0),
        deliveries: (0..args.readers).map(|_| args.deliveries()).collect(),
        tally: Rc::clone(&tally),
        witness: args.check.then(|| Witness::new(1, args.size.bytes() + JSON_SEPARATOR)),
    });
    let readers = start_readers(session, &scene).await?;
    let window = Window::after(args.timing.warm_up(), args.timing.length());
    scene.from.set(window.from);
    let written = Rc::new(Written::default());
    let mut writer = JoinSet::new();
    writer.spawn_local(Rc::clone(&written).write(Rc::clone(&scene), args.writing(padding, window)));
    let _bar = Progress::timed("fan-out", window, &tally);

    session.wait_until(window.from).await;
    let meter = session.meter()?;
    session.wait_until(window.until).await;
    let elapsed = window.elapsed();
    session.finish(writer, Some(window.until + PATIENCE)).await;
    scene.until_all_have(session, written.count.get()).await;
    let mut usage = Report::default();
    meter.tell(&mut usage, tally.borrow().done(), 0);
    drop(readers);

    let tally = tally.borrow();
    tally.any_succeeded("deliver")?;
    let mut report = Report::new("fan-out");
    report.add("readers", args.readers);
    report.number("rate", Some(args.rate), 1);
    report.add("size", args.size.bytes());
    report.number("seconds", Some(elapsed.as_secs_f64()), 3);
    scene.tell(&mut report, &written, elapsed);
    tally.tell(&mut report);
    report.extend(usage);
    if let Some(witness) = &scene.witness {
        witness.judge(&mut report)?;
    }
    Ok(report)
}

/// Opens all readers and waits until each has the head of its answer: from then on it is live.
async fn start_readers(session: &Session, scene: &Rc<Scene>) -> Result<JoinSet<()>, Failure> {
    let mut readers = JoinSet::new();
    for reader in 0..scene.deliveries.len() {
        readers.spawn_local(Rc::clone(scene).read(reader));
    }
    let limit = Instant::now() + PATIENCE;
    let all_ready = async {
        while scene.ready.get() < scene.deliveries.len() && Instant::now() < limit {
            sleep(LOOK_INTERVAL).await;
        }
    };
    session.wait_for(all_ready).await;
    if scene.ready.get() < scene.deliveries.len() && !session.is_interrupted() {
        let tally = scene.tally.borrow();
        tally.all_succeeded("open the readers")?;
        let (ready, all) = (scene.ready.get(), scene.deliveries.len());
        let what = format!("cannot open the readers: after 30 s only {ready} of {all} are live");
        return Err(Failure::new(Exit::Unavailable, what));
    }
    Ok(readers)
}

impl Args {
    /// What a message has besides its mark.
    fn padding(&self) -> Result<usize, Failure> {
        let smallest = MARK_BYTES + AROUND_BYTES;
        let MessageSize(size) = self.size;
        size.checked_sub(smallest).ok_or_else(|| {
            let what = format!("--size {size} is too small: a message tells its number and time");
            let hint = format!("messages have at least {smallest} bytes");
            Failure::new(Exit::Usage, what).hint(hint)
        })
    }

    fn deliveries(&self) -> RefCell<Deliveries> {
        RefCell::new(if self.check { Deliveries::in_pages() } else { Deliveries::default() })
    }

    fn writing(&self, padding: usize, window: Window) -> Writing {
        let interval = Duration::from_secs_f64(1.0 / self.rate);
        Writing { interval, padding, until: window.until }
    }
}

/// What the writer does.
#[derive(Debug, Clone, Copy)]
struct Writing {
    interval: Duration,
    padding: usize,
    until: Instant,
}

/// What the writer has done.
#[derive(Debug)]
struct Written {
    count: Cell<u64>,
    latency: RefCell<Latency>,
}

impl Default for Written {
    fn default() -> Self {
        Self { count: Cell::new(0), latency: RefCell::new(Latency::new()) }
    }
}

impl Written {
    /// Appends a message whenever one is due. Only an acknowledged message has to be delivered, so
    /// the first failure ends it: what became of that message is unknown.
    async fn write(self: Rc<Self>, scene: Rc<Scene>, writing: Writing) {
        if let Err(error) = self.append_all(&scene, writing).await {
            scene.tally.borrow_mut().failed(format_args!("the writer failed: {error}"));
        }
    }

    async fn append_all(&self, scene: &Scene, writing: Writing) -> io::Result<()> {
        let mut connection =
            Connection::open(scene.target.address, super::connection::SMALL_BUFFER).await?;
        let pace = Pace::new()?;
        let mut due = Instant::now();
        let padding = "x".repeat(writing.padding);
        while due < writing.until {
            pace.until(due).await?;
            let mark = Mark { sequence: self.count.get(), due: due - scene.epoch };
            let body = format!("{{\"m\":\"{}{padding}\"}}", mark.text());
            let media_type = Content::Json.media_type();
            let request = scene.target.with_body("POST", &scene.path, media_type, body.as_bytes());
            let witness = scene.witness.as_ref();
            let noted = witness.map(|witness| witness.append(0, mark.sequence));
            let (head, _) = connection.exchange(&request).await?;
            if let Some((witness, noted)) = witness.zip(noted) {
                witness.appended(&noted, &head);
            }
            if !head.is_success() {
                return Err(io::Error::other(format!("the server answered {}", head.status)));
            }
            self.count.set(self.count.get() + 1);
            self.latency.borrow_mut().record(due.elapsed());
            due += writing.interval;
        }
        Ok(())
    }
}

impl Scene {
    /// Follows the stream for ever, also across answers that the server ends.
    async fn read(self: Rc<Self>, reader: usize) {
        let mut was_ready = false;
        loop {
            if let Err(error) = self.follow(reader, &mut was_ready).await {
                self.tally.borrow_mut().failed(error);
            }
            self.deliveries[reader].borrow_mut().break_off();
            self.reconnects.set(self.reconnects.get() + 1);
            sleep_until(Instant::now() + RECONNECT_DELAY).await;
        }
    }

    async fn follow(&self, reader: usize, was_ready: &mut bool) -> io::Result<()> {
        let offset = self.deliveries[reader].borrow().offset().to_owned();
        let path = format!("{}?offset={offset}&live=sse", self.path);
        let mut connection = Connection::open(self.target.address, READER_BUFFER).await?;
        connection.send(&self.target.request("GET", &path)).await?;
        let mut head = connection.head().await?;
        if head.status != 200 {
            return Err(io::Error::other(format!("the server answered {}", head.status)));
        }
        if !std::mem::replace(was_ready, true) {
            self.ready.set(self.ready.get() + 1);
        }
        while let Some(piece) = connection.piece(&mut head.framing).await? {
            let now = Instant::now() - self.epoch;
            let from = self.from.get() - self.epoch;
            let mut deliveries = self.deliveries[reader].borrow_mut();
            deliveries.take(piece, |mark| {
                if mark.due >= from {
                    self.tally.borrow_mut().succeeded(now.saturating_sub(mark.due), 0);
                }
            });
            if let Some(witness) = &self.witness {
                for Page { from, to, messages } in deliveries.pages() {
                    let from = from.and_then(|from| from.parse().ok()).unwrap_or(0);
                    witness.read(0, from, &to, &messages, self.epoch + now);
                }
            }
        }
        Ok(())
    }

    /// Waits until every reader has every message, but not for ever.
    async fn until_all_have(&self, session: &Session, written: u64) {
        let limit = Instant::now() + PATIENCE;
        let has_all = |reader: &RefCell<Deliveries>| reader.borrow().distinct() >= written;
        let all = async {
            while !self.deliveries.iter().all(has_all) && Instant::now() < limit {
                sleep(LOOK_INTERVAL).await;
            }
        };
        session.wait_for(all).await;
    }

    fn tell(&self, report: &mut Report, written: &Written, elapsed: Duration) {
        let total = |count: &dyn Fn(&Deliveries) -> u64| -> u64 {
            self.deliveries.iter().map(|reader| count(&reader.borrow())).sum()
        };
        let delivered = self.tally.borrow().done();
        report.add("written", written.count.get());
        report.add("deliveries", delivered);
        report.number("deliveries_per_s", per_second(delivered as f64, elapsed), 1);
        report.add("lost", total(&|reader| reader.lost(written.count.get())));
        report.add("doubled", total(&Deliveries::doubled));
        report.add("reordered", total(&Deliveries::reordered));
        report.add("reconnects", self.reconnects.get());
        report.latency(&self.tally.borrow().latency);
        report.number("append_p99_ms", written.latency.borrow().quantile_ms(0.99), 3);
    }
}
