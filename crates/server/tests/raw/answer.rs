//! An answer as a strict reader sees it: every deviation from RFC 9112 is a panic.

use std::io::Read;

/// One answer.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// Whether the body ended where its framing said.
    pub(crate) whole: bool,
}

impl Answer {
    /// The value of a header that is there at most once.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.iter().filter(|(n, _)| n == name);
        let value = values.next().map(|(_, value)| value.as_str());
        assert!(values.next().is_none(), "{name} is there twice: {self:?}");
        value
    }

    pub(crate) fn need(&self, name: &str) -> &str {
        self.get(name).unwrap_or_else(|| panic!("no {name}: {self:?}"))
    }

    pub(crate) fn closes(&self) -> bool {
        self.get("connection") == Some("close")
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{self:?}");
        self
    }

    /// A refusal of the server's own: a problem with this code.
    #[track_caller]
    pub(crate) fn problem(self, status: u16, code: &str) -> Self {
        let answer = self.expect(status);
        assert_eq!(answer.need("content-type"), "application/problem+json", "{answer:?}");
        assert!(answer.text().contains(&format!("\"code\":\"{code}\"")), "{}", answer.text());
        answer
    }
}

/// Reads the head of an answer; nothing at the end of the connection. `100 Continue` is an answer
/// here, too.
pub(crate) fn head(socket: &mut impl Read) -> Option<Answer> {
    let first = line(socket)?;
    let status = first.strip_prefix("HTTP/1.1 ").or_else(|| first.strip_prefix("HTTP/1.0 "));
    let status = status.unwrap_or_else(|| panic!("no status line: {first:?}"));
    assert_eq!(status.as_bytes()[3], b' ', "{first:?}");
    let status: u16 = status[..3].parse().unwrap();
    assert!((100..600).contains(&status));
    let mut headers = Vec::new();
    loop {
        let line = line(socket).expect("a head ends with an empty line");
        if line.is_empty() {
            break;
        }
        let (name, value) = line.split_once(':').unwrap_or_else(|| panic!("no header: {line:?}"));
        let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
        assert!(!name.is_empty() && name.bytes().all(token), "no name: {line:?}");
        assert!(value.bytes().all(|b| b == b'\t' || (b >= 0x20 && b != 0x7f)), "{line:?}");
        headers.push((name.to_ascii_lowercase(), value.trim_matches([' ', '\t']).to_owned()));
    }
    Some(Answer { status, headers, body: Vec::new(), whole: false })
}

/// Reads an answer to `method`; nothing at the end of the connection.
pub(crate) fn read(socket: &mut impl Read, method: &str) -> Option<Answer> {
    let mut answer = head(socket)?;
    let coding = answer.get("transfer-encoding").map(str::to_owned);
    let len = answer.get("content-length").map(|len| len.parse::<usize>().unwrap());
    let status = answer.status;
    if status < 200 || status == 204 {
        assert!(coding.is_none() && len.is_none(), "a length where there is no body: {answer:?}");
    }
    if method == "HEAD" || status < 200 || status == 204 || status == 304 {
        answer.whole = true;
    } else if let Some(coding) = coding {
        assert_eq!((coding.as_str(), len), ("chunked", None), "{answer:?}");
        answer.whole = chunks(socket, &mut answer.body);
    } else if let Some(len) = len {
        answer.body = up_to(socket, len);
        answer.whole = answer.body.len() == len;
    } else {
        drop(socket.read_to_end(&mut answer.body));
    }
    Some(answer)
}

fn chunks(socket: &mut impl Read, body: &mut Vec<u8>) -> bool {
    loop {
        let Some(size) = line(socket) else { return false };
        assert!(!size.is_empty() && size.bytes().all(|b| b.is_ascii_hexdigit()), "{size:?}");
        let size = usize::from_str_radix(&size, 16).unwrap();
        let data = up_to(socket, size);
        let whole = data.len() == size;
        body.extend(data);
        let Some(end) = line(socket).filter(|_| whole) else { return false };
        assert_eq!(end, "", "a chunk ends with CRLF");
        if size == 0 {
            return true;
        }
    }
}

/// One line without its CRLF; nothing when the connection ends first.
pub(crate) fn line(socket: &mut impl Read) -> Option<String> {
    let mut line = Vec::new();
    loop {
        let byte = up_to(socket, 1);
        match byte.first() {
            None if line.is_empty() => return None,
            None => panic!("the connection ended inside a line: {line:?}"),
            Some(b'\n') => {
                assert_eq!(line.pop(), Some(b'\r'), "a bare LF");
                assert!(!line.contains(&b'\r'), "a bare CR: {line:?}");
                return Some(String::from_utf8(line).unwrap());
            }
            Some(byte) => line.push(*byte),
        }
    }
}

/// Reads `len` bytes, or fewer when the connection ends or is reset. A timeout is a panic.
fn up_to(socket: &mut impl Read, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    let mut read = 0;
    while read < len {
        match socket.read(&mut bytes[read..]) {
            Ok(0) => break,
            Ok(n) => read += n,
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => break,
            Err(error) => panic!("after {read} of {len} bytes: {error}"),
        }
    }
    bytes.truncate(read);
    bytes
}
