//! Learning from a scan which streams there are, and whether what is stored makes sense.

use std::collections::{BTreeMap, HashMap, HashSet};

use headwater_core::content::ContentType;
use headwater_core::entry::Entry;
use headwater_core::ids::{BlobId, ShardNo, StreamId, StreamName};
use headwater_core::state::{Digest, Snapshot, State, Stream};
use headwater_storage::{
    Fact, Finding, Part, Piece, Scanned, Seen, Value, Verdict, Watcher, blob_path,
};

use super::{Report, id_text};
use crate::digest;

/// Findings beyond so many are counted and not kept.
const FINDINGS_MAX: usize = 10_000;

/// What happens to intact bytes.
type Sink<'a> = &'a mut dyn FnMut(Piece, &[u8]);

/// Where facts go.
type Tell<'a> = &'a mut dyn FnMut(Fact);

/// The streams of a data directory, as far as it tells.
#[derive(Default)]
pub struct Streams {
    /// By number; the shards as a start would see them.
    states: BTreeMap<u8, State>,
    /// Every incarnation that was met, ended ones included.
    names: HashMap<StreamId, (StreamName, ContentType)>,
    /// Incarnations that have ended.
    ended: HashSet<StreamId>,
    /// By number of a shard: the incarnations below this are those of its image.
    told: HashMap<u8, u64>,
}

/// Follows a scan.
#[derive(Default)]
pub(super) struct Catalog<'a> {
    streams: Streams,
    findings: Vec<Finding>,
    more_findings: u64,
    blobs: Blobs,
    tell: Option<Tell<'a>>,
    sink: Option<Sink<'a>>,
}

/// What is known of snapshot bodies while they are read.
#[derive(Default)]
struct Blobs {
    /// Taken from the streams when the first body comes.
    named: Option<HashMap<BlobId, (StreamId, Snapshot)>>,
    hasher: Option<(BlobId, blake3::Hasher)>,
    seen: HashSet<BlobId>,
}

impl Streams {
    /// Every stream, soft-deleted ones included.
    pub fn all(&self) -> impl Iterator<Item = &Stream> {
        self.states.values().flat_map(State::streams)
    }

    /// The stream with this id, unless it has ended.
    pub fn get(&self, id: StreamId) -> Option<&Stream> {
        self.states.get(&id.shard().0)?.stream(id)
    }

    /// Name and content type of an incarnation, ended ones included.
    pub fn known(&self, id: StreamId) -> Option<(&StreamName, &ContentType)> {
        self.names.get(&id).map(|(name, content)| (name, content))
    }

    /// What people call it, or its id where its name is lost.
    pub fn name_or_id(&self, id: StreamId) -> String {
        self.known(id).map_or_else(|| id_text(id), |(name, _)| name.key().to_owned())
    }

    /// Every snapshot body that a stream names, and the stream.
    pub fn snapshots(&self) -> impl Iterator<Item = (StreamId, &Snapshot)> {
        self.all().filter_map(|stream| Some((stream.id, &**stream.snapshot()?)))
    }

    /// Whether nothing says that it has ended: its shard's image is gone, or it was never created.
    pub(super) fn is_lost(&self, id: StreamId) -> bool {
        let told = self.told.get(&id.shard().0).copied().unwrap_or(0);
        self.get(id).is_none() && !self.ended.contains(&id) && id.counter() >= told
    }

    fn state(&mut self, shard: ShardNo) -> &mut State {
        self.states.entry(shard.0).or_insert_with(|| State::new(shard))
    }
}

impl<'a> Catalog<'a> {
    /// One that tells what it sees.
    pub(super) fn telling(tell: Tell<'a>) -> Self {
        Self { tell: Some(tell), ..Self::default() }
    }

    /// One that hands on intact bytes.
    pub(super) fn saving(sink: Sink<'a>) -> Self {
        Self { sink: Some(sink), ..Self::default() }
    }

