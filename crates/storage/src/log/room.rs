//! Room in the log: reserved before anything is decided, so that a group that was accepted can
//! always be written.
//!
//! **Why a reserved group always finds room.** Groups are placed in order, each in the front file
//! if it fits there, else in the next. Let `S` be the sum of the outstanding permits, `L` at least
//! the largest of them, and `r0 … rk` the room left in the allocated files. The invariant is that
//! for some file `j`
//!
//! ```text
//! S ≤ max(0, r0 − L) + … + max(0, r(j−1) − L) + rj
//! ```
//!
//! - *It suffices.* If `j` is the front file, then `S ≤ r0`, and whatever comes fits there.
//! - *Placing in the front file* takes the group's bytes from `S` and no more than that from the
//!   right side.
//! - *Moving on* happens when a group does not fit: `j` was not the front file, `r0 < L`, and so
//!   the file that is left behind counted for nothing.
//! - *Giving back* a permit makes `S` smaller, and `L` no larger.
//! - *Adding a file* leaves `j` where it is.
//! - *A new permit* is given only where the invariant holds with it.
//!
//! Every file keeps [`FIXED_BYTES`] apart, so a seal and a footer always fit, too.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;

use super::file::{self, FileNo, LogFile};
use super::{footer, frame};

/// What every file needs besides frames: a seal, and the fixed end of the footer.
pub(crate) const FIXED_BYTES: u64 = frame::HEADER_BYTES + footer::TRAILER_BYTES;

/// Zeroes for frames of this length would be a good part of all bytes written.
const LONG_FRAME_BYTES: u64 = 32 << 10;

/// What reserved room is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// Creates, appends, snapshots, attributes: refused once free space is under the reserve.
    Normal,
    /// Deletes, closes, retention, expiry: may dip into the disk reserve, so that space can always
    /// come back.
    Essential,
}

/// Room for one group in files that are already allocated. Given back on drop, used up by
/// [`crate::Store::enqueue`].
pub struct Permit {
    room: Arc<Mutex<Room>>,
    bytes: u64,
}

impl Permit {
    /// How large the group may be, as counted by [`crate::group_bytes`].
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.room.lock().permits.remove(self.bytes);
        }
    }
}

/// The allocated files that are not full yet, and what was promised of them.
pub(crate) struct Room {
    files: VecDeque<Filling>,
    /// Files that were passed over without a frame, since the next group was too large for them.
    skipped: Vec<FileNo>,
    permits: Outstanding,
    /// Room that only [`Use::Essential`] may have, for when the disk has none at all.
    held_back: u64,
}

struct Filling {
    file: Arc<LogFile>,
    /// Where the next frame goes.
    position: u64,
    /// What the frames so far need in the footer.
    footer: u64,
    /// How many there are.
    frames: u64,
}

/// Where a group goes.
pub(crate) enum Place {
    /// Behind the newest group, in the same frame.
    Join,
    /// In a frame of its own, at this position.
    NewFrame { file: Arc<LogFile>, position: u64 },
}

impl Room {
    pub(crate) fn new(held_back: u64) -> Self {
        let (files, skipped) = (VecDeque::new(), Vec::new());
        Self { files, skipped, permits: Outstanding::default(), held_back }
    }

    /// Adds an allocated file behind the others.
    pub(crate) fn add(&mut self, file: Arc<LogFile>) {
        self.files.push_back(Filling { file, position: file::HEADER_BYTES, footer: 0, frames: 0 });
    }

    /// A permit, if the invariant allows it.
    pub(crate) fn reserve(room: &Arc<Mutex<Self>>, bytes: u64, usage: Use) -> Option<Permit> {
        let bytes = bytes.max(1);
        let mut inner = room.lock();
        let fits = inner.fits(bytes, usage);
        fits.then(|| {
            inner.permits.add(bytes);
            Permit { room: Arc::clone(room), bytes }
        })
    }

