//! One shard as the engine holds it: its pure state, and what surrounds it while it lives.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use headwater_core::ids::{Lsn, ShardNo, StreamId, Timestamp};
use headwater_core::state::{Now, State};
use tokio::sync::Notify;

use super::tide::BellNo;

/// While live readers hold a stream's window, its renewal is recorded so many times a window: twice
/// as often as what recovery makes up for, so that a record may take its time.
const HELD_RENEWALS: u64 = 16;

pub(super) struct Shard {
    pub(super) state: State,
    /// The newest entry that was applied.
    pub(super) applied: Lsn,
    /// The newest entry that the last checkpoint holds.
    pub(super) checkpointed: Lsn,
    /// Live readers, only while there are any.
    pub(super) waiters: HashMap<StreamId, Waiter>,
    /// When to look whether a stream has expired, in node time.
    pub(super) due: BTreeSet<(Timestamp, StreamId)>,
}

/// The live readers of one stream, by the bell at which they wait.
#[derive(Default)]
pub(super) struct Waiter {
    pub(super) groups: Vec<Group>,
}

/// Those at one bell.
pub(super) struct Group {
    pub(super) bell: BellNo,
    pub(super) readers: usize,
    pub(super) notify: Arc<Notify>,
}

impl Waiter {
    /// One reader more at `bell`; what wakes it.
    pub(super) fn join(&mut self, bell: BellNo) -> Arc<Notify> {
        let at = self.groups.iter().position(|group| group.bell == bell).unwrap_or_else(|| {
            self.groups.push(Group { bell, readers: 0, notify: Arc::default() });
            self.groups.len() - 1
        });
        self.groups[at].readers += 1;
        Arc::clone(&self.groups[at].notify)
    }

    /// All of them.
    pub(super) fn readers(&self) -> usize {
        self.groups.iter().map(|group| group.readers).sum()
    }

    /// One reader fewer; whether none is left at any bell.
    pub(super) fn leave(&mut self, bell: BellNo) -> bool {
        if let Some(at) = self.groups.iter().position(|group| group.bell == bell) {
            self.groups[at].readers -= 1;
            if self.groups[at].readers == 0 {
                self.groups.swap_remove(at);
            }
        }
        self.groups.is_empty()
    }
}

impl Shard {
    pub(super) fn new(no: ShardNo) -> Self {
        Self {
            state: State::new(no),
            applied: Lsn::ZERO,
            checkpointed: Lsn::ZERO,
            waiters: HashMap::new(),
            due: BTreeSet::new(),
        }
    }

    /// Notes when `id` should be looked at: at its deadline, or, while live readers keep its
    /// window from running, after a part of it. Returns that instant.
    pub(super) fn arm(&mut self, id: StreamId, now: Now) -> Option<Timestamp> {
        let stream = self.state.stream(id)?;
        let wait_ms = match stream.deadline() {
            // Nothing when it is over already: it must not be counted for another moment.
            Some(deadline) => deadline.in_ms(now),
            None => (stream.life().window_ms()? / HELD_RENEWALS).max(1),
        };
        let at = Timestamp(now.node.0.saturating_add(wait_ms));
        self.due.insert((at, id));
        Some(at)
    }
}
