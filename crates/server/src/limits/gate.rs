//! Who is let in: requests and live readers are counted over all workers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use headwater_core::ids::Timestamp;

use super::rate::Rates;
use super::{Client, Limits};

/// Counts those inside.
#[derive(Debug)]
pub(crate) struct Gate {
    requests: AtomicUsize,
    reads_max: usize,
    writes_max: usize,
    live_readers: AtomicUsize,
    live_readers_max: usize,
    rates: Option<Rates>,
}

/// One of the requests that there may be at a time.
#[derive(Debug)]
pub(crate) struct Turn<'a>(&'a AtomicUsize);

/// One of the live readers that there may be at a time.
#[derive(Debug)]
pub(crate) struct Seat(Arc<Gate>);

impl Gate {
    /// `connections` are those that there may be.
    pub(crate) fn new(limits: &Limits, connections: usize) -> Self {
        let live_readers_max = limits.live_readers_max.unwrap_or(connections - connections / 4);
        Self {
            requests: AtomicUsize::new(0),
            reads_max: limits.requests_max,
            writes_max: limits.requests_max - limits.requests_max / 4,
            live_readers: AtomicUsize::new(0),
            live_readers_max,
            rates: limits.rate.map(Rates::new),
        }
    }

    /// Lets a request in, or says how many there are of its kind.
    pub(crate) fn enter(&self, writes: bool) -> Result<Turn<'_>, usize> {
        let max = if writes { self.writes_max } else { self.reads_max };
        if count(&self.requests, max) { Ok(Turn(&self.requests)) } else { Err(max) }
    }

    /// Lets a live reader in, or says how many there are.
    pub(crate) fn sit(self: &Arc<Self>) -> Result<Seat, usize> {
        let max = self.live_readers_max;
        if count(&self.live_readers, max) { Ok(Seat(Arc::clone(self))) } else { Err(max) }
    }

    /// Whether anybody may ask as often as they like.
    pub(crate) fn is_patient(&self) -> bool {
        self.rates.is_none()
    }

    /// Counts a request of `client`, or says how long it should wait.
    pub(crate) fn ask(&self, client: Client, now: Timestamp) -> Result<(), Duration> {
        self.rates.as_ref().map_or(Ok(()), |rates| rates.take(client, now))
    }
}

/// One more, unless there are `max`.
fn count(inside: &AtomicUsize, max: usize) -> bool {
    let fits = inside.fetch_add(1, Ordering::Relaxed) < max;
    if !fits {
        inside.fetch_sub(1, Ordering::Relaxed);
    }
    fits
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.live_readers.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_are_turned_away_before_reads() {
        let gate = Gate::new(&Limits { requests_max: 4, ..Limits::default() }, 8);
        let writes: Vec<Turn<'_>> = (0..3).map(|_| gate.enter(true).unwrap()).collect();
        assert_eq!(gate.enter(true).unwrap_err(), 3);
        let read = gate.enter(false).unwrap();
        assert_eq!(gate.enter(false).unwrap_err(), 4);
        drop(read);
        assert!(gate.enter(true).is_err() && gate.enter(false).is_ok());
        drop(writes);
        assert_eq!(gate.requests.load(Ordering::Relaxed), 0);
        let reads: Vec<Turn<'_>> = (0..4).map(|_| gate.enter(false).unwrap()).collect();
        assert!(gate.enter(true).is_err() && gate.enter(false).is_err());
        drop(reads);
    }

    #[test]
    fn live_readers_leave_a_quarter_of_the_connections_to_others() {
        let gate = Arc::new(Gate::new(&Limits::default(), 8));
        let seats: Vec<Seat> = (0..6).map(|_| gate.sit().unwrap()).collect();
        assert_eq!(gate.sit().unwrap_err(), 6);
        drop(seats);
        assert!(gate.sit().is_ok());
    }
}
