//! Snapshot bodies.

use headwater_core::ids::BlobId;
use headwater_storage::{Disk, Kind, MemDisk, Options};

use crate::support::*;

fn write(store: &TestStore, id: BlobId, body: &[u8], piece: usize) {
    let mut writer = store.blobs().create(id).unwrap();
    for piece in body.chunks(piece) {
        writer.write(piece).unwrap();
    }
    assert_eq!(writer.finish().unwrap(), body.len() as u64);
}

#[test]
fn any_part_of_a_blob_can_be_read() {
    let (store, _) = open(&MemDisk::new(), 1);
    for (n, len) in [(1, 0), (2, 1), (3, 65_535), (4, 65_536), (5, 65_537), (6, 9_000_000)] {
        let body = message(n, len);
        write(&store, BlobId(n.into()), &body, 10_000);
        let reader = store.blobs().open(BlobId(n.into())).unwrap();
        assert_eq!((reader.len(), reader.is_empty()), (len as u64, len == 0));
        for start in [0, 1, 65_535, 65_536, 100_000, len.saturating_sub(1), len, len + 1] {
            for max in [0, 1, 65_536, 70_000, usize::MAX] {
                let read = reader.read(start as u64, max).unwrap();
                let end = start.saturating_add(max.min(4 << 20)).min(len);
                assert!(read == body[start.min(len)..end.max(start.min(len))], "{len} {start}");
            }
        }
    }
    let ids: Vec<_> = store.blobs().list().unwrap().iter().map(|id| id.0).collect();
    assert_eq!(ids, [1, 2, 3, 4, 5, 6]);
}

#[test]
fn an_unfinished_blob_leaves_nothing() {
    let disk = MemDisk::new();
    let (store, _) = open(&disk, 1);
    let mut writer = store.blobs().create(BlobId(1)).unwrap();
    writer.write(&message(1, 100_000)).unwrap();
    assert_eq!(store.blobs().open(BlobId(1)).err().unwrap().kind, Kind::Corrupt);
    assert!(store.blobs().create(BlobId(1)).is_err(), "the id is taken");
    drop(writer);
    assert_eq!(store.blobs().list().unwrap(), []);
}

#[test]
fn a_removed_blob_stays_readable_for_who_has_it_open() {
    let (store, _) = open(&MemDisk::new(), 1);
    write(&store, BlobId(1), b"body", 4);
    let reader = store.blobs().open(BlobId(1)).unwrap();
    store.blobs().remove(BlobId(1)).unwrap();
    store.blobs().remove(BlobId(1)).unwrap();
    assert_eq!(reader.read(0, 10).unwrap(), &b"body"[..]);
    assert_eq!(store.blobs().open(BlobId(1)).err().unwrap().kind, Kind::Corrupt);
}

#[test]
fn a_full_disk_stops_a_blob_at_the_reserve() {
    let disk = MemDisk::with_capacity(30 << 20);
    let options = Options { disk_reserve: Some(10 << 20), ..small() };
    let (store, _) = open_with(&disk, 1, options).unwrap();
    let mut writer = store.blobs().create(BlobId(1)).unwrap();
    let piece = message(1, 1 << 20);
    let error = (0..30).find_map(|_| writer.write(&piece).err()).unwrap();
    assert_eq!(error.kind, Kind::Full);
    assert!(disk.available().unwrap() > 9 << 20);
    drop(writer);
    assert!(disk.available().unwrap() > 29 << 20);
    write(&store, BlobId(1), &piece, 1 << 20);
}

#[test]
fn every_flipped_bit_of_a_blob_is_noticed() {
    let disk = MemDisk::new();
    let (store, _) = open(&disk, 1);
    let body = message(1, 150);
    write(&store, BlobId(1), &body, 100);
    let path = format!("blob/{}", BlobId(1));
    let file = disk.open(&path).unwrap();
    for at in 0..file.len().unwrap() {
        let mut byte = [0];
        file.read_at(&mut byte, at).unwrap();
        file.write_at(&[byte[0] ^ 4], at).unwrap();
        let read = store.blobs().open(BlobId(1)).and_then(|reader| reader.read(0, 1_000));
        let kind = read.unwrap_err().kind;
        assert!(matches!(kind, Kind::Corrupt | Kind::Format), "byte {at}");
        file.write_at(&byte, at).unwrap();
    }
    assert_eq!(store.blobs().open(BlobId(1)).unwrap().read(0, 1_000).unwrap(), body);
}
