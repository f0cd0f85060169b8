//! The rules, written a second time from the documents, naively: what must be answered, and what
//! changes.

use bytes::Bytes;
use headwater_core::command::{Body, Command, Receipt, Target};
use headwater_core::content::ContentType;
use headwater_core::ids::{StreamId, StreamName};
use headwater_core::moment::Lifetime;
use headwater_core::state::{Now, ProducerStamp};
use headwater_core::stream::append::Append;
use headwater_core::stream::create::Create;
use headwater_core::stream::fork::{Anchor, Fork};
use headwater_core::stream::retention::Retain;
use headwater_core::stream::snapshot::Publish;
use headwater_server::engine::Outcome;

use super::{Age, Appended, Change, Life, Model, Origin, Snapshot, Stream};

/// A command, and what its body means without asking the engine.
#[derive(Debug, Clone)]
pub(crate) struct Action {
    pub(crate) command: Command,
    /// The messages in its body, in canonical form.
    pub(crate) messages: Vec<Bytes>,
    /// The bytes of a snapshot.
    pub(crate) blob: Bytes,
}

/// An answer without what cannot be foreseen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    Done,
    BucketCreated,
    Created {
        fresh: bool,
        tail: u64,
        closed: bool,
        records: (u64, u64),
    },
    Appended {
        next: u64,
        closed: bool,
        producer: Option<(u64, u64)>,
        repeated: bool,
        records: Option<(u64, u64)>,
    },
    Published {
        offset: u64,
        tail: u64,
        retained: u64,
    },
    Retained(u64),
    Refused(&'static str),
    Stale,
}

/// What must be answered, and what changes then; a refusal or repetition changes nothing.
#[derive(Debug)]
pub(crate) struct Expect {
    pub(crate) answer: Answer,
    pub(crate) change: Option<Change>,
}

type Said = Result<Expect, &'static str>;

impl Answer {
    pub(crate) fn of(outcome: &Outcome) -> Self {
        let receipt = match outcome {
            Outcome::Accepted(receipt) => receipt,
            Outcome::Refused(refusal) => return Self::Refused(refusal.code().code),
            Outcome::Stale => return Self::Stale,
        };
        match receipt {
            Receipt::Done => Self::Done,
            Receipt::BucketCreated { .. } => Self::BucketCreated,
            Receipt::Created(it) => Self::Created {
                fresh: it.fresh,
                tail: it.tail.0,
                closed: it.closed,
                records: (it.records.0.0, it.records.1.0),
            },
            Receipt::Appended(it) => Self::Appended {
                next: it.next_offset.0,
                closed: it.closed,
                producer: it.producer,
                repeated: it.repeated,
                records: it.records.map(|(from, to)| (from.0, to.0)),
            },
            Receipt::Published(it) => Self::Published {
                offset: it.snapshot.offset.0,
                tail: it.tail.0,
                retained: it.retained.0,
            },
            Receipt::Retained { retained } => Self::Retained(retained.0),
        }
    }
}

/// An answer that goes with nothing new.
impl From<Answer> for Expect {
    fn from(answer: Answer) -> Self {
        Self { answer, change: None }
    }
}

/// An answer that goes with a change.
impl From<(Answer, Change)> for Expect {
    fn from((answer, change): (Answer, Change)) -> Self {
        Self { answer, change: Some(change) }
    }
}

impl Model {
    /// What the engine must say to `action` and do. `age` tells of a stream whether its life is
    /// over, and never [`Age::Either`].
    pub(crate) fn expect(&self, action: &Action, now: Now, age: &dyn Fn(&Stream) -> Age) -> Expect {
        let at = now.node.0;
        let said = match &action.command {
            Command::CreateBucket(bucket) if self.has_bucket(bucket) => Err("BUCKET_EXISTS"),
            Command::CreateBucket(bucket) => {
                Ok((Answer::BucketCreated, Change::BucketCreated(bucket.clone())).into())
            }
            Command::DeleteBucket(bucket) if !self.has_bucket(bucket) => Err("BUCKET_NOT_FOUND"),
            Command::DeleteBucket(bucket) if self.bucket(bucket).0 > 0 => Err("BUCKET_NOT_EMPTY"),
            Command::DeleteBucket(bucket) => {
                Ok((Answer::Done, Change::BucketDeleted(bucket.clone())).into())
            }
            Command::Create(create) => self.create(create, action, at, age),
            Command::Append(append) => self
                .live(&append.name, age)
                .and_then(|stream| expect_append(stream, append, &action.messages, at)),
            Command::Delete(name) => {
                self.live(name, age).map(|_| (Answer::Done, Change::Ended(name.clone())).into())
            }
            Command::Publish(publish) => self
                .live(&publish.name, age)
                .and_then(|stream| expect_publish(stream, publish, &action.blob, at)),
            Command::Retain(retain) => {
                self.live(&retain.name, age).and_then(|stream| expect_retain(stream, retain, at))
            }
            Command::SetAttributes(set) => self.live(&set.name, age).map(|_| {
                let (name, json) = (set.name.clone(), set.json.clone());
                (Answer::Done, Change::AttributesSet { name, json, at }).into()
            }),
            Command::Renew(_) | Command::Expire(_) | Command::Purge(_) => {
                unreachable!("the engine's own business")
            }
            Command::CreateKey(_) | Command::RevokeKey(_) => {
                unreachable!("a workload is about streams")
            }
        };
        said.unwrap_or_else(|code| Expect { answer: Answer::Refused(code), change: None })
    }

