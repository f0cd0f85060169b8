//! Offsets (`extensions.md` §2): which forms there are, and what lies beyond the tail.

use std::time::Instant;

use crate::support::{Headwater, LONG_POLL, get, head, offset, post, put};

#[test]
fn the_same_number_may_be_written_in_every_form() {
    let server = Headwater::start();
    server.text_stream("/demo/s", &["abc", "def"]);
    let forms =
        ["3", "03", "000000000003", "00000000000000000003", "0000000000000000_0000000000000003"];
    for form in forms {
        let answer = server.send(get(format!("/demo/s?offset={form}"))).expect(200);
        assert_eq!((answer.text(), answer.next_offset()), ("def", &*offset(6)));
    }
    for start in ["0", "-1", "0000000000000000_0000000000000000", "%2D1"] {
        let answer = server.send(get(format!("/demo/s?offset={start}"))).expect(200);
        assert_eq!(answer.text(), "abcdef");
    }
    assert_eq!(server.send(get("/demo/s")).expect(200).text(), "abcdef");
}

#[test]
fn everything_else_is_400_matched_whole_and_never_trimmed() {
    let server = Headwater::start();
    server.text_stream("/demo/s", &["abc"]);
    for bad in [
        "",
        "-2",
        "+3",
        "3%20",
        "%203",
        "now%0A",
        "-1%00",
        "3.0",
        "0x3",
        "NOW",
        "000000000000000000003",
        "0000000000000000_000000000000003",
        "000000000000000_00000000000000003",
        "0000000000000000-0000000000000003",
        "_",
        "%EF%BC%93",
        "0,1",
        "../3",
    ] {
        for live in ["", "&live=long-poll", "&live=sse"] {
            let answer = server.send(get(format!("/demo/s?offset={bad}{live}")));
            answer.problem(400, "INVALID_OFFSET");
        }
    }
}

#[test]
fn every_offset_that_the_server_issues_has_twenty_digits() {
    let server = Headwater::start();
    let issued = |value: &str| {
        assert!(value.len() == 20 && value.bytes().all(|b| b.is_ascii_digit()), "{value}");
    };
    issued(server.create("/demo/s", "text/plain", "ab").next_offset());
    issued(&server.append("/demo/s", "text/plain", "cd"));
    issued(server.send(get("/demo/s?offset=-1")).next_offset());
    issued(server.send(get("/demo/s?offset=now")).next_offset());
    issued(server.send(get("/demo/s?offset=4&live=long-poll")).next_offset());
    issued(server.send(head("/demo/s")).next_offset());
    let mut sse = server.sse("/demo/s?offset=2&live=sse");
    issued(sse.pair().1["streamNextOffset"].as_str().unwrap());
    server.publish("/demo/s/snapshot/2", "x");
    server.send(put("/demo/s/retention/2")).expect(204);
    let refused = server.send(get("/demo/s")).expect(410);
    for name in ["stream-retained-offset", "stream-next-offset", "stream-snapshot-offset"] {
        issued(refused.need(name));
    }
    issued(server.send(get("/demo/s/bootstrap")).next_offset());
}

#[test]
fn an_append_names_the_end_of_that_append() {
    let server = Headwater::start();
    server.create("/demo/s", "text/plain", "");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..20 {
                    let end: u64 = server.append("/demo/s", "text/plain", "x").parse().unwrap();
                    // What was just written is the byte before that offset.
                    let before =
                        server.send(get(format!("/demo/s?offset={}", end - 1))).expect(200);
                    assert!(before.text().starts_with('x'));
                }
            });
        }
    });
    assert_eq!(server.send(head("/demo/s")).next_offset(), offset(80));
}

#[test]
fn inside_a_message_is_no_offset_anywhere() {
    let server = Headwater::start();
    server.json_stream("/demo/s", &["[12,34]", "{\"a\":1}"]);
    // Boundaries: 0, 3, 6, 14.
    for inside in [1, 2, 4, 5, 7, 13] {
        for live in ["", "&live=long-poll", "&live=sse"] {
            let answer = server.send(get(format!("/demo/s?offset={inside}{live}")));
            answer.problem(400, "OFFSET_NOT_A_BOUNDARY");
        }
        let publish = server.send(put(format!("/demo/s/snapshot/{inside}")).text("x"));
        publish.problem(400, "OFFSET_NOT_A_BOUNDARY");
        let fork = put("/demo/f")
            .header("Stream-Forked-From", "/demo/s")
            .header("Stream-Fork-Offset", offset(inside));
        server.send(fork).problem(400, "OFFSET_NOT_A_BOUNDARY");
    }
    server.publish("/demo/s/snapshot/14", "x");
    let retain = server.send(put("/demo/s/retention/4"));
    retain.problem(400, "OFFSET_NOT_A_BOUNDARY");
    for boundary in [0, 3, 6, 14] {
        server.send(get(format!("/demo/s?offset={boundary}"))).expect(200);
    }
}

/// Asked, and as the server names it: in its own form if that can hold it.
const BEYOND: [(&str, &str); 5] = [
    ("7", "00000000000000000007"),
    ("18446744073709551615", "18446744073709551615"),
    ("18446744073709551616", "18446744073709551616"),
    ("99999999999999999999", "99999999999999999999"),
    ("9999999999999999_9999999999999999", "9999999999999999_9999999999999999"),
];

