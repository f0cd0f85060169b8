//! Random histories, right and spoilt.

use headwater_history::{Event, NEVER, check};

use crate::rng::Rng;
use crate::search::is_linearizable;
use crate::simulate::{history, spoil};

const HISTORIES: u64 = 2000;
const CALLS_MAX: usize = 40;

#[test]
fn long_histories_of_a_real_stream_pass() {
    for seed in 0..40 {
        let events = history(&mut Rng(seed), 5000);
        assert_eq!(check(&events), Ok(()), "seed {seed}");
    }
}

#[test]
fn the_order_in_which_events_are_listed_does_not_matter() {
    for seed in 0..40 {
        let mut rng = Rng(seed);
        let mut events = history(&mut rng, 300);
        for at in (1..events.len()).rev() {
            events.swap(at, rng.index(at + 1));
        }
        assert_eq!(check(&events), Ok(()), "seed {seed}");
    }
}

/// Half of the histories are spoilt. Both judges must say the same of each.
#[test]
fn two_thousand_histories_are_judged_as_a_search_through_all_orders_judges_them() {
    let (mut wrong, mut spoilt) = (0, 0);
    for seed in 0..HISTORIES {
        let mut rng = Rng(seed);
        let calls = 5 + rng.index(CALLS_MAX - 4);
        let mut events = history(&mut rng, calls);
        if seed % 2 == 1 {
            spoilt += 1;
            (0..=rng.below(2)).for_each(|_| spoil(&mut rng, &mut events));
            read_last(&mut events);
        }
        let verdict = check(&events);
        let possible = is_linearizable(&events);
        assert_eq!(verdict.is_ok(), possible, "seed {seed}: {verdict:?}\n{}", listing(&events));
        assert!(seed % 2 == 1 || possible, "seed {seed} is the history of a real stream");
        wrong += u64::from(!possible);
    }
    // Many changes leave a possible history behind; most do not.
    assert!(2 * wrong > spoilt, "only {wrong} of {spoilt} spoilt histories are impossible");
}

/// The read of everything begins when all else has ended, whatever became of that.
fn read_last(events: &mut [Event]) {
    let ended = events.iter().map(|event| event.returned).filter(|end| *end != NEVER).max();
    let last = events.last_mut().expect("a history has a last event");
    last.invoked = ended.unwrap_or(0) + 1;
    last.returned = last.invoked + 1;
}

fn listing(events: &[Event]) -> String {
    let lines: Vec<String> =
        events.iter().enumerate().map(|(no, event)| format!("#{no} {event:?}")).collect();
    lines.join("\n")
}
