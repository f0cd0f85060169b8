//! Whole data directories, damaged: whatever a start makes of one, it says so, it serves no byte
//! that was not written, and it removes nothing that might be needed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use bytes::Bytes;
use headwater_core::ids::{BlobId, Offset, StreamName};
use headwater_server::engine::Engine;
use headwater_storage::fuzz::frame;
use headwater_storage::{Kind, MemDisk, verify};

use crate::files::Looker;
use crate::input::Input;
use edit::Edits;

mod build;
mod edit;

/// Background work after a start, in steps.
const UPKEEP_STEPS: usize = 12;

/// The file that a start replaces, or makes anew.
const DROPPED: [&str; 1] = ["MANIFEST.tmp"];

/// A directory that the engine has written, and what was in it.
struct Place {
    disk: MemDisk,
    streams: BTreeMap<StreamName, Bytes>,
    blobs: BTreeMap<BlobId, Bytes>,
}

/// One of three directories, then edits: see [`Edits`].
pub(crate) fn run(data: &[u8]) {
    static PLACES: LazyLock<[Place; 3]> = LazyLock::new(|| {
        [build::Ending::Killed, build::Ending::Stopped, build::Ending::Compacted].map(build::place)
    });
    let mut input = Input::new(data);
    let place = &PLACES[input.below(PLACES.len())];
    let disk = place.disk.copy();
    let edits = Edits::read(input);
    edits.carry_out(&disk);
    let before = disk.contents();
    verify(&disk, &mut Looker::default()).expect("a disk in memory can be listed");
    assert!(before == disk.contents(), "a scan changes nothing");
    // Files whose checksums were made right again may say anything; others must not.
    let honest = (!edits.mended).then_some(place);
    match Engine::open(build::seams(&disk, 77), build::options()) {
        Err(refused) => {
            let kind = refused.0.kind;
            assert!(matches!(kind, Kind::Corrupt | Kind::Format), "{:?}", refused.0);
            assert!(before == disk.contents(), "refused, but something was changed");
        }
        Ok(engine) => {
            check_removed(&before, &disk, &engine);
            read_all(&engine, honest);
            for _ in 0..UPKEEP_STEPS {
                if engine.maintain().is_err() || engine.commit().is_err() {
                    break;
                }
            }
            read_all(&engine, honest);
        }
    }
}

/// Reads every stream and snapshot that the engine shows.
fn read_all(engine: &Engine, honest: Option<&Place>) {
    for name in engine.names() {
        let Some((facts, _hidden)) = engine.facts_now(&name) else { continue };
        if facts.retained > facts.tail {
            assert!(honest.is_none(), "{name:?} begins behind its end");
            continue;
        }
        let mut reader = engine.range(&facts, facts.retained, facts.tail);
        let (mut at, mut record) = (facts.retained, facts.first);
        while let Ok(Some(chunk)) = reader.next() {
            assert_eq!(chunk.offset, at, "the next byte is the next one");
            assert!(!chunk.bytes.is_empty() || chunk.ends.is_empty());
            if let Some(place) = honest {
                let whole = place.streams.get(&name).expect("a stream that was created");
                let start = usize::try_from(at.0).expect("a small stream");
                let written = whole.get(start..start + chunk.bytes.len());
                assert_eq!(written, Some(&chunk.bytes[..]), "{name:?} at {at}");
                assert_eq!(chunk.record, record, "records are counted on");
            }
            at = Offset(at.0 + chunk.bytes.len() as u64);
            record.0 += chunk.ends.len() as u64;
        }
        // Each may fail, and neither may panic.
        drop((engine.record_at(&facts, facts.tail), engine.start_of(&facts, facts.first)));
        let Some(snapshot) = &facts.snapshot else { continue };
        let Ok(blob) = engine.blobs().open(snapshot.blob) else { continue };
        if let Ok(bytes) = blob.read(0, 1 << 20)
            && let Some(place) = honest
        {
            assert_eq!(place.blobs.get(&snapshot.blob), Some(&bytes), "{name:?}'s snapshot");
        }
    }
}

/// Of what was there, a start keeps all but leftovers, as `docs/format.md` lists them.
fn check_removed(before: &[(String, Vec<u8>)], disk: &MemDisk, engine: &Engine) {
    let after: BTreeSet<String> = disk.contents().into_iter().map(|(path, _)| path).collect();
    let manifest = before.iter().find(|(path, _)| path == "MANIFEST");
    let named = engine.names();
    let needed: BTreeSet<String> = named
        .iter()
        .filter_map(|name| engine.facts_now(name)?.0.snapshot.clone())
        .map(|snapshot| headwater_storage::blob_path(snapshot.blob))
        .collect();
    for (path, bytes) in before.iter().filter(|(path, _)| !after.contains(path)) {
        let (dir, name) = path.split_once('/').unwrap_or(("", path));
        let leftover = match dir {
            "" => DROPPED.contains(&name),
            "log" => {
                !holds_frames(bytes) || !is_listed(manifest, name, below_floor(manifest, name))
            }
            "segment" | "checkpoint" => !is_listed(manifest, name, false),
            "blob" => !needed.contains(path),
            _ => false,
        };
        assert!(leftover, "{path} was removed");
    }
}

/// Whether there is an intact frame anywhere.
fn holds_frames(file: &[u8]) -> bool {
    let file = Bytes::copy_from_slice(file);
    (0..file.len()).any(|at| file[at..].starts_with(b"HWfr") && frame(&file, at).is_some())
}

/// Whether the number of a log file lies below the manifest's floor.
fn below_floor(manifest: Option<&(String, Vec<u8>)>, name: &str) -> bool {
    let floor = manifest.and_then(|(_, bytes)| bytes.get(12..16)?.try_into().ok());
    let floor = floor.map_or(0, u32::from_le_bytes);
    name.get(..10).and_then(|no| no.parse::<u32>().ok()).is_some_and(|no| no < floor)
}

/// Whether the manifest may name the file: its number stands somewhere in it, or it need not be.
fn is_listed(manifest: Option<&(String, Vec<u8>)>, name: &str, may_be_missing: bool) -> bool {
    let Some((_, bytes)) = manifest else { return false };
    let Some(number) = name.get(..10).and_then(|no| no.parse::<u32>().ok()) else { return false };
    let lists = lists(bytes).unwrap_or_default();
    match name.rsplit_once('.').map(|(_, kind)| kind) {
        Some("log") => !may_be_missing || lists.logs.contains(&number),
        Some("seg") => lists.segments.contains(&number),
        _ => lists.checkpoints.contains(&number),
    }
}

/// The numbers of files that a manifest names.
#[derive(Default)]
struct Lists {
    logs: BTreeSet<u32>,
    segments: BTreeSet<u32>,
    checkpoints: BTreeSet<u32>,
}

fn lists(manifest: &[u8]) -> Option<Lists> {
    let short = |at: usize| {
        let bytes = manifest.get(at..at + 4)?.try_into().ok()?;
        Some(u32::from_le_bytes(bytes))
    };
    let mut lists = Lists::default();
    let (shards, files) = (short(64)?, short(68)?);
    lists.checkpoints.insert(short(72)?);
    let mut at = 100;
    for _ in 0..shards {
        lists.checkpoints.insert(short(at + 8)?);
        at += 36;
    }
    for _ in 0..files {
        lists.logs.insert(short(at)?);
        at += 28;
    }
    if short(8)? > 1 {
        at += 8;
        for _ in 0..short(at - 4)? {
            lists.segments.insert(short(at)?);
            at += 40;
        }
    }
    // No block has a file of this number.
    lists.checkpoints.remove(&0);
    Some(lists)
}
