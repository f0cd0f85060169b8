//! What happens to a stream as a whole, all of it in one direction only: it is created, closed,
//! deleted; its boundary, its snapshot and its attributes' version advance.

use std::collections::BTreeMap;

use crate::log::{Checked, breach};

/// Whether something has happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tri {
    /// Nobody has asked for it.
    No,
    /// It was asked for, and no answer has told yet.
    Maybe,
    /// An answer has told.
    Yes,
}

/// A snapshot that somebody has asked to publish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The stream that it was published on; not this one on a fork that inherited it.
    pub stream: u32,
    /// Which of that stream's bodies.
    pub k: u32,
    /// Its digest, as the server tells it.
    pub digest: String,
    /// Whether publishing it also moved the boundary.
    pub trims: bool,
}

/// What was certain when a request began: the answer may not fall behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sight {
    /// When, in microseconds since the run began.
    pub at: u64,
    /// The highest tail that anybody had been told of.
    pub floor: u64,
    /// Whether the stream was known to be deleted.
    pub gone: bool,
    /// Whether it was known to be closed.
    pub closed: bool,
    /// Its boundary.
    pub retained: u64,
    /// The offset of its visible snapshot.
    pub snapshot: Option<u64>,
    /// The version of its attributes.
    pub attributes: u32,
}

/// One stream's facts.
#[derive(Debug)]
pub struct Life {
    /// Its creation.
    pub born: Tri,
    /// Its deletion.
    pub gone: Tri,
    /// Its end for writers.
    pub closed: Tri,
    /// Where it was closed.
    pub final_tail: Option<u64>,
    /// The lowest boundary that it can have.
    pub retained: u64,
    /// The highest one.
    pub retained_max: u64,
    /// The lowest offset that its visible snapshot can have.
    pub snapshot: Option<u64>,
    /// Everything that was ever to be published, by offset.
    pub publishes: BTreeMap<u64, Snapshot>,
    /// The lowest version that its attributes can have; 0 is none.
    pub attributes: u32,
    /// The highest one.
    pub attributes_max: u32,
}

impl Life {
    /// A stream that somebody is about to create.
    pub fn new() -> Self {
        Self {
            born: Tri::Maybe,
            gone: Tri::No,
            closed: Tri::No,
            final_tail: None,
            retained: 0,
            retained_max: 0,
            snapshot: None,
            publishes: BTreeMap::new(),
            attributes: 0,
            attributes_max: 0,
        }
    }

    /// What is certain now.
    pub fn sight(&self, at: u64, floor: u64) -> Sight {
        Sight {
            at,
            floor,
            gone: self.gone == Tri::Yes,
            closed: self.closed == Tri::Yes,
            retained: self.retained,
            snapshot: self.snapshot,
            attributes: self.attributes,
        }
    }

    /// Whether writers and actors may use it.
    pub fn lives(&self) -> bool {
        self.born == Tri::Yes && self.gone == Tri::No
    }

    /// An answer shows that the stream is there.
    pub fn there(&mut self, sight: &Sight) -> Checked {
        if sight.gone {
            return breach!("it was deleted and is back");
        }
        self.born = Tri::Yes;
        Ok(())
    }

    /// An answer says that the stream is not there (404 or 410).
    pub fn missing(&mut self) -> Checked {
        match (self.born, self.gone) {
            (Tri::Yes, Tri::No) => breach!("it is lost: nobody has deleted it"),
            (Tri::Yes, _) => {
                self.gone = Tri::Yes;
                Ok(())
            }
            // Its creation is under way, or never happened.
            (Tri::No | Tri::Maybe, _) => Ok(()),
        }
    }

    /// An answer that names the tail says that the stream is closed.
    pub fn closed_at(&mut self, tail: u64, floor_now: u64) -> Checked {
        if self.closed == Tri::No {
            return breach!("it is closed and nobody has asked for that");
        }
        if tail < floor_now {
            return breach!("it is closed at {tail}, below {floor_now}, which was its tail");
        }
        if let Some(is) = self.final_tail.filter(|is| *is != tail) {
            return breach!("it was closed at {is} and is now closed at {tail}");
        }
        self.closed = Tri::Yes;
        self.final_tail = Some(tail);
        Ok(())
    }

    /// An answer that would say so if it were closed does not.
    pub fn open(&self, sight: &Sight) -> Checked {
        if sight.closed { breach!("it was closed and is open again") } else { Ok(()) }
    }

    /// An answer names the boundary.
    pub fn retained_at(&mut self, sight: &Sight, retained: u64) -> Checked {
        if retained < sight.retained {
            return breach!("its boundary went back from {} to {retained}", sight.retained);
        }
        if retained > self.retained_max {
            let max = self.retained_max;
            return breach!("its boundary is {retained}, and nobody asked for more than {max}");
        }
        self.retained = self.retained.max(retained);
        Ok(())
    }

    /// An answer shows the visible snapshot, and the boundary of the same moment if it tells both.
    pub fn snapshot_is(
        &mut self,
        sight: &Sight,
        visible: Option<(u64, &str)>,
        retained: Option<u64>,
    ) -> Checked<Option<Snapshot>> {
        let Some((offset, digest)) = visible else {
            return match sight.snapshot {
                Some(was) => breach!("its snapshot at {was} is gone"),
                None => Ok(None),
            };
        };
        if let Some(was) = sight.snapshot.filter(|was| offset < *was) {
            return breach!("its snapshot went back from {was} to {offset}");
        }
        let Some(snapshot) = self.publishes.get(&offset).filter(|is| is.digest == digest) else {
            return breach!("nobody published the snapshot at {offset} with the digest {digest}");
        };
        if let Some(retained) = retained.filter(|retained| snapshot.trims && *retained < offset) {
            return breach!(
                "its snapshot at {offset} was to move the boundary as well, which is {retained}"
            );
        }
        self.snapshot = self.snapshot.max(Some(offset));
        Ok(Some(snapshot.clone()))
    }

