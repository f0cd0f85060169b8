//! Many threads on one store, as in production.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use headwater_core::ids::{Lsn, Offset, ShardNo, Timestamp};
use headwater_storage::{MemDisk, Options};

use crate::support::*;

const WRITERS: u8 = 4;
const APPENDS: u64 = 400;

/// One writer: every append is read back once it is durable.
fn write(store: &TestStore, shard: u8) -> Model {
    let mut model = Model::default();
    let id = stream(shard, 1);
    for n in 0..APPENDS {
        let group = [model.append(id, &[message(n, 20 + (n % 200) as usize)])];
        let lsn = enqueue(store, &group, n);
        while n % 16 == 0 && store.durable() < lsn {
            std::thread::yield_now();
        }
        if n % 16 == 0 {
            let (from, to) = (Offset(model.tail(id).0 / 2), model.tail(id));
            let extent = store.extent(id, None, Offset::ZERO, to, from.0.max(1)).unwrap();
            let mut reader = store.read(id, None, extent.end, to);
            check_range(&mut reader, model.messages(id), extent.end, to).unwrap();
        }
    }
    model
}

#[test]
fn writers_readers_lane_and_upkeep_get_along() {
    let disk = MemDisk::new();
    let options = Options { ring_bytes: 20_000, ..small() };
    let (store, _) = open_with(&disk, 1, options).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let lane = {
        let (store, stop) = (Arc::clone(&store), Arc::clone(&stop));
        std::thread::spawn(move || {
            let mut last = Lsn(0);
            while !stop.load(Ordering::SeqCst) || store.durable() < store.enqueued() {
                store.wait_for_work(Duration::from_millis(5));
                for (lsn, _) in store.commit(Timestamp(1)).unwrap() {
                    assert!(lsn == last.next() && lsn <= store.durable());
                    last = lsn;
                }
            }
        })
    };
    let upkeep = {
        let (store, stop) = (Arc::clone(&store), Arc::clone(&stop));
        std::thread::spawn(move || {
            while !stop.load(Ordering::SeqCst) {
                while store.maintain().unwrap() {}
                let mut round = store.begin_checkpoint().unwrap();
                let lsn = store.durable();
                for shard in 0..WRITERS {
                    round.add(ShardNo(shard), lsn, b"image").unwrap();
                }
                store.finish_checkpoint(round).unwrap();
                store.reclaim(&|_, _, _| true).unwrap();
            }
        })
    };
    let writers: Vec<_> = (0..WRITERS)
        .map(|shard| {
            let store = Arc::clone(&store);
            std::thread::spawn(move || write(&store, shard))
        })
        .collect();
    let models: Vec<_> = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
    stop.store(true, Ordering::SeqCst);
    lane.join().unwrap();
    upkeep.join().unwrap();
    assert_eq!(store.durable(), Lsn(u64::from(WRITERS) * APPENDS));
    store.seal(Timestamp(2)).unwrap();
    let (store, _) = open(&disk, 2);
    for model in models {
        check_all(&store, &model).unwrap();
    }
}
