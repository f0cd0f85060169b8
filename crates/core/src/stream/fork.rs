//! Forks: a stream that begins as a prefix of another (base protocol §10). The inherited bytes are
//! a reference, not a copy; only a message that a sub-offset cuts is copied, and becomes a message
//! of the fork.

use std::sync::Arc;

use bytes::Bytes;

use crate::command::{Evidence, Stop, View};
use crate::content::ContentType;
use crate::ids::{Lineage, Offset, Record, StreamName, Timestamp};
use crate::refusal::Refusal;
use crate::state::{Grace, Life, Now, Origin, Snapshot, Soft, Stream};

/// How many streams a chain of forks may have.
pub const FORK_DEPTH_MAX: usize = 1024;

/// The `Stream-Fork…` headers.
#[derive(Debug, Clone)]
pub struct Fork {
    /// `Stream-Forked-From`.
    pub source: StreamName,
    /// `Stream-Fork-Offset`; absent means the tail.
    pub anchor: Anchor,
    /// `Stream-Fork-Sub-Offset`; 0 and absent are the same.
    pub sub_offset: u64,
    /// What storage says of the anchor and of what follows it.
    pub evidence: Option<ForkEvidence>,
}

/// Where a fork is anchored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    /// Wherever the source's tail is.
    Tail,
    /// At an offset.
    At(Offset),
    /// Beyond what any stream reaches.
    Beyond,
}

/// Facts about the source's bytes around an anchor below its tail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForkEvidence {
    /// The anchor itself.
    pub anchor: Evidence,
    /// Where the sub-offset leads, if there is one.
    pub cut: Option<Cut>,
}

/// What a sub-offset leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cut {
    /// A message boundary.
    Boundary(Offset, Record),
    /// Into the message that follows the anchor: its first bytes.
    Piece(Bytes),
    /// Past the end of what may be cut.
    TooFar,
}

/// What a new stream begins with.
#[derive(Debug, Clone)]
pub(crate) struct Inherited {
    pub(crate) content: ContentType,
    pub(crate) life: Life,
    pub(crate) start: (Offset, Record),
    pub(crate) retained: (Offset, Record),
    pub(crate) piece: Option<Bytes>,
    pub(crate) origin: Option<Origin>,
    pub(crate) snapshot: Option<Box<Snapshot>>,
}

impl Inherited {
    pub(crate) fn nothing(content: ContentType) -> Self {
        Self {
            content,
            life: Life::Endless,
            start: (Offset::ZERO, Record(0)),
            retained: (Offset::ZERO, Record(0)),
            piece: None,
            origin: None,
            snapshot: None,
        }
    }
}

impl Fork {
    /// Whether an existing fork is what this request asks for. An anchor that the request leaves
    /// out matches any, since the source has moved on since.
    pub(crate) fn asks_for(&self, origin: &Origin) -> bool {
        let same_anchor = match self.anchor {
            Anchor::Tail => true,
            Anchor::At(offset) => offset == origin.anchor,
            Anchor::Beyond => false,
        };
        self.source == origin.source && same_anchor && self.sub_offset == origin.sub_offset
    }

    pub(crate) fn inherit(
        &self,
        view: &View<'_>,
        content: Option<&ContentType>,
        now: Now,
    ) -> Result<Inherited, Stop> {
        let source = self.source(view, now)?;
        if let Some(content) = content
            && !content.same_media_type(&source.content)
        {
            return Err(Refusal::ContentTypeMismatch {
                expected: source.content.media_type(),
                got: content.media_type(),
            }
            .into());
        }
        let anchor = self.anchor(source)?;
        let (start, piece) = self.cut(source, anchor)?;
        let origin = Origin {
            source: self.source.clone(),
            source_id: source.id,
            anchor: anchor.0,
            sub_offset: self.sub_offset,
            lineage: lineage(source, start.0)?,
        };
        Ok(Inherited {
            content: content.unwrap_or(&source.content).clone(),
            life: inherited_life(&source.life, now.node),
            snapshot: inherited_snapshot(source, start.0)?,
            retained: (source.retained, source.first),
            start,
            piece,
            origin: Some(origin),
        })
    }

