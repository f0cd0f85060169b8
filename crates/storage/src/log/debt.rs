//! How much a restart would replay: the bytes of the frames above the checkpoint.

use headwater_core::ids::Lsn;
use parking_lot::Mutex;

/// The sum is remembered once in so many bytes, which is how exact the answer is.
const SAMPLE_BYTES: u64 = 64 << 10;

/// Counts frames, and forgets what a checkpoint covers.
#[derive(Default)]
pub(crate) struct Debt {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// The newest group.
    last: Lsn,
    /// Bytes of all frames so far.
    total: u64,
    /// The sum of all frames up to and including an lsn, rising.
    samples: Vec<(Lsn, u64)>,
    /// The sum of the frames that the checkpoint covers.
    covered: u64,
}

impl Debt {
    /// A frame was written whose last group is `last`.
    pub(crate) fn add(&self, last: Lsn, bytes: u64) {
        let mut inner = self.inner.lock();
        inner.last = last;
        inner.total += bytes;
        let newest = inner.samples.last().map_or(inner.covered, |(_, sum)| *sum);
        if inner.total - newest >= SAMPLE_BYTES {
            let sample = (last, inner.total);
            inner.samples.push(sample);
        }
    }

    /// Everything up to `lsn` is in a checkpoint.
    pub(crate) fn cover(&self, lsn: Lsn) {
        let mut inner = self.inner.lock();
        if lsn >= inner.last {
            inner.covered = inner.total;
            inner.samples.clear();
            return;
        }
        let done = inner.samples.partition_point(|(sample, _)| *sample <= lsn);
        let sum = inner.samples.drain(..done).next_back().map_or(0, |(_, sum)| sum);
        inner.covered = inner.covered.max(sum);
    }

    pub(crate) fn bytes(&self) -> u64 {
        let inner = self.inner.lock();
        inner.total - inner.covered
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_takes_off_what_it_covers_and_no_more() {
        let debt = Debt::default();
        for lsn in 1..=100 {
            debt.add(Lsn(lsn), 10_000);
        }
        assert_eq!(debt.bytes(), 1_000_000);
        debt.cover(Lsn(50));
        assert!((500_000..=500_000 + SAMPLE_BYTES + 10_000).contains(&debt.bytes()));
        debt.cover(Lsn(100));
        assert_eq!(debt.bytes(), 0);
        debt.add(Lsn(101), 7);
        assert_eq!(debt.bytes(), 7);
    }
}
