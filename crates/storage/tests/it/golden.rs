//! Every byte format that was ever shipped still opens, and newer ones are left alone.
//!
//! `GOLDEN=write cargo test -p headwater-storage golden` writes the directory of the current
//! version; one that was shipped is never written again. Version 1 has no segments,
//! version 2 no keys.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use headwater_core::ids::{BlobId, Lsn, Offset, ShardNo, Timestamp};
use headwater_storage::{Disk, Entry, Error, Kind, MemDisk, Need, Options};

use crate::support::*;

const DIRS: [&str; 5] = ["log", "segment", "checkpoint", "blob", "cut"];

fn path(version: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/v{version}"))
}

pub(crate) fn options() -> Options {
    let (compact_bytes, long_run_bytes) = (500, 400);
    Options { log_file_bytes: 1_200, ring_bytes: 0, compact_bytes, long_run_bytes, ..small() }
}

/// A sealed log below a checkpoint, a log that crashed, and a blob; since version 2 there are
/// segments in place of the older log files.
pub(crate) fn example(version: u32) -> (MemDisk, Model) {
    let disk = MemDisk::new();
    let mut model = Model::default();
    for log_id in 1..3 {
        let (store, _) = open_with(&disk, log_id, options()).unwrap();
        for n in 0..6 {
            let messages = [message(n, 40), message(n + 50, 150)];
            let count = 1 + (n % 2) as usize;
            append(&store, &mut model, stream((n % 2) as u8, 1), &messages[..count]);
            upkeep(&store);
        }
        let bare = Entry { shard: ShardNo(9), meta: "no data".into(), data: None };
        let group = [bare, model.append(stream(2, 2), &[message(99, 10)])];
        enqueue(&store, &group, 0);
        commit(&store);
        if log_id == 1 {
            let mut writer = store.blobs().create(BlobId(0xb10b)).unwrap();
            writer.write(b"a snapshot").unwrap();
            writer.finish().unwrap();
            let mut round = store.begin_checkpoint().unwrap();
            for shard in [0, 1, 2] {
                round.add(ShardNo(shard), store.durable(), &[shard; 5]).unwrap();
            }
            store.finish_checkpoint(round).unwrap();
            store.seal(Timestamp(3_000)).unwrap();
        } else if version > 1 {
            regroup(&store);
            append(&store, &mut model, stream(0, 1), &[message(77, 20)]);
        }
    }
    (disk, model)
}

/// A checkpoint of everything, and segments for what lies below it.
fn regroup(store: &TestStore) {
    let mut round = store.begin_checkpoint().unwrap();
    for shard in [0, 1, 2, 9] {
        round.add(ShardNo(shard), store.durable(), &[shard; 5]).unwrap();
    }
    store.finish_checkpoint(round).unwrap();
    let all = |_, start, _| Need { from: Some(start), older: true };
    while store.compact(&all).unwrap() {}
    upkeep(store);
}

pub(crate) fn load(version: u32) -> MemDisk {
    let disk = MemDisk::new();
    let path = path(version);
    for dir in ["", "log", "segment", "checkpoint", "blob", "cut"] {
        let Ok(entries) = fs::read_dir(path.join(dir)) else { continue };
        disk.create_dir(dir).unwrap();
        for entry in entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_file()) {
            let name = entry.strip_prefix(&path).unwrap().to_str().unwrap().to_owned();
            disk.create(&name).unwrap().write_at(&fs::read(&entry).unwrap(), 0).unwrap();
        }
    }
    disk
}

#[test]
fn version_1_opens() {
    let (store, recorder) = opens(1);
    assert_eq!(store.durable(), Lsn(14));
    let images: Vec<_> =
        recorder.images.iter().map(|(shard, _, image)| (shard.0, &image[..])).collect();
    assert_eq!(images, [(0, &[0; 5][..]), (1, &[1; 5]), (2, &[2; 5])]);
    let entries: Vec<_> =
        recorder.entries.iter().map(|(lsn, shard, ..)| (lsn.0, shard.0)).collect();
    let expected = [(7, 9), (8, 0), (9, 1), (10, 0), (11, 1), (12, 0), (13, 1), (14, 9), (14, 2)];
    assert_eq!(entries, expected);
}

#[test]
fn versions_2_and_3_open() {
    for version in [2, 3] {
        opens_with_segments(version);
    }
}

fn opens_with_segments(version: u32) {
    let (store, recorder) = opens(version);
    assert_eq!(store.durable(), Lsn(15));
    let images: Vec<_> = recorder.images.iter().map(|(shard, ..)| shard.0).collect();
    assert_eq!(images, [0, 1, 2, 9]);
    let entries: Vec<_> =
        recorder.entries.iter().map(|(lsn, shard, ..)| (lsn.0, shard.0)).collect();
    assert_eq!(entries, [(15, 0)]);
    assert!(!load(version).list("segment").unwrap().is_empty());
}

