//! What the protocol says no to, with the facts that the client needs. Each refusal has one stable
//! code; [`Refusal::code`] is the single table from refusal to status, code and title.

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;

use crate::ids::{Offset, Record};
use crate::json::{JsonError, MESSAGES_MAX};
use crate::state::Snapshot;
use crate::wire::invalid::Invalid;

mod detail;

/// A request that the protocol does not allow. Nothing was changed.
#[derive(Debug, Clone, PartialEq)]
pub enum Refusal {
    /// Syntax: the request is wrong whatever the stream looks like.
    Invalid(Invalid),

    /// No such bucket.
    BucketNotFound,
    /// It exists already.
    BucketExists,
    /// It still has `streams`, of which `held` are soft-deleted and only needed by forks.
    BucketNotEmpty {
        /// All streams that count.
        streams: u64,
        /// Those that only forks hold.
        held: u64,
    },

    /// Never created, deleted or expired.
    StreamNotFound,
    /// Deleted, but forks still need its bytes.
    StreamDeleted,
    /// The name is taken by a stream that only forks hold.
    StreamHeld,
    /// It exists with another configuration.
    StreamDiffers {
        /// Which part of the configuration.
        part: &'static str,
    },
    /// It is closed.
    StreamClosed {
        /// Its final tail.
        tail: Offset,
    },

    /// A body needs a content type.
    ContentTypeMissing,
    /// The stream has another media type.
    ContentTypeMismatch {
        /// The stream's.
        expected: String,
        /// The request's.
        got: String,
    },
    /// An append without a message.
    EmptyBody,
    /// An append of `[]`.
    EmptyArray,
    /// The body is no JSON, too deep, or too many messages.
    Json(JsonError),

    /// The producer has a newer epoch.
    ProducerFenced {
        /// The epoch now.
        current: u64,
    },
    /// A new epoch must begin with sequence number 0.
    ProducerEpochStart {
        /// What came instead of 0.
        received: u64,
    },
    /// Batches are missing between the last accepted one and this one.
    ProducerGap {
        /// The next acceptable sequence number.
        expected: u64,
        /// What came.
        received: u64,
    },
    /// The stream knows too many producers, all of them lately active.
    ProducerLimit {
        /// How many a stream may have.
        limit: usize,
    },
    /// `Stream-Seq` is not above the last one.
    StreamSeq {
        /// The last accepted one.
        last: Bytes,
        /// What came.
        got: Bytes,
    },
    /// `Stream-Record-Match` names another record than the next one.
    RecordMismatch {
        /// The ordinal that the next message will have.
        next: Record,
        /// The tail.
        tail: Offset,
    },

    /// Record coordinates exist on `application/json` streams only.
    RecordsNeedJson,
    /// The offset lies inside a message.
    NotABoundary {
        /// As asked.
        offset: Offset,
    },
    /// The position was discarded by retention.
    Trimmed {
        /// The earliest readable offset.
        retained: Offset,
        /// The tail.
        tail: Offset,
        /// The visible snapshot, which covers what was discarded.
        snapshot: Option<Offset>,
    },
    /// A record ordinal beyond the next one.
    RecordOutOfRange {
        /// The ordinal that the next message will have.
        next: Record,
    },
    /// An offset (or record) beyond the tail, where one must exist.
    BeyondTail {
        /// The tail.
        tail: Offset,
    },

    /// No snapshot there.
    SnapshotNotFound,
    /// `Stream-Snapshot-Match` is not the visible digest.
    SnapshotMatchFailed(Option<Arc<Snapshot>>),
    /// A newer snapshot is visible.
    SnapshotStale(Arc<Snapshot>),
    /// The visible snapshot has the same offset and another digest.
    SnapshotConflict(Arc<Snapshot>),
    /// The visible snapshot cannot be deleted.
    SnapshotVisible,

    /// Retention needs a visible snapshot.
    RetentionNeedsSnapshot,
    /// The boundary never moves back.
    RetentionBackwards {
        /// Where it is.
        retained: Offset,
    },
    /// The boundary cannot pass the visible snapshot.
    RetentionBeyondSnapshot {
        /// The snapshot's offset.
        snapshot: Offset,
    },

