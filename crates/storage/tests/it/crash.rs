//! A small engine on a disk that kills the process at any call and then cuts the power, again and
//! again. After every start the state is exactly what it was at some lsn that is not older than
//! anything that was acknowledged, or read, before.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;

use bytes::Bytes;
use headwater_core::ids::{Lsn, Offset, Record, ShardNo, StreamId, Timestamp};
use headwater_storage::{
    Data, DataHead, Entry, Error, Lens, Options, Start, Store, Use, Visitor, group_bytes,
};

use crate::crash_disk::{CrashDisk, Dice};
use crate::support::{check_range, message, stream};

/// What the engine knows of a stream, without its bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Stream {
    /// Bytes below are not needed any more.
    floor: u64,
    lens: Vec<u32>,
}

impl Stream {
    fn tail(&self) -> Offset {
        Offset(self.lens.iter().map(|len| u64::from(*len)).sum())
    }
}

type State = BTreeMap<StreamId, Stream>;

/// The state by recovery.
#[derive(Default)]
struct Rebuild(State);

impl Visitor for Rebuild {
    fn image(&mut self, _shard: ShardNo, _lsn: Lsn, image: &[u8]) -> Result<(), String> {
        for line in std::str::from_utf8(image).unwrap().lines() {
            let mut numbers = line.split(' ').map(|number| number.parse::<u64>().unwrap());
            let id = StreamId(numbers.next().unwrap());
            let floor = numbers.next().unwrap();
            let lens = numbers.map(|len| len as u32).collect();
            self.0.insert(id, Stream { floor, lens });
        }
        Ok(())
    }

    fn entry(
        &mut self,
        _lsn: Lsn,
        _shard: ShardNo,
        meta: &[u8],
        data: Option<&DataHead>,
    ) -> Result<(), String> {
        if let Some(data) = data {
            let stream = self.0.entry(data.stream).or_default();
            assert_eq!((data.offset, data.record), (stream.tail(), next(stream)));
            stream.lens.extend_from_slice(data.lens.as_slice());
            return Ok(());
        }
        let text = std::str::from_utf8(meta).unwrap();
        let (id, floor) = text.split_once(' ').unwrap();
        let id = StreamId(id.parse().unwrap());
        self.0.entry(id).or_default().floor = floor.parse().unwrap();
        Ok(())
    }
}

fn next(stream: &Stream) -> Record {
    Record(stream.lens.len() as u64)
}

fn image(state: &State, shard: ShardNo) -> Vec<u8> {
    let mut image = Vec::new();
    for (id, stream) in state.iter().filter(|(id, _)| id.shard() == shard) {
        write!(image, "{} {}", id.0, stream.floor).unwrap();
        for len in &stream.lens {
            write!(image, " {len}").unwrap();
        }
        writeln!(image).unwrap();
    }
    image
}

/// The message number `record` of a stream is always the same bytes.
fn content(id: StreamId, record: u64, len: u32) -> Vec<u8> {
    message(id.0.wrapping_mul(1_000_003).wrapping_add(record), len as usize)
}

struct World {
    disk: CrashDisk,
    dice: Dice,
    /// The state after each lsn.
    history: Vec<State>,
    /// Nothing up to here may be lost.
    promised: Lsn,
    logs: u128,
    /// The shards that changed since their last image.
    dirty: Vec<ShardNo>,
}

type Running = Arc<Store<()>>;

impl World {
    fn new(seed: u64) -> Self {
        Self {
            disk: CrashDisk::new(seed ^ 0xdead_beef),
            dice: Dice::new(seed),
            history: vec![State::new()],
            promised: Lsn(0),
            logs: 0,
            dirty: Vec::new(),
        }
    }

    /// Starts the store and checks what it recovered.
    fn open(&mut self) -> Result<Running, Error> {
        self.logs += 1;
        let options = Options {
            log_file_bytes: 3_000 + self.dice.below(3_000),
            disk_reserve: Some(0),
            ring_bytes: self.dice.below(2) * 10_000,
            ..Options::default()
        };
        let now = Timestamp(self.logs as u64);
        let start = Start { log_id: self.logs, directory_id: 7, now };
        let mut rebuild = Rebuild::default();
        let store = Store::open(Arc::new(self.disk.clone()), options, start, &mut rebuild)?;
        let last = store.durable();
        assert!(last >= self.promised, "{last:?} came back, {:?} was promised", self.promised);
        assert!(rebuild.0 == self.history[last.0 as usize], "the state at {last:?} came back");
        self.promised = last;
        self.history.truncate(last.0 as usize + 1);
        self.dirty = ShardNo::all().take(4).collect();
        Ok(Arc::new(store))
    }

    /// Does random things until the process is killed.
    fn run(&mut self, store: &Running) -> Result<(), Error> {
        loop {
            match self.dice.below(20) {
                0..8 => self.enqueue(store)?,
                8..14 => self.commit(store)?,
                14..16 => {
                    store.maintain()?;
                }
                16 => self.checkpoint(store)?,
                17 => self.reclaim(store)?,
                18 => self.read(store)?,
                _ if self.dice.one_in(8) => {
                    store.seal(Timestamp(self.logs as u64))?;
                    self.promised = store.enqueued();
                    return Ok(());
                }
                _ => {}
            }
        }
    }

