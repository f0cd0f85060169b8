//! What is true of a request whatever it asks for: methods, framing, headers (`extensions.md` §1
//! and §10).

use crate::support::{Headwater, SURFACES, get, head, post, put, request};

#[test]
fn other_methods_are_405_and_say_what_is_allowed() {
    let server = Headwater::start();
    let cases = [
        ("", "PATCH", "GET, HEAD, PUT, POST, DELETE, OPTIONS"),
        ("/snapshot", "POST", "GET, HEAD, PUT, OPTIONS"),
        ("/snapshot", "DELETE", "GET, HEAD, PUT, OPTIONS"),
        ("/snapshot/0", "POST", "GET, HEAD, PUT, DELETE, OPTIONS"),
        ("/retention/0", "GET", "PUT, OPTIONS"),
        ("/retention", "HEAD", "PUT, OPTIONS"),
        ("/bootstrap", "PUT", "GET, HEAD, OPTIONS"),
        ("/append-batch", "GET", "POST, OPTIONS"),
        ("/attrs", "DELETE", "GET, HEAD, PUT, OPTIONS"),
    ];
    for (stream, below) in SURFACES {
        let stream = if below.is_empty() { format!("{stream}/s") } else { stream.to_owned() };
        server.send(put(&stream).text("x"));
        for (resource, method, allowed) in cases {
            let below = if resource.is_empty() { "" } else { below };
            let answer = server.send(request(method, format!("{stream}{below}{resource}")));
            assert_eq!(answer.status, 405, "{method} {resource}: {answer:?}");
            answer.has(&[("allow", allowed)]);
        }
    }
    server.send(post("/demo")).problem(405, "METHOD_NOT_ALLOWED");
    server.send(put("/")).problem(405, "METHOD_NOT_ALLOWED");
}

#[test]
fn options_answers_cors_everywhere() {
    let server = Headwater::start();
    for path in ["/", "/demo", "/demo/s", "/ds/demo/s/snapshot/1", "/v1/stream/x", "/-/buckets"] {
        let answer = server.send(request("OPTIONS", path)).expect(204);
        let allowed = answer.need("access-control-allow-headers");
        for name in [
            "stream-snapshot-match",
            "stream-record-match",
            "stream-attrs",
            "prefer",
            "accept",
            "range",
            "if-range",
            "if-none-match",
            "last-event-id",
            "traceparent",
        ] {
            assert!(allowed.split(", ").any(|allowed| allowed == name), "{name}");
        }
        assert!(answer.need("access-control-allow-methods").contains("DELETE"));
        answer.need("access-control-max-age");
    }
    let exposed = server.send(get("/")).need("access-control-expose-headers").to_lowercase();
    for name in [
        "stream-snapshot-offset",
        "stream-snapshot-digest",
        "stream-retained-offset",
        "stream-record-first",
        "stream-record-start",
        "stream-record-next",
        "stream-extensions",
        "stream-sse-data-encoding",
        "link",
        "accept-ranges",
        "content-range",
        "content-length",
        "allow",
        "preference-applied",
    ] {
        assert!(exposed.split(", ").any(|exposed| exposed == name), "{name}");
    }
}

#[test]
fn head_works_on_every_get_resource_and_has_no_body() {
    let server = Headwater::start();
    server.text_stream("/demo/s", &["a"]);
    server.publish("/demo/s/snapshot/1", "x");
    for path in [
        "/",
        "/demo",
        "/demo/streams",
        "/demo/s",
        "/demo/s/snapshot",
        "/demo/s/snapshot/1",
        "/demo/s/bootstrap",
        "/demo/s/attrs",
        "/-/buckets",
        "/-/streams",
    ] {
        let mut connection = server.connect();
        let answer = connection.round(&head(path));
        assert!(answer.status < 400, "{path}: {answer:?}");
        assert_eq!(answer.status, server.send(get(path)).status, "{path}");
        // A body would be taken for the next answer.
        connection.round(&head("/demo")).expect(200);
    }
}

#[test]
fn a_refused_head_has_neither_body_nor_the_content_type_of_one() {
    let server = Headwater::start();
    for path in ["/demo/missing", "/nosuch/s", "/demo/a%2Fb", "/abc", "/demo/missing/bootstrap"] {
        let mut connection = server.connect();
        let answer = connection.round(&head(path));
        assert!(matches!(answer.status, 400 | 404), "{path}: {answer:?}");
        let same = server.send(get(path));
        assert_eq!(answer.status, same.status, "{path}");
        connection.round(&head("/demo")).expect(200);
    }
}

