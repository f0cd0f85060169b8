//! A small HTTP client over one blocking connection. It never retries: whether a request that got
//! no answer was carried out is exactly what the driver wants to find out.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Nothing that the server does takes as long; an answer that does is a hang.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// The longest line of a head that is read.
const LINE_BYTES_MAX: u64 = 64 * 1024;

/// The largest body that is taken in.
const BODY_BYTES_MAX: usize = 512 * 1024 * 1024;

/// A request that got no answer.
#[derive(Debug)]
pub enum Lost {
    /// No byte of it left: it was not carried out.
    NotSent,
    /// It may have been carried out.
    Unknown(io::Error),
}

impl Lost {
    /// Whether the server took too long, rather than went away.
    pub fn is_hang(&self) -> bool {
        matches!(self, Self::Unknown(error)
            if matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock))
    }
}

impl From<io::Error> for Lost {
    fn from(error: io::Error) -> Self {
        Self::Unknown(error)
    }
}

/// A request's head and body.
#[derive(Debug, Clone)]
pub struct Request {
    method: &'static str,
    path: String,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
}

impl Request {
    /// A request without headers and body.
    pub fn new(method: &'static str, path: impl Into<String>) -> Self {
        Self { method, path: path.into(), headers: Vec::new(), body: Vec::new() }
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &'static str, value: impl std::fmt::Display) -> Self {
        self.headers.push((name, value.to_string()));
        self
    }

    /// Sets the body.
    #[must_use]
    pub fn body(mut self, content_type: &str, body: Vec<u8>) -> Self {
        self.body = body;
        self.header("Content-Type", content_type)
    }

    /// Sets the body, and nothing that says what it is.
    #[must_use]
    pub fn content(mut self, body: Vec<u8>) -> Self {
        self.body = body;
        self
    }

    /// Its method.
    pub fn method(&self) -> &'static str {
        self.method
    }

    fn encode(&self, host: SocketAddr) -> Vec<u8> {
        let mut head = format!("{} {} HTTP/1.1\r\nHost: {host}\r\n", self.method, self.path);
        let len = self.body.len().to_string();
        let has_body = !self.body.is_empty() || matches!(self.method, "PUT" | "POST");
        let own = has_body.then_some(("Content-Length", &len));
        for (name, value) in self.headers.iter().map(|(name, value)| (*name, value)).chain(own) {
            head.extend([name, ": ", value, "\r\n"]);
        }
        head.push_str("\r\n");
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(&self.body);
        bytes
    }
}

/// An answer.
#[derive(Debug, Clone)]
pub struct Response {
    /// The status code.
    pub status: u16,
    headers: Vec<(String, String)>,
    /// The whole body.
    pub body: Vec<u8>,
}

impl Response {
    /// The value of a header; `name` in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(is, _)| is == name).map(|(_, value)| value.as_str())
    }

    /// A header that is a number.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.header(name)?.parse().ok()
    }

    /// A header that is either absent or `true`.
    pub fn flag(&self, name: &str) -> bool {
        self.header(name) == Some("true")
    }

    /// Status and body in short, for a message to a person.
    pub fn brief(&self) -> String {
        format!("{} {}", self.status, crate::message::excerpt_long(&self.body))
    }
}

/// Where a body ends.
enum Framing {
    Length(usize),
    Chunked,
}

/// One connection.
#[derive(Debug)]
pub struct Connection {
    stream: BufReader<TcpStream>,
    host: SocketAddr,
}

impl Connection {
    /// Connects.
    pub fn open(host: SocketAddr) -> Result<Self, Lost> {
        let stream = TcpStream::connect(host).map_err(|_refused| Lost::NotSent)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
        Ok(Self { stream: BufReader::with_capacity(64 * 1024, stream), host })
    }

    /// Sends a request without waiting for its answer.
    pub fn send(&mut self, request: &Request) -> io::Result<()> {
        self.stream.get_mut().write_all(&request.encode(self.host))
    }

    /// Sends a request whose last bytes are missing.
    pub fn send_all_but(&mut self, missing: u64, request: &Request) -> io::Result<()> {
        let bytes = request.encode(self.host);
        let missing = usize::try_from(missing).unwrap_or(usize::MAX);
        self.stream.get_mut().write_all(&bytes[..bytes.len().saturating_sub(missing)])
    }

