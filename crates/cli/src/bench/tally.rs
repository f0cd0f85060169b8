//! What became of the requests of a phase.

use std::cell::RefCell;
use std::fmt::Display;
use std::rc::Rc;
use std::time::Duration;

use super::latency::Latency;
use super::report::Report;
use super::wire::Head;
use crate::failure::{Exit, Failure};

/// Counts and latencies of what succeeded, and what went wrong first.
#[derive(Debug)]
pub(crate) struct Tally {
    pub(crate) latency: Latency,
    /// Of the bodies of answers.
    pub(crate) bytes: u64,
    pub(crate) failed: u64,
    first_failure: Option<String>,
    first_status: Option<u16>,
}

/// All workers of a phase live on one thread and count into one tally.
pub(crate) type SharedTally = Rc<RefCell<Tally>>;

impl Tally {
    pub(crate) fn shared() -> SharedTally {
        Rc::new(RefCell::new(Self {
            latency: Latency::new(),
            bytes: 0,
            failed: 0,
            first_failure: None,
            first_status: None,
        }))
    }

    /// How many have succeeded.
    pub(crate) fn done(&self) -> u64 {
        self.latency.count()
    }

    pub(crate) fn succeeded(&mut self, took: Duration, bytes: u64) {
        self.latency.record(took);
        self.bytes += bytes;
    }

    /// Counts an answer with its latency if it is a success.
    pub(crate) fn answered(&mut self, head: &Head, took: Duration, bytes: u64) {
        if head.is_success() {
            self.succeeded(took, bytes);
        } else {
            self.refused(head.status);
        }
    }

    pub(crate) fn refused(&mut self, status: u16) {
        self.first_status.get_or_insert(status);
        self.failed(format_args!("the server answered {status}"));
    }

    pub(crate) fn failed(&mut self, why: impl Display) {
        self.failed += 1;
        self.first_failure.get_or_insert_with(|| why.to_string());
    }

    pub(crate) fn tell(&self, report: &mut Report) {
        report.add("failed", self.failed);
        report.add("first_failure", self.first_failure.clone());
    }

    /// A phase that prepares what is measured must not fail at all.
    pub(crate) fn all_succeeded(&self, what: &str) -> Result<(), Failure> {
        if self.failed == 0 { Ok(()) } else { Err(self.failure(what)) }
    }

    /// A measured phase is worth telling if anything succeeded.
    pub(crate) fn any_succeeded(&self, what: &str) -> Result<(), Failure> {
        if self.failed == 0 || self.done() > 0 { Ok(()) } else { Err(self.failure(what)) }
    }

    fn failure(&self, what: &str) -> Failure {
        let why = self.first_failure.as_deref().unwrap_or("no answer");
        let of = self.failed + self.done();
        let text = format!("cannot {what}: {why} ({} of {of} requests failed)", self.failed);
        let exit = match self.first_status {
            Some(404 | 410) => Exit::NotFound,
            Some(401 | 403) => Exit::Auth,
            Some(409 | 412) => Exit::Conflict,
            Some(429 | 502..=504 | 507) | None => Exit::Unavailable,
            Some(_) => Exit::Failed,
        };
        let hint = match self.first_status {
            Some(404) => Some("create the bucket that --url names, or give another --url"),
            Some(401 | 403) => Some("give --auth, or set STREAM_AUTH"),
            Some(_) | None => None,
        };
        Failure::new(exit, text).hint(hint.map(str::to_owned))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_preparations_insist_on_every_request() {
        let tally = Tally::shared();
        let mut tally = tally.borrow_mut();
        tally.refused(404);
        tally.failed("broken pipe");
        assert!(tally.any_succeeded("append").is_err());
        tally.succeeded(Duration::from_millis(1), 7);
        assert!(tally.any_succeeded("append").is_ok());
        let failure = format!("{:?}", tally.all_succeeded("append").expect_err("two have failed"));
        assert!(failure.contains("the server answered 404 (2 of 3 requests failed)"), "{failure}");
        assert!(failure.contains("create the bucket"), "{failure}");
    }
}
