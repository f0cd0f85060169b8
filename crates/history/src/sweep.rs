//! A whole history, in the order of time.

use crate::event::{Event, Op};
use crate::stream::{Checked, Sight, Stream};

/// Marks the number of an event as that of its end, behind all beginnings.
const IS_END: usize = 1 << (usize::BITS - 1);

/// Whether one stream that began empty explains `events`, which may stand in any order. The first
/// violation, where not: what follows from it is often only its consequence.
pub fn check(events: &[Event]) -> Checked {
    check_from(0, events)
}

/// As [`check`], of a stream whose first message lies at `base`, as that of a fork does.
pub fn check_from(base: u64, events: &[Event]) -> Checked {
    // Two calls of which one ends in the moment in which the other begins are concurrent, so in a
    // moment beginnings come first.
    let mut moments: Vec<(u64, usize)> = Vec::with_capacity(2 * events.len());
    for (no, event) in events.iter().enumerate() {
        moments.push((event.invoked, no));
        moments.push((event.returned.max(event.invoked), no | IS_END));
    }
    moments.sort_unstable();
    let mut stream = Stream::starting_at(base);
    stream.reserve(events.iter().filter(|event| matches!(event.op, Op::Append { .. })).count());
    let mut sights = vec![Sight::default(); events.len()];
    for (_, what) in moments {
        let no = what & !IS_END;
        let op = &events[no].op;
        if what == no {
            sights[no] = stream.begin(no, op)?;
        } else {
            stream.end(no, op, &sights[no])?;
        }
    }
    stream.finish()
}
