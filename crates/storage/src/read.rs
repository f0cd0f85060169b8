//! Reading: where messages begin and end, and the bytes of a range.
//!
//! Bytes from the ring are served as they are; bytes from a file are verified first, each entry by
//! its own checksums, and nothing that does not match goes out.

mod shelf;
mod walk;

use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use headwater_core::ids::{Lineage, Offset, Record, StreamId};

use crate::codec::{CHUNK_BYTES, chunk_crcs};
use crate::error::{Error, Kind, Result};
use crate::location::{Key, Layout, Limit, Spot, Stop, Wait};
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
    /// The ordinal of the message that the first byte belongs to, unless only bytes were wanted.
    pub record: Record,
    /// The bytes; never empty.
    pub bytes: Bytes,
    /// The positions in `bytes` (exclusive) at which a message ends; none when only bytes were
    /// wanted.
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

/// The bytes of a range of a stream, piece by piece. While it lives, no file that it may need is
/// removed.
pub struct Reader {
    shelf: Arc<Shelf>,
    /// None when whoever reads holds a pin already.
    _pin: Option<Pin>,
    /// What is left to read, the next piece last.
    pieces: Vec<Piece>,
    /// The stops of the next piece that are left to read, the next one last.
    path: Vec<Stop>,
    /// Entries and blocks that were looked up, the next one last.
    spots: Vec<Spot>,
    /// How many are looked up next time.
    lookahead: usize,
    /// A large one that is read in parts.
    open: Option<OpenEntry>,
    /// What was read together with the chunk before.
    ready: VecDeque<Chunk>,
    wait: Wait,
    want: Want,
}

