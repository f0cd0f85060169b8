//! A run: rounds of work, each ended by force, each followed by a restart and an audit.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::audit::audit;
use crate::graves::Graves;
use crate::http::{Client, Request};
use crate::judge::Round;
use crate::lifecycle::{BUCKETS, Lifecycle};
use crate::plain::Plain;
use crate::process::{Launch, Server, copy_dir};
use crate::producer::Producer;
use crate::publisher;
use crate::reader::{Mode, Reader};
use crate::rng::Rng;
use crate::tenant::{TTL_BUCKET, Tenant};
use crate::world::World;

const PRODUCERS: usize = 4;
const PLAIN_WRITERS: usize = 4;
const READERS: [Mode; 6] =
    [Mode::CatchUp, Mode::CatchUp, Mode::LongPoll, Mode::LongPoll, Mode::Sse, Mode::Sse];

/// What a run is made of.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Decides what workers choose and how each round ends.
    pub seed: u64,
    /// How many rounds.
    pub rounds: u32,
    /// How long the work of a round lasts.
    pub round_ms: RangeInclusive<u64>,
    /// The server and its data directory.
    pub launch: Launch,
    /// Whether to go on after a broken promise.
    pub keep_going: bool,
    /// Whether to keep a copy of what each crash left behind.
    pub keep_images: bool,
}

/// How a round ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// kill -9.
    Kill,
    /// SIGSTOP, and kill -9 a little later.
    KillPaused,
    /// SIGTERM.
    Terminate,
}

/// What a round does to the server, drawn from the seed.
#[derive(Debug, Clone)]
struct Plan {
    /// Kills during the recovery before the round, each so long after its start.
    recovery_kills: Vec<Duration>,
    work: Duration,
    /// A pause in the middle of the work.
    pause: Option<Duration>,
    ending: Ending,
}

impl Plan {
    fn draw(settings: &Settings, round: u32) -> Self {
        let mut rng = Rng::of(settings.seed, &[3, round.into()]);
        let kills = if round > 0 && rng.below(10) < 3 { rng.within(1, 3) } else { 0 };
        // Recovery of so little takes some 10 ms: half of the kills are to meet it.
        let delay = |rng: &mut Rng| {
            let longest = if rng.one_in(2) { 20 } else { 200 };
            Duration::from_millis(rng.within(1, longest))
        };
        let recovery_kills = (0..kills).map(|_| delay(&mut rng)).collect();
        let (min, max) = settings.round_ms.clone().into_inner();
        let work = Duration::from_millis(rng.within(min, max.max(min)));
        let pause = rng.one_in(5).then(|| Duration::from_millis(rng.within(20, 200)));
        let ending = match rng.below(20) {
            0..3 => Ending::Terminate,
            3 => Ending::KillPaused,
            _ => Ending::Kill,
        };
        Self { recovery_kills, work, pause, ending }
    }
}

/// Those who outlive the rounds.
struct Workers {
    producers: Vec<Producer>,
    plain: Vec<Plain>,
    readers: Vec<Reader>,
    lifecycle: Lifecycle,
    tenant: Tenant,
    graves: Graves,
}

impl Workers {
    fn new(world: &World) -> Self {
        Self {
            producers: (0..PRODUCERS).map(|_| Producer::default()).collect(),
            plain: (0..PLAIN_WRITERS).map(|_| Plain::new(world)).collect(),
            readers: READERS.into_iter().map(Reader::new).collect(),
            lifecycle: Lifecycle::new(world),
            tenant: Tenant::default(),
            graves: Graves::default(),
        }
    }

    /// Lets everybody work until `supervise` says that the round is over.
    fn work(&mut self, round: &Round<'_>, seed: u64, supervise: impl FnOnce()) {
        let number = round.world.round().into();
        let mut no = 0;
        let mut rng = || {
            no += 1;
            Rng::of(seed, &[4, number, no])
        };
        thread::scope(|scope| {
            for producer in &mut self.producers {
                let rng = rng();
                scope.spawn(move || producer.work(round, rng));
            }
            for plain in &mut self.plain {
                let rng = rng();
                scope.spawn(move || plain.work(round, rng));
            }
            for reader in &mut self.readers {
                let rng = rng();
                scope.spawn(move || reader.work(round, rng));
            }
            let (lifecycle, tenant) = (&mut self.lifecycle, &mut self.tenant);
            let rngs = [rng(), rng(), rng()];
            let [first, second, third] = rngs;
            scope.spawn(move || lifecycle.work(round, first));
            scope.spawn(move || tenant.work(round, second));
            scope.spawn(move || publisher::work(round, third));
            supervise();
        });
    }
}

