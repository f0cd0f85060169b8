//! A parser of server-sent events as the HTML standard has it (§9.2.6), written from there and not
//! from the server.

use serde_json::Value;

use super::{Answer, Connection, Request, get};

/// One dispatched event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) name: String,
    pub(crate) data: String,
}

impl Event {
    #[track_caller]
    pub(crate) fn is_data(&self, data: &str) {
        assert_eq!((self.name.as_str(), self.data.as_str()), ("data", data));
    }

    /// The object of a control event.
    #[track_caller]
    pub(crate) fn control(&self) -> Value {
        assert_eq!(self.name, "control", "{self:?}");
        serde_json::from_str(&self.data).unwrap()
    }
}

/// An SSE answer that is being read.
pub(crate) struct Sse {
    connection: Connection,
    pub(crate) head: Answer,
    /// Every byte that came.
    pub(crate) raw: Vec<u8>,
    /// How many of them have been parsed.
    parsed: usize,
    ended: bool,
    name: String,
    data: String,
    /// Comment lines so far.
    pub(crate) comments: usize,
}

impl Sse {
    pub(crate) fn open(connection: Connection, target: &str) -> Self {
        Self::open_with(connection, &get(target))
    }

    pub(crate) fn open_with(mut connection: Connection, request: &Request) -> Self {
        connection.send(request);
        let head = connection.answer_head();
        assert_eq!(head.status, 200, "{request:?}: {head:?}");
        assert_eq!(head.need("content-type"), "text/event-stream");
        assert_eq!(head.header("content-length"), None);
        Self {
            connection,
            head,
            raw: Vec::new(),
            parsed: 0,
            ended: false,
            name: String::new(),
            data: String::new(),
            comments: 0,
        }
    }

    /// The next event; nothing when the answer has ended, which it must do in good order.
    pub(crate) fn next(&mut self) -> Option<Event> {
        loop {
            while let Some(line) = self.line() {
                if let Some(event) = self.take(&line) {
                    return Some(event);
                }
            }
            if self.ended {
                return None;
            }
            match self.connection.chunk().unwrap() {
                Some(chunk) => self.raw.extend_from_slice(&chunk),
                None => self.ended = true,
            }
        }
    }

    /// A data event and the control event behind it.
    #[track_caller]
    pub(crate) fn pair(&mut self) -> (String, Value) {
        let data = self.next().expect("a data event");
        assert_eq!(data.name, "data", "{data:?}");
        (data.data, self.next().expect("a control event").control())
    }

    #[track_caller]
    pub(crate) fn control(&mut self) -> Value {
        self.next().expect("a control event").control()
    }

    #[track_caller]
    pub(crate) fn ends(&mut self) {
        assert_eq!(self.next(), None);
    }

    /// The next whole line. A CR ends one only when it is known what follows, unless it is the end.
    fn line(&mut self) -> Option<Vec<u8>> {
        let rest = &self.raw[self.parsed..];
        let end = rest.iter().position(|b| matches!(b, b'\r' | b'\n'))?;
        let len = match (rest[end], rest.get(end + 1)) {
            (b'\r', Some(b'\n')) => 2,
            (b'\r', None) if !self.ended => return None,
            _ => 1,
        };
        let line = rest[..end].to_vec();
        self.parsed += end + len;
        Some(line)
    }

    fn take(&mut self, line: &[u8]) -> Option<Event> {
        let line = String::from_utf8(line.to_vec()).expect("events are UTF-8");
        if line.is_empty() {
            let (name, mut data) = (std::mem::take(&mut self.name), std::mem::take(&mut self.data));
            return data.pop().map(|_last_lf| Event { name, data });
        }
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "" => self.comments += 1,
            "event" => value.clone_into(&mut self.name),
            "data" => {
                self.data += value;
                self.data.push('\n');
            }
            "id" | "retry" => {}
            other => panic!("no such field: {other:?}"),
        }
        None
    }
}
