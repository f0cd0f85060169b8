//! Bodies of requests: what is too large, too slow, cut short or refused early leaves no trace.

use std::io::Write as _;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{Headwater, Wire, eventually, request};

/// The head of an append of `len` bytes of text.
fn head(path: &str, len: usize) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nHost: test\r\nContent-Type: text/plain\r\n\
         Content-Length: {len}\r\n\r\n"
    )
}

const CHUNKED: &str = "Content-Type: text/plain\r\nTransfer-Encoding: chunked\r\n";

#[test]
fn a_truncated_append_leaves_no_trace() {
    let server = Headwater::start();
    server.create("/demo/x");
    let chunked = String::from_utf8(request("POST", "/demo/x", CHUNKED, b"")).unwrap();
    for bytes in [
        head("/demo/x", 10) + "only",
        head("/demo/x", 100_000) + &"x".repeat(99_999),
        chunked.clone() + "4\r\nonly\r\n",
        chunked + "4\r\nonly\r\n0\r\n",
    ] {
        for close in [true, false] {
            let mut wire = server.connect();
            wire.send(&bytes);
            if close {
                wire.half_close();
                if let Some(answer) = wire.next("POST") {
                    assert!(answer.problem(400, "BROKEN_BODY").closes());
                }
                wire.ended();
            }
        }
    }
    let publish = "Content-Type: text/plain\r\nContent-Length: 100\r\n";
    let mut wire = server.connect();
    wire.send(request("PUT", "/demo/x/snapshot/0", publish, b""));
    wire.send(b"too short");
    wire.half_close();
    if let Some(answer) = wire.next("PUT") {
        answer.expect(400);
    }
    assert_eq!(server.content("/demo/x"), "");
    server.ask("GET", "/demo/x/snapshot", "", b"").expect(404);
    blobs(&server, 0);
}

/// The bodies of refused snapshots leave the disk: so many are left.
#[track_caller]
fn blobs(server: &Headwater, left: usize) {
    let count = || std::fs::read_dir(server.config.data_dir.join("blob")).unwrap().count();
    eventually("no other blob", Duration::from_secs(5), || count() == left);
}

#[test]
fn a_client_that_leaves_while_its_append_is_decided_gets_all_of_it_or_nothing() {
    let server = Headwater::start();
    server.create("/demo/x");
    let body = "0123456789".repeat(2000);
    for round in 0..50 {
        let mut wire = server.connect();
        let mut bytes = head("/demo/x", body.len()) + &body;
        bytes.truncate(bytes.len() - usize::from(round % 2 == 0));
        wire.send(bytes);
        drop(wire);
    }
    let content = server.content("/demo/x");
    assert_eq!(content.len() % body.len(), 0);
    assert_eq!(content, body.repeat(content.len() / body.len()));
}

#[test]
fn a_snapshot_that_is_refused_when_its_client_has_left_leaves_no_orphan() {
    let server = Headwater::start();
    server.create("/demo/x");
    let text = "Content-Type: text/plain\r\n";
    server.ask("PUT", "/demo/x/snapshot/0", text, b"visible").expect(204);
    // Another body at the same offset: refused, but only when it is stored and its digest known.
    let other = vec![b'o'; 100_000];
    for round in 0..60 {
        let mut wire = server.connect();
        wire.send(request("PUT", "/demo/x/snapshot/0", text, &other));
        // Leaves at another moment each time: while the body is read, stored, or decided upon.
        thread::sleep(Duration::from_micros(100 * round));
    }
    server.ask("PUT", "/demo/x/snapshot/0", text, &other).problem(409, "SNAPSHOT_CONFLICT");
    blobs(&server, 1);
}