    fn fits(&self, bytes: u64, usage: Use) -> bool {
        let held_back = match usage {
            Use::Normal => self.held_back,
            Use::Essential => 0,
        };
        let largest = self.permits.largest().max(bytes);
        let needed = self.permits.sum.saturating_add(bytes).saturating_add(held_back);
        let mut before = 0;
        self.files.iter().map(Filling::left).any(|left| {
            let enough = needed <= before + left;
            before += left.saturating_sub(largest);
            enough
        })
    }

    /// The room that one more file needs to bring a permit for `bytes` within reach: enough for
    /// everything, or twice the largest, so that it adds at least the largest even if it is not
    /// the last.
    pub(crate) fn wanted(&self, bytes: u64) -> u64 {
        let all = self.permits.sum.saturating_add(bytes).saturating_add(self.held_back);
        all.min(self.permits.largest().max(bytes).saturating_mul(2))
    }

    /// Uses up a permit: finds the place for `body` bytes of a group that need `footer` bytes in
    /// the footer. `may_join` says that the newest frame is still open and has not reached its cap.
    ///
    /// # Panics
    /// When the group is larger than its permit.
    pub(crate) fn place(
        &mut self,
        mut permit: Permit,
        body: u64,
        footer: u64,
        join: bool,
    ) -> Place {
        let alone = frame::HEADER_BYTES + body;
        let reserved = std::mem::take(&mut permit.bytes);
        self.permits.remove(reserved);
        assert!(alone + footer <= reserved, "a group is no larger than its permit");
        let joined = self.files.front_mut().filter(|front| join && body + footer <= front.left());
        if let Some(front) = joined {
            front.position += body;
            front.footer += footer;
            return Place::Join;
        }
        while self.files.front().is_some_and(|front| front.left() < alone + footer) {
            let left = self.files.pop_front().filter(Filling::is_unused);
            self.skipped.extend(left.map(|filling| filling.file.no));
        }
        let front = self.files.front_mut().expect("the invariant leaves a file with room");
        let place = Place::NewFrame { file: Arc::clone(&front.file), position: front.position };
        front.position += alone;
        front.footer += footer;
        front.frames += 1;
        place
    }

    /// Whether it is time to allocate the next file: none is ahead, and the front is half full.
    pub(crate) fn wants_file(&self) -> bool {
        match self.files.len() {
            0 => true,
            1 => self.files.front().is_some_and(|front| front.left() < front.file.size / 2),
            _ => false,
        }
    }

    /// Whether the frames of the front file are so long on average that preparing the next file
    /// would cost more than their syncs gain.
    pub(crate) fn has_long_frames(&self) -> bool {
        self.files.front().is_some_and(|front| front.position >= front.frames * LONG_FRAME_BYTES)
    }

    /// The front file and where the next frame would go, for the seal.
    pub(crate) fn front(&self) -> Option<(Arc<LogFile>, u64)> {
        self.files.front().map(|front| (Arc::clone(&front.file), front.position))
    }

    /// Takes the files that were passed over: they can be removed.
    pub(crate) fn take_skipped(&mut self) -> Vec<FileNo> {
        std::mem::take(&mut self.skipped)
    }

    /// Lets go of every file; returns those that never got a frame.
    pub(crate) fn close(&mut self) -> Vec<FileNo> {
        let unused = self.files.drain(..).filter(Filling::is_unused);
        self.skipped.extend(unused.map(|filling| filling.file.no));
        self.take_skipped()
    }
}

impl Filling {
    fn is_unused(&self) -> bool {
        self.position == file::HEADER_BYTES
    }

    fn left(&self) -> u64 {
        self.file.size.saturating_sub(self.position + self.footer + FIXED_BYTES)
    }
}

/// The permits that are out. Keeps the largest without keeping each: by size class, the largest
/// since the class was last empty, which is never too small.
struct Outstanding {
    sum: u64,
    classes: [Class; 64],
}

#[derive(Clone, Copy, Default)]
struct Class {
    count: u64,
    largest: u64,
}

