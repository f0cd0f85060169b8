//! Request headers: their names and what they say. One place for each header's grammar; what the
//! values mean for a stream is the verbs' business.

use std::fmt::Display;

use http::header::{
    ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, IF_NONE_MATCH, IF_RANGE, RANGE,
};
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::content::ContentType;
use crate::ids::StreamName;
use crate::json;
use crate::moment::{ExpiresAt, Lifetime, Ttl};
use crate::wire::accept::Representation;
use crate::wire::coding::Accepted;
use crate::wire::etag::ETag;
use crate::wire::invalid::{Invalid, code, shown};
use crate::wire::list;
use crate::wire::path;
use crate::wire::query::{OffsetToken, decimal};
use crate::wire::range::{ByteRange, if_range_holds};

#[cfg(test)]
mod tests;

/// Declares header names, and the list of all of them.
macro_rules! names {
    ($(#[$all_doc:meta])* $all:ident: $($(#[$doc:meta])* $name:ident = $text:literal;)+) => {
        $($(#[$doc])* pub const $name: HeaderName = HeaderName::from_static($text);)+
        $(#[$all_doc])*
        pub static $all: [HeaderName; [$(stringify!($name)),+].len()] = [$($name),+];
    };
}

names! {
    /// The protocol's own request headers.
    REQUEST:
    /// `true` closes the stream; in an answer, it is closed and this answer reaches its end.
    STREAM_CLOSED = "stream-closed";
    /// A writer's own order: opaque, strictly increasing.
    STREAM_SEQ = "stream-seq";
    /// Seconds that a stream lives unused.
    STREAM_TTL = "stream-ttl";
    /// When a stream ends.
    STREAM_EXPIRES_AT = "stream-expires-at";
    /// The path of the stream to fork.
    STREAM_FORKED_FROM = "stream-forked-from";
    /// Where to fork; the source's tail if missing.
    STREAM_FORK_OFFSET = "stream-fork-offset";
    /// Bytes or messages past the fork offset.
    STREAM_FORK_SUB_OFFSET = "stream-fork-sub-offset";
    /// An idempotent producer's name.
    PRODUCER_ID = "producer-id";
    /// Its incarnation.
    PRODUCER_EPOCH = "producer-epoch";
    /// Its number for this append.
    PRODUCER_SEQ = "producer-seq";
    /// Append only as this record.
    STREAM_RECORD_MATCH = "stream-record-match";
    /// Publish only over this snapshot.
    STREAM_SNAPSHOT_MATCH = "stream-snapshot-match";
    /// The application's attributes, at creation.
    STREAM_ATTRS = "stream-attrs";
}

names! {
    /// The protocol's own response headers, those that requests have too left out.
    RESPONSE:
    /// Where to read on.
    STREAM_NEXT_OFFSET = "stream-next-offset";
    /// To be sent back as `cursor` with the next live read.
    STREAM_CURSOR = "stream-cursor";
    /// `true`: this answer reaches the tail.
    STREAM_UP_TO_DATE = "stream-up-to-date";
    /// `base64`: how binary data goes over SSE.
    STREAM_SSE_DATA_ENCODING = "stream-sse-data-encoding";
    /// The number that a producer's gap left out.
    PRODUCER_EXPECTED_SEQ = "producer-expected-seq";
    /// The number that came instead.
    PRODUCER_RECEIVED_SEQ = "producer-received-seq";
    /// The visible snapshot's offset.
    STREAM_SNAPSHOT_OFFSET = "stream-snapshot-offset";
    /// The visible snapshot's digest.
    STREAM_SNAPSHOT_DIGEST = "stream-snapshot-digest";
    /// The earliest readable offset, once history was trimmed.
    STREAM_RETAINED_OFFSET = "stream-retained-offset";
    /// The first retained record.
    STREAM_RECORD_FIRST = "stream-record-first";
    /// The first record of this answer or append.
    STREAM_RECORD_START = "stream-record-start";
    /// The record after this answer or append.
    STREAM_RECORD_NEXT = "stream-record-next";
    /// What the server speaks beyond the base protocol.
    STREAM_EXTENSIONS = "stream-extensions";
    /// Which wishes of `Prefer` were granted.
    PREFERENCE_APPLIED = "preference-applied";
}

/// A client's wishes (RFC 7240).
pub const PREFER: HeaderName = HeaderName::from_static("prefer");

/// Where a live reader got to (HTML, §9.2.4).
pub const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// The value of `Stream-Extensions` on JSON streams.
pub const EXTENSION_RECORDS: &str = "json-record-coordinates-v1";

/// The longest `Producer-Id`, in bytes.
pub const PRODUCER_ID_BYTES_MAX: usize = 256;
/// The longest `Stream-Seq`, in bytes.
pub const STREAM_SEQ_BYTES_MAX: usize = 256;
/// The largest `Producer-Epoch`, `Producer-Seq` and `Stream-Fork-Sub-Offset`: what every client
/// language can count to.
pub const NUMBER_MAX: u64 = (1 << 53) - 1;
/// The longest JSON object of attributes, in bytes.
pub const ATTRIBUTES_BYTES_MAX: usize = 16 * 1024;

/// `Producer-Id`, `Producer-Epoch` and `Producer-Seq`, which come together or not at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProducerFields<'a> {
    /// 1 to [`PRODUCER_ID_BYTES_MAX`] bytes.
    pub id: &'a str,
    /// At most [`NUMBER_MAX`].
    pub epoch: u64,
    /// At most [`NUMBER_MAX`].
    pub seq: u64,
}

/// `Stream-Forked-From` and what belongs to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForkFields {
    /// The stream to fork.
    pub source: StreamName,
    /// Where; the source's tail if missing. Never a sentinel.
    pub offset: Option<OffsetToken>,
    /// How far past that; 0 if missing, which is the same. At most [`NUMBER_MAX`].
    pub sub_offset: u64,
}

/// Reads the headers of a request. Each method refuses what is malformed and says nothing of what
/// is merely absent.
#[derive(Debug, Clone, Copy)]
pub struct Fields<'a> {
    map: &'a HeaderMap,
    /// Whether any of [`REQUEST`] may be among them. Most requests have none, and need no search
    /// for each.
    has_own: bool,
}

impl<'a> Fields<'a> {
    /// The headers of one request.
    pub fn of(map: &'a HeaderMap) -> Self {
        Self { map, has_own: map.keys().any(is_own) }
    }

    /// As [`Fields::one`], for a header of the protocol's own.
    fn own(self, name: &HeaderName) -> Result<Option<&'a str>, Invalid> {
        if self.has_own { self.one(name) } else { Ok(None) }
    }

    /// As [`Fields::one_opaque`], for a header of the protocol's own.
    fn own_opaque(self, name: &HeaderName) -> Result<Option<&'a [u8]>, Invalid> {
        if self.has_own { self.one_opaque(name) } else { Ok(None) }
    }

    /// The value of a header that may come once only and must be printable ASCII.
    pub fn one(self, name: &HeaderName) -> Result<Option<&'a str>, Invalid> {
        let Some(value) = self.one_opaque(name)? else {
            return Ok(None);
        };
        let printable = |b: &u8| *b == b'\t' || (b' '..=b'~').contains(b);
        match std::str::from_utf8(value) {
            Ok(text) if value.iter().all(printable) => Ok(Some(text)),
            _ => Err(malformed(code::INVALID_HEADER, name, "printable ASCII", &shown(value))),
        }
    }

    /// The value of a header that may come once only and is compared, not read.
    fn one_opaque(self, name: &HeaderName) -> Result<Option<&'a [u8]>, Invalid> {
        let mut values = self.map.get_all(name).iter();
        let first = values.next();
        if values.next().is_some() {
            let detail = format!("the header {name} may be given only once");
            return Err(Invalid::new(code::INVALID_HEADER, detail));
        }
        Ok(first.map(HeaderValue::as_bytes))
    }

    /// The lines of a header that is a list, less those that are not ASCII.
    fn lines(self, name: &HeaderName) -> impl Iterator<Item = &'a str> {
        self.map.get_all(name).iter().filter_map(|value| value.to_str().ok())
    }

    /// `Content-Type`; an empty one counts as missing.
    pub fn content_type(self) -> Result<Option<ContentType>, Invalid> {
        match self.one(&CONTENT_TYPE)? {
            None | Some("") => Ok(None),
            Some(text) => ContentType::parse(text).map(Some),
        }
    }

    /// Whether `Content-Encoding` names anything but `identity`: a body that we would store
    /// without being able to read it.
    pub fn has_content_encoding(self) -> bool {
        self.map.get_all(CONTENT_ENCODING).iter().any(|value| {
            value.to_str().map_or(true, |line| {
                list::elements(line, b',').any(|coding| !coding.eq_ignore_ascii_case("identity"))
            })
        })
    }

    /// `Producer-Id`, `Producer-Epoch` and `Producer-Seq`: all or none.
    pub fn producer(self) -> Result<Option<ProducerFields<'a>>, Invalid> {
        let id = self.own(&PRODUCER_ID)?;
        let (epoch, seq) = (self.own(&PRODUCER_EPOCH)?, self.own(&PRODUCER_SEQ)?);
        let (id, epoch, seq) = match (id, epoch, seq) {
            (None, None, None) => return Ok(None),
            (Some(id), Some(epoch), Some(seq)) => (id, epoch, seq),
            _ => {
                let detail = "producer-id, producer-epoch and producer-seq come together";
                return Err(Invalid::new(code::INVALID_PRODUCER, detail));
            }
        };
        if !(1..=PRODUCER_ID_BYTES_MAX).contains(&id.len()) {
            let expected = format!("1 to {PRODUCER_ID_BYTES_MAX} bytes");
            let got = format!("{} bytes", id.len());
            return Err(malformed(code::INVALID_PRODUCER, &PRODUCER_ID, expected, &got));
        }
        let number = |name: HeaderName, text: &str| {
            decimal(text).filter(|number| *number <= NUMBER_MAX).ok_or_else(|| {
                let expected = format!("a decimal number up to {NUMBER_MAX}");
                malformed(code::INVALID_PRODUCER, &name, expected, &shown(text))
            })
        };
        let (epoch, seq) = (number(PRODUCER_EPOCH, epoch)?, number(PRODUCER_SEQ, seq)?);
        Ok(Some(ProducerFields { id, epoch, seq }))
    }

    /// `Stream-Seq`: 1 to [`STREAM_SEQ_BYTES_MAX`] bytes, which are compared as bytes. An empty
    /// one is refused, since it could only be a mistake.
    pub fn stream_seq(self) -> Result<Option<&'a str>, Invalid> {
        let Some(seq) = self.own(&STREAM_SEQ)? else {
            return Ok(None);
        };
        if (1..=STREAM_SEQ_BYTES_MAX).contains(&seq.len()) {
            return Ok(Some(seq));
        }
        let expected = format!("1 to {STREAM_SEQ_BYTES_MAX} bytes");
        let got = format!("{} bytes", seq.len());
        Err(malformed(code::INVALID_HEADER, &STREAM_SEQ, expected, &got))
    }

    /// `Last-Event-ID`: where a browser that comes back got to; nothing when it is empty.
    pub fn last_event_id(self) -> Result<Option<OffsetToken>, Invalid> {
        let last = self.one(&LAST_EVENT_ID)?.filter(|last| !last.is_empty());
        last.map(OffsetToken::parse_position).transpose()
    }

    /// Whether `Stream-Closed` is `true`, in any case; every other value is as if it were absent.
    pub fn closed(self) -> Result<bool, Invalid> {
        let value = self.own_opaque(&STREAM_CLOSED)?;
        Ok(value.is_some_and(|value| value.eq_ignore_ascii_case(b"true")))
    }

    /// `Stream-TTL` or `Stream-Expires-At`, not both.
    pub fn lifetime(self) -> Result<Option<Lifetime>, Invalid> {
        match (self.own(&STREAM_TTL)?, self.own(&STREAM_EXPIRES_AT)?) {
            (None, None) => Ok(None),
            (Some(ttl), None) => Ok(Some(Lifetime::Ttl(Ttl::parse(ttl)?))),
            (None, Some(at)) => Ok(Some(Lifetime::ExpiresAt(ExpiresAt::parse(at)?))),
            (Some(_), Some(_)) => {
                let detail = "a stream has one of stream-ttl and stream-expires-at";
                Err(Invalid::new(code::INVALID_LIFETIME, detail))
            }
        }
    }

    /// `Stream-Forked-From`, `Stream-Fork-Offset` and `Stream-Fork-Sub-Offset`.
    pub fn fork(self) -> Result<Option<ForkFields>, Invalid> {
        let source = self.own(&STREAM_FORKED_FROM)?;
        let offset = self.own(&STREAM_FORK_OFFSET)?;
        let sub_offset = self.own(&STREAM_FORK_SUB_OFFSET)?;
        let Some(source) = source else {
            if offset.is_none() && sub_offset.is_none() {
                return Ok(None);
            }
            let detail = "stream-fork-offset and stream-fork-sub-offset need stream-forked-from";
            return Err(Invalid::new(code::INVALID_FORK, detail));
        };
        let source = path::parse_stream(source)?;
        let offset = offset.map(OffsetToken::parse_position).transpose()?;
        let sub_offset = sub_offset.map(sub_offset_number).transpose()?.unwrap_or(0);
        Ok(Some(ForkFields { source, offset, sub_offset }))
    }

    /// `Stream-Record-Match`: an ordinal. A number beyond 64 bits reads as the largest one, which
    /// no stream reaches.
    pub fn record_match(self) -> Result<Option<u64>, Invalid> {
        let Some(text) = self.own(&STREAM_RECORD_MATCH)? else {
            return Ok(None);
        };
        let number = decimal(text).ok_or_else(|| {
            let expected = "a number of decimal digits";
            malformed(code::INVALID_HEADER, &STREAM_RECORD_MATCH, expected, &shown(text))
        })?;
        Ok(Some(number))
    }

    /// `Stream-Snapshot-Match`: any bytes. What is no digest simply matches none.
    pub fn snapshot_match(self) -> Result<Option<&'a [u8]>, Invalid> {
        self.own_opaque(&STREAM_SNAPSHOT_MATCH)
    }

    /// `Stream-Attrs`: the text of one JSON object, at most [`ATTRIBUTES_BYTES_MAX`] bytes.
    pub fn attributes(self) -> Result<Option<&'a str>, Invalid> {
        let Some(text) = self.own(&STREAM_ATTRS)? else {
            return Ok(None);
        };
        if text.len() > ATTRIBUTES_BYTES_MAX {
            let expected = format!("at most {ATTRIBUTES_BYTES_MAX} bytes");
            let got = format!("{} bytes", text.len());
            return Err(malformed(code::INVALID_ATTRIBUTES, &STREAM_ATTRS, expected, &got));
        }
        json::object(text.as_bytes()).map(Some).map_err(|error| {
            let detail = format!("the header {STREAM_ATTRS} is one JSON object: {error}");
            Invalid::new(code::INVALID_ATTRIBUTES, detail)
        })
    }

    /// Whether `If-None-Match` names `etag`, so that the answer is 304.
    pub fn if_none_match(self, etag: &ETag) -> bool {
        self.lines(&IF_NONE_MATCH).any(|line| etag.is_named_by(line))
    }

    /// What `Range` and `If-Range` ask of a representation of `len` bytes. A header that comes
    /// twice is as if it were absent: the answer is then everything.
    pub fn range(self, len: u64, etag: &ETag) -> ByteRange {
        let (mut ranges, mut conditions) = (self.map.get_all(RANGE).iter(), self.lines(&IF_RANGE));
        let (Some(range), None) = (ranges.next(), ranges.next()) else {
            return ByteRange::Full;
        };
        let in_force = match (self.map.contains_key(IF_RANGE), conditions.next(), conditions.next())
        {
            (false, _, _) => true,
            (true, Some(condition), None) => if_range_holds(condition, etag),
            (true, _, _) => false,
        };
        match range.to_str() {
            Ok(range) if in_force => ByteRange::select(range, len),
            _ => ByteRange::Full,
        }
    }

    /// The form of a JSON read that `Accept` asks for.
    pub fn representation(self) -> Representation {
        Representation::choose(self.lines(&ACCEPT))
    }

    /// The content codings that the client takes.
    pub fn accepted_codings(self) -> Accepted {
        Accepted::read(self.lines(&ACCEPT_ENCODING))
    }

    /// Whether the client prefers `return=minimal` (RFC 7240). The first `return` decides.
    pub fn prefers_minimal(self) -> bool {
        self.lines(&PREFER)
            .flat_map(|line| list::elements(line, b','))
            .filter_map(|preference| list::elements(preference, b';').next())
            .filter_map(|preference| preference.split_once('='))
            .find(|(name, _)| list::trim(name).eq_ignore_ascii_case("return"))
            .is_some_and(|(_, value)| list::trim(value).trim_matches('"') == "minimal")
    }
}

/// Whether a name is in the protocol's part of the name space.
fn is_own(name: &HeaderName) -> bool {
    name.as_str().starts_with("stream-") || name.as_str().starts_with("producer-")
}

/// `^(0|[1-9][0-9]*)$` up to [`NUMBER_MAX`], which is more than any append holds.
fn sub_offset_number(text: &str) -> Result<u64, Invalid> {
    let padded = text.len() > 1 && text.starts_with('0');
    decimal(text).filter(|number| !padded && *number <= NUMBER_MAX).ok_or_else(|| {
        let expected = format!("a whole number up to {NUMBER_MAX} without leading zeros");
        malformed(code::INVALID_FORK, &STREAM_FORK_SUB_OFFSET, expected, &shown(text))
    })
}

fn malformed(code: &'static str, name: &HeaderName, expected: impl Display, got: &str) -> Invalid {
    Invalid::new(code, format!("the header {name} is {expected}, got {got}"))
}
