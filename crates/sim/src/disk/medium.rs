//! What is on the disk: two images of everything, the cached and the durable one, and the changes
//! between them.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use crate::rng::Rng;
use crate::trace::{Trace, hash_of};

/// A change of one file that is not on the medium yet.
#[derive(Debug, Clone)]
pub(super) enum FileOp {
    Write { at: usize, bytes: Box<[u8]> },
    Len(u64),
}

/// A change of a directory that is not on the medium yet.
#[derive(Debug, Clone)]
pub(super) enum NameOp {
    Add { path: String, inode: u64 },
    AddDir { path: String },
    Rename { from: String, to: String, inode: u64 },
    Remove { path: String, inode: u64 },
}

#[derive(Debug, Clone, Default)]
pub(super) struct Inode {
    pub(super) cache: Vec<u8>,
    pub(super) durable: Vec<u8>,
    pub(super) pending: Vec<FileOp>,
    pub(super) open: u32,
}

/// Accidents waiting to happen, each once.
#[derive(Debug, Clone, Default)]
pub(crate) struct Faults {
    /// The sync after so many others fails.
    pub(crate) fail_sync_in: Option<u64>,
    /// The write after so many others fails.
    pub(crate) fail_write_in: Option<u64>,
    /// The process dies in the change after so many others.
    pub(crate) die_in: Option<u64>,
    /// One call in a row of many fails, or all from it on.
    pub(crate) nth: Option<Nth>,
    /// How this disk lies, for worlds that must be caught out.
    pub(crate) lie: Option<Lie>,
}

/// How a call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// Any call returns an error and does nothing.
    Error,
    /// A call that changes nothing returns an error: the process is to go on.
    Look,
    /// A write stops half way.
    ShortWrite,
    /// A call that takes room finds none.
    NoSpace,
    /// The sync of a file or directory fails.
    Sync,
}

/// A failure at a chosen call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Nth {
    pub(crate) failure: Failure,
    /// Calls that could fail so, and will not.
    pub(crate) after: u64,
    /// All later ones fail, too.
    pub(crate) sticky: bool,
    /// Calls that have failed.
    pub(crate) hits: u64,
}

/// What a call does, as far as failures care.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Io {
    /// It reads bytes, lengths or names.
    Look,
    /// It changes names, and takes no room.
    Name,
    /// It makes a file or makes one longer.
    Grow,
    /// It writes; true where the file becomes longer.
    Write(bool),
    Sync,
}

impl Failure {
    fn concerns(self, io: Io) -> bool {
        match self {
            Self::Error => true,
            Self::Look => io == Io::Look,
            Self::ShortWrite => matches!(io, Io::Write(_)),
            Self::NoSpace => matches!(io, Io::Grow | Io::Write(true)),
            Self::Sync => io == Io::Sync,
        }
    }

    fn error(self) -> io::Error {
        match self {
            Self::NoSpace => io::ErrorKind::StorageFull.into(),
            Self::Error | Self::Look | Self::ShortWrite | Self::Sync => io::Error::other(SIMULATED),
        }
    }
}

/// What every simulated failure of a chosen call says.
pub(crate) const SIMULATED: &str = "simulated failure";

impl Faults {
    /// Whether an accident is still to come.
    pub(crate) fn is_waiting(&self) -> bool {
        self.fail_sync_in.or(self.fail_write_in).or(self.die_in).is_some()
    }
}

/// Broken promises of a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lie {
    /// A file's sync does nothing.
    Sync,
    /// A directory's sync does nothing.
    SyncDir,
    /// A sync forgets the length.
    Length,
    /// One write in so many never reaches the cache.
    DroppedWrite(u64),
    /// One write in so many stops half way.
    ShortWrite(u64),
    /// One read in so many has a flipped bit.
    BadRead(u64),
    /// A write goes to the sector after the right one, once in so many.
    Misdirected(u64),
    /// A rename leaves the old name's durable content behind, even after a sync.
    Rename,
    /// The sync of a segment does nothing.
    SegmentSync,
}

/// What a medium writes as a whole, in bytes.
const SECTOR: usize = 512;

