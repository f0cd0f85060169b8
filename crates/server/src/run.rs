//! One server from start to end: open the data directory, listen, serve, drain, seal.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use headwater_core::command::Command;
use headwater_core::ids::BucketId;
use headwater_storage::{Error, Kind, Options, OsDisk, Recovery};
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{oneshot, watch};

use crate::certificates::{Asked, BadCertificate, Certificates};
use crate::clock::{Clock, SystemClock};
use crate::config::Config;
use crate::engine::{Engine, Fault, OnFailure, OpenError, Outcome, Seams, Threads};
use crate::http::App;
use crate::metrics::Metrics;
use crate::metrics::disk::Watched;
use crate::net::{self, Acceptor, Workers};
use crate::random;

/// The process cannot go on, and recovery at the next start is the only way back.
const EXIT_STOPPED: u8 = 6;

/// Why a server did not start, or ended other than by a drain.
#[derive(Debug)]
pub enum RunError {
    /// The data directory cannot be opened.
    Open(OpenError),
    /// The address cannot be listened on.
    Listen(SocketAddr, io::Error),
    /// A setting does not make sense.
    Config(String),
    /// A file that TLS needs is of no use.
    Certificate(BadCertificate),
    /// The operating system refused a thread or a signal handler.
    System(io::Error),
    /// The bucket to begin with could not be created.
    Bucket(Fault),
    /// The log could not be sealed.
    Seal(Error),
}

impl RunError {
    /// The exit code of a process that ends because of this.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Open(OpenError(error)) => match error.kind {
                Kind::Corrupt => 7,
                Kind::Format | Kind::Locked => 2,
                _ => 1,
            },
            Self::Config(_) | Self::Certificate(_) => 2,
            Self::Seal(_) => EXIT_STOPPED,
            Self::Listen(..) | Self::System(_) | Self::Bucket(_) => 1,
        }
    }
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open(error) => error.fmt(f),
            Self::Listen(address, _) => write!(f, "cannot listen on {address}"),
            Self::Config(what) => f.write_str(what),
            Self::Certificate(bad) => bad.fmt(f),
            Self::System(_) => f.write_str("the operating system refused what a server needs"),
            Self::Bucket(_) => f.write_str("cannot create the first bucket"),
            Self::Seal(_) => f.write_str("cannot seal the log"),
        }
    }
}

impl std::error::Error for RunError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Open(error) => error.source(),
            Self::Listen(_, error) | Self::System(error) => Some(error),
            Self::Bucket(fault) => Some(fault),
            Self::Seal(error) => Some(error),
            Self::Config(_) | Self::Certificate(_) => None,
        }
    }
}

/// Runs a server until SIGTERM or SIGINT has drained it. `ready` is called once it listens. A
/// second signal ends the process at once, and so does a failed write or sync of the log.
pub fn run(config: Config, ready: impl FnOnce(SocketAddr)) -> Result<(), RunError> {
    let clock = Box::new(SystemClock::new());
    run_until(config, clock, ready, || Signals::new().map(Stops::Signals))
}

/// As [`run`], until `stops` says so; they are made inside the runtime.
pub(crate) fn run_until(
    config: Config,
    clock: Box<dyn Clock>,
    ready: impl FnOnce(SocketAddr),
    stops: impl FnOnce() -> io::Result<Stops>,
) -> Result<(), RunError> {
    let bucket = match &config.bucket {
        Some(id) => Some(BucketId::parse(id).map_err(|bad| RunError::Config(bad.rule.into()))?),
        None => None,
    };
    if config.auth.is_none() && !config.insecure && !config.listen.ip().is_loopback() {
        return Err(RunError::Config(format!(
            "{} can be reached from elsewhere, and everybody could do everything: ask for \
             credentials with --auth, or allow it with --insecure",
            config.listen
        )));
    }
    let certificates = config.tls.clone().map(Certificates::load).transpose();
    let certificates = certificates.map_err(RunError::Certificate)?;
    let metrics = Arc::<Metrics>::default();
    let engine = open(&config, clock, &metrics)?;
    let commits = Arc::clone(&metrics.commits);
    let threads = Threads::start(&engine, commits, stop_the_process()).map_err(RunError::System)?;
    // This thread accepts connections and waits for signals; the workers do the rest.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(RunError::System)?;
    let served = runtime.block_on(async {
        let stops = stops().map_err(RunError::System)?;
        serve(&engine, config, certificates, metrics, bucket, ready, stops).await
    });
    threads.stop().map_err(RunError::Seal)?;
    served
}

