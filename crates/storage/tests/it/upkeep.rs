//! Checkpoints, replay, reclaim and pins.

use std::collections::BTreeMap;

use headwater_core::ids::{Lsn, Offset, ShardNo, StreamId, Timestamp};
use headwater_storage::{Entry, MemDisk, Options};

use crate::support::*;

fn log_files(disk: &MemDisk) -> Vec<String> {
    let files = disk.contents().into_iter().map(|(path, _)| path);
    files.filter(|path| path.starts_with("log/")).collect()
}

/// A checkpoint of the given shards at `durable`.
fn checkpoint(store: &TestStore, shards: impl IntoIterator<Item = u8>) {
    let mut round = store.begin_checkpoint().unwrap();
    for shard in shards {
        round.add(ShardNo(shard), store.durable(), format!("image {shard}").as_bytes()).unwrap();
    }
    store.finish_checkpoint(round).unwrap();
}

fn grow(store: &TestStore, model: &mut Model, shards: u8, rounds: u64) {
    for round in 0..rounds {
        for shard in 0..shards {
            append(store, model, stream(shard, 1), &[message(round, 100)]);
        }
    }
    upkeep(store);
}

#[test]
fn only_what_lies_above_an_image_is_replayed() {
    let disk = MemDisk::new();
    let (store, _) = open(&disk, 1);
    let mut model = Model::default();
    grow(&store, &mut model, 3, 50);
    let first = store.durable();
    checkpoint(&store, 0..3);
    grow(&store, &mut model, 2, 50);
    let second = store.durable();
    checkpoint(&store, [0]);
    append(&store, &mut model, stream(0, 1), &[message(1, 10)]);
    drop(store);
    let (store, recorder) = open(&disk, 2);
    let images: Vec<_> = recorder.images.iter().map(|(shard, lsn, _)| (shard.0, *lsn)).collect();
    assert_eq!(images, [(0, second), (1, first), (2, second)], "shard 2 had not changed");
    assert_eq!(recorder.images[1].2, b"image 1");
    let above = |shard| recorder.entries.iter().filter(|(_, s, ..)| s.0 == shard).count();
    assert_eq!((above(0), above(1), above(2)), (1, 50, 0));
    check_all(&store, &model).unwrap();
}

#[test]
fn what_counts_as_saved_never_goes_back() {
    let disk = MemDisk::new();
    let (store, _) = open(&disk, 1);
    let mut model = Model::default();
    append(&store, &mut model, stream(0, 1), &[message(0, 10)]);
    let quiet = store.durable();
    grow(&store, &mut model, 2, 1);
    let quiet = quiet.max(store.durable());
    // Shard 0 is quiet from here on, shard 1 is not, and its stream is dropped in the end.
    for round in 0..400 {
        append(&store, &mut model, stream(1, 1), &[message(round, 100)]);
    }
    upkeep(&store);
    let image = |store: &TestStore, shard: u8, lsn: Lsn| {
        let mut round = store.begin_checkpoint().unwrap();
        round.add(ShardNo(shard), lsn, format!("image {shard}").as_bytes()).unwrap();
        round
    };
    let round = image(&store, 0, quiet);
    store.finish_checkpoint(round).unwrap();
    checkpoint(&store, [1]);
    assert!(store.reclaim(&|id, _, _| id == stream(0, 1)).unwrap() > 0);
    // A later round takes the quiet shard's image once more, which is written to before it ends.
    let round = image(&store, 0, quiet);
    append(&store, &mut model, stream(0, 1), &[message(7, 10)]);
    store.finish_checkpoint(round).unwrap();
    drop(store);
    let (store, recorder) = open(&disk, 2);
    let entries = recorder.entries.iter().filter(|(_, shard, ..)| shard.0 == 0).count();
    assert_eq!(entries, 1, "what came behind the image is replayed");
    model.streams.remove(&stream(1, 1));
    check_all(&store, &model).unwrap();
}