    fn live(
        &self,
        name: &StreamName,
        age: &dyn Fn(&Stream) -> Age,
    ) -> Result<&Stream, &'static str> {
        match self.streams.get(name) {
            Some(stream) if stream.hidden => Err("STREAM_DELETED"),
            Some(stream) if age(stream) != Age::Over => Ok(stream),
            _ => Err("STREAM_NOT_FOUND"),
        }
    }

    fn create(
        &self,
        create: &Create,
        action: &Action,
        at: u64,
        age: &dyn Fn(&Stream) -> Age,
    ) -> Said {
        match (self.live(&create.name, age), self.streams.get(&create.name)) {
            (Ok(stream), _) => return expect_same(stream, create),
            (Err(_), Some(ended)) if self.has_forks(ended.id) => return Err("STREAM_HELD"),
            (Err("STREAM_DELETED"), _) => return Err("STREAM_HELD"),
            (Err(_), _) => {}
        }
        if !self.has_bucket(&create.name.bucket()) {
            return Err("BUCKET_NOT_FOUND");
        }
        let (mut stream, start) = self.begin(create, at, age)?;
        stream.messages.extend(action.messages.iter().cloned());
        let answer = Answer::Created {
            fresh: true,
            tail: stream.tail(),
            closed: create.closed,
            records: (start, stream.next() as u64),
        };
        Ok((answer, Change::Created(create.name.clone(), Box::new(stream))).into())
    }

    /// The new stream with what it inherits, and the first record of its own.
    fn begin(
        &self,
        create: &Create,
        at: u64,
        age: &dyn Fn(&Stream) -> Age,
    ) -> Result<(Stream, u64), &'static str> {
        let mut stream = Stream {
            // The engine chooses; filled in when it has.
            id: StreamId(0),
            content: create.content.clone().unwrap_or_default(),
            messages: Vec::new(),
            first: 0,
            closed: create.closed,
            closed_by: None,
            hidden: false,
            snapshot: None,
            producers: std::collections::BTreeMap::new(),
            last_seq: None,
            attributes: create.attributes.clone().filter(|json| &json[..] != b"{}"),
            asked: create.lifetime.clone(),
            life: Life::Endless,
            renewed: at,
            origin: None,
        };
        let start = match &create.fork {
            Some(fork) => self.inherit(&mut stream, fork, create.content.as_ref(), age)?,
            None => 0,
        };
        match &create.lifetime {
            Some(Lifetime::Ttl(ttl)) => stream.life = Life::Window(ttl.millis()),
            Some(Lifetime::ExpiresAt(at)) => stream.life = Life::Until(at.at().0),
            None => {}
        }
        Ok((stream, start))
    }

    fn inherit(
        &self,
        stream: &mut Stream,
        fork: &Fork,
        content: Option<&ContentType>,
        age: &dyn Fn(&Stream) -> Age,
    ) -> Result<u64, &'static str> {
        let source = match self.live(&fork.source, age) {
            Ok(source) => source,
            Err("STREAM_DELETED") => return Err("FORK_SOURCE_DELETED"),
            Err(_) if self.has_bucket(&fork.source.bucket()) => {
                return Err("FORK_SOURCE_NOT_FOUND");
            }
            Err(_) => return Err("BUCKET_NOT_FOUND"),
        };
        if content.is_some_and(|content| *content != source.content) {
            return Err("CONTENT_TYPE_MISMATCH");
        }
        let anchor = match fork.anchor {
            Anchor::Tail => source.tail(),
            Anchor::At(offset) if offset.0 <= source.tail() => offset.0,
            Anchor::At(_) | Anchor::Beyond => return Err("FORK_OFFSET_BEYOND_TAIL"),
        };
        if anchor < source.retained() {
            return Err("FORK_OFFSET_TRIMMED");
        }
        let record = source.record_at(anchor).ok_or("OFFSET_NOT_A_BOUNDARY")?;
        let sub = usize::try_from(fork.sub_offset).unwrap_or(usize::MAX);
        if sub > 0 && (fork.anchor == Anchor::Tail || record == source.next()) {
            return Err("FORK_SUB_OFFSET");
        }
        let (cut, piece) = match sub {
            0 => (record, None),
            _ if source.is_json() && sub <= source.next() - record => (record + sub, None),
            _ if source.is_json() => return Err("FORK_SUB_OFFSET"),
            _ => match source.messages[record].len() {
                len if sub == len => (record + 1, None),
                len if sub < len => (record, Some(source.messages[record].slice(..sub))),
                _ => return Err("FORK_SUB_OFFSET"),
            },
        };
        let end = source.start_of(cut);
        stream.snapshot = match &source.snapshot {
            Some(snapshot) if snapshot.offset <= end => Some(snapshot.clone()),
            _ if source.first > 0 => return Err("FORK_UNCOVERED"),
            _ => None,
        };
        stream.content = source.content.clone();
        stream.life = source.life;
        stream.messages = source.messages[..cut].to_vec();
        stream.origin = Some(Origin {
            source: fork.source.clone(),
            source_id: source.id,
            anchor,
            sub_offset: fork.sub_offset,
        });
        stream.messages.extend(piece);
        stream.first = source.first;
        Ok(cut as u64)
    }
}

