//! Enqueue, commit, read back.

use std::time::Duration;

use bytes::Bytes;
use headwater_core::ids::{Lsn, Offset, Timestamp};
use headwater_storage::{Entry, Lens, MemDisk, Options, Use};

use crate::support::*;

#[test]
fn what_was_committed_is_read_back_now_and_after_a_restart() {
    let disk = MemDisk::new();
    let (store, _) = open(&disk, 1);
    let mut model = Model::default();
    for round in 0..300 {
        let id = stream((round % 5) as u8, 1);
        let messages: Vec<_> = (0..=round % 4).map(|n| message(round * 10 + n, 50)).collect();
        append(&store, &mut model, id, &messages);
    }
    check_all(&store, &model).unwrap();
    upkeep(&store);
    check_all(&store, &model).unwrap();
    store.seal(Timestamp(3_000)).unwrap();
    drop(store);
    let (store, recorder) = open(&disk, 2);
    assert!(store.recovered().clean);
    assert_eq!(recorder.entries.len(), 300);
    assert_eq!(store.newest_time(), Timestamp(3_000));
    check_all(&store, &model).unwrap();
    for shard in 0..5 {
        let id = stream(shard, 1);
        assert_eq!(recorder.tails()[&id], (model.tail(id), model.next(id)));
        check_boundaries(&store, &model, id);
    }
}

#[test]
fn one_frame_takes_all_that_is_queued_and_completes_in_order() {
    let (store, _) = open(&MemDisk::new(), 1);
    let mut model = Model::default();
    let mut expected = Vec::new();
    for n in 1..=20 {
        let group = [model.append(stream(1, 1), &[message(n, 10)])];
        let lsn = enqueue(&store, &group, n);
        assert_eq!((lsn, store.enqueued()), (Lsn(n), Lsn(n)));
        expected.push((lsn, n));
    }
    assert_eq!(store.durable(), Lsn(0));
    assert_eq!(store.commit(Timestamp(1)).unwrap(), expected);
    assert_eq!(store.durable(), Lsn(20));
    assert_eq!(store.commit(Timestamp(1)).unwrap(), []);
    check_all(&store, &model).unwrap();
}

#[test]
fn a_frame_stops_at_its_cap_and_a_larger_group_goes_alone() {
    let options = Options { frame_bytes_max: 1_000, ..small() };
    let (store, _) = open_with(&MemDisk::new(), 1, options).unwrap();
    let mut model = Model::default();
    let mut sizes = vec![400; 5];
    sizes.push(5_000);
    sizes.push(10);
    for (n, size) in (0..).zip(&sizes) {
        let group = [model.append(stream(1, 1), &[message(n, *size)])];
        enqueue(&store, &group, n);
    }
    let mut frames = Vec::new();
    loop {
        let done = store.commit(Timestamp(1)).unwrap();
        if done.is_empty() {
            break;
        }
        frames.push(done.into_iter().map(|(_, n)| n).collect::<Vec<_>>());
    }
    assert_eq!(frames, [vec![0, 1], vec![2, 3], vec![4], vec![5], vec![6]]);
    check_all(&store, &model).unwrap();
}

#[test]
fn a_group_spans_shards_and_has_one_lsn() {
    let disk = MemDisk::new();
    let (store, _) = open(&disk, 1);
    let mut model = Model::default();
    let (a, b) = (stream(1, 1), stream(2, 1));
    let bare = Entry { data: None, ..model.append(stream(9, 9), &[]) };
    model.streams.clear();
    let group =
        [model.append(a, &[message(1, 10)]), bare.clone(), model.append(b, &[message(2, 20)])];
    enqueue(&store, &group, 0);
    enqueue(&store, &[bare], 1);
    commit(&store);
    check_all(&store, &model).unwrap();
    drop(store);
    let (store, recorder) = open(&disk, 2);
    let lsns: Vec<_> = recorder.entries.iter().map(|(lsn, shard, ..)| (lsn.0, shard.0)).collect();
    assert_eq!(lsns, [(1, 1), (1, 9), (1, 2), (2, 9)]);
    assert_eq!(store.durable(), Lsn(2));
    check_all(&store, &model).unwrap();
}

#[test]
fn a_ten_megabyte_entry_is_read_in_verified_parts() {
    let disk = MemDisk::new();
    let options = Options { ring_bytes: 1 << 20, ..small() };
    let (store, _) = open_with(&disk, 1, options).unwrap();
    let mut model = Model::default();
    let id = stream(1, 1);
    append(&store, &mut model, id, &[message(1, 10)]);
    append(&store, &mut model, id, &[message(2, 10 << 20)]);
    append(&store, &mut model, id, &[message(3, 10)]);
    let many: Vec<_> = (0..50_000).map(|n| message(n, 1 + (n % 40) as usize)).collect();
    append(&store, &mut model, id, &many);
    let tail = model.tail(id);
    let mut reader = store.read(id, None, Offset::ZERO, tail);
    assert!(!reader.is_hot(), "the large entry has pushed everything else out of the ring");
    assert!(chunks(&mut reader).unwrap().iter().all(|chunk| chunk.bytes.len() <= 256 << 10));
    for from in [0, 10, 10 + (10 << 20), 20 + (10 << 20)] {
        let mut reader = store.read(id, None, Offset(from), tail);
        let all = model.messages(id).concat();
        let read = chunks(&mut reader).unwrap();
        let read: Vec<_> = read.iter().flat_map(|chunk| chunk.bytes.to_vec()).collect();
        assert!(read == all[from as usize..]);
    }
    let middle = Offset(tail.0 - many[40_000..].concat().len() as u64);
    let boundary = store.boundary(id, None, middle, tail, model.next(id)).unwrap();
    assert_eq!(boundary.unwrap().0, 3 + 40_000);
    let mut reader = store.read(id, None, middle, tail);
    let first = reader.next().unwrap().unwrap();
    assert_eq!((first.offset, first.record.0), (middle, 3 + 40_000));
    assert_eq!(first.ends[0], u32::try_from(many[40_000].len()).unwrap());
    drop(store);
    let (store, _) = open(&disk, 2);
    let mut reader = store.read(id, None, Offset(0), tail);
    let read: usize = chunks(&mut reader).unwrap().iter().map(|chunk| chunk.bytes.len()).sum();
    assert_eq!(read as u64, tail.0);
}

