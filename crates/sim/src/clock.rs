//! Simulated time: it moves when the world says so.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use headwater_core::ids::Timestamp;
use headwater_server::clock::Clock;

/// Midnight of 2030-01-01 UTC, when every world begins.
pub(crate) const EPOCH_MS: u64 = 1_893_456_000_000;

/// The machine's two clocks. Clones tell the same time; the monotonic clock also survives a
/// restart of the process, as on a real machine that did not reboot.
#[derive(Debug, Clone)]
pub(crate) struct SimClock {
    wall: Arc<AtomicU64>,
    monotonic: Arc<AtomicU64>,
}

impl SimClock {
    /// Clocks at the epoch.
    pub(crate) fn new() -> Self {
        Self {
            wall: Arc::new(AtomicU64::new(EPOCH_MS)),
            monotonic: Arc::new(AtomicU64::new(1_000)),
        }
    }

    /// Lets `ms` pass.
    pub(crate) fn advance(&self, ms: u64) {
        self.wall.fetch_add(ms, Ordering::Relaxed);
        self.monotonic.fetch_add(ms, Ordering::Relaxed);
    }

    /// Sets the wall clock forward or back, as an operator or a time service may.
    pub(crate) fn jump_wall(&self, ms: i64) {
        let now = self.wall.load(Ordering::Relaxed);
        self.wall.store(now.saturating_add_signed(ms).max(EPOCH_MS), Ordering::Relaxed);
    }
}

impl Clock for SimClock {
    fn wall(&self) -> Timestamp {
        Timestamp(self.wall.load(Ordering::Relaxed))
    }

    fn monotonic_ms(&self) -> u64 {
        self.monotonic.load(Ordering::Relaxed)
    }
}
