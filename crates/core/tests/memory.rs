//! What a stream costs in memory when nothing happens to it. Alone in its process, since it counts
//! every allocation.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]

use headwater_core::content::ContentType;
use headwater_core::entry::Entry;
use headwater_core::ids::{
    BucketId, Offset, Record, SHARD_COUNT, ShardNo, StreamId, StreamName, Timestamp,
};
use headwater_core::state::{Life, Names, State};
use headwater_core::stream::create::Created;
use peak_alloc::PeakAlloc;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// What each shard of a node with a million streams holds.
const STREAMS_A_SHARD: usize = 1_000_000 / SHARD_COUNT;

/// Some shards, the one with the listing of the base name space among them.
fn shards() -> Vec<State> {
    let base = BucketId::base().shard();
    (0..4).map(|no| State::new(ShardNo(base.0 + no))).collect()
}

/// The entries that create the streams of [`shards`], as the log brings them.
fn log(shards: &[State]) -> Vec<bytes::Bytes> {
    let mut created = vec![0_u64; shards.len()];
    let mut log = Vec::new();
    for number in 0.. {
        let path = format!("tests-19ad0c2d3e4-{number:07}");
        let name = StreamName::on_base([&*path]).unwrap();
        let Some(shard) = shards.iter().position(|state| state.shard() == name.shard()) else {
            continue;
        };
        if created[shard] < STREAMS_A_SHARD as u64 {
            let id = StreamId::new(name.shard(), created[shard]);
            created[shard] += 1;
            log.push(Entry::Created(Box::new(plain(id, name.clone()))).encode());
            log.push(Entry::Listed { name }.encode());
        } else if created.iter().all(|count| *count == STREAMS_A_SHARD as u64) {
            break;
        }
    }
    log
}

/// A stream that nobody asked anything special of.
fn plain(id: StreamId, name: StreamName) -> Created {
    Created {
        id,
        name,
        content: ContentType::parse("text/plain; charset=utf-8").unwrap(),
        at: Timestamp(1_700_000_000_000),
        life: Life::Endless,
        closed: false,
        attributes: None,
        start: (Offset::ZERO, Record(0)),
        retained: (Offset::ZERO, Record(0)),
        bytes: 0,
        count: 0,
        origin: None,
        snapshot: None,
    }
}

/// The states that `entries` lead to.
fn apply(entries: impl Iterator<Item = Entry>) -> Vec<State> {
    let mut states = shards();
    for entry in entries {
        let state = states.iter_mut().find(|state| state.shard() == entry.shard());
        state.unwrap().apply(&entry);
    }
    states
}

/// What `make` makes, and how much memory that takes per stream.
fn weighed<T>(make: impl FnOnce() -> T) -> (T, usize) {
    let before = ALLOCATOR.current_usage();
    let made = make();
    (made, (ALLOCATOR.current_usage() - before) / (4 * STREAMS_A_SHARD))
}

#[test]
fn an_idle_stream_costs_at_most_172_bytes() {
    let log = log(&shards());
    let replay = || {
        let mut names = Names::default();
        apply(log.iter().map(|bytes| {
            let mut entry = Entry::decode(bytes).unwrap();
            entry.share_names(&mut names);
            entry
        }))
    };
    let (states, replayed) = weighed(replay);
    let images: Vec<_> = states.iter().map(State::image).collect();
    let restore = || {
        let mut names = Names::default();
        let read = |image: &bytes::Bytes| {
            let mut state = State::from_image(image).unwrap();
            state.share_names(&mut names);
            state
        };
        images.iter().map(read).collect::<Vec<_>>()
    };
    let (read, restored) = weighed(restore);
    assert!(states == read);
    assert!(replayed <= 172, "{replayed} bytes a stream when the log brings it");
    assert!(restored <= 162, "{restored} bytes a stream when an image brings it");
}
