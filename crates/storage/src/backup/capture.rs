//! Holding a data directory as it is at one moment, and copying that.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use headwater_core::ids::BlobId;

use super::{Backup, Copied, NEXT_PATH, PATH, Stored, TAIL_DIR, View, copy, create_anew, dirs};
use crate::blob;
use crate::checkpoint;
use crate::disk::{Disk, DiskFile, read_exactly};
use crate::error::{Error, Result};
use crate::log::file::{self, FileNo};
use crate::manifest::{self, Manifest};
use crate::segment;
use crate::verify::{frames_end, is_broken_at};

/// How often the manifest may change while its files are opened.
const ATTEMPTS_MAX: usize = 1_000;

/// A data directory at one moment; its files stay readable whatever happens to their names.
pub struct Capture {
    disk: Arc<dyn Disk>,
    manifest_bytes: Vec<u8>,
    manifest: Manifest,
    /// Files that are never changed, by path.
    fixed: BTreeMap<String, Arc<dyn DiskFile>>,
    /// Log files from the floor on, as far as they go.
    tails: Vec<Tail>,
    blobs: BTreeMap<BlobId, Arc<dyn DiskFile>>,
}

struct Tail {
    no: FileNo,
    file: Arc<dyn DiskFile>,
    /// The header and all frames.
    held: u64,
    /// As it was allocated.
    len: u64,
}

impl Capture {
    /// Opens everything that makes up the data directory on `disk` now.
    ///
    /// # Errors
    /// `Corrupt` when the manifest is damaged or names a file that is missing, `Io` also when there
    /// are more files than may be open.
    pub fn take(disk: Arc<dyn Disk>) -> Result<Self> {
        let mut blobs = BTreeMap::new();
        open_blobs(&*disk, &mut blobs)?;
        for _ in 0..ATTEMPTS_MAX {
            let manifest_bytes = read_manifest(&*disk)?;
            let manifest = Manifest::decode(&manifest_bytes)?;
            let opened = open_fixed(&*disk, &manifest);
            let logs = open_logs(&*disk, manifest.floor);
            if read_manifest(&*disk)? != manifest_bytes {
                continue;
            }
            // While a manifest is in force nothing that it names goes.
            let (fixed, logs) = (opened?, logs?);
            let tails = ends(&logs)?;
            open_blobs(&*disk, &mut blobs)?;
            check_ends(&logs, &tails)?;
            return Ok(Self { disk, manifest_bytes, manifest, fixed, tails, blobs });
        }
        let detail = "the manifest does not stand still long enough to open the files it names";
        Err(Error::io(manifest::PATH, detail, io::ErrorKind::TimedOut.into()))
    }

    /// Goes on to now with the log, after a snapshot body that was named had gone already.
    ///
    /// # Errors
    /// As [`Capture::take`].
    pub fn renew(self) -> Result<Self> {
        let Self { disk, mut blobs, .. } = self;
        let mut next = Self::take(disk)?;
        blobs.append(&mut next.blobs);
        Ok(Self { blobs, ..next })
    }

    /// Whether the snapshot body is held.
    pub fn holds(&self, id: BlobId) -> bool {
        self.blobs.contains_key(&id)
    }

    /// The data directory, to be read.
    pub fn view(&self) -> View {
        let mut view = View::default();
        view.add_bytes(manifest::PATH, self.manifest_bytes.clone());
        for (path, file) in &self.fixed {
            let len = file.len().unwrap_or(0);
            view.add_prefix(path, Arc::clone(file), len, len);
        }
        for tail in &self.tails {
            view.add_prefix(&file::path(tail.no), Arc::clone(&tail.file), tail.held, tail.len);
        }
        view
    }