/// The disk behind all handles.
pub(crate) struct Medium {
    pub(crate) faults: Faults,
    pub(crate) capacity: u64,
    /// The process has died in the middle of a call.
    pub(crate) dead: bool,
    /// A sync or a write of this life has failed.
    pub(crate) failed: Option<&'static str>,
    /// A chosen call of this life has found no room.
    pub(crate) full: bool,
    /// Changes since the beginning.
    pub(crate) changes: u64,
    /// The disk as it was before each change, while somebody wants to know.
    pub(super) moments: Option<Vec<Medium>>,
    pub(super) life: u64,
    pub(super) rng: Rng,
    pub(super) dirs: BTreeSet<String>,
    pub(super) names: BTreeMap<String, u64>,
    pub(super) durable_dirs: BTreeSet<String>,
    pub(super) durable_names: BTreeMap<String, u64>,
    pub(super) pending: Vec<NameOp>,
    pub(super) files: BTreeMap<u64, Inode>,
    next_inode: u64,
    trace: Trace,
}

impl Medium {
    pub(super) fn new(capacity: u64, rng: Rng, trace: Trace) -> Self {
        Self {
            faults: Faults::default(),
            capacity,
            dead: false,
            failed: None,
            full: false,
            changes: 0,
            moments: None,
            life: 0,
            rng,
            dirs: BTreeSet::new(),
            names: BTreeMap::new(),
            durable_dirs: BTreeSet::new(),
            durable_names: BTreeMap::new(),
            pending: Vec::new(),
            files: BTreeMap::new(),
            next_inode: 0,
            trace,
        }
    }

    /// The same content without handles, accidents and a trace.
    pub(super) fn copy(&self) -> Self {
        let mut copy = Self {
            dirs: self.dirs.clone(),
            names: self.names.clone(),
            durable_dirs: self.durable_dirs.clone(),
            durable_names: self.durable_names.clone(),
            pending: self.pending.clone(),
            files: self.files.clone(),
            next_inode: self.next_inode,
            ..Self::new(self.capacity, self.rng.clone(), Trace::default())
        };
        copy.end_life();
        copy
    }

    /// The process ends: its handles close, its accidents are over.
    pub(super) fn end_life(&mut self) {
        self.life += 1;
        self.dead = false;
        self.failed = None;
        self.full = false;
        self.faults = Faults { lie: self.faults.lie, ..Faults::default() };
        self.files.values_mut().for_each(|file| file.open = 0);
        self.drop_nameless();
    }

    /// Fails if it is this call's turn.
    pub(super) fn trip(&mut self, io: Io) -> io::Result<()> {
        let Some(nth) = &mut self.faults.nth else { return Ok(()) };
        if !nth.failure.concerns(io) || (nth.hits > 0 && !nth.sticky) {
            return Ok(());
        }
        if nth.after > 0 {
            nth.after -= 1;
            return Ok(());
        }
        nth.hits += 1;
        match nth.failure {
            Failure::NoSpace => self.full = true,
            Failure::Look => {}
            Failure::Error | Failure::ShortWrite | Failure::Sync => self.failed = Some(SIMULATED),
        }
        Err(nth.failure.error())
    }

    /// Notes a change, and dies in it if that is due.
    pub(super) fn step(&mut self, kind: &str, path: &str, numbers: &[u64]) -> io::Result<()> {
        if self.moments.is_some() {
            let now = self.copy();
            self.moments.get_or_insert_default().push(now);
        }
        self.changes += 1;
        self.trace.disk(kind, path, numbers);
        if count_down(&mut self.faults.die_in) {
            self.dead = true;
            return Err(io::Error::other("the process dies here"));
        }
        Ok(())
    }

    pub(super) fn require_dir(&self, dir: &str) -> io::Result<()> {
        let known = dir.is_empty() || self.dirs.contains(dir);
        if known { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }
    }

    pub(super) fn require_parent(&self, path: &str) -> io::Result<()> {
        self.require_dir(parent(path))
    }

    pub(super) fn new_inode(&mut self) -> u64 {
        self.next_inode += 1;
        self.files.insert(self.next_inode, Inode { open: 1, ..Inode::default() });
        self.next_inode
    }

    pub(super) fn file(&mut self, inode: u64) -> &mut Inode {
        self.files.get_mut(&inode).expect("an inode lives while it has a name or a handle")
    }

    pub(super) fn close(&mut self, inode: u64) {
        self.file(inode).open -= 1;
        self.drop_nameless();
    }

    /// Bytes taken: by files that have a name or a handle.
    pub(crate) fn used(&self) -> u64 {
        let named: BTreeSet<u64> = self.names.values().copied().collect();
        let taken =
            self.files.iter().filter(|(inode, file)| file.open > 0 || named.contains(inode));
        taken.map(|(_, file)| file.cache.len() as u64).sum()
    }

