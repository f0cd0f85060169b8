//! Verifying: whatever byte of whatever file is damaged, it is found where it is; what is not
//! damaged is not called so; and nothing is changed.

use std::collections::BTreeMap;

use headwater_core::ids::{Lsn, Offset, ShardNo, StreamId};
use headwater_storage::{
    Disk, Entry, Finding, MemDisk, Need, Part, Piece, Scanned, Seen, Verdict, Watcher, verify,
};

use crate::golden;
use crate::support::*;

/// Remembers everything that a scan tells.
#[derive(Default)]
pub(crate) struct Notes {
    pub(crate) findings: Vec<Finding>,
    pub(crate) entries: Vec<Lsn>,
    pub(crate) images: Vec<ShardNo>,
    pub(crate) bytes: BTreeMap<StreamId, BTreeMap<Offset, Vec<u8>>>,
}

impl Watcher for Notes {
    fn finding(&mut self, finding: Finding) {
        self.findings.push(finding);
    }

    fn image(&mut self, shard: ShardNo, _named: bool, _image: &[u8]) -> Result<(), String> {
        self.images.push(shard);
        Ok(())
    }

    fn entry(&mut self, seen: Seen<'_>) -> Result<(), String> {
        self.entries.push(seen.lsn);
        Ok(())
    }

    fn bytes(&mut self, piece: Piece, bytes: &[u8]) {
        let stream = self.bytes.entry(piece.stream).or_default();
        stream.insert(piece.offset, bytes.to_vec());
    }
}

impl Notes {
    pub(crate) fn worst(&self) -> Option<Verdict> {
        self.findings.iter().map(|finding| finding.verdict).max()
    }

    /// The stream's bytes from its start on, as far as they are there without a gap.
    fn prefix(&self, id: StreamId) -> Vec<u8> {
        let mut all = Vec::new();
        for (offset, bytes) in self.bytes.get(&id).into_iter().flatten() {
            if offset.0 == all.len() as u64 {
                all.extend_from_slice(bytes);
            }
        }
        all
    }
}

pub(crate) fn scan(disk: &dyn Disk) -> (Notes, Scanned) {
    let mut notes = Notes::default();
    let scanned = verify(disk, &mut notes).unwrap();
    (notes, scanned)
}

/// Log files below and above the checkpoint, segments, a checkpoint, a blob, and a clean end.
fn rich() -> (MemDisk, Model) {
    let disk = golden::load(2);
    let mut model = golden::example(2).1;
    let (store, _) = open_with(&disk, 3, golden::options()).unwrap();
    for n in 0..8 {
        append(&store, &mut model, stream(3, 1 + n % 2), &[message(n, 200), message(n, 30)]);
        upkeep(&store);
    }
    let mut round = store.begin_checkpoint().unwrap();
    for shard in [0, 1, 2, 3, 9] {
        round.add(ShardNo(shard), store.durable(), &[shard; 5]).unwrap();
    }
    store.finish_checkpoint(round).unwrap();
    append(&store, &mut model, stream(3, 1), &[message(50, 100)]);
    upkeep(&store);
    store.seal(headwater_core::ids::Timestamp(4_000)).unwrap();
    (disk, model)
}

#[test]
fn every_version_of_the_format_that_was_shipped_is_found_intact() {
    for version in [1, 2] {
        let disk = golden::load(version);
        let before = disk.contents();
        let (notes, scanned) = scan(&disk);
        assert!(notes.findings.is_empty(), "version {version}: {:?}", notes.findings);
        assert!(scanned.bytes > 0);
        let (_, model) = golden::example(version);
        for (id, messages) in &model.streams {
            assert_eq!(notes.prefix(*id), messages.concat(), "version {version}");
        }
        assert!(before == disk.contents(), "nothing is changed");
    }
}

#[test]
fn a_directory_in_use_is_intact_after_a_clean_stop_and_all_its_bytes_are_seen() {
    let (disk, model) = rich();
    let (notes, _) = scan(&disk);
    assert!(notes.findings.is_empty(), "{:?}", notes.findings);
    for (id, messages) in &model.streams {
        assert_eq!(notes.prefix(*id), messages.concat());
    }
}

