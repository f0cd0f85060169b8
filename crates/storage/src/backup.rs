//! A backup: a copy of a data directory as it was at one moment, taken while a server may write.
//!
//! Every file but the newest log files is written once and never changed, and a file that is open
//! stays readable when its name goes. So [`Capture`] opens whatever the manifest names, makes sure
//! that the manifest is still the same, and reads the newest log files up to their last frame: that
//! is the directory at one lsn, and nobody had to wait. What is copied lies under the names of the
//! source; `BACKUP`, the list of it all, is renamed into place when everything else is durable.

mod capture;
mod restore;
mod view;

use std::collections::BTreeSet;
use std::sync::Arc;

pub use capture::Capture;
pub use restore::restore;
pub use view::View;

use crate::codec::{self, Cursor};
use crate::disk::{Disk, DiskFile, SYNC_BYTES, read_exactly};
use crate::error::{Error, Result};
use crate::manifest;
use crate::store::DIRS;

/// The list; a directory that has it is a backup.
pub(crate) const PATH: &str = "BACKUP";
/// The next list while it is written: a directory that has nothing else is an unfinished backup.
pub(crate) const NEXT_PATH: &str = "BACKUP.tmp";

const MAGIC: [u8; 8] = *b"HWATRBAK";
const VERSION: u32 = 1;
/// Where log files are kept that had not ended, under a name that says how far they go.
const TAIL_DIR: &str = "tail";
/// Bytes copied at a time.
const COPY_BYTES: usize = 1 << 20;

/// A finished backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backup {
    /// The directory that it was taken from.
    pub directory_id: u128,
    manifest: Vec<u8>,
    files: Vec<Stored>,
}

/// One file of a backup.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stored {
    /// Its path in a data directory.
    path: String,
    /// Its path in the backup.
    place: String,
    /// Its length in a data directory: behind the stored bytes it is zero.
    len: u64,
    /// Bytes that are stored.
    held: u64,
    /// Of the stored bytes.
    crc: u32,
}

/// What a run of a backup did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Copied {
    /// Files in the backup.
    pub files: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// Files that had to be copied.
    pub copied_files: u64,
    /// Bytes in those.
    pub copied_bytes: u64,
}

impl Backup {
    /// The finished backup on `disk`, if it is one.
    ///
    /// # Errors
    /// `Corrupt` when its list is damaged, `Format` when it is of another version or was never
    /// finished.
    pub fn load(disk: &dyn Disk) -> Result<Option<Self>> {
        let failed = |source| Error::io(PATH, "reading the list of a backup", source);
        let names = disk.list("").map_err(failed)?;
        if !names.iter().any(|name| name == PATH) {
            let started = names.iter().any(|name| name == NEXT_PATH);
            let detail = "the backup was never finished: run it again";
            return if started { Err(Error::format(NEXT_PATH, detail)) } else { Ok(None) };
        }
        let file = disk.open(PATH).map_err(failed)?;
        let len = file.len().map_err(failed)?;
        let bytes = read_exactly(&*file, 0, len).map_err(failed)?;
        let damaged = || Error::corrupt(PATH, 0, "the list of the backup is damaged");
        let bytes = bytes.ok_or_else(damaged)?;
        let mut cursor = Cursor::new(&bytes);
        let (magic, version) = (cursor.array(), cursor.u32());
        if magic == Some(MAGIC) && version != Some(VERSION) {
            let detail = format!("a backup of another version than {VERSION}");
            return Err(Error::format(PATH, detail));
        }
        let intact = codec::check_crc(&bytes).filter(|_| magic == Some(MAGIC));
        intact.and_then(Self::decode).ok_or_else(damaged).map(Some)
    }

    /// The backup as the data directory that it stands for.
    pub fn view(&self, disk: &dyn Disk) -> View {
        let mut view = View::default();
        view.add_bytes(manifest::PATH, self.manifest.clone());
        for file in &self.files {
            // What cannot be opened is missing there, too.
            if let Ok(handle) = disk.open(&file.place) {
                view.add_prefix(&file.path, handle, file.held, file.len);
            }
        }
        view
    }