    /// Reads the next answer; `method` is the request's.
    pub fn receive(&mut self, method: &str) -> io::Result<Response> {
        let (mut response, framing) = self.head()?;
        if method == "HEAD" || matches!(response.status, 204 | 304) {
            return Ok(response);
        }
        match framing {
            Framing::Length(len) => {
                response.body = vec![0; len];
                self.stream.read_exact(&mut response.body)?;
            }
            Framing::Chunked => {
                while let Some(chunk) = self.chunk()? {
                    response.body.extend_from_slice(&chunk);
                    if response.body.len() > BODY_BYTES_MAX {
                        return Err(broken("the body has no end"));
                    }
                }
            }
        }
        Ok(response)
    }

    /// Reads the head of an answer whose body comes bit by bit: see [`Self::chunk`].
    pub fn receive_head(&mut self) -> io::Result<(Response, bool)> {
        let (response, framing) = self.head()?;
        Ok((response, matches!(framing, Framing::Chunked)))
    }

    fn head(&mut self) -> io::Result<(Response, Framing)> {
        let line = self.line()?;
        let status = line.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3));
        let status = status.and_then(|status| status.parse().ok());
        let status = status.ok_or_else(|| broken("the answer has no status line"))?;
        let mut headers = Vec::new();
        let mut framing = Framing::Length(0);
        loop {
            let line = self.line()?;
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').ok_or_else(|| broken("no header"))?;
            let (name, value) = (name.to_ascii_lowercase(), value.trim().to_owned());
            match name.as_str() {
                "content-length" => {
                    let len = value.parse().ok().filter(|len| *len <= BODY_BYTES_MAX);
                    framing = Framing::Length(len.ok_or_else(|| broken("no length"))?);
                }
                "transfer-encoding" => framing = Framing::Chunked,
                _ => {}
            }
            headers.push((name, value));
        }
        Ok((Response { status, headers, body: Vec::new() }, framing))
    }

    /// The next chunk of a chunked body, or nothing after the last one.
    pub fn chunk(&mut self) -> io::Result<Option<Vec<u8>>> {
        let line = self.line()?;
        let len = usize::from_str_radix(line.trim(), 16).ok().filter(|len| *len <= BODY_BYTES_MAX);
        let len = len.ok_or_else(|| broken("a chunk has no length"))?;
        let mut chunk = vec![0; len];
        self.stream.read_exact(&mut chunk)?;
        if !self.line()?.is_empty() {
            return Err(broken("a chunk does not end"));
        }
        Ok(Some(chunk).filter(|chunk| !chunk.is_empty()))
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = Vec::new();
        self.stream.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
        if line.pop() != Some(b'\n') {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        String::from_utf8(line).map_err(|_bytes| broken("a header is not text"))
    }
}

fn broken(what: &'static str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what)
}

/// Keeps a connection from one request to the next.
#[derive(Debug)]
pub struct Client {
    host: SocketAddr,
    connection: Option<Connection>,
}

impl Client {
    /// A client of the server at `host`; it connects when it must.
    pub fn new(host: SocketAddr) -> Self {
        Self { host, connection: None }
    }

    /// Sends a request and waits for its answer.
    pub fn call(&mut self, request: &Request) -> Result<Response, Lost> {
        self.send(request)?;
        self.receive(request.method)
    }

    /// Sends a request without waiting; [`Self::receive`] gets the answers, in order.
    pub fn send(&mut self, request: &Request) -> Result<(), Lost> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            none => none.insert(Connection::open(self.host)?),
        };
        connection.send(request).inspect_err(|_lost| self.connection = None)?;
        Ok(())
    }

    /// Waits for the next answer.
    pub fn receive(&mut self, method: &str) -> Result<Response, Lost> {
        let Some(connection) = &mut self.connection else {
            return Err(Lost::Unknown(ErrorKind::NotConnected.into()));
        };
        let answer = connection.receive(method);
        if answer.as_ref().map_or(true, |answer| answer.header("connection") == Some("close")) {
            self.connection = None;
        }
        Ok(answer?)
    }
}
