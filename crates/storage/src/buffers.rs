//! Buffers for reading files, used again and again: a fresh one of this size costs the zeroing and
//! a page fault for each of its pages, which is more than the read itself.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

/// The size of a kept buffer: one read window and a checksummed piece on each side.
const BUFFER_BYTES: usize = 384 << 10;
/// A read that is shorter than this gets memory of its own.
const OWN_BYTES_MAX: usize = 32 << 10;
/// So many buffers are kept for later.
const KEPT_MAX: usize = 64;

/// The buffers that are free.
#[derive(Default)]
pub(crate) struct Buffers {
    free: Mutex<Vec<Box<[u8]>>>,
}

/// A buffer on loan.
struct Loan {
    buffer: Box<[u8]>,
    len: usize,
    home: Arc<Buffers>,
}

impl Buffers {
    /// Has `fill` write `len` bytes, and returns them.
    pub(crate) fn read<E>(
        self: &Arc<Self>,
        len: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<Bytes, E> {
        if !(OWN_BYTES_MAX..=BUFFER_BYTES).contains(&len) {
            let mut bytes = vec![0; len];
            fill(&mut bytes)?;
            return Ok(bytes.into());
        }
        let kept = self.free.lock().pop();
        let buffer = kept.unwrap_or_else(|| vec![0; BUFFER_BYTES].into());
        let mut loan = Loan { buffer, len, home: Arc::clone(self) };
        fill(&mut loan.buffer[..len])?;
        Ok(Bytes::from_owner(loan))
    }
}

impl AsRef<[u8]> for Loan {
    fn as_ref(&self) -> &[u8] {
        &self.buffer[..self.len]
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        let mut free = self.home.free.lock();
        if free.len() < KEPT_MAX {
            free.push(std::mem::take(&mut self.buffer));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_comes_back_when_its_last_reader_has_gone() {
        let buffers = Arc::new(Buffers::default());
        let fill = |byte: u8| {
            move |bytes: &mut [u8]| {
                bytes.fill(byte);
                Ok::<(), ()>(())
            }
        };
        let first = buffers.read(100_000, fill(1)).unwrap();
        let part = first.slice(5..10);
        drop(first);
        assert_eq!(buffers.free.lock().len(), 0);
        assert_eq!(part, &[1; 5][..]);
        drop(part);
        assert_eq!(buffers.free.lock().len(), 1);
        let second = buffers.read(50_000, fill(2)).unwrap();
        assert_eq!((second.len(), buffers.free.lock().len()), (50_000, 0));
        assert!(second.iter().all(|byte| *byte == 2));
        assert!(buffers.read(100_000, |_| Err::<(), _>("no")).is_err());
        assert_eq!(buffers.free.lock().len(), 1);
    }

    #[test]
    fn small_and_huge_reads_get_memory_of_their_own() {
        let buffers = Arc::new(Buffers::default());
        for len in [0, 10, 10 << 20] {
            let bytes = buffers.read(len, |_| Ok::<(), ()>(())).unwrap();
            assert_eq!(bytes.len(), len);
        }
        assert!(buffers.free.lock().is_empty());
    }
}
