//! The little of HTTP/1.1 that a client needs to read answers, as pure functions over bytes: heads,
//! and the framing of bodies. A real client library costs more than the servers it would measure.

use std::fmt;
use std::io;

use memchr::{memchr, memmem};

/// What a benchmark looks at in the head of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) status: u16,
    /// Where to read on (`Stream-Next-Offset`).
    pub(crate) next_offset: Option<String>,
    pub(crate) up_to_date: bool,
    /// Whether the connection takes another request.
    pub(crate) keep_alive: bool,
    pub(crate) framing: Framing,
}

/// How much of a body is still to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// The body is complete.
    Done,
    /// So many bytes.
    Length(u64),
    /// The line with the size of the next chunk.
    ChunkSize,
    /// So many bytes of a chunk.
    ChunkData(u64),
    /// The line end behind a chunk.
    ChunkEnd,
    /// Trailer fields, up to an empty line.
    Trailer,
    /// Everything until the connection closes.
    UntilClose,
}

/// What the next bytes of a connection are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Not told by what there is: read more.
    More,
    /// So many bytes of framing.
    Skip(usize),
    /// So many bytes of the body.
    Data(usize),
    /// The next answer: this body is complete.
    Done,
}

/// The bytes are no HTTP that we understand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed(&'static str);

/// A head longer than this is an error, so that a broken server cannot fill our memory.
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// A chunk size with its extensions, or one trailer field.
const LINE_BYTES_MAX: usize = 8 * 1024;

impl Head {
    /// The head at the beginning of `bytes` and its length, `None` while it is incomplete.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Option<(Self, usize)>, Malformed> {
        let Some(len) = memmem::find(bytes, b"\r\n\r\n") else {
            let too_long = bytes.len() > HEAD_BYTES_MAX;
            return if too_long { Err(Malformed("endless head")) } else { Ok(None) };
        };
        let text = std::str::from_utf8(&bytes[..len]).map_err(|_bytes| Malformed("head"))?;
        let mut lines = text.split("\r\n");
        let mut head = Self::of_status_line(lines.next().unwrap_or_default())?;
        for line in lines {
            let (name, value) = line.split_once(':').ok_or(Malformed("header field"))?;
            head.note(name, value.trim())?;
        }
        if matches!(head.status, 100..200 | 204 | 304) {
            head.framing = Framing::Done;
        }
        head.keep_alive &= head.framing != Framing::UntilClose;
        Ok(Some((head, len + b"\r\n\r\n".len())))
    }

    fn of_status_line(line: &str) -> Result<Self, Malformed> {
        let malformed = Malformed("status line");
        let (version, rest) = line.split_once(' ').ok_or(malformed)?;
        let minor = version.strip_prefix("HTTP/1.").ok_or(malformed)?;
        let status = rest.get(..3).and_then(|code| code.parse().ok()).ok_or(malformed)?;
        Ok(Self {
            status,
            next_offset: None,
            up_to_date: false,
            keep_alive: minor != "0",
            framing: Framing::UntilClose,
        })
    }

    /// Chunked wins over a length, in whichever order they come.
    fn note(&mut self, name: &str, value: &str) -> Result<(), Malformed> {
        let is = |known: &str| name.eq_ignore_ascii_case(known);
        if is("content-length") {
            let length = value.parse().map_err(|_text| Malformed("content length"))?;
            if self.framing == Framing::UntilClose {
                self.framing = Framing::Length(length);
            }
        } else if is("transfer-encoding") {
            self.framing = Framing::ChunkSize;
        } else if is("connection") {
            self.keep_alive &= !value.eq_ignore_ascii_case("close");
        } else if is("stream-next-offset") {
            self.next_offset = Some(value.to_owned());
        } else if is("stream-up-to-date") {
            self.up_to_date = value.eq_ignore_ascii_case("true");
        }
        Ok(())
    }

    pub(crate) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

impl Framing {
    /// What `bytes`, the next ones of the connection, begin with. They count as taken.
    pub(crate) fn step(&mut self, bytes: &[u8]) -> Result<Step, Malformed> {
        match *self {
            Self::Done | Self::Length(0) => {
                *self = Self::Done;
                Ok(Step::Done)
            }
            Self::ChunkData(0) => {
                *self = Self::ChunkEnd;
                Ok(Step::Skip(0))
            }
            _ if bytes.is_empty() => Ok(Step::More),
            Self::UntilClose => Ok(Step::Data(bytes.len())),
            Self::Length(left) => {
                let taken = at_most(bytes.len(), left);
                *self = Self::Length(left - taken as u64);
                Ok(Step::Data(taken))
            }
            Self::ChunkData(left) => {
                let taken = at_most(bytes.len(), left);
                *self = Self::ChunkData(left - taken as u64);
                Ok(Step::Data(taken))
            }
            Self::ChunkSize | Self::ChunkEnd | Self::Trailer => self.line(bytes),
        }
    }

