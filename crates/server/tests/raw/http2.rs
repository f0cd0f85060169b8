//! HTTP/2 on a plain port: what holds for connections holds for streams.

use std::io::{ErrorKind, Write as _};
use std::time::{Duration, Instant};

use tokio::net::TcpStream;

use crate::child::Process;
use crate::multiplex::{
    Client, END_HEADERS, END_STREAM, Frames, PREFACE, fields, frame, get, kind, next, run, until,
};
use crate::support::{Headwater, Wire, eventually};

const TEXT: (&str, &str) = ("content-type", "text/plain");

/// A stream of text with this in it.
async fn fill(client: &mut Client, path: &str, body: &[u8]) {
    client.ask("PUT", path, &[TEXT], body).await.expect(201);
}

#[test]
fn a_plain_port_speaks_http_2_to_whoever_begins_with_its_preface() {
    let server = Headwater::start();
    run(async {
        let mut client = Client::open(server.address()).await;
        let created = client.ask("PUT", "/demo/x", &[TEXT], b"text").await.expect(201);
        let location = format!("http://{}/demo/x", server.address());
        assert_eq!(created.headers["location"], location.as_str());
        client.ask("POST", "/demo/x", &[TEXT], b"more").await.expect(204);
        let read = client.ask("GET", "/demo/x", &[], b"").await.expect(200);
        assert_eq!(
            (read.text().as_str(), &read.headers["content-length"]),
            ("textmore", &"8".parse().unwrap())
        );
        let head = client.ask("HEAD", "/demo/x", &[], b"").await.expect(200);
        assert!(head.body.is_empty());
    });
    assert_eq!(server.content("/demo/x"), "textmore");
}

#[test]
fn a_preface_may_come_byte_by_byte() {
    let server = Headwater::start();
    let mut wire = Wire::open(server.address());
    for byte in PREFACE.iter().chain(&frame(kind::SETTINGS, 0, 0, &[])) {
        wire.send([*byte]);
        std::thread::sleep(Duration::from_millis(2));
    }
    let mut head = [0; 9];
    std::io::Read::read_exact(&mut wire.socket(), &mut head).unwrap();
    assert_eq!(head[3], kind::SETTINGS);
}

#[test]
fn what_begins_like_http_2_and_is_not_carries_no_request() {
    let server = Headwater::start();
    for begin in ["PRI * HTTP/2.0\r\n\r\nSM", "PRI * HTTP/1.1\r\nHost: test\r\n\r\n", "PRI\r\n"] {
        let mut wire = server.connect();
        wire.send(begin);
        wire.send(b"PUT /demo/x HTTP/1.1\r\nHost: test\r\nContent-Type: text/plain\r\n\r\n");
        let mut rest = Vec::new();
        // It ends, with a reset or without; the server's own settings may have left before.
        drop(std::io::Read::read_to_end(&mut wire.socket(), &mut rest));
        assert!(!rest.starts_with(b"HTTP/1.1 2"), "{rest:?}");
        server.ask("GET", "/demo/x", "", b"").expect(404);
    }
}

#[test]
fn a_client_that_leaves_within_the_first_bytes_is_let_go() {
    let server = Headwater::start();
    for begin in ["", "P", "PR", "PRI"] {
        let mut wire = server.connect();
        wire.send(begin);
        wire.half_close();
        let mut rest = Vec::new();
        drop(std::io::Read::read_to_end(&mut wire.socket(), &mut rest));
        assert!(!rest.starts_with(b"HTTP/1.1 2"), "{rest:?}");
    }
}

#[test]
fn requests_of_http_1_may_come_byte_by_byte_though_they_begin_with_the_same_letter() {
    let server = Headwater::start();
    let mut wire = server.connect();
    for byte in b"PUT /demo/x HTTP/1.1\r\nHost: test\r\nContent-Type: text/plain\r\n\r\n" {
        wire.send([*byte]);
        std::thread::sleep(Duration::from_millis(2));
    }
    wire.answer("PUT").expect(201);
}

