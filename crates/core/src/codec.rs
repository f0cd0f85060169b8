//! The byte forms that entries and state images are made of: unsigned LEB128 numbers,
//! length-prefixed bytes and text, one-byte flags. Described in `docs/format.md`.

use bytes::{BufMut, Bytes, BytesMut};

/// Stored bytes that do not decode: damage, or a format that this build does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Damaged {
    /// What was being read.
    pub what: &'static str,
}

/// Most entries fit in as many bytes.
const USUAL_BYTES: usize = 64;

/// Appends values to a growing buffer.
#[derive(Debug)]
pub struct Encoder(BytesMut);

impl Default for Encoder {
    fn default() -> Self {
        Self(BytesMut::with_capacity(USUAL_BYTES))
    }
}

impl Encoder {
    /// An unsigned number, 7 bits a byte, low bits first.
    pub fn number(&mut self, mut value: u64) -> &mut Self {
        while value >= 0x80 {
            self.0.put_u8((value.to_le_bytes()[0] & 0x7f) | 0x80);
            value >>= 7;
        }
        self.0.put_u8(value.to_le_bytes()[0]);
        self
    }

    /// A byte as it is.
    pub fn byte(&mut self, value: u8) -> &mut Self {
        self.0.put_u8(value);
        self
    }

    /// 0 or 1.
    pub fn flag(&mut self, value: bool) -> &mut Self {
        self.byte(u8::from(value))
    }

    /// Bytes of a length that the reader knows.
    pub fn raw(&mut self, value: &[u8]) -> &mut Self {
        self.0.put_slice(value);
        self
    }

    /// A length, then that many bytes.
    pub fn bytes(&mut self, value: &[u8]) -> &mut Self {
        self.number(value.len() as u64).raw(value)
    }

    /// Text as [`Encoder::bytes`].
    pub fn text(&mut self, value: &str) -> &mut Self {
        self.bytes(value.as_bytes())
    }

    /// A flag, then the value if there is one.
    pub fn option<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) -> &mut Self {
        self.flag(value.is_some());
        if let Some(value) = value {
            write(self, value);
        }
        self
    }

    /// A count, then every item.
    pub fn list<T>(
        &mut self,
        items: impl ExactSizeIterator<Item = T>,
        mut write: impl FnMut(&mut Self, T),
    ) -> &mut Self {
        self.number(items.len() as u64);
        for item in items {
            write(self, item);
        }
        self
    }

    /// What was written.
    pub fn finish(self) -> Bytes {
        self.0.freeze()
    }
}

/// Takes values from the front of a slice. Never panics, whatever the bytes.
#[derive(Debug, Clone)]
pub struct Decoder<'a>(&'a [u8]);

impl<'a> Decoder<'a> {
    /// Starts at the front of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// See [`Encoder::number`].
    #[inline]
    pub fn number(&mut self, what: &'static str) -> Result<u64, Damaged> {
        // Most numbers are small.
        match self.byte(what)? {
            first @ 0..0x80 => Ok(u64::from(first)),
            first => self.long_number(u64::from(first & 0x7f), what),
        }
    }

    /// The rest of a number that `value` begins.
    fn long_number(&mut self, mut value: u64, what: &'static str) -> Result<u64, Damaged> {
        for shift in (7..64).step_by(7) {
            let byte = self.byte(what)?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Damaged { what })
    }

    /// See [`Encoder::byte`].
    pub fn byte(&mut self, what: &'static str) -> Result<u8, Damaged> {
        let (first, rest) = self.0.split_first().ok_or(Damaged { what })?;
        self.0 = rest;
        Ok(*first)
    }

    /// See [`Encoder::flag`].
    pub fn flag(&mut self, what: &'static str) -> Result<bool, Damaged> {
        match self.byte(what)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Damaged { what }),
        }
    }

    /// See [`Encoder::raw`].
    pub fn raw(&mut self, len: usize, what: &'static str) -> Result<&'a [u8], Damaged> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(Damaged { what })?;
        self.0 = rest;
        Ok(taken)
    }

    /// See [`Encoder::bytes`].
    pub fn bytes(&mut self, what: &'static str) -> Result<&'a [u8], Damaged> {
        let len = usize::try_from(self.number(what)?).map_err(|_too_long| Damaged { what })?;
        self.raw(len, what)
    }

    /// See [`Encoder::text`].
    pub fn text(&mut self, what: &'static str) -> Result<&'a str, Damaged> {
        std::str::from_utf8(self.bytes(what)?).map_err(|_not_utf8| Damaged { what })
    }

    /// See [`Encoder::option`].
    pub fn option<T>(
        &mut self,
        what: &'static str,
        read: impl FnOnce(&mut Self) -> Result<T, Damaged>,
    ) -> Result<Option<T>, Damaged> {
        Ok(if self.flag(what)? { Some(read(self)?) } else { None })
    }

    /// See [`Encoder::list`]; `each` is called once an item. The count is not trusted with an
    /// allocation: a lie about it ends at the end of the bytes.
    pub fn list(
        &mut self,
        what: &'static str,
        mut each: impl FnMut(&mut Self) -> Result<(), Damaged>,
    ) -> Result<(), Damaged> {
        for _ in 0..self.number(what)? {
            each(self)?;
        }
        Ok(())
    }

    /// Insists that everything was taken.
    pub fn end(self, what: &'static str) -> Result<(), Damaged> {
        if self.0.is_empty() { Ok(()) } else { Err(Damaged { what }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Every number comes back, in at most ten bytes.
        #[test]
        fn numbers_round_trip(value: u64) {
            let mut encoder = Encoder::default();
            encoder.number(value);
            let bytes = encoder.finish();
            prop_assert!(bytes.len() <= 10);
            let mut decoder = Decoder::new(&bytes);
            prop_assert_eq!(decoder.number("n"), Ok(value));
            prop_assert_eq!(decoder.end("n"), Ok(()));
        }

        /// No bytes make the decoder panic.
        #[test]
        fn any_bytes_decode_or_are_damaged(bytes: Vec<u8>) {
            let mut decoder = Decoder::new(&bytes);
            while decoder.bytes("b").is_ok() && !decoder.0.is_empty() {}
        }
    }

    #[test]
    fn a_number_beyond_64_bits_is_damage() {
        let bytes = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02];
        assert_eq!(Decoder::new(&bytes).number("n"), Err(Damaged { what: "n" }));
    }
}
