//! How long a stream lives, as its creator said it (`base-protocol.md` §3).

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use jiff::SignedDuration;
use jiff::civil::DateTime;

use crate::ids::Timestamp;
use crate::wire::invalid::{Invalid, code, shown};

/// The longest time to live in seconds (2^53−1, some 285 million years): in milliseconds, and
/// added to any time and margin of ours, it still fits 64 bits.
pub const TTL_SECONDS_MAX: u64 = (1 << 53) - 1;

/// The longest `Stream-Expires-At`, in bytes.
pub const EXPIRES_AT_BYTES_MAX: usize = 64;

/// The end of a stream's life; a stream without one lives until it is deleted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Lifetime {
    /// So long after the last read or write.
    Ttl(Ttl),
    /// At that moment, whatever happens.
    ExpiresAt(ExpiresAt),
}

/// A sliding window (`Stream-TTL`), in whole seconds. Zero is legal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ttl(u64);

impl Ttl {
    /// A window of `seconds`; `None` beyond [`TTL_SECONDS_MAX`].
    pub fn from_seconds(seconds: u64) -> Option<Self> {
        (seconds <= TTL_SECONDS_MAX).then_some(Self(seconds))
    }

    /// Reads the header: `^(0|[1-9][0-9]*)$`. More than [`TTL_SECONDS_MAX`] is refused rather than
    /// cut, so that the server always answers with the number that was asked for.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let digits = text.bytes().all(|b| b.is_ascii_digit());
        let padded = text.len() > 1 && text.starts_with('0');
        if text.is_empty() || !digits || padded {
            let detail = format!(
                "Stream-TTL is a whole number of seconds without sign and leading zeros, got {}",
                shown(text)
            );
            return Err(Invalid::new(code::INVALID_LIFETIME, detail));
        }
        text.parse().ok().and_then(Self::from_seconds).ok_or_else(|| {
            let detail = format!(
                "Stream-TTL is at most {TTL_SECONDS_MAX} seconds, got {}; \
                 leave it out for a stream that never expires",
                shown(text)
            );
            Invalid::new(code::INVALID_LIFETIME, detail)
        })
    }

    /// The window in seconds.
    pub fn seconds(self) -> u64 {
        self.0
    }

    /// The window in milliseconds.
    pub fn millis(self) -> u64 {
        self.0 * 1_000
    }
}

/// The header's form.
impl fmt::Display for Ttl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A moment of the wall clock (`Stream-Expires-At`). Two are equal when they are the same
/// millisecond, however they are written. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ExpiresAt {
    at: Timestamp,
    text: Arc<str>,
}

impl ExpiresAt {
    /// Reads an RFC 3339 date and time, strictly (a `t` or `z` may be lower case). Parts of a
    /// millisecond are rounded up, so that a stream never expires early; what lies before 1970
    /// is as good as 1970.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let at = (text.len() <= EXPIRES_AT_BYTES_MAX).then(|| instant(text)).flatten();
        at.map(|at| Self { at, text: text.into() }).ok_or_else(|| {
            let detail = format!(
                "Stream-Expires-At is an RFC 3339 time like 2031-12-31T23:59:59Z, got {}",
                shown(text)
            );
            Invalid::new(code::INVALID_LIFETIME, detail)
        })
    }

    /// The moment, in milliseconds of the wall clock (not of node time).
    pub fn at(&self) -> Timestamp {
        self.at
    }

    /// The text exactly as sent.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl PartialEq for ExpiresAt {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl Eq for ExpiresAt {}

impl Hash for ExpiresAt {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.at.hash(state);
    }
}

/// Reads `YYYY-MM-DDTHH:MM:SS[.digits](Z|±HH:MM)`. The calendar is jiff's; the grammar is checked
/// here, since jiff reads far more than RFC 3339.
fn instant(text: &str) -> Option<Timestamp> {
    const DATE_TIME: &str = "dddd-dd-ddTdd:dd:dd";
    const NANOS_PER_MILLI: u128 = 1_000_000;
    let upper = text.to_ascii_uppercase();
    let (date_time, rest) = upper.split_at_checked(DATE_TIME.len())?;
    let (fraction, zone) = match rest.strip_prefix('.') {
        Some(rest) => rest.split_at(rest.find(|c: char| !c.is_ascii_digit())?),
        None => ("0", rest),
    };
    if !has_shape(date_time, DATE_TIME) || fraction.is_empty() {
        return None;
    }
    // Digits behind the nanoseconds are dropped: jiff does not take them.
    let fraction = &fraction[..fraction.len().min(9)];
    let local: DateTime = format!("{date_time}.{fraction}").parse().ok()?;
    // Not by way of `jiff::Timestamp`, which ends a day before the year 9999 does.
    let since_epoch = local.duration_since(DateTime::constant(1970, 1, 1, 0, 0, 0, 0));
    let instant = since_epoch.checked_sub(SignedDuration::from_mins(zone_minutes(zone)?))?;
    let nanos = u128::try_from(instant.as_nanos()).unwrap_or(0);
    u64::try_from(nanos.div_ceil(NANOS_PER_MILLI)).ok().map(Timestamp)
}

/// How far a zone is ahead of UTC.
fn zone_minutes(zone: &str) -> Option<i64> {
    if zone == "Z" {
        return Some(0);
    }
    if !has_shape(&zone.replacen('-', "+", 1), "+dd:dd") {
        return None;
    }
    let (hours, minutes): (i64, i64) = (zone[1..3].parse().ok()?, zone[4..].parse().ok()?);
    let sign = if zone.starts_with('-') { -1 } else { 1 };
    (hours <= 23 && minutes <= 59).then_some(sign * (hours * 60 + minutes))
}

