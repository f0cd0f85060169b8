//! The figures of a run, in the order in which they are told.

use std::time::Duration;

use serde_json::{Number, Value};

use super::latency::Latency;
use crate::screen::Field;

/// Named figures. The names end in their units and never change.
#[derive(Debug, Default)]
pub(crate) struct Report(Vec<Field>);

impl Report {
    pub(crate) fn new(work: &'static str) -> Self {
        Self(vec![("work", work.into())])
    }

    pub(crate) fn add(&mut self, name: &'static str, value: impl Into<Value>) {
        self.0.push((name, value.into()));
    }

    /// Rounded to `decimals`; null where there is nothing to divide by.
    pub(crate) fn number(&mut self, name: &'static str, value: Option<f64>, decimals: i32) {
        let factor = 10_f64.powi(decimals);
        let rounded = value.map(|value| (value * factor).round() / factor);
        let number = rounded.and_then(Number::from_f64);
        self.add(name, number.map_or(Value::Null, Value::Number));
    }

    pub(crate) fn latency(&mut self, latency: &Latency) {
        for (name, quantile) in
            [("p50_ms", 0.5), ("p90_ms", 0.9), ("p99_ms", 0.99), ("p999_ms", 0.999)]
        {
            self.number(name, latency.quantile_ms(quantile), 3);
        }
        self.number("max_ms", latency.quantile_ms(1.0), 3);
    }

    /// The figure `from` of `other`, if it has one, under the name `name`.
    pub(crate) fn add_from(&mut self, other: &Self, from: &str, name: &'static str) {
        if let Some((_, value)) = other.0.iter().find(|(known, _)| *known == from) {
            self.add(name, value.clone());
        }
    }

    /// Everything that `other` tells, behind all this.
    pub(crate) fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    pub(crate) fn fields(&self) -> &[Field] {
        &self.0
    }
}

/// `amount` for each of `count`.
pub(crate) fn per(amount: f64, count: u64) -> Option<f64> {
    (count > 0).then(|| amount / count as f64)
}

/// `amount` for each second of `elapsed`.
pub(crate) fn per_second(amount: f64, elapsed: Duration) -> Option<f64> {
    (!elapsed.is_zero()).then(|| amount / elapsed.as_secs_f64())
}

/// Bytes as megabytes (10^6) for each second of `elapsed`.
pub(crate) fn mb_per_second(bytes: u64, elapsed: Duration) -> Option<f64> {
    per_second(bytes as f64 / 1e6, elapsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_rounded_and_nothing_is_null() {
        let mut report = Report::new("x");
        report.number("a", Some(1.23456), 2);
        report.number("b", per(1.0, 0), 2);
        report.number("c", per_second(1.0, Duration::ZERO), 2);
        report.number("d", mb_per_second(3_000_000, Duration::from_secs(2)), 1);
        let line = crate::screen::json_line(report.fields());
        assert_eq!(line, "{\"work\":\"x\",\"a\":1.23,\"b\":null,\"c\":null,\"d\":1.5}\n");
    }
}
