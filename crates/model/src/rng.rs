//! The only source of choice: a seed, so that a seed and a number are a replay, or given bytes.

/// A generator.
#[derive(Debug, Clone)]
pub struct Rng<'a>(Source<'a>);

#[derive(Debug, Clone)]
enum Source<'a> {
    /// splitmix64
    Seed(u64),
    /// What is left of them.
    Bytes(&'a [u8]),
}

impl<'a> Rng<'a> {
    /// The generator of one step of one case of one run.
    pub fn of(seed: u64, case: u64, step: u64) -> Self {
        let mut state = seed;
        for part in [case, step] {
            state = splitmix(&mut state) ^ part.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        }
        Self(Source::Seed(state))
    }

    /// A generator of just these choices, one byte for each where that is enough; when they are
    /// used up, of the first of whatever there is to choose from.
    pub fn of_bytes(bytes: &'a [u8]) -> Self {
        Self(Source::Bytes(bytes))
    }

    /// The bytes that were not used yet; none of a seed.
    pub fn rest(&self) -> &'a [u8] {
        match self.0 {
            Source::Seed(_) => &[],
            Source::Bytes(bytes) => bytes,
        }
    }

    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: u64) -> u64 {
        match &mut self.0 {
            Source::Seed(state) => splitmix(state) % end,
            Source::Bytes(bytes) => {
                let width = if end <= 256 { 1 } else { 4 };
                let (taken, rest) = bytes.split_at(bytes.len().min(width));
                *bytes = rest;
                taken.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)) % end
            }
        }
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// One of several.
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        let index = self.below(of.len() as u64);
        of[usize::try_from(index).expect("below a usize")]
    }
}

fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let x = *state;
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}
