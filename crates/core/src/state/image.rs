//! The byte form of a whole shard, for checkpoints (`docs/format.md`, Checkpoint images). Soft
//! fields are left out.

use std::sync::Arc;

use bytes::Bytes;

use super::{Bucket, Extra, ProducerState, State, Stream};
use crate::codec::{Damaged, Decoder, Encoder};
use crate::entry::form::{
    put_id, put_key, put_life, put_origin, put_range, put_snapshot, put_stamp, take_attributes,
    take_bucket, take_content, take_counter, take_id, take_key, take_life, take_name, take_origin,
    take_range, take_seq, take_snapshot, take_stamp, take_time,
};
use crate::ids::{Offset, Record, ShardNo};

/// The version of this form, its first byte.
const IMAGE_VERSION: u8 = 2;
/// The version before there were keys, which is read, too.
const IMAGE_VERSION_WITHOUT_KEYS: u8 = 1;

impl State {
    /// The shard as bytes.
    pub fn image(&self) -> Bytes {
        let mut e = Encoder::default();
        e.byte(IMAGE_VERSION).byte(self.shard.0).number(self.next_stream);
        e.list(self.buckets.iter(), |e, (id, bucket)| {
            e.text(id.as_str()).number(bucket.created_at.0).number(bucket.held);
            e.list(bucket.listed.iter(), |e, name| {
                e.text(name.key());
            });
        });
        e.list(self.streams(), put_stream);
        e.list(self.keys.values(), put_key);
        e.finish()
    }

    /// Reads a shard back. Any bytes give a state or [`Damaged`], never a panic.
    pub fn from_image(bytes: &[u8]) -> Result<Self, Damaged> {
        let mut d = Decoder::new(bytes);
        let version = d.byte("image version")?;
        if !matches!(version, IMAGE_VERSION_WITHOUT_KEYS | IMAGE_VERSION) {
            return Err(Damaged { what: "image version" });
        }
        let mut state = Self::new(ShardNo(d.byte("shard")?));
        state.next_stream = take_counter(&mut d)?;
        d.list("buckets", |d| {
            let id = take_bucket(d)?;
            let mut bucket = Bucket { created_at: take_time(d)?, ..Bucket::default() };
            bucket.held = d.number("held streams")?;
            d.list("listed streams", |d| {
                bucket.listed.insert(take_name(d)?);
                Ok(())
            })?;
            state.buckets.insert(id, bucket);
            Ok(())
        })?;
        d.list("streams", |d| {
            state.streams.insert(take_stream(d)?);
            Ok(())
        })?;
        if version != IMAGE_VERSION_WITHOUT_KEYS {
            d.list("keys", |d| {
                let key = take_key(d)?;
                state.keys.insert(key.id, key);
                Ok(())
            })?;
        }
        d.end("image")?;
        Ok(state)
    }
}

fn put_stream(e: &mut Encoder, stream: &Stream) {
    put_id(e, stream.id);
    e.text(stream.name.key()).text(stream.content.as_str());
    e.number(stream.created_at.0).number(stream.written_at.0);
    e.number(stream.tail.0).number(stream.next.0);
    e.number(stream.retained().0).number(stream.first().0);
    e.flag(stream.closed).flag(stream.hidden);
    put_life(e, stream.life());
    e.option(stream.extra.as_deref(), put_extra);
}

fn take_stream(d: &mut Decoder<'_>) -> Result<Stream, Damaged> {
    let (id, name, content) = (take_id(d)?, take_name(d)?, take_content(d)?);
    let mut stream = Stream::new(id, name, content, take_time(d)?);
    stream.written_at = take_time(d)?;
    stream.tail = Offset(d.number("tail")?);
    stream.next = Record(d.number("next record")?);
    let retained = (Offset(d.number("retained offset")?), Record(d.number("first record")?));
    stream.closed = d.flag("closed")?;
    stream.hidden = d.flag("hidden")?;
    stream.live_for(take_life(d)?);
    stream.extra = d.option("extra", take_extra)?.map(Box::new);
    stream.retain(retained);
    Ok(stream)
}

fn put_extra(e: &mut Encoder, extra: &Extra) {
    e.list(extra.producers.iter(), |e, (id, state)| {
        e.text(id).number(state.epoch).number(state.seq).number(state.at.0);
        e.number(state.last.0.0).number(state.last.1.0);
    });
    e.option(extra.stream_seq.as_deref(), |e, seq| {
        e.bytes(seq);
    });
    e.option(extra.closed_by.as_ref(), put_stamp);
    e.option(extra.snapshot.as_deref(), put_snapshot);
    e.option(extra.attributes.as_deref(), |e, json| {
        e.bytes(json);
    });
    e.option(extra.origin.as_ref(), put_origin);
    e.list(extra.forks.iter(), |e, (fork, inherited)| {
        put_id(e, *fork);
        put_range(e, inherited);
    });
}

fn take_extra(d: &mut Decoder<'_>) -> Result<Extra, Damaged> {
    let mut extra = Extra::default();
    d.list("producers", |d| {
        let id = Arc::from(d.text("producer id")?);
        let state = ProducerState {
            epoch: d.number("producer epoch")?,
            seq: d.number("producer seq")?,
            at: take_time(d)?,
            last: (Record(d.number("batch start")?), Record(d.number("batch end")?)),
        };
        extra.producers.insert(id, state);
        Ok(())
    })?;
    extra.stream_seq = take_seq(d)?;
    extra.closed_by = d.option("closing producer", take_stamp)?;
    extra.snapshot = d.option("snapshot", take_snapshot)?.map(Arc::new);
    extra.attributes = take_attributes(d)?;
    extra.origin = d.option("origin", take_origin)?;
    d.list("forks", |d| {
        extra.forks.insert(take_id(d)?, take_range(d)?);
        Ok(())
    })?;
    Ok(extra)
}
