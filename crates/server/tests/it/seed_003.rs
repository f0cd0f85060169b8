//! The later page on publishing snapshots, sentence by sentence, on its own surface (the root).
//! Each sentence is followed by the tests that defend it.
//!
//! - replaces any previous snapshot, does not delete history; publishing does not advance
//!   retention:
//!   `publishing_replaces_the_snapshot_and_keeps_history`
//! - retention advances only through `/retention`; after the 204, reads before it are 410:
//!   `retention_is_a_step_of_its_own`
//! - the offset is the 20-character zero-padded decimal token:
//!   `the_offset_is_the_token_of_twenty_digits`
//! - on JSON streams `?record=` publishes at that record's boundary:
//!   `a_record_ordinal_is_resolved_to_its_boundary`
//! - the content type is stored apart from the stream's own; the default:
//!   `a_snapshot_has_a_content_type_of_its_own`
//! - `Stream-Snapshot-Match`: only if it still matches:
//!   `a_publish_can_depend_on_the_visible_digest`
//! - at most 128 MiB, larger bodies are 413:
//!   `a_body_of_more_than_128_mib_is_413`
//! - 204, 400, 404 (missing or expired), 409, 410:
//!   `publishing_answers_as_listed`
//! - the answer's headers; a repeat is idempotent; other content is 409:
//!   `a_repeat_is_idempotent_and_other_content_conflicts`
//! - the example:
//!   `the_example_works_as_printed`
//! - the boundary must be monotonic, aligned, no newer than the visible snapshot:
//!   `the_boundary_is_monotonic_aligned_and_covered`
//! - `?record=` for retention:
//!   `retention_takes_a_record_ordinal`
//! - publish and verify before history is unreachable:
//!   `a_snapshot_can_be_verified_before_history_goes`
//! - delete: 404, 409:
//!   `only_the_visible_snapshot_exists_and_it_stays`

use crate::support::{Headwater, delete, get, head, offset, put};

#[test]
fn publishing_replaces_the_snapshot_and_keeps_history() {
    let server = Headwater::start();
    let ends = server.text_stream("/demo/s", &["a", "b"]);
    for end in &ends {
        server.publish(&format!("/demo/s/snapshot/{end}"), "x");
        let answer = server.send(get("/demo/s")).expect(200);
        assert_eq!(answer.text(), "ab");
        answer.has(&[("stream-snapshot-offset", end)]).lacks(&["stream-retained-offset"]);
    }
    server.send(get(format!("/demo/s/snapshot/{}", ends[0]))).problem(404, "SNAPSHOT_NOT_FOUND");
}

#[test]
fn retention_is_a_step_of_its_own() {
    let server = Headwater::start();
    let ends = server.text_stream("/demo/s", &["a", "b", "c"]);
    server.publish(&format!("/demo/s/snapshot/{}", ends[1]), "ab");
    let retained = server.send(put(format!("/demo/s/retention/{}", ends[0]))).expect(204);
    retained.has(&[("stream-retained-offset", &ends[0])]);
    server.send(get("/demo/s?offset=-1")).problem(410, "OFFSET_TRIMMED");
    assert_eq!(server.send(get(format!("/demo/s?offset={}", ends[0]))).expect(200).text(), "bc");
}

#[test]
fn the_offset_is_the_token_of_twenty_digits() {
    let server = Headwater::start();
    let ends = server.text_stream("/demo/s", &["a"]);
    assert_eq!(ends[0], "00000000000000000001");
    for bad in ["-1", "now", "+1", "1x", "0x1", "000000000000000000001", "1.0", "%201"] {
        server.send(put(format!("/demo/s/snapshot/{bad}")).text("")).problem(400, "INVALID_OFFSET");
    }
    let answer = server.send(put(format!("/demo/s/snapshot/{}", ends[0])).text("")).expect(204);
    answer.has(&[("stream-snapshot-offset", &ends[0])]);
}

