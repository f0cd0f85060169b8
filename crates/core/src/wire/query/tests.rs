use proptest::prelude::*;

use super::*;

fn read(raw: &str) -> Result<ReadQuery, Invalid> {
    ReadQuery::parse(Some(raw))
}

fn at(offset: u64) -> OffsetToken {
    OffsetToken::At(Offset(offset))
}

#[test]
fn offsets_have_three_spellings_and_two_sentinels() {
    for (text, token) in [
        ("-1", OffsetToken::Start),
        ("now", OffsetToken::Now),
        ("0", at(0)),
        ("42", at(42)),
        ("00000000000000000042", at(42)),
        ("18446744073709551615", at(u64::MAX)),
        ("18446744073709551616", OffsetToken::Beyond("18446744073709551616".into())),
        ("99999999999999999999", OffsetToken::Beyond("99999999999999999999".into())),
        ("0000000000000000_0000000000000000", at(0)),
        ("0000000000000000_0000000000000042", at(42)),
        ("0000000000000000_9999999999999999", at(9_999_999_999_999_999)),
        (
            "0000000000000001_0000000000000000",
            OffsetToken::Beyond("0000000000000001_0000000000000000".into()),
        ),
        (
            "9999999999999999_9999999999999999",
            OffsetToken::Beyond("9999999999999999_9999999999999999".into()),
        ),
    ] {
        assert_eq!(OffsetToken::parse(text), Ok(token.clone()), "{text}");
        let sentinel = matches!(token, OffsetToken::Start | OffsetToken::Now);
        assert_eq!(OffsetToken::parse_position(text).ok(), (!sentinel).then_some(token), "{text}");
    }
}

#[test]
fn everything_else_is_no_offset() {
    for bad in [
        "",
        "-2",
        "-1 ",
        " -1",
        "-01",
        "NOW",
        "now\n",
        "+1",
        "1e3",
        "0x10",
        "000000000000000000042",
        "42\n",
        "42\0",
        "0,1",
        "0 1",
        "0/1",
        "../0",
        "0/..",
        "٣",
        "_",
        "0_0",
        "000000000000000_00000000000000000",
        "00000000000000000_000000000000000",
        "0000000000000000_000000000000000_",
        "0000000000000000_-000000000000000",
        "0000000000000000-0000000000000000",
        "0000000000000000_00000000000000000",
        "é000000000000000_000000000000000",
    ] {
        assert_eq!(OffsetToken::parse(bad).expect_err(bad).code, code::INVALID_OFFSET);
        let sentinel_like = OffsetToken::parse_position(bad);
        assert_eq!(sentinel_like.expect_err(bad).code, code::INVALID_OFFSET);
    }
}

#[test]
fn a_query_without_known_parameters_reads_from_the_beginning() {
    assert_eq!(ReadQuery::parse(None), Ok(ReadQuery::default()));
    for raw in ["", "&", "=", "foo=bar&foo=bar", "Offset=5", "offsets=5", "utm=%C3%A9&x=%FF"] {
        assert_eq!(read(raw), Ok(ReadQuery::default()), "{raw}");
    }
}

#[test]
fn each_start_is_read() {
    for (raw, start) in [
        ("offset=-1", ReadStart::Offset(OffsetToken::Start)),
        ("offset=%6eow&foo=bar", ReadStart::Offset(OffsetToken::Now)),
        ("%6Fffset=7", ReadStart::Offset(at(7))),
        ("record=007", ReadStart::Record(7)),
        ("record=99999999999999999999", ReadStart::Record(u64::MAX)),
        ("record=now", ReadStart::RecordNow),
        ("tail_records=0", ReadStart::TailRecords(0)),
        ("tail_records=10", ReadStart::TailRecords(10)),
    ] {
        assert_eq!(read(raw).map(|query| query.start), Ok(Some(start)), "{raw}");
    }
}

#[test]
fn the_rest_of_a_read_is_read() {
    let query = read("record=5&max_records=3&live=sse&cursor=1+2%2B").expect("valid");
    let expected = ReadQuery {
        start: Some(ReadStart::Record(5)),
        max_records: Some(3),
        live: Some(Live::Sse),
        cursor: Some("1 2+".into()),
    };
    assert_eq!(query, expected);
    assert_eq!(read("tail_records=0&live=long-poll").expect("valid").live, Some(Live::LongPoll));
    assert_eq!(read("record=now&max_records=1").expect("valid").max_records, Some(1));
}

