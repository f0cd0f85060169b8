//! Frames: what one group commit writes.

use headwater_core::ids::{Lsn, Timestamp};

use crate::codec::Cursor;

/// The bytes of a frame's header.
pub(crate) const HEADER_BYTES: u64 = HEADER_LEN as u64;
/// The same as a `usize`, for buffers.
pub(crate) const HEADER_LEN: usize = 72;

pub(crate) const MAGIC: [u8; 4] = *b"HWfr";
const VERSION: u8 = 1;
const SEAL: u8 = 1;
/// Where the checksum lies; it covers everything in front of it and the body behind it.
const CRC_AT: usize = 68;

const _: () = assert!(CRC_AT == 4 + 1 + 1 + 2 + 16 + 8 + 4 + 4 + 8 + 4 + 8 + 8);
const _: () = assert!(HEADER_LEN == CRC_AT + 4);

/// The header of a frame, without its checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    /// The log that the frame belongs to.
    pub(crate) log_id: u128,
    /// The number of the frame in its log, from 0.
    pub(crate) slot: u64,
    /// The checksum of the frame before; 0 for the first.
    pub(crate) prev_crc: u32,
    /// The lsn of the first group, or of the next one if there is none.
    pub(crate) first_lsn: Lsn,
    pub(crate) groups: u32,
    pub(crate) body_len: u32,
    /// Node time when it was written.
    pub(crate) time: Timestamp,
    /// Nothing follows in this log.
    pub(crate) seal: bool,
}

impl Header {
    /// Whether there can be such a frame, with one before it and one after: whoever follows a log
    /// may count with its numbers.
    fn is_possible(&self) -> bool {
        let next = self.first_lsn.0.checked_add(u64::from(self.groups));
        self.first_lsn > Lsn::ZERO && next.is_some() && self.slot < u64::MAX
    }
}

/// A frame whose checksum is right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) header: Header,
    pub(crate) crc: u32,
    /// Header and body together.
    pub(crate) len: usize,
}

/// Why there is no frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Defect {
    /// The bytes do not begin like a frame, or end too early.
    Absent,
    /// The checksum does not match, or the header has numbers that no log reaches.
    Checksum,
    /// Intact, but of a version that this program does not know.
    Version(u8),
}

/// Completes a frame: `buffer` holds room for the header, then the body. Returns its checksum.
pub(crate) fn finish(buffer: &mut [u8], header: &Header) -> u32 {
    let mut out = Vec::with_capacity(HEADER_LEN);
    let [low, high] = split(header.log_id);
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&[VERSION, u8::from(header.seal) * SEAL]);
    out.extend_from_slice(&72u16.to_le_bytes());
    out.extend_from_slice(&header.log_id.to_le_bytes());
    out.extend_from_slice(&header.slot.to_le_bytes());
    out.extend_from_slice(&header.prev_crc.to_le_bytes());
    out.extend_from_slice(&header.groups.to_le_bytes());
    out.extend_from_slice(&header.first_lsn.0.to_le_bytes());
    out.extend_from_slice(&header.body_len.to_le_bytes());
    out.extend_from_slice(&(low ^ high).to_le_bytes());
    out.extend_from_slice(&header.time.0.to_le_bytes());
    buffer[..CRC_AT].copy_from_slice(&out);
    let crc = checksum(buffer);
    buffer[CRC_AT..HEADER_LEN].copy_from_slice(&crc.to_le_bytes());
    crc
}

/// The frame of log `log_id` at the start of `bytes`. Asking for the log first, which nobody
/// outside can know, keeps a stream full of forged headers from costing a checksum each.
pub(crate) fn parse(bytes: &[u8], log_id: u128) -> Result<Frame, Defect> {
    match parse_header(bytes) {
        Some((_, header, _)) if header.log_id == log_id => parse_any(bytes),
        _ => Err(Defect::Absent),
    }
}

