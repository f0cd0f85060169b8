//! Reading a `multipart/mixed` answer part by part, in constant memory (`extensions.md` §6).

use std::io::{self, Read};
use std::ops::Range;

use memchr::memmem;

/// The parts of an answer, front to back.
#[derive(Debug)]
pub(crate) struct Parts<R> {
    input: R,
    /// What was read; that before `at` was given out.
    buffer: Vec<u8>,
    at: usize,
    /// `CRLF -- boundary`: what ends a body.
    delimiter: Vec<u8>,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Inside a body, or before the first boundary.
    Body,
    /// Behind a boundary.
    Head,
    /// Behind the final boundary.
    End,
}

/// How much is read at once.
const CHUNK_BYTES: usize = 64 * 1024;
/// The headers of a part.
const HEAD_BYTES_MAX: usize = 16 * 1024;

impl<R: Read> Parts<R> {
    /// The parts of `input`, whose content type is `content_type`. `None` if that is no multipart.
    pub(crate) fn new(input: R, content_type: &str) -> Option<Self> {
        let boundary = boundary(content_type)?;
        Some(Self {
            input,
            // The first boundary has no line end before it; given one, it is found like the others.
            buffer: b"\r\n".to_vec(),
            at: 0,
            delimiter: format!("\r\n--{boundary}").into_bytes(),
            state: State::Body,
        })
    }

    /// The content type of the next part; what is left of the one before is skipped. `None` behind
    /// the final boundary. An answer that ends before it is an error: it was cut off.
    pub(crate) fn next_part(&mut self) -> io::Result<Option<String>> {
        while self.next_piece()?.is_some() {}
        if self.state == State::End {
            return Ok(None);
        }
        loop {
            let unread = &self.buffer[self.at..];
            if unread.starts_with(b"--") {
                self.state = State::End;
                return Ok(None);
            }
            // The rest of the boundary's line, the headers, a blank line.
            if let Some(len) = memmem::find(unread, b"\r\n\r\n") {
                let content_type = content_type(&unread[..len]);
                self.at += len + 4;
                self.state = State::Body;
                return Ok(Some(content_type));
            }
            if unread.len() > HEAD_BYTES_MAX {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    "the headers of a part do not end",
                ));
            }
            self.fill()?;
        }
    }

    /// More of the current part's body; `None` at its end.
    pub(crate) fn next_piece(&mut self) -> io::Result<Option<&[u8]>> {
        let piece = self.find_piece()?;
        Ok(piece.map(|range| &self.buffer[range]))
    }

    fn find_piece(&mut self) -> io::Result<Option<Range<usize>>> {
        while self.state == State::Body {
            let unread = &self.buffer[self.at..];
            let found = memmem::find(unread, &self.delimiter);
            // Without a delimiter, all but what may be the begin of one.
            let len = found.unwrap_or(unread.len().saturating_sub(self.delimiter.len() - 1));
            if len > 0 {
                self.at += len;
                return Ok(Some(self.at - len..self.at));
            }
            if found.is_some() {
                self.at += self.delimiter.len();
                self.state = State::Head;
            } else {
                self.fill()?;
            }
        }
        Ok(None)
    }

    fn fill(&mut self) -> io::Result<()> {
        self.buffer.drain(..self.at);
        self.at = 0;
        let had = self.buffer.len();
        self.buffer.resize(had + CHUNK_BYTES, 0);
        let read = self.input.read(&mut self.buffer[had..]);
        self.buffer.truncate(had + *read.as_ref().unwrap_or(&0));
        match read {
            Ok(0) => Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "it was cut off before its final boundary",
            )),
            Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
            _ => Ok(()),
        }
    }
}

/// The boundary parameter of a multipart content type.
fn boundary(content_type: &str) -> Option<&str> {
    let mut pieces = content_type.split(';').map(str::trim);
    let is_multipart = pieces.next()?.get(..10)?.eq_ignore_ascii_case("multipart/");
    let value = pieces.find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case("boundary").then_some(value)
    })?;
    let value = value.trim().trim_matches('"');
    (is_multipart && !value.is_empty()).then_some(value)
}

