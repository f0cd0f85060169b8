//! Lifetimes: `Stream-TTL` is a sliding window, `Stream-Expires-At` a fixed instant (base protocol
//! §3, `extensions.md` §10). Expiry is an entry, so that replay agrees with what clients saw.

use crate::command::{Decision, Receipt, Stop, View};
use crate::entry::{Effects, Entry};
use crate::ids::{StreamId, StreamName, Timestamp};
use crate::state::{Life, Now, State};
use crate::stream::delete;

/// Ends the stream if its lifetime is over, and does nothing otherwise.
pub(crate) fn expire(view: &View<'_>, name: &StreamName, now: Now) -> Result<Decision, Stop> {
    match view.shard(name.shard())?.find(name) {
        Some(stream) if !stream.hidden && stream.expired(now) => {
            Ok(Decision::Write(delete::end(view, stream)?, Receipt::Done))
        }
        _ => Ok(Decision::Repeat(Receipt::Done)),
    }
}

/// Records a renewal that reads made, so that a crash does not shorten the window.
pub(crate) fn renew(view: &View<'_>, id: StreamId, now: Now) -> Result<Decision, Stop> {
    match view.shard(id.shard())?.stream(id) {
        Some(stream)
            if stream.life().window_ms().is_some() && !stream.hidden && !stream.expired(now) =>
        {
            let entry = Entry::Renewed { id, at: now.node };
            Ok(Decision::Write(vec![entry.into()], Receipt::Done))
        }
        _ => Ok(Decision::Repeat(Receipt::Done)),
    }
}

impl State {
    pub(crate) fn apply_renewed(&mut self, id: StreamId, at: Timestamp) -> Effects {
        if let Some(stream) = self.streams.get_mut(id) {
            stream.renew(at);
        }
        Effects::default()
    }

    /// Counts a live reader in (`joined`) or out, which stops the TTL window or starts it anew.
    pub fn count_reader(&mut self, id: StreamId, joined: bool, now: Now) {
        let life = self.streams.get_mut(id).and_then(|stream| stream.life.as_deref_mut());
        if let Some(Life::Ttl { grace, .. }) = life {
            let readers = grace.0.readers;
            grace.0.readers = if joined { readers + 1 } else { readers.saturating_sub(1) };
            grace.0.renewed_at = grace.0.renewed_at.max(now.node);
        }
    }

    /// Renews the TTL window because of a read. True when the newest *recorded* renewal is older
    /// than an eighth of the window, which is what recovery makes up for, so that a
    /// [`crate::command::Command::Renew`] is due.
    pub fn renew(&mut self, id: StreamId, now: Now) -> bool {
        let Some(stream) = self.streams.get_mut(id) else {
            return false;
        };
        let Some(Life::Ttl { window, renewed_at, grace, .. }) = stream.life.as_deref_mut() else {
            return false;
        };
        grace.0.renewed_at = grace.0.renewed_at.max(now.node);
        now.node.0.saturating_sub(renewed_at.0) > window.millis() / 8
    }

    /// After replay: a TTL whose last renewals were not recorded may only get longer.
    pub fn grant_recovery_grace(&mut self) {
        for stream in self.streams.iter_mut() {
            if let Some(Life::Ttl { window, renewed_at, grace, .. }) = stream.life.as_deref_mut() {
                let eighth = window.millis() / 8;
                grace.0.renewed_at = Timestamp(renewed_at.0.saturating_add(eighth));
            }
        }
    }
}
