//! Every short story, and every disk that a power cut at any moment of it may leave.
//!
//! A sequence of operations is examined at its last one, since what the others leave was examined
//! with the sequences that they end. Two prunings, neither of which can hide anything: of equal
//! disks only one is opened per operation, and nothing is opened after an operation that changed
//! neither the disk nor what is known to be durable, because then the disks are those of the
//! operation before and the oracle would allow more, not less.

use std::sync::Arc;

use headwater_server::engine::{Engine, Seams};

use super::World;
use super::script::{Op, options};
use crate::disk::FaultDisk;
use crate::history::History;
use crate::oracle::{self, Check, Violation, violation};

use Op::{Append, AppendBy, Checkpoint, Close, Commit, Create, Delete, Fork, Retain, Snapshot};

/// The alphabet: what may happen to two streams, the log and the checkpoint.
const OPS: [Op; 18] = [
    Create(0),
    Create(1),
    Append(0),
    Append(1),
    AppendBy(0),
    AppendBy(1),
    Close(0),
    Close(1),
    Delete(0),
    Delete(1),
    Fork(0, 2),
    Fork(1, 3),
    Snapshot(0),
    Snapshot(1),
    Retain(0),
    Retain(1),
    Commit,
    Checkpoint,
];

/// What is there before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// Nothing.
    Empty,
    /// Two streams with messages, one with a snapshot, and a change that is not durable yet.
    Used,
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Explored {
    /// Sequences of operations.
    pub sequences: u64,
    /// Disks that were opened and compared.
    pub states: u64,
    /// Moments with more disks than were tried.
    pub capped: u64,
    /// Broken promises.
    pub violations: Vec<Violation>,
}

/// Tries every sequence of at most `length` operations whose first is one of the `part`th of
/// `parts` of them.
pub fn explore(start: Start, length: usize, (part, parts): (usize, usize)) -> Explored {
    let mut explored = Explored::default();
    let mut sequence = Vec::new();
    for (_, op) in OPS.iter().enumerate().filter(|(no, _)| no % parts == part) {
        sequence.push(*op);
        descend(start, length, &mut sequence, &mut explored);
        sequence.pop();
    }
    explored
}

fn descend(start: Start, length: usize, sequence: &mut Vec<Op>, explored: &mut Explored) {
    explored.sequences += 1;
    if let Err(Violation(why)) = super::guarded(|| examine(start, sequence, explored)) {
        explored.violations.push(Violation(format!("{start:?} {sequence:?}: {why}")));
    }
    if sequence.len() == length {
        return;
    }
    for op in OPS {
        sequence.push(op);
        descend(start, length, sequence, explored);
        sequence.pop();
    }
}

/// Runs a sequence, and opens all that its last operation may leave.
fn examine(start: Start, sequence: &[Op], explored: &mut Explored) -> Check {
    let mut world = World::scripted(options())?;
    if start == Start::Used {
        world.follow(&[Create(0), Append(0), Create(1), AppendBy(1), Snapshot(1), Commit])?;
        world.follow(&[Append(1)])?;
    }
    let Some((last, before)) = sequence.split_last() else { return Ok(()) };
    world.follow(before)?;
    if *last == Checkpoint {
        watch(&mut world, explored, World::begin_checkpoint)?;
        watch(&mut world, explored, World::commit_all)?;
        return watch(&mut world, explored, World::finish_checkpoint);
    }
    watch(&mut world, explored, |world| world.perform(*last))
}

/// Does one thing, and opens all that a power cut during or after it may leave.
fn watch(
    world: &mut World,
    explored: &mut Explored,
    act: impl FnOnce(&mut World) -> Check,
) -> Check {
    let earlier = world.history.clone();
    let changes = world.disk.with(|medium| medium.changes);
    world.disk.note_moments();
    act(world)?;
    let settled = earlier.unsettled() > world.history.unsettled();
    if world.disk.with(|medium| medium.changes) == changes && !settled {
        return Ok(());
    }
    // At a moment within, what is durable now need not have been so.
    let (mut within, capped) = world.disk.outcomes();
    explored.capped += u64::from(capped);
    let (after, _) = world.disk.outcomes();
    within.retain(|print, _| !after.contains_key(print));
    let later = world.history.clone();
    for (disks, history) in [(within, earlier), (after, later)] {
        for disk in disks.into_values() {
            explored.states += 1;
            judge(world, &disk, &history)?;
        }
    }
    Ok(())
}

fn judge(world: &mut World, disk: &FaultDisk, history: &History) -> Check {
    let seams = Seams { disk: Arc::new(disk.clone()), ..world.seams() };
    let engine = match Engine::open(seams, world.options.clone()) {
        Ok(engine) => engine,
        Err(error) => return violation!("it does not open: {}", error.0),
    };
    let (model, ..) = oracle::resolve(&engine, history, &[])?;
    oracle::check_everything(&engine, &model)
}
