//! A request's head: every parser of a path, a query or a header, on any text.

use headwater_core::access::{Action, Scope, Subject};
use headwater_core::content::{CONTENT_TYPE_BYTES_MAX, ContentType};
use headwater_core::ids::{Offset, StreamId};
use headwater_core::moment::Lifetime;
use headwater_core::wire::accept::Representation;
use headwater_core::wire::coding::Coding;
use headwater_core::wire::cursor;
use headwater_core::wire::etag::{ETag, ReadIdentity};
use headwater_core::wire::headers::{
    ATTRIBUTES_BYTES_MAX, Fields, NUMBER_MAX, PRODUCER_ID_BYTES_MAX, STREAM_SEQ_BYTES_MAX,
};
use headwater_core::wire::invalid::{Invalid, SHOWN_CHARS_MAX, code};
use headwater_core::wire::path::{self, PathError, Target};
use headwater_core::wire::query::{
    LISTING_LIMIT_MAX, ListingQuery, OffsetToken, ReadQuery, ReadStart, boundary_record,
    refuse_live,
};
use headwater_core::wire::range::ByteRange;
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::input::Input;

/// The longest sentence of a refusal, in characters: what it quotes is cut.
const DETAIL_CHARS_MAX: usize = SHOWN_CHARS_MAX + 300;

/// Headers that a fuzzer may name by a number.
const NAMES: [&str; 24] = [
    "content-type",
    "content-encoding",
    "accept",
    "if-none-match",
    "if-range",
    "range",
    "prefer",
    "stream-closed",
    "stream-seq",
    "stream-ttl",
    "stream-expires-at",
    "stream-forked-from",
    "stream-fork-offset",
    "stream-fork-sub-offset",
    "producer-id",
    "producer-epoch",
    "producer-seq",
    "stream-record-match",
    "stream-snapshot-match",
    "stream-attrs",
    "last-event-id",
    "traceparent",
    "host",
    "x",
];

/// The first line is a path with or without a query. Then come headers, a line each: `a` to `x`,
/// which stand for a name, or a name and a colon; then the value.
pub(crate) fn run(data: &[u8]) {
    let mut lines = data.split(|byte| *byte == b'\n');
    let target = String::from_utf8_lossy(lines.next().unwrap_or_default());
    let (raw_path, raw_query) = match target.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (&*target, None),
    };
    address(raw_path);
    scope(&target, raw_path);
    query(raw_query);
    let mut map = HeaderMap::new();
    for line in lines {
        let (name, value) = match line {
            [letter @ b'a'..=b'x', value @ ..] if !value.contains(&b':') => {
                (NAMES[usize::from(letter - b'a')].as_bytes(), value)
            }
            _ => match line.iter().position(|byte| *byte == b':') {
                Some(at) => (&line[..at], &line[at + 1..]),
                None => continue,
            },
        };
        let name = HeaderName::from_bytes(name);
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(value)) {
            map.append(name, value);
        }
    }
    headers(&map);
    let mut input = Input::new(data);
    let (now, jitter) = (u64::from(input.short()) << 26, input.short().into());
    if let Ok(text) = std::str::from_utf8(input.rest()) {
        next_cursor(text, now, jitter);
    }
}

/// A scope reads back as it is written, and covers what it covered.
fn scope(text: &str, raw_path: &str) {
    let Ok(scope) = Scope::parse(text) else { return };
    let again = Scope::parse(&scope.to_string()).expect("what is written is read");
    assert_eq!(scope, again, "{text:?}");
    if let Ok(Target::Stream { name, .. }) = path::parse(raw_path) {
        for action in Action::ALL {
            let subject = Subject::Stream(&name);
            assert_eq!(scope.allows(action, subject), again.allows(action, subject));
        }
    }
}

