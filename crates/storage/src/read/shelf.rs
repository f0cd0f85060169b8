//! Where messages begin and end.

use std::sync::Arc;

use bytes::Bytes;
use headwater_core::ids::{Lineage, Offset, Record, StreamId};

use super::walk::Walk;
use super::{between, damaged, nowhere, parse_head};
use crate::error::{Error, Result};
use crate::location::{Key, Layout, Location, Spot, Wait};
use crate::log::group::{HEAD_PREFIX_MAX, Head};
use crate::ring::Ring;

/// A run of whole messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// The ordinal of the first message in it.
    pub record: Record,
    /// Exclusive end.
    pub end: Offset,
    /// The ordinal after the last message in it.
    pub record_end: Record,
}

/// What reading needs of a store.
pub(crate) struct Shelf {
    pub(crate) location: Arc<Location>,
    pub(crate) ring: Arc<Ring>,
}

/// A part of a range that lies under one stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) stream: StreamId,
    pub(super) from: Offset,
    pub(super) to: Offset,
}

/// The part of the offset space that each ancestor holds, the stream itself first.
pub(super) fn pieces(stream: StreamId, lineage: Option<&Lineage>) -> impl Iterator<Item = Piece> {
    let own = Piece { stream, from: Offset::ZERO, to: Offset(u64::MAX) };
    let mut next = Some((own, lineage));
    std::iter::from_fn(move || {
        let (mut piece, lineage) = next.take()?;
        if let Some(parent) = lineage {
            let to = parent.end.min(piece.to);
            piece.from = to;
            let inherited = Piece { stream: parent.stream, from: Offset::ZERO, to };
            next = Some((inherited, parent.parent.as_deref()));
        }
        Some(piece)
    })
    .filter(|piece| piece.from < piece.to)
}

impl Shelf {
    /// See [`crate::Store::boundary`].
    pub(crate) fn boundary(
        &self,
        stream: StreamId,
        lineage: Option<&Lineage>,
        offset: Offset,
    ) -> Result<Option<Record>> {
        if offset == Offset::ZERO {
            return Ok(Some(Record(0)));
        }
        let (start, record) = self.message_at(stream, lineage, offset)?;
        Ok((start == offset).then_some(record))
    }

    /// Where the message that holds the byte at `offset` starts, and its ordinal. Looks at no byte
    /// before that message: they may be gone.
    fn message_at(
        &self,
        stream: StreamId,
        lineage: Option<&Lineage>,
        offset: Offset,
    ) -> Result<(Offset, Record)> {
        let spot = self.spot(stream, lineage, offset)?;
        if spot.offset == offset {
            return Ok((offset, spot.record));
        }
        self.floor_in(&spot, offset)
    }

    /// The newest message boundary that is not beyond `offset`, and the ordinal of the message
    /// that starts there.
    fn floor(
        &self,
        stream: StreamId,
        lineage: Option<&Lineage>,
        offset: Offset,
    ) -> Result<(Offset, Record)> {
        let Some(before) = offset.0.checked_sub(1) else { return Ok((offset, Record(0))) };
        let spot = self.spot(stream, lineage, Offset(before))?;
        if spot.end == offset {
            return Ok((offset, spot.record_end));
        }
        self.floor_in(&spot, offset)
    }

    /// The same inside one entry.
    fn floor_in(&self, spot: &Spot, offset: Offset) -> Result<(Offset, Record)> {
        let mut walk = self.walk(spot)?;
        let (mut start, mut record) = (spot.offset, spot.record);
        while let Some(end) = walk.next_end().filter(|end| *end <= between(spot.offset, offset)) {
            start = spot.offset.plus(end);
            record = Record(record.0 + 1);
        }
        Ok((start, record))
    }

    /// The end of the message that holds the byte at `offset`, and the ordinal after it.
    fn ceil(
        &self,
        stream: StreamId,
        lineage: Option<&Lineage>,
        offset: Offset,
    ) -> Result<(Offset, Record)> {
        let spot = self.spot(stream, lineage, offset)?;
        let mut walk = self.walk(&spot)?;
        let mut record = spot.record;
        while let Some(end) = walk.next_end() {
            record = Record(record.0 + 1);
            if end > between(spot.offset, offset) {
                return Ok((spot.offset.plus(end), record));
            }
        }
        Ok((spot.end, spot.record_end))
    }

