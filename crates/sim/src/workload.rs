//! What clients do: random commands, most of them sensible, on a handful of names so that they
//! meet each other.

use std::sync::Arc;

use bytes::Bytes;
use headwater_core::command::{Body, Command, StoredBlob, Target};
use headwater_core::content::ContentType;
use headwater_core::ids::{BlobId, BucketId, Offset, StreamName, Timestamp};
use headwater_core::moment::{ExpiresAt, Lifetime, Ttl};
use headwater_core::state::{Digest, Now, ProducerStamp};
use headwater_core::stream::append::Append;
use headwater_core::stream::attributes::SetAttributes;
use headwater_core::stream::create::Create;
use headwater_core::stream::fork::{Anchor, Fork};
use headwater_core::stream::retention::Retain;
use headwater_core::stream::snapshot::Publish;

use crate::clock::EPOCH_MS;
use crate::model::{Action, Model, Stream};
use crate::rng::Rng;
use crate::trace::hash_of;

const DAY_MS: u64 = 24 * 60 * 60 * 1000;

#[derive(Debug, Clone, Copy)]
enum Kind {
    CreateBucket,
    DeleteBucket,
    Create,
    Fork,
    Append,
    Close,
    Delete,
    Publish,
    Retain,
    Attributes,
}

const KINDS: [(Kind, u64); 10] = [
    (Kind::CreateBucket, 4),
    (Kind::DeleteBucket, 2),
    (Kind::Create, 10),
    (Kind::Fork, 6),
    (Kind::Append, 40),
    (Kind::Close, 2),
    (Kind::Delete, 4),
    (Kind::Publish, 6),
    (Kind::Retain, 5),
    (Kind::Attributes, 2),
];

/// The clients of one world.
pub(crate) struct Workload {
    pub(crate) buckets: Vec<BucketId>,
    pub(crate) names: Vec<StreamName>,
    weights: Vec<(Kind, u64)>,
    /// The largest message.
    message_bytes_max: u64,
    rng: Rng,
}

impl Workload {
    pub(crate) fn new(mut rng: Rng) -> Self {
        let bucket = |id| BucketId::parse(id).expect("a legal bucket id");
        let buckets: Vec<_> = ["alpha", "beta", "gamma"].map(bucket).to_vec();
        let mut names = Vec::new();
        for bucket in &buckets {
            for local in ["one", "two", "-1"] {
                names.push(StreamName::in_bucket(bucket, local).expect("a legal name"));
            }
        }
        for local in ["x", "y", "z"] {
            names.push(StreamName::on_base(["base", local]).expect("a legal name"));
        }
        // Every world has habits of its own.
        let weights = KINDS.map(|(kind, weight)| (kind, weight * *rng.pick(&[1, 3, 3, 9])));
        let message_bytes_max = *rng.pick(&[40, 300, 3_000, 12_000]);
        Self { buckets, names, weights: weights.to_vec(), message_bytes_max, rng }
    }

    /// The next command. The bodies of snapshots are still to be stored.
    pub(crate) fn next(&mut self, model: &Model, now: Now) -> Action {
        let total: u64 = self.weights.iter().map(|(_, weight)| weight).sum();
        let mut at = self.rng.below(total);
        let kind = self.weights.iter().find(|(_, weight)| {
            let here = at < *weight;
            at = at.saturating_sub(*weight);
            here
        });
        let kind = kind.expect("below the total").0;
        let missing = self.buckets.iter().find(|bucket| !model.has_bucket(bucket));
        match kind {
            Kind::CreateBucket => {
                let bucket = missing.unwrap_or(&self.buckets[0]).clone();
                Action::plain(Command::CreateBucket(bucket))
            }
            Kind::DeleteBucket => {
                Action::plain(Command::DeleteBucket(self.rng.pick(&self.buckets).clone()))
            }
            Kind::Create => self.create(now),
            Kind::Fork => self.fork(model, now),
            Kind::Append => self.append(model, false),
            Kind::Close => self.append(model, true),
            Kind::Delete => Action::plain(Command::Delete(self.name(model))),
            Kind::Publish => self.publish(model),
            Kind::Retain => self.retain(model),
            Kind::Attributes => {
                let json = (!self.rng.one_in(4)).then(|| self.object());
                let name = self.name(model);
                Action::plain(Command::SetAttributes(SetAttributes { name, json }))
            }
        }
    }

