//! Retention (`extensions.md` §5): the order of checks, what is refused afterwards, and what live
//! readers see.

use crate::support::{Answer, Headwater, SURFACES, get, head, offset, parts, post, put, request};

/// Boundaries 0, 2, 4, 6; the snapshot at 4.
fn stream(server: &Headwater, path: &str) {
    server.text_stream(path, &["ab", "cd", "ef"]);
    server.publish(&format!("{path}/snapshot/4"), "abcd");
}

fn retain(server: &Headwater, at: &str) -> Answer {
    server.send(put(format!("/demo/s/retention/{at}")))
}

#[test]
fn of_two_reasons_to_refuse_the_first_in_order_is_given() {
    let server = Headwater::start();
    // Syntax before existence, existence before everything else.
    retain(&server, "now").problem(400, "INVALID_OFFSET");
    retain(&server, "-1").problem(400, "INVALID_OFFSET");
    server.send(put("/demo/s/retention")).problem(400, "INVALID_OFFSET");
    server.send(put("/demo/s/retention/1?record=1")).problem(400, "INVALID_OFFSET");
    retain(&server, "1").problem(404, "STREAM_NOT_FOUND");
    server.text_stream("/demo/s", &["ab", "cd", "ef"]);
    // No snapshot before whatever is wrong with the offset.
    for at in ["0", "1", "2", "99"] {
        retain(&server, at).problem(409, "RETENTION_NEEDS_SNAPSHOT");
    }
    server.publish("/demo/s/snapshot/4", "abcd");
    retain(&server, "2").expect(204);
    // Below the boundary before alignment; beyond the snapshot before alignment.
    retain(&server, "1").problem(409, "RETENTION_BACKWARDS");
    retain(&server, "5").problem(409, "RETENTION_BEYOND_SNAPSHOT");
    retain(&server, "99").problem(409, "RETENTION_BEYOND_SNAPSHOT");
    retain(&server, "9999999999999999_9999999999999999").problem(409, "RETENTION_BEYOND_SNAPSHOT");
    retain(&server, "3").problem(400, "OFFSET_NOT_A_BOUNDARY");
    for _ in 0..2 {
        retain(&server, "2").expect(204).has(&[("stream-retained-offset", &offset(2))]);
    }
    retain(&server, "4").expect(204).has(&[("stream-retained-offset", &offset(4))]);
}

#[test]
fn a_soft_deleted_stream_is_410() {
    let server = Headwater::start();
    stream(&server, "/demo/s");
    server.send(put("/demo/f").header("Stream-Forked-From", "/demo/s")).expect(201);
    server.send(request("DELETE", "/demo/s")).expect(204);
    retain(&server, "2").problem(410, "STREAM_DELETED");
}

#[test]
fn retention_by_record_needs_a_json_stream() {
    let server = Headwater::start();
    stream(&server, "/demo/s");
    server.send(put("/demo/s/retention?record=1")).problem(400, "RECORDS_NEED_JSON");
    server.send(put("/demo/s/retention?record=x")).problem(400, "INVALID_QUERY");
    server.send(put("/demo/s/retention?record=now")).problem(400, "INVALID_QUERY");
}

#[test]
fn below_the_boundary_every_kind_of_read_is_410_with_the_way_out() {
    let server = Headwater::start();
    for (prefix, below) in SURFACES {
        let path =
            if below.is_empty() { format!("{prefix}/{}", prefix.len()) } else { prefix.to_owned() };
        server.text_stream(&path, &["ab", "cd", "ef"]);
        server.publish(&format!("{path}{below}/snapshot/4"), "abcd");
        server.send(put(format!("{path}{below}/retention/4"))).expect(204);
        let link = format!("<{path}{below}/bootstrap>; rel=\"bootstrap\"");
        let way_out = [
            ("stream-retained-offset", &*offset(4)),
            ("stream-next-offset", &*offset(6)),
            ("stream-snapshot-offset", &*offset(4)),
            ("link", &*link),
        ];
        for query in [
            "",
            "?offset=-1",
            "?offset=0",
            "?offset=1",
            "?offset=2",
            "?offset=3",
            "?offset=0000000000000000_0000000000000000",
            "?offset=-1&live=long-poll",
            "?offset=2&live=long-poll",
            "?offset=-1&live=sse",
            "?offset=3&live=sse",
        ] {
            let answer = server.send(get(format!("{path}{query}"))).problem(410, "OFFSET_TRIMMED");
            answer.has(&way_out);
        }
        // The link leads to what it says.
        let bootstrap = server.send(get(format!("{path}{below}/bootstrap"))).expect(200);
        assert_eq!(parts(&bootstrap)[0].body, b"abcd");
        assert_eq!(server.send(get(format!("{path}?offset=4"))).expect(200).text(), "ef");
        assert_eq!(server.send(get(format!("{path}?offset=now"))).expect(200).text(), "");
    }
}

#[test]
fn the_link_of_an_odd_name_is_encoded() {
    let server = Headwater::start();
    stream(&server, "/demo/a%20%22%3E");
    server.send(put("/demo/a%20%22%3E/retention/4")).expect(204);
    let refused = server.send(get("/demo/a%20%22%3E")).problem(410, "OFFSET_TRIMMED");
    refused.has(&[("link", "</demo/a%20%22%3E/bootstrap>; rel=\"bootstrap\"")]);
}

