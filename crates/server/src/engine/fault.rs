//! Something broke, as opposed to a protocol rule that says no.

use std::fmt;

use headwater_storage::{Error, Kind};

/// The only thing that a writer must know of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Nothing changed; the request can be sent again.
    NotApplied,
    /// It may or may not have happened; an idempotent producer may send it again.
    Unknown,
}

/// A failure of this server.
#[derive(Debug)]
pub struct Fault {
    /// What the failure means for the request.
    pub effect: Effect,
    /// What broke; `None` when the log has stopped and its owner reports the cause.
    pub cause: Option<Error>,
}

impl Fault {
    /// Whether there was no room on the disk.
    pub fn is_full(&self) -> bool {
        self.cause.as_ref().is_some_and(|cause| cause.kind == Kind::Full)
    }

    /// Whether stored bytes are damaged.
    pub fn is_damage(&self) -> bool {
        self.cause.as_ref().is_some_and(|cause| cause.kind == Kind::Corrupt)
    }

    /// The log has stopped: what was queued may or may not be on disk.
    pub(crate) fn stopped() -> Self {
        Self { effect: Effect::Unknown, cause: None }
    }
}

impl From<Error> for Fault {
    fn from(cause: Error) -> Self {
        Self { effect: Effect::NotApplied, cause: Some(cause) }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cause {
            Some(cause) => cause.fmt(f),
            None => f.write_str("the log has stopped"),
        }
    }
}

impl std::error::Error for Fault {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause.as_ref().map(|cause| cause as _)
    }
}
