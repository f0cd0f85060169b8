//! Groups and entries as bytes, and the head of an entry's data, which can be read and verified
//! without the rest of its frame.

use std::sync::Arc;

use headwater_core::ids::{Offset, Record, ShardNo, StreamId};

use super::footer;
use super::frame;
use crate::codec::{self, Cursor, VARINT_MAX, put_varint, varint_len};
use crate::entry::{Data, DataHead, Entry, Lens};

/// The flag of an entry that carries data.
const HAS_DATA: u8 = 1;

/// The bytes of one group, at most: positions inside a log file have 32 bits.
pub const GROUP_BYTES_MAX: u64 = 1 << 30;

/// The room in the log that a group takes at most, including its frame's header and its share of
/// the file's footer: what to ask of [`crate::Store::reserve`].
pub fn group_bytes(entries: &[Entry]) -> u64 {
    let Size { body, footer } = measure(entries);
    frame::HEADER_BYTES + body + footer
}

/// An upper bound of [`group_bytes`] for one entry, before its bytes exist. The room for a group of
/// several entries is at most the sum of theirs. No data: `messages` and `payload_len` are 0.
pub fn room_for(meta_len: u64, messages: u64, payload_len: u64) -> u64 {
    let entry = 2 + VARINT_MAX + meta_len;
    if messages == 0 {
        return frame::HEADER_BYTES + VARINT_MAX + entry;
    }
    let numbers = 8 + 5 * VARINT_MAX;
    // A length below 128 takes one byte, and no length takes more than 1 + itself / 128.
    let lens = messages.saturating_add(payload_len / 128).min(messages.saturating_mul(5));
    let crcs = 4 * (codec::chunk_count(payload_len) + 1);
    let data = numbers + lens + crcs + payload_len + footer_share(1);
    frame::HEADER_BYTES + VARINT_MAX + entry + data
}

/// The room that a group takes in a frame and, at most, in a footer.
pub(crate) struct Size {
    pub(crate) body: u64,
    pub(crate) footer: u64,
}

/// Measures a group, exactly.
pub(crate) fn measure(entries: &[Entry]) -> Size {
    let body = varint_len(entries.len() as u64) + entries.iter().map(entry_len).sum::<u64>();
    let data = entries.iter().filter(|entry| entry.data.is_some()).count() as u64;
    Size { body, footer: footer_share(data) }
}

/// Stops a caller that breaks its promises before anything is changed.
///
/// # Panics
/// See [`crate::Store::enqueue`].
pub(crate) fn check(entries: &[Entry]) {
    assert!(!entries.is_empty(), "a group has at least one entry");
    for data in entries.iter().filter_map(|entry| entry.data.as_ref()) {
        let lens = data.lens.as_slice();
        assert!(!data.payload.is_empty(), "an entry without bytes has no data");
        assert!(lens.iter().all(|len| *len > 0), "a message has at least one byte");
        assert_eq!(data.lens.total(), data.payload.len() as u64, "the lengths cover the payload");
        let end = data.offset.0.checked_add(data.payload.len() as u64);
        assert!(end.is_some(), "a stream never reaches 2^64 bytes");
    }
}

/// The room in a file's footer that `data` entries with data take at most.
fn footer_share(data: u64) -> u64 {
    data * (footer::ITEM_BYTES + footer::TABLE_ENTRY_BYTES)
}

fn entry_len(entry: &Entry) -> u64 {
    let meta_len = entry.meta.len() as u64;
    2 + varint_len(meta_len) + meta_len + entry.data.as_ref().map_or(0, data_len)
}

fn data_len(data: &Data) -> u64 {
    let payload_len = data.payload.len() as u64;
    let lens = match data.lens.as_slice() {
        [_only] => 0,
        lens => {
            let lens_len = lens.iter().map(|len| varint_len(u64::from(*len))).sum();
            varint_len(lens_len) + lens_len
        }
    };
    let numbers = 8
        + varint_len(data.offset.0)
        + varint_len(data.record.0)
        + varint_len(payload_len)
        + varint_len(data.lens.count());
    numbers + lens + 4 * (codec::chunk_count(payload_len) + 1) + payload_len
}