/// The content type among the headers of a part; that of plain text if there is none, as MIME says.
fn content_type(head: &[u8]) -> String {
    let head = String::from_utf8_lossy(head);
    head.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.trim().eq_ignore_ascii_case("content-type"))
        .map_or("text/plain", |(_, value)| value.trim())
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives out at most `step` bytes a read.
    struct Slow<'a> {
        rest: &'a [u8],
        step: usize,
    }

    impl Read for Slow<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let len = self.step.min(self.rest.len()).min(buffer.len());
            let (now, later) = self.rest.split_at(len);
            buffer[..len].copy_from_slice(now);
            self.rest = later;
            Ok(len)
        }
    }

    fn parts(text: &[u8], step: usize) -> io::Result<Vec<(String, Vec<u8>)>> {
        let input = Slow { rest: text, step };
        let mut parts = Parts::new(input, "multipart/mixed; boundary=B").expect("multipart");
        let mut all = Vec::new();
        while let Some(content_type) = parts.next_part()? {
            let mut body = Vec::new();
            while let Some(piece) = parts.next_piece()? {
                body.extend_from_slice(piece);
            }
            all.push((content_type, body));
        }
        Ok(all)
    }

    const TEXT: &[u8] = b"--B\r\nContent-Type: application/octet-stream\r\n\r\n\r\n\
        --B\r\nContent-Type: text/plain\r\n\r\n\r\n--A\r\n-\r\n\r\n\
        --B\r\ncontent-type: text/plain; x=\"y\"\r\n\r\nhello\r\n--B--\r\n";

    #[test]
    fn parts_are_exact_however_the_bytes_arrive() {
        let expected = [
            ("application/octet-stream", &b""[..]),
            ("text/plain", b"\r\n--A\r\n-\r\n"),
            ("text/plain; x=\"y\"", b"hello"),
        ]
        .map(|(content_type, body)| (content_type.to_owned(), body.to_vec()));
        for step in 1..=TEXT.len() {
            assert_eq!(parts(TEXT, step).expect("complete"), expected, "{step}");
        }
    }

    #[test]
    fn an_answer_without_its_final_boundary_was_cut_off() {
        let final_boundary = b"--\r\n".len();
        for len in 0..TEXT.len() - final_boundary + 2 {
            let error = parts(&TEXT[..len], 7).expect_err("cut off");
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{len}");
        }
    }

    #[test]
    fn a_body_that_is_not_read_is_skipped() {
        let mut parts = Parts::new(TEXT, "multipart/mixed; boundary=B").expect("multipart");
        let mut count = 0;
        while parts.next_part().expect("complete").is_some() {
            count += 1;
        }
        assert_eq!(count, 3);
        assert_eq!(parts.next_part().expect("complete"), None);
    }

    #[test]
    fn a_large_body_comes_in_pieces() {
        let body = vec![b'\r'; 5 * CHUNK_BYTES];
        let text = [b"--B\r\n\r\n", &body[..], b"\r\n--B--\r\n"].concat();
        let parts = parts(&text, CHUNK_BYTES).expect("complete");
        assert_eq!(parts, [("text/plain".to_owned(), body)]);
    }

    #[test]
    fn the_boundary_is_a_parameter_of_a_multipart_type() {
        for text in ["multipart/mixed; boundary=abc", "Multipart/Mixed;charset=x; Boundary=\"abc\""]
        {
            assert_eq!(boundary(text), Some("abc"), "{text}");
        }
        for text in
            ["", "text/plain; boundary=abc", "multipart/mixed", "multipart/mixed; boundary="]
        {
            assert_eq!(boundary(text), None, "{text}");
        }
    }

    #[test]
    fn headers_that_do_not_end_are_refused() {
        let text = [b"--B\r\nX: ", &vec![b'x'; 2 * CHUNK_BYTES][..]].concat();
        let error = parts(&text, CHUNK_BYTES).expect_err("malformed");
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }
}
