//! Every moment of short stories has its turn: calls that fail, bits that flip, power cuts.

use headwater_sim::{Failure, SCENARIOS, Start, damage, explore, fail_each, fail_each_read};

#[test]
fn any_call_to_the_disk_may_fail_once_or_for_good() {
    let mut points = [0; 4];
    for scenario in 0..SCENARIOS {
        let failures = [Failure::Error, Failure::ShortWrite, Failure::NoSpace, Failure::Sync];
        for (failure, points) in failures.into_iter().zip(&mut points) {
            for sticky in [false, true] {
                let seen = fail_each(scenario, failure, sticky);
                let (name, violations) = (seen.scenario, &seen.violations);
                assert!(violations.is_empty(), "{name}, {failure:?}, {sticky}: {violations:#?}");
                *points += seen.points;
            }
        }
    }
    let [errors, short, no_space, syncs] = points;
    assert!(errors > 400 && short > 60 && no_space > 20 && syncs > 100, "{points:?}");
}

#[test]
fn a_failed_read_of_the_disk_fails_one_read_and_nothing_later() {
    for sticky in [false, true] {
        let seen = fail_each_read(sticky);
        assert!(seen.violations.is_empty(), "{sticky}: {:#?}", seen.violations);
        assert!(seen.points > 50, "{seen:?}");
    }
}

#[test]
fn damage_of_a_directory_is_noticed_or_harmless() {
    let seen = damage(1, 37);
    assert!(seen.violations.is_empty(), "{:#?}", seen.violations);
    assert!(seen.refused > 100 && seen.unreadable > 100 && seen.harmless > 10, "{seen:?}");
}

#[test]
fn every_crash_of_every_pair_of_operations_leaves_what_was_promised() {
    let seen = explore(Start::Empty, 2, (0, 1));
    assert!(seen.violations.is_empty(), "{:#?}", seen.violations);
    assert!(seen.states > 1_000, "{seen:?}");
}

#[test]
fn every_crash_of_every_operation_in_a_directory_in_use_leaves_what_was_promised() {
    let seen = explore(Start::Used, 1, (0, 1));
    assert!(seen.violations.is_empty(), "{:#?}", seen.violations);
    assert!(seen.states > 1_000, "{seen:?}");
}
