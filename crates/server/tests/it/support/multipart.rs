//! A strict reader of the bootstrap's multipart, written from RFC 2046 and not from the server.

use super::Answer;

/// One part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) content_type: String,
    pub(crate) body: Vec<u8>,
}

impl Part {
    pub(crate) fn new(content_type: &str, body: impl AsRef<[u8]>) -> Self {
        Self { content_type: content_type.to_owned(), body: body.as_ref().to_vec() }
    }
}

/// The parts of an answer, which must have exactly the bytes that `extensions.md` §6 lists: no
/// preamble, no epilogue, one header a part.
pub(crate) fn parts(answer: &Answer) -> Vec<Part> {
    let content_type = answer.need("content-type");
    let token = content_type.strip_prefix("multipart/mixed; boundary=").expect(content_type);
    assert!((1..=70).contains(&token.len()), "RFC 2046 allows 70 characters: {token}");
    let delimiter = format!("--{token}");
    let between = format!("\r\n{delimiter}");
    let mut rest = answer.body.strip_prefix(delimiter.as_bytes()).expect("no preamble");
    let mut parts = Vec::new();
    loop {
        if rest == b"--\r\n" {
            return parts;
        }
        rest = rest.strip_prefix(b"\r\nContent-Type: ").expect("one header");
        let line = find(rest, b"\r\n\r\n").expect("an end of the head");
        let content_type = String::from_utf8(rest[..line].to_vec()).unwrap();
        assert!(!content_type.contains(['\r', '\n']), "one header only: {content_type:?}");
        rest = &rest[line + 4..];
        let end = find(rest, between.as_bytes()).expect("a delimiter behind each body");
        parts.push(Part { content_type, body: rest[..end].to_vec() });
        rest = &rest[end + between.len()..];
    }
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}
