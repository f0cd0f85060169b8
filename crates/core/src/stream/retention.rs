//! `PUT {stream}/retention/{offset}`: discard history that a visible snapshot covers
//! (`extensions.md` §5). Only a number moves here; space comes back in the background.

use crate::command::{Decision, Evidence, Receipt, Stop, Target, View};
use crate::entry::{Effects, Entry};
use crate::ids::{Offset, Record, StreamId, StreamName, Timestamp};
use crate::refusal::Refusal;
use crate::state::{Now, State, Stream};

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
        let (offset, record) = (snapshot.offset, snapshot.record);
        let (backwards, equal, beyond) = match self.target {
            Target::Offset(asked) => {
                (asked < stream.retained, asked == stream.retained, asked > offset)
            }
            Target::Record(asked) => {
                (asked < stream.first.0, asked == stream.first.0, asked > record.0)
            }
            Target::Beyond => (false, false, true),
        };
        if backwards {
            return Err(Refusal::RetentionBackwards { retained: stream.retained }.into());
        }
        if equal {
            return Ok(Decision::Repeat(Receipt::Retained { retained: stream.retained }));
        }
        if beyond {
            return Err(Refusal::RetentionBeyondSnapshot { snapshot: offset }.into());
        }
        let (offset, record) = self.locate(stream, (offset, record))?;
        let entry = Entry::Retained { id: stream.id, offset, record, at: now.node };
        Ok(Decision::Write(vec![entry.into()], Receipt::Retained { retained: offset }))
    }

    /// The asked boundary, which lies above the present one and not above the snapshot's.
    fn locate(
        &self,
        stream: &Stream,
        snapshot: (Offset, Record),
    ) -> Result<(Offset, Record), Stop> {
        match self.target {
            Target::Offset(asked) if asked == snapshot.0 => Ok(snapshot),
            Target::Offset(asked) => Ok((asked, stream.boundary(asked, self.evidence)?)),
            Target::Record(asked) if asked == snapshot.1.0 => Ok(snapshot),
            Target::Record(asked) => stream.offset_of(Record(asked), self.evidence),
            Target::Beyond => Err(Refusal::RetentionBeyondSnapshot { snapshot: snapshot.0 }.into()),
        }
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
        let Some(stream) = self.streams.get_mut(&id) else {
            return Effects::default();
        };
        stream.life.renew(at);
        stream.retained = offset;
        stream.first = record;
        Effects { changed: Some(id), ..Effects::default() }
    }
}
