//! The history of one stream for the checker: what was asked and what came back, with times, across
//! all restarts. It is judged as a whole when the stream is gone, or at the end of the run.
//!
//! [`crate::log`] and [`crate::life`] object earlier and name the message; this objects to more: an
//! append without an answer that lies where it cannot have gone, a message that nobody had sent
//! yet, bytes that nobody can have written.

use std::collections::HashMap;
use std::sync::OnceLock;
use std::time::Instant;

use headwater_history::{
    Event, Message, NEVER, Op, Outcome, Slice, Span, State, Violation, Why, check_from,
};

use crate::log::{Breach, Checked, Seen};
use crate::message::Key;

/// A record with more events and messages than this is long: it takes some 30 MiB.
const LONG: usize = 500_000;

/// An event is told in at most so many bytes.
const TOLD_BYTES_MAX: usize = 160;

/// What was asked of one stream, and what came back.
#[derive(Debug, Default)]
pub struct Record {
    events: Vec<Event>,
    appends: HashMap<Key, usize>,
    /// Events, and messages in them.
    weight: usize,
    judged: bool,
}

/// Microseconds since this process first asked.
pub fn now() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    let since = START.get_or_init(Instant::now).elapsed();
    u64::try_from(since.as_micros()).expect("a run ends within half a million years")
}

fn id(key: Key) -> u64 {
    u64::from(key.writer) << 32 | u64::from(key.n)
}

fn message(seen: &Seen) -> Message {
    Message { id: id(seen.key), span: Span { start: seen.start, end: seen.end } }
}

impl Record {
    /// Somebody is about to append `key`.
    pub fn append(&mut self, key: Key) {
        self.appends.insert(key, self.events.len());
        let op = Op::Append { message: id(key), outcome: Outcome::Unknown };
        self.note(key.writer, now(), NEVER, op);
    }

    /// An append was acknowledged.
    pub fn acked(&mut self, seen: &Seen) {
        self.answered(seen.key, Outcome::Done(message(seen).span));
    }

    /// An append was refused.
    pub fn refused(&mut self, key: Key) {
        self.answered(key, Outcome::Refused(Why::Other));
    }

    fn answered(&mut self, key: Key, answer: Outcome<Span>) {
        let event = self.appends.get(&key).and_then(|no| self.events.get_mut(*no));
        let Some(Event { returned, op: Op::Append { outcome, .. }, .. }) = event else { return };
        (*returned, *outcome) = (now(), answer);
    }

    /// A read returned `seen` for everything from `from` to `to`. When it began is of no matter,
    /// since it claims nothing about the tail.
    pub fn read(&mut self, from: u64, to: u64, seen: &[Seen]) {
        let messages = seen.iter().map(message).collect();
        self.weight += seen.len();
        let op = Op::Read { from, outcome: Outcome::Done(Slice { messages, to, tail: None }) };
        let now = now();
        self.note(0, now, now, op);
    }

    /// An answer to a request that began at `invoked` told the tail.
    pub fn tail(&mut self, invoked: u64, tail: u64, closed: bool) {
        let outcome = Outcome::Done(State { tail, closed, retained: None });
        self.note(0, invoked, now(), Op::Tail { outcome });
    }

    /// Somebody is about to close the stream. Whoever sees it closed tells the tail.
    pub fn close(&mut self) {
        self.note(0, now(), NEVER, Op::Close { outcome: Outcome::Unknown });
    }

    fn note(&mut self, process: u32, invoked: u64, returned: u64, op: Op) {
        if !self.judged {
            self.weight += 1;
            self.events.push(Event { process, invoked, returned, op });
        }
    }

    /// Whether it takes so much memory that the stream should come to its end.
    pub fn is_long(&self) -> bool {
        self.weight > LONG
    }

    /// Judges all of it, for a stream whose own messages begin at `base`, and forgets it.
    pub fn judge(&mut self, base: u64) -> Checked<usize> {
        let events = std::mem::take(&mut self.events);
        self.appends = HashMap::new();
        self.weight = 0;
        self.judged = true;
        check_from(base, &events).map_err(|violation| told(&violation, &events))?;
        Ok(events.len())
    }
}

fn told(violation: &Violation, events: &[Event]) -> Breach {
    let tell = |no: &usize| {
        let mut event = format!("#{no} {:?}", events[*no]);
        event.truncate(TOLD_BYTES_MAX);
        event
    };
    let named: Vec<String> = violation.events.iter().map(tell).collect();
    Breach(format!("its history is impossible: {violation}; {}", named.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: Key = Key { writer: 1, n: 0 };

    fn seen(start: u64, key: Key) -> Seen {
        Seen { start, end: start + 10, key, record: None }
    }

    #[test]
    fn a_history_that_can_be_passes_and_is_forgotten() {
        let mut record = Record::default();
        record.append(KEY);
        record.acked(&seen(0, KEY));
        record.read(0, 10, &[seen(0, KEY)]);
        record.close();
        record.tail(now(), 10, true);
        assert_eq!(record.judge(0), Ok(4));
        record.read(0, 10, &[]);
        assert_eq!(record.judge(0), Ok(0), "nothing is taken down any more");
    }

    #[test]
    fn an_append_without_an_answer_that_lies_too_low_is_found() {
        let mut record = Record::default();
        let late = KEY.plus(1);
        record.append(KEY);
        record.acked(&seen(10, KEY));
        std::thread::sleep(std::time::Duration::from_micros(2));
        record.append(late);
        record.read(0, 20, &[seen(0, late), seen(10, KEY)]);
        let breach = record.judge(0).expect_err("it began after the other had ended");
        assert!(breach.0.contains("Order"), "{breach}");
    }

    #[test]
    fn a_fork_begins_at_its_base() {
        let mut record = Record::default();
        record.append(KEY);
        record.acked(&seen(70, KEY));
        assert_eq!(record.judge(70), Ok(1));
        let mut record = Record::default();
        record.append(KEY);
        record.acked(&seen(70, KEY));
        assert!(record.judge(0).is_err(), "nobody wrote what lies below");
    }
}
