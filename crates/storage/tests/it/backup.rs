//! Backups: a copy of a directory that is being written to is a directory of its own.

use std::collections::BTreeSet;
use std::sync::Arc;

use headwater_core::ids::{BlobId, ShardNo};
use headwater_storage::{Backup, Capture, Copied, Disk, Error, Kind, MemDisk, restore};

use crate::golden;
use crate::support::*;
use crate::verify::scan;

const BLOB: BlobId = BlobId(0xb10b);
const OTHER: u128 = 0xd2;

fn back_up(from: &MemDisk, to: &MemDisk) -> Result<Copied, Error> {
    let capture = Capture::take(Arc::new(from.clone()))?;
    let (backup, copied) = capture.copy_to(to, &BTreeSet::from([BLOB]))?;
    let (notes, _) = scan(&backup.view(to));
    assert!(notes.findings.is_empty(), "{:?}", notes.findings);
    backup.publish(to)?;
    Ok(copied)
}

#[test]
fn a_restored_backup_of_a_directory_in_use_opens_with_all_that_was_durable() {
    let disk = golden::load(2);
    let mut model = golden::example(2).1;
    let (store, _) = open_with(&disk, 3, golden::options()).unwrap();
    let place = MemDisk::new();
    let mut copied = Vec::new();
    for n in 0..12 {
        append(&store, &mut model, stream(3, 1), &[message(n, 200)]);
        if n % 3 == 0 {
            upkeep(&store);
        }
        if n == 5 {
            let mut round = store.begin_checkpoint().unwrap();
            for shard in [0, 1, 2, 3, 9] {
                round.add(ShardNo(shard), store.durable(), &[shard; 5]).unwrap();
            }
            store.finish_checkpoint(round).unwrap();
        }
        copied.push(back_up(&disk, &place).unwrap());
        let target = MemDisk::new();
        restore(&place, &target, OTHER).unwrap();
        let (notes, _) = scan(&target);
        assert!(notes.findings.is_empty(), "{:?}", notes.findings);
        let (again, _) = open_with(&target, 4, golden::options()).unwrap();
        assert_eq!(again.directory_id(), OTHER);
        check_all(&again, &model).unwrap();
        let blob = again.blobs().open(BLOB).unwrap();
        assert_eq!(blob.read(0, 100).unwrap(), &b"a snapshot"[..]);
    }
    let again = &copied[11];
    assert!(again.copied_files <= 4 && again.files > 8, "only what is new is copied: {again:?}");
}

#[test]
fn a_backup_and_an_unfinished_restore_are_never_opened_as_a_directory() {
    let (disk, place) = (golden::load(2), MemDisk::new());
    back_up(&disk, &place).unwrap();
    let before = place.contents();
    let refused = open(&place).unwrap_err();
    assert!(refused.to_string().contains("this is a backup"), "{refused}");
    assert!(place.contents() == before);

    // Damage in the backup ends the restore in the middle.
    let broken = place.copy();
    let name = format!("segment/{}", broken.list("segment").unwrap()[2]);
    broken.open(&name).unwrap().write_at(b"x", 100).unwrap();
    let target = MemDisk::new();
    let error = restore(&broken, &target, OTHER).unwrap_err();
    assert_eq!((error.kind, error.at.path.as_str()), (Kind::Corrupt, name.as_str()));
    let refused = open(&target).unwrap_err();
    assert!(refused.to_string().contains("has not finished"), "{refused}");

    // Run again, it starts anew.
    restore(&place, &target, OTHER).unwrap();
    open(&target).unwrap();
    let error = restore(&place, &target, OTHER).unwrap_err();
    assert!(error.to_string().contains("not empty"), "{error}");
}

fn open(disk: &MemDisk) -> Result<(), Error> {
    open_with(disk, 9, golden::options()).map(|_| ())
}

#[test]
fn a_backup_that_never_finished_is_recognised_and_can_be_run_again() {
    let (disk, place) = (golden::load(2), MemDisk::new());
    let capture = Capture::take(Arc::new(disk.clone())).unwrap();
    capture.copy_to(&place, &BTreeSet::new()).unwrap();
    let error = Backup::load(&place).unwrap_err();
    assert!(error.to_string().contains("never finished"), "{error}");
    assert_eq!(restore(&place, &MemDisk::new(), OTHER).unwrap_err().kind, Kind::Format);
    assert!(open(&place).unwrap_err().to_string().contains("this is a backup"));
    back_up(&disk, &place).unwrap();
    restore(&place, &MemDisk::new(), OTHER).unwrap();
}

#[test]
fn a_place_with_something_else_in_it_is_left_alone() {
    let disk = golden::load(2);
    let stranger = MemDisk::new();
    stranger.create("notes.txt").unwrap();
    let directory = golden::load(1);
    let other = MemDisk::new();
    let (store, _) = open_with(&other, 1, golden::options()).unwrap();
    drop(store);
    let taken = MemDisk::new();
    back_up(&disk, &taken).unwrap();
    let moved = MemDisk::new();
    restore(&taken, &moved, OTHER).unwrap();
    for (from, place) in [(&disk, &stranger), (&disk, &directory), (&moved, &taken)] {
        let before = place.contents();
        assert_eq!(back_up(from, place).unwrap_err().kind, Kind::Format);
        assert!(place.contents() == before);
    }
}

#[test]
fn any_flipped_bit_of_a_backup_is_noticed_by_its_restore() {
    let (disk, place) = (golden::load(2), MemDisk::new());
    back_up(&disk, &place).unwrap();
    for (path, good) in place.contents() {
        let file = place.open(&path).unwrap();
        for at in (0..good.len()).step_by(7) {
            file.write_at(&[good[at] ^ 4], at as u64).unwrap();
            let error = restore(&place, &MemDisk::new(), OTHER).unwrap_err();
            assert!(matches!(error.kind, Kind::Corrupt | Kind::Format), "{path} {at}: {error}");
            file.write_at(&good[at..=at], at as u64).unwrap();
        }
    }
}

#[test]
fn a_damaged_frame_in_the_newest_log_file_does_not_pass_for_its_end() {
    let disk = MemDisk::new();
    let (store, _) = open_with(&disk, 1, small()).unwrap();
    let mut model = Model::default();
    for n in 0..5 {
        append(&store, &mut model, stream(1, 1), &[message(n, 300)]);
    }
    let file = disk.open("log/0000000001.log").unwrap();
    for at in [70, 900] {
        let mut byte = [0];
        file.read_at(&mut byte, at).unwrap();
        file.write_at(&[byte[0] ^ 1], at).unwrap();
        let error = back_up(&disk, &MemDisk::new()).unwrap_err();
        assert_eq!((error.kind, error.at.path.as_str()), (Kind::Corrupt, "log/0000000001.log"));
        file.write_at(&byte, at).unwrap();
    }
    let place = MemDisk::new();
    let capture = Capture::take(Arc::new(disk.clone())).unwrap();
    capture.copy_to(&place, &BTreeSet::new()).unwrap();
}