/// What whoever reads wants to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Want {
    /// Which messages the bytes are, too.
    Messages,
    /// The bytes alone.
    Bytes,
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
        Self::new_at(shelf, Some(pin), pieces, Vec::new())
    }

    /// Reads a range of one stream that is known to lie at the stops of `path`, the newest first.
    /// The caller holds a pin.
    pub(crate) fn over(
        shelf: Arc<Shelf>,
        stream: StreamId,
        path: Vec<Stop>,
        [from, to]: [Offset; 2],
    ) -> Self {
        let pieces = if from < to { vec![Piece { stream, from, to }] } else { Vec::new() };
        Self::new_at(shelf, None, pieces, path)
    }

    fn new_at(shelf: Arc<Shelf>, pin: Option<Pin>, pieces: Vec<Piece>, path: Vec<Stop>) -> Self {
        Self {
            shelf,
            _pin: pin,
            pieces,
            path,
            spots: Vec::new(),
            lookahead: SPOTS_MIN,
            open: None,
            ready: VecDeque::new(),
            wait: Wait::Fine,
            want: Want::Messages,
        }
    }

    /// The same without a word on which messages the bytes are, which takes time to find out where
    /// they are small.
    #[must_use]
    pub fn bytes_only(mut self) -> Self {
        self.want = Want::Bytes;
        self
    }

    /// The next bytes, or nothing at the end of the range.
    ///
    /// # Errors
    /// `Corrupt` when stored bytes are not what was written, `Io` when they cannot be read. The
    /// next call tries the same bytes again.
    #[expect(clippy::should_implement_trait, reason = "a failed call does not end the range")]
    pub fn next(&mut self) -> Result<Option<Chunk>> {
        let Some(piece) = self.pieces.last().copied() else { return Ok(None) };
        let chunk = match (self.ready.pop_front(), self.open.take()) {
            (Some(chunk), open) => {
                self.open = open;
                Ok(chunk)
            }
            (None, Some(open)) => self.continue_entry(open, piece),
            (None, None) => self.next_entry(piece),
        };
        let end = chunk.as_ref().map(|chunk| chunk.offset.plus(chunk.bytes.len() as u64));
        match (end, self.pieces.last_mut()) {
            (Ok(end), Some(piece)) if end < piece.to => piece.from = end,
            (ended, _) => {
                if ended.is_ok() {
                    self.pieces.pop();
                }
                (self.path, self.spots, self.open) = (Vec::new(), Vec::new(), None);
                self.ready.clear();
            }
        }
        chunk.map(Some)
    }

    /// Whether the whole range was read.
    pub fn is_at_end(&self) -> bool {
        self.pieces.is_empty()
    }

    /// The next bytes if they are to be had without waiting for the disk: what lies in memory, or
    /// in the operating system's cache when it is known where. `None` means that
    /// [`Reader::next`] has to be asked, where waiting is fine.
    ///
    /// # Errors
    /// As [`Reader::next`].
    pub fn next_now(&mut self) -> Result<Option<Chunk>> {
        self.wait = Wait::No;
        let next = self.next();
        self.wait = Wait::Fine;
        match next {
            Err(error) if error.kind == Kind::WouldWait => Ok(None),
            next => next,
        }
    }

    /// Whether `next` will be served from memory.
    pub fn is_hot(&self) -> bool {
        let Some(piece) = self.pieces.last() else { return true };
        if !self.ready.is_empty() {
            return true;
        }
        if self.open.is_some() {
            return false;
        }
        let warm = || self.shelf.location.find_warm(piece.stream, Key::Byte(piece.from));
        let spot = self.spots.last().copied().or_else(warm);
        spot.is_some_and(|spot| self.shelf.holds(&spot))
    }

    fn next_entry(&mut self, piece: Piece) -> Result<Chunk> {
        let spot = self.next_spot(piece)?;
        if let Some(bytes) = self.shelf.in_memory(&spot) {
            let chunk = entry_chunk(&spot, &bytes, piece, (Trust::Memory, self.want))?;
            return self.join_small(spot, chunk, piece);
        }
        if between(spot.offset, spot.end) > WINDOW_BYTES {
            let open = self.open_entry(spot)?;
            return self.continue_entry(open, piece);
        }
        match spot.layout {
            Layout::Entry { .. } => self.read_window(spot, piece),
            Layout::Block { .. } => self.read_blocks(spot, piece),
        }
    }

    /// The entry at the start of `piece`.
    fn next_spot(&mut self, piece: Piece) -> Result<Spot> {
        let key = Key::Byte(piece.from);
        let holds = |spot: &Spot| spot.offset <= piece.from && piece.from < spot.end;
        while self.spots.is_empty() {
            let fresh = self.path.is_empty();
            if fresh {
                self.path = self.shelf.location.path(piece.stream, key, self.wait)?;
            }
            let stop = self.path.pop().ok_or_else(|| nowhere(piece.stream, piece.from))?;
            let limit = Limit { to: piece.to, count: self.lookahead };
            let mut spots = self.shelf.location.spots(piece.stream, stop, key, limit, self.wait)?;
            if spots.first().is_some_and(holds) {
                if spots.len() == limit.count {
                    // There may be more in this file.
                    self.path.push(stop);
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
        let is_small = |spot: &Spot| {
            let small = matches!(spot.layout, Layout::Entry { len, .. } if len <= SMALL_BYTES);
            small && spot.offset < piece.to
        };
        if !is_small(&first) || !self.spots.last().is_some_and(is_small) {
            return Ok(chunk);
        }
        let mut len = chunk.bytes.len();
        let mut chunks = vec![chunk];
        while let Some(next) = self.spots.last().copied().filter(is_small) {
            let bytes = self.shelf.in_memory(&next);
            let Some(bytes) = bytes.filter(|_| len < JOINED_BYTES_MAX) else { break };
            chunks.push(entry_chunk(&next, &bytes, piece, (Trust::Memory, self.want))?);
            len += bytes.len();
            self.spots.pop();
        }
        Ok(join(chunks))
    }

    /// Reads `first` and the entries close behind it with one read from the file.
    fn read_window(&mut self, first: Spot, piece: Piece) -> Result<Chunk> {
        let mut window = vec![first];
        let (start, mut end) = entry_range(&first);
        while let Some(next) = self.spots.last().copied() {
            let (next_start, next_end) = entry_range(&next);
            let close = next_start.checked_sub(end).is_some_and(|gap| gap <= GAP_BYTES_MAX);
            let here = close && next.stop == first.stop && next.offset < piece.to;
            if !here || next_end > start + WINDOW_BYTES {
                break;
            }
            end = next_end;
            window.push(next);
            self.spots.pop();
        }
        let len = narrow(end - start);
        let bytes = self.shelf.location.read(first.stop, start, len, self.wait)?;
        let mut small = Vec::new();
        let mut small_bytes = 0;
        for spot in &window {
            let (at, entry_end) = entry_range(spot);
            let bytes = bytes.slice(narrow(at - start)..narrow(entry_end - start));
            let chunk = entry_chunk(spot, &bytes, piece, (Trust::Disk, self.want))?;
            let is_small = chunk.bytes.len() <= SMALL_BYTES as usize;
            if !small.is_empty() && (!is_small || small_bytes >= JOINED_BYTES_MAX) {
                self.ready.push_back(join(std::mem::take(&mut small)));
                small_bytes = 0;
            }
            if is_small {
                small_bytes += chunk.bytes.len();
                small.push(chunk);
            } else {
                self.ready.push_back(chunk);
            }
        }
        if !small.is_empty() {
            self.ready.push_back(join(small));
        }
        Ok(self.ready.pop_front().expect("a window holds at least one entry"))
    }

    /// Reads `first` and the blocks behind it, whose bytes and whose heads each lie side by side.
    fn read_blocks(&mut self, first: Spot, piece: Piece) -> Result<Chunk> {
        let mut blocks = vec![first];
        let mut last = first;
        while let Some(next) = self.spots.last().copied() {
            let here = next.stop == first.stop && next.offset == last.end && next.offset < piece.to;
            if !here || between(first.offset, next.end) > WINDOW_BYTES {
                break;
            }
            last = next;
            blocks.push(next);
            self.spots.pop();
        }
        let (heads_at, _, payload_at) = block_range(&first);
        let (last_head_at, last_head_len, _) = block_range(&last);
        let heads_len = narrow((last_head_at + last_head_len).saturating_sub(heads_at));
        let location = &self.shelf.location;
        let heads = location.read(first.stop, heads_at, heads_len, self.wait)?;
        let len = narrow(between(first.offset, last.end));
        let payload = location.read(first.stop, payload_at, len, self.wait)?;
        let mut ends = Vec::new();
        let mut record = None;
        for spot in &blocks {
            let (head_at, head_len, _) = block_range(spot);
            let at = narrow(head_at.saturating_sub(heads_at));
            let head = heads.get(at..at + narrow(head_len)).ok_or_else(|| damaged(spot, 0))?;
            let head = parse_head(spot, head)?;
            let at = narrow(between(first.offset, spot.offset));
            let bytes = payload.slice(at..at + head.payload_len as usize);
            let part = payload_chunk(spot, &head, &heads, &bytes, piece, (Trust::Disk, self.want))?;
            let shift = narrow32(between(first.offset.max(piece.from), part.offset));
            ends.extend(part.ends.iter().map(|end| shift + end));
            record.get_or_insert(part.record);
        }
        let offset = first.offset.max(piece.from);
        let start = narrow(between(first.offset, offset));
        let end = narrow(between(first.offset, piece.to.min(last.end)));
        let record = record.unwrap_or(first.record);
        Ok(Chunk { offset, record, bytes: payload.slice(start..end), ends: Ends::Many(ends) })
    }

    fn open_entry(&self, spot: Spot) -> Result<OpenEntry> {
        let bytes = self.shelf.read_head(&spot, self.wait)?;
        let head = parse_head(&spot, &bytes)?;
        let mut walk = Walk::new(&head, &bytes);
        let message_end = walk.next_end().unwrap_or(0);
        let crcs = bytes.slice_ref(head.crcs);
        let payload_at = match spot.layout {
            Layout::Entry { position, .. } => u64::from(position) + head.len as u64,
            Layout::Block { payload_at, .. } => payload_at,
        };
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
        let bytes = self.shelf.location.read(spot.stop, at, len, self.wait)?;
        let crcs = open.crcs.get(small(aligned / chunk) * 4..).unwrap_or_default();
        if !matches(&bytes, crcs) {
            return Err(damaged(&spot, aligned));
        }
        let bytes = bytes.slice(small(start - aligned)..small(end - aligned));
        let (record, ends) = match self.want {
            Want::Messages => open.messages(start, end),
            Want::Bytes => (spot.record, Ends::Many(Vec::new())),
        };
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
fn entry_chunk(spot: &Spot, bytes: &Bytes, piece: Piece, how: (Trust, Want)) -> Result<Chunk> {
    let head = parse_head(spot, bytes)?;
    payload_chunk(spot, &head, bytes, &bytes.slice(head.len..), piece, how)
}

/// The part of a payload that `piece` asks for; `head` was parsed from `heads`.
fn payload_chunk(
    spot: &Spot,
    head: &Head<'_>,
    heads: &Bytes,
    payload: &Bytes,
    piece: Piece,
    (trust, want): (Trust, Want),
) -> Result<Chunk> {
    if trust == Trust::Disk && !matches(payload, head.crcs) {
        return Err(damaged(spot, 0));
    }
    let offset = piece.from.max(spot.offset);
    let start = between(spot.offset, offset);
    let end = between(spot.offset, piece.to.min(spot.end));
    let chunk = payload.slice(narrow(start)..narrow(end));
    if want == Want::Bytes {
        let ends = Ends::Many(Vec::new());
        return Ok(Chunk { offset, record: spot.record, bytes: chunk, ends });
    }
    if head.count == 1 {
        let whole = (end == u64::from(head.payload_len)).then(|| end - start);
        let ends = whole.map(|end| Ends::One(narrow32(end)));
        let ends = ends.unwrap_or(Ends::Many(Vec::new()));
        return Ok(Chunk { offset, record: spot.record, bytes: chunk, ends });
    }
    let mut walk = Walk::new(head, heads);
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
    let detail = format!("no file holds byte {offset} of stream {:016x}", stream.0);
    Error::corrupt("", 0, detail)
}

/// `at` counts from the start of the payload.
fn damaged(spot: &Spot, at: u64) -> Error {
    let detail = format!("stream bytes near {} do not match", spot.offset.plus(at));
    let start = match spot.layout {
        Layout::Entry { position, .. } => u64::from(position),
        Layout::Block { payload_at, .. } => payload_at,
    };
    Error::corrupt(&spot.stop.path(), start, detail)
}

/// The verified head at the start of `bytes`, which must be the one that the index means.
fn parse_head<'a>(spot: &Spot, bytes: &'a [u8]) -> Result<Head<'a>> {
    let head = Head::parse(bytes).ok_or_else(|| damaged(spot, 0))?;
    let payload_len = between(spot.offset, spot.end);
    let len = match spot.layout {
        Layout::Entry { len, .. } => u64::from(len).checked_sub(payload_len),
        Layout::Block { head_len, .. } => Some(u64::from(head_len)),
    };
    let same = (head.stream, head.offset, head.record) == (spot.stream, spot.offset, spot.record)
        && u64::from(head.payload_len) == payload_len
        && len == Some(head.len as u64);
    if same { Ok(head) } else { Err(damaged(spot, 0)) }
}

/// Where an entry starts and ends in its file.
fn entry_range(spot: &Spot) -> (u64, u64) {
    match spot.layout {
        Layout::Entry { position, len } => {
            (u64::from(position), u64::from(position) + u64::from(len))
        }
        // Never read together with entries: they are in another file.
        Layout::Block { .. } => (u64::MAX, u64::MAX),
    }
}

/// Where the head of a block starts, how long it is, and where the payload starts.
fn block_range(spot: &Spot) -> (u64, u64, u64) {
    match spot.layout {
        Layout::Block { head_at, head_len, payload_at } => {
            (head_at, u64::from(head_len), payload_at)
        }
        Layout::Entry { position, len } => (u64::from(position), u64::from(len), 0),
    }
}

fn narrow(value: u64) -> usize {
    usize::try_from(value).expect("an entry fits in memory")
}

fn narrow32(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

/// The bytes between two offsets that an index names; none if it is wrong.
fn between(earlier: Offset, later: Offset) -> u64 {
    later.0.saturating_sub(earlier.0)
}
