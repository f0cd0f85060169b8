//! Pins: a file that was found dead is removed, and a stream that ended is forgotten, only when
//! every reader that might still be in it has gone.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use headwater_core::ids::StreamId;

use crate::log::file::FileNo;
use crate::segment::SegmentNo;

/// What goes when no pin protects it any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dead {
    /// A log file without a live byte, or one that segments stand for.
    File(FileNo),
    /// A segment that others stand for, or nobody needs.
    Segment(SegmentNo),
    /// A stream that ended: where it lies can be forgotten.
    Stream(StreamId),
}

/// While it lives, nothing that was found dead after it was taken goes.
pub struct Pin {
    pins: Arc<Pins>,
    epoch: u64,
}

/// The pins that are out, and what waits for them.
#[derive(Default)]
pub(crate) struct Pins {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// Counts the moments at which something was found dead.
    epoch: u64,
    /// How many pins of each epoch are out.
    held: BTreeMap<u64, u64>,
    /// What is dead, with the epoch at which it was found.
    condemned: Vec<(u64, Dead)>,
}

impl Pins {
    pub(crate) fn pin(self: &Arc<Self>) -> Pin {
        let mut inner = self.inner.lock();
        let epoch = inner.epoch;
        *inner.held.entry(epoch).or_insert(0) += 1;
        Pin { pins: Arc::clone(self), epoch }
    }

    /// Hands over what only readers that are under way may still look at.
    pub(crate) fn condemn(&self, dead: impl IntoIterator<Item = Dead>) {
        let mut inner = self.inner.lock();
        let epoch = inner.epoch;
        inner.condemned.extend(dead.into_iter().map(|dead| (epoch, dead)));
        inner.epoch += 1;
    }

    /// Takes what no pin protects.
    pub(crate) fn take_free(&self) -> Vec<Dead> {
        let mut inner = self.inner.lock();
        let oldest = inner.held.keys().next().copied().unwrap_or(u64::MAX);
        let free = inner.condemned.extract_if(.., |(epoch, _)| *epoch < oldest);
        free.map(|(_, dead)| dead).collect()
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        let mut inner = self.pins.inner.lock();
        if let Some(count) = inner.held.get_mut(&self.epoch) {
            *count -= 1;
            if *count == 0 {
                inner.held.remove(&self.epoch);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dead_file_waits_for_older_pins_only() {
        let pins = Arc::new(Pins::default());
        let before = pins.pin();
        pins.condemn([Dead::File(1), Dead::File(2)]);
        let after = pins.pin();
        assert!(pins.take_free().is_empty());
        drop(before);
        assert_eq!(pins.take_free(), [Dead::File(1), Dead::File(2)]);
        pins.condemn([Dead::File(3)]);
        assert!(pins.take_free().is_empty());
        drop(after);
        assert_eq!((pins.take_free(), pins.take_free()), (vec![Dead::File(3)], vec![]));
    }
}
