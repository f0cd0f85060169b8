//! The log checker: what one stream must contain, by offset.
//!
//! Offsets give a total order, so whether a history of appends and reads is linearizable is a
//! question of comparisons, each O(log n), as facts come in:
//!
//! - each acknowledged append is present exactly once, at its offset;
//! - an append that had ended before another began lies below it;
//! - every read is a contiguous slice of the same log;
//! - a read that claims the tail includes every append that had ended before it began;
//! - an unknown append is there at most once, a refused one never;
//! - a writer's messages lie in the order in which it wrote them.

use std::collections::{BTreeMap, HashSet};
use std::fmt;

use crate::message::Key;

/// A promise that was broken, told to a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Breach(pub String);

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a check says.
pub type Checked<T = ()> = Result<T, Breach>;

macro_rules! breach {
    ($($arg:tt)*) => { Err($crate::log::Breach(format!($($arg)*))) };
}
pub(crate) use breach;

/// A message at its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// Where it starts.
    pub start: u64,
    /// Where it ends, its separator included.
    pub end: u64,
    /// Which message it is.
    pub key: Key,
    /// Its ordinal on a JSON stream, where an answer told.
    pub record: Option<u64>,
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}..{}", self.key, self.start, self.end)
    }
}

/// One stream's messages as far as anything that the server has said commits it to them.
#[derive(Debug, Default)]
pub struct Log {
    messages: BTreeMap<u64, Seen>,
    starts: BTreeMap<Key, u64>,
    refused: HashSet<Key>,
    floor: u64,
}

impl Log {
    /// The highest tail that anybody has been told of. Whatever begins from now on sees at least
    /// this.
    pub fn floor(&self) -> u64 {
        self.floor
    }

    /// An append was acknowledged. `floor` is what [`Self::floor`] said when it began.
    pub fn acked(&mut self, floor: u64, messages: &[Seen]) -> Checked {
        let Some((first, last)) = messages.first().zip(messages.last()) else { return Ok(()) };
        if first.start < floor {
            return breach!("append {first} lies below {floor}, the tail when it began");
        }
        for seen in messages {
            self.put(*seen)?;
        }
        self.floor = self.floor.max(last.end);
        Ok(())
    }

    /// The server refused an append, so it must never appear.
    pub fn refused(&mut self, key: Key) -> Checked {
        if let Some(start) = self.starts.get(&key) {
            return breach!("append {key} was refused, and was read at {start}");
        }
        self.refused.insert(key);
        Ok(())
    }

    /// A read returned these messages for everything from `from` to `to`.
    pub fn observed(&mut self, from: u64, to: u64, messages: &[Seen]) -> Checked {
        let mut end = from;
        for seen in messages {
            if seen.start != end {
                return breach!("a read goes from {end} on with {seen}");
            }
            self.put(*seen)?;
            end = seen.end;
        }
        if end != to {
            return breach!("a read of {from}..{to} ends at {end}");
        }
        self.floor = self.floor.max(to);
        Ok(())
    }

    /// An answer to a request that began at `floor` named the tail.
    pub fn tail(&mut self, floor: u64, tail: u64) -> Checked {
        if tail < floor {
            let lost =
                self.messages.range(tail..).next().map_or(String::new(), |(_, seen)| {
                    format!(" ({seen} is the first to be lost)")
                });
            return breach!("the tail went back from {floor} to {tail}{lost}");
        }
        self.floor = self.floor.max(tail);
        Ok(())
    }

    /// Whether a message is known to be there.
    pub fn has(&self, key: Key) -> bool {
        self.starts.contains_key(&key)
    }

    /// A message at or above an offset.
    pub fn at_or_above(&self, offset: u64) -> Option<&Seen> {
        self.messages.range(offset..).next().map(|(_, seen)| seen)
    }

    /// The `back`-th message from the end.
    pub fn from_end(&self, back: usize) -> Option<&Seen> {
        self.messages.values().rev().nth(back)
    }

    /// How many messages are known.
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Checks that no message of the producer `writer` is missing between two that are there,
    /// where everything from `retained` on has been read.
    pub fn no_gap(&self, writer: u32, retained: u64) -> Checked {
        let all = Key { writer, n: 0 }..=Key { writer, n: u32::MAX };
        let mut before: Option<Key> = None;
        for (key, start) in self.starts.range(all) {
            if let Some(before) = before.filter(|before| before.n + 1 != key.n) {
                return breach!("a producer's messages go from {before} to {key}, at {start}");
            }
            before = Some(*key).filter(|_| *start >= retained);
        }
        Ok(())
    }

    fn put(&mut self, seen: Seen) -> Checked {
        if let Some(known) = self.messages.get_mut(&seen.start) {
            if (known.end, known.key) != (seen.end, seen.key) {
                return breach!("where {known} was, there is now {seen}");
            }
            match (known.record, seen.record) {
                (Some(was), Some(is)) if was != is => {
                    return breach!("{seen} was record {was} and is now record {is}");
                }
                (was, is) => known.record = was.or(is),
            }
            return Ok(());
        }
        if self.refused.contains(&seen.key) {
            return breach!("{seen}, which the server had refused");
        }
        if let Some(start) = self.starts.get(&seen.key) {
            return breach!("{seen} is there twice, also at {start}");
        }
        let overlaps = |other: &Seen| other.start < seen.end && seen.start < other.end;
        let below = self.messages.range(..seen.start).next_back().map(|(_, other)| other);
        let above = self.messages.range(seen.start..).next().map(|(_, other)| other);
        if let Some(other) = below.into_iter().chain(above).find(|other| overlaps(other)) {
            return breach!("where {other} was, there is now {seen}");
        }
        self.in_order(seen)?;
        self.messages.insert(seen.start, seen);
        self.starts.insert(seen.key, seen.start);
        Ok(())
    }

    fn in_order(&self, seen: Seen) -> Checked {
        let writer = seen.key.writer;
        let earlier = self.starts.range(Key { writer, n: 0 }..seen.key).next_back();
        let later = self.starts.range(seen.key..=Key { writer, n: u32::MAX }).next();
        if let Some((key, start)) = earlier.filter(|(_, start)| **start > seen.start) {
            return breach!("{seen} lies before {key} at {start}, which was written before it");
        }
        if let Some((key, start)) = later.filter(|(_, start)| **start < seen.start) {
            return breach!("{seen} lies behind {key} at {start}, which was written after it");
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "log/tests.rs"]
mod tests;
