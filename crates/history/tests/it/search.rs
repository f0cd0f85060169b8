//! Whether a history is linearizable, by trying: the search of Wing, Gong and Lowe, which knows
//! nothing of offsets but what one call does to one list.

use std::collections::HashSet;

use headwater_history::{Event, NEVER, Op, Outcome, Why};

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct List {
    ids: Vec<u64>,
    closed: bool,
}

/// Whether some order of at most 64 events explains every answer.
pub(crate) fn is_linearizable(events: &[Event]) -> bool {
    assert!(events.len() <= 64, "a set of events is one word");
    let mut seen = HashSet::new();
    search(events, 0, &List::default(), &mut seen)
}

fn search(events: &[Event], done: u64, list: &List, seen: &mut HashSet<(u64, List)>) -> bool {
    let open = |no: &usize| done & (1 << no) == 0;
    let waiting = || (0..events.len()).filter(open).map(|no| &events[no]);
    if waiting().all(|event| can_be_left(&event.op)) {
        return true;
    }
    if !seen.insert((done, list.clone())) {
        return false;
    }
    // Whatever comes next has begun before the first of the others ended.
    let first_end = waiting().filter(|event| !can_be_left(&event.op)).map(|it| it.returned).min();
    let first_end = first_end.unwrap_or(NEVER);
    (0..events.len()).filter(open).filter(|no| events[*no].invoked <= first_end).any(|no| {
        let mut next = list.clone();
        step(&mut next, &events[no].op) && search(events, done | 1 << no, &next, seen)
    })
}

/// A call without an answer, or one that was not carried out, for whatever reason.
fn can_be_left(op: &Op) -> bool {
    match op {
        Op::Append { outcome, .. } => {
            matches!(outcome, Outcome::Unknown | Outcome::Refused(Why::Other))
        }
        Op::Read { outcome, .. } => *outcome == Outcome::Unknown,
        Op::Tail { outcome } => *outcome == Outcome::Unknown,
        Op::Close { outcome } => *outcome == Outcome::Unknown,
        Op::Delete { .. } | Op::Retain { .. } => unreachable!("not part of this search"),
    }
}

/// Carries out one call. False if its answer was another.
fn step(list: &mut List, op: &Op) -> bool {
    let tail = list.ids.len() as u64;
    match op {
        Op::Append { message, outcome } => match outcome {
            Outcome::Refused(why) => *why == Why::Closed && list.closed,
            Outcome::Done(span) if (span.start, span.end) != (tail, tail + 1) => false,
            Outcome::Done(_) | Outcome::Unknown => {
                list.ids.push(*message);
                !list.closed
            }
        },
        Op::Read { from, outcome: Outcome::Done(slice) } => {
            let ids: Vec<u64> = slice.messages.iter().map(|message| message.id).collect();
            let index = |at| usize::try_from(at).expect("offsets are small here");
            let range = index(*from)..index(slice.to);
            let mut places = (*from..).zip(&slice.messages);
            places.all(|(at, it)| (it.span.start, it.span.end) == (at, at + 1))
                && list.ids.get(range) == Some(&ids)
                && slice.tail.is_none_or(|closed| (slice.to, closed) == (tail, list.closed))
        }
        Op::Tail { outcome: Outcome::Done(state) } => {
            (state.tail, state.closed) == (tail, list.closed)
        }
        Op::Close { outcome: Outcome::Done(end) } => {
            list.closed = true;
            *end == tail
        }
        Op::Close { outcome: Outcome::Unknown } => {
            list.closed = true;
            true
        }
        // Without an answer they change nothing.
        _ => true,
    }
}
