//! The byte form of an entry, as it stands in the log (`docs/format.md`, Entries). One byte names
//! the kind; kinds are never reused. The form of a stream's parts is shared with checkpoint images.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use super::Entry;
use crate::access::{Key, KeyHash, KeyId, Scope, Scopes};
use crate::codec::{Damaged, Decoder, Encoder};
use crate::content::ContentType;
use crate::ids::{
    BlobId, BucketId, Lineage, Offset, Record, ShardNo, StreamId, StreamName, Timestamp,
};
use crate::moment::{ExpiresAt, Ttl};
use crate::state::{Digest, Life, Origin, ProducerStamp, Snapshot};
use crate::stream::append::Appended;
use crate::stream::create::Created;
use crate::stream::fork::FORK_DEPTH_MAX;

const BUCKET_CREATED: u8 = 1;
const BUCKET_DELETED: u8 = 2;
const LISTED: u8 = 3;
const HELD: u8 = 4;
const UNLISTED: u8 = 5;
const CREATED: u8 = 6;
const APPENDED: u8 = 7;
const HIDDEN: u8 = 8;
const REMOVED: u8 = 9;
const FORK_ADDED: u8 = 10;
const FORK_RELEASED: u8 = 11;
const PUBLISHED: u8 = 12;
const RETAINED: u8 = 13;
const RENEWED: u8 = 14;
const ATTRIBUTES_SET: u8 = 15;
const KEY_CREATED: u8 = 16;
const KEY_REVOKED: u8 = 17;

impl Entry {
    /// The entry as bytes.
    pub fn encode(&self) -> Bytes {
        let mut e = Encoder::default();
        match self {
            Self::BucketCreated { bucket, at } => {
                e.byte(BUCKET_CREATED).text(bucket.as_str()).number(at.0);
            }
            Self::BucketDeleted { bucket } => {
                e.byte(BUCKET_DELETED).text(bucket.as_str());
            }
            Self::Listed { name } => {
                e.byte(LISTED).text(name.key());
            }
            Self::Held { name } => {
                e.byte(HELD).text(name.key());
            }
            Self::Unlisted { name, held } => {
                e.byte(UNLISTED).text(name.key()).flag(*held);
            }
            Self::Created(created) => {
                e.byte(CREATED);
                put_created(&mut e, created);
            }
            Self::Appended(appended) => {
                e.byte(APPENDED);
                put_appended(&mut e, appended);
            }
            Self::Hidden { id } => put_id(e.byte(HIDDEN), *id),
            Self::Removed { id } => put_id(e.byte(REMOVED), *id),
            Self::ForkAdded { source, fork, inherited } => {
                put_id(e.byte(FORK_ADDED), *source);
                put_id(&mut e, *fork);
                put_range(&mut e, inherited);
            }
            Self::ForkReleased { source, fork } => {
                put_id(e.byte(FORK_RELEASED), *source);
                put_id(&mut e, *fork);
            }
            Self::Published { id, snapshot, retain, at } => {
                put_id(e.byte(PUBLISHED), *id);
                put_snapshot(&mut e, snapshot);
                e.flag(*retain).number(at.0);
            }
            Self::Retained { id, offset, record, at } => {
                put_id(e.byte(RETAINED), *id);
                e.number(offset.0).number(record.0).number(at.0);
            }
            Self::Renewed { id, at } => {
                put_id(e.byte(RENEWED), *id);
                e.number(at.0);
            }
            Self::AttributesSet { id, json, at } => {
                put_id(e.byte(ATTRIBUTES_SET), *id);
                e.option(json.as_deref(), |e, json| {
                    e.bytes(json);
                });
                e.number(at.0);
            }
            Self::KeyCreated(key) => {
                e.byte(KEY_CREATED);
                put_key(&mut e, key);
            }
            Self::KeyRevoked { id } => {
                e.byte(KEY_REVOKED).number(id.0);
            }
        }
        e.finish()
    }

