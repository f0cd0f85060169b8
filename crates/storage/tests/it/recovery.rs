//! What a crash leaves, and what damage is refused.

use headwater_core::ids::Timestamp;
use headwater_storage::{Disk, Kind, MemDisk};

use crate::support::*;

fn some_frames(store: &TestStore, model: &mut Model, frames: u64) {
    for n in 0..frames {
        append(store, model, stream(3, 1), &[message(n, 40)]);
    }
}

#[test]
fn a_crash_loses_nothing_that_was_committed() {
    let disk = MemDisk::new();
    let mut model = Model::default();
    for log_id in 1..10 {
        let (store, recorder) = open(&disk, log_id);
        let lsns: Vec<_> = recorder.entries.iter().map(|(lsn, ..)| lsn.0).collect();
        assert!(lsns.iter().copied().eq(1..=lsns.len() as u64));
        check_all(&store, &model).unwrap();
        some_frames(&store, &mut model, 70);
        if log_id % 2 == 0 {
            upkeep(&store);
        }
    }
    let (store, recorder) = open(&disk, 10);
    assert_eq!(recorder.entries.len(), 9 * 70);
    check_all(&store, &model).unwrap();
    check_boundaries(&store, &model, stream(3, 1));
}

#[test]
fn a_torn_last_frame_is_cut_and_kept() {
    let disk = MemDisk::new();
    let (store, _) = open(&disk, 1);
    let mut model = Model::default();
    some_frames(&store, &mut model, 3);
    let before = disk.copy();
    let kept = model.clone();
    append(&store, &mut model, stream(3, 1), &[message(99, 40)]);
    let path = "log/0000000001.log";
    let content = |disk: &MemDisk| {
        let contents = disk.contents();
        contents.into_iter().find(|(name, _)| name == path).unwrap().1
    };
    let (old, new) = (content(&before), content(&disk));
    let start = (0..new.len()).find(|at| old[*at] != new[*at]).unwrap();
    let end = new.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    for cut in start..end {
        let torn = before.copy();
        torn.open(path).unwrap().write_at(&new[start..cut], start as u64).unwrap();
        let (store, recorder) = open(&torn, 2);
        assert_eq!(recorder.entries.len(), 3, "cut at {cut}");
        let written = new[start..cut].iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
        assert_eq!(store.recovered().cut_bytes, written as u64);
        if written > 0 {
            let name = &store.recovered().cut_files[0];
            let cuts = torn.contents();
            let kept = &cuts.iter().find(|(path, _)| path == name).unwrap().1;
            assert_eq!(kept[..], new[start..start + written]);
        }
        check_all(&store, &kept).unwrap();
        let mut model = kept.clone();
        append(&store, &mut model, stream(3, 1), &[message(100, 40)]);
        drop(store);
        let (store, _) = open(&torn, 3);
        assert_eq!(store.recovered().cut_bytes, 0);
        check_all(&store, &model).unwrap();
    }
}

#[test]
fn damage_in_the_middle_is_refused_and_nothing_is_touched() {
    let disk = MemDisk::new();
    let (store, _) = open(&disk, 1);
    let mut model = Model::default();
    some_frames(&store, &mut model, 200);
    drop(store);
    let path = "log/0000000001.log";
    let damaged = disk.copy();
    damaged.open(path).unwrap().write_at(&[0x55], 300).unwrap();
    let before = damaged.contents();
    let error = open_with(&damaged, 2, small()).err().unwrap();
    assert_eq!((error.kind, error.at.path.as_str()), (Kind::Corrupt, path));
    assert!(error.at.offset.is_some_and(|at| at <= 300), "{error}");
    assert!(before == damaged.contents());
    let missing = disk.copy();
    missing.remove("log/0000000002.log").unwrap();
    let error = open_with(&missing, 2, small()).err().unwrap();
    assert_eq!((error.kind, error.at.path.as_str()), (Kind::Corrupt, "log/0000000002.log"));
}

#[test]
fn a_lost_manifest_is_corruption() {
    let disk = MemDisk::new();
    let (store, _) = open(&disk, 1);
    some_frames(&store, &mut Model::default(), 1);
    store.seal(Timestamp(1)).unwrap();
    disk.remove("MANIFEST").unwrap();
    assert_eq!(open_with(&disk, 2, small()).err().unwrap().kind, Kind::Corrupt);
}
