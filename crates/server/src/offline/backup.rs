//! Backup and restore of a data directory. Why this way: decision 0007.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use headwater_core::ids::BlobId;
use headwater_storage::{Capture, Copied, Disk, Error, OsDisk, Verdict};

use super::{Report, catalog::Catalog, refused, scan};
use crate::{descriptors, random};

/// How often the log may go on to a state whose snapshots are held. One that is replaced in the
/// moment between reading the log and opening its body makes one more necessary.
const ATTEMPTS_MAX: usize = 100;

/// What a backup came to.
pub struct Saved {
    /// What was copied.
    pub copied: Copied,
    /// What reading the copy has found.
    pub report: Report,
    /// Whether it counts: with damage in it the backup before stays the one in force.
    pub published: bool,
}

/// Copies the data directory `from` as it is now, and no older than the call, to `to`, while a
/// server may write to it. What `to` has already is not copied again.
///
/// # Errors
/// `Format` when `from` is no data directory or `to` has something else, `Corrupt` when the
/// manifest is damaged, `Locked` when another backup to the same place is under way, `Full`, `Io`.
pub fn backup(from: &Path, to: &Path) -> Result<Saved, Error> {
    outside(from, to)?;
    descriptors::raise();
    let source: Arc<dyn Disk> = Arc::new(OsDisk::watch(from)?);
    let mut capture = Capture::take(source)?;
    let out = OsDisk::open(to)?;
    let mut named = snapshots(&capture)?;
    let mut attempts = 1;
    while let Some(missing) = named.iter().find(|id| !capture.holds(**id)) {
        // One that was missing from the start is for the verification to tell.
        if attempts == ATTEMPTS_MAX {
            tracing::warn!(blob = %missing, "the body of a snapshot is missing");
            break;
        }
        attempts += 1;
        capture = capture.renew()?;
        named = snapshots(&capture)?;
    }
    let (backup, copied) = capture.copy_to(&out, &named)?;
    let report = scan(&backup.view(&out), Catalog::default())?;
    let published = report.worst() < Some(Verdict::Version);
    if published {
        backup.publish(&out)?;
    }
    Ok(Saved { copied, report, published })
}

/// The snapshot bodies that the streams of a captured directory name.
fn snapshots(capture: &Capture) -> Result<BTreeSet<BlobId>, Error> {
    let mut catalog = Catalog::default();
    let scanned = headwater_storage::survey(&capture.view(), &mut catalog)?;
    let report = catalog.finish(scanned, false);
    Ok(report.streams.snapshots().map(|(_, snapshot)| snapshot.blob).collect())
}

/// Makes the empty or missing directory `to` a data directory with the content of a backup and an
/// id of its own.
///
/// # Errors
/// `Format` when `from` is no finished backup or `to` is not empty, `Corrupt` when the backup is
/// damaged, `Locked`, `Full`, `Io`.
pub fn restore(from: &Path, to: &Path) -> Result<Copied, Error> {
    outside(from, to)?;
    let source = OsDisk::open_to_read(from)?;
    if headwater_storage::Backup::load(&source)?.is_none() {
        return Err(refused(from, "this is no backup"));
    }
    let target = OsDisk::open(to)?;
    headwater_storage::restore(&source, &target, random::id())
}

/// Nothing is ever written into the directory that is read.
pub(super) fn outside(from: &Path, to: &Path) -> Result<(), Error> {
    let failed = |source| Error::io(&from.display().to_string(), "opening", source);
    let from = from.canonicalize().map_err(failed)?;
    let absolute = std::path::absolute(to).map_err(failed)?;
    // What does not exist yet has a parent that does.
    let mut known = absolute.ancestors().filter_map(|path| path.canonicalize().ok());
    match known.next() {
        Some(to) if to.starts_with(&from) => {
            Err(refused(&to, "the place to write to lies inside the directory that is read"))
        }
        _ => Ok(()),
    }
}