/// The frame of any log at the start of `bytes`.
pub(crate) fn parse_any(bytes: &[u8]) -> Result<Frame, Defect> {
    let (version, header, crc) = parse_header(bytes).ok_or(Defect::Absent)?;
    let len = HEADER_LEN.checked_add(header.body_len as usize).ok_or(Defect::Absent)?;
    let whole = bytes.get(..len).ok_or(Defect::Absent)?;
    if checksum(whole) != crc {
        return Err(Defect::Checksum);
    }
    if version != VERSION {
        return Err(Defect::Version(version));
    }
    if !header.is_possible() {
        return Err(Defect::Checksum);
    }
    Ok(Frame { header, crc, len })
}

/// The log and the whole length of what begins like a frame; nothing is verified.
pub(crate) fn peek(bytes: &[u8]) -> Option<(u128, usize)> {
    let (_, header, _) = parse_header(bytes)?;
    Some((header.log_id, HEADER_LEN.checked_add(header.body_len as usize)?))
}

fn parse_header(bytes: &[u8]) -> Option<(u8, Header, u32)> {
    let mut cursor = Cursor::new(bytes);
    if cursor.array::<4>()? != MAGIC {
        return None;
    }
    let version = cursor.u8()?;
    let flags = cursor.u8()?;
    let header_len = cursor.u16()?;
    let log_id = cursor.u128()?;
    let slot = cursor.u64()?;
    let prev_crc = cursor.u32()?;
    let groups = cursor.u32()?;
    let first_lsn = Lsn(cursor.u64()?);
    let body_len = cursor.u32()?;
    let _nonce = cursor.u64()?;
    let time = Timestamp(cursor.u64()?);
    let crc = cursor.u32()?;
    let seal = flags & SEAL != 0;
    let header = Header { log_id, slot, prev_crc, first_lsn, groups, body_len, time, seal };
    (usize::from(header_len) == HEADER_LEN).then_some((version, header, crc))
}

fn checksum(frame: &[u8]) -> u32 {
    let crc = crc32c::crc32c(&frame[..CRC_AT]);
    crc32c::crc32c_append(crc, &frame[HEADER_LEN..])
}

fn split(id: u128) -> [u64; 2] {
    let bytes = id.to_le_bytes();
    let (low, high) = bytes.split_at(8);
    [low, high].map(|half| u64::from_le_bytes(half.try_into().expect("half of 16 bytes is 8")))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frame(body: &[u8]) -> (Header, Vec<u8>) {
        let header = Header {
            log_id: 0x0123_4567_89ab_cdef,
            slot: 7,
            prev_crc: 99,
            first_lsn: Lsn(12),
            groups: 3,
            body_len: u32::try_from(body.len()).unwrap(),
            time: Timestamp(1_700_000_000_000),
            seal: false,
        };
        let mut buffer = vec![0; HEADER_LEN];
        buffer.extend_from_slice(body);
        finish(&mut buffer, &header);
        (header, buffer)
    }

    #[test]
    fn a_frame_comes_back_as_it_was_written() {
        let (header, mut bytes) = frame(b"body");
        let len = bytes.len();
        bytes.extend_from_slice(b"what follows");
        let found = parse_any(&bytes).unwrap();
        assert_eq!((found.header, found.len), (header, len));
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let (_, good) = frame(b"body");
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(parse_any(&bad).is_err(), "bit {bit}");
        }
    }

    /// Their checksums may be right, but no log has them.
    #[test]
    fn numbers_that_cannot_be_counted_with_are_refused() {
        let (good, mut bytes) = frame(b"body");
        for bad in [
            Header { first_lsn: Lsn(0), ..good },
            Header { first_lsn: Lsn(u64::MAX - 2), ..good },
            Header { slot: u64::MAX, ..good },
        ] {
            finish(&mut bytes, &bad);
            assert_eq!(parse_any(&bytes), Err(Defect::Checksum), "{bad:?}");
        }
        finish(&mut bytes, &Header { first_lsn: Lsn(u64::MAX - 3), ..good });
        assert!(parse_any(&bytes).is_ok());
    }

    proptest! {
        #[test]
        fn any_bytes_may_be_parsed(bytes: Vec<u8>) {
            let mut with_magic = MAGIC.to_vec();
            with_magic.extend_from_slice(&bytes);
            prop_assert!(parse_any(&with_magic).is_err());
        }
    }
}
