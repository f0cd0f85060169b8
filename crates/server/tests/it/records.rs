//! Records on JSON streams (`extensions.md` §7).

use serde_json::json;

use crate::support::{Answer, Headwater, get, head, offset, post, put};

const NDJSON: &str = "application/x-ndjson";
const RECORDS: &str = "application/vnd.durable-stream-records+ndjson";

/// Five records, in three appends, the first as content of the creation.
fn stream(server: &Headwater) {
    let created = server.send(put("/demo/s").json("[10,11]")).expect(201);
    created.has(&[("stream-record-start", "0"), ("stream-record-next", "2")]);
    let appended = server.send(post("/demo/s").json("12")).expect(204);
    appended.has(&[("stream-record-start", "2"), ("stream-record-next", "3")]);
    let appended = server.send(post("/demo/s").json("[13,14]")).expect(204);
    appended.has(&[("stream-record-start", "3"), ("stream-record-next", "5")]);
}

fn read(server: &Headwater, query: &str) -> Answer {
    server.send(get(format!("/demo/s?{query}")))
}

/// Trims the first two records.
fn trim(server: &Headwater) {
    server.publish("/demo/s/snapshot?record=2", "x");
    server.send(put("/demo/s/retention?record=2")).expect(204);
}

#[test]
fn head_tells_first_and_next_and_advertises_the_extension() {
    let server = Headwater::start();
    stream(&server);
    let facts = [("stream-record-first", "0"), ("stream-record-next", "5")];
    let told = server.send(head("/demo/s")).expect(200).has(&facts);
    told.has(&[("stream-extensions", "json-record-coordinates-v1")]);
    trim(&server);
    let facts = [("stream-record-first", "2"), ("stream-record-next", "5")];
    server.send(head("/demo/s")).expect(200).has(&facts);
    server.create("/demo/t", "text/plain", "x");
    let names = ["stream-record-first", "stream-record-next", "stream-extensions"];
    let text = server.send(head("/demo/t")).expect(200).lacks(&names);
    assert_eq!(text.need("vary"), "accept-encoding");
}

#[test]
fn a_read_begins_at_a_record() {
    let server = Headwater::start();
    stream(&server);
    for (query, body, start, next) in [
        ("record=0", "[10,11,12,13,14]", "0", "5"),
        ("record=3", "[13,14]", "3", "5"),
        ("record=5", "[]", "5", "5"),
        ("record=003", "[13,14]", "3", "5"),
        ("record=now", "[]", "5", "5"),
        ("tail_records=2", "[13,14]", "3", "5"),
        ("tail_records=0", "[]", "5", "5"),
        ("tail_records=99", "[10,11,12,13,14]", "0", "5"),
        ("record=1&max_records=2", "[11,12]", "1", "3"),
        ("tail_records=3&max_records=1", "[12]", "2", "3"),
        ("record=now&max_records=1", "[]", "5", "5"),
    ] {
        let answer = read(&server, query).expect(200);
        assert_eq!(answer.text(), body, "{query}");
        let answer = answer.has(&[
            ("stream-record-first", "0"),
            ("stream-record-start", start),
            ("stream-record-next", next),
            ("stream-extensions", "json-record-coordinates-v1"),
        ]);
        // Up to date only if it reaches the tail.
        assert_eq!(answer.header("stream-up-to-date").is_some(), next == "5", "{query}");
    }
    // Reads by offset tell the records as well.
    let answer = read(&server, "offset=3").expect(200);
    answer.has(&[("stream-record-start", "1"), ("stream-record-next", "5")]);
}

#[test]
fn the_continuation_leads_through_the_stream() {
    let server = Headwater::start();
    stream(&server);
    let (mut record, mut seen) = (String::from("0"), Vec::new());
    loop {
        let answer = read(&server, &format!("record={record}&max_records=2")).expect(200);
        seen.extend(answer.value().as_array().unwrap().clone());
        // Offset and record name the same place.
        let there = read(&server, &format!("offset={}", answer.next_offset())).expect(200);
        answer.need("stream-record-next").clone_into(&mut record);
        assert_eq!(there.need("stream-record-start"), record);
        if answer.header("stream-up-to-date").is_some() {
            break;
        }
    }
    assert_eq!(json!(seen), json!([10, 11, 12, 13, 14]));
}