#[test]
fn extents_end_at_message_boundaries() {
    let (store, _) = open(&MemDisk::new(), 1);
    let mut model = Model::default();
    let id = stream(1, 1);
    append(&store, &mut model, id, &[message(1, 100)]);
    append(&store, &mut model, id, &[message(2, 10), message(3, 20), message(4, 30)]);
    append(&store, &mut model, id, &[message(5, 100)]);
    let tail = model.tail(id);
    let extent = |from, bytes_max, messages_max| {
        let found = store.extent_within(id, None, Offset(from), tail, bytes_max, messages_max);
        let found = found.unwrap();
        (found.record.0, found.end.0, found.record_end.0)
    };
    assert_eq!(extent(0, u64::MAX, u64::MAX), (0, 260, 5));
    assert_eq!(extent(0, 99, u64::MAX), (0, 100, 1));
    assert_eq!(extent(0, 100, u64::MAX), (0, 100, 1));
    assert_eq!(extent(0, 129, u64::MAX), (0, 110, 2));
    assert_eq!(extent(0, 130, u64::MAX), (0, 130, 3));
    assert_eq!(extent(110, 49, u64::MAX), (2, 130, 3));
    assert_eq!(extent(110, 50, u64::MAX), (2, 160, 4));
    assert_eq!(extent(110, 5, u64::MAX), (2, 130, 3));
    assert_eq!(extent(0, u64::MAX, 3), (0, 130, 3));
    assert_eq!(extent(100, u64::MAX, 4), (1, 260, 5));
    assert_eq!(extent(100, u64::MAX, 0), (1, 110, 2));
    assert_eq!(extent(260, 10, 10), (5, 260, 5));
}

#[test]
fn the_lane_sleeps_until_there_is_work() {
    let (store, _) = open(&MemDisk::new(), 1);
    assert!(!store.wait_for_work(Duration::from_millis(1)));
    let waiter = {
        let store = std::sync::Arc::clone(&store);
        std::thread::spawn(move || while !store.wait_for_work(Duration::from_mins(10)) {})
    };
    let group = [Model::default().append(stream(1, 1), &[message(1, 10)])];
    enqueue(&store, &group, 1);
    waiter.join().unwrap();
    assert_eq!(store.commit(Timestamp(1)).unwrap(), [(Lsn(1), 1)]);
}

#[test]
fn a_live_reader_is_served_from_memory() {
    let (store, _) = open(&MemDisk::new(), 1);
    let mut model = Model::default();
    let id = stream(1, 1);
    append(&store, &mut model, id, &[message(1, 100)]);
    let mut reader = store.read(id, None, Offset::ZERO, model.tail(id));
    assert!(reader.is_hot());
    let first = reader.next().unwrap().unwrap();
    let again = store.read(id, None, Offset::ZERO, model.tail(id)).next().unwrap().unwrap();
    assert_eq!(first.bytes.as_ptr(), again.bytes.as_ptr(), "no reader gets a copy");
    assert_eq!(reader.next().unwrap(), None);
}

#[test]
fn a_broken_promise_stops_the_caller_and_nobody_else() {
    let disk = MemDisk::new();
    let (store, _) = open(&disk, 1);
    let mut model = Model::default();
    append(&store, &mut model, stream(1, 1), &[message(1, 100)]);
    let good = model.clone().append(stream(1, 1), &[message(2, 100)]);
    let mut wrong_lens = good.clone();
    wrong_lens.data.as_mut().unwrap().lens = Lens::One(99);
    let mut no_bytes = good.clone();
    no_bytes.data.as_mut().unwrap().payload = Bytes::new();
    for (group, room) in
        [(vec![good], 50), (vec![wrong_lens], 500), (vec![no_bytes], 500), (vec![], 500)]
    {
        let permit = store.reserve(room, Use::Normal).unwrap();
        let enqueue = std::panic::AssertUnwindSafe(|| store.enqueue(permit, &group, 0));
        assert!(std::panic::catch_unwind(enqueue).is_err(), "{group:?}");
    }
    append(&store, &mut model, stream(1, 1), &[message(3, 100)]);
    drop(store);
    let (store, _) = open(&disk, 2);
    check_all(&store, &model).unwrap();
}
