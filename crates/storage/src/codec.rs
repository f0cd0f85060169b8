//! Reading and writing plain values: little-endian numbers, varints, checksums. Decoding returns
//! `None` for anything malformed and never panics.

/// A stream's payload carries one checksum per this many bytes, so that a part of it can be
/// verified on its own.
pub(crate) const CHUNK_BYTES: usize = 64 * 1024;

/// The bytes that [`put_varint`] writes at most.
pub(crate) const VARINT_MAX: u64 = 10;

/// Appends `value` seven bits at a time, lowest first; the top bit says that more follows.
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    loop {
        let low = value.to_le_bytes()[0] & 0x7f;
        value >>= 7;
        if value == 0 {
            return out.push(low);
        }
        out.push(low | 0x80);
    }
}

/// How many bytes [`put_varint`] writes for `value`.
pub(crate) fn varint_len(value: u64) -> u64 {
    u64::from((value | 1).ilog2() / 7 + 1)
}

/// The checksums of a payload, one per [`CHUNK_BYTES`].
pub(crate) fn chunk_crcs(payload: &[u8]) -> impl Iterator<Item = u32> {
    payload.chunks(CHUNK_BYTES).map(crc32c::crc32c)
}

/// How many checksums [`chunk_crcs`] gives.
pub(crate) fn chunk_count(payload_len: u64) -> u64 {
    payload_len.div_ceil(CHUNK_BYTES as u64)
}

/// A position in bytes that may be anything at all.
#[derive(Clone, Copy)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// How many bytes have been taken.
    pub(crate) fn position(&self) -> usize {
        self.at
    }

    /// What has not been taken yet.
    pub(crate) fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    /// Whether every byte has been taken.
    pub(crate) fn is_at_end(&self) -> bool {
        self.at == self.bytes.len()
    }

    pub(crate) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let end = self.at.checked_add(len)?;
        let taken = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(taken)
    }

    /// As `take`, for a length that came from the bytes themselves.
    pub(crate) fn take_long(&mut self, len: u64) -> Option<&'a [u8]> {
        self.take(usize::try_from(len).ok()?)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn u128(&mut self) -> Option<u128> {
        self.array().map(u128::from_le_bytes)
    }

    #[inline]
    pub(crate) fn varint(&mut self) -> Option<u64> {
        // Most numbers are small.
        match self.u8()? {
            first @ 0..0x80 => Some(u64::from(first)),
            first => self.long_varint(u64::from(first & 0x7f)),
        }
    }

    /// The rest of a varint that `value` begins.
    fn long_varint(&mut self, mut value: u64) -> Option<u64> {
        for shift in (7..64).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                return None;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    /// A varint that fits 32 bits.
    pub(crate) fn varint_u32(&mut self) -> Option<u32> {
        u32::try_from(self.varint()?).ok()
    }
}

/// A number in a file name: exactly `len` decimal digits.
pub(crate) fn digits(text: &str, len: usize) -> Option<u64> {
    let exact = text.len() == len && text.bytes().all(|b| b.is_ascii_digit());
    exact.then(|| text.parse().ok())?
}

/// Appends the checksum of everything in `out` so far.
pub(crate) fn put_crc(out: &mut Vec<u8>) {
    let crc = crc32c::crc32c(out);
    out.extend_from_slice(&crc.to_le_bytes());
}

/// Splits off and checks a checksum written by [`put_crc`].
pub(crate) fn check_crc(bytes: &[u8]) -> Option<&[u8]> {
    let (body, crc) = bytes.split_last_chunk::<4>()?;
    (crc32c::crc32c(body) == u32::from_le_bytes(*crc)).then_some(body)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_number_survives_a_varint(value: u64) {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            prop_assert_eq!(out.len() as u64, varint_len(value));
            let mut cursor = Cursor::new(&out);
            prop_assert_eq!(cursor.varint(), Some(value));
            prop_assert!(cursor.is_at_end());
        }

        #[test]
        fn any_bytes_may_be_read_as_a_varint(bytes: [u8; 12]) {
            if let Some(value) = Cursor::new(&bytes).varint() {
                prop_assert!(varint_len(value) <= VARINT_MAX);
            }
        }
    }

    #[test]
    fn a_varint_that_overflows_is_malformed() {
        assert_eq!(Cursor::new(&[0xff; 12]).varint(), None);
        let mut two_to_the_64 = [0x80; 10];
        two_to_the_64[9] = 2;
        assert_eq!(Cursor::new(&two_to_the_64).varint(), None);
    }

    #[test]
    fn a_checksum_protects_what_lies_before_it() {
        let mut out = b"bytes".to_vec();
        put_crc(&mut out);
        assert_eq!(check_crc(&out), Some(&b"bytes"[..]));
        out[2] ^= 1;
        assert_eq!(check_crc(&out), None);
        assert_eq!(check_crc(b"abc"), None);
    }
}