/// What a creation finds when the stream exists.
fn expect_same(stream: &Stream, create: &Create) -> Said {
    let default = create.fork.is_none().then(ContentType::default);
    let content = create.content.clone().or(default);
    let asked = create.fork.as_ref();
    let same_origin = match (asked, &stream.origin) {
        (None, None) => true,
        (Some(fork), Some(origin)) => {
            let same_anchor = match fork.anchor {
                Anchor::Tail => true,
                Anchor::At(offset) => offset.0 == origin.anchor,
                Anchor::Beyond => false,
            };
            fork.source == origin.source && fork.sub_offset == origin.sub_offset && same_anchor
        }
        _ => false,
    };
    let same = content.is_none_or(|content| content == stream.content)
        && create.lifetime == stream.asked
        && create.closed == stream.closed
        && same_origin
        && create.attributes.as_ref().is_none_or(|asked| {
            asked == stream.attributes.as_ref().unwrap_or(&Bytes::from_static(b"{}"))
        });
    if !same {
        return Err("STREAM_EXISTS");
    }
    let next = stream.next() as u64;
    let (tail, closed) = (stream.tail(), stream.closed);
    Ok(Answer::Created { fresh: false, tail, closed, records: (next, next) }.into())
}

fn expect_append(stream: &Stream, append: &Append, messages: &[Bytes], at: u64) -> Said {
    let empty = append.body == Body::Empty;
    if empty && !append.close {
        return Err("EMPTY_BODY");
    }
    if !empty && append.content.is_none() {
        return Err("CONTENT_TYPE_MISSING");
    }
    let stamp = append.producer.as_ref();
    if stream.closed {
        let repeats = stamp.map_or(empty, |stamp| stream.closed_by.as_ref() == Some(stamp));
        return match append.record_match.filter(|_| stamp.is_none()) {
            _ if !repeats => Err("STREAM_CLOSED"),
            Some(_) if !stream.is_json() => Err("RECORDS_NEED_JSON"),
            Some(record) if record != stream.next() as u64 => Err("RECORD_MISMATCH"),
            _ => Ok(expect_repeat(stream, stamp, true)),
        };
    }
    if !empty && append.content.as_ref() != Some(&stream.content) {
        return Err("CONTENT_TYPE_MISMATCH");
    }
    if append.record_match.is_some() && !stream.is_json() {
        return Err("RECORDS_NEED_JSON");
    }
    if let Some(stamp) = stamp {
        match stream.producers.get(&stamp.id) {
            None if stamp.seq > 0 => return Err("PRODUCER_GAP"),
            Some(known) if stamp.epoch < known.epoch => return Err("PRODUCER_FENCED"),
            Some(known) if stamp.epoch > known.epoch && stamp.seq > 0 => {
                return Err("PRODUCER_EPOCH_START");
            }
            Some(known) if stamp.epoch == known.epoch && stamp.seq <= known.seq => {
                return Ok(expect_repeat(stream, Some(stamp), false));
            }
            Some(known) if stamp.epoch == known.epoch && stamp.seq > known.seq + 1 => {
                return Err("PRODUCER_GAP");
            }
            _ => {}
        }
    }
    if append.stream_seq.is_some() && append.stream_seq <= stream.last_seq {
        return Err("STREAM_SEQ_CONFLICT");
    }
    let next = stream.next() as u64;
    if append.record_match.is_some_and(|expected| expected != next) {
        return Err("RECORD_MISMATCH");
    }
    if !empty && messages.is_empty() {
        return Err("EMPTY_ARRAY");
    }
    let name = append.name.clone();
    let bytes: u64 = messages.iter().map(|message| message.len() as u64).sum();
    let answer = Answer::Appended {
        next: stream.tail() + bytes,
        closed: append.close,
        producer: stamp.map(|stamp| (stamp.epoch, stamp.seq)),
        repeated: false,
        records: stream.is_json().then_some((next, next + messages.len() as u64)),
    };
    let appended = Box::new(Appended {
        messages: messages.to_vec(),
        stamp: append.producer.clone(),
        stream_seq: append.stream_seq.clone(),
        close: append.close,
    });
    Ok((answer, Change::Appended { name, appended, at }).into())
}

