//! The real server against the model, and the model against servers with a fault.

use headwater_model::drive::{Plan, run};
use headwater_model::lie::Lie;

const STEPS: u64 = 40;
const CASES: u64 = 1000;

fn agree(seed: u64) {
    let plan = Plan { seed, steps: STEPS, lie: None };
    let (failures, requests) = run(&plan, 0, CASES, 1);
    if let Some(failure) = failures.first() {
        panic!("{}seed {seed}, case {}: {}", failure.trace, failure.case, failure.what);
    }
    assert_eq!(requests, CASES * STEPS, "a request of each step was compared");
}

/// A thousand cases that are always the same.
#[test]
fn server_and_model_agree_on_the_fixed_seed() {
    agree(1);
}

/// A thousand cases that nobody has seen; the seed is printed if they fail.
#[test]
fn server_and_model_agree_on_a_new_seed() {
    agree(getrandom::u64().unwrap());
}

/// The model notices each of the faults.
#[test]
fn no_lie_is_believed() {
    for lie in Lie::ALL {
        let plan = Plan { seed: 7, steps: STEPS, lie: Some(lie) };
        let (failures, _requests) = run(&plan, 0, 384, 1);
        assert!(!failures.is_empty(), "{lie:?} was believed");
    }
}