#[test]
fn an_older_directory_is_of_the_newest_version_once_it_was_opened() {
    let disk = load(1);
    drop(open_with(&disk, 3, options()).unwrap());
    let mut version = [0; 4];
    disk.open("MANIFEST").unwrap().read_at(&mut version, 8).unwrap();
    assert_eq!(u32::from_le_bytes(version), 3);
}

fn opens(version: u32) -> (Arc<TestStore>, Recorder) {
    let (disk, (_, model)) = (load(version), example(version));
    let (store, recorder) = open_with(&disk, 3, options()).unwrap();
    assert_eq!(store.directory_id(), DIRECTORY);
    check_all(&store, &model).unwrap();
    for id in model.streams.keys() {
        check_boundaries(&store, &model, *id);
    }
    let blob = store.blobs().open(BlobId(0xb10b)).unwrap();
    assert_eq!(blob.read(0, 100).unwrap(), &b"a snapshot"[..]);
    (store, recorder)
}

#[test]
fn the_writer_still_writes_version_3() {
    let written = example(3).0.contents();
    if std::env::var("GOLDEN").is_ok_and(|value| value == "write") {
        for dir in DIRS {
            fs::create_dir_all(path(3).join(dir)).unwrap();
        }
        for (name, bytes) in &written {
            fs::write(path(3).join(name), bytes).unwrap();
        }
    }
    for ((name, golden), (other, bytes)) in load(3).contents().iter().zip(&written) {
        assert_eq!(name, other);
        assert!(golden == bytes, "{name} is written differently");
    }
    assert_eq!(load(3).contents().len(), written.len());
}

/// Changes one byte; the checksum over the `covered` bytes that end just before the last four is
/// made right again.
fn change(disk: &MemDisk, name: &str, at: u64, covered: Option<u64>) {
    let file = disk.open(name).unwrap();
    let mut byte = [0];
    file.read_at(&mut byte, at).unwrap();
    file.write_at(&[byte[0] + 1], at).unwrap();
    if let Some(covered) = covered {
        let end = file.len().unwrap() - 4;
        let mut bytes = vec![0; covered as usize];
        file.read_at(&mut bytes, end - covered).unwrap();
        file.write_at(&crc32c::crc32c(&bytes).to_le_bytes(), end).unwrap();
    }
}

/// Opening must refuse the version and touch nothing.
fn refused(disk: &MemDisk) -> Error {
    let before = disk.contents();
    let error = open_with(disk, 3, options()).err().unwrap();
    assert!(before == disk.contents(), "{error}");
    error
}

#[test]
fn a_newer_version_is_refused_and_left_untouched() {
    let golden = load(3);
    let newest = format!("log/{}", golden.list("log").unwrap().last().unwrap());
    let versions = golden.contents().into_iter().filter_map(|(name, bytes)| {
        let dir = name.split('/').next().unwrap().to_owned();
        match dir.as_str() {
            "MANIFEST" | "checkpoint" => Some((name, 8, None)),
            // Files below the checkpoint are not read.
            "log" if name == *newest => Some((name, 8, None)),
            _ => None,
        }
        .map(|change| (change, bytes))
    });
    let mut kinds = 0;
    for ((name, at, covered), _) in versions {
        let disk = golden.copy();
        change(&disk, &name, at, covered);
        assert_eq!(refused(&disk).kind, Kind::Format, "{name}");
        kinds += 1;
    }
    assert!(kinds >= 3, "manifest, checkpoint and log files were tried");
    let footer = load(1);
    let name = "log/0000000004.log";
    let len = footer.open(name).unwrap().len().unwrap();
    change(&footer, name, len - 96 + 8, Some(92));
    assert_eq!(refused(&footer).kind, Kind::Format);
    let segment = format!("segment/{}", golden.list("segment").unwrap()[0]);
    let len = golden.open(&segment).unwrap().len().unwrap();
    change(&golden, &segment, len - 56 + 8, Some(52));
    let blob = format!("blob/{}", BlobId(0xb10b));
    change(&golden, &blob, 8, None);
    let (store, _) = open_with(&golden, 3, options()).unwrap();
    assert_eq!(store.blobs().open(BlobId(0xb10b)).err().unwrap().kind, Kind::Format);
    let error = store.read(stream(0, 1), None, Offset(0), Offset(10)).next().unwrap_err();
    assert_eq!(error.kind, Kind::Format);
}
