//! What can go wrong with bytes, split by what the caller would do about it.

use std::fmt;
use std::io;

/// What the caller would do: the only part of an [`Error`] that code may branch on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The medium failed. After a failed [`crate::Store::commit`] the process stops: only recovery
    /// knows what is durable.
    Io,
    /// No room; nothing was changed. Clears by itself once there is room again.
    Full,
    /// Stored bytes are not what was written. At start: refuse. While reading: this read fails,
    /// everything else is served.
    Corrupt,
    /// Another process holds the data directory.
    Locked,
    /// Written by a newer or unknown format version; left untouched.
    Format,
    /// It would take a wait for the disk, which was not wanted: ask again where that is fine.
    WouldWait,
}

/// Where it went wrong.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Place {
    /// The file, relative to the data directory; empty when no single file is to blame.
    pub path: String,
    /// The byte position inside it, when known.
    pub offset: Option<u64>,
}

/// A failed storage call: its kind, the place, and a sentence for a human.
#[derive(Debug)]
pub struct Error {
    /// What to do about it.
    pub kind: Kind,
    /// Which file and position.
    pub at: Place,
    /// What was expected and what came.
    pub detail: String,
    /// The operating system's reason, if there is one.
    pub source: Option<io::Error>,
}

/// The result of every fallible storage call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Stored bytes at `offset` of `path` are not what was written.
    pub(crate) fn corrupt(path: &str, offset: u64, detail: impl Into<String>) -> Self {
        Self::at(Kind::Corrupt, path, Some(offset), detail)
    }

    /// `path` was written by a version of the format that this program does not know.
    pub fn format(path: &str, detail: impl Into<String>) -> Self {
        Self::at(Kind::Format, path, None, detail)
    }

    /// There is no room for what was asked.
    pub(crate) fn full(detail: impl Into<String>) -> Self {
        Self::at(Kind::Full, "", None, detail)
    }

    /// A read that has to wait for the disk was asked not to.
    pub(crate) fn would_wait() -> Self {
        Self::at(Kind::WouldWait, "", None, "the read would wait for the disk")
    }

    /// A call on a store that has stopped, because it was sealed or because a commit failed.
    pub(crate) fn stopped(reason: &str) -> Self {
        Self::at(Kind::Io, "", None, format!("the log has stopped: {reason}"))
    }

    /// A failed disk call on `path`, made while doing `what`.
    pub fn io(path: &str, what: &str, source: io::Error) -> Self {
        let kind = match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Kind::Full,
            _ => Kind::Io,
        };
        let at = Place { path: path.to_owned(), offset: None };
        Self { kind, at, detail: what.to_owned(), source: Some(source) }
    }

    fn at(kind: Kind, path: &str, offset: Option<u64>, detail: impl Into<String>) -> Self {
        let at = Place { path: path.to_owned(), offset };
        Self { kind, at, detail: detail.into(), source: None }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.at.path.as_str(), self.at.offset) {
            ("", _) => write!(f, "{}", self.detail),
            (path, None) => write!(f, "{path}: {}", self.detail),
            (path, Some(offset)) => write!(f, "{path} at byte {offset}: {}", self.detail),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| source as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_which_byte_of_which_file() {
        let error = Error::corrupt("log/0000000007.log", 4096, "the checksum does not match");
        let text = "log/0000000007.log at byte 4096: the checksum does not match";
        assert_eq!(error.to_string(), text);
    }

    #[test]
    fn a_full_disk_is_full_whoever_noticed() {
        for kind in [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded] {
            assert_eq!(Error::io("x", "writing", kind.into()).kind, Kind::Full);
        }
    }
}
