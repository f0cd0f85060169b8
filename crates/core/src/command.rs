//! What is asked of the core, and what it answers. A command is decided against the shards that it
//! names and changes nothing; what was decided is applied by [`State::apply`].

use std::sync::Arc;

use crate::access::{Key, KeyId};
use crate::content::{ContentType, Mode};
use crate::entry::Entry;
use crate::ids::{BlobId, BucketId, Lsn, Offset, Record, ShardNo, StreamId, StreamName, Timestamp};
use crate::json::Messages;
use crate::refusal::Refusal;
use crate::state::{Digest, Now, Snapshot, State};
use crate::stream::append::Append;
use crate::stream::attributes::SetAttributes;
use crate::stream::create::Create;
use crate::stream::retention::Retain;
use crate::stream::snapshot::Publish;

/// Everything that can change a shard.
#[derive(Debug, Clone)]
pub enum Command {
    /// `PUT /{bucket}`.
    CreateBucket(BucketId),
    /// `DELETE /{bucket}`.
    DeleteBucket(BucketId),
    /// `PUT {stream}`.
    Create(Box<Create>),
    /// `POST {stream}`.
    Append(Append),
    /// `DELETE {stream}`.
    Delete(StreamName),
    /// `PUT {stream}/snapshot/…`, when the body is stored.
    Publish(Publish),
    /// `PUT {stream}/retention/…`.
    Retain(Retain),
    /// `PUT {stream}/attrs`.
    SetAttributes(SetAttributes),
    /// Records that reads renewed a TTL window.
    Renew(StreamId),
    /// Ends a stream whose lifetime is over.
    Expire(StreamName),
    /// Ends a soft-deleted stream that lost its last fork.
    Purge(StreamId),
    /// `POST /-/keys`.
    CreateKey(Box<Key>),
    /// `DELETE /-/keys/{id}`.
    RevokeKey(KeyId),
}

/// What an accepted command leads to.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// Entries to log and apply together, and the answer when they are durable.
    Write(Vec<Logged>, Receipt),
    /// It had happened before, or nothing needs to happen: the answer, with nothing written.
    Repeat(Receipt),
}

/// Why a command was not accepted.
#[derive(Debug, Clone, PartialEq)]
pub enum Stop {
    /// The protocol says no.
    Refuse(Refusal),
    /// The decision needs to see this shard as well: lock it too and ask again.
    Widen(ShardNo),
    /// The [`Evidence`] is missing or about another incarnation: look again and ask again.
    Stale,
}

/// An entry and the message bytes that it brings.
#[derive(Debug, Clone, PartialEq)]
pub struct Logged {
    /// The change.
    pub entry: Entry,
    /// The messages, if it brings any.
    pub data: Option<Data>,
}

/// Messages at their place in a stream.
#[derive(Debug, Clone, PartialEq)]
pub struct Data {
    /// The incarnation that they belong to.
    pub stream: StreamId,
    /// Where the first one starts.
    pub offset: Offset,
    /// The ordinal of the first one.
    pub record: Record,
    /// Their bytes and lengths.
    pub messages: Messages,
}

/// The answer to an accepted command.
#[derive(Debug, Clone, PartialEq)]
pub enum Receipt {
    /// Nothing more to say.
    Done,
    /// A bucket was created.
    BucketCreated {
        /// When.
        at: Timestamp,
    },
    /// A stream was created, or existed with the same configuration.
    Created(CreateReceipt),
    /// Messages were appended, the stream closed, or the same had been done before.
    Appended(AppendReceipt),
    /// A snapshot is visible.
    Published(PublishReceipt),
    /// History is discarded up to here.
    Retained {
        /// The earliest readable offset.
        retained: Offset,
    },
}

/// See [`Receipt::Created`].
#[derive(Debug, Clone, PartialEq)]
pub struct CreateReceipt {
    /// False when the stream existed.
    pub fresh: bool,
    /// The incarnation.
    pub id: StreamId,
    /// As stored.
    pub content: ContentType,
    /// The tail.
    pub tail: Offset,
    /// Whether it is closed.
    pub closed: bool,
    /// The messages of the request body, from (inclusive) and to (exclusive).
    pub records: (Record, Record),
}

