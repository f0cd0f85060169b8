//! Long-polls and SSE (base protocol §7 and §8, `extensions.md` §10): waiting, waking, ending.

use std::thread;
use std::time::{Duration, Instant};

use crate::support::{Headwater, LONG_POLL, delete, get, offset, post, put};

/// A server whose live reads end only when a test makes them.
fn patient() -> Headwater {
    Headwater::with(|config| {
        config.long_poll_timeout = Duration::from_secs(30);
        config.sse_max_duration = Duration::from_secs(30);
    })
}

#[test]
fn live_reads_need_a_start() {
    let server = Headwater::start();
    server.json_stream("/demo/s", &["1"]);
    for live in ["long-poll", "sse"] {
        server.send(get(format!("/demo/s?live={live}"))).problem(400, "INVALID_QUERY");
        server
            .send(get(format!("/demo/none?offset=-1&live={live}")))
            .problem(404, "STREAM_NOT_FOUND");
    }
    for bad in ["LONG-POLL", "SSE", "poll", "true", "", "long-poll%20"] {
        server.send(get(format!("/demo/s?offset=-1&live={bad}"))).problem(400, "INVALID_QUERY");
    }
}

#[test]
fn a_long_poll_answers_204_at_its_deadline_and_not_before() {
    let server = Headwater::start();
    server.text_stream("/demo/s", &["ab"]);
    let begun = Instant::now();
    let answer = server.send(get("/demo/s?offset=2&live=long-poll")).expect(204);
    assert!(begun.elapsed() >= LONG_POLL);
    let answer = answer.has(&[
        ("stream-next-offset", &offset(2)),
        ("stream-up-to-date", "true"),
        ("cache-control", "no-store"),
    ]);
    answer.need("stream-cursor").parse::<u64>().unwrap();
}

#[test]
fn a_long_poll_wakes_for_data_and_for_a_close() {
    let server = patient();
    server.text_stream("/demo/s", &["ab"]);
    let mut polling = server.connect();
    polling.send(&get("/demo/s?offset=2&live=long-poll"));
    server.append("/demo/s", "text/plain", "cd");
    let answer = polling.answer("GET").expect(200);
    assert_eq!((answer.text(), answer.need("stream-up-to-date")), ("cd", "true"));
    polling.send(&get("/demo/s?offset=4&live=long-poll"));
    // The close brings data, which comes with it.
    server.send(post("/demo/s").header("Stream-Closed", "true").text("ef")).expect(204);
    let answer = polling.answer("GET").expect(200);
    assert_eq!(answer.has(&[("stream-closed", "true")]).text(), "ef");
    polling.send(&get("/demo/s?offset=6&live=long-poll"));
    let closed = polling.answer("GET").expect(204);
    closed
        .has(&[("stream-closed", "true"), ("stream-up-to-date", "true")])
        .lacks(&["stream-cursor"]);
}

#[test]
fn a_cursor_moves_forward() {
    let server = Headwater::start();
    server.text_stream("/demo/s", &["ab"]);
    let cursor = |query: &str| -> u64 {
        let answer =
            server.send(get(format!("/demo/s?offset=0&live=long-poll{query}"))).expect(200);
        answer.need("stream-cursor").parse().unwrap()
    };
    let now = cursor("");
    assert!((now..=now + 1).contains(&cursor("&cursor=1")), "an old one is as good as none");
    assert!((now..=now + 1).contains(&cursor("&cursor=nonsense")));
    let ahead = now + 1000;
    let next = cursor(&format!("&cursor={ahead}"));
    assert!(next > ahead && next <= ahead + 180, "at most an hour of intervals: {next}");
    let control = server.sse(&format!("/demo/s?offset=0&live=sse&cursor={ahead}")).pair().1;
    assert!(control["streamCursor"].as_str().unwrap().parse::<u64>().unwrap() > ahead);
}

#[test]
fn appends_that_race_the_deadline_are_delivered_and_never_skipped() {
    let server = Headwater::with(|config| config.long_poll_timeout = Duration::from_millis(20));
    server.create("/demo/s", "text/plain", "");
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for n in 0..150 {
                server.append("/demo/s", "text/plain", format!("{n},"));
            }
        });
        let (mut next, mut text) = (offset(0), String::new());
        loop {
            let finished = writer.is_finished();
            let answer = server.send(get(format!("/demo/s?offset={next}&live=long-poll")));
            if answer.status == 204 {
                assert_eq!(answer.next_offset(), next, "nothing may be skipped");
                if finished {
                    break;
                }
            }
            text += answer.text();
            answer.next_offset().clone_into(&mut next);
        }
        let all: String = (0..150).map(|n| format!("{n},")).collect::<Vec<_>>().concat();
        assert_eq!(text, all);
    });
}

#[test]
fn live_readers_end_when_their_stream_is_deleted() {
    let server = patient();
    server.text_stream("/demo/s", &["ab"]);
    let mut sse = server.sse("/demo/s?offset=2&live=sse");
    sse.control();
    let mut polling = server.connect();
    polling.send(&get("/demo/s?offset=2&live=long-poll"));
    server.send(delete("/demo/s")).expect(204);
    polling.answer("GET").problem(404, "STREAM_NOT_FOUND");
    sse.ends();
    // With forks it is soft-deleted, which is 410.
    server.text_stream("/demo/s", &["ab"]);
    server.send(put("/demo/f").header("Stream-Forked-From", "/demo/s")).expect(201);
    let mut sse = server.sse("/demo/s?offset=2&live=sse");
    sse.control();
    let mut polling = server.connect();
    polling.send(&get("/demo/s?offset=2&live=long-poll"));
    server.send(delete("/demo/s")).expect(204);
    polling.answer("GET").problem(410, "STREAM_DELETED");
    sse.ends();
}

