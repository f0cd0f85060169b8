//! `DELETE {stream}`: a stream ends at once, or, while forks need its bytes, it becomes invisible
//! and ends with the last of them (base protocol §10). A chain is purged upwards one stream at a
//! time, each in a group of its own.

use crate::command::{Decision, Logged, Receipt, Stop, View};
use crate::entry::{Effects, Entry};
use crate::ids::{StreamId, StreamName};
use crate::state::{Extra, Now, State, Stream};

pub(crate) fn delete(view: &View<'_>, name: &StreamName, now: Now) -> Result<Decision, Stop> {
    let stream = view.shard(name.shard())?.live(name, now)?;
    Ok(Decision::Write(end(view, stream)?, Receipt::Done))
}

/// Purges a soft-deleted stream; nothing to do when it is gone or needed.
pub(crate) fn purge(view: &View<'_>, id: StreamId) -> Result<Decision, Stop> {
    match view.shard(id.shard())?.stream(id) {
        Some(stream) if stream.hidden && !stream.has_forks() => {
            Ok(Decision::Write(end(view, stream)?, Receipt::Done))
        }
        _ => Ok(Decision::Repeat(Receipt::Done)),
    }
}

/// The entries that end `stream`, on every shard that knows it.
pub(crate) fn end(view: &View<'_>, stream: &Stream) -> Result<Vec<Logged>, Stop> {
    view.shard(stream.name.bucket().shard())?;
    let (id, name) = (stream.id, stream.name.clone());
    if stream.has_forks() {
        return Ok(vec![Entry::Hidden { id }.into(), Entry::Held { name }.into()]);
    }
    let held = stream.hidden;
    let mut group = vec![Entry::Removed { id }.into(), Entry::Unlisted { name, held }.into()];
    if let Some(origin) = stream.origin() {
        let source = origin.source_id;
        view.shard(source.shard())?;
        group.push(Entry::ForkReleased { source, fork: id }.into());
    }
    Ok(group)
}

impl State {
    pub(crate) fn apply_hidden(&mut self, id: StreamId) -> Effects {
        let Some(stream) = self.streams.get_mut(id) else {
            return Effects::default();
        };
        stream.hidden = true;
        // What nobody can ask for any more; where it came from and who needs it stays.
        let dropped = stream.extra.take().and_then(|extra| {
            let Extra { snapshot, origin, forks, retained, .. } = *extra;
            *stream.extra_mut() = Extra { origin, forks, retained, ..Extra::default() };
            snapshot
        });
        Effects {
            changed: Some(id),
            blob_dropped: dropped.map(|snapshot| snapshot.blob),
            ..Effects::default()
        }
    }

    pub(crate) fn apply_removed(&mut self, id: StreamId) -> Effects {
        let Some(stream) = self.streams.remove(id) else {
            return Effects::default();
        };
        Effects {
            changed: Some(id),
            removed: Some(id),
            blob_dropped: stream.snapshot().map(|snapshot| snapshot.blob),
            freed: stream.tail.0.saturating_sub(stream.retained().0),
            ..Effects::default()
        }
    }

    pub(crate) fn apply_fork_released(&mut self, source: StreamId, fork: StreamId) -> Effects {
        let Some(stream) = self.streams.get_mut(source) else {
            return Effects::default();
        };
        stream.extra_mut().forks.remove(&fork);
        let purgeable = stream.hidden && !stream.has_forks();
        Effects { purgeable: purgeable.then_some(source), ..Effects::default() }
    }
}
