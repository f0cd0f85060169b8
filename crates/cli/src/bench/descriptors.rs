//! Every connection takes a file descriptor, and a process gets only so many.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::failure::{Exit, Failure};

/// For everything that is no connection: timers, stdio, the runtime.
const OTHERS: u64 = 200;

/// Raises the limit of this process so that it can hold `connections`, if the system allows it.
pub(crate) fn make_room(connections: usize) -> Result<(), Failure> {
    let needed = connections as u64 + OTHERS;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    let allowed = limit.maximum.unwrap_or(u64::MAX);
    if allowed < needed {
        let what = format!(
            "cannot open {connections} connections: this process may have {allowed} open files \
             and needs {needed}"
        );
        let most = allowed.saturating_sub(OTHERS);
        let hint = format!("ask for at most {most}, or raise the hard limit (ulimit -Hn)");
        return Err(Failure::new(Exit::Usage, what).hint(hint));
    }
    let raised = Rlimit { current: Some(needed), maximum: limit.maximum };
    setrlimit(Resource::Nofile, raised).map_err(|error| {
        Failure::because(Exit::Failed, "cannot raise the open files limit", &error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_the_hard_limit_is_refused_with_what_is_possible() {
        make_room(1).expect("one connection is always possible");
        if getrlimit(Resource::Nofile).maximum.is_some() {
            let failure = make_room(usize::MAX / 2).expect_err("no system allows that");
            assert!(format!("{failure:?}").contains("ask for at most"), "{failure:?}");
        }
    }
}
