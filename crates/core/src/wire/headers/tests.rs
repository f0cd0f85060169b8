use http::HeaderValue;
use proptest::prelude::*;

use super::*;
use crate::ids::Offset;

fn headers(fields: &[(HeaderName, &str)]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in fields {
        let value = HeaderValue::from_bytes(value.as_bytes()).expect("a legal header value");
        map.append(name, value);
    }
    map
}

/// What a reader makes of headers, as a code when it refuses.
macro_rules! read {
    ($reader:ident, [$($field:expr),* $(,)?]) => {
        Fields::of(&headers(&[$($field),*])).$reader().map_err(|invalid| invalid.code)
    };
}

const REFUSED: &str = code::INVALID_HEADER;

#[test]
fn every_protocol_header_is_known_by_its_prefix() {
    assert!(REQUEST.iter().all(is_own));
    assert!(!is_own(&CONTENT_TYPE));
}

#[test]
fn a_protocol_header_comes_once_and_in_printable_ascii() {
    let map = headers(&[(STREAM_SEQ, "a b\tc")]);
    assert_eq!(Fields::of(&map).one(&STREAM_SEQ), Ok(Some("a b\tc")));
    assert_eq!(Fields::of(&map).one(&STREAM_TTL), Ok(None));
    assert_eq!(read!(stream_seq, [(STREAM_SEQ, "a"), (STREAM_SEQ, "a")]), Err(REFUSED));
    assert_eq!(read!(stream_seq, [(STREAM_SEQ, "é")]), Err(REFUSED));
    assert_eq!(read!(closed, [(STREAM_CLOSED, "true"), (STREAM_CLOSED, "true")]), Err(REFUSED));
    let twice = [(STREAM_SNAPSHOT_MATCH, "a"), (STREAM_SNAPSHOT_MATCH, "a")];
    assert!(Fields::of(&headers(&twice)).snapshot_match().is_err());
}

#[test]
fn an_empty_content_type_is_missing_and_a_malformed_one_refused() {
    assert_eq!(read!(content_type, []), Ok(None));
    assert_eq!(read!(content_type, [(CONTENT_TYPE, "")]), Ok(None));
    let given = read!(content_type, [(CONTENT_TYPE, "Text/Plain; x=y")]).expect("valid");
    assert_eq!(given.expect("present").as_str(), "Text/Plain; x=y");
    let malformed = read!(content_type, [(CONTENT_TYPE, "text")]);
    assert_eq!(malformed, Err(code::INVALID_CONTENT_TYPE));
    let twice = read!(content_type, [(CONTENT_TYPE, "a/b"), (CONTENT_TYPE, "a/b")]);
    assert_eq!(twice, Err(REFUSED));
}

#[test]
fn only_identity_is_no_content_encoding() {
    let encoded = |values: &[&str]| {
        let fields: Vec<_> = values.iter().map(|value| (CONTENT_ENCODING, *value)).collect();
        Fields::of(&headers(&fields)).has_content_encoding()
    };
    for plain in [&[][..], &[""], &["identity"], &["Identity, ,identity"], &["identity", ""]] {
        assert!(!encoded(plain), "{plain:?}");
    }
    for coded in [&["gzip"][..], &["identity, br"], &["identity", "gzip"], &["é"]] {
        assert!(encoded(coded), "{coded:?}");
    }
}

#[test]
fn a_producer_is_all_or_nothing() {
    assert_eq!(read!(producer, []), Ok(None));
    let map = headers(&[
        (PRODUCER_ID, "p 1"),
        (PRODUCER_EPOCH, "007"),
        (PRODUCER_SEQ, "9007199254740991"),
    ]);
    let all = ProducerFields { id: "p 1", epoch: 7, seq: NUMBER_MAX };
    assert_eq!(Fields::of(&map).producer(), Ok(Some(all)));

    let fields = [(PRODUCER_ID, "p"), (PRODUCER_EPOCH, "0"), (PRODUCER_SEQ, "0")];
    for subset in 1..7_usize {
        let some: Vec<_> =
            (0..3).filter(|bit| subset >> bit & 1 == 1).map(|bit| fields[bit].clone()).collect();
        let map = headers(&some);
        let refused = Fields::of(&map).producer().expect_err("incomplete");
        assert_eq!(refused.code, code::INVALID_PRODUCER, "{some:?}");
    }
}

#[test]
fn malformed_producers_are_refused() {
    let read = |id: &str, epoch: &str, seq: &str| {
        read!(producer, [(PRODUCER_ID, id), (PRODUCER_EPOCH, epoch), (PRODUCER_SEQ, seq)])
            .map(|producer| producer.is_some())
    };
    assert_eq!(read(&"x".repeat(256), "0", "0"), Ok(true));
    assert_eq!(read(&"x".repeat(257), "0", "0"), Err(code::INVALID_PRODUCER));
    assert_eq!(read("", "0", "0"), Err(code::INVALID_PRODUCER));
    for bad in ["", "1abc", "0xyz", "1e3", "-1", "+1", "1.0", "9007199254740992", "1 "] {
        assert_eq!(read("p", bad, "0"), Err(code::INVALID_PRODUCER), "epoch {bad}");
        assert_eq!(read("p", "0", bad), Err(code::INVALID_PRODUCER), "seq {bad}");
    }
}