fn address(raw: &str) {
    let target = match path::parse(raw) {
        Ok(target) => target,
        Err(PathError::Invalid(invalid)) => return refused(&invalid),
        Err(PathError::Unknown { detail }) => return short(&detail),
    };
    if let Target::Stream { surface, name, resource } = &target {
        let encoded = path::encode(*surface, name, resource);
        assert!(encoded.bytes().all(|byte| byte.is_ascii_graphic()), "{encoded:?}");
        assert_eq!(path::parse(&encoded).as_ref(), Ok(&target), "its own address leads to it");
        assert_eq!(headwater_core::ids::StreamName::from_stored(name.key()).as_ref(), Some(name));
    }
    if let Ok(name) = path::parse_stream(raw) {
        assert!(matches!(&target, Target::Stream { name: same, .. } if *same == name));
    }
}

fn query(raw: Option<&str>) {
    match ReadQuery::parse(raw) {
        Err(invalid) => refused(&invalid),
        Ok(query) => {
            assert!(query.max_records != Some(0));
            assert!(query.live.is_none() || query.start.is_some());
            if let Some(ReadStart::Offset(token)) = &query.start {
                offset(token);
            }
        }
    }
    match ListingQuery::parse(raw) {
        Err(invalid) => refused(&invalid),
        Ok(query) => assert!((1..=LISTING_LIMIT_MAX).contains(&query.limit)),
    }
    for invalid in [boundary_record(raw).err(), refuse_live(raw).err()].into_iter().flatten() {
        refused(&invalid);
    }
    if let Some(raw) = raw {
        match OffsetToken::parse(raw) {
            Ok(token) => offset(&token),
            Err(invalid) => refused(&invalid),
        }
    }
}

/// What the server answers for an offset is read as the same offset.
fn offset(token: &OffsetToken) {
    if let OffsetToken::At(offset) = token {
        assert_eq!(OffsetToken::parse(&offset.to_string()).as_ref(), Ok(token));
        assert_eq!(OffsetToken::parse_position(&offset.to_string()).as_ref(), Ok(token));
    }
}

fn headers(map: &HeaderMap) {
    let fields = Fields::of(map);
    check(fields.content_type(), |kind| {
        let Some(kind) = kind else { return };
        assert!(kind.as_str().len() <= CONTENT_TYPE_BYTES_MAX);
        assert!(HeaderValue::from_str(kind.as_str()).is_ok(), "it can be sent back");
        assert_eq!(ContentType::parse(kind.as_str()).as_ref(), Ok(&kind));
        assert_eq!(kind.media_type().split('/').count(), 2);
    });
    check(fields.producer(), |producer| {
        let Some(producer) = producer else { return };
        assert!((1..=PRODUCER_ID_BYTES_MAX).contains(&producer.id.len()));
        assert!(producer.epoch <= NUMBER_MAX && producer.seq <= NUMBER_MAX);
    });
    check(fields.stream_seq(), |seq| {
        assert!(seq.is_none_or(|seq| (1..=STREAM_SEQ_BYTES_MAX).contains(&seq.len())));
    });
    check(fields.lifetime(), |lifetime| match lifetime {
        Some(Lifetime::Ttl(ttl)) => {
            assert_eq!(map["stream-ttl"], ttl.to_string());
            assert!(ttl.millis() / 1000 == ttl.seconds());
        }
        Some(Lifetime::ExpiresAt(at)) => assert_eq!(map["stream-expires-at"], at.as_str()),
        None => {}
    });
    check(fields.fork(), |fork| {
        let Some(fork) = fork else { return };
        assert!(fork.sub_offset <= NUMBER_MAX);
        assert!(!matches!(fork.offset, Some(OffsetToken::Start | OffsetToken::Now)));
    });
    check(fields.attributes(), |text| {
        let Some(text) = text else { return };
        assert!(text.len() <= ATTRIBUTES_BYTES_MAX && text.starts_with('{') && text.ends_with('}'));
    });
    check(fields.closed(), drop);
    check(fields.record_match(), drop);
    check(fields.snapshot_match(), drop);
    let wishes = (fields.has_content_encoding(), fields.prefers_minimal());
    assert_eq!(wishes, (fields.has_content_encoding(), fields.prefers_minimal()));
    conditions(map, fields);
}

