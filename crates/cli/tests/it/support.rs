//! Running the binary, and a server of it on a directory and a port of its own.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How long background work may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// How a run of the binary ended.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// A server that ends with its test.
pub(crate) struct Server {
    child: Child,
    stdout: BufReader<ChildStdout>,
    pub(crate) url: String,
}

/// A directory that goes with its test.
pub(crate) struct Directory(PathBuf);

/// The binary, without anything that the environment may ask of it.
pub(crate) fn headwater() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_headwater"));
    for (name, _) in std::env::vars_os() {
        let name_text = name.to_string_lossy();
        if name_text.starts_with("HEADWATER_") || name_text.starts_with("STREAM_") {
            command.env_remove(&name);
        }
    }
    // Nor what a file on this machine may ask.
    command.env("HEADWATER_CONFIG", "/dev/null");
    command.env_remove("NO_COLOR").stdin(Stdio::null());
    command
}

/// One line for each number below `count`.
pub(crate) fn numbered(count: u32, line: impl Fn(u32) -> String) -> String {
    (0..count).fold(String::new(), |text, n| text + &line(n) + "\n")
}

/// Waits until background work has led to something.
pub(crate) fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let limit = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < limit, "{what}: not after {PATIENCE:?}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Runs the binary to its end.
pub(crate) fn run(args: &[&str]) -> Run {
    finish(headwater().args(args))
}

/// Runs `command` to its end.
pub(crate) fn finish(command: &mut Command) -> Run {
    let output = command.output().expect("the binary starts");
    Run {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Sends a signal to a process that this test has started.
pub(crate) fn signal(child: &Child, name: &str) {
    let id = child.id().to_string();
    let status = Command::new("kill").args([&format!("-{name}"), &id]).status();
    assert!(status.expect("kill is there").success(), "{name} to {id}");
}

impl Run {
    /// The output of a run that has to have succeeded.
    #[track_caller]
    pub(crate) fn ok(self) -> String {
        assert_eq!(self.code, Some(0), "{}", self.stderr);
        self.stdout
    }

    /// The talk of a run that has to have failed with `code`, printing no data.
    #[track_caller]
    pub(crate) fn fails_with(self, code: i32) -> String {
        assert_eq!((self.code, self.stdout.as_str()), (Some(code), ""), "{}", self.stderr);
        self.stderr
    }
}

impl Server {
    /// A server on `directory` with some further flags.
    pub(crate) fn start(directory: &Directory, flags: &[&str]) -> Self {
        Self::spawn(directory, &[&["serve", "--listen", "127.0.0.1:0"], flags].concat())
    }

    /// `serve` or `dev`, as `args` say.
    pub(crate) fn spawn(directory: &Directory, args: &[&str]) -> Self {
        Self::of(headwater(), directory, args)
    }

    /// A server of any binary.
    pub(crate) fn of(mut binary: Command, directory: &Directory, args: &[&str]) -> Self {
        let mut child = binary
            .args(args)
            .arg("--data-dir")
            .arg(directory.path())
            .env("HEADWATER_LOG", "warn")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut line = String::new();
        stdout.read_line(&mut line).expect("a pipe");
        let Some(url) = line.trim_end().strip_prefix("listening on ") else {
            let mut stderr = String::new();
            child.stderr.take().expect("a pipe").read_to_string(&mut stderr).expect("UTF-8");
            panic!("no server: {line:?} {stderr}");
        };
        Self { url: url.to_owned(), child, stdout }
    }

    /// The binary as a client of this server.
    pub(crate) fn client(&self, args: &[&str]) -> Command {
        let mut command = headwater();
        command.env("STREAM_URL", &self.url).args(args);
        command
    }

    /// Its process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Runs a client verb to its end.
    pub(crate) fn run(&self, args: &[&str]) -> Run {
        finish(&mut self.client(args))
    }

    /// Runs a client verb with `input` at its stdin.
    pub(crate) fn run_with(&self, args: &[&str], input: &[u8]) -> Run {
        let mut child = self
            .client(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        child.stdin.take().expect("a pipe").write_all(input).expect("all is read");
        let output = child.wait_with_output().expect("it ends");
        Run {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Ends the server with SIGTERM; what it printed since it was ready.
    pub(crate) fn stop(mut self) -> Run {
        signal(&self.child, "TERM");
        let mut stdout = String::new();
        self.stdout.read_to_string(&mut stdout).expect("UTF-8");
        let mut stderr = String::new();
        self.child.stderr.take().expect("a pipe").read_to_string(&mut stderr).expect("UTF-8");
        let code = self.child.wait().expect("it ends").code();
        Run { code, stdout, stderr }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail only if it has ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Directory {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("headwater-cli-{}-{count}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).expect("a fresh directory");
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}
