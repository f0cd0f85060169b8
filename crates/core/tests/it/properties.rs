//! What holds after any sequence of commands, and what any bytes decode to. Most of the claims are
//! in [`World::check`], which runs after every step.

mod steps;

use std::collections::BTreeMap;
use std::sync::Arc;

use headwater_core::entry::Entry;
use headwater_core::ids::{Lineage, Offset, Record, StreamId};
use headwater_core::state::State;
use headwater_core::stream::fork::FORK_DEPTH_MAX;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use crate::world::{Outcome, World};
use steps::{Step, steps};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    /// After every step: replayed shards equal live ones, counts and references are right, every
    /// fork reads what it should, and nothing that only grows has shrunk.
    #[test]
    fn every_sequence_of_commands_keeps_the_invariants(steps in steps(80)) {
        let mut world = World::new();
        let mut marks = BTreeMap::new();
        for step in &steps {
            step.run(&mut world);
            world.check();
            check_growth(&world, &mut marks);
        }
    }

    /// An image gives back the shard that it was taken from, and is the same for equal shards.
    #[test]
    fn an_image_is_the_whole_shard(steps in steps(60)) {
        for state in after(&steps).shards() {
            let image = state.image();
            let read = State::from_image(&image).expect("our own image");
            prop_assert_eq!(&read, state);
            prop_assert_eq!(read.image(), image);
        }
    }

    /// Damaged entries are refused or read as some entry, which any shard survives.
    #[test]
    fn damaged_entries_never_panic(steps in steps(30), damage: Vec<(prop::sample::Index, u8)>) {
        let world = after(&steps);
        let mut states: Vec<State> = world.shards().iter().map(copy).collect();
        for (number, encoded) in world.log.iter().enumerate() {
            let mut bytes = encoded.to_vec();
            for (index, flip) in damage.iter().skip(number % 3).step_by(3) {
                let index = index.index(bytes.len());
                bytes[index] ^= flip;
            }
            if let Ok(entry) = Entry::decode(&bytes) {
                prop_assert_eq!(Entry::decode(&entry.encode()), Ok(entry.clone()));
                let state = &mut states[entry.shard().index()];
                state.apply(&entry);
            }
            for cut in 0..encoded.len() {
                prop_assert!(Entry::decode(&encoded[..cut]).is_err(), "a part is no whole");
            }
        }
        for state in &states {
            prop_assert!(State::from_image(&state.image()).is_ok());
        }
    }

    /// Damaged images are refused or read as some shard, which takes further entries.
    #[test]
    fn damaged_images_never_panic(
        steps in steps(30),
        damage in prop::collection::vec((any::<prop::sample::Index>(), 1_u8..), 1..4),
    ) {
        let world = after(&steps);
        for state in world.shards().iter().filter(|state| state.streams().len() > 0) {
            let mut bytes = state.image().to_vec();
            for (index, flip) in &damage {
                let index = index.index(bytes.len());
                bytes[index] ^= flip;
            }
            let Ok(mut read) = State::from_image(&bytes) else { continue };
            for encoded in &world.log {
                let entry = Entry::decode(encoded).expect("our own entry");
                if entry.shard() == read.shard() {
                    read.apply(&entry);
                }
            }
            prop_assert!(State::from_image(&read.image()).is_ok());
        }
    }

    /// No bytes make a decoder panic.
    #[test]
    fn any_bytes_decode_or_are_damaged(kind in 0_u8..20, bytes: Vec<u8>) {
        let bytes = [&[kind], &*bytes].concat();
        Entry::decode(&bytes).ok();
        State::from_image(&bytes).ok();
    }
}

/// A lineage longer than any chain of forks is damage: letting go of it could overflow the stack.
#[test]
fn a_lineage_longer_than_any_chain_is_damage() {
    let mut world = World::new();
    for step in Step::a_fork() {
        step.run(&mut world);
    }
    let forked = world.log.iter().rev().find_map(|encoded| match Entry::decode(encoded) {
        Ok(Entry::Created(created)) => Some(created),
        _ => None,
    });
    let mut created = forked.expect("a fork was created");
    let stream = created.id;
    let mut with_links = |links: usize| {
        let add = |parent, _| Some(Arc::new(Lineage { stream, end: Offset(1), parent }));
        created.origin.as_mut().expect("it is a fork").lineage = (0..links).fold(None, add);
        Entry::decode(&Entry::Created(created.clone()).encode())
    };
    for (links, decodes) in [(FORK_DEPTH_MAX, true), (FORK_DEPTH_MAX + 1, false)] {
        assert_eq!(with_links(links).is_ok(), decodes, "{links}");
    }
}

/// The properties above would hold for a generator that is always refused: this one is not.
#[test]
fn the_random_sequences_reach_every_kind_of_outcome() {
    let mut runner = TestRunner::deterministic();
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for _ in 0..400 {
        let mut world = World::new();
        for step in steps(80).new_tree(&mut runner).unwrap().current() {
            let outcome = step.run(&mut world);
            let words = outcome.iter().map(|outcome| match outcome {
                Outcome::Wrote(receipt) => format!("wrote {}", variant(receipt)),
                Outcome::Repeated(receipt) => format!("repeated {}", variant(receipt)),
                Outcome::Refused(refusal) => refusal.code().code.to_owned(),
            });
            for word in words {
                *seen.entry(word).or_default() += 1;
            }
        }
    }
    for word in [
        "wrote Done",
        "wrote BucketCreated",
        "wrote Created",
        "wrote Appended",
        "wrote Published",
        "wrote Retained",
        "repeated Created",
        "repeated Appended",
        "repeated Published",
        "repeated Retained",
        "BUCKET_NOT_EMPTY",
        "STREAM_DELETED",
        "STREAM_HELD",
        "STREAM_CLOSED",
        "PRODUCER_GAP",
        "OFFSET_TRIMMED",
        "OFFSET_NOT_A_BOUNDARY",
        "SNAPSHOT_STALE",
        "FORK_UNCOVERED",
        "FORK_OFFSET_TRIMMED",
        "FORK_SUB_OFFSET",
    ] {
        assert!(seen.contains_key(word), "{word} never happens: {seen:?}");
    }
}

fn variant(receipt: &impl std::fmt::Debug) -> String {
    let text = format!("{receipt:?}");
    text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default().to_owned()
}

fn after(steps: &[Step]) -> World {
    let mut world = World::new();
    for step in steps {
        step.run(&mut world);
    }
    world
}

fn copy(state: &State) -> State {
    State::from_image(&state.image()).expect("our own image")
}

type Marks = BTreeMap<StreamId, (Offset, Record, Offset, Record)>;

fn check_growth(world: &World, marks: &mut Marks) {
    for stream in world.shards().iter().flat_map(State::streams) {
        let now = (stream.tail, stream.next, stream.retained(), stream.first());
        let before = marks.insert(stream.id, now).unwrap_or_default();
        let grown =
            before.0 <= now.0 && before.1 <= now.1 && before.2 <= now.2 && before.3 <= now.3;
        assert!(grown, "{:?}: {before:?} became {now:?}", stream.name);
    }
}
