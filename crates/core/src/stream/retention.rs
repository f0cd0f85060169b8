//! `PUT {stream}/retention/{offset}`: discard history that a visible snapshot covers
//! (`extensions.md` §5). Only a number moves here; space comes back in the background.

use std::cmp::Ordering;

use crate::command::{Decision, Evidence, Receipt, Stop, Target, View};
use crate::entry::{Effects, Entry};
use crate::ids::{Offset, Record, StreamId, StreamName, Timestamp};
use crate::refusal::Refusal;
use crate::state::{Now, State};

/// The request.
#[derive(Debug, Clone)]
pub struct Retain {
    /// Which stream.
    pub name: StreamName,
    /// The new boundary.
    pub target: Target,
    /// What storage says of it.
    pub evidence: Option<Evidence>,
}

impl Retain {
    /// The checks stand in the order that `extensions.md` §5 lists.
    pub(crate) fn decide(&self, view: &View<'_>, now: Now) -> Result<Decision, Stop> {
        let stream = view.shard(self.name.shard())?.live(&self.name, now)?;
        if matches!(self.target, Target::Record(_)) && !stream.is_json() {
            return Err(Refusal::RecordsNeedJson.into());
        }
        let snapshot = stream.snapshot().ok_or(Refusal::RetentionNeedsSnapshot)?;
        // Where the target lies, seen from the boundary and from the snapshot.
        let (boundary, covered) = match self.target {
            Target::Offset(asked) => (asked.cmp(&stream.retained()), asked <= snapshot.offset),
            Target::Record(asked) => (asked.cmp(&stream.first().0), asked <= snapshot.record.0),
            Target::Beyond => (Ordering::Greater, false),
        };
        match boundary {
            Ordering::Less => {
                return Err(Refusal::RetentionBackwards { retained: stream.retained() }.into());
            }
            Ordering::Equal => {
                return Ok(Decision::Repeat(Receipt::Retained { retained: stream.retained() }));
            }
            Ordering::Greater => {}
        }
        let (offset, record) = match self.target {
            Target::Offset(offset) if covered => (offset, stream.boundary(offset, self.evidence)?),
            Target::Record(record) if covered => stream.place_of(Record(record), self.evidence)?,
            _ => {
                let snapshot = snapshot.offset;
                return Err(Refusal::RetentionBeyondSnapshot { snapshot }.into());
            }
        };
        let entry = Entry::Retained { id: stream.id, offset, record, at: now.node };
        Ok(Decision::Write(vec![entry.into()], Receipt::Retained { retained: offset }))
    }
}

impl State {
    pub(crate) fn apply_retained(
        &mut self,
        id: StreamId,
        offset: Offset,
        record: Record,
        at: Timestamp,
    ) -> Effects {
        let Some(stream) = self.streams.get_mut(id) else {
            return Effects::default();
        };
        stream.renew(at);
        let freed = offset.0.saturating_sub(stream.retained().0);
        stream.retain((offset, record));
        Effects { changed: Some(id), freed, ..Effects::default() }
    }
}
