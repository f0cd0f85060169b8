//! The first key: made in the data directory itself, since nobody can ask the server for it yet.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use headwater_core::access::{LABEL_BYTES_MAX, Scopes};
use headwater_core::command::Command;
use headwater_storage::{Error, Options, OsDisk};

use crate::auth::Token;
use crate::clock::SystemClock;
use crate::engine::{Engine, Fault, Outcome, Seams};
use crate::random;

/// Creates an API key in the data directory at `dir`, which is made if it is missing.
///
/// # Errors
/// `Locked` while a server holds it: ask that server then. `Full`, `Io`, and what opening finds.
pub fn create_key(
    dir: &Path,
    label: &str,
    scopes: &Scopes,
    lives: Option<Duration>,
) -> Result<Token, Error> {
    if label.len() > LABEL_BYTES_MAX {
        return Err(super::refused(dir, "a key's label has at most 100 bytes"));
    }
    let disk = Arc::new(OsDisk::open(dir)?);
    let clock = Box::new(SystemClock::new());
    let seams = Seams { disk, clock, log_id: random::id(), directory_id: random::id() };
    let engine = Engine::open(seams, Options::default()).map_err(|error| error.0)?;
    let now = engine.now();
    let token = loop {
        let token = Token::random();
        let key = token.key(label, scopes, lives, now);
        let submitted = engine.submit(&Command::CreateKey(Box::new(key)));
        let mut pending = submitted.map_err(|fault| cause(dir, fault))?;
        engine.commit()?;
        match pending.poll().map_err(|fault| cause(dir, fault))? {
            Some(Outcome::Accepted(_)) => break token,
            Some(Outcome::Stale) => {}
            Some(Outcome::Refused(refusal)) => {
                return Err(super::refused(dir, &refusal.to_string()));
            }
            None => unreachable!("what was committed is durable"),
        }
    };
    engine.seal()?;
    Ok(token)
}

fn cause(dir: &Path, fault: Fault) -> Error {
    fault.cause.unwrap_or_else(|| super::refused(dir, "the log has stopped"))
}
