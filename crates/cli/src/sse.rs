//! Reading an event stream: the client's half of server-sent events.
//!
//! Lines end with LF, CR or CRLF; a blank line ends an event; one space after the colon does not
//! count. Comments and the fields that the protocol does not use are skipped.

use std::io::{self, BufRead};

/// One event. Its data lines are joined by LF.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) name: String,
    pub(crate) data: Vec<u8>,
}

/// The events of a response body.
#[derive(Debug)]
pub(crate) struct Events<R> {
    input: R,
    /// The last line ended with a CR; an LF right behind it belongs to that line end.
    after_cr: bool,
    /// Nothing was read yet: a byte order mark may come.
    at_start: bool,
}

/// The largest event. A page of the largest message that a server takes by default is far smaller,
/// in base64 too.
const EVENT_BYTES_MAX: usize = 1 << 30;

impl<R: BufRead> Events<R> {
    pub(crate) fn new(input: R) -> Self {
        Self { input, after_cr: false, at_start: true }
    }

    /// The next whole event with data; `None` at the end of the input. An event that the end of
    /// the input cuts off is dropped, as the standard asks.
    pub(crate) fn next_event(&mut self) -> io::Result<Option<Event>> {
        let mut event = Event::default();
        let mut has_data = false;
        let mut line = Vec::new();
        while self.read_line(&mut line)? {
            let (field, value) = split_field(&line);
            match field {
                b"" if line.is_empty() && has_data => return Ok(Some(event)),
                b"" if line.is_empty() => event = Event::default(),
                b"event" => event.name = String::from_utf8_lossy(value).into_owned(),
                b"data" => {
                    if has_data {
                        event.data.push(b'\n');
                    }
                    event.data.extend_from_slice(value);
                    has_data = true;
                }
                _ => {}
            }
            if event.data.len() > EVENT_BYTES_MAX {
                return Err(too_large());
            }
        }
        Ok(None)
    }

    /// Reads one line without its end. `false` at the end of the input, where a line that has begun
    /// is dropped.
    fn read_line(&mut self, line: &mut Vec<u8>) -> io::Result<bool> {
        line.clear();
        loop {
            let available = match self.input.fill_buf() {
                Ok([]) => return Ok(false),
                Ok(available) => available,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if std::mem::take(&mut self.after_cr) && available[0] == b'\n' {
                self.input.consume(1);
                continue;
            }
            let end = memchr::memchr2(b'\n', b'\r', available);
            line.extend_from_slice(&available[..end.unwrap_or(available.len())]);
            self.after_cr = end.is_some_and(|at| available[at] == b'\r');
            let used = end.map_or(available.len(), |at| at + 1);
            self.input.consume(used);
            if line.len() > EVENT_BYTES_MAX {
                return Err(too_large());
            }
            if end.is_some() {
                if std::mem::take(&mut self.at_start) && line.starts_with(BYTE_ORDER_MARK) {
                    line.drain(..BYTE_ORDER_MARK.len());
                }
                return Ok(true);
            }
        }
    }
}

const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// `name: value`, `name:value` or `name`. A comment has an empty name.
fn split_field(line: &[u8]) -> (&[u8], &[u8]) {
    match memchr::memchr(b':', line) {
        Some(colon) => {
            let value = &line[colon + 1..];
            (&line[..colon], value.strip_prefix(b" ").unwrap_or(value))
        }
        None => (line, b""),
    }
}

fn too_large() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("an event is larger than {} MiB", EVENT_BYTES_MAX >> 20),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::BufReader;

    /// The events of `text`, as `name=data`, read in pieces of every size up to `text`'s.
    fn events(text: &str) -> Vec<String> {
        let read = |capacity| {
            let mut events = Events::new(BufReader::with_capacity(capacity, text.as_bytes()));
            std::iter::from_fn(|| events.next_event().expect("readable"))
                .map(|e| format!("{}={}", e.name, String::from_utf8_lossy(&e.data)))
                .collect::<Vec<_>>()
        };
        let whole = read(text.len().max(1));
        for capacity in 1..text.len() {
            assert_eq!(read(capacity), whole, "in pieces of {capacity}");
        }
        whole
    }

    #[test]
    fn an_event_ends_at_a_blank_line() {
        let text = "event: data\ndata:hello\n\nevent: control\ndata:{\"a\":1}\n\n";
        assert_eq!(events(text), ["data=hello", "control={\"a\":1}"]);
    }

    #[test]
    fn data_lines_are_joined_and_lose_one_space() {
        let text = "event:data\ndata: one\ndata:  two\ndata:\ndata:four\n\n";
        assert_eq!(events(text), ["data=one\n two\n\nfour"]);
    }

    #[test]
    fn every_line_end_counts_once() {
        for end in ["\n", "\r", "\r\n"] {
            let text = ["event: data", "data: a", "data: b", "", "data: c", "", ""].join(end);
            assert_eq!(events(&text), ["data=a\nb", "=c"], "{end:?}");
        }
    }

    #[test]
    fn comments_unknown_fields_and_empty_events_are_skipped() {
        let text =
            "\u{feff}:hello\n\nevent: data\n\nid: 7\nretry: 1\nnonsense\ndata: a\n\n: idle\n\n";
        assert_eq!(events(text), ["=a"]);
    }

    #[test]
    fn an_event_that_is_cut_off_is_dropped() {
        assert_eq!(events("data: a\n\ndata: b\n"), ["=a"]);
        assert_eq!(events("data: a\n\ndata: b"), ["=a"]);
        assert_eq!(events(""), [""; 0]);
    }

    #[test]
    fn an_event_may_have_empty_data() {
        assert_eq!(events("event: data\ndata:\n\n"), ["data="]);
        assert_eq!(events("event: data\ndata\n\n"), ["data="]);
    }
}
