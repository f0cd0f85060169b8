//! Publishing snapshots (`extensions.md` §4): the order of checks, what is known before the body,
//! and what a repeat does.

use crate::support::{
    BOTH, Connection, Headwater, SURFACES, get, head, offset, post, put, request,
};

type Headers = &'static [(&'static str, &'static str)];

/// A publish that is announced with a huge body and sends none of it.
fn announce(server: &Headwater, path: &str, headers: &[(&str, &str)]) -> Connection {
    let mut connection = server.connect();
    let mut request = put(path).header("Content-Length", 100 * 1024 * 1024);
    for (name, value) in headers {
        request = request.header(name, value);
    }
    connection.send(&request);
    connection
}

/// Boundaries 0, 2, 4, 6; the snapshot at 4, history retained from 2.
fn stream(server: &Headwater, path: &str) -> String {
    server.text_stream(path, &["ab", "cd", "ef"]);
    server.publish(&format!("{path}/snapshot/2"), "early");
    server.send(put(format!("{path}/retention/2"))).expect(204);
    server.publish(&format!("{path}/snapshot/4"), "visible")
}

#[test]
fn what_the_head_tells_is_refused_before_a_byte_of_the_body() {
    let server = Headwater::start();
    stream(&server, "/demo/s");
    server.send(put("/demo/gone").text("x")).expect(201);
    server.send(put("/demo/fork").header("Stream-Forked-From", "/demo/gone")).expect(201);
    server.send(request("DELETE", "/demo/gone")).expect(204);
    let refusals: [(&str, Headers, u16, &str); 13] = [
        ("/demo/s/snapshot/now", &[], 400, "INVALID_OFFSET"),
        ("/demo/s/snapshot/-1", &[], 400, "INVALID_OFFSET"),
        ("/demo/s/snapshot/6", &[("Content-Type", "x")], 400, "INVALID_CONTENT_TYPE"),
        ("/demo/s/snapshot/6?record=1", &[], 400, "INVALID_OFFSET"),
        ("/demo/s/snapshot", &[], 400, "INVALID_OFFSET"),
        ("/demo/none/snapshot/0", &[], 404, "STREAM_NOT_FOUND"),
        ("/demo/gone/snapshot/0", &[], 410, "STREAM_DELETED"),
        ("/demo/s/snapshot/0", &[], 410, "OFFSET_TRIMMED"),
        ("/demo/s/snapshot/7", &[], 409, "OFFSET_BEYOND_TAIL"),
        ("/demo/s/snapshot/5", &[], 400, "OFFSET_NOT_A_BOUNDARY"),
        ("/demo/s/snapshot/2", &[], 409, "SNAPSHOT_STALE"),
        ("/demo/s/snapshot/6", &[("Stream-Snapshot-Match", "x")], 409, "SNAPSHOT_MATCH_FAILED"),
        ("/demo/s/snapshot?record=1", &[], 400, "RECORDS_NEED_JSON"),
    ];
    for (path, headers, status, code) in refusals {
        announce(&server, path, headers).answer("PUT").problem(status, code).check_problem();
        // With Expect, neither is the body asked for.
        let mut expecting = vec![("Expect", "100-continue")];
        expecting.extend_from_slice(headers);
        announce(&server, path, &expecting).answer("PUT").problem(status, code);
    }
}

#[test]
fn a_refusal_reaches_a_client_that_is_still_sending() {
    let server = Headwater::start();
    stream(&server, "/demo/s");
    let body = vec![b'x'; 8 * 1024 * 1024];
    server.send(put("/demo/s/snapshot/5").text(&body)).problem(400, "OFFSET_NOT_A_BOUNDARY");
    server.send(put("/demo/none/snapshot/5").text(&body)).problem(404, "STREAM_NOT_FOUND");
    let announced = post("/demo/none").text(&body);
    server.send(announced).problem(404, "STREAM_NOT_FOUND");
}

#[test]
fn expect_100_continue_is_answered_where_the_body_is_wanted() {
    let server = Headwater::start();
    stream(&server, "/demo/s");
    let mut connection = server.connect();
    let asking = put("/demo/s/snapshot/6").header("Expect", "100-continue");
    connection.send(&asking.header("Content-Length", 4));
    assert_eq!(connection.answer_head().status, 100);
    connection.write(b"body");
    connection.answer("PUT").expect(204);
    assert_eq!(server.send(get("/demo/s/snapshot/6")).expect(200).text(), "body");
}

