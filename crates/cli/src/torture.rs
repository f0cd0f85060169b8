//! `headwater torture`: kill -9 this very binary as a server, again and again, and check that it
//! has kept every promise.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use headwater_torture::process::Launch;
use headwater_torture::run::{Settings, run as run_rounds};
use headwater_torture::world::World;
use serde_json::Value;

use crate::failure::{Exit, Failure, Outcome};
use crate::interrupt;
use crate::screen::{Field, Screen, json_line, say};

/// Kill -9 a server under load again and again, and check all that it has promised.
///
/// Starts this binary as a server on loopback, on a data directory of its own. Writers, readers,
/// forks, closes, deletions, snapshots and retention work on it until it is killed, in the middle
/// of its recovery as well, or stopped for a while. After each restart nothing that was
/// acknowledged may be lost, altered or doubled, nothing that a reader saw rolled back, and what
/// was closed, deleted or discarded stays so.
///
/// Exit code 0: every promise was kept. 1: one was broken, and the data are left for a look. 2: the
/// run could not begin. 130: it was interrupted, and what it had done was checked as well.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Where the run's data and the server's log go; removed after a run without a violation. Must
    /// not hold a run already [default: a new one in the directory for temporary files].
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,

    /// How many rounds of work; most of them end in a kill.
    #[arg(long, value_name = "N", default_value_t = 60)]
    rounds: u32,

    /// Decides what the clients do and when the server is killed; the timing varies [default: drawn
    /// from the clock].
    #[arg(long, value_name = "S")]
    seed: Option<u64>,

    /// How long the work of a round lasts, in milliseconds.
    #[arg(long, value_name = "A..B", default_value = "200..900", value_parser = milliseconds)]
    round_ms: RangeInclusive<u64>,

    /// The server's --log-file-size: small, so that logs roll all the time.
    #[arg(long, value_name = "SIZE", default_value = "256KiB")]
    log_file_size: String,

    /// The server's --replay-max: small, so that checkpoints happen all the time.
    #[arg(long, value_name = "SIZE", default_value = "1MiB")]
    replay_max: String,

    /// The server's --read-page-size: small, so that reads take several pages.
    #[arg(long, value_name = "SIZE", default_value = "64KiB")]
    read_page_size: String,

    /// Go on after a violation, which may well lead to others.
    #[arg(long)]
    keep_going: bool,

    /// Keep a copy of what each round left behind, beside the data directory.
    #[arg(long)]
    keep_images: bool,

    /// Also write the report to this file, as one JSON object.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,

    /// Print the report as one JSON object.
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  headwater torture
  headwater torture --rounds 1000 --seed 7 --report torture.json
  headwater torture --dir /mnt/disk-to-trust/torture --round-ms 50..2000";

/// After the first violation the others are often its consequences.
const TOLD_MAX: usize = 100;

pub(crate) fn run(args: &Args, screen: Screen) -> Outcome {
    let began = Instant::now();
    let seed = args.seed.unwrap_or_else(drawn);
    let own = format!("headwater-torture-{seed}-{}", std::process::id());
    let dir = args.dir.clone().unwrap_or_else(|| std::env::temp_dir().join(own));
    let settings = settings(args, seed, &dir)?;
    say(format_args!("seed {seed}, data in {}", dir.display()));
    let stop = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&stop);
    interrupt::on_sigint(move || {
        say("interrupted: this round is the last");
        told.store(true, Ordering::SeqCst);
    })?;
    let world = run_rounds(&settings, &stop, |line| say(line));
    let breaches = world.breaches();
    for breach in breaches.iter().take(TOLD_MAX) {
        say(format_args!("VIOLATION, seed {seed}, {breach}"));
    }
    let seconds = began.elapsed().as_secs();
    let fields = report(&world, seed, seconds);
    if let Some(path) = &args.report {
        std::fs::write(path, json_line(&fields)).map_err(|error| {
            Failure::because(Exit::Failed, format!("cannot write {}", path.display()), &error)
        })?;
    }
    screen.record(&fields, args.json)?;
    if !breaches.is_empty() {
        let what = format!("{} violations, seed {seed}", breaches.len());
        return Err(Failure::new(Exit::Failed, what)
            .hint(format!("the data and the server's log are in {}", dir.display())));
    }
    std::fs::remove_dir_all(&dir).map_err(|error| {
        Failure::because(Exit::Failed, format!("cannot remove {}", dir.display()), &error)
    })?;
    if stop.load(Ordering::SeqCst) { Err(Failure::Interrupted) } else { Ok(()) }
}

fn settings(args: &Args, seed: u64, dir: &Path) -> Result<Settings, Failure> {
    let data_dir = dir.join("data");
    if data_dir.exists() {
        let what = format!("{} is there already", data_dir.display());
        return Err(Failure::new(Exit::Usage, what)
            .hint("--dir names another directory, or remove this one".to_owned()));
    }
    std::fs::create_dir_all(dir).map_err(|error| {
        Failure::because(Exit::Usage, format!("cannot create {}", dir.display()), &error)
    })?;
    let binary = std::env::current_exe().map_err(|error| {
        Failure::because(Exit::Usage, "cannot tell which binary this is", &error)
    })?;
    let flags = [
        ("--log-file-size", args.log_file_size.as_str()),
        ("--replay-max", &args.replay_max),
        ("--read-page-size", &args.read_page_size),
        ("--long-poll-timeout", "300ms"),
        ("--sse-max-duration", "2s"),
        ("--drain-timeout", "2s"),
        ("--disk-reserve", "1MiB"),
    ];
    Ok(Settings {
        seed,
        rounds: args.rounds,
        round_ms: args.round_ms.clone(),
        launch: Launch {
            binary,
            log: dir.join("server.log"),
            data_dir,
            flags: flags.iter().flat_map(|(flag, value)| [*flag, value]).map(Into::into).collect(),
        },
        keep_going: args.keep_going,
        keep_images: args.keep_images,
    })
}

/// The figures of a run. Their names do not change.
fn report(world: &World, seed: u64, seconds: u64) -> Vec<Field> {
    let counts = world.counts();
    let count = |what: &str| Value::from(counts.get(what).copied().unwrap_or(0));
    let breaches = world.breaches();
    let told: Vec<Value> = breaches.iter().take(TOLD_MAX).cloned().map(Value::from).collect();
    vec![
        ("version", env!("CARGO_PKG_VERSION").into()),
        ("seed", seed.into()),
        ("rounds", count("rounds")),
        ("kills", count("kills")),
        ("kills_in_recovery", count("kills during recovery")),
        ("pauses", count("pauses")),
        ("drains", count("drains")),
        ("ops", count("operations")),
        ("acked", count("acked appends")),
        ("unknown", count("unknown outcomes")),
        ("retries", count("retries")),
        ("hang_ups", count("hang-ups")),
        ("messages_read", count("messages read")),
        ("audits", count("audits")),
        ("cut_tails", count("cut tails")),
        ("seconds", seconds.into()),
        ("violations", breaches.len().into()),
        ("told", told.into()),
    ]
}

/// A seed that differs from run to run.
fn drawn() -> u64 {
    let now = jiff::Timestamp::now().as_millisecond();
    now.unsigned_abs() % 1_000_000
}

fn milliseconds(text: &str) -> Result<RangeInclusive<u64>, String> {
    let (min, max) = text.split_once("..").unwrap_or((text, text));
    let read = |text: &str| text.parse::<u64>().map_err(|error| format!("{text}: {error}"));
    let (min, max) = (read(min)?, read(max)?);
    if min > max { Err(format!("{min} is more than {max}")) } else { Ok(min..=max) }
}