#[test]
fn a_record_ordinal_is_resolved_to_its_boundary() {
    let server = Headwater::start();
    let ends = server.json_stream("/demo/s", &["[1,2]", "\"three\""]);
    for (record, at) in [(0, offset(0)), (1, offset(2)), (2, ends[0].clone()), (3, ends[1].clone())]
    {
        let answer = server.send(put(format!("/demo/s/snapshot?record={record}")).text("x"));
        answer.expect(204).has(&[("stream-snapshot-offset", &at)]);
    }
    server.send(put("/demo/s/snapshot?record=4").text("x")).problem(409, "OFFSET_BEYOND_TAIL");
    for bad in ["record=-1", "record=now", "record=", "record=1&record=1", ""] {
        let answer = server.send(put(format!("/demo/s/snapshot?{bad}")).text("x"));
        assert_eq!(answer.status, 400, "{bad}");
    }
}

#[test]
fn a_snapshot_has_a_content_type_of_its_own() {
    let server = Headwater::start();
    let ends = server.json_stream("/demo/s", &["1", "2"]);
    let path = |at: &str| format!("/demo/s/snapshot/{at}");
    server.send(put(path(&ends[0])).typed("image/png", "x")).expect(204);
    server.send(get(path(&ends[0]))).expect(200).has(&[("content-type", "image/png")]);
    server.send(head("/demo/s")).expect(200).has(&[("content-type", "application/json")]);
    server.send(put(path(&ends[1])).body("x")).expect(204);
    let read = server.send(get(path(&ends[1]))).expect(200);
    read.has(&[("content-type", "application/octet-stream")]);
}

#[test]
fn a_publish_can_depend_on_the_visible_digest() {
    let server = Headwater::start();
    let ends = server.text_stream("/demo/s", &["a", "b", "c"]);
    let publish = |at: usize, digest: &str| {
        let path = format!("/demo/s/snapshot/{}", ends[at]);
        server.send(put(path).header("Stream-Snapshot-Match", digest).text("x"))
    };
    publish(0, "ab").problem(409, "SNAPSHOT_MATCH_FAILED").lacks(&["stream-snapshot-digest"]);
    let digest = server.publish(&format!("/demo/s/snapshot/{}", ends[0]), "first");
    publish(1, &digest).expect(204);
    let refused = publish(2, &digest).problem(409, "SNAPSHOT_MATCH_FAILED");
    refused.has(&[("stream-snapshot-offset", &ends[1])]);
}

#[test]
fn a_body_of_more_than_128_mib_is_413() {
    let server = Headwater::start();
    let ends = server.text_stream("/demo/s", &["a"]);
    let mut connection = server.connect();
    let declared = put(format!("/demo/s/snapshot/{}", ends[0]))
        .header("Content-Length", 128 * 1024 * 1024 + 1);
    connection.send(&declared);
    let refused = connection.answer("PUT").problem(413, "BODY_TOO_LARGE");
    assert_eq!(refused.value()["limit"], 128 * 1024 * 1024);
}

#[test]
fn publishing_answers_as_listed() {
    let server = Headwater::start();
    let ends = server.text_stream("/demo/s", &["abc", "d", "e"]);
    let publish = |at: &str| server.send(put(format!("/demo/s/snapshot/{at}")).text("x"));
    publish("abc").problem(400, "INVALID_OFFSET");
    let bad_type = put("/demo/s/snapshot/0").typed("no media type", "x");
    server.send(bad_type).problem(400, "INVALID_CONTENT_TYPE");
    publish(&offset(6)).problem(409, "OFFSET_BEYOND_TAIL");
    publish(&ends[1]).expect(204);
    publish(&ends[0]).problem(409, "SNAPSHOT_STALE").has(&[("stream-snapshot-offset", &ends[1])]);
    server.send(put(format!("/demo/s/retention/{}", ends[0]))).expect(204);
    publish("0").problem(410, "OFFSET_TRIMMED");
    server.send(put("/demo/missing/snapshot/0").text("x")).problem(404, "STREAM_NOT_FOUND");
    let past = put("/demo/expired").header("Stream-Expires-At", "2000-01-01T00:00:00Z");
    server.send(past.text("")).expect(201);
    server.send(put("/demo/expired/snapshot/0").text("x")).problem(404, "STREAM_NOT_FOUND");
}

