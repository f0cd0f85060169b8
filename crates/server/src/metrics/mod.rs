//! What the server counts about itself, and what a scrape makes of it.
//!
//! ```text
//! worker ─► its own sheet ─┐
//! lane ───► commits ───────┼─► families: summed up and named ─► text
//! disk ───► written ───────┘
//! ```
//! Counting costs a request a few loads and stores, and two looks at the clock. Everything that
//! takes locks, memory or the disk waits for a scrape.

pub(crate) mod count;
pub(crate) mod disk;
mod families;
mod family;
mod sheet;
mod system;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use self::count::{Count, Durations, Sizes};
use self::disk::Written;
pub(crate) use self::families::gather;
pub(crate) use self::family::{MEDIA_TYPE, write};
pub(crate) use self::sheet::{LiveKind, Open, Pace, Sheet};

/// The counts of one server.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    sheets: Mutex<Vec<Arc<Sheet>>>,
    pub(crate) commits: Arc<Commits>,
    pub(crate) written: Arc<Written>,
    /// How long the start took until all data were there.
    recovery: Mutex<Duration>,
}

/// What the lane counts: one thread.
#[derive(Debug, Default)]
pub(crate) struct Commits {
    took: Durations,
    groups: Sizes,
    bytes: Count,
}

impl Commits {
    /// A frame is durable and published.
    pub(crate) fn note(&self, took: Duration, groups: u64, bytes: u64) {
        self.took.took(took);
        self.groups.note(groups);
        self.bytes.add(bytes);
    }
}

impl Metrics {
    /// A sheet for one more worker.
    pub(crate) fn sheet(&self) -> Arc<Sheet> {
        let sheet = Arc::<Sheet>::default();
        self.sheets.lock().push(Arc::clone(&sheet));
        sheet
    }

    /// Notes how long recovery took.
    pub(crate) fn recovered(&self, took: Duration) {
        *self.recovery.lock() = took;
    }
}
