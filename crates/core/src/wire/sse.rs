//! Server-sent events (`base-protocol.md` §8, `extensions.md` §10).
//!
//! ```text
//! event: data          one space after `event:`
//! data:first line      none after `data:`, since the parser of the client would eat it;
//! data:  second        so a line that begins with a space gets another one in front
//!                      a blank line sends the event off
//! ```
//!
//! A payload is cut at each CR, LF and CRLF into `data:` lines, which is also what keeps it from
//! forging an event. A parser puts them together with one LF between each two, so what arrives is
//! the payload with its line ends made LF, a last empty line included.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{BufMut, BytesMut};

use crate::json;

#[cfg(test)]
mod tests;

/// The content type of the answer, exactly.
pub const MEDIA_TYPE: &str = "text/event-stream";

/// What an idle connection says from time to time: a comment, which no client ever sees.
pub const KEEP_ALIVE: &[u8] = b":\n\n";

/// The facts of a `control` event, which follows every `data` event in the same write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Control<'a> {
    /// Where to read on.
    pub next_offset: &'a str,
    /// To be sent back on reconnecting; absent once the stream is closed.
    pub cursor: Option<&'a str>,
    /// Whether everything up to the tail has been sent.
    pub up_to_date: bool,
    /// Whether the stream is closed and has been sent to its end.
    pub closed: bool,
    /// On JSON streams, the first retained record.
    pub first_record: Option<u64>,
    /// On JSON streams, the record to read on from.
    pub next_record: Option<u64>,
}

/// Writes the line that gives the event behind it an id: where to read on after it. A browser that
/// comes back says it as `Last-Event-ID`. An offset's text has no byte that could end the line.
pub fn id(out: &mut BytesMut, next_offset: &str) {
    debug_assert!(next_offset.bytes().all(|b| b.is_ascii_digit() || b == b'_'), "an offset");
    out.put_slice(b"id:");
    out.put_slice(next_offset.as_bytes());
    out.put_u8(b'\n');
}

/// Writes the `control` event with its id: one flat JSON object on one line.
pub fn control(out: &mut BytesMut, control: &Control<'_>) {
    id(out, control.next_offset);
    out.put_slice(b"event: control\ndata:{\"streamNextOffset\":");
    put_json_string(out, control.next_offset);
    if let Some(cursor) = control.cursor {
        out.put_slice(b",\"streamCursor\":");
        put_json_string(out, cursor);
    }
    if control.up_to_date {
        out.put_slice(b",\"upToDate\":true");
    }
    if control.closed {
        out.put_slice(b",\"streamClosed\":true");
    }
    for (name, record) in
        [("streamFirstRecord", control.first_record), ("streamNextRecord", control.next_record)]
    {
        if let Some(record) = record {
            out.put_slice(format!(",\"{name}\":{record}").as_bytes());
        }
    }
    out.put_slice(b"}\n\n");
}

/// Writes a `data` event with a JSON array of messages. `messages` is a run of canonical bytes,
/// cut at message boundaries.
pub fn data_json_array(out: &mut BytesMut, messages: &[u8]) {
    let messages = json::without_separator(messages);
    out.reserve(messages.len() + 32);
    out.put_slice(b"event: data\ndata:[");
    // The first line is opened by the bracket already, so no space at its start can be lost.
    put_lines(out, messages);
    out.put_slice(b"]\n\n");
}

/// Writes a `data` event with `payload` in base64 (standard alphabet, padded).
pub fn data_base64(out: &mut BytesMut, payload: &[u8]) {
    out.put_slice(b"event: data\ndata:");
    let start = out.len();
    let encoded_len = base64::encoded_len(payload.len(), true)
        .expect("what fits in memory has an encoded length");
    out.resize(start + encoded_len, 0);
    let written = STANDARD.encode_slice(payload, &mut out[start..]);
    debug_assert_eq!(written, Ok(encoded_len), "room for exactly the encoded bytes was made");
    out.put_slice(b"\n\n");
}

/// The text of one connection to a `text/*` stream, event by event. It knows whether the last
/// event ended in a CR: the LF of a CRLF that two messages share must not arrive as a second one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TextEvents {
    after_cr: bool,
}

impl TextEvents {
    /// Writes a `data` event. Bytes that are not UTF-8 go out as U+FFFD, one for each maximal
    /// broken piece; hold back what may yet become a character, see [`incomplete_len`].
    pub fn data(&mut self, out: &mut BytesMut, payload: &[u8]) {
        let shared = self.after_cr && payload.first() == Some(&b'\n');
        if let Some(last) = payload.last() {
            self.after_cr = *last == b'\r';
        }
        data_text(out, if shared { &payload[1..] } else { payload });
    }
}

/// Writes a `data` event with `payload` as text, as [`TextEvents::data`] does for the first one.
pub fn data_text(out: &mut BytesMut, payload: &[u8]) {
    let text = lossy(payload);
    out.reserve(text.len() + 32);
    out.put_slice(b"event: data\ndata:");
    put_space_before_space(out, text.as_bytes());
    put_lines(out, text.as_bytes());
    out.put_slice(b"\n\n");
}

/// `payload` as text, with one U+FFFD for each maximal broken piece.
pub fn lossy(payload: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(payload)
}

/// How many bytes at the end of `payload` are the beginning of a character whose rest is missing.
/// They are worth holding back while more may come: 0 to 3.
pub fn incomplete_len(payload: &[u8]) -> usize {
    // A byte that begins a longer character is never part of another, so the last such byte is
    // where the last piece begins.
    for len in 1..=payload.len().min(3) {
        let piece = &payload[payload.len() - len..];
        match piece[0] {
            0x80..=0xBF => {}
            0xC2..=0xF4 => {
                let unfinished = std::str::from_utf8(piece)
                    .is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none());
                return if unfinished { len } else { 0 };
            }
            _ => return 0,
        }
    }
    0
}

/// Writes `text` with each line end turned into the start of a new `data:` line.
fn put_lines(out: &mut BytesMut, text: &[u8]) {
    let mut rest = text;
    while let Some(end) = memchr::memchr2(b'\n', b'\r', rest) {
        out.put_slice(&rest[..end]);
        let len = if rest[end..].starts_with(b"\r\n") { 2 } else { 1 };
        rest = &rest[end + len..];
        out.put_slice(b"\ndata:");
        put_space_before_space(out, rest);
    }
    out.put_slice(rest);
}

/// A parser eats one space at the start of a line; give it one that is ours.
fn put_space_before_space(out: &mut BytesMut, line: &[u8]) {
    if line.first() == Some(&b' ') {
        out.put_u8(b' ');
    }
}

fn put_json_string(out: &mut BytesMut, text: &str) {
    serde_json::to_writer(out.writer(), text).expect("a buffer in memory takes any string");
}
