//! Sequences of requests, each answered as the model says.

use std::sync::{Mutex, PoisonError};

use headwater_model::drive::follow;
use headwater_model::host::Host;

use crate::panics;

/// A server is given up for a new one after this many sequences, so that its directory stays small.
const SEQUENCES_PER_HOST: u32 = 2000;

/// The bytes are the choices of the model's generator; see [`follow`].
pub(crate) fn run(data: &[u8]) {
    static HOST: Mutex<Option<(Host, u32)>> = Mutex::new(None);
    panics::watch();
    let mut held = HOST.lock().unwrap_or_else(PoisonError::into_inner);
    let (mut host, used) = match held.take() {
        Some((host, used)) if used < SEQUENCES_PER_HOST => (host, used),
        _ => (Host::start(), 0),
    };
    // A server that was caught lying is not used again.
    if let Err(failure) = follow(&mut host, data) {
        panic!("{}{}", failure.trace, failure.what);
    }
    panics::none();
    *held = Some((host, used + 1));
}
