//! Limits on what goes on at a time and how often: who is refused, who is not, and what is said.

use std::num::NonZeroU32;

use headwater_server::auth::{RootKey, Rules};
use headwater_server::limits::Rate;

use crate::support::{Answer, Headwater, Request, delete, eventually, get, head, post, put};

fn rate(per_second: u32, burst: u32) -> Rate {
    let number = |n| NonZeroU32::new(n).unwrap();
    Rate { per_second: number(per_second), burst: number(burst) }
}

/// Asks until it is refused.
fn until_limited(mut ask: impl FnMut() -> Answer) -> Answer {
    let limited = (0..100).map(|_| ask()).find(|answer| answer.status == 429);
    limited.expect("a hundred requests are more than may be")
}

#[test]
fn an_address_without_a_key_is_limited_for_itself_and_told_when_to_come_back() {
    let server = Headwater::with(|config| config.limits.rate = Some(rate(1, 5)));
    let refused = until_limited(|| server.send(get("/demo")));
    let refused = refused.problem(429, "RATE_LIMITED");
    assert_eq!(refused.value()["limit"], 1);
    assert_eq!(refused.value()["limit_name"], "max-request-rate");
    assert!((1..=2).contains(&refused.need("retry-after").parse::<u32>().unwrap()));
    // One more address of this machine is one more client.
    server.connect_from([127, 0, 0, 2]).round(&get("/demo")).expect(200);
    // A probe is always answered.
    for _ in 0..20 {
        server.send(get("/-/healthz")).expect(200);
    }
    // After that time there is room again.
    eventually("a token comes back", || server.send(get("/demo")).status == 200);
}

#[test]
fn a_burst_is_let_through_whole() {
    let server = Headwater::with(|config| config.limits.rate = Some(rate(1, 50)));
    let mut connection = server.connect();
    for _ in 0..50 {
        connection.round(&get("/demo")).expect(200);
    }
    until_limited(|| connection.round(&get("/demo")));
}

#[test]
fn each_key_has_a_rate_of_its_own_and_guessing_counts_for_the_address() {
    let root = "r".repeat(40);
    let server = Headwater::with(|config| {
        config.limits.rate = Some(rate(1, 8));
        config.auth = Some(Rules { root: RootKey::new(&root), ..Rules::default() });
    });
    let with = |request: Request, key: &str| {
        server.send(request.header("Authorization", format!("Bearer {key}")))
    };
    let key = post("/-/keys").json("{\"scopes\":[\"demo:read\"]}");
    let token = with(key, &root).expect(201).value()["token"].as_str().unwrap().to_owned();
    with(get("/demo"), &token).expect(200);
    until_limited(|| with(get("/demo"), &token)).problem(429, "RATE_LIMITED");
    // The root key and the address are others.
    with(get("/demo"), &root).expect(200);
    server.send(get("/demo")).problem(401, "UNAUTHORIZED");
    until_limited(|| with(get("/demo"), "not a key"));
    until_limited(|| server.send(get("/demo")));
    with(get("/demo"), &root).expect(200);
}

#[test]
fn writes_are_shed_before_reads_and_all_are_told_to_come_back() {
    let server = Headwater::with(|config| config.limits.requests_max = 4);
    server.create("/demo/s", "text/plain", "");
    let append = post("/demo/s").header("Content-Type", "text/plain").header("Content-Length", 4);
    let mut writers: Vec<_> = (0..3).map(|_| server.connect()).collect();
    for writer in &mut writers {
        // Each is inside once it is told to go on.
        writer.send(&append.clone().header("Expect", "100-continue"));
        assert_eq!(writer.answer_head().status, 100);
    }
    let refused = server.send(post("/demo/s").text("more")).problem(503, "OVERLOADED");
    assert_eq!(refused.need("retry-after"), "1");
    assert_eq!(refused.value()["limit"], 3);
    assert_eq!(refused.value()["limit_name"], "max-requests");
    server.send(get("/demo/s")).expect(200);
    server.send(head("/demo/s")).expect(200);
    server.send(delete("/demo/s")).problem(503, "OVERLOADED");
    for writer in &mut writers {
        writer.write(b"done");
        writer.answer("POST").expect(204);
    }
    server.send(post("/demo/s").text("more")).expect(204);
    assert_eq!(server.send(get("/demo/s")).text(), "donedonedonemore");
}

#[test]
fn live_readers_are_limited_over_all_and_do_not_count_as_requests() {
    let server = Headwater::with(|config| {
        config.limits.requests_max = 2;
        config.limits.live_readers_max = Some(3);
        config.sse_max_duration = std::time::Duration::from_mins(1);
    });
    server.create("/demo/s", "text/plain", "");
    server.create("/demo/t", "text/plain", "");
    // A head that is here means that a place is taken.
    let mut readers = ["/demo/s", "/demo/t", "/demo/s"]
        .map(|at| server.sse(&format!("{at}?offset=now&live=sse")));
    for mode in ["sse", "long-poll"] {
        let refused = server.send(get(format!("/demo/t?offset=0&live={mode}")));
        let refused = refused.problem(503, "OVERLOADED");
        assert_eq!(refused.value()["limit_name"], "max-live-readers");
        assert_eq!(
            (refused.value()["limit"].clone(), refused.need("retry-after")),
            (3.into(), "1")
        );
    }
    // Others are served, more of them than there may be requests at a time.
    server.append("/demo/s", "text/plain", "x");
    for at in [0, 2] {
        assert_eq!(readers[at].control()["upToDate"], true);
        assert_eq!(readers[at].pair().0, "x");
    }
    drop(readers);
    eventually("their places are free", || {
        let mut reader = server.connect();
        reader.send(&get("/demo/s?offset=0&live=sse"));
        reader.answer_head().status == 200
    });
}

#[test]
fn live_readers_of_a_stream_are_limited() {
    let server = Headwater::with(|config| {
        config.limits.stream_readers_max = Some(1);
        config.sse_max_duration = std::time::Duration::from_mins(1);
    });
    server.create("/demo/s", "text/plain", "");
    server.create("/demo/t", "text/plain", "");
    let reader = server.sse("/demo/s?offset=now&live=sse");
    for mode in ["sse", "long-poll"] {
        let refused = server.send(get(format!("/demo/s?offset=now&live={mode}")));
        let refused = refused.problem(429, "TOO_MANY_READERS");
        assert_eq!(refused.value()["limit_name"], "max-stream-readers");
        assert_eq!(
            (refused.value()["limit"].clone(), refused.need("retry-after")),
            (1.into(), "1")
        );
    }
    drop(server.sse("/demo/t?offset=now&live=sse"));
    server.send(get("/demo/s")).expect(200);
    // Appending tells the server that the reader has gone.
    drop(reader);
    eventually("its place is free", || {
        server.append("/demo/s", "text/plain", "x");
        server.send(get("/demo/s?offset=-1&live=long-poll")).status == 200
    });
}

#[test]
fn without_settings_nobody_is_limited() {
    let server = Headwater::start();
    server.send(put("/demo/s").text("x")).expect(201);
    let mut connection = server.connect();
    for _ in 0..500 {
        connection.round(&get("/demo/s")).expect(200);
    }
}
