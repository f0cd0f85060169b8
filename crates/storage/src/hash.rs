//! A hash for stream ids: they are our own counters, so nobody can choose them to collide, and it
//! must be the same in every run, so that a simulation is.

use std::hash::{BuildHasherDefault, Hasher};

/// For maps keyed by [`headwater_core::ids::StreamId`].
pub(crate) type IdHash = BuildHasherDefault<IdHasher>;

/// Fibonacci hashing, folded so that high and low bits both depend on the whole id.
#[derive(Default)]
pub(crate) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }

    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }

    fn write_u64(&mut self, value: u64) {
        let mixed = (self.0.rotate_left(5) ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }
}
