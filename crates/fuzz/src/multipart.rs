//! The framing of a bootstrap: a reader of `multipart/mixed` finds the parts that were written.

use bytes::BytesMut;
use headwater_core::content::ContentType;
use headwater_core::wire::multipart::{Boundary, PART_TAIL};

use crate::input::Input;

/// Each part is a content type and a body, both behind their lengths.
pub(crate) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let boundary = Boundary::new(u128::from(input.short()) << 96 | u128::from(input.short()));
    let (mut out, mut parts) = (BytesMut::new(), Vec::new());
    let token = boundary.content_type();
    let token = token.strip_prefix("multipart/mixed; boundary=").expect("it is how we write it");
    while !input.is_empty() {
        let kind =
            std::str::from_utf8(input.piece()).ok().and_then(|it| ContentType::parse(it).ok());
        let (kind, body) = (kind.unwrap_or_default(), input.piece());
        // The server's boundary is random and fresh; a fuzzer can see this one.
        if !memory_has(body, token.as_bytes()) {
            boundary.begin_part(&mut out, kind.as_str());
            out.extend_from_slice(body);
            out.extend_from_slice(PART_TAIL);
            parts.push((kind.as_str().to_owned(), body.to_vec()));
        }
    }
    boundary.close(&mut out);
    assert_eq!(read(&out, token), parts);
}

/// Reads a body as RFC 2046 §5.1 says, without preamble and epilogue.
fn read(body: &[u8], token: &str) -> Vec<(String, Vec<u8>)> {
    // The line end before a boundary belongs to it.
    let delimiter = format!("\r\n--{token}");
    let body = [b"\r\n", body].concat();
    let mut pieces = split(&body, delimiter.as_bytes()).into_iter();
    assert_eq!(pieces.next(), Some(&b""[..]), "there is no preamble");
    let mut parts = Vec::new();
    for piece in pieces.by_ref() {
        if piece.starts_with(b"--") {
            assert_eq!(piece, b"--\r\n", "nothing follows the end");
            break;
        }
        let piece = piece.strip_prefix(b"\r\n").expect("a boundary stands alone on its line");
        let end = piece.windows(4).position(|at| at == b"\r\n\r\n").expect("a part has a head");
        let head = std::str::from_utf8(&piece[..end]).expect("a head is text");
        let kind = head.strip_prefix("Content-Type: ").expect("a head is one line");
        parts.push((kind.to_owned(), piece[end + 4..].to_vec()));
    }
    assert_eq!(pieces.next(), None, "the end is last");
    parts
}

fn split<'a>(mut bytes: &'a [u8], at: &[u8]) -> Vec<&'a [u8]> {
    let mut pieces = Vec::new();
    while let Some(found) = bytes.windows(at.len()).position(|window| window == at) {
        pieces.push(&bytes[..found]);
        bytes = &bytes[found + at.len()..];
    }
    pieces.push(bytes);
    pieces
}

fn memory_has(bytes: &[u8], what: &[u8]) -> bool {
    bytes.windows(what.len()).any(|window| window == what)
}
