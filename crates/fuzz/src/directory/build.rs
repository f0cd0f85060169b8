//! Small directories of the engine's own making, always the same.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use headwater_core::command::{Body, Command, StoredBlob, Target};
use headwater_core::content::ContentType;
use headwater_core::ids::{BlobId, BucketId, Offset, StreamName, Timestamp};
use headwater_core::moment::{Lifetime, Ttl};
use headwater_core::state::{Digest, ProducerStamp};
use headwater_core::stream::append::Append;
use headwater_core::stream::create::Create;
use headwater_core::stream::fork::{Anchor, Fork};
use headwater_core::stream::snapshot::Publish;
use headwater_server::clock::Clock;
use headwater_server::engine::{Engine, Seams};
use headwater_storage::{MemDisk, Options};

use super::Place;

/// How a directory was left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// In the middle, without a checkpoint.
    Killed,
    /// With a seal, behind a checkpoint.
    Stopped,
    /// In the middle, with segments.
    Compacted,
}

/// Time that stands still.
struct Still;

impl Clock for Still {
    fn wall(&self) -> Timestamp {
        Timestamp(1_893_456_000_000)
    }

    fn monotonic_ms(&self) -> u64 {
        1000
    }
}

pub(super) fn seams(disk: &MemDisk, log_id: u128) -> Seams {
    Seams { disk: Arc::new(disk.clone()), clock: Box::new(Still), log_id, directory_id: 0xd1 }
}

/// Files so small that a few messages fill several.
pub(super) fn options() -> Options {
    Options {
        log_file_bytes: 2 << 10,
        disk_reserve: Some(0),
        frame_bytes_max: 4 << 10,
        ring_bytes: 0,
        footer_cache_bytes: 0,
        open_files_max: 2,
        compact_bytes: 1,
        segment_bytes: 2 << 10,
        compact_step_bytes: 1 << 10,
        long_run_bytes: 1 << 10,
        replay_bytes_max: 1 << 20,
    }
}

/// A directory that is being made.
struct Maker {
    engine: Arc<Engine>,
    streams: BTreeMap<StreamName, Vec<u8>>,
    blobs: BTreeMap<BlobId, Bytes>,
    seed: u64,
}

pub(super) fn place(ending: Ending) -> Place {
    let disk = MemDisk::new();
    let engine = Engine::open(seams(&disk, 1), options()).expect("an empty disk");
    let (streams, blobs) = (BTreeMap::new(), BTreeMap::new());
    let mut maker = Maker { engine, streams, blobs, seed: 0 };
    maker.fill(ending);
    if ending == Ending::Stopped {
        maker.engine.seal().expect("a disk without faults");
    }
    let streams = maker.streams.into_iter().map(|(name, bytes)| (name, bytes.into())).collect();
    // What the engine would still do at its end is lost, as when it is killed.
    let disk = disk.copy();
    Place { disk, streams, blobs: maker.blobs }
}