#[test]
fn malformed_and_contradictory_reads_are_refused() {
    for raw in [
        "offset=",
        "offset",
        "offset=0,1",
        "offset=0+1",
        "offset=0%201",
        "offset=%2B1",
        "offset=+1",
        "offset=now%0A",
        "offset=0%00",
    ] {
        assert_eq!(read(raw).expect_err(raw).code, code::INVALID_OFFSET, "{raw}");
    }
    for raw in [
        "offset=0&offset=0",
        "offset=0&%6Fffset=1",
        "offset=0&record=0",
        "offset=0&tail_records=0",
        "record=0&tail_records=0",
        "record=-1",
        "record=",
        "record=NOW",
        "record=1.0",
        "tail_records=now",
        "tail_records=-1",
        "max_records=1",
        "offset=0&max_records=1",
        "record=0&max_records=0",
        "record=0&max_records=x",
        "record=0&max_records=",
        "live=sse",
        "live=long-poll&cursor=1",
        "live=true&offset=0",
        "live=&offset=0",
        "live=SSE&offset=0",
        "live=sse&live=sse&offset=0",
        "cursor=1&cursor=1",
        "offset=%",
        "offset=%1",
        "offset=%1g",
        "%zz=1",
        "foo=%zz",
        "cursor=%FF",
    ] {
        assert_eq!(read(raw).expect_err(raw).code, code::INVALID_QUERY, "{raw}");
    }
}

#[test]
fn listings_have_a_prefix_a_start_and_a_limit() {
    let parse = |raw: &str| ListingQuery::parse(Some(raw));
    let all = ListingQuery { prefix: String::new(), after: None, limit: 1_000 };
    assert_eq!(ListingQuery::parse(None), Ok(all));
    let some = ListingQuery { prefix: "a b".into(), after: Some("é/".into()), limit: 7 };
    assert_eq!(parse("prefix=a+b&after=%C3%A9/&limit=7"), Ok(some));
    assert_eq!(parse("limit=1").map(|query| query.limit), Ok(1));
    assert_eq!(parse("limit=1000").map(|query| query.limit), Ok(1_000));
    for bad in ["0", "1001", "-1", "", "x", "+5", "%2B5", "5%20", "1e2", "99999999999999999999"] {
        let error = parse(&format!("limit={bad}")).expect_err(bad);
        assert_eq!(error.code, code::INVALID_QUERY);
    }
    for bad in ["prefix=a&prefix=a", "after=%FF", "limit=5&limit=5"] {
        assert!(parse(bad).is_err(), "{bad}");
    }
}

#[test]
fn a_boundary_is_named_by_a_number_only() {
    assert_eq!(boundary_record(None), Ok(None));
    assert_eq!(boundary_record(Some("offset=x")), Ok(None));
    assert_eq!(boundary_record(Some("record=12")), Ok(Some(12)));
    for bad in ["record=now", "record=", "record=-1", "record=1&record=1"] {
        assert!(boundary_record(Some(bad)).is_err(), "{bad}");
    }
}

#[test]
fn a_bootstrap_is_never_live() {
    assert_eq!(refuse_live(None), Ok(()));
    assert_eq!(refuse_live(Some("offset=x&offset=y")), Ok(()));
    for bad in ["live=sse", "live=", "live", "liv%65=x"] {
        assert!(refuse_live(Some(bad)).is_err(), "{bad}");
    }
}

proptest! {
    #[test]
    fn any_text_can_be_read(
        raw in ".*", pairs in "((offset|record|limit|live)=[%0-9a-z+]{0,4}&){0,3}",
    ) {
        for raw in [raw, pairs] {
            read(&raw).ok();
            ListingQuery::parse(Some(&raw)).ok();
            boundary_record(Some(&raw)).ok();
        }
    }

    /// A property of the base protocol: whatever surrounds an offset makes it invalid.
    #[test]
    fn an_offset_is_matched_as_a_whole(
        token in "-1|now|[0-9]{20}",
        (before, after) in prop_oneof![
            Just(("", "%20")), Just(("%20", "")), Just(("", "%0A")), Just(("", "%0D%0A")),
            Just(("", "%00")), Just(("..%2F", "")), Just(("", "%2F..")), Just(("", ",0")),
        ],
    ) {
        let before_and_after = format!("offset={before}{token}{after}");
        prop_assert_eq!(read(&before_and_after).map_err(|e| e.code), Err(code::INVALID_OFFSET));
    }

    #[test]
    fn every_offset_reads_back_as_it_is_written(offset in any::<u64>()) {
        prop_assert_eq!(OffsetToken::parse(&Offset(offset).to_string()), Ok(at(offset)));
        prop_assert_eq!(OffsetToken::parse(&offset.to_string()), Ok(at(offset)));
    }
}
