//! How fast a history is checked: `cargo run --release -p headwater-history --example speed`.

use std::io::{self, Write};
use std::time::Instant;

use headwater_history::{Event, Message, Op, Outcome, Slice, Span, State, check};

const EVENTS: u64 = 1_000_000;
const PROCESSES: u64 = 64;

/// Sixteen appends, then a read of the last eight and a question for the tail, 64 calls in flight.
fn history() -> Vec<Event> {
    let mut events = Vec::new();
    let mut tail = 0;
    for no in 0..EVENTS {
        let op = match no % 18 {
            16 => {
                let messages = (tail - 8..tail)
                    .map(|id| Message { id, span: Span { start: id, end: id + 1 } })
                    .collect();
                let slice = Slice { messages, to: tail, tail: None };
                Op::Read { from: tail - 8, outcome: Outcome::Done(slice) }
            }
            17 => {
                Op::Tail { outcome: Outcome::Done(State { tail, closed: false, retained: None }) }
            }
            _ => {
                tail += 1;
                let span = Span { start: tail - 1, end: tail };
                Op::Append { message: tail - 1, outcome: Outcome::Done(span) }
            }
        };
        let process = u32::try_from(no % PROCESSES).expect("there are few");
        events.push(Event { process, invoked: no, returned: no + PROCESSES, op });
    }
    events
}

fn main() -> io::Result<()> {
    let events = history();
    let began = Instant::now();
    let verdict = check(&events);
    let micros = began.elapsed().as_micros().max(1);
    let per_second = u128::from(EVENTS) * 1_000_000 / micros;
    writeln!(io::stdout(), "{EVENTS} events in {micros} us, {per_second} a second: {verdict:?}")
}