    /// Several appends to one stream.
    pub(crate) fn batch(&mut self, model: &Model) -> Vec<Action> {
        let Command::Append(first) = self.append(model, false).command else {
            unreachable!("an append is an append")
        };
        let count = self.rng.within(1, 6);
        let stream = model.streams.get(&first.name);
        let content = stream.map_or_else(ContentType::default, |stream| stream.content.clone());
        let mut seq = stream
            .and_then(|stream| stream.producers.get("batch"))
            .map_or(0, |known| known.seq + 1);
        let produced = self.rng.one_in(2);
        (0..count)
            .map(|_| {
                let (body, messages) = self.body(&content);
                let stamp = ProducerStamp { id: "batch".into(), epoch: 0, seq };
                seq += 1;
                let append = Append {
                    body,
                    content: Some(content.clone()),
                    producer: produced.then_some(stamp),
                    stream_seq: None,
                    close: false,
                    record_match: None,
                    ..first.clone()
                };
                Action { messages, ..Action::plain(Command::Append(append)) }
            })
            .collect()
    }

    /// A name, most often one that is taken.
    fn name(&mut self, model: &Model) -> StreamName {
        let taken: Vec<_> = model.streams.keys().collect();
        if taken.is_empty() || self.rng.one_in(8) {
            return self.rng.pick(&self.names).clone();
        }
        (*self.rng.pick(&taken)).clone()
    }

    fn content(&mut self) -> ContentType {
        let text = self.rng.pick(&["application/json", "text/plain", "application/octet-stream"]);
        ContentType::parse(text).expect("a legal content type")
    }

    fn create(&mut self, now: Now) -> Action {
        let name = self.rng.pick(&self.names).clone();
        let content = self.content();
        let (body, messages) =
            if self.rng.one_in(2) { self.body(&content) } else { (Body::Empty, Vec::new()) };
        let create = Create {
            name,
            content: Some(content),
            body,
            lifetime: self.lifetime(now),
            closed: self.rng.one_in(12),
            attributes: self.rng.one_in(8).then(|| self.object()),
            fork: None,
        };
        Action { messages, ..Action::plain(Command::Create(Box::new(create))) }
    }

    fn fork(&mut self, model: &Model, now: Now) -> Action {
        let source = self.name(model);
        let mut action = self.create(now);
        let Command::Create(create) = &mut action.command else { unreachable!("it is a create") };
        let found = model.streams.get(&source);
        let (anchor, sub_offset) = match found {
            None => (Anchor::Tail, 0),
            Some(_) if self.rng.one_in(3) => (Anchor::Tail, 0),
            Some(_) if self.rng.one_in(20) => (Anchor::Beyond, 0),
            Some(stream) => {
                let record = self.record(stream);
                let mut offset = stream.start_of(record);
                offset += u64::from(self.rng.one_in(12));
                let sub = if self.rng.one_in(2) { self.sub_offset(stream, record) } else { 0 };
                (Anchor::At(Offset(offset)), sub)
            }
        };
        let content = found.map_or_else(ContentType::default, |stream| stream.content.clone());
        if self.rng.one_in(2) {
            (create.body, action.messages) = (Body::Empty, Vec::new());
        } else {
            (create.body, action.messages) = self.body(&content);
        }
        create.content = self.rng.one_in(2).then_some(content);
        if self.rng.one_in(2) {
            create.lifetime = None;
        }
        create.fork = Some(Fork { source, anchor, sub_offset, evidence: None });
        action
    }

