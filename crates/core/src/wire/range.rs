//! Which bytes of a snapshot a client asks for (RFC 9110 §14; `extensions.md` §4).

use crate::wire::etag::ETag;
use crate::wire::list;

/// The answer to a `Range` header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ByteRange {
    /// 200 with everything: no range asked for, more than one, or a unit that we do not know.
    Full,
    /// 206 with the bytes from `start` to `end`, exclusive; never empty.
    Part {
        /// The first byte.
        start: u64,
        /// The byte behind the last one; at most the length of the representation.
        end: u64,
    },
    /// 416: a malformed range, or one that lies behind the last byte.
    Unsatisfiable,
}

impl ByteRange {
    /// Reads a `Range` header for a representation of `len` bytes.
    pub fn select(field: &str, len: u64) -> Self {
        let Some((unit, set)) = field.split_once('=') else {
            return Self::Full;
        };
        if !list::trim(unit).eq_ignore_ascii_case("bytes") {
            return Self::Full;
        }
        let mut ranges = list::elements(set, b',');
        match (ranges.next(), ranges.next()) {
            (Some(range), None) => Self::one(range, len).unwrap_or(Self::Unsatisfiable),
            (Some(_), Some(_)) => Self::Full,
            (None, _) => Self::Unsatisfiable,
        }
    }

    /// `None` when `range` is malformed or unsatisfiable.
    fn one(range: &str, len: u64) -> Option<Self> {
        let (first, last) = range.split_once('-')?;
        if first.is_empty() {
            return match (position(last)?, len) {
                (0, _) => None,
                // Satisfiable by the letter of the RFC, but `Content-Range` cannot express it.
                (_, 0) => Some(Self::Full),
                (suffix, _) => Some(Self::Part { start: len.saturating_sub(suffix), end: len }),
            };
        }
        let start = position(first)?;
        let end = if last.is_empty() {
            len
        } else {
            let last = position(last)?;
            if last < start {
                return None;
            }
            last.saturating_add(1).min(len)
        };
        (start < len).then_some(Self::Part { start, end })
    }

    /// The value of `Content-Range`, for a representation of `len` bytes; none for a full answer.
    pub fn content_range(self, len: u64) -> Option<String> {
        match self {
            Self::Full => None,
            Self::Part { start, end } => Some(format!("bytes {start}-{}/{len}", end - 1)),
            Self::Unsatisfiable => Some(format!("bytes */{len}")),
        }
    }
}

/// Whether `If-Range` leaves the range in force: it must name the current representation by a
/// strong tag. A date never does, since snapshots have no modification date.
pub fn if_range_holds(if_range: &str, etag: &ETag) -> bool {
    if_range == etag.as_str()
}

/// A decimal number; one too large for any file reads as `u64::MAX`.
fn position(digits: &str) -> Option<u64> {
    let decimal = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    decimal.then(|| digits.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::ByteRange::{Full, Part, Unsatisfiable};
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ranges_follow_rfc_9110() {
        let part = |start, end| Part { start, end };
        for (field, expected) in [
            ("bytes=0-4", part(0, 5)),
            ("BYTES = 0-4 ", part(0, 5)),
            ("bytes=9-9", part(9, 10)),
            ("bytes=3-", part(3, 10)),
            ("bytes=3-99999999999999999999999", part(3, 10)),
            ("bytes=-3", part(7, 10)),
            ("bytes=-300", part(0, 10)),
            ("bytes=10-", Unsatisfiable),
            ("bytes=99999999999999999999999-", Unsatisfiable),
            ("bytes=-0", Unsatisfiable),
            ("bytes=4-3", Unsatisfiable),
            ("bytes=", Unsatisfiable),
            ("bytes=x-4", Unsatisfiable),
            ("bytes=+1-4", Unsatisfiable),
            ("bytes=4", Unsatisfiable),
            ("bytes=--4", Unsatisfiable),
            ("bytes=0-1,3-4", Full),
            ("lines=0-4", Full),
            ("nonsense", Full),
            ("", Full),
        ] {
            assert_eq!(ByteRange::select(field, 10), expected, "{field}");
        }
    }

    #[test]
    fn an_empty_representation_has_no_part() {
        assert_eq!(ByteRange::select("bytes=0-", 0), Unsatisfiable);
        assert_eq!(ByteRange::select("bytes=-5", 0), Full);
    }

    #[test]
    fn content_range_names_the_last_byte_inclusively() {
        let range = Part { start: 2, end: 5 };
        assert_eq!(range.content_range(10).as_deref(), Some("bytes 2-4/10"));
        assert_eq!(Unsatisfiable.content_range(10).as_deref(), Some("bytes */10"));
        assert_eq!(Full.content_range(10), None);
    }

    #[test]
    fn if_range_takes_only_the_strong_current_tag() {
        let etag = ETag::of_digest("ab");
        assert!(if_range_holds("\"ab\"", &etag));
        for other in ["W/\"ab\"", "ab", "\"cd\"", "*", "Wed, 21 Oct 2015 07:28:00 GMT"] {
            assert!(!if_range_holds(other, &etag), "{other}");
        }
    }

    proptest! {
        #[test]
        fn a_part_is_never_empty_and_always_inside(
            field in "bytes=[0-9 ,-]{0,8}", len in 0..99u64,
        ) {
            if let Part { start, end } = ByteRange::select(&field, len) {
                prop_assert!(start < end && end <= len);
            }
        }
    }
}
