//! A full disk: what is refused, what goes on, and that it clears by itself.

use headwater_core::ids::Timestamp;
use headwater_storage::{Kind, MemDisk, Options, Use, group_bytes, room_for};
use proptest::prelude::*;

use crate::support::*;

const RESERVE: u64 = 1 << 20;

fn options() -> Options {
    Options { log_file_bytes: 256 << 10, disk_reserve: Some(RESERVE), ..Options::default() }
}

/// Appends until normal use is refused.
fn fill(store: &TestStore, model: &mut Model) {
    for n in 0.. {
        let group = [model.clone().append(stream(1, 1), &[message(n, 10_000)])];
        match store.reserve(group_bytes(&group), Use::Normal) {
            Ok(permit) => {
                model.append(stream(1, 1), &[message(n, 10_000)]);
                store.enqueue(permit, &group, n);
                commit(store);
                upkeep(store);
            }
            Err(error) => {
                assert_eq!(error.kind, Kind::Full, "{error}");
                return;
            }
        }
    }
}

#[test]
fn normal_use_stops_at_the_reserve_and_essential_use_goes_on() {
    let disk = MemDisk::with_capacity(4 << 20);
    let (store, _) = open_with(&disk, 1, options()).unwrap();
    let mut model = Model::default();
    fill(&store, &mut model);
    let blob = store.blobs().create(headwater_core::ids::BlobId(1));
    assert_eq!(blob.err().unwrap().kind, Kind::Full);
    let mut essential = 0;
    while let Ok(permit) = store.reserve(room_for(1_000, 0, 0), Use::Essential) {
        let entry = model.append(stream(2, 2), &[]);
        let entry = headwater_storage::Entry { data: None, meta: vec![7; 1_000].into(), ..entry };
        store.enqueue(permit, &[entry], 0);
        commit(&store);
        upkeep(&store);
        essential += 1_000;
    }
    model.streams.remove(&stream(2, 2));
    assert!(essential > RESERVE / 2, "only {essential} bytes of the reserve were used");
    check_all(&store, &model).unwrap();
    disk.set_capacity(8 << 20);
    append(&store, &mut model, stream(1, 1), &[message(1, 10_000)]);
    drop(store);
    disk.set_capacity(0);
    let (store, _) = open_with(&disk, 2, options()).unwrap();
    check_all(&store, &model).unwrap();
    assert_eq!(store.reserve(100, Use::Essential).err().unwrap().kind, Kind::Full);
    disk.set_capacity(8 << 20);
    append(&store, &mut model, stream(1, 1), &[message(2, 10_000)]);
    check_all(&store, &model).unwrap();
}

#[test]
fn what_was_reserved_can_be_written_on_a_full_disk() {
    let disk = MemDisk::with_capacity(4 << 20);
    let (store, _) = open_with(&disk, 1, options()).unwrap();
    let mut model = Model::default();
    let mut permits = Vec::new();
    let bytes = room_for(100, 1, 90_000);
    loop {
        match store.reserve(bytes, Use::Normal) {
            Ok(permit) => permits.push(permit),
            Err(error) if error.kind == Kind::Full => break,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(permits.len() > 20, "{} permits", permits.len());
    disk.set_capacity(0);
    for (n, permit) in (0..).zip(permits) {
        let group = [model.append(stream(1, n % 3), &[message(n, 90_000)])];
        store.enqueue(permit, &group, n);
        if n % 4 == 0 {
            commit(&store);
        }
    }
    commit(&store);
    upkeep(&store);
    check_all(&store, &model).unwrap();
    store.seal(Timestamp(1)).unwrap();
}

#[test]
fn a_permit_that_is_given_back_is_room_again() {
    let disk = MemDisk::with_capacity(2 << 20);
    let (store, _) = open_with(&disk, 1, options()).unwrap();
    let mut permits = Vec::new();
    while let Ok(permit) = store.reserve(50_000, Use::Normal) {
        permits.push(permit);
    }
    permits.pop();
    permits.push(store.reserve(50_000, Use::Normal).unwrap());
    assert!(store.reserve(50_000, Use::Normal).is_err());
    drop(permits);
    assert!(store.reserve(50_000, Use::Normal).is_ok());
}

#[test]
fn a_group_larger_than_a_log_file_gets_a_file_of_its_size() {
    let disk = MemDisk::new();
    let (store, _) = open(&disk, 1);
    let mut model = Model::default();
    for n in 0..10 {
        append(&store, &mut model, stream(1, 1), &[message(n, 100)]);
        append(&store, &mut model, stream(1, 1), &[message(n, 100_000)]);
        upkeep(&store);
    }
    check_all(&store, &model).unwrap();
    drop(store);
    let (store, _) = open(&disk, 2);
    check_all(&store, &model).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_estimate_of_a_group_is_never_too_small(
        entries in proptest::collection::vec(
            (0usize..300, proptest::collection::vec(1usize..70_000, 0..6)),
            1..4,
        )
    ) {
        let mut model = Model::default();
        let mut bound = 0;
        let mut group = Vec::new();
        for (number, (meta_len, lens)) in (0..).zip(&entries) {
            let messages: Vec<_> = lens.iter().map(|len| message(7, *len)).collect();
            let mut entry = model.append(stream(1, number), &messages);
            if lens.is_empty() {
                entry.data = None;
            }
            entry.meta = vec![1; *meta_len].into();
            let payload: usize = lens.iter().sum();
            bound += room_for(*meta_len as u64, lens.len() as u64, payload as u64);
            group.push(entry);
        }
        let exact = group_bytes(&group);
        prop_assert!(exact <= bound, "{exact} > {bound}");
        let (store, _) = open(&MemDisk::new(), 1);
        let permit = store.reserve(exact, Use::Normal).unwrap();
        store.enqueue(permit, &group, 0);
        commit(&store);
        model.streams.retain(|_, messages| !messages.is_empty());
        check_all(&store, &model).unwrap();
    }
}