#[test]
fn fifty_live_readers_on_one_connection_see_every_append_and_end_with_the_drain() {
    let mut server = Process::start("drain=4000 sse=600000", "");
    run(async {
        let mut client = Client::open(server.address()).await;
        fill(&mut client, "/demo/x", b"").await;
        let mut readers = Vec::new();
        for _ in 0..50 {
            let answer = client.begin("/demo/x?offset=now&live=sse").await;
            assert_eq!(answer.status(), 200);
            let mut body = answer.into_body();
            until(&mut body, "event: control").await;
            readers.push(body);
        }
        for number in 0..5 {
            let body = format!("<{number}>");
            client.ask("POST", "/demo/x", &[TEXT], body.as_bytes()).await.expect(204);
            for reader in &mut readers {
                until(reader, &body).await;
            }
        }
        server.terminate();
        for reader in &mut readers {
            let mut last = String::new();
            while let Some(piece) = next(reader).await {
                last.push_str(str::from_utf8(&piece).unwrap());
            }
            assert!(last.contains("streamNextOffset"), "{last:?}");
        }
        client.ended().await.unwrap();
    });
    assert!(server.ended(Duration::from_secs(5)).success());
}

#[test]
fn a_drain_waits_for_an_append_in_flight_and_says_goaway() {
    let mut server = Process::start("drain=4000", "");
    server.ask("PUT", "/demo/x", "Content-Type: text/plain\r\n", b"text").expect(201);
    let mut frames = Frames::open(server.address(), &[]);
    let post = fields(&[
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", "test"),
        (":path", "/demo/x"),
        TEXT,
    ]);
    frames.send(frame(kind::HEADERS, END_HEADERS, 1, &post));
    frames.send(frame(kind::DATA, 0, 1, b"half"));
    frames.send(frame(kind::PING, 0, 0, b"whatever"));
    frames.expect(kind::PING);
    server.terminate();
    assert_eq!(frames.expect(kind::GOAWAY).code(), 0);
    frames.send(frame(kind::DATA, END_STREAM, 1, b"half"));
    let answer = frames.expect(kind::HEADERS);
    assert_eq!((answer.stream, answer.flags & END_STREAM), (1, END_STREAM));
    // The server has asked by a ping whether more is on its way; nothing is.
    assert_eq!(frames.ended().unwrap_or(0), 0);
    assert!(server.ended(Duration::from_secs(6)).success());
}

#[test]
fn a_stream_ends_where_a_connection_would_and_no_answer_says_close() {
    let server = Headwater::with(|config| config.append_bytes_max = 10);
    run(async {
        let mut client = Client::open(server.address()).await;
        fill(&mut client, "/demo/x", b"").await;
        let refused = client.ask("POST", "/demo/x", &[TEXT], &[b'x'; 11]).await.expect(413);
        assert!(!refused.headers.contains_key("connection"));
        let live = client.begin("/demo/x?offset=now&live=sse").await;
        assert!(!live.headers().contains_key("connection"));
        assert!(!live.headers().contains_key("transfer-encoding"));
        client.ask("POST", "/demo/x", &[TEXT], b"small").await.expect(204);
    });
}

#[test]
fn what_a_request_is_about_is_said_once() {
    let server = Headwater::start();
    server.create("/demo/x");
    let line = [(":method", "GET"), (":scheme", "http"), (":path", "/demo/x")];
    let with = |more: &[(&'static str, &'static str)]| fields(&[&line[..], more].concat());
    let accepted = [
        with(&[(":authority", "test")]),
        with(&[(":authority", "test"), ("host", "TEST")]),
        with(&[("host", "test")]),
    ];
    for block in accepted {
        assert_eq!(answer_to(&server, &block), Ok(200), "{block:?}");
    }
    let refused = [
        with(&[]),
        with(&[(":authority", "test"), ("host", "other")]),
        with(&[(":authority", "test"), ("host", "test"), ("host", "other")]),
        with(&[(":authority", "user@test")]),
        with(&[(":authority", "te/st")]),
        with(&[("host", "test"), ("host", "test")]),
    ];
    for block in refused {
        assert_ne!(answer_to(&server, &block), Ok(200), "{block:?}");
    }
    // What is malformed (RFC 9113 §8.1.1) is no request at all.
    let malformed = [
        with(&[(":authority", "test"), ("connection", "close")]),
        with(&[(":authority", "test"), ("transfer-encoding", "chunked")]),
        with(&[(":authority", "test"), ("upgrade", "h2c")]),
        with(&[(":authority", "test"), ("te", "gzip")]),
        with(&[(":authority", "test"), ("X-Upper", "x")]),
        with(&[(":authority", "test"), ("x", "a\r\nhost: other")]),
        with(&[(":authority", "test"), (":authority", "test")]),
        with(&[(":authority", "test"), (":path", "/demo/y")]),
        with(&[(":authority", "test"), (":unknown", "x")]),
        with(&[("x", "y"), (":authority", "test")]),
        with(&[(":authority", "test"), ("content-length", "5")]),
        fields(&[(":method", "GET"), (":scheme", "http"), (":authority", "test")]),
    ];
    for block in malformed {
        let answer = answer_to(&server, &block);
        assert!(
            matches!(answer, Err(_) | Ok(400)),
            "{answer:?}: {}",
            String::from_utf8_lossy(&block)
        );
    }
}