fn open(
    config: &Config,
    clock: Box<dyn Clock>,
    metrics: &Metrics,
) -> Result<Arc<Engine>, RunError> {
    let began = Instant::now();
    let disk = if config.must_exist {
        OsDisk::open_existing(&config.data_dir)
    } else {
        OsDisk::open(&config.data_dir)
    };
    let disk = disk.map_err(|error| RunError::Open(OpenError(error)))?;
    let disk = Arc::new(Watched::new(disk, Arc::clone(&metrics.written)));
    let seams = Seams { disk, clock, log_id: random::id(), directory_id: random::id() };
    let options = Options {
        log_file_bytes: config.log_file_bytes,
        disk_reserve: config.disk_reserve,
        replay_bytes_max: config.replay_bytes_max,
        ..Options::default()
    };
    let engine = Engine::open(seams, options).map_err(RunError::Open)?;
    metrics.recovered(began.elapsed());
    report(engine.recovered());
    engine.impose(config.limits.quotas);
    Ok(engine)
}

/// What an operator should know of a start: nothing after a clean stop.
fn report(recovery: &Recovery) {
    let Recovery { clean, cut_bytes, cut_files, files, groups } = recovery;
    if !clean {
        tracing::warn!(files, groups, "the last run did not stop cleanly; its log was read again");
    }
    if *cut_bytes > 0 {
        tracing::warn!(cut_bytes, ?cut_files, "a torn end of the log was cut; no ack covered it");
    }
}

async fn serve(
    engine: &Arc<Engine>,
    config: Config,
    certificates: Option<Certificates>,
    metrics: Arc<Metrics>,
    bucket: Option<BucketId>,
    ready: impl FnOnce(SocketAddr),
    mut stops: Stops,
) -> Result<(), RunError> {
    if let Some(bucket) = bucket {
        create(engine, bucket).await.map_err(RunError::Bucket)?;
    }
    let address = config.listen;
    let refused = |error| RunError::Listen(address, error);
    let listener = TcpListener::bind(address).await.map_err(refused)?;
    let address = listener.local_addr().map_err(refused)?;
    let (drain, draining) = watch::channel(false);
    let config = Config { listen: address, ..config };
    let app = App::new(Arc::clone(engine), config, metrics, draining.clone());
    let app = app.map_err(|bad_keys| RunError::Config(bad_keys.to_string()))?;
    let mut acceptor = Acceptor::new(listener, app.shares.connections);
    let tls = certificates.as_ref().map(Certificates::current);
    let mut workers =
        Workers::start(&app, net::count(), tls.as_ref(), &draining).map_err(RunError::System)?;
    let asked = stops.asked_to_read_again(tls.is_some()).map_err(RunError::System)?;
    tracing::info!(%address, "listening");
    ready(address);
    let accepting = async {
        loop {
            workers.serve(acceptor.accept().await);
        }
    };
    tokio::select! {
        () = stops.next() => {}
        () = accepting => {}
        () = follow(certificates, asked) => {}
    }
    tracing::info!("draining");
    drain.send_replace(true);
    drop(acceptor);
    tokio::select! {
        () = workers.drained() => {}
        () = stops.next() => tracing::warn!("told to stop twice: ending at once"),
    }
    // Requests that are still waiting are cut here: nothing may touch the log after its seal.
    workers.stop();
    Ok(())
}

/// Keeps the certificates as new as their files are. Never ends.
async fn follow(certificates: Option<Certificates>, asked: Asked) {
    if let Some(certificates) = certificates {
        certificates.follow(asked).await;
    }
    std::future::pending::<()>().await;
}

async fn create(engine: &Engine, bucket: BucketId) -> Result<(), Fault> {
    // That it exists already is as good.
    let _outcome: Outcome = engine.submit(&Command::CreateBucket(bucket))?.wait().await?;
    Ok(())
}

/// What tells a server to drain and, told again, to end at once.
pub(crate) enum Stops {
    /// The operating system.
    Signals(Signals),
    /// The program that the server runs in; nothing is left here once it has asked.
    Asked(Option<oneshot::Receiver<()>>),
}

impl Stops {
    /// What tells a server that has certificates to read them again. A process without any is
    /// still ended by SIGHUP, as every process is that says nothing of it.
    fn asked_to_read_again(&self, has_certificates: bool) -> io::Result<Asked> {
        match self {
            Self::Signals(_) if has_certificates => Asked::by_signal(),
            Self::Signals(_) | Self::Asked(_) => Ok(Asked::never()),
        }
    }

    async fn next(&mut self) {
        match self {
            Self::Signals(signals) => signals.next().await,
            Self::Asked(asked) => match asked.take() {
                // Whoever dropped the other end will not ask any more, and so has asked.
                Some(asked) => drop(asked.await),
                None => std::future::pending().await,
            },
        }
    }
}

/// SIGTERM and SIGINT.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        let (terminate, interrupt) = (SignalKind::terminate(), SignalKind::interrupt());
        Ok(Self { terminate: signal(terminate)?, interrupt: signal(interrupt)? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// What is applied cannot be undone, and the kernel may have dropped what a failed sync was to
/// keep: only a new process that reads the log again knows the truth.
#[expect(clippy::exit, reason = "a failed log must take the process with it")]
fn stop_the_process() -> OnFailure {
    Arc::new(|error| {
        tracing::error!(%error, "the log has failed; the process stops");
        std::process::exit(i32::from(EXIT_STOPPED));
    })
}
