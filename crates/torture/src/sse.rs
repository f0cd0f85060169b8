//! Reads server-sent events as a conforming parser does.

use std::io;

use crate::http::Connection;

/// An event.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Event {
    /// Its type.
    pub name: String,
    /// Its lines, put together with LF.
    pub data: String,
}

/// Takes events out of bytes that come in pieces.
#[derive(Debug, Default)]
pub struct Parser {
    rest: Vec<u8>,
    event: Event,
    has_data: bool,
}

impl Parser {
    /// The next event of a response, or nothing at its end.
    pub fn next(&mut self, connection: &mut Connection) -> io::Result<Option<Event>> {
        loop {
            if let Some(event) = self.take() {
                return Ok(Some(event));
            }
            match connection.chunk()? {
                Some(chunk) => self.rest.extend_from_slice(&chunk),
                None => return Ok(None),
            }
        }
    }

    fn take(&mut self) -> Option<Event> {
        let mut used = 0;
        let mut done = None;
        while let Some(len) = self.rest[used..].iter().position(|byte| *byte == b'\n') {
            let line = String::from_utf8_lossy(&self.rest[used..used + len]).into_owned();
            used += len + 1;
            if line.is_empty() && !self.event.name.is_empty() {
                self.has_data = false;
                done = Some(std::mem::take(&mut self.event));
                break;
            }
            self.line(&line);
        }
        self.rest.drain(..used);
        done
    }

    fn line(&mut self, line: &str) {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.event.name),
            "data" => {
                if self.has_data {
                    self.event.data.push('\n');
                }
                self.has_data = true;
                self.event.data.push_str(value);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_found_however_they_are_cut() {
        let bytes = b":\n\nevent: data\ndata:a\ndata:  b\n\nevent: control\ndata:{}\n\n";
        let mut parser = Parser::default();
        let mut events = Vec::new();
        for byte in bytes {
            parser.rest.push(*byte);
            events.extend(parser.take());
        }
        let event = |name: &str, data: &str| Event { name: name.into(), data: data.into() };
        assert_eq!(events, [event("data", "a\n b"), event("control", "{}")]);
    }
}
