//! Any bytes into the real server, over a socket: each answer is well-formed, or the connection
//! ends; and the server goes on.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use headwater_core::json;
use headwater_model::host::Host;

use crate::input::Input;
use crate::panics;

/// A server is given up for a new one after this many connections.
const CONNECTIONS_PER_HOST: u32 = 5000;

/// No answer takes as long.
const PATIENCE: Duration = Duration::from_secs(20);

/// A frame's length in a batch.
const LENGTH_BYTES: usize = 4;

/// The most frames in a batch.
const FRAMES_MAX: usize = 4096;

struct Server {
    host: Host,
    used: u32,
    /// For healthy requests.
    healthy: TcpStream,
}

impl Server {
    fn start() -> Self {
        let host = Host::start();
        let healthy = TcpStream::connect(host.address()).expect("it listens");
        healthy.set_read_timeout(Some(PATIENCE)).expect("a socket has a timeout");
        let mut server = Self { host, used: 0, healthy };
        server.create();
        server
    }

    /// Streams to send to; they may be there already.
    fn create(&mut self) {
        let text = "Content-Type: text/plain\r\n";
        let json = "Content-Type: application/json\r\n";
        for (path, kind) in [("/demo", ""), ("/demo/t", text), ("/demo/j", json)] {
            let head = format!("PUT {path} HTTP/1.1\r\nHost: h\r\n{kind}");
            let request = format!("{head}Content-Length: 0\r\n\r\n");
            self.ask(&request);
        }
    }

    /// The status of the answer to a healthy request, on a connection that is never closed.
    fn ask(&mut self, request: &str) -> u16 {
        self.healthy.write_all(request.as_bytes()).expect("a connection stays open");
        let mut seen = Vec::new();
        let mut piece = [0; 4096];
        loop {
            let len = match self.healthy.read(&mut piece) {
                // libFuzzer has a timer.
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                read => read.expect("a healthy request is answered"),
            };
            assert!(len > 0, "the connection of healthy requests was closed");
            seen.extend_from_slice(&piece[..len]);
            if let Some(answer) = Answer::at(&seen, false) {
                assert!(answer.end == seen.len(), "more than one answer to one request");
                return answer.status;
            }
        }
    }
}

/// The first byte says what the others are: a whole connection, or a part of one request.
pub(crate) fn run(data: &[u8]) {
    static SERVER: Mutex<Option<Server>> = Mutex::new(None);
    panics::watch();
    let mut held = SERVER.lock().unwrap_or_else(PoisonError::into_inner);
    let mut server = match held.take() {
        Some(server) if server.used < CONNECTIONS_PER_HOST => server,
        _ => Server::start(),
    };
    let mut input = Input::new(data);
    let kind = input.byte() % 6;
    let rest = input.rest();
    let post = |path: &str, kind: &str, body: &[u8]| {
        let head = format!("POST {path} HTTP/1.1\r\nHost: h\r\nContent-Type: {kind}\r\n");
        let length = format!("Content-Length: {}\r\n\r\n", body.len());
        [head.as_bytes(), length.as_bytes(), body].concat()
    };
    let bytes = match kind {
        0 => rest.to_vec(),
        1 => [b"GET ", rest, b" HTTP/1.1\r\nHost: h\r\n\r\n"].concat(),
        2 => [b"POST /demo/t HTTP/1.1\r\nHost: h\r\n", rest, b"\r\n\r\nabc"].concat(),
        3 => post("/demo/t/append-batch", "text/plain", rest),
        4 => post("/demo/j", "application/json", rest),
        _ => {
            let head = "POST /demo/t HTTP/1.1\r\nHost: h\r\nContent-Type: text/plain\r\n";
            [head.as_bytes(), b"Transfer-Encoding: chunked\r\n\r\n", rest].concat()
        }
    };
    let answers = exchange(&server, &bytes);
    let statuses = check(&answers, &bytes);
    if let (3 | 4, Some(status)) = (kind, statuses.first()) {
        let good = if kind == 3 { is_batch(rest) } else { is_append(rest) };
        // An earlier input may have closed or deleted the stream.
        let fits = if good { matches!(status, 200 | 204) } else { matches!(status, 400 | 413) };
        assert!(fits || matches!(status, 404 | 409 | 410), "{status} for {rest:?}");
    }
    let alive = server.ask("GET /-/healthz HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!(alive, 200, "the server is well");
    panics::none();
    server.used += 1;
    *held = Some(server);
}

/// Sends all bytes, and reads until the server closes the connection.
fn exchange(server: &Server, bytes: &[u8]) -> Vec<u8> {
    let mut socket = TcpStream::connect(server.host.address()).expect("it listens");
    for set in [TcpStream::set_read_timeout, TcpStream::set_write_timeout] {
        set(&socket, Some(PATIENCE)).expect("a socket has timeouts");
    }
    // The server may have closed the connection before it read everything.
    let _sent = socket.write_all(bytes).and_then(|()| socket.shutdown(Shutdown::Write)).is_ok();
    let mut answers = Vec::new();
    match socket.read_to_end(&mut answers) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "after {answers:?}"),
    }
    answers
}

