//! Who may open how many files and sockets. A log file that cannot be opened ends the process, so
//! clients must not be able to take the last descriptors.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The least number of descriptors that is left to storage.
const RESERVE_MIN: u64 = 24;

/// Descriptors for what clients do; the rest is storage's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shares {
    /// Connections at a time.
    pub(crate) connections: usize,
    /// Requests at a time that read or write a file of their own: the body of a snapshot.
    pub(crate) files: usize,
}

/// Takes as many descriptors as the system allows, and shares them out.
pub(crate) fn share(connections_max: usize) -> Shares {
    let shares = divide(raise(), connections_max);
    if shares.connections < connections_max {
        let connections = shares.connections;
        tracing::warn!(connections, connections_max, "fewer connections: raise ulimit -n");
    }
    shares
}

/// Takes as many descriptors as the system allows; how many these are.
pub(crate) fn raise() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, ..limit };
    let open_max = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_not_allowed) => limit.current,
    };
    open_max.unwrap_or(u64::MAX)
}

/// A quarter for files, an eighth for storage, the rest for connections.
fn divide(open_max: u64, connections_max: usize) -> Shares {
    let files = (open_max / 4).max(1);
    let reserve = (open_max / 8).max(RESERVE_MIN);
    let connections = open_max.saturating_sub(files).saturating_sub(reserve).max(1);
    let count = |n| usize::try_from(n).unwrap_or(usize::MAX);
    Shares { connections: connections_max.min(count(connections)), files: count(files) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn storage_keeps_its_reserve_unless_there_is_next_to_nothing() {
        for open_max in [64, 256, 1024, 20_000, 1 << 20] {
            let Shares { connections, files } = divide(open_max, usize::MAX);
            let left = open_max - connections as u64 - files as u64;
            assert!(left >= RESERVE_MIN && left >= open_max / 8, "{open_max}: {left}");
        }
        assert_eq!(divide(1 << 20, 16_384).connections, 16_384);
        assert_eq!(divide(8, 100), Shares { connections: 1, files: 2 });
    }
}
