//! The one error of every parser on the wire: the client wrote something that cannot be read.

use std::fmt;

/// The longest piece of input that a message quotes, in characters.
pub const SHOWN_CHARS_MAX: usize = 80;

/// The codes that an [`Invalid`] may carry. Programs match on them, so they never change.
pub mod code {
    /// An address with a bad escape, an empty segment, a hidden slash.
    pub const INVALID_PATH: &str = "INVALID_PATH";
    /// A bucket id outside its pattern.
    pub const INVALID_BUCKET_ID: &str = "INVALID_BUCKET_ID";
    /// A stream id or base path outside its rules.
    pub const INVALID_STREAM_ID: &str = "INVALID_STREAM_ID";
    /// A query parameter that is malformed, repeated, or at odds with another.
    pub const INVALID_QUERY: &str = "INVALID_QUERY";
    /// A text that is no offset.
    pub const INVALID_OFFSET: &str = "INVALID_OFFSET";
    /// A protocol header that is repeated, unreadable, too long, or outside its grammar.
    pub const INVALID_HEADER: &str = "INVALID_HEADER";
    /// `Producer-*`: incomplete or malformed.
    pub const INVALID_PRODUCER: &str = "INVALID_PRODUCER";
    /// A content type that is no media type.
    pub const INVALID_CONTENT_TYPE: &str = "INVALID_CONTENT_TYPE";
    /// `Stream-TTL` or `Stream-Expires-At`: malformed, or both.
    pub const INVALID_LIFETIME: &str = "INVALID_LIFETIME";
    /// `Stream-Fork*`: incomplete or malformed.
    pub const INVALID_FORK: &str = "INVALID_FORK";
    /// Attributes that are no JSON object, or too many of them for a header.
    pub const INVALID_ATTRIBUTES: &str = "INVALID_ATTRIBUTES";

    /// All of them, for whoever keeps the table of titles.
    pub const ALL: [&str; 11] = [
        INVALID_PATH,
        INVALID_BUCKET_ID,
        INVALID_STREAM_ID,
        INVALID_QUERY,
        INVALID_OFFSET,
        INVALID_HEADER,
        INVALID_PRODUCER,
        INVALID_CONTENT_TYPE,
        INVALID_LIFETIME,
        INVALID_FORK,
        INVALID_ATTRIBUTES,
    ];
}

/// A part of a request that cannot be read. Always answered 400.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invalid {
    /// One of [`code`].
    pub code: &'static str,
    /// What happened, what was expected, what came: one sentence for the client's developer.
    pub detail: String,
}

impl Invalid {
    /// A refusal with a ready-made sentence; quote input in it only through [`shown`].
    pub fn new(code: &'static str, detail: impl Into<String>) -> Self {
        Self { code, detail: detail.into() }
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)
    }
}

impl std::error::Error for Invalid {}

/// `input` as a message may quote it: in double quotes, escaped to printable ASCII, and with an
/// ellipsis in place of everything past [`SHOWN_CHARS_MAX`] characters.
pub fn shown(input: impl AsRef<[u8]>) -> String {
    let input = input.as_ref();
    let mut text = String::from("\"");
    let mut room = SHOWN_CHARS_MAX;
    for &byte in input {
        let escaped = byte.escape_ascii();
        if escaped.len() > room {
            return text + "…\"";
        }
        room -= escaped.len();
        text.extend(escaped.map(char::from));
    }
    text + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_is_quoted_escaped_and_short() {
        assert_eq!(shown("a\r\n\"é"), r#""a\r\n\"\xc3\xa9""#);
        assert_eq!(shown("x".repeat(80)), format!("\"{}\"", "x".repeat(80)));
        assert_eq!(shown("x".repeat(81)), format!("\"{}…\"", "x".repeat(80)));
        assert!(shown("\0".repeat(1000)).chars().count() <= SHOWN_CHARS_MAX + 3);
    }
}
