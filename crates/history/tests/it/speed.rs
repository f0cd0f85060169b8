//! How fast histories are judged:
//! `cargo test --release -p headwater-history --test it speed -- --ignored --nocapture`.

use std::io::Write as _;
use std::time::Instant;

use headwater_history::{Event, Message, Op, Outcome, Slice, Span, State, check};

use crate::rng::Rng;

/// About as many as a benchmark of a minute has.
const EVENTS: u64 = 1_000_000;

/// Messages in a read.
const READ: usize = 8;

/// So many calls are under way at a time.
const CONCURRENT: u64 = 16;

#[test]
#[ignore = "a measurement"]
fn events_a_second() {
    let mut rates: Vec<u128> = (0..9).map(|seed| rate(&history(&mut Rng(seed)))).collect();
    rates.sort_unstable();
    let (least, median) = (rates[0], rates[rates.len() / 2]);
    writeln!(std::io::stdout(), "{median} events/s in the median, {least} at least").expect("told");
    assert!(median > 0);
}

fn rate(events: &[Event]) -> u128 {
    let began = Instant::now();
    check(events).expect("a real stream had it");
    events.len() as u128 * 1_000_000_000 / began.elapsed().as_nanos().max(1)
}

/// Half appends, and readers that follow the tail.
fn history(rng: &mut Rng) -> Vec<Event> {
    let mut log: Vec<Message> = Vec::new();
    let event = |no: u64| {
        let next = log.last().map_or(0, |last| last.span.end);
        let op = match rng.below(20) {
            0..10 => {
                let span = Span { start: next, end: next + 1 + rng.below(300) };
                log.push(Message { id: no, span });
                Op::Append { message: no, outcome: Outcome::Done(span) }
            }
            10..18 => {
                let messages = log[log.len().saturating_sub(READ)..].to_vec();
                let from = messages.first().map_or(next, |first| first.span.start);
                Op::Read { from, outcome: Outcome::Done(Slice { messages, to: next, tail: None }) }
            }
            _ => {
                let state = State { tail: next, closed: false, retained: None };
                Op::Tail { outcome: Outcome::Done(state) }
            }
        };
        let (process, invoked) = (0, no * 100);
        Event { process, invoked, returned: invoked + 1 + rng.below(100 * CONCURRENT), op }
    };
    (0..EVENTS).map(event).collect()
}