/// The data of one entry, as the index of its file will know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Placed {
    pub(crate) stream: StreamId,
    pub(crate) offset: Offset,
    pub(crate) record: Record,
    /// Bytes of the payload.
    pub(crate) payload_len: u32,
    /// Number of messages.
    pub(crate) count: u32,
    /// Where the data head starts: in the frame while encoding, in the file once indexed.
    pub(crate) position: u32,
    /// Head and payload together.
    pub(crate) len: u32,
}

/// Appends a group to `out` and tells where the data of its entries went.
pub(crate) fn encode(entries: &[Entry], out: &mut Vec<u8>, placed: &mut Vec<Placed>) {
    put_varint(out, entries.len() as u64);
    for entry in entries {
        out.extend_from_slice(&[entry.shard.0, u8::from(entry.data.is_some()) * HAS_DATA]);
        put_varint(out, entry.meta.len() as u64);
        out.extend_from_slice(&entry.meta);
        if let Some(data) = &entry.data {
            placed.push(encode_data(data, out));
        }
    }
}

fn encode_data(data: &Data, out: &mut Vec<u8>) -> Placed {
    let start = out.len();
    let lens = data.lens.as_slice();
    let payload_len = u32::try_from(data.payload.len()).expect("a group is below GROUP_BYTES_MAX");
    let place = (data.stream, data.offset, data.record);
    put_head(out, place, payload_len, lens, codec::chunk_crcs(&data.payload));
    out.extend_from_slice(&data.payload);
    let narrow = |value: usize| u32::try_from(value).expect("a group is below GROUP_BYTES_MAX");
    Placed {
        stream: data.stream,
        offset: data.offset,
        record: data.record,
        payload_len,
        count: narrow(lens.len()),
        position: narrow(start),
        len: narrow(out.len() - start),
    }
}

/// Appends the head of a payload: whose it is, where its messages end, and its checksums, one per
/// chunk.
pub(crate) fn put_head(
    out: &mut Vec<u8>,
    (stream, offset, record): (StreamId, Offset, Record),
    payload_len: u32,
    lens: &[u32],
    crcs: impl Iterator<Item = u32>,
) {
    let start = out.len();
    out.extend_from_slice(&stream.0.to_le_bytes());
    put_varint(out, offset.0);
    put_varint(out, record.0);
    put_varint(out, u64::from(payload_len));
    put_varint(out, lens.len() as u64);
    if lens.len() > 1 {
        put_varint(out, lens.iter().map(|len| varint_len(u64::from(*len))).sum());
        for len in lens {
            put_varint(out, u64::from(*len));
        }
    }
    for crc in crcs {
        out.extend_from_slice(&crc.to_le_bytes());
    }
    let head_crc = crc32c::crc32c(&out[start..]);
    out.extend_from_slice(&head_crc.to_le_bytes());
}

/// The head of an entry's data, verified by its own checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head<'a> {
    pub(crate) stream: StreamId,
    pub(crate) offset: Offset,
    pub(crate) record: Record,
    pub(crate) payload_len: u32,
    pub(crate) count: u32,
    /// The encoded lengths; empty for a single message.
    pub(crate) lens: &'a [u8],
    /// One checksum per chunk of the payload.
    pub(crate) crcs: &'a [u8],
    /// Bytes of the head itself.
    pub(crate) len: usize,
}

/// The bytes that hold every number of a head in front of its message lengths.
pub(crate) const HEAD_PREFIX_MAX: usize = 8 + 5 * 10;

/// What a head says in front of its message lengths; nothing is verified.
struct Numbers {
    stream: StreamId,
    offset: Offset,
    record: Record,
    payload_len: u32,
    count: u32,
    /// Where the message lengths are, and the checksums behind them.
    lens_at: usize,
    crcs_at: usize,
    /// Bytes of the whole head.
    len: usize,
}

impl Numbers {
    fn read(bytes: &[u8]) -> Option<Self> {
        let mut cursor = Cursor::new(bytes);
        let stream = StreamId(cursor.u64()?);
        let offset = Offset(cursor.varint()?);
        let record = Record(cursor.varint()?);
        let payload_len = cursor.varint_u32()?;
        let count = cursor.varint_u32()?;
        let lens_len = if count > 1 { cursor.varint_u32()? } else { 0 };
        let lens_at = cursor.position();
        let crcs_at = lens_at.checked_add(usize::try_from(lens_len).ok()?)?;
        let crcs = 4 * (codec::chunk_count(u64::from(payload_len)) + 1);
        let len = crcs_at.checked_add(usize::try_from(crcs).ok()?)?;
        Some(Self { stream, offset, record, payload_len, count, lens_at, crcs_at, len })
    }
}