    /// What it all came to; `whole` if it was a whole directory.
    pub(super) fn finish(mut self, scanned: Scanned, whole: bool) -> Report {
        if whole {
            self.judge_blobs();
        }
        let Self { streams, findings, more_findings, .. } = self;
        Report { findings, more_findings, scanned, streams }
    }

    fn named(&mut self) -> &HashMap<BlobId, (StreamId, Snapshot)> {
        let streams = &self.streams;
        self.blobs.named.get_or_insert_with(|| {
            let all = streams.snapshots();
            all.map(|(id, snapshot)| (snapshot.blob, (id, snapshot.clone()))).collect()
        })
    }

    /// A body that a stream names must be there; one that none names may be unfinished.
    fn judge_blobs(&mut self) {
        let named = self.named().clone();
        let owner = |path: &str| named.iter().find(|(id, _)| blob_path(**id) == path);
        for finding in self.findings.iter_mut().filter(|finding| finding.part == Part::Blob) {
            let Some((_, (stream, _))) = owner(&finding.at.path) else { continue };
            finding.streams = vec![*stream];
            if finding.verdict == Verdict::Torn {
                finding.verdict = Verdict::Damage;
            }
        }
        for (id, (stream, _)) in &named {
            if !self.blobs.seen.contains(id) {
                let detail = "the snapshot of a stream is missing";
                let path = blob_path(*id);
                let finding = Finding::new(Verdict::Damage, Part::Blob, &path, 0, detail);
                self.finding(finding.concerning([*stream]));
            }
        }
    }

    fn learn(&mut self, entry: &Entry) {
        match entry {
            Entry::Created(created) => {
                let known = (created.name.clone(), created.content.clone());
                self.streams.names.insert(created.id, known);
            }
            Entry::Removed { id } => {
                self.streams.ended.insert(*id);
            }
            _ => {}
        }
    }
}

impl Watcher for Catalog<'_> {
    fn finding(&mut self, finding: Finding) {
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(finding);
        } else {
            self.more_findings += 1;
        }
    }

    fn image(&mut self, shard: ShardNo, named: bool, image: &[u8]) -> Result<(), String> {
        let state = State::from_image(image).map_err(|damaged| damaged.what.to_owned())?;
        if state.shard() != shard {
            return Err("the image of another shard".to_owned());
        }
        for stream in state.streams() {
            let known = (stream.name.clone(), stream.content.clone());
            self.streams.names.insert(stream.id, known);
        }
        // Without a manifest nobody knows which entries an image holds.
        if named {
            self.streams.told.insert(shard.0, state.next_counter());
            self.streams.states.insert(shard.0, state);
        }
        Ok(())
    }

    fn entry(&mut self, seen: Seen<'_>) -> Result<(), String> {
        let entry = Entry::decode(seen.meta).map_err(|damaged| damaged.what.to_owned())?;
        if entry.shard() != seen.shard {
            return Err("an entry of another shard".to_owned());
        }
        if let Some(tell) = &mut self.tell {
            tell(entry_fact(&entry, &seen));
        }
        self.learn(&entry);
        if !seen.is_saved {
            self.streams.state(seen.shard).apply(&entry);
        }
        Ok(())
    }

    fn bytes(&mut self, piece: Piece, bytes: &[u8]) {
        if let Some(sink) = &mut self.sink {
            sink(piece, bytes);
        }
    }

    fn blob(&mut self, id: BlobId, bytes: &[u8]) {
        if self.blobs.hasher.as_ref().is_none_or(|(hashed, _)| *hashed != id) {
            let Some((_, snapshot)) = self.named().get(&id) else { return };
            let hasher = digest::start(&snapshot.content);
            self.blobs.hasher = Some((id, hasher));
        }
        if let Some((_, hasher)) = &mut self.blobs.hasher {
            hasher.update(bytes);
        }
    }

    fn blob_end(&mut self, id: BlobId, len: Option<u64>) {
        self.blobs.seen.insert(id);
        if len == Some(0) {
            self.blob(id, &[]);
        }
        let hashed = self.blobs.hasher.take().filter(|(hashed, _)| *hashed == id);
        let Some((stream, snapshot)) = self.named().get(&id).cloned() else { return };
        let (Some((_, hasher)), Some(len)) = (hashed, len) else { return };
        let digest = Digest(*hasher.finalize().as_bytes());
        if (digest, len) != (snapshot.digest, snapshot.len) {
            let detail = "the snapshot's digest is not the one that was published";
            let finding = Finding::new(Verdict::Damage, Part::Blob, &blob_path(id), 0, detail);
            self.finding(finding.concerning([stream]));
        }
    }

    fn fact(&mut self, fact: &dyn Fn() -> Fact) {
        if let Some(tell) = &mut self.tell {
            tell(fact());
        }
    }
}

