//! Where a stream's bytes lie.
//!
//! In memory: for every stream the newest log file with bytes of it, the index of every file that
//! has no footer yet or whose frames are still in the ring, and the list of segments. On disk: the
//! footers, and the tables of the segments. A lookup starts at the newest file and follows
//! `prev_file` backwards; where a file was compacted, a segment stands for it.

mod lookup;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use headwater_core::ids::{Lsn, SHARD_COUNT, StreamId};
use parking_lot::{Mutex, RwLock};

use crate::buffers::Buffers;
use crate::disk::{Disk, DiskFile};
use crate::error::{Error, Result};
use crate::hash::IdHash;
use crate::log::file::{self, FileNo, LogFile};
use crate::log::footer::{self, Item, Run, Runs, Summary, Table};
use crate::log::group::Placed;
use crate::lru::Lru;
use crate::segment::{self, BlockItem, Directory, Page, Segment, SegmentNo};
pub(crate) use lookup::{Key, Layout, Limit, Spot, Wait};

/// A place on the way along a stream: what log file `file_no` holds of it, or the segment that
/// stands for that file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stop {
    pub(crate) file_no: FileNo,
    pub(crate) segment: Option<SegmentNo>,
}

impl Stop {
    pub(crate) fn log(file_no: FileNo) -> Self {
        Self { file_no, segment: None }
    }

    /// The file that it is in, for messages.
    pub(crate) fn path(self) -> String {
        self.segment.map_or_else(|| file::path(self.file_no), segment::path)
    }
}

/// Where every stream's bytes lie, and the files they lie in.
pub(crate) struct Location {
    disk: Arc<dyn Disk>,
    index: RwLock<Index>,
    footers: Mutex<Lru<CacheKey, Cached>>,
    handles: Mutex<Lru<HandleKey, Arc<dyn DiskFile>>>,
    buffers: Arc<Buffers>,
}

/// The newest file of each stream, by shard.
type Heads = Vec<HashMap<StreamId, FileNo, IdHash>>;

struct Index {
    heads: Heads,
    /// Files whose index is in memory.
    warm: BTreeMap<FileNo, FileIndex>,
    /// Files with a durable footer; some are warm, too.
    footed: BTreeMap<FileNo, Footed>,
    /// Those of them that are dead: they go when the readers in them have gone.
    doomed: BTreeSet<FileNo>,
    segments: Vec<Segment>,
    /// Those that are dead.
    doomed_segments: Vec<Segment>,
}

/// A file that is being written, or was a moment ago.
pub(crate) struct FileIndex {
    pub(crate) file: Arc<LogFile>,
    pub(crate) summary: Summary,
    /// Shared with whoever writes the footer once the file is finished, and never before.
    pub(crate) runs: Arc<Runs>,
    pub(crate) state: State,
}

/// How far a file has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// Frames are added to it.
    Open,
    /// No frame will be added; its footer is to be written.
    Finished,
    /// Its footer is durable.
    Footed,
}

/// A file with a footer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Footed {
    pub(crate) first_lsn: Lsn,
    pub(crate) last_lsn: Lsn,
    /// The whole file.
    pub(crate) len: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum HandleKey {
    Log(FileNo),
    Segment(SegmentNo),
}

/// What is kept of the descriptions at the ends of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum CacheKey {
    Table(FileNo),
    Items(FileNo, StreamId),
    Directory(SegmentNo),
    Page(SegmentNo, usize),
    Blocks(SegmentNo, StreamId, FileNo),
}

#[derive(Clone)]
enum Cached {
    Table(Arc<Table>),
    Items(Arc<[Item]>),
    Directory(Arc<Directory>),
    Page(Page),
    Blocks(Arc<[BlockItem]>),
}

impl Location {
    pub(crate) fn new(disk: Arc<dyn Disk>, footer_cache_bytes: u64, open_files_max: usize) -> Self {
        let index = Index {
            heads: (0..SHARD_COUNT).map(|_| HashMap::default()).collect(),
            warm: BTreeMap::new(),
            footed: BTreeMap::new(),
            doomed: BTreeSet::new(),
            segments: Vec::new(),
            doomed_segments: Vec::new(),
        };
        Self {
            disk,
            index: RwLock::new(index),
            footers: Mutex::new(Lru::new(footer_cache_bytes)),
            handles: Mutex::new(Lru::new(open_files_max as u64)),
            buffers: Arc::default(),
        }
    }

    // ---- what the log tells ----------------------------------------------------------------

    /// Adds a frame's entries to the index of its file; `summary` is the file's from now on.
    ///
    /// # Errors
    /// When the entries do not continue their streams. The engine or the log is broken then.
    pub(crate) fn add_frame(
        &self,
        file: &Arc<LogFile>,
        summary: Summary,
        placed: &[Placed],
    ) -> Result<(), String> {
        let mut index = self.index.write();
        let Index { heads, warm, .. } = &mut *index;
        let live = warm.entry(file.no).or_insert_with(|| FileIndex {
            file: Arc::clone(file),
            summary,
            runs: Arc::default(),
            state: State::Open,
        });
        live.summary = Summary { first_lsn: live.summary.first_lsn, ..summary };
        let runs = Arc::get_mut(&mut live.runs);
        let runs = runs.expect("a frame is added only to a file that is not finished");
        for entry in placed {
            let heads = &mut heads[entry.stream.shard().index()];
            let run = runs.entry(entry.stream).or_insert_with(|| {
                let prev_file = heads.insert(entry.stream, file.no).unwrap_or(0);
                Run::starting_at(entry, prev_file)
            });
            run.push(entry)?;
        }
        Ok(())
    }

