//! Forks: a stream that shares a prefix with its ancestors.

use std::sync::Arc;

use headwater_core::ids::{Lineage, Offset, Record, StreamId};
use headwater_storage::{Data, Entry, MemDisk};

use crate::support::*;

/// A fork, as one list of messages.
struct Fork {
    id: StreamId,
    lineage: Arc<Lineage>,
    messages: Vec<Vec<u8>>,
}

/// Forks `source` at `cut` messages and appends `own` to the fork, one entry each.
fn fork(
    store: &TestStore,
    id: StreamId,
    source: (StreamId, &[Vec<u8>], Option<Arc<Lineage>>),
    cut: usize,
    own: &[Vec<u8>],
) -> Fork {
    let mut messages = source.1[..cut].to_vec();
    let end = Offset(messages.concat().len() as u64);
    let lineage = Arc::new(Lineage { stream: source.0, end, parent: source.2 });
    for message in own {
        let data = Data {
            stream: id,
            offset: Offset(messages.concat().len() as u64),
            record: Record(messages.len() as u64),
            lens: [message.len() as u32].into_iter().collect(),
            payload: message.clone().into(),
        };
        let entry = Entry { shard: id.shard(), meta: meta(id, 1), data: Some(data) };
        enqueue(store, &[entry], 0);
        commit(store);
        messages.push(message.clone());
    }
    Fork { id, lineage, messages }
}

fn check(store: &TestStore, fork: &Fork) {
    let tail = Offset(fork.messages.concat().len() as u64);
    let next = Record(fork.messages.len() as u64);
    let lineage = Some(&*fork.lineage);
    let mut start = Offset::ZERO;
    for (record, message) in (0..).map(Record).zip(&fork.messages) {
        let end = start.plus(message.len() as u64);
        let mut reader = store.read(fork.id, lineage, start, tail);
        check_range(&mut reader, &fork.messages, start, tail).unwrap();
        let mut reader = store.read(fork.id, lineage, Offset::ZERO, end);
        check_range(&mut reader, &fork.messages, Offset::ZERO, end).unwrap();
        let found = store.boundary(fork.id, lineage, start, tail, next).unwrap();
        assert_eq!(found, Some(record));
        let inside = store.boundary(fork.id, lineage, start.plus(1), tail, next).unwrap();
        assert_eq!(inside, None);
        assert_eq!(store.offset_of(fork.id, lineage, record, tail, next).unwrap(), start);
        let extent = store.extent(fork.id, lineage, start, tail, message.len() as u64).unwrap();
        assert_eq!((extent.record, extent.end), (record, end));
        let rest = store.extent(fork.id, lineage, start, tail, u64::MAX).unwrap();
        assert_eq!((rest.end, rest.record_end), (tail, next));
        start = end;
    }
}

#[test]
fn a_fork_reads_its_ancestors_up_to_the_cut_and_then_its_own_bytes() {
    let disk = MemDisk::new();
    let (store, _) = open(&disk, 1);
    let mut model = Model::default();
    let (root, middle, leaf) = (stream(1, 1), stream(2, 1), stream(3, 1));
    let batch =
        |seed: u64| (0..5u64).map(|n| message(seed + n, 30 + n as usize)).collect::<Vec<_>>();
    append(&store, &mut model, root, &batch(10));
    append(&store, &mut model, root, &batch(20));
    let own: Vec<_> = (30..34).map(|n| message(n, 50)).collect();
    // The cut lies inside a batch of the source.
    let middle = fork(&store, middle, (root, model.messages(root), None), 7, &own);
    append(&store, &mut model, root, &batch(40));
    let inherited = Some(Arc::clone(&middle.lineage));
    let leaf_1 = fork(&store, leaf, (middle.id, &middle.messages, inherited.clone()), 9, &own);
    // A cut below the source's own: everything comes from the root.
    let low = (middle.id, &*middle.messages, inherited.clone());
    let leaf_2 = fork(&store, stream(4, 1), low, 3, &own);
    // Nothing of its own, and nothing inherited.
    let leaf_3 = fork(&store, stream(5, 1), (middle.id, &middle.messages, inherited), 11, &[]);
    let leaf_4 = fork(&store, stream(6, 1), (root, model.messages(root), None), 0, &own);
    for fork in [&middle, &leaf_1, &leaf_2, &leaf_3, &leaf_4] {
        check(&store, fork);
    }
    upkeep(&store);
    drop(store);
    let (store, _) = open(&disk, 2);
    for fork in [&middle, &leaf_1, &leaf_2, &leaf_3, &leaf_4] {
        check(&store, fork);
    }
    check_all(&store, &model).unwrap();
}
