//! How many streams and bytes may be kept: what is refused, and that room comes back.

use crate::support::{Headwater, delete, eventually, get, head, post, put};

#[test]
fn a_bucket_has_as_many_streams_as_it_may_and_others_have_their_own() {
    let mut server = Headwater::with(|config| config.limits.quotas.bucket_streams_max = Some(2));
    server.send(put("/other")).expect(201);
    let full = |server: &Headwater| {
        let refused = server.send(put("/demo/c").text("x")).problem(409, "BUCKET_STREAM_LIMIT");
        assert_eq!(refused.value()["limit"], 2);
        assert_eq!(refused.value()["limit_name"], "max-bucket-streams");
        server.send(get("/demo/c")).expect(404);
    };
    server.create("/demo/a", "text/plain", "x");
    server.create("/demo/b", "text/plain", "x");
    full(&server);
    server.send(put("/demo/a").text("x")).expect(200);
    server.send(post("/demo/a").text("y")).expect(204);
    server.create("/other/a", "text/plain", "x");
    server.create("/v1/stream/a", "text/plain", "x");
    server.restart();
    full(&server);
    server.send(delete("/demo/a")).expect(204);
    server.create("/demo/c", "text/plain", "x");
}

#[test]
fn streams_that_only_forks_hold_count() {
    let server = Headwater::with(|config| config.limits.quotas.bucket_streams_max = Some(2));
    server.create("/demo/a", "text/plain", "x");
    server.send(put("/demo/fork").header("Stream-Forked-From", "/demo/a")).expect(201);
    server.send(delete("/demo/a")).expect(204);
    server.send(put("/demo/b").text("x")).problem(409, "BUCKET_STREAM_LIMIT");
    server.send(delete("/demo/fork")).expect(204);
    eventually("the last fork frees its source", || {
        server.send(put("/demo/b").text("x")).status == 201
    });
}

#[test]
fn the_server_has_as_many_streams_as_it_may_also_after_a_restart() {
    let mut server = Headwater::with(|config| config.limits.quotas.streams_max = Some(3));
    server.create("/demo/a", "text/plain", "x");
    server.create("/demo/b", "text/plain", "");
    server.create("/v1/stream/a", "text/plain", "x");
    for _ in 0..2 {
        let refused = server.send(put("/v1/stream/b").text("x")).problem(409, "STREAM_LIMIT");
        assert_eq!(refused.value()["limit_name"], "max-streams");
        assert_eq!(refused.value()["limit"], 3);
        server.restart();
    }
    server.send(delete("/demo/a")).expect(204);
    server.create("/v1/stream/b", "text/plain", "x");
    server.send(put("/demo/a").text("x")).problem(409, "STREAM_LIMIT");
}

#[test]
fn a_bucket_that_retains_its_bytes_takes_no_more_until_some_are_given_back() {
    let mut server = Headwater::with(|config| config.limits.quotas.bucket_bytes_max = Some(100));
    server.send(put("/other")).expect(201);
    server.create("/demo/s", "text/plain", "x".repeat(60));
    // The quota is soft: what crosses it is still taken.
    server.append("/demo/s", "text/plain", "x".repeat(60));
    let full = |server: &Headwater| {
        for request in [post("/demo/s").text("y"), put("/demo/t").text("y")] {
            let refused = server.send(request).problem(507, "BUCKET_BYTES_LIMIT");
            assert_eq!(refused.value()["limit"], 100);
            assert_eq!(refused.value()["limit_name"], "max-bucket-size");
        }
        let batch = server.send(post("/demo/s/append-batch").text(b"\0\0\0\x01x")).expect(200);
        assert_eq!(batch.value()[0]["code"], "BUCKET_BYTES_LIMIT");
        assert_eq!(server.send(head("/demo/s")).next_offset(), format!("{:020}", 120));
    };
    full(&server);
    server.create("/other/s", "text/plain", "x");
    server.restart();
    full(&server);
    // What gives bytes back is always taken, and closing adds none.
    server.publish("/demo/s/snapshot/60", "12");
    full(&server);
    server.send(put("/demo/s/retention/60")).expect(204);
    server.append("/demo/s", "text/plain", "x".repeat(37));
    server.append("/demo/s", "text/plain", "x");
    server.send(post("/demo/s").text("y")).problem(507, "BUCKET_BYTES_LIMIT");
    server.send(post("/demo/s").header("Stream-Closed", "true")).expect(204);
    server.send(delete("/demo/s")).expect(204);
    server.create("/demo/s", "text/plain", "x".repeat(99));
    server.send(post("/demo/s").text("y")).expect(204);
    server.send(post("/demo/s").text("y")).problem(507, "BUCKET_BYTES_LIMIT");
}

#[test]
fn a_fork_adds_its_own_bytes_only() {
    let server = Headwater::with(|config| config.limits.quotas.bucket_bytes_max = Some(100));
    server.create("/demo/s", "text/plain", "x".repeat(90));
    server.send(put("/demo/fork").header("Stream-Forked-From", "/demo/s")).expect(201);
    server.append("/demo/fork", "text/plain", "123456789");
    server.append("/demo/fork", "text/plain", "0");
    server.send(post("/demo/fork").text("y")).problem(507, "BUCKET_BYTES_LIMIT");
}
