//! Random commands over a few names, so that they meet.

use bytes::Bytes;
use headwater_core::command::{Body, Command, StoredBlob, Target};
use headwater_core::content::ContentType;
use headwater_core::ids::{BlobId, BucketId, Offset, StreamName};
use headwater_core::moment::{Lifetime, Ttl};
use headwater_core::state::{Digest, ProducerStamp, Stream};
use headwater_core::stream::append::Append;
use headwater_core::stream::attributes::SetAttributes;
use headwater_core::stream::create::Create;
use headwater_core::stream::fork::{Anchor, Fork};
use headwater_core::stream::retention::Retain;
use headwater_core::stream::snapshot::Publish;
use proptest::prelude::*;

use crate::world::{Outcome, World};

/// One thing that happens. Positions and types are resolved when it happens.
#[derive(Debug, Clone)]
pub(super) enum Step {
    CreateBucket(u8),
    DeleteBucket(u8),
    Create { name: u8, json: bool, count: u8, ttl: Option<u8>, closed: bool },
    Fork { name: u8, source: u8, place: Option<Place>, sub: u8, count: u8, ttl: Option<u8> },
    Append { name: u8, wrong_type: bool, count: u8, producer: Option<(u8, u8, u8)>, close: bool },
    Delete(u8),
    Publish { name: u8, place: Place, by_record: bool, body: u8, retain: bool },
    Retain { name: u8, place: Place, by_record: bool },
    SetAttributes { name: u8, some: bool },
    Read(u8),
    Wait(u16),
    Purge,
    Restart,
}

/// Somewhere in a stream.
#[derive(Debug, Clone, Copy)]
pub(super) enum Place {
    /// A message boundary, from the first to the tail.
    Boundary(u8),
    /// Possibly inside a message.
    Anywhere(u8),
    Snapshot,
    Retained,
    Beyond,
}

const BUCKETS: [&str; 2] = ["demo", "othr"];

fn bucket(number: u8) -> BucketId {
    BucketId::parse(BUCKETS[usize::from(number) % BUCKETS.len()]).unwrap()
}

fn name(number: u8) -> StreamName {
    match number % 6 {
        0 => StreamName::in_bucket(&bucket(0), "a"),
        1 => StreamName::in_bucket(&bucket(0), "b"),
        2 => StreamName::in_bucket(&bucket(1), "a"),
        3 => StreamName::in_bucket(&bucket(1), "é"),
        4 => StreamName::on_base(["a"]),
        _ => StreamName::on_base(["a", "b"]),
    }
    .unwrap()
}

pub(super) fn steps(max: usize) -> impl Strategy<Value = Vec<Step>> {
    let stream = |name, json| Step::Create { name, json, count: 2, ttl: None, closed: false };
    let begin = [
        Step::CreateBucket(0),
        Step::CreateBucket(1),
        stream(0, true),
        stream(2, false),
        stream(4, true),
    ];
    prop::collection::vec(step(), 1..max)
        .prop_map(move |steps| begin.iter().cloned().chain(steps).collect())
}

fn step() -> impl Strategy<Value = Step> {
    let name = || 0_u8..6;
    let ttl = || prop::option::weighted(0.15, 1_u8..6);
    let producer = prop::option::of((0_u8..2, 0_u8..2, 0_u8..4));
    prop_oneof![
        1 => (0_u8..2).prop_map(Step::CreateBucket),
        1 => (0_u8..2).prop_map(Step::DeleteBucket),
        4 => (name(), any::<bool>(), 0_u8..4, ttl(), prop::bool::weighted(0.1)).prop_map(
            |(name, json, count, ttl, closed)| Step::Create { name, json, count, ttl, closed }
        ),
        6 => (name(), name(), prop::option::of(place()), 0_u8..3, 0_u8..3, ttl()).prop_map(
            |(name, source, place, sub, count, ttl)| Step::Fork {
                name, source, place, sub: sub.saturating_sub(1), count, ttl
            }
        ),
        16 => (name(), prop::bool::weighted(0.05), 0_u8..4, producer, prop::bool::weighted(0.05))
            .prop_map(|(name, wrong_type, count, producer, close)| Step::Append {
                name, wrong_type, count, producer, close
            }),
        2 => name().prop_map(Step::Delete),
        8 => (name(), place(), any::<bool>(), 0_u8..3, prop::bool::weighted(0.3)).prop_map(
            |(name, place, by_record, body, retain)| Step::Publish {
                name, place, by_record, body, retain
            }
        ),
        6 => (name(), place(), any::<bool>())
            .prop_map(|(name, place, by_record)| Step::Retain { name, place, by_record }),
        1 => (name(), any::<bool>()).prop_map(|(name, some)| Step::SetAttributes { name, some }),
        3 => name().prop_map(Step::Read),
        2 => (0_u16..1500).prop_map(Step::Wait),
        2 => Just(Step::Purge),
        1 => Just(Step::Restart),
    ]
}

fn place() -> impl Strategy<Value = Place> {
    prop_oneof![
        6 => any::<u8>().prop_map(Place::Boundary),
        1 => any::<u8>().prop_map(Place::Anywhere),
        2 => Just(Place::Snapshot),
        2 => Just(Place::Retained),
        1 => Just(Place::Beyond),
    ]
}

