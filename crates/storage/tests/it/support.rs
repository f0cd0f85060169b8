//! A small engine: it appends messages to streams, remembers what it wrote, and checks that all of
//! it can be read back.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use headwater_core::ids::{Lsn, Offset, Record, ShardNo, StreamId, Timestamp};
use headwater_storage::{
    Chunk, Data, DataHead, Disk, Entry, Error, Lens, MemDisk, Options, Permit, Reader, Start,
    Store, Use, Visitor, group_bytes,
};

pub(crate) const DIRECTORY: u128 = 0xd1;

/// A stream's messages, one after the other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Model {
    pub(crate) streams: BTreeMap<StreamId, Vec<Vec<u8>>>,
}

impl Model {
    pub(crate) fn messages(&self, stream: StreamId) -> &[Vec<u8>] {
        self.streams.get(&stream).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn tail(&self, stream: StreamId) -> Offset {
        Offset(self.messages(stream).iter().map(|message| message.len() as u64).sum())
    }

    pub(crate) fn next(&self, stream: StreamId) -> Record {
        Record(self.messages(stream).len() as u64)
    }

    /// The entry that appends `messages`.
    pub(crate) fn append(&mut self, stream: StreamId, messages: &[Vec<u8>]) -> Entry {
        let data = Data {
            stream,
            offset: self.tail(stream),
            record: self.next(stream),
            lens: messages.iter().map(|m| u32::try_from(m.len()).unwrap()).collect::<Lens>(),
            payload: messages.concat().into(),
        };
        self.streams.entry(stream).or_default().extend_from_slice(messages);
        Entry { shard: stream.shard(), meta: meta(stream, messages.len()), data: Some(data) }
    }
}

pub(crate) fn meta(stream: StreamId, count: usize) -> Bytes {
    format!("append {count} to {:x}", stream.0).into()
}

pub(crate) fn stream(shard: u8, counter: u64) -> StreamId {
    StreamId::new(ShardNo(shard), counter)
}

/// A message that differs from every other: its bytes depend on `seed` and position.
pub(crate) fn message(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    (0..len).map(|_| next()).collect()
}

/// Remembers what recovery tells.
#[derive(Debug, Default, PartialEq, Eq, Clone)]
pub(crate) struct Recorder {
    pub(crate) images: Vec<(ShardNo, Lsn, Vec<u8>)>,
    pub(crate) entries: Vec<(Lsn, ShardNo, Bytes, Option<DataHead>)>,
}

impl Visitor for Recorder {
    fn image(&mut self, shard: ShardNo, lsn: Lsn, image: &[u8]) -> Result<(), String> {
        assert!(self.entries.is_empty(), "images come first");
        self.images.push((shard, lsn, image.to_vec()));
        Ok(())
    }

