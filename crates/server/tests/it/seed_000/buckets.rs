//! Section 1 of the document: buckets and listings.

use crate::support::{Headwater, delete, get, head, post, put, request};

#[test]
fn a_bucket_id_matches_its_pattern() {
    let server = Headwater::start();
    let longest = "a".repeat(64);
    for good in ["abcd", "0-_z", "----", &longest] {
        server.send(put(format!("/ds/{good}"))).expect(201);
    }
    let too_long = "a".repeat(65);
    for bad in ["abc", &too_long, "Abcd", "ab.d", "ab%20d", "%C3%A4bcd", "abcd!"] {
        for method in ["PUT", "GET", "DELETE"] {
            let answer = server.send(request(method, format!("/ds/{bad}")));
            answer.problem(400, "INVALID_BUCKET_ID");
        }
    }
}

#[test]
fn a_stream_id_keeps_its_limits() {
    let server = Headwater::start();
    // "demo/" takes 5 of the 122 bytes.
    let (longest, too_long) = ("s".repeat(117), "s".repeat(118));
    for good in [&*longest, "%C3%A9", "a.b", "snapshot", "-1", "now", "a%20b%3F%25"] {
        server.create(&format!("/ds/demo/{good}"), "text/plain", "");
    }
    for bad in [&*too_long, "a..b", "..", "a%00", "a%2E.b"] {
        let answer = server.send(put(format!("/ds/demo/{bad}")).text(""));
        answer.problem(400, "INVALID_STREAM_ID");
    }
    server.send(put("/ds/demo/a%2Fb").text("")).problem(400, "INVALID_PATH");
    server.send(put("/ds/demo/%FF").text("")).problem(400, "INVALID_PATH");
    // A multi-byte character counts in bytes: 58 × 2 + 1 fits, 59 × 2 does not.
    let (fits, over) = ("%C3%A9".repeat(58) + "x", "%C3%A9".repeat(59));
    server.create(&format!("/ds/demo/{fits}"), "text/plain", "");
    server.send(put(format!("/ds/demo/{over}")).text("")).problem(400, "INVALID_STREAM_ID");
}

#[test]
fn the_stream_id_streams_is_reserved() {
    let server = Headwater::start();
    for method in ["PUT", "POST", "DELETE"] {
        server
            .send(request(method, "/ds/demo/streams").text("x"))
            .problem(400, "INVALID_STREAM_ID");
    }
    assert_eq!(server.send(get("/ds/demo/streams")).expect(200).value()["stream_count"], 0);
    // Only the literal name is taken.
    server.create("/ds/demo/streamss", "text/plain", "");
}

#[test]
fn buckets_are_created_explicitly() {
    let server = Headwater::start();
    server.send(put("/ds/other/stream").text("x")).problem(404, "BUCKET_NOT_FOUND");
    server.send(get("/ds/other")).problem(404, "BUCKET_NOT_FOUND");
    let created = server.send(put("/ds/other")).expect(201);
    assert_eq!(created.need("location"), format!("http://{}/ds/other", server.host()));
    assert_eq!(
        (&created.value()["bucket_id"], &created.value()["streams"]),
        (&"other".into(), &0.into())
    );
    server.send(put("/ds/other")).problem(409, "BUCKET_EXISTS");
    server.send(put("/ds/x")).problem(400, "INVALID_BUCKET_ID");
    server.create("/ds/other/stream", "text/plain", "x");
}

#[test]
fn a_bucket_tells_how_many_streams_it_has() {
    let server = Headwater::start();
    for expected in 0..3 {
        let answer = server.send(get("/ds/demo")).expect(200);
        assert_eq!(answer.need("content-type"), "application/json");
        let body = answer.value();
        assert_eq!((&body["bucket_id"], &body["streams"]), (&"demo".into(), &expected.into()));
        assert!(body["created_at_ms"].is_u64());
        server.create(&format!("/ds/demo/s{expected}"), "text/plain", "");
    }
    server.send(get("/ds/abc")).problem(400, "INVALID_BUCKET_ID");
    server.send(get("/ds/nosuch")).problem(404, "BUCKET_NOT_FOUND");
}

