//! Compaction: whatever is moved, every byte that is needed stays where readers find it, and what
//! is not needed gives its room back.

use std::collections::BTreeMap;

use headwater_core::ids::{Offset, Record, ShardNo, StreamId};
use headwater_storage::{Disk, MemDisk, Need, Options, Reader};

use crate::support::*;

/// Everything happens soon: files of a few KiB, and what counts as long is a few hundred bytes.
fn tiny() -> Options {
    Options {
        log_file_bytes: 4 << 10,
        ring_bytes: 2 << 10,
        compact_bytes: 12 << 10,
        segment_bytes: 6 << 10,
        long_run_bytes: 700,
        ..small()
    }
}

/// Streams of which a prefix, or everything, is not needed any more.
#[derive(Default)]
struct World {
    model: Model,
    floors: BTreeMap<StreamId, Offset>,
}

impl World {
    fn floor(&self, id: StreamId) -> Offset {
        self.floors.get(&id).copied().unwrap_or(Offset::ZERO)
    }

    fn need(&self, id: StreamId, start: Offset, end: Offset) -> Need {
        let floor = self.floor(id);
        let live = self.model.streams.contains_key(&id);
        Need {
            from: (live && end > floor).then_some(floor.max(start)),
            older: live && start > floor,
        }
    }

    /// Goes on until there is nothing to do.
    fn compact(&self, store: &TestStore) -> usize {
        let mut steps = 0;
        while store.compact(&|id, start, end| self.need(id, start, end)).unwrap() {
            steps += 1;
            assert!(steps < 100_000, "compaction ends");
        }
        upkeep(store);
        steps
    }

    /// Every needed byte and every question about it.
    fn check(&self, store: &TestStore) {
        for (id, messages) in &self.model.streams {
            let (id, floor) = (*id, self.floor(*id));
            let (tail, next) = (self.model.tail(id), self.model.next(id));
            check_range(&mut store.read(id, None, floor, tail), messages, floor, tail).unwrap();
            let mut start = Offset::ZERO;
            for (record, message) in (0..).map(Record).zip(messages) {
                let end = start.plus(message.len() as u64);
                if start >= floor {
                    let found = store.boundary(id, None, start, tail, next).unwrap();
                    assert_eq!(found, Some(record));
                    let offset = store.offset_of(id, None, record, tail, next).unwrap();
                    assert_eq!(offset, start);
                    let one = store.extent(id, None, start, tail, 1).unwrap();
                    assert_eq!((one.record, one.end), (record, end));
                }
                start = end;
            }
        }
    }
}

fn save(store: &TestStore) {
    let mut round = store.begin_checkpoint().unwrap();
    for shard in 0..4 {
        round.add(ShardNo(shard), store.durable(), b"image").unwrap();
    }
    store.finish_checkpoint(round).unwrap();
}

fn used(disk: &MemDisk, dir: &str) -> u64 {
    let files = disk.contents().into_iter().filter(|(path, _)| path.starts_with(dir));
    files.map(|(_, bytes)| bytes.len() as u64).sum()
}

fn segments(disk: &MemDisk) -> usize {
    disk.list("segment").unwrap().len()
}

/// Small numbers that look random and are the same every time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % sides
    }
}

/// A reader that was opened at some time and is read only later.
struct Late {
    reader: Reader,
    messages: Vec<Vec<u8>>,
    from: Offset,
    to: Offset,
}

#[test]
fn needed_bytes_are_found_whatever_was_compacted() {
    for seed in 1..16 {
        let mut dice = Dice(seed * 0x9e37_79b9);
        let disk = MemDisk::new();
        let (mut store, _) = open_with(&disk, 1, tiny()).unwrap();
        let mut world = World::default();
        let mut late: Vec<Late> = Vec::new();
        for step in 0..400 {
            let id = stream(dice.roll(4) as u8, 1 + dice.roll(3));
            match dice.roll(40) {
                0 => {
                    let messages = world.model.messages(id);
                    let kept = dice.roll(messages.len() as u64 + 1) as usize;
                    let floor: u64 = messages[..kept].iter().map(|m| m.len() as u64).sum();
                    let old = world.floor(id);
                    store.note_freed(floor.saturating_sub(old.0));
                    world.floors.insert(id, old.max(Offset(floor)));
                }
                1 => save(&store),
                2 | 3 => {
                    world.compact(&store);
                }
                4 => {
                    let (from, to) = (world.floor(id), world.model.tail(id));
                    let (reader, messages) =
                        (store.read(id, None, from, to), world.model.messages(id).to_vec());
                    late.push(Late { reader, messages, from, to });
                }
                5 if late.len() > 2 => {
                    let mut late = late.remove(0);
                    check_range(&mut late.reader, &late.messages, late.from, late.to).unwrap();
                }
                6 if dice.roll(4) == 0 => {
                    late.clear();
                    drop(store);
                    (store, _) = open_with(&disk, 100 + step, tiny()).unwrap();
                    world.check(&store);
                }
                _ => {
                    let count = 1 + dice.roll(4);
                    let len = if dice.roll(30) == 0 { 900 } else { 1 + dice.roll(120) };
                    let new: Vec<_> =
                        (0..count).map(|n| message(step as u64 * 8 + n, len as usize)).collect();
                    append(&store, &mut world.model, id, &new);
                    upkeep(&store);
                }
            }
        }
        for mut late in late {
            check_range(&mut late.reader, &late.messages, late.from, late.to).unwrap();
        }
        save(&store);
        world.compact(&store);
        world.check(&store);
        drop(store);
        let (store, _) = open_with(&disk, 9, tiny()).unwrap();
        world.check(&store);
        assert!(segments(&disk) > 0, "seed {seed} compacted something");
    }
}

