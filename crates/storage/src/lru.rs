//! A cache with a budget: the least recently used value goes first.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

use crate::hash::IdHash;

/// Values by key, of which only so much is kept.
pub(crate) struct Lru<K, V> {
    budget: u64,
    used: u64,
    tick: u64,
    values: HashMap<K, Slot<V>, IdHash>,
    by_age: BTreeMap<u64, K>,
}

struct Slot<V> {
    value: V,
    weight: u64,
    tick: u64,
}

impl<K: Copy + Eq + Hash, V: Clone> Lru<K, V> {
    pub(crate) fn new(budget: u64) -> Self {
        Self { budget, used: 0, tick: 0, values: HashMap::default(), by_age: BTreeMap::new() }
    }

    pub(crate) fn get(&mut self, key: K) -> Option<V> {
        let slot = self.values.get_mut(&key)?;
        self.by_age.remove(&slot.tick);
        self.tick += 1;
        slot.tick = self.tick;
        self.by_age.insert(self.tick, key);
        Some(slot.value.clone())
    }

    /// Keeps a value. One that is larger than the whole budget is kept until the next comes.
    pub(crate) fn insert(&mut self, key: K, value: V, weight: u64) {
        self.remove(key);
        self.tick += 1;
        self.used += weight;
        self.by_age.insert(self.tick, key);
        self.values.insert(key, Slot { value, weight, tick: self.tick });
        while self.used > self.budget && self.values.len() > 1 {
            let Some((_, oldest)) = self.by_age.pop_first() else { break };
            self.forget(oldest);
        }
    }

    pub(crate) fn remove(&mut self, key: K) {
        if let Some(tick) = self.forget(key) {
            self.by_age.remove(&tick);
        }
    }

    fn forget(&mut self, key: K) -> Option<u64> {
        let slot = self.values.remove(&key)?;
        self.used -= slot.weight;
        Some(slot.tick)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_value_goes_first() {
        let mut lru = Lru::new(10);
        lru.insert(1, 'a', 4);
        lru.insert(2, 'b', 4);
        assert_eq!(lru.get(1), Some('a'));
        lru.insert(3, 'c', 4);
        assert_eq!((lru.get(1), lru.get(2), lru.get(3)), (Some('a'), None, Some('c')));
    }

    #[test]
    fn the_budget_holds_and_replacing_counts_once() {
        let mut lru = Lru::new(10);
        for round in 0..100 {
            lru.insert(round % 3, round, 5);
            assert!(lru.used <= 10 && lru.values.len() == lru.by_age.len());
        }
        lru.insert(7, 7, 50);
        assert_eq!((lru.get(7), lru.values.len()), (Some(7), 1));
        lru.insert(8, 8, 1);
        assert_eq!((lru.get(7), lru.get(8)), (None, Some(8)));
    }
}
