//! Creating, appending and closing: statuses and codes that the public suite only sees from afar.

use crate::support::{Answer, Headwater, Request, get, head, offset, post, put};

fn stamped(request: Request, epoch: u64, seq: u64) -> Request {
    let request = request.header("Producer-Id", "p").header("Producer-Epoch", epoch);
    request.header("Producer-Seq", seq)
}

fn produce(server: &Headwater, epoch: u64, seq: u64) -> Answer {
    server.send(stamped(post("/demo/s").text(format!("{epoch}.{seq};")), epoch, seq))
}

#[test]
fn an_append_is_refused_in_the_order_of_the_protocol() {
    let server = Headwater::start();
    server.create("/demo/s", "text/plain", "ab");
    let append = || post("/demo/s");
    server.send(post("/demo/none").body("x")).problem(404, "STREAM_NOT_FOUND");
    server.send(append()).problem(400, "EMPTY_BODY");
    server.send(append().text("")).problem(400, "EMPTY_BODY");
    server.send(stamped(append().text(""), 0, 0)).problem(400, "EMPTY_BODY");
    server.send(append().header("Stream-Closed", "yes").text("")).problem(400, "EMPTY_BODY");
    server.send(append().body("x")).problem(400, "CONTENT_TYPE_MISSING");
    server.send(append().json("x")).problem(409, "CONTENT_TYPE_MISMATCH");
    server.send(append().typed("TEXT/Plain;a=b", "cd")).expect(204);
    server.send(append().header("Stream-Seq", "b").text("ef")).expect(204);
    for late in ["b", "a", "B"] {
        let refused = server.send(append().header("Stream-Seq", late).text("x"));
        let detail = refused.problem(409, "STREAM_SEQ_CONFLICT").value()["detail"].to_string();
        assert!(detail.contains("sequence"), "a client matches on this word: {detail}");
    }
    server.send(append().header("Stream-Closed", "TRUE")).expect(204);
    let closed = [("stream-closed", "true"), ("stream-next-offset", &*offset(6))];
    server.send(append().text("x")).problem(409, "STREAM_CLOSED").has(&closed);
    server.send(append().json("{")).problem(409, "STREAM_CLOSED").has(&closed);
    server.send(append().header("Stream-Closed", "true").text("x")).problem(409, "STREAM_CLOSED");
    server.send(append().header("Stream-Closed", "true")).expect(204).has(&closed);
    assert_eq!(server.send(get("/demo/s")).expect(200).text(), "abcdef");
}

#[test]
fn producers_are_fenced_gapped_and_repeated_with_their_headers() {
    let server = Headwater::start();
    server.create("/demo/s", "text/plain", "");
    produce(&server, 1, 5).problem(409, "PRODUCER_GAP").has(&[("producer-expected-seq", "0")]);
    let first = produce(&server, 1, 0).expect(200);
    first.has(&[
        ("producer-epoch", "1"),
        ("producer-seq", "0"),
        ("stream-next-offset", &offset(4)),
    ]);
    produce(&server, 1, 1).expect(200);
    let gap = produce(&server, 1, 3).problem(409, "PRODUCER_GAP");
    gap.has(&[("producer-expected-seq", "2"), ("producer-received-seq", "3")]);
    produce(&server, 0, 9).problem(403, "PRODUCER_FENCED").has(&[("producer-epoch", "1")]);
    produce(&server, 2, 1).problem(400, "PRODUCER_EPOCH_START");
    server.append("/demo/s", "text/plain", "other;");
    // A repeat names the tail and the highest accepted number, not its own.
    let repeated = produce(&server, 1, 0).expect(204);
    repeated.has(&[
        ("producer-epoch", "1"),
        ("producer-seq", "1"),
        ("stream-next-offset", &offset(14)),
    ]);
    produce(&server, 2, 0).expect(200).has(&[("producer-epoch", "2"), ("producer-seq", "0")]);
    produce(&server, 1, 2).problem(403, "PRODUCER_FENCED").has(&[("producer-epoch", "2")]);
    assert_eq!(server.send(get("/demo/s")).expect(200).text(), "1.0;1.1;other;2.0;");
}

#[test]
fn a_producers_close_repeats_for_that_producer_only() {
    let server = Headwater::start();
    server.create("/demo/s", "text/plain", "");
    let close = |epoch, seq, body: &str| {
        let close = post("/demo/s").header("Stream-Closed", "true").text(body);
        server.send(stamped(close, epoch, seq))
    };
    produce(&server, 0, 0).expect(200);
    close(0, 1, "end").expect(200).has(&[("stream-closed", "true"), ("producer-seq", "1")]);
    let again = close(0, 1, "another end").expect(204);
    again.has(&[("stream-closed", "true"), ("producer-seq", "1")]);
    let closed = [("stream-closed", "true"), ("stream-next-offset", &*offset(7))];
    close(0, 2, "").problem(409, "STREAM_CLOSED").has(&closed);
    produce(&server, 0, 0).problem(409, "STREAM_CLOSED").has(&closed);
    assert_eq!(server.send(get("/demo/s")).expect(200).text(), "0.0;end");
}

