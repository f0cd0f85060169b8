//! What may stand behind the question mark (`base-protocol.md` §2, `extensions.md` §1, §2, §3, §7).
//!
//! Each parameter is decoded exactly once (`+` is a space) and then matched as a whole, never
//! trimmed. One that an address knows must not come twice; one that it does not know is ignored.

use std::borrow::Cow;

use percent_encoding::percent_decode;

use crate::ids::Offset;
use crate::wire::invalid::{Invalid, code, shown};
use crate::wire::path::has_only_whole_escapes;

#[cfg(test)]
mod tests;

/// The most entries on a page of a listing, and the number without a `limit`.
pub const LISTING_LIMIT_MAX: u32 = 1_000;

/// A text that stands for a position in a stream (`extensions.md` §2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OffsetToken {
    /// `-1`: the beginning.
    Start,
    /// `now`: the tail, wherever it is when the request is served.
    Now,
    /// A number.
    At(Offset),
    /// A position behind every tail there can be, to be echoed as sent.
    Beyond(Box<str>),
}

impl OffsetToken {
    /// Reads `-1`, `now`, 1 to 20 digits, or the 16 digits `_` 16 digits of other servers.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        match text {
            "-1" => Ok(Self::Start),
            "now" => Ok(Self::Now),
            _ => Self::position(text).ok_or_else(|| {
                let detail = format!(
                    "an offset is -1, now, or the 20 digits of a Stream-Next-Offset, got {}",
                    shown(text)
                );
                Invalid::new(code::INVALID_OFFSET, detail)
            }),
        }
    }

    /// Reads an offset where the sentinels `-1` and `now` are not allowed: one never comes out.
    pub fn parse_position(text: &str) -> Result<Self, Invalid> {
        Self::position(text).ok_or_else(|| {
            let detail = format!(
                "this offset is the 20 digits of a Stream-Next-Offset, got {}",
                shown(text)
            );
            Invalid::new(code::INVALID_OFFSET, detail)
        })
    }

    fn position(text: &str) -> Option<Self> {
        let digits = match (text.len(), text.split_once('_')) {
            (33, Some((high, low))) if high.len() == 16 && is_decimal(high) && is_decimal(low) => {
                if high.bytes().any(|b| b != b'0') {
                    return Some(Self::Beyond(text.into()));
                }
                low
            }
            (1..=20, None) if is_decimal(text) => text,
            _ => return None,
        };
        // Nothing but overflow is left that could fail.
        Some(digits.parse().map_or_else(|_| Self::Beyond(text.into()), |n| Self::At(Offset(n))))
    }
}

/// Where a read begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadStart {
    /// `offset=`
    Offset(OffsetToken),
    /// `record=n`: an ordinal, which need not exist.
    Record(u64),
    /// `record=now`
    RecordNow,
    /// `tail_records=k`: so many records before the tail, or as many as are retained.
    TailRecords(u64),
}

/// How a read goes on at the tail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Live {
    /// `live=long-poll`
    LongPoll,
    /// `live=sse`
    Sse,
}

/// The query of a read. Whether record parameters apply to the stream is not known here.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReadQuery {
    /// Where to begin; `None` is the beginning of the stream, and never comes with `live`.
    pub start: Option<ReadStart>,
    /// At most so many records (at least 1); only with a start that is not an offset.
    pub max_records: Option<u64>,
    /// Whether to wait at the tail, and how.
    pub live: Option<Live>,
    /// The `Stream-Cursor` of the last answer, as it came: any text.
    pub cursor: Option<String>,
}

impl ReadQuery {
    /// Reads the text behind `?`.
    pub fn parse(raw: Option<&str>) -> Result<Self, Invalid> {
        let [offset, record, tail_records, max_records, live, cursor] =
            parameters(raw, ["offset", "record", "tail_records", "max_records", "live", "cursor"])?;
        let start = match (offset, record, tail_records) {
            (None, None, None) => None,
            (Some(offset), None, None) => Some(ReadStart::Offset(OffsetToken::parse(&offset)?)),
            (None, Some(record), None) if record == "now" => Some(ReadStart::RecordNow),
            (None, Some(record), None) => Some(ReadStart::Record(count("record", &record)?)),
            (None, None, Some(k)) => Some(ReadStart::TailRecords(count("tail_records", &k)?)),
            _ => {
                return Err(together("a read has one of offset, record and tail_records"));
            }
        };
        let max_records = match max_records {
            None => None,
            Some(_) if matches!(start, None | Some(ReadStart::Offset(_))) => {
                return Err(together("max_records needs record or tail_records"));
            }
            Some(text) => Some(match count("max_records", &text)? {
                0 => return Err(malformed("max_records", "at least 1", &text)),
                n => n,
            }),
        };
        let live = match live.as_deref() {
            None => None,
            Some("long-poll") => Some(Live::LongPoll),
            Some("sse") => Some(Live::Sse),
            Some(other) => return Err(malformed("live", "long-poll or sse", other)),
        };
        if live.is_some() && start.is_none() {
            return Err(together("live needs offset, record or tail_records"));
        }
        Ok(Self { start, max_records, live, cursor: cursor.map(Cow::into_owned) })
    }
}

