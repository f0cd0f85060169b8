//! Opening a data directory: manifest, images, log, and only then a new log.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use headwater_core::ids::ShardNo;
use parking_lot::Mutex;

use super::upkeep::Ledger;
use super::{Options, Start, Store, Visitor};
use crate::backup;
use crate::blob::{self, Blobs};
use crate::checkpoint;
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::health::Health;
use crate::location::Location;
use crate::log::allocator::Allocator;
use crate::log::debt::Debt;
use crate::log::file;
use crate::log::lane::{Lane, Parts};
use crate::log::recover::{CUT_DIR, Recover, Recovered};
use crate::manifest::{self, Manifest};
use crate::pins::Pins;
use crate::read::Shelf;
use crate::ring::Ring;
use crate::segment;
use crate::space::Space;

/// Positions in a log file have 32 bits; a file may be enlarged to twice the largest group.
const LOG_FILE_BYTES_MAX: u64 = 2 << 30;

/// The directories of a data directory.
pub(crate) const DIRS: [&str; 5] = [file::DIR, segment::DIR, checkpoint::DIR, blob::DIR, CUT_DIR];

impl<T: Send> Store<T> {
    /// Opens a data directory, making it when the disk is empty: reads the checkpoint and the log
    /// above it to `visitor`, repairs what an unclean stop left, and starts a new log.
    ///
    /// # Errors
    /// `Corrupt` for damage, `Format` for a version that this program does not know: both leave
    /// everything as it was. `Full` when an unclean stop cannot be repaired for lack of room.
    pub fn open(
        disk: Arc<dyn Disk>,
        mut options: Options,
        start: Start,
        visitor: &mut dyn Visitor,
    ) -> Result<Self> {
        options.log_file_bytes = options.log_file_bytes.min(LOG_FILE_BYTES_MAX);
        let mut manifest = manifest(&*disk, start.directory_id)?;
        let cache = options.footer_cache_bytes;
        let location = Location::new(Arc::clone(&disk), cache, options.open_files_max);
        restore(&*disk, &manifest, &location, visitor)?;
        let debt = Arc::new(Debt::default());
        let (disk_ref, location_ref) = (&*disk, &location);
        let recover = Recover {
            disk: disk_ref,
            manifest: &manifest,
            location: location_ref,
            debt: &debt,
            visitor,
            spare: None,
        };
        let recovered = recover.run(start.now)?;
        if manifest.version < manifest::VERSION {
            // Before the log gets anything that an older program does not know.
            manifest.version = manifest::VERSION;
            manifest.store(&*disk)?;
        }
        location.cool(None);
        checkpoint::remove_unnamed(&*disk, &manifest)?;
        checkpoint::remove_unfinished(&*disk, &manifest)?;
        segment::remove_unnamed(&*disk, &manifest.segments)?;
        let store = Self::assemble(disk, options, start, manifest, recovered, location, debt);
        store.allocator.allocate_ahead()?;
        Ok(store)
    }

    fn assemble(
        disk: Arc<dyn Disk>,
        options: Options,
        start: Start,
        manifest: Manifest,
        recovered: Recovered,
        location: Location,
        debt: Arc<Debt>,
    ) -> Self {
        let directory_id = manifest.directory_id;
        let health = Arc::new(Health::default());
        let space = Arc::new(Space::new(Arc::clone(&disk), options.disk_reserve));
        let location = Arc::new(location);
        let ring = Arc::new(Ring::new(options.ring_bytes));
        let allocator = Arc::new(Allocator::new(
            Arc::clone(&disk),
            Arc::clone(&space),
            Arc::clone(&health),
            options.log_file_bytes,
            [start.log_id, directory_id],
            recovered.next_no,
        ));
        let parts = Parts {
            allocator: Arc::clone(&allocator),
            health: Arc::clone(&health),
            debt: Arc::clone(&debt),
            location: Arc::clone(&location),
            ring: Arc::clone(&ring),
        };
        let Recovered { report, last, newest_time, touched, .. } = recovered;
        let time = newest_time.max(start.now);
        let frame_bytes_max = options.frame_bytes_max;
        Self {
            lane: Lane::new(parts, frame_bytes_max, start.log_id, last, time, touched),
            blobs: Blobs::new(Arc::clone(&disk), Arc::clone(&space)),
            space,
            shelf: Arc::new(Shelf { location: Arc::clone(&location), ring: Arc::clone(&ring) }),
            pins: Arc::new(Pins::default()),
            freed: AtomicU64::new(0),
            upkeep: Mutex::new(Ledger::new(manifest)),
            recovery: report,
            disk,
            options,
            directory_id,
            newest_time,
            health,
            allocator,
            debt,
            location,
            ring,
        }
    }
}

/// There while a restore fills the directory.
pub(crate) const RESTORING: &str = "RESTORING";

/// What only looks like a data directory is left alone.
fn refuse_others(disk: &dyn Disk) -> Result<()> {
    let names = disk.list("").map_err(|e| Error::io("", "listing the directory", e))?;
    for name in names {
        let detail = match name.as_str() {
            RESTORING => "a restore into this directory has not finished: run it again",
            backup::PATH | backup::NEXT_PATH => "this is a backup: restore it to another directory",
            _ => continue,
        };
        return Err(Error::format(&name, detail));
    }
    Ok(())
}

/// The manifest, or a new one for an empty disk.
fn manifest(disk: &dyn Disk, directory_id: u128) -> Result<Manifest> {
    refuse_others(disk)?;
    if let Some(manifest) = Manifest::load(disk)? {
        // A directory that was made before there were segments has none for them.
        disk.create_dir(segment::DIR)
            .map_err(|e| Error::io(segment::DIR, "creating a directory", e))?;
        // A rename that only the page cache knows must not be undone once files were removed.
        disk.sync_dir("").map_err(|e| Error::io("", "syncing the directory", e))?;
        return Ok(manifest);
    }
    for dir in DIRS {
        let names = match disk.list(dir) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            names => names.map_err(|e| Error::io(dir, "listing a directory", e))?,
        };
        if let Some(name) = names.first() {
            let detail = format!("the manifest is missing, but there is {dir}/{name}");
            return Err(Error::corrupt(manifest::PATH, 0, detail));
        }
    }
    for dir in DIRS {
        disk.create_dir(dir).map_err(|e| Error::io(dir, "creating a directory", e))?;
    }
    // Whoever finds a manifest must find the directories that it stands for.
    disk.sync_dir("").map_err(|e| Error::io("", "syncing the directory", e))?;
    let manifest = Manifest::new(directory_id);
    manifest.store(disk)?;
    Ok(manifest)
}

/// Hands every saved image to `visitor`, and tells `location` what the checkpoint knows.
fn restore(
    disk: &dyn Disk,
    manifest: &Manifest,
    location: &Location,
    visitor: &mut dyn Visitor,
) -> Result<()> {
    for (shard, saved) in ShardNo::all().zip(&manifest.shards) {
        let Some(block) = saved.image else { continue };
        let image = checkpoint::load_image(disk, shard, saved.lsn, block)?;
        let taken = visitor.image(shard, saved.lsn, &image);
        taken.map_err(|detail| checkpoint::unusable(block, detail))?;
    }
    for (no, footed) in &manifest.files {
        location.foot_file(*no, *footed);
    }
    location.set_segments(manifest.segments.clone());
    if let Some(block) = manifest.heads {
        for (stream, no) in checkpoint::load_heads(disk, block, manifest.lsn)? {
            location.set_head(stream, no);
        }
    }
    Ok(())
}
