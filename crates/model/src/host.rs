//! The server under test, in this process, on loopback, with a clock that the test moves.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use headwater_core::ids::Timestamp;
use headwater_server::Server;
use headwater_server::clock::Clock;
use headwater_server::config::Config;

use crate::model::{EPOCH_MS, PAGE_BYTES};

/// How long a long-poll waits, in real time: all of them wait in vain.
const LONG_POLL: Duration = Duration::from_millis(10);

/// How long an SSE response lives, in real time, if it never says that it has caught up.
const SSE_MAX: Duration = Duration::from_secs(2);

/// The test's time.
#[derive(Debug, Clone)]
struct TestClock(Arc<AtomicU64>);

impl Clock for TestClock {
    fn wall(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }

    fn monotonic_ms(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// A server that ends, with its directory, when it is dropped.
pub struct Host {
    server: Option<Server>,
    clock: TestClock,
    config: Config,
    /// How many names [`Host::tag`] has given.
    tags: u32,
}

impl Host {
    /// Starts a server on an empty directory.
    pub fn start() -> Self {
        static DIRECTORIES: AtomicU32 = AtomicU32::new(0);
        let number = DIRECTORIES.fetch_add(1, Ordering::Relaxed);
        let name = format!("headwater-model-{}-{number}", std::process::id());
        let config = Config {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            data_dir: directory().join(name),
            long_poll_timeout: LONG_POLL,
            sse_max_duration: SSE_MAX,
            drain_timeout: Duration::from_millis(5),
            header_timeout: Duration::from_mins(5),
            read_page_bytes: PAGE_BYTES,
            log_file_bytes: 4 * 1024 * 1024,
            replay_bytes_max: 2 * 1024 * 1024,
            disk_reserve: Some(0),
            ..Config::default()
        };
        let clock = TestClock(Arc::new(AtomicU64::new(EPOCH_MS)));
        let server = serve(&config, &clock);
        Self { server: Some(server), clock, config, tags: 0 }
    }

    /// Ends the server and starts another one on what it stored.
    pub fn restart(&mut self) {
        self.stop();
        self.server = Some(serve(&self.config, &self.clock));
    }

    fn stop(&mut self) {
        if let Some(server) = self.server.take() {
            server.stop().expect("the server can seal its log");
        }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.server.as_ref().expect("it runs while it is not restarted").address()
    }

    /// Its time, in milliseconds.
    pub fn now(&self) -> u64 {
        self.clock.wall().0
    }

    /// Lets time pass.
    pub fn pass(&self, ms: u64) {
        self.clock.0.fetch_add(ms, Ordering::SeqCst);
    }

    /// A beginning of names that nobody else has on this server.
    pub fn tag(&mut self) -> String {
        self.tags += 1;
        format!("r{}", self.tags)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.stop();
        // What is left of a failed run is in the way of nobody.
        let _left_over = std::fs::remove_dir_all(&self.config.data_dir).is_err();
    }
}

fn serve(config: &Config, clock: &TestClock) -> Server {
    Server::start_at(config.clone(), Box::new(clock.clone())).expect("a server starts")
}

/// In memory where the system offers that, since nothing here is about the disk.
fn directory() -> PathBuf {
    let memory = PathBuf::from("/dev/shm");
    if memory.is_dir() { memory } else { std::env::temp_dir() }
}