/// See [`Receipt::Appended`].
#[derive(Debug, Clone, PartialEq)]
pub struct AppendReceipt {
    /// The end of this append, or the tail for a repetition.
    pub next_offset: Offset,
    /// Whether the stream is closed now.
    pub closed: bool,
    /// The producer's epoch and highest accepted sequence number.
    pub producer: Option<(u64, u64)>,
    /// Whether a producer's batch, or a close, had been accepted before.
    pub repeated: bool,
    /// The messages, from (inclusive) and to (exclusive); `None` for a repetition of a batch that
    /// is not the producer's last, and on streams that are not JSON.
    pub records: Option<(Record, Record)>,
}

/// See [`Receipt::Published`].
#[derive(Debug, Clone, PartialEq)]
pub struct PublishReceipt {
    /// The visible snapshot.
    pub snapshot: Arc<Snapshot>,
    /// The tail.
    pub tail: Offset,
    /// The earliest readable offset.
    pub retained: Offset,
}

/// A request body as far as it can be read without knowing the stream.
#[derive(Debug, Clone, PartialEq)]
pub enum Body {
    /// No byte.
    Empty,
    /// One message, as sent.
    Message(bytes::Bytes),
    /// A JSON body, flattened, or why it is none.
    Json(Result<Messages, crate::json::JsonError>),
}

impl Body {
    /// Reads `bytes` as the content type of the *request* demands; a stream of another type refuses
    /// the request before the difference could matter.
    pub fn read(bytes: bytes::Bytes, content: Option<&ContentType>) -> Self {
        if bytes.is_empty() {
            Self::Empty
        } else if content.is_some_and(|content| content.mode() == Mode::Json) {
            Self::Json(crate::json::split(&bytes))
        } else {
            Self::Message(bytes)
        }
    }

    /// The bytes that are stored of it, if it can be read at all.
    pub fn stored_bytes(&self) -> usize {
        match self {
            Self::Empty | Self::Json(Err(_)) => 0,
            Self::Message(bytes) => bytes.len(),
            Self::Json(Ok(messages)) => messages.bytes.len(),
        }
    }
}

/// A position as a client names it for a snapshot or for retention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// By offset.
    Offset(Offset),
    /// An offset that no stream reaches.
    Beyond,
    /// By the ordinal of the record that starts there.
    Record(u64),
}

/// What storage says of a place in a stream: facts about committed bytes, which never change, so
/// that they may be looked up before the decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Evidence {
    /// The incarnation that was looked at.
    pub stream: StreamId,
    /// The place.
    pub offset: Offset,
    /// The ordinal of the message that starts there; `None` when it is no message boundary.
    pub record: Option<Record>,
}

/// A snapshot whose body is stored, not yet visible.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredBlob {
    /// Where.
    pub blob: BlobId,
    /// Bytes.
    pub len: u64,
    /// Over content type and body.
    pub digest: Digest,
}

