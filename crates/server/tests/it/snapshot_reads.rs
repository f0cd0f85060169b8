//! Reading snapshots (`extensions.md` §4): headers, ranges, conditions.

use crate::support::{Answer, Headwater, Request, get, head, offset, put};

const BLOB: &str = "0123456789";

/// A stream with a visible snapshot of ten bytes; returns the path of that and its digest.
fn published(server: &Headwater) -> (String, String) {
    server.text_stream("/demo/s", &["ab", "cd"]);
    let path = format!("/demo/s/snapshot/{}", offset(2));
    let digest = server.publish(&path, BLOB);
    (path, digest)
}

#[test]
fn a_read_names_all_there_is_to_know() {
    let server = Headwater::start();
    let (path, digest) = published(&server);
    let etag = format!("\"{digest}\"");
    let facts = [
        ("content-type", "text/plain"),
        ("content-length", "10"),
        ("etag", &*etag),
        ("accept-ranges", "bytes"),
        ("stream-snapshot-offset", &*offset(2)),
        ("stream-snapshot-digest", &digest),
        ("stream-next-offset", &*offset(2)),
        ("stream-up-to-date", "false"),
    ];
    assert_eq!(server.send(get(&path)).expect(200).has(&facts).text(), BLOB);
    assert_eq!(server.send(head(&path)).expect(200).has(&facts).body, b"");
    // The number in another form is the same offset.
    server.send(get("/demo/s/snapshot/2")).expect(200).has(&facts);
    server.send(get("/demo/s/snapshot/0000000000000000_0000000000000002")).expect(200);
}

#[test]
fn any_other_offset_is_404_and_no_offset_is_400() {
    let server = Headwater::start();
    published(&server);
    for other in ["0", "1", "4", "99", "99999999999999999999", "9999999999999999_9999999999999999"]
    {
        server.send(get(format!("/demo/s/snapshot/{other}"))).problem(404, "SNAPSHOT_NOT_FOUND");
    }
    for bad in ["x", "-1", "now", "+2", "2%20", "000000000000000000002"] {
        server.send(get(format!("/demo/s/snapshot/{bad}"))).problem(400, "INVALID_OFFSET");
        assert_eq!(server.send(head(format!("/demo/s/snapshot/{bad}"))).status, 400);
    }
}

fn ranged(server: &Headwater, path: &str, range: &str) -> Answer {
    server.send(get(path).header("Range", range))
}

#[test]
fn one_range_is_a_206() {
    let server = Headwater::start();
    let (path, digest) = published(&server);
    for (range, content_range, bytes) in [
        ("bytes=0-0", "bytes 0-0/10", "0"),
        ("bytes=2-4", "bytes 2-4/10", "234"),
        ("bytes=7-", "bytes 7-9/10", "789"),
        ("bytes=7-99", "bytes 7-9/10", "789"),
        ("bytes=-3", "bytes 7-9/10", "789"),
        ("bytes=-99", "bytes 0-9/10", BLOB),
        ("Bytes=0-1", "bytes 0-1/10", "01"),
    ] {
        let answer = ranged(&server, &path, range).expect(206);
        assert_eq!(answer.text(), bytes, "{range}");
        let len = bytes.len().to_string();
        let etag = format!("\"{digest}\"");
        answer.has(&[("content-range", content_range), ("content-length", &len), ("etag", &etag)]);
    }
}

#[test]
fn a_range_that_has_nothing_is_416_and_one_that_is_none_is_ignored() {
    let server = Headwater::start();
    let (path, _) = published(&server);
    for bad in [
        "bytes=10-",
        "bytes=10-12",
        "bytes=-0",
        "bytes=99999999999999999999-",
        "bytes=5-2",
        "bytes=x",
        "bytes=1",
        "bytes=",
    ] {
        let answer = ranged(&server, &path, bad).problem(416, "RANGE_NOT_SATISFIABLE");
        answer.has(&[("content-range", "bytes */10")]);
    }
    // Another unit, or more than one range: everything.
    for whole in ["lines=0-1", "bytes=0-1,4-5"] {
        let answer = ranged(&server, &path, whole).expect(200).lacks(&["content-range"]);
        assert_eq!(answer.text(), BLOB);
    }
}

