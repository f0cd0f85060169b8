//! The log: frames, groups, entries and what they mean to the core, footers, whole files.

use bytes::Bytes;
use headwater_core::entry::Entry as Meaning;
use headwater_core::ids::{Lsn, Timestamp};
use headwater_core::state::{Now, State};
use headwater_storage::fuzz::{Groups, footer, frame, log_header, write_frame};
use headwater_storage::{Disk, MemDisk};

use crate::files::scan;
use crate::input::Input;
use crate::mend;

/// The bytes in front of the first frame.
const HEADER_BYTES: usize = 60;

/// The file's number in its header.
const NUMBER: u32 = 1;

/// A flag, whether checksums are to be made right, and a log file.
pub(crate) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let mended = input.byte() & 1 == 1;
    let mut file = input.rest().to_vec();
    if mended {
        mend::log(&mut file, None);
    }
    scan("log/0000000001.log", &file);
    // Either may be refused; neither may panic.
    drop((log_header(NUMBER, &file), footer(NUMBER, &file)));
    let file = Bytes::from(file);
    let mut at = HEADER_BYTES;
    while let Some((len, groups)) = frame(&file, at) {
        if let Ok(groups) = groups {
            round_trip(&groups);
            apply(&groups);
        }
        at += len;
    }
}

/// What was read can be written, takes the room that it was said to, and is read as the same.
fn round_trip(groups: &Groups) {
    if groups.is_empty() || groups.iter().any(Vec::is_empty) {
        return;
    }
    let (written, room) = write_frame(groups);
    let (len, again) = frame(&Bytes::from(written.clone()), 0).expect("a frame that was written");
    assert_eq!(len, written.len());
    assert_eq!(again.as_ref(), Ok(groups));
    assert_eq!(room, written.len() as u64 - 72, "the room that was reserved");
}

/// The core applies any entries, in any order, and its image of what came of it is whole.
fn apply(groups: &Groups) {
    let decoded = groups.iter().flatten().map(|entry| Meaning::decode(&entry.meta));
    let meanings: Vec<Meaning> = decoded.filter_map(Result::ok).collect();
    let Some(shard) = meanings.first().map(Meaning::shard) else { return };
    let mut state = State::new(shard);
    for (lsn, meaning) in (1..).map(Lsn).zip(&meanings) {
        assert_eq!(Meaning::decode(&meaning.encode()).as_ref(), Ok(meaning));
        if meaning.shard() == shard {
            state.apply(meaning);
            state.mark(meaning, lsn);
        }
    }
    whole(&state);
}

/// A state is saved and restored as itself, and can be looked at.
pub(crate) fn whole(state: &State) {
    let image = state.image();
    let again = State::from_image(&image).expect("an image that was taken of a state");
    assert_eq!(again.image(), image, "an image of the image");
    let now = Now { wall: Timestamp(1), node: Timestamp(1) };
    for stream in state.streams() {
        let facts = stream.facts();
        assert!(stream.expired(now) || stream.deadline().is_none_or(|_| true));
        assert_eq!(facts.id, stream.id);
    }
}

/// A disk that holds one file.
pub(crate) fn disk_with(path: &str, bytes: &[u8]) -> MemDisk {
    let disk = MemDisk::new();
    for dir in ["log", "segment", "checkpoint", "blob", "cut", "tail"] {
        disk.create_dir(dir).expect("a disk in memory");
    }
    let file = disk.create(path).expect("a disk without a limit has room");
    file.write_at(bytes, 0).expect("a disk without a limit has room");
    disk
}
