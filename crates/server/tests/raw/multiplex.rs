//! A client of HTTP/2: a well-behaved one, and frames by hand.

use std::io::{Read as _, Write as _};
use std::net::SocketAddr;

use bytes::Bytes;
use h2::RecvStream;
use h2::client::{ResponseFuture, SendRequest};
use http::{HeaderMap, Request, Response};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use crate::support::Wire;

/// Runs a test that is a future.
pub(crate) fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let patience = std::time::Duration::from_mins(1);
        Box::pin(tokio::time::timeout(patience, test)).await.expect("the test ends in time")
    })
}

/// One connection.
pub(crate) struct Client {
    send: SendRequest<Bytes>,
    authority: String,
    driver: JoinHandle<Result<(), h2::Error>>,
}

/// An answer in full.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{self:?}");
        self
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }
}

impl Client {
    /// On a plain connection, by prior knowledge.
    pub(crate) async fn open(address: SocketAddr) -> Self {
        let socket = TcpStream::connect(address).await.unwrap();
        socket.set_nodelay(true).unwrap();
        Box::pin(Self::over(socket, &address.to_string())).await
    }

    pub(crate) async fn over(
        io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        authority: &str,
    ) -> Self {
        Box::pin(Self::with_window(io, authority, 1 << 20)).await
    }

    /// A client that is ready to take `window` bytes of each answer before it has read any.
    pub(crate) async fn with_window(
        io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        authority: &str,
        window: u32,
    ) -> Self {
        let mut builder = h2::client::Builder::new();
        builder.initial_window_size(window).initial_connection_window_size(1 << 24);
        let (send, connection) = builder.handshake(io).await.unwrap();
        let driver = tokio::spawn(connection);
        Self { send, authority: authority.to_owned(), driver }
    }