/// What nothing can notice: the lsn in a block's header, which nothing relies on and no checksum
/// covers.
fn is_free(path: &str, at: usize, notes: &[usize]) -> bool {
    path.starts_with("checkpoint/")
        && notes.iter().any(|block| (block + 8..block + 16).contains(&at))
}

fn blocks(disk: &MemDisk, path: &str) -> Vec<usize> {
    let file = disk.open(path).unwrap();
    let (mut at, mut found) = (40, Vec::new());
    while at < file.len().unwrap() {
        let mut len = [0; 8];
        file.read_at(&mut len, at + 16).unwrap();
        found.push(at as usize);
        at += 24 + u64::from_le_bytes(len);
    }
    found
}

#[test]
fn a_flipped_bit_in_any_byte_of_any_file_is_reported_where_it_is() {
    let (disk, _) = rich();
    let mut parts = BTreeMap::new();
    for (path, good) in disk.contents() {
        let blocks =
            if path.starts_with("checkpoint/") { blocks(&disk, &path) } else { Vec::new() };
        let file = disk.open(&path).unwrap();
        for at in 0..good.len() {
            let flipped = good[at] ^ (1 << (at % 8));
            file.write_at(&[flipped], at as u64).unwrap();
            let (notes, _) = scan(&disk);
            file.write_at(&good[at..=at], at as u64).unwrap();
            if is_free(&path, at, &blocks) {
                continue;
            }
            let here = notes.findings.iter().find(|finding| {
                let start = finding.at.offset.unwrap();
                let within = finding.len == 0 || (at as u64) < start + finding.len;
                finding.at.path == path && start <= at as u64 && within
            });
            let Some(here) = here else { panic!("{path} byte {at}: {:?}", notes.findings) };
            // A blob with bad ends is one that was being written, for all that storage knows.
            let torn = path.starts_with("blob/");
            assert!(here.verdict >= Verdict::Version || torn, "{path} byte {at}: {here:?}");
            *parts.entry(here.part).or_insert(0) += 1;
        }
    }
    for part in [
        Part::Manifest,
        Part::Checkpoint,
        Part::Header,
        Part::Frame,
        Part::Entry,
        Part::Footer,
        Part::Table,
        Part::Block,
        Part::Blob,
    ] {
        assert!(parts.contains_key(&part), "{part:?} in {parts:?}");
    }
}

#[test]
fn a_file_that_ends_early_or_is_gone_is_reported() {
    let (disk, _) = rich();
    for (path, good) in disk.contents() {
        for len in [0, 1, 40, good.len() / 2, good.len() - 1] {
            let copy = disk.copy();
            copy.open(&path).unwrap().set_len(len as u64).unwrap();
            let (notes, _) = scan(&copy);
            let here = notes.findings.iter().any(|finding| finding.at.path == path);
            assert!(here, "{path} cut at {len}: {:?}", notes.findings);
        }
        let copy = disk.copy();
        copy.remove(&path).unwrap();
        let (notes, _) = scan(&copy);
        // Only the engine knows which blobs there must be.
        let blob = path.starts_with("blob/");
        assert!(blob || notes.worst() == Some(Verdict::Damage), "{path} is gone");
    }
}

#[test]
fn a_torn_end_of_an_unsealed_log_is_no_damage() {
    let disk = MemDisk::new();
    let (store, _) = open(&disk, 1);
    let mut model = Model::default();
    for n in 0..4 {
        append(&store, &mut model, stream(1, 1), &[message(n, 500)]);
    }
    drop(store);
    let path = "log/0000000001.log";
    let end = disk.contents().into_iter().find(|(name, _)| name == path).unwrap().1;
    let last = end.iter().rposition(|byte| *byte != 0).unwrap();
    disk.open(path).unwrap().write_at(&[0; 100], last as u64 - 99).unwrap();
    let (notes, _) = scan(&disk);
    let [torn] = &notes.findings[..] else { panic!("{:?}", notes.findings) };
    assert_eq!((torn.verdict, torn.part), (Verdict::Torn, Part::Frame));
    assert_eq!(torn.at.path, path);
    assert!(notes.prefix(stream(1, 1)).len() >= 1_500);
    assert_eq!(notes.entries.len(), 3);
}

