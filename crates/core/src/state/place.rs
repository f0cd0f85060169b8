//! Places in a stream: message boundaries by offset and by record. What the stream itself knows
//! needs no evidence from storage.

use super::Stream;
use crate::command::{Evidence, Stop};
use crate::ids::{Offset, Record};
use crate::refusal::Refusal;

impl Stream {
    /// The ordinal of the message that starts at `offset`, which lies between the boundary of
    /// retention and the tail.
    pub(crate) fn boundary(
        &self,
        offset: Offset,
        evidence: Option<Evidence>,
    ) -> Result<Record, Stop> {
        if let Some((_, record)) = self.known().find(|(known, _)| *known == offset) {
            return Ok(record);
        }
        match evidence {
            Some(found) if found.stream == self.id && found.offset == offset => {
                found.record.ok_or(Stop::Refuse(Refusal::NotABoundary { offset }))
            }
            _ => Err(Stop::Stale),
        }
    }

    /// Where a retained record, or the next one, starts.
    pub(crate) fn place_of(
        &self,
        record: Record,
        evidence: Option<Evidence>,
    ) -> Result<(Offset, Record), Stop> {
        if let Some(place) = self.known().find(|(_, known)| *known == record) {
            return Ok(place);
        }
        match evidence {
            Some(found) if found.stream == self.id && found.record == Some(record) => {
                Ok((found.offset, record))
            }
            _ => Err(Stop::Stale),
        }
    }

    /// The boundaries that are part of the state.
    fn known(&self) -> impl Iterator<Item = (Offset, Record)> {
        let snapshot = self.snapshot().map(|snapshot| (snapshot.offset, snapshot.record));
        [(self.tail, self.next), (self.retained(), self.first())].into_iter().chain(snapshot)
    }
}