    fn source<'a>(&self, view: &View<'a>, now: Now) -> Result<&'a Stream, Stop> {
        let bucket = self.source.bucket();
        match view.shard(self.source.shard())?.live(&self.source, now) {
            Ok(stream) => Ok(stream),
            Err(Refusal::StreamDeleted) => Err(Refusal::ForkSourceDeleted.into()),
            Err(_) if bucket.is_base() => Err(Refusal::ForkSourceNotFound.into()),
            Err(_) => {
                view.shard(bucket.shard())?.bucket(&bucket)?;
                Err(Refusal::ForkSourceNotFound.into())
            }
        }
    }

    fn anchor(&self, source: &Stream) -> Result<(Offset, Record), Stop> {
        let offset = match self.anchor {
            Anchor::Tail => source.tail,
            Anchor::At(offset) if offset <= source.tail => offset,
            Anchor::At(_) | Anchor::Beyond => {
                return Err(Refusal::ForkBeyondTail { tail: source.tail }.into());
            }
        };
        if offset < source.retained {
            return Err(Refusal::ForkTrimmed { retained: source.retained }.into());
        }
        let evidence = self.evidence.as_ref().map(|evidence| evidence.anchor);
        Ok((offset, source.boundary(offset, evidence)?))
    }

    /// Where the fork's own messages begin, and the piece of a message to begin with.
    fn cut(
        &self,
        source: &Stream,
        anchor: (Offset, Record),
    ) -> Result<((Offset, Record), Option<Bytes>), Stop> {
        if self.sub_offset == 0 {
            return Ok((anchor, None));
        }
        let refuse = |why| Err(Refusal::ForkSubOffset { why }.into());
        if self.anchor == Anchor::Tail {
            return refuse("A sub-offset needs a Stream-Fork-Offset to count from.");
        }
        if anchor.0 == source.tail {
            return refuse("Nothing follows the fork offset, so a sub-offset cannot cut it.");
        }
        let cut = self.evidence.as_ref().filter(|found| found.anchor.stream == source.id);
        match cut.and_then(|found| found.cut.as_ref()).ok_or(Stop::Stale)? {
            Cut::Boundary(offset, record) => Ok(((*offset, *record), None)),
            Cut::Piece(piece) => Ok((anchor, Some(piece.clone()))),
            Cut::TooFar => refuse("The sub-offset passes the end of what follows the fork offset."),
        }
    }
}

impl Stream {
    /// The ordinal of the message that starts at `offset`, which is not beyond the tail. What the
    /// stream itself knows needs no evidence.
    pub(crate) fn boundary(
        &self,
        offset: Offset,
        evidence: Option<Evidence>,
    ) -> Result<Record, Stop> {
        if offset == self.tail {
            return Ok(self.next);
        }
        if offset == self.retained {
            return Ok(self.first);
        }
        match evidence {
            Some(found) if found.stream == self.id && found.offset == offset => {
                found.record.ok_or(Stop::Refuse(Refusal::NotABoundary { offset }))
            }
            _ => Err(Stop::Stale),
        }
    }
}

/// The chain of incarnations below `end`. A fork that ends inside what its source inherits skips
/// the source.
fn lineage(source: &Stream, end: Offset) -> Result<Option<Arc<Lineage>>, Refusal> {
    if end == Offset::ZERO {
        return Ok(None);
    }
    let (mut stream, mut parent) = (source.id, source.lineage());
    while let Some(link) = parent.filter(|link| link.end >= end) {
        (stream, parent) = (link.stream, link.parent.as_ref());
    }
    let depth = 2 + std::iter::successors(parent, |link| link.parent.as_ref()).count();
    if depth > FORK_DEPTH_MAX {
        return Err(Refusal::ForkTooDeep { limit: FORK_DEPTH_MAX });
    }
    Ok(Some(Arc::new(Lineage { stream, end, parent: parent.cloned() })))
}

fn inherited_life(source: &Life, now: Timestamp) -> Life {
    match source {
        Life::Endless => Life::Endless,
        Life::Ttl { window, .. } => Life::Ttl {
            window: *window,
            renewed_at: now,
            inherited: true,
            grace: Soft(Grace::default()),
        },
        Life::Until { at, .. } => Life::Until { at: at.clone(), inherited: true },
    }
}

fn inherited_snapshot(source: &Stream, end: Offset) -> Result<Option<Box<Snapshot>>, Refusal> {
    match source.snapshot() {
        Some(snapshot) if snapshot.offset <= end => Ok(Some(Box::new((**snapshot).clone()))),
        visible if source.retained > Offset::ZERO => {
            Err(Refusal::ForkUncovered { snapshot: visible.map(|snapshot| snapshot.offset) })
        }
        _ => Ok(None),
    }
}
