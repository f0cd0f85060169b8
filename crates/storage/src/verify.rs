//! Reading a whole data directory to find what is damaged, without changing anything.
//!
//! Every checksum there is gets checked, in the order in which a start would need the parts:
//! manifest, checkpoints, log, segments, blobs. Whoever calls gives a [`Watcher`] and learns what
//! was found and what was intact on the way. Memory is bounded by the largest frame or image: files
//! are read in windows of a few MiB.

mod blob;
mod chain;
mod checkpoint;
mod log;
mod report;
mod segment;
mod window;

use std::collections::{BTreeMap, BTreeSet};

use headwater_core::ids::BlobId;

pub(crate) use log::{frames_end, is_broken_at};
pub use report::{Fact, Finding, Part, Piece, Seen, Value, Verdict, Watcher};

use crate::disk::Disk;
use crate::error::{Error, Kind, Result};
use crate::log::file as log_file;
use crate::manifest::{self, Manifest};

/// The files that belong to a data directory but to none of its parts.
const KNOWN: [&str; 3] = [manifest::PATH, manifest::NEXT_PATH, "LOCK"];

/// How much was looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Scanned {
    /// Files that were read.
    pub files: u64,
    /// Bytes in them.
    pub bytes: u64,
}

/// One scan: what all its parts need.
struct Scan<'a> {
    disk: &'a dyn Disk,
    /// None when it is damaged or missing: then every file counts as if it were listed.
    manifest: Option<Manifest>,
    watcher: &'a mut dyn Watcher,
    scanned: Scanned,
    /// Log files that the images hold wholly are left out.
    recent_only: bool,
}

/// Reads everything in a data directory and tells `watcher` what is damaged.
///
/// # Errors
/// `Io` when a directory cannot be listed. Whatever is wrong with a file is a finding.
pub fn verify(disk: &dyn Disk, watcher: &mut dyn Watcher) -> Result<Scanned> {
    let mut scan = Scan::new(disk, watcher);
    scan.manifest = scan.load_manifest();
    scan.strangers()?;
    scan.checkpoints()?;
    scan.logs()?;
    scan.segments()?;
    scan.blobs()?;
    Ok(scan.scanned)
}

/// Reads what a start would: the manifest, the images it names, and the log above them.
///
/// # Errors
/// As [`verify`].
pub fn survey(disk: &dyn Disk, watcher: &mut dyn Watcher) -> Result<Scanned> {
    let mut scan = Scan::new(disk, watcher);
    scan.manifest = scan.load_manifest();
    scan.recent_only = true;
    scan.checkpoints()?;
    scan.logs()?;
    Ok(scan.scanned)
}

/// Reads one file of a data directory, by its path inside: a log file, a segment, a checkpoint
/// file, a blob or the manifest.
///
/// # Errors
/// `Format` when the path is that of no such file; `Io` when it cannot be read.
pub fn verify_file(disk: &dyn Disk, path: &str, watcher: &mut dyn Watcher) -> Result<Scanned> {
    let mut scan = Scan::new(disk, watcher);
    let (dir, name) = path.split_once('/').unwrap_or(("", path));
    let unknown = || Error::format(path, "no file of a data directory has this name");
    match dir {
        "" if name == manifest::PATH => drop(scan.load_manifest()),
        log_file::DIR => {
            let no = log_file::parse_name(name).ok_or_else(unknown)?;
            let _end = scan.log_file(no, &log::Place::default());
        }
        crate::segment::DIR => {
            scan.segment(crate::segment::parse_name(name).ok_or_else(unknown)?);
        }
        crate::checkpoint::DIR => {
            scan.checkpoint(crate::checkpoint::parse_name(name).ok_or_else(unknown)?, &[]);
        }
        crate::blob::DIR => scan.blob(crate::blob::parse_name(name).ok_or_else(unknown)?),
        _ => return Err(unknown()),
    }
    Ok(scan.scanned)
}

impl<'a> Scan<'a> {
    fn new(disk: &'a dyn Disk, watcher: &'a mut dyn Watcher) -> Self {
        Self { disk, manifest: None, watcher, scanned: Scanned::default(), recent_only: false }
    }

    fn find(&mut self, finding: Finding) {
        self.watcher.finding(finding);
    }

