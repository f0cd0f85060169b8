//! `--check`: everything that a run's clients saw, judged by the checker of histories.
//!
//! Messages of a run have one size, so an offset tells which message lies there; that takes offsets
//! that count bytes, as Headwater's do.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use headwater_history::{Event, Message, NEVER, Op, Outcome, Slice, Span, State, Why, check};
use tokio::time::Instant;

use super::report::Report;
use super::wire::Head;
use crate::failure::{Exit, Failure, Outcome as Done};

/// So many events are kept, about 100 bytes each. Reads beyond them are not looked at.
const EVENTS_MAX: usize = 10_000_000;

/// An append that has no answer yet.
#[derive(Debug)]
pub(crate) struct Sent {
    stream: usize,
    event: usize,
}

/// What was asked of the streams of a run, and what came back.
#[derive(Debug)]
pub(crate) struct Witness {
    epoch: Instant,
    /// The bytes that a message takes in offsets.
    message: u64,
    streams: Vec<RefCell<Vec<Event>>>,
    events: Cell<usize>,
    /// An answer without an offset that counts bytes.
    strange: RefCell<Option<String>>,
}

impl Witness {
    pub(crate) fn new(streams: usize, message: u64) -> Self {
        Self {
            epoch: Instant::now(),
            message,
            streams: (0..streams).map(|_| RefCell::default()).collect(),
            events: Cell::new(0),
            strange: RefCell::default(),
        }
    }

    fn moment(&self, at: Instant) -> u64 {
        u64::try_from((at - self.epoch).as_nanos()).unwrap_or(NEVER - 1)
    }

    fn note(&self, stream: usize, event: Event) {
        self.events.set(self.events.get() + 1);
        self.streams[stream].borrow_mut().push(event);
    }

    /// Message `id` is about to be sent. What comes back is for [`Self::appended`].
    pub(crate) fn append(&self, stream: usize, id: u64) -> Sent {
        let sent = Sent { stream, event: self.streams[stream].borrow().len() };
        let op = Op::Append { message: id, outcome: Outcome::Unknown };
        let invoked = self.moment(Instant::now());
        self.note(stream, Event { process: 0, invoked, returned: NEVER, op });
        sent
    }

    /// A message was answered with `head`.
    pub(crate) fn appended(&self, sent: &Sent, head: &Head) {
        let end = head.is_success().then(|| self.offset(head.next_offset.as_deref())).flatten();
        let answer = match end {
            Some(end) => Outcome::Done(Span { start: end.saturating_sub(self.message), end }),
            None if (400..500).contains(&head.status) => Outcome::Refused(Why::Other),
            None => return,
        };
        let event = &mut self.streams[sent.stream].borrow_mut()[sent.event];
        event.returned = self.moment(Instant::now());
        if let Op::Append { outcome, .. } = &mut event.op {
            *outcome = answer;
        }
    }

    /// A reader has got these messages, and is to go on at `to`.
    pub(crate) fn read(&self, stream: usize, from: u64, to: &str, ids: &[u64], at: Instant) {
        let Some(to) = self.offset(Some(to)) else { return };
        if self.events.get() >= EVENTS_MAX {
            return;
        }
        let starts = (from..).step_by(usize::try_from(self.message).unwrap_or(usize::MAX));
        let messages = starts.zip(ids).map(|(start, id)| self.message_at(start, *id)).collect();
        let op = Op::Read { from, outcome: Outcome::Done(Slice { messages, to, tail: None }) };
        let at = self.moment(at);
        self.note(stream, Event { process: 1, invoked: at, returned: at, op });
    }

    fn message_at(&self, start: u64, id: u64) -> Message {
        Message { id, span: Span { start, end: start + self.message } }
    }

