//! Lifetimes (`extensions.md` §10): a stream is never gone early, and what renews its window.
//! Time itself is the subject here, so these tests wait.

use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::support::{Headwater, eventually, get, head, offset, post, put};

fn with_ttl(server: &Headwater, path: &str, seconds: u32) {
    server.send(put(path).header("Stream-TTL", seconds).json("[1,2]")).expect(201);
}

fn is_alive(server: &Headwater, path: &str) -> bool {
    server.send(head(path)).status == 200
}

/// The moment `ahead` from now, as `Stream-Expires-At` has it.
fn rfc3339(ahead: Duration) -> String {
    let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap() + ahead;
    let (days, second) = (at.as_secs() / 86_400, at.as_secs() % 86_400);
    let (mut year, mut day) = (1970, days);
    let is_leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    while day >= 365 + u64::from(is_leap(year)) {
        day -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let mut month = 1;
    for len in [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if day < len {
            break;
        }
        day -= len;
        month += 1;
    }
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let milli = at.subsec_millis();
    let day = day + 1;
    format!("{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
}

#[test]
fn a_window_is_never_short_and_asking_does_not_lengthen_it() {
    let server = Headwater::start();
    let begun = Instant::now();
    with_ttl(&server, "/demo/s", 1);
    // These requests would keep it for ever if they renewed it.
    eventually("it expires", || {
        let gone = !is_alive(&server, "/demo/s");
        server.send(get("/demo/streams"));
        server.send(get("/demo"));
        server.send(get("/demo/s/attrs"));
        gone
    });
    assert!(begun.elapsed() >= Duration::from_secs(1));
    // The first access that finds it expired is final; the name is free.
    server.send(get("/demo/s")).problem(404, "STREAM_NOT_FOUND");
    server.send(post("/demo/s").json("1")).problem(404, "STREAM_NOT_FOUND");
    server.create("/demo/s", "text/plain", "new");
}

#[test]
fn what_renews_a_window_and_what_does_not() {
    let server = Headwater::start();
    let etag = |path: &str| server.send(get(path)).expect(200).need("etag").to_owned();
    let (renewing, other) = (
        [
            "read",
            "not-modified",
            "empty-read",
            "snapshot",
            "redirect",
            "bootstrap",
            "append",
            "batch",
            "close",
            "re-put",
            "attrs",
            "publish",
            "retain",
            "fork-read",
            "long-poll",
        ],
        [
            "head",
            "listing",
            "attrs-read",
            "refused-append",
            "refused-read",
            "repeat",
            "head-bootstrap",
            "head-redirect",
            "refused-sse",
            "refused-poll",
        ],
    );
    let path = |name: &str| format!("/demo/{name}");
    let producer = |name: &str| {
        post(path(name))
            .header("Producer-Id", "p")
            .header("Producer-Epoch", 0)
            .header("Producer-Seq", 0)
            .json("3")
    };
    for name in renewing.iter().chain(&other) {
        with_ttl(&server, &path(name), 3);
        server.publish(&format!("/demo/{name}/snapshot/2"), "x");
    }
    server.send(producer("repeat")).expect(200);
    let tag = etag("/demo/not-modified");
    sleep(Duration::from_secs(2));
    // Less than three seconds after the creation, so that all of them are alive.
    server.send(get("/demo/read")).expect(200);
    server.send(get("/demo/not-modified").header("If-None-Match", tag)).expect(304);
    server.send(get("/demo/empty-read?offset=now")).expect(200);
    server.send(get("/demo/snapshot/snapshot/2")).expect(200);
    server.send(get("/demo/redirect/snapshot")).expect(307);
    server.send(get("/demo/bootstrap/bootstrap")).expect(200);
    server.append("/demo/append", "application/json", "3");
    let batch = post("/demo/batch/append-batch").json(b"\0\0\0\x011");
    server.send(batch).expect(200);
    server.send(post("/demo/close").header("Stream-Closed", "true")).expect(204);
    server.send(put("/demo/re-put").header("Stream-TTL", 3).json("[1,2]")).expect(200);
    server.send(put("/demo/attrs/attrs").json("{\"a\":1}")).expect(204);
    server.publish("/demo/publish/snapshot/4", "y");
    server.send(put("/demo/retain/retention/2")).expect(204);
    server.send(get("/demo/fork-read?record=1")).expect(200);
    server.send(get("/demo/long-poll?offset=0&live=long-poll")).expect(200);
    server.send(head("/demo/head")).expect(200);
    server.send(get("/demo/streams?prefix=listing")).expect(200);
    server.send(get("/demo/attrs-read/attrs")).expect(200);
    server.send(post("/demo/refused-append").json("{")).expect(400);
    server.send(get("/demo/refused-read?offset=1")).expect(400);
    server.send(producer("repeat")).expect(204);
    server.send(head("/demo/head-bootstrap/bootstrap")).expect(200);
    server.send(head("/demo/head-redirect/snapshot")).expect(307);
    server.send(get("/demo/refused-sse?offset=1&live=sse")).expect(400);
    server.send(get("/demo/refused-poll?offset=1&live=long-poll")).expect(400);
    sleep(Duration::from_secs(2));
    for name in renewing {
        assert!(is_alive(&server, &path(name)), "{name} renews");
    }
    for name in other {
        assert!(!is_alive(&server, &path(name)), "{name} does not renew");
    }
}

#[test]
fn while_a_live_reader_is_connected_the_window_does_not_run() {
    let server = Headwater::with(|config| {
        config.sse_max_duration = Duration::from_secs(30);
        config.long_poll_timeout = Duration::from_secs(2);
    });
    with_ttl(&server, "/demo/sse", 1);
    with_ttl(&server, "/demo/poll", 1);
    let sse = server.sse("/demo/sse?offset=now&live=sse");
    // A refusal does not renew, and neither does this wait: the reader holds the window open.
    let polled = server.send(get(format!("/demo/poll?offset={}&live=long-poll", offset(4))));
    polled.expect(204);
    assert!(is_alive(&server, "/demo/poll"), "the window begins anew when the reader leaves");
    assert!(is_alive(&server, "/demo/sse"));
    let left = Instant::now();
    drop(sse);
    eventually("both expire", || {
        !is_alive(&server, "/demo/sse") && !is_alive(&server, "/demo/poll")
    });
    assert!(left.elapsed() >= Duration::from_secs(1), "not before a whole window has passed");
}

#[test]
fn an_instant_is_moved_by_nothing() {
    let server = Headwater::start();
    let at = rfc3339(Duration::from_millis(1500));
    server.send(put("/demo/s").header("Stream-Expires-At", &at).text("a")).expect(201);
    let told = server.send(head("/demo/s")).expect(200);
    told.has(&[("stream-expires-at", &at)]);
    let begun = Instant::now();
    eventually("it expires", || {
        server.send(post("/demo/s").text("b"));
        server.send(get("/demo/s"));
        !is_alive(&server, "/demo/s")
    });
    assert!(begun.elapsed() < Duration::from_secs(5));
}

#[test]
fn live_readers_end_when_their_stream_expires() {
    let server = Headwater::with(|config| {
        config.sse_max_duration = Duration::from_secs(30);
        config.long_poll_timeout = Duration::from_secs(30);
    });
    let at = rfc3339(Duration::from_secs(1));
    server.send(put("/demo/s").header("Stream-Expires-At", &at).text("a")).expect(201);
    let mut sse = server.sse("/demo/s?offset=now&live=sse");
    let mut polling = server.connect();
    polling.send(&get("/demo/s?offset=1&live=long-poll"));
    assert_eq!(sse.control()["upToDate"], true);
    polling.answer("GET").problem(404, "STREAM_NOT_FOUND");
    sse.ends();
}

#[test]
fn lifetimes_that_cannot_be_read_are_400() {
    let server = Headwater::start();
    let create = |name: &str, value: &str| server.send(put("/demo/s").header(name, value).text(""));
    for bad in ["", "x", "-1", "060", "+60", "60.5", "1e3", "9007199254740992", "1 "] {
        if bad != "1 " {
            create("Stream-TTL", bad).problem(400, "INVALID_LIFETIME");
        }
    }
    for bad in ["", "x", "2030-01-01", "2030-01-01T00:00:00", "2030-13-01T00:00:00Z", "1893456000"]
    {
        create("Stream-Expires-At", bad).problem(400, "INVALID_LIFETIME");
    }
    let both = put("/demo/s")
        .header("Stream-TTL", "1")
        .header("Stream-Expires-At", "2030-01-01T00:00:00Z");
    server.send(both.text("")).problem(400, "INVALID_LIFETIME");
    create("Stream-TTL", "9007199254740991").expect(201);
    create("Stream-TTL", "60").problem(409, "STREAM_EXISTS");
    create("Stream-Expires-At", "2030-01-01T00:00:00Z").problem(409, "STREAM_EXISTS");
    server.send(put("/demo/s").text("")).problem(409, "STREAM_EXISTS");
    // Instants are compared, not their spelling.
    let spelled =
        |text: &str| server.send(put("/demo/t").header("Stream-Expires-At", text).text(""));
    spelled("2040-01-01T00:00:00Z").expect(201);
    spelled("2040-01-01T01:00:00.000+01:00").expect(200);
    spelled("2040-01-01T00:00:01Z").problem(409, "STREAM_EXISTS");
}

#[test]
fn head_tells_the_window_as_configured() {
    let server = Headwater::start();
    with_ttl(&server, "/demo/s", 3600);
    server.append("/demo/s", "application/json", "3");
    server.send(head("/demo/s")).expect(200).has(&[("stream-ttl", "3600")]);
}

#[test]
fn a_restart_does_not_shorten_a_life() {
    let mut server = Headwater::start();
    with_ttl(&server, "/demo/s", 2);
    sleep(Duration::from_secs(1));
    let renewed = Instant::now();
    server.send(get("/demo/s")).expect(200);
    server.restart();
    eventually("it expires", || !is_alive(&server, "/demo/s"));
    assert!(renewed.elapsed() >= Duration::from_secs(2));
}