#[test]
fn a_missing_stream_comes_before_any_check_of_headers_except_on_put() {
    let server = Headwater::start();
    for (stream, below) in SURFACES {
        let stream = if below.is_empty() { format!("{stream}/s") } else { stream.to_owned() };
        let bad = |method: &str, path: &str| {
            request(method, path.to_owned())
                .header("Content-Type", "no media type")
                .header("Producer-Id", "half")
                .header("Stream-Record-Match", "x")
                .header("Content-Encoding", "gzip")
                .body("{")
        };
        for (method, resource) in [("POST", ""), ("POST", "/append-batch"), ("GET", "/attrs")] {
            let below = if resource.is_empty() { "" } else { below };
            let path = format!("{stream}{below}{resource}");
            server.send(bad(method, &path)).problem(404, "STREAM_NOT_FOUND");
        }
        for query in ["offset=bad", "offset=1&offset=2", "live=x", "max_records=1", "record=x"] {
            server.send(get(format!("{stream}?{query}"))).problem(404, "STREAM_NOT_FOUND");
        }
        server
            .send(get(format!("{stream}{below}/bootstrap?live=sse")))
            .problem(404, "STREAM_NOT_FOUND");
        // A PUT is refused for its headers first, whether it would create or publish.
        server.send(bad("PUT", &stream)).problem(400, "INVALID_CONTENT_TYPE");
        let publish = bad("PUT", &format!("{stream}{below}/snapshot/0"));
        server.send(publish).problem(400, "INVALID_CONTENT_TYPE");
    }
}

#[test]
fn a_protocol_header_given_twice_is_400() {
    let server = Headwater::start();
    server.json_stream("/demo/s", &["1"]);
    let twice = |name: &str, value: &str, method: &str, path: &str| {
        let request = request(method, path.to_owned()).header(name, value).header(name, value);
        if name == "Content-Type" { request.body("1") } else { request.json("1") }
    };
    for (name, value) in [
        ("Content-Type", "application/json"),
        ("Stream-Closed", "true"),
        ("Stream-Seq", "1"),
        ("Stream-Record-Match", "1"),
    ] {
        server.send(twice(name, value, "POST", "/demo/s")).expect(400);
    }
    for (name, value) in [("Producer-Id", "a"), ("Producer-Epoch", "0"), ("Producer-Seq", "0")] {
        let others = [("Producer-Id", "a"), ("Producer-Epoch", "0"), ("Producer-Seq", "0")];
        let mut request = twice(name, value, "POST", "/demo/s");
        for (other, value) in others.into_iter().filter(|(other, _)| *other != name) {
            request = request.header(other, value);
        }
        server.send(request).problem(400, "INVALID_HEADER");
    }
    for (name, value) in [
        ("Content-Type", "application/json"),
        ("Stream-TTL", "60"),
        ("Stream-Expires-At", "2099-01-01T00:00:00Z"),
        ("Stream-Closed", "true"),
        ("Stream-Forked-From", "/demo/s"),
        ("Stream-Attrs", "{}"),
    ] {
        server.send(twice(name, value, "PUT", "/demo/new")).problem(400, "INVALID_HEADER");
        server.send(get("/demo/new")).problem(404, "STREAM_NOT_FOUND");
    }
    for name in ["Stream-Fork-Offset", "Stream-Fork-Sub-Offset"] {
        let request = put("/demo/new").header("Stream-Forked-From", "/demo/s");
        let request = request.header(name, "0").header(name, "0");
        server.send(request).problem(400, "INVALID_HEADER");
    }
    let matches = put("/demo/s/snapshot/0")
        .header("Stream-Snapshot-Match", "x")
        .header("Stream-Snapshot-Match", "x");
    server.send(matches.text("x")).problem(400, "INVALID_HEADER");
    assert_eq!(server.send(get("/demo/s")).expect(200).text(), "[1]");
}

#[test]
fn an_encoded_body_is_415_wherever_a_body_is_taken() {
    let server = Headwater::start();
    server.json_stream("/demo/s", &["1"]);
    for (method, path) in [
        ("PUT", "/demo/new"),
        ("POST", "/demo/s"),
        ("POST", "/demo/s/append-batch"),
        ("PUT", "/demo/s/snapshot/0"),
        ("PUT", "/demo/s/attrs"),
    ] {
        for coding in ["gzip", "br", "identity, gzip", "x"] {
            let request = request(method, path).header("Content-Encoding", coding).json("{}");
            server.send(request).problem(415, "UNSUPPORTED_CONTENT_ENCODING");
        }
    }
    server.send(post("/demo/s").header("Content-Encoding", "identity").json("2")).expect(204);
}