    /// The source of the fork does not exist.
    ForkSourceNotFound,
    /// The source of the fork is soft-deleted.
    ForkSourceDeleted,
    /// The fork offset lies beyond the source's tail.
    ForkBeyondTail {
        /// The source's tail.
        tail: Offset,
    },
    /// The fork offset was discarded by the source's retention.
    ForkTrimmed {
        /// The source's earliest readable offset.
        retained: Offset,
    },
    /// The source is trimmed and its snapshot lies beyond the fork offset.
    ForkUncovered {
        /// The source's snapshot offset.
        snapshot: Offset,
    },
    /// The sub-offset needs an anchor, or passes the end of what follows it.
    ForkSubOffset {
        /// What is wrong.
        why: &'static str,
    },
    /// Too many forks of forks.
    ForkTooDeep {
        /// How deep a chain may be.
        limit: usize,
    },

    /// No such API key.
    KeyNotFound,
    /// The server keeps no more streams.
    StreamLimit {
        /// How many it may keep.
        limit: u64,
    },
    /// The bucket takes no more streams.
    BucketStreamLimit {
        /// How many it may have.
        limit: u64,
    },
    /// The bucket retains as many bytes as it may.
    BucketBytesLimit {
        /// How many these are.
        limit: u64,
    },

    /// The server keeps no more API keys.
    KeyLimit,
}

/// How a refusal is named to clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code {
    /// The HTTP status.
    pub status: StatusCode,
    /// Stable, `UPPER_SNAKE`; programs may match on it.
    pub code: &'static str,
    /// One line for people, the same for every occurrence.
    pub title: &'static str,
}

