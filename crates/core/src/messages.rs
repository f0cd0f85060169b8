//! A run of messages on its way into a stream.

use bytes::{Bytes, BytesMut};

use crate::json::Messages;

impl Default for Messages {
    fn default() -> Self {
        Self { bytes: Bytes::new(), lens: Vec::new() }
    }
}

impl Messages {
    /// One message, byte for byte.
    ///
    /// # Panics
    /// When it has 4 GiB or more, which no body limit allows.
    pub fn one(bytes: Bytes) -> Self {
        let len = u32::try_from(bytes.len()).expect("bodies are smaller than 4 GiB");
        Self { bytes, lens: vec![len] }
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.lens.len() as u64
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.lens.is_empty()
    }

    /// These messages, then `others`.
    #[must_use]
    pub fn followed_by(self, others: &Self) -> Self {
        if others.is_empty() {
            return self;
        }
        let mut bytes = BytesMut::with_capacity(self.bytes.len() + others.bytes.len());
        bytes.extend_from_slice(&self.bytes);
        bytes.extend_from_slice(&others.bytes);
        let mut lens = self.lens;
        lens.extend_from_slice(&others.lens);
        Self { bytes: bytes.freeze(), lens }
    }
}
