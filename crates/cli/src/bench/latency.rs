//! How long things took.

use std::time::Duration;

use hdrhistogram::Histogram;

/// A distribution of durations from 1 µs to two minutes, to three digits.
#[derive(Debug, Clone)]
pub(crate) struct Latency(Histogram<u64>);

const LONGEST: Duration = Duration::from_mins(2);

impl Latency {
    pub(crate) fn new() -> Self {
        let longest = u64::try_from(LONGEST.as_micros()).expect("two minutes fit");
        Self(Histogram::new_with_bounds(1, longest, 3).expect("bounds that a histogram takes"))
    }

    /// Longer ones count as the longest.
    pub(crate) fn record(&mut self, took: Duration) {
        self.0.saturating_record(u64::try_from(took.as_micros()).unwrap_or(u64::MAX).max(1));
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.len()
    }

    /// `None` of nothing.
    pub(crate) fn quantile_ms(&self, quantile: f64) -> Option<f64> {
        (!self.0.is_empty()).then(|| self.0.value_at_quantile(quantile) as f64 / 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_what_was_recorded() {
        let mut latency = Latency::new();
        assert_eq!(latency.quantile_ms(0.5), None);
        (1..=1000).for_each(|ms| latency.record(Duration::from_millis(ms)));
        latency.record(Duration::from_hours(1));
        latency.record(Duration::ZERO);
        assert_eq!(latency.count(), 1002);
        for (quantile, expected) in [(0.0, 0.001), (0.5, 500.0), (0.99, 991.0), (1.0, 120_000.0)] {
            let got = latency.quantile_ms(quantile).expect("not empty");
            assert!((got - expected).abs() <= expected * 2e-3, "{quantile}: {got}");
        }
    }
}
