//! Clients that take no byte, or few: what they hold is bounded, and given back.

use std::io::{ErrorKind, Read as _};
use std::thread;
use std::time::{Duration, Instant};

use crate::child::Process;
use crate::support::{Wire, eventually, request};

const TEXT: &str = "Content-Type: text/plain\r\n";
const MIB: u64 = 1024 * 1024;

#[test]
fn a_client_that_never_reads_is_cut_and_its_descriptor_freed() {
    let server = Process::start("slow=500", "");
    server.ask("PUT", "/demo/x", TEXT, &vec![b'x'; 8 << 20]).expect(201);
    server.ask("PUT", "/demo/x/snapshot/0", TEXT, &vec![b'b'; 32 << 20]).expect(204);
    let before = server.settled_descriptors();
    for target in
        ["/demo/x", "/demo/x/snapshot/0", "/demo/x/bootstrap", "/demo/x?offset=-1&live=sse"]
    {
        let mut wires: Vec<Wire> = (0..20).map(|_| server.connect()).collect();
        for wire in &mut wires {
            wire.send(request("GET", target, "", b""));
        }
        eventually("all are connected", Duration::from_secs(10), || {
            server.descriptors() >= before + 20
        });
        eventually("all are cut", Duration::from_secs(15), || server.descriptors() <= before);
        // What was on its way is given up: the end of the answer is never seen.
        for wire in &mut wires {
            let mut rest = Vec::new();
            let cut = wire.socket().read_to_end(&mut rest).unwrap_err();
            assert_eq!(cut.kind(), ErrorKind::ConnectionReset, "{target}");
        }
    }
}

#[test]
fn an_answer_that_has_become_too_old_is_cut_though_bytes_are_taken() {
    let server = Process::start("slow=30000 response=1500 sse=1000", "");
    server.ask("PUT", "/demo/x", TEXT, b"text").expect(201);
    server.ask("PUT", "/demo/x/snapshot/4", TEXT, &vec![b'b'; 32 << 20]).expect(204);
    for target in ["/demo/x/snapshot/4", "/demo/x/bootstrap"] {
        let begun = Instant::now();
        let mut wire = server.connect();
        wire.send(request("GET", target, "", b""));
        // 64 KiB every 20 ms: far too slow for the whole, and never stuck.
        let mut piece = vec![0; 64 * 1024];
        let mut taken = 0;
        while let Ok(read) = wire.socket().read(&mut piece)
            && read > 0
        {
            taken += read;
            thread::sleep(Duration::from_millis(20));
        }
        let age = begun.elapsed();
        assert!(taken < 32 << 20, "{target}: {taken} bytes");
        assert!(age > Duration::from_millis(1400) && age < Duration::from_secs(8), "{age:?}");
    }
}

#[test]
fn memory_does_not_grow_with_a_live_reader_that_never_reads() {
    let server = Process::start("slow=60000 sse=600000", "");
    server.ask("PUT", "/demo/x", TEXT, b"x").expect(201);
    let fill = || {
        let piece = vec![b'x'; 1 << 20];
        let mut wire = server.connect();
        for _ in 0..128 {
            wire.ask("POST", "/demo/x", TEXT, &piece).expect(204);
        }
    };
    // What the server keeps of any fast stream is there before the readers come.
    fill();
    let before = server.memory();
    let mut readers: Vec<Wire> = (0..8).map(|_| server.connect()).collect();
    for reader in &mut readers {
        // The byte behind the request once made the server collect all answers in memory.
        let mut bytes = request("GET", "/demo/x?offset=now&live=sse", "", b"");
        bytes.extend(b"G");
        reader.send(bytes);
    }
    fill();
    let grown = server.memory().saturating_sub(before);
    assert!(grown < 8 * 16 * MIB, "{} MiB more", grown / MIB);
}

#[test]
fn memory_does_not_grow_with_answers_behind_which_more_was_sent() {
    let server = Process::start("slow=60000", "");
    server.ask("PUT", "/demo/x", TEXT, b"x").expect(201);
    server.ask("PUT", "/demo/x/snapshot/0", TEXT, &vec![b'b'; 100 << 20]).expect(204);
    let before = server.memory();
    let mut readers: Vec<Wire> = (0..4).map(|_| server.connect()).collect();
    for reader in &mut readers {
        let mut bytes = request("GET", "/demo/x/snapshot/0", "", b"");
        bytes.extend(b"GET /demo");
        reader.send(bytes);
    }
    // Long enough for all of it to be read from the disk, were it not for the readers.
    let deadline = Instant::now() + Duration::from_secs(3);
    while Instant::now() < deadline {
        let grown = server.memory().saturating_sub(before);
        assert!(grown < 48 * MIB, "{} MiB more", grown / MIB);
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn one_slow_reader_does_not_slow_another() {
    let server = Process::start("slow=60000 sse=600000", "");
    server.ask("PUT", "/demo/x", TEXT, b"x").expect(201);
    let mut stuck = server.connect();
    stuck.send(request("GET", "/demo/x?offset=now&live=sse", "", b""));
    let mut lively = server.connect();
    lively.send(request("GET", "/demo/x?offset=now&live=sse", "", b""));
    assert_eq!(lively.head().status, 200);
    lively.until("\n\n");
    let mut writer = server.connect();
    for number in 0..40 {
        let mut body = vec![b'.'; 512 * 1024];
        body.extend(format!("<{number}>").bytes());
        writer.ask("POST", "/demo/x", TEXT, &body).expect(204);
        lively.until(&format!("<{number}>"));
    }
}
