//! What an operator does with a data directory: verify it, look into it, take out of it what is
//! intact, back it up and restore it, make its first key. Storage scans and copies; the core knows
//! what entries and images mean; here the two meet.

mod backup;
mod catalog;
mod export;
mod keys;

use std::path::Path;

use headwater_core::ids::StreamId;
use headwater_storage::{Backup, Disk, OsDisk};
pub use headwater_storage::{Copied, Error, Fact, Finding, Kind, Part, Scanned, Value, Verdict};

pub use backup::{Saved, backup, restore};
use catalog::Catalog;
pub use catalog::Streams;
pub use export::{Export, export};
pub use keys::create_key;

/// What a scan of a data directory came to.
pub struct Report {
    /// What is not as it should be, in the order in which it was found.
    pub findings: Vec<Finding>,
    /// Findings beyond the limit, which were only counted.
    pub more_findings: u64,
    /// How much was read.
    pub scanned: Scanned,
    /// The streams that the directory holds.
    pub streams: Streams,
}

impl Report {
    /// The worst of what was found.
    pub fn worst(&self) -> Option<Verdict> {
        self.findings.iter().map(|finding| finding.verdict).max()
    }

    /// What people call the streams of a finding; an id where no name is left.
    pub fn names(&self, finding: &Finding) -> Vec<String> {
        finding.streams.iter().map(|id| self.streams.name_or_id(*id)).collect()
    }
}

/// An id as it is written where a name is not known.
pub fn id_text(id: StreamId) -> String {
    format!("#{:016x}", id.0)
}

/// Reads everything in the data directory or backup at `dir` and changes nothing.
///
/// # Errors
/// `Locked` while a server holds it, `Io` when it cannot be read. Damage is no error.
pub fn verify(dir: &Path) -> Result<Report, Error> {
    let disk = OsDisk::open_to_read(dir)?;
    match Backup::load(&disk)? {
        Some(backup) => scan(&backup.view(&disk), Catalog::default()),
        None => scan(&disk, Catalog::default()),
    }
}

/// Tells `tell` what lies in one file of the data directory at `dir`, or in all of them.
///
/// # Errors
/// As [`verify`], and `Format` when the path is that of no such file.
pub fn inspect(
    dir: &Path,
    file: Option<&str>,
    tell: &mut dyn FnMut(Fact),
) -> Result<Report, Error> {
    let disk = OsDisk::open_to_read(dir)?;
    let mut catalog = Catalog::telling(tell);
    match file {
        Some(file) => {
            let scanned = headwater_storage::verify_file(&disk, file, &mut catalog)?;
            Ok(catalog.finish(scanned, false))
        }
        None => scan(&disk, catalog),
    }
}

fn scan(disk: &dyn Disk, mut catalog: Catalog<'_>) -> Result<Report, Error> {
    let scanned = headwater_storage::verify(disk, &mut catalog)?;
    Ok(catalog.finish(scanned, true))
}

fn refused(path: &Path, detail: &str) -> Error {
    Error::format(&path.display().to_string(), detail)
}
