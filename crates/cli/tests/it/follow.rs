//! `tail` against a real server.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, ChildStdout, Stdio};

use crate::support::{Directory, Server, numbered, signal};

/// A running `tail`.
struct Tail {
    child: Child,
    stdout: BufReader<ChildStdout>,
}

impl Tail {
    fn start(server: &Server, args: &[&str]) -> Self {
        let mut child = server
            .client(&[&["tail"], args].concat())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        Self { child, stdout }
    }

    /// Waits for the next line.
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("UTF-8");
        line
    }

    /// Waits for the end: the exit code, the rest of stdout, and stderr.
    fn end(mut self) -> (Option<i32>, Vec<u8>, String) {
        let (mut stdout, mut stderr) = (Vec::new(), String::new());
        self.stdout.read_to_end(&mut stdout).expect("a pipe");
        self.child.stderr.take().expect("a pipe").read_to_string(&mut stderr).expect("UTF-8");
        let status = self.child.wait().expect("it ends");
        (status.code(), stdout, stderr)
    }
}

#[test]
fn a_json_stream_is_followed_from_its_last_records_until_it_closes() {
    let directory = Directory::new();
    let server = Server::start(&directory, &["--bucket", "demo"]);
    server.run(&["create", "demo/ev", "--content-type", "application/json"]).ok();
    let input = numbered(20, |n| n.to_string());
    server.run_with(&["append", "demo/ev", "--batch"], input.as_bytes()).ok();

    let mut tail = Tail::start(&server, &["demo/ev", "-n", "2"]);
    assert_eq!((tail.line(), tail.line()), ("18\n".to_owned(), "19\n".to_owned()));
    server.run(&["append", "demo/ev", "{\"a\": 1.0}"]).ok();
    assert_eq!(tail.line(), "{\"a\": 1.0}\n");
    server.run(&["append", "demo/ev", "\"end\"", "--close"]).ok();
    let (code, rest, told) = tail.end();
    assert_eq!((code, rest.as_slice()), (Some(0), &b"\"end\"\n"[..]), "{told}");
    assert!(told.contains("demo/ev is closed"), "{told}");

    let (_, all, _) = Tail::start(&server, &["demo/ev"]).end();
    assert_eq!(all.split(|&b| b == b'\n').count() - 1, 10, "ten records without a flag");
}

#[test]
fn bytes_that_are_no_text_arrive_unchanged() {
    let directory = Directory::new();
    let server = Server::start(&directory, &["--bucket", "demo"]);
    let bytes: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    server.run(&["create", "demo/bin"]).ok();
    server.run_with(&["append", "demo/bin", "--close"], &bytes).ok();
    let (code, followed, told) = Tail::start(&server, &["demo/bin", "--offset", "-1"]).end();
    assert_eq!(code, Some(0), "{told}");
    assert!(followed == bytes, "{} bytes differ", followed.len());
}

#[test]
fn ctrl_c_exits_with_130_and_says_where_to_go_on() {
    let directory = Directory::new();
    let server = Server::start(&directory, &["--bucket", "demo"]);
    let text = "text/plain";
    server.run(&["create", "demo/log", "--content-type", text, "--data", "one\n"]).ok();
    let mut tail = Tail::start(&server, &["demo/log", "--offset", "-1"]);
    assert_eq!(tail.line(), "one\n");
    // The position is kept right after the line was written, so wait for the next event.
    server.run(&["append", "demo/log", "two\n"]).ok();
    assert_eq!(tail.line(), "two\n");
    signal(&tail.child, "INT");
    let (code, rest, told) = tail.end();
    assert_eq!((code, rest.as_slice()), (Some(130), &b""[..]), "{told}");
    assert!(told.contains("next: headwater tail demo/log --offset 0000000000000000000"), "{told}");
}

#[test]
fn a_restarted_server_is_found_again_and_nothing_is_missed_or_repeated() {
    let directory = Directory::new();
    let server = Server::start(&directory, &["--bucket", "demo"]);
    let text = "text/plain";
    server.run(&["create", "demo/log", "--content-type", text, "--data", "one\n"]).ok();
    let mut tail = Tail::start(&server, &["demo/log", "--offset", "-1"]);
    assert_eq!(tail.line(), "one\n");

    let address = server.url.strip_prefix("http://").expect("a URL").to_owned();
    server.stop().ok();
    let server = Server::spawn(&directory, &["serve", "--listen", &address]);
    server.run(&["append", "demo/log", "two\n"]).ok();
    server.run(&["append", "demo/log", "three\n", "--close"]).ok();
    let (code, rest, told) = tail.end();
    let rest = String::from_utf8_lossy(&rest);
    assert_eq!((code, rest.as_ref()), (Some(0), "two\nthree\n"), "{told}");
}

#[test]
fn a_stream_that_is_deleted_ends_with_exit_3() {
    let directory = Directory::new();
    let server = Server::start(&directory, &["--bucket", "demo"]);
    let text = "text/plain";
    server.run(&["create", "demo/log", "--content-type", text, "--data", "one\n"]).ok();
    let mut tail = Tail::start(&server, &["demo/log", "--offset", "-1"]);
    assert_eq!(tail.line(), "one\n");
    server.run(&["delete", "demo/log"]).ok();
    let (code, _, told) = tail.end();
    assert_eq!(code, Some(3), "{told}");
    assert!(told.contains("404 STREAM_NOT_FOUND"), "{told}");
}