#[test]
fn if_range_decides_whether_the_range_counts() {
    let server = Headwater::start();
    let (path, digest) = published(&server);
    let send = |condition: &str| {
        server.send(get(&path).header("Range", "bytes=1-2").header("If-Range", condition))
    };
    assert_eq!(send(&format!("\"{digest}\"")).expect(206).text(), "12");
    for stale in ["\"other\"", &format!("W/\"{digest}\""), "Mon, 01 Jan 2024 00:00:00 GMT", ""] {
        assert_eq!(send(stale).expect(200).text(), BLOB, "{stale}");
    }
}

#[test]
fn if_none_match_is_304() {
    let server = Headwater::start();
    let (path, digest) = published(&server);
    let send = |request: Request, tag: &str| server.send(request.header("If-None-Match", tag));
    let etag = format!("\"{digest}\"");
    for tag in [&*etag, &format!("W/{etag}"), &format!("\"x\", {etag}"), "*"] {
        let answer = send(get(&path), tag).expect(304).has(&[("etag", &etag)]);
        assert_eq!(answer.body, b"");
        send(head(&path), tag).expect(304);
        // The condition comes before the range.
        send(get(&path).header("Range", "bytes=0-1"), tag).expect(304);
    }
    assert_eq!(send(get(&path), "\"x\"").expect(200).text(), BLOB);
}

#[test]
fn the_redirect_is_relative_and_is_not_stored() {
    let server = Headwater::start();
    let (path, digest) = published(&server);
    let facts = [
        ("location", &*path),
        ("stream-snapshot-offset", &*offset(2)),
        ("stream-snapshot-digest", &digest),
        ("cache-control", "no-store"),
    ];
    server.send(get("/demo/s/snapshot")).expect(307).has(&facts);
    server.send(head("/demo/s/snapshot")).expect(307).has(&facts);
    server.send(get("/demo/none/snapshot")).problem(404, "STREAM_NOT_FOUND");
}

#[test]
fn reads_and_head_of_the_stream_name_the_snapshot() {
    let server = Headwater::start();
    let (_, digest) = published(&server);
    let facts = [("stream-snapshot-offset", &*offset(2)), ("stream-snapshot-digest", &digest)];
    server.send(head("/demo/s")).expect(200).has(&facts).lacks(&["stream-retained-offset"]);
    for read in ["offset=-1", "offset=now", "offset=0&live=long-poll", "offset=4&live=long-poll"] {
        let answer = server.send(get(format!("/demo/s?{read}"))).has(&facts);
        answer.lacks(&["stream-retained-offset"]);
    }
    let sse = server.sse("/demo/s?offset=0&live=sse");
    sse.head.clone().has(&facts);
    server.send(put("/demo/s/retention/2")).expect(204);
    for read in ["offset=2", "offset=now", "offset=4&live=long-poll"] {
        let answer = server.send(get(format!("/demo/s?{read}"))).has(&facts);
        answer.has(&[("stream-retained-offset", &offset(2))]);
    }
    server.send(head("/demo/s")).expect(200).has(&[("stream-retained-offset", &offset(2))]);
}

#[test]
fn a_read_that_has_begun_ends_whole_though_the_snapshot_is_replaced() {
    let server = Headwater::start();
    server.text_stream("/demo/s", &["ab", "cd"]);
    let blob = "0123456789abcdef".repeat(512 * 1024);
    server.publish("/demo/s/snapshot/2", &blob);
    let mut reading = server.connect();
    reading.send(&get("/demo/s/snapshot/2"));
    let begun = reading.answer_head();
    assert_eq!((begun.status, begun.need("content-length")), (200, "8388608"));
    server.publish("/demo/s/snapshot/4", "newer");
    server.send(get("/demo/s/snapshot/2")).problem(404, "SNAPSHOT_NOT_FOUND");
    let read = reading.bytes(blob.len());
    assert!(read == blob.as_bytes(), "the bytes that were promised");
}