#[test]
fn a_stream_seq_is_opaque_and_bounded() {
    assert_eq!(read!(stream_seq, []), Ok(None));
    assert_eq!(read!(stream_seq, [(STREAM_SEQ, "")]), Err(REFUSED));
    assert!(read!(stream_seq, [(STREAM_SEQ, &"x".repeat(256))]).is_ok());
    assert_eq!(read!(stream_seq, [(STREAM_SEQ, &"x".repeat(257))]), Err(REFUSED));
}

#[test]
fn only_true_closes() {
    assert_eq!(read!(closed, []), Ok(false));
    for (value, closed) in
        [("true", true), ("TRUE", true), ("True", true), ("", false), ("1", false), ("é", false)]
    {
        assert_eq!(read!(closed, [(STREAM_CLOSED, value)]), Ok(closed), "{value}");
    }
}

#[test]
fn a_lifetime_is_a_window_or_a_moment() {
    const AT: &str = "2030-01-01T00:00:00Z";
    assert_eq!(read!(lifetime, []), Ok(None));
    let window = Lifetime::Ttl(Ttl::from_seconds(60).expect("in range"));
    assert_eq!(read!(lifetime, [(STREAM_TTL, "60")]), Ok(Some(window)));
    let moment = Lifetime::ExpiresAt(ExpiresAt::parse(AT).expect("valid"));
    assert_eq!(read!(lifetime, [(STREAM_EXPIRES_AT, AT)]), Ok(Some(moment)));
    let refused = Err(code::INVALID_LIFETIME);
    assert_eq!(read!(lifetime, [(STREAM_TTL, "60"), (STREAM_EXPIRES_AT, AT)]), refused);
    assert_eq!(read!(lifetime, [(STREAM_TTL, "")]), refused);
    assert_eq!(read!(lifetime, [(STREAM_EXPIRES_AT, "soon")]), refused);
}

#[test]
fn a_fork_is_read_from_three_headers() {
    let from = || (STREAM_FORKED_FROM, "/v1/stream/a%20b");
    let source = || StreamName::on_base(["a b"]).expect("valid");
    assert_eq!(read!(fork, []), Ok(None));
    let plain = ForkFields { source: source(), offset: None, sub_offset: 0 };
    assert_eq!(read!(fork, [from()]), Ok(Some(plain.clone())));
    assert_eq!(read!(fork, [from(), (STREAM_FORK_SUB_OFFSET, "0")]), Ok(Some(plain)));
    let offset = OffsetToken::At(Offset(7));
    let full = ForkFields { source: source(), offset: Some(offset), sub_offset: 12 };
    let read = read!(fork, [from(), (STREAM_FORK_OFFSET, "7"), (STREAM_FORK_SUB_OFFSET, "12")]);
    assert_eq!(read, Ok(Some(full)));
}

#[test]
fn malformed_forks_are_refused() {
    let from = || (STREAM_FORKED_FROM, "/demo/x");
    for bad in ["-1", "now", "", "x", "7 ", "0,1"] {
        let read = read!(fork, [from(), (STREAM_FORK_OFFSET, bad)]);
        assert_eq!(read, Err(code::INVALID_OFFSET), "{bad}");
    }
    for bad in ["-1", "abc", "1.5", "05", "+1", "", "00", "9007199254740992"] {
        let read = read!(fork, [from(), (STREAM_FORK_SUB_OFFSET, bad)]);
        assert_eq!(read, Err(code::INVALID_FORK), "{bad}");
    }
    for bad in ["", "demo/x", "http://host/demo/x", "/demo", "/abc/x"] {
        assert_eq!(read!(fork, [(STREAM_FORKED_FROM, bad)]), Err(code::INVALID_FORK), "{bad}");
    }
    assert_eq!(read!(fork, [(STREAM_FORK_OFFSET, "7")]), Err(code::INVALID_FORK));
    assert_eq!(read!(fork, [(STREAM_FORK_SUB_OFFSET, "0")]), Err(code::INVALID_FORK));
}

#[test]
fn conditions_on_records_and_snapshots_are_read() {
    assert_eq!(read!(record_match, []), Ok(None));
    for (text, number) in [("0", 0), ("12", 12), ("99999999999999999999", u64::MAX)] {
        assert_eq!(read!(record_match, [(STREAM_RECORD_MATCH, text)]), Ok(Some(number)));
    }
    for bad in ["", "-1", "x", "now", "1 2"] {
        assert_eq!(read!(record_match, [(STREAM_RECORD_MATCH, bad)]), Err(REFUSED), "{bad}");
    }
    for any in ["", "no digest", "é"] {
        let map = headers(&[(STREAM_SNAPSHOT_MATCH, any)]);
        assert_eq!(Fields::of(&map).snapshot_match(), Ok(Some(any.as_bytes())));
    }
}

