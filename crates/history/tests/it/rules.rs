//! Each rule, with the smallest history that breaks it and one beside it that does not.

use headwater_history::{Event, Message, NEVER, Op, Outcome, Rule, Slice, Span, State, Why, check};

use Outcome::{Done, Refused, Unknown};

fn at(invoked: u64, returned: u64, op: Op) -> Event {
    Event { process: 0, invoked, returned, op }
}

fn append(message: u64, outcome: Outcome<u64>) -> Op {
    let outcome = match outcome {
        Done(start) => Done(Span { start, end: start + 10 }),
        Refused(why) => Refused(why),
        Unknown => Unknown,
    };
    Op::Append { message, outcome }
}

/// A read of messages of ten bytes each.
fn read(from: u64, ids: &[u64], tail: Option<bool>) -> Op {
    let mut to = from;
    let mut messages = Vec::new();
    for id in ids {
        messages.push(Message { id: *id, span: Span { start: to, end: to + 10 } });
        to += 10;
    }
    Op::Read { from, outcome: Done(Slice { messages, to, tail }) }
}

fn tail(tail: u64, closed: bool) -> Op {
    Op::Tail { outcome: Done(State { tail, closed, retained: None }) }
}

fn boundary(retained: u64) -> Op {
    Op::Tail { outcome: Done(State { tail: 20, closed: false, retained: Some(retained) }) }
}

/// Two appends, one after the other.
fn two() -> Vec<Event> {
    vec![at(0, 1, append(1, Done(0))), at(2, 3, append(2, Done(10)))]
}

fn and(mut events: Vec<Event>, more: impl IntoIterator<Item = Event>) -> Vec<Event> {
    events.extend(more);
    events
}

#[track_caller]
fn breaks(rule: Rule, names: &[usize], events: &[Event]) {
    let violation = check(events).expect_err("it breaks a rule");
    assert_eq!((violation.rule, violation.events.as_slice()), (rule, names), "{violation}");
}

#[track_caller]
fn passes(events: &[Event]) {
    assert_eq!(check(events), Ok(()));
}

#[test]
fn an_acknowledged_append_is_present_at_its_offset() {
    passes(&and(two(), [at(4, 5, read(0, &[1, 2], Some(false)))]));
    breaks(Rule::Tail, &[2, 1], &and(two(), [at(4, 5, read(0, &[1], Some(false)))]));
    let replaced = [at(4, 5, append(3, Unknown)), at(6, 7, read(0, &[1, 3], None))];
    breaks(Rule::Present, &[3, 1], &and(two(), replaced));
    breaks(Rule::Once, &[2, 1], &and(two(), [at(4, 5, read(0, &[1, 2, 2], None))]));
    let overlapping = at(0, 9, append(3, Done(5)));
    breaks(Rule::Present, &[2, 0], &and(two(), [overlapping]));
}

#[test]
fn what_ended_before_lies_before() {
    passes(&[at(0, 3, append(1, Done(10))), at(1, 2, append(2, Done(0)))]);
    breaks(Rule::Order, &[1, 1, 0], &[at(0, 1, append(1, Done(10))), at(2, 3, append(2, Done(0)))]);
    // Also if only a read tells where an append without an answer lies.
    let unknown = [
        at(0, 1, append(1, Done(10))),
        at(2, NEVER, append(2, Unknown)),
        at(4, 5, read(0, &[2, 1], None)),
    ];
    breaks(Rule::Order, &[2, 1, 0], &unknown);
}

#[test]
fn a_read_is_a_contiguous_slice_of_what_was_asked_for() {
    passes(&and(two(), [at(4, 5, read(10, &[2], None))]));
    let gap = Slice {
        messages: vec![Message { id: 2, span: Span { start: 10, end: 20 } }],
        to: 20,
        tail: None,
    };
    let gap = at(4, 5, Op::Read { from: 0, outcome: Done(gap) });
    breaks(Rule::Slice, &[2], &and(two(), [gap]));
    breaks(Rule::Slice, &[2], &and(two(), [at(4, 5, read(20, &[7], None))]));
    // From the future.
    let early = [at(4, 5, read(20, &[3], None)), at(6, 7, append(3, Done(20)))];
    breaks(Rule::Slice, &[2], &and(two(), early));
    // Bytes that nobody has seen are somebody's.
    breaks(Rule::Slice, &[2], &and(two(), [at(4, 5, append(3, Done(30)))]));
    passes(&and(two(), [at(0, NEVER, append(4, Unknown)), at(4, 5, append(3, Done(30)))]));
}