#[test]
fn a_live_reader_is_bound_to_its_incarnation() {
    let server = patient();
    server.text_stream("/demo/s", &["ab"]);
    let mut sse = server.sse("/demo/s?offset=2&live=sse");
    sse.control();
    server.send(delete("/demo/s")).expect(204);
    server.text_stream("/demo/s", &["other", "bytes"]);
    // None of the new stream's bytes: it just ends.
    sse.ends();
}

#[test]
fn sse_sends_what_a_close_brings_and_then_ends() {
    let server = patient();
    server.text_stream("/demo/s", &["ab"]);
    let mut sse = server.sse("/demo/s?offset=-1&live=sse");
    assert_eq!(sse.pair().0, "ab");
    server.send(post("/demo/s").header("Stream-Closed", "true").text("cd")).expect(204);
    let (data, control) = sse.pair();
    assert_eq!((&*data, &control["streamClosed"]), ("cd", &true.into()));
    assert!(control["streamCursor"].is_null());
    sse.ends();
    // At the end of a closed stream there is one control event.
    let mut late = server.sse("/demo/s?offset=now&live=sse");
    let control = late.control();
    assert_eq!((&control["streamClosed"], &control["upToDate"]), (&true.into(), &true.into()));
    assert_eq!(control["streamNextOffset"], offset(4));
    late.ends();
}

#[test]
fn a_close_without_data_is_told_once() {
    let server = patient();
    server.text_stream("/demo/s", &["ab"]);
    let mut sse = server.sse("/demo/s?offset=2&live=sse");
    assert!(sse.control()["streamClosed"].is_null());
    server.send(post("/demo/s").header("Stream-Closed", "true")).expect(204);
    assert_eq!(sse.control()["streamClosed"], true);
    sse.ends();
}

#[test]
fn an_idle_sse_sends_comments_and_no_events() {
    let server = Headwater::with(|config| {
        config.sse_keep_alive = Duration::from_millis(50);
        config.sse_max_duration = Duration::from_secs(1);
    });
    server.text_stream("/demo/s", &["ab"]);
    let begun = Instant::now();
    let mut sse = server.sse("/demo/s?offset=2&live=sse");
    sse.control();
    // Less up to a tenth of its longest life at random.
    sse.ends();
    let lived = begun.elapsed();
    assert!(lived >= Duration::from_millis(900), "{lived:?}");
    assert!((2..=20).contains(&sse.comments), "{} in {lived:?}", sse.comments);
}

#[test]
fn sse_head_says_that_nobody_may_keep_or_change_it() {
    let server = Headwater::start();
    server.json_stream("/demo/s", &["1"]);
    let sse = server.sse("/demo/s?offset=-1&live=sse");
    let cache = sse.head.need("cache-control");
    assert!(cache.contains("no-cache"), "{cache}");
    sse.head.clone().lacks(&["etag", "stream-sse-data-encoding"]);
    assert_eq!(sse.head.need("x-content-type-options"), "nosniff");
}

#[test]
fn a_drain_ends_long_polls_with_204_and_sse_in_good_order() {
    let mut server = Headwater::with(|config| {
        config.long_poll_timeout = Duration::from_secs(30);
        config.sse_max_duration = Duration::from_secs(30);
        config.drain_timeout = Duration::from_secs(10);
    });
    server.text_stream("/demo/s", &["ab"]);
    let mut sse = server.sse("/demo/s?offset=2&live=sse");
    sse.control();
    let mut polling = server.connect();
    polling.send(&get("/demo/s?offset=2&live=long-poll"));
    // Nothing tells from outside that a request is being waited on; a drain may refuse one that
    // it never saw.
    thread::sleep(Duration::from_millis(300));
    let reader = thread::spawn(move || polling.answer("GET"));
    server.restart();
    reader.join().unwrap().expect(204).has(&[("stream-next-offset", &offset(2))]);
    while let Some(event) = sse.next() {
        assert!(event.name == "data" || event.control()["streamNextOffset"].is_string());
    }
}

#[test]
fn many_readers_of_one_stream_all_get_everything() {
    let server = patient();
    server.create("/demo/s", "text/plain", "");
    let mut readers: Vec<_> = (0..20).map(|_| server.sse("/demo/s?offset=-1&live=sse")).collect();
    for n in 0..20 {
        server.append("/demo/s", "text/plain", format!("{n};"));
    }
    server.send(post("/demo/s").header("Stream-Closed", "true")).expect(204);
    let all: String = (0..20).map(|n| format!("{n};")).collect::<Vec<_>>().concat();
    for sse in &mut readers {
        let mut text = String::new();
        while let Some(event) = sse.next() {
            if event.name == "data" {
                text += &event.data;
            }
        }
        assert_eq!(text, all);
    }
}
