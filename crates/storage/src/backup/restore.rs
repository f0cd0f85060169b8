//! Making a data directory of a backup.

use std::sync::Arc;

use super::{Backup, Copied, Stored, copy, create_anew};
use crate::checkpoint;
use crate::disk::{Disk, DiskFile};
use crate::error::{Error, Result};
use crate::log::file;
use crate::manifest::Manifest;
use crate::segment;
use crate::store::{DIRS, RESTORING};

/// Makes the empty directory `to` a data directory with the content of a backup and an id of its
/// own. Until that is complete, `to` is marked as unfinished, and no server opens it.
///
/// # Errors
/// `Format` when `from` is no finished backup or `to` is not empty, `Corrupt` when the backup is
/// damaged, `Full`, `Io`.
pub fn restore(from: &dyn Disk, to: &dyn Disk, directory_id: u128) -> Result<Copied> {
    let backup = Backup::load(from)?;
    let backup = backup.ok_or_else(|| Error::format(super::PATH, "this is no backup"))?;
    begin(to)?;
    let mut copied = Copied::default();
    for stored in &backup.files {
        restore_one(from, to, stored, directory_id)?;
        copied.files += 1;
        copied.bytes += stored.held;
    }
    for dir in DIRS {
        to.sync_dir(dir).map_err(|e| Error::io(dir, "syncing a directory", e))?;
    }
    (copied.copied_files, copied.copied_bytes) = (copied.files, copied.bytes);
    let manifest = Manifest::decode(&backup.manifest)?;
    Manifest { directory_id, ..manifest }.store(to)?;
    let failed = |source| Error::io(RESTORING, "finishing the restore", source);
    to.remove(RESTORING).map_err(failed)?;
    to.sync_dir("").map_err(failed)?;
    Ok(copied)
}

/// Marks the directory, and removes what a restore that did not finish left.
fn begin(to: &dyn Disk) -> Result<()> {
    let failed = |source| Error::io(RESTORING, "preparing the restore", source);
    let names = to.list("").map_err(failed)?;
    let again = names.iter().any(|name| name == RESTORING);
    let mut found = names.into_iter().filter(|name| name != RESTORING).collect::<Vec<_>>();
    for dir in DIRS {
        if let Ok(names) = to.list(dir) {
            found.extend(names.into_iter().map(|name| format!("{dir}/{name}")));
        }
    }
    if let (Some(name), false) = (found.first(), again) {
        return Err(Error::format(name, "the place to restore to is not empty"));
    }
    if !again {
        to.create(RESTORING).and_then(|file| file.sync()).map_err(failed)?;
    }
    to.sync_dir("").map_err(failed)?;
    for path in found {
        to.remove(&path).map_err(failed)?;
    }
    for dir in DIRS {
        to.create_dir(dir).map_err(failed)?;
    }
    to.sync_dir("").map_err(failed)
}

fn restore_one(from: &dyn Disk, to: &dyn Disk, stored: &Stored, directory_id: u128) -> Result<()> {
    let Stored { path, len, held, .. } = stored;
    let damaged = |detail: &str| Error::corrupt(&stored.place, 0, detail);
    let source = from.open(&stored.place).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => damaged("the file is missing from the backup"),
        _ => Error::io(&stored.place, "opening a file of the backup", error),
    })?;
    let real = source.len().map_err(|e| Error::io(&stored.place, "reading a length", e))?;
    if real != *held {
        return Err(damaged("the file does not have the length that it was stored with"));
    }
    let failed = |source| Error::io(path, "restoring a file", source);
    let target = create_anew(to, path).map_err(failed)?;
    if *len > *held {
        target.allocate(*len).map_err(failed)?;
    }
    let crc = copy(&*source, *held, &*target).map_err(failed)?;
    if crc != stored.crc {
        return Err(damaged("the file is not what was stored"));
    }
    adopt(path, &target, directory_id)?;
    target.sync().map_err(failed)
}

/// Makes a file one of the directory `directory_id`: its fixed parts say whose it is.
fn adopt(path: &str, file: &Arc<dyn DiskFile>, directory_id: u128) -> Result<()> {
    let (dir, name) = path.split_once('/').unwrap_or(("", path));
    let len = file.len().map_err(|e| Error::io(path, "reading a length", e))?;
    let read = |at: u64, len: usize| {
        let mut bytes = vec![0; len];
        let read = file.read_at(&mut bytes, at).map_err(|e| Error::io(path, "reading back", e))?;
        bytes.truncate(read);
        Ok::<_, Error>(bytes)
    };
    let damaged = |at| Error::corrupt(path, at, "the backup has a damaged header here");
    let mut parts: Vec<(u64, Vec<u8>)> = Vec::new();
    if let Some(no) = file::parse_name(name).filter(|_| dir == file::DIR) {
        let header = file::Header::parse(no, &read(0, file::HEADER_LEN)?)?;
        let header = header.ok_or_else(|| damaged(0))?;
        parts.push((0, file::Header { directory_id, ..header }.encode()));
    } else if let Some(no) = segment::parse_name(name).filter(|_| dir == segment::DIR) {
        parts.push((0, segment::header(no, directory_id)));
        let at = len.saturating_sub(segment::TRAILER_LEN as u64);
        let trailer =
            segment::adopt_trailer(no, &read(at, segment::TRAILER_LEN)?, len, directory_id)?;
        parts.push((at, trailer.ok_or_else(|| damaged(at))?));
    } else if let Some(no) = checkpoint::parse_name(name).filter(|_| dir == checkpoint::DIR) {
        parts.push((0, checkpoint::header(no, directory_id)));
    }
    for (at, bytes) in parts {
        file.write_at(&bytes, at).map_err(|e| Error::io(path, "writing a header", e))?;
    }
    Ok(())
}
