//! What is true after every command, whatever it was.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use headwater_core::ids::{BlobId, BucketId, Lineage, Offset, Record, StreamId, StreamName};
use headwater_core::state::{State, Stream};

use super::{Message, World};

impl World {
    /// Everything that is true after every command, or a panic that says what is not.
    pub(crate) fn check(&self) {
        for (state, replica) in self.states.iter().zip(&self.replicas) {
            assert_eq!(state, replica, "replayed and live states are equal");
        }
        let mut blobs: BTreeMap<BlobId, usize> = BTreeMap::new();
        let mut counts: BTreeMap<BucketId, (BTreeSet<StreamName>, u64)> = BTreeMap::new();
        for stream in self.states.iter().flat_map(State::streams) {
            self.check_stream(stream);
            if let Some(snapshot) = stream.snapshot() {
                *blobs.entry(snapshot.blob).or_default() += 1;
            }
            let count = counts.entry(stream.name.bucket()).or_default();
            if stream.hidden {
                count.1 += 1;
            } else {
                count.0.insert(stream.name.clone());
            }
        }
        assert_eq!(blobs, self.blobs, "every blob is counted once a stream that names it");
        for (id, (listed, held)) in &counts {
            let bucket = self.shard(id.shard()).bucket(id).expect("a stream lives in a bucket");
            assert_eq!(bucket.held(), *held, "{id:?}");
            let page = bucket.page(id, "", "", 1_000_000);
            assert!(page.names.iter().eq(listed.iter()), "{id:?} lists its streams in order");
        }
        for (id, bucket) in self.states.iter().flat_map(|state| state.buckets_after("")) {
            let (listed, held) = counts.remove(id).unwrap_or_default();
            assert_eq!(bucket.streams(), listed.len() as u64 + held, "{id:?}");
        }
    }

    fn check_stream(&self, stream: &Stream) {
        let id = stream.id;
        assert_eq!(self.stream(&stream.name).map(|found| found.id), Some(id), "its name finds it");
        assert_eq!(id.shard(), stream.name.shard());
        assert!(stream.retained() <= stream.tail && stream.first() <= stream.next);
        if let Some(snapshot) = stream.snapshot() {
            assert!(stream.retained() <= snapshot.offset && snapshot.offset <= stream.tail);
        } else if !stream.hidden {
            assert_eq!(stream.retained(), Offset::ZERO, "what is discarded is covered");
        }
        assert!(!stream.hidden || stream.has_forks() || self.purges.contains(&id), "{id:?} leaks");

        let copied = self.messages(id, Offset::ZERO);
        let end = copied
            .last()
            .map_or((Offset::ZERO, Record(0)), |last| (last.end(), Record(last.record.0 + 1)));
        assert_eq!(end, (stream.tail, stream.next));
        let through = self.through(id, stream.lineage());
        assert!(through.into_iter().eq(copied), "a lineage leads to the messages of {id:?}");
        for boundary in [(stream.retained(), stream.first()), end] {
            let mut places = copied.iter().map(|message| (message.offset, message.record));
            assert!(boundary == end || places.any(|place| place == boundary));
        }
        if let Some(origin) = stream.origin() {
            let source = self.shard(origin.source_id.shard()).stream(origin.source_id);
            let source = source.expect("a fork keeps its source");
            assert!(source.forks().any(|(fork, _)| fork == id), "its source knows it");
        }
        for (fork, inherited) in stream.forks() {
            let fork = self.shard(fork.shard()).stream(fork).expect("a fork that is counted");
            assert_eq!(fork.origin().map(|origin| origin.source_id), Some(id));
            assert!(inherited.end <= stream.tail && inherited.start <= fork.retained());
            for message in self.messages(fork.id, fork.retained()) {
                let here = self.messages(id, message.offset).first() == Some(message)
                    && message.end() <= inherited.end;
                assert!(!here || stream.needs(message.offset, message.end()), "bytes of a fork");
            }
        }
    }

    /// The messages as a reader finds them: own ones, then up the lineage.
    fn through(&self, id: StreamId, lineage: Option<&Arc<Lineage>>) -> Vec<&Message> {
        let mut parts = vec![&self.own[&id][..]];
        let mut link = lineage;
        while let Some(Lineage { stream, end, parent }) = link.map(AsRef::as_ref) {
            let own = &self.own[stream];
            parts.push(&own[..own.partition_point(|message| message.offset < *end)]);
            link = parent.as_ref();
        }
        parts.into_iter().rev().flatten().collect()
    }
}
