//! The framing of a bootstrap answer (`extensions.md` §6): `multipart/mixed` with exact bytes, no
//! preamble and no epilogue.
//!
//! ```text
//! --B CRLF Content-Type: T CRLF CRLF body CRLF … --B-- CRLF
//! ```

use bytes::{BufMut, BytesMut};

/// What follows each part's body.
pub const PART_TAIL: &[u8] = b"\r\n";

/// The boundary of one answer. Its 128 random bits are what keeps it from occurring in a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Boundary(String);

impl Boundary {
    /// The boundary made of `random`, which must be fresh for each answer.
    pub fn new(random: u128) -> Self {
        Self(format!("{random:032x}"))
    }

    /// The value of the answer's `Content-Type` header.
    pub fn content_type(&self) -> String {
        format!("multipart/mixed; boundary={}", self.0)
    }

    /// Begins a part whose body is of `content_type`, a checked media type. The body and
    /// [`PART_TAIL`] follow.
    pub fn begin_part(&self, out: &mut BytesMut, content_type: &str) {
        for piece in ["--", &self.0, "\r\nContent-Type: ", content_type, "\r\n\r\n"] {
            out.put_slice(piece.as_bytes());
        }
    }

    /// Ends the answer. A client that does not see this knows that it was cut off.
    pub fn close(&self, out: &mut BytesMut) {
        for piece in ["--", &self.0, "--\r\n"] {
            out.put_slice(piece.as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_are_exactly_those_of_the_specification() {
        let boundary = Boundary::new(0xB0);
        let token = "000000000000000000000000000000b0";
        assert_eq!(boundary.content_type(), format!("multipart/mixed; boundary={token}"));

        let mut out = BytesMut::new();
        boundary.begin_part(&mut out, "application/octet-stream");
        out.put_slice(PART_TAIL);
        boundary.begin_part(&mut out, "text/plain; charset=utf-8");
        out.put_slice(b"hello");
        out.put_slice(PART_TAIL);
        boundary.close(&mut out);
        let expected = format!(
            "--{token}\r\nContent-Type: application/octet-stream\r\n\r\n\r\n\
             --{token}\r\nContent-Type: text/plain; charset=utf-8\r\n\r\nhello\r\n\
             --{token}--\r\n"
        );
        assert_eq!(out, expected);
    }
}
