use proptest::prelude::*;

use super::*;

/// An event as a browser would hand it over.
#[derive(Debug, PartialEq)]
struct Event {
    kind: String,
    data: String,
}

fn event(kind: &str, data: impl Into<String>) -> Event {
    Event { kind: kind.into(), data: data.into() }
}

/// The parser of the WHATWG standard (HTML §9.2.6), written from its text and not from our writer.
fn parse(stream: &[u8]) -> Vec<Event> {
    let text = String::from_utf8_lossy(stream);
    let text = text.strip_prefix('\u{FEFF}').unwrap_or(&text);
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let (mut events, mut kind, mut data) = (Vec::new(), String::new(), String::new());
    // What stands behind the last line end is an unfinished line, which is never processed.
    let complete = text.rfind('\n').map_or("", |end| &text[..end]);
    for line in complete.split('\n') {
        if line.is_empty() {
            if !data.is_empty() {
                let kind = if kind.is_empty() { "message" } else { &kind };
                events.push(event(kind, data.strip_suffix('\n').expect("every line adds one")));
            }
            kind.clear();
            data.clear();
            continue;
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => kind = value.into(),
            "data" => data = data + value + "\n",
            _ => {}
        }
    }
    events
}

fn written(write: impl FnOnce(&mut BytesMut)) -> BytesMut {
    let mut out = BytesMut::new();
    write(&mut out);
    out
}

/// What must arrive of a text: line ends are all that SSE changes.
fn with_plain_line_ends(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\r', "\n")
}

#[test]
fn text_events_have_the_exact_bytes_of_the_specification() {
    for (payload, expected) in [
        ("hello", "event: data\ndata:hello\n\n"),
        ("", "event: data\ndata:\n\n"),
        ("a\nb", "event: data\ndata:a\ndata:b\n\n"),
        ("a\r\nb\rc\n\nd", "event: data\ndata:a\ndata:b\ndata:c\ndata:\ndata:d\n\n"),
        ("end\n", "event: data\ndata:end\ndata:\n\n"),
        (" a\n  b\n c", "event: data\ndata:  a\ndata:   b\ndata:  c\n\n"),
        (
            "a\n\nevent: control\ndata:{}",
            "event: data\ndata:a\ndata:\ndata:event: control\ndata:data:{}\n\n",
        ),
    ] {
        let out = written(|out| data_text(out, payload.as_bytes()));
        assert_eq!(std::str::from_utf8(&out), Ok(expected), "{payload:?}");
    }
}

#[test]
fn unusual_text_survives_a_conforming_parser() {
    for payload in [
        "",
        "\n",
        "\n\n",
        " ",
        "  \n ",
        "a\n",
        "\na",
        "\u{FEFF}bom",
        "nul\0nul",
        "id: 1\nretry: 5\n: comment",
        "\u{2028}\u{85}\u{B}\u{C}",
        "a\r\r\nb\n\r",
    ] {
        let out = written(|out| data_text(out, payload.as_bytes()));
        assert_eq!(parse(&out), [event("data", with_plain_line_ends(payload))], "{payload:?}");
    }
}

#[test]
fn a_line_end_that_two_events_share_arrives_once() {
    let arrives = |payloads: &[&str]| {
        let mut text = TextEvents::default();
        let out = written(|out| payloads.iter().for_each(|p| text.data(out, p.as_bytes())));
        parse(&out).into_iter().map(|event| event.data).collect::<Vec<_>>()
    };
    assert_eq!(arrives(&["a\r", "\nb"]), ["a\n", "b"]);
    assert_eq!(arrives(&["a\r", "\n", "\nb"]), ["a\n", "", "\nb"]);
    assert_eq!(arrives(&["a\r", "b", "\nc"]), ["a\n", "b", "\nc"]);
    assert_eq!(arrives(&["a\n", "\nb"]), ["a\n", "\nb"]);
    assert_eq!(arrives(&["a\r", "", "\nb"]), ["a\n", "", "b"]);
}

#[test]
fn broken_text_goes_out_as_one_replacement_for_each_maximal_piece() {
    for (payload, expected) in [
        (&b"a\xFFb"[..], "a\u{FFFD}b"),
        (b"\xE2\x82", "\u{FFFD}"),
        (b"\xE2\x82\xE2\x82\xAC", "\u{FFFD}€"),
        (b"\xF0\x80\x80\x80", "\u{FFFD}\u{FFFD}\u{FFFD}\u{FFFD}"),
        (b"\xED\xA0\x80", "\u{FFFD}\u{FFFD}\u{FFFD}"),
        (b"\xC0\xAF", "\u{FFFD}\u{FFFD}"),
    ] {
        let out = written(|out| data_text(out, payload));
        assert_eq!(parse(&out), [event("data", expected)], "{payload:?}");
    }
}

#[test]
fn the_unfinished_end_of_a_text_is_measured() {
    for (payload, len) in [
        (&b""[..], 0),
        (b"abc", 0),
        ("€🙂".as_bytes(), 0),
        (b"a\xC3", 1),
        (b"a\xE2", 1),
        (b"a\xE2\x82", 2),
        (b"\xF0", 1),
        (b"\xF0\x9F", 2),
        (b"\xF0\x9F\x99", 3),
        (b"\xE2\x82\xE2\x82", 2),
        // These can never become a character.
        (b"\xFF", 0),
        (b"\xC0", 0),
        (b"\xF5", 0),
        (b"\x80", 0),
        (b"a\x80\x80", 0),
        (b"\x80\x80\x80\x80", 0),
        (b"\xE0\x80", 0),
        (b"\xED\xA0", 0),
        (b"\xF0\x80", 0),
        (b"\xF4\x90", 0),
        (b"\xC3\xA9\xA9", 0),
    ] {
        assert_eq!(incomplete_len(payload), len, "{payload:?}");
    }
}

