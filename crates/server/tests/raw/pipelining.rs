//! Several requests on one connection: answers in order, and each message where it belongs.

use crate::support::{Headwater, request};

const TEXT: &str = "Content-Type: text/plain\r\n";

#[test]
fn ten_requests_in_one_write_are_answered_in_order() {
    let server = Headwater::start();
    let chunked = "Content-Type: text/plain\r\nTransfer-Encoding: chunked\r\n";
    let mut post = request("POST", "/demo/x", chunked, b"");
    post.extend(b"3\r\ntwo\r\n0\r\nX-Trailer: 1\r\n\r\n");
    let all = [
        ("PUT", 201, request("PUT", "/demo/x", TEXT, b"")),
        ("POST", 204, request("POST", "/demo/x", TEXT, b"one")),
        ("HEAD", 200, request("HEAD", "/demo/x", "", b"")),
        ("GET", 404, request("GET", "/demo/none", "", b"")),
        ("POST", 204, post),
        ("PATCH", 405, request("PATCH", "/demo/x", "", b"ignored")),
        ("GET", 200, request("GET", "/demo/x", "", b"")),
        ("HEAD", 404, request("HEAD", "/demo/none", "", b"")),
        ("PUT", 400, request("PUT", "/demo/x%zz", TEXT, b"ignored")),
        ("GET", 200, request("GET", "/-/version", "Connection: close\r\n", b"")),
    ];
    let mut wire = server.connect();
    let bytes: Vec<u8> = all.iter().flat_map(|(_, _, bytes)| bytes.clone()).collect();
    wire.send(&bytes);
    for (number, (method, status, _)) in all.iter().enumerate() {
        let answer = wire.answer(method);
        assert_eq!(answer.status, *status, "answer {number}: {answer:?}");
        if number == 6 {
            assert_eq!(answer.text(), "onetwo");
        }
    }
    wire.ended();
}

#[test]
fn a_body_that_looks_like_a_request_is_a_body() {
    let server = Headwater::start();
    server.create("/demo/x");
    let inner = request("PUT", "/demo/inner", "", b"");
    let mut wire = server.connect();
    for _ in 0..3 {
        wire.send(request("POST", "/demo/x", TEXT, &inner));
    }
    for _ in 0..3 {
        wire.answer("POST").expect(204);
    }
    let content = wire.ask("GET", "/demo/x", "", b"").text();
    assert_eq!(content.as_bytes(), inner.repeat(3));
    wire.ask("GET", "/demo/inner", "", b"").expect(404);
}

#[test]
fn behind_a_message_that_cannot_be_read_nothing_is() {
    let server = Headwater::start();
    server.create("/demo/x");
    let mut bytes = request("POST", "/demo/x", TEXT, b"one");
    bytes.extend(b"BROKEN\r\n\r\n");
    bytes.extend(request("POST", "/demo/x", TEXT, b"two"));
    let mut wire = server.connect();
    wire.send(&bytes);
    wire.answer("POST").expect(204);
    // The parser's own refusal: the only kind without a body.
    let refused = wire.answer("GET").expect(400);
    assert!(refused.closes() && refused.body.is_empty(), "{refused:?}");
    wire.ended();
    assert_eq!(server.content("/demo/x"), "one");
}

#[test]
fn a_connection_outlives_refusals() {
    let server = Headwater::start();
    server.create("/demo/x");
    let mut wire = server.connect();
    for _ in 0..5 {
        wire.ask("GET", "/demo/none", "", b"").expect(404);
        wire.ask("POST", "/demo/none", TEXT, b"body").expect(404);
        wire.ask("POST", "/demo/x", "Content-Type: text/html\r\n", b"body").expect(409);
        wire.ask("POST", "/demo/x", "Content-Type: nonsense\r\n", b"body").expect(400);
        wire.ask("POST", "/demo/x", TEXT, b"").expect(400);
        wire.ask("GET", "/demo/x?offset=bad", "", b"").expect(400);
        wire.ask("DELETE", "/demo", "", b"").expect(409);
        wire.ask("HEAD", "/demo/none", "", b"").expect(404);
        wire.ask("OPTIONS", "/demo/x", "", b"").expect(204);
    }
    wire.ask("GET", "/demo/x", "", b"").expect(200);
}

#[test]
fn answers_without_bodies_have_none_and_keep_the_framing() {
    let server = Headwater::start();
    server.ask("PUT", "/demo/x", TEXT, b"content").expect(201);
    server.ask("PUT", "/demo/x/snapshot/7", TEXT, b"blob").expect(204);
    let mut wire = server.connect();
    let etag = wire.ask("GET", "/demo/x", "", b"").need("etag").to_owned();
    let known = format!("If-None-Match: {etag}\r\n");
    for _ in 0..3 {
        for path in [
            "/",
            "/-/healthz",
            "/-/readyz",
            "/-/buckets",
            "/demo",
            "/demo/streams",
            "/demo/x",
            "/demo/x?offset=now",
            "/demo/x/snapshot",
            "/demo/x/snapshot/7",
            "/demo/x/snapshot/3",
            "/demo/x/bootstrap",
            "/demo/x/attrs",
            "/demo/none",
            "/demo/x%zz",
        ] {
            let head = wire.ask("HEAD", path, "", b"");
            let get = wire.ask("GET", path, "", b"");
            assert_eq!(head.status, get.status, "{path}");
            let (head, get) = (head.get("content-length"), get.get("content-length"));
            assert!(head.is_none() || get.is_none() || head == get, "{path}: {head:?} {get:?}");
        }
        let unchanged = wire.ask("GET", "/demo/x", &known, b"").expect(304);
        assert_eq!(unchanged.get("content-length"), None);
        wire.ask("OPTIONS", "/demo/x", "", b"").expect(204);
    }
}

#[test]
fn a_request_behind_a_live_answer_does_not_hold_its_events_back() {
    let server = Headwater::start();
    server.ask("PUT", "/demo/x", TEXT, b"first").expect(201);
    let mut wire = server.connect();
    let mut bytes = request("GET", "/demo/x?offset=-1&live=sse", "", b"");
    bytes.extend(request("GET", "/-/version", "Connection: close\r\n", b""));
    wire.send(&bytes);
    let head = wire.head();
    assert_eq!(head.status, 200);
    // Nothing is answered behind it, and it says so.
    assert!(head.closes());
    wire.until("data:first");
    server.ask("POST", "/demo/x", TEXT, b"second").expect(204);
    wire.until("data:second");
    server.ask("POST", "/demo/x", "Stream-Closed: true\r\n", b"").expect(204);
    wire.until("\r\n0\r\n\r\n");
    wire.ended();
}
