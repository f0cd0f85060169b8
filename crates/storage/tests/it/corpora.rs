//! Directories that somebody has had their hands in: files that are missing, doubled, swapped or
//! older than the rest. Each is refused and left alone, or read right.

use headwater_core::ids::ShardNo;
use headwater_storage::{Disk, Kind, MemDisk, Need, Verdict};

use crate::golden;
use crate::support::*;
use crate::verify::scan;

/// What a start makes of it.
#[derive(Debug, PartialEq, Eq)]
enum Fate {
    /// It does not start, and nothing has changed.
    Refused,
    /// It starts; some reads fail, and none has wrong bytes.
    Unreadable,
    /// It starts with everything.
    Whole,
}

fn save(store: &TestStore) {
    let mut round = store.begin_checkpoint().unwrap();
    for shard in [0, 1, 2, 3, 9] {
        round.add(ShardNo(shard), store.durable(), &[shard; 5]).unwrap();
    }
    store.finish_checkpoint(round).unwrap();
}

/// Segments, log files below and above the checkpoint; and the same at an earlier time.
fn directory(clean: bool) -> (MemDisk, MemDisk, Model) {
    let disk = golden::load(2);
    let mut model = golden::example(2).1;
    let (store, _) = open_with(&disk, 3, golden::options()).unwrap();
    let earlier = disk.copy();
    for n in 0..8 {
        append(&store, &mut model, stream(3, 1 + n % 2), &[message(n, 200), message(n, 30)]);
        upkeep(&store);
    }
    save(&store);
    let all = |_, start, _| Need { from: Some(start), older: true };
    while store.compact(&all).unwrap() {}
    for n in 0..8 {
        append(&store, &mut model, stream(3, 1), &[message(50 + n, 200)]);
        upkeep(&store);
    }
    save(&store);
    for n in 0..8 {
        append(&store, &mut model, stream(3, 2), &[message(70 + n, 200)]);
        upkeep(&store);
    }
    if clean {
        store.seal(headwater_core::ids::Timestamp(4_000)).unwrap();
    }
    drop(store);
    (disk, earlier, model)
}

fn read(disk: &MemDisk, path: &str) -> Vec<u8> {
    disk.contents().into_iter().find(|(name, _)| name == path).unwrap().1
}

fn put(disk: &MemDisk, path: &str, bytes: &[u8]) {
    if disk.contents().iter().any(|(name, _)| name == path) {
        disk.remove(path).unwrap();
    }
    disk.create(path).unwrap().write_at(bytes, 0).unwrap();
}

fn files(disk: &MemDisk, dir: &str) -> Vec<String> {
    disk.list(dir).unwrap().into_iter().map(|name| format!("{dir}/{name}")).collect()
}

fn fate(disk: &MemDisk, model: &Model, what: &str) -> Fate {
    let (notes, _) = scan(disk);
    let damaged = notes.worst() >= Some(Verdict::Version);
    let before = disk.contents();
    let fate = match open_with(disk, 9, golden::options()) {
        Err(error) => {
            assert!(matches!(error.kind, Kind::Corrupt | Kind::Format), "{what}: {error}");
            assert!(before == disk.contents(), "{what}: refused, but something was changed");
            Fate::Refused
        }
        Ok((store, _)) => match check_all(&store, model) {
            Ok(()) => Fate::Whole,
            Err(error) => {
                assert!(matches!(error.kind, Kind::Corrupt | Kind::Format), "{what}: {error}");
                Fate::Unreadable
            }
        },
    };
    assert!(damaged || fate == Fate::Whole, "{what}: {fate:?}, but a scan finds nothing");
    fate
}

