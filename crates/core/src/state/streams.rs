//! The streams of a shard, found by id and by name. There may be a million of them on a node, most
//! of them idle, so that what each costs is what this is about: a stream lies in a [`Slab`], and
//! two tables hold its place there, four bytes each, instead of its id and its name again.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;

use super::Stream;
use super::slab::{Slab, Slot};
use crate::content::ContentType;
use crate::ids::{StreamId, StreamName};

/// How many content types are shared between the streams of a shard. Clients may make up any
/// number of them, but those that matter for memory are few.
const SHARED_CONTENTS_MAX: usize = 64;

#[derive(Debug)]
pub(crate) struct Streams {
    slots: Slab<Stream>,
    by_id: HashTable<Slot>,
    by_name: HashTable<Slot>,
    /// Clients choose names: without a secret they could choose ones that collide.
    secret: RandomState,
    contents: HashSet<ContentType>,
}

impl Streams {
    pub(super) fn new() -> Self {
        Self {
            slots: Slab::new(),
            by_id: HashTable::new(),
            by_name: HashTable::new(),
            secret: RandomState::new(),
            contents: HashSet::new(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(crate) fn get(&self, id: StreamId) -> Option<&Stream> {
        let slot = self.by_id.find(hash(id), |slot| self.slots.at(*slot).id == id)?;
        Some(self.slots.at(*slot))
    }

    pub(crate) fn get_mut(&mut self, id: StreamId) -> Option<&mut Stream> {
        let slot = *self.by_id.find(hash(id), |slot| self.slots.at(*slot).id == id)?;
        Some(self.slots.at_mut(slot))
    }

    /// The newest stream under a name.
    pub(crate) fn named(&self, name: &StreamName) -> Option<&Stream> {
        let hash = self.secret.hash_one(name);
        let slot = self.by_name.find(hash, |slot| self.slots.at(*slot).name == *name)?;
        Some(self.slots.at(*slot))
    }

    /// Adds a stream, in place of the one with its id if there is one. Its name means this stream
    /// from now on.
    pub(crate) fn insert(&mut self, mut stream: Stream) {
        self.remove(stream.id);
        stream.content = self.shared(stream.content);
        let (by_id, by_name) = (hash(stream.id), self.secret.hash_one(&stream.name));
        let slot = self.slots.put(stream);
        let slots = &self.slots;
        self.by_id.insert_unique(by_id, slot, |slot| hash(slots.at(*slot).id));
        let name = &slots.at(slot).name;
        if let Some(named) = self.by_name.find_mut(by_name, |slot| slots.at(*slot).name == *name) {
            *named = slot;
        } else {
            let rehash = |slot: &Slot| self.secret.hash_one(&slots.at(*slot).name);
            self.by_name.insert_unique(by_name, slot, rehash);
        }
    }

    pub(crate) fn remove(&mut self, id: StreamId) -> Option<Stream> {
        let found = self.by_id.find_entry(hash(id), |slot| self.slots.at(*slot).id == id);
        let (slot, _) = found.ok()?.remove();
        let stream = self.slots.take(slot);
        // Only as long as the name means this stream.
        let hash = self.secret.hash_one(&stream.name);
        if let Ok(named) = self.by_name.find_entry(hash, |named| *named == slot) {
            named.remove();
        }
        Some(stream)
    }

    /// In no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Stream> {
        self.slots.iter()
    }

    /// In no particular order.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Stream> {
        self.slots.iter_mut()
    }

    /// The same content type, in memory that other streams use as well.
    fn shared(&mut self, content: ContentType) -> ContentType {
        if let Some(known) = self.contents.get(&content) {
            return known.clone();
        }
        if self.contents.len() == SHARED_CONTENTS_MAX {
            self.contents.clear();
        }
        self.contents.insert(content.clone());
        content
    }
}

/// Ids are counters of our own: nobody can choose them to collide. The low bits choose the place
/// in the table and differ between neighbours, the high ones tell apart what shares a place.
fn hash(id: StreamId) -> u64 {
    id.0.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The same streams under the same names.
impl PartialEq for Streams {
    fn eq(&self, other: &Self) -> bool {
        let same = |stream: &Stream| {
            other.get(stream.id) == Some(stream)
                && self.named(&stream.name).map(|named| named.id)
                    == other.named(&stream.name).map(|named| named.id)
        };
        self.len() == other.len() && self.iter().all(same)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{ShardNo, Timestamp};

    fn id(counter: u64) -> StreamId {
        StreamId::new(ShardNo(7), counter)
    }

    fn stream(counter: u64, name: &str, content: &str) -> Stream {
        let name = StreamName::on_base([name]).unwrap();
        Stream::new(id(counter), name, ContentType::parse(content).unwrap(), Timestamp(0))
    }

    fn named(streams: &Streams, name: &str) -> Option<StreamId> {
        streams.named(&StreamName::on_base([name]).unwrap()).map(|stream| stream.id)
    }

    #[test]
    fn a_stream_is_found_by_id_and_name_until_it_is_removed() {
        let mut streams = Streams::new();
        for counter in 0..5_000 {
            streams.insert(stream(counter, &format!("s{counter}"), "a/b"));
        }
        for gone in (0..5_000).step_by(2) {
            assert_eq!(streams.remove(id(gone)).map(|stream| stream.id), Some(id(gone)));
            assert_eq!(streams.remove(id(gone)), None);
        }
        // What comes then takes the room of what went.
        for counter in 5_000..6_000 {
            streams.insert(stream(counter, &format!("s{counter}"), "a/b"));
        }
        assert_eq!((streams.len(), streams.iter().count()), (3_500, 3_500));
        for counter in 0..6_000 {
            let there = (counter % 2 == 1 || counter >= 5_000).then_some(id(counter));
            assert_eq!(streams.get(id(counter)).map(|stream| stream.id), there);
            assert_eq!(named(&streams, &format!("s{counter}")), there);
        }
    }

    #[test]
    fn a_name_means_the_newest_stream_and_outlives_an_older_one() {
        let mut streams = Streams::new();
        streams.insert(stream(1, "a", "a/b"));
        streams.insert(stream(2, "a", "a/b"));
        assert_eq!((streams.len(), named(&streams, "a")), (2, Some(id(2))));
        streams.remove(id(1));
        assert_eq!((streams.len(), named(&streams, "a")), (1, Some(id(2))));
        streams.insert(stream(2, "b", "a/b"));
        assert_eq!((streams.len(), named(&streams, "a")), (1, None));
        assert_eq!(named(&streams, "b"), Some(id(2)));
    }

    #[test]
    fn what_is_shared_between_content_types_is_bounded() {
        let mut streams = Streams::new();
        for counter in 0..1_000 {
            let content = format!("a/b{}", counter % 100);
            streams.insert(stream(counter, &format!("s{counter}"), &content));
            assert_eq!(streams.get(id(counter)).unwrap().content.as_str(), content);
            assert!(streams.contents.len() <= SHARED_CONTENTS_MAX);
        }
    }
}
