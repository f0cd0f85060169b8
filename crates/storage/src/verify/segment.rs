//! Segments: the table, and every block of every run.

use std::sync::Arc;

use bytes::Bytes;

use super::Scan;
use super::report::{Fact, Finding, Part, Piece, Value, Verdict};
use super::window::Window;
use crate::codec::CHUNK_BYTES;
use crate::disk::DiskFile;
use crate::error::{Error, Kind, Result};
use crate::log::group::{HEAD_PREFIX_MAX, Head};
use crate::segment::{BlockItem, Directory, RunEntry, SegmentNo, check_header, path};

/// One segment that is being read.
struct Open {
    path: String,
    file: Arc<dyn DiskFile>,
    directory: Directory,
    /// Bytes and heads are read side by side.
    bytes: Window,
    heads: Window,
}

impl Scan<'_> {
    pub(super) fn segment(&mut self, no: SegmentNo) {
        if let Err(error) = self.read_segment(no) {
            self.find_error(Part::Segment, &error);
        }
    }

    fn read_segment(&mut self, no: SegmentNo) -> Result<()> {
        let path = path(no);
        let file = self.disk.open(&path).map_err(|e| Error::io(&path, "opening a segment", e))?;
        let mut bytes = Window::new(Arc::clone(&file), &path)?;
        let heads = Window::new(Arc::clone(&file), &path)?;
        self.enter(&path, bytes.len());
        let listed = self.manifest.as_ref().and_then(|manifest| {
            manifest.segments.iter().find(|segment| segment.no == no).copied()
        });
        let id = self.manifest.as_ref().map(|manifest| manifest.directory_id);
        if let Err(error) = check_header(no, id, &bytes.rest(0)?) {
            self.find_error(Part::Header, &error);
            if error.kind == Kind::Format {
                return Ok(());
            }
        }
        if let Some(listed) = listed.filter(|listed| listed.len != bytes.len()) {
            let detail =
                format!("{} bytes long, but it was written with {}", bytes.len(), listed.len);
            self.find(Finding::new(Verdict::Damage, Part::Segment, &path, bytes.len(), detail));
        }
        let directory = match Directory::load(no, &*file) {
            Ok(directory) => directory,
            Err(error) => {
                self.find_error(Part::Table, &error);
                return Ok(());
            }
        };
        let mut open = Open { path, file, directory, bytes, heads };
        for number in 0..open.directory.pages() {
            match open.directory.load_page(number, &*open.file) {
                Ok(page) => page.iter().for_each(|run| self.run(&mut open, run)),
                Err(error) => self.find_error(Part::Table, &error),
            }
        }
        Ok(())
    }

    fn run(&mut self, open: &mut Open, run: &RunEntry) {
        self.watcher.fact(&|| fact(run));
        if run.span.len == 0 {
            return;
        }
        let items = match open.directory.load_items(run, &*open.file) {
            Ok(items) => Some(items),
            Err(error) => {
                let at = error.at.offset.unwrap_or(0);
                let finding =
                    Finding::new(Verdict::Damage, Part::Table, &open.path, at, error.detail);
                self.find(finding.concerning([run.stream]));
                None
            }
        };
        let start = u64::from(open.directory.heads_at()) + u64::from(run.heads_at);
        let (mut at, mut done) = (0u32, BlockItem { offset: 0, record: 0, head: 0 });
        let mut index = 0;
        while at < run.heads_len {
            let head_at = start + u64::from(at);
            done.head = at;
            let known = items.as_ref().is_none_or(|items| items.get(index) == Some(&done));
            let Some(step) = self.block_of(open, run, head_at, done).filter(|_| known) else {
                self.lost(open, run, head_at, done.offset, "the head of a block is damaged");
                // The items tell where the next one is.
                let next = items.as_ref().and_then(|items| items.get(index + 1));
                let Some(next) = next else { return };
                (done, at, index) = (*next, next.head, index + 1);
                continue;
            };
            at = at.saturating_add(step.head);
            done.offset = done.offset.saturating_add(step.offset);
            done.record = done.record.saturating_add(step.record);
            index += 1;
        }
        if (done.offset, done.record) != (run.span.len, run.span.records) {
            let detail = "the blocks of a run are not as long as the run";
            self.lost(open, run, start, done.offset, detail);
        }
    }

    /// Checks the block whose head is at `at`; how far it leads, if its head is intact.
    fn block_of(
        &mut self,
        open: &mut Open,
        run: &RunEntry,
        at: u64,
        from: BlockItem,
    ) -> Option<BlockItem> {
        let left = usize::try_from(open.heads.len().saturating_sub(at)).unwrap_or(usize::MAX);
        let prefix = open.heads.get(at, HEAD_PREFIX_MAX.min(left)).ok()??;
        let len = Head::peek_len(&prefix).filter(|len| *len <= run.heads_len as usize)?;
        let bytes = open.heads.get(at, len).ok()??;
        let head = Head::parse(&bytes)?;
        let ours = head.stream == run.stream
            && head.offset.0.checked_sub(run.span.first.0) == Some(from.offset.into())
            && head.record.0.checked_sub(run.span.first_record.0) == Some(from.record.into())
            && head.lens().is_some();
        if !ours {
            return None;
        }
        self.block_payload(open, run, &head, u64::from(run.payload_at) + u64::from(from.offset));
        let head_len = u32::try_from(head.len).ok()?;
        Some(BlockItem { offset: head.payload_len, record: head.count, head: head_len })
    }

    fn block_payload(&mut self, open: &mut Open, run: &RunEntry, head: &Head<'_>, start: u64) {
        let (crcs, _) = head.crcs.as_chunks::<4>();
        let mut done = 0;
        for crc in crcs {
            let len = (head.payload_len as usize - done).min(CHUNK_BYTES);
            let at = start + done as u64;
            let chunk = open.bytes.get(at, len).ok().flatten();
            let sound = |chunk: &Bytes| crc32c::crc32c(chunk) == u32::from_le_bytes(*crc);
            if let Some(chunk) = chunk.filter(sound) {
                let offset = head.offset.plus(done as u64);
                let piece = Piece { stream: head.stream, offset, record: head.record };
                self.watcher.bytes(piece, &chunk);
            } else {
                let first = head.offset.0 + done as u64;
                let detail = format!("bytes {first} to {} of a stream", first + len as u64);
                let damage = Finding::new(Verdict::Damage, Part::Block, &open.path, at, detail);
                self.find(damage.spanning(len as u64).concerning([run.stream]));
            }
            done += len;
        }
    }

    fn lost(&mut self, open: &Open, run: &RunEntry, at: u64, offset: u32, detail: &str) {
        let (first, end) = (run.span.first.0.saturating_add(offset.into()), run.span.end().0);
        let detail = format!("{detail}, in bytes {first} to {end} of a stream");
        let finding = Finding::new(Verdict::Damage, Part::Block, &open.path, at, detail);
        self.find(finding.concerning([run.stream]));
    }
}

fn fact(run: &RunEntry) -> Fact {
    Fact {
        what: "run",
        at: u64::from(run.payload_at),
        fields: vec![
            ("stream", Value::Stream(run.stream)),
            ("offset", Value::Number(run.span.first.0)),
            ("len", Value::Number(run.span.len.into())),
            ("record", Value::Number(run.span.first_record.0)),
            ("messages", Value::Number(run.span.records.into())),
            ("oldest_file", Value::Number(run.files[0].into())),
            ("newest_file", Value::Number(run.files[1].into())),
            ("previous_file", Value::Number(run.span.prev_file.into())),
        ],
    }
}
