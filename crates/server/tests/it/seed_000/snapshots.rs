//! Section 2 of the document: snapshots.

use std::io::Write as _;
use std::net::TcpStream;

use crate::support::{Headwater, Part, delete, get, head, offset, parts, put};

#[test]
fn reads_snapshots_and_bootstrap_share_their_boundaries() {
    let server = Headwater::start();
    let ends = server.text_stream("/ds/demo/s", &["one", "three", "seventeen"]);
    for at in 0..=17 {
        let at = offset(at);
        let boundary = at == offset(0) || ends.contains(&at);
        let read = server.send(get(format!("/ds/demo/s?offset={at}")));
        // The head alone decides about a boundary, so that publishing does not disturb the next.
        let stream = format!("/ds/demo/f{at}");
        server.send(put(&stream).header("Stream-Forked-From", "/ds/demo/s")).expect(201);
        let published = server.send(put(format!("{stream}/snapshot/{at}")).text("x"));
        if boundary {
            read.expect(200);
            published.expect(204);
            let bootstrap = parts(&server.send(get(format!("{stream}/bootstrap"))).expect(200));
            let after = ends.iter().filter(|end| **end > at).count();
            assert_eq!(bootstrap.len(), 1 + after, "one part for each message behind {at}");
        } else {
            read.problem(400, "OFFSET_NOT_A_BOUNDARY");
            published.problem(400, "OFFSET_NOT_A_BOUNDARY");
        }
    }
}

#[test]
fn the_content_type_of_a_snapshot_is_kept() {
    let server = Headwater::start();
    let ends = server.text_stream("/ds/demo/s", &["a", "b"]);
    let path = |end: &str| format!("/ds/demo/s/snapshot/{end}");
    let odd = "Application/Vnd.X+JSON; v=\"1 2\"";
    server.send(put(path(&ends[0])).typed(odd, "{}")).expect(204);
    server.send(get(path(&ends[0]))).expect(200).has(&[("content-type", odd)]);
    server.send(put(path(&ends[1])).body("raw")).expect(204);
    let read = server.send(get(path(&ends[1]))).expect(200);
    assert_eq!(read.need("content-type"), "application/octet-stream");
    assert_eq!(read.body, b"raw");
}

#[test]
fn publishing_answers_as_listed() {
    let server = Headwater::with(|config| config.snapshot_bytes_max = 1000);
    let ends = server.text_stream("/ds/demo/s", &["abc", "defg"]);
    let publish =
        |at: &str, body: &str| server.send(put(format!("/ds/demo/s/snapshot/{at}")).text(body));
    publish("x1", "").problem(400, "INVALID_OFFSET");
    publish("2", "").problem(400, "OFFSET_NOT_A_BOUNDARY");
    publish("8", "").problem(409, "OFFSET_BEYOND_TAIL");
    publish(&ends[0], &"x".repeat(1001)).problem(413, "BODY_TOO_LARGE");
    publish(&ends[0], &"x".repeat(1000)).expect(204);
    publish("0", "").problem(410, "OFFSET_TRIMMED");
    server.send(put("/ds/demo/t/snapshot/0").text("")).problem(404, "STREAM_NOT_FOUND");
}

#[test]
fn publishing_advances_retention() {
    let server = Headwater::start();
    let ends = server.text_stream("/ds/demo/s", &["abc", "def", "ghi"]);
    server.publish(&format!("/ds/demo/s/snapshot/{}", ends[1]), "abcdef");
    for below in ["-1", "0", &ends[0]] {
        for live in ["", "&live=long-poll", "&live=sse"] {
            let answer = server.send(get(format!("/ds/demo/s?offset={below}{live}")));
            answer.problem(410, "OFFSET_TRIMMED").has(&[("stream-retained-offset", &ends[1])]);
        }
    }
    server.send(get("/ds/demo/s")).problem(410, "OFFSET_TRIMMED");
    assert_eq!(
        server.send(get(format!("/ds/demo/s?offset={}", ends[1]))).expect(200).text(),
        "ghi"
    );
}

