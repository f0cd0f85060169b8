//! Each read of the disk fails once: that read of a client fails, and nothing else does, then or
//! later.

use headwater_core::ids::Offset;
use headwater_storage::{Error, Kind, Options};

use super::World;
use super::nth::Points;
use super::script::{Op, options};
use crate::disk::{Failure, Nth};
use crate::oracle::{Check, Expected, violation};

use Op::{
    Append, AppendBy, Checkpoint, Commit, Create, Delete, Fork, Kill, Snapshot, Stop, Upkeep,
};

/// Log files and segments, a fork that reads its source's bytes, a snapshot.
const STORY: [Op; 30] = [
    Create(0),
    Append(0),
    Fork(0, 1),
    AppendBy(1),
    Snapshot(0),
    Commit,
    Append(0),
    Append(1),
    Append(0),
    Commit,
    Checkpoint,
    Upkeep,
    Append(1),
    Append(0),
    Create(2),
    Append(2),
    Commit,
    Checkpoint,
    Upkeep,
    Delete(2),
    Append(0),
    Append(1),
    Commit,
    Checkpoint,
    Upkeep,
    Append(0),
    Commit,
    AppendBy(1),
    Append(0),
    Commit,
];

/// What a process goes on with whose disk has failed it.
const SEQUEL: [Op; 7] = [Append(0), AppendBy(1), Commit, Checkpoint, Upkeep, Create(3), Commit];

/// Lets each call that a reader makes fail, once or from then on, after a crash or a clean stop,
/// with caches of what files say about themselves or without.
pub fn fail_each_read(sticky: bool) -> Points {
    let mut points = Points { scenario: "reads", points: 0, violations: Vec::new() };
    for start in [Kill, Stop] {
        for options in [options(), cached()] {
            for after in 0.. {
                let nth = Nth { failure: Failure::Look, after, sticky, hits: 0 };
                match super::guarded(|| run(start, &options, nth)) {
                    Ok(false) => break,
                    Ok(true) => {}
                    Err(violation) => points.violations.push((after, violation)),
                }
                points.points += 1;
            }
        }
    }
    points
}

fn cached() -> Options {
    Options { footer_cache_bytes: 1 << 20, open_files_max: 64, ..options() }
}

/// False when all was read before the call's turn came.
fn run(start: Op, options: &Options, nth: Nth) -> Check<bool> {
    let mut world = World::scripted(options.clone())?;
    world.follow(&STORY)?;
    world.follow(&[start])?;
    world.disk.with(|medium| medium.faults.nth = Some(nth));
    let failed = read_all(&world)?;
    let hits = world.disk.with(|medium| medium.faults.nth.take().map_or(0, |nth| nth.hits));
    if (hits > 0) != (failed > 0) {
        return violation!("{hits} calls failed, and {failed} reads");
    }
    world.compare()?;
    if read_all(&world)? > 0 {
        return violation!("reads fail on a healthy disk");
    }
    world.follow(&SEQUEL)?;
    if world.down {
        return violation!("the process ended");
    }
    world.compare()?;
    Ok(hits > 0)
}

/// Reads everything that there is; how many reads failed. A reader that is asked again goes on
/// where it was.
fn read_all(world: &World) -> Check<u64> {
    let engine = world.engine();
    let mut failed = 0;
    for (name, stream) in &world.history.live.streams {
        let Some((facts, false)) = engine.facts_now(name) else { continue };
        let mut expected = Expected::new(stream, stream.first, stream.next());
        let mut reader = engine.range(&facts, facts.retained, facts.tail);
        let mut failed_here = 0;
        loop {
            match reader.next() {
                Ok(chunk) => {
                    if !expected.take(chunk, name.key())? {
                        break;
                    }
                }
                Err(error) => {
                    failed += failure(&error)?;
                    failed_here += 1;
                    // For good, if the second attempt fails as well.
                    if failed_here == 2 {
                        break;
                    }
                }
            }
        }
        for record in [stream.first, stream.next() - 1] {
            match engine.record_at(&facts, Offset(stream.start_of(record))) {
                Ok(Some(found)) if found.0 == record as u64 => {}
                Ok(found) => return violation!("{}: {record} is {found:?}", name.key()),
                Err(error) => failed += failure(&error)?,
            }
        }
        if let Some(snapshot) = &stream.snapshot {
            let blobs = engine.blobs();
            match blobs.open(snapshot.blob).and_then(|blob| blob.read(0, usize::MAX)) {
                Ok(got) if got == snapshot.body => {}
                Ok(_) => return violation!("{}: the snapshot has other bytes", name.key()),
                Err(error) => failed += failure(&error)?,
            }
        }
    }
    Ok(failed)
}

/// A failed call is called that, and not damage.
fn failure(error: &Error) -> Check<u64> {
    if error.kind == Kind::Io { Ok(1) } else { violation!("a failed call is called {error}") }
}