    fn sub_offset(&mut self, stream: &Stream, record: usize) -> u64 {
        match stream.messages.get(record) {
            Some(_) if stream.is_json() => self.rng.within(1, 3),
            Some(message) => {
                let beyond = u64::from(self.rng.one_in(9));
                self.rng.within(1, message.len() as u64 + beyond)
            }
            None => 1,
        }
    }

    fn append(&mut self, model: &Model, close: bool) -> Action {
        let name = self.name(model);
        let found = model.streams.get(&name);
        let content = match found {
            Some(stream) if !self.rng.one_in(40) => stream.content.clone(),
            _ => self.content(),
        };
        let (body, messages) = if close && self.rng.one_in(2) {
            (Body::Empty, Vec::new())
        } else {
            self.body(&content)
        };
        let json = content.as_str() == "application/json";
        let next = found.map_or(0, |stream| stream.next() as u64);
        let append = Append {
            name,
            content: Some(content),
            body,
            producer: self.rng.one_in(3).then(|| self.stamp(found)),
            stream_seq: self.rng.one_in(8).then(|| self.stream_seq(found)),
            close,
            record_match: (json && self.rng.one_in(8))
                .then(|| next.saturating_sub(u64::from(self.rng.one_in(4)))),
        };
        Action { messages, ..Action::plain(Command::Append(append)) }
    }

    fn stream_seq(&mut self, found: Option<&Stream>) -> Bytes {
        let last = found.and_then(|stream| stream.last_seq.as_ref());
        let last = last.and_then(|seq| std::str::from_utf8(seq).ok()?.parse::<u64>().ok());
        let next = last.unwrap_or(100) + self.rng.within(1, 3);
        let next = if self.rng.one_in(6) { next - 3 } else { next };
        Bytes::from(format!("{next:06}"))
    }

    /// Most often the next batch of a producer, sometimes one that was sent before, a gap, or a
    /// new epoch.
    fn stamp(&mut self, found: Option<&Stream>) -> ProducerStamp {
        let id: Arc<str> = (*self.rng.pick(&["ann", "bob", "cyd"])).into();
        let known = found.and_then(|stream| stream.producers.get(&id));
        let (epoch, seq) = known.map_or((0, 0), |known| (known.epoch, known.seq + 1));
        let (epoch, seq) = match self.rng.below(24) {
            0..=2 => (epoch, seq.saturating_sub(self.rng.within(1, 2))),
            3 => (epoch, seq + 1),
            4 => (epoch + 1, 0),
            5 => (epoch + 1, 1),
            6 => (epoch.saturating_sub(1), seq),
            _ => (epoch, seq),
        };
        ProducerStamp { id, epoch, seq }
    }

    fn publish(&mut self, model: &Model) -> Action {
        let name = self.name(model);
        let found = model.streams.get(&name);
        let target = self.target(found, false);
        let len = if self.rng.one_in(4) { 0 } else { self.rng.within(1, 9_000) };
        // Few different bodies, so that the same snapshot comes twice.
        let blob: Bytes = vec![u8::try_from(len % 251).expect("below 251"); to_usize(len)].into();
        let digest = Digest([u8::try_from(hash_of(&blob) % 4).expect("below 4"); 32]);
        let visible = found.and_then(|stream| stream.snapshot.as_ref());
        let expected = visible.filter(|_| self.rng.one_in(5)).map(|seen| seen.digest.to_string());
        let publish = Publish {
            name,
            target,
            evidence: None,
            expected,
            content: ContentType::octet_stream(),
            blob: Some(StoredBlob { blob: BlobId(self.rng.id()), len, digest }),
            retain: self.rng.one_in(2),
        };
        Action { blob, ..Action::plain(Command::Publish(publish)) }
    }

    fn retain(&mut self, model: &Model) -> Action {
        let name = self.name(model);
        let target = self.target(model.streams.get(&name), true);
        Action::plain(Command::Retain(Retain { name, target, evidence: None }))
    }

