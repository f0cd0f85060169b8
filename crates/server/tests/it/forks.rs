//! Forks beyond what the public suite asks: surfaces, sub-offsets, snapshots, retention, purges
//! (`extensions.md` §1, §5, §10).

use crate::support::{
    Answer, Headwater, Part, delete, eventually, get, head, offset, parts, post, put,
};

fn fork(server: &Headwater, target: &str, source: &str, headers: &[(&str, &str)]) -> Answer {
    let mut request = put(target).header("Stream-Forked-From", source);
    for (name, value) in headers {
        request = request.header(name, value);
    }
    server.send(request)
}

fn at(n: u64) -> String {
    offset(n)
}

#[test]
fn a_source_may_be_named_on_any_surface() {
    let server = Headwater::start();
    server.create("/demo/a%20b", "text/plain", "bucket");
    server.create("/v1/stream/a/b", "text/plain", "base");
    for (index, (source, text)) in
        [("/demo/a%20b", "bucket"), ("/ds/demo/%61%20b", "bucket"), ("/v1/stream/a/b", "base")]
            .into_iter()
            .enumerate()
    {
        for surface in ["/demo", "/ds/demo", "/v1/stream"] {
            let target = format!("{surface}/f{index}{}", surface.len());
            fork(&server, &target, source, &[]).expect(201);
            assert_eq!(server.send(get(&target)).expect(200).text(), text);
            // The same source, named on another surface, is the same source.
            let same = if index == 1 { "/demo/a%20b" } else { source };
            fork(&server, &target, same, &[]).expect(200);
        }
    }
}

#[test]
fn a_source_that_is_no_path_of_a_stream_is_400() {
    let server = Headwater::start();
    server.create("/demo/s", "text/plain", "x");
    for bad in [
        "http://127.0.0.1/demo/s",
        "demo/s",
        "/demo",
        "/demo/streams",
        "/demo/s/snapshot",
        "/demo/s?offset=1",
        "/demo/s/",
        "/demo/a%2Fb",
        "/demo/%",
        "/abc/s",
        "/",
        "",
    ] {
        fork(&server, "/demo/f", bad, &[]).problem(400, "INVALID_FORK");
    }
    let missing = [("/demo/none", "FORK_SOURCE_NOT_FOUND"), ("/nosuch/s", "BUCKET_NOT_FOUND")];
    for (source, code) in missing {
        fork(&server, "/demo/f", source, &[]).problem(404, code);
    }
    fork(&server, "/nosuch/f", "/demo/s", &[]).problem(404, "BUCKET_NOT_FOUND");
    for bad in ["-1", "now", "x", ""] {
        let answer = fork(&server, "/demo/f", "/demo/s", &[("Stream-Fork-Offset", bad)]);
        assert_eq!(answer.status, 400, "{bad}");
    }
    let alone = put("/demo/f").header("Stream-Fork-Offset", "0");
    server.send(alone).problem(400, "INVALID_FORK");
    server.send(get("/demo/f")).problem(404, "STREAM_NOT_FOUND");
}

#[test]
fn a_sub_offset_on_bytes_cuts_the_one_message_behind_the_anchor() {
    let server = Headwater::start();
    server.text_stream("/demo/s", &["hello", "world"]);
    let sub = |target: &str, anchor: u64, sub: &str| {
        let headers = [("Stream-Fork-Offset", &*at(anchor)), ("Stream-Fork-Sub-Offset", sub)];
        fork(&server, target, "/demo/s", &headers)
    };
    sub("/demo/f", 0, "3").expect(201).has(&[("stream-next-offset", &at(3))]);
    assert_eq!(server.send(get("/demo/f")).expect(200).text(), "hel");
    server.append("/demo/f", "text/plain", "p!");
    // The piece is a message of the fork, with boundaries like any other.
    let bootstrap = parts(&server.send(get("/demo/f/bootstrap")).expect(200));
    assert_eq!(bootstrap[1..], [Part::new("text/plain", "hel"), Part::new("text/plain", "p!")]);
    server.send(get("/demo/f?offset=2")).problem(400, "OFFSET_NOT_A_BOUNDARY");
    sub("/demo/f", 0, "3").expect(200);
    sub("/demo/f", 0, "2").problem(409, "STREAM_EXISTS");
    sub("/demo/g", 5, "5").expect(201);
    assert_eq!(server.send(get("/demo/g")).expect(200).text(), "helloworld");
    for (anchor, too_far) in [(0, "6"), (0, "10"), (5, "6"), (10, "1")] {
        sub("/demo/h", anchor, too_far).problem(400, "FORK_SUB_OFFSET");
    }
    let no_anchor = fork(&server, "/demo/h", "/demo/s", &[("Stream-Fork-Sub-Offset", "1")]);
    no_anchor.problem(400, "FORK_SUB_OFFSET");
    for bad in ["-1", "01", "1.5", "x", ""] {
        sub("/demo/h", 0, bad).problem(400, "INVALID_FORK");
    }
    server.send(get("/demo/h")).problem(404, "STREAM_NOT_FOUND");
}

