//! What is gone for good. A run keeps nothing of a deleted stream but its name, and only so many
//! names, so that a round of a long run costs what one of a short run does.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use crate::http::{Client, Request};
use crate::life::Tri;
use crate::rng::Rng;
use crate::world::{Place, Stream, World};

/// So many names are remembered. With more, those that stay are drawn by chance.
const GRAVES_MAX: usize = 2000;

/// So many of them are looked at in each audit.
const GRAVES_LOOKED_AT: u64 = 40;

/// A deleted stream is looked at after so many restarts before it is forgotten.
const RESTARTS_SEEN: u32 = 2;

/// Names of streams that are gone, and that nobody will create again.
#[derive(Debug, Default)]
pub struct Graves {
    names: Vec<Grave>,
    buried: u64,
}

#[derive(Debug)]
struct Grave {
    no: u32,
    place: Place,
}

impl Graves {
    /// Takes in a name, where every name so far has the same chance to be kept.
    fn put(&mut self, grave: Grave, rng: &mut Rng) {
        self.buried += 1;
        if self.names.len() < GRAVES_MAX {
            return self.names.push(grave);
        }
        let at = usize::try_from(rng.below(self.buried)).unwrap_or(usize::MAX);
        if let Some(place) = self.names.get_mut(at) {
            *place = grave;
        }
    }

    /// Some of the names must still name nothing.
    pub fn audit(&self, world: &World, client: &mut Client, rng: &mut Rng) {
        let count = self.names.len() as u64;
        for _ in 0..count.min(GRAVES_LOOKED_AT) {
            let Some(grave) = rng.pick(&self.names) else { return };
            let answer = client.call(&Request::new("HEAD", grave.place.path(rng)));
            let status = answer.as_ref().map(|answer| answer.status);
            if !matches!(status, Ok(404 | 410)) {
                let Grave { no, place } = grave;
                world.breach(format!("s{no} {place}: it was deleted long ago: {answer:?}"));
            }
        }
    }

    /// After an audit, while nobody works: takes out of `world` what has been gone for some
    /// restarts and what no fork needs.
    pub fn bury(&mut self, world: &World, rng: &mut Rng) {
        let held = world.held();
        let is_old = |stream: &Stream| {
            let seen = stream.round.load(Ordering::SeqCst) + RESTARTS_SEEN < world.round();
            seen && stream.ends().1 == Tri::Yes && !held.contains(&stream.no)
        };
        for stream in world.take_out(is_old) {
            // A name that was taken again is that of the later stream.
            if !stream.superseded.load(Ordering::SeqCst) {
                self.put(Grave { no: stream.no, place: stream.place.clone() }, rng);
            }
        }
    }
}

impl World {
    /// The deleted and the living streams of which forks need what is left, for all that is known.
    pub fn held(&self) -> BTreeSet<u32> {
        let mut held = BTreeSet::new();
        // A fork is younger than its source.
        for stream in self.streams().iter().rev() {
            let needs_source = match stream.ends() {
                (Tri::No, _) => false,
                (_, Tri::Yes) => held.contains(&stream.no),
                _ => true,
            };
            held.extend(stream.source.as_ref().filter(|_| needs_source).map(|source| source.no));
        }
        held
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::world::Form;

    fn stream(world: &World, source: Option<&Arc<Stream>>, gone: Tri) -> Arc<Stream> {
        let fork = source.map(|source| (Arc::clone(source), 0, None));
        let stream = world.enrol(|no| Place::Base(format!("s{no}")), Form::Text, fork);
        stream.settle_ends(Tri::Yes, gone);
        stream
    }

    #[test]
    fn what_a_living_fork_needs_is_held_through_dead_forks() {
        let world = World::new(1);
        let first = stream(&world, None, Tri::Yes);
        let second = stream(&world, Some(&first), Tri::Yes);
        let third = stream(&world, Some(&second), Tri::Maybe);
        let lone = stream(&world, None, Tri::Yes);
        let _dead_fork = stream(&world, Some(&lone), Tri::Yes);
        assert_eq!(world.held(), BTreeSet::from([first.no, second.no]));
        third.settle_ends(Tri::Yes, Tri::Yes);
        assert!(world.held().is_empty());
    }

    #[test]
    fn only_what_has_been_gone_for_some_restarts_and_what_nobody_needs_is_forgotten() {
        let world = World::new(1);
        let (mut graves, mut rng) = (Graves::default(), Rng::of(1, &[]));
        let source = stream(&world, None, Tri::Yes);
        let living = stream(&world, Some(&source), Tri::No);
        let _gone = stream(&world, None, Tri::Yes);
        world.round.store(RESTARTS_SEEN, Ordering::SeqCst);
        graves.bury(&world, &mut rng);
        assert_eq!((world.streams().len(), graves.names.len()), (3, 0));
        world.round.store(RESTARTS_SEEN + 1, Ordering::SeqCst);
        graves.bury(&world, &mut rng);
        let left: Vec<u32> = world.streams().iter().map(|stream| stream.no).collect();
        assert_eq!((left, graves.names.len()), (vec![source.no, living.no], 1));
        let next = stream(&world, None, Tri::No);
        assert_eq!(next.no, 3, "numbers are not used again");
    }

    #[test]
    fn so_many_names_are_kept_and_each_may_be_among_them() {
        let (mut graves, mut rng) = (Graves::default(), Rng::of(1, &[]));
        let many = 3 * u32::try_from(GRAVES_MAX).unwrap();
        for no in 0..many {
            graves.put(Grave { no, place: Place::Base(String::new()) }, &mut rng);
        }
        assert_eq!(graves.names.len(), GRAVES_MAX);
        let late = graves.names.iter().filter(|grave| grave.no >= many / 2).count();
        assert!((GRAVES_MAX / 3..GRAVES_MAX * 2 / 3).contains(&late), "{late}");
    }
}
