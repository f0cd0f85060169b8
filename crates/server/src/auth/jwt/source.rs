//! Where the keys come from, and looking there again: keys are rotated.

use std::fmt;
use std::fs;
use std::io::{self, Read as _};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use jsonwebtoken::jwk::JwkSet;

use super::Jwt;

/// The longest key set, in bytes.
const SET_BYTES_MAX: u64 = 1024 * 1024;
/// How often a watcher looks whether there is something to do.
const LOOK: Duration = Duration::from_secs(1);
/// How often an address is asked.
const REFRESH: Duration = Duration::from_mins(5);
/// How often an address is asked at most: for keys that a token names, and after a failure.
const REFRESH_SOON: Duration = Duration::from_secs(10);
/// How long an address may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Where a key set is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// In a file.
    File(PathBuf),
    /// At an `http` or `https` address.
    Url(String),
}

/// Why there are no keys.
#[derive(Debug)]
pub struct BadKeys {
    source: Source,
    cause: io::Error,
}

impl fmt::Display for BadKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot read the keys of tokens from {}: {}", self.source, self.cause)
    }
}

impl std::error::Error for BadKeys {}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Url(url) => f.write_str(url),
        }
    }
}

impl Source {
    /// An address, or the path of a file.
    pub fn parse(text: &str) -> Self {
        if text.starts_with("https://") || text.starts_with("http://") {
            Self::Url(text.to_owned())
        } else {
            Self::File(text.into())
        }
    }

    /// Reads the set as it is now.
    fn read(&self) -> Result<JwkSet, BadKeys> {
        let bytes = match self {
            Self::File(path) => fs::File::open(path).and_then(limited),
            Self::Url(url) => fetch(url),
        };
        let set = bytes.and_then(|bytes| Ok(serde_json::from_slice(&bytes)?));
        set.map_err(|cause| BadKeys { source: self.clone(), cause })
    }

    /// When a file was changed last.
    fn changed_at(&self) -> Option<SystemTime> {
        match self {
            Self::File(path) => fs::metadata(path).and_then(|file| file.modified()).ok(),
            Self::Url(_) => None,
        }
    }
}

fn fetch(url: &str) -> io::Result<Vec<u8>> {
    let agent = ureq::Agent::config_builder().timeout_global(Some(PATIENCE)).build().new_agent();
    let answer = agent.get(url).call().map_err(ureq::Error::into_io)?;
    limited(answer.into_body().into_reader())
}

fn limited(source: impl io::Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(SET_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > SET_BYTES_MAX {
        return Err(io::Error::other("it has more than 1 MiB"));
    }
    Ok(bytes)
}

/// Keeps the keys current, on a thread that ends with those that use them.
pub(crate) struct Watcher {
    jwt: Weak<Jwt>,
    changed_at: Option<SystemTime>,
    asked: Instant,
    failed: bool,
}

impl Watcher {
    /// Reads the keys for the first time, and watches them from now on. A file has to be there; an
    /// address may answer later.
    pub(crate) fn start(jwt: &Arc<Jwt>) -> Result<(), BadKeys> {
        let source = &jwt.rules.keys;
        let mut watcher = Self {
            jwt: Arc::downgrade(jwt),
            changed_at: source.changed_at(),
            asked: Instant::now(),
            failed: false,
        };
        match source.read() {
            Ok(set) => jwt.take(&set),
            Err(error) if matches!(source, Source::File(_)) => return Err(error),
            Err(error) => {
                tracing::warn!(%error, "no token is believed for now");
                watcher.failed = true;
            }
        }
        let spawned = thread::Builder::new().name("keys".to_owned()).spawn(move || watcher.run());
        spawned.map(drop).map_err(|cause| BadKeys { source: source.clone(), cause })
    }

    fn run(mut self) {
        loop {
            thread::sleep(LOOK);
            let Some(jwt) = self.jwt.upgrade() else { return };
            if self.is_due(&jwt) {
                self.read(&jwt);
            }
        }
    }

    fn is_due(&self, jwt: &Jwt) -> bool {
        let source = &jwt.rules.keys;
        match source {
            Source::File(_) => source.changed_at() != self.changed_at,
            Source::Url(_) => {
                let soon = self.failed || jwt.wants_keys.load(Ordering::Relaxed);
                self.asked.elapsed() >= if soon { REFRESH_SOON } else { REFRESH }
            }
        }
    }

    /// What cannot be read leaves the keys as they are.
    fn read(&mut self, jwt: &Jwt) {
        let source = &jwt.rules.keys;
        self.changed_at = source.changed_at();
        self.asked = Instant::now();
        jwt.wants_keys.store(false, Ordering::Relaxed);
        match source.read() {
            Ok(set) => {
                jwt.take(&set);
                self.failed = false;
            }
            Err(error) => {
                tracing::warn!(%error, "the keys of tokens stay as they were");
                self.failed = true;
            }
        }
    }
}