/// The status of the answer to a request without a body, or the error that its stream, or the
/// connection, ends with.
fn answer_to(server: &Headwater, block: &[u8]) -> Result<u16, u32> {
    let mut frames = Frames::open(server.address(), &[]);
    frames.send(frame(kind::HEADERS, END_HEADERS | END_STREAM, 1, block));
    loop {
        let received = frames.next().expect("the connection ended without a word");
        match received.kind {
            kind::RST_STREAM | kind::GOAWAY => return Err(received.code()),
            kind::HEADERS => return Ok(status(&received.payload)),
            _ => {}
        }
    }
}

/// The status at the start of a block: by its number in the static table (RFC 7541, appendix A), or
/// as three digits.
fn status(block: &[u8]) -> u16 {
    match block[0] {
        0x88 => 200,
        0x8c => 400,
        0x8e => 500,
        // Compressed digits: which they are does not matter here.
        _ => 999,
    }
}

#[test]
fn a_head_that_is_too_large_is_refused_and_the_connection_goes_on() {
    let server = Headwater::with(|config| config.header_bytes_max = 16 * 1024);
    run(async {
        let mut client = Client::open(server.address()).await;
        let long = "x".repeat(20 * 1024);
        let reply = client.ask("GET", "/demo", &[("x-long", long.as_str())], b"").await;
        assert_eq!(reply.status, 431);
        client.ask("GET", "/demo", &[], b"").await.expect(200);
    });
}

#[test]
fn more_streams_than_there_may_be_wait_and_more_than_all_may_have_are_refused() {
    let server = Headwater::with(|config| {
        config.http2_connection_streams_max = 4;
        config.http2_streams_max = 5;
        config.sse_max_duration = Duration::from_mins(10);
    });
    run(async {
        let mut first = Client::open(server.address()).await;
        fill(&mut first, "/demo/x", b"").await;
        let mut readers = Vec::new();
        for _ in 0..4 {
            readers.push(first.begin("/demo/x?offset=now&live=sse").await.into_body());
        }
        // A fifth one is held back by the client itself.
        let fifth = tokio::time::timeout(Duration::from_millis(300), first.begin("/demo/x")).await;
        assert!(fifth.is_err(), "a fifth stream was opened");
        let mut second = Client::open(server.address()).await;
        readers.push(second.begin("/demo/x?offset=now&live=sse").await.into_body());
        let refused = second.ask("GET", "/demo/x", &[], b"").await.expect(503);
        assert_eq!(refused.headers["retry-after"], "1");
        drop(readers);
        let deadline = Instant::now() + Duration::from_secs(10);
        while second.ask("GET", "/demo/x", &[], b"").await.status != 200 {
            assert!(Instant::now() < deadline, "no stream became free");
        }
    });
}

