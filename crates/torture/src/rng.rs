//! Choices from a seed. What a worker does follows from the seed, the round and its number; only
//! the timing does not.

/// A generator (splitmix64): one word of state, good enough to choose with.
#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    /// The generator of `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The generator of one part of a run, apart from every other part's.
    pub fn of(seed: u64, parts: &[u64]) -> Self {
        Self(hash(seed, parts))
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0)
    }

    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.number() % end
    }

    /// A number from `start` to `end`, both included.
    pub fn within(&mut self, start: u64, end: u64) -> u64 {
        start + self.below(end - start + 1)
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// One of several, unless there is none.
    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        let len = u64::try_from(of.len()).expect("a length in memory fits into 64 bits");
        if len == 0 {
            return None;
        }
        of.get(usize::try_from(self.below(len)).expect("it is below a length in memory"))
    }
}

/// One number out of several, the same in every run.
pub fn hash(seed: u64, parts: &[u64]) -> u64 {
    parts.iter().fold(mix(seed ^ 0x51_7E), |sum, part| mix(sum.rotate_left(23) ^ mix(*part)))
}

fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}
