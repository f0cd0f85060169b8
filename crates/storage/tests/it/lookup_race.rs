//! A lookup finds a file in the index, and opens it a moment later. Whatever ends in between, the
//! file must still be there.

use std::io;
use std::sync::Arc;

use headwater_core::ids::{Offset, Record, ShardNo, StreamId};
use headwater_storage::{Disk, DiskFile, Error, MemDisk, Need, Options, Store};
use parking_lot::Mutex;

use crate::support::*;

type Hook = Box<dyn FnOnce() + Send>;

/// A disk on which something else happens just before a file is opened, once.
#[derive(Clone)]
struct HookDisk {
    inner: MemDisk,
    before_open: Arc<Mutex<Option<Hook>>>,
}

impl Disk for HookDisk {
    fn create(&self, path: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.inner.create(path)
    }
    fn open(&self, path: &str) -> io::Result<Arc<dyn DiskFile>> {
        let hook = self.before_open.lock().take();
        if let Some(hook) = hook {
            hook();
        }
        self.inner.open(path)
    }
    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        self.inner.list(dir)
    }
    fn create_dir(&self, dir: &str) -> io::Result<()> {
        self.inner.create_dir(dir)
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.inner.rename(from, to)
    }
    fn remove(&self, path: &str) -> io::Result<()> {
        self.inner.remove(path)
    }
    fn sync_dir(&self, dir: &str) -> io::Result<()> {
        self.inner.sync_dir(dir)
    }
    fn available(&self) -> io::Result<u64> {
        self.inner.available()
    }
    fn capacity(&self) -> io::Result<u64> {
        self.inner.capacity()
    }
}

/// Everything of one stream is about to be compacted, and no file is open.
fn about_to_compact() -> (HookDisk, Arc<TestStore>, Model) {
    let disk = HookDisk { inner: MemDisk::new(), before_open: Arc::default() };
    let options = Options {
        log_file_bytes: 2 << 10,
        ring_bytes: 0,
        footer_cache_bytes: 0,
        open_files_max: 1,
        compact_bytes: 1,
        ..small()
    };
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let store = Store::open(shared, options, start(1), &mut Recorder::default()).unwrap();
    let mut model = Model::default();
    for n in 0..60 {
        append(&store, &mut model, stream(1, 1), &[message(n, 100)]);
        upkeep(&store);
    }
    let mut round = store.begin_checkpoint().unwrap();
    round.add(ShardNo(1), store.durable(), b"image").unwrap();
    store.finish_checkpoint(round).unwrap();
    (disk, Arc::new(store), model)
}

/// Compacts everything and removes what nobody holds.
fn compact(store: &TestStore) {
    let all = |_: StreamId, start, _| Need { from: Some(start), older: true };
    while store.compact(&all).unwrap() {}
    upkeep(store);
}

/// Runs `lookup` with a whole compaction between its finding a file and opening it.
fn race<T>(lookup: impl Fn(&TestStore, &Model) -> Result<T, Error>) -> T {
    let (disk, store, model) = about_to_compact();
    let before = disk.list("log").unwrap();
    let other = Arc::clone(&store);
    *disk.before_open.lock() = Some(Box::new(move || compact(&other)));
    let found = lookup(&store, &model);
    assert!(disk.before_open.lock().is_none(), "the lookup opened a file");
    upkeep(&store);
    let after = disk.list("log").unwrap();
    assert!(after.len() < before.len() / 2, "the compaction was for real: {before:?} {after:?}");
    found.unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn a_boundary_is_found_though_its_file_is_compacted_away_meanwhile() {
    let found = race(|store, model| {
        let (tail, next) = (model.tail(stream(1, 1)), model.next(stream(1, 1)));
        store.boundary(stream(1, 1), None, Offset(300), tail, next)
    });
    assert_eq!(found, Some(Record(3)));
}

#[test]
fn an_offset_is_found_though_its_file_is_compacted_away_meanwhile() {
    let found = race(|store, model| {
        let (tail, next) = (model.tail(stream(1, 1)), model.next(stream(1, 1)));
        store.offset_of(stream(1, 1), None, Record(3), tail, next)
    });
    assert_eq!(found, Offset(300));
}

#[test]
fn an_extent_is_found_though_its_file_is_compacted_away_meanwhile() {
    let found = race(|store, model| {
        store.extent(stream(1, 1), None, Offset(300), model.tail(stream(1, 1)), 250)
    });
    assert_eq!((found.record, found.end, found.record_end), (Record(3), Offset(500), Record(5)));
}

#[test]
fn a_read_goes_on_though_its_files_are_compacted_away_meanwhile() {
    let bytes = race(|store, model| {
        let mut reader = store.read(stream(1, 1), None, Offset(0), model.tail(stream(1, 1)));
        let chunks = chunks(&mut reader)?;
        Ok(chunks.iter().flat_map(|chunk| chunk.bytes.to_vec()).collect::<Vec<_>>())
    });
    assert_eq!(bytes, about_to_compact().2.messages(stream(1, 1)).concat());
}