    /// A failed look at a part is a finding, whatever the reason.
    fn find_error(&mut self, part: Part, error: &Error) {
        let verdict = match error.kind {
            Kind::Format => Verdict::Version,
            _ => Verdict::Damage,
        };
        let reason = error.source.as_ref().map_or(String::new(), |source| format!(": {source}"));
        let detail = format!("{}{reason}", error.detail);
        let offset = error.at.offset.unwrap_or(0);
        self.find(Finding::new(verdict, part, &error.at.path, offset, detail));
    }

    /// What follows is about this file.
    fn enter(&mut self, path: &str, len: u64) {
        self.scanned.files += 1;
        self.scanned.bytes += len;
        self.watcher.fact(&|| Fact {
            what: "file",
            at: 0,
            fields: vec![
                ("path", Value::Text(path.to_owned().into())),
                ("len", Value::Number(len)),
            ],
        });
    }

    fn list(&self, dir: &str) -> Result<Vec<String>> {
        match self.disk.list(dir) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
            names => names.map_err(|e| Error::io(dir, "listing a directory", e)),
        }
    }

    fn load_manifest(&mut self) -> Option<Manifest> {
        let loaded = Manifest::load(self.disk).and_then(|found| {
            found.ok_or_else(|| Error::corrupt(manifest::PATH, 0, "the manifest is missing"))
        });
        match loaded {
            Ok(manifest) => {
                self.enter(manifest::PATH, 0);
                manifest.tell(self.watcher);
                Some(manifest)
            }
            Err(error) => {
                self.find_error(Part::Manifest, &error);
                None
            }
        }
    }

    /// Files at the top that nothing knows.
    fn strangers(&mut self) -> Result<()> {
        for name in self.list("")? {
            if name == manifest::NEXT_PATH {
                self.leftover(&name, "a manifest that was being written");
            } else if !KNOWN.contains(&name.as_str()) {
                self.leftover(&name, "not a file of a data directory");
            }
        }
        Ok(())
    }

    fn leftover(&mut self, path: &str, detail: &str) {
        self.find(Finding::new(Verdict::Leftover, Part::File, path, 0, detail));
    }

    fn missing(&mut self, part: Part, path: &str) {
        let detail = "the file is missing, but the manifest names it";
        self.find(Finding::new(Verdict::Damage, part, path, 0, detail));
    }

    fn checkpoints(&mut self) -> Result<()> {
        let mut named = BTreeMap::<u64, Vec<checkpoint::Named>>::new();
        for block in self.manifest.iter().flat_map(checkpoint::Named::all) {
            named.entry(block.block.file).or_default().push(block);
        }
        let mut found = BTreeSet::new();
        for name in self.list(crate::checkpoint::DIR)? {
            let path = format!("{}/{name}", crate::checkpoint::DIR);
            match crate::checkpoint::parse_name(&name) {
                None => self.leftover(&path, "not a file of a data directory"),
                Some(no) if self.manifest.is_none() || named.contains_key(&no) => {
                    found.insert(no);
                    self.checkpoint(no, named.get(&no).map_or(&[], Vec::as_slice));
                }
                Some(_) => self.leftover(&path, "a checkpoint that no manifest names"),
            }
        }
        for no in named.keys().filter(|no| !found.contains(no)) {
            self.missing(Part::Checkpoint, &crate::checkpoint::path(*no));
        }
        Ok(())
    }

    fn segments(&mut self) -> Result<()> {
        let listed = self.manifest.as_ref().map(|manifest| manifest.segments.clone());
        let mut found = BTreeSet::new();
        for name in self.list(crate::segment::DIR)? {
            let path = format!("{}/{name}", crate::segment::DIR);
            let named = |no| listed.as_ref().is_none_or(|all| all.iter().any(|s| s.no == no));
            match crate::segment::parse_name(&name) {
                None => self.leftover(&path, "not a file of a data directory"),
                Some(no) if named(no) => {
                    found.insert(no);
                    self.segment(no);
                }
                Some(_) => self.leftover(&path, "a segment that no manifest names"),
            }
        }
        for segment in listed.iter().flatten().filter(|segment| !found.contains(&segment.no)) {
            self.missing(Part::Segment, &crate::segment::path(segment.no));
        }
        Ok(())
    }

    fn blobs(&mut self) -> Result<()> {
        for name in self.list(crate::blob::DIR)? {
            if let Some(id) = crate::blob::parse_name(&name) {
                self.blob(id);
            } else {
                let path = format!("{}/{name}", crate::blob::DIR);
                self.leftover(&path, "not a file of a data directory");
            }
        }
        Ok(())
    }
}

/// The path of a blob inside a data directory.
pub fn blob_path(id: BlobId) -> String {
    crate::blob::path(id)
}
