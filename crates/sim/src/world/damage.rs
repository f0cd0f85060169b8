//! Damage everywhere: every bit of small data directories flipped, every file cut at every length.

use headwater_core::ids::ShardNo;
use headwater_server::engine::Engine;
use headwater_storage::{Finding, Part, Piece, Seen, Verdict, Watcher};

use super::World;
use super::script::{Op, options};
use crate::disk::FaultDisk;
use crate::model::Model;
use crate::oracle::{self, Check, Violation, violation};

/// The header of a log file, without which nothing can be told of it.
const HEADER_BYTES: usize = 60;

/// What a sweep over the bytes of small directories has seen.
#[derive(Debug, Default)]
pub struct Damage {
    /// Bytes of all files of all directories.
    pub bytes: u64,
    /// Flipped bits.
    pub flips: u64,
    /// Files that were cut short.
    pub cuts: u64,
    /// Directories that a start refused.
    pub refused: u64,
    /// Directories of which some reads failed.
    pub unreadable: u64,
    /// Directories that a start took for torn ones.
    pub torn: u64,
    /// Damage that changed nothing.
    pub harmless: u64,
    /// Cuts that leave of the only log file no more than its header.
    pub unmade: u64,
    /// Damage that a scan does not see, in bytes that nothing needs.
    pub unseen: u64,
    /// Where a promise was broken.
    pub violations: Vec<Violation>,
}

/// A directory and what is in it.
struct Place {
    disk: FaultDisk,
    model: Model,
    /// Without the last frame, where the log has no seal.
    torn: Option<Model>,
}

/// Flips `bits` bits of every byte, rotating, and cuts at every length; of both every `stride`th.
pub fn damage(bits: u8, stride: usize) -> Damage {
    let mut seen = Damage::default();
    for kind in 0..3 {
        let mut world = match build(kind) {
            Ok(built) => built,
            Err(violation) => {
                seen.violations.push(violation);
                continue;
            }
        };
        for (path, good) in world.1.disk.contents() {
            seen.bytes += good.len() as u64;
            for at in (0..good.len()).step_by(stride) {
                for bit in 0..bits {
                    let mut bytes = good.clone();
                    bytes[at] ^= 1 << ((at + usize::from(bit)) % 8);
                    seen.flips += 1;
                    let what = format!("directory {kind}, bit {bit} of byte {at} in {path}");
                    try_one(&mut world, &mut seen, &path, &bytes, &what);
                }
                seen.cuts += 1;
                let what = format!("directory {kind}, {path} cut at {at}");
                try_one(&mut world, &mut seen, &path, &good[..at], &what);
            }
        }
    }
    seen
}

/// A directory as a crash, a stop, or a stop after compactions leaves it.
fn build(kind: u8) -> Check<(World, Place)> {
    use Op::{Append, AppendBy, Checkpoint, Commit, Create, Delete, Fork, Snapshot, Upkeep};
    let mut world = World::scripted(options())?;
    world.follow(&[Create(0), Append(0), Fork(0, 1), AppendBy(1), Snapshot(0), Commit])?;
    if kind != 1 {
        world.follow(&[Append(0), Append(1), Append(0), Commit, Checkpoint, Upkeep])?;
        world.follow(&[Append(1), Append(0), Create(2), Append(2), Commit, Checkpoint, Upkeep])?;
        world.follow(&[Delete(2), Append(0), Append(1), Commit, Checkpoint, Upkeep])?;
    }
    world.follow(&[Append(0), Commit])?;
    let before = world.history.live.clone();
    world.follow(&[AppendBy(1), Commit])?;
    let model = world.history.live.clone();
    let sealed = kind == 2;
    if sealed {
        let engine = world.engine();
        let stopped = engine.seal();
        if let Err(error) = stopped {
            return violation!("the stop failed: {error}");
        }
    }
    let _unanswered = world.end_process();
    let disk = world.disk.crash(false);
    Ok((world, Place { disk, model, torn: (!sealed).then_some(before) }))
}

