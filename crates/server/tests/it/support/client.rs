//! HTTP/1.1 over a socket, without a library between a test and the bytes.

use std::fmt::{Display, Write as _};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// A test that waits for longer than this is broken.
const PATIENCE: Duration = Duration::from_secs(20);

/// A request in the making.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    method: String,
    target: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    chunked: bool,
}

pub(crate) fn request(method: &str, target: impl Into<String>) -> Request {
    Request {
        method: method.to_owned(),
        target: target.into(),
        headers: Vec::new(),
        body: Vec::new(),
        chunked: false,
    }
}

pub(crate) fn get(target: impl Into<String>) -> Request {
    request("GET", target)
}

pub(crate) fn head(target: impl Into<String>) -> Request {
    request("HEAD", target)
}

pub(crate) fn put(target: impl Into<String>) -> Request {
    request("PUT", target)
}

pub(crate) fn post(target: impl Into<String>) -> Request {
    request("POST", target)
}

pub(crate) fn delete(target: impl Into<String>) -> Request {
    request("DELETE", target)
}

impl Request {
    pub(crate) fn header(mut self, name: &str, value: impl Display) -> Self {
        self.headers.push((name.to_owned(), format!("{value}")));
        self
    }

    pub(crate) fn body(mut self, body: impl AsRef<[u8]>) -> Self {
        self.body = body.as_ref().to_vec();
        self
    }

    /// A body with its content type.
    pub(crate) fn typed(self, content_type: &str, body: impl AsRef<[u8]>) -> Self {
        self.header("Content-Type", content_type).body(body)
    }

    pub(crate) fn text(self, body: impl AsRef<[u8]>) -> Self {
        self.typed("text/plain", body)
    }

    pub(crate) fn json(self, body: impl AsRef<[u8]>) -> Self {
        self.typed("application/json", body)
    }

    /// Sends the body in one chunk, without a declared length.
    pub(crate) fn chunked(mut self) -> Self {
        self.chunked = true;
        self
    }

    fn bytes(&self, host: &str) -> Vec<u8> {
        let mut head = format!("{} {} HTTP/1.1\r\nHost: {host}\r\n", self.method, self.target);
        for (name, value) in &self.headers {
            writeln!(head, "{name}: {value}\r").unwrap();
        }
        let framed = self.headers.iter().any(|(name, _)| {
            name.eq_ignore_ascii_case("Content-Length")
                || name.eq_ignore_ascii_case("Transfer-Encoding")
        });
        let mut body = self.body.clone();
        if self.chunked {
            head += "Transfer-Encoding: chunked\r\n";
            body = format!("{:x}\r\n", self.body.len()).into_bytes();
            body.extend_from_slice(&self.body);
            body.extend_from_slice(b"\r\n0\r\n\r\n");
        } else if !framed && (!body.is_empty() || self.method == "PUT" || self.method == "POST") {
            write!(head, "Content-Length: {}\r\n", body.len()).unwrap();
        }
        let mut bytes = (head + "\r\n").into_bytes();
        bytes.extend_from_slice(&body);
        bytes
    }
}

/// An answer as it came.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// The value of a header, which must not come twice.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.iter().filter(|(given, _)| given.eq_ignore_ascii_case(name));
        let value = values.next().map(|(_, value)| value.as_str());
        assert!(values.next().is_none(), "{name} comes twice: {self:?}");
        value
    }

    /// The value of a header that has to be there.
    pub(crate) fn need(&self, name: &str) -> &str {
        self.header(name).unwrap_or_else(|| panic!("no {name}: {}", self.shown()))
    }

    pub(crate) fn next_offset(&self) -> &str {
        self.need("stream-next-offset")
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn value(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", self.shown());
        self
    }

    /// A refusal with this status and code, its body being in order. Returns the answer.
    #[track_caller]
    pub(crate) fn problem(self, status: u16, code: &str) -> Self {
        assert_eq!(self.status, status, "{}", self.shown());
        assert_eq!(self.value()["code"], code, "{}", self.shown());
        self
    }

    /// Has every one of these headers with just this value.
    #[track_caller]
    pub(crate) fn has(self, headers: &[(&str, &str)]) -> Self {
        for (name, value) in headers {
            assert_eq!(self.need(name), *value, "{name}: {}", self.shown());
        }
        self
    }

    #[track_caller]
    pub(crate) fn lacks(self, names: &[&str]) -> Self {
        for name in names {
            assert_eq!(self.header(name), None, "{}", self.shown());
        }
        self
    }

    /// What is true of every answer (base protocol §1, `extensions.md` §1).
    #[track_caller]
    pub(crate) fn check_common(&self, request: &Request) {
        assert_eq!(self.need("x-content-type-options"), "nosniff");
        assert_eq!(self.need("cross-origin-resource-policy"), "cross-origin");
        assert_eq!(self.need("access-control-allow-origin"), "*");
        if self.status >= 400 && request.method != "HEAD" {
            self.check_problem();
        }
    }

    /// RFC 9457 and the members that the server promises.
    #[track_caller]
    pub(crate) fn check_problem(&self) {
        assert_eq!(self.need("content-type"), "application/problem+json", "{}", self.shown());
        let body = self.value();
        let text = |member: &str| match &body[member] {
            Value::String(text) if !text.is_empty() => text.clone(),
            other => panic!("{member} is {other}: {}", self.shown()),
        };
        assert_eq!(body["status"], self.status, "{}", self.shown());
        let code = text("code");
        let word = |b: u8| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_';
        assert!(code.bytes().all(word), "{code}");
        assert!(text("type").contains(&code), "{}", self.shown());
        text("title");
        text("detail");
        assert!(self.status != 413 || body["limit"].is_u64(), "{}", self.shown());
        if !body["limit_name"].is_null() {
            assert!(body["limit_name"].is_string() && body["limit"].is_u64(), "{}", self.shown());
        }
    }

    /// For the message of a failed assertion.
    pub(crate) fn shown(&self) -> String {
        let body = String::from_utf8_lossy(&self.body);
        let cut = body.char_indices().nth(600).map_or(body.len(), |(at, _)| at);
        format!("{} {:#?}\n{}", self.status, self.headers, &body[..cut])
    }
}