#[test]
fn a_tail_includes_what_had_ended_before_it_was_asked_for() {
    passes(&and(two(), [at(4, 5, tail(20, false))]));
    passes(&and(two(), [at(3, 5, tail(10, false))]));
    breaks(Rule::Tail, &[2, 1], &and(two(), [at(4, 5, tail(10, false))]));
    breaks(Rule::Slice, &[2, 1], &and(two(), [at(2, 5, tail(15, false))]));
    breaks(Rule::Slice, &[0], &[at(0, 9, append(1, Done(0))), at(1, 2, tail(5, false))]);
    // What a reader saw is not rolled back, acknowledged or not.
    let seen = [
        at(4, NEVER, append(3, Unknown)),
        at(5, 6, read(20, &[3], None)),
        at(7, 8, tail(20, false)),
    ];
    breaks(Rule::Tail, &[4, 3], &and(two(), seen));
}

#[test]
fn an_append_without_an_answer_is_there_once_and_a_refused_one_never() {
    let unknown = at(4, NEVER, append(3, Unknown));
    passes(&and(two(), [unknown.clone(), at(5, 6, tail(20, false))]));
    passes(&and(two(), [unknown.clone(), at(5, 6, tail(20, false)), at(7, 8, tail(30, false))]));
    let twice = at(5, 6, read(20, &[3, 3], Some(false)));
    breaks(Rule::Once, &[3, 3], &and(two(), [unknown, twice]));
    let refused = at(4, 5, append(3, Refused(Why::Other)));
    breaks(Rule::Once, &[3, 2], &and(two(), [refused, at(6, 7, read(20, &[3], None))]));
    let refused = at(4, 9, append(3, Refused(Why::Other)));
    breaks(Rule::Once, &[2, 3], &and(two(), [refused, at(6, 7, read(20, &[3], None))]));
    breaks(Rule::Once, &[2, 0], &and(two(), [at(4, 5, append(1, Unknown))]));
}

#[test]
fn closed_is_asked_for_stays_and_ends_the_stream() {
    let close = at(4, 5, Op::Close { outcome: Done(20) });
    passes(&and(
        two(),
        [close.clone(), at(6, 7, tail(20, true)), at(8, 9, append(3, Refused(Why::Closed)))],
    ));
    breaks(Rule::Closed, &[2], &and(two(), [at(4, 5, tail(20, true))]));
    breaks(Rule::Closed, &[2], &and(two(), [at(4, 5, append(3, Refused(Why::Closed)))]));
    breaks(Rule::Closed, &[3, 2], &and(two(), [close.clone(), at(6, 7, tail(20, false))]));
    breaks(Rule::Closed, &[3, 3, 2], &and(two(), [close.clone(), at(6, 7, append(3, Done(20)))]));
    // Concurrent, and yet behind the end.
    breaks(Rule::Closed, &[3, 2, 3], &and(two(), [close, at(4, 7, append(3, Done(20)))]));
    let unknown = at(4, NEVER, Op::Close { outcome: Unknown });
    passes(&and(two(), [unknown, at(6, 7, tail(20, false)), at(8, 9, tail(20, true))]));
}

#[test]
fn deleted_is_asked_for_and_stays() {
    let delete = at(4, 5, Op::Delete { outcome: Done(()) });
    let gone = at(6, 7, Op::Tail { outcome: Refused(Why::Gone) });
    passes(&and(two(), [delete.clone(), gone.clone()]));
    breaks(Rule::Deleted, &[2], &and(two(), [gone]));
    breaks(Rule::Deleted, &[3, 2], &and(two(), [delete.clone(), at(6, 7, tail(20, false))]));
    let late = at(6, 7, append(3, Done(20)));
    breaks(Rule::Deleted, &[3, 3, 2], &and(two(), [delete, late]));
}

#[test]
fn the_boundary_only_advances_and_only_as_asked() {
    let retain = at(4, 5, Op::Retain { to: 10, outcome: Done(()) });
    let trimmed = Op::Read { from: 0, outcome: Refused(Why::Trimmed(10)) };
    passes(&and(two(), [retain.clone(), at(6, 7, trimmed.clone()), at(8, 9, boundary(10))]));
    breaks(Rule::Retained, &[2], &and(two(), [at(6, 7, trimmed)]));
    breaks(Rule::Retained, &[3, 2], &and(two(), [retain.clone(), at(6, 7, boundary(0))]));
    breaks(Rule::Retained, &[3], &and(two(), [retain.clone(), at(6, 7, boundary(20))]));
    breaks(Rule::Retained, &[3, 2], &and(two(), [retain.clone(), at(6, 7, read(0, &[1], None))]));
    let within = Op::Read { from: 10, outcome: Refused(Why::Trimmed(10)) };
    breaks(Rule::Retained, &[3], &and(two(), [retain, at(6, 7, within)]));
}
