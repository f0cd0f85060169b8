//! What the process runs out of: descriptors and connections.

use std::time::Duration;

use crate::child::Process;
use crate::support::{Headwater, Wire, eventually, request};

const TEXT: &str = "Content-Type: text/plain\r\n";

#[test]
fn a_server_with_few_descriptors_survives_a_crowd() {
    let server = Process::start("", "ulimit -n 64");
    server.ask("PUT", "/demo/x", TEXT, b"text").expect(201);
    let mut crowd: Vec<Wire> = (0..200).map(|_| server.connect()).collect();
    for wire in &mut crowd {
        wire.send(request("GET", "/demo/x", "", b""));
    }
    let first = crowd[0].answer("GET").expect(200);
    assert_eq!(first.text(), "text");
    // With everything taken, the log can still be written: those inside are served.
    crowd[0].ask("POST", "/demo/x", TEXT, b"more").expect(204);
    let busy = server.ticks();
    std::thread::sleep(Duration::from_millis(500));
    assert!(server.ticks() - busy < 25, "waiting for room keeps the processor busy");
    let mut rest = crowd.split_off(100);
    drop(crowd);
    // Those who waited come in.
    for wire in rest.iter_mut().take(10) {
        wire.answer("GET").expect(200);
    }
    drop(rest);
    eventually("all is free", Duration::from_secs(10), || {
        let answer = server.ask("POST", "/demo/x", TEXT, b".");
        answer.status == 204 && server.descriptors() < 40
    });
}

#[test]
fn descriptors_do_not_leak_over_rounds_of_rude_clients() {
    let server = Process::start("slow=300", "");
    server.ask("PUT", "/demo/x", TEXT, &vec![b'x'; 1 << 20]).expect(201);
    server.ask("PUT", "/demo/x/snapshot/0", TEXT, &vec![b'b'; 8 << 20]).expect(204);
    let before = server.settled_descriptors();
    for _ in 0..10 {
        let requests = [
            request("GET", "/demo/x/snapshot/0", "", b""),
            request("GET", "/demo/x/bootstrap", "", b""),
            request("GET", "/demo/x?offset=now&live=sse", "", b""),
            request("GET", "/demo/x?offset=now&live=long-poll", "", b""),
            request("POST", "/demo/x", "Content-Length: 100\r\n", b""),
            b"GET /demo HTT".to_vec(),
            Vec::new(),
        ];
        let wires: Vec<Wire> = requests
            .iter()
            .map(|bytes| {
                let mut wire = server.connect();
                wire.send(bytes);
                wire
            })
            .collect();
        std::thread::sleep(Duration::from_millis(20));
        drop(wires);
    }
    eventually("as before", Duration::from_secs(10), || server.descriptors() <= before);
}

#[test]
fn connections_beyond_the_limit_wait_and_are_served_in_the_end() {
    let server = Headwater::with(|config| config.connections_max = 4);
    server.create("/demo/x");
    let mut inside: Vec<Wire> = (0..4).map(|_| server.connect()).collect();
    for wire in &mut inside {
        wire.ask("GET", "/demo/x", "", b"").expect(200);
    }
    let mut waiting = server.connect();
    waiting.send(request("GET", "/demo/x", "", b""));
    let patience = Some(Duration::from_millis(200));
    waiting.socket().set_read_timeout(patience).unwrap();
    assert!(waiting.socket().peek(&mut [0]).is_err(), "a fifth connection was served");
    waiting.socket().set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    inside.pop();
    waiting.answer("GET").expect(200);
}

#[test]
fn snapshots_in_flight_leave_storage_its_descriptors() {
    let server = Process::start("slow=60000 log=1048576", "ulimit -n 64");
    server.ask("PUT", "/demo/x", TEXT, b"x").expect(201);
    server.ask("PUT", "/demo/x/snapshot/0", TEXT, &vec![b'b'; 20 << 20]).expect(204);
    let mut readers = Vec::new();
    let refused = loop {
        let mut wire = server.connect();
        wire.send(request("GET", "/demo/x/snapshot/0", "", b""));
        let head = wire.head();
        if head.status != 200 {
            break head;
        }
        assert!(readers.len() < 64, "never refused");
        readers.push(wire);
    };
    assert_eq!((refused.status, refused.get("retry-after")), (503, Some("1")));
    assert!(readers.len() >= 4, "only {} at a time", readers.len());
    // New log files can still be opened: without that the process would end.
    let piece = vec![b'y'; 512 * 1024];
    for _ in 0..8 {
        server.ask("POST", "/demo/x", TEXT, &piece).expect(204);
    }
    drop(readers);
    eventually("snapshots are served again", Duration::from_secs(10), || {
        let mut wire = server.connect();
        wire.send(request("GET", "/demo/x/snapshot/0", "", b""));
        wire.head().status == 200
    });
}
