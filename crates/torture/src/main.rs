//! The command line: `headwater-torture --binary target/release/headwater --rounds 40 --seed 1`.

use std::io::{self, Write};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use headwater_torture::process::Launch;
use headwater_torture::run::{Settings, run};

/// Kill -9 a Headwater server under load again and again, and check after each restart that it has
/// kept every promise: nothing acknowledged is lost or altered, nothing is doubled, nothing that a
/// reader saw is rolled back, closed and deleted stay so.
#[derive(Debug, Parser)]
struct Args {
    /// The server's binary.
    #[arg(long)]
    binary: PathBuf,
    /// How many times to kill it.
    #[arg(long, default_value_t = 40)]
    rounds: u32,
    /// Decides what the workers do and when the server is killed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where the server's data go; removed after a run without a violation [default: in the
    /// system's directory for temporary files].
    #[arg(long)]
    dir: Option<PathBuf>,
    /// How long the work of a round lasts, as MIN..MAX milliseconds.
    #[arg(long, default_value = "300..1500", value_parser = milliseconds)]
    round_ms: RangeInclusive<u64>,
    /// The server's --log-file-size: small, so that logs roll all the time.
    #[arg(long, default_value = "256KiB")]
    log_file_size: String,
    /// The server's --replay-max: small, so that checkpoints and reclaim happen all the time.
    #[arg(long, default_value = "1MiB")]
    replay_max: String,
    /// The server's --read-page-size.
    #[arg(long, default_value = "64KiB")]
    read_page_size: String,
    /// Go on after a violation, which may well lead to others.
    #[arg(long)]
    keep_going: bool,
    /// Keep a copy of what each crash left behind, beside the data directory.
    #[arg(long)]
    keep_images: bool,
}

/// After the first violation the others are often its consequences.
const TOLD_MAX: usize = 100;

fn milliseconds(text: &str) -> Result<RangeInclusive<u64>, String> {
    let (min, max) = text.split_once("..").unwrap_or((text, text));
    let read = |text: &str| text.parse::<u64>().map_err(|error| format!("{text}: {error}"));
    Ok(read(min)?..=read(max)?)
}

fn main() -> ExitCode {
    match torture(Args::parse(), &mut io::stdout()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            // Nobody may be reading; the exit code says it as well.
            writeln!(io::stderr(), "error: {error}").ok();
            ExitCode::from(2)
        }
    }
}

/// True if every promise was kept.
fn torture(args: Args, out: &mut impl Write) -> io::Result<bool> {
    let own = format!("headwater-torture-{}-{}", args.seed, std::process::id());
    let dir = args.dir.unwrap_or_else(|| std::env::temp_dir().join(own));
    let data_dir = dir.join("data");
    if data_dir.exists() {
        let what = format!("{} is there already", data_dir.display());
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, what));
    }
    std::fs::create_dir_all(&dir)?;
    let flags = [
        ("--log-file-size", args.log_file_size.as_str()),
        ("--replay-max", &args.replay_max),
        ("--read-page-size", &args.read_page_size),
        ("--long-poll-timeout", "300ms"),
        ("--sse-max-duration", "2s"),
        ("--drain-timeout", "2s"),
        ("--disk-reserve", "1MiB"),
    ];
    let settings = Settings {
        seed: args.seed,
        rounds: args.rounds,
        round_ms: args.round_ms,
        launch: Launch {
            binary: args.binary,
            log: dir.join("server.log"),
            data_dir,
            flags: flags.iter().flat_map(|(flag, value)| [*flag, value]).map(Into::into).collect(),
        },
        keep_going: args.keep_going,
        keep_images: args.keep_images,
    };
    writeln!(out, "seed {}, data in {}", args.seed, dir.display())?;
    let mut told = Ok(());
    let world = run(&settings, |line| {
        told = writeln!(out, "{line}").and_then(|()| out.flush());
    });
    told?;
    for (what, count) in world.counts() {
        writeln!(out, "{count:10}  {what}")?;
    }
    let breaches = world.breaches();
    for breach in breaches.iter().take(TOLD_MAX) {
        writeln!(out, "VIOLATION, seed {}, {breach}", args.seed)?;
    }
    writeln!(out, "{} violations", breaches.len())?;
    if breaches.is_empty() {
        std::fs::remove_dir_all(&dir)?;
    } else {
        writeln!(out, "kept: {}", dir.display())?;
    }
    Ok(breaches.is_empty())
}