impl<'a> Head<'a> {
    /// How long the head at the start of `bytes` is, of which [`HEAD_PREFIX_MAX`] bytes (or all
    /// there are) must be present. Nothing is verified yet.
    pub(crate) fn peek_len(bytes: &[u8]) -> Option<usize> {
        Some(Numbers::read(bytes)?.len)
    }

    /// The head at the start of `bytes`, or `None` when it is not intact.
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let numbers = Numbers::read(bytes)?;
        let intact = codec::check_crc(bytes.get(..numbers.len)?)?;
        let Numbers { stream, offset, record, payload_len, count, lens_at, crcs_at, len } = numbers;
        let (lens, crcs) = (&intact[lens_at..crcs_at], &intact[crcs_at..]);
        let sane = count > 0
            && payload_len >= count
            && offset.0.checked_add(u64::from(payload_len)).is_some()
            && record.0.checked_add(u64::from(count)).is_some();
        sane.then_some(Self { stream, offset, record, payload_len, count, lens, crcs, len })
    }

    /// The message lengths, or `None` when they do not add up to the payload.
    pub(crate) fn lens(&self) -> Option<Lens> {
        if self.count == 1 {
            return Some(Lens::One(self.payload_len));
        }
        let mut cursor = Cursor::new(self.lens);
        let mut total = 0u64;
        // Each length takes at least a byte, which bounds the allocation by the input.
        let mut lens = Vec::with_capacity(self.lens.len().min(self.count as usize));
        for _ in 0..self.count {
            let len = cursor.varint_u32().filter(|len| *len > 0)?;
            total += u64::from(len);
            lens.push(len);
        }
        let whole = cursor.is_at_end() && total == u64::from(self.payload_len);
        whole.then(|| Lens::Many(Arc::from(lens)))
    }
}

/// An entry found in a frame.
pub(crate) struct Found<'a> {
    pub(crate) shard: ShardNo,
    pub(crate) meta: &'a [u8],
    pub(crate) data: Option<(DataHead, Placed)>,
}

/// Reads the groups of a verified frame. `body` is the frame's body inside `file`, which starts at
/// byte 0 of its file; `visit` gets the number of the group inside the frame and each entry.
/// Returns what is wrong with the first malformed entry.
pub(crate) fn decode(
    file: &[u8],
    body: std::ops::Range<usize>,
    groups: u32,
    visit: &mut dyn FnMut(u32, Found<'_>) -> Result<(), String>,
) -> Result<(), String> {
    let malformed = || "an entry is malformed although its frame is intact".to_owned();
    let mut cursor = Cursor::new(&file[..body.end]);
    cursor.take(body.start).ok_or_else(malformed)?;
    for group in 0..groups {
        let entries = cursor.varint_u32().ok_or_else(malformed)?;
        for _ in 0..entries {
            let found = decode_entry(&mut cursor).ok_or_else(malformed)?;
            visit(group, found)?;
        }
    }
    if cursor.is_at_end() { Ok(()) } else { Err(malformed()) }
}

fn decode_entry<'a>(cursor: &mut Cursor<'a>) -> Option<Found<'a>> {
    let shard = ShardNo(cursor.u8()?);
    let flags = cursor.u8()?;
    let meta_len = cursor.varint()?;
    let meta = cursor.take_long(meta_len)?;
    let data = match flags {
        0 => None,
        HAS_DATA => Some(decode_data(cursor)?),
        _ => return None,
    };
    Some(Found { shard, meta, data })
}

fn decode_data(cursor: &mut Cursor<'_>) -> Option<(DataHead, Placed)> {
    let position = cursor.position();
    let head = Head::parse(cursor.rest())?;
    let len = head.len.checked_add(head.payload_len as usize)?;
    cursor.take(len)?;
    let placed = Placed {
        stream: head.stream,
        offset: head.offset,
        record: head.record,
        payload_len: head.payload_len,
        count: head.count,
        position: u32::try_from(position).ok()?,
        len: u32::try_from(len).ok()?,
    };
    let data = DataHead {
        stream: head.stream,
        offset: head.offset,
        record: head.record,
        lens: head.lens()?,
        payload_len: u64::from(head.payload_len),
    };
    Some((data, placed))
}

#[cfg(test)]
mod tests;