fn try_one(world: &mut (World, Place), seen: &mut Damage, path: &str, bytes: &[u8], what: &str) {
    let judged = super::guarded(|| judge(&mut world.0, &world.1, seen, path, bytes));
    if let Err(Violation(why)) = judged {
        seen.violations.push(Violation(format!("{what}: {why}")));
    }
}

fn judge(world: &mut World, place: &Place, seen: &mut Damage, path: &str, bytes: &[u8]) -> Check {
    let disk = place.disk.copy();
    let logs = disk.with(|medium| medium.files_in("log/").len());
    if path.starts_with("log/") && logs == 1 && bytes.len() <= HEADER_BYTES {
        // The stated exception: the only log file, without even a header, was being made.
        seen.unmade += 1;
        return Ok(());
    }
    disk.replace(path, bytes);
    let found = scan(&disk)?;
    let before = disk.contents();
    world.disk = disk.clone();
    match Engine::open(world.seams(), world.options.clone()) {
        Err(error) if !oracle::reports_damage(error.0.kind) => {
            return violation!("damage is called {}", error.0);
        }
        Err(error) => {
            seen.refused += 1;
            if disk.contents() != before {
                return violation!("refused ({}), but something was changed", error.0);
            }
        }
        Ok(engine) => {
            let torn = engine.recovered().cut_bytes > 0;
            let whole = oracle::check_damaged(&engine, &place.model);
            let noticed = match (whole, &place.torn) {
                (Err(_), Some(before)) if torn || found => {
                    seen.torn += 1;
                    let noticed = oracle::check_damaged(&engine, before)?;
                    return if noticed && !found {
                        violation!("a read fails, but a scan finds nothing")
                    } else {
                        Ok(())
                    };
                }
                (whole, _) => whole?,
            };
            let blobs = unreadable_blobs(&engine, &place.model)?;
            *(if noticed || blobs { &mut seen.unreadable } else { &mut seen.harmless }) += 1;
            if (noticed || blobs) && !found {
                return violation!("a read fails, but a scan finds nothing");
            }
            if path.starts_with("log/") || path.starts_with("segment/") {
                let gone = before.iter().any(|(old, _)| *old == path)
                    && !disk.contents().iter().any(|(kept, _)| kept == path);
                if gone && noticed {
                    return violation!("the damaged file was removed");
                }
            }
        }
    }
    seen.unseen += u64::from(!found);
    Ok(())
}

/// Whether a snapshot cannot be read; wrong bytes are a violation.
fn unreadable_blobs(engine: &Engine, model: &Model) -> Check<bool> {
    let mut unreadable = false;
    for (name, stream) in &model.streams {
        let Some(snapshot) = &stream.snapshot else { continue };
        let read = || -> Result<Vec<u8>, headwater_storage::Error> {
            let blob = engine.blobs().open(snapshot.blob)?;
            Ok(blob.read(0, usize::MAX)?.to_vec())
        };
        match read() {
            Ok(got) if got == snapshot.body => {}
            Ok(_) => return violation!("{}: the snapshot has other bytes", name.key()),
            Err(_) => unreadable = true,
        }
    }
    Ok(unreadable)
}

/// Whether a scan finds anything that is not as it should be.
fn scan(disk: &FaultDisk) -> Check<bool> {
    let mut notes = Notes::default();
    match headwater_storage::verify(disk, &mut notes) {
        Ok(_) => Ok(notes.0),
        Err(error) => violation!("the scan fails: {error}"),
    }
}

#[derive(Default)]
struct Notes(bool);

impl Watcher for Notes {
    fn finding(&mut self, finding: Finding) {
        self.0 |= finding.verdict >= Verdict::Torn || finding.part == Part::File;
    }

    fn image(&mut self, _shard: ShardNo, _named: bool, _image: &[u8]) -> Result<(), String> {
        Ok(())
    }

    fn entry(&mut self, _seen: Seen<'_>) -> Result<(), String> {
        Ok(())
    }

    fn bytes(&mut self, _piece: Piece, _bytes: &[u8]) {}
}
