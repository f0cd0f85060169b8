//! Taking out of a damaged data directory whatever is intact.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::Path;
use std::sync::Arc;

use headwater_core::ids::{Lineage, StreamId};
use headwater_storage::{Disk, DiskFile, Error, OsDisk, Piece};
use serde_json::{Value, json};

use super::backup::outside;
use super::{Report, catalog::Catalog, id_text, refused, scan};
use crate::descriptors;

/// Files that are kept open for writing.
const OPEN_FILES_MAX: usize = 512;
/// Bytes copied at a time.
const COPY_BYTES: usize = 1 << 20;
/// Every incarnation's bytes, each at its own offset, until the streams are put together.
const RAW_DIR: &str = "raw";
/// The streams.
const STREAMS_DIR: &str = "streams";
/// What the streams are.
const INDEX: &str = "index.json";

/// What an export came to.
pub struct Export {
    /// What is damaged.
    pub report: Report,
    /// Streams that were written.
    pub streams: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// Streams that lack something.
    pub incomplete: u64,
}

/// Ranges that do not touch, by start.
#[derive(Default)]
struct Ranges(BTreeMap<u64, u64>);

/// Where intact bytes go first.
struct Raw<'a> {
    disk: &'a dyn Disk,
    open: HashMap<StreamId, Arc<dyn DiskFile>>,
    found: HashMap<StreamId, Ranges>,
    failed: Option<Error>,
}

/// Writes the intact bytes of every stream in the data directory `from` to the new directory `to`:
/// a file for each stream in `streams/`, and `index.json`.
///
/// # Errors
/// `Locked` while a server holds `from`, `Format` when `to` is not empty, `Full`, `Io`.
pub fn export(from: &Path, to: &Path) -> Result<Export, Error> {
    outside(from, to)?;
    descriptors::raise();
    let source = OsDisk::open_to_read(from)?;
    let out = OsDisk::open(to)?;
    let io = |what: &str, error| failed(what, error);
    for dir in ["", RAW_DIR, STREAMS_DIR] {
        if out.list(dir).is_ok_and(|names| !names.is_empty()) {
            return Err(refused(to, "the place to export to is not empty"));
        }
    }
    for dir in [RAW_DIR, STREAMS_DIR] {
        out.create_dir(dir).map_err(|e| io(dir, e))?;
    }
    let mut raw = Raw { disk: &out, open: HashMap::new(), found: HashMap::new(), failed: None };
    let report = {
        let mut sink = |piece: Piece, bytes: &[u8]| raw.take(piece, bytes);
        scan(&source, Catalog::saving(&mut sink))?
    };
    if let Some(error) = raw.failed.take() {
        return Err(error);
    }
    raw.open.clear();
    let mut export = Export { report, streams: 0, bytes: 0, incomplete: 0 };
    let mut index = Vec::new();
    for id in raw.ids(&export.report) {
        index.push(raw.put_together(id, &mut export)?);
    }
    for name in out.list(RAW_DIR).map_err(|e| io(RAW_DIR, e))? {
        out.remove(&format!("{RAW_DIR}/{name}")).map_err(|e| io(RAW_DIR, e))?;
    }
    let lines: Vec<String> = index.iter().map(Value::to_string).collect();
    let text = format!("[\n{}\n]\n", lines.join(",\n"));
    let file = out.create(INDEX).map_err(|e| io(INDEX, e))?;
    file.write_at(text.as_bytes(), 0).and_then(|()| file.sync()).map_err(|e| io(INDEX, e))?;
    Ok(export)
}