/// Checks every answer on a connection; returns the final statuses.
fn check(mut answers: &[u8], request: &[u8]) -> Vec<u16> {
    let mut statuses = Vec::new();
    let begins = request.iter().position(|byte| !b"\r\n".contains(byte)).unwrap_or(0);
    let mut head_only = request[begins..].starts_with(b"HEAD ");
    while !answers.is_empty() {
        // Bytes behind the first request may be requests, too: with which method is not known.
        let Some(answer) = Answer::at(answers, head_only) else {
            // The last one may be cut, where the client's bytes ended too early.
            assert!(answers.starts_with(b"HTTP/1.1 "), "{:?}", answers.escape_ascii().to_string());
            break;
        };
        answers = &answers[answer.end..];
        if answer.status >= 200 {
            statuses.push(answer.status);
            head_only = answers.starts_with(b"HTTP/1.1 ");
        }
    }
    statuses
}

/// One answer, read as RFC 9112 says.
struct Answer {
    status: u16,
    /// Where it ends.
    end: usize,
}

impl Answer {
    /// The answer at the start of `bytes`; none while it is not whole. A body that is announced but
    /// not sent is right for HEAD.
    fn at(bytes: &[u8], head_only: bool) -> Option<Self> {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
        let head = std::str::from_utf8(&bytes[..end - 4]).expect("a head is ASCII here");
        let mut lines = head.split("\r\n");
        let first = lines.next().unwrap_or_default();
        let status = first.strip_prefix("HTTP/1.1 ").or_else(|| first.strip_prefix("HTTP/1.0 "));
        let status = status.and_then(|rest| rest.get(..3)?.parse::<u16>().ok());
        let status = status.unwrap_or_else(|| panic!("no status line: {first:?}"));
        let (mut len, mut chunked) = (None, false);
        for line in lines {
            let (name, value) = line.split_once(':').unwrap_or_else(|| panic!("{line:?}"));
            let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
            assert!(!name.is_empty() && name.bytes().all(token), "no name: {line:?}");
            assert!(value.bytes().all(|b| b == b'\t' || (b >= b' ' && b != 0x7f)), "{line:?}");
            if name.eq_ignore_ascii_case("content-length") {
                let number = value.trim().parse::<usize>().expect("a length is a number");
                assert_eq!(len.replace(number), None, "two lengths");
            }
            chunked |= name.eq_ignore_ascii_case("transfer-encoding");
        }
        assert!(!(chunked && len.is_some()), "two ways to say where a body ends");
        let bodiless = status < 200 || matches!(status, 204 | 304);
        assert!(!(bodiless && chunked), "a body where there is none");
        let behind = &bytes[end..];
        let next = behind.is_empty() || behind.starts_with(b"HTTP/1.1 ");
        if bodiless || (head_only && next) {
            return Some(Self { status, end });
        }
        let body = if chunked { chunks(behind)? } else { len.unwrap_or(behind.len()) };
        (body <= behind.len()).then_some(Self { status, end: end + body })
    }
}

/// How long a chunked body is; none when it does not end here.
fn chunks(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let line = bytes[at..].windows(2).position(|window| window == b"\r\n")?;
        let size = std::str::from_utf8(&bytes[at..at + line]).expect("a size is ASCII");
        let size = usize::from_str_radix(size, 16).expect("a size is a number");
        let end = at + line + 2 + size;
        assert_eq!(bytes.get(end..end + 2)?, b"\r\n", "a chunk ends with its line");
        at = end + 2;
        if size == 0 {
            return Some(at);
        }
    }
}

/// Whether these are frames, each a length and so many bytes.
fn is_batch(mut body: &[u8]) -> bool {
    let mut frames = 0;
    while let Some((len, rest)) = body.split_first_chunk::<LENGTH_BYTES>() {
        let len = u32::from_be_bytes(*len) as usize;
        if len == 0 || len > rest.len() {
            return false;
        }
        body = &rest[len..];
        frames += 1;
    }
    body.is_empty() && (1..=FRAMES_MAX).contains(&frames)
}

/// Whether these are messages of JSON, and not none.
fn is_append(body: &[u8]) -> bool {
    json::split(body).is_ok_and(|messages| !messages.lens.is_empty())
}
