//! One connection to a server, for requests that no verb of the binary makes.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;

use crate::support::Server;

/// One connection to a server.
pub(crate) struct Wire(BufReader<TcpStream>);

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(is, _)| is == name);
        found.map(|(_, value)| value.as_str())
    }
}

impl Wire {
    pub(crate) fn open(server: &Server) -> Self {
        let address = server.url.strip_prefix("http://").expect("a URL");
        Self(BufReader::new(TcpStream::connect(address).expect("it listens")))
    }

    /// Sends a request with further headers.
    pub(crate) fn send(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        let len = body.len();
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len}\r\n");
        for (name, value) in headers {
            head.extend([name, ": ", value, "\r\n"]);
        }
        let request = [head.as_bytes(), b"\r\n", body].concat();
        self.0.get_mut().write_all(&request).expect("it reads");
        self.answer(method == "HEAD")
    }

    fn answer(&mut self, is_head: bool) -> Answer {
        let (mut status, mut headers) = (0, Vec::new());
        loop {
            let mut line = String::new();
            self.0.read_line(&mut line).expect("a line");
            if let Some(rest) = line.strip_prefix("HTTP/1.1 ") {
                status = rest[..3].parse().expect("a status");
            } else if let Some((name, value)) = line.split_once(':') {
                headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
            } else {
                break;
            }
        }
        let mut answer = Answer { status, headers, body: Vec::new() };
        let len = answer.header("content-length").filter(|_| !is_head);
        answer.body = vec![0; len.map_or(0, |len| len.parse().expect("a length"))];
        self.0.read_exact(&mut answer.body).expect("a body");
        answer
    }

    /// Sends a request with text, or with nothing; the status and the body.
    pub(crate) fn ask(&mut self, method: &str, path: &str, body: &[u8]) -> (u16, Vec<u8>) {
        let answer = self.send(method, path, &[("Content-Type", "text/plain")], body);
        (answer.status, answer.body)
    }

    /// The whole stream.
    pub(crate) fn read(&mut self, path: &str) -> Vec<u8> {
        let (status, body) = self.ask("GET", path, b"");
        assert_eq!(status, 200, "{path}");
        body
    }
}
