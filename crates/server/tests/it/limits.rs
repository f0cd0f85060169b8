//! Limits (`extensions.md` §10): what is refused when, and that it says so.

use std::thread;
use std::time::Duration;

use crate::support::{Headwater, delete, eventually, get, head, offset, post, put};

#[test]
fn a_body_over_the_append_limit_is_413_declared_or_not() {
    let server = Headwater::with(|config| config.append_bytes_max = 1000);
    server.create("/demo/s", "text/plain", "");
    let over = "x".repeat(1001);
    for request in [post("/demo/s").text(&over), put("/demo/new").text(&over)] {
        for request in [request.clone(), request.chunked()] {
            let refused = server.send(request).problem(413, "BODY_TOO_LARGE");
            assert_eq!(refused.value()["limit"], 1000);
        }
    }
    server.send(get("/demo/new")).problem(404, "STREAM_NOT_FOUND");
    // A declared length is enough: the body need not come.
    let mut announcing = server.connect();
    announcing
        .send(&post("/demo/s").header("Content-Type", "text/plain").header("Content-Length", 5000));
    announcing.answer("POST").problem(413, "BODY_TOO_LARGE");
    for exact in [post("/demo/s").text(&over[1..]), post("/demo/s").text(&over[1..]).chunked()] {
        server.send(exact).expect(204);
    }
    assert_eq!(server.send(head("/demo/s")).next_offset(), offset(2000));
}

#[test]
fn a_body_that_stops_arriving_is_408() {
    let server = Headwater::with(|config| config.body_timeout = Duration::from_millis(100));
    server.create("/demo/s", "text/plain", "");
    for path in ["/demo/s", "/demo/s/append-batch"] {
        let mut slow = server.connect();
        slow.send(&post(path).header("Content-Type", "text/plain").header("Content-Length", 10));
        slow.write(b"half");
        slow.answer("POST").problem(408, "BODY_TIMEOUT").check_problem();
    }
    let mut slow = server.connect();
    slow.send(&put("/demo/s/snapshot/0").header("Content-Length", 10));
    slow.write(b"half");
    slow.answer("PUT").problem(408, "BODY_TIMEOUT");
    assert_eq!(server.send(head("/demo/s")).next_offset(), offset(0));
}

#[test]
fn a_body_whose_framing_breaks_is_400_and_appends_nothing() {
    let server = Headwater::start();
    server.create("/demo/s", "text/plain", "");
    let mut broken = server.connect();
    broken.send(
        &post("/demo/s")
            .header("Content-Type", "text/plain")
            .header("Transfer-Encoding", "chunked"),
    );
    broken.write(b"4\r\nhalf\r\nno length\r\n");
    broken.answer("POST").problem(400, "BROKEN_BODY").check_problem();
    let mut cut = server.connect();
    cut.send(&post("/demo/s").header("Content-Type", "text/plain").header("Content-Length", 10));
    cut.write(b"half");
    cut.finish_writing();
    let rest = cut.rest();
    assert!(rest.is_empty() || rest.starts_with(b"HTTP/1.1 400"));
    assert_eq!(server.send(head("/demo/s")).next_offset(), offset(0));
}

#[test]
fn too_many_bodies_at_once_are_503_and_may_come_again() {
    let server = Headwater::with(|config| config.body_bytes_in_flight_max = 64 * 1024);
    server.create("/demo/s", "text/plain", "");
    let refused = server.send(post("/demo/s").text("x".repeat(100_000)));
    refused.problem(503, "OVERLOADED").need("retry-after");
    // One that holds its share keeps others out until it is done.
    let mut holding = server.connect();
    let announced =
        post("/demo/s").header("Content-Type", "text/plain").header("Content-Length", 60_000);
    holding.send(&announced.header("Expect", "100-continue"));
    assert_eq!(holding.answer_head().status, 100);
    holding.write(&vec![b'x'; 59_999]);
    // Until all of this has arrived, a few of the others may still fit.
    let (other, mut fitted) = (|| server.send(post("/demo/s").text("y".repeat(10_000))), 0);
    eventually("the others are kept out", || {
        let answer = other();
        fitted += u64::from(answer.status == 204);
        answer.status == 503
    });
    other().problem(503, "OVERLOADED").need("retry-after");
    holding.write(b"x");
    holding.answer("POST").expect(204);
    other().expect(204);
    let all = 60_000 + (fitted + 1) * 10_000;
    assert_eq!(server.send(head("/demo/s")).next_offset(), offset(all));
}

#[test]
fn without_room_on_the_disk_writes_are_507_and_what_frees_room_is_not() {
    let mut server = Headwater::start();
    server.text_stream("/demo/s", &["ab"]);
    server.publish("/demo/s/snapshot/2", "x");
    server.restart_with(|config| config.disk_reserve = Some(u64::MAX));
    for refused in [
        post("/demo/s").text("cd"),
        put("/demo/new").text(""),
        put("/demo/s/snapshot/2").text("y"),
        put("/demo/s/attrs").json("{\"a\":1}"),
        post("/demo/s/append-batch").text(b"\0\0\0\x01x"),
    ] {
        let answer = server.send(refused);
        // A snapshot's conflict may be found before its bytes are stored.
        assert!(
            answer.status == 507 || answer.value()["code"] == "SNAPSHOT_CONFLICT",
            "{answer:?}"
        );
        if answer.status == 507 {
            let answer = answer.problem(507, "DISK_FULL");
            assert_eq!(answer.value()["effect"], "not-applied");
        }
    }
    assert_eq!(server.send(get("/demo/s")).expect(200).text(), "ab");
    server.send(put("/demo/s/retention/2")).expect(204);
    server.send(post("/demo/s").header("Stream-Closed", "true")).expect(204);
    server.send(delete("/demo/s")).expect(204);
}

#[test]
fn a_stream_remembers_ten_thousand_producers() {
    let server = Headwater::start();
    server.create("/demo/s", "text/plain", "");
    thread::scope(|scope| {
        for worker in 0..20 {
            let server = &server;
            scope.spawn(move || {
                let mut connection = server.connect();
                for n in 0..500 {
                    let append = post("/demo/s")
                        .header("Producer-Id", format!("{worker}-{n}"))
                        .header("Producer-Epoch", 0)
                        .header("Producer-Seq", 0);
                    connection.round(&append.text("x")).expect(200);
                }
            });
        }
    });
    let one_more = |id: &str, seq: u32| {
        let append = post("/demo/s").header("Producer-Id", id).header("Producer-Epoch", 0);
        server.send(append.header("Producer-Seq", seq).text("x"))
    };
    one_more("another", 0).problem(429, "PRODUCER_LIMIT").need("retry-after");
    // Those that are known go on.
    one_more("0-0", 1).expect(200);
    assert_eq!(server.send(head("/demo/s")).next_offset(), offset(10_001));
}

#[test]
fn a_head_that_does_not_arrive_ends_the_connection() {
    let server = Headwater::with(|config| config.header_timeout = Duration::from_millis(100));
    let mut slow = server.connect();
    slow.write(b"GET /demo HTTP/1.1\r\nHost: ");
    let rest = slow.rest();
    assert!(rest.is_empty() || rest.starts_with(b"HTTP/1.1 4"));
}
