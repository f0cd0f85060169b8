//! Random histories of a stream that is right, and ways to spoil them. Messages have length 1.

use headwater_history::{Event, Message, NEVER, Op, Outcome, Slice, Span, State, Why};

use crate::rng::Rng;

const PROCESSES: usize = 4;

/// A call under way: it takes effect at some moment, and its answer is received later.
struct Call {
    event: usize,
    done: bool,
}

#[derive(Default)]
struct Truth {
    log: Vec<u64>,
    closed: bool,
}

/// A history of about `calls` calls that a real stream had; it ends with a read of everything.
pub(crate) fn history(rng: &mut Rng, calls: usize) -> Vec<Event> {
    let mut events: Vec<Event> = Vec::new();
    let mut truth = Truth::default();
    let mut busy: Vec<Option<Call>> = (0..PROCESSES).map(|_| None).collect();
    let mut orphans: Vec<usize> = Vec::new();
    let mut now = 0;
    while events.len() + 1 < calls {
        // At times several things happen in one moment.
        now += rng.below(3);
        let process = rng.index(PROCESSES);
        match &mut busy[process] {
            None => {
                let op = ask(rng, events.len() as u64, &truth);
                let process_no = u32::try_from(process).expect("there are few");
                let event = Event { process: process_no, invoked: now, returned: NEVER, op };
                busy[process] = Some(Call { event: events.len(), done: false });
                events.push(event);
            }
            Some(call) if !call.done && rng.one_in(12) => {
                // The process gives up; the call may still be carried out.
                orphans.push(call.event);
                busy[process] = None;
            }
            Some(call) if !call.done => {
                carry_out(&mut truth, &mut events[call.event].op);
                call.done = true;
            }
            Some(call) => {
                events[call.event].returned = now;
                busy[process] = None;
            }
        }
        if !orphans.is_empty() && rng.one_in(6) {
            let orphan = orphans.swap_remove(rng.index(orphans.len()));
            let mut op = events[orphan].op.clone();
            carry_out(&mut truth, &mut op);
        }
    }
    // What had no answer until now never gets one.
    for call in busy.into_iter().flatten() {
        forget(&mut events[call.event].op);
    }
    let mut op = Op::Read { from: 0, outcome: Outcome::Unknown };
    carry_out(&mut truth, &mut op);
    if let Op::Read { outcome: Outcome::Done(slice), .. } = &mut op {
        slice.tail = Some(truth.closed);
    }
    events.push(Event { process: 0, invoked: now + 1, returned: now + 2, op });
    events
}

fn ask(rng: &mut Rng, no: u64, truth: &Truth) -> Op {
    match rng.below(20) {
        0..9 => Op::Append { message: no, outcome: Outcome::Unknown },
        9..14 => {
            let from = rng.below(truth.log.len() as u64 + 1);
            Op::Read { from, outcome: Outcome::Unknown }
        }
        19 if rng.one_in(3) => Op::Close { outcome: Outcome::Unknown },
        _ => Op::Tail { outcome: Outcome::Unknown },
    }
}

fn carry_out(truth: &mut Truth, op: &mut Op) {
    let tail = truth.log.len() as u64;
    match op {
        Op::Append { outcome, .. } if truth.closed => *outcome = Outcome::Refused(Why::Closed),
        Op::Append { message, outcome } => {
            truth.log.push(*message);
            *outcome = Outcome::Done(Span { start: tail, end: tail + 1 });
        }
        Op::Read { from, outcome } => {
            let start = usize::try_from(*from).expect("the log is short");
            let messages = (*from..)
                .zip(&truth.log[start..])
                .map(|(start, id)| Message { id: *id, span: Span { start, end: start + 1 } });
            let tail_told = (*from % 2 == 0).then_some(truth.closed);
            let messages = messages.collect();
            *outcome = Outcome::Done(Slice { messages, to: tail, tail: tail_told });
        }
        Op::Tail { outcome } => {
            *outcome = Outcome::Done(State { tail, closed: truth.closed, retained: None });
        }
        Op::Close { outcome } => {
            truth.closed = true;
            *outcome = Outcome::Done(tail);
        }
        Op::Delete { .. } | Op::Retain { .. } => unreachable!("nobody asks for it here"),
    }
}

fn forget(op: &mut Op) {
    match op {
        Op::Append { outcome, .. } => *outcome = Outcome::Unknown,
        Op::Read { outcome, .. } => *outcome = Outcome::Unknown,
        Op::Tail { outcome } => *outcome = Outcome::Unknown,
        Op::Close { outcome } => *outcome = Outcome::Unknown,
        Op::Delete { .. } | Op::Retain { .. } => unreachable!("nobody asks for it here"),
    }
}

/// Changes one thing in one event. What comes out may still be possible. The read of everything
/// stays the last event, so that no bytes are left that nobody has seen.
pub(crate) fn spoil(rng: &mut Rng, events: &mut [Event]) {
    let no = rng.index(events.len());
    let other = rng.index(events.len());
    if rng.one_in(4) && no + 1 < events.len() {
        // Later than it was, or earlier: a stale answer, or one from the future.
        let length = events[no].returned.saturating_sub(events[no].invoked);
        events[no].invoked = events[other].invoked;
        if events[no].returned != NEVER {
            events[no].returned = events[no].invoked + length;
        }
        return;
    }
    let step = |rng: &mut Rng, value: u64| {
        if rng.one_in(2) { value + 1 } else { value.saturating_sub(1) }
    };
    let Event { invoked, returned, op, .. } = &mut events[no];
    match op {
        Op::Append { outcome, .. } => {
            *outcome = match *outcome {
                Outcome::Done(span) if rng.one_in(2) => {
                    let start = step(rng, span.start);
                    Outcome::Done(Span { start, end: start + 1 })
                }
                Outcome::Done(_) => Outcome::Refused(Why::Other),
                Outcome::Refused(_) if rng.one_in(2) => Outcome::Unknown,
                _ => {
                    let start = rng.below(8);
                    *returned = *invoked + 1;
                    Outcome::Done(Span { start, end: start + 1 })
                }
            };
        }
        Op::Read { outcome: Outcome::Done(slice), .. } => match rng.below(4) {
            0 => slice.tail = slice.tail.map(|closed| !closed),
            1 if !slice.messages.is_empty() => {
                slice.messages.pop();
                slice.to -= 1;
            }
            2 if slice.messages.len() > 1 => {
                let (a, b) = (slice.messages[0].id, slice.messages[1].id);
                (slice.messages[0].id, slice.messages[1].id) = (b, a);
            }
            _ => {
                let span = Span { start: slice.to, end: slice.to + 1 };
                slice.messages.push(Message { id: other as u64, span });
                slice.to += 1;
            }
        },
        Op::Tail { outcome: Outcome::Done(state) } => {
            if rng.one_in(3) {
                state.closed = !state.closed;
            } else {
                state.tail = step(rng, state.tail);
            }
        }
        Op::Close { outcome: Outcome::Done(tail) } => *tail = step(rng, *tail),
        op => forget(op),
    }
}
