//! The log across its files: which there must be, and what continues what.

use super::Scan;
use super::log::{End, First, Place};
use super::report::{Finding, Part, Verdict};
use crate::error::Result;
use crate::log::file::{self, FileNo};
use crate::log::footer::Summary;
use headwater_core::ids::Lsn;

/// The newest file with frames so far.
struct Before {
    no: FileNo,
    end: End,
    summary: Summary,
    /// Nothing may be missing between it and the next file.
    adjoins: bool,
}

impl Scan<'_> {
    pub(super) fn logs(&mut self) -> Result<()> {
        let mut numbers = Vec::new();
        for name in self.list(file::DIR)? {
            if let Some(no) = file::parse_name(&name) {
                numbers.push(no);
            } else {
                let path = format!("{}/{name}", file::DIR);
                self.leftover(&path, "not a file of a data directory");
            }
        }
        self.missing_logs(&numbers);
        let newest = numbers.last().copied().unwrap_or(0);
        let mut before = None;
        for no in numbers {
            if self.is_given_up(no) {
                self.leftover(&file::path(no), "a log file that was given up");
                continue;
            }
            if self.recent_only && self.is_saved(no) {
                continue;
            }
            let floor = self.manifest.as_ref().map(|manifest| manifest.floor);
            let place = Place {
                finished: floor.is_some_and(|floor| no < floor),
                directory_id: self.manifest.as_ref().map(|manifest| manifest.directory_id),
            };
            let Some(end) = self.log_file(no, &place) else { continue };
            let Some((first, summary)) = end.first.zip(end.summary) else {
                self.frameless(no, &end);
                continue;
            };
            self.follow(before.as_ref(), no, &first, &end);
            self.as_listed(no, &summary);
            let saved = self.manifest.as_ref().map(crate::manifest::Manifest::saved);
            let adjoins = floor.is_some_and(|floor| no >= floor)
                || saved.is_some_and(|saved| summary.last_lsn > saved);
            before = Some(Before { no, end, summary, adjoins });
        }
        self.log_end(before.as_ref(), newest);
        Ok(())
    }

    fn missing_logs(&mut self, numbers: &[FileNo]) {
        let listed = self.manifest.iter().flat_map(|manifest| &manifest.files);
        let missing: Vec<_> =
            listed.map(|(no, _)| *no).filter(|no| !numbers.contains(no)).collect();
        for no in missing {
            self.missing(Part::File, &file::path(no));
        }
    }

    /// Below the floor only what the manifest lists is needed.
    fn is_given_up(&self, no: FileNo) -> bool {
        self.manifest.as_ref().is_some_and(|manifest| {
            let listed = manifest.files.binary_search_by_key(&no, |(no, _)| *no).is_ok();
            no < manifest.floor && !listed
        })
    }

    /// The images hold everything that is in the file.
    fn is_saved(&self, no: FileNo) -> bool {
        self.manifest.as_ref().is_some_and(|manifest| {
            let found = manifest.files.binary_search_by_key(&no, |(no, _)| *no);
            found.is_ok_and(|index| manifest.files[index].1.last_lsn <= manifest.saved())
        })
    }

    /// A file without a frame was allocated ahead of need.
    fn frameless(&mut self, no: FileNo, end: &End) {
        if end.footed {
            let detail = "the file was finished, but none of its frames is left";
            let at = file::HEADER_BYTES;
            self.find(Finding::new(Verdict::Damage, Part::File, &file::path(no), at, detail));
        } else if end.torn > 0 {
            self.torn(no, file::HEADER_BYTES, end.torn);
        }
    }

    /// The first frame of a file must continue the file before.
    fn follow(&mut self, before: Option<&Before>, no: FileNo, first: &First, end: &End) {
        self.begins_at_the_floor(before, no, first);
        let Some(before) = before.filter(|before| before.adjoins) else { return };
        let same_log = before.end.log_id == end.log_id;
        let expected =
            if same_log { (before.summary.last_slot + 1, before.summary.last_crc) } else { (0, 0) };
        let path = file::path(before.no);
        let at = before.summary.frames_end;
        if !same_log && !before.summary.sealed {
            let detail = format!("the log has no seal, but file {no} belongs to a later log");
            self.find(Finding::new(Verdict::Damage, Part::Frame, &path, at, detail));
        } else if (first.slot, first.prev_crc) != expected {
            let gap = no > before.no + 1;
            let detail = if gap && before.end.torn == 0 {
                format!("a log file between this one and file {no} is missing")
            } else {
                format!(
                    "the end of the file is damaged: file {no} continues a frame that is not here"
                )
            };
            let finding = Finding::new(Verdict::Damage, Part::Frame, &path, at, detail);
            self.find(finding.spanning(before.end.torn));
        } else if first.lsn != before.summary.last_lsn.next() {
            let detail = "the lsn of the first frame does not continue the file before";
            self.find(Finding::new(
                Verdict::Damage,
                Part::Frame,
                &file::path(no),
                first.at,
                detail,
            ));
        }
    }

    /// The manifest says what the first file that it does not list begins with.
    fn begins_at_the_floor(&mut self, before: Option<&Before>, no: FileNo, first: &First) {
        let Some(manifest) = &self.manifest else { return };
        let is_first = no >= manifest.floor && before.is_none_or(|b| b.no < manifest.floor);
        if is_first && first.lsn != manifest.floor_lsn {
            let detail = format!(
                "the file begins with lsn {}, but lsn {} comes next: a log file is missing",
                first.lsn.0, manifest.floor_lsn.0
            );
            let path = file::path(no);
            self.find(Finding::new(Verdict::Damage, Part::Frame, &path, first.at, detail));
        }
    }

    /// The manifest says what a listed file holds.
    fn as_listed(&mut self, no: FileNo, summary: &Summary) {
        let Some(manifest) = &self.manifest else { return };
        let Ok(index) = manifest.files.binary_search_by_key(&no, |(no, _)| *no) else { return };
        let listed = &manifest.files[index].1;
        if (listed.first_lsn, listed.last_lsn) != (summary.first_lsn, summary.last_lsn) {
            let detail = format!(
                "the frames hold lsn {} to {}, but the manifest says {} to {}",
                summary.first_lsn.0, summary.last_lsn.0, listed.first_lsn.0, listed.last_lsn.0
            );
            let path = file::path(no);
            self.find(Finding::new(Verdict::Damage, Part::File, &path, 0, detail));
        }
    }

    /// What the end of the newest file means.
    fn log_end(&mut self, before: Option<&Before>, newest: FileNo) {
        let durable = self.manifest.as_ref().map_or(Lsn::ZERO, |manifest| manifest.lsn);
        let floor = self.manifest.as_ref().map_or(1, |manifest| manifest.floor);
        if let Some(Before { no, end, summary, .. }) = before {
            let (path, at) = (file::path(*no), summary.frames_end);
            let detail = if summary.sealed {
                None
            } else if newest < floor {
                Some("the log goes on in a file that is missing")
            } else if end.footed && *no >= floor {
                Some("the file was finished, so a frame must follow, but none does")
            } else if end.shortened && !end.footed {
                Some("the file is shorter than it was made, and no footer explains it")
            } else {
                if end.torn > 0 {
                    self.torn(*no, at, end.torn);
                }
                None
            };
            if let Some(detail) = detail {
                let finding = Finding::new(Verdict::Damage, Part::Frame, &path, at, detail);
                self.find(finding.spanning(end.torn));
            }
        }
        let last = before.map_or(
            self.manifest.as_ref().map_or(Lsn::ZERO, |m| Lsn(m.floor_lsn.0.saturating_sub(1))),
            |before| before.summary.last_lsn,
        );
        if last < durable {
            let path = file::path(before.map_or(floor, |before| before.no));
            let at = before.map_or(0, |before| before.summary.frames_end);
            let detail =
                format!("the log ends at lsn {}, but lsn {} was durable", last.0, durable.0);
            self.find(Finding::new(Verdict::Damage, Part::Frame, &path, at, detail));
        }
    }

    fn torn(&mut self, no: FileNo, at: u64, len: u64) {
        let detail = "a torn end: nothing in it was ever acknowledged, and a start cuts it";
        let finding = Finding::new(Verdict::Torn, Part::Frame, &file::path(no), at, detail);
        self.find(finding.spanning(len));
    }
}