#[test]
fn of_two_reasons_to_refuse_the_first_in_order_is_given() {
    let server = Headwater::with(|config| config.snapshot_bytes_max = 10);
    let digest = stream(&server, "/demo/s");
    let send = |path: &str, digest: &str, body: &str| {
        server.send(put(path).header("Stream-Snapshot-Match", digest).text(body))
    };
    let large = "more than ten bytes";
    // 1 syntax, then 413, then 2.
    send("/demo/none/snapshot/x", "", large).problem(400, "INVALID_OFFSET");
    send("/demo/none/snapshot/0", "", large).problem(413, "BODY_TOO_LARGE");
    send("/demo/none/snapshot/0", "", "").problem(404, "STREAM_NOT_FOUND");
    // 3 before 5, 7 and 8: inside a message, trimmed, stale, no match.
    send("/demo/s/snapshot/1", "x", "").problem(410, "OFFSET_TRIMMED");
    // 4 before 7.
    send("/demo/s/snapshot/9", "x", "").problem(409, "OFFSET_BEYOND_TAIL");
    // 5 before 7 and 8.
    send("/demo/s/snapshot/3", "x", "").problem(400, "OFFSET_NOT_A_BOUNDARY");
    // 6 before 7.
    send("/demo/s/snapshot/4", "x", "visible").expect(204);
    // 7 before 8 and 9.
    send("/demo/s/snapshot/2", "x", "").problem(409, "SNAPSHOT_MATCH_FAILED");
    send("/demo/s/snapshot/4", "x", "other").problem(409, "SNAPSHOT_MATCH_FAILED");
    // 8, 9, 10.
    send("/demo/s/snapshot/2", &digest, "").problem(409, "SNAPSHOT_STALE");
    send("/demo/s/snapshot/4", &digest, "other").problem(409, "SNAPSHOT_CONFLICT");
    send("/demo/s/snapshot/6", &digest, "other").expect(204);
}

#[test]
fn refusals_about_the_visible_snapshot_name_it() {
    let server = Headwater::start();
    let digest = stream(&server, "/demo/s");
    let visible = [("stream-snapshot-offset", &*offset(4)), ("stream-snapshot-digest", &digest)];
    let no_match = put("/demo/s/snapshot/6").header("Stream-Snapshot-Match", "nonsense \u{e9}");
    server.send(no_match.text("x")).problem(409, "SNAPSHOT_MATCH_FAILED").has(&visible);
    server.send(put("/demo/s/snapshot/2").text("x")).problem(409, "SNAPSHOT_STALE").has(&visible);
    server
        .send(put("/demo/s/snapshot/4").text("x"))
        .problem(409, "SNAPSHOT_CONFLICT")
        .has(&visible);
    let trimmed = server.send(put("/demo/s/snapshot/0").text("x")).problem(410, "OFFSET_TRIMMED");
    trimmed.has(&[("stream-retained-offset", &offset(2)), ("stream-next-offset", &offset(6))]);
    // What was refused was never stored.
    assert_eq!(server.send(get("/demo/s/snapshot/4")).expect(200).text(), "visible");
}

#[test]
fn the_answer_to_a_publish_names_tail_snapshot_digest_and_boundary() {
    let server = Headwater::start();
    for (stream, below) in SURFACES {
        let stream =
            if below.is_empty() { format!("{stream}/{}", stream.len()) } else { stream.to_owned() };
        server.text_stream(&stream, &["ab", "cd"]);
        let answer = server.send(put(format!("{stream}{below}/snapshot/2")).text("x")).expect(204);
        let retained = if stream.starts_with("/ds/") { offset(2) } else { offset(0) };
        let answer = answer.has(&[
            ("stream-next-offset", &offset(4)),
            ("stream-snapshot-offset", &offset(2)),
            ("stream-retained-offset", &retained),
        ]);
        answer.need("stream-snapshot-digest");
    }
}