#[test]
fn a_body_past_its_limit_is_413_before_or_as_soon_as_it_passes() {
    let server = Headwater::with(|config| {
        config.append_bytes_max = 1000;
        config.snapshot_bytes_max = 2000;
    });
    server.create("/demo/x");
    for (method, path, limit) in [
        ("POST", "/demo/x", 1000),
        ("PUT", "/demo/new", 1000),
        ("POST", "/demo/x/append-batch", 1000),
        ("PUT", "/demo/x/snapshot/0", 2000),
        ("PUT", "/demo/x/attrs", 16 * 1024),
    ] {
        let media = if path.ends_with("attrs") { "application/json" } else { "text/plain" };
        // Declared: refused though not a byte of it was sent.
        for declared in [limit + 1, usize::MAX / 4] {
            let fields = format!("Content-Type: {media}\r\nContent-Length: {declared}\r\n");
            let answer = server.ask(method, path, &fields, b"").problem(413, "BODY_TOO_LARGE");
            assert!(answer.text().contains(&format!("\"limit\":{limit}")), "{}", answer.text());
            assert!(answer.closes(), "{path}");
        }
        // Chunked: refused when it passes, though it would go on for ever.
        let mut wire = server.connect();
        let fields = format!("Content-Type: {media}\r\nTransfer-Encoding: chunked\r\n");
        wire.send(request(method, path, &fields, b""));
        while wire.send(format!("200\r\n{}\r\n", "x".repeat(512))) {}
        if let Some(answer) = wire.next(method) {
            answer.problem(413, "BODY_TOO_LARGE");
        }
    }
    assert_eq!(server.content("/demo/x"), "");
    server.ask("GET", "/demo/new", "", b"").expect(404);
    server.ask("GET", "/demo/x/snapshot", "", b"").expect(404);
    blobs(&server, 0);
    // At the limit exactly all is well.
    let fits = "x".repeat(1000);
    server.ask("POST", "/demo/x", "Content-Type: text/plain\r\n", fits.as_bytes()).expect(204);
}

#[test]
fn an_early_refusal_reaches_a_client_that_is_still_sending() {
    let server = Headwater::with(|config| config.append_bytes_max = 1024 * 1024);
    server.create("/demo/x");
    let body = vec![b'x'; 8 * 1024 * 1024];
    for (path, status) in [("/demo/x", 413), ("/demo/none", 404), ("/none/x", 404)] {
        let mut wire = server.connect();
        wire.send(head(path, body.len()));
        // Writes all of it before it looks: the refusal must outlive that.
        assert!(wire.send(&body), "cut while sending");
        wire.answer("POST").expect(status);
        wire.ended();
    }
}

#[test]
fn reading_on_after_a_refusal_is_bounded() {
    let server = Headwater::with(|config| config.append_bytes_max = 1000);
    server.create("/demo/x");
    let mut wire = server.connect();
    wire.send(head("/demo/x", 1 << 40));
    let begun = Instant::now();
    let piece = vec![b'x'; 64 * 1024];
    let mut sent = 0_usize;
    while wire.socket().write_all(&piece).is_ok() {
        sent += piece.len();
        assert!(begun.elapsed() < Duration::from_secs(10), "still reading");
    }
    assert!(sent < 64 * 1024 * 1024, "{sent} bytes were taken");
    // Nor does it last when nothing comes.
    let mut wire = server.connect();
    wire.send(head("/demo/x", 1 << 40));
    wire.answer("POST").expect(413);
    wire.ended();
    eventually("a reset", Duration::from_secs(10), || !wire.send(b"x"));
}

#[test]
fn a_body_that_makes_no_progress_is_408_and_nothing_is_applied() {
    let limit = Duration::from_millis(400);
    let server = Headwater::with(|config| config.body_timeout = limit);
    server.create("/demo/x");
    for path in ["/demo/x", "/demo/x/append-batch"] {
        let mut wire = server.connect();
        wire.send(head(path, 100) + "half");
        let answer = wire.answer("POST").problem(408, "BODY_TIMEOUT");
        assert!(answer.closes());
        wire.ended();
    }
    let mut wire = server.connect();
    let fields = "Content-Length: 100\r\n";
    wire.send(request("PUT", "/demo/x/snapshot/0", fields, b""));
    wire.answer("PUT").problem(408, "BODY_TIMEOUT");
    // A byte now and then is no progress.
    let mut wire = server.connect();
    wire.send(head("/demo/x", 1000));
    let begun = Instant::now();
    while wire.send(b"x") && begun.elapsed() < Duration::from_secs(10) {
        thread::sleep(Duration::from_millis(50));
    }
    assert!(begun.elapsed() < Duration::from_secs(10), "a trickle was waited for");
    assert_eq!(server.content("/demo/x"), "");
    blobs(&server, 0);
}