#[test]
fn beyond_the_tail_a_read_is_empty_and_names_the_offset() {
    let server = Headwater::start();
    server.text_stream("/demo/text", &["abc"]);
    server.json_stream("/demo/json", &["1"]);
    for (path, empty) in [("/demo/text", ""), ("/demo/json", "[]")] {
        for (asked, named) in BEYOND {
            let answer = server.send(get(format!("{path}?offset={asked}"))).expect(200);
            assert_eq!(answer.text(), empty);
            let answer = answer.has(&[
                ("stream-next-offset", named),
                ("stream-up-to-date", "true"),
                ("cache-control", "no-store"),
            ]);
            let answer = answer.lacks(&["stream-closed"]);
            let tag = answer.header("etag").expect("every read of a place has a tag");
            let again = get(format!("{path}?offset={asked}")).header("if-none-match", tag);
            let again = server.send(again).expect(304);
            again.has(&[("etag", tag), ("stream-next-offset", named)]);
        }
    }
    // The `_` form with a first part of zero is a number like any other.
    let answer =
        server.send(get("/demo/text?offset=0000000000000000_0000000000000007")).expect(200);
    answer.has(&[("stream-next-offset", &offset(7))]);
}

#[test]
fn beyond_the_end_of_a_closed_stream_every_read_ends_at_once() {
    let server = Headwater::with(|config| {
        config.long_poll_timeout = std::time::Duration::from_mins(1);
        config.sse_max_duration = std::time::Duration::from_mins(1);
    });
    server.text_stream("/demo/s", &["abc"]);
    server.send(post("/demo/s").header("Stream-Closed", "true")).expect(204);
    for (asked, named) in BEYOND {
        let expected = [("stream-next-offset", named), ("stream-closed", "true")];
        let read = server.send(get(format!("/demo/s?offset={asked}"))).expect(200);
        assert_eq!(read.has(&expected).text(), "");
        let polled = server.send(get(format!("/demo/s?offset={asked}&live=long-poll")));
        polled.expect(204).has(&expected).has(&[("stream-up-to-date", "true")]);
        let mut sse = server.sse(&format!("/demo/s?offset={asked}&live=sse"));
        let control = sse.control();
        assert_eq!(control["streamNextOffset"], named);
        assert_eq!((&control["streamClosed"], &control["upToDate"]), (&true.into(), &true.into()));
        sse.ends();
    }
}

#[test]
fn a_long_poll_beyond_the_tail_waits_for_its_offset() {
    let server = Headwater::with(|config| {
        config.long_poll_timeout = std::time::Duration::from_secs(10);
    });
    server.text_stream("/demo/s", &["abc"]);
    let mut waiting = server.connect();
    waiting.send(&get("/demo/s?offset=5&live=long-poll"));
    // Not enough yet: neither this append nor the next is wanted.
    server.append("/demo/s", "text/plain", "de");
    server.append("/demo/s", "text/plain", "fgh");
    let answer = waiting.answer("GET").expect(200);
    assert_eq!((answer.text(), answer.next_offset()), ("fgh", &*offset(8)));
}

#[test]
fn a_long_poll_beyond_the_tail_times_out_with_that_offset() {
    let server = Headwater::start();
    server.text_stream("/demo/s", &["abc"]);
    for (asked, named) in BEYOND {
        let begun = Instant::now();
        let answer = server.send(get(format!("/demo/s?offset={asked}&live=long-poll"))).expect(204);
        assert!(begun.elapsed() >= LONG_POLL, "a client would spin");
        answer.has(&[("stream-next-offset", named), ("stream-up-to-date", "true")]);
    }
}

#[test]
fn when_the_tail_passes_an_offset_that_is_no_boundary_waiting_ends() {
    let server = Headwater::with(|config| {
        config.long_poll_timeout = std::time::Duration::from_secs(10);
        config.sse_max_duration = std::time::Duration::from_secs(10);
    });
    server.text_stream("/demo/s", &["abc"]);
    let mut sse = server.sse("/demo/s?offset=4&live=sse");
    let control = sse.control();
    assert_eq!(
        (&control["streamNextOffset"], &control["upToDate"]),
        (&offset(4).into(), &true.into())
    );
    let mut polling = server.connect();
    polling.send(&get("/demo/s?offset=4&live=long-poll"));
    server.append("/demo/s", "text/plain", "defg");
    polling.answer("GET").problem(400, "OFFSET_NOT_A_BOUNDARY");
    sse.ends();
}

#[test]
fn sse_beyond_the_tail_says_so_once_and_goes_on_from_its_offset() {
    let server = Headwater::with(|config| {
        config.sse_keep_alive = std::time::Duration::from_millis(50);
        config.sse_max_duration = std::time::Duration::from_secs(10);
    });
    server.text_stream("/demo/s", &["abc"]);
    let mut sse = server.sse("/demo/s?offset=5&live=sse");
    let control = sse.control();
    assert_eq!(
        (&control["streamNextOffset"], &control["upToDate"]),
        (&offset(5).into(), &true.into())
    );
    server.append("/demo/s", "text/plain", "de");
    server.append("/demo/s", "text/plain", "f");
    // Nothing was said about what came before the offset.
    let (data, control) = sse.pair();
    assert_eq!((&*data, &control["streamNextOffset"]), ("f", &offset(6).into()));
}

#[test]
fn an_offset_beyond_the_tail_is_no_place_to_write() {
    let server = Headwater::start();
    server.text_stream("/demo/s", &["abc"]);
    for (asked, _) in BEYOND {
        let publish = server.send(put(format!("/demo/s/snapshot/{asked}")).text("x"));
        publish.problem(409, "OFFSET_BEYOND_TAIL").has(&[("stream-next-offset", &offset(3))]);
        let fork = put("/demo/f")
            .header("Stream-Forked-From", "/demo/s")
            .header("Stream-Fork-Offset", asked);
        server.send(fork).problem(400, "FORK_OFFSET_BEYOND_TAIL");
    }
    server.send(get("/demo/f")).problem(404, "STREAM_NOT_FOUND");
}
