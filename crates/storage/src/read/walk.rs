//! From message to message inside one entry.

use bytes::Bytes;

use crate::codec::Cursor;
use crate::log::group::Head;

/// A walk over the messages of an entry.
#[derive(Debug, Clone)]
pub(super) struct Walk {
    /// Encoded lengths; empty for a single message.
    lens: Bytes,
    at: usize,
    /// Where the message before ends, from the start of the payload.
    end: u64,
    payload_len: u64,
}

impl Walk {
    pub(super) fn new(head: &Head<'_>, bytes: &Bytes) -> Self {
        let lens = if head.lens.is_empty() { Bytes::new() } else { bytes.slice_ref(head.lens) };
        Self { lens, at: 0, end: 0, payload_len: u64::from(head.payload_len) }
    }

    pub(super) fn single(payload_len: u64) -> Self {
        Self { lens: Bytes::new(), at: 0, end: 0, payload_len }
    }

    /// Where the next message ends, from the start of the payload.
    pub(super) fn next_end(&mut self) -> Option<u64> {
        if self.end >= self.payload_len {
            return None;
        }
        let rest = self.payload_len - self.end;
        let mut cursor = Cursor::new(self.lens.get(self.at..).unwrap_or_default());
        // Verified lengths cover the payload; were they too short, the rest would be one message.
        let len = cursor.varint().filter(|len| (1..=rest).contains(len)).unwrap_or(rest);
        self.at += cursor.position();
        self.end += len;
        Some(self.end)
    }
}
