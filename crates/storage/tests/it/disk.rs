//! The contract of a disk, on every implementation.

use std::io::ErrorKind;
use std::sync::Arc;

use headwater_core::ids::Timestamp;
use headwater_storage::{Disk, Kind, MemDisk, OsDisk, Store};

use crate::support::*;

/// A directory that is removed at the end.
struct TempDir(std::path::PathBuf);

impl TempDir {
    fn new(name: &str) -> Self {
        let unique = format!("headwater-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(unique);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

/// Runs one claim on every disk.
fn on_every_disk(name: &str, claim: impl Fn(&dyn Disk)) {
    claim(&MemDisk::new());
    let dir = TempDir::new(name);
    claim(&OsDisk::open(&dir.0).unwrap());
}

fn kind<T>(result: std::io::Result<T>) -> ErrorKind {
    result.err().unwrap().kind()
}

fn read(disk: &dyn Disk, path: &str) -> Vec<u8> {
    let file = disk.open(path).unwrap();
    let mut bytes = vec![0xff; usize::try_from(file.len().unwrap()).unwrap()];
    assert_eq!(file.read_at(&mut bytes, 0).unwrap(), bytes.len());
    bytes
}

#[test]
fn a_file_is_created_once_and_opened_often() {
    on_every_disk("create", |disk| {
        assert_eq!(kind(disk.open("a")), ErrorKind::NotFound);
        let file = disk.create("a").unwrap();
        assert!(file.is_empty().unwrap());
        assert_eq!(kind(disk.create("a")), ErrorKind::AlreadyExists);
        file.write_at(b"x", 0).unwrap();
        file.sync().unwrap();
        disk.sync_dir("").unwrap();
        assert_eq!(read(disk, "a"), b"x");
    });
}

#[test]
fn bytes_are_where_they_were_written() {
    on_every_disk("write", |disk| {
        let file = disk.create("a").unwrap();
        file.write_at(b"world", 6).unwrap();
        file.write_at(b"hello", 0).unwrap();
        assert_eq!(read(disk, "a"), b"hello\0world");
        disk.open("a").unwrap().write_at(b"J", 0).unwrap();
        assert_eq!(read(disk, "a"), b"Jello\0world");
    });
}

#[test]
fn a_read_that_must_not_wait_gives_the_same_bytes_or_none() {
    on_every_disk("read-now", |disk| {
        let file = disk.create("a").unwrap();
        file.write_at(&[7; 10_000], 0).unwrap();
        let mut buf = vec![0; 10_000];
        if let Some(read) = file.read_now(&mut buf, 0).unwrap() {
            assert!(buf[..read].iter().all(|byte| *byte == 7));
            assert!(buf[read..].iter().all(|byte| *byte == 0));
        }
    });
}

#[test]
fn a_read_is_short_only_at_the_end() {
    on_every_disk("read", |disk| {
        let file = disk.create("a").unwrap();
        file.write_at(b"0123456789", 0).unwrap();
        let mut buf = [0; 4];
        assert_eq!(file.read_at(&mut buf, 8).unwrap(), 2);
        assert_eq!(&buf[..2], b"89");
        assert_eq!(file.read_at(&mut buf, 10).unwrap(), 0);
        assert_eq!(file.read_at(&mut buf, 1 << 40).unwrap(), 0);
        assert_eq!(file.read_at(&mut [], 3).unwrap(), 0);
    });
}

#[test]
fn lengths_are_set_and_new_bytes_are_zero() {
    on_every_disk("len", |disk| {
        let file = disk.create("a").unwrap();
        file.write_at(b"abcdef", 0).unwrap();
        file.set_len(3).unwrap();
        file.set_len(5).unwrap();
        assert_eq!(read(disk, "a"), b"abc\0\0");
        file.allocate(8).unwrap();
        assert_eq!(read(disk, "a"), b"abc\0\0\0\0\0");
        file.allocate(2).unwrap();
        assert_eq!((file.len().unwrap(), read(disk, "a")), (2, b"ab".to_vec()));
        file.allocate(0).unwrap();
        assert!(file.is_empty().unwrap());
    });
}

#[test]
fn a_directory_lists_its_files_sorted() {
    on_every_disk("list", |disk| {
        assert_eq!(kind(disk.list("d")), ErrorKind::NotFound);
        assert_eq!(kind(disk.create("d/a")), ErrorKind::NotFound);
        disk.create_dir("d").unwrap();
        disk.create_dir("d").unwrap();
        for path in ["d/b", "d/a", "d/c", "e"] {
            disk.create(path).unwrap();
        }
        assert_eq!(disk.list("d").unwrap(), ["a", "b", "c"]);
        assert_eq!(disk.list("").unwrap(), ["e"]);
        disk.sync_dir("d").unwrap();
    });
}

#[test]
fn a_rename_replaces() {
    on_every_disk("rename", |disk| {
        disk.create("a").unwrap().write_at(b"new", 0).unwrap();
        disk.create("b").unwrap().write_at(b"old", 0).unwrap();
        disk.rename("a", "b").unwrap();
        assert_eq!((disk.list("").unwrap(), read(disk, "b")), (vec!["b".into()], b"new".to_vec()));
        assert_eq!(kind(disk.rename("a", "b")), ErrorKind::NotFound);
    });
}

#[test]
fn a_removed_file_stays_readable_for_who_has_it_open() {
    on_every_disk("remove", |disk| {
        let file = disk.create("a").unwrap();
        file.write_at(b"still here", 0).unwrap();
        disk.remove("a").unwrap();
        assert_eq!(kind(disk.remove("a")), ErrorKind::NotFound);
        assert_eq!(kind(disk.open("a")), ErrorKind::NotFound);
        let mut buf = [0; 10];
        assert_eq!(file.read_at(&mut buf, 0).unwrap(), 10);
        assert_eq!(&buf, b"still here");
        disk.create("a").unwrap();
        assert_eq!(read(disk, "a"), b"");
    });
}

#[test]
fn space_is_known() {
    on_every_disk("space", |disk| {
        assert!(disk.available().unwrap() <= disk.capacity().unwrap());
        assert!(disk.capacity().unwrap() > 0);
    });
}

#[test]
fn allocating_more_than_there_is_says_so() {
    let disk = MemDisk::with_capacity(100);
    let file = disk.create("a").unwrap();
    file.allocate(60).unwrap();
    assert_eq!(disk.available().unwrap(), 40);
    let other = disk.create("b").unwrap();
    assert_eq!(kind(other.allocate(41)), ErrorKind::StorageFull);
    assert_eq!(kind(other.write_at(&[0; 41], 0)), ErrorKind::StorageFull);
    other.allocate(40).unwrap();
    file.write_at(&[1; 60], 0).unwrap();
    disk.remove("a").unwrap();
    assert_eq!(disk.available().unwrap(), 0);
    drop(file);
    assert_eq!(disk.available().unwrap(), 60);
}

#[test]
fn a_store_keeps_its_promise_on_a_real_file_system() {
    let dir = TempDir::new("store");
    let mut model = Model::default();
    for log_id in 1..4 {
        let disk: Arc<dyn Disk> = Arc::new(OsDisk::open(&dir.0).unwrap());
        let store = Store::open(disk, small(), start(log_id), &mut Recorder::default()).unwrap();
        check_all(&store, &model).unwrap();
        for n in 0..200 {
            append(&store, &mut model, stream(1, n % 3), &[message(n, 100), message(n + 1, 7)]);
            upkeep(&store);
        }
        check_all(&store, &model).unwrap();
        if log_id == 2 {
            store.seal(Timestamp(1)).unwrap();
        }
    }
    let disk: Arc<dyn Disk> = Arc::new(OsDisk::open(&dir.0).unwrap());
    let store = Store::open(disk, small(), start(4), &mut Recorder::default()).unwrap();
    check_all(&store, &model).unwrap();
}

#[test]
fn a_data_directory_has_one_owner() {
    let dir = TempDir::new("lock");
    let first = OsDisk::open(&dir.0).unwrap();
    assert_eq!(OsDisk::open(&dir.0).err().unwrap().kind, Kind::Locked);
    assert_eq!(first.list("").unwrap(), [""; 0]);
    drop(first);
    let disk: Arc<dyn Disk> = Arc::new(OsDisk::open(&dir.0).unwrap());
    assert_eq!(disk.list("").unwrap(), [""; 0]);
}
