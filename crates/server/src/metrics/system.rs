//! What the operating system tells of this process and of files: the one place that asks it past
//! the disk's seam, since nothing here is anybody's data.

use std::fs;
use std::path::Path;

/// The process, as `/proc` shows it; nothing of it where there is no such thing.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub(crate) struct Process {
    pub(crate) resident_bytes: Option<u64>,
    pub(crate) virtual_bytes: Option<u64>,
    pub(crate) cpu_seconds: Option<f64>,
    /// Since the Unix epoch.
    pub(crate) start_seconds: Option<f64>,
    pub(crate) threads: Option<u64>,
    pub(crate) open_fds: Option<u64>,
    pub(crate) max_fds: Option<u64>,
}

/// Looks at this process.
pub(crate) fn process() -> Process {
    let ticks = rustix::param::clock_ticks_per_second();
    let page = rustix::param::page_size() as u64;
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let boot = fs::read_to_string("/proc/stat").unwrap_or_default();
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    Process {
        // The directory that is read for this is open itself.
        open_fds: fs::read_dir("/proc/self/fd").ok().map(|fds| (fds.count() as u64).max(1) - 1),
        max_fds: limit.current,
        ..parse(&stat, &boot, ticks, page)
    }
}

/// Reads `/proc/self/stat` (proc(5)) and the boot time of `/proc/stat`.
fn parse(stat: &str, boot: &str, ticks: u64, page: u64) -> Process {
    // The name of the program comes second, in parentheses, and may have anything in it.
    let Some((_, rest)) = stat.rsplit_once(')') else { return Process::default() };
    let fields: Vec<u64> =
        rest.split_whitespace().skip(1).map(|field| field.parse().unwrap_or(0)).collect();
    // Numbered from the third field of the file, the state, which is left out: field n is n - 4.
    let field = |no: usize| fields.get(no - 4).copied();
    let seconds = |ticked: u64| {
        f64::from(u32::try_from(ticked / ticks).unwrap_or(u32::MAX))
            + f64::from(u32::try_from(ticked % ticks).unwrap_or(0))
                / f64::from(u32::try_from(ticks).unwrap_or(u32::MAX))
    };
    let booted = boot.lines().find_map(|line| line.strip_prefix("btime ")?.trim().parse().ok());
    Process {
        cpu_seconds: field(14).zip(field(15)).map(|(user, kernel)| seconds(user + kernel)),
        threads: field(20),
        start_seconds: field(22).zip(booted).map(|(at, booted): (u64, f64)| booted + seconds(at)),
        virtual_bytes: field(23),
        resident_bytes: field(24).map(|pages| pages * page),
        ..Process::default()
    }
}

/// How many files there are in a directory, and the bytes that they have on the disk.
pub(crate) fn files(dir: &Path) -> (u64, u64) {
    let Ok(entries) = fs::read_dir(dir) else { return (0, 0) };
    let lens = entries.flatten().filter_map(|entry| entry.metadata().ok());
    lens.filter(fs::Metadata::is_file)
        .fold((0, 0), |(files, bytes), found| (files + 1, bytes + found.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_account_of_a_process_is_read_whatever_its_name() {
        let stat = "7 (a) b) c) S 1 7 7 0 -1 4 1 0 0 0 250 50 0 0 20 0 9 0 1000 4096 3 99";
        let process = parse(stat, "cpu 1\nbtime 5000\n", 100, 4096);
        let expected = Process {
            cpu_seconds: Some(3.0),
            threads: Some(9),
            start_seconds: Some(5010.0),
            virtual_bytes: Some(4096),
            resident_bytes: Some(3 * 4096),
            ..Process::default()
        };
        assert_eq!(process, expected);
        assert_eq!(parse("", "", 100, 4096), Process::default());
    }

    #[test]
    fn this_process_has_memory_and_descriptors() {
        let process = process();
        assert!(process.resident_bytes > Some(1 << 20), "{process:?}");
        assert!(process.open_fds >= Some(3), "{process:?}");
        assert!(process.start_seconds > Some(1e9), "{process:?}");
    }
}