#[test]
fn the_digest_is_blake3_over_length_content_type_and_body() {
    let server = Headwater::start();
    let ends = server.text_stream("/demo/s", &["a", "b", "c"]);
    let large = "x".repeat(3_000_000);
    for (at, (content_type, body)) in
        [("text/plain; charset=utf-8", "hello"), ("image/png", ""), ("a/b", &large)]
            .into_iter()
            .enumerate()
    {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&u64::try_from(content_type.len()).unwrap().to_le_bytes());
        hasher.update(content_type.as_bytes()).update(body.as_bytes());
        let expected = hasher.finalize().to_hex();
        let path = format!("/demo/s/snapshot/{}", ends[at]);
        // How the body is framed does not matter.
        let publish = put(&path).typed(content_type, body);
        let publish = if at == 0 { publish.chunked() } else { publish };
        let answer = server.send(publish).expect(204);
        assert_eq!(answer.need("stream-snapshot-digest"), expected.as_str());
        let read = server.send(get(&path)).expect(200);
        assert_eq!(read.need("stream-snapshot-digest"), expected.as_str());
        assert_eq!(read.need("etag"), format!("\"{expected}\""));
        assert_eq!(read.body, body.as_bytes());
    }
    // A missing content type hashes as the one that it stands for.
    server.append("/demo/s", "text/plain", "d");
    let digest =
        |request| server.send(request).expect(204).need("stream-snapshot-digest").to_owned();
    let implied = digest(put("/demo/s/snapshot/4").body("x"));
    let explicit = put("/demo/s/snapshot/4").typed("application/octet-stream", "x");
    assert_eq!(implied, digest(explicit));
}

#[test]
fn a_repeat_advances_retention_on_ds_only() {
    let server = Headwater::start();
    server.text_stream("/demo/s", &["ab", "cd"]);
    let publish =
        |surface: &str| server.send(put(format!("{surface}/s/snapshot/2")).text("x")).expect(204);
    let [ds, root] = BOTH;
    publish(root).has(&[("stream-retained-offset", &offset(0))]);
    publish(root).has(&[("stream-retained-offset", &offset(0))]);
    server.send(get("/demo/s")).expect(200);
    publish(ds).has(&[("stream-retained-offset", &offset(2))]);
    server.send(get("/demo/s")).problem(410, "OFFSET_TRIMMED");
    publish(root).has(&[("stream-retained-offset", &offset(2))]);
    publish(ds).has(&[("stream-retained-offset", &offset(2))]);
    assert_eq!(server.send(get("/demo/s/snapshot/2")).expect(200).text(), "x");
}

#[test]
fn the_body_is_checked_again_when_it_is_complete() {
    let server = Headwater::start();
    server.text_stream("/demo/s", &["ab", "cd"]);
    for (meanwhile, code) in [(4, "SNAPSHOT_STALE"), (2, "SNAPSHOT_CONFLICT")] {
        let path = if meanwhile == 4 { "/demo/s" } else { "/demo/t" };
        if meanwhile == 2 {
            server.text_stream(path, &["ab"]);
        }
        let mut slow = server.connect();
        slow.send(
            &put(format!("{path}/snapshot/2"))
                .header("Expect", "100-continue")
                .header("Content-Length", 4),
        );
        // The head was accepted; now another publish overtakes.
        assert_eq!(slow.answer_head().status, 100);
        server.publish(&format!("{path}/snapshot/{meanwhile}"), "first");
        slow.write(b"late");
        slow.answer("PUT").problem(409, code);
        assert_eq!(server.send(get(format!("{path}/snapshot/{meanwhile}"))).text(), "first");
    }
    let mut slow = server.connect();
    slow.send(
        &put("/demo/s/snapshot/4").header("Expect", "100-continue").header("Content-Length", 4),
    );
    assert_eq!(slow.answer_head().status, 100);
    server.send(request("DELETE", "/demo/s")).expect(204);
    slow.write(b"late");
    slow.answer("PUT").problem(404, "STREAM_NOT_FOUND");
}

