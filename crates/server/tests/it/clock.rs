//! Clocks that jump (`extensions.md` §10, Time): windows are measured, instants are compared with
//! the calendar, and what the server says of time never goes back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use headwater_core::ids::Timestamp;
use headwater_server::clock::Clock;

use crate::support::{Headwater, get, head, offset, post, put};

const SECOND: u64 = 1_000;
const HOUR: u64 = 3_600 * SECOND;
const DAY: u64 = 24 * HOUR;
/// 2026-12-01.
const START: u64 = 1_796_083_200_000;
/// 2038-01-19T03:14:08Z, the first second that a signed 32-bit number does not hold.
const YEAR_2038: u64 = 2_147_483_648_000;
/// 2100-03-01, the day behind the 28th of a February without a 29th.
const YEAR_2100: u64 = 4_107_542_400_000;

/// Where the wall clock goes, one after the other.
const JUMPS: [u64; 11] = [
    START + HOUR,
    START,
    START + DAY,
    START - DAY,
    START - HOUR,
    YEAR_2038 - 1,
    YEAR_2038,
    YEAR_2100,
    0,
    u64::MAX / 2,
    START,
];

/// A wall clock that goes anywhere and a monotonic one that goes on, both only when told to.
#[derive(Clone)]
struct Jumping {
    wall: Arc<AtomicU64>,
    monotonic: Arc<AtomicU64>,
}

impl Jumping {
    fn new() -> Self {
        Self { wall: Arc::new(AtomicU64::new(START)), monotonic: Arc::default() }
    }

    fn jump(&self, to: u64) {
        self.wall.store(to, Ordering::Relaxed);
    }

    /// Time as it should pass, on both clocks.
    fn pass(&self, ms: u64) {
        self.wall.fetch_add(ms, Ordering::Relaxed);
        self.monotonic.fetch_add(ms, Ordering::Relaxed);
    }
}

impl Clock for Jumping {
    fn wall(&self) -> Timestamp {
        Timestamp(self.wall.load(Ordering::Relaxed))
    }

    fn monotonic_ms(&self) -> u64 {
        self.monotonic.load(Ordering::Relaxed)
    }
}

fn status(server: &Headwater, path: &str) -> u16 {
    server.send(head(path)).status
}

#[test]
fn a_window_is_measured_whatever_the_calendar_says() {
    let clock = Jumping::new();
    let server = Headwater::at(clock.clone());
    for (number, to) in JUMPS.into_iter().enumerate() {
        let path = format!("/demo/s{number}");
        server.send(put(&path).header("Stream-TTL", 10).text("x")).expect(201);
        clock.jump(to);
        clock.pass(9 * SECOND);
        assert_eq!(status(&server, &path), 200, "not early, with the clock at {to}");
        clock.pass(2 * SECOND);
        assert_eq!(status(&server, &path), 404, "and not late, with the clock at {to}");
    }
}

#[test]
fn an_instant_is_compared_with_the_calendar_and_what_is_over_stays_over() {
    let clock = Jumping::new();
    let server = Headwater::at(clock.clone());
    for (name, instant, at) in [
        ("near", "2026-12-01T01:00:00Z", START + HOUR),
        ("y2038", "2038-01-19T03:14:08Z", YEAR_2038),
        ("y2100", "2100-03-01T00:00:00Z", YEAR_2100),
    ] {
        clock.jump(START);
        let path = format!("/demo/{name}");
        server.send(put(&path).header("Stream-Expires-At", instant).text("x")).expect(201);
        clock.jump(START - DAY);
        assert_eq!(status(&server, &path), 200);
        clock.jump(at - 1);
        assert_eq!(status(&server, &path), 200, "not before {instant}");
        clock.jump(at);
        assert_eq!(status(&server, &path), 404, "at {instant}");
        clock.jump(START);
        assert_eq!(status(&server, &path), 404, "what has been told to be gone is gone");
    }
}

#[test]
fn times_never_go_back_over_jumps_and_restarts() {
    let clock = Jumping::new();
    let mut server = Headwater::at(clock.clone());
    server.create("/demo/s", "text/plain", "");
    let told = |server: &Headwater| {
        let page = server.send(get("/demo/streams")).expect(200).value();
        let time = |name: &str| page["streams"][0][name].as_u64().unwrap();
        (time("created_at_ms"), time("last_write_at_ms"))
    };
    let (created, mut newest) = told(&server);
    assert_eq!(created, START);
    // Not the one to the end of time: what was once written is never undone.
    for to in JUMPS.into_iter().filter(|to| *to <= YEAR_2100) {
        for restarts in [false, true] {
            clock.jump(to);
            if restarts {
                server.restart();
            }
            clock.pass(SECOND);
            server.append("/demo/s", "text/plain", "x");
            let (made, wrote) = told(&server);
            assert_eq!(made, created);
            assert!(wrote > newest, "{wrote} after {newest}, with the clock at {to}");
            newest = wrote;
        }
    }
    assert!(newest >= YEAR_2100, "a start takes the later one of calendar and log");
}

#[test]
fn a_cursor_that_is_sent_back_only_grows() {
    let clock = Jumping::new();
    let server = Headwater::at(clock.clone());
    server.send(put("/demo/s").text("x")).expect(201);
    let mut cursor = String::from("0");
    for to in JUMPS {
        clock.jump(to);
        let at = offset(0);
        let path = format!("/demo/s?offset={at}&live=long-poll&cursor={cursor}");
        let next = server.send(get(path)).expect(200).need("stream-cursor").to_owned();
        let number = |text: &str| text.parse::<u64>().unwrap();
        assert!(number(&next) > number(&cursor), "{next} after {cursor}, with the clock at {to}");
        cursor = next;
    }
    server.send(post("/demo/s").text("y")).expect(204);
}