#[test]
fn a_malformed_content_type_is_400_and_an_empty_one_counts_as_missing() {
    let server = Headwater::start();
    server.text_stream("/demo/s", &[]);
    for bad in
        ["text", "text/", "text/plain; charset", "text/plain; x=\"a", "a b/c", "text/plain, a/b"]
    {
        server.send(post("/demo/s").typed(bad, "x")).problem(400, "INVALID_CONTENT_TYPE");
        server.send(put("/demo/new").typed(bad, "x")).problem(400, "INVALID_CONTENT_TYPE");
        let publish = put("/demo/s/snapshot/0").typed(bad, "x");
        server.send(publish).problem(400, "INVALID_CONTENT_TYPE");
    }
    let too_long = format!("text/{}", "x".repeat(252));
    server.send(put("/demo/new").typed(&too_long, "x")).problem(400, "INVALID_CONTENT_TYPE");
    server.send(post("/demo/s").typed("", "x")).problem(400, "CONTENT_TYPE_MISSING");
    let created = server.send(put("/demo/new").typed("", "x")).expect(201);
    created.has(&[("content-type", "application/octet-stream")]);
}

#[test]
fn header_values_over_their_limits_are_400() {
    let server = Headwater::start();
    server.text_stream("/demo/s", &[]);
    let append = || post("/demo/s").text("x");
    let long = "x".repeat(257);
    server.send(append().header("Stream-Seq", &long)).problem(400, "INVALID_HEADER");
    let producer = |id: &str, epoch: &str, seq: &str| {
        append()
            .header("Producer-Id", id)
            .header("Producer-Epoch", epoch)
            .header("Producer-Seq", seq)
    };
    server.send(producer(&long, "0", "0")).problem(400, "INVALID_PRODUCER");
    server.send(producer("", "0", "0")).problem(400, "INVALID_PRODUCER");
    server.send(producer("p", "9007199254740992", "0")).problem(400, "INVALID_PRODUCER");
    server.send(producer("p", "0", "9007199254740992")).problem(400, "INVALID_PRODUCER");
    server.send(append().header("Producer-Id", "p")).problem(400, "INVALID_PRODUCER");
    server.send(producer(&long[1..], "9007199254740991", "0")).expect(200);
    server.send(append().header("Stream-Seq", &long[1..])).expect(204);
}

#[test]
fn another_transfer_coding_is_501_and_closes() {
    let server = Headwater::start();
    server.text_stream("/demo/s", &[]);
    let mut connection = server.connect();
    connection.write(
        b"POST /demo/s HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\n\
          Transfer-Encoding: gzip, chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
    );
    let answer = connection.answer("POST").problem(501, "UNSUPPORTED_TRANSFER_ENCODING");
    answer.check_problem();
    assert_eq!(answer.need("connection"), "close");
    assert_eq!(connection.rest(), b"");
    assert_eq!(server.send(get("/demo/s")).expect(200).text(), "");
}

#[test]
fn a_head_that_cannot_be_read_is_400_without_a_body_and_closes() {
    let server = Headwater::start();
    for bad in ["GET /demo/s HTTP/1.1\r\nno colon\r\n\r\n", "nonsense\r\n\r\n"] {
        let mut connection = server.connect();
        connection.write(bad.as_bytes());
        let answer = connection.answer("GET").expect(400);
        assert_eq!(answer.body, b"");
        assert_eq!(connection.rest(), b"");
    }
    let mut connection = server.connect();
    let large = get("/demo/s").header("X-Large", "x".repeat(70 * 1024));
    let answer = connection.round(&large).expect(431);
    assert_eq!(answer.body, b"");
}

#[test]
fn an_answer_does_not_wait_for_what_was_sent_behind_its_request() {
    let server = Headwater::start();
    server.text_stream("/demo/s", &["a"]);
    // Garbage behind a good request must not cost the client its answer.
    let mut connection = server.connect();
    connection.write(b"GET /demo/s HTTP/1.1\r\nHost: x\r\n\r\nnonsense\r\n\r\n");
    assert_eq!(connection.answer("GET").expect(200).text(), "a");
    connection.answer("GET").expect(400);
    // Nor may a request behind a live read hold back its events.
    let mut live = server.connect();
    live.write(
        b"GET /demo/s?offset=-1&live=sse HTTP/1.1\r\nHost: x\r\n\r\n\
          GET /demo/s HTTP/1.1\r\nHost: x\r\n\r\n",
    );
    assert_eq!(live.answer_head().status, 200);
    let first = live.chunk().unwrap().unwrap();
    assert!(first.ends_with(b"}\n\n") && holds(&first, "event: data\ndata:a\n\n"));
    server.append("/demo/s", "text/plain", "b");
    let second = live.chunk().unwrap().unwrap();
    assert!(holds(&second, "event: data\ndata:b\n\n"));
}

fn holds(bytes: &[u8], part: &str) -> bool {
    std::str::from_utf8(bytes).unwrap().contains(part)
}