    pub(super) fn require_room(&mut self, inode: u64, len: u64) -> io::Result<()> {
        let old = self.file(inode).cache.len() as u64;
        if len > old && self.used() + (len - old) > self.capacity {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }

    pub(super) fn read(&mut self, inode: u64, buf: &mut [u8], position: u64) -> io::Result<usize> {
        self.trip(Io::Look)?;
        let start = to_usize(position)?;
        let cache = &self.file(inode).cache;
        let start = start.min(cache.len());
        let len = buf.len().min(cache.len() - start);
        buf[..len].copy_from_slice(&cache[start..start + len]);
        if let Some(Lie::BadRead(n)) = self.faults.lie
            && len > 0
            && self.rng.one_in(n)
        {
            let at = self.rng.index(len);
            buf[at] ^= 1 << self.rng.below(8);
        }
        Ok(len)
    }

    pub(super) fn write(
        &mut self,
        inode: u64,
        path: &str,
        bytes: &[u8],
        position: u64,
    ) -> io::Result<()> {
        let end = position.checked_add(bytes.len() as u64).ok_or(io::ErrorKind::FileTooLarge)?;
        let mut at = to_usize(position)?;
        let done = self.step("write", path, &[position, bytes.len() as u64, hash_of(bytes)]);
        let failed = count_down(&mut self.faults.fail_write_in);
        if failed {
            self.failed = Some("write failed");
        }
        let grows = end > self.file(inode).cache.len() as u64;
        if let Err(error) = self.trip(Io::Write(grows)) {
            if self.faults.nth.is_some_and(|nth| nth.failure == Failure::ShortWrite) {
                let part = bytes[..bytes.len() / 2].into();
                self.file(inode).change(FileOp::Write { at, bytes: part });
            }
            return Err(error);
        }
        let mut len = bytes.len();
        if done.is_err() || failed {
            // The copy into the cache stops at a border of sectors, or was complete.
            let whole = (at % SECTOR + self.rng.index(bytes.len() + 1)) / SECTOR * SECTOR;
            let part = whole.saturating_sub(at % SECTOR);
            len = if self.rng.one_in(4) { bytes.len() } else { part };
        }
        match self.faults.lie {
            Some(Lie::DroppedWrite(n)) if self.rng.one_in(n) => return done,
            Some(Lie::ShortWrite(n)) if self.rng.one_in(n) => len /= 2,
            Some(Lie::Misdirected(n)) if self.rng.one_in(n) => at += 512,
            _ => {}
        }
        self.require_room(inode, end)?;
        self.file(inode).change(FileOp::Write { at, bytes: bytes[..len].into() });
        if failed {
            return Err(io::Error::other("simulated write error"));
        }
        done
    }

    pub(super) fn sync(&mut self, inode: u64, path: &str) -> io::Result<()> {
        self.step("sync", path, &[])?;
        let tripped = self.trip(Io::Sync);
        if tripped.is_err() || count_down(&mut self.faults.fail_sync_in) {
            self.failed = Some("sync failed");
            let mut rng = self.rng.fork();
            self.file(inode).drop_dirty_bytes(&mut rng);
            return tripped.and(Err(io::Error::other("simulated sync failure")));
        }
        let lie = self.faults.lie;
        let of_segment =
            || self.names.iter().any(|(n, i)| *i == inode && n.starts_with("segment/"));
        if lie == Some(Lie::Sync) || (lie == Some(Lie::SegmentSync) && of_segment()) {
            return Ok(());
        }
        let file = self.file(inode);
        let old_len = file.durable.len();
        for op in std::mem::take(&mut file.pending) {
            op.apply(&mut file.durable);
        }
        if lie == Some(Lie::Length) {
            file.durable.truncate(old_len);
        }
        Ok(())
    }

    /// Changes the cached names and notes that the medium does not know yet.
    pub(super) fn rename_now(&mut self, op: NameOp) {
        op.apply(&mut self.names, &mut self.dirs);
        self.pending.push(op);
        self.drop_nameless();
    }

    pub(super) fn sync_names(&mut self, dir: &str) {
        if self.faults.lie == Some(Lie::SyncDir) {
            return;
        }
        let lie = self.faults.lie;
        let (due, rest) = std::mem::take(&mut self.pending)
            .into_iter()
            .partition::<Vec<_>, _>(|op| op.dir() == dir);
        self.pending = rest;
        for op in due {
            match op {
                NameOp::Rename { to, .. }
                    if lie == Some(Lie::Rename) && self.durable_names.contains_key(&to) => {}
                op => op.apply(&mut self.durable_names, &mut self.durable_dirs),
            }
        }
        self.drop_nameless();
    }

    /// Forgets files that neither image names and nobody has open.
    pub(super) fn drop_nameless(&mut self) {
        let mut named: BTreeSet<u64> = self.names.values().copied().collect();
        named.extend(self.durable_names.values());
        named.extend(self.pending.iter().filter_map(NameOp::inode));
        self.files.retain(|inode, file| file.open > 0 || named.contains(inode));
    }

    /// The names and lengths of the files below `dir`.
    pub(crate) fn files_in(&self, dir: &str) -> Vec<(String, u64)> {
        let named = self.names.iter().filter(|(path, _)| path.starts_with(dir));
        named.map(|(path, inode)| (path.clone(), self.files[inode].cache.len() as u64)).collect()
    }
}

impl Inode {
    /// Some bytes could not be written back, and count as clean from now on. Lengths are the
    /// business of the file system's journal and stay as they are.
    fn drop_dirty_bytes(&mut self, rng: &mut Rng) {
        let mut len = self.durable.len();
        for op in std::mem::take(&mut self.pending) {
            let old_len = len;
            let dropped = match &op {
                FileOp::Len(new) => {
                    len = to_usize(*new).expect("files are small here");
                    false
                }
                FileOp::Write { at, bytes } => {
                    len = len.max(at + bytes.len());
                    rng.one_in(2)
                }
            };
            if !dropped {
                self.pending.push(op);
            } else if len > old_len {
                self.pending.push(FileOp::Len(len as u64));
            }
        }
    }

