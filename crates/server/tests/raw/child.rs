//! A server in a process of its own, for what can only be seen or done to a process: signals, its
//! memory, its descriptors. The process is this test binary again.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use headwater_server::config::Tls;

use crate::support::{Answer, Wire, config};

/// Set for the child: the settings, as `name=value` pairs.
const SETTINGS: &str = "HEADWATER_RAW_CHILD";

/// What the child prints before its address.
const LISTENING: &str = "listening on ";

/// The process.
pub(crate) struct Process {
    child: Child,
    address: SocketAddr,
    data_dir: PathBuf,
    /// Kept open: a process whose output nobody reads might wait.
    _output: BufReader<ChildStdout>,
}

impl Process {
    /// Starts a server; `settings` are separated by spaces, `limits` is a shell command before it.
    pub(crate) fn start(settings: &str, limits: &str) -> Self {
        let data_dir = config().data_dir;
        std::fs::create_dir_all(data_dir.parent().unwrap()).unwrap();
        let settings = format!("data_dir={} {settings}", data_dir.display());
        let mut child = Command::new("sh")
            .args(["-c", &format!("{limits}\nexec \"$0\" \"$@\"")])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "child::serve", "--ignored", "--nocapture"])
            .env(SETTINGS, settings)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let address = loop {
            let mut line = String::new();
            assert!(output.read_line(&mut line).unwrap() > 0, "the server did not start");
            if let Some((_, address)) = line.split_once(LISTENING) {
                break address.trim().parse().unwrap();
            }
        };
        Self { child, address, data_dir, _output: output }
    }

    pub(crate) fn connect(&self) -> Wire {
        Wire::open(self.address)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn ask(&self, method: &str, path: &str, headers: &str, body: &[u8]) -> Answer {
        self.connect().ask(method, path, headers, body)
    }

    /// Descriptors that are open.
    pub(crate) fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap().count()
    }

    /// Descriptors that are open once those of connections that have just ended are not any more.
    pub(crate) fn settled_descriptors(&self) -> usize {
        let mut seen = Vec::new();
        while seen.len() < 10 {
            let now = self.descriptors();
            seen.retain(|before| *before == now);
            seen.push(now);
            std::thread::sleep(Duration::from_millis(20));
        }
        seen[0]
    }

    /// Resident memory, in bytes.
    pub(crate) fn memory(&self) -> u64 {
        self.status("VmRSS:") * 1024
    }

    /// Time on the processors, in clock ticks of 10 ms.
    pub(crate) fn ticks(&self) -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let (_, fields) = stat.rsplit_once(')').unwrap();
        fields.split(' ').skip(12).take(2).map(|field| field.parse::<u64>().unwrap()).sum()
    }

    fn status(&self, name: &str) -> u64 {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(path).unwrap();
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    pub(crate) fn terminate(&self) {
        self.signal("-TERM");
    }

    /// Sends it a signal, by its name for `kill`.
    pub(crate) fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([name, &id]).status().unwrap().success());
    }

    /// Waits for the end, at most `within`.
    pub(crate) fn ended(&mut self, within: Duration) -> ExitStatus {
        let deadline = Instant::now() + within;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < deadline, "still running after {within:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Ended already in some tests.
        drop(self.child.kill());
        self.child.wait().unwrap();
        std::fs::remove_dir_all(self.data_dir.parent().unwrap()).unwrap();
    }
}

/// Not a test: the body of the process.
#[test]
#[ignore = "the server of other tests"]
fn serve() {
    let Ok(settings) = std::env::var(SETTINGS) else { return };
    let mut config = config();
    let mut files = [PathBuf::new(), PathBuf::new()];
    for (name, value) in settings.split(' ').filter_map(|pair| pair.split_once('=')) {
        let millis = || Duration::from_millis(value.parse().unwrap());
        match name {
            "data_dir" => config.data_dir = value.into(),
            "drain" => config.drain_timeout = millis(),
            "slow" => config.slow_reader_timeout = millis(),
            "response" => config.response_max_duration = millis(),
            "sse" => config.sse_max_duration = millis(),
            "body" => config.body_timeout = millis(),
            "cert" => files[0] = value.into(),
            "key" => files[1] = value.into(),
            "log" => config.log_file_bytes = value.parse().unwrap(),
            _ => panic!("no such setting: {name}"),
        }
    }
    let [certificate, key] = files;
    if certificate.has_root() {
        config.tls = Some(Tls { certificate, key, client_ca: None });
    }
    let ready = |address| {
        let line = format!("{LISTENING}{address}\n");
        std::io::Write::write_all(&mut std::io::stdout(), line.as_bytes()).unwrap();
    };
    headwater_server::run(config, ready).unwrap();
}
