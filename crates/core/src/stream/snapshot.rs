//! `PUT {stream}/snapshot/{offset}`: a client publishes the folded image of a prefix
//! (`extensions.md` §4). The body is stored before this decides, and becomes visible by it.

use std::sync::Arc;

use crate::command::{Decision, Evidence, PublishReceipt, Receipt, Stop, StoredBlob, Target, View};
use crate::content::ContentType;
use crate::entry::{Effects, Entry};
use crate::ids::{Offset, Record, StreamId, StreamName, Timestamp};
use crate::refusal::Refusal;
use crate::state::{Now, Snapshot, State, Stream};
use crate::stream::read::Facts;
use crate::wire::query::OffsetToken;

/// The request.
#[derive(Debug, Clone)]
pub struct Publish {
    /// Which stream.
    pub name: StreamName,
    /// The consistency boundary.
    pub target: Target,
    /// What storage says of it.
    pub evidence: Option<Evidence>,
    /// `Stream-Snapshot-Match`.
    pub expected: Option<String>,
    /// The body's content type.
    pub content: ContentType,
    /// The body, once it is stored; `None` asks only whether the head would be refused.
    pub blob: Option<StoredBlob>,
    /// Whether publishing also discards history (the `/ds` surface).
    pub retain: bool,
}

impl Publish {
    /// The checks stand in the order that `extensions.md` §4 lists.
    pub(crate) fn decide(&self, view: &View<'_>, now: Now) -> Result<Decision, Stop> {
        let stream = view.shard(self.name.shard())?.live(&self.name, now)?;
        let (offset, record) = stream.locate_snapshot(self.target, self.evidence)?;
        let visible = stream.snapshot();
        let here = visible.filter(|visible| visible.offset == offset);
        if let (Some(here), Some(blob)) = (here, &self.blob)
            && here.digest == blob.digest
        {
            return Ok(self.repeat(stream, here, now));
        }
        // Before the body is known, a visible snapshot at this offset may still be the same one.
        if here.is_none() || self.blob.is_some() {
            self.check_match(visible)?;
        }
        if let Some(visible) = visible.filter(|visible| offset < visible.offset) {
            return Err(Refusal::SnapshotStale(Arc::clone(visible)).into());
        }
        let Some(blob) = &self.blob else {
            return Ok(Decision::Repeat(Receipt::Done));
        };
        if let Some(here) = here {
            return Err(Refusal::SnapshotConflict(Arc::clone(here)).into());
        }
        let snapshot = Snapshot {
            offset,
            record,
            digest: blob.digest,
            content: self.content.clone(),
            blob: blob.blob,
            len: blob.len,
        };
        let receipt = PublishReceipt {
            snapshot: Arc::new(snapshot.clone()),
            tail: stream.tail,
            retained: if self.retain { offset } else { stream.retained() },
        };
        let (id, retain, at) = (stream.id, self.retain, now.node);
        let entry = Entry::Published { id, snapshot: Box::new(snapshot), retain, at };
        Ok(Decision::Write(vec![entry.into()], Receipt::Published(receipt)))
    }

    fn check_match(&self, visible: Option<&Arc<Snapshot>>) -> Result<(), Refusal> {
        let Some(expected) = &self.expected else {
            return Ok(());
        };
        if visible.is_some_and(|visible| visible.digest.to_string() == *expected) {
            return Ok(());
        }
        Err(Refusal::SnapshotMatchFailed(visible.cloned()))
    }

    /// The same snapshot again: nothing but, on `/ds`, the boundary may move.
    fn repeat(&self, stream: &Stream, visible: &Arc<Snapshot>, now: Now) -> Decision {
        let advance = self.retain && visible.offset > stream.retained();
        let receipt = Receipt::Published(PublishReceipt {
            snapshot: Arc::clone(visible),
            tail: stream.tail,
            retained: if advance { visible.offset } else { stream.retained() },
        });
        if !advance {
            return Decision::Repeat(receipt);
        }
        let (id, offset, record, at) = (stream.id, visible.offset, visible.record, now.node);
        Decision::Write(vec![Entry::Retained { id, offset, record, at }.into()], receipt)
    }
}

impl Facts {
    /// The snapshot that `GET {stream}/snapshot` leads to.
    pub fn visible_snapshot(&self) -> Result<&Arc<Snapshot>, Refusal> {
        self.snapshot.as_ref().ok_or(Refusal::SnapshotNotFound)
    }

    /// The snapshot at `GET {stream}/snapshot/{offset}`: only the visible one exists.
    pub fn snapshot_at(&self, token: &OffsetToken) -> Result<&Arc<Snapshot>, Refusal> {
        let visible = self.visible_snapshot()?;
        if *token == OffsetToken::At(visible.offset) {
            Ok(visible)
        } else {
            Err(Refusal::SnapshotNotFound)
        }
    }

    /// Why `DELETE {stream}/snapshot/{offset}` is refused, as it always is: the visible snapshot
    /// is needed, and there is no other.
    pub fn snapshot_delete(&self, token: &OffsetToken) -> Refusal {
        match self.snapshot_at(token) {
            Ok(_visible) => Refusal::SnapshotVisible,
            Err(refusal) => refusal,
        }
    }
}

impl Stream {
    /// The boundary that a snapshot is to be published at.
    fn locate_snapshot(
        &self,
        target: Target,
        evidence: Option<Evidence>,
    ) -> Result<(Offset, Record), Stop> {
        match target {
            Target::Offset(offset) if offset < self.retained() => {
                Err(self.facts().trimmed().into())
            }
            Target::Offset(offset) if offset <= self.tail => {
                Ok((offset, self.boundary(offset, evidence)?))
            }
            Target::Offset(_) | Target::Beyond => {
                Err(Refusal::BeyondTail { tail: self.tail }.into())
            }
            Target::Record(_) if !self.is_json() => Err(Refusal::RecordsNeedJson.into()),
            Target::Record(record) if record < self.first().0 => Err(self.facts().trimmed().into()),
            Target::Record(record) if record > self.next.0 => {
                Err(Refusal::BeyondTail { tail: self.tail }.into())
            }
            Target::Record(record) => self.place_of(Record(record), evidence),
        }
    }
}

impl State {
    pub(crate) fn apply_published(
        &mut self,
        id: StreamId,
        snapshot: &Snapshot,
        retain: bool,
        at: Timestamp,
    ) -> Effects {
        let Some(stream) = self.streams.get_mut(id) else {
            return Effects::default();
        };
        stream.renew(at);
        let superseded = stream.extra_mut().snapshot.replace(Arc::new(snapshot.clone()));
        let mut freed = 0;
        if retain {
            freed = snapshot.offset.0.saturating_sub(stream.retained().0);
            stream.retain((snapshot.offset, snapshot.record));
        }
        Effects {
            changed: Some(id),
            blob_used: Some(snapshot.blob),
            blob_dropped: superseded.map(|old| old.blob),
            freed,
            ..Effects::default()
        }
    }
}