/// One connection: requests out, answers in.
pub(crate) struct Connection {
    host: String,
    socket: BufReader<TcpStream>,
}

impl Connection {
    pub(crate) fn open(address: SocketAddr) -> Self {
        let socket = TcpStream::connect(address).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.set_write_timeout(Some(PATIENCE)).unwrap();
        socket.set_nodelay(true).unwrap();
        Self { host: address.to_string(), socket: BufReader::new(socket) }
    }

    /// As [`Self::open`], from an address of this machine.
    pub(crate) fn open_from(from: [u8; 4], address: SocketAddr) -> Self {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
        let socket = socket.unwrap();
        socket.bind(&SocketAddr::from((from, 0)).into()).unwrap();
        socket.connect(&address.into()).unwrap();
        Self { host: address.to_string(), socket: BufReader::new(socket.into()) }
    }

    /// Sends a request and reads its answer. An answer given early must not be lost, so a failed
    /// write is none.
    pub(crate) fn round(&mut self, request: &Request) -> Answer {
        let _answered_early = self.socket.get_ref().write_all(&request.bytes(&self.host)).is_err();
        self.answer(&request.method)
    }

    pub(crate) fn send(&mut self, request: &Request) {
        self.write(&request.bytes(&self.host));
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        self.socket.get_ref().write_all(bytes).unwrap();
    }

    /// Says that nothing more will be sent.
    pub(crate) fn finish_writing(&mut self) {
        self.socket.get_ref().shutdown(Shutdown::Write).unwrap();
    }

    /// The answer to a request of `method`, body and all.
    pub(crate) fn answer(&mut self, method: &str) -> Answer {
        let mut answer = self.answer_head();
        if method == "HEAD" || answer.status == 204 || answer.status == 304 || answer.status < 200 {
            return answer;
        }
        if let Some(len) = answer.header("content-length") {
            let len: usize = len.parse().unwrap();
            answer.body = vec![0; len];
            self.socket.read_exact(&mut answer.body).unwrap();
        } else if answer.header("transfer-encoding") == Some("chunked") {
            while let Some(chunk) = self.chunk().unwrap() {
                answer.body.extend_from_slice(&chunk);
            }
        } else {
            self.socket.read_to_end(&mut answer.body).unwrap();
        }
        answer
    }

    /// The head of an answer only.
    pub(crate) fn answer_head(&mut self) -> Answer {
        let line = self.line().unwrap();
        let (version, rest) = line.split_once(' ').unwrap_or_else(|| panic!("no answer: {line:?}"));
        assert_eq!(version, "HTTP/1.1");
        let status = rest[..3].parse().unwrap();
        let mut headers = Vec::new();
        loop {
            let line = self.line().unwrap();
            let Some((name, value)) = line.split_once(':') else {
                assert_eq!(line, "");
                return Answer { status, headers, body: Vec::new() };
            };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
    }

    /// The next chunk of a body; nothing behind the last; an error when the connection ends first.
    pub(crate) fn chunk(&mut self) -> std::io::Result<Option<Vec<u8>>> {
        let line = self.line()?;
        let len = usize::from_str_radix(&line, 16)
            .map_err(|error| std::io::Error::other(format!("{error}: {line:?}")))?;
        let mut chunk = vec![0; len];
        self.socket.read_exact(&mut chunk)?;
        assert_eq!(self.line()?, "");
        Ok((len > 0).then_some(chunk))
    }

    /// The next `len` bytes of a body.
    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.socket.read_exact(&mut bytes).unwrap();
        bytes
    }

    /// Whatever comes until the server closes the connection.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        self.socket.read_to_end(&mut rest).unwrap();
        rest
    }

    fn line(&mut self) -> std::io::Result<String> {
        let mut line = Vec::new();
        self.socket.read_until(b'\n', &mut line)?;
        if line.pop() != Some(b'\n') {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        assert_eq!(line.pop(), Some(b'\r'), "a line ends in CRLF");
        Ok(String::from_utf8(line).unwrap())
    }
}
