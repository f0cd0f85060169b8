//! What a refusal tells a person: what happened, what was expected, what came, what to do.

use std::fmt;

use super::Refusal;
use crate::wire::invalid::shown;

/// One or two sentences about this occurrence. Never an echo of a body.
impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(invalid) => f.write_str(&invalid.detail),
            Self::BucketNotFound => f.write_str(
                "The bucket does not exist. PUT /{bucket} creates it; creating a stream does not.",
            ),
            Self::BucketExists => f.write_str("A bucket with this id exists already."),
            Self::BucketNotEmpty { streams, held } => write!(
                f,
                "Only an empty bucket can be deleted. Streams in this one: {streams}, of which \
                 deleted but held by forks: {held}. Delete the streams and those forks first."
            ),
            Self::StreamNotFound => f.write_str(
                "The stream was never created, or was deleted, or expired. Create it with PUT.",
            ),
            Self::StreamDeleted => f.write_str(
                "The stream was deleted, or expired. Its forks still read its bytes; nobody else \
                 can.",
            ),
            Self::StreamHeld => f.write_str(
                "A stream that was deleted, or expired, keeps this name until its last fork is \
                 deleted. Delete its forks, or choose another name.",
            ),
            Self::StreamDiffers { part } => write!(
                f,
                "The stream exists, and its {part} is not what the request asks for. Ask for what \
                 exists, or delete the stream first."
            ),
            Self::StreamClosed { tail } => {
                write!(f, "The stream was closed at {tail}; nothing can be appended any more.")
            }
            Self::ContentTypeMissing => f.write_str(
                "The request has a body and no Content-Type header. Send the stream's type.",
            ),
            Self::ContentTypeMismatch { expected, got } => {
                write!(f, "The stream holds {expected}, the request says {got}.")
            }
            Self::EmptyBody => f.write_str(
                "An append needs a body. To close a stream without one, send Stream-Closed: true.",
            ),
            Self::EmptyArray => f.write_str(
                "An append of [] holds no message. To append an empty array, send [[]].",
            ),
            Self::Json(error) => write!(f, "The body was not taken as JSON: {error}."),
            Self::ProducerFenced { current } => write!(
                f,
                "The producer's epoch is {current} now, this request's is older: another instance \
                 has taken over. To take over in turn, begin a higher epoch."
            ),
            Self::ProducerEpochStart { received } => {
                write!(f, "The first sequence number of a new epoch is 0, got {received}.")
            }
            Self::ProducerGap { expected, received } => write!(
                f,
                "The producer's next sequence number is {expected}, got {received}. Send what is \
                 missing first."
            ),
            Self::ProducerLimit { limit } => write!(
                f,
                "The stream remembers {limit} producers, and none of them has been idle for seven \
                 days. Use a Producer-Id again, or wait."
            ),
            Self::StreamSeq { last, got } => write!(
                f,
                "The Stream-Seq sequence must rise in byte order: the last one is {}, got {}.",
                shown(last),
                shown(got)
            ),
            Self::RecordMismatch { next, .. } => write!(
                f,
                "The next record is {next}, not the one in Stream-Record-Match. Read on and decide \
                 again."
            ),
            Self::RecordsNeedJson => {
                f.write_str("Record coordinates need a stream of application/json.")
            }
            Self::NotABoundary { offset } => {
                write!(f, "{offset} lies inside a message. Use offsets as the server gave them.")
            }
            Self::Trimmed { retained, .. } => write!(
                f,
                "History before {retained} was discarded. Start from {{stream}}/bootstrap."
            ),
            Self::RecordOutOfRange { next } => {
                write!(f, "The record does not exist yet: the next one is {next}.")
            }
            Self::BeyondTail { tail } => {
                write!(f, "The position lies beyond the stream's tail, {tail}.")
            }
            Self::SnapshotNotFound => f.write_str(
                "The stream has no such snapshot. If one is visible, {stream}/snapshot finds it.",
            ),
            Self::SnapshotMatchFailed(Some(visible)) => write!(
                f,
                "The visible snapshot is at {} with digest {}, which Stream-Snapshot-Match does \
                 not name.",
                visible.offset, visible.digest
            ),
            Self::SnapshotMatchFailed(None) => f.write_str(
                "Stream-Snapshot-Match was sent, but no snapshot is visible. Publish without it.",
            ),
            Self::SnapshotStale(visible) => write!(
                f,
                "The visible snapshot is at {}; one at a lower offset is not taken.",
                visible.offset
            ),
            Self::SnapshotConflict(visible) => write!(
                f,
                "The snapshot at {} has digest {} and never changes. Publish at a later offset.",
                visible.offset, visible.digest
            ),
            Self::SnapshotVisible => f.write_str(
                "The visible snapshot cannot be deleted, since bootstrap needs it. Publishing a \
                 later one replaces it.",
            ),
            Self::RetentionNeedsSnapshot => f.write_str(
                "No snapshot is visible that covers what would be discarded. Publish one first.",
            ),
            Self::RetentionBackwards { retained } => write!(
                f,
                "History before {retained} is discarded already; the boundary never moves back."
            ),
            Self::RetentionBeyondSnapshot { snapshot } => write!(
                f,
                "The visible snapshot covers history up to {snapshot} only. Publish a later one \
                 first."
            ),
            Self::ForkSourceNotFound => {
                f.write_str("The stream that Stream-Forked-From names does not exist.")
            }
            Self::ForkSourceDeleted => f.write_str(
                "The stream that Stream-Forked-From names was deleted, or expired, and cannot be \
                 forked any more.",
            ),
            Self::ForkBeyondTail { tail } => {
                write!(f, "Stream-Fork-Offset lies beyond the source's tail, {tail}.")
            }
            Self::ForkTrimmed { retained } => write!(
                f,
                "The source's history before {retained} was discarded. Fork there or later."
            ),
            Self::ForkUncovered { snapshot } => write!(
                f,
                "The source's early history was discarded, and the snapshot that covers it lies at \
                 {snapshot}, beyond the fork offset. Fork there or later."
            ),
            Self::ForkSubOffset { why } => f.write_str(why),
            Self::ForkTooDeep { limit } => write!(
                f,
                "A chain of forks has at most {limit} streams. Fork a stream further up the chain."
            ),
            Self::KeyNotFound => f.write_str("The key was never created, or was revoked."),
            Self::StreamLimit { limit } => write!(
                f,
                "The server keeps {limit} streams, and that is all that it may. Delete some first."
            ),
            Self::BucketStreamLimit { limit } => write!(
                f,
                "The bucket has {limit} streams, and that is all that it may. Delete some first."
            ),
            Self::BucketBytesLimit { limit } => write!(
                f,
                "The bucket retains {limit} bytes or more, and that is all that it may. Delete \
                 streams, or advance their retention."
            ),
            Self::KeyLimit => {
                f.write_str("The server keeps no more keys. Revoke those that are not needed.")
            }
        }
    }
}