#[test]
fn a_repeat_is_idempotent_and_other_content_conflicts() {
    let server = Headwater::start();
    let ends = server.text_stream("/demo/s", &["a", "b"]);
    let path = format!("/demo/s/snapshot/{}", ends[0]);
    let first = server.send(put(&path).text("x")).expect(204);
    let digest = first.need("stream-snapshot-digest").to_owned();
    let facts = [
        ("stream-next-offset", ends[1].as_str()),
        ("stream-snapshot-offset", &ends[0]),
        ("stream-snapshot-digest", &digest),
    ];
    first.has(&facts);
    server.send(put(&path).text("x")).expect(204).has(&facts);
    let other_body = server.send(put(&path).text("y")).problem(409, "SNAPSHOT_CONFLICT");
    other_body.has(&facts[1..]);
    let other_type = server.send(put(&path).typed("text/html", "x"));
    other_type.problem(409, "SNAPSHOT_CONFLICT");
    assert_eq!(server.send(get(&path)).expect(200).text(), "x");
}

#[test]
fn the_example_works_as_printed() {
    let server = Headwater::start();
    server.text_stream("/demo/hello", &[&"x".repeat(42)]);
    let example = put("/demo/hello/snapshot/00000000000000000042")
        .json("{\"state\": \"aggregated snapshot data\"}");
    server.send(example).expect(204);
}

#[test]
fn the_boundary_is_monotonic_aligned_and_covered() {
    let server = Headwater::start();
    let ends = server.text_stream("/demo/s", &["ab", "cd", "ef"]);
    let retain = |at: &str| server.send(put(format!("/demo/s/retention/{at}")));
    retain(&ends[0]).problem(409, "RETENTION_NEEDS_SNAPSHOT");
    server.publish(&format!("/demo/s/snapshot/{}", ends[1]), "x");
    retain(&ends[2]).problem(409, "RETENTION_BEYOND_SNAPSHOT");
    retain("3").problem(400, "OFFSET_NOT_A_BOUNDARY");
    retain(&ends[1]).expect(204);
    let back = retain(&ends[0]).problem(409, "RETENTION_BACKWARDS");
    back.has(&[("stream-retained-offset", &ends[1])]);
    retain(&ends[1]).expect(204).has(&[("stream-retained-offset", &ends[1])]);
}

#[test]
fn retention_takes_a_record_ordinal() {
    let server = Headwater::start();
    let ends = server.json_stream("/demo/s", &["1", "2", "3"]);
    server.publish("/demo/s/snapshot?record=2", "x");
    let retain = |record: &str| server.send(put(format!("/demo/s/retention?record={record}")));
    retain("1").expect(204).has(&[("stream-retained-offset", &ends[0])]);
    retain("0").problem(409, "RETENTION_BACKWARDS");
    retain("3").problem(409, "RETENTION_BEYOND_SNAPSHOT");
    retain("4").problem(409, "RETENTION_BEYOND_SNAPSHOT");
    retain("x").problem(400, "INVALID_QUERY");
    server.send(head("/demo/s")).expect(200).has(&[("stream-record-first", "1")]);
}

#[test]
fn a_snapshot_can_be_verified_before_history_goes() {
    let server = Headwater::start();
    let ends = server.text_stream("/demo/s", &["a", "b"]);
    let path = format!("/demo/s/snapshot/{}", ends[1]);
    let digest = server.publish(&path, "ab");
    // History and snapshot are both there to compare.
    assert_eq!(server.send(get("/demo/s")).expect(200).body, server.send(get(&path)).body);
    server.send(get(&path)).expect(200).has(&[("stream-snapshot-digest", &digest)]);
    server.send(put(format!("/demo/s/retention/{}", ends[1]))).expect(204);
    server.send(get("/demo/s")).problem(410, "OFFSET_TRIMMED");
    assert_eq!(server.send(get(&path)).expect(200).text(), "ab");
}

#[test]
fn only_the_visible_snapshot_exists_and_it_stays() {
    let server = Headwater::start();
    let ends = server.text_stream("/demo/s", &["a", "b"]);
    let path = |at: &str| format!("/demo/s/snapshot/{at}");
    server.send(delete(path(&ends[0]))).problem(404, "SNAPSHOT_NOT_FOUND");
    server.publish(&path(&ends[0]), "x");
    server.send(delete(path(&ends[0]))).problem(409, "SNAPSHOT_VISIBLE");
    server.send(delete(path(&ends[1]))).problem(404, "SNAPSHOT_NOT_FOUND");
    server.send(delete(path("x"))).problem(400, "INVALID_OFFSET");
}

#[test]
fn every_sentence_names_a_test_that_exists() {
    crate::support::check_table(include_str!("seed_003.rs"), include_str!("seed_003.rs"));
}