#[test]
fn a_chunked_body_is_413_as_soon_as_it_passes_the_limit() {
    let server = Headwater::with(|config| config.snapshot_bytes_max = 1000);
    server.text_stream("/demo/s", &["ab"]);
    let mut connection = server.connect();
    connection.send(&put("/demo/s/snapshot/2").header("Transfer-Encoding", "chunked"));
    connection.write(format!("3e9\r\n{}", "x".repeat(1001)).as_bytes());
    // The body has not ended, and yet there is an answer.
    let refused = connection.answer("PUT").problem(413, "BODY_TOO_LARGE");
    assert_eq!(refused.value()["limit"], 1000);
    server.send(get("/demo/s/snapshot")).problem(404, "SNAPSHOT_NOT_FOUND");
    server.send(put("/demo/s/snapshot/2").text("x".repeat(1000)).chunked()).expect(204);
}

#[test]
fn a_body_that_breaks_off_publishes_nothing() {
    let server = Headwater::start();
    server.text_stream("/demo/s", &["ab"]);
    let mut connection = server.connect();
    connection.send(&put("/demo/s/snapshot/2").header("Content-Length", 10));
    connection.write(b"half");
    connection.finish_writing();
    assert!(
        matches!(connection.rest(), rest if rest.is_empty() || rest.starts_with(b"HTTP/1.1 400"))
    );
    server.send(get("/demo/s/snapshot")).problem(404, "SNAPSHOT_NOT_FOUND");
}

#[test]
fn an_empty_stream_and_an_empty_body_can_be_a_snapshot() {
    let server = Headwater::start();
    for (index, surface) in BOTH.into_iter().enumerate() {
        let path = format!("{surface}/s{index}");
        server.create(&path, "text/plain", "");
        server.send(put(format!("{path}/snapshot/0"))).expect(204);
        let read = server.send(get(format!("{path}/snapshot/{}", offset(0)))).expect(200);
        let read = read.has(&[("content-length", "0"), ("stream-up-to-date", "true")]);
        assert_eq!(read.body, b"");
        // A boundary of 0 trims nothing.
        server
            .send(get(format!("{path}?offset=-1")))
            .expect(200)
            .lacks(&["stream-retained-offset"]);
    }
}

#[test]
fn a_snapshot_survives_a_restart_with_its_digest() {
    let mut server = Headwater::start();
    server.text_stream("/ds/demo/s", &["ab", "cd"]);
    let digest = server.publish("/ds/demo/s/snapshot/2", "AB");
    server.restart();
    let read = server.send(get("/ds/demo/s/snapshot/2")).expect(200);
    assert_eq!(read.text(), "AB");
    read.has(&[("stream-snapshot-digest", &digest)]);
    server.send(get("/ds/demo/s")).problem(410, "OFFSET_TRIMMED");
    let told = server.send(head("/demo/s")).expect(200);
    told.has(&[("stream-snapshot-digest", &digest), ("stream-retained-offset", &offset(2))]);
}

#[test]
fn an_offset_may_be_written_in_every_form() {
    let server = Headwater::start();
    server.text_stream("/demo/s", &["ab"]);
    for form in ["2", "0002", &offset(2), "0000000000000000_0000000000000002"] {
        let answer = server.send(put(format!("/demo/s/snapshot/{form}")).text("x")).expect(204);
        answer.has(&[("stream-snapshot-offset", &offset(2))]);
        let retained = server.send(put(format!("/demo/s/retention/{form}"))).expect(204);
        retained.has(&[("stream-retained-offset", &offset(2))]);
    }
}

#[test]
fn publish_by_record_has_statuses_of_its_own() {
    let server = Headwater::start();
    server.json_stream("/ds/demo/s", &["1", "2", "3"]);
    let publish = |query: &str| server.send(put(format!("/ds/demo/s/snapshot?{query}")).text("x"));
    publish("record=1").expect(204).has(&[("stream-retained-offset", &offset(2))]);
    publish("record=0").problem(410, "OFFSET_TRIMMED");
    publish("record=99").problem(409, "OFFSET_BEYOND_TAIL");
    publish("record=99999999999999999999").problem(409, "OFFSET_BEYOND_TAIL");
    publish("record=1x").problem(400, "INVALID_QUERY");
    publish("record=3").expect(204).has(&[("stream-snapshot-offset", &offset(6))]);
    server.text_stream("/ds/demo/t", &["a"]);
    let text = server.send(put("/ds/demo/t/snapshot?record=0").text("x"));
    text.problem(400, "RECORDS_NEED_JSON");
}