    /// Copies it to `out`, with the snapshot bodies `named`, reusing what the backup there has
    /// already. What comes back counts once it is published.
    ///
    /// # Errors
    /// `Format` when `out` has something else, `Full`, `Io`.
    pub fn copy_to(&self, out: &dyn Disk, named: &BTreeSet<BlobId>) -> Result<(Backup, Copied)> {
        let old = self.prepare(out)?;
        let reused = old.iter().flat_map(|backup| &backup.files);
        let mut files: Vec<Stored> = Vec::new();
        let (known, mut copied) = (
            reused.map(|file| (file.place.as_str(), file)).collect::<BTreeMap<_, _>>(),
            Copied::default(),
        );
        for (wanted, file) in self.wanted(named)? {
            let Stored { place, held, len, .. } = &wanted;
            copied.files += 1;
            copied.bytes += held;
            let has = known.get(place.as_str()).filter(|old| (old.held, old.len) == (*held, *len));
            let crc = if let Some(old) = has {
                old.crc
            } else {
                copied.copied_files += 1;
                copied.copied_bytes += held;
                copy_one(out, &*file, *held, place)?
            };
            files.push(Stored { crc, ..wanted });
        }
        for dir in dirs() {
            out.sync_dir(dir).map_err(|e| Error::io(dir, "syncing a directory", e))?;
        }
        let directory_id = self.manifest.directory_id;
        let manifest = self.manifest_bytes.clone();
        Ok((Backup { directory_id, manifest, files }, copied))
    }

    /// Every file that belongs to the backup, without its checksum.
    fn wanted(&self, named: &BTreeSet<BlobId>) -> Result<Vec<(Stored, Arc<dyn DiskFile>)>> {
        let blobs = self.blobs.iter().filter(|(id, _)| named.contains(id));
        let blobs = blobs.map(|(id, file)| (blob::path(*id), file));
        let fixed = self.fixed.iter().map(|(path, file)| (path.clone(), file));
        let mut wanted = Vec::new();
        for (path, file) in fixed.chain(blobs) {
            let len = file.len().map_err(|e| Error::io(&path, "reading a length", e))?;
            let stored = Stored { place: path.clone(), path, len, held: len, crc: 0 };
            wanted.push((stored, Arc::clone(file)));
        }
        for Tail { no, file, held, len } in &self.tails {
            let place = format!("{TAIL_DIR}/{no:010}-{held}");
            let (path, len, held) = (file::path(*no), *len, *held);
            wanted.push((Stored { path, place, len, held, crc: 0 }, Arc::clone(file)));
        }
        Ok(wanted)
    }

    /// Makes `out` recognisable as a backup before anything is in it; the backup that is there.
    fn prepare(&self, out: &dyn Disk) -> Result<Option<Backup>> {
        let failed = |source| Error::io("", "preparing the backup", source);
        let names = out.list("").map_err(failed)?;
        let stranger = names.iter().find(|name| ![PATH, NEXT_PATH].contains(&name.as_str()));
        if let Some(name) = stranger {
            let detail = "the place for the backup has other files than those of a backup";
            return Err(Error::format(name, detail));
        }
        let finished = names.iter().any(|name| name == PATH);
        let old = if finished { Backup::load(out)? } else { None };
        if old.as_ref().is_some_and(|old| old.directory_id != self.manifest.directory_id) {
            let detail = "the backup is of another data directory";
            return Err(Error::format(PATH, detail));
        }
        if names.is_empty() {
            for dir in dirs() {
                let taken = out.list(dir).is_ok_and(|names| !names.is_empty());
                if taken {
                    let detail = "the place for the backup is not empty";
                    return Err(Error::format(dir, detail));
                }
            }
        }
        create_anew(out, NEXT_PATH).map_err(failed)?.sync().map_err(failed)?;
        for dir in dirs() {
            out.create_dir(dir).map_err(failed)?;
        }
        out.sync_dir("").map_err(failed)?;
        Ok(old)
    }
}

fn copy_one(out: &dyn Disk, file: &dyn DiskFile, held: u64, stored: &str) -> Result<u32> {
    let unfinished = format!("{stored}.tmp");
    let failed = |source| Error::io(stored, "copying a file", source);
    let to = create_anew(out, &unfinished).map_err(failed)?;
    let crc = copy(file, held, &*to).map_err(failed)?;
    out.rename(&unfinished, stored).map_err(failed)?;
    Ok(crc)
}

