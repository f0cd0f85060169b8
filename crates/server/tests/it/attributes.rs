//! Stream attributes (`extensions.md` §9).

use serde_json::json;

use crate::support::{Headwater, SURFACES, get, head, post, put, request};

#[test]
fn attributes_are_one_object_replaced_as_a_whole() {
    let server = Headwater::start();
    for (prefix, below) in SURFACES {
        let path =
            if below.is_empty() { format!("{prefix}/{}", prefix.len()) } else { prefix.to_owned() };
        let attrs = format!("{path}{below}/attrs");
        server.create(&path, "text/plain", "x");
        let none = server.send(get(&attrs)).expect(200);
        assert_eq!((none.need("content-type"), none.text()), ("application/json", "{}"));
        server.send(put(&attrs).json(" {\"a\": 1, \"b\":[2]}\n")).expect(204);
        assert_eq!(server.send(get(&attrs)).expect(200).value(), json!({"a": 1, "b": [2]}));
        server.send(put(&attrs).json("{\"c\":3}")).expect(204);
        assert_eq!(server.send(get(&attrs)).expect(200).value(), json!({"c": 3}));
        server.send(head(&attrs)).expect(200);
        server.send(put(&attrs).json("{ }")).expect(204);
        assert_eq!(server.send(get(&attrs)).expect(200).text(), "{}");
    }
}

#[test]
fn what_is_no_object_of_application_json_is_refused() {
    let server = Headwater::start();
    server.create("/demo/s", "application/json", "");
    for bad in ["", "[]", "1", "null", "\"x\"", "{", "{}{}", "{\"a\":NaN}", "\u{feff}{}"] {
        server.send(put("/demo/s/attrs").json(bad)).problem(400, "INVALID_ATTRIBUTES");
    }
    server
        .send(put("/demo/s/attrs").json([b'{', b'"', 0xff, b'"', b':', b'1', b'}']))
        .problem(400, "INVALID_ATTRIBUTES");
    for other in ["text/plain", "application/merge-patch+json", "application/octet-stream"] {
        server.send(put("/demo/s/attrs").typed(other, "{}")).problem(415, "ATTRIBUTES_NEED_JSON");
    }
    server.send(put("/demo/s/attrs").typed("application/json; charset=utf-8", "{}")).expect(204);
    server.send(put("/demo/s/attrs").typed("x", "{}")).problem(400, "INVALID_CONTENT_TYPE");
    assert_eq!(server.send(get("/demo/s/attrs")).text(), "{}");
}

#[test]
fn attributes_have_at_most_16_kib() {
    let server = Headwater::start();
    server.create("/demo/s", "text/plain", "");
    let of_len = |len: usize| format!("{{\"a\":\"{}\"}}", "x".repeat(len - 8));
    server.send(put("/demo/s/attrs").json(of_len(16 * 1024))).expect(204);
    let refused = server.send(put("/demo/s/attrs").json(of_len(16 * 1024 + 1)));
    assert_eq!(refused.problem(413, "BODY_TOO_LARGE").value()["limit"], 16 * 1024);
    let chunked = put("/demo/s/attrs").json(of_len(16 * 1024 + 1)).chunked();
    server.send(chunked).problem(413, "BODY_TOO_LARGE");
    assert_eq!(server.send(get("/demo/s/attrs")).expect(200).body.len(), 16 * 1024);
}

#[test]
fn attributes_can_be_given_at_creation_and_are_compared_as_objects() {
    let server = Headwater::start();
    let create =
        |path: &str, attrs: &str| server.send(put(path).header("Stream-Attrs", attrs).text(""));
    create("/demo/s", "{\"a\":1,\"b\":2}").expect(201);
    assert_eq!(server.send(get("/demo/s/attrs")).value(), json!({"a": 1, "b": 2}));
    create("/demo/s", "{ \"b\": 2, \"a\": 1 }").expect(200);
    create("/demo/s", "{\"a\":1}").problem(409, "STREAM_EXISTS");
    create("/demo/s", "{}").problem(409, "STREAM_EXISTS");
    // Without the header, whatever is set matches.
    server.send(put("/demo/s").text("")).expect(200);
    server.send(put("/demo/s/attrs").json("{}")).expect(204);
    create("/demo/s", "{}").expect(200);
    create("/demo/s", "{\"a\":1,\"b\":2}").problem(409, "STREAM_EXISTS");
    // Nothing set and an empty object are the same.
    server.create("/demo/t", "text/plain", "");
    create("/demo/t", "{}").expect(200);
    for bad in ["[]", "x", "{", "1", ""] {
        create("/demo/u", bad).problem(400, "INVALID_ATTRIBUTES");
    }
    let long = format!("{{\"a\":\"{}\"}}", "x".repeat(16 * 1024));
    create("/demo/u", &long).problem(400, "INVALID_ATTRIBUTES");
    server.send(get("/demo/u")).problem(404, "STREAM_NOT_FOUND");
}

#[test]
fn attributes_are_not_part_of_the_timeline() {
    let server = Headwater::start();
    server.text_stream("/demo/s", &["a"]);
    let before = server.send(get("/demo/s")).expect(200);
    server.send(put("/demo/s/attrs").json("{\"x\":1}")).expect(204);
    let after = server.send(get("/demo/s")).expect(200);
    assert_eq!(before.need("etag"), after.need("etag"));
    assert_eq!(before.next_offset(), after.next_offset());
    server.send(post("/demo/s").header("Stream-Closed", "true")).expect(204);
    server.send(put("/demo/s/attrs").json("{\"x\":2}")).expect(204);
    assert_eq!(server.send(get("/demo/s/attrs")).value(), json!({"x": 2}));
}

#[test]
fn forks_do_not_inherit_attributes_and_restarts_keep_them() {
    let mut server = Headwater::start();
    server.send(put("/demo/s").header("Stream-Attrs", "{\"x\":1}").text("a")).expect(201);
    server.send(put("/demo/f").header("Stream-Forked-From", "/demo/s")).expect(201);
    assert_eq!(server.send(get("/demo/f/attrs")).expect(200).text(), "{}");
    server.restart();
    assert_eq!(server.send(get("/demo/s/attrs")).value(), json!({"x": 1}));
}

#[test]
fn attributes_of_missing_and_deleted_streams_are_404_and_410() {
    let server = Headwater::start();
    server.send(get("/demo/s/attrs")).problem(404, "STREAM_NOT_FOUND");
    server.send(put("/demo/s/attrs").json("{}")).problem(404, "STREAM_NOT_FOUND");
    server.text_stream("/demo/s", &["a"]);
    server.send(put("/demo/f").header("Stream-Forked-From", "/demo/s")).expect(201);
    server.send(request("DELETE", "/demo/s")).expect(204);
    server.send(get("/demo/s/attrs")).problem(410, "STREAM_DELETED");
    server.send(put("/demo/s/attrs").json("{}")).problem(410, "STREAM_DELETED");
}