#[test]
fn what_lies_behind_a_damaged_frame_is_intact_and_the_frame_names_its_streams() {
    let disk = MemDisk::new();
    let (store, _) = open(&disk, 1);
    let mut model = Model::default();
    for n in 0..6 {
        let group = [
            model.append(stream(1, 1), &[message(n, 300)]),
            model.append(stream(2, 2), &[message(n + 10, 300)]),
            Entry { shard: ShardNo(9), meta: "no data".into(), data: None },
        ];
        enqueue(&store, &group, 0);
        commit(&store);
    }
    store.seal(headwater_core::ids::Timestamp(4_000)).unwrap();
    let path = "log/0000000001.log";
    let bytes = disk.contents().into_iter().find(|(name, _)| name == path).unwrap().1;
    // A byte of the third message of the second stream.
    let message = &model.messages(stream(2, 2))[2];
    let at = memchr_find(&bytes, message) + 7;
    disk.open(path).unwrap().write_at(&[bytes[at] ^ 1], at as u64).unwrap();
    let (notes, _) = scan(&disk);
    let found: Vec<_> = notes.findings.iter().map(|f| (f.part, f.streams.clone())).collect();
    let both = vec![stream(1, 1), stream(2, 2)];
    assert_eq!(found, [(Part::Entry, vec![stream(2, 2)]), (Part::Frame, both)]);
    assert_eq!(notes.prefix(stream(1, 1)), model.messages(stream(1, 1)).concat());
    let second = &notes.bytes[&stream(2, 2)];
    let all = model.messages(stream(2, 2)).concat();
    for offset in [0, 300, 900, 1200, 1500] {
        assert_eq!(second[&Offset(offset)], all[offset as usize..][..300]);
    }
    assert!(!second.contains_key(&Offset(600)));
}

fn memchr_find(bytes: &[u8], part: &[u8]) -> usize {
    bytes.windows(part.len()).position(|window| window == part).unwrap()
}

#[test]
fn extra_files_are_told_and_are_no_damage() {
    let (disk, _) = rich();
    for path in
        ["stranger", "log/notes.txt", "segment/0000000099.seg", "checkpoint/0000000099.ckpt"]
    {
        disk.create(path).unwrap();
    }
    let (notes, _) = scan(&disk);
    let told: Vec<_> = notes.findings.iter().map(|finding| finding.at.path.as_str()).collect();
    let expected =
        ["stranger", "checkpoint/0000000099.ckpt", "log/notes.txt", "segment/0000000099.seg"];
    assert_eq!(told, expected);
    assert_eq!(notes.worst(), Some(Verdict::Leftover));
}

#[test]
fn compaction_leaves_a_directory_that_is_intact_at_every_step() {
    let disk = MemDisk::new();
    let (store, _) = open_with(&disk, 1, golden::options()).unwrap();
    let mut model = Model::default();
    for n in 0..30 {
        append(&store, &mut model, stream((n % 3) as u8, 1), &[message(n, 120)]);
        upkeep(&store);
        if n % 10 == 9 {
            let mut round = store.begin_checkpoint().unwrap();
            for shard in 0..3 {
                round.add(ShardNo(shard), store.durable(), b"image").unwrap();
            }
            store.finish_checkpoint(round).unwrap();
        }
        let all = |_, start, _| Need { from: Some(start), older: true };
        while store.compact(&all).unwrap() {
            let (notes, _) = scan(&disk);
            assert!(notes.worst() <= Some(Verdict::Torn), "{:?}", notes.findings);
        }
        let (notes, _) = scan(&disk);
        assert!(notes.worst() <= Some(Verdict::Torn), "{:?}", notes.findings);
        for (id, messages) in &model.streams {
            assert_eq!(notes.prefix(*id), messages.concat());
        }
    }
}
