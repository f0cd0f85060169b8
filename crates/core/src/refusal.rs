//! What the protocol says no to, with the facts that the client needs. Each refusal has one stable
//! code; [`Refusal::code`] is the single table from refusal to status, code and title.

use http::StatusCode;

use crate::ids::{Offset, Record};
use crate::json::{JsonError, MESSAGES_MAX};
use crate::state::Snapshot;
use crate::wire::invalid::Invalid;
use std::fmt;
use std::sync::Arc;

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
    StreamSeq,
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
        snapshot: Option<Offset>,
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

const fn code(status: StatusCode, code: &'static str, title: &'static str) -> Code {
    Code { status, code, title }
}

impl Refusal {
    /// The table of all refusals.
    pub fn code(&self) -> Code {
        use StatusCode as S;
        match self {
            Self::Invalid(invalid) => code(S::BAD_REQUEST, invalid.code, "Invalid request"),
            Self::BucketNotFound => code(S::NOT_FOUND, "BUCKET_NOT_FOUND", "No such bucket"),
            Self::BucketExists => code(S::CONFLICT, "BUCKET_EXISTS", "The bucket exists"),
            Self::BucketNotEmpty { .. } => {
                code(S::CONFLICT, "BUCKET_NOT_EMPTY", "The bucket has streams")
            }
            Self::StreamNotFound => code(S::NOT_FOUND, "STREAM_NOT_FOUND", "No such stream"),
            Self::StreamDeleted => code(S::GONE, "STREAM_DELETED", "The stream was deleted"),
            Self::StreamHeld => code(S::CONFLICT, "STREAM_HELD", "Forks hold a deleted stream"),
            Self::StreamDiffers { .. } => {
                code(S::CONFLICT, "STREAM_EXISTS", "The stream exists with another configuration")
            }
            Self::StreamClosed { .. } => code(S::CONFLICT, "STREAM_CLOSED", "The stream is closed"),
            Self::ContentTypeMissing => {
                code(S::BAD_REQUEST, "CONTENT_TYPE_MISSING", "A body needs a Content-Type")
            }
            Self::ContentTypeMismatch { .. } => {
                code(S::CONFLICT, "CONTENT_TYPE_MISMATCH", "Another content type")
            }
            Self::EmptyBody => code(S::BAD_REQUEST, "EMPTY_BODY", "Nothing to append"),
            Self::EmptyArray => code(S::BAD_REQUEST, "EMPTY_ARRAY", "Nothing to append"),
            Self::Json(error) => {
                let (status, title) = match error {
                    JsonError::Syntax { .. } | JsonError::Utf8 { .. } => {
                        (S::BAD_REQUEST, "The body is not JSON")
                    }
                    JsonError::TooDeep { .. } => (S::BAD_REQUEST, "The JSON is nested too deeply"),
                    JsonError::TooMany { .. } => (S::PAYLOAD_TOO_LARGE, "Too many messages"),
                    JsonError::TooLong { .. } => (S::PAYLOAD_TOO_LARGE, "A message is too long"),
                };
                code(status, error.code(), title)
            }
            Self::ProducerFenced { .. } => {
                code(S::FORBIDDEN, "PRODUCER_FENCED", "A newer producer epoch exists")
            }
            Self::ProducerEpochStart { .. } => {
                code(S::BAD_REQUEST, "PRODUCER_EPOCH_START", "A new epoch starts at 0")
            }
            Self::ProducerGap { .. } => {
                code(S::CONFLICT, "PRODUCER_GAP", "Earlier batches are missing")
            }
            Self::ProducerLimit { .. } => {
                code(S::TOO_MANY_REQUESTS, "PRODUCER_LIMIT", "Too many producers")
            }
            Self::StreamSeq => code(S::CONFLICT, "STREAM_SEQ_CONFLICT", "Sequence conflict"),
            Self::RecordMismatch { .. } => {
                code(S::PRECONDITION_FAILED, "RECORD_MISMATCH", "Another record is next")
            }
            Self::RecordsNeedJson => {
                code(S::BAD_REQUEST, "RECORDS_NEED_JSON", "Records exist on JSON streams only")
            }
            Self::NotABoundary { .. } => {
                code(S::BAD_REQUEST, "OFFSET_NOT_A_BOUNDARY", "The offset is inside a message")
            }
            Self::Trimmed { .. } => code(S::GONE, "OFFSET_TRIMMED", "Discarded by retention"),
            Self::RecordOutOfRange { .. } => {
                code(S::BAD_REQUEST, "RECORD_OUT_OF_RANGE", "No such record yet")
            }
            Self::BeyondTail { .. } => {
                code(S::CONFLICT, "OFFSET_BEYOND_TAIL", "The offset is beyond the tail")
            }
            Self::SnapshotNotFound => code(S::NOT_FOUND, "SNAPSHOT_NOT_FOUND", "No such snapshot"),
            Self::SnapshotMatchFailed(_) => {
                code(S::CONFLICT, "SNAPSHOT_MATCH_FAILED", "Another snapshot is visible")
            }
            Self::SnapshotStale(_) => {
                code(S::CONFLICT, "SNAPSHOT_STALE", "A newer snapshot is visible")
            }
            Self::SnapshotConflict(_) => {
                code(S::CONFLICT, "SNAPSHOT_CONFLICT", "Another snapshot has this offset")
            }
            Self::SnapshotVisible => {
                code(S::CONFLICT, "SNAPSHOT_VISIBLE", "The visible snapshot is needed")
            }
            Self::RetentionNeedsSnapshot => {
                code(S::CONFLICT, "RETENTION_NEEDS_SNAPSHOT", "No snapshot covers the discarded")
            }
            Self::RetentionBackwards { .. } => {
                code(S::CONFLICT, "RETENTION_BACKWARDS", "Retention never moves back")
            }
            Self::RetentionBeyondSnapshot { .. } => {
                code(S::CONFLICT, "RETENTION_BEYOND_SNAPSHOT", "Beyond the visible snapshot")
            }
            Self::ForkSourceNotFound => {
                code(S::NOT_FOUND, "FORK_SOURCE_NOT_FOUND", "No such fork source")
            }
            Self::ForkSourceDeleted => {
                code(S::CONFLICT, "FORK_SOURCE_DELETED", "The fork source was deleted")
            }
            Self::ForkBeyondTail { .. } => {
                code(S::BAD_REQUEST, "FORK_OFFSET_BEYOND_TAIL", "Beyond the source's tail")
            }
            Self::ForkTrimmed { .. } => {
                code(S::GONE, "FORK_OFFSET_TRIMMED", "Discarded by the source's retention")
            }
            Self::ForkUncovered { .. } => {
                code(S::CONFLICT, "FORK_UNCOVERED", "No snapshot covers the fork's history")
            }
            Self::ForkSubOffset { .. } => {
                code(S::BAD_REQUEST, "FORK_SUB_OFFSET", "The sub-offset does not fit")
            }
            Self::ForkTooDeep { .. } => {
                code(S::CONFLICT, "FORK_TOO_DEEP", "Too many forks of forks")
            }
        }
    }