#[test]
fn a_full_checkpoint_leaves_nothing_to_replay() {
    let disk = MemDisk::new();
    let (store, _) = open(&disk, 1);
    let mut model = Model::default();
    grow(&store, &mut model, 3, 100);
    let debt = store.replay_debt();
    assert!(debt > 300 * 100, "{debt}");
    checkpoint(&store, 0..3);
    assert_eq!(store.replay_debt(), 0);
    store.seal(Timestamp(5)).unwrap();
    drop(store);
    let (store, recorder) = open(&disk, 2);
    assert_eq!(recorder.entries, []);
    assert!(store.recovered().files <= 1, "{:?}", store.recovered());
    assert_eq!(store.durable(), Lsn(300));
    check_all(&store, &model).unwrap();
    for shard in 0..3 {
        check_boundaries(&store, &model, stream(shard, 1));
    }
}

#[test]
fn old_checkpoint_files_go_when_every_shard_has_a_newer_image() {
    let disk = MemDisk::new();
    let (store, _) = open(&disk, 1);
    let mut model = Model::default();
    for shard in 0..10 {
        append(&store, &mut model, stream(shard, 1), &[message(1, 10)]);
        checkpoint(&store, [shard]);
    }
    assert_eq!(store.checkpoint_files(), 10);
    checkpoint(&store, 0..10);
    assert_eq!(store.checkpoint_files(), 1);
    let files = disk.contents().into_iter().filter(|(path, _)| path.starts_with("checkpoint/"));
    assert_eq!(files.count(), 1);
}

#[test]
fn a_round_that_is_dropped_leaves_no_trace() {
    let disk = MemDisk::new();
    let (store, _) = open(&disk, 1);
    let before = disk.contents();
    let mut round = store.begin_checkpoint().unwrap();
    round.add(ShardNo(1), Lsn(0), b"never").unwrap();
    assert!(before != disk.contents());
    drop(round);
    assert!(before == disk.contents());
    checkpoint(&store, [1]);
    assert_eq!(store.checkpoint_files(), 1);
}

#[test]
#[should_panic(expected = "an image is finished only when its lsn is durable")]
fn an_image_ahead_of_the_log_is_a_bug() {
    let (store, _) = open(&MemDisk::new(), 1);
    let group = [Model::default().append(stream(1, 1), &[message(1, 10)])];
    let lsn = enqueue(&store, &group, 0);
    let mut round = store.begin_checkpoint().unwrap();
    round.add(ShardNo(1), lsn, b"too early").unwrap();
    drop(store.finish_checkpoint(round));
}

#[test]
fn a_file_goes_when_none_of_its_bytes_is_live_and_it_is_below_the_checkpoint() {
    let disk = MemDisk::new();
    let (store, _) = open(&disk, 1);
    let mut model = Model::default();
    grow(&store, &mut model, 2, 200);
    let files = log_files(&disk).len();
    let nothing = |_: StreamId, _: Offset, _: Offset| false;
    assert_eq!(store.reclaim(&nothing).unwrap(), 0, "no checkpoint covers anything");
    checkpoint(&store, 0..2);
    let everything = |_: StreamId, _: Offset, _: Offset| true;
    assert_eq!(store.reclaim(&everything).unwrap(), 0);
    // Keep the last quarter of one stream.
    let floor = Offset(model.tail(stream(0, 1)).0 * 3 / 4 / 100 * 100);
    let live = |id: StreamId, _: Offset, end: Offset| id == stream(0, 1) && end > floor;
    let gone = store.reclaim(&live).unwrap();
    assert!(gone > 0 && log_files(&disk).len() == files - gone);
    assert_eq!(store.reclaim(&live).unwrap(), 0);
    let tail = model.tail(stream(0, 1));
    for log_id in 2..4 {
        let mut reader = store.read(stream(0, 1), None, floor, tail);
        check_range(&mut reader, model.messages(stream(0, 1)), floor, tail).unwrap();
        let next = model.next(stream(0, 1));
        let found = store.boundary(stream(0, 1), None, floor, tail, next).unwrap();
        assert_eq!(found.map(|record| record.0), Some(floor.0 / 100));
        let (reopened, _) = open(&disk, log_id);
        assert_eq!(reopened.durable(), Lsn(400));
    }
}

