//! Reading: where messages begin and end, and the bytes of a range.
//!
//! Bytes from the ring are served as they are; bytes from a file are verified first, each entry by
//! its own checksums, and nothing that does not match goes out.

mod shelf;
mod walk;

use std::ops::Deref;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use headwater_core::ids::{Lineage, Offset, Record, StreamId};

use crate::codec::{CHUNK_BYTES, chunk_crcs};
use crate::error::{Error, Result};
use crate::location::{Key, Limit, Spot};
use crate::log::file::{self, FileNo};
use crate::log::group::Head;
use crate::pins::Pin;
pub use shelf::Extent;
pub(crate) use shelf::Shelf;
use shelf::{Piece, pieces};
use walk::Walk;

/// One read from a file, and the largest chunk that is not from memory.
const WINDOW_BYTES: u64 = 256 << 10;
/// Neighbouring entries of a stream are read together unless more than this lies between.
const GAP_BYTES_MAX: u64 = 16 << 10;
/// Entries in memory that are at most this long are copied together up to so many bytes.
const SMALL_BYTES: u32 = 4 << 10;
const JOINED_BYTES_MAX: usize = 64 << 10;
/// Entries that are looked up at a time: few at first, since most reads are short.
const SPOTS_MIN: usize = 16;
const SPOTS_MAX: usize = 256;

/// Some bytes of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// The offset of the first byte.
    pub offset: Offset,
    /// The ordinal of the message that the first byte belongs to.
    pub record: Record,
    /// The bytes; never empty.
    pub bytes: Bytes,
    /// The positions in `bytes` (exclusive) at which a message ends.
    pub ends: Ends,
}

/// Where messages end in a chunk, in ascending order; used as a slice. A chunk that is one message
/// costs no allocation.
#[derive(Debug, Clone)]
pub enum Ends {
    /// One message ends in it.
    One(u32),
    /// None does, or several do.
    Many(Vec<u32>),
}

impl Deref for Ends {
    type Target = [u32];

    fn deref(&self) -> &[u32] {
        match self {
            Self::One(end) => std::slice::from_ref(end),
            Self::Many(ends) => ends,
        }
    }
}

impl PartialEq for Ends {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Ends {}

/// The bytes of a range of a stream, piece by piece. While it lives, no log file that it may need
/// is removed.
pub struct Reader {
    shelf: Arc<Shelf>,
    _pin: Pin,
    /// What is left to read, the next piece last.
    pieces: Vec<Piece>,
    /// The files of the next piece that are left to read, the next one last.
    path: Vec<FileNo>,
    /// Entries that were looked up, the next one last.
    spots: Vec<Spot>,
    /// How many entries are looked up next time.
    lookahead: usize,
    /// A large entry that is read in parts.
    open: Option<OpenEntry>,
}

struct OpenEntry {
    spot: Spot,
    walk: Walk,
    /// The ordinal of the message that `walk` is in.
    record: Record,
    /// Where that message ends, from the start of the payload.
    message_end: u64,
    crcs: Bytes,
    /// Where the payload starts in the file.
    payload_at: u64,
}

impl Reader {
    pub(crate) fn new(
        shelf: Arc<Shelf>,
        pin: Pin,
        stream: StreamId,
        lineage: Option<&Lineage>,
        [from, to]: [Offset; 2],
    ) -> Self {
        let cut =
            |piece: Piece| Piece { from: piece.from.max(from), to: piece.to.min(to), ..piece };
        let pieces = pieces(stream, lineage).map(cut).filter(|piece| piece.from < piece.to);
        let pieces = pieces.collect();
        let (path, spots) = (Vec::new(), Vec::new());
        Self { shelf, _pin: pin, pieces, path, spots, lookahead: SPOTS_MIN, open: None }
    }