#[test]
fn json_goes_out_as_one_array() {
    for (messages, expected) in [
        ("", "event: data\ndata:[]\n\n"),
        ("1,", "event: data\ndata:[1]\n\n"),
        (r#"{"id":1},{"id":2},"#, "event: data\ndata:[{\"id\":1},{\"id\":2}]\n\n"),
        ("{\n \"a\":\r\n1},", "event: data\ndata:[{\ndata:  \"a\":\ndata:1}]\n\n"),
    ] {
        let out = written(|out| data_json_array(out, messages.as_bytes()));
        assert_eq!(std::str::from_utf8(&out), Ok(expected), "{messages}");
    }
}

#[test]
fn binary_goes_out_in_padded_base64() {
    for (payload, expected) in [
        (&b""[..], "event: data\ndata:\n\n"),
        (b"\xFB\xEF", "event: data\ndata:++8=\n\n"),
        (b"hello\n", "event: data\ndata:aGVsbG8K\n\n"),
    ] {
        let out = written(|out| data_base64(out, payload));
        assert_eq!(std::str::from_utf8(&out), Ok(expected), "{payload:?}");
    }
}

#[test]
fn control_events_say_only_what_is_so() {
    let least = Control {
        next_offset: "00000000000000000042",
        cursor: None,
        up_to_date: false,
        closed: false,
        first_record: None,
        next_record: None,
    };
    let out = written(|out| control(out, &least));
    let expected = "id:00000000000000000042\nevent: control\n\
        data:{\"streamNextOffset\":\"00000000000000000042\"}\n\n";
    assert_eq!(out, expected);

    let most = Control {
        cursor: Some("1000"),
        up_to_date: true,
        closed: true,
        first_record: Some(0),
        next_record: Some(7),
        ..least
    };
    let out = written(|out| control(out, &most));
    let expected = "id:00000000000000000042\nevent: control\n\
        data:{\"streamNextOffset\":\"00000000000000000042\",\
        \"streamCursor\":\"1000\",\"upToDate\":true,\"streamClosed\":true,\
        \"streamFirstRecord\":0,\"streamNextRecord\":7}\n\n";
    assert_eq!(out, expected);
}

#[test]
fn a_keep_alive_is_no_event() {
    let out = written(|out| {
        out.put_slice(KEEP_ALIVE);
        data_text(out, b"a");
        out.put_slice(KEEP_ALIVE);
        data_text(out, b"b");
    });
    assert_eq!(parse(&out), [event("data", "a"), event("data", "b")]);
}

proptest! {
    #[test]
    fn text_arrives_as_it_was_sent(
        payloads in prop::collection::vec("[ \t\r\n\u{0}:a€\u{FEFF}]{0,8}|.*", 1..4),
    ) {
        let out = written(|out| payloads.iter().for_each(|p| data_text(out, p.as_bytes())));
        let expected: Vec<_> =
            payloads.iter().map(|p| event("data", with_plain_line_ends(p))).collect();
        prop_assert_eq!(parse(&out), expected);
    }

    /// However a text is cut into messages, the pieces of one connection add up to it.
    #[test]
    fn the_events_of_a_connection_add_up(payloads in prop::collection::vec("[\r\na ]{0,3}", 0..9)) {
        let mut text = TextEvents::default();
        let out = written(|out| payloads.iter().for_each(|p| text.data(out, p.as_bytes())));
        let arrived: String = parse(&out).into_iter().map(|event| event.data).collect();
        prop_assert_eq!(arrived, with_plain_line_ends(&payloads.concat()));
    }

    /// Holding back what is unfinished makes it irrelevant where a text was cut.
    #[test]
    fn characters_survive_any_cut(
        text in prop_oneof![
            ".{0,9}".prop_map(String::into_bytes),
            prop::collection::vec(prop_oneof![0x7E..0xFFu8, any::<u8>()], 0..9),
        ],
        cut in 0..9_usize,
    ) {
        let cut = cut.min(text.len());
        let sent = cut - incomplete_len(&text[..cut]);
        prop_assert!(cut - sent <= 3);
        let pieces = [lossy(&text[..sent]), lossy(&text[sent..])].concat();
        prop_assert_eq!(pieces, lossy(&text));
    }

    #[test]
    fn json_arrives_valid_and_equal(
        values in prop::collection::vec(r#"[0-9]|" [a-z ]{0,3}"|\[[ \r\n]{0,4}\]"#, 0..5),
    ) {
        let canonical = values.iter().fold(String::new(), |all, value| all + value + ",");
        let out = written(|out| data_json_array(out, canonical.as_bytes()));
        let events = parse(&out);
        prop_assert_eq!(events.len(), 1);
        let arrived: Vec<serde_json::Value> = serde_json::from_str(&events[0].data).unwrap();
        let sent: Vec<serde_json::Value> =
            values.iter().map(|value| serde_json::from_str(value).unwrap()).collect();
        prop_assert_eq!(arrived, sent);
    }

    #[test]
    fn binary_arrives_as_it_was_sent(payload in prop::collection::vec(any::<u8>(), 0..50)) {
        let out = written(|out| data_base64(out, &payload));
        let events = parse(&out);
        prop_assert_eq!(events.len(), 1);
        prop_assert_eq!(STANDARD.decode(&events[0].data).unwrap(), payload);
    }
}