/// Fills a store with the messages of `streams` streams, in turn.
fn fill(store: &TestStore, world: &mut World, streams: u64, rounds: u64, len: usize) {
    for round in 0..rounds {
        for n in 0..streams {
            let id = stream((n % 4) as u8, n);
            append(store, &mut world.model, id, &[message(round * 1_000 + n, len)]);
        }
        upkeep(store);
    }
}

#[test]
fn log_files_go_once_segments_stand_for_them() {
    let disk = MemDisk::new();
    let (store, _) = open_with(&disk, 1, tiny()).unwrap();
    let mut world = World::default();
    fill(&store, &mut world, 16, 60, 60);
    let before = used(&disk, "log/");
    assert_eq!(world.compact(&store), 0, "nothing is below a checkpoint yet");
    save(&store);
    world.compact(&store);
    assert!(used(&disk, "log/") < before / 3, "{} of {before}", used(&disk, "log/"));
    let total: u64 = world.model.streams.keys().map(|id| world.model.tail(*id).0).sum();
    let regrouped = used(&disk, "segment/");
    assert!(regrouped > total / 2 && regrouped < total * 3 / 2, "{regrouped} of {total}");
    world.check(&store);
}

#[test]
fn compaction_is_behind_while_several_batches_wait() {
    let (store, _) = open_with(&MemDisk::new(), 1, tiny()).unwrap();
    let mut world = World::default();
    fill(&store, &mut world, 16, 10, 60);
    assert!(!store.is_behind(), "nothing is below a checkpoint yet");
    save(&store);
    assert!(!store.is_behind(), "a batch or two is no backlog");
    fill(&store, &mut world, 16, 60, 60);
    save(&store);
    assert!(store.is_behind());
    world.compact(&store);
    assert!(!store.is_behind());
}

#[test]
fn short_runs_are_merged_and_long_ones_are_left_alone() {
    let disk = MemDisk::new();
    let (store, _) = open_with(&disk, 1, tiny()).unwrap();
    let mut world = World::default();
    for _ in 0..24 {
        fill(&store, &mut world, 40, 4, 60);
        save(&store);
        world.compact(&store);
    }
    // Each batch of 12 KiB has about 300 bytes of every stream: eight of them make a long run.
    let total: u64 = world.model.streams.keys().map(|id| world.model.tail(*id).0).sum();
    let segments = segments(&disk) as u64;
    assert!(segments < 3 * total / tiny().segment_bytes, "{segments} segments of {total} bytes");
    world.check(&store);
}

#[test]
fn a_pinned_reader_keeps_what_was_compacted_away() {
    let disk = MemDisk::new();
    let (store, _) = open_with(&disk, 1, tiny()).unwrap();
    let mut world = World::default();
    fill(&store, &mut world, 4, 200, 80);
    save(&store);
    let id = stream(1, 1);
    let tail = world.model.tail(id);
    let mut reader = store.read(id, None, Offset::ZERO, tail);
    let before = used(&disk, "log/");
    let messages = world.model.messages(id).to_vec();
    for id in world.model.streams.keys() {
        world.floors.insert(*id, world.model.tail(*id));
    }
    world.compact(&store);
    assert_eq!(used(&disk, "log/"), before, "the reader needs every file");
    check_range(&mut reader, &messages, Offset::ZERO, tail).unwrap();
    drop(reader);
    upkeep(&store);
    assert!(used(&disk, "log/") < before / 3);
}

#[test]
fn room_comes_back_when_most_is_not_needed_any_more() {
    let disk = MemDisk::new();
    let (store, _) = open_with(&disk, 1, tiny()).unwrap();
    let mut world = World::default();
    fill(&store, &mut world, 16, 100, 60);
    save(&store);
    world.compact(&store);
    let before = used(&disk, "segment/");
    for n in 0..12 {
        let id = stream((n % 4) as u8, n);
        store.note_freed(world.model.tail(id).0);
        world.model.streams.remove(&id);
    }
    world.compact(&store);
    let after = used(&disk, "segment/");
    assert!(after * 3 < before, "{after} of {before}");
    world.check(&store);
}

#[test]
fn damage_in_a_segment_is_told_to_its_readers_alone() {
    let disk = MemDisk::new();
    let (store, _) = open_with(&disk, 1, tiny()).unwrap();
    let mut world = World::default();
    fill(&store, &mut world, 16, 60, 60);
    save(&store);
    world.compact(&store);
    drop(store);
    let name = format!("segment/{}", disk.list("segment").unwrap()[0]);
    let len = disk.open(&name).unwrap().len().unwrap();
    let golden = disk.contents();
    let mut failures = 0;
    for at in (0..len).step_by(97) {
        let disk = MemDisk::new();
        for dir in ["", "log", "segment", "checkpoint", "blob", "cut"] {
            disk.create_dir(dir).unwrap();
        }
        for (path, bytes) in &golden {
            disk.create(path).unwrap().write_at(bytes, 0).unwrap();
        }
        let file = disk.open(&name).unwrap();
        let mut byte = [0];
        file.read_at(&mut byte, at).unwrap();
        file.write_at(&[byte[0] ^ 4], at).unwrap();
        let (store, _) = open_with(&disk, 2, tiny()).unwrap();
        for (id, messages) in &world.model.streams {
            let tail = world.model.tail(*id);
            let mut reader = store.read(*id, None, Offset::ZERO, tail);
            // Bytes that come are right; otherwise there is an error.
            failures +=
                usize::from(check_range(&mut reader, messages, Offset::ZERO, tail).is_err());
        }
    }
    assert!(failures > 10, "{failures}");
}
