//! Many worlds, each from its seed.

mod sweeps;

use headwater_sim::{Bug, Config, run};

#[test]
fn five_hundred_worlds_keep_every_promise() {
    let config = Config::default();
    for seed in 0..500 {
        let report = run(seed, &config);
        assert!(
            report.violation.is_none(),
            "seed {seed}: {}\n\
             cargo run -p headwater-sim --release -- replay --seed {seed} --trace",
            report.violation.expect("there is one"),
        );
    }
}

#[test]
fn the_same_seed_does_the_same_again() {
    let config = Config::default();
    let mut traces: Vec<u64> = (0..40).map(|seed| run(seed, &config).trace).collect();
    for (seed, trace) in traces.iter().enumerate() {
        assert_eq!(run(seed as u64, &config).trace, *trace, "seed {seed}");
    }
    traces.sort_unstable();
    traces.dedup();
    assert_eq!(traces.len(), 40, "every seed is a world of its own");
}

#[test]
fn every_bug_on_purpose_is_noticed() {
    for bug in Bug::ALL {
        let config = Config { bug: Some(bug), ..Config::default() };
        let noticed = (0..bug.seeds_max()).any(|seed| run(seed, &config).violation.is_some());
        assert!(noticed, "{bug} went unnoticed in {} seeds", bug.seeds_max());
    }
}
