//! The newest frames in memory. Readers get slices that share the frame's buffer, so that a
//! thousand tails of one stream copy nothing.

use std::collections::VecDeque;

use bytes::Bytes;
use parking_lot::RwLock;

use crate::log::file::FileNo;

/// Frames in log order; the oldest go when there are more than `bytes_max` bytes.
pub(crate) struct Ring {
    bytes_max: u64,
    frames: RwLock<Frames>,
}

#[derive(Default)]
struct Frames {
    queue: VecDeque<Held>,
    bytes: u64,
}

struct Held {
    file_no: FileNo,
    position: u64,
    bytes: Bytes,
}

impl Ring {
    pub(crate) fn new(bytes_max: u64) -> Self {
        Self { bytes_max, frames: RwLock::default() }
    }

    /// Adds the frame that was written at `position` of file `file_no`.
    pub(crate) fn push(&self, file_no: FileNo, position: u64, bytes: Bytes) {
        let mut frames = self.frames.write();
        frames.bytes += bytes.len() as u64;
        frames.queue.push_back(Held { file_no, position, bytes });
        while frames.bytes > self.bytes_max {
            let Some(oldest) = frames.queue.pop_front() else { break };
            frames.bytes -= oldest.bytes.len() as u64;
        }
    }

    /// Forgets everything; what comes later is kept again.
    pub(crate) fn clear(&self) {
        *self.frames.write() = Frames::default();
    }

    /// The `len` bytes at `position` of a file, if one frame here holds them all.
    pub(crate) fn get(&self, file_no: FileNo, position: u32, len: u32) -> Option<Bytes> {
        let frames = self.frames.read();
        let held = frames.find(file_no, u64::from(position))?;
        let start = usize::try_from(u64::from(position) - held.position).ok()?;
        let end = start.checked_add(len as usize).filter(|end| *end <= held.bytes.len())?;
        Some(held.bytes.slice(start..end))
    }

    /// Whether the byte at `position` of a file is here.
    pub(crate) fn holds(&self, file_no: FileNo, position: u32) -> bool {
        self.frames.read().find(file_no, u64::from(position)).is_some()
    }

    /// The file of the oldest frame.
    pub(crate) fn oldest_file(&self) -> Option<FileNo> {
        self.frames.read().queue.front().map(|held| held.file_no)
    }
}

impl Frames {
    fn find(&self, file_no: FileNo, position: u64) -> Option<&Held> {
        let after = self.queue.partition_point(|h| (h.file_no, h.position) <= (file_no, position));
        let held = self.queue.get(after.checked_sub(1)?)?;
        let inside = held.file_no == file_no && position - held.position < held.bytes.len() as u64;
        inside.then_some(held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_frames_are_found_by_file_and_position() {
        let ring = Ring::new(30);
        ring.push(1, 50, Bytes::from_static(b"0123456789"));
        ring.push(1, 60, Bytes::from_static(b"abcdefghij"));
        ring.push(2, 50, Bytes::from_static(b"ABCDEFGHIJ"));
        assert_eq!(ring.get(1, 52, 3).as_deref(), Some(&b"234"[..]));
        assert_eq!(ring.get(1, 60, 10).as_deref(), Some(&b"abcdefghij"[..]));
        assert_eq!(ring.get(2, 59, 1).as_deref(), Some(&b"J"[..]));
        for (file_no, position, len) in [(1, 49, 1), (1, 58, 3), (1, 70, 1), (3, 50, 1)] {
            assert_eq!(ring.get(file_no, position, len), None, "{file_no} {position} {len}");
        }
        ring.push(2, 60, Bytes::from_static(b"!"));
        assert_eq!((ring.holds(1, 52), ring.holds(1, 60)), (false, true));
        assert_eq!(ring.oldest_file(), Some(1));
    }

    #[test]
    fn what_was_forgotten_is_gone_and_what_comes_later_is_kept() {
        let ring = Ring::new(10);
        ring.push(1, 50, Bytes::from_static(b"01234"));
        ring.clear();
        assert_eq!((ring.get(1, 50, 1), ring.oldest_file()), (None, None));
        ring.push(2, 50, Bytes::from_static(b"0123456789"));
        assert_eq!((ring.get(2, 59, 1).as_deref(), ring.oldest_file()), (Some(&b"9"[..]), Some(2)));
    }

    #[test]
    fn a_frame_larger_than_the_ring_leaves_it_empty() {
        let ring = Ring::new(4);
        ring.push(1, 50, Bytes::from_static(b"01234"));
        assert_eq!((ring.get(1, 50, 1), ring.oldest_file()), (None, None));
    }
}