/// An entry for those who want to see it.
fn entry_fact(entry: &Entry, seen: &Seen<'_>) -> Fact {
    let mut fields = vec![
        ("kind", Value::Text(kind(entry).into())),
        ("lsn", Value::Number(seen.lsn.0)),
        ("shard", Value::Number(seen.shard.0.into())),
    ];
    match entry {
        Entry::Created(created) => {
            fields.push(("stream", Value::Stream(created.id)));
            fields.push(("name", Value::Text(created.name.key().to_owned().into())));
        }
        Entry::Appended(appended) => fields.push(("stream", Value::Stream(appended.id))),
        Entry::Hidden { id }
        | Entry::Removed { id }
        | Entry::Published { id, .. }
        | Entry::Retained { id, .. }
        | Entry::Renewed { id, .. }
        | Entry::AttributesSet { id, .. } => fields.push(("stream", Value::Stream(*id))),
        Entry::ForkAdded { source, fork, .. } | Entry::ForkReleased { source, fork } => {
            fields.push(("stream", Value::Stream(*source)));
            fields.push(("fork", Value::Stream(*fork)));
        }
        Entry::BucketCreated { bucket, .. } | Entry::BucketDeleted { bucket } => {
            fields.push(("name", Value::Text(bucket.as_str().to_owned().into())));
        }
        Entry::KeyCreated(key) => fields.push(("key", Value::Text(key.id.to_string().into()))),
        Entry::KeyRevoked { id } => fields.push(("key", Value::Text(id.to_string().into()))),
        Entry::Listed { name } | Entry::Held { name } | Entry::Unlisted { name, .. } => {
            fields.push(("name", Value::Text(name.key().to_owned().into())));
        }
    }
    if let Some(data) = seen.data {
        fields.push(("offset", Value::Number(data.offset.0)));
        fields.push(("record", Value::Number(data.record.0)));
        fields.push(("messages", Value::Number(data.lens.count())));
        fields.push(("len", Value::Number(data.payload_len)));
    }
    Fact { what: "entry", at: 0, fields }
}

/// The name of an entry's kind, as in `docs/format.md`.
fn kind(entry: &Entry) -> &'static str {
    match entry {
        Entry::BucketCreated { .. } => "bucket created",
        Entry::BucketDeleted { .. } => "bucket deleted",
        Entry::Listed { .. } => "listed",
        Entry::Held { .. } => "held",
        Entry::Unlisted { .. } => "unlisted",
        Entry::Created(_) => "created",
        Entry::Appended(_) => "appended",
        Entry::Hidden { .. } => "hidden",
        Entry::Removed { .. } => "removed",
        Entry::ForkAdded { .. } => "fork added",
        Entry::ForkReleased { .. } => "fork released",
        Entry::Published { .. } => "published",
        Entry::Retained { .. } => "retained",
        Entry::Renewed { .. } => "renewed",
        Entry::AttributesSet { .. } => "attributes set",
        Entry::KeyCreated(_) => "key created",
        Entry::KeyRevoked { .. } => "key revoked",
    }
}
