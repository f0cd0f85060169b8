//! Several sources side by side: their runs, stream by stream.

use std::sync::Arc;

use headwater_core::ids::StreamId;

use super::{Directory, Page};
use crate::error::Result;
use crate::location::{Location, Stop, Wait};
use crate::log::file::FileNo;
use crate::log::footer::{Span, Table};

/// What one source holds of a stream in one piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SourceRun {
    pub(crate) stream: StreamId,
    pub(crate) span: Span,
    /// The log files that it stands for, from the first to the last.
    pub(crate) files: [FileNo; 2],
    /// Where it is read from.
    pub(crate) stop: Stop,
}

/// The runs of one source, in rising order of stream and log file.
pub(crate) struct Runs {
    stop: Stop,
    next: Option<SourceRun>,
    rest: Rest,
}

enum Rest {
    Log { table: Arc<Table>, at: usize },
    Segment { directory: Arc<Directory>, pages: usize, page: Page, at: usize },
}

impl Runs {
    /// Starts at the first run of a source.
    pub(crate) fn open(location: &Location, stop: Stop) -> Result<Self> {
        let rest = match stop.segment {
            None => Rest::Log { table: location.table(stop.file_no, Wait::Fine)?, at: 0 },
            Some(no) => {
                let directory = location.directory(no, Wait::Fine)?;
                Rest::Segment { directory, pages: 0, page: Arc::new([]), at: 0 }
            }
        };
        let mut runs = Self { stop, next: None, rest };
        runs.advance(location)?;
        Ok(runs)
    }

    /// The next run, which stays the next.
    pub(crate) fn peek(&self) -> Option<&SourceRun> {
        self.next.as_ref()
    }

    /// Goes on to the run after.
    pub(crate) fn advance(&mut self, location: &Location) -> Result<()> {
        let stop = self.stop;
        self.next = match &mut self.rest {
            Rest::Log { table, at } => table.streams.get(*at).map(|entry| {
                *at += 1;
                let files = [stop.file_no; 2];
                SourceRun { stream: entry.stream, span: entry.span, files, stop }
            }),
            Rest::Segment { directory, pages, page, at } => {
                if *at == page.len() && *pages < directory.pages() {
                    let no = stop.segment.expect("only a segment has pages");
                    // A page is read once here: the cache is for readers.
                    *page = directory.load_page(*pages, &*location.segment_handle(no)?)?;
                    (*pages, *at) = (*pages + 1, 0);
                }
                page.get(*at).map(|run| {
                    *at += 1;
                    let stop = Stop { file_no: run.files[1], ..stop };
                    SourceRun { stream: run.stream, span: run.span, files: run.files, stop }
                })
            }
        };
        Ok(())
    }
}

/// Takes the runs of the lowest stream from all sources, oldest first; none at the end.
pub(crate) fn next_stream(sources: &mut [Runs], location: &Location) -> Result<Vec<SourceRun>> {
    let lowest = sources.iter().filter_map(|runs| Some(runs.peek()?.stream)).min();
    let Some(stream) = lowest else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for runs in sources {
        while let Some(run) = runs.peek().filter(|run| run.stream == stream) {
            found.push(*run);
            runs.advance(location)?;
        }
    }
    found.sort_unstable_by_key(|run| run.files);
    Ok(found)
}