    /// An answer shows the version of the attributes.
    pub fn attributes_are(&mut self, sight: &Sight, version: u32) -> Checked {
        if version < sight.attributes || version > self.attributes_max {
            let (min, max) = (sight.attributes, self.attributes_max);
            return breach!("its attributes are version {version}, not {min} to {max}");
        }
        self.attributes = self.attributes.max(version);
        Ok(())
    }

    /// What a fork at `base` may have inherited from its source, of which `sight` was certain
    /// before the request.
    pub fn inherit(&mut self, base: u64, sight: &Sight, source: &Self) {
        self.retained = sight.retained;
        self.retained_max = source.retained_max.min(base);
        self.publishes = source.publishes.clone();
        self.publishes.retain(|offset, _| *offset <= base);
        let newest = source.publishes.last_key_value().map(|(offset, _)| *offset);
        self.snapshot = sight.snapshot.filter(|is| *is <= base && newest == Some(*is));
    }

    /// The visible snapshot, where there is no doubt which one it is.
    pub fn visible(&self) -> Option<(u64, &Snapshot)> {
        let (offset, newest) = self.publishes.last_key_value()?;
        (self.snapshot == Some(*offset)).then_some((*offset, newest))
    }

    /// Everything is quiet and all answers are in: what was in question is what it now looks like.
    pub fn settle(&mut self, there: bool, closed: bool) {
        let decided = |fact: Tri, is: bool| match fact {
            Tri::Maybe if is => Tri::Yes,
            Tri::Maybe => Tri::No,
            fact => fact,
        };
        if self.born == Tri::Maybe {
            self.born = decided(self.born, there);
            self.gone = if there { self.gone } else { Tri::Yes };
        }
        self.gone = decided(self.gone, !there);
        self.closed = decided(self.closed, closed);
        if !there {
            return;
        }
        self.retained_max = self.retained;
        self.attributes_max = self.attributes;
        let visible = self.snapshot;
        self.publishes.retain(|offset, _| Some(*offset) <= visible);
    }
}

impl Default for Life {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn broken<T: std::fmt::Debug>(checked: Checked<T>, says: &str) {
        let breach = checked.expect_err(says);
        assert!(breach.0.contains(says), "{breach}");
    }

    fn born() -> Life {
        Life { born: Tri::Yes, ..Life::new() }
    }

    fn snapshot(digest: &str, trims: bool) -> Snapshot {
        Snapshot { stream: 1, k: 1, digest: digest.into(), trims }
    }

    #[test]
    fn a_resurrected_delete_is_found() {
        let mut life = Life { gone: Tri::Maybe, ..born() };
        let before = life.sight(0, 0);
        life.missing().unwrap();
        // That answer had been under way.
        life.there(&before).unwrap();
        let after = life.sight(0, 0);
        broken(life.there(&after), "is back");
    }

    #[test]
    fn a_lost_stream_is_found() {
        broken(born().missing(), "lost");
        Life::new().missing().unwrap();
    }

    #[test]
    fn a_delete_without_an_answer_may_have_happened_or_not() {
        for there in [true, false] {
            let mut life = Life { gone: Tri::Maybe, ..born() };
            life.settle(there, false);
            assert_eq!(life.gone == Tri::Yes, !there);
        }
    }

    #[test]
    fn a_close_is_for_ever_and_at_one_place() {
        broken(born().closed_at(10, 10), "nobody has asked");
        let mut life = Life { closed: Tri::Maybe, ..born() };
        broken(life.closed_at(10, 20), "below 20");
        life.closed_at(20, 20).unwrap();
        broken(life.closed_at(30, 20), "was closed at 20");
        broken(life.open(&life.sight(0, 0)), "open again");
    }

    #[test]
    fn the_boundary_neither_goes_back_nor_ahead_of_what_was_asked() {
        let mut life = Life { retained_max: 50, ..born() };
        let sight = life.sight(0, 0);
        broken(life.retained_at(&sight, 60), "nobody asked");
        life.retained_at(&sight, 50).unwrap();
        let sight = life.sight(0, 0);
        broken(life.retained_at(&sight, 40), "went back");
    }

    #[test]
    fn the_snapshot_never_goes_back_and_is_one_that_was_published() {
        let mut life = born();
        life.publishes.insert(10, snapshot("a", false));
        life.publishes.insert(20, snapshot("b", true));
        let sight = life.sight(0, 0);
        broken(life.snapshot_is(&sight, Some((20, "a")), None), "nobody published");
        broken(life.snapshot_is(&sight, Some((20, "b")), Some(10)), "move the boundary as well");
        life.snapshot_is(&sight, Some((20, "b")), Some(20)).unwrap();
        let sight = life.sight(0, 0);
        broken(life.snapshot_is(&sight, Some((10, "a")), None), "went back");
        broken(life.snapshot_is(&sight, None, None), "is gone");
    }

    #[test]
    fn attributes_are_a_version_between_the_acknowledged_and_the_newest() {
        let mut life = Life { attributes: 2, attributes_max: 4, ..born() };
        let sight = life.sight(0, 0);
        broken(life.attributes_are(&sight, 1), "version 1");
        broken(life.attributes_are(&sight, 5), "version 5");
        life.attributes_are(&sight, 3).unwrap();
    }
}
