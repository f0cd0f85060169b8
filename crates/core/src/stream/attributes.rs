//! `PUT {stream}/attrs`: one small JSON object of the application's (`extensions.md` §9). It is not
//! part of the timeline: offsets, `ETag` and snapshots do not know it.

use bytes::Bytes;

use crate::command::{Decision, Receipt, Stop, View};
use crate::entry::{Effects, Entry};
use crate::ids::{StreamId, StreamName, Timestamp};
use crate::state::{Now, State};

/// The request.
#[derive(Debug, Clone)]
pub struct SetAttributes {
    /// Which stream.
    pub name: StreamName,
    /// A JSON object as sent, checked; `None` for an empty one.
    pub json: Option<Bytes>,
}

impl SetAttributes {
    pub(crate) fn decide(&self, view: &View<'_>, now: Now) -> Result<Decision, Stop> {
        let stream = view.shard(self.name.shard())?.live(&self.name, now)?;
        let entry = Entry::AttributesSet { id: stream.id, json: self.json.clone(), at: now.node };
        Ok(Decision::Write(vec![entry.into()], Receipt::Done))
    }
}

/// Whether two encoded objects are the same object.
pub(crate) fn equal(one: &[u8], other: &[u8]) -> bool {
    let read = serde_json::from_slice::<serde_json::Value>;
    one == other || matches!((read(one), read(other)), (Ok(one), Ok(other)) if one == other)
}

impl State {
    pub(crate) fn apply_attributes(
        &mut self,
        id: StreamId,
        json: Option<&Bytes>,
        at: Timestamp,
    ) -> Effects {
        if let Some(stream) = self.streams.get_mut(id) {
            stream.renew(at);
            if json.is_some() || stream.extra.is_some() {
                stream.extra_mut().attributes = json.cloned();
            }
        }
        Effects::default()
    }
}
