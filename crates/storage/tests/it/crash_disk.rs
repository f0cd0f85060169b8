//! A disk that can be stopped at any call and lose what was not synced.
//!
//! The page cache sees every call at once. The medium sees a file's bytes only at a sync of the
//! file, and names only at a sync of the directory. A power cut applies a random part of the rest:
//! any subset of a file's writes, each perhaps torn, and any prefix of a directory's changes. A
//! sync that fails may lose bytes for good: the page cache still shows them, but no later sync
//! writes them.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use headwater_storage::{Disk, DiskFile};
use parking_lot::Mutex;

/// Random numbers from a seed (xorshift).
#[derive(Clone)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 11
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

#[derive(Clone)]
pub(crate) struct CrashDisk {
    world: Arc<Mutex<World>>,
}

struct World {
    dice: Dice,
    /// Calls until the process is killed.
    calls_left: u64,
    files: Vec<Inode>,
    cached: BTreeMap<String, usize>,
    durable: BTreeMap<String, usize>,
    /// Changes of names that are not durable, by directory.
    pending: BTreeMap<String, Vec<NameOp>>,
}

#[derive(Default, Clone)]
struct Inode {
    cached: Vec<u8>,
    durable: Vec<u8>,
    pending: Vec<DataOp>,
}

#[derive(Clone)]
enum DataOp {
    Write(usize, Vec<u8>),
    SetLen(usize),
}

#[derive(Clone)]
enum NameOp {
    Create(String, usize),
    Rename(String, String),
    Remove(String),
}

struct CrashFile {
    world: Arc<Mutex<World>>,
    inode: usize,
}

const KILLED: &str = "the process was killed";
const SECTOR: usize = 512;

impl CrashDisk {
    pub(crate) fn new(seed: u64) -> Self {
        let world = World {
            dice: Dice::new(seed),
            calls_left: u64::MAX,
            files: Vec::new(),
            cached: BTreeMap::new(),
            durable: BTreeMap::new(),
            pending: BTreeMap::new(),
        };
        Self { world: Arc::new(Mutex::new(world)) }
    }

    /// Kills the process after so many further calls that change something.
    pub(crate) fn kill_after(&self, calls: u64) {
        self.world.lock().calls_left = calls;
    }

    /// Lets a new process use the disk, with the page cache as it is.
    pub(crate) fn restart(&self) {
        self.kill_after(u64::MAX);
    }

    /// Cuts the power: the page cache is gone, and with it a random part of what was not synced.
    pub(crate) fn cut_power(&self) {
        let mut world = self.world.lock();
        let World { dice, files, cached, durable, pending, .. } = &mut *world;
        for ops in std::mem::take(pending).into_values() {
            let kept = dice.below(ops.len() as u64 + 1) as usize;
            ops.into_iter().take(kept).for_each(|op| op.apply(durable));
        }
        for file in files {
            for op in std::mem::take(&mut file.pending) {
                match dice.below(3) {
                    0 => op.apply(&mut file.durable),
                    1 => op.tear(dice, &mut file.durable),
                    _ => {}
                }
            }
            file.cached.clone_from(&file.durable);
        }
        cached.clone_from(durable);
        world.calls_left = u64::MAX;
    }
}

impl World {
    /// Counts a call that changes something; the last one before a kill fails.
    fn call(&mut self) -> io::Result<()> {
        self.calls_left = self.calls_left.saturating_sub(1);
        if self.calls_left == 0 { Err(io::Error::other(KILLED)) } else { Ok(()) }
    }

    fn name_op(&mut self, path: &str, op: NameOp) {
        op.clone().apply(&mut self.cached);
        let dir = path.rsplit_once('/').map_or("", |(dir, _)| dir);
        self.pending.entry(dir.to_owned()).or_default().push(op);
    }

    fn require(&self, path: &str) -> io::Result<usize> {
        self.cached.get(path).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl NameOp {
    fn apply(self, names: &mut BTreeMap<String, usize>) {
        match self {
            Self::Create(path, inode) => {
                names.insert(path, inode);
            }
            Self::Rename(from, to) => {
                if let Some(inode) = names.remove(&from) {
                    names.insert(to, inode);
                }
            }
            Self::Remove(path) => {
                names.remove(&path);
            }
        }
    }
}

impl DataOp {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::SetLen(len) => bytes.resize(*len, 0),
            Self::Write(position, new) => {
                let end = position + new.len();
                if end > bytes.len() {
                    bytes.resize(end, 0);
                }
                bytes[*position..end].copy_from_slice(new);
            }
        }
    }

