//! The other files of a data directory, one by one.

use headwater_core::entry::Entry as Meaning;
use headwater_core::ids::{BlobId, ShardNo};
use headwater_core::state::State;
use headwater_storage::fuzz;
use headwater_storage::{
    Backup, Disk, Finding, MemDisk, Seen, Watcher, restore, verify, verify_file,
};

use crate::input::Input;
use crate::log::{disk_with, whole};
use crate::mend;

/// The number of segments and checkpoint files, in their headers.
const NUMBER: u32 = 1;

/// The id of blobs, in their headers.
const BLOB: BlobId = BlobId(0xb10b);

/// Looks at what a scan finds as the engine does, and counts the findings.
#[derive(Debug, Default)]
pub(crate) struct Looker {
    pub(crate) findings: usize,
}

impl Watcher for Looker {
    fn finding(&mut self, finding: Finding) {
        assert!(!finding.detail.is_empty(), "a finding says what it is");
        self.findings += 1;
    }

    fn image(&mut self, _shard: ShardNo, _named: bool, image: &[u8]) -> Result<(), String> {
        let state = State::from_image(image).map_err(|damaged| damaged.what.to_owned())?;
        whole(&state);
        Ok(())
    }

    fn entry(&mut self, seen: Seen<'_>) -> Result<(), String> {
        let meaning = Meaning::decode(seen.meta).map_err(|damaged| damaged.what.to_owned())?;
        assert_eq!(Meaning::decode(&meaning.encode()).as_ref(), Ok(&meaning));
        Ok(())
    }
}

/// Reads one file as `headwater verify` does; nothing of it changes.
pub(crate) fn scan(path: &str, bytes: &[u8]) -> usize {
    let disk = disk_with(path, bytes);
    let mut looker = Looker::default();
    verify_file(&disk, path, &mut looker).expect("a disk in memory can be read");
    assert_eq!(disk.contents(), [(path.to_owned(), bytes.to_vec())]);
    looker.findings
}

/// A flag, whether checksums are to be made right, and a file.
fn file_of(data: &[u8], mend: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let mut input = Input::new(data);
    let mended = input.byte() & 1 == 1;
    let mut file = input.rest().to_vec();
    if mended {
        mend(&mut file);
    }
    file
}

/// A segment: the scan, and every step of a read.
pub(crate) fn segment(data: &[u8]) {
    let file = file_of(data, mend::segment);
    scan("segment/0000000001.seg", &file);
    drop(fuzz::segment(NUMBER, &file));
}

/// A manifest that is read is written as the same bytes, or as the next version of them.
pub(crate) fn manifest(data: &[u8]) {
    let file = file_of(data, mend::whole);
    scan("MANIFEST", &file);
    if let Ok(written) = fuzz::manifest(&file) {
        assert_eq!(fuzz::manifest(&written).as_deref().ok(), Some(&written[..]));
        let version_1 = file[8] == 1;
        assert!(version_1 || written.len() == file.len(), "nothing was left out");
    }
}

/// A checkpoint file, with images that the core takes or refuses.
pub(crate) fn checkpoint(data: &[u8]) {
    let file = file_of(data, mend::checkpoint);
    scan("checkpoint/0000000001.ckpt", &file);
    // The same bytes as an image, with no checksum in front of it.
    if let Ok(state) = State::from_image(&file) {
        whole(&state);
    }
}

/// A blob: reads in pieces and at once say the same.
pub(crate) fn blob(data: &[u8]) {
    let file = file_of(data, mend::blob);
    let findings = scan(&headwater_storage::blob_path(BLOB), &file);
    let Ok(reader) = fuzz::blob(BLOB, &file) else {
        return assert!(findings > 0, "unreadable, but nothing was found");
    };
    let (mut at, mut sound) = (0, true);
    while at < reader.len() {
        match reader.read(at, 4096) {
            Ok(bytes) => {
                let start = 32 + usize::try_from(at).expect("a small file");
                assert!(!bytes.is_empty());
                assert_eq!(bytes, file[start..start + bytes.len()]);
                at += bytes.len() as u64;
            }
            Err(_damaged) => {
                sound = false;
                break;
            }
        }
    }
    assert_eq!(sound, findings == 0, "a scan finds what a read does");
}

/// The list of a backup, and what stands behind it: it is looked at, copied and restored.
pub(crate) fn backup(data: &[u8]) {
    let file = file_of(data, mend::whole);
    let disk = disk_with("BACKUP", &file);
    let Ok(Some(backup)) = Backup::load(&disk) else { return };
    let view = backup.view(&disk);
    verify(&view, &mut Looker::default()).expect("a view can be listed");
    // Files that it lists are missing here, so the restore says so or has nothing to do.
    drop(restore(&disk, &MemDisk::new(), 7));
    disk.create("BACKUP.tmp").expect("a disk without a limit has room");
    backup.publish(&disk).expect("a disk in memory takes a list");
    let again = Backup::load(&disk).ok().flatten();
    assert_eq!(again.as_ref(), Some(&backup), "a list that was written");
}