#[test]
fn attributes_are_one_json_object_of_bounded_size() {
    assert_eq!(read!(attributes, []), Ok(None));
    let map = headers(&[(STREAM_ATTRS, "{ \"a\": [1] }")]);
    assert_eq!(Fields::of(&map).attributes(), Ok(Some("{ \"a\": [1] }")));
    let of_len = |len: usize| format!("{{\"a\":\"{}\"}}", "x".repeat(len - 8));
    assert!(read!(attributes, [(STREAM_ATTRS, &of_len(16_384))]).is_ok());
    for bad in ["", "[]", "{", "null", "{}{}", "{\"é\":1}", &of_len(16_385)] {
        let refused = read!(attributes, [(STREAM_ATTRS, bad)]).expect_err(bad);
        assert!([code::INVALID_ATTRIBUTES, REFUSED].contains(&refused));
    }
}

#[test]
fn if_none_match_may_come_in_several_lines() {
    let etag = ETag::of_digest("ab");
    let names = |lines: &[&str]| {
        let fields: Vec<_> = lines.iter().map(|line| (IF_NONE_MATCH, *line)).collect();
        Fields::of(&headers(&fields)).if_none_match(&etag)
    };
    assert!(names(&["\"x\"", "\"ab\""]) && names(&["*"]) && names(&["é", "W/\"ab\""]));
    assert!(!names(&[]) && !names(&["\"x\", \"y\""]));
}

#[test]
fn a_range_counts_only_when_its_condition_holds() {
    let etag = ETag::of_digest("ab");
    let select =
        |fields: &[(HeaderName, &'static str)]| Fields::of(&headers(fields)).range(10, &etag);
    let part = ByteRange::Part { start: 0, end: 5 };
    let range = || (RANGE, "bytes=0-4");
    assert_eq!(select(&[]), ByteRange::Full);
    assert_eq!(select(&[range()]), part);
    assert_eq!(select(&[range(), (IF_RANGE, "\"ab\"")]), part);
    assert_eq!(select(&[(RANGE, "bytes=10-")]), ByteRange::Unsatisfiable);
    for condition in ["\"cd\"", "W/\"ab\"", "", "é"] {
        assert_eq!(select(&[range(), (IF_RANGE, condition)]), ByteRange::Full, "{condition}");
    }
    let twice = (IF_RANGE, "\"ab\"");
    assert_eq!(select(&[range(), twice.clone(), twice]), ByteRange::Full);
    assert_eq!(select(&[range(), range()]), ByteRange::Full);
}

#[test]
fn preferences_are_found_among_others() {
    let prefers = |lines: &[&str]| {
        let fields: Vec<_> = lines.iter().map(|line| (PREFER, *line)).collect();
        Fields::of(&headers(&fields)).prefers_minimal()
    };
    for minimal in [
        &["return=minimal"][..],
        &["respond-async, Return = \"minimal\"; foo=bar"],
        &["wait=10", "return=minimal"],
    ] {
        assert!(prefers(minimal), "{minimal:?}");
    }
    for other in [
        &[][..],
        &["return"],
        &["return=representation"],
        &["return=representation, return=minimal"],
        &["x=\"return=minimal\""],
        &["x; return=minimal"],
    ] {
        assert!(!prefers(other), "{other:?}");
    }
}

#[test]
fn accept_chooses_the_form_of_a_read() {
    let map = headers(&[(ACCEPT, "text/html"), (ACCEPT, "application/x-ndjson")]);
    assert_eq!(Fields::of(&map).representation(), Representation::Ndjson);
}

proptest! {
    #[test]
    fn any_header_value_can_be_read(value in prop::collection::vec(any::<u8>(), 0..40)) {
        let Ok(value) = HeaderValue::from_bytes(&value) else { return Ok(()) };
        let mut map = HeaderMap::new();
        for name in &REQUEST {
            map.insert(name, value.clone());
        }
        let standard = [CONTENT_TYPE, CONTENT_ENCODING, IF_NONE_MATCH, IF_RANGE, RANGE, ACCEPT];
        for name in standard.into_iter().chain([PREFER]) {
            map.insert(name, value.clone());
        }
        let fields = Fields::of(&map);
        let etag = ETag::of_digest("ab");
        fields.content_type().ok();
        fields.has_content_encoding();
        fields.producer().ok();
        fields.stream_seq().ok();
        fields.closed().expect("every value is legal");
        fields.lifetime().ok();
        fields.fork().ok();
        fields.record_match().ok();
        fields.snapshot_match().expect("every value is legal");
        fields.attributes().ok();
        fields.if_none_match(&etag);
        fields.range(10, &etag);
        fields.representation();
        fields.prefers_minimal();
    }
}
