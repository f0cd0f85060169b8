//! `headwater bench`: how fast a server is, measured from outside.
//!
//! One file per work: its arguments, what it does and what it tells. What they share: [`session`]
//! (streams, workers, Ctrl-C), [`tally`] and [`latency`] (what became of requests), [`meter`] (what
//! the server used), [`witness`] (whether what came back can have happened), [`connection`] over
//! [`wire`] (HTTP that costs next to nothing, since client and server often share a machine), and
//! [`report`]. All of it runs on one thread.

#![expect(clippy::cast_precision_loss, reason = "figures for people have three digits")]

mod append;
mod bootstrap;
mod catch_up;
mod connection;
mod create;
mod deliveries;
mod descriptors;
mod fan_out;
mod idle;
mod latency;
mod load;
mod meter;
mod open_loop;
mod pace;
mod pages;
mod progress;
mod replay;
mod report;
mod session;
mod snapshots;
mod tally;
mod target;
mod wire;
mod witness;

use std::ops::RangeInclusive;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::sync::watch;
use tokio::task::LocalSet;

use self::report::Report;
use self::session::Session;
use crate::address::BaseUrl;
use crate::failure::{Exit, Failure, Outcome};
use crate::interrupt;
use crate::screen::{Screen, say};

/// Measure a server: appends, live delivery, reads, snapshots.
///
/// Works against any server that speaks the protocol, except where a work says that it needs an
/// extension of Headwater. Streams are created below --url and deleted at the end. Ctrl-C ends a
/// work early and tells what was measured until then.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    work: Work,
}

#[derive(Debug, clap::Subcommand)]
enum Work {
    Append(append::Args),
    OpenLoop(open_loop::Args),
    FanOut(fan_out::Args),
    CatchUp(catch_up::Args),
    Replay(replay::Args),
    Create(create::Args),
    Bootstrap(bootstrap::Args),
    Idle(idle::Args),
    Snapshots(snapshots::Args),
}

/// What every work takes.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Server")]
pub(crate) struct Common {
    /// Prefix of the URLs of streams: of /v1/stream (added to a URL without a path) or of a bucket.
    #[arg(long, env = "STREAM_URL", value_name = "URL", default_value = "http://127.0.0.1:4437")]
    url: BaseUrl,

    /// Value of the Authorization header, for example "Bearer TOKEN".
    #[arg(long, env = "STREAM_AUTH", value_name = "VALUE", hide_env_values = true)]
    auth: Option<String>,

    /// Process id of the server, if it runs on this machine: also tell what it used.
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,

    /// Leave the streams on the server.
    #[arg(long)]
    keep: bool,

    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// How long to measure.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct Timing {
    /// How long to measure.
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0, value_parser = positive)]
    seconds: f64,

    /// How long to do the same before, without measuring.
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = not_negative)]
    warm_up: f64,
}

const EXAMPLES: &str = "\
Examples:
  headwater bench append
  headwater bench fan-out --readers 1000 --pid $(pidof headwater)
  headwater bench catch-up --url http://127.0.0.1:4437/demo --json";

/// A day; longer runs are a typing error.
const SECONDS_MAX: f64 = 86_400.0;
/// Bounds of rates and lengths: neither they nor their inverses leave what a clock can tell.
const POSITIVE: RangeInclusive<f64> = 0.001..=1e7;

pub(crate) fn run(args: Args, screen: Screen) -> Outcome {
    let failed = |error| Failure::because(Exit::Failed, "cannot start the runtime", &error);
    let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let (interrupt, interrupted) = watch::channel(false);
    interrupt::on_sigint(move || {
        say("interrupted: what was measured until now");
        interrupt.send_replace(true);
    })?;
    let json = args.work.common().json;
    let told = LocalSet::new().block_on(&runtime, args.work.measure(interrupted.clone()));
    let (report, clean_up) = told?;
    screen.record(report.fields(), json)?;
    clean_up?;
    if *interrupted.borrow() { Err(Failure::Interrupted) } else { Ok(()) }
}

impl Work {
    fn common(&self) -> &Common {
        match self {
            Self::Append(args) => &args.common,
            Self::OpenLoop(args) => &args.common,
            Self::FanOut(args) => &args.common,
            Self::CatchUp(args) => &args.common,
            Self::Replay(args) => &args.common,
            Self::Create(args) => &args.common,
            Self::Bootstrap(args) => &args.common,
            Self::Idle(args) => &args.common,
            Self::Snapshots(args) => &args.common,
        }
    }

    /// Does the work and cleans up behind it, also if it failed.
    async fn measure(
        self,
        interrupted: watch::Receiver<bool>,
    ) -> Result<(Report, Outcome), Failure> {
        let session = Session::open(self.common().clone(), interrupted).await?;
        let report = match self {
            Self::Append(args) => append::run(args, &session).await,
            Self::OpenLoop(args) => open_loop::run(args, &session).await,
            Self::FanOut(args) => fan_out::run(args, &session).await,
            Self::CatchUp(args) => catch_up::run(args, &session).await,
            Self::Replay(args) => replay::run(args, &session).await,
            Self::Create(args) => create::run(args, &session).await,
            Self::Bootstrap(args) => bootstrap::run(args, &session).await,
            Self::Idle(args) => idle::run(args, &session).await,
            Self::Snapshots(args) => snapshots::run(args, &session).await,
        };
        let clean_up = session.clean_up().await;
        Ok((report?, clean_up))
    }
}

impl Timing {
    fn warm_up(self) -> Duration {
        seconds(self.warm_up)
    }

    fn length(self) -> Duration {
        seconds(self.seconds)
    }
}

/// A server without an extension says so in one of three ways.
fn refuse_unsupported(status: u16, extension: &str) -> Outcome {
    match status {
        200..300 => Ok(()),
        404 | 405 | 501 => {
            let what = format!("the server has no {extension}: it answered {status}");
            let hint = "this work needs an extension of Headwater; measure a Headwater server, or \
                        choose another work";
            Err(Failure::new(Exit::Failed, what).hint(hint.to_owned()))
        }
        _ => Err(Failure::new(Exit::Failed, format!("{extension}: the server answered {status}"))),
    }
}

/// A checked number of seconds.
fn seconds(number: f64) -> Duration {
    Duration::from_secs_f64(number.clamp(0.0, SECONDS_MAX))
}

/// A rate or a length on the command line.
fn positive(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(number) if POSITIVE.contains(&number) => Ok(number),
        _ => Err("expected a number from 0.001 to 10000000, like 10 or 0.5".to_owned()),
    }
}

fn not_negative(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(number) if (0.0..=SECONDS_MAX).contains(&number) => Ok(number),
        _ => Err("expected a number from 0 on, like 1 or 0.5".to_owned()),
    }
}
