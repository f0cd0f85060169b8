//! Sizes and durations as people write them: `64MiB`, `30s`. A unit is spelled one way only.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A number of bytes: `64MiB`, `512KiB`, `4096`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size(pub(crate) u64);

/// A length of time: `500ms`, `30s`, `5m`, `1h`, `7d`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span(pub(crate) Duration);

/// A stream's time to live: a [`Span`] of whole seconds, or a bare number of seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ttl(pub(crate) u64);

/// Why a size or a duration was not understood: what was expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Misspelled(&'static str);

/// Each unit in bytes, the largest first.
const SIZES: [(&str, u64); 5] =
    [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("", 1)];

/// Each unit in milliseconds, the largest first.
const SPANS: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

const SIZE_EXPECTED: Misspelled =
    Misspelled("expected a whole number of bytes, or of KiB, MiB, GiB or TiB, like 64MiB");
const SPAN_EXPECTED: Misspelled =
    Misspelled("expected a whole number of ms, s, m, h or d, like 500ms or 30s");
const TTL_EXPECTED: Misspelled =
    Misspelled("expected whole seconds, like 3600, or a number of s, m, h or d, like 1h");

impl FromStr for Size {
    type Err = Misspelled;

    fn from_str(text: &str) -> Result<Self, Misspelled> {
        parse(text, &SIZES).map(Self).ok_or(SIZE_EXPECTED)
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(self.0, &SIZES, f)
    }
}

impl FromStr for Span {
    type Err = Misspelled;

    fn from_str(text: &str) -> Result<Self, Misspelled> {
        let milliseconds = parse(text, &SPANS).ok_or(SPAN_EXPECTED)?;
        Ok(Self(Duration::from_millis(milliseconds)))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Whatever was parsed fits; the defaults do too.
        let milliseconds = u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX);
        write(milliseconds, &SPANS, f)
    }
}

impl FromStr for Ttl {
    type Err = Misspelled;

    fn from_str(text: &str) -> Result<Self, Misspelled> {
        if let Some(seconds) = whole_number(text) {
            return Ok(Self(seconds));
        }
        match parse(text, &SPANS) {
            Some(milliseconds) if milliseconds % 1_000 == 0 => Ok(Self(milliseconds / 1_000)),
            _ => Err(TTL_EXPECTED),
        }
    }
}

impl fmt::Display for Misspelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Misspelled {}

/// Digits, then exactly one of `units`. `None` also when the product does not fit.
fn parse(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let (_, factor) = units.iter().find(|(name, _)| *name == unit)?;
    whole_number(number)?.checked_mul(*factor)
}

/// Digits only: no sign, which `u64::from_str` would take.
fn whole_number(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().ok())?
}

/// In the largest unit that leaves a whole number; 0 in the smallest.
fn write(value: u64, units: &[(&str, u64)], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let fits = |(_, factor): &&(&str, u64)| value >= *factor && value.is_multiple_of(*factor);
    let (unit, factor) = units.iter().find(fits).or(units.last()).expect("both tables have rows");
    write!(f, "{}{unit}", value / factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_bytes_or_binary_units() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("64KiB", 64 << 10),
            ("32MiB", 32 << 20),
            ("2GiB", 2 << 30),
            ("1TiB", 1 << 40),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(text.parse(), Ok(Size(bytes)), "{text}");
        }
    }

    #[test]
    fn anything_else_is_no_size() {
        for text in [
            "",
            "MiB",
            "-1",
            "+1",
            "1.5MiB",
            "1 MiB",
            "64MB",
            "64mib",
            "64M",
            "1KiBx",
            "18446744073709551616",
            "16777216TiB",
        ] {
            assert_eq!(text.parse::<Size>(), Err(SIZE_EXPECTED), "{text:?}");
        }
    }

    #[test]
    fn durations_need_a_unit() {
        for (text, milliseconds) in [
            ("0s", 0),
            ("500ms", 500),
            ("30s", 30_000),
            ("5m", 300_000),
            ("1h", 3_600_000),
            ("7d", 604_800_000),
        ] {
            let expected = Span(Duration::from_millis(milliseconds));
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
        for text in ["", "30", "s", "-1s", "+1s", "1.5s", "1 s", "1min", "1H", "99999999999999999d"]
        {
            assert_eq!(text.parse::<Span>(), Err(SPAN_EXPECTED), "{text:?}");
        }
    }

    #[test]
    fn a_ttl_is_whole_seconds() {
        for (text, seconds) in [("0", 0), ("3600", 3600), ("1h", 3600), ("2000ms", 2), ("90s", 90)]
        {
            assert_eq!(text.parse(), Ok(Ttl(seconds)), "{text}");
        }
        for text in ["", "1500ms", "-1", "+60", "60.5", "abc"] {
            assert_eq!(text.parse::<Ttl>(), Err(TTL_EXPECTED), "{text:?}");
        }
    }

    #[test]
    fn both_print_as_they_are_written() {
        for text in ["0", "1", "1023", "64KiB", "1025KiB", "32MiB", "3GiB"] {
            assert_eq!(text.parse::<Size>().unwrap().to_string(), text);
        }
        for text in ["0ms", "1500ms", "90s", "30s", "5m", "1h", "7d"] {
            assert_eq!(text.parse::<Span>().unwrap().to_string(), text);
        }
    }
}
