//! `GET {stream}`: where a read begins (base protocol §5, `extensions.md` §2 and §7). Which bytes
//! follow is storage's business; whether a client may have them is decided here.

use std::sync::Arc;

use bytes::Bytes;

use crate::content::{ContentType, Mode};
use crate::ids::{Lineage, Lsn, Offset, Record, StreamId, StreamName, Timestamp};
use crate::refusal::Refusal;
use crate::state::{Life, Snapshot, Stream};
use crate::wire::query::{OffsetToken, ReadStart};

/// What a reader needs to know of a stream, taken in one look.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts {
    /// The incarnation.
    pub id: StreamId,
    /// Its name.
    pub name: StreamName,
    /// Its content type.
    pub content: ContentType,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was last written.
    pub written_at: Timestamp,
    /// Where the next message will start.
    pub tail: Offset,
    /// The ordinal that the next message will have.
    pub next: Record,
    /// The earliest readable offset.
    pub retained: Offset,
    /// The ordinal of the message there.
    pub first: Record,
    /// Whether nothing more can come.
    pub closed: bool,
    /// When it expires.
    pub life: Life,
    /// The visible snapshot.
    pub snapshot: Option<Arc<Snapshot>>,
    /// The application's attributes.
    pub attributes: Option<Bytes>,
    /// Whose bytes lie below its own.
    pub lineage: Option<Arc<Lineage>>,
    /// The newest entry that these facts come from: nothing of them may leave the server before
    /// the log is durable up to here.
    pub lsn: Lsn,
}

/// Where a read begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Start {
    /// At an offset between the boundary of retention and the tail, which must be a message
    /// boundary.
    At(Offset),
    /// At a record that exists, or the next one.
    Record(Record),
    /// At the tail, whatever it is when the read begins: nothing old is wanted.
    Now,
    /// Beyond the tail; as the client is to be told.
    Beyond(Beyond),
}

/// An offset beyond the tail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Beyond {
    /// A number that a tail could reach.
    Offset(Offset),
    /// A form that none can, to be echoed as sent.
    Never(Box<str>),
}

impl std::fmt::Display for Beyond {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Offset(offset) => offset.fmt(f),
            Self::Never(text) => f.write_str(text),
        }
    }
}

impl Stream {
    /// Everything that a reader needs, in one look.
    pub fn facts(&self) -> Facts {
        Facts {
            id: self.id,
            name: self.name.clone(),
            content: self.content.clone(),
            created_at: self.created_at,
            written_at: self.written_at,
            tail: self.tail,
            next: self.next,
            retained: self.retained(),
            first: self.first(),
            closed: self.closed,
            life: self.life().clone(),
            snapshot: self.snapshot().cloned(),
            attributes: self.attributes().cloned(),
            lineage: self.lineage().cloned(),
            lsn: self.touched(),
        }
    }
}

impl Facts {
    /// Whether its messages are JSON values.
    pub fn is_json(&self) -> bool {
        self.content.mode() == Mode::Json
    }

    /// Where a read that asks for `start` begins; no start is the beginning.
    pub fn start(&self, start: Option<&ReadStart>) -> Result<Start, Refusal> {
        match start {
            None => self.beginning(),
            Some(ReadStart::Offset(token)) => match token {
                OffsetToken::Start => self.beginning(),
                OffsetToken::Now => Ok(Start::Now),
                OffsetToken::At(offset) => self.at(*offset),
                OffsetToken::Beyond(text) => Ok(Start::Beyond(Beyond::Never(text.clone()))),
            },
            Some(_) if !self.is_json() => Err(Refusal::RecordsNeedJson),
            Some(ReadStart::RecordNow | ReadStart::TailRecords(0)) => Ok(Start::Now),
            Some(ReadStart::Record(record)) => self.record(Record(*record)),
            Some(ReadStart::TailRecords(count)) => {
                let record = self.next.0.saturating_sub(*count).max(self.first.0);
                Ok(Start::Record(Record(record)))
            }
        }
    }

    fn beginning(&self) -> Result<Start, Refusal> {
        self.at(Offset::ZERO)
    }

    /// Continues at an offset, as a live reader does after every answer.
    pub fn at(&self, offset: Offset) -> Result<Start, Refusal> {
        if offset < self.retained {
            Err(self.trimmed())
        } else if offset > self.tail {
            Ok(Start::Beyond(Beyond::Offset(offset)))
        } else {
            Ok(Start::At(offset))
        }
    }

    fn record(&self, record: Record) -> Result<Start, Refusal> {
        if record < self.first {
            Err(self.trimmed())
        } else if record > self.next {
            Err(Refusal::RecordOutOfRange { next: self.next })
        } else {
            Ok(Start::Record(record))
        }
    }

    /// The refusal of a position that retention has discarded.
    pub fn trimmed(&self) -> Refusal {
        Refusal::Trimmed {
            retained: self.retained,
            tail: self.tail,
            snapshot: self.snapshot.as_ref().map(|snapshot| snapshot.offset),
        }
    }
}