#[test]
fn bodies_beyond_the_memory_for_all_of_them_are_503_and_others_go_on() {
    let server = Headwater::with(|config| {
        config.body_bytes_in_flight_max = 256 * 1024;
        config.body_timeout = Duration::from_mins(1);
    });
    server.create("/demo/x");
    // Holds 200 KiB by having sent them.
    let mut holder = server.connect();
    let len = 200 * 1024 + 1;
    let expect =
        format!("Content-Type: text/plain\r\nContent-Length: {len}\r\nExpect: 100-continue\r\n");
    holder.send(request("POST", "/demo/x", &expect, b""));
    assert_eq!(holder.head().status, 100);
    holder.send(vec![b'a'; len - 1]);
    let big = vec![b'b'; 100 * 1024];
    let text = "Content-Type: text/plain\r\n";
    eventually("what was sent has arrived", Duration::from_secs(10), || {
        server.ask("POST", "/demo/x", text, &big).status == 503
    });
    let answer = server.ask("POST", "/demo/x", text, &big).problem(503, "OVERLOADED");
    assert!(answer.need("retry-after").parse::<u32>().unwrap() > 0);
    // A small one still fits, and what is held ends well.
    server.ask("POST", "/demo/x", text, b"small").expect(204);
    holder.send(b"z");
    holder.answer("POST").expect(204);
    server.ask("POST", "/demo/x", text, &big).expect(204);
    let content = server.content("/demo/x");
    assert!(content.ends_with("az") || content.contains("az"), "the held body is whole");
}

#[test]
fn what_a_body_promises_takes_no_memory_from_others() {
    const IDLE: usize = 200;
    // In proportion what there is by default, where sixteen thousand may be connected.
    let server = Headwater::with(|config| {
        config.body_bytes_in_flight_max = 4 * 1024 * 1024;
        config.body_timeout = Duration::from_mins(1);
    });
    server.create("/demo/x");
    let idle: Vec<Wire> = (0..IDLE)
        .map(|number| {
            let mut wire = server.connect();
            // Whether little was promised, or much.
            let promised = if number % 2 == 0 { 32 * 1024 * 1024 } else { 64 * 1024 };
            let expect = "Expect: 100-continue\r\nContent-Type: text/plain\r\n";
            let length = format!("{expect}Content-Length: {promised}\r\n");
            wire.send(request("POST", "/demo/x", &length, b""));
            assert_eq!(wire.head().status, 100);
            wire.send(b"x");
            wire
        })
        .collect();
    let text = "Content-Type: text/plain\r\n";
    server.ask("POST", "/demo/x", text, &vec![b'y'; 1024 * 1024]).expect(204);
    drop(idle);
}

#[test]
fn bodies_of_concurrent_requests_never_mix() {
    const CLIENTS: usize = 64;
    let server = Headwater::start();
    let barrier = Barrier::new(CLIENTS);
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (server, barrier) = (&server, &barrier);
            scope.spawn(move || {
                let path = format!("/demo/s{client}");
                server.create(&path);
                let mut wire = server.connect();
                barrier.wait();
                let mut expected = String::new();
                for round in 0..8 {
                    let body = format!("<{client}:{round}>").repeat(1 + client * 37 + round * 501);
                    if round % 2 == 0 {
                        let text = "Content-Type: text/plain\r\n";
                        wire.ask("POST", &path, text, body.as_bytes()).expect(204);
                    } else {
                        wire.send(request("POST", &path, CHUNKED, b""));
                        for piece in body.as_bytes().chunks(1 + client * 91) {
                            wire.send(format!("{:x}\r\n", piece.len()));
                            wire.send(piece);
                            wire.send(b"\r\n");
                        }
                        wire.send(b"0\r\n\r\n");
                        wire.answer("POST").expect(204);
                    }
                    expected += &body;
                }
                assert_eq!(wire.ask("GET", &path, "", b"").expect(200).text(), expected);
            });
        }
    });
}
