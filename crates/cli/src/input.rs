//! Where the bytes to send come from: the command line, stdin, or lines of either.

use std::io::{self, Cursor, IsTerminal as _, Read};

use crate::failure::{Exit, Failure};
use crate::screen::say;

/// The longest line, and the largest input that is sent as one piece. Far above what a server takes
/// by default; it only keeps a runaway pipe from filling our memory.
const INPUT_BYTES_MAX: usize = 256 << 20;
/// How much is read at once. It also bounds what a batch holds, unless one line is longer.
const CHUNK_BYTES: usize = 1 << 20;

/// The bytes of `data`, or all of stdin where it is absent or `-`.
pub(crate) fn whole(data: Option<&str>) -> Result<Vec<u8>, Failure> {
    let mut input = open(data);
    let mut bytes = Vec::new();
    let limit = u64::try_from(INPUT_BYTES_MAX + 1).expect("a constant that fits");
    input.by_ref().take(limit).read_to_end(&mut bytes).map_err(|error| unreadable(&error))?;
    if bytes.len() > INPUT_BYTES_MAX {
        return Err(too_large("the input"));
    }
    Ok(bytes)
}

/// The lines of `data`, or of stdin where it is absent or `-`.
pub(crate) fn lines(data: Option<&str>) -> Lines<Box<dyn Read>> {
    Lines::new(open(data))
}

/// Whole lines as they arrive: never waits for a second line once it has one.
#[derive(Debug)]
pub(crate) struct Lines<R> {
    input: R,
    /// The begin of a line whose end has not come yet.
    rest: Vec<u8>,
}

impl<R: Read> Lines<R> {
    fn new(input: R) -> Self {
        Self { input, rest: Vec::new() }
    }

    /// One or more whole lines with their line ends; the last line of the input may lack one.
    /// `None` at the end of the input.
    pub(crate) fn next_block(&mut self) -> Result<Option<Vec<u8>>, Failure> {
        loop {
            let had = self.rest.len();
            self.rest.resize(had + CHUNK_BYTES, 0);
            let read = self.input.read(&mut self.rest[had..]);
            self.rest.truncate(had + *read.as_ref().unwrap_or(&0));
            match read {
                Ok(0) if had == 0 => return Ok(None),
                Ok(0) => return Ok(Some(std::mem::take(&mut self.rest))),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(unreadable(&error)),
            }
            if let Some(at) = memchr::memrchr(b'\n', &self.rest[had..]) {
                let begun = self.rest.split_off(had + at + 1);
                return Ok(Some(std::mem::replace(&mut self.rest, begun)));
            }
            if self.rest.len() > INPUT_BYTES_MAX {
                return Err(too_large("a line"));
            }
        }
    }
}

fn open(data: Option<&str>) -> Box<dyn Read> {
    match data {
        Some(text) if text != "-" => Box::new(Cursor::new(text.as_bytes().to_vec())),
        _ => {
            if io::stdin().is_terminal() {
                say("reading from the terminal; Ctrl-D on an empty line ends the input");
            }
            Box::new(io::stdin())
        }
    }
}

fn unreadable(error: &io::Error) -> Failure {
    Failure::because(Exit::Failed, "cannot read the input", error)
}

fn too_large(what: &str) -> Failure {
    Failure::new(Exit::Failed, format!("{what} is larger than {} MiB", INPUT_BYTES_MAX >> 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives out one piece a read, as a pipe does.
    struct Pieces(Vec<&'static str>);

    impl Read for Pieces {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            if self.0.is_empty() {
                return Ok(0);
            }
            let piece = self.0.remove(0).as_bytes();
            buffer[..piece.len()].copy_from_slice(piece);
            Ok(piece.len())
        }
    }

    fn blocks(pieces: &[&'static str]) -> Vec<String> {
        let mut lines = Lines::new(Pieces(pieces.to_vec()));
        std::iter::from_fn(|| lines.next_block().expect("readable"))
            .map(|block| String::from_utf8(block).expect("UTF-8"))
            .collect()
    }

    #[test]
    fn a_block_is_the_whole_lines_that_have_arrived() {
        assert_eq!(blocks(&["a\nb\nc", "d\n", "e"]), ["a\nb\n", "cd\n", "e"]);
        assert_eq!(blocks(&["a", "b", "\n"]), ["ab\n"]);
        assert_eq!(blocks(&["a\n"]), ["a\n"]);
        assert_eq!(blocks(&["\n\n"]), ["\n\n"]);
        assert_eq!(blocks(&[]), [""; 0]);
    }

    #[test]
    fn a_long_line_is_kept_whole() {
        let long = "x".repeat(3 * CHUNK_BYTES);
        let mut lines = Lines::new(Cursor::new(format!("{long}\ny")));
        let first = lines.next_block().expect("readable").expect("a line");
        assert_eq!(first.len(), long.len() + 1);
        assert_eq!(lines.next_block().expect("readable"), Some(b"y".to_vec()));
        assert_eq!(lines.next_block().expect("readable"), None);
    }
}