    /// Applies some sectors of a write, whole or in part.
    fn tear(&self, dice: &mut Dice, bytes: &mut Vec<u8>) {
        let Self::Write(position, new) = self else { return };
        let mut at = 0;
        while at < new.len() {
            let end = (((position + at) / SECTOR + 1) * SECTOR - position).min(new.len());
            if dice.one_in(2) {
                let len = if dice.one_in(4) {
                    dice.below((end - at) as u64 + 1) as usize
                } else {
                    end - at
                };
                Self::Write(position + at, new[at..at + len].to_vec()).apply(bytes);
            }
            at = end;
        }
    }
}

impl Disk for CrashDisk {
    fn create(&self, path: &str) -> io::Result<Arc<dyn DiskFile>> {
        let mut world = self.world.lock();
        world.call()?;
        if world.cached.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let inode = world.files.len();
        world.files.push(Inode::default());
        world.name_op(path, NameOp::Create(path.to_owned(), inode));
        Ok(Arc::new(CrashFile { world: Arc::clone(&self.world), inode }))
    }

    fn open(&self, path: &str) -> io::Result<Arc<dyn DiskFile>> {
        let inode = self.world.lock().require(path)?;
        Ok(Arc::new(CrashFile { world: Arc::clone(&self.world), inode }))
    }

    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        let world = self.world.lock();
        let names = world.cached.keys().filter_map(|path| match (dir, path.rsplit_once('/')) {
            ("", None) => Some(path.clone()),
            (dir, Some((parent, name))) if parent == dir => Some(name.to_owned()),
            _ => None,
        });
        Ok(names.collect())
    }

    fn create_dir(&self, _dir: &str) -> io::Result<()> {
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut world = self.world.lock();
        world.call()?;
        world.require(from)?;
        world.name_op(to, NameOp::Rename(from.to_owned(), to.to_owned()));
        Ok(())
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        let mut world = self.world.lock();
        world.call()?;
        world.require(path)?;
        world.name_op(path, NameOp::Remove(path.to_owned()));
        Ok(())
    }

    fn sync_dir(&self, dir: &str) -> io::Result<()> {
        let mut world = self.world.lock();
        world.call()?;
        let ops = world.pending.remove(dir).unwrap_or_default();
        for op in ops {
            op.apply(&mut world.durable);
        }
        Ok(())
    }

    fn available(&self) -> io::Result<u64> {
        Ok(1 << 40)
    }

    fn capacity(&self) -> io::Result<u64> {
        Ok(1 << 40)
    }
}

impl CrashFile {
    fn op(&self, op: DataOp) -> io::Result<()> {
        let mut world = self.world.lock();
        let killed = world.call().err();
        let World { dice, files, .. } = &mut *world;
        let file = &mut files[self.inode];
        match (killed, &op) {
            (None, _) => {
                op.apply(&mut file.cached);
                file.pending.push(op);
                Ok(())
            }
            (Some(killed), DataOp::Write(position, new)) => {
                // A kill in the middle of a write leaves a part of it.
                let len = dice.below(new.len() as u64 + 1) as usize;
                let part = DataOp::Write(*position, new[..len].to_vec());
                part.apply(&mut file.cached);
                file.pending.push(part);
                Err(killed)
            }
            (Some(killed), DataOp::SetLen(_)) => Err(killed),
        }
    }
}

impl DiskFile for CrashFile {
    fn read_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize> {
        let world = self.world.lock();
        let bytes = &world.files[self.inode].cached;
        let start = (position as usize).min(bytes.len());
        let len = buf.len().min(bytes.len() - start);
        buf[..len].copy_from_slice(&bytes[start..start + len]);
        Ok(len)
    }

    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<()> {
        self.op(DataOp::Write(position as usize, bytes.to_vec()))
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.op(DataOp::SetLen(len as usize))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.op(DataOp::SetLen(len as usize))
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.world.lock().files[self.inode].cached.len() as u64)
    }

    fn sync(&self) -> io::Result<()> {
        let mut world = self.world.lock();
        let killed = world.call().err();
        let World { dice, files, .. } = &mut *world;
        let file = &mut files[self.inode];
        if let Some(killed) = killed {
            if dice.one_in(2) {
                file.pending.retain(|op| matches!(op, DataOp::SetLen(_)));
            }
            return Err(killed);
        }
        let Inode { durable, pending, .. } = file;
        pending.drain(..).for_each(|op| op.apply(durable));
        Ok(())
    }
}