impl Default for Outstanding {
    fn default() -> Self {
        Self { sum: 0, classes: [Class::default(); 64] }
    }
}

impl Outstanding {
    fn add(&mut self, bytes: u64) {
        self.sum += bytes;
        let class = self.class(bytes);
        class.count += 1;
        class.largest = class.largest.max(bytes);
    }

    fn remove(&mut self, bytes: u64) {
        self.sum -= bytes;
        let class = self.class(bytes);
        class.count -= 1;
        if class.count == 0 {
            class.largest = 0;
        }
    }

    fn largest(&self) -> u64 {
        self.classes.iter().rev().find(|class| class.count > 0).map_or(0, |class| class.largest)
    }

    fn class(&mut self, bytes: u64) -> &mut Class {
        &mut self.classes[(bytes | 1).ilog2() as usize]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::disk::{Disk, MemDisk};

    fn file(no: FileNo, size: u64) -> Arc<LogFile> {
        let handle = MemDisk::new().create("x").unwrap();
        Arc::new(LogFile { no, handle, size })
    }

    #[derive(Debug, Clone)]
    enum Step {
        Reserve(u64),
        AddFile(u64),
        GiveBack(usize),
        /// Use a permit for a group that is smaller by the second number.
        Place(usize, u64, bool),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (100u64..5_000).prop_map(Step::Reserve),
            1 => (0u64..6_000).prop_map(Step::AddFile),
            1 => any::<usize>().prop_map(Step::GiveBack),
            4 => (any::<usize>(), 0u64..200, any::<bool>())
                .prop_map(|(which, less, join)| Step::Place(which, less, join)),
        ]
    }

    proptest! {
        #[test]
        fn a_permit_is_never_broken(steps in proptest::collection::vec(step(), 1..200)) {
            let room = Arc::new(Mutex::new(Room::new(0)));
            let mut permits = Vec::new();
            let mut next_no = 1;
            let mut may_join = false;
            for step in steps {
                match step {
                    Step::Reserve(bytes) => {
                        permits.extend(Room::reserve(&room, bytes, Use::Normal));
                    }
                    Step::AddFile(extra) => {
                        let mut room = room.lock();
                        let fixed = file::HEADER_BYTES + FIXED_BYTES;
                        room.add(file(next_no, fixed + extra));
                        next_no += 1;
                    }
                    Step::GiveBack(which) if !permits.is_empty() => {
                        permits.swap_remove(which % permits.len());
                    }
                    Step::Place(which, less, join) if !permits.is_empty() => {
                        let permit = permits.swap_remove(which % permits.len());
                        let room_for_body = permit.bytes() - frame::HEADER_BYTES;
                        let body = room_for_body.saturating_sub(less);
                        // `place` asserts that there is room.
                        let join = join && may_join;
                        let place = room.lock().place(permit, body, room_for_body - body, join);
                        if let Place::NewFrame { file, position } = place {
                            let end = position + frame::HEADER_BYTES + body + FIXED_BYTES;
                            prop_assert!(end <= file.size);
                        }
                        may_join = true;
                    }
                    Step::GiveBack(_) | Step::Place(..) => {}
                }
            }
            for permit in permits {
                let body = permit.bytes() - frame::HEADER_BYTES;
                room.lock().place(permit, body, 0, false);
            }
            prop_assert_eq!(room.lock().permits.sum, 0);
        }
    }

    #[test]
    fn the_last_room_is_for_what_frees_room() {
        let room = Arc::new(Mutex::new(Room::new(1_000)));
        room.lock().add(file(1, file::HEADER_BYTES + FIXED_BYTES + 1_500));
        assert!(Room::reserve(&room, 501, Use::Normal).is_none());
        let normal = Room::reserve(&room, 500, Use::Normal).unwrap();
        let essential = Room::reserve(&room, 1_000, Use::Essential).unwrap();
        assert!(Room::reserve(&room, 1, Use::Essential).is_none());
        drop((normal, essential));
        assert!(Room::reserve(&room, 1_500, Use::Essential).is_some());
    }
}