impl Place {
    fn resolve(self, world: &World, name: &StreamName) -> Offset {
        let Some(stream) = world.stream(name) else { return Offset::ZERO };
        match self {
            Self::Boundary(number) => {
                let messages = world.messages(stream.id, Offset::ZERO);
                let number = usize::from(number) % (messages.len() + 1);
                messages.get(number).map_or(stream.tail, |message| message.offset)
            }
            Self::Anywhere(number) => Offset(u64::from(number) % (stream.tail.0 + 1)),
            Self::Snapshot => stream.snapshot().map_or(stream.tail, |snapshot| snapshot.offset),
            Self::Retained => stream.retained(),
            Self::Beyond => stream.tail.plus(1),
        }
    }

    /// The place as a target; by record where one starts there.
    fn target(self, world: &World, name: &StreamName, by_record: bool) -> Target {
        let offset = self.resolve(world, name);
        let Some(stream) = world.stream(name).filter(|_| by_record) else {
            return Target::Offset(offset);
        };
        let next = world.messages(stream.id, offset).first();
        Target::Record(next.map_or(stream.next, |next| next.record).0)
    }
}

fn content(json: bool) -> ContentType {
    ContentType::parse(if json { "application/json" } else { "text/plain" }).unwrap()
}

fn body(json: bool, count: u8) -> Body {
    let bytes = match (json, count) {
        (_, 0) => Bytes::new(),
        (true, count) => {
            let numbers: Vec<_> =
                (0..count).map(|number| "7".repeat(1 + usize::from(number))).collect();
            format!("[{}]", numbers.join(",")).into()
        }
        (false, count) => "text".repeat(usize::from(count)).into(),
    };
    Body::read(bytes, Some(&content(json)))
}

/// A plain creation, without a content type.
fn create(name: StreamName, body: Body, ttl: Option<u8>) -> Create {
    let window = ttl.map(|ttl| Ttl::from_seconds(u64::from(ttl)).unwrap());
    let lifetime = window.map(Lifetime::Ttl);
    Create { name, content: None, body, lifetime, closed: false, attributes: None, fork: None }
}

impl Step {
    /// A stream and a fork of it.
    pub(super) fn a_fork() -> [Self; 2] {
        let (ttl, closed) = (None, false);
        [
            Self::Create { name: 4, json: false, count: 2, ttl, closed },
            Self::Fork { name: 5, source: 4, place: None, sub: 0, count: 1, ttl },
        ]
    }

    /// What came of it, if it was a command.
    pub(super) fn run(&self, world: &mut World) -> Option<Outcome> {
        match self {
            Self::Wait(ms) => world.advance(u64::from(*ms)),
            Self::Purge => {
                world.purge_all();
            }
            Self::Restart => world.restart(),
            Self::Read(number) => {
                if let Ok(facts) = world.facts(&name(*number)) {
                    world.renew(facts.id);
                }
            }
            _ => return Some(world.submit(&self.command(world))),
        }
        None
    }

    fn command(&self, world: &World) -> Command {
        let is_json = |name: &StreamName| world.stream(name).is_some_and(Stream::is_json);
        match *self {
            Self::CreateBucket(number) => Command::CreateBucket(bucket(number)),
            Self::DeleteBucket(number) => Command::DeleteBucket(bucket(number)),
            Self::Create { name: number, json, count, ttl, closed } => {
                Command::Create(Box::new(Create {
                    content: Some(content(json)),
                    closed,
                    attributes: (count == 3).then_some(Bytes::from_static(b"{\"a\":1}")),
                    ..create(name(number), body(json, count), ttl)
                }))
            }
            Self::Fork { name: number, source, place, sub, count, ttl } => {
                let source = name(source);
                let body = body(is_json(&source), count);
                let anchor = place.map(|place| place.resolve(world, &source));
                let anchor = anchor.map_or(Anchor::Tail, Anchor::At);
                let fork = Fork { anchor, source, sub_offset: u64::from(sub), evidence: None };
                Command::Create(Box::new(Create {
                    fork: Some(fork),
                    ..create(name(number), body, ttl)
                }))
            }
            Self::Append { name: number, wrong_type, count, producer, close } => {
                let name = name(number);
                let json = is_json(&name) != wrong_type;
                Command::Append(Append {
                    name,
                    content: Some(content(json)),
                    body: body(json, count),
                    producer: producer.map(|(id, epoch, seq)| ProducerStamp {
                        id: format!("p{id}").into(),
                        epoch: epoch.into(),
                        seq: seq.into(),
                    }),
                    stream_seq: None,
                    close,
                    record_match: None,
                })
            }
            Self::Delete(number) => Command::Delete(name(number)),
            Self::Publish { name: number, place, by_record, body, retain } => {
                let name = name(number);
                // A body that is published again is stored again.
                let blob = BlobId(world.log.len() as u128);
                Command::Publish(Publish {
                    target: place.target(world, &name, by_record),
                    name,
                    evidence: None,
                    expected: None,
                    content: ContentType::default(),
                    blob: Some(StoredBlob { blob, len: 1, digest: Digest([body; 32]) }),
                    retain,
                })
            }
            Self::Retain { name: number, place, by_record } => {
                let name = name(number);
                let target = place.target(world, &name, by_record);
                Command::Retain(Retain { name, target, evidence: None })
            }
            Self::SetAttributes { name: number, some } => {
                let json = some.then_some(Bytes::from_static(b"{\"b\":2}"));
                Command::SetAttributes(SetAttributes { name: name(number), json })
            }
            Self::Read(_) | Self::Wait(_) | Self::Purge | Self::Restart => {
                unreachable!("no commands")
            }
        }
    }
}
