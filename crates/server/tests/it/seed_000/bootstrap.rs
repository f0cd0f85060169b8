//! Sections 3 to 5 of the document: bootstrap, SSE, encoding of addresses.

use crate::support::{Headwater, Part, get, head, parts, percent_encode, put};

#[test]
fn bootstrap_takes_no_live_parameter() {
    let server = Headwater::start();
    server.text_stream("/ds/demo/s", &["a"]);
    for live in ["live=sse", "live=long-poll", "live=", "live", "live=x"] {
        let answer = server.send(get(format!("/ds/demo/s/bootstrap?{live}")));
        answer.problem(400, "INVALID_QUERY");
    }
    server.send(get("/ds/demo/s/bootstrap?offset=5&limit=x")).expect(200);
}

#[test]
fn bootstrap_is_the_snapshot_and_one_part_a_message() {
    let server = Headwater::start();
    let path = "/ds/demo/s";
    server.create(path, "application/x-frames", "");
    let first = server.append(path, "application/x-frames", b"\0\x01\x02folded");
    // Neither line ends nor what looks like framing may change a message or its boundaries.
    let messages: [&[u8]; 4] = [b"\r\n--x\r\n", b"\0\0\0\x02ab", b"\r\n\r\n", b"--"];
    for message in messages {
        server.append(path, "application/x-frames", message);
    }
    server.send(put(format!("{path}/snapshot/{first}")).typed("image/png", b"\x89PNG")).expect(204);
    let answer = server.send(get(format!("{path}/bootstrap"))).expect(200);
    let tail = server.send(head(path)).expect(200).next_offset().to_owned();
    let answer = answer.has(&[
        ("stream-snapshot-offset", &first),
        ("stream-next-offset", &tail),
        ("stream-up-to-date", "true"),
        ("cache-control", "no-store"),
    ]);
    let mut expected = vec![Part::new("image/png", b"\x89PNG")];
    expected.extend(messages.map(|message| Part::new("application/x-frames", message)));
    assert_eq!(parts(&answer), expected);
}

#[test]
fn bootstrap_without_a_snapshot_begins_with_an_empty_part() {
    let server = Headwater::start();
    server.text_stream("/ds/demo/s", &["a", "b"]);
    let answer = server.send(get("/ds/demo/s/bootstrap")).expect(200);
    let answer = answer.has(&[("stream-snapshot-offset", "-1")]).lacks(&["stream-snapshot-digest"]);
    let expected = [
        Part::new("application/octet-stream", ""),
        Part::new("text/plain", "a"),
        Part::new("text/plain", "b"),
    ];
    assert_eq!(parts(&answer), expected);
}

#[test]
fn bootstrap_of_a_missing_stream_is_404() {
    let server = Headwater::start();
    server.send(get("/ds/demo/s/bootstrap")).problem(404, "STREAM_NOT_FOUND");
    server.send(get("/ds/nosuch/s/bootstrap")).expect(404);
}

#[test]
fn a_client_goes_on_where_bootstrap_ended() {
    let server = Headwater::start();
    let ends = server.text_stream("/ds/demo/s", &["a", "b"]);
    server.publish(&format!("/ds/demo/s/snapshot/{}", ends[0]), "A");
    let next = server.send(get("/ds/demo/s/bootstrap")).expect(200).next_offset().to_owned();
    let mut sse = server.sse(&format!("/ds/demo/s?offset={next}&live=sse"));
    assert_eq!(sse.control()["upToDate"], true);
    server.append("/ds/demo/s", "text/plain", "c");
    sse.next().unwrap().is_data("c");
    let polled = server.send(get(format!("/ds/demo/s?offset={next}&live=long-poll")));
    assert_eq!(polled.expect(200).text(), "c");
}

#[test]
fn an_ordinary_read_never_returns_snapshot_bytes() {
    let server = Headwater::start();
    let ends = server.text_stream("/ds/demo/s", &["a", "b"]);
    server.publish(&format!("/ds/demo/s/snapshot/{}", ends[0]), "SNAPSHOT");
    for from in [&ends[0], &ends[1]] {
        for live in ["", "&live=long-poll"] {
            let answer = server.send(get(format!("/ds/demo/s?offset={from}{live}")));
            assert!(!String::from_utf8_lossy(&answer.body).contains("SNAPSHOT"));
        }
    }
    let mut sse = server.sse(&format!("/ds/demo/s?offset={}&live=sse", ends[0]));
    sse.next().unwrap().is_data("b");
}

#[test]
fn bootstrap_covers_what_reads_refuse() {
    let server = Headwater::start();
    let ends = server.text_stream("/ds/demo/s", &["a", "b", "c"]);
    for end in &ends[..2] {
        server.publish(&format!("/ds/demo/s/snapshot/{end}"), &format!("up to {end}"));
        let refused = server.send(get("/ds/demo/s")).problem(410, "OFFSET_TRIMMED");
        let bootstrap = server.send(get("/ds/demo/s/bootstrap")).expect(200);
        let retained = refused.need("stream-retained-offset");
        assert!(bootstrap.need("stream-snapshot-offset") >= retained);
        assert_eq!(parts(&bootstrap)[0].body, format!("up to {end}").into_bytes());
    }
}

#[test]
fn binary_sse_is_base64_and_says_so() {
    let server = Headwater::start();
    server.create("/ds/demo/s", "application/octet-stream", [0xff, 0x00, 0x0a]);
    let mut sse = server.sse("/ds/demo/s?offset=-1&live=sse");
    assert_eq!(sse.head.need("stream-sse-data-encoding"), "base64");
    sse.next().unwrap().is_data("/wAK");
    sse.control();
}

#[test]
fn an_offset_in_a_path_is_percent_decoded() {
    let server = Headwater::start();
    let ends = server.text_stream("/ds/demo/s", &["a"]);
    let escaped = percent_encode(&ends[0]);
    server.publish(&format!("/ds/demo/s/snapshot/{escaped}"), "x");
    assert_eq!(server.send(get(format!("/ds/demo/s/snapshot/{escaped}"))).expect(200).text(), "x");
    server
        .send(get(format!("/ds/demo/s/snapshot/%2531{}", &ends[0][1..])))
        .problem(400, "INVALID_OFFSET");
    server.send(put(format!("/ds/demo/s/snapshot/{}%2F", ends[0]))).problem(400, "INVALID_PATH");
}
