//! The clock seam, and node time on top of it.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use headwater_core::ids::Timestamp;
use headwater_core::state::Now;
use parking_lot::Mutex;

/// What tells time. The real one is [`SystemClock`]; a simulator brings its own.
pub trait Clock: Send + Sync {
    /// The wall clock, in milliseconds since the Unix epoch. It may jump.
    fn wall(&self) -> Timestamp;
    /// Milliseconds since some fixed moment of this process. It never goes backwards.
    fn monotonic_ms(&self) -> u64;
}

/// The machine's clocks.
#[derive(Debug)]
pub struct SystemClock {
    start: Instant,
}

impl SystemClock {
    /// Starts counting.
    #[expect(clippy::new_without_default, reason = "reading a clock is not a default")]
    pub fn new() -> Self {
        Self { start: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn wall(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    fn monotonic_ms(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// Node time: the newest time in the log, or the wall clock at the start if that is later, plus
/// the monotonic time since (`extensions.md` §10).
pub(crate) struct NodeClock {
    clock: Box<dyn Clock>,
    base: Mutex<Base>,
}

/// Node time and monotonic time of the same moment.
#[derive(Clone, Copy)]
struct Base {
    node: u64,
    monotonic: u64,
}

impl NodeClock {
    pub(crate) fn new(clock: Box<dyn Clock>) -> Self {
        let base = Base { node: clock.wall().0, monotonic: clock.monotonic_ms() };
        Self { clock, base: Mutex::new(base) }
    }

    /// Makes sure that node time is not before `newest`, which the log has seen.
    pub(crate) fn catch_up(&self, newest: Timestamp) {
        let now = self.now().node.0;
        self.base.lock().node += newest.0.saturating_sub(now);
    }

    pub(crate) fn now(&self) -> Now {
        let base = *self.base.lock();
        let since = self.clock.monotonic_ms().saturating_sub(base.monotonic);
        Now { node: Timestamp(base.node + since), wall: self.clock.wall() }
    }
}