/// `Accept`, `If-None-Match`, `Range` and `If-Range`.
fn conditions(map: &HeaderMap, fields: Fields<'_>) {
    let representation = fields.representation();
    if representation != Representation::Array {
        assert!(map.contains_key("accept"), "the array unless something else is asked for");
    }
    let etag = ETag::of_read(&ReadIdentity {
        salt: 1,
        stream: StreamId(2),
        start: Offset(3),
        end: Offset(4),
        closed: true,
        representation,
        coding: Coding::Identity,
    });
    let lines = || map.get_all("if-none-match").iter().filter_map(|line| line.to_str().ok());
    if fields.if_none_match(&etag) {
        let names = |line: &str| line.contains(etag.as_str()) || line.trim() == "*";
        assert!(lines().any(names), "a tag that nobody named");
    }
    for len in [0, 1, 10, u64::MAX] {
        let range = fields.range(len, &etag);
        match range {
            ByteRange::Full => assert_eq!(range.content_range(len), None),
            ByteRange::Part { start, end } => {
                assert!(start < end && end <= len);
                let wanted = format!("bytes {start}-{}/{len}", end - 1);
                assert_eq!(range.content_range(len), Some(wanted));
            }
            ByteRange::Unsatisfiable => {
                assert_eq!(range.content_range(len), Some(format!("bytes */{len}")));
            }
        }
        if let Some(plain) = map.get("range").and_then(|value| plain_range(value.as_bytes(), len))
            && map.get_all("range").iter().count() == 1
            && !map.contains_key("if-range")
        {
            assert_eq!(range, plain);
        }
    }
}

/// What `bytes=FIRST-LAST`, `bytes=FIRST-` and `bytes=-SUFFIX` select, by the letter; `None` for
/// all other forms.
fn plain_range(value: &[u8], len: u64) -> Option<ByteRange> {
    let text = std::str::from_utf8(value).ok()?.strip_prefix("bytes=")?;
    let (first, last) = text.split_once('-')?;
    let number = |digits: &str| {
        let decimal =
            (1..=30).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
        decimal.then(|| digits.parse::<u128>().ok())?
    };
    let len = u128::from(len);
    let (start, end) = match (number(first), number(last)) {
        (Some(first), Some(last)) if last < first => return Some(ByteRange::Unsatisfiable),
        (Some(first), Some(last)) => (first, len.min(last + 1)),
        (Some(first), None) if last.is_empty() => (first, len),
        (None, Some(0)) if first.is_empty() => return Some(ByteRange::Unsatisfiable),
        (None, Some(suffix)) if first.is_empty() && len > 0 => (len.saturating_sub(suffix), len),
        (None, Some(_)) if first.is_empty() => return Some(ByteRange::Full),
        _ => return None,
    };
    let small = |number: u128| u64::try_from(number).unwrap_or(u64::MAX);
    if start >= len {
        return Some(ByteRange::Unsatisfiable);
    }
    Some(ByteRange::Part { start: small(start), end: small(end) })
}

/// A live reader is always sent a cursor that it has not just used.
fn next_cursor(text: &str, now: u64, jitter: u64) {
    let answer = cursor::next(Some(text), now, jitter);
    let number: u64 = answer.parse().expect("a cursor is a number");
    if text.len() < 19 && text.parse::<u64>().is_ok() {
        assert_ne!(text.trim_start_matches('0'), answer);
    }
    let current: u64 = cursor::next(None, now, jitter).parse().expect("a cursor is a number");
    assert!(number >= current);
}

fn check<T>(parsed: Result<T, Invalid>, sound: impl FnOnce(T)) {
    match parsed {
        Ok(value) => sound(value),
        Err(invalid) => refused(&invalid),
    }
}

fn refused(invalid: &Invalid) {
    assert!(code::ALL.contains(&invalid.code), "{invalid:?}");
    short(&invalid.detail);
}

/// A message to a client quotes what came, but never carries it on.
fn short(detail: &str) {
    assert!(detail.chars().count() <= DETAIL_CHARS_MAX, "{detail:?}");
    let fine = |c: char| c == '…' || c == '±' || c == '–' || (' '..='~').contains(&c);
    assert!(detail.chars().all(fine), "{detail:?}");
}
