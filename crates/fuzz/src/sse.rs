//! Server-sent events: what a client puts together from them is what went in.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::BytesMut;
use headwater_core::json;
use headwater_core::wire::sse::{self, Control, KEEP_ALIVE, TextEvents};

use crate::input::Input;

/// The first byte says which kind of stream, then come pieces, each behind its length.
pub(crate) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    match input.byte() % 5 {
        0 => text(input),
        1 => binary(input),
        2 => json_array(input.rest()),
        3 => control(input),
        _ => held_back(input),
    }
}

/// The texts of several events, one after the other, are the text of the stream with its line ends
/// made LF; no payload forges an event.
fn text(mut input: Input<'_>) {
    let (mut out, mut whole, mut events) = (BytesMut::new(), String::new(), TextEvents::default());
    let mut count = 0;
    while !input.is_empty() {
        let payload = input.piece();
        events.data(&mut out, payload);
        whole.push_str(&String::from_utf8_lossy(payload));
        out.extend_from_slice(KEEP_ALIVE);
        count += 1;
    }
    let read = read(&out);
    assert_eq!(read.len(), count, "an event for each message");
    assert!(read.iter().all(|(kind, _)| kind == "data"));
    let read: String = read.into_iter().map(|(_, data)| data).collect();
    assert_eq!(read, plain(&whole));
}

fn binary(mut input: Input<'_>) {
    let (mut out, mut pieces) = (BytesMut::new(), Vec::new());
    while !input.is_empty() {
        let payload = input.piece();
        sse::data_base64(&mut out, payload);
        pieces.push(payload);
    }
    let read = read(&out);
    assert_eq!(read.len(), pieces.len());
    for ((kind, data), piece) in read.iter().zip(pieces) {
        assert_eq!(kind, "data");
        assert_eq!(STANDARD.decode(data).as_deref(), Ok(piece));
    }
}

fn json_array(body: &[u8]) {
    let Ok(messages) = json::split(body) else { return };
    let mut out = BytesMut::new();
    sse::data_json_array(&mut out, &messages.bytes);
    let page = std::str::from_utf8(json::without_separator(&messages.bytes));
    let page = plain(page.expect("a body that was taken is UTF-8"));
    assert_eq!(read(&out), [("data".to_owned(), format!("[{page}]"))]);
}

fn control(mut input: Input<'_>) {
    let flags = input.byte();
    let flag = |bit: u32| flags >> bit & 1 == 1;
    // What an offset's text may be made of.
    let digit = |byte: &u8| char::from(b"0123456789_"[usize::from(byte % 11)]);
    let next_offset: String = input.piece().iter().map(digit).collect();
    let cursor = String::from_utf8_lossy(input.piece()).into_owned();
    let records = [input.short(), input.short()].map(u64::from);
    let facts = Control {
        next_offset: &next_offset,
        cursor: flag(0).then_some(cursor.as_str()),
        up_to_date: flag(1),
        closed: flag(2),
        first_record: flag(3).then_some(records[0]),
        next_record: flag(4).then_some(records[1]),
    };
    let mut out = BytesMut::new();
    sse::control(&mut out, &facts);
    assert!(out.starts_with(format!("id:{next_offset}\nevent:").as_bytes()));
    let read = read(&out);
    assert_eq!(read.len(), 1);
    assert_eq!(read[0].0, "control");
    let json: serde_json::Value = serde_json::from_str(&read[0].1).expect("a control is JSON");
    let members = 1 + flags.count_ones() - (flags >> 5).count_ones();
    assert_eq!(json.as_object().map(serde_json::Map::len), Some(members as usize));
    assert_eq!(json["streamNextOffset"], next_offset);
    assert_eq!(json["streamCursor"].as_str(), facts.cursor);
    assert_eq!(json["upToDate"].as_bool().unwrap_or(false), facts.up_to_date);
    assert_eq!(json["streamClosed"].as_bool().unwrap_or(false), facts.closed);
    assert_eq!(json["streamFirstRecord"].as_u64(), facts.first_record);
    assert_eq!(json["streamNextRecord"].as_u64(), facts.next_record);
}

/// Holding back the start of a character makes no difference to the text as a whole.
fn held_back(mut input: Input<'_>) {
    let cut = usize::from(input.byte());
    let whole = input.rest();
    let now = &whole[..cut.min(whole.len())];
    let sent = now.len() - sse::incomplete_len(now);
    let pieces = [&whole[..sent], &whole[sent..]].map(String::from_utf8_lossy);
    assert_eq!(pieces.concat(), String::from_utf8_lossy(whole));
    assert!(now.len() - sent < 4);
}

fn plain(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\r', "\n")
}

/// Reads a stream as the HTML standard says, into kinds and data. Nothing is unfinished in ours.
fn read(stream: &[u8]) -> Vec<(String, String)> {
    let text = std::str::from_utf8(stream).expect("an event stream is UTF-8");
    let text = plain(text);
    let (mut events, mut kind, mut data) = (Vec::new(), String::new(), Vec::new());
    for line in text.split_terminator('\n') {
        if line.is_empty() {
            if !data.is_empty() {
                events.push((std::mem::take(&mut kind), data.join("\n")));
            }
            kind.clear();
            data.clear();
            continue;
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut kind),
            "data" => data.push(value),
            "" | "id" => {}
            other => panic!("a field {other:?} that we never write"),
        }
    }
    assert!(data.is_empty() && kind.is_empty(), "the last event was sent off");
    events
}