#[test]
fn a_reader_that_takes_nothing_is_cut_and_its_neighbours_are_not() {
    let server = Headwater::with(|config| {
        config.slow_reader_timeout = Duration::from_millis(600);
        config.sse_max_duration = Duration::from_mins(10);
    });
    run(async {
        let mut client = Client::open(server.address()).await;
        fill(&mut client, "/demo/big", &vec![b'x'; 8 << 20]).await;
        fill(&mut client, "/demo/x", b"").await;
        let mut lively = client.begin("/demo/x?offset=now&live=sse").await.into_body();
        let mut stuck = client.begin("/demo/big").await.into_body();
        let cut = async {
            // Read what has come, but make no room for more.
            loop {
                match stuck.data().await {
                    Some(Ok(_)) => {}
                    Some(Err(error)) => break error,
                    None => panic!("the whole answer came through a window of one MiB"),
                }
            }
        };
        let error = cut.await;
        assert!(error.is_reset() && error.is_remote(), "{error:?}");
        client.ask("POST", "/demo/x", &[TEXT], b"<still here>").await.expect(204);
        until(&mut lively, "<still here>").await;
    });
}

#[test]
fn answers_that_are_complete_for_us_and_never_taken_end_their_connection() {
    let server = Process::start("slow=500", "");
    server.ask("PUT", "/demo/x", "Content-Type: text/plain\r\n", &[b'x'; 9000]).expect(201);
    // Streams with room for one byte.
    let mut frames = Frames::open(server.address(), &[(4, 1)]);
    for stream in 0..50 {
        let id = stream * 2 + 1;
        frames.send(frame(kind::HEADERS, END_HEADERS | END_STREAM, id, &get("/demo/x")));
    }
    let mut ended = false;
    let deadline = Instant::now() + Duration::from_secs(10);
    while !ended {
        assert!(Instant::now() < deadline, "still there");
        ended = frames.next().is_none();
    }
}

