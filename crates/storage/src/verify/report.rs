//! What a scan tells: findings, facts, and what was intact.

use std::borrow::Cow;

use headwater_core::ids::{BlobId, Lsn, Offset, Record, ShardNo, StreamId};

use crate::entry::DataHead;
use crate::error::Place;

/// A finding names no more streams than this; it counts the others.
const STREAMS_MAX: usize = 16;

/// What a finding amounts to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// A file that nothing needs: a start removes it, or nothing knows it.
    Leftover,
    /// The end of a log that was cut short, of which nothing was ever acknowledged, or a file that
    /// was being made. A start repairs it.
    Torn,
    /// Written by a version that this program does not know; not looked into.
    Version,
    /// Stored bytes are not what was written.
    Damage,
}

/// What kind of thing a finding is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The manifest.
    Manifest,
    /// A checkpoint file, or a block in one.
    Checkpoint,
    /// The header of a file.
    Header,
    /// A frame of the log.
    Frame,
    /// The data of one entry of the log.
    Entry,
    /// The footer of a log file.
    Footer,
    /// What a segment says about its runs.
    Table,
    /// Bytes of a run in a segment, or the head that describes them.
    Block,
    /// A segment as a whole.
    Segment,
    /// A snapshot body.
    Blob,
    /// A file as a whole.
    File,
}

impl Part {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Manifest => "manifest",
            Self::Checkpoint => "checkpoint",
            Self::Header => "header",
            Self::Frame => "frame",
            Self::Entry => "entry",
            Self::Footer => "footer",
            Self::Table => "table",
            Self::Block => "block",
            Self::Segment => "segment",
            Self::Blob => "blob",
            Self::File => "file",
        }
    }
}

impl Verdict {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Leftover => "leftover",
            Self::Torn => "torn",
            Self::Version => "version",
            Self::Damage => "damage",
        }
    }
}

/// Something that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub verdict: Verdict,
    /// What it is.
    pub part: Part,
    /// Where it starts.
    pub at: Place,
    /// How many bytes are concerned; 0 when that is not known.
    pub len: u64,
    /// In words.
    pub detail: String,
    /// Streams that have something there, the first few.
    pub streams: Vec<StreamId>,
    /// How many more there are.
    pub more_streams: u64,
}

impl Finding {
    /// A finding at `offset` of `path` that concerns no stream that is known.
    pub fn new(
        verdict: Verdict,
        part: Part,
        path: &str,
        offset: u64,
        detail: impl Into<String>,
    ) -> Self {
        let at = Place { path: path.to_owned(), offset: Some(offset) };
        let (detail, streams) = (detail.into(), Vec::new());
        Self { verdict, part, at, len: 0, detail, streams, more_streams: 0 }
    }

    /// Says how long it is.
    #[must_use]
    pub fn spanning(mut self, len: u64) -> Self {
        self.len = len;
        self
    }

    /// Says whose bytes are there.
    #[must_use]
    pub fn concerning(mut self, streams: impl IntoIterator<Item = StreamId>) -> Self {
        for stream in streams {
            if self.streams.contains(&stream) {
            } else if self.streams.len() < STREAMS_MAX {
                self.streams.push(stream);
            } else {
                self.more_streams += 1;
            }
        }
        self
    }
}

/// A value of a fact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// A count, position or number.
    Number(u64),
    /// An id of 128 bits.
    Id(u128),
    /// A stream.
    Stream(StreamId),
    /// Words.
    Text(Cow<'static, str>),
    /// A yes or no.
    Flag(bool),
}

/// One thing that lies in a file, for those who want to see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fact {
    /// What it is.
    pub what: &'static str,
    /// Where it is.
    pub at: u64,
    /// What it says, by name.
    pub fields: Vec<(&'static str, Value)>,
}

/// An entry of the log whose frame is intact.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// Its group.
    pub lsn: Lsn,
    /// The shard that it changes.
    pub shard: ShardNo,
    /// The change, in the engine's own encoding.
    pub meta: &'a [u8],
    /// Its data.
    pub data: Option<&'a DataHead>,
    /// Whether the manifest's image of the shard holds it already.
    pub is_saved: bool,
}

/// Where intact bytes of a stream belong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Whose they are.
    pub stream: StreamId,
    /// The offset of the first byte.
    pub offset: Offset,
    /// The ordinal of the first message of the entry or block that they are from.
    pub record: Record,
}

/// Receives what a scan finds. An error text means that the bytes cannot be what was written, and
/// becomes a finding.
pub trait Watcher {
    /// Something is not as it should be.
    fn finding(&mut self, finding: Finding);

    /// An intact image of a shard; `named` if the manifest names it.
    fn image(&mut self, shard: ShardNo, named: bool, image: &[u8]) -> Result<(), String>;

    /// An entry, in the order of the log.
    fn entry(&mut self, seen: Seen<'_>) -> Result<(), String>;

    /// Intact bytes of a stream. The same bytes may come more than once, and in any order.
    fn bytes(&mut self, _piece: Piece, _bytes: &[u8]) {}

    /// Intact bytes of a snapshot body, in order.
    fn blob(&mut self, _id: BlobId, _bytes: &[u8]) {}

    /// A snapshot body has ended: its length, or `None` when it is unfinished or damaged.
    fn blob_end(&mut self, _id: BlobId, _len: Option<u64>) {}

    /// Something that lies in a file; `fact` is called by those who want to know.
    fn fact(&mut self, _fact: &dyn Fn() -> Fact) {}
}