    /// No frame will be added to file `no`.
    pub(crate) fn finish_file(&self, no: FileNo) {
        if let Some(live) = self.index.write().warm.get_mut(&no) {
            live.state = State::Finished;
        }
    }

    /// Writes the footer of the oldest finished file that has none, and cuts the file to size.
    /// Returns the file's number, if there was one.
    pub(crate) fn write_footer(&self) -> Result<Option<FileNo>> {
        let Some((file, summary, runs)) = self.unfooted() else { return Ok(None) };
        let footer = footer::encode(&summary, &runs);
        let len = summary.frames_end + footer.len() as u64;
        let written = file.handle.write_at(&footer, summary.frames_end);
        let written = written.and_then(|()| file.handle.set_len(len));
        let written = written.and_then(|()| file.handle.sync());
        written.map_err(|e| Error::io(&file::path(file.no), "writing a footer", e))?;
        let Summary { first_lsn, last_lsn, .. } = summary;
        self.foot_file(file.no, Footed { first_lsn, last_lsn, len });
        Ok(Some(file.no))
    }

    fn unfooted(&self) -> Option<(Arc<LogFile>, Summary, Arc<Runs>)> {
        let index = self.index.read();
        let live = index.warm.values().find(|live| live.state == State::Finished)?;
        Some((Arc::clone(&live.file), live.summary, Arc::clone(&live.runs)))
    }

    /// The footer of a file is durable.
    pub(crate) fn foot_file(&self, no: FileNo, footed: Footed) {
        let mut index = self.index.write();
        index.footed.insert(no, footed);
        if let Some(live) = index.warm.get_mut(&no) {
            live.state = State::Footed;
        }
    }

    /// Drops the indexes of files before `oldest`, as far as they have a footer.
    pub(crate) fn cool(&self, oldest: Option<FileNo>) {
        let cold = |no: &FileNo, live: &FileIndex| {
            live.state == State::Footed && oldest.is_none_or(|oldest| *no < oldest)
        };
        if self.index.read().warm.iter().any(|(no, live)| cold(no, live)) {
            self.index.write().warm.retain(|no, live| !cold(no, live));
        }
    }

    // ---- what the checkpoint needs ---------------------------------------------------------

    /// The files with a footer that are not dead, in order.
    pub(crate) fn footed(&self) -> Vec<(FileNo, Footed)> {
        let index = self.index.read();
        let kept = index.footed.iter().filter(|(no, _)| !index.doomed.contains(no));
        kept.map(|(no, footed)| (*no, *footed)).collect()
    }

    /// For every stream of one shard the newest file before `floor` with bytes of it.
    pub(crate) fn heads_before(&self, shard: usize, floor: FileNo) -> Vec<(StreamId, FileNo)> {
        let index = self.index.read();
        let older = |(stream, head): (&StreamId, &FileNo)| {
            let mut no = *head;
            while no >= floor {
                no = index.warm.get(&no)?.runs.get(stream)?.span.prev_file;
            }
            (no > 0).then_some((*stream, no))
        };
        index.heads[shard].iter().filter_map(older).collect()
    }

    /// Sets the newest file of a stream, as a checkpoint or a footer tells it.
    pub(crate) fn set_head(&self, stream: StreamId, no: FileNo) {
        let mut index = self.index.write();
        let head = index.heads[stream.shard().index()].entry(stream).or_insert(0);
        *head = no.max(*head);
    }

    /// Drops the newest file of a purged stream.
    pub(crate) fn forget(&self, stream: StreamId) {
        self.index.write().heads[stream.shard().index()].remove(&stream);
    }

    /// Drops the newest file of every stream that is not live.
    pub(crate) fn retain(&self, live: &dyn Fn(StreamId) -> bool) {
        for shard in 0..SHARD_COUNT {
            self.index.write().heads[shard].retain(|stream, _| live(*stream));
        }
    }

    /// Files are dead: only readers that are under way may still look into them.
    pub(crate) fn doom(&self, dead: &BTreeSet<FileNo>) {
        self.index.write().doomed.extend(dead);
    }

    // ---- segments --------------------------------------------------------------------------

    /// From now on these segments are the ones; those that were and are not any more are dead.
    pub(crate) fn set_segments(&self, segments: Vec<Segment>) {
        let mut index = self.index.write();
        let old = std::mem::replace(&mut index.segments, segments);
        let is_live = |old: &Segment| index.segments.iter().any(|live| live.no == old.no);
        let dead: Vec<_> = old.into_iter().filter(|old| !is_live(old)).collect();
        index.doomed_segments.extend(dead);
    }

    /// A segment is about to be removed.
    pub(crate) fn drop_segment(&self, no: SegmentNo) {
        self.index.write().doomed_segments.retain(|segment| segment.no != no);
        self.handles.lock().remove(HandleKey::Segment(no));
    }

    /// A file is about to be removed: it is not found any more, and its handle, which would keep
    /// its room, is let go.
    pub(crate) fn drop_file(&self, no: FileNo) {
        let mut index = self.index.write();
        index.footed.remove(&no);
        index.warm.remove(&no);
        index.doomed.remove(&no);
        drop(index);
        self.handles.lock().remove(HandleKey::Log(no));
    }
}

impl Index {
    fn head(&self, stream: StreamId) -> FileNo {
        self.heads[stream.shard().index()].get(&stream).copied().unwrap_or(0)
    }
}