    fn enqueue(&mut self, store: &Running) -> Result<(), Error> {
        let mut state = self.history.last().unwrap().clone();
        let mut group = Vec::new();
        for _ in 0..=self.dice.below(2) {
            let id = stream(self.dice.below(4) as u8, self.dice.below(2));
            group.push(self.entry(&mut state, id));
            self.dirty.push(id.shard());
        }
        let permit = store.reserve(group_bytes(&group), Use::Normal)?;
        let lsn = store.enqueue(permit, &group, ());
        assert_eq!(lsn.0 as usize, self.history.len());
        self.history.push(state);
        Ok(())
    }

    fn entry(&mut self, state: &mut State, id: StreamId) -> Entry {
        let stream = state.entry(id).or_default();
        let shard = id.shard();
        if self.dice.one_in(6) {
            let message = self.dice.below(stream.lens.len() as u64 + 1) as usize;
            let floor: u64 = stream.lens[..message].iter().map(|len| u64::from(*len)).sum();
            stream.floor = stream.floor.max(floor);
            let meta = format!("{} {}", id.0, stream.floor).into();
            return Entry { shard, meta, data: None };
        }
        let (offset, record) = (stream.tail(), next(stream));
        let count = 1 + self.dice.below(3);
        let long = self.dice.one_in(20);
        let mut len = || 1 + self.dice.below(if long { 4_000 } else { 120 }) as u32;
        let lens: Vec<u32> = (0..count).map(|_| len()).collect();
        let payload = (record.0..).zip(&lens).map(|(record, len)| content(id, record, *len));
        let payload = payload.collect::<Vec<_>>().concat().into();
        stream.lens.extend_from_slice(&lens);
        let lens = lens.into_iter().collect::<Lens>();
        let data = Some(Data { stream: id, offset, record, lens, payload });
        Entry { shard, meta: Bytes::from_static(b"append"), data }
    }

    fn commit(&mut self, store: &Running) -> Result<(), Error> {
        let done = store.commit(Timestamp(self.logs as u64))?;
        if let Some((lsn, ())) = done.last() {
            assert_eq!(*lsn, store.durable());
            self.promised = *lsn;
        }
        Ok(())
    }

    fn checkpoint(&mut self, store: &Running) -> Result<(), Error> {
        let durable = store.durable();
        let mut round = store.begin_checkpoint()?;
        self.dirty.sort_unstable();
        self.dirty.dedup();
        for shard in std::mem::take(&mut self.dirty) {
            if self.dice.one_in(4) {
                self.dirty.push(shard);
                continue;
            }
            round.add(shard, durable, &image(&self.history[durable.0 as usize], shard))?;
            if store.enqueued() > durable {
                self.dirty.push(shard);
            }
        }
        store.finish_checkpoint(round)
    }

    fn reclaim(&mut self, store: &Running) -> Result<(), Error> {
        let durable = &self.history[store.durable().0 as usize];
        let live = |id: StreamId, _: Offset, end: Offset| {
            durable.get(&id).is_some_and(|stream| end.0 > stream.floor)
        };
        store.reclaim(&live)?;
        Ok(())
    }

    /// Reads everything that is retained and durable.
    fn read(&mut self, store: &Running) -> Result<(), Error> {
        for (id, stream) in &self.history[store.durable().0 as usize] {
            let messages = (0..).zip(&stream.lens).map(|(record, len)| content(*id, record, *len));
            let messages: Vec<_> = messages.collect();
            let (from, to) = (Offset(stream.floor), stream.tail());
            let mut reader = store.read(*id, None, from, to);
            check_range(&mut reader, &messages, from, to)?;
            if from < to {
                let found = store.boundary(*id, None, from, to, next(stream))?;
                assert!(found.is_some());
            }
        }
        Ok(())
    }
}

/// Lives through several processes on one disk.
fn live(seed: u64) {
    let mut world = World::new(seed);
    for _ in 0..6 {
        let calls = 1 + world.dice.below(if world.dice.clone().one_in(2) { 40 } else { 400 });
        world.disk.kill_after(calls);
        let ended = world.open().and_then(|store| {
            world.read(&store)?;
            world.run(&store)
        });
        if let Err(error) = ended {
            let killed = error.source.as_ref().is_some_and(|e| e.to_string().contains("killed"));
            assert!(killed || error.to_string().contains("the log has stopped"), "{error}");
        }
        world.disk.restart();
        if world.dice.one_in(2) {
            world.disk.cut_power();
        }
    }
    let store = world.open().unwrap();
    world.read(&store).unwrap();
}

#[test]
fn no_crash_loses_what_was_acknowledged_or_read() {
    let seeds = std::env::var("CRASH_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(150);
    let first = std::env::var("CRASH_SEED").ok().and_then(|n| n.parse().ok());
    for seed in first.map_or(0..seeds, |first| first..first + 1) {
        let lived = std::panic::catch_unwind(|| live(seed));
        assert!(lived.is_ok(), "CRASH_SEED={seed} fails");
    }
}