    /// The largest allowed number, on every 413.
    pub fn limit(&self) -> Option<u64> {
        match self {
            Self::Json(JsonError::TooMany { .. }) => Some(MESSAGES_MAX as u64),
            Self::Json(JsonError::TooLong { .. }) => Some(u64::from(u32::MAX)),
            _ => None,
        }
    }
}

/// What happened here: expected and got.
impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(invalid) => f.write_str(&invalid.detail),
            Self::BucketNotFound => f.write_str(
                "The bucket does not exist. Create it with PUT /{bucket}; streams do not create it.",
            ),
            Self::BucketExists => f.write_str("A bucket with this id exists already."),
            Self::BucketNotEmpty { streams, held } => write!(
                f,
                "The bucket has {streams} streams; {held} of them are deleted and held by forks \
                 alone. Delete them, and the forks, first."
            ),
            Self::StreamNotFound => f.write_str("The stream was never created, or has ended."),
            Self::StreamDeleted => {
                f.write_str("The stream was deleted. Forks still read its bytes; nobody else can.")
            }
            Self::StreamHeld => f.write_str(
                "The name is free again when the last fork of the deleted stream is deleted.",
            ),
            Self::StreamDiffers { part } => {
                write!(f, "The stream exists, and its {part} differs from the request's.")
            }
            Self::StreamClosed { tail } => {
                write!(f, "The stream was closed at {tail}; nothing can be appended.")
            }
            Self::ContentTypeMissing => {
                f.write_str("The request has a body and no Content-Type header.")
            }
            Self::ContentTypeMismatch { expected, got } => {
                write!(f, "The stream holds {expected}, the request is {got}.")
            }
            Self::EmptyBody => f.write_str(
                "An append needs a body. To close the stream without one, send Stream-Closed: true.",
            ),
            Self::EmptyArray => f.write_str("An append of [] holds no message."),
            Self::Json(error) => error.fmt(f),
            Self::ProducerFenced { current } => {
                write!(f, "The producer's epoch is {current} now; this request's is older.")
            }
            Self::ProducerEpochStart { received } => {
                write!(f, "The first sequence number of a new epoch is 0, got {received}.")
            }
            Self::ProducerGap { expected, received } => {
                write!(f, "The next sequence number is {expected}, got {received}.")
            }
            Self::ProducerLimit { limit } => write!(
                f,
                "The stream knows {limit} producers, and none has been idle for seven days."
            ),
            Self::StreamSeq => f.write_str(
                "The Stream-Seq sequence must rise with every append, in byte order.",
            ),
            Self::RecordMismatch { next, .. } | Self::RecordOutOfRange { next } => {
                write!(f, "The next record is {next}.")
            }
            Self::RecordsNeedJson => {
                f.write_str("Record coordinates need a stream of application/json.")
            }
            Self::NotABoundary { offset } => write!(
                f,
                "{offset} lies inside a message. Use offsets as the server gave them."
            ),
            Self::Trimmed { retained, .. } => write!(
                f,
                "History before {retained} was discarded. Start from {{stream}}/bootstrap."
            ),
            Self::BeyondTail { tail } => write!(f, "The stream's tail is {tail}."),
            Self::SnapshotNotFound => f.write_str("The stream has no snapshot there."),
            Self::SnapshotMatchFailed(Some(visible)) => {
                write!(f, "The visible snapshot's digest is {}.", visible.digest)
            }
            Self::SnapshotMatchFailed(None) => f.write_str("No snapshot is visible."),
            Self::SnapshotStale(visible) => {
                write!(f, "The visible snapshot is at {} already.", visible.offset)
            }
            Self::SnapshotConflict(visible) => write!(
                f,
                "The snapshot at {} has digest {}; snapshots never change.",
                visible.offset, visible.digest
            ),
            Self::SnapshotVisible => f.write_str(
                "The latest snapshot cannot be deleted, only replaced: bootstrap needs it.",
            ),
            Self::RetentionNeedsSnapshot => {
                f.write_str("Publish a snapshot that covers what would be discarded first.")
            }
            Self::RetentionBackwards { retained } => {
                write!(f, "History before {retained} is discarded already.")
            }
            Self::RetentionBeyondSnapshot { snapshot } => {
                write!(f, "The visible snapshot covers history up to {snapshot} only.")
            }
            Self::ForkSourceNotFound => f.write_str("The stream to fork does not exist."),
            Self::ForkSourceDeleted => f.write_str("The stream to fork was deleted."),
            Self::ForkBeyondTail { tail } => write!(f, "The source's tail is {tail}."),
            Self::ForkTrimmed { retained } => {
                write!(f, "The source's history before {retained} was discarded.")
            }
            Self::ForkUncovered { snapshot: Some(snapshot) } => write!(
                f,
                "The source's early history was discarded and its snapshot lies at {snapshot}, \
                 beyond the fork offset: the fork could not be bootstrapped."
            ),
            Self::ForkUncovered { snapshot: None } => {
                f.write_str("The source's early history was discarded.")
            }
            Self::ForkSubOffset { why } => f.write_str(why),
            Self::ForkTooDeep { limit } => {
                write!(f, "A chain of forks has at most {limit} streams.")
            }
        }
    }
}

impl From<Invalid> for Refusal {
    fn from(invalid: Invalid) -> Self {
        Self::Invalid(invalid)
    }
}
