//! What a metric is made of while it is counted. Each of these is written by one thread and read by
//! any: adding is a load and a store, without a lock and without the bus cycle of an atomic add.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A number that only grows.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    /// Adds `n`. Only for the one thread that this number belongs to.
    pub(crate) fn add(&self, n: u64) {
        let now = self.0.load(Ordering::Relaxed);
        self.0.store(now.wrapping_add(n), Ordering::Relaxed);
    }

    /// As [`Count::add`], for a number that several threads add to, seldom.
    pub(crate) fn add_shared(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A number that rises and falls. Belongs to one thread, as [`Count`] does.
#[derive(Debug, Default)]
pub(crate) struct Level {
    risen: Count,
    fallen: Count,
}

impl Level {
    pub(crate) fn rise(&self) {
        self.risen.add(1);
    }

    pub(crate) fn fall(&self) {
        self.fallen.add(1);
    }

    pub(crate) fn get(&self) -> u64 {
        // In this order a fall that is seen has had its rise seen, too.
        let fallen = self.fallen.get();
        self.risen.get().saturating_sub(fallen)
    }
}

/// The upper bounds of the buckets for durations, in microseconds.
pub(crate) const MICROS: [u64; 17] = [
    50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000,
    1_000_000, 2_500_000, 5_000_000, 10_000_000,
];

/// The upper bounds of the buckets for numbers of things.
pub(crate) const POWERS: [u64; 13] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096];

/// How often something was in which range. Belongs to one thread, as [`Count`] does, unless only
/// the shared calls are used.
#[derive(Debug)]
pub(crate) struct Histogram<const N: usize> {
    bounds: &'static [u64; N],
    buckets: [Count; N],
    /// Greater than every bound.
    beyond: Count,
    sum: Count,
}

/// For durations.
pub(crate) type Durations = Histogram<{ MICROS.len() }>;

/// For numbers of things.
pub(crate) type Sizes = Histogram<{ POWERS.len() }>;

impl Default for Durations {
    fn default() -> Self {
        Self::new(&MICROS)
    }
}

impl Default for Sizes {
    fn default() -> Self {
        Self::new(&POWERS)
    }
}

impl<const N: usize> Histogram<N> {
    fn new(bounds: &'static [u64; N]) -> Self {
        let buckets = std::array::from_fn(|_| Count::default());
        Self { bounds, buckets, beyond: Count::default(), sum: Count::default() }
    }

    fn bucket(&self, value: u64) -> &Count {
        let at = self.bounds.partition_point(|bound| *bound < value);
        self.buckets.get(at).unwrap_or(&self.beyond)
    }

    /// Notes a value.
    pub(crate) fn note(&self, value: u64) {
        self.bucket(value).add(1);
        self.sum.add(value);
    }

    /// As [`Histogram::note`], from several threads.
    pub(crate) fn note_shared(&self, value: u64) {
        self.bucket(value).add_shared(1);
        self.sum.add_shared(value);
    }

    /// What was noted so far, on top of `total`.
    pub(crate) fn add_to(&self, total: &mut Total) {
        total.bounds = self.bounds;
        total.counts.resize(N + 1, 0);
        let counts = self.buckets.iter().chain([&self.beyond]);
        for (sum, count) in total.counts.iter_mut().zip(counts) {
            *sum += count.get();
        }
        // As a number that is too large wraps where it is counted.
        total.sum = total.sum.wrapping_add(self.sum.get());
    }
}

impl Durations {
    /// Notes how long something took.
    pub(crate) fn took(&self, time: Duration) {
        self.note(micros(time));
    }

    /// As [`Durations::took`], from several threads.
    pub(crate) fn took_shared(&self, time: Duration) {
        self.note_shared(micros(time));
    }
}

fn micros(time: Duration) -> u64 {
    time.as_secs().saturating_mul(1_000_000).saturating_add(u64::from(time.subsec_micros()))
}

/// Histograms of several threads as one.
#[derive(Debug, Default, Clone)]
pub(crate) struct Total {
    pub(crate) bounds: &'static [u64],
    /// One for each bound, and one for what lies beyond them.
    pub(crate) counts: Vec<u64>,
    pub(crate) sum: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_lies_in_the_first_bucket_whose_bound_it_does_not_pass() {
        let sizes = Sizes::default();
        for value in [0, 1, 2, 3, 4096, 4097, u64::MAX / 2] {
            sizes.note(value);
        }
        let mut total = Total::default();
        sizes.add_to(&mut total);
        assert_eq!(total.counts, [2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2]);
        sizes.add_to(&mut total);
        assert_eq!(total.counts[0], 4);
    }

    #[test]
    fn durations_are_counted_in_microseconds() {
        let durations = Durations::default();
        durations.took(Duration::from_nanos(50_999));
        durations.took_shared(Duration::from_secs(3));
        let mut total = Total::default();
        durations.add_to(&mut total);
        assert_eq!((total.counts[0], total.counts[15], total.sum), (1, 1, 3_000_050));
    }

    #[test]
    fn a_level_is_what_has_risen_less_what_has_fallen() {
        let level = Level::default();
        level.rise();
        level.rise();
        level.fall();
        assert_eq!(level.get(), 1);
    }
}