/// A batch or a close that happened before.
fn expect_repeat(stream: &Stream, stamp: Option<&ProducerStamp>, closed: bool) -> Expect {
    let known = stamp.and_then(|stamp| stream.producers.get(&stamp.id));
    let last = known.filter(|known| stamp.is_some_and(|stamp| stamp.seq == known.seq));
    Answer::Appended {
        next: stream.tail(),
        closed,
        producer: known.map(|known| (known.epoch, known.seq)),
        repeated: true,
        records: last.filter(|_| stream.is_json()).map(|known| known.last),
    }
    .into()
}

fn expect_publish(stream: &Stream, publish: &Publish, body: &Bytes, at: u64) -> Said {
    let blob = publish.blob.as_ref().expect("the body is stored first");
    let record = locate(stream, publish.target, ["OFFSET_TRIMMED", "OFFSET_BEYOND_TAIL"])?;
    let offset = stream.start_of(record);
    let name = publish.name.clone();
    let retained = if publish.retain { offset } else { stream.retained() };
    let answer = Answer::Published { offset, tail: stream.tail(), retained };
    let visible = stream.snapshot.as_ref();
    if visible.is_some_and(|seen| seen.offset == offset && seen.digest == blob.digest) {
        return if publish.retain && record > stream.first && offset > stream.retained() {
            Ok((answer, Change::Retained { name, first: record, at }).into())
        } else {
            Ok(answer.into())
        };
    }
    let digest = visible.map(|seen| seen.digest.to_string());
    if publish.expected.is_some() && publish.expected != digest {
        return Err("SNAPSHOT_MATCH_FAILED");
    }
    match visible {
        Some(seen) if offset < seen.offset => return Err("SNAPSHOT_STALE"),
        Some(seen) if offset == seen.offset => return Err("SNAPSHOT_CONFLICT"),
        _ => {}
    }
    let snapshot =
        Snapshot { offset, record, digest: blob.digest, blob: blob.blob, body: body.clone() };
    Ok((answer, Change::Published { name, snapshot, retain: publish.retain, at }).into())
}

fn expect_retain(stream: &Stream, retain: &Retain, at: u64) -> Said {
    if matches!(retain.target, Target::Record(_)) && !stream.is_json() {
        return Err("RECORDS_NEED_JSON");
    }
    let snapshot = stream.snapshot.as_ref().ok_or("RETENTION_NEEDS_SNAPSHOT")?;
    let beyond = match retain.target {
        Target::Offset(offset) => offset.0 > snapshot.offset,
        Target::Record(record) => record > snapshot.record as u64,
        Target::Beyond => true,
    };
    let codes = ["RETENTION_BACKWARDS", "RETENTION_BEYOND_SNAPSHOT"];
    let record = match locate(stream, retain.target, codes) {
        Err("OFFSET_NOT_A_BOUNDARY") | Ok(_) if beyond => Err(codes[1]),
        said => said,
    }?;
    let answer = Answer::Retained(stream.start_of(record));
    if record == stream.first {
        return Ok(answer.into());
    }
    Ok((answer, Change::Retained { name: retain.name.clone(), first: record, at }).into())
}

/// The record at a target, or the code for too early, too late, or no boundary.
fn locate(
    stream: &Stream,
    target: Target,
    [early, late]: [&'static str; 2],
) -> Result<usize, &'static str> {
    match target {
        Target::Beyond => Err(late),
        Target::Offset(offset) if offset.0 < stream.retained() => Err(early),
        Target::Offset(offset) if offset.0 > stream.tail() => Err(late),
        Target::Offset(offset) => stream.record_at(offset.0).ok_or("OFFSET_NOT_A_BOUNDARY"),
        Target::Record(_) if !stream.is_json() => Err("RECORDS_NEED_JSON"),
        Target::Record(record) => match usize::try_from(record) {
            Ok(record) if record < stream.first => Err(early),
            Ok(record) if record <= stream.next() => Ok(record),
            _ => Err(late),
        },
    }
}
