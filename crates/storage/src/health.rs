//! Whether the log still runs. After a failed commit it never does again: what is on the medium is
//! unknown, and only recovery may find out.

use std::sync::OnceLock;

use crate::error::{Error, Result};

/// Runs until it is stopped, once and for all.
#[derive(Default)]
pub(crate) struct Health {
    reason: OnceLock<String>,
}

impl Health {
    /// # Errors
    /// When the log has stopped.
    pub(crate) fn check(&self) -> Result<()> {
        self.reason.get().map_or(Ok(()), |reason| Err(Error::stopped(reason)))
    }

    /// Stops the log because of `error`, which is handed through.
    pub(crate) fn stop(&self, error: Error) -> Error {
        self.reason.get_or_init(|| error.to_string());
        error
    }

    /// Stops the log on purpose.
    pub(crate) fn close(&self) {
        self.reason.get_or_init(|| "it was sealed".to_owned());
    }
}
