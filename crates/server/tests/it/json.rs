//! JSON streams keep each message's text (`extensions.md` §2 and §10).

use crate::support::{Headwater, get, head, offset, parts, post, put};

/// Values whose text a parser that prints again would change.
const TEXTS: [&str; 14] = [
    "9007199254740993",
    "1.0",
    "-0",
    "1E400",
    "0.1000000000000000055511151231257827021181583404541015625",
    "{\"b\":1,\"a\":2,\"b\":3}",
    "\"\\u00e9\\/\\ud800\"",
    "\"\u{2028}\u{7f}é\"",
    "[1 ,\t2]",
    "{ \"a\" : [ ] }",
    "\" leading and trailing \"",
    "null",
    "\"\"",
    "123456789012345678901234567890123456789012345678901234567890",
];

#[test]
fn texts_are_kept_byte_for_byte_by_every_kind_of_read() {
    let server = Headwater::start();
    server.create("/demo/s", "application/json", "");
    for text in TEXTS {
        // White space around a message is all that goes.
        server.append("/demo/s", "application/json", format!(" \n\t[ {text}\r\n ] "));
    }
    let joined = TEXTS.join(",");
    assert_eq!(server.send(get("/demo/s")).expect(200).text(), format!("[{joined}]"));
    let polled = server.send(get("/demo/s?offset=0&live=long-poll")).expect(200);
    assert_eq!(polled.text(), format!("[{joined}]"));
    let (data, _) = server.sse("/demo/s?offset=0&live=sse").pair();
    assert_eq!(data, format!("[{joined}]"));
    let lines = server.send(get("/demo/s").header("Accept", "application/x-ndjson")).expect(200);
    assert_eq!(lines.text(), TEXTS.join("\n") + "\n");
    let bootstrap = parts(&server.send(get("/demo/s/bootstrap")).expect(200));
    let bodies: Vec<_> = bootstrap[1..].iter().map(|part| &*part.body).collect();
    assert_eq!(bodies, TEXTS.map(str::as_bytes));
}

#[test]
fn positions_count_each_text_and_its_separator() {
    let server = Headwater::start();
    server.create("/demo/s", "application/json", " [ 1.0 , {\"a\": 2} ] ");
    assert_eq!(server.send(head("/demo/s")).next_offset(), offset(4 + 9));
    for (at, rest) in [(0, "[1.0,{\"a\": 2}]"), (4, "[{\"a\": 2}]"), (13, "[]")] {
        assert_eq!(server.send(get(format!("/demo/s?offset={at}"))).expect(200).text(), rest);
    }
}

#[test]
fn one_level_of_array_is_flattened() {
    let server = Headwater::start();
    server.create("/demo/s", "application/json; charset=utf-8", "[]");
    for (body, records) in
        [("[1,2]", "2"), ("[[3,4],[5]]", "4"), ("[[[6]]]", "5"), ("{}", "6"), ("[[]]", "7")]
    {
        let answer = server.send(post("/demo/s").json(body)).expect(204);
        assert_eq!(answer.need("stream-record-next"), records);
    }
    let read = server.send(get("/demo/s")).expect(200);
    assert_eq!(read.text(), "[1,2,[3,4],[5],[[6]],{},[]]");
    assert_eq!(read.need("content-type"), "application/json; charset=utf-8");
}

#[test]
fn what_is_no_json_is_400_and_leaves_nothing_behind() {
    let server = Headwater::start();
    server.create("/demo/s", "application/json", "");
    let bad: [&[u8]; 20] = [
        b"{",
        b"[1,]",
        b"[,1]",
        b"1 2",
        b"01",
        b"1.",
        b".5",
        b"+1",
        b"NaN",
        b"Infinity",
        b"'a'",
        b"{a:1}",
        b"{\"a\"}",
        b"\"\n\"",
        b"\"\\x\"",
        b"\"\\u12\"",
        b" ",
        b"\xef\xbb\xbf1",
        b"\"\xff\"",
        b"\"\xed\xa0\x80\"",
    ];
    for body in bad {
        server.send(post("/demo/s").json(body)).problem(400, "INVALID_JSON");
        server.send(put("/demo/new").json(body)).problem(400, "INVALID_JSON");
    }
    server.send(post("/demo/s").json("[]")).problem(400, "EMPTY_ARRAY");
    server.send(post("/demo/s").json(" [ ] ")).problem(400, "EMPTY_ARRAY");
    server.send(get("/demo/new")).problem(404, "STREAM_NOT_FOUND");
    assert_eq!(server.send(get("/demo/s")).expect(200).text(), "[]");
}

#[test]
fn bad_json_consumes_neither_stream_seq_nor_producer_seq() {
    let server = Headwater::start();
    server.create("/demo/s", "application/json", "");
    let send = |body: &str| {
        let append = post("/demo/s").header("Stream-Seq", "a").header("Producer-Id", "p");
        server.send(append.header("Producer-Epoch", 0).header("Producer-Seq", 0).json(body))
    };
    send("{").problem(400, "INVALID_JSON");
    send("1").expect(200);
}

#[test]
fn arrays_and_objects_nest_128_deep_the_outer_array_counted() {
    let server = Headwater::start();
    server.create("/demo/s", "application/json", "");
    let arrays = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    let objects = |depth: usize| "{\"a\":".repeat(depth) + "1" + &"}".repeat(depth);
    server.append("/demo/s", "application/json", arrays(128));
    server.append("/demo/s", "application/json", objects(128));
    server.append("/demo/s", "application/json", format!("[{}]", objects(127)));
    for deep in [arrays(129), objects(129), format!("[{}]", objects(128)), arrays(100_000)] {
        server.send(post("/demo/s").json(deep)).problem(400, "JSON_TOO_DEEP");
    }
    let expected = format!("[{},{},{}]", arrays(127), objects(128), objects(127));
    assert_eq!(server.send(get("/demo/s")).expect(200).text(), expected);
}

#[test]
fn an_append_has_at_most_1048576_messages() {
    let server = Headwater::start();
    server.create("/demo/s", "application/json", "");
    let of = |count: usize| format!("[{}0]", "0,".repeat(count - 1));
    let refused =
        server.send(post("/demo/s").json(of(1_048_577))).problem(413, "TOO_MANY_MESSAGES");
    assert_eq!(refused.value()["limit"], 1_048_576);
    assert_eq!(server.send(head("/demo/s")).next_offset(), offset(0));
    let answer = server.send(post("/demo/s").json(of(1_048_576))).expect(204);
    answer
        .has(&[("stream-record-next", "1048576"), ("stream-next-offset", &offset(2 * 1_048_576))]);
}

#[test]
fn line_breaks_between_tokens_do_not_break_sse() {
    let server = Headwater::start();
    let text = "{\n  \"a\": 1,\r\n  \"b\":\r[2,\n\n3]}";
    server.create("/demo/s", "application/json", format!("[{text},{text}]"));
    let (data, _) = server.sse("/demo/s?offset=-1&live=sse").pair();
    let lines = text.replace("\r\n", "\n").replace('\r', "\n");
    assert_eq!(data, format!("[{lines},{lines}]"));
    assert_eq!(server.send(get("/demo/s")).text(), format!("[{text},{text}]"));
}

#[test]
fn only_application_json_is_json() {
    let server = Headwater::start();
    for (index, content_type) in
        ["application/ndjson", "application/problem+json", "text/json"].into_iter().enumerate()
    {
        let path = format!("/demo/{index}");
        server.create(&path, content_type, "not json [");
        let read = server.send(get(&path)).expect(200);
        assert_eq!((read.text(), read.need("content-type")), ("not json [", content_type));
    }
}
