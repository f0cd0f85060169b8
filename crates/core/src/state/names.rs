//! Names that several shards know. A stream's name lies in its own shard and in the listing of its
//! bucket: a live server keeps one copy for both, but what is read back comes in pieces.

use std::hash::{BuildHasher as _, RandomState};

use hashbrown::HashTable;
use hashbrown::hash_table;

use super::State;
use crate::entry::Entry;
use crate::ids::StreamName;

/// The names that a recovery has met. Whatever is shared with them keeps the memory of the first
/// one that was equal.
#[derive(Debug, Default)]
pub struct Names {
    /// Each with its hash, since a million names are not hashed again whenever the table grows.
    known: HashTable<(u64, StreamName)>,
    secret: RandomState,
}

impl Names {
    fn share(&mut self, name: &mut StreamName) {
        let hash = self.secret.hash_one(&*name);
        match self.known.entry(hash, |(_, known)| known == name, |(hash, _)| *hash) {
            hash_table::Entry::Occupied(known) => name.clone_from(&known.get().1),
            hash_table::Entry::Vacant(place) => {
                place.insert((hash, name.clone()));
            }
        }
    }
}

impl State {
    /// Shares the names of streams with other shards that were read back.
    pub fn share_names(&mut self, names: &mut Names) {
        for stream in self.streams.iter_mut() {
            names.share(&mut stream.name);
        }
        for bucket in self.buckets.values_mut() {
            let listed = std::mem::take(&mut bucket.listed).into_iter();
            let shared = listed.map(|mut name| {
                names.share(&mut name);
                name
            });
            bucket.listed = shared.collect();
        }
    }
}

impl Entry {
    /// Shares the name that applying this leaves in a shard.
    pub fn share_names(&mut self, names: &mut Names) {
        match self {
            Self::Created(created) => names.share(&mut created.name),
            Self::Listed { name } => names.share(name),
            _ => {}
        }
    }
}