    /// Reads an entry back. Any bytes give an entry or [`Damaged`], never a panic.
    pub fn decode(bytes: &[u8]) -> Result<Self, Damaged> {
        let mut d = Decoder::new(bytes);
        let entry = match d.byte("entry kind")? {
            BUCKET_CREATED => {
                Self::BucketCreated { bucket: take_bucket(&mut d)?, at: take_time(&mut d)? }
            }
            BUCKET_DELETED => Self::BucketDeleted { bucket: take_bucket(&mut d)? },
            LISTED => Self::Listed { name: take_name(&mut d)? },
            HELD => Self::Held { name: take_name(&mut d)? },
            UNLISTED => Self::Unlisted { name: take_name(&mut d)?, held: d.flag("held")? },
            CREATED => Self::Created(Box::new(take_created(&mut d)?)),
            APPENDED => Self::Appended(take_appended(&mut d)?),
            HIDDEN => Self::Hidden { id: take_id(&mut d)? },
            REMOVED => Self::Removed { id: take_id(&mut d)? },
            FORK_ADDED => Self::ForkAdded {
                source: take_id(&mut d)?,
                fork: take_id(&mut d)?,
                inherited: take_range(&mut d)?,
            },
            FORK_RELEASED => {
                Self::ForkReleased { source: take_id(&mut d)?, fork: take_id(&mut d)? }
            }
            PUBLISHED => Self::Published {
                id: take_id(&mut d)?,
                snapshot: Box::new(take_snapshot(&mut d)?),
                retain: d.flag("retain")?,
                at: take_time(&mut d)?,
            },
            RETAINED => Self::Retained {
                id: take_id(&mut d)?,
                offset: Offset(d.number("retained offset")?),
                record: Record(d.number("retained record")?),
                at: take_time(&mut d)?,
            },
            RENEWED => Self::Renewed { id: take_id(&mut d)?, at: take_time(&mut d)? },
            ATTRIBUTES_SET => Self::AttributesSet {
                id: take_id(&mut d)?,
                json: take_attributes(&mut d)?,
                at: take_time(&mut d)?,
            },
            KEY_CREATED => Self::KeyCreated(Box::new(take_key(&mut d)?)),
            KEY_REVOKED => Self::KeyRevoked { id: KeyId(d.number("key id")?) },
            _ => return Err(Damaged { what: "entry kind" }),
        };
        d.end("entry")?;
        Ok(entry)
    }
}

fn put_created(e: &mut Encoder, created: &Created) {
    put_id(e, created.id);
    e.text(created.name.key()).text(created.content.as_str()).number(created.at.0);
    put_life(e, &created.life);
    e.flag(created.closed);
    e.option(created.attributes.as_deref(), |e, json| {
        e.bytes(json);
    });
    e.number(created.start.0.0).number(created.start.1.0);
    e.number(created.retained.0.0).number(created.retained.1.0);
    e.number(created.bytes).number(created.count);
    e.option(created.origin.as_ref(), put_origin);
    e.option(created.snapshot.as_deref(), put_snapshot);
}

fn take_created(d: &mut Decoder<'_>) -> Result<Created, Damaged> {
    let created = Created {
        id: take_id(d)?,
        name: take_name(d)?,
        content: take_content(d)?,
        at: take_time(d)?,
        life: take_life(d)?,
        closed: d.flag("closed")?,
        attributes: take_attributes(d)?,
        start: (Offset(d.number("start offset")?), Record(d.number("start record")?)),
        retained: (Offset(d.number("retained offset")?), Record(d.number("retained record")?)),
        bytes: d.number("byte count")?,
        count: d.number("message count")?,
        origin: d.option("origin", take_origin)?,
        snapshot: d.option("snapshot", take_snapshot)?.map(Box::new),
    };
    let ((offset, record), (bytes, count)) = (created.start, (created.bytes, created.count));
    if offset.0.checked_add(bytes).is_none() || record.0.checked_add(count).is_none() {
        return Err(Damaged { what: "first content" });
    }
    Ok(created)
}

fn put_appended(e: &mut Encoder, appended: &Appended) {
    put_id(e, appended.id);
    e.number(appended.at.0).number(appended.bytes).number(appended.count);
    e.option(appended.producer.as_ref(), put_stamp);
    e.option(appended.evicted.as_deref(), |e, id| {
        e.text(id);
    });
    e.option(appended.stream_seq.as_deref(), |e, seq| {
        e.bytes(seq);
    });
    e.flag(appended.close);
}