    /// The next bytes, or nothing at the end of the range.
    ///
    /// # Errors
    /// `Corrupt` when stored bytes are not what was written, `Io` when they cannot be read. The
    /// next call tries the same bytes again.
    #[expect(clippy::should_implement_trait, reason = "a failed call does not end the range")]
    pub fn next(&mut self) -> Result<Option<Chunk>> {
        let Some(piece) = self.pieces.last().copied() else { return Ok(None) };
        let chunk = match self.open.take() {
            Some(open) => self.continue_entry(open, piece),
            None => self.next_entry(piece),
        };
        let end = chunk.as_ref().map(|chunk| chunk.offset.plus(chunk.bytes.len() as u64));
        match (end, self.pieces.last_mut()) {
            (Ok(end), Some(piece)) if end < piece.to => piece.from = end,
            (ended, _) => {
                if ended.is_ok() {
                    self.pieces.pop();
                }
                (self.path, self.spots, self.open) = (Vec::new(), Vec::new(), None);
            }
        }
        chunk.map(Some)
    }

    /// Whether `next` will be served from memory.
    pub fn is_hot(&self) -> bool {
        let Some(piece) = self.pieces.last() else { return true };
        if self.open.is_some() {
            return false;
        }
        let warm = || self.shelf.location.find_warm(piece.stream, Key::Byte(piece.from));
        let spot = self.spots.last().copied().or_else(warm);
        spot.is_some_and(|spot| self.shelf.ring.holds(spot.file_no, spot.position))
    }

    fn next_entry(&mut self, piece: Piece) -> Result<Chunk> {
        let spot = self.next_spot(piece)?;
        if let Some(bytes) = self.shelf.ring.get(spot.file_no, spot.position, spot.len) {
            let chunk = entry_chunk(&spot, &bytes, piece, Trust::Memory)?;
            return self.join_small(spot, chunk, piece);
        }
        if u64::from(spot.len) > WINDOW_BYTES {
            let open = self.open_entry(spot)?;
            return self.continue_entry(open, piece);
        }
        self.read_window(spot, piece)
    }

    /// The entry at the start of `piece`.
    fn next_spot(&mut self, piece: Piece) -> Result<Spot> {
        let key = Key::Byte(piece.from);
        let holds = |spot: &Spot| spot.offset <= piece.from && piece.from < spot.end;
        while self.spots.is_empty() {
            let fresh = self.path.is_empty();
            if fresh {
                self.path = self.shelf.location.path(piece.stream, key)?;
            }
            let no = self.path.pop().ok_or_else(|| nowhere(piece.stream, piece.from))?;
            let limit = Limit { to: piece.to, count: self.lookahead };
            let mut spots = self.shelf.location.spots(piece.stream, no, key, limit)?;
            if spots.first().is_some_and(holds) {
                if spots.len() == limit.count {
                    // There may be more in this file.
                    self.path.push(no);
                    self.lookahead = (self.lookahead * 2).min(SPOTS_MAX);
                }
                spots.reverse();
                self.spots = spots;
            } else if fresh {
                return Err(nowhere(piece.stream, piece.from));
            }
        }
        let spot = self.spots.pop().filter(holds);
        spot.ok_or_else(|| nowhere(piece.stream, piece.from))
    }

    /// Adds the small entries behind `first` that are in memory, too: below a few KiB a copy costs
    /// less than handing out one more chunk.
    fn join_small(&mut self, first: Spot, chunk: Chunk, piece: Piece) -> Result<Chunk> {
        let is_small = |spot: &Spot| spot.len <= SMALL_BYTES && spot.offset < piece.to;
        if !is_small(&first) || !self.spots.last().is_some_and(is_small) {
            return Ok(chunk);
        }
        let mut len = chunk.bytes.len();
        let mut chunks = vec![chunk];
        while let Some(next) = self.spots.last().copied().filter(is_small) {
            let bytes = self.shelf.ring.get(next.file_no, next.position, next.len);
            let Some(bytes) = bytes.filter(|_| len < JOINED_BYTES_MAX) else { break };
            chunks.push(entry_chunk(&next, &bytes, piece, Trust::Memory)?);
            len += bytes.len();
            self.spots.pop();
        }
        Ok(join(chunks))
    }

