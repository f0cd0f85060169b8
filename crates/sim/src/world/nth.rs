//! Each call to the disk fails once, in scripts that together use everything that the engine does.

use headwater_storage::Kind;

use super::World;
use super::script::{Op, options};
use crate::disk::{Failure, Nth};
use crate::oracle::{Check, Violation, violation};

/// A story: what happened before, and the part whose every call fails in turn.
struct Scenario {
    name: &'static str,
    before: &'static [Op],
    part: &'static [Op],
}

use Op::{
    Append, AppendBy, Batch, Checkpoint, Close, Commit, Create, CreateShort, Delete, Fork, Kill,
    Pass, Retain, Snapshot, Stop, Upkeep,
};

const STORIES: [Scenario; 14] = [
    Scenario {
        name: "create and append",
        before: &[],
        part: &[Create(0), Append(0), Commit, Append(0), Append(0), Commit],
    },
    Scenario {
        name: "producer",
        before: &[Create(0), Commit],
        part: &[AppendBy(0), Commit, AppendBy(0), AppendBy(0), Commit],
    },
    Scenario {
        name: "close",
        before: &[Create(0), Append(0), Commit],
        part: &[Close(0), Append(0), Commit],
    },
    Scenario {
        name: "delete",
        before: &[Create(0), Append(0), Commit],
        part: &[Delete(0), Commit, Create(0), Append(0), Commit],
    },
    Scenario {
        name: "fork",
        before: &[Create(0), Append(0), Commit],
        part: &[Fork(0, 1), Append(1), Commit, Delete(0), Commit],
    },
    Scenario {
        name: "fork chain",
        before: &[Create(0), Append(0), Fork(0, 1), Append(1), Commit],
        part: &[Fork(1, 2), Append(2), Commit, Fork(2, 3), Delete(1), Delete(2), Commit, Upkeep],
    },
    Scenario {
        name: "snapshot",
        before: &[Create(0), Append(0), Commit],
        part: &[Snapshot(0), Commit, Append(0), Snapshot(0), Commit],
    },
    Scenario {
        name: "retain",
        before: &[Create(0), Append(0), Append(0), Snapshot(0), Commit],
        part: &[Append(0), Retain(0), Commit, Checkpoint, Upkeep],
    },
    Scenario {
        name: "batch",
        before: &[Create(0), Commit],
        part: &[Batch(0), Commit, Batch(0), Commit],
    },
    Scenario {
        name: "checkpoint",
        before: &[Create(0), Append(0), Commit],
        part: &[Checkpoint, Append(0), Checkpoint, Append(0), Commit],
    },
    Scenario {
        name: "compaction and merge",
        before: &[
            Create(0),
            Create(1),
            Append(0),
            Append(1),
            Append(0),
            Append(1),
            Append(0),
            Commit,
            Append(0),
            Append(0),
            Append(1),
            Append(0),
            Append(0),
            Append(1),
            Commit,
        ],
        part: &[Checkpoint, Upkeep, Delete(1), Commit, Checkpoint, Upkeep],
    },
    Scenario {
        name: "recovery",
        before: &[Create(0), Append(0), Commit, Checkpoint, Append(0), Append(0), Commit],
        part: &[Kill],
    },
    Scenario {
        name: "expiry",
        before: &[CreateShort(0), Create(1), Append(0), Commit],
        part: &[Pass(5_000), Upkeep, Commit, Checkpoint, Upkeep],
    },
    Scenario {
        name: "clean stop",
        before: &[Create(0), Append(0), Commit],
        part: &[Append(0), Stop, Append(0), Commit],
    },
];

/// How many scenarios there are.
pub const SCENARIOS: usize = STORIES.len();

/// What a sweep over the calls of one scenario has seen.
#[derive(Debug)]
pub struct Points {
    /// What happens in it.
    pub scenario: &'static str,
    /// Calls that failed, each in a world of its own.
    pub points: u64,
    /// Worlds with a broken promise.
    pub violations: Vec<(u64, Violation)>,
}

/// Lets each call of a scenario fail that can fail so, once or from then on.
pub fn fail_each(scenario: usize, failure: Failure, sticky: bool) -> Points {
    let story = &STORIES[scenario];
    let mut points = Points { scenario: story.name, points: 0, violations: Vec::new() };
    for after in 0.. {
        let nth = Nth { failure, after, sticky, hits: 0 };
        match super::guarded(|| run(story, nth)) {
            Ok(false) => break,
            Ok(true) => {}
            Err(violation) => points.violations.push((after, violation)),
        }
        points.points += 1;
    }
    points
}

/// Runs a scenario; false when it was over before the call's turn came.
fn run(story: &Scenario, nth: Nth) -> Check<bool> {
    let mut world = World::scripted(options())?;
    world.follow(story.before)?;
    world.disk.with(|medium| medium.faults.nth = Some(nth));
    world.follow(story.part)?;
    let hits = world.disk.with(|medium| medium.faults.nth.map_or(0, |nth| nth.hits));
    if hits == 0 {
        return Ok(false);
    }
    if !world.down {
        // Nothing stopped: there was no room, and now there is.
        world.disk.with(|medium| {
            medium.faults.nth = None;
            medium.full = false;
        });
        world.follow(&[Create(9), Append(9), Commit])?;
        world.check()?;
    }
    come_back(&mut world, nth)?;
    world.follow(&[Create(8), Append(8), AppendBy(8), Commit])?;
    world.compare()?;
    Ok(true)
}

/// Starts again after the failure: in vain while the disk goes on failing, then for good.
fn come_back(world: &mut World, nth: Nth) -> Check {
    let power_cut = nth.after % 2 == 1;
    let _unanswered = world.end_process();
    world.disk = world.disk.crash(power_cut);
    if nth.sticky {
        world.disk.with(|medium| medium.faults.nth = Some(Nth { after: 0, hits: 0, ..nth }));
        let opened = headwater_server::engine::Engine::open(world.seams(), world.options.clone());
        if let Err(error) = opened
            && matches!(error.0.kind, Kind::Corrupt | Kind::Format)
        {
            return violation!("a disk that fails passes for a damaged one: {}", error.0);
        }
        world.disk = world.disk.crash(!power_cut);
    }
    world.disk.with(|medium| medium.faults.nth = None);
    world.restart()?;
    if world.down {
        return violation!("the data directory does not open on a healthy disk");
    }
    world.compare()
}
