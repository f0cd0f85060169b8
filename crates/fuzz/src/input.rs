//! Choices made from a fuzzer's bytes.

/// Takes values from the front; past the end there are zeroes.
#[derive(Debug, Clone)]
pub(crate) struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn byte(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or(0)
    }

    /// Two bytes, the low one first.
    pub(crate) fn short(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }

    /// A number below `end`, which is not 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        let number = if end > 256 { self.short() } else { self.byte().into() };
        usize::from(number) % end
    }

    /// As many bytes as are left, at most `len`.
    pub(crate) fn take(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// A length in one byte, and that many bytes.
    pub(crate) fn piece(&mut self) -> &'a [u8] {
        let len = self.byte().into();
        self.take(len)
    }

    pub(crate) fn rest(self) -> &'a [u8] {
        self.0
    }
}