impl Raw<'_> {
    fn take(&mut self, piece: Piece, bytes: &[u8]) {
        if self.failed.is_some() {
            return;
        }
        let path = raw_path(piece.stream);
        let written = self.open(piece.stream, &path);
        let written = written.and_then(|file| file.write_at(bytes, piece.offset.0));
        match written {
            Ok(()) => {
                let found = self.found.entry(piece.stream).or_default();
                found.add(piece.offset.0, piece.offset.0 + bytes.len() as u64);
            }
            Err(error) => self.failed = Some(failed(&path, error)),
        }
    }

    fn open(&mut self, id: StreamId, path: &str) -> io::Result<Arc<dyn DiskFile>> {
        if let Some(file) = self.open.get(&id) {
            return Ok(Arc::clone(file));
        }
        if self.open.len() >= OPEN_FILES_MAX {
            self.open.clear();
        }
        let file = match self.disk.open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.disk.create(path),
            other => other,
        }?;
        self.open.insert(id, Arc::clone(&file));
        Ok(file)
    }

    /// The streams there are, and those whose bytes are all that is left.
    fn ids(&self, report: &Report) -> Vec<StreamId> {
        let mut ids: Vec<_> = report.streams.all().map(|stream| stream.id).collect();
        let orphan = |id: &&StreamId| report.streams.is_lost(**id);
        ids.extend(self.found.keys().filter(orphan));
        ids.sort_unstable();
        ids
    }

    /// Writes one stream, what it inherits included, and describes it.
    fn put_together(&self, id: StreamId, export: &mut Export) -> Result<Value, Error> {
        let streams = &export.report.streams;
        let stream = streams.get(id);
        let from = stream.map_or(0, |stream| stream.retained().0);
        let own_end = self.found.get(&id).map_or(0, Ranges::end);
        let end = own_end.max(stream.map_or(0, |stream| stream.tail.0));
        let path = format!("{STREAMS_DIR}/{:016x}", id.0);
        let file = self.disk.create(&path).map_err(|e| failed(&path, e))?;
        let lineage = stream.and_then(|stream| stream.lineage().map(|l| &**l));
        let (mut at, mut position, mut parts, mut gaps) = (from, 0, Vec::new(), Vec::new());
        while at < end {
            let (owner, upto) = owner_of(id, lineage, at, end);
            let found = self.found.get(&owner);
            match found.map_or((at, upto), |found| found.next(at, upto)) {
                // Intact from here on.
                (first, _) if first > at => {
                    self.copy(owner, [at, first], &*file, position, &path)?;
                    add(&mut parts, at, first);
                    position += first - at;
                    at = first;
                }
                (_, next) => {
                    add(&mut gaps, at, next);
                    at = next;
                }
            }
        }
        file.sync().map_err(|e| failed(&path, e))?;
        let known = streams.known(id);
        let description = json!({
            "stream": known.map(|(name, _)| name.key()),
            "id": id_text(id),
            "file": path,
            "content_type": known.map(|(_, content)| content.as_str()),
            "closed": stream.map(|stream| stream.closed),
            "deleted": stream.map(|stream| stream.hidden),
            "offset": from,
            "next_offset": end,
            "bytes": position,
            "ranges": parts,
            "gaps": gaps,
        });
        export.streams += 1;
        export.bytes += position;
        export.incomplete += u64::from(!gaps.is_empty() || stream.is_none());
        Ok(description)
    }

    fn copy(
        &self,
        owner: StreamId,
        [mut at, end]: [u64; 2],
        to: &dyn DiskFile,
        mut position: u64,
        path: &str,
    ) -> Result<(), Error> {
        let io = |error| failed(path, error);
        let from = self.disk.open(&raw_path(owner)).map_err(io)?;
        let mut buffer = vec![0; COPY_BYTES];
        while at < end {
            let want = usize::try_from(end - at).unwrap_or(COPY_BYTES).min(COPY_BYTES);
            let read = from.read_at(&mut buffer[..want], at).map_err(io)?;
            if read == 0 {
                return Err(io(io::ErrorKind::UnexpectedEof.into()));
            }
            to.write_at(&buffer[..read], position).map_err(io)?;
            at += read as u64;
            position += read as u64;
        }
        Ok(())
    }
}

impl Ranges {
    fn add(&mut self, mut start: u64, mut end: u64) {
        while let Some((&first, &last)) = self.0.range(..=end).next_back() {
            if last < start {
                break;
            }
            (start, end) = (start.min(first), end.max(last));
            self.0.remove(&first);
        }
        self.0.insert(start, end);
    }

    fn end(&self) -> u64 {
        self.0.last_key_value().map_or(0, |(_, end)| *end)
    }

    /// Up to where there is something from `at` on, and where there is something again; both at
    /// most `upto`.
    fn next(&self, at: u64, upto: u64) -> (u64, u64) {
        let here = self.0.range(..=at).next_back().map(|(_, end)| *end).filter(|end| *end > at);
        let next = self.0.range(at + 1..).next().map_or(upto, |(start, _)| *start);
        (here.unwrap_or(at).min(upto), next.min(upto))
    }
}

/// Whose file has the byte at `at`, and up to where.
fn owner_of(id: StreamId, lineage: Option<&Lineage>, at: u64, end: u64) -> (StreamId, u64) {
    let (mut owner, mut upto, mut link) = (id, end, lineage);
    while let Some(ancestor) = link.filter(|ancestor| at < ancestor.end.0) {
        (owner, upto) = (ancestor.stream, upto.min(ancestor.end.0));
        link = ancestor.parent.as_deref();
    }
    (owner, upto)
}

/// Adds a range to a list in which neighbours are one.
fn add(list: &mut Vec<[u64; 2]>, start: u64, end: u64) {
    match list.last_mut() {
        Some(last) if last[1] == start => last[1] = end,
        _ => list.push([start, end]),
    }
}

fn raw_path(id: StreamId) -> String {
    format!("{RAW_DIR}/{:016x}", id.0)
}

fn failed(path: &str, source: io::Error) -> Error {
    Error::io(path, "writing an export", source)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_touch_are_one_in_whatever_order_they_come() {
        for order in [[(0, 10), (20, 30), (10, 20)], [(20, 30), (5, 25), (0, 6)]] {
            let mut ranges = Ranges::default();
            for (start, end) in order {
                ranges.add(start, end);
            }
            assert_eq!(ranges.0, BTreeMap::from([(0, 30)]));
        }
    }

    #[test]
    fn a_gap_ends_where_the_next_range_begins() {
        let mut ranges = Ranges::default();
        ranges.add(10, 20);
        ranges.add(30, 40);
        assert_eq!(ranges.next(0, 100), (0, 10));
        assert_eq!(ranges.next(10, 100), (20, 30));
        assert_eq!(ranges.next(15, 18), (18, 18));
        assert_eq!(ranges.next(40, 100), (40, 100));
    }
}