#[test]
fn a_sub_offset_on_json_counts_messages_up_to_the_tail() {
    let server = Headwater::start();
    server.json_stream("/demo/s", &["[1,2]", "3", "[4,5]"]);
    let sub = |target: &str, anchor: u64, sub: &str| {
        let headers = [("Stream-Fork-Offset", &*at(anchor)), ("Stream-Fork-Sub-Offset", sub)];
        fork(&server, target, "/demo/s", &headers)
    };
    for (n, expected) in
        [(1, "[1]"), (2, "[1,2]"), (3, "[1,2,3]"), (4, "[1,2,3,4]"), (5, "[1,2,3,4,5]")]
    {
        let target = format!("/demo/f{n}");
        sub(&target, 0, &n.to_string()).expect(201);
        assert_eq!(server.send(get(&target)).expect(200).text(), expected);
    }
    sub("/demo/g", 2, "2").expect(201);
    assert_eq!(server.send(get("/demo/g")).expect(200).text(), "[1,2,3]");
    sub("/demo/h", 0, "6").problem(400, "FORK_SUB_OFFSET");
    sub("/demo/h", 0, "9007199254740991").problem(400, "FORK_SUB_OFFSET");
    sub("/demo/h", 10, "1").problem(400, "FORK_SUB_OFFSET");
}

#[test]
fn a_fork_inherits_the_snapshot_at_or_below_its_offset() {
    let server = Headwater::start();
    server.text_stream("/demo/s", &["ab", "cd", "ef"]);
    let digest = server.publish("/demo/s/snapshot/4", "abcd");
    for fork_at in [4, 6] {
        let target = format!("/demo/f{fork_at}");
        fork(&server, &target, "/demo/s", &[("Stream-Fork-Offset", &at(fork_at))]).expect(201);
        let told = server.send(head(&target)).expect(200);
        told.has(&[("stream-snapshot-offset", &at(4)), ("stream-snapshot-digest", &digest)]);
        assert_eq!(server.send(get(format!("{target}/snapshot/4"))).expect(200).text(), "abcd");
    }
    // Beyond the offset of a fork of an untrimmed source: none.
    fork(&server, "/demo/f2", "/demo/s", &[("Stream-Fork-Offset", &at(2))]).expect(201);
    server.send(head("/demo/f2")).expect(200).lacks(&["stream-snapshot-offset"]);
    assert_eq!(server.send(get("/demo/f2")).expect(200).text(), "ab");
    // It is a reference: it outlives the source's own, and the source.
    server.publish("/demo/s/snapshot/6", "abcdef");
    server.send(delete("/demo/s")).expect(204);
    assert_eq!(server.send(get("/demo/f4/snapshot/4")).expect(200).text(), "abcd");
    server.send(delete("/demo/f4")).expect(204);
    assert_eq!(server.send(get("/demo/f6/snapshot/4")).expect(200).text(), "abcd");
}

#[test]
fn a_trimmed_source_forks_only_where_its_snapshot_covers_what_is_gone() {
    let server = Headwater::start();
    server.text_stream("/demo/s", &["ab", "cd", "ef", "gh"]);
    server.publish("/demo/s/snapshot/4", "abcd");
    server.send(put("/demo/s/retention/2")).expect(204);
    let fork_at =
        |target: &str, n: u64| fork(&server, target, "/demo/s", &[("Stream-Fork-Offset", &at(n))]);
    fork_at("/demo/f", 0).problem(410, "FORK_OFFSET_TRIMMED");
    fork_at("/demo/f", 1).problem(410, "FORK_OFFSET_TRIMMED");
    fork_at("/demo/f", 3).problem(400, "OFFSET_NOT_A_BOUNDARY");
    fork_at("/demo/f", 2).problem(409, "FORK_UNCOVERED");
    fork_at("/demo/f", 4).expect(201);
    server.send(get("/demo/f")).problem(410, "OFFSET_TRIMMED");
    let bootstrap = server.send(get("/demo/f/bootstrap")).expect(200);
    assert_eq!(parts(&bootstrap), [Part::new("text/plain", "abcd")]);
    assert_eq!(server.send(get("/demo/f?offset=2")).expect(200).text(), "cd");
}

#[test]
fn a_fork_keeps_its_range_whatever_its_source_trims_later() {
    let mut server = Headwater::start();
    server.text_stream("/ds/demo/s", &["ab", "cd", "ef"]);
    fork(&server, "/ds/demo/f", "/ds/demo/s", &[("Stream-Fork-Offset", &at(4))]).expect(201);
    server.append("/ds/demo/f", "text/plain", "XY");
    server.publish("/ds/demo/s/snapshot/6", "abcdef");
    server.send(get("/ds/demo/s")).problem(410, "OFFSET_TRIMMED");
    assert_eq!(server.send(get("/ds/demo/f")).expect(200).text(), "abcdXY");
    server.restart();
    assert_eq!(server.send(get("/ds/demo/f")).expect(200).text(), "abcdXY");
    // Its own snapshots and boundary are its own.
    server.publish("/ds/demo/f/snapshot/4", "abcd");
    server.send(get("/ds/demo/f?offset=2")).problem(410, "OFFSET_TRIMMED");
    server.send(get("/ds/demo/s?offset=6")).expect(200);
}

