//! What processes used, from `/proc`: the server's CPU time per operation is the sharper figure
//! where client and server share a machine.

use std::fs;
use std::time::Duration;

use tokio::time::Instant;

use super::report::{Report, per, per_second};
use crate::failure::{Exit, Failure};

/// What one process has used so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Usage {
    /// On all cores, in user and kernel mode; told in hundredths of a second.
    pub(crate) cpu: Duration,
    pub(crate) resident_bytes: u64,
    /// Handed to the disk, or on the way there.
    pub(crate) written_bytes: u64,
    pub(crate) descriptors: u64,
}

/// What the server and this process use from a moment on.
#[derive(Debug)]
pub(crate) struct Meter {
    server: Option<(u32, Usage)>,
    client: Option<Usage>,
    since: Instant,
}

/// What the kernel counts CPU time in; the same on every Linux that we know.
const TICK: Duration = Duration::from_millis(10);

impl Usage {
    /// Of the process `pid`, or of our own (`self`). `None` where there is no such process.
    pub(crate) fn of(pid: &str) -> Option<Self> {
        let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).ok();
        let folder = fs::read_dir(format!("/proc/{pid}/fd"));
        Some(Self {
            cpu: cpu(&read("stat")?)?,
            resident_bytes: number_behind(&read("status")?, "VmRSS:")? * 1024,
            // Another user's process keeps these two to itself.
            written_bytes: read("io")
                .and_then(|io| number_behind(&io, "write_bytes:"))
                .unwrap_or(0),
            descriptors: folder.map_or(0, |entries| entries.count() as u64),
        })
    }
}

impl Meter {
    /// Begins now. `pid` is the server's.
    pub(crate) fn start(pid: Option<u32>) -> Result<Self, Failure> {
        let server = pid.map(|pid| Ok((pid, server_usage(pid)?))).transpose()?;
        Ok(Self { server, client: Usage::of("self"), since: Instant::now() })
    }

    /// Tells what `operations` have cost since the start. `appended` are the bytes that the server
    /// had to keep.
    pub(crate) fn tell(&self, report: &mut Report, operations: u64, appended: u64) {
        let elapsed = self.since.elapsed();
        let server = self.server.and_then(|(pid, before)| {
            let after = Usage::of(&pid.to_string())?;
            Some((before, after))
        });
        if let Some((before, after)) = server {
            let cpu = after.cpu.saturating_sub(before.cpu).as_secs_f64();
            report.number("server_cpu_us_per_op", per(cpu * 1e6, operations), 2);
            report.number("server_cores", per_second(cpu, elapsed), 2);
            report.number("server_rss_mb", Some(after.resident_bytes as f64 / 1e6), 1);
            let written = after.written_bytes.saturating_sub(before.written_bytes);
            report.number("server_written_mb", Some(written as f64 / 1e6), 1);
            report.number("server_written_per_byte", per(written as f64, appended), 3);
        }
        if let (Some(before), Some(after)) = (self.client, Usage::of("self")) {
            let cpu = after.cpu.saturating_sub(before.cpu).as_secs_f64();
            report.number("client_cores", per_second(cpu, elapsed), 2);
        }
    }
}

/// What the server uses, or why we cannot know.
pub(crate) fn server_usage(pid: u32) -> Result<Usage, Failure> {
    Usage::of(&pid.to_string()).ok_or_else(|| {
        let hint = "give the process id of the server, or leave --pid away".to_owned();
        Failure::new(Exit::Usage, format!("cannot read /proc/{pid}")).hint(hint)
    })
}

/// From `/proc/PID/stat`. The command in parentheses may hold anything, also parentheses.
fn cpu(stat: &str) -> Option<Duration> {
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ').skip(11);
    let user: u32 = fields.next()?.parse().ok()?;
    let system: u32 = fields.next()?.parse().ok()?;
    Some(TICK * user.checked_add(system)?)
}

fn number_behind(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_found_behind_any_command() {
        let stat = "42 (a) b) (c) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20 0 1 0";
        assert_eq!(cpu(stat), Some(Duration::from_secs(2)));
        assert_eq!(cpu("42 (x"), None);
    }

    #[test]
    fn our_own_process_can_be_looked_at() {
        let usage = Usage::of("self").expect("/proc");
        assert!(usage.resident_bytes > 0 && usage.descriptors > 2, "{usage:?}");
        assert_eq!(Usage::of("0"), None);
    }
}
