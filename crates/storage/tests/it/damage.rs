//! Damaged files: every flipped bit is either noticed or harmless, and nothing ever panics.

use headwater_core::ids::{Offset, ShardNo, Timestamp};
use headwater_storage::{Disk, Kind, MemDisk, Options};

use crate::support::*;

/// A data directory with a bit of everything, cleanly stopped or not.
fn directory(clean: bool) -> (MemDisk, Model) {
    let disk = MemDisk::new();
    let options = Options { log_file_bytes: 1_500, ..small() };
    let mut model = Model::default();
    for log_id in 1..3 {
        let (store, _) = open_with(&disk, log_id, options.clone()).unwrap();
        for n in 0..8 {
            let messages = [message(n, 60), message(n + 100, 30)];
            append(&store, &mut model, stream((n % 2) as u8, 1), &messages);
            upkeep(&store);
        }
        if log_id == 1 {
            let mut round = store.begin_checkpoint().unwrap();
            round.add(ShardNo(0), store.durable(), b"zero").unwrap();
            round.add(ShardNo(1), store.durable(), b"one").unwrap();
            store.finish_checkpoint(round).unwrap();
        }
        if log_id == 1 || clean {
            store.seal(Timestamp(3_000)).unwrap();
        }
    }
    (disk, model)
}

/// Opens a damaged directory; whatever it says must be true.
fn check(disk: &MemDisk, model: &Model, what: &str) {
    let before = disk.contents();
    match open_with(disk, 9, small()) {
        Ok((store, _)) => {
            let whole = store.durable().0 == 16;
            assert!(whole || store.recovered().cut_bytes > 0, "{what}: entries were lost");
            let last = if whole { 16 } else { 15 };
            assert_eq!(store.durable().0, last, "{what}: more than the last frame was lost");
            let mut model = model.clone();
            if !whole {
                let messages = model.streams.get_mut(&stream(1, 1)).unwrap();
                messages.truncate(messages.len() - 2);
            }
            if let Err(error) = check_all(&store, &model) {
                assert_eq!(error.kind, Kind::Corrupt, "{what}: {error}");
            }
        }
        Err(error) => {
            assert!(matches!(error.kind, Kind::Corrupt | Kind::Format), "{what}: {error}");
            assert!(before == disk.contents(), "{what}: refused, but something was changed");
        }
    }
}

fn flip_everything(clean: bool) {
    let (good, model) = directory(clean);
    check(&good.copy(), &model, "nothing");
    for (path, bytes) in good.contents() {
        let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 20);
        for (at, byte) in bytes.iter().enumerate().take(end) {
            let disk = good.copy();
            let bit = 1 << (at % 8);
            disk.open(&path).unwrap().write_at(&[byte ^ bit], at as u64).unwrap();
            check(&disk, &model, &format!("bit {bit} of byte {at} in {path}"));
        }
    }
}

#[test]
fn a_flipped_bit_after_a_clean_stop_is_noticed_or_harmless() {
    flip_everything(true);
}

#[test]
fn a_flipped_bit_after_a_crash_is_noticed_or_harmless() {
    flip_everything(false);
}

#[test]
fn a_shortened_or_missing_file_is_noticed_or_harmless() {
    for clean in [true, false] {
        let (good, model) = directory(clean);
        for (path, bytes) in good.contents() {
            let missing = good.copy();
            missing.remove(&path).unwrap();
            // Of a log that consists of one file nothing tells that it ever was.
            if good.list("log").unwrap().last().is_none_or(|last| path != format!("log/{last}")) {
                check(&missing, &model, &format!("without {path}"));
            }
            for len in (0..bytes.len()).step_by(7) {
                let disk = good.copy();
                disk.open(&path).unwrap().set_len(len as u64).unwrap();
                check(&disk, &model, &format!("{path} with {len} bytes"));
            }
        }
    }
}

#[test]
fn damage_in_an_old_file_leaves_the_others_readable() {
    let disk = MemDisk::new();
    let (store, _) = open(&disk, 1);
    let mut model = Model::default();
    for n in 0..300 {
        append(&store, &mut model, stream(1, 1), &[message(n, 100)]);
        upkeep(&store);
    }
    append(&store, &mut model, stream(2, 2), &[message(1, 100)]);
    let mut round = store.begin_checkpoint().unwrap();
    for shard in [1, 2] {
        round.add(ShardNo(shard), store.durable(), b"image").unwrap();
    }
    store.finish_checkpoint(round).unwrap();
    store.seal(Timestamp(1)).unwrap();
    let file = disk.open("log/0000000001.log").unwrap();
    let mut good = vec![0; file.len().unwrap() as usize];
    file.read_at(&mut good, 0).unwrap();
    file.write_at(&vec![0x33; good.len()], 0).unwrap();
    let (store, _) = open(&disk, 2);
    let tail = model.tail(stream(1, 1));
    let mut reader = store.read(stream(1, 1), None, Offset::ZERO, tail);
    assert_eq!(reader.next().unwrap_err().kind, Kind::Corrupt);
    file.write_at(&good, 0).unwrap();
    check_range(&mut reader, model.messages(stream(1, 1)), Offset::ZERO, tail).unwrap();
    file.write_at(&vec![0x33; good.len()], 0).unwrap();
    drop((reader, store));
    let (store, _) = open(&disk, 3);
    assert_eq!(check_all(&store, &model).unwrap_err().kind, Kind::Corrupt);
    let from = Offset(tail.0 / 2 / 100 * 100);
    let mut reader = store.read(stream(1, 1), None, from, tail);
    check_range(&mut reader, model.messages(stream(1, 1)), from, tail).unwrap();
    model.streams.remove(&stream(1, 1));
    check_all(&store, &model).unwrap();
    assert!(store.reclaim(&|_, _, _| false).unwrap() > 0);
    let first = disk.list("log").unwrap()[0].clone();
    assert_eq!(first, "0000000001.log", "a damaged file is kept");
}

#[test]
fn a_log_that_is_cut_within_its_first_frame_is_refused_and_not_removed() {
    let good = MemDisk::new();
    let (store, _) = open(&good, 1);
    append(&store, &mut Model::default(), stream(1, 1), &[message(1, 500)]);
    drop(store);
    for len in [62, 100, 300, 600] {
        let disk = good.copy();
        disk.open("log/0000000001.log").unwrap().set_len(len).unwrap();
        let before = disk.contents();
        let error = open_with(&disk, 2, small()).err().unwrap();
        assert_eq!((error.kind, error.at.offset), (Kind::Corrupt, Some(len)), "{error}");
        assert!(before == disk.contents());
    }
}