#[test]
fn a_soft_deleted_source_is_410_in_every_way_and_keeps_its_name() {
    let server = Headwater::start();
    server.json_stream("/demo/s", &["1"]);
    server.publish("/demo/s/snapshot/2", "x");
    fork(&server, "/demo/f", "/demo/s", &[]).expect(201);
    server.send(delete("/demo/s")).expect(204);
    for path in ["", "/snapshot", "/snapshot/2", "/bootstrap", "/attrs", "?offset=now&live=sse"] {
        server.send(get(format!("/demo/s{path}"))).problem(410, "STREAM_DELETED");
    }
    assert_eq!(server.send(head("/demo/s")).status, 410);
    server.send(post("/demo/s").json("2")).problem(410, "STREAM_DELETED");
    server.send(post("/demo/s/append-batch").json("x")).problem(410, "STREAM_DELETED");
    server.send(delete("/demo/s")).problem(410, "STREAM_DELETED");
    server.send(delete("/demo/s/snapshot/2")).problem(410, "STREAM_DELETED");
    server.send(put("/demo/s").json("")).problem(409, "STREAM_HELD");
    fork(&server, "/demo/g", "/demo/s", &[]).problem(409, "FORK_SOURCE_DELETED");
    // Its last fork frees the name.
    server.send(delete("/demo/f")).expect(204);
    eventually("the source is purged", || server.send(head("/demo/s")).status == 404);
    server.create("/demo/s", "text/plain", "new");
}

#[test]
fn the_last_fork_of_a_chain_purges_it_upwards() {
    let server = Headwater::start();
    server.text_stream("/demo/a", &["1"]);
    fork(&server, "/demo/b", "/demo/a", &[]).expect(201);
    server.append("/demo/b", "text/plain", "2");
    fork(&server, "/demo/c", "/demo/b", &[]).expect(201);
    server.append("/demo/c", "text/plain", "3");
    for gone in ["/demo/a", "/demo/b"] {
        server.send(delete(gone)).expect(204);
        assert_eq!(server.send(head(gone)).status, 410);
    }
    assert_eq!(server.send(get("/demo/c")).expect(200).text(), "123");
    assert_eq!(server.send(get("/demo")).value()["streams"], 3);
    server.send(delete("/demo/c")).expect(204);
    assert_eq!(server.send(head("/demo/c")).status, 404);
    eventually("all of them are purged", || server.send(get("/demo")).value()["streams"] == 0);
    server.send(delete("/demo")).expect(204);
}

#[test]
fn an_expired_source_keeps_its_bytes_for_its_forks() {
    let server = Headwater::start();
    server.send(put("/demo/s").header("Stream-TTL", "1").text("ab")).expect(201);
    fork(&server, "/demo/f", "/demo/s", &[("Stream-Expires-At", "2099-01-01T00:00:00Z")])
        .expect(201);
    eventually("the source expires", || server.send(head("/demo/s")).status >= 404);
    assert_eq!(server.send(get("/demo/f")).expect(200).text(), "ab");
    fork(&server, "/demo/g", "/demo/s", &[]).problem(409, "FORK_SOURCE_DELETED");
}

#[test]
fn a_refused_fork_leaves_no_reference_behind() {
    let server = Headwater::start();
    server.text_stream("/demo/s", &["ab"]);
    fork(&server, "/demo/f", "/demo/s", &[("Content-Type", "image/png")])
        .problem(409, "CONTENT_TYPE_MISMATCH");
    fork(&server, "/demo/f", "/demo/s", &[("Stream-Fork-Offset", "9")])
        .problem(400, "FORK_OFFSET_BEYOND_TAIL");
    fork(&server, "/nosuch/f", "/demo/s", &[]).problem(404, "BUCKET_NOT_FOUND");
    server.send(delete("/demo/s")).expect(204);
    assert_eq!(server.send(head("/demo/s")).status, 404);
}

#[test]
fn a_chain_of_forks_has_an_end() {
    let server = Headwater::start();
    server.create("/demo/0", "text/plain", "x");
    let mut connection = server.connect();
    let mut depth = 1;
    let refused = loop {
        // Each with a byte of its own, so that none can be skipped.
        let request = put(format!("/demo/{depth}"))
            .header("Stream-Forked-From", format!("/demo/{}", depth - 1))
            .text("x");
        let answer = connection.round(&request);
        if answer.status != 201 {
            break answer;
        }
        depth += 1;
        assert!(depth <= 1024);
    };
    refused.problem(409, "FORK_TOO_DEEP");
    assert_eq!(depth, 1024);
    assert_eq!(server.send(get("/demo/1023")).expect(200).body, vec![b'x'; 1024]);
}