fn read_manifest(disk: &dyn Disk) -> Result<Vec<u8>> {
    let failed = |source| Error::io(manifest::PATH, "reading the manifest", source);
    let file = disk.open(manifest::PATH).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            Error::format(manifest::PATH, "this is no data directory: it has no manifest")
        }
        _ => failed(error),
    })?;
    let len = file.len().map_err(failed)?;
    let damaged = || Error::corrupt(manifest::PATH, 0, "the manifest is damaged");
    read_exactly(&*file, 0, len).map_err(failed)?.ok_or_else(damaged)
}

fn open_fixed(disk: &dyn Disk, manifest: &Manifest) -> Result<BTreeMap<String, Arc<dyn DiskFile>>> {
    let checkpoints: BTreeSet<_> = manifest.blocks().map(|block| block.file).collect();
    let logs = manifest.files.iter().map(|(no, _)| file::path(*no));
    let segments = manifest.segments.iter().map(|segment| segment::path(segment.no));
    let paths = logs.chain(segments).chain(checkpoints.into_iter().map(checkpoint::path));
    let open = |path: String| match disk.open(&path) {
        Ok(file) => Ok((path, file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(Error::corrupt(&path, 0, "the file is missing, but the manifest names it"))
        }
        Err(error) => Err(Error::io(&path, "opening a file", error)),
    };
    paths.map(open).collect()
}

/// The log files from the floor on.
fn open_logs(disk: &dyn Disk, floor: FileNo) -> Result<Vec<(FileNo, Arc<dyn DiskFile>)>> {
    let names = disk.list(file::DIR);
    let names = names.map_err(|e| Error::io(file::DIR, "listing log files", e))?;
    let mut logs = Vec::new();
    for no in names.iter().filter_map(|name| file::parse_name(name)).filter(|no| *no >= floor) {
        match disk.open(&file::path(no)) {
            Ok(file) => logs.push((no, file)),
            // It was allocated ahead of need, and given up.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(Error::io(&file::path(no), "opening a log file", error)),
        }
    }
    Ok(logs)
}

/// How far each file goes. The last one with a frame is found first: those before it get no more
/// frames, and whatever it gets meanwhile is in it, and in no file behind it that is looked at.
fn ends(logs: &[(FileNo, Arc<dyn DiskFile>)]) -> Result<Vec<Tail>> {
    let mut last = None;
    for (no, file) in logs {
        if frames_end(*no, file)?.is_some_and(|(held, _)| held > file::HEADER_BYTES) {
            last = Some(*no);
        }
    }
    let mut tails = Vec::new();
    for (no, file) in logs.iter().filter(|(no, _)| last.is_some_and(|last| *no <= last)) {
        if let Some((held, len)) = frames_end(*no, file)? {
            tails.push(Tail { no: *no, file: Arc::clone(file), held, len });
        }
    }
    Ok(tails)
}

/// What breaks off in the middle would look like a log that ended there.
fn check_ends(logs: &[(FileNo, Arc<dyn DiskFile>)], tails: &[Tail]) -> Result<()> {
    for (no, file) in logs {
        let tail = tails.iter().find(|tail| tail.no == *no);
        let held = tail.map_or(file::HEADER_BYTES, |tail| tail.held);
        if is_broken_at(*no, file, held)? {
            let detail = "a frame is damaged, but the log goes on behind it";
            return Err(Error::corrupt(&file::path(*no), held, detail));
        }
    }
    Ok(())
}

/// Opens every snapshot body that is there.
fn open_blobs(disk: &dyn Disk, blobs: &mut BTreeMap<BlobId, Arc<dyn DiskFile>>) -> Result<()> {
    let names = disk.list(blob::DIR);
    let names = names.map_err(|e| Error::io(blob::DIR, "listing blobs", e))?;
    for id in names.iter().filter_map(|name| blob::parse_name(name)) {
        if blobs.contains_key(&id) {
            continue;
        }
        match disk.open(&blob::path(id)) {
            Ok(file) => drop(blobs.insert(id, file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(Error::io(&blob::path(id), "opening a blob", error)),
        }
    }
    Ok(())
}