#[test]
fn a_listing_is_sorted_filtered_and_paged() {
    let server = Headwater::start();
    for name in ["user-2", "user-1", "other", "user-3"] {
        server.create(&format!("/ds/demo/{name}"), "text/plain", "hello");
    }
    server.send(post("/ds/demo/user-2").header("Stream-Closed", "true")).expect(204);
    let page = server.send(get("/ds/demo/streams?prefix=user-&limit=2")).expect(200).value();
    assert_eq!(page["bucket_id"], "demo");
    assert_eq!(page["prefix"], "user-");
    assert_eq!(page["stream_count"], 2);
    assert_eq!(page["has_more"], true);
    assert_eq!(page["next_cursor"], "user-2");
    let (one, two) = (&page["streams"][0], &page["streams"][1]);
    assert_eq!((&one["stream_id"], &one["status"]), (&"user-1".into(), &"Open".into()));
    assert_eq!((&two["stream_id"], &two["status"]), (&"user-2".into(), &"Closed".into()));
    assert_eq!((&one["content_type"], &one["tail_offset"]), (&"text/plain".into(), &5.into()));
    assert!(one["created_at_ms"].as_u64().unwrap() > 1_600_000_000_000, "milliseconds");
    assert!(one["last_write_at_ms"].as_u64() >= one["created_at_ms"].as_u64());
    let rest = server.send(get("/ds/demo/streams?prefix=user-&after=user-2")).expect(200).value();
    assert_eq!((&rest["stream_count"], &rest["has_more"]), (&1.into(), &false.into()));
    assert_eq!(rest["streams"][0]["stream_id"], "user-3");
    assert!(rest["next_cursor"].is_null());
    let all = server.send(get("/ds/demo/streams")).expect(200).value();
    assert_eq!((&all["stream_count"], &all["prefix"]), (&4.into(), &"".into()));
    assert_eq!(all["streams"][0]["stream_id"], "other");
}

#[test]
fn a_listing_refuses_bad_parameters_and_missing_buckets() {
    let server = Headwater::start();
    for bad in ["limit=0", "limit=1001", "limit=x", "limit=", "limit=-1", "limit=1&limit=1"] {
        server.send(get(format!("/ds/demo/streams?{bad}"))).problem(400, "INVALID_QUERY");
    }
    server.send(get("/ds/abc/streams")).problem(400, "INVALID_BUCKET_ID");
    server.send(get("/ds/nosuch/streams")).problem(404, "BUCKET_NOT_FOUND");
}

#[test]
fn only_an_empty_bucket_is_deleted() {
    let server = Headwater::start();
    server.create("/ds/demo/s", "text/plain", "");
    server.send(delete("/ds/demo")).problem(409, "BUCKET_NOT_EMPTY");
    server.send(delete("/ds/demo/s")).expect(204);
    server.send(delete("/ds/demo")).expect(204);
    server.send(delete("/ds/demo")).problem(404, "BUCKET_NOT_FOUND");
    server.send(delete("/ds/abc")).problem(400, "INVALID_BUCKET_ID");
}

#[test]
fn all_stream_operations_work_in_a_bucket() {
    let server = Headwater::start();
    let created = server.create("/ds/demo/s", "text/plain", "a");
    let location = format!("http://{}/ds/demo/s", server.host());
    assert_eq!(created.need("location"), location);
    server.send(put("/ds/demo/s").text("a")).expect(200);
    let next = server.append("/ds/demo/s", "text/plain", "b");
    assert_eq!(server.send(get("/ds/demo/s")).expect(200).text(), "ab");
    assert_eq!(server.send(head("/ds/demo/s")).expect(200).next_offset(), next);
    let waited = server.send(get("/ds/demo/s?offset=-1&live=long-poll")).expect(200);
    assert_eq!(waited.text(), "ab");
    server.sse("/ds/demo/s?offset=-1&live=sse").next().unwrap().is_data("ab");
    server.send(put("/ds/demo/f").header("Stream-Forked-From", "/ds/demo/s")).expect(201);
    assert_eq!(server.send(get("/ds/demo/f")).expect(200).text(), "ab");
    server.send(post("/ds/demo/s").header("Stream-Closed", "true")).expect(204);
    server.send(post("/ds/demo/s").text("c")).problem(409, "STREAM_CLOSED");
    server.send(delete("/ds/demo/f")).expect(204);
    server.send(delete("/ds/demo/s")).expect(204);
    server.send(get("/ds/demo/s")).problem(404, "STREAM_NOT_FOUND");
}

#[test]
fn every_operation_in_a_missing_bucket_is_404() {
    let server = Headwater::start();
    for (method, path) in [
        ("PUT", "s"),
        ("POST", "s"),
        ("GET", "s"),
        ("HEAD", "s"),
        ("DELETE", "s"),
        ("PUT", "s/snapshot/0"),
        ("GET", "s/snapshot"),
        ("GET", "s/snapshot/0"),
        ("DELETE", "s/snapshot/0"),
        ("PUT", "s/retention/0"),
        ("GET", "s/bootstrap"),
        ("POST", "s/append-batch"),
        ("GET", "s/attrs"),
        ("PUT", "s/attrs"),
    ] {
        let answer = server.send(request(method, format!("/ds/nosuch/{path}")).json("{}"));
        assert_eq!(answer.status, 404, "{method} {path}: {answer:?}");
    }
    server.send(get("/ds/nosuch")).problem(404, "BUCKET_NOT_FOUND");
}
