//! Everything that recovery changes, once nothing was found damaged.

use headwater_core::ids::{Lsn, Timestamp};

use super::chain::{Chain, Ended};
use super::{CUT_DIR, Recover, Recovered, Recovery, Scanned, index_of};
use crate::error::{Error, Result};
use crate::location::Footed;
use crate::log::file::{self, FileNo};
use crate::log::footer::Summary;
use crate::log::frame::{self, HEADER_LEN};
use crate::manifest::Manifest;

impl Recover<'_> {
    /// Everything that changes files, in the order of the module's list.
    pub(super) fn repair(
        &self,
        mut chain: Chain,
        unused: &[Scanned],
        names: &[FileNo],
        now: Timestamp,
    ) -> Result<Recovered> {
        let newest_time = chain.time;
        let last = chain.last;
        let files = chain.files.len() + unused.len();
        let mut report = Recovery { groups: chain.groups, ..Recovery::default() };
        report.files = files as u64;
        report.clean = chain.files.last().is_none_or(|end| end.footed && end.summary.sealed);
        self.keep_cut(&chain, unused, &mut report)?;
        report.clean &= report.cut_bytes == 0;
        self.refresh(&chain, report.clean)?;
        self.remove_unused(unused, names)?;
        if !chain.is_sealed()
            && let Some(ended) = chain.files.last_mut()
        {
            self.seal(ended, last, newest_time.max(now))?;
        }
        for ended in &chain.files {
            if ended.file.no >= self.manifest.floor {
                self.foot(ended)?;
            }
        }
        let next_no = chain.files.last().map_or(0, |ended| ended.file.no + 1);
        let next_no = next_no.max(self.manifest.floor);
        Ok(Recovered { report, last, newest_time, next_no, touched: chain.touched })
    }

    /// Makes durable whatever was read. After a failed sync the page cache may show bytes that the
    /// medium does not have, and that no sync will write any more, so these are written again.
    fn refresh(&self, chain: &Chain, clean: bool) -> Result<()> {
        for ended in &chain.files {
            let (handle, path) = (&ended.file.handle, file::path(ended.file.no));
            let failed = |source| Error::io(&path, "making what was read durable", source);
            if ended.footed && ended.file.no >= self.manifest.floor {
                let mut footer = vec![0; index_of(ended.file.size - ended.summary.frames_end)];
                handle.read_at(&mut footer, ended.summary.frames_end).map_err(failed)?;
                handle.write_at(&footer, ended.summary.frames_end).map_err(failed)?;
            }
            // Only the last file's bytes are still here.
            if let ((position, frame), false) = (&ended.last_frame, clean) {
                handle.write_at(frame, *position).map_err(failed)?;
            }
            handle.sync().map_err(failed)?;
        }
        Ok(())
    }

    /// Keeps the bytes behind the last frame, up to the last that is not zero.
    fn keep_cut(&self, chain: &Chain, unused: &[Scanned], report: &mut Recovery) -> Result<()> {
        let mut torn = Vec::new();
        if let (Some(ended), false) = (chain.files.last(), chain.is_sealed()) {
            torn.push((ended.file.no, index_of(ended.summary.frames_end), &ended.bytes));
        }
        for scanned in unused.iter().filter(|scanned| scanned.header.is_some()) {
            torn.push((scanned.no, index_of(file::HEADER_BYTES), &scanned.bytes));
        }
        for (no, start, bytes) in torn {
            let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            if end > start {
                let path = self.keep(no, start, &bytes[start..end])?;
                report.cut_bytes += (end - start) as u64;
                report.cut_files.push(path);
            }
        }
        Ok(())
    }

    fn keep(&self, no: FileNo, position: usize, bytes: &[u8]) -> Result<String> {
        let name = format!("{no:010}-{position}");
        let path = format!("{CUT_DIR}/{name}");
        let failed = |source| Error::io(&path, "keeping cut bytes", source);
        let names = self.disk.list(CUT_DIR).map_err(failed)?;
        if names.contains(&name) {
            // A recovery that was itself cut short has kept them already.
            return Ok(path);
        }
        let unfinished = format!("{path}.tmp");
        if names.contains(&format!("{name}.tmp")) {
            self.disk.remove(&unfinished).map_err(failed)?;
        }
        let file = self.disk.create(&unfinished).map_err(failed)?;
        file.write_at(bytes, 0).map_err(failed)?;
        file.sync().map_err(failed)?;
        self.disk.rename(&unfinished, &path).map_err(failed)?;
        self.disk.sync_dir(CUT_DIR).map_err(failed)?;
        Ok(path)
    }

    /// Removes files that hold no frame, and those that a reclaim had un-named but not removed.
    fn remove_unused(&self, unused: &[Scanned], names: &[FileNo]) -> Result<()> {
        let Manifest { floor, files, .. } = self.manifest;
        let named = |no: &FileNo| files.binary_search_by_key(no, |(no, _)| *no).is_ok();
        let unnamed = names.iter().copied().filter(|no| no < floor && !named(no));
        for no in unused.iter().map(|scanned| scanned.no).chain(unnamed) {
            let removed = self.disk.remove(&file::path(no));
            removed.map_err(|e| Error::io(&file::path(no), "removing a log file", e))?;
        }
        let synced = self.disk.sync_dir(file::DIR);
        synced.map_err(|e| Error::io(file::DIR, "syncing the directory", e))
    }

    /// Writes the seal that the stop did not leave time for. Every file keeps room for it.
    fn seal(&self, ended: &mut Ended, last: Lsn, time: Timestamp) -> Result<()> {
        let summary = &mut ended.summary;
        let header = frame::Header {
            log_id: summary.log_id,
            slot: summary.last_slot + 1,
            prev_crc: summary.last_crc,
            first_lsn: last.next(),
            groups: 0,
            body_len: 0,
            time,
            seal: true,
        };
        let mut buffer = vec![0; HEADER_LEN];
        let crc = frame::finish(&mut buffer, &header);
        let path = file::path(ended.file.no);
        let failed = |source| Error::io(&path, "sealing the log", source);
        let written = ended.file.handle.write_at(&buffer, summary.frames_end);
        written.map_err(failed)?;
        ended.file.handle.sync().map_err(failed)?;
        let end = summary.frames_end + buffer.len() as u64;
        let sealed = Summary::after(ended.file.no, &header, crc, end);
        *summary = Summary { first_lsn: summary.first_lsn, ..sealed };
        let added = self.location.add_frame(&ended.file, sealed, &[]);
        added.map_err(|detail| Error::corrupt(&path, end, detail))?;
        self.location.finish_file(ended.file.no);
        Ok(())
    }

    fn foot(&self, ended: &Ended) -> Result<()> {
        if ended.footed {
            let Summary { first_lsn, last_lsn, .. } = ended.summary;
            let len = ended.file.size;
            self.location.foot_file(ended.file.no, Footed { first_lsn, last_lsn, len });
            return Ok(());
        }
        let written = self.location.write_footer()?;
        assert_eq!(written, Some(ended.file.no), "footers are written in the order of the files");
        Ok(())
    }
}