impl Maker {
    fn fill(&mut self, ending: Ending) {
        let bucket = BucketId::parse("demo").expect("a legal id");
        self.ask(&Command::CreateBucket(bucket.clone()));
        let [json, text, fork, gone] = ["json", "text", "fork", "gone"]
            .map(|local| StreamName::in_bucket(&bucket, local).expect("a legal name"));
        self.create(&json, "application/json", None, None);
        let ttl = Ttl::from_seconds(3600).map(Lifetime::Ttl);
        self.create(&text, "text/plain", ttl, None);
        self.create(&gone, "application/octet-stream", None, None);
        for round in 0..3 {
            self.append(&json, br#"[{"a":1},2,"three"]"#, false);
            self.append(&text, b"", false);
            self.append(&gone, b"", false);
            if round == 0 {
                self.create(&fork, "text/plain", None, Some(&text));
            }
            self.append(&fork, b"", false);
            if ending != Ending::Killed {
                self.publish(&text);
                self.checkpoint();
            }
        }
        self.publish(&json);
        if ending != Ending::Killed {
            self.ask(&Command::Delete(gone));
            self.checkpoint();
        }
        if ending == Ending::Compacted {
            self.append(&text, b"", false);
            self.checkpoint();
            while self.engine.compact().expect("a disk without faults") {}
        }
        self.append(&json, b"[4]", false);
        self.append(&fork, b"", true);
    }

    fn ask(&self, command: &Command) {
        let mut pending = self.engine.submit(command).expect("a disk without faults");
        while self.engine.commit().expect("a disk without faults") {}
        let outcome = pending.poll().expect("a disk without faults").expect("it is durable");
        assert!(outcome.clone().decided().is_ok(), "{command:?} was refused");
    }

    fn create(
        &mut self,
        name: &StreamName,
        kind: &str,
        lifetime: Option<Lifetime>,
        source: Option<&StreamName>,
    ) {
        let content = ContentType::parse(kind).expect("a legal type");
        let start = source.map_or_else(Vec::new, |source| self.streams[source].clone());
        self.streams.insert(name.clone(), start);
        let fork = source.map(|source| Fork {
            source: source.clone(),
            anchor: Anchor::Tail,
            sub_offset: 0,
            evidence: None,
        });
        self.ask(&Command::Create(Box::new(Create {
            name: name.clone(),
            content: Some(content),
            body: Body::Empty,
            lifetime,
            closed: false,
            attributes: Some(Bytes::from_static(b"{\"a\":1}")),
            fork,
        })));
    }

    /// Appends `json`, or else a message of its own.
    fn append(&mut self, name: &StreamName, json: &'static [u8], close: bool) {
        let (body, content) = if json.is_empty() {
            (self.message(300), "application/octet-stream")
        } else {
            (Bytes::from_static(json), "application/json")
        };
        let facts = self.engine.facts_now(name).expect("it was created").0;
        let content = if json.is_empty() {
            facts.content
        } else {
            ContentType::parse(content).expect("legal")
        };
        let producer = json.is_empty().then(|| ProducerStamp {
            id: "ann".into(),
            epoch: 0,
            seq: self.streams[name].len() as u64 / 300,
        });
        let producer =
            producer.filter(|stamp| stamp.seq == facts.next.0 && facts.lineage.is_none());
        let body = Body::read(body, Some(&content));
        let bytes = match &body {
            Body::Json(Ok(messages)) => messages.bytes.clone(),
            Body::Message(message) => message.clone(),
            other => unreachable!("{other:?} is no body of ours"),
        };
        self.streams.get_mut(name).expect("it was created").extend_from_slice(&bytes);
        self.ask(&Command::Append(Append {
            name: name.clone(),
            body,
            content: Some(content),
            producer,
            stream_seq: None,
            close,
            record_match: None,
        }));
    }

    fn publish(&mut self, name: &StreamName) {
        let id = BlobId(u128::from(self.seed) + 0xb10b);
        let body = self.message(500);
        let mut writer = self.engine.blobs().create(id).expect("a disk without faults");
        writer.write(&body).expect("a disk without faults");
        let len = writer.finish().expect("a disk without faults");
        self.blobs.insert(id, body);
        let end = self.streams[name].len() as u64;
        self.ask(&Command::Publish(Publish {
            name: name.clone(),
            target: Target::Offset(Offset(end)),
            evidence: None,
            expected: None,
            content: ContentType::octet_stream(),
            blob: Some(StoredBlob { blob: id, len, digest: Digest([1; 32]) }),
            retain: false,
        }));
    }

    /// Saves every shard that has changed.
    fn checkpoint(&self) {
        self.engine.begin_checkpoint().expect("a disk without faults");
        while self.engine.commit().expect("a disk without faults") {}
        while self.engine.finish_checkpoint().expect("a disk without faults") {}
        for _ in 0..40 {
            self.engine.maintain().expect("a disk without faults");
            while self.engine.commit().expect("a disk without faults") {}
        }
    }

    /// Bytes that occur nowhere else.
    fn message(&mut self, len: usize) -> Bytes {
        let mut bytes = Vec::with_capacity(len);
        while bytes.len() < len {
            self.seed = self.seed.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x14057);
            bytes.push(b'a' + (self.seed >> 40).to_le_bytes()[0] % 26);
        }
        bytes.into()
    }
}
