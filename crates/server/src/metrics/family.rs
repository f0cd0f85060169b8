//! Metrics by name as a scrape shows them, in the text format of `OpenMetrics` 1.0, which
//! Prometheus reads.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

use super::count::Total;

/// The content type of a scrape.
pub(crate) const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Microseconds are counted, seconds are told.
const MICROS_A_SECOND: f64 = 1e6;

/// A metric with all its series.
#[derive(Debug)]
pub(crate) struct Family {
    /// Without unit and `_total`.
    name: &'static str,
    help: &'static str,
    unit: Option<Unit>,
    kind: MetricType,
    series: Vec<(Labels, Value)>,
}

/// What tells the series of a family apart.
pub(crate) type Labels = Vec<(&'static str, &'static str)>;

/// What a series amounts to now.
#[derive(Debug)]
pub(crate) enum Value {
    Count(u64),
    /// As a count, of something that comes in parts.
    Sum(f64),
    Level(f64),
    /// Of microseconds, told in seconds.
    Durations(Total),
    Sizes(Total),
}

impl Family {
    fn new(kind: MetricType, name: &'static str, unit: Option<Unit>, help: &'static str) -> Self {
        Self { name, help, unit, kind, series: Vec::new() }
    }

    /// Something that only grows.
    pub(crate) fn counter(name: &'static str, unit: Option<Unit>, help: &'static str) -> Self {
        Self::new(MetricType::Counter, name, unit, help)
    }

    /// Something that rises and falls.
    pub(crate) fn gauge(name: &'static str, unit: Option<Unit>, help: &'static str) -> Self {
        Self::new(MetricType::Gauge, name, unit, help)
    }

    /// How often something was in which range.
    pub(crate) fn histogram(name: &'static str, unit: Option<Unit>, help: &'static str) -> Self {
        Self::new(MetricType::Histogram, name, unit, help)
    }

    /// Its only series.
    pub(crate) fn only(self, value: Value) -> Self {
        self.with(Vec::new(), value)
    }

    /// One more series.
    pub(crate) fn with(mut self, labels: Labels, value: Value) -> Self {
        self.series.push((labels, value));
        self
    }

    /// One more series for each of `series`.
    pub(crate) fn each(mut self, series: impl IntoIterator<Item = (Labels, Value)>) -> Self {
        self.series.extend(series);
        self
    }

    fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let Self { name, help, unit, kind, series } = self;
        let mut family = encoder.encode_descriptor(name, help, unit.as_ref(), *kind)?;
        for (labels, value) in series {
            if labels.is_empty() {
                value.encode(&mut family)?;
            } else {
                value.encode(&mut family.encode_family(labels)?)?;
            }
        }
        Ok(())
    }
}

impl Value {
    fn encode(&self, encoder: &mut MetricEncoder<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => encoder.encode_counter::<NoLabelSet, u64, f64>(count, None),
            Self::Sum(sum) => encoder.encode_counter::<NoLabelSet, f64, f64>(sum, None),
            Self::Level(level) => encoder.encode_gauge(level),
            Self::Durations(total) => histogram(encoder, total, MICROS_A_SECOND),
            Self::Sizes(total) => histogram(encoder, total, 1.0),
        }
    }
}

fn histogram(encoder: &mut MetricEncoder<'_>, total: &Total, part: f64) -> fmt::Result {
    let bounds = total.bounds.iter().map(|bound| real(*bound) / part).chain([f64::MAX]);
    let buckets: Vec<(f64, u64)> = bounds.zip(total.counts.iter().copied()).collect();
    let count = total.counts.iter().sum();
    encoder.encode_histogram::<NoLabelSet>(real(total.sum) / part, count, &buckets, None)
}

/// A number as it is told; beyond 2^53 to the nearest.
#[expect(clippy::cast_precision_loss, reason = "the format knows no other numbers")]
pub(crate) fn real(number: u64) -> f64 {
    number as f64
}

#[derive(Debug)]
struct Families(Vec<Family>);

impl Collector for Families {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|family| family.encode(&mut encoder))
    }
}

/// The text of a scrape.
pub(crate) fn write(families: Vec<Family>) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Families(families)));
    let mut text = String::new();
    encode(&mut text, &registry).expect("a string takes any text");
    text
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::count::Durations;
    use super::*;

    #[test]
    fn a_scrape_has_a_head_for_each_family_and_a_line_for_each_series() {
        let durations = Durations::default();
        durations.took(Duration::from_millis(2));
        let mut total = Total::default();
        durations.add_to(&mut total);
        let text = write(vec![
            Family::counter("hw_done", Some(Unit::Bytes), "Done.")
                .with(vec![("how", "well")], Value::Count(7)),
            Family::gauge("hw_open", None, "Open.").only(Value::Level(3.0)),
            Family::histogram("hw_wait", Some(Unit::Seconds), "Waits.")
                .only(Value::Durations(total)),
        ]);
        let has = |line: &str| assert!(text.lines().any(|l| l == line), "{line}\n{text}");
        has("# TYPE hw_done_bytes counter");
        has("# UNIT hw_done_bytes bytes");
        has("hw_done_bytes_total{how=\"well\"} 7");
        has("hw_open 3.0");
        has("hw_wait_seconds_sum 0.002");
        has("hw_wait_seconds_bucket{le=\"0.001\"} 0");
        has("hw_wait_seconds_bucket{le=\"0.0025\"} 1");
        has("hw_wait_seconds_bucket{le=\"+Inf\"} 1");
        has("# EOF");
    }
}
