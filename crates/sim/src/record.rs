//! What clients saw of each stream, for the checker of histories: it knows nothing of the model, of
//! crashes or of the log, only who was told what and when.

use std::collections::BTreeMap;

use headwater_core::ids::StreamId;
use headwater_history::{Event, NEVER, Op, Outcome, Span, State, check_from};

use crate::oracle::{Check, violation};

/// The histories of all incarnations.
#[derive(Debug, Default)]
pub(crate) struct Record {
    streams: BTreeMap<StreamId, (u64, Vec<Event>)>,
    moment: u64,
}

/// An append that waits for its answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked {
    id: StreamId,
    event: usize,
    len: u64,
}

impl Record {
    /// A moment behind all others.
    pub(crate) fn moment(&mut self) -> u64 {
        self.moment += 1;
        self.moment
    }

    /// A stream is being created; appends to it begin at `base`. A crash may forget a creation that
    /// nobody was told of, and give its number to another.
    pub(crate) fn created(&mut self, id: StreamId, base: u64, closed: bool) {
        self.streams.insert(id, (base, Vec::new()));
        if closed {
            self.close(id);
        }
    }

    /// Somebody appends `len` bytes: all the messages of a request are one here.
    pub(crate) fn append(&mut self, id: StreamId, len: u64) -> Asked {
        let invoked = self.moment();
        let outcome = Outcome::Unknown;
        let event = self.note(id, invoked, NEVER, Op::Append { message: invoked, outcome });
        Asked { id, event, len }
    }

    /// The append was acknowledged, and ends at `end`.
    pub(crate) fn acked(&mut self, asked: Asked, end: u64) {
        let now = self.moment();
        let event = self.streams.get_mut(&asked.id).and_then(|it| it.1.get_mut(asked.event));
        if let Some(Event { returned, op: Op::Append { outcome, .. }, .. }) = event {
            *returned = now;
            *outcome = Outcome::Done(Span { start: end.saturating_sub(asked.len), end });
        }
    }

    /// Somebody closes the stream.
    pub(crate) fn close(&mut self, id: StreamId) {
        let invoked = self.moment();
        self.note(id, invoked, NEVER, Op::Close { outcome: Outcome::Unknown });
    }

    /// Somebody who asked at `invoked` was told the tail.
    pub(crate) fn tail(&mut self, id: StreamId, invoked: u64, tail: u64, closed: bool) {
        let returned = self.moment();
        let outcome = Outcome::Done(State { tail, closed, retained: None });
        self.note(id, invoked, returned, Op::Tail { outcome });
    }

    fn note(&mut self, id: StreamId, invoked: u64, returned: u64, op: Op) -> usize {
        let (_, events) = self.streams.entry(id).or_default();
        events.push(Event { process: 0, invoked, returned, op });
        events.len() - 1
    }

    /// Whether all of it can have happened.
    pub(crate) fn check(&self) -> Check {
        for (id, (base, events)) in &self.streams {
            if let Err(wrong) = check_from(*base, events) {
                return violation!("the history of stream {id:?} is impossible: {wrong}");
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: StreamId = StreamId(7);

    fn after_one_append(tail: u64, closed: bool) -> Check {
        let mut record = Record::default();
        record.created(ID, 5, false);
        let asked = record.append(ID, 10);
        record.acked(asked, 15);
        let invoked = record.moment();
        record.tail(ID, invoked, tail, closed);
        record.check()
    }

    #[test]
    fn a_lost_append_a_tail_from_nowhere_and_a_close_that_nobody_asked_for_are_noticed() {
        assert_eq!(after_one_append(15, false), Ok(()));
        for (tail, closed) in [(5, false), (25, false), (15, true)] {
            assert!(after_one_append(tail, closed).is_err(), "{tail}, closed: {closed}");
        }
    }
}