#[test]
fn a_newer_snapshot_replaces_the_older_at_once() {
    let server = Headwater::start();
    let ends = server.text_stream("/ds/demo/s", &["a", "b"]);
    let path = |end: &str| format!("/ds/demo/s/snapshot/{end}");
    server.publish(&path(&ends[0]), "one");
    server.publish(&path(&ends[1]), "two");
    server.send(get(path(&ends[0]))).problem(404, "SNAPSHOT_NOT_FOUND");
    server.send(delete(path(&ends[0]))).problem(404, "SNAPSHOT_NOT_FOUND");
    assert_eq!(server.send(get(path(&ends[1]))).expect(200).text(), "two");
    let latest = server.send(get("/ds/demo/s/snapshot")).expect(307);
    assert_eq!(latest.need("location"), path(&ends[1]));
}

#[test]
fn publishing_does_not_block_appends() {
    let server = Headwater::start();
    let ends = server.text_stream("/ds/demo/s", &["a"]);
    let mut slow = TcpStream::connect(server.host()).unwrap();
    let path = format!("/ds/demo/s/snapshot/{}", ends[0]);
    write!(slow, "PUT {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 8\r\n\r\nhalf").unwrap();
    // The publish is under way; appends go on, and reads see them.
    let next = server.append("/ds/demo/s", "text/plain", "b");
    assert_eq!(server.send(get("/ds/demo/s")).expect(200).text(), "ab");
    write!(slow, "done").unwrap();
    let mut answer = [0; 12];
    std::io::Read::read_exact(&mut slow, &mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 204");
    let bootstrap = server.send(get("/ds/demo/s/bootstrap")).expect(200);
    assert_eq!(bootstrap.next_offset(), next);
    let expected =
        [Part::new("application/octet-stream", "halfdone"), Part::new("text/plain", "b")];
    assert_eq!(parts(&bootstrap), expected);
}

#[test]
fn the_latest_snapshot_is_a_redirect() {
    let server = Headwater::start();
    let ends = server.text_stream("/ds/demo/s", &["a"]);
    server.send(get("/ds/demo/s/snapshot")).problem(404, "SNAPSHOT_NOT_FOUND");
    server.publish(&format!("/ds/demo/s/snapshot/{}", ends[0]), "x");
    let answer = server.send(get("/ds/demo/s/snapshot")).expect(307);
    assert_eq!(answer.need("location"), format!("/ds/demo/s/snapshot/{}", ends[0]));
    assert_eq!(answer.body, b"");
}

#[test]
fn head_names_the_snapshot_that_the_redirect_leads_to() {
    let server = Headwater::start();
    let ends = server.text_stream("/ds/demo/s", &["a", "b"]);
    server.send(head("/ds/demo/s")).expect(200).lacks(&["stream-snapshot-offset"]);
    for end in &ends {
        server.publish(&format!("/ds/demo/s/snapshot/{end}"), "x");
        server.send(head("/ds/demo/s")).expect(200).has(&[("stream-snapshot-offset", end)]);
        let redirect = server.send(get("/ds/demo/s/snapshot")).expect(307);
        assert!(redirect.need("location").ends_with(end.as_str()));
    }
}

#[test]
fn a_snapshot_is_read_with_its_headers() {
    let server = Headwater::start();
    let ends = server.text_stream("/ds/demo/s", &["a"]);
    let path = format!("/ds/demo/s/snapshot/{}", ends[0]);
    server.send(get(&path)).problem(404, "SNAPSHOT_NOT_FOUND");
    server.publish(&path, "blob");
    let headers = [
        ("content-type", "text/plain"),
        ("stream-snapshot-offset", &ends[0]),
        ("stream-next-offset", &ends[0]),
        ("stream-up-to-date", "true"),
    ];
    let read = server.send(get(&path)).expect(200).has(&headers);
    assert_eq!(read.text(), "blob");
    server.append("/ds/demo/s", "text/plain", "b");
    let behind = [("stream-next-offset", &*ends[0]), ("stream-up-to-date", "false")];
    server.send(get(&path)).expect(200).has(&behind);
}

#[test]
fn the_visible_snapshot_cannot_be_deleted() {
    let server = Headwater::start();
    let ends = server.text_stream("/ds/demo/s", &["a"]);
    let path = format!("/ds/demo/s/snapshot/{}", ends[0]);
    server.send(delete(&path)).problem(404, "SNAPSHOT_NOT_FOUND");
    server.publish(&path, "x");
    server.send(delete(&path)).problem(409, "SNAPSHOT_VISIBLE");
    server.send(get(&path)).expect(200);
    server.send(delete("/ds/demo/s/snapshot/0")).problem(404, "SNAPSHOT_NOT_FOUND");
}