#[test]
fn a_pinned_file_is_removed_when_the_pin_goes() {
    let disk = MemDisk::new();
    let options = Options { ring_bytes: 0, ..small() };
    let (store, _) = open_with(&disk, 1, options).unwrap();
    let mut model = Model::default();
    grow(&store, &mut model, 1, 200);
    checkpoint(&store, [0]);
    let files = log_files(&disk).len();
    let (id, tail) = (stream(0, 1), model.tail(stream(0, 1)));
    let mut reader = store.read(id, None, Offset::ZERO, tail);
    reader.next().unwrap().unwrap();
    let gone = store.reclaim(&|_, _, _| false).unwrap();
    assert!(gone > 2);
    assert_eq!(log_files(&disk).len(), files);
    assert!(!store.maintain().unwrap());
    while reader.next().unwrap().is_some() {}
    drop(reader);
    assert!(store.maintain().unwrap());
    assert_eq!(log_files(&disk).len(), files - gone);
}

#[test]
fn a_restart_removes_files_that_a_reclaim_had_given_up() {
    let disk = MemDisk::new();
    let (store, _) = open(&disk, 1);
    let mut model = Model::default();
    grow(&store, &mut model, 1, 200);
    checkpoint(&store, [0]);
    let pin = store.pin();
    let files = log_files(&disk).len();
    let gone = store.reclaim(&|_, _, _| false).unwrap();
    assert_eq!((gone > 0, log_files(&disk).len()), (true, files));
    std::mem::forget(pin);
    drop(store);
    let (store, _) = open(&disk, 2);
    assert!(log_files(&disk).len() <= files - gone + 1);
    append(&store, &mut model, stream(0, 1), &[message(9, 9)]);
    let from = Offset(model.tail(stream(0, 1)).0 - 9);
    let mut reader = store.read(stream(0, 1), None, from, model.tail(stream(0, 1)));
    assert_eq!(reader.next().unwrap().unwrap().bytes, message(9, 9));
}

#[test]
fn numbers_and_times_go_on_when_no_log_file_is_left() {
    let disk = MemDisk::new();
    let (store, _) = open(&disk, 1);
    let entry = Entry { data: None, ..Model::default().append(stream(1, 1), &[message(1, 1)]) };
    enqueue(&store, &[entry], 0);
    commit(&store);
    store.seal(Timestamp(9_000)).unwrap();
    let (store, _) = open(&disk, 2);
    checkpoint(&store, [1]);
    assert_eq!(store.reclaim(&|_, _, _| false).unwrap(), 1);
    store.seal(Timestamp(0)).unwrap();
    assert_eq!(log_files(&disk), [""; 0]);
    let (store, _) = open(&disk, 3);
    assert_eq!((store.durable(), store.newest_time()), (Lsn(1), Timestamp(9_000)));
    assert_eq!(log_files(&disk), ["log/0000000002.log"]);
}

#[test]
fn a_purged_stream_is_forgotten() {
    let disk = MemDisk::new();
    let (store, _) = open(&disk, 1);
    let mut model = Model::default();
    grow(&store, &mut model, 2, 100);
    // A reader that is under way is not disturbed; one that comes later finds nothing.
    let mut under_way = store.read(stream(0, 1), None, Offset(0), Offset(100));
    store.forget(stream(0, 1));
    while store.maintain().unwrap() {}
    assert!(under_way.next().unwrap().is_some());
    drop(under_way);
    while store.maintain().unwrap() {}
    let mut reader = store.read(stream(0, 1), None, Offset(0), Offset(100));
    assert!(reader.next().is_err());
    model.streams.remove(&stream(0, 1));
    checkpoint(&store, 0..2);
    store.seal(Timestamp(1)).unwrap();
    let (store, _) = open(&disk, 2);
    store.retain(&|id| id == stream(1, 1));
    check_all(&store, &model).unwrap();
}

#[test]
fn a_sealed_store_refuses_to_write_and_still_reads() {
    let disk = MemDisk::new();
    let (store, _) = open(&disk, 1);
    let mut model = Model::default();
    let group = [model.append(stream(1, 1), &[message(1, 10)])];
    let lsn = enqueue(&store, &group, 77);
    assert_eq!(store.seal(Timestamp(1)).unwrap(), [(lsn, 77)]);
    assert!(store.commit(Timestamp(1)).is_err());
    assert!(store.maintain().is_err());
    assert!(store.reserve(1, headwater_storage::Use::Essential).is_err());
    check_all(&store, &model).unwrap();
    let kept: BTreeMap<_, _> = disk.contents().into_iter().collect();
    let (_store, _) = open(&disk, 2);
    for (path, bytes) in disk.contents() {
        let same = kept.get(&path).is_none_or(|old| *old == bytes);
        assert!(same, "a clean start changed {path}");
    }
}