/// Runs all rounds, or up to the first broken promise, or until `stop` is set: then the round under
/// way is finished and audited. `tell` gets a line for each round.
pub fn run(settings: &Settings, stop: &AtomicBool, mut tell: impl FnMut(&str)) -> World {
    let world = World::new(settings.seed);
    let mut workers = Workers::new(&world);
    for round in 0..=settings.rounds {
        world.round.store(round, Ordering::SeqCst);
        let began = Instant::now();
        let last = round == settings.rounds || stop.load(Ordering::SeqCst);
        let told = turn(settings, &world, &mut workers, round, last);
        if let Err(what) = told {
            world.breach(what);
        }
        world.count("rounds", u64::from(!last));
        tell(&line(&world, round, began.elapsed()));
        if last || !(settings.keep_going || world.breaches().is_empty()) {
            break;
        }
    }
    world.streams().iter().for_each(|stream| world.judge_history(stream));
    world.count("cut tails", settings.launch.cut_tails());
    world
}

fn line(world: &World, round: u32, took: Duration) -> String {
    let counts = world.counts();
    let count = |what: &str| counts.get(what).copied().unwrap_or(0);
    format!(
        "round {round}: {} acked, {} unknown, {} retries, {} messages read, {} audits, {} ms",
        count("acked appends"),
        count("unknown outcomes"),
        count("retries"),
        count("messages read"),
        count("audits"),
        took.as_millis()
    )
}

/// One round. The `last` one only starts, audits and ends.
fn turn(
    settings: &Settings,
    world: &World,
    workers: &mut Workers,
    round: u32,
    last: bool,
) -> Result<(), String> {
    let plan = Plan::draw(settings, round);
    for delay in &plan.recovery_kills {
        settings.launch.start_and_kill(*delay)?;
        world.count("kills during recovery", 1);
    }
    let server = settings.launch.start()?;
    let mut client = Client::new(server.address);
    if round == 0 {
        for bucket in BUCKETS.into_iter().chain([TTL_BUCKET]) {
            let answer = client.call(&Request::new("PUT", format!("/{bucket}")));
            if !answer.as_ref().is_ok_and(|answer| answer.status == 201) {
                return Err(format!("bucket {bucket} cannot be created: {answer:?}"));
            }
        }
    }
    let mut rng = Rng::of(settings.seed, &[5, round.into()]);
    audit(world, &mut client, &mut rng);
    workers.tenant.audit(world, &mut client);
    workers.graves.audit(world, &mut client, &mut rng);
    for producer in &mut workers.producers {
        producer.retry(world, &mut client);
    }
    workers.graves.bury(world, &mut rng);
    if !(settings.keep_going || world.breaches().is_empty()) {
        return Ok(());
    }
    if last {
        return server.terminate();
    }
    let over = AtomicBool::new(false);
    let address = server.address;
    let mut ended = Ok(());
    workers.work(&Round { world, address, over: &over }, settings.seed, || {
        ended = supervise(world, server, &plan);
        over.store(true, Ordering::SeqCst);
    });
    ended?;
    for complaint in settings.launch.complaints().map_err(|error| error.to_string())? {
        world.breach(format!("the server says: {complaint}"));
    }
    if settings.keep_images {
        let image = settings.launch.data_dir.with_extension(format!("round-{round}"));
        copy_dir(&settings.launch.data_dir, &image).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Lets the server work, and ends it as planned.
fn supervise(world: &World, mut server: Server, plan: &Plan) -> Result<(), String> {
    match plan.pause {
        Some(pause) => {
            thread::sleep(plan.work / 2);
            server.pause();
            thread::sleep(pause);
            server.resume();
            world.count("pauses", 1);
            thread::sleep(plan.work / 2);
        }
        None => thread::sleep(plan.work),
    }
    if let Some(status) = server.ended() {
        return Err(format!("the server ended by itself: {status}"));
    }
    match plan.ending {
        Ending::Terminate => {
            world.count("drains", 1);
            return server.terminate();
        }
        Ending::KillPaused => {
            server.pause();
            thread::sleep(Duration::from_millis(50));
        }
        Ending::Kill => {}
    }
    world.count("kills", 1);
    let _status = server.kill().map_err(|error| error.to_string())?;
    Ok(())
}