    pub(super) fn change(&mut self, op: FileOp) {
        op.apply(&mut self.cache);
        self.pending.push(op);
    }
}

impl FileOp {
    pub(super) fn apply(&self, image: &mut Vec<u8>) {
        match self {
            Self::Write { at, bytes } => {
                let end = at + bytes.len();
                if image.len() < end {
                    image.resize(end, 0);
                }
                image[*at..end].copy_from_slice(bytes);
            }
            Self::Len(len) => image.resize(to_usize(*len).expect("files are small here"), 0),
        }
    }
}

impl NameOp {
    pub(super) fn apply(&self, names: &mut BTreeMap<String, u64>, dirs: &mut BTreeSet<String>) {
        match self {
            Self::Add { path, inode } => {
                names.insert(path.clone(), *inode);
            }
            Self::AddDir { path } => {
                dirs.insert(path.clone());
            }
            Self::Rename { from, to, inode } => {
                if names.get(from) == Some(inode) {
                    names.remove(from);
                }
                names.insert(to.clone(), *inode);
            }
            Self::Remove { path, inode } => {
                if names.get(path) == Some(inode) {
                    names.remove(path);
                }
            }
        }
    }

    /// The directory whose sync makes this last.
    pub(super) fn dir(&self) -> &str {
        match self {
            Self::Add { path, .. } | Self::AddDir { path } | Self::Remove { path, .. } => {
                parent(path)
            }
            Self::Rename { to, .. } => parent(to),
        }
    }

    fn inode(&self) -> Option<u64> {
        match self {
            Self::Add { inode, .. } | Self::Rename { inode, .. } | Self::Remove { inode, .. } => {
                Some(*inode)
            }
            Self::AddDir { .. } => None,
        }
    }
}

/// Flips one bit of one file that has bytes, at rest. Returns where.
pub(crate) fn flip_bit(medium: &mut Medium, rng: &mut Rng) -> Option<(String, usize)> {
    let files = &medium.files;
    let full: Vec<(String, u64)> = medium
        .names
        .iter()
        .filter(|(_, inode)| !files[inode].cache.is_empty())
        .map(|(path, inode)| (path.clone(), *inode))
        .collect();
    if full.is_empty() {
        return None;
    }
    let (path, inode) = rng.pick(&full);
    let file = medium.file(*inode);
    let at = rng.index(file.cache.len());
    file.cache[at] ^= 1 << rng.below(8);
    file.durable.clone_from(&file.cache);
    file.pending.clear();
    Some((path.clone(), at))
}

/// The file name of `path` if it lies directly in `dir`.
pub(super) fn name_in(dir: &str, path: &str) -> Option<String> {
    let name = path.rsplit_once('/').map_or(path, |(_, name)| name);
    (parent(path) == dir).then(|| name.to_owned())
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

fn count_down(slot: &mut Option<u64>) -> bool {
    match slot {
        Some(0) => {
            *slot = None;
            true
        }
        Some(left) => {
            *left -= 1;
            false
        }
        None => false,
    }
}

fn to_usize(value: u64) -> io::Result<usize> {
    usize::try_from(value).map_err(|_too_large| io::ErrorKind::FileTooLarge.into())
}