fn take_appended(d: &mut Decoder<'_>) -> Result<Appended, Damaged> {
    Ok(Appended {
        id: take_id(d)?,
        at: take_time(d)?,
        bytes: d.number("byte count")?,
        count: d.number("message count")?,
        producer: d.option("producer", take_stamp)?,
        evicted: d.option("evicted producer", |d| d.text("producer id").map(Arc::from))?,
        stream_seq: take_seq(d)?,
        close: d.flag("close")?,
    })
}

pub(crate) fn put_key(e: &mut Encoder, key: &Key) {
    e.number(key.id.0).raw(&key.hash.0).text(&key.label).number(key.created_at.0);
    e.option(key.expires_at, |e, at| {
        e.number(at.0);
    });
    e.list(key.scopes.iter(), |e, scope| {
        e.text(&scope.to_string());
    });
}

pub(crate) fn take_key(d: &mut Decoder<'_>) -> Result<Key, Damaged> {
    let id = KeyId(d.number("key id")?);
    let hash = KeyHash(take_array(d, "key hash")?);
    let label = d.text("key label")?.to_owned();
    let created_at = take_time(d)?;
    let expires_at = d.option("key expiry", take_time)?;
    let mut scopes = Vec::new();
    d.list("scopes", |d| {
        let scope = Scope::parse(d.text("scope")?);
        scopes.push(scope.map_err(|_bad| Damaged { what: "scope" })?);
        Ok(())
    })?;
    let scopes = Scopes::new(scopes).map_err(|_bad| Damaged { what: "scopes" })?;
    Ok(Key { id, hash, label, scopes, created_at, expires_at })
}

pub(crate) fn put_id(e: &mut Encoder, id: StreamId) {
    // Two numbers: the counter of a shard is small, the shard's place in the id is not.
    e.byte(id.shard().0).number(id.counter());
}

pub(crate) fn take_id(d: &mut Decoder<'_>) -> Result<StreamId, Damaged> {
    Ok(StreamId::new(ShardNo(d.byte("shard")?), take_counter(d)?))
}

pub(crate) fn take_counter(d: &mut Decoder<'_>) -> Result<u64, Damaged> {
    let counter = d.number("stream counter")?;
    if counter <= StreamId::COUNTER_MAX {
        Ok(counter)
    } else {
        Err(Damaged { what: "stream counter" })
    }
}

pub(crate) fn put_range(e: &mut Encoder, range: &Range<Offset>) {
    e.number(range.start.0).number(range.end.0);
}

pub(crate) fn take_range(d: &mut Decoder<'_>) -> Result<Range<Offset>, Damaged> {
    Ok(Offset(d.number("range start")?)..Offset(d.number("range end")?))
}

pub(crate) fn take_name(d: &mut Decoder<'_>) -> Result<StreamName, Damaged> {
    StreamName::from_stored(d.text("stream name")?).ok_or(Damaged { what: "stream name" })
}

pub(crate) fn take_bucket(d: &mut Decoder<'_>) -> Result<BucketId, Damaged> {
    match d.text("bucket id")? {
        "" => Ok(BucketId::base()),
        text => BucketId::parse(text).map_err(|_invalid| Damaged { what: "bucket id" }),
    }
}

pub(crate) fn take_time(d: &mut Decoder<'_>) -> Result<Timestamp, Damaged> {
    d.number("time").map(Timestamp)
}

pub(crate) fn take_content(d: &mut Decoder<'_>) -> Result<ContentType, Damaged> {
    ContentType::parse(d.text("content type")?).map_err(|_invalid| Damaged { what: "content type" })
}

pub(crate) fn take_attributes(d: &mut Decoder<'_>) -> Result<Option<Bytes>, Damaged> {
    d.option("attributes", |d| d.bytes("attributes").map(Bytes::copy_from_slice))
}

pub(crate) fn take_seq(d: &mut Decoder<'_>) -> Result<Option<Bytes>, Damaged> {
    d.option("stream seq", |d| d.bytes("stream seq").map(Bytes::copy_from_slice))
}