#[test]
fn a_boundary_of_zero_trims_nothing() {
    let server = Headwater::start();
    server.text_stream("/demo/s", &["ab"]);
    server.publish("/demo/s/snapshot/0", "");
    retain(&server, "0").expect(204).has(&[("stream-retained-offset", &offset(0))]);
    let read = server.send(get("/demo/s?offset=-1")).expect(200);
    assert_eq!(read.lacks(&["stream-retained-offset"]).text(), "ab");
}

#[test]
fn a_reader_at_the_boundary_or_behind_it_goes_on() {
    let server = Headwater::start();
    stream(&server, "/demo/s");
    let mut sse = server.sse("/demo/s?offset=4&live=sse");
    assert_eq!(sse.pair().0, "ef");
    retain(&server, "4").expect(204);
    server.append("/demo/s", "text/plain", "gh");
    assert_eq!(sse.pair().0, "gh");
    let polled = server.send(get("/demo/s?offset=4&live=long-poll")).expect(200);
    assert_eq!(polled.text(), "efgh");
}

#[test]
fn a_live_reader_that_the_boundary_passes_ends_and_gets_its_410() {
    let server = Headwater::with(|config| {
        config.long_poll_timeout = std::time::Duration::from_secs(10);
        config.sse_max_duration = std::time::Duration::from_secs(10);
    });
    server.create("/ds/demo/s", "text/plain", [b"a\xe2".as_slice()].concat());
    // Held back: the message ends inside a character, so that this reader stays at 0.
    let mut sse = server.sse("/ds/demo/s?offset=-1&live=sse");
    assert_eq!(sse.control()["streamNextOffset"], offset(0));
    server.publish("/ds/demo/s/snapshot/2", "a");
    sse.ends();
    server.send(get("/ds/demo/s?offset=0&live=sse")).problem(410, "OFFSET_TRIMMED");
    // A long-poll at the tail is passed by a boundary beyond it only when data arrived: it has
    // that data, or the 410, but never a gap.
    let mut polling = server.connect();
    polling.send(&get("/ds/demo/s?offset=2&live=long-poll"));
    server.append("/ds/demo/s", "text/plain", "bc");
    let answer = polling.answer("GET").expect(200);
    assert_eq!((answer.text(), answer.next_offset()), ("bc", &*offset(4)));
}

#[test]
fn a_slow_sse_reader_never_sees_a_gap() {
    let server = Headwater::with(|config| {
        config.sse_max_duration = std::time::Duration::from_secs(20);
        config.read_page_bytes = 16 * 1024;
    });
    // More than fits into the buffers between server and client.
    let line = "x".repeat(64 * 1024);
    server.create("/ds/demo/s", "text/plain", "");
    for _ in 0..300 {
        server.append("/ds/demo/s", "text/plain", &line);
    }
    let mut sse = server.sse("/ds/demo/s?offset=0&live=sse");
    assert_eq!(sse.pair().1["streamNextOffset"], offset(64 * 1024));
    let boundary = 290 * 64 * 1024;
    server.publish(&format!("/ds/demo/s/snapshot/{boundary}"), "x");
    let mut next = 64 * 1024;
    while let Some(event) = sse.next() {
        assert_eq!((event.name.as_str(), event.data.len()), ("data", line.len()));
        next += 64 * 1024;
        assert_eq!(sse.control()["streamNextOffset"], offset(next));
    }
    assert!(next < boundary, "it had fallen behind");
    server.send(get(format!("/ds/demo/s?offset={next}&live=sse"))).problem(410, "OFFSET_TRIMMED");
}

#[test]
fn head_and_listing_tell_the_boundary() {
    let server = Headwater::start();
    stream(&server, "/demo/s");
    let entry = || server.send(get("/demo/streams")).value()["streams"][0].clone();
    assert_eq!((&entry()["retained_offset"], &entry()["snapshot_offset"]), (&0.into(), &4.into()));
    server.send(head("/demo/s")).expect(200).lacks(&["stream-retained-offset"]);
    retain(&server, "2").expect(204);
    assert_eq!(entry()["retained_offset"], 2);
    server.send(head("/demo/s")).expect(200).has(&[("stream-retained-offset", &offset(2))]);
}

#[test]
fn retention_works_on_closed_streams() {
    let server = Headwater::start();
    stream(&server, "/demo/s");
    server.send(post("/demo/s").header("Stream-Closed", "true")).expect(204);
    retain(&server, "4").expect(204);
    let read = server.send(get("/demo/s?offset=4")).expect(200);
    assert_eq!(read.has(&[("stream-closed", "true")]).text(), "ef");
    server.publish("/demo/s/snapshot/6", "abcdef");
    retain(&server, "6").expect(204);
    let end = server.send(get("/demo/s?offset=6")).expect(200);
    end.has(&[("stream-closed", "true"), ("stream-up-to-date", "true")]);
    server.send(get("/demo/s?offset=4")).problem(410, "OFFSET_TRIMMED");
}
