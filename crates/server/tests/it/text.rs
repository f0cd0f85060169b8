//! Text and binary over SSE (`extensions.md` §10, base protocol §8): what a conforming parser gets
//! is what was written.

use crate::support::{Headwater, Sse, get, offset, post, put};

/// Reads data events until the control that says up to date; returns all text of them.
fn text_until_caught_up(sse: &mut Sse) -> String {
    let mut text = String::new();
    loop {
        let event = sse.next().expect("an event");
        if event.name == "data" {
            text += &event.data;
        } else if event.control()["upToDate"] == true {
            return text;
        }
    }
}

/// A stream that holds `message`, read from its beginning.
fn over_sse(server: &Headwater, path: &str, message: impl AsRef<[u8]>) -> String {
    server.create(path, "text/plain", message);
    text_until_caught_up(&mut server.sse(&format!("{path}?offset=-1&live=sse")))
}

#[test]
fn what_a_parser_could_lose_survives() {
    let server = Headwater::start();
    for (index, text) in [
        " leading",
        "  two",
        "\tx",
        "a\n b\n  c",
        "\u{feff}bom",
        "nul\0byte",
        "\n",
        "\n\n",
        "a\n",
        "a\n\n",
        "\na",
        ":comment",
        "data:x",
        "event: control\ndata:{}\n\nevent: data",
        "id:1\nretry:5\n\n",
        "日本語 🚀 e\u{301}",
        " ",
    ]
    .into_iter()
    .enumerate()
    {
        assert_eq!(over_sse(&server, &format!("/demo/s{index}"), text), text, "{text:?}");
    }
}

#[test]
fn every_line_end_arrives_as_one_lf() {
    let server = Headwater::start();
    for (index, (sent, arrives)) in [
        ("a\rb", "a\nb"),
        ("a\r\nb", "a\nb"),
        ("a\n\rb", "a\n\nb"),
        ("a\r\r\nb", "a\n\nb"),
        ("\r", "\n"),
        ("\r\n\r\n", "\n\n"),
        ("a\r\n b\r c", "a\n b\n c"),
    ]
    .into_iter()
    .enumerate()
    {
        assert_eq!(over_sse(&server, &format!("/demo/s{index}"), sent), arrives, "{sent:?}");
    }
}

#[test]
fn a_crlf_that_two_appends_share_arrives_as_one_lf() {
    let server = Headwater::start();
    server.create("/demo/s", "text/plain", "a\r");
    let mut live = server.sse("/demo/s?offset=-1&live=sse");
    assert_eq!(live.pair().0, "a\n");
    server.append("/demo/s", "text/plain", "\nb");
    assert_eq!(live.pair().0, "b");
    // Nor does it matter whether the two come in one event.
    let mut caught_up = server.sse("/demo/s?offset=-1&live=sse");
    assert_eq!(caught_up.pair().0, "a\nb");
    // A lone CR keeps its line, whatever follows.
    server.append("/demo/s", "text/plain", "c\r");
    assert_eq!(live.pair().0, "c\n");
    server.append("/demo/s", "text/plain", "d");
    assert_eq!(live.pair().0, "d");
}

#[test]
fn a_character_split_over_two_appends_goes_out_once_and_whole() {
    let server = Headwater::start();
    server.create("/demo/s", "text/plain", "ok");
    let mut live = server.sse("/demo/s?offset=-1&live=sse");
    assert_eq!(live.pair().0, "ok");
    // This message ends inside a character: all of it waits for the rest.
    server.append("/demo/s", "text/plain", b"price \xe2\x82");
    // Whoever connects now gets what is whole, and the start of the held message to go on from.
    let mut late = server.sse("/demo/s?offset=-1&live=sse");
    let (data, control) = late.pair();
    assert_eq!(data, "ok");
    assert_eq!(
        (&control["streamNextOffset"], &control["upToDate"]),
        (&offset(2).into(), &true.into())
    );
    let mut at_held = server.sse("/demo/s?offset=2&live=sse");
    let control = at_held.control();
    assert_eq!(
        (&control["streamNextOffset"], &control["upToDate"]),
        (&offset(2).into(), &true.into())
    );
    server.append("/demo/s", "text/plain", b"\xac!");
    for reader in [&mut live, &mut late, &mut at_held] {
        let (data, control) = reader.pair();
        assert_eq!(data, "price €!");
        assert_eq!(control["streamNextOffset"], offset(12));
    }
    // Other reads give the bytes as they are.
    let read = server.send(get("/demo/s?offset=2")).expect(200);
    assert_eq!(read.body, "price €!".as_bytes());
}

#[test]
fn a_character_split_over_four_appends_waits_for_the_last() {
    let server = Headwater::start();
    server.create("/demo/s", "text/plain", "");
    let mut live = server.sse("/demo/s?offset=-1&live=sse");
    live.control();
    for byte in "🚀".bytes() {
        server.append("/demo/s", "text/plain", [byte]);
    }
    assert_eq!(live.pair().0, "🚀");
    let mut late = server.sse("/demo/s?offset=-1&live=sse");
    assert_eq!(late.pair().0, "🚀");
}