pub(crate) fn put_stamp(e: &mut Encoder, stamp: &ProducerStamp) {
    e.text(&stamp.id).number(stamp.epoch).number(stamp.seq);
}

pub(crate) fn take_stamp(d: &mut Decoder<'_>) -> Result<ProducerStamp, Damaged> {
    Ok(ProducerStamp {
        id: d.text("producer id")?.into(),
        epoch: d.number("producer epoch")?,
        seq: d.number("producer seq")?,
    })
}

pub(crate) fn put_life(e: &mut Encoder, life: &Life) {
    match life {
        Life::Endless => {
            e.byte(0);
        }
        Life::Ttl { window, renewed_at, inherited, grace: _ } => {
            e.byte(1).number(window.seconds()).number(renewed_at.0).flag(*inherited);
        }
        Life::Until { at, inherited } => {
            e.byte(2).text(at.as_str()).flag(*inherited);
        }
    }
}

pub(crate) fn take_life(d: &mut Decoder<'_>) -> Result<Life, Damaged> {
    match d.byte("lifetime")? {
        0 => Ok(Life::Endless),
        1 => {
            let window = Ttl::from_seconds(d.number("ttl")?).ok_or(Damaged { what: "ttl" })?;
            Ok(Life::ttl(window, take_time(d)?, d.flag("inherited")?))
        }
        2 => Ok(Life::Until {
            at: ExpiresAt::parse(d.text("expiry")?)
                .map_err(|_invalid| Damaged { what: "expiry" })?,
            inherited: d.flag("inherited")?,
        }),
        _ => Err(Damaged { what: "lifetime" }),
    }
}

pub(crate) fn put_origin(e: &mut Encoder, origin: &Origin) {
    e.text(origin.source.key());
    put_id(e, origin.source_id);
    e.number(origin.anchor.0).number(origin.sub_offset);
    let links: Vec<_> =
        std::iter::successors(origin.lineage.as_ref(), |l| l.parent.as_ref()).collect();
    e.list(links.into_iter(), |e, link| {
        put_id(e, link.stream);
        e.number(link.end.0);
    });
}

pub(crate) fn take_origin(d: &mut Decoder<'_>) -> Result<Origin, Damaged> {
    let source = take_name(d)?;
    let source_id = take_id(d)?;
    let (anchor, sub_offset) = (Offset(d.number("anchor")?), d.number("sub-offset")?);
    let mut links = Vec::new();
    d.list("lineage", |d| {
        // A longer chain never was written, and letting go of one could overflow the stack.
        if links.len() == FORK_DEPTH_MAX {
            return Err(Damaged { what: "lineage" });
        }
        links.push((take_id(d)?, Offset(d.number("lineage end")?)));
        Ok(())
    })?;
    let lineage = links
        .into_iter()
        .rev()
        .fold(None, |parent, (stream, end)| Some(Arc::new(Lineage { stream, end, parent })));
    Ok(Origin { source, source_id, anchor, sub_offset, lineage })
}

pub(crate) fn put_snapshot(e: &mut Encoder, snapshot: &Snapshot) {
    e.number(snapshot.offset.0).number(snapshot.record.0).raw(&snapshot.digest.0);
    e.text(snapshot.content.as_str()).raw(&snapshot.blob.0.to_le_bytes()).number(snapshot.len);
}

pub(crate) fn take_snapshot(d: &mut Decoder<'_>) -> Result<Snapshot, Damaged> {
    Ok(Snapshot {
        offset: Offset(d.number("snapshot offset")?),
        record: Record(d.number("snapshot record")?),
        digest: Digest(take_array(d, "snapshot digest")?),
        content: take_content(d)?,
        blob: BlobId(u128::from_le_bytes(take_array(d, "blob id")?)),
        len: d.number("snapshot length")?,
    })
}

fn take_array<const N: usize>(d: &mut Decoder<'_>, what: &'static str) -> Result<[u8; N], Damaged> {
    d.raw(N, what)?.try_into().map_err(|_wrong_length| Damaged { what })
}
