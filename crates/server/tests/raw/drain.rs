//! The end of a server: what is open ends cleanly and soon.

use std::io::Write as _;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::child::Process;
use crate::support::{Wire, eventually, request};

const TEXT: &str = "Content-Type: text/plain\r\n";

/// The longest that a drain may take.
const SOON: Duration = Duration::from_secs(5);

#[test]
fn a_drain_with_a_thousand_live_readers_ends_each_with_a_control_event() {
    let mut server = Process::start("drain=4000 sse=600000", "");
    server.ask("PUT", "/demo/x", TEXT, b"text").expect(201);
    let mut readers: Vec<Wire> = (0..1000).map(|_| server.connect()).collect();
    for reader in &mut readers {
        reader.send(request("GET", "/demo/x?offset=now&live=sse", "", b""));
    }
    for reader in &mut readers {
        assert_eq!(reader.head().status, 200);
        reader.until("event: control");
        reader.until("\n\n");
    }
    let idle = server.ticks();
    std::thread::sleep(Duration::from_millis(500));
    assert!(server.ticks() - idle < 25, "a thousand idle readers keep the processor busy");
    let begun = Instant::now();
    server.terminate();
    for reader in &mut readers {
        let last = reader.until("\r\n0\r\n\r\n");
        assert!(last.contains("event: control") && last.contains("streamNextOffset"), "{last:?}");
    }
    drop(readers);
    assert!(server.ended(SOON).success());
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
}

#[test]
fn a_drain_waits_for_what_is_in_flight_and_takes_nothing_new() {
    let mut server = Process::start("drain=4000", "");
    server.ask("PUT", "/demo/x", TEXT, b"text").expect(201);
    let mut poll = server.connect();
    poll.send(request("GET", "/demo/x?offset=now&live=long-poll", "", b""));
    let mut append = server.connect();
    append.send(request(
        "POST",
        "/demo/x",
        "Content-Type: text/plain\r\nContent-Length: 8\r\n",
        b"",
    ));
    append.send(b"half");
    let mut idle = server.connect();
    idle.ask("GET", "/demo/x", "", b"").expect(200);
    let mut silent = server.connect();
    // Nothing tells that the poll and the append were read; another request on the same loop does.
    eventually("the requests are read", SOON, || {
        server.ask("GET", "/-/healthz", "", b"").status == 200 && server.descriptors() > 4
    });
    std::thread::sleep(Duration::from_millis(100));
    server.terminate();
    poll.answer("GET").expect(204);
    idle.ended();
    silent.ended();
    let refused = || TcpStream::connect(server.address()).is_err();
    eventually("new connections are refused", SOON, refused);
    append.send(b"half");
    let done = append.answer("POST").expect(204);
    assert!(done.closes());
    append.ended();
    assert!(server.ended(SOON).success());
}

#[test]
fn a_drain_does_not_wait_for_those_who_never_end() {
    let mut server = Process::start("drain=1000 body=600000 slow=600000", "");
    server.ask("PUT", "/demo/x", TEXT, b"text").expect(201);
    server.ask("PUT", "/demo/x/snapshot/4", TEXT, &vec![b'b'; 64 << 20]).expect(204);
    // A head, a body, and a reader that stop half-way.
    let mut stopped: Vec<Wire> = (0..3).map(|_| server.connect()).collect();
    stopped[0].send(b"GET /demo HTTP/1.1\r\nHost: te");
    let fields = "Content-Type: text/plain\r\nContent-Length: 8\r\n";
    stopped[1].send(request("POST", "/demo/x", fields, b""));
    stopped[2].send(request("GET", "/demo/x/snapshot/4", "", b""));
    assert_eq!(stopped[2].head().status, 200);
    server.terminate();
    assert!(server.ended(SOON).success());
}

#[test]
fn a_second_signal_ends_the_process_at_once() {
    let mut server = Process::start("drain=60000", "");
    let mut stuck = server.connect();
    stuck.send(request("PUT", "/demo/x", "Content-Length: 8\r\n", b""));
    std::thread::sleep(Duration::from_millis(100));
    server.terminate();
    let refused = || TcpStream::connect(server.address()).is_err();
    eventually("the drain has begun", SOON, refused);
    server.terminate();
    assert!(server.ended(Duration::from_secs(2)).success());
    drop(stuck.socket().write_all(b"x"));
}
