//! The store as the engine sees it, on a disk in memory unless the disk itself is the subject.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![expect(clippy::cast_possible_truncation, reason = "test data is small")]

mod backup;
mod blobs;
mod compact;
mod corpora;
mod crash;
mod crash_disk;
mod damage;
mod disk;
mod full;
mod golden;
mod lineage;
mod lookup_race;
mod recovery;
mod support;
mod threads;
mod upkeep;
mod verify;
mod writing;