#[test]
fn what_waits_for_the_rest_of_a_character_goes_out_when_the_stream_closes() {
    let server = Headwater::start();
    server.create("/demo/s", "text/plain", b"a\xf0\x9f");
    let mut live = server.sse("/demo/s?offset=-1&live=sse");
    assert_eq!(live.control()["streamNextOffset"], offset(0));
    server.send(post("/demo/s").header("Stream-Closed", "true")).expect(204);
    let (data, control) = live.pair();
    assert_eq!(data, "a\u{fffd}");
    assert_eq!(control["streamNextOffset"], offset(3));
    assert_eq!((&control["streamClosed"], &control["upToDate"]), (&true.into(), &true.into()));
    live.ends();
    let mut late = server.sse("/demo/s?offset=-1&live=sse");
    assert_eq!(late.pair().0, "a\u{fffd}");
}

#[test]
fn bytes_that_can_never_be_utf_8_are_one_replacement_for_each_broken_piece() {
    let server = Headwater::start();
    let cases: [(&[u8], &str); 8] = [
        (b"a\xffb", "a\u{fffd}b"),
        (b"\xff\xfe", "\u{fffd}\u{fffd}"),
        (b"a\xe2\x82b", "a\u{fffd}b"),
        (b"\xe2\x28\xa1", "\u{fffd}(\u{fffd}"),
        (b"\xc0\xaf", "\u{fffd}\u{fffd}"),
        (b"\xed\xa0\x80", "\u{fffd}\u{fffd}\u{fffd}"),
        (b"\xf0\x9f\x92x", "\u{fffd}x"),
        (b"\x80", "\u{fffd}"),
    ];
    for (index, (sent, arrives)) in cases.into_iter().enumerate() {
        assert_eq!(over_sse(&server, &format!("/demo/s{index}"), sent), arrives, "{sent:?}");
    }
}

#[test]
fn a_broken_start_followed_by_other_text_is_not_held_for_ever() {
    let server = Headwater::start();
    server.create("/demo/s", "text/plain", b"a\xe2");
    let mut live = server.sse("/demo/s?offset=-1&live=sse");
    assert_eq!(live.control()["upToDate"], true);
    server.append("/demo/s", "text/plain", "b");
    assert_eq!(live.pair().0, "a\u{fffd}b");
}

#[test]
fn characters_are_whole_across_pages_of_a_long_catch_up() {
    // Each message ends inside a character, and pages are small.
    let server = Headwater::with(|config| config.read_page_bytes = 100);
    let text = "€".repeat(500);
    server.create("/demo/s", "text/plain", "");
    for piece in text.as_bytes().chunks(40) {
        server.append("/demo/s", "text/plain", piece);
    }
    let mut sse = server.sse("/demo/s?offset=-1&live=sse");
    assert_eq!(text_until_caught_up(&mut sse), text);
}

#[test]
fn data_and_control_leave_in_one_piece_and_offsets_rise() {
    let server = Headwater::with(|config| config.read_page_bytes = 1000);
    server.create("/demo/s", "text/plain", "");
    for _ in 0..50 {
        server.append("/demo/s", "text/plain", "x".repeat(100));
    }
    let mut connection = server.connect();
    connection.send(&get("/demo/s?offset=-1&live=sse"));
    assert_eq!(connection.answer_head().status, 200);
    let mut offsets = Vec::new();
    while offsets.last() != Some(&offset(5000)) {
        let chunk = String::from_utf8(connection.chunk().unwrap().unwrap()).unwrap();
        // One space after `event:`, none after `data:`, LF line ends.
        let (data, control) = chunk.split_once("\n\nid:").expect(&chunk);
        let (id, control) = control.split_once("\nevent: control\ndata:{").expect(&chunk);
        assert!(data.starts_with(&format!("id:{id}\nevent: data\ndata:x")));
        assert!(control.ends_with("}\n\n") && !control.contains('\r'));
        let next = control.split("streamNextOffset\":\"").nth(1).unwrap();
        assert_eq!(&next[..20], id);
        offsets.push(next[..20].to_owned());
    }
    assert!(offsets.windows(2).all(|two| two[0] < two[1]));
    assert_eq!(offsets.len(), 5, "a page is one event");
}

#[test]
fn binary_is_base64_event_by_event_and_text_and_json_are_not() {
    let server = Headwater::start();
    let binary =
        ["application/octet-stream", "image/png", "application/ndjson", "application/x+json"];
    for (index, content_type) in binary.into_iter().enumerate() {
        let path = format!("/demo/b{index}");
        server.create(&path, content_type, [0xfb, 0xff]);
        let mut sse = server.sse(&format!("{path}?offset=-1&live=sse"));
        assert_eq!(sse.head.need("stream-sse-data-encoding"), "base64");
        assert_eq!(sse.pair().0, "+/8=");
        server.append(&path, content_type, [0]);
        assert_eq!(sse.pair().0, "AA==");
    }
    for content_type in ["text/html", "TEXT/plain; charset=latin1", "application/json"] {
        let path = format!("/demo/t{}", content_type.len());
        server.send(put(&path).typed(content_type, "1")).expect(201);
        let mut sse = server.sse(&format!("{path}?offset=-1&live=sse"));
        assert_eq!(sse.head.header("stream-sse-data-encoding"), None);
        sse.pair();
    }
}