    fn target(&mut self, found: Option<&Stream>, covered: bool) -> Target {
        let Some(stream) = found else { return Target::Offset(Offset(0)) };
        let snapshot = stream.snapshot.as_ref().filter(|_| covered);
        let record = match snapshot {
            Some(snapshot) if self.rng.one_in(3) => snapshot.record,
            _ => self.record(stream),
        };
        match self.rng.below(20) {
            0 => Target::Beyond,
            1 => Target::Offset(Offset(stream.start_of(record) + 1)),
            2..=6 => Target::Record(record as u64),
            _ => Target::Offset(Offset(stream.start_of(record))),
        }
    }

    /// A record of the stream, seldom a discarded one; late ones more often.
    fn record(&mut self, stream: &Stream) -> usize {
        if self.rng.one_in(16) {
            return self.rng.index(stream.next() + 1);
        }
        let span = stream.next() - stream.first;
        let back = self.rng.index(span + 1).min(self.rng.index(span + 1));
        stream.next() - back
    }

    fn body(&mut self, content: &ContentType) -> (Body, Vec<Bytes>) {
        if content.as_str() != "application/json" {
            let len = self.len();
            let bytes: Bytes = (0..len).map(|_| self.byte()).collect();
            return (Body::Message(bytes.clone()), vec![bytes]);
        }
        let count = *self.rng.pick(&[0, 1, 1, 1, 2, 3, 7]);
        let values: Vec<String> = (0..count).map(|_| self.value()).collect();
        let messages = values.iter().map(|value| Bytes::from(format!("{value},"))).collect();
        let text = format!("[{}]", values.join(if self.rng.one_in(2) { "," } else { " ,\n" }));
        (Body::read(text.into(), Some(content)), messages)
    }

    fn value(&mut self) -> String {
        let len = self.len();
        match self.rng.below(4) {
            0 => format!("{}", self.rng.next()),
            1 => format!("[1, [{}]]", self.rng.below(1000)),
            2 => format!("{{\"k\":\"{}\", \"k\":1.0}}", "v".repeat(len)),
            _ => format!("\"{}\"", "s".repeat(len)),
        }
    }

    fn len(&mut self) -> usize {
        let max = if self.rng.one_in(4) { self.message_bytes_max } else { 40 };
        to_usize(self.rng.within(1, max))
    }

    fn byte(&mut self) -> u8 {
        u8::try_from(self.rng.below(256)).expect("below 256")
    }

    fn object(&mut self) -> Bytes {
        Bytes::from(format!("{{\"n\":{}}}", self.rng.below(3)))
    }

    fn lifetime(&mut self, now: Now) -> Option<Lifetime> {
        match self.rng.below(8) {
            0 | 1 => {
                let seconds = *self.rng.pick(&[0, 1, 2, 8, 60]);
                Some(Lifetime::Ttl(Ttl::from_seconds(seconds).expect("a short window")))
            }
            2 => Some(Lifetime::ExpiresAt(expires_at(now.wall, self.rng.below(30)))),
            _ => None,
        }
    }
}

impl Action {
    pub(crate) fn plain(command: Command) -> Self {
        Self { command, messages: Vec::new(), blob: Bytes::new() }
    }
}

/// So many seconds from `wall`; worlds live in one month.
fn expires_at(wall: Timestamp, seconds: u64) -> ExpiresAt {
    let since = wall.0 - EPOCH_MS + seconds * 1000;
    let day = 1 + (since / DAY_MS).min(27);
    let of_day = since % DAY_MS / 1000;
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    let text = format!("2030-01-{day:02}T{hour:02}:{minute:02}:{second:02}Z");
    ExpiresAt::parse(&text).expect("an RFC 3339 time")
}

fn to_usize(value: u64) -> usize {
    usize::try_from(value).expect("sizes here are small")
}
