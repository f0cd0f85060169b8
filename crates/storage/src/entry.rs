//! What the engine hands over: entries, and the stream bytes inside them.

use std::sync::Arc;

use bytes::Bytes;
use headwater_core::ids::{Offset, Record, ShardNo, StreamId};

/// One decided change of one shard. Storage keeps `meta` and never looks inside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The shard whose state it changes.
    pub shard: ShardNo,
    /// The change, in the engine's own encoding.
    pub meta: Bytes,
    /// The stream bytes that become readable with it.
    pub data: Option<Data>,
}

/// A run of messages of one stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Data {
    /// The incarnation that the bytes belong to.
    pub stream: StreamId,
    /// The offset of the first byte.
    pub offset: Offset,
    /// The ordinal of the first message.
    pub record: Record,
    /// How long each message is; together as long as `payload`.
    pub lens: Lens,
    /// The messages, back to back; never empty.
    pub payload: Bytes,
}

/// The lengths of consecutive messages, each at least 1. One message costs no allocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lens {
    /// A single message.
    One(u32),
    /// Two or more messages (one is fine, too).
    Many(Arc<[u32]>),
}

impl Lens {
    /// The lengths in order.
    pub fn as_slice(&self) -> &[u32] {
        match self {
            Self::One(len) => std::slice::from_ref(len),
            Self::Many(lens) => lens,
        }
    }

    /// How many messages there are.
    pub fn count(&self) -> u64 {
        self.as_slice().len() as u64
    }

    /// All lengths together.
    pub fn total(&self) -> u64 {
        self.as_slice().iter().map(|len| u64::from(*len)).sum()
    }
}

impl FromIterator<u32> for Lens {
    fn from_iter<I: IntoIterator<Item = u32>>(lens: I) -> Self {
        let mut lens = lens.into_iter();
        match (lens.next(), lens.next()) {
            (Some(only), None) => Self::One(only),
            (first, second) => Self::Many(first.into_iter().chain(second).chain(lens).collect()),
        }
    }
}

/// What recovery tells about the data of an entry: everything but the bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataHead {
    /// The incarnation that the bytes belong to.
    pub stream: StreamId,
    /// The offset of the first byte.
    pub offset: Offset,
    /// The ordinal of the first message.
    pub record: Record,
    /// How long each message is.
    pub lens: Lens,
    /// How many bytes there are.
    pub payload_len: u64,
}