    /// A read of everything, begun at `sent` when nobody wrote any more, ended at `tail`; its bytes
    /// were those of messages of this run. Which was which, only offsets tell.
    pub(crate) fn read_whole(&self, stream: usize, tail: u64, sent: Instant) {
        let mut events = self.streams[stream].borrow_mut();
        let mut known = Vec::new();
        let mut unknown = Vec::new();
        for event in events.iter() {
            match event.op {
                Op::Append { message, outcome: Outcome::Done(span) } => {
                    known.push((span.start, message));
                }
                Op::Append { message, outcome: Outcome::Unknown } => unknown.push(message),
                _ => {}
            }
        }
        known.sort_unstable();
        let mut messages = Vec::new();
        let mut next = 0;
        for (start, id) in known.into_iter().chain([(tail, 0)]) {
            while next < start.min(tail) {
                // Of what had no answer, any may be the one.
                messages.push(self.message_at(next, unknown.pop().unwrap_or(u64::MAX)));
                next += self.message;
            }
            if start < tail {
                messages.push(self.message_at(start, id));
                next = start + self.message;
            }
        }
        let slice = Slice { messages, to: tail, tail: Some(false) };
        let [invoked, returned] = [sent, Instant::now()].map(|at| self.moment(at));
        let read = Op::Read { from: 0, outcome: Outcome::Done(slice) };
        let state = Outcome::Done(State { tail, closed: false, retained: None });
        for op in [Op::Tail { outcome: state }, read] {
            events.push(Event { process: 1, invoked, returned, op });
        }
        self.events.set(self.events.get() + 2);
    }

    fn offset(&self, text: Option<&str>) -> Option<u64> {
        let offset = text.and_then(|text| text.parse().ok());
        if offset.is_none() {
            self.strange.borrow_mut().get_or_insert_with(|| format!("{text:?}"));
        }
        offset
    }

    /// Judges everything, and tells how much that was and how long it took.
    pub(crate) fn judge(&self, report: &mut Report) -> Done {
        if let Some(offset) = &*self.strange.borrow() {
            let what = format!("cannot check: the offset {offset} does not count bytes");
            let hint = "measure this server without --check".to_owned();
            return Err(Failure::new(Exit::Failed, what).hint(hint));
        }
        let began = Instant::now();
        for stream in &self.streams {
            check(&stream.borrow()).map_err(|violation| {
                let what = format!("what the clients saw cannot have happened: {violation}");
                Failure::new(Exit::Failed, what)
            })?;
        }
        report.add("checked_events", self.events.get());
        report.number("check_seconds", Some(seconds(began.elapsed())), 3);
        Ok(())
    }
}

fn seconds(time: Duration) -> f64 {
    time.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::wire::Framing;

    fn answer(status: u16, next_offset: Option<&str>) -> Head {
        Head {
            status,
            next_offset: next_offset.map(str::to_owned),
            up_to_date: false,
            keep_alive: true,
            framing: Framing::Done,
        }
    }

    /// Three appends of ten bytes, of which the second has no answer.
    fn three() -> Witness {
        let witness = Witness::new(1, 10);
        for (id, head) in [(0, Some("10")), (1, None), (2, Some("30"))] {
            let sent = witness.append(0, id);
            if let Some(offset) = head {
                witness.appended(&sent, &answer(204, Some(offset)));
            }
        }
        witness
    }

    fn judged(witness: &Witness) -> String {
        format!("{:?}", witness.judge(&mut Report::new("x")))
    }

    #[test]
    fn what_can_have_happened_passes() {
        let witness = three();
        witness.read(0, 0, "20", &[0, 1], Instant::now());
        witness.read_whole(0, 30, Instant::now());
        assert_eq!(judged(&witness), "Ok(())");
    }

    #[test]
    fn a_lost_a_doubled_and_a_reordered_message_are_each_noticed() {
        let lost = three();
        lost.read_whole(0, 20, Instant::now());
        assert!(judged(&lost).contains("Tail"), "{}", judged(&lost));
        let doubled = three();
        doubled.read(0, 0, "20", &[0, 0], Instant::now());
        assert!(judged(&doubled).contains("Once"), "{}", judged(&doubled));
        let reordered = three();
        reordered.read(0, 0, "30", &[1, 0, 2], Instant::now());
        assert!(judged(&reordered).contains("cannot have happened"), "{}", judged(&reordered));
        let unasked = three();
        unasked.read_whole(0, 40, Instant::now());
        assert!(judged(&unasked).contains("nobody appended"), "{}", judged(&unasked));
    }

    #[test]
    fn offsets_that_do_not_count_bytes_are_said_to_be_the_reason() {
        let witness = Witness::new(1, 10);
        witness.appended(&witness.append(0, 0), &answer(204, Some("abc_1")));
        assert!(judged(&witness).contains("without --check"), "{}", judged(&witness));
    }
}