#[test]
fn trimmed_records_are_410_missing_ones_400_and_a_tail_is_clamped() {
    let server = Headwater::start();
    stream(&server);
    trim(&server);
    for live in ["", "&live=long-poll", "&live=sse"] {
        for record in [0, 1] {
            let answer = read(&server, &format!("record={record}{live}"));
            let answer = answer.problem(410, "OFFSET_TRIMMED");
            answer.has(&[("stream-retained-offset", &offset(6))]).need("link");
        }
        for record in ["6", "99999999999999999999"] {
            let answer = read(&server, &format!("record={record}{live}"));
            answer.problem(400, "RECORD_OUT_OF_RANGE");
        }
    }
    let answer = read(&server, "tail_records=99").expect(200);
    assert_eq!(answer.text(), "[12,13,14]");
    answer.has(&[("stream-record-first", "2"), ("stream-record-start", "2")]);
    assert_eq!(read(&server, "record=2").expect(200).text(), "[12,13,14]");
}

#[test]
fn record_parameters_that_cannot_be_read_are_400() {
    let server = Headwater::start();
    stream(&server);
    for bad in [
        "record=-1",
        "record=",
        "record=1.5",
        "record=NOW",
        "tail_records=-1",
        "tail_records=now",
        "record=1&offset=0",
        "record=1&tail_records=1",
        "offset=-1&tail_records=1",
        "max_records=1",
        "offset=-1&max_records=1",
        "record=0&max_records=0",
        "record=0&max_records=x",
        "record=0&record=0",
        "record=0&max_records=1&max_records=1",
    ] {
        read(&server, bad).problem(400, "INVALID_QUERY");
    }
}

#[test]
fn record_parameters_need_a_json_stream() {
    let server = Headwater::start();
    server.create("/demo/s", "application/ndjson", "1\n2\n");
    for query in
        ["record=0", "record=now", "tail_records=1", "tail_records=0", "record=0&max_records=1"]
    {
        for live in ["", "&live=long-poll", "&live=sse"] {
            read(&server, &format!("{query}{live}")).problem(400, "RECORDS_NEED_JSON");
        }
    }
    let matching = post("/demo/s").header("Stream-Record-Match", "0");
    server.send(matching.typed("application/ndjson", "x")).problem(400, "RECORDS_NEED_JSON");
}

#[test]
fn records_compose_with_long_poll() {
    let server = Headwater::start();
    stream(&server);
    let answer = read(&server, "record=3&max_records=1&live=long-poll").expect(200);
    assert_eq!(answer.text(), "[13]");
    answer.has(&[("stream-record-next", "4"), ("stream-next-offset", &offset(12))]);
    let mut waiting = server.connect();
    waiting.send(&get("/demo/s?record=5&live=long-poll"));
    server.append("/demo/s", "application/json", "15");
    let answer = waiting.answer("GET").expect(200);
    assert_eq!(answer.text(), "[15]");
    answer.has(&[("stream-record-start", "5"), ("stream-record-next", "6")]);
    let timeout = read(&server, "tail_records=0&live=long-poll").expect(204);
    timeout.has(&[("stream-next-offset", &offset(18))]);
}

#[test]
fn records_compose_with_sse_whose_controls_name_them() {
    let server = Headwater::start();
    stream(&server);
    trim(&server);
    let mut sse = server.sse("/demo/s?tail_records=2&live=sse");
    let (data, control) = sse.pair();
    assert_eq!(data, "[13,14]");
    assert_eq!(
        (&control["streamFirstRecord"], &control["streamNextRecord"]),
        (&2.into(), &5.into())
    );
    server.append("/demo/s", "application/json", "[15]");
    let (data, control) = sse.pair();
    assert_eq!((&*data, &control["streamNextRecord"]), ("[15]", &6.into()));
    // With a limit, the answer ends behind it.
    let mut limited = server.sse("/demo/s?record=3&max_records=2&live=sse");
    let (data, control) = limited.pair();
    assert_eq!((&*data, &control["streamNextRecord"]), ("[13,14]", &5.into()));
    limited.ends();
    server.create("/demo/t", "text/plain", "x");
    let control = server.sse("/demo/t?offset=-1&live=sse").pair().1;
    assert!(control["streamFirstRecord"].is_null() && control["streamNextRecord"].is_null());
}

