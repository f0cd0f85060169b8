//! Lifetimes: `Stream-TTL` is a sliding window, `Stream-Expires-At` a fixed instant (base protocol
//! §3, `extensions.md` §10). Expiry is an entry, so that replay agrees with what clients saw.

use crate::command::{Decision, Receipt, Stop, View};
use crate::entry::{Effects, Entry};
use crate::ids::{StreamId, StreamName, Timestamp};
use crate::state::{Now, State};
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
        Some(stream) if !stream.hidden && !stream.expired(now) => {
            let entry = Entry::Renewed { id, at: now.node };
            Ok(Decision::Write(vec![entry.into()], Receipt::Done))
        }
        _ => Ok(Decision::Repeat(Receipt::Done)),
    }
}

impl State {
    pub(crate) fn apply_renewed(&mut self, id: StreamId, at: Timestamp) -> Effects {
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.life.renew(at);
        }
        Effects::default()
    }
}