    /// Reads `first` and the entries close behind it with one read from the file.
    fn read_window(&mut self, first: Spot, piece: Piece) -> Result<Chunk> {
        let start = u64::from(first.position);
        let mut end = start + u64::from(first.len);
        let mut window = vec![first];
        while let Some(next) = self.spots.last().copied() {
            let next_end = u64::from(next.position) + u64::from(next.len);
            let gap = u64::from(next.position).checked_sub(end);
            let close = gap.is_some_and(|gap| gap <= GAP_BYTES_MAX);
            let here = close && next.file_no == first.file_no && next.offset < piece.to;
            if !here || next_end > start + WINDOW_BYTES {
                break;
            }
            end = next_end;
            window.push(next);
            self.spots.pop();
        }
        let len = usize::try_from(end - start).expect("a window is small");
        let bytes = Bytes::from(self.shelf.location.read(first.file_no, start, len)?);
        let mut chunks = Vec::with_capacity(window.len());
        for spot in &window {
            let at = (spot.position - first.position) as usize;
            let bytes = bytes.slice(at..at + spot.len as usize);
            chunks.push(entry_chunk(spot, &bytes, piece, Trust::Disk)?);
        }
        Ok(join(chunks))
    }

    fn open_entry(&self, spot: Spot) -> Result<OpenEntry> {
        let bytes = Bytes::from(self.shelf.read_head(&spot)?);
        let head = parse_head(&spot, &bytes)?;
        let mut walk = Walk::new(&head, &bytes);
        let message_end = walk.next_end().unwrap_or(0);
        let crcs = bytes.slice_ref(head.crcs);
        let payload_at = u64::from(spot.position) + head.len as u64;
        Ok(OpenEntry { record: spot.record, spot, walk, message_end, crcs, payload_at })
    }

    /// The next part of a large entry: whole checksummed pieces are read, and what was asked for
    /// is cut out of them.
    fn continue_entry(&mut self, mut open: OpenEntry, piece: Piece) -> Result<Chunk> {
        let spot = open.spot;
        let chunk = CHUNK_BYTES as u64;
        let start = between(spot.offset, piece.from);
        let aligned = start / chunk * chunk;
        let wanted = between(spot.offset, piece.to.min(spot.end));
        let end = (aligned + WINDOW_BYTES).min(wanted);
        let aligned_end = end.next_multiple_of(chunk).min(between(spot.offset, spot.end));
        let small = |value| usize::try_from(value).expect("a window is small");
        let len = small(aligned_end - aligned);
        let at = open.payload_at + aligned;
        let bytes = self.shelf.location.read(spot.file_no, at, len)?;
        let crcs = open.crcs.get(small(aligned / chunk) * 4..).unwrap_or_default();
        if !matches(&bytes, crcs) {
            return Err(damaged(&spot, at - u64::from(spot.position)));
        }
        let bytes = Bytes::from(bytes).slice(small(start - aligned)..small(end - aligned));
        let (record, ends) = open.messages(start, end);
        let offset = piece.from;
        if end < wanted {
            self.open = Some(open);
        }
        Ok(Chunk { offset, record, bytes, ends })
    }
}

impl OpenEntry {
    /// The message that holds `start`, and where messages end up to `end`; both are positions in
    /// the payload that never go backwards. The ends are relative to `start`.
    fn messages(&mut self, start: u64, end: u64) -> (Record, Ends) {
        let next = |this: &mut Self| {
            let Some(message_end) = this.walk.next_end() else { return false };
            this.message_end = message_end;
            this.record = Record(this.record.0 + 1);
            true
        };
        while self.message_end <= start && next(self) {}
        let record = self.record;
        let mut ends = Vec::new();
        while self.message_end <= end {
            ends.push(u32::try_from(self.message_end - start).unwrap_or(u32::MAX));
            if !next(self) {
                break;
            }
        }
        (record, Ends::Many(ends))
    }
}

/// Where an entry's bytes came from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trust {
    /// They were verified, or never left.
    Memory,
    /// They must be verified.
    Disk,
}