    /// See [`crate::Store::offset_of`].
    pub(crate) fn offset_of(
        &self,
        stream: StreamId,
        lineage: Option<&Lineage>,
        record: Record,
    ) -> Result<Offset> {
        for piece in pieces(stream, lineage) {
            let Some(spot) = self.location.find(piece.stream, Key::Message(record))? else {
                continue;
            };
            let mut walk = self.walk(&spot)?;
            let mut start = spot.offset;
            for _ in spot.record.0..record.0 {
                start = spot.offset.plus(walk.next_end().unwrap_or(0));
            }
            if start < piece.to {
                return Ok(start);
            }
        }
        Err(Error::corrupt("", 0, format!("no file holds message {record} of the stream")))
    }

    /// See [`crate::Store::extent_within`].
    pub(crate) fn extent(
        &self,
        stream: StreamId,
        lineage: Option<&Lineage>,
        [from, upto]: [Offset; 2],
        bytes_max: u64,
        messages_max: u64,
    ) -> Result<Extent> {
        if from >= upto {
            let (_, record) = self.floor(stream, lineage, from)?;
            return Ok(Extent { record, end: from, record_end: record });
        }
        let (_, record) = self.message_at(stream, lineage, from)?;
        let target = Offset(from.0.saturating_add(bytes_max)).min(upto);
        let (mut end, mut record_end) = self.floor(stream, lineage, target)?;
        if end <= from {
            (end, record_end) = self.ceil(stream, lineage, from)?;
        }
        let messages_max = messages_max.max(1);
        if record_end.0.saturating_sub(record.0) > messages_max {
            record_end = Record(record.0 + messages_max);
            end = self.offset_of(stream, lineage, record_end)?;
        }
        Ok(Extent { record, end, record_end })
    }

    /// The entry that holds the byte at `offset`.
    fn spot(&self, stream: StreamId, lineage: Option<&Lineage>, offset: Offset) -> Result<Spot> {
        let piece = pieces(stream, lineage).find(|piece| piece.from <= offset);
        let stream = piece.map_or(stream, |piece| piece.stream);
        let found = self.location.find(stream, Key::Byte(offset))?;
        found.ok_or_else(|| nowhere(stream, offset))
    }

    /// The messages of an entry; asks for its bytes only if there are several.
    fn walk(&self, spot: &Spot) -> Result<Walk> {
        if spot.record_end.0.saturating_sub(spot.record.0) <= 1 {
            return Ok(Walk::single(between(spot.offset, spot.end)));
        }
        if let Some(bytes) = self.in_memory(spot) {
            let head = parse_head(spot, &bytes)?;
            return Ok(Walk::new(&head, &bytes));
        }
        let bytes = self.read_head(spot, Wait::Fine)?;
        let head = parse_head(spot, &bytes)?;
        Ok(Walk::new(&head, &bytes))
    }

    /// The bytes of an entry, if they are still in memory.
    pub(super) fn in_memory(&self, spot: &Spot) -> Option<Bytes> {
        match spot.layout {
            Layout::Entry { position, len } => self.ring.get(spot.stop.file_no, position, len),
            Layout::Block { .. } => None,
        }
    }

    /// Whether they are.
    pub(super) fn holds(&self, spot: &Spot) -> bool {
        match spot.layout {
            Layout::Entry { position, .. } => self.ring.holds(spot.stop.file_no, position),
            Layout::Block { .. } => false,
        }
    }

    /// The head of an entry's or a block's data, from its file.
    pub(super) fn read_head(&self, spot: &Spot, wait: Wait) -> Result<Bytes> {
        let (position, len) = match spot.layout {
            Layout::Entry { position, len } => {
                let position = u64::from(position);
                let guess = HEAD_PREFIX_MAX.min(len as usize);
                let prefix = self.location.read(spot.stop, position, guess, wait)?;
                let head_len = Head::peek_len(&prefix).filter(|head_len| *head_len <= len as usize);
                (position, head_len.ok_or_else(|| damaged(spot, 0))?)
            }
            Layout::Block { head_at, head_len, .. } => (head_at, head_len as usize),
        };
        self.location.read(spot.stop, position, len, wait)
    }
}
