//! How long a stream lives, as its state knows it (`extensions.md` §10).

use super::{Now, Soft};
use crate::ids::Timestamp;
use crate::moment::{ExpiresAt, Ttl};

/// When a stream expires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Life {
    /// Never.
    Endless,
    /// A sliding window.
    Ttl {
        /// The window as configured.
        window: Ttl,
        /// The newest recorded renewal.
        renewed_at: Timestamp,
        /// Whether a fork took the window over from its source without asking for it.
        inherited: bool,
        /// Soft: what lengthens the window without a log entry.
        grace: Soft<Grace>,
    },
    /// A fixed instant that nothing moves.
    Until {
        /// As configured, in wall clock time.
        at: ExpiresAt,
        /// Whether a fork took it over from its source without asking for it.
        inherited: bool,
    },
}

/// What lengthens a TTL window without having been recorded.
#[derive(Debug, Clone, Copy, Default)]
pub struct Grace {
    /// The newest renewal by a read, or by recovery.
    pub renewed_at: Timestamp,
    /// Live readers now connected: while there are any, the window does not run.
    pub readers: u32,
}

/// An instant on one of the two clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deadline {
    /// In node time.
    Node(Timestamp),
    /// In wall clock time.
    Wall(Timestamp),
}

impl Life {
    /// A sliding window that begins at `from`.
    pub(crate) fn ttl(window: Ttl, from: Timestamp, inherited: bool) -> Self {
        Self::Ttl { window, renewed_at: from, inherited, grace: Soft::default() }
    }

    /// What a fork has when it asks for nothing: the same window, begun anew, or the same instant.
    pub(crate) fn inherited(&self, now: Timestamp) -> Self {
        match self {
            Self::Endless => Self::Endless,
            Self::Ttl { window, .. } => Self::ttl(*window, now, true),
            Self::Until { at, .. } => Self::Until { at: at.clone(), inherited: true },
        }
    }

    /// The sliding window in milliseconds, if there is one.
    pub fn window_ms(&self) -> Option<u64> {
        match self {
            Self::Ttl { window, .. } => Some(window.millis()),
            Self::Endless | Self::Until { .. } => None,
        }
    }

    /// A recorded renewal.
    pub(crate) fn renew(&mut self, at: Timestamp) {
        if let Self::Ttl { renewed_at, .. } = self {
            *renewed_at = (*renewed_at).max(at);
        }
    }

    /// The instant from which on the stream is expired; `None` while it cannot expire.
    pub(super) fn deadline(&self) -> Option<Deadline> {
        match self {
            Self::Endless => None,
            Self::Ttl { grace, .. } if grace.0.readers > 0 => None,
            Self::Ttl { window, renewed_at, grace, .. } => {
                let from = (*renewed_at).max(grace.0.renewed_at).0;
                // Both ends of a window are cut to whole milliseconds, so that one more makes
                // sure that it is never short.
                let whole = window.millis().saturating_add(1);
                Some(Deadline::Node(Timestamp(from.saturating_add(whole))))
            }
            Self::Until { at, .. } => Some(Deadline::Wall(at.at())),
        }
    }
}

impl Deadline {
    /// Milliseconds until then; 0 when it has passed.
    pub fn in_ms(self, now: Now) -> u64 {
        match self {
            Self::Node(at) => at.0.saturating_sub(now.node.0),
            Self::Wall(at) => at.0.saturating_sub(now.wall.0),
        }
    }
}