/// The part of an entry that `piece` asks for; `bytes` is the whole entry.
fn entry_chunk(spot: &Spot, bytes: &Bytes, piece: Piece, trust: Trust) -> Result<Chunk> {
    let head = parse_head(spot, bytes)?;
    let payload = bytes.slice(head.len..);
    if trust == Trust::Disk && !matches(&payload, head.crcs) {
        return Err(damaged(spot, head.len as u64));
    }
    let offset = piece.from.max(spot.offset);
    let start = between(spot.offset, offset);
    let end = between(spot.offset, piece.to.min(spot.end));
    let narrow = |value: u64| usize::try_from(value).expect("an entry fits in memory");
    let chunk = payload.slice(narrow(start)..narrow(end));
    if head.count == 1 {
        let whole = (end == u64::from(head.payload_len)).then(|| end - start);
        let ends = whole.map(|end| Ends::One(u32::try_from(end).unwrap_or(u32::MAX)));
        let ends = ends.unwrap_or(Ends::Many(Vec::new()));
        return Ok(Chunk { offset, record: spot.record, bytes: chunk, ends });
    }
    let mut walk = Walk::new(&head, bytes);
    let message_end = walk.next_end().unwrap_or(0);
    let (crcs, payload_at) = (Bytes::new(), 0);
    let mut open =
        OpenEntry { record: spot.record, spot: *spot, walk, message_end, crcs, payload_at };
    let (record, ends) = open.messages(start, end);
    Ok(Chunk { offset, record, bytes: chunk, ends })
}

/// Whether a payload, or a part of one that starts at a checksum, is what was written.
fn matches(bytes: &[u8], crcs: &[u8]) -> bool {
    let (crcs, _) = crcs.as_chunks::<4>();
    let enough = crcs.len() >= bytes.len().div_ceil(CHUNK_BYTES);
    enough && chunk_crcs(bytes).zip(crcs).all(|(crc, stored)| crc == u32::from_le_bytes(*stored))
}

/// Neighbouring chunks as one; a single one is not copied.
fn join(mut chunks: Vec<Chunk>) -> Chunk {
    if chunks.len() == 1 {
        return chunks.remove(0);
    }
    let total = chunks.iter().map(|chunk| chunk.bytes.len()).sum();
    let mut bytes = BytesMut::with_capacity(total);
    let mut ends = Vec::new();
    for chunk in &chunks {
        let start = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        ends.extend(chunk.ends.iter().map(|end| start.saturating_add(*end)));
        bytes.extend_from_slice(&chunk.bytes);
    }
    let first = chunks.first().expect("a window holds at least one entry");
    let (offset, record) = (first.offset, first.record);
    Chunk { offset, record, bytes: bytes.freeze(), ends: Ends::Many(ends) }
}

fn nowhere(stream: StreamId, offset: Offset) -> Error {
    let detail = format!("no log file holds byte {offset} of stream {:016x}", stream.0);
    Error::corrupt("", 0, detail)
}

fn damaged(spot: &Spot, at: u64) -> Error {
    let detail = "the checksum of stream bytes does not match";
    Error::corrupt(&file::path(spot.file_no), u64::from(spot.position) + at, detail)
}

/// The verified head at the start of an entry's bytes, which must be the one that the index means.
fn parse_head<'a>(spot: &Spot, bytes: &'a [u8]) -> Result<Head<'a>> {
    let head = Head::parse(bytes).ok_or_else(|| damaged(spot, 0))?;
    let payload_len = between(spot.offset, spot.end);
    let same = (head.stream, head.offset, head.record) == (spot.stream, spot.offset, spot.record)
        && u64::from(head.payload_len) == payload_len
        && head.len as u64 + payload_len == u64::from(spot.len);
    if same { Ok(head) } else { Err(damaged(spot, 0)) }
}

/// The bytes between two offsets that an index names; none if it is wrong.
fn between(earlier: Offset, later: Offset) -> u64 {
    later.0.saturating_sub(earlier.0)
}
