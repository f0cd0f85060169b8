//! A server on loopback with a directory of its own, and a small client that hides nothing of
//! what goes over the wire.

mod client;
mod multipart;
mod sse;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use headwater_server::Server;
use headwater_server::clock::Clock;
use headwater_server::config::Config;

pub(crate) use client::{Answer, Connection, Request, delete, get, head, post, put, request};
pub(crate) use multipart::{Part, parts};
pub(crate) use sse::Sse;

/// The bucket that every test server begins with.
pub(crate) const BUCKET: &str = "demo";

/// How long a long-poll of a test server waits.
pub(crate) const LONG_POLL: Duration = Duration::from_millis(300);

/// The page size of a test server, in bytes.
pub(crate) const PAGE: usize = 64 * 1024;

/// The two surfaces that share buckets and streams, as prefixes of a stream's path.
pub(crate) const BOTH: [&str; 2] = ["/ds/demo", "/demo"];

/// Each way to reach a stream: the prefix of its path, and what leads to its resources.
pub(crate) const SURFACES: [(&str, &str); 3] =
    [("/v1/stream/a/b", "/~"), ("/ds/demo", ""), ("/demo", "")];

/// A server that ends, with its directory, when it is dropped.
pub(crate) struct Headwater {
    server: Option<Server>,
    config: Config,
    begin: Begin,
}

/// How a server is started, also when it is started again.
type Begin = Box<dyn Fn(Config) -> Server + Send + Sync>;

impl Headwater {
    pub(crate) fn start() -> Self {
        Self::with(|_| {})
    }

    /// Starts with other settings than those of the tests.
    pub(crate) fn with(change: impl FnOnce(&mut Config)) -> Self {
        Self::begin(change, Box::new(|config| Server::start(config).unwrap()))
    }

    /// Starts, also after a restart, with a clock that the test sets.
    pub(crate) fn at<C: Clock + Clone + 'static>(clock: C) -> Self {
        let begin = move |config| Server::start_at(config, Box::new(clock.clone())).unwrap();
        Self::begin(|_| {}, Box::new(begin))
    }

    fn begin(change: impl FnOnce(&mut Config), begin: Begin) -> Self {
        let mut config = Config {
            listen: "127.0.0.1:0".parse().unwrap(),
            data_dir: directory(),
            bucket: Some(BUCKET.to_owned()),
            long_poll_timeout: LONG_POLL,
            sse_max_duration: Duration::from_secs(2),
            drain_timeout: Duration::from_millis(500),
            read_page_bytes: PAGE as u64,
            log_file_bytes: 4 * 1024 * 1024,
            disk_reserve: Some(0),
            ..Config::default()
        };
        change(&mut config);
        let server = begin(config.clone());
        Self { server: Some(server), config, begin }
    }

    /// Ends the server and starts another one on what it stored.
    pub(crate) fn restart(&mut self) {
        self.restart_with(|_| {});
    }

    /// As [`Self::restart`], with other settings.
    pub(crate) fn restart_with(&mut self, change: impl FnOnce(&mut Config)) {
        self.server.take().unwrap().stop().unwrap();
        change(&mut self.config);
        self.server = Some((self.begin)(self.config.clone()));
    }

    /// How many files of at least `bytes` the server keeps.
    pub(crate) fn files_of(&self, bytes: u64) -> usize {
        let (mut folders, mut count) = (vec![self.config.data_dir.clone()], 0);
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                // A file may be gone by the time that it is looked at.
                let Ok(entry) = entry else { continue };
                match entry.metadata() {
                    Ok(found) if found.is_dir() => folders.push(entry.path()),
                    Ok(found) if found.len() >= bytes => count += 1,
                    _ => {}
                }
            }
        }
        count
    }

    pub(crate) fn config(&self) -> Config {
        self.config.clone()
    }

    /// `host:port`.
    pub(crate) fn host(&self) -> String {
        self.server.as_ref().unwrap().address().to_string()
    }

    /// A connection of one's own, for more than one request.
    pub(crate) fn connect(&self) -> Connection {
        Connection::open(self.server.as_ref().unwrap().address())
    }

    /// The same from another address of this machine.
    pub(crate) fn connect_from(&self, from: [u8; 4]) -> Connection {
        Connection::open_from(from, self.server.as_ref().unwrap().address())
    }

    /// Sends a request on a fresh connection and checks what is true of every answer.
    pub(crate) fn send(&self, request: impl Into<Request>) -> Answer {
        let request = request.into();
        let answer = self.connect().round(&request);
        answer.check_common(&request);
        answer
    }

    /// Creates a stream, with content unless `body` is empty.
    pub(crate) fn create(&self, path: &str, content_type: &str, body: impl AsRef<[u8]>) -> Answer {
        self.send(put(path).typed(content_type, body)).expect(201)
    }

    /// Appends and returns the offset behind it.
    pub(crate) fn append(&self, path: &str, content_type: &str, body: impl AsRef<[u8]>) -> String {
        let answer = self.send(post(path).typed(content_type, body)).expect(204);
        answer.need("stream-next-offset").to_owned()
    }

    /// A stream of text with these messages; returns the offset behind each.
    pub(crate) fn text_stream(&self, path: &str, messages: &[&str]) -> Vec<String> {
        self.create(path, "text/plain", "");
        messages.iter().map(|message| self.append(path, "text/plain", message)).collect()
    }

    /// A JSON stream with these messages, each appended on its own.
    pub(crate) fn json_stream(&self, path: &str, messages: &[&str]) -> Vec<String> {
        self.create(path, "application/json", "");
        messages.iter().map(|message| self.append(path, "application/json", message)).collect()
    }

    /// Publishes a snapshot of text and returns its digest.
    pub(crate) fn publish(&self, path: &str, body: &str) -> String {
        let answer = self.send(put(path).typed("text/plain", body)).expect(204);
        answer.need("stream-snapshot-digest").to_owned()
    }

    /// Opens an SSE read, which must be answered 200.
    pub(crate) fn sse(&self, target: &str) -> Sse {
        Sse::open(self.connect(), target)
    }
}

impl Drop for Headwater {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            server.stop().unwrap();
        }
        std::fs::remove_dir_all(&self.config.data_dir).unwrap();
    }
}

/// A directory that no other test has.
fn directory() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("server-{}-{number}", std::process::id());
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// `n` as an offset.
pub(crate) fn offset(n: u64) -> String {
    format!("{n:020}")
}

/// `text` with every byte escaped, as a path or a query may have it.
pub(crate) fn percent_encode(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect::<Vec<_>>().concat()
}

/// Tries again until `done` says so: for what the server does in the background.
pub(crate) fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = std::time::Instant::now() + Duration::from_secs(10);
    while !done() {
        assert!(std::time::Instant::now() < deadline, "never happened: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Checks a table of claims in a module's documentation: a line of nothing but a name in backticks
/// names a test, every one of which exists, and every test of the module is named.
pub(crate) fn check_table(documented: &str, tests: &str) {
    let lines = documented.lines().filter_map(|line| line.strip_prefix("//!   `"));
    let named: Vec<&str> = lines.filter_map(|line| line.strip_suffix('`')).collect();
    for name in &named {
        assert!(tests.contains(&format!("\nfn {name}()")), "there is no test {name}");
    }
    for (attribute, test) in tests.lines().zip(tests.lines().skip(1)) {
        if attribute == "#[test]" {
            let name = test.trim_start_matches("fn ").trim_end_matches("() {");
            let this_check = name == "every_sentence_names_a_test_that_exists";
            assert!(this_check || named.contains(&name), "{name} defends no sentence");
        }
    }
}