    fn line(&mut self, bytes: &[u8]) -> Result<Step, Malformed> {
        let Some(end) = memchr(b'\n', bytes) else {
            let too_long = bytes.len() > LINE_BYTES_MAX;
            return if too_long { Err(Malformed("endless line")) } else { Ok(Step::More) };
        };
        let line = &bytes[..end];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        *self = match self {
            Self::ChunkSize => match chunk_size(line)? {
                0 => Self::Trailer,
                size => Self::ChunkData(size),
            },
            Self::ChunkEnd if line.is_empty() => Self::ChunkSize,
            Self::ChunkEnd => return Err(Malformed("end of a chunk")),
            _ if line.is_empty() => Self::Done,
            _ => Self::Trailer,
        };
        Ok(Step::Skip(end + 1))
    }
}

fn chunk_size(line: &[u8]) -> Result<u64, Malformed> {
    let digits = line.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    let text = std::str::from_utf8(digits).map_err(|_bytes| Malformed("chunk size"))?;
    u64::from_str_radix(text, 16).map_err(|_text| Malformed("chunk size"))
}

fn at_most(available: usize, left: u64) -> usize {
    usize::try_from(left).map_or(available, |left| left.min(available))
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the server's answer is no HTTP: {}", self.0)
    }
}

impl std::error::Error for Malformed {}

impl From<Malformed> for io::Error {
    fn from(malformed: Malformed) -> Self {
        Self::new(io::ErrorKind::InvalidData, malformed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(text: &str) -> Head {
        let (head, len) = Head::parse(text.as_bytes()).expect("HTTP").expect("complete");
        assert_eq!(len, text.len());
        head
    }

    /// The body of `bytes`, delivered in pieces of at most `piece` bytes, and what is left over.
    fn body(mut framing: Framing, bytes: &[u8], piece: usize) -> (Vec<u8>, Vec<u8>) {
        let mut pieces = bytes.chunks(piece);
        let (mut pending, mut out) = (Vec::new(), Vec::new());
        loop {
            match framing.step(&pending).expect("well framed") {
                Step::More => pending.extend_from_slice(pieces.next().expect("not yet complete")),
                Step::Skip(len) => drop(pending.drain(..len)),
                Step::Data(len) => out.extend(pending.drain(..len)),
                Step::Done => {
                    return (out, [pending, pieces.flatten().copied().collect()].concat());
                }
            }
        }
    }

    #[test]
    fn a_head_is_complete_only_with_its_last_byte() {
        let text = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nStream-Next-Offset: 07\r\n\
            stream-up-to-date: true\r\n\r\n";
        for cut in 0..text.len() {
            assert_eq!(Head::parse(&text.as_bytes()[..cut]), Ok(None), "{cut}");
        }
        let head = head(text);
        assert_eq!((head.status, head.framing), (200, Framing::Length(5)));
        assert_eq!(head.next_offset.as_deref(), Some("07"));
        assert!(head.up_to_date && head.keep_alive && head.is_success());
    }

    #[test]
    fn the_framing_of_a_body_follows_from_the_head() {
        for (text, framing, keep_alive) in [
            ("HTTP/1.1 204 No Content\r\n\r\n", Framing::Done, true),
            ("HTTP/1.1 304 X\r\nContent-Length: 9\r\n\r\n", Framing::Done, true),
            ("HTTP/1.1 200\r\nTransfer-Encoding: chunked\r\n\r\n", Framing::ChunkSize, true),
            ("HTTP/1.1 200 OK\r\nX: y\r\n\r\n", Framing::UntilClose, false),
            (
                "HTTP/1.1 503 X\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
                Framing::Length(0),
                false,
            ),
            ("HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\n", Framing::Length(1), false),
        ] {
            let head = head(text);
            assert_eq!((head.framing, head.keep_alive), (framing, keep_alive), "{text}");
        }
    }

    #[test]
    fn a_body_is_the_same_in_whatever_pieces_it_comes() {
        let chunked = b"4\r\nwiki\r\nC;x=y\r\npedia\r\n\r\nin \r\n0\r\nTrailer: 1\r\n\r\nHTTP/1.1";
        for piece in 1..=chunked.len() {
            let (whole, rest) = body(Framing::ChunkSize, chunked, piece);
            assert_eq!(whole, b"wikipedia\r\n\r\nin ", "{piece}");
            assert_eq!(rest, b"HTTP/1.1", "{piece}");
            let (whole, rest) = body(Framing::Length(5), b"helloHTTP", piece);
            assert_eq!((whole.as_slice(), rest.as_slice()), (&b"hello"[..], &b"HTTP"[..]));
        }
    }

    #[test]
    fn nonsense_is_an_error_and_never_a_panic() {
        for text in ["", "HTTP/2 200 OK", "HTTP/1.1 OK", "HTTP/1.1 2", "HTTP/1.1 200 OK\r\nx"] {
            assert!(Head::parse(format!("{text}\r\n\r\n").as_bytes()).is_err(), "{text:?}");
        }
        assert!(Head::parse(b"HTTP/1.1 \xff\r\n\r\n").is_err());
        assert!(Head::parse(&vec![b'x'; HEAD_BYTES_MAX + 1]).is_err());
        for line in ["x\r\n", "-1\r\n", "\r\n", "10000000000000000\r\n"] {
            assert!(Framing::ChunkSize.step(line.as_bytes()).is_err(), "{line:?}");
        }
        assert!(Framing::ChunkEnd.step(b"x\r\n").is_err());
        assert!(Framing::Trailer.step(&vec![b'x'; LINE_BYTES_MAX + 1]).is_err());
    }
}