impl Refusal {
    /// The table of all refusals.
    pub fn code(&self) -> Code {
        let (status, code, title) = match self {
            Self::Invalid(invalid) => (400, invalid.code, "Invalid request"),
            Self::BucketNotFound => (404, "BUCKET_NOT_FOUND", "No such bucket"),
            Self::BucketExists => (409, "BUCKET_EXISTS", "The bucket exists"),
            Self::BucketNotEmpty { .. } => (409, "BUCKET_NOT_EMPTY", "The bucket has streams"),
            Self::StreamNotFound => (404, "STREAM_NOT_FOUND", "No such stream"),
            Self::StreamDeleted => (410, "STREAM_DELETED", "The stream was deleted"),
            Self::StreamHeld => (409, "STREAM_HELD", "Forks hold a deleted stream"),
            Self::StreamDiffers { .. } => (409, "STREAM_EXISTS", "Another configuration exists"),
            Self::StreamClosed { .. } => (409, "STREAM_CLOSED", "The stream is closed"),
            Self::ContentTypeMissing => (400, "CONTENT_TYPE_MISSING", "No Content-Type"),
            Self::ContentTypeMismatch { .. } => {
                (409, "CONTENT_TYPE_MISMATCH", "Another content type")
            }
            Self::EmptyBody => (400, "EMPTY_BODY", "Nothing to append"),
            Self::EmptyArray => (400, "EMPTY_ARRAY", "Nothing to append"),
            Self::Json(error) => (json_status(*error), error.code(), "Not acceptable as JSON"),
            Self::ProducerFenced { .. } => (403, "PRODUCER_FENCED", "A newer producer epoch"),
            Self::ProducerEpochStart { .. } => {
                (400, "PRODUCER_EPOCH_START", "A new epoch starts at 0")
            }
            Self::ProducerGap { .. } => (409, "PRODUCER_GAP", "Earlier batches are missing"),
            Self::ProducerLimit { .. } => (429, "PRODUCER_LIMIT", "Too many producers"),
            Self::StreamSeq { .. } => (409, "STREAM_SEQ_CONFLICT", "Sequence conflict"),
            Self::RecordMismatch { .. } => (412, "RECORD_MISMATCH", "Another record is next"),
            Self::RecordsNeedJson => (400, "RECORDS_NEED_JSON", "Records need a JSON stream"),
            Self::NotABoundary { .. } => (400, "OFFSET_NOT_A_BOUNDARY", "Inside a message"),
            Self::Trimmed { .. } => (410, "OFFSET_TRIMMED", "Discarded by retention"),
            Self::RecordOutOfRange { .. } => (400, "RECORD_OUT_OF_RANGE", "No such record yet"),
            Self::BeyondTail { .. } => (409, "OFFSET_BEYOND_TAIL", "Beyond the tail"),
            Self::SnapshotNotFound => (404, "SNAPSHOT_NOT_FOUND", "No such snapshot"),
            Self::SnapshotMatchFailed(_) => {
                (409, "SNAPSHOT_MATCH_FAILED", "Another snapshot is visible")
            }
            Self::SnapshotStale(_) => (409, "SNAPSHOT_STALE", "A newer snapshot is visible"),
            Self::SnapshotConflict(_) => (409, "SNAPSHOT_CONFLICT", "Snapshots never change"),
            Self::SnapshotVisible => (409, "SNAPSHOT_VISIBLE", "The visible snapshot is needed"),
            Self::RetentionNeedsSnapshot => (409, "RETENTION_NEEDS_SNAPSHOT", "No snapshot"),
            Self::RetentionBackwards { .. } => {
                (409, "RETENTION_BACKWARDS", "Retention never moves back")
            }
            Self::RetentionBeyondSnapshot { .. } => {
                (409, "RETENTION_BEYOND_SNAPSHOT", "Beyond the visible snapshot")
            }
            Self::ForkSourceNotFound => (404, "FORK_SOURCE_NOT_FOUND", "No such fork source"),
            Self::ForkSourceDeleted => (409, "FORK_SOURCE_DELETED", "Fork source was deleted"),
            Self::ForkBeyondTail { .. } => (400, "FORK_OFFSET_BEYOND_TAIL", "Beyond the tail"),
            Self::ForkTrimmed { .. } => (410, "FORK_OFFSET_TRIMMED", "Discarded by retention"),
            Self::ForkUncovered { .. } => (409, "FORK_UNCOVERED", "No snapshot for the fork"),
            Self::ForkSubOffset { .. } => (400, "FORK_SUB_OFFSET", "Nothing to cut there"),
            Self::ForkTooDeep { .. } => (409, "FORK_TOO_DEEP", "Too many forks of forks"),
            Self::KeyNotFound => (404, "KEY_NOT_FOUND", "No such key"),
            Self::KeyLimit => (409, "KEY_LIMIT", "Too many keys"),
            Self::StreamLimit { .. } => (409, "STREAM_LIMIT", "Too many streams"),
            Self::BucketStreamLimit { .. } => {
                (409, "BUCKET_STREAM_LIMIT", "Too many streams in the bucket")
            }
            Self::BucketBytesLimit { .. } => (507, "BUCKET_BYTES_LIMIT", "The bucket is full"),
        };
        let status = StatusCode::from_u16(status).expect("the table holds real statuses");
        Code { status, code, title }
    }

    /// The largest allowed number, on every 413 and where a quota is used up.
    pub fn limit(&self) -> Option<u64> {
        match self {
            Self::Json(JsonError::TooMany { .. }) => Some(MESSAGES_MAX as u64),
            Self::Json(JsonError::TooLong { .. }) => Some(u64::from(u32::MAX)),
            Self::StreamLimit { limit }
            | Self::BucketStreamLimit { limit }
            | Self::BucketBytesLimit { limit } => Some(*limit),
            _ => None,
        }
    }
}

fn json_status(error: JsonError) -> u16 {
    match error {
        JsonError::Syntax { .. } | JsonError::Utf8 { .. } | JsonError::TooDeep { .. } => 400,
        JsonError::TooMany { .. } | JsonError::TooLong { .. } => 413,
    }
}

impl From<Invalid> for Refusal {
    fn from(invalid: Invalid) -> Self {
        Self::Invalid(invalid)
    }
}
