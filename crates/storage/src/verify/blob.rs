//! Snapshot bodies: header, checksums, and every block of the data.

use std::sync::Arc;

use headwater_core::ids::BlobId;

use super::report::{Fact, Finding, Part, Value, Verdict};
use super::{Scan, Watcher};
use crate::blob::{self, BlobReader};
use crate::codec::CHUNK_BYTES;
use crate::error::{Error, Kind};

impl Scan<'_> {
    pub(super) fn blob(&mut self, id: BlobId) {
        let path = blob::path(id);
        let opened = self.disk.open(&path).map_err(|e| Error::io(&path, "opening a blob", e));
        let file = match opened {
            Ok(file) => file,
            Err(error) => {
                self.find_error(Part::Blob, &error);
                return;
            }
        };
        self.enter(&path, file.len().unwrap_or(0));
        let reader = match BlobReader::load(id, Arc::clone(&file)) {
            Ok(reader) => reader,
            Err(error) => {
                // Whether it matters is known to whoever knows which stream names it.
                let mut finding = Finding::new(
                    if error.kind == Kind::Format { Verdict::Version } else { Verdict::Torn },
                    Part::Blob,
                    &path,
                    error.at.offset.unwrap_or(0),
                    error.detail,
                );
                finding.len = file.len().unwrap_or(0);
                self.find(finding);
                self.watcher.blob_end(id, None);
                return;
            }
        };
        self.watcher.fact(&|| Fact {
            what: "blob",
            at: 0,
            fields: vec![("id", Value::Id(id.0)), ("len", Value::Number(reader.len()))],
        });
        self.blob_data(id, &reader);
    }

    fn blob_data(&mut self, id: BlobId, reader: &BlobReader) {
        let (mut at, mut intact) = (0, true);
        while at < reader.len() {
            match reader.read(at, usize::MAX) {
                Ok(bytes) => {
                    self.watcher.blob(id, &bytes);
                    at += bytes.len() as u64;
                }
                Err(error) => {
                    self.find_error(Part::Blob, &error);
                    intact = false;
                    // The error names the first bad block of what was asked for.
                    let bad = error.at.offset.unwrap_or(0).saturating_sub(blob::HEADER_BYTES);
                    at = bad.max(at) / CHUNK_BYTES as u64 * CHUNK_BYTES as u64 + CHUNK_BYTES as u64;
                }
            }
        }
        let watcher: &mut dyn Watcher = self.watcher;
        watcher.blob_end(id, intact.then_some(reader.len()));
    }
}