#[test]
fn accept_chooses_the_form_by_quality() {
    let server = Headwater::start();
    stream(&server);
    let array = "[13,14]";
    let lines = "13\n14\n";
    let records = "{\"record\":3,\"value\":13}\n{\"record\":4,\"value\":14}\n";
    let json = "application/json";
    for (accept, content_type, body) in [
        ("*/*", json, array),
        ("application/json", json, array),
        ("text/html", json, array),
        (NDJSON, NDJSON, lines),
        (RECORDS, RECORDS, records),
        ("application/x-ndjson;q=0.5, application/json;q=0.4", NDJSON, lines),
        ("application/x-ndjson;q=0.5, application/json;q=0.5", json, array),
        ("application/x-ndjson, */*;q=0.1", NDJSON, lines),
        ("application/x-ndjson;q=0", json, array),
        (&format!("{NDJSON};q=0.7, {RECORDS};q=0.8"), RECORDS, records),
        (&format!("{RECORDS}, {NDJSON}"), NDJSON, lines),
    ] {
        for query in ["record=3", "offset=9", "offset=9&live=long-poll", "tail_records=2"] {
            let read = get(format!("/demo/s?{query}")).header("Accept", accept);
            let answer = server.send(read).expect(200);
            assert_eq!(answer.text(), body, "{accept} {query}");
            let answer = answer.has(&[("content-type", content_type)]);
            assert_eq!(answer.need("vary"), "accept, accept-encoding");
        }
    }
    // Empty answers have the form, too.
    for (accept, body) in [("*/*", "[]"), (NDJSON, ""), (RECORDS, "")] {
        for query in ["offset=now", "record=5"] {
            let read = get(format!("/demo/s?{query}")).header("Accept", accept);
            assert_eq!(server.send(read).expect(200).text(), body);
        }
    }
}

#[test]
fn each_form_has_an_etag_of_its_own() {
    let server = Headwater::start();
    stream(&server);
    let tags = ["*/*", NDJSON, RECORDS].map(|accept| {
        let read = || get("/demo/s?record=1").header("Accept", accept);
        let etag = server.send(read()).expect(200).need("etag").to_owned();
        server.send(read().header("If-None-Match", &etag)).expect(304).has(&[("etag", &etag)]);
        etag
    });
    assert!(tags[0] != tags[1] && tags[1] != tags[2] && tags[0] != tags[2]);
    let other = get("/demo/s?record=1").header("Accept", NDJSON).header("If-None-Match", &tags[0]);
    server.send(other).expect(200);
}

#[test]
fn a_line_break_inside_a_message_is_a_space_in_the_line_forms() {
    let server = Headwater::start();
    server.create("/demo/s", "application/json", "[{\"a\":\r\n1,\n\"b\":\"x\\ny\"}, [\r2]]");
    let line = |accept| server.send(get("/demo/s").header("Accept", accept)).expect(200);
    let lines = "{\"a\":  1, \"b\":\"x\\ny\"}\n[ 2]\n";
    assert_eq!(line(NDJSON).text(), lines);
    let records =
        "{\"record\":0,\"value\":{\"a\":  1, \"b\":\"x\\ny\"}}\n{\"record\":1,\"value\":[ 2]}\n";
    assert_eq!(line(RECORDS).text(), records);
    // The array keeps the text.
    assert_eq!(line("*/*").text(), "[{\"a\":\r\n1,\n\"b\":\"x\\ny\"},[\r2]]");
}

#[test]
fn record_match_is_one_step_with_the_append() {
    let server = Headwater::start();
    stream(&server);
    let append = |n: &str| server.send(post("/demo/s").header("Stream-Record-Match", n).json("1"));
    for wrong in ["0", "4", "6", "99999999999999999999"] {
        let refused = append(wrong).problem(412, "RECORD_MISMATCH");
        refused.has(&[("stream-record-next", "5"), ("stream-next-offset", &offset(15))]);
    }
    append("5").expect(204).has(&[("stream-record-start", "5"), ("stream-record-next", "6")]);
    append("5").problem(412, "RECORD_MISMATCH");
    for bad in ["", "x", "-1", "1.0"] {
        append(bad).problem(400, "INVALID_HEADER");
    }
    // Of many at once exactly one is the next.
    let winners: usize = std::thread::scope(|scope| {
        let tries: Vec<_> = (0..8).map(|_| scope.spawn(|| append("6").status)).collect();
        tries.into_iter().map(|t| usize::from(t.join().unwrap() == 204)).sum()
    });
    assert_eq!(winners, 1);
}