#[test]
fn an_answer_that_has_become_too_old_is_cut_though_bytes_are_taken() {
    let server = Process::start("slow=30000 response=1500 sse=1000", "");
    server.ask("PUT", "/demo/x", "Content-Type: text/plain\r\n", b"text").expect(201);
    let snapshot = vec![b'b'; 32 << 20];
    server.ask("PUT", "/demo/x/snapshot/4", "Content-Type: text/plain\r\n", &snapshot).expect(204);
    run(async {
        let mut client = Client::open(server.address()).await;
        let begun = Instant::now();
        let mut body = client.begin("/demo/x/snapshot/4").await.into_body();
        let error = loop {
            match body.data().await.expect("the whole answer came") {
                Ok(piece) => body.flow_control().release_capacity(piece.len()).unwrap(),
                Err(error) => break error,
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        };
        assert!(error.is_reset(), "{error:?}");
        let age = begun.elapsed();
        assert!(age > Duration::from_millis(1400) && age < Duration::from_secs(8), "{age:?}");
        client.ask("GET", "/demo/x", &[], b"").await.expect(200);
    });
}

#[test]
fn an_append_that_was_sent_whole_is_done_though_its_stream_is_reset() {
    let server = Headwater::start();
    server.create("/demo/x");
    let mut frames = Frames::open(server.address(), &[]);
    let post = fields(&[
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", "test"),
        (":path", "/demo/x"),
        TEXT,
    ]);
    frames.send(frame(kind::HEADERS, END_HEADERS, 1, &post));
    frames.send(frame(kind::DATA, END_STREAM, 1, b"whole"));
    frames.send(frame(kind::PING, 0, 0, b"whatever"));
    frames.expect(kind::PING);
    frames.send(frame(kind::RST_STREAM, 0, 1, &8_u32.to_be_bytes()));
    eventually("it is appended", Duration::from_secs(10), || server.content("/demo/x") == "whole");
}

#[test]
fn a_connection_without_streams_is_told_to_leave_and_one_without_a_preface_is_closed() {
    let server = Headwater::with(|config| {
        config.header_timeout = Duration::from_millis(400);
        config.slow_reader_timeout = Duration::from_millis(400);
    });
    let mut frames = Frames::open(server.address(), &[]);
    assert_eq!(frames.expect(kind::GOAWAY).code(), 0);
    assert_eq!(frames.ended().unwrap_or(0), 0);
    let mut silent = Wire::open(server.address());
    silent.send(b"PRI * HTTP/2.0\r\n");
    let mut rest = Vec::new();
    let ended = std::io::Read::read_to_end(&mut silent.socket(), &mut rest);
    assert!(ended.is_ok() || ended.is_err_and(|error| error.kind() == ErrorKind::ConnectionReset));
}

#[test]
fn settings_beyond_what_the_protocol_knows_are_cut_to_it() {
    let server = Headwater::with(|config| {
        config.http2_window_bytes = u32::MAX;
        config.http2_send_bytes_max = usize::MAX;
        config.http2_ping_interval = Duration::ZERO;
    });
    run(async {
        let mut client = Client::open(server.address()).await;
        client.ask("GET", "/demo", &[], b"").await.expect(200);
    });
}

#[test]
fn a_body_that_stops_half_way_is_given_up_and_its_stream_alone() {
    let server = Headwater::with(|config| config.body_timeout = Duration::from_millis(300));
    server.create("/demo/x");
    let mut frames = Frames::open(server.address(), &[]);
    let post = fields(&[
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", "test"),
        (":path", "/demo/x"),
        TEXT,
    ]);
    frames.send(frame(kind::HEADERS, END_HEADERS, 1, &post));
    frames.send(frame(kind::DATA, 0, 1, b"half"));
    assert_eq!(frames.expect(kind::HEADERS).stream, 1);
    frames.send(frame(kind::HEADERS, END_HEADERS | END_STREAM, 3, &get("/demo/x")));
    assert_eq!(status(&frames.expect(kind::HEADERS).payload), 200);
    assert_eq!(server.content("/demo/x"), "");
}

#[test]
fn five_thousand_streams_one_after_another_leave_nothing_behind() {
    let server = Process::start("", "");
    server.ask("PUT", "/demo/x", "Content-Type: text/plain\r\n", b"text").expect(201);
    run(async {
        let mut client = Client::open(server.address()).await;
        let mut before = 0;
        for round in 0..120 {
            let mut answers = Vec::new();
            for _ in 0..50 {
                answers.push(client.send("GET", "/demo/x", &[], b"").await);
            }
            for answer in answers {
                let mut body = answer.await.unwrap().into_body();
                while next(&mut body).await.is_some() {}
            }
            if round == 20 {
                before = server.memory();
            }
        }
        let grown = server.memory().saturating_sub(before);
        assert!(grown < 4 << 20, "{} KiB more", grown >> 10);
    });
}

#[test]
fn a_client_that_speaks_http_1_first_cannot_go_on_in_http_2() {
    let server = Headwater::start();
    let mut wire = server.connect();
    wire.ask("GET", "/demo", "", b"").expect(200);
    wire.send(PREFACE);
    // Whatever it is answered, it is not frames.
    let mut rest = Vec::new();
    drop(std::io::Read::read_to_end(&mut wire.socket(), &mut rest));
    assert!(rest.is_empty() || rest.starts_with(b"HTTP/1.1 4"), "{rest:?}");
    drop(wire.socket().write_all(b"x"));
}

#[test]
fn a_small_window_slows_only_its_own_connection() {
    let server = Process::start("slow=60000 sse=600000", "");
    server.ask("PUT", "/demo/x", "Content-Type: text/plain\r\n", b"x").expect(201);
    let fill = || {
        let piece = vec![b'x'; 64 << 10];
        let mut wire = server.connect();
        for _ in 0..512 {
            wire.ask("POST", "/demo/x", "Content-Type: text/plain\r\n", &piece).expect(204);
        }
    };
    fill();
    let before = server.memory();
    run(async {
        let mut clients = Vec::new();
        for _ in 0..4 {
            let socket = TcpStream::connect(server.address()).await.unwrap();
            let mut client = Client::with_window(socket, "test", 10).await;
            let mut answers = Vec::new();
            for _ in 0..50 {
                answers.push(client.begin("/demo/x?offset=now&live=sse").await);
            }
            clients.push((client, answers));
        }
        fill();
        let grown = server.memory().saturating_sub(before);
        // Some events of 128 KiB for each of 200 readers, of the 32 MiB that each could have.
        assert!(grown < 200 * 512 * 1024, "{} KiB more", grown >> 10);
    });
}