    /// Sends a request; the answer is waited for by whoever has its future.
    pub(crate) async fn send(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> ResponseFuture {
        let mut request =
            Request::builder().method(method).uri(format!("http://{}{path}", self.authority));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut send = self.send.clone().ready().await.unwrap();
        let (answer, mut stream) =
            send.send_request(request.body(()).unwrap(), body.is_empty()).unwrap();
        if !body.is_empty() {
            // That the server wants no more of it is seen in its answer.
            drop(stream.send_data(Bytes::copy_from_slice(body), true));
        }
        answer
    }

    /// The head of an answer, whose body goes on.
    pub(crate) async fn begin(&mut self, path: &str) -> Response<RecvStream> {
        self.send("GET", path, &[], b"").await.await.unwrap()
    }

    pub(crate) async fn ask(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Reply {
        let answer = self.send(method, path, headers, body).await.await.unwrap();
        let (head, mut stream) = answer.into_parts();
        let mut all = Vec::new();
        while let Some(piece) = next(&mut stream).await {
            all.extend_from_slice(&piece);
        }
        Reply { status: head.status.as_u16(), headers: head.headers, body: all }
    }

    /// How the connection ended.
    pub(crate) async fn ended(self) -> Result<(), h2::Error> {
        drop(self.send);
        self.driver.await.unwrap()
    }
}

/// The next piece of a body, or nothing at its end.
pub(crate) async fn next(stream: &mut RecvStream) -> Option<Bytes> {
    let piece = stream.data().await?.unwrap();
    stream.flow_control().release_capacity(piece.len()).unwrap();
    Some(piece)
}

/// Reads on until `end` has come.
pub(crate) async fn until(stream: &mut RecvStream, end: &str) -> String {
    let mut all = String::new();
    while !all.contains(end) {
        let piece = next(stream).await.unwrap_or_else(|| panic!("ended without {end:?}: {all:?}"));
        all.push_str(str::from_utf8(&piece).unwrap());
    }
    all
}

/// Kinds of frames (RFC 9113 §6).
pub(crate) mod kind {
    pub(crate) const DATA: u8 = 0;
    pub(crate) const HEADERS: u8 = 1;
    pub(crate) const RST_STREAM: u8 = 3;
    pub(crate) const SETTINGS: u8 = 4;
    pub(crate) const PING: u8 = 6;
    pub(crate) const GOAWAY: u8 = 7;
    pub(crate) const WINDOW_UPDATE: u8 = 8;
    pub(crate) const CONTINUATION: u8 = 9;
}

pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;

/// A frame, as it goes over the wire.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let len = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut bytes = vec![len[1], len[2], len[3], kind, flags];
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// A block of header fields, none of which is compressed.
pub(crate) fn fields(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for text in fields.iter().flat_map(|(name, value)| [(true, *name), (false, *value)]) {
        let (is_name, text) = text;
        if is_name {
            block.push(0);
        }
        // An integer with a prefix of seven bits (RFC 7541 §5.1).
        let mut rest = text.len();
        if rest < 127 {
            block.push(u8::try_from(rest).unwrap());
        } else {
            block.push(127);
            rest -= 127;
            while rest >= 128 {
                block.push(u8::try_from(rest % 128).unwrap() | 128);
                rest /= 128;
            }
            block.push(u8::try_from(rest).unwrap());
        }
        block.extend(text.bytes());
    }
    block
}

/// The fields that every request has.
pub(crate) fn get(path: &str) -> Vec<u8> {
    let authority = (":authority", "test");
    fields(&[(":method", "GET"), (":scheme", "http"), authority, (":path", path)])
}

/// A frame that was received.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

impl Received {
    /// The code of an error, of a stream or of the connection.
    pub(crate) fn code(&self) -> u32 {
        let at = if self.kind == kind::GOAWAY { 4 } else { 0 };
        u32::from_be_bytes(self.payload[at..at + 4].try_into().unwrap())
    }
}

/// Frames over a plain connection.
pub(crate) struct Frames(Wire);

impl Frames {
    /// Opens a connection with these settings: pairs of a number and a value.
    pub(crate) fn open(address: SocketAddr, settings: &[(u16, u32)]) -> Self {
        let mut wire = Wire::open(address);
        let mut payload = Vec::new();
        for (number, value) in settings {
            payload.extend(number.to_be_bytes());
            payload.extend(value.to_be_bytes());
        }
        wire.send([PREFACE, &frame(kind::SETTINGS, 0, 0, &payload)].concat());
        Self(wire)
    }

    /// Whether the server still took it.
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.0.send(bytes)
    }

    /// The next frame, or nothing when the connection has ended.
    pub(crate) fn next(&mut self) -> Option<Received> {
        let mut head = [0; 9];
        let mut socket = self.0.socket();
        socket.read_exact(&mut head).ok()?;
        let len = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; usize::try_from(len).unwrap()];
        socket.read_exact(&mut payload).ok()?;
        let stream = u32::from_be_bytes(head[5..].try_into().unwrap());
        let received = Received { kind: head[3], flags: head[4], stream, payload };
        if received.kind == kind::SETTINGS && received.flags == 0 {
            // As a client has to.
            drop(socket.write_all(&frame(kind::SETTINGS, 1, 0, &[])));
        }
        if received.kind == kind::PING && received.flags == 0 {
            drop(socket.write_all(&frame(kind::PING, 1, 0, &received.payload)));
        }
        Some(received)
    }

    /// The next frame of this kind, others forgotten.
    #[track_caller]
    pub(crate) fn expect(&mut self, kind: u8) -> Received {
        loop {
            let received = self.next().expect("the connection ended");
            if received.kind == kind {
                return received;
            }
        }
    }

    /// The error that the connection ends with, or nothing when it ends without any.
    pub(crate) fn ended(&mut self) -> Option<u32> {
        let mut code = None;
        while let Some(received) = self.next() {
            if received.kind == kind::GOAWAY {
                code = Some(received.code());
            }
        }
        code
    }
}