    fn entry(
        &mut self,
        lsn: Lsn,
        shard: ShardNo,
        meta: &[u8],
        data: Option<&DataHead>,
    ) -> Result<(), String> {
        self.entries.push((lsn, shard, Bytes::copy_from_slice(meta), data.cloned()));
        Ok(())
    }
}

impl Recorder {
    /// Where each stream ended, by the entries alone.
    pub(crate) fn tails(&self) -> BTreeMap<StreamId, (Offset, Record)> {
        let mut tails = BTreeMap::new();
        for (.., data) in &self.entries {
            if let Some(data) = data {
                let end = data.offset.plus(data.payload_len);
                tails.insert(data.stream, (end, Record(data.record.0 + data.lens.count())));
            }
        }
        tails
    }
}

/// Small files, so that a test sees several.
pub(crate) fn small() -> Options {
    Options { log_file_bytes: 16 << 10, disk_reserve: Some(0), ..Options::default() }
}

pub(crate) type TestStore = Store<u64>;

pub(crate) fn start(log_id: u128) -> Start {
    Start { log_id, directory_id: DIRECTORY, now: Timestamp(1_000) }
}

pub(crate) fn open_with(
    disk: &MemDisk,
    log_id: u128,
    options: Options,
) -> Result<(Arc<TestStore>, Recorder), Error> {
    let mut recorder = Recorder::default();
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let store = Store::open(disk, options, start(log_id), &mut recorder)?;
    Ok((Arc::new(store), recorder))
}

pub(crate) fn open(disk: &MemDisk, log_id: u128) -> (Arc<TestStore>, Recorder) {
    open_with(disk, log_id, small()).unwrap()
}

pub(crate) fn permit(store: &TestStore, group: &[Entry]) -> Permit {
    store.reserve(group_bytes(group), Use::Normal).unwrap()
}

pub(crate) fn enqueue(store: &TestStore, group: &[Entry], done: u64) -> Lsn {
    store.enqueue(permit(store, group), group, done)
}

/// Commits everything that is queued.
pub(crate) fn commit(store: &TestStore) -> Vec<(Lsn, u64)> {
    let mut all = Vec::new();
    loop {
        let done = store.commit(Timestamp(2_000)).unwrap();
        if done.is_empty() {
            return all;
        }
        all.extend(done);
    }
}

/// Appends `messages` in one durable group of one entry.
pub(crate) fn append(store: &TestStore, model: &mut Model, id: StreamId, messages: &[Vec<u8>]) {
    let group = [model.append(id, messages)];
    let lsn = enqueue(store, &group, 0);
    commit(store);
    assert!(store.durable() >= lsn);
}

pub(crate) fn upkeep(store: &TestStore) {
    while store.maintain().unwrap() {}
}

pub(crate) fn chunks(reader: &mut Reader) -> Result<Vec<Chunk>, Error> {
    let mut chunks = Vec::new();
    while !reader.is_at_end() {
        let chunk = match reader.next_now()? {
            None => reader.next()?.expect("it is not at its end"),
            Some(chunk) => chunk,
        };
        assert!(!chunk.bytes.is_empty());
        chunks.push(chunk);
    }
    assert_eq!(reader.next()?, None);
    Ok(chunks)
}

/// Reads a range and checks offsets, ordinals and message ends against `messages`, the whole
/// stream.
pub(crate) fn check_range(
    reader: &mut Reader,
    messages: &[Vec<u8>],
    from: Offset,
    to: Offset,
) -> Result<(), Error> {
    let all = messages.concat();
    let mut ends = Vec::new();
    let mut end = 0;
    for message in messages {
        end += message.len() as u64;
        ends.push(end);
    }
    let mut at = from;
    for chunk in chunks(reader)? {
        assert_eq!(chunk.offset, at);
        let next = at.plus(chunk.bytes.len() as u64);
        assert_eq!(chunk.bytes, all[at.0 as usize..next.0 as usize]);
        assert_eq!(chunk.record.0, ends.iter().filter(|end| **end <= at.0).count() as u64);
        let inside = ends.iter().filter(|end| (at.0 + 1..=next.0).contains(end));
        let inside: Vec<_> = inside.map(|end| u32::try_from(end - at.0).unwrap()).collect();
        assert_eq!(*chunk.ends, inside[..], "{at} to {next}");
        at = next;
    }
    assert_eq!(at, to);
    Ok(())
}

/// Checks that everything in `model` can be read back.
pub(crate) fn check_all(store: &TestStore, model: &Model) -> Result<(), Error> {
    for (id, messages) in &model.streams {
        let tail = model.tail(*id);
        let mut reader = store.read(*id, None, Offset::ZERO, tail);
        check_range(&mut reader, messages, Offset::ZERO, tail)?;
    }
    Ok(())
}

/// Checks every question about message boundaries against `model`.
pub(crate) fn check_boundaries(store: &TestStore, model: &Model, id: StreamId) {
    let (tail, next) = (model.tail(id), model.next(id));
    let mut start = Offset::ZERO;
    for (record, message) in (0..).map(Record).zip(model.messages(id)) {
        let found = store.boundary(id, None, start, tail, next).unwrap();
        assert_eq!(found, Some(record));
        assert_eq!(store.offset_of(id, None, record, tail, next).unwrap(), start);
        let end = start.plus(message.len() as u64);
        if message.len() > 1 {
            let inside = store.boundary(id, None, Offset(end.0 - 1), tail, next).unwrap();
            assert_eq!(inside, None);
        }
        let one = store.extent(id, None, start, tail, 1).unwrap();
        assert_eq!((one.record, one.end), (record, end));
        assert_eq!(one.record_end, Record(record.0 + 1));
        start = end;
    }
    assert_eq!(store.boundary(id, None, tail, tail, next).unwrap(), Some(next));
    assert_eq!(store.boundary(id, None, tail.plus(1), tail, next).unwrap(), None);
    assert_eq!(store.offset_of(id, None, next, tail, next).unwrap(), tail);
}
