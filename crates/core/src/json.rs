//! JSON mode (`base-protocol.md` §9, `extensions.md` §2 and §10): a request body becomes messages,
//! each kept exactly as its writer spelled it.
//!
//! ```text
//! request    [ {"a": 1} , 2,
//!              [3] ]
//! messages   {"a": 1},2,[3],       canonical bytes: each message and one separator
//!            └───lens───┘└┘└──┘    which belongs to the message before it
//! page       [{"a": 1},2,[3]]      brackets around the bytes less the last separator
//! ```
//!
//! Nothing here prints JSON that it has parsed: numbers of any length, duplicate names and lone
//! surrogate escapes survive because only the text is ever copied.

use std::fmt;

use bytes::{BufMut, Bytes, BytesMut};

use crate::ids::Record;
use scan::Scan;

mod scan;
#[cfg(test)]
mod tests;

/// The byte that follows each message in a stream's canonical bytes.
pub const SEPARATOR: u8 = b',';

/// How deep a request's arrays and objects may nest, the outermost one counted.
pub const DEPTH_MAX: u32 = 128;

/// The most messages that one request may carry.
pub const MESSAGES_MAX: usize = 1_048_576;

/// What a request body brings to a JSON stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Messages {
    /// The canonical bytes: each message's text, each followed by [`SEPARATOR`].
    pub bytes: Bytes,
    /// The length of each message, its separator counted; they add up to `bytes`.
    pub lens: Vec<u32>,
}

/// Why a body is no JSON that we take. Positions are in bytes from the start of the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JsonError {
    /// Not JSON (RFC 8259).
    Syntax {
        /// Where it stops being JSON; the length of the body if that is where it breaks off.
        at: usize,
        /// What could have stood there, as a noun.
        expected: &'static str,
    },
    /// Not UTF-8.
    Utf8 {
        /// The first byte that belongs to no character.
        at: usize,
    },
    /// An array or object beyond [`DEPTH_MAX`].
    TooDeep {
        /// Where it opens.
        at: usize,
    },
    /// More than [`MESSAGES_MAX`] messages.
    TooMany {
        /// Where the first one too many begins.
        at: usize,
    },
    /// One message of 4 GiB or more.
    TooLong {
        /// Where it begins.
        at: usize,
    },
}

impl JsonError {
    /// The stable word for programs. `TOO_MANY_MESSAGES` and `MESSAGE_TOO_LARGE` are a 413, the
    /// others a 400.
    pub fn code(self) -> &'static str {
        match self {
            Self::Syntax { .. } | Self::Utf8 { .. } => "INVALID_JSON",
            Self::TooDeep { .. } => "JSON_TOO_DEEP",
            Self::TooMany { .. } => "TOO_MANY_MESSAGES",
            Self::TooLong { .. } => "MESSAGE_TOO_LARGE",
        }
    }
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax { at, expected } => write!(f, "expected {expected} at byte {at}"),
            Self::Utf8 { at } => write!(f, "expected UTF-8, byte {at} belongs to no character"),
            Self::TooDeep { at } => {
                write!(f, "arrays and objects nest at most {DEPTH_MAX} deep, exceeded at byte {at}")
            }
            Self::TooMany { at } => {
                write!(
                    f,
                    "a request carries at most {MESSAGES_MAX} messages, exceeded at byte {at}"
                )
            }
            Self::TooLong { at } => {
                write!(f, "a message has less than 4 GiB, exceeded by the one at byte {at}")
            }
        }
    }
}

impl std::error::Error for JsonError {}

/// Checks that `body` is JSON and takes it apart into messages: the elements of an outer array,
/// else the one value itself. An empty array brings none, which is for the caller to judge.
///
/// All of the body is checked before anything is returned. Nesting costs no stack.
pub fn split(body: &[u8]) -> Result<Messages, JsonError> {
    let mut scan = Scan::new(body)?;
    let mut messages = Builder::with_room_for(body);
    scan.white_space();
    if scan.open_array()? {
        scan.white_space();
        let mut more = !scan.eat(b']');
        while more {
            scan.white_space();
            messages.push(scan.position(), scan.value()?)?;
            scan.white_space();
            more = scan.eat(b',');
            if !more && !scan.eat(b']') {
                return Err(scan.expected("',' or ']'"));
            }
        }
    } else {
        messages.push(scan.position(), scan.value()?)?;
    }
    scan.end()?;
    Ok(messages.finish())
}

/// Checks that `text` is one JSON object, within [`DEPTH_MAX`], and returns it without the white
/// space around it.
pub fn object(text: &[u8]) -> Result<&str, JsonError> {
    let mut scan = Scan::new(text)?;
    scan.white_space();
    if scan.peek() != Some(b'{') {
        return Err(scan.expected("an object"));
    }
    let object = scan.value()?;
    scan.end()?;
    Ok(std::str::from_utf8(object).expect("all of the text was checked to be UTF-8"))
}

/// Messages being collected.
struct Builder {
    bytes: Vec<u8>,
    lens: Vec<u32>,
}

impl Builder {
    fn with_room_for(body: &[u8]) -> Self {
        // Every message of an array but the last brings its separator along.
        Self { bytes: Vec::with_capacity(body.len() + 1), lens: Vec::new() }
    }

    fn push(&mut self, at: usize, text: &[u8]) -> Result<(), JsonError> {
        if self.lens.len() == MESSAGES_MAX {
            return Err(JsonError::TooMany { at });
        }
        let len = u32::try_from(text.len() + 1).map_err(|_too_large| JsonError::TooLong { at })?;
        self.bytes.extend_from_slice(text);
        self.bytes.push(SEPARATOR);
        self.lens.push(len);
        Ok(())
    }

    fn finish(mut self) -> Messages {
        // A body of little but white space must not be held as if it were all message.
        if self.bytes.len() < self.bytes.capacity() / 2 {
            self.bytes.shrink_to_fit();
        }
        Messages { bytes: self.bytes.into(), lens: self.lens }
    }
}

/// A page of messages as a JSON array. `messages` is a run of canonical bytes, cut at message
/// boundaries.
pub fn write_array(out: &mut BytesMut, messages: &[u8]) {
    out.reserve(messages.len() + 2);
    out.put_u8(b'[');
    out.put_slice(without_separator(messages));
    out.put_u8(b']');
}

/// One message, with or without its separator, as a line of NDJSON.
pub fn write_line(out: &mut BytesMut, message: &[u8]) {
    write_on_one_line(out, without_separator(message));
    out.put_u8(b'\n');
}

/// One message, with or without its separator, as a line of NDJSON that names its record.
pub fn write_record_line(out: &mut BytesMut, record: Record, message: &[u8]) {
    out.put_slice(format!("{{\"record\":{record},\"value\":").as_bytes());
    write_on_one_line(out, without_separator(message));
    out.put_slice(b"}\n");
}

/// Messages less their last separator. No JSON text ends with one, so this is safe on both forms.
pub fn without_separator(messages: &[u8]) -> &[u8] {
    messages.strip_suffix(&[SEPARATOR]).unwrap_or(messages)
}

/// A raw CR or LF in a message can only be white space between tokens, so a space means the same.
fn write_on_one_line(out: &mut BytesMut, message: &[u8]) {
    let start = out.len();
    out.put_slice(message);
    for byte in &mut out[start..] {
        if matches!(byte, b'\r' | b'\n') {
            *byte = b' ';
        }
    }
}
