//! Floods of frames that cost a client nothing: each ends its connection or is worked off, memory
//! stays small, and others are served meanwhile.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::child::Process;
use crate::multiplex::{END_HEADERS, END_STREAM, Frames, fields, frame, get, kind};

/// How long each flood lasts, unless the server ends it.
const LONG: Duration = Duration::from_secs(3);

/// How much a flood may cost in memory.
const MEMORY: u64 = 32 << 20;

/// How long somebody else may wait for an answer meanwhile; the machine may be busy.
const SOON: Duration = Duration::from_secs(5);

/// Two clients flood a server with what `make` makes, of a number that counts up, while another one
/// writes and reads. Answers how the connection of the first ended.
fn flood(make: fn(u32) -> Vec<u8>) -> Ended {
    let server = Process::start("slow=2000", "");
    server.ask("PUT", "/demo/x", "Content-Type: text/plain\r\n", b"text").expect(201);
    let before = server.memory();
    let over = AtomicBool::new(false);
    let address = server.address();
    thread::scope(|scope| {
        let floods = [(); 2].map(|()| scope.spawn(|| one_flood(address, make)));
        let watch = scope.spawn(|| {
            let mut most = 0;
            while !over.load(Ordering::Relaxed) {
                let begun = Instant::now();
                server.ask("POST", "/demo/x", "Content-Type: text/plain\r\n", b".").expect(204);
                server.ask("GET", "/demo/x?offset=now", "", b"").expect(200);
                assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
                most = most.max(server.memory());
                thread::sleep(Duration::from_millis(10));
            }
            most
        });
        let [first, _] = floods.map(|flood| flood.join().unwrap());
        over.store(true, Ordering::Relaxed);
        let grown = watch.join().unwrap().saturating_sub(before);
        assert!(grown < MEMORY, "{} MiB more", grown >> 20);
        first
    })
}

fn one_flood(address: SocketAddr, make: fn(u32) -> Vec<u8>) -> Ended {
    let mut frames = Frames::open(address, &[]);
    let deadline = Instant::now() + LONG;
    let mut number = 0;
    while Instant::now() < deadline {
        let mut burst = Vec::new();
        while burst.len() < 64 * 1024 {
            burst.extend(make(number));
            number += 1;
        }
        if !frames.send(&burst) {
            return frames.ended().map_or(Ended::Silently, Ended::With);
        }
    }
    Ended::Not
}

/// How the server ended a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    Not,
    /// Without a word, or with one that was lost, since the client still sent.
    Silently,
    /// With this code.
    With(u32),
}

/// The protocol's code for a client that asks too much (RFC 9113 §7).
const ENHANCE_YOUR_CALM: u32 = 0xb;

#[test]
fn requests_that_are_reset_at_once_end_the_connection() {
    let ended = flood(|number| {
        let stream = number * 2 + 1;
        let request = frame(kind::HEADERS, END_HEADERS | END_STREAM, stream, &get("/demo/x"));
        [request, frame(kind::RST_STREAM, 0, stream, &8_u32.to_be_bytes())].concat()
    });
    assert!(matches!(ended, Ended::Silently | Ended::With(ENHANCE_YOUR_CALM)), "{ended:?}");
}

#[test]
fn appends_that_are_reset_half_way_end_the_connection() {
    let ended = flood(|number| {
        let stream = number * 2 + 1;
        let post = fields(&[
            (":method", "POST"),
            (":scheme", "http"),
            (":authority", "test"),
            (":path", "/demo/x"),
            ("content-type", "text/plain"),
        ]);
        let request = frame(kind::HEADERS, END_HEADERS, stream, &post);
        let reset = frame(kind::RST_STREAM, 0, stream, &8_u32.to_be_bytes());
        [request, frame(kind::DATA, 0, stream, b"x"), reset].concat()
    });
    assert_ne!(ended, Ended::Not);
}

#[test]
fn a_head_that_never_ends_ends_the_connection() {
    let ended = flood(|number| {
        let block = fields(&[("x-more", "y")]);
        if number == 0 {
            frame(kind::HEADERS, END_STREAM, 1, &[get("/demo/x"), block].concat())
        } else {
            frame(kind::CONTINUATION, 0, 1, &block)
        }
    });
    assert_ne!(ended, Ended::Not);
}

#[test]
fn frames_without_anything_in_them_end_the_connection_or_cost_no_memory() {
    flood(|number| {
        if number == 0 {
            frame(kind::HEADERS, END_HEADERS, 1, &get("/demo/x?offset=now&live=long-poll"))
        } else {
            frame(kind::DATA, 0, 1, b"")
        }
    });
}

#[test]
fn settings_that_are_never_done_cost_no_memory() {
    flood(|number| {
        frame(kind::SETTINGS, 0, 0, &[[0, 4].as_slice(), &number.to_be_bytes()].concat())
    });
}

#[test]
fn pings_that_nobody_waits_for_cost_no_memory() {
    flood(|number| frame(kind::PING, 0, 0, &u64::from(number).to_be_bytes()));
}

#[test]
fn windows_that_are_widened_without_end_end_the_connection() {
    let ended = flood(|_| frame(kind::WINDOW_UPDATE, 0, 0, &0x7fff_ffff_u32.to_be_bytes()));
    assert_ne!(ended, Ended::Not);
}