#[test]
fn any_missing_file_is_missed() {
    for clean in [false, true] {
        let (good, _, model) = directory(clean);
        for path in files(&good, "log").into_iter().chain(files(&good, "checkpoint")) {
            let disk = good.copy();
            disk.remove(&path).unwrap();
            let unused = read(&good, &path)[60..].iter().all(|byte| *byte == 0);
            let fate = fate(&disk, &model, &format!("without {path}"));
            let expected = if unused { Fate::Whole } else { Fate::Refused };
            assert_eq!(fate, expected, "without {path}");
        }
        for path in files(&good, "segment") {
            let disk = good.copy();
            disk.remove(&path).unwrap();
            assert_eq!(fate(&disk, &model, &path), Fate::Unreadable, "without {path}");
        }
    }
}

#[test]
fn all_log_files_from_the_floor_on_are_missed_together() {
    let (good, _, model) = directory(false);
    let logs = files(&good, "log");
    for kept in 0..logs.len() {
        let disk = good.copy();
        let gone = &logs[kept..];
        for path in gone {
            disk.remove(path).unwrap();
        }
        let unused = gone.iter().all(|path| read(&good, path)[60..].iter().all(|byte| *byte == 0));
        let expected = if unused { Fate::Whole } else { Fate::Refused };
        assert_eq!(fate(&disk, &model, "a prefix of the log"), expected, "without {gone:?}");
    }
}

#[test]
fn swapped_files_are_not_taken_for_each_other() {
    let (good, _, model) = directory(true);
    for dir in ["log", "segment"] {
        for pair in files(&good, dir).windows(2) {
            let [one, two] = pair else { unreachable!("windows of two") };
            let disk = good.copy();
            put(&disk, one, &read(&good, two));
            put(&disk, two, &read(&good, one));
            assert_ne!(fate(&disk, &model, "swapped"), Fate::Whole, "{one} and {two} swapped");
        }
    }
}

#[test]
fn a_copy_under_another_number_is_refused_or_not_needed() {
    let (good, _, model) = directory(true);
    for (dir, name) in [("log", "0000000099.log"), ("segment", "0000000099.seg")] {
        for path in files(&good, dir) {
            let disk = good.copy();
            put(&disk, &format!("{dir}/{name}"), &read(&good, &path));
            let fate = fate(&disk, &model, &format!("{path} twice"));
            let expected = if dir == "log" { Fate::Refused } else { Fate::Whole };
            assert_eq!(fate, expected, "{path} twice");
        }
    }
}

#[test]
fn an_older_manifest_or_checkpoint_next_to_newer_files_is_refused() {
    let (good, earlier, model) = directory(true);
    let disk = good.copy();
    put(&disk, "MANIFEST", &read(&earlier, "MANIFEST"));
    assert_eq!(fate(&disk, &model, "an older manifest"), Fate::Refused);
    let newest = files(&good, "checkpoint").pop().unwrap();
    let old = files(&earlier, "checkpoint").pop().unwrap();
    let disk = good.copy();
    put(&disk, &newest, &read(&earlier, &old));
    assert_eq!(fate(&disk, &model, "an older checkpoint"), Fate::Refused);
}

#[test]
fn zeroes_behind_the_log_and_room_ahead_of_it_change_nothing() {
    let (good, _, model) = directory(false);
    let newest = files(&good, "log").pop().unwrap();
    for more in [1, 512, 100_000] {
        let disk = good.copy();
        let file = disk.open(&newest).unwrap();
        file.set_len(file.len().unwrap() + more).unwrap();
        assert_eq!(fate(&disk, &model, "a longer file"), Fate::Whole, "{more} zeroes");
    }
    let disk = good.copy();
    put(&disk, "log/0000000099.log", &[]);
    assert_eq!(fate(&disk, &model, "an empty file"), Fate::Whole);
    let disk = good.copy();
    put(&disk, "log/0000000099.log", &[0; 5_000]);
    assert_eq!(fate(&disk, &model, "a file of zeroes"), Fate::Whole);
    let disk = good.copy();
    put(&disk, &newest, &vec![0; read(&good, &newest).len()]);
    let unused = read(&good, &newest)[60..].iter().all(|byte| *byte == 0);
    let expected = if unused { Fate::Whole } else { Fate::Refused };
    assert_eq!(fate(&disk, &model, "zeroes in place of the newest file"), expected);
}
