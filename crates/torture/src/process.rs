//! The server's process: start it, pause it, end it gently or not.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// How long recovery may take on the little data that a run keeps.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a drain may take after SIGTERM.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// What every start of a run has in common.
#[derive(Debug, Clone)]
pub struct Launch {
    /// The server's binary.
    pub binary: PathBuf,
    /// Its data directory.
    pub data_dir: PathBuf,
    /// Flags beyond address and data directory.
    pub flags: Vec<String>,
    /// Where its stderr goes, one start after the other.
    pub log: PathBuf,
}

/// A running server. Dropping it kills it.
#[derive(Debug)]
pub struct Server {
    child: Child,
    /// Where it listens.
    pub address: SocketAddr,
}

impl Launch {
    fn spawn(&self) -> io::Result<Child> {
        let log = OpenOptions::new().create(true).append(true).open(&self.log)?;
        let mut command = Command::new(&self.binary);
        // The run decides every setting.
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("HEADWATER_") {
                command.env_remove(name);
            }
        }
        command
            .args(["serve", "--config", "/dev/null", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(&self.data_dir)
            .args(&self.flags)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            // An interrupt from the terminal is for the run, which ends the server itself.
            .process_group(0)
            .spawn()
    }

    /// Starts the server and kills it after `delay`, wherever its recovery is then.
    pub fn start_and_kill(&self, delay: Duration) -> Result<(), String> {
        let mut child =
            self.spawn().map_err(|error| format!("the server cannot start: {error}"))?;
        thread::sleep(delay);
        match child.try_wait() {
            Ok(Some(status)) => Err(format!("the server ended by itself in recovery: {status}")),
            Ok(None) => match kill_and_wait(&mut child) {
                Ok(_killed) => Ok(()),
                Err(error) => Err(error.to_string()),
            },
            Err(error) => Err(error.to_string()),
        }
    }

    /// Starts the server and waits until it listens.
    pub fn start(&self) -> Result<Server, String> {
        let mut child =
            self.spawn().map_err(|error| format!("the server cannot start: {error}"))?;
        let stdout = child.stdout.take().expect("stdout is a pipe");
        let (sender, line) = std::sync::mpsc::channel();
        thread::spawn(move || {
            let mut line = String::new();
            let read = BufReader::new(stdout).read_line(&mut line);
            // Nobody is waiting any more if the start has timed out.
            sender.send(read.map(|_| line)).ok();
        });
        let line = match line.recv_timeout(START_TIMEOUT) {
            Ok(Ok(line)) => line,
            Ok(Err(error)) => error.to_string(),
            Err(_timeout) => {
                kill_and_wait(&mut child).map_err(|error| error.to_string())?;
                return Err(format!("the server does not listen after {START_TIMEOUT:?}"));
            }
        };
        let address = line.trim().strip_prefix("listening on http://").map(str::parse);
        if let Some(Ok(address)) = address {
            return Ok(Server { child, address });
        }
        let status = kill_and_wait(&mut child).map_err(|error| error.to_string())?;
        Err(format!("the server does not start: {status}, it says {line:?}"))
    }

    /// What the server has logged that it should not: panics, and its lines about failures.
    pub fn complaints(&self) -> io::Result<Vec<String>> {
        let log = BufReader::new(File::open(&self.log)?);
        let bad = |line: &String| line.contains("panicked") || line.contains("the log has failed");
        log.lines().filter(|line| line.as_ref().map_or(true, bad)).collect()
    }

    /// How many torn ends of a log recovery has cut off and kept.
    pub fn cut_tails(&self) -> u64 {
        let kept = self.data_dir.join("cut").read_dir();
        kept.map_or(0, |files| u64::try_from(files.count()).unwrap_or(u64::MAX))
    }
}

impl Server {
    /// Whether it has ended without being told to.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// kill -9.
    pub fn kill(mut self) -> io::Result<ExitStatus> {
        kill_and_wait(&mut self.child)
    }

    /// SIGTERM; it must end with code 0 within [`DRAIN_TIMEOUT`].
    pub fn terminate(mut self) -> Result<(), String> {
        self.signal(Signal::TERM);
        let asked = Instant::now();
        while asked.elapsed() < DRAIN_TIMEOUT {
            match self.child.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(Some(status)) => return Err(format!("SIGTERM ended the server with {status}")),
                Ok(None) => thread::sleep(Duration::from_millis(2)),
                Err(error) => return Err(error.to_string()),
            }
        }
        let _status = kill_and_wait(&mut self.child).map_err(|error| error.to_string())?;
        Err(format!("the server is still there {DRAIN_TIMEOUT:?} after SIGTERM"))
    }

    /// Stops it in its tracks (SIGSTOP).
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets it go on (SIGCONT).
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).expect("our own child can be signalled until it is waited for");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing left to do.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn kill_and_wait(child: &mut Child) -> io::Result<ExitStatus> {
    child.kill()?;
    child.wait()
}

/// Copies a data directory, so that what a crash left behind can be looked at later.
pub fn copy_dir(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in from.read_dir()? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_dir(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