#[test]
fn record_match_comes_after_stream_seq_and_a_producers_repeat() {
    let server = Headwater::start();
    stream(&server);
    let send = |seq: u32, at: &str| {
        let append = post("/demo/s").header("Producer-Id", "p").header("Producer-Epoch", 0);
        server.send(append.header("Producer-Seq", seq).header("Stream-Record-Match", at).json("1"))
    };
    send(0, "5").expect(200);
    // The record that it matched has passed, but the batch is known.
    let repeated = send(0, "5").expect(204);
    repeated.has(&[("stream-record-start", "5"), ("stream-record-next", "6")]);
    send(1, "5").problem(412, "RECORD_MISMATCH");
    send(1, "6").expect(200);
    let ordered = |seq: &str, at: &str| {
        let append = post("/demo/s").header("Stream-Seq", seq).header("Stream-Record-Match", at);
        server.send(append.json("1"))
    };
    ordered("b", "7").expect(204);
    ordered("a", "0").problem(409, "STREAM_SEQ_CONFLICT");
    ordered("c", "0").problem(412, "RECORD_MISMATCH");
}

#[test]
fn record_match_applies_to_a_close_without_a_body() {
    let server = Headwater::start();
    stream(&server);
    let close = |at: &str| {
        let close = post("/demo/s").header("Stream-Closed", "true");
        server.send(close.header("Stream-Record-Match", at))
    };
    close("4").problem(412, "RECORD_MISMATCH");
    server.append("/demo/s", "application/json", "1");
    close("6").expect(204).has(&[("stream-closed", "true")]);
    close("6").expect(204);
    close("5").problem(412, "RECORD_MISMATCH");
}

#[test]
fn ordinals_survive_trims_restarts_and_forks() {
    let mut server = Headwater::start();
    stream(&server);
    trim(&server);
    server.restart();
    assert_eq!(read(&server, "record=4").expect(200).text(), "[14]");
    let told = server.send(head("/demo/s")).expect(200);
    told.has(&[("stream-record-first", "2"), ("stream-record-next", "5")]);
    let fork = put("/demo/f")
        .header("Stream-Forked-From", "/demo/s")
        .header("Stream-Fork-Offset", offset(9));
    let forked = server.send(fork).expect(201);
    forked.has(&[("stream-record-start", "3"), ("stream-record-next", "3")]);
    let appended = server.send(post("/demo/f").json("[99]")).expect(204);
    appended.has(&[("stream-record-start", "3"), ("stream-record-next", "4")]);
    let lines = server.send(get("/demo/f?record=2").header("Accept", RECORDS)).expect(200);
    assert_eq!(lines.text(), "{\"record\":2,\"value\":12}\n{\"record\":3,\"value\":99}\n");
    server.send(get("/demo/f?record=1")).problem(410, "OFFSET_TRIMMED");
}

#[test]
fn a_deduplicated_retry_returns_the_original_range() {
    let server = Headwater::start();
    stream(&server);
    let send = |seq: u32, body: &str| {
        let append = post("/demo/s").header("Producer-Id", "p").header("Producer-Epoch", 0);
        server.send(append.header("Producer-Seq", seq).json(body))
    };
    send(0, "[1,2]").expect(200).has(&[("stream-record-start", "5"), ("stream-record-next", "7")]);
    server.append("/demo/s", "application/json", "3");
    let repeated = send(0, "[1,2]").expect(204);
    repeated.has(&[
        ("stream-record-start", "5"),
        ("stream-record-next", "7"),
        ("stream-next-offset", &offset(21)),
        ("producer-epoch", "0"),
        ("producer-seq", "0"),
    ]);
    send(1, "4").expect(200);
    // Only of the last batch is the range known.
    let older = send(0, "[1,2]").expect(204).has(&[("producer-seq", "1")]);
    older.lacks(&["stream-record-start"]);
}

/// An answer of 204 names the continuation too.
#[test]
fn a_long_poll_in_vain_says_where_to_go_on() {
    let server = Headwater::start();
    server.json_stream("/demo/s", &["1", "2"]);
    for query in ["record=now", "record=2", "tail_records=0", "offset=now"] {
        let answer = server.send(get(format!("/demo/s?{query}&live=long-poll"))).expect(204);
        assert_eq!(answer.need("stream-record-start"), "2", "{query}");
        assert_eq!(answer.need("stream-record-next"), "2", "{query}");
    }
}