/// The query of a listing, of streams or of buckets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListingQuery {
    /// Only names that begin with this; empty for all.
    pub prefix: String,
    /// Only names behind this one, in byte order.
    pub after: Option<String>,
    /// At most so many: 1 to [`LISTING_LIMIT_MAX`].
    pub limit: u32,
}

impl ListingQuery {
    /// Reads the text behind `?`.
    pub fn parse(raw: Option<&str>) -> Result<Self, Invalid> {
        let [prefix, after, limit] = parameters(raw, ["prefix", "after", "limit"])?;
        let limit = match limit {
            None => LISTING_LIMIT_MAX,
            Some(text) => Some(&text)
                .filter(|text| is_decimal(text))
                .and_then(|text| text.parse().ok())
                .filter(|limit| (1..=LISTING_LIMIT_MAX).contains(limit))
                .ok_or_else(|| malformed("limit", "1 to 1000", &text))?,
        };
        let prefix = prefix.map(Cow::into_owned).unwrap_or_default();
        Ok(Self { prefix, after: after.map(Cow::into_owned), limit })
    }
}

/// The `record` of a publish or a retention, if the query has one. `now` is not allowed there.
pub fn boundary_record(raw: Option<&str>) -> Result<Option<u64>, Invalid> {
    let [record] = parameters(raw, ["record"])?;
    record.map(|text| count("record", &text)).transpose()
}

/// Refuses a bootstrap that asks to be live; other parameters do not matter to it.
pub fn refuse_live(raw: Option<&str>) -> Result<(), Invalid> {
    match parameters(raw, ["live"])? {
        [None] => Ok(()),
        [Some(_)] => Err(together("a bootstrap ends at the tail and takes no live parameter")),
    }
}

/// The decoded values of the `known` parameters, in their order.
fn parameters<'a, const N: usize>(
    raw: Option<&'a str>,
    known: [&str; N],
) -> Result<[Option<Cow<'a, str>>; N], Invalid> {
    let mut values = [const { None }; N];
    for pair in raw.unwrap_or_default().split('&') {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (name, value) = (decode(name)?, decode(value)?);
        let Some(index) = known.iter().position(|known| known.as_bytes() == &*name) else {
            continue;
        };
        let name = known[index];
        let value = match value {
            Cow::Borrowed(bytes) => std::str::from_utf8(bytes).map(Cow::Borrowed).ok(),
            Cow::Owned(bytes) => String::from_utf8(bytes).map(Cow::Owned).ok(),
        };
        let value = value.ok_or_else(|| {
            Invalid::new(code::INVALID_QUERY, format!("the value of {name} is not UTF-8"))
        })?;
        if values[index].replace(value).is_some() {
            let detail = format!("the parameter {name} may be given only once");
            return Err(Invalid::new(code::INVALID_QUERY, detail));
        }
    }
    Ok(values)
}

fn decode(text: &str) -> Result<Cow<'_, [u8]>, Invalid> {
    if !has_only_whole_escapes(text) {
        let detail = format!("a % is followed by two hexadecimal digits, got {}", shown(text));
        return Err(Invalid::new(code::INVALID_QUERY, detail));
    }
    if text.contains('+') {
        // A plus that is meant as one comes as %2B, so this has to happen before decoding.
        let spaced = text.replace('+', " ");
        return Ok(Cow::Owned(percent_decode(spaced.as_bytes()).collect()));
    }
    Ok(percent_decode(text.as_bytes()).into())
}

/// Reads `^[0-9]+$`. What does not fit 64 bits reads as the largest number that does: no stream
/// has as many records, so the rules for numbers beyond the tail apply to it.
pub(super) fn decimal(text: &str) -> Option<u64> {
    is_decimal(text).then(|| text.parse().unwrap_or(u64::MAX))
}

fn count(name: &'static str, text: &str) -> Result<u64, Invalid> {
    decimal(text).ok_or_else(|| malformed(name, "a number of decimal digits", text))
}

fn is_decimal(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

fn malformed(name: &'static str, expected: &str, got: &str) -> Invalid {
    let detail = format!("the parameter {name} is {expected}, got {}", shown(got));
    Invalid::new(code::INVALID_QUERY, detail)
}

fn together(rule: &'static str) -> Invalid {
    Invalid::new(code::INVALID_QUERY, rule)
}