    /// Makes this the backup on `out`, and removes what only older ones needed.
    ///
    /// # Errors
    /// `Full` or `Io`.
    pub fn publish(&self, out: &dyn Disk) -> Result<()> {
        let failed = |source| Error::io(PATH, "writing the list of a backup", source);
        let next = out.open(NEXT_PATH).map_err(failed)?;
        next.set_len(0).map_err(failed)?;
        next.write_at(&self.encode(), 0).map_err(failed)?;
        next.sync().map_err(failed)?;
        out.rename(NEXT_PATH, PATH).map_err(failed)?;
        out.sync_dir("").map_err(failed)?;
        let needed: BTreeSet<_> = self.files.iter().map(|file| file.place.as_str()).collect();
        for dir in dirs() {
            for name in out.list(dir).map_err(failed)? {
                let path = format!("{dir}/{name}");
                if !needed.contains(path.as_str()) {
                    out.remove(&path).map_err(failed)?;
                }
            }
        }
        Ok(())
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&self.directory_id.to_le_bytes());
        put_bytes(&mut out, &self.manifest);
        codec::put_varint(&mut out, self.files.len() as u64);
        for file in &self.files {
            put_bytes(&mut out, file.path.as_bytes());
            put_bytes(&mut out, file.place.as_bytes());
            codec::put_varint(&mut out, file.len);
            codec::put_varint(&mut out, file.held);
            out.extend_from_slice(&file.crc.to_le_bytes());
        }
        codec::put_crc(&mut out);
        out
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let mut cursor = Cursor::new(bytes);
        cursor.take(12)?;
        let directory_id = cursor.u128()?;
        let manifest = take_bytes(&mut cursor)?.to_vec();
        let mut files = Vec::new();
        for _ in 0..cursor.varint()? {
            files.push(Stored {
                path: take_path(&mut cursor)?,
                place: take_path(&mut cursor)?,
                len: cursor.varint()?,
                held: cursor.varint()?,
                crc: cursor.u32()?,
            });
        }
        cursor.is_at_end().then_some(Self { directory_id, manifest, files })
    }
}

/// The directories of a backup.
fn dirs() -> impl Iterator<Item = &'static str> {
    DIRS.into_iter().chain([TAIL_DIR])
}

/// Copies `len` bytes and makes them durable, but not their name. Returns their checksum.
fn copy(from: &dyn DiskFile, len: u64, to: &dyn DiskFile) -> std::io::Result<u32> {
    let mut buffer = vec![0; COPY_BYTES];
    let (mut at, mut crc, mut unsynced) = (0, 0, 0);
    while at < len {
        let want = usize::try_from(len - at).unwrap_or(COPY_BYTES).min(COPY_BYTES);
        let read = from.read_at(&mut buffer[..want], at)?;
        if read == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        crc = crc32c::crc32c_append(crc, &buffer[..read]);
        // A server may be waiting for syncs of its own on the same disk.
        for piece in buffer[..read].chunks(SYNC_BYTES) {
            to.write_at(piece, at)?;
            at += piece.len() as u64;
            unsynced += piece.len();
            if unsynced >= 16 * SYNC_BYTES {
                to.sync()?;
                unsynced = 0;
            }
        }
    }
    to.sync()?;
    Ok(crc)
}

/// Makes a file anew, whatever was there.
fn create_anew(disk: &dyn Disk, path: &str) -> std::io::Result<Arc<dyn DiskFile>> {
    match disk.remove(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => disk.create(path),
    }
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    codec::put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn take_bytes<'a>(cursor: &mut Cursor<'a>) -> Option<&'a [u8]> {
    let len = cursor.varint()?;
    cursor.take_long(len)
}

/// A path inside, which must not lead out.
fn take_path(cursor: &mut Cursor<'_>) -> Option<String> {
    let path = std::str::from_utf8(take_bytes(cursor)?).ok()?;
    let (dir, name) = path.split_once('/')?;
    let inside = dirs().any(|known| known == dir) && !name.contains('/') && !name.starts_with('.');
    inside.then(|| path.to_owned())
}
