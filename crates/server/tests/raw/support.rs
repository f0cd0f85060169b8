//! A server on loopback with a directory of its own, and a client that sends whatever it is told.

use std::io::{BufReader, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use headwater_server::Server;
use headwater_server::config::Config;

use crate::answer;
pub(crate) use crate::answer::Answer;

/// How long a client waits for bytes before the test fails.
const PATIENCE: Duration = Duration::from_secs(20);

/// What test servers are set to: small, so that limits are reached soon.
pub(crate) fn config() -> Config {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("raw-{}-{number}", std::process::id());
    Config {
        listen: "127.0.0.1:0".parse().unwrap(),
        data_dir: PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name).join("data"),
        bucket: Some("demo".to_owned()),
        drain_timeout: Duration::from_millis(300),
        log_file_bytes: 16 * 1024 * 1024,
        disk_reserve: Some(0),
        ..Config::default()
    }
}

/// A server that ends, with its directory, when it is dropped.
pub(crate) struct Headwater {
    server: Option<Server>,
    pub(crate) config: Config,
}

impl Headwater {
    pub(crate) fn start() -> Self {
        Self::with(|_| {})
    }

    pub(crate) fn with(change: impl FnOnce(&mut Config)) -> Self {
        let mut config = config();
        change(&mut config);
        std::fs::create_dir_all(config.data_dir.parent().unwrap()).unwrap();
        Self { server: Some(Server::start(config.clone()).unwrap()), config }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.server.as_ref().unwrap().address()
    }

    pub(crate) fn connect(&self) -> Wire {
        Wire::open(self.address())
    }

    /// One request on a connection of its own.
    pub(crate) fn ask(&self, method: &str, path: &str, headers: &str, body: &[u8]) -> Answer {
        self.connect().ask(method, path, headers, body)
    }

    /// Creates an empty stream of text.
    pub(crate) fn create(&self, path: &str) {
        self.ask("PUT", path, "Content-Type: text/plain\r\n", b"").expect(201);
    }

    /// All that a stream holds.
    pub(crate) fn content(&self, path: &str) -> String {
        self.ask("GET", path, "", b"").expect(200).text()
    }
}

impl Drop for Headwater {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            server.stop().unwrap();
        }
        std::fs::remove_dir_all(self.config.data_dir.parent().unwrap()).unwrap();
    }
}

/// A request with a length when it has a body.
pub(crate) fn request(method: &str, path: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let mut bytes = format!("{method} {path} HTTP/1.1\r\nHost: test\r\n{headers}").into_bytes();
    if !body.is_empty() {
        bytes.extend(format!("Content-Length: {}\r\n", body.len()).bytes());
    }
    bytes.extend(b"\r\n");
    bytes.extend(body);
    bytes
}

/// A connection.
pub(crate) struct Wire(BufReader<TcpStream>);

impl Wire {
    pub(crate) fn open(address: SocketAddr) -> Self {
        let socket = TcpStream::connect(address).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.set_write_timeout(Some(PATIENCE)).unwrap();
        socket.set_nodelay(true).unwrap();
        Self(BufReader::new(socket))
    }

    pub(crate) fn socket(&self) -> &TcpStream {
        self.0.get_ref()
    }

    /// Sends; that the server has closed already is no failure of the test.
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.0.get_mut().write_all(bytes.as_ref()).is_ok()
    }

    /// Sends nothing more, and still reads.
    pub(crate) fn half_close(&self) {
        // The server may be gone already.
        drop(self.socket().shutdown(Shutdown::Write));
    }

    /// The next answer, to a request with this method.
    #[track_caller]
    pub(crate) fn answer(&mut self, method: &str) -> Answer {
        self.next(method).expect("the connection ended without an answer")
    }

    /// The next answer, or nothing when the connection has ended.
    pub(crate) fn next(&mut self, method: &str) -> Option<Answer> {
        answer::read(&mut self.0, method)
    }

    /// The head of the next answer, whose body goes on.
    pub(crate) fn head(&mut self) -> Answer {
        answer::head(&mut self.0).expect("the connection ended without an answer")
    }

    /// Reads up to and including `end`; what was read.
    pub(crate) fn until(&mut self, end: &str) -> String {
        let mut read = Vec::new();
        let deadline = Instant::now() + PATIENCE;
        while !read.ends_with(end.as_bytes()) {
            assert!(Instant::now() < deadline, "no {end:?} in {} bytes", read.len());
            let mut byte = [0];
            assert_eq!(self.0.read(&mut byte).unwrap(), 1, "ended after {read:?}");
            read.push(byte[0]);
        }
        String::from_utf8(read).unwrap()
    }

    #[track_caller]
    pub(crate) fn ask(&mut self, method: &str, path: &str, headers: &str, body: &[u8]) -> Answer {
        self.send(request(method, path, headers, body));
        self.answer(method)
    }

    /// Fails unless the connection ends now, with nothing more to read.
    #[track_caller]
    pub(crate) fn ended(&mut self) {
        let mut rest = Vec::new();
        match self.0.read_to_end(&mut rest) {
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {}
            Err(error) => panic!("still open: {error}, after {:?}", String::from_utf8_lossy(&rest)),
        }
        assert_eq!(String::from_utf8_lossy(&rest), "");
    }
}

/// Tries again until `done` says so: for what the server does in the background.
#[track_caller]
pub(crate) fn eventually(what: &str, within: Duration, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + within;
    while !done() {
        assert!(Instant::now() < deadline, "never happened: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