/// The shards that a decision may see, locked together.
#[derive(Debug)]
pub struct View<'a>(pub &'a [(ShardNo, &'a State)]);

impl<'a> View<'a> {
    /// One shard, or the wish to see it.
    pub fn shard(&self, shard: ShardNo) -> Result<&'a State, Stop> {
        let found = self.0.iter().find(|(no, _)| *no == shard);
        found.map(|(_, state)| *state).ok_or(Stop::Widen(shard))
    }
}

impl Command {
    /// The shard to begin with; [`Stop::Widen`] names the others.
    pub fn shard(&self) -> ShardNo {
        match self {
            Self::CreateBucket(bucket) | Self::DeleteBucket(bucket) => bucket.shard(),
            Self::Create(create) => create.name.shard(),
            Self::Append(append) => append.name.shard(),
            Self::Delete(name) | Self::Expire(name) => name.shard(),
            Self::Publish(publish) => publish.name.shard(),
            Self::Retain(retain) => retain.name.shard(),
            Self::SetAttributes(set) => set.name.shard(),
            Self::Renew(id) | Self::Purge(id) => id.shard(),
            Self::CreateKey(_) | Self::RevokeKey(_) => KeyId::shard(),
        }
    }

    /// The stream that the command is about, unless it is about a bucket or an incarnation.
    pub fn stream(&self) -> Option<&StreamName> {
        match self {
            Self::Create(create) => Some(&create.name),
            Self::Append(append) => Some(&append.name),
            Self::Delete(name) | Self::Expire(name) => Some(name),
            Self::Publish(publish) => Some(&publish.name),
            Self::Retain(retain) => Some(&retain.name),
            Self::SetAttributes(set) => Some(&set.name),
            Self::CreateBucket(_)
            | Self::DeleteBucket(_)
            | Self::Renew(_)
            | Self::Purge(_)
            | Self::CreateKey(_)
            | Self::RevokeKey(_) => None,
        }
    }

    /// Every stream whose condition the decision may look at: the command's own, and the source of
    /// a fork.
    pub fn streams(&self) -> impl Iterator<Item = &StreamName> {
        let source = match self {
            Self::Create(create) => create.fork.as_ref().map(|fork| &fork.source),
            _ => None,
        };
        self.stream().into_iter().chain(source)
    }

    /// The newest entry that a refusal or a repetition may have been decided from: the answer may
    /// be given once the log is durable up to there. `view` is what the decision saw.
    pub fn touched(&self, view: &View<'_>) -> Lsn {
        let stream = |name: &StreamName| {
            view.shard(name.shard()).map_or(Lsn::ZERO, |state| state.touched(name))
        };
        let bucket = |id: &BucketId| {
            view.shard(id.shard()).map_or(Lsn::ZERO, |state| state.bucket_touched(id))
        };
        match self {
            Self::CreateBucket(id) | Self::DeleteBucket(id) => bucket(id),
            Self::Create(_) => {
                let newest = self.streams().map(|name| stream(name).max(bucket(&name.bucket())));
                newest.max().unwrap_or(Lsn::ZERO)
            }
            Self::CreateKey(_) | Self::RevokeKey(_) => {
                view.shard(KeyId::shard()).map_or(Lsn::ZERO, State::keys_touched)
            }
            _ => self.stream().map_or(Lsn::ZERO, stream),
        }
    }

    /// Whether the command gives space back, and so may use the disk reserve.
    pub fn is_essential(&self) -> bool {
        match self {
            Self::Append(append) => append.is_close_only(),
            Self::DeleteBucket(_)
            | Self::Delete(_)
            | Self::Retain(_)
            | Self::Renew(_)
            | Self::Expire(_)
            | Self::Purge(_)
            | Self::RevokeKey(_) => true,
            Self::CreateBucket(_)
            | Self::Create(_)
            | Self::Publish(_)
            | Self::SetAttributes(_)
            | Self::CreateKey(_) => false,
        }
    }

    /// Decides, changing nothing. Same view, same command, same time: same decision.
    pub fn decide(&self, view: &View<'_>, now: Now) -> Result<Decision, Stop> {
        match self {
            Self::CreateBucket(bucket) => crate::stream::bucket::create(view, bucket, now),
            Self::DeleteBucket(bucket) => crate::stream::bucket::delete(view, bucket),
            Self::Create(create) => create.decide(view, now),
            Self::Append(append) => append.decide(view, now),
            Self::Delete(name) => crate::stream::delete::delete(view, name, now),
            Self::Publish(publish) => publish.decide(view, now),
            Self::Retain(retain) => retain.decide(view, now),
            Self::SetAttributes(set) => set.decide(view, now),
            Self::Renew(id) => crate::stream::expiry::renew(view, *id, now),
            Self::Expire(name) => crate::stream::expiry::expire(view, name, now),
            Self::Purge(id) => crate::stream::delete::purge(view, *id),
            Self::CreateKey(key) => crate::access::create(view, key),
            Self::RevokeKey(id) => crate::access::revoke(view, *id),
        }
    }
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        Self::Refuse(refusal)
    }
}

impl From<Entry> for Logged {
    fn from(entry: Entry) -> Self {
        Self { entry, data: None }
    }
}