#[test]
fn exactly_once_survives_a_restart() {
    let mut server = Headwater::start();
    server.create("/demo/s", "text/plain", "");
    produce(&server, 0, 0).expect(200);
    server.send(post("/demo/s").header("Stream-Seq", "m").text("x")).expect(204);
    server.restart();
    produce(&server, 0, 0).expect(204);
    produce(&server, 0, 1).expect(200);
    let late = server.send(post("/demo/s").header("Stream-Seq", "l").text("x"));
    late.problem(409, "STREAM_SEQ_CONFLICT");
    assert_eq!(server.send(get("/demo/s")).expect(200).text(), "0.0;x0.1;");
}

#[test]
fn of_equal_appends_at_once_exactly_one_is_stored() {
    let server = Headwater::start();
    server.create("/demo/s", "text/plain", "");
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for seq in 0..10 {
                    // Whoever is late repeats; whoever is early meets a gap and tries again.
                    while produce(&server, 0, seq).status == 409 {}
                }
            });
        }
    });
    let expected: String = (0..10).map(|seq| format!("0.{seq};")).collect::<Vec<_>>().concat();
    assert_eq!(server.send(get("/demo/s")).expect(200).text(), expected);
}

#[test]
fn a_creation_is_repeated_or_refused_by_its_configuration() {
    let server = Headwater::start();
    let created = server.create("/demo/s", "Text/Plain; charset=utf-8", "ab");
    created
        .has(&[("content-type", "Text/Plain; charset=utf-8"), ("stream-next-offset", &offset(2))]);
    server.append("/demo/s", "text/plain", "cd");
    let again = server.send(put("/demo/s").typed("TEXT/plain", "other body")).expect(200);
    again.has(&[("stream-next-offset", &offset(4))]).lacks(&["location", "stream-closed"]);
    for differs in [
        put("/demo/s").json(""),
        put("/demo/s"),
        put("/demo/s").text("").header("Stream-TTL", "60"),
        put("/demo/s").text("").header("Stream-Expires-At", "2040-01-01T00:00:00Z"),
        put("/demo/s").text("").header("Stream-Closed", "true"),
        put("/demo/s").text("").header("Stream-Attrs", "{\"a\":1}"),
        put("/demo/s").text("").header("Stream-Forked-From", "/demo/s"),
    ] {
        server.send(differs).problem(409, "STREAM_EXISTS");
    }
    assert_eq!(server.send(get("/demo/s")).expect(200).text(), "abcd");
    let closed = || put("/demo/c").header("Stream-Closed", "true").text("all");
    server.send(closed()).expect(201).has(&[("stream-closed", "true")]);
    server.send(closed()).expect(200).has(&[("stream-closed", "true")]);
    server.send(put("/demo/c").text("all")).problem(409, "STREAM_EXISTS");
    server.send(head("/demo/c")).expect(200).has(&[("stream-closed", "true")]);
}

#[test]
fn a_refused_creation_leaves_nothing_behind() {
    let server = Headwater::start();
    for refused in [
        put("/demo/s").json("{"),
        put("/demo/s").typed("x", ""),
        put("/demo/s").header("Stream-TTL", "x"),
        put("/demo/s").header("Stream-Attrs", "[]"),
        put("/demo/s").header("Stream-Forked-From", "/demo/none"),
        put("/demo/s").header("Content-Encoding", "gzip").text("x"),
    ] {
        let answer = server.send(refused);
        assert!((400..500).contains(&answer.status), "{answer:?}");
        server.send(get("/demo/s")).problem(404, "STREAM_NOT_FOUND");
    }
    assert_eq!(server.send(get("/demo")).value()["streams"], 0);
}

#[test]
fn no_answer_echoes_a_body() {
    let server = Headwater::start();
    server.create("/demo/s", "application/json", "");
    let secret = "{\"password\": hunter2}";
    for (path, request) in [
        ("append", post("/demo/s").json(secret)),
        ("create", put("/demo/new").json(secret)),
        ("attrs", put("/demo/s/attrs").json(secret)),
        ("batch", post("/demo/s/append-batch").json(secret)),
    ] {
        let answer = server.send(request);
        assert_eq!(answer.status, 400, "{path}");
        assert!(!answer.text().contains("hunter2"), "{path}: {}", answer.text());
    }
}
