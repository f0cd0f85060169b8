//! Forks: a stream that begins as a prefix of another (base protocol §10). The inherited bytes are
//! a reference, not a copy; only a message that a sub-offset cuts is copied, and becomes a message
//! of the fork.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use crate::command::{Evidence, Stop, View};
use crate::content::ContentType;
use crate::entry::Effects;
use crate::ids::{Lineage, Offset, Record, StreamId, StreamName};
use crate::refusal::Refusal;
use crate::state::{Life, Now, Origin, Snapshot, State, Stream};

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
            life: source.life().inherited(now.node),
            snapshot: inherited_snapshot(source, start.0)?,
            retained: (source.retained(), source.first()),
            start,
            piece,
            origin: Some(origin),
        })
    }

    fn source<'a>(&self, view: &View<'a>, now: Now) -> Result<&'a Stream, Stop> {
        match view.shard(self.source.shard())?.live(&self.source, now) {
            Ok(stream) => Ok(stream),
            Err(Refusal::StreamDeleted) => Err(Refusal::ForkSourceDeleted.into()),
            Err(_) => {
                let bucket = self.source.bucket();
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
        if offset < source.retained() {
            return Err(Refusal::ForkTrimmed { retained: source.retained() }.into());
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
        let evidence = self
            .evidence
            .as_ref()
            .filter(|found| found.anchor.stream == source.id && found.anchor.offset == anchor.0);
        match evidence.and_then(|found| found.cut.as_ref()).ok_or(Stop::Stale)? {
            Cut::Boundary(offset, record) => Ok(((*offset, *record), None)),
            Cut::Piece(piece) => Ok((anchor, Some(piece.clone()))),
            Cut::TooFar => refuse("The sub-offset passes the end of what follows the fork offset."),
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

/// History that was discarded is covered by the source's snapshot, so that the fork must have it.
fn inherited_snapshot(source: &Stream, end: Offset) -> Result<Option<Box<Snapshot>>, Refusal> {
    match source.snapshot() {
        Some(snapshot) if snapshot.offset <= end => Ok(Some(Box::new((**snapshot).clone()))),
        Some(snapshot) if source.retained() > Offset::ZERO => {
            Err(Refusal::ForkUncovered { snapshot: snapshot.offset })
        }
        _ => Ok(None),
    }
}

impl State {
    pub(crate) fn apply_fork_added(
        &mut self,
        source: StreamId,
        fork: StreamId,
        inherited: &Range<Offset>,
    ) -> Effects {
        if let Some(stream) = self.streams.get_mut(source) {
            stream.extra_mut().forks.insert(fork, inherited.clone());
        }
        Effects::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{ShardNo, Timestamp};

    /// A stream that ends at `tail` and inherits through `lineage`.
    fn stream(counter: u64, tail: u64, lineage: Option<Arc<Lineage>>) -> Stream {
        let name = StreamName::on_base(["s"]).unwrap();
        let id = StreamId::new(ShardNo(0), counter);
        let origin = Origin {
            source: name.clone(),
            source_id: id,
            anchor: Offset::ZERO,
            sub_offset: 0,
            lineage,
        };
        let mut stream = Stream::new(id, name, ContentType::default(), Timestamp(0));
        (stream.tail, stream.next) = (Offset(tail), Record(tail));
        stream.extra_mut().origin = Some(origin);
        stream
    }

    /// Which incarnations a lineage names, and up to where.
    fn links(lineage: Option<&Arc<Lineage>>) -> Vec<(u64, u64)> {
        let links = std::iter::successors(lineage, |link| link.parent.as_ref());
        links.map(|link| (link.stream.counter(), link.end.0)).collect()
    }

    #[test]
    fn a_lineage_names_only_streams_that_hold_bytes_of_the_fork() {
        let root = stream(1, 10, None);
        let child = stream(2, 20, lineage(&root, Offset(10)).unwrap());
        let grandchild = stream(3, 30, lineage(&child, Offset(20)).unwrap());
        assert_eq!(links(grandchild.lineage()), [(2, 20), (1, 10)]);
        let fork = |end| links(lineage(&grandchild, Offset(end)).unwrap().as_ref());
        assert_eq!(fork(30), [(3, 30), (2, 20), (1, 10)]);
        assert_eq!(fork(21), [(3, 21), (2, 20), (1, 10)]);
        assert_eq!(fork(20), [(2, 20), (1, 10)]);
        assert_eq!(fork(11), [(2, 11), (1, 10)]);
        assert_eq!(fork(10), [(1, 10)]);
        assert_eq!(fork(1), [(1, 1)]);
        assert_eq!(fork(0), []);
    }

    #[test]
    fn the_depth_of_a_chain_is_limited_and_counts_what_is_named_only() {
        let mut source = stream(0, 1, None);
        for number in 1..FORK_DEPTH_MAX as u64 {
            let tail = source.tail;
            source = stream(number, tail.0 + 1, lineage(&source, tail).unwrap());
        }
        let links = links(source.lineage());
        assert_eq!(links.len(), FORK_DEPTH_MAX - 1);
        let too_deep = Err(Refusal::ForkTooDeep { limit: FORK_DEPTH_MAX });
        assert_eq!(lineage(&source, source.tail), too_deep);
        // One that ends inside what is inherited leans on a shorter chain.
        assert!(lineage(&source, Offset(source.tail.0 - 1)).is_ok());
    }

    #[test]
    fn a_stream_keeps_what_its_readers_and_forks_need_and_nothing_else() {
        let mut source = stream(1, 100, None);
        source.retain((Offset(50), Record(50)));
        source.extra_mut().forks.insert(StreamId::new(ShardNo(0), 2), Offset(20)..Offset(40));
        let needs = |source: &Stream, start, end| source.needs(Offset(start), Offset(end));
        assert!(needs(&source, 50, 60) && needs(&source, 45, 51));
        assert!(!needs(&source, 40, 50), "between the fork's end and the boundary");
        assert!(needs(&source, 39, 40) && needs(&source, 10, 21));
        assert!(!needs(&source, 10, 20), "discarded before the fork was made");
        source.hidden = true;
        assert!(!needs(&source, 50, 60), "deleted, and no fork goes so far");
        assert!(needs(&source, 30, 60));
    }
}