/// Whether `text` is `shape`, where a `d` stands for a decimal digit.
fn has_shape(text: &str, shape: &str) -> bool {
    let fits = |(byte, shape): (u8, u8)| {
        if shape == b'd' { byte.is_ascii_digit() } else { byte == shape }
    };
    text.len() == shape.len() && text.bytes().zip(shape.bytes()).all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_ttl_is_a_plain_whole_number() {
        for (text, seconds) in [("0", 0), ("60", 60), ("9007199254740991", TTL_SECONDS_MAX)] {
            let ttl = Ttl::parse(text).expect(text);
            assert_eq!((ttl.seconds(), ttl.to_string().as_str()), (seconds, text));
        }
        for bad in ["", "abc", "-1", "00060", "00", "+60", "60.5", "1e3", " 60", "60 ", "٣"] {
            assert_eq!(Ttl::parse(bad).expect_err(bad).code, code::INVALID_LIFETIME);
        }
        for huge in ["9007199254740992", "99999999999999999999999"] {
            assert!(Ttl::parse(huge).expect_err(huge).detail.contains("at most"));
        }
    }

    #[test]
    fn the_longest_ttl_never_overflows_a_deadline() {
        let window = Ttl::from_seconds(TTL_SECONDS_MAX).unwrap().millis();
        let far_future = 1 << 60;
        assert!(window.checked_add(window / 8).and_then(|ms| ms.checked_add(far_future)).is_some());
    }

    #[test]
    fn moments_are_compared_as_instants_and_shown_as_sent() {
        let at = |text| ExpiresAt::parse(text).expect(text);
        let noon = at("2030-01-01T12:00:00Z");
        assert_eq!(noon.at(), Timestamp(1_893_499_200_000));
        for same in [
            "2030-01-01T12:00:00.000Z",
            "2030-01-01t12:00:00z",
            "2030-01-01T12:00:00+00:00",
            "2030-01-01T12:00:00-00:00",
            "2030-01-01T14:30:00+02:30",
            "2029-12-31T18:00:00.0000000000000-18:00",
        ] {
            assert_eq!(at(same), noon, "{same}");
            assert_eq!(at(same).as_str(), same);
        }
        assert_ne!(at("2030-01-01T12:00:00.001Z"), noon);
    }

    #[test]
    fn parts_of_a_millisecond_never_make_a_stream_expire_early() {
        let at = |text| ExpiresAt::parse(text).expect(text).at().0;
        assert_eq!(at("1970-01-01T00:00:00.000000001Z"), 1);
        assert_eq!(at("1970-01-01T00:00:00.001Z"), 1);
        assert_eq!(at("1970-01-01T00:00:00.0010001Z"), 2);
    }

    #[test]
    fn the_ends_of_the_calendar_are_legal() {
        assert_eq!(ExpiresAt::parse("1969-12-31T23:59:59Z").unwrap().at(), Timestamp(0));
        assert_eq!(ExpiresAt::parse("0000-01-01T00:00:00Z").unwrap().at(), Timestamp(0));
        let last = ExpiresAt::parse("9999-12-31T23:59:59Z").unwrap();
        assert_eq!(last.at(), Timestamp(253_402_300_799_000));
        let later = ExpiresAt::parse("9999-12-31T23:59:59-23:59").unwrap();
        assert_eq!(later.at(), Timestamp(253_402_300_799_000 + 86_340_000));
        assert!(ExpiresAt::parse("2028-02-29T23:59:60Z").is_ok(), "a leap second");
    }

    #[test]
    fn anything_but_rfc_3339_is_refused() {
        for bad in [
            "",
            "not-a-timestamp",
            "2030-01-01",
            "2030-01-01T12:00:00",
            "2030-01-01T12:00Z",
            "2030-01-01 12:00:00Z",
            "20300101T120000Z",
            "2030-01-01T12:00:00.Z",
            "2030-01-01T12:00:00,5Z",
            "2030-01-01T12:00:00+0000",
            "2030-01-01T12:00:00+00",
            "2030-01-01T12:00:00+24:00",
            "2030-01-01T12:00:00+00:60",
            "2030-01-01T12:00:00Z[UTC]",
            "2030-01-01T12:00:00Z ",
            " 2030-01-01T12:00:00Z",
            "2030-13-01T12:00:00Z",
            "2030-02-29T12:00:00Z",
            "2030-01-01T24:00:00Z",
            "2030-01-01T12:60:00Z",
            "2030-01-01T12:00:61Z",
            "+002030-01-01T12:00:00Z",
            "-0001-01-01T12:00:00Z",
            "1893499200",
            "2030-01-01T12:00:00é",
            &format!("2030-01-01T12:00:00.{}Z", "0".repeat(64)),
        ] {
            assert_eq!(ExpiresAt::parse(bad).expect_err(bad).code, code::INVALID_LIFETIME);
        }
    }

    proptest! {
        #[test]
        fn any_text_can_be_read(text in ".{0,70}", tail in "[0-9TtZz:.+-]{0,12}") {
            ExpiresAt::parse(&text).ok();
            ExpiresAt::parse(&format!("2030-01-01T12:00:00{tail}")).ok();
            Ttl::parse(&text).ok();
        }
    }
}
