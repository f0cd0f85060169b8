//! The manifest: the only list of checkpoint images, of log files below the checkpoint, and of
//! segments. It becomes visible only by a rename after a sync; a damaged one is never replaced by
//! an older.

use headwater_core::ids::{Lsn, SHARD_COUNT, StreamId, Timestamp};

use crate::codec::{self, Cursor};
use crate::disk::Disk;
use crate::error::{Error, Kind, Result};
use crate::location::Footed;
use crate::log::file::FileNo;
use crate::segment::{Segment, SegmentNo};
use crate::verify::{Fact, Value, Watcher};

pub(crate) const PATH: &str = "MANIFEST";
pub(crate) const NEXT_PATH: &str = "MANIFEST.tmp";

const MAGIC: [u8; 8] = *b"HWATRMAN";
/// The version that is written: log and images may hold keys.
pub(crate) const VERSION: u32 = 3;
/// The version before there were segments, which is read, too.
const VERSION_WITHOUT_SEGMENTS: u32 = 1;

/// Where a block lies in a checkpoint file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockRef {
    /// The number of the checkpoint file, from 1.
    pub(crate) file: u64,
    /// Where the block's header starts.
    pub(crate) position: u64,
    /// The bytes behind the block's header.
    pub(crate) len: u64,
    pub(crate) crc: u32,
}

/// What is known of one shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ShardRef {
    /// The image, or the empty state, holds every entry of the shard up to here.
    pub(crate) lsn: Lsn,
    /// None while the shard has never been saved.
    pub(crate) image: Option<BlockRef>,
}

/// The whole manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Manifest {
    /// As it was read; what is written is of the newest.
    pub(crate) version: u32,
    pub(crate) directory_id: u128,
    /// Everything up to here was durable when the manifest was written.
    pub(crate) lsn: Lsn,
    /// The newest node time then.
    pub(crate) newest_time: Timestamp,
    /// The number of the newest checkpoint file so far.
    pub(crate) last_checkpoint: u64,
    /// The first log file that is not listed in `files`: from here on files are found by name.
    pub(crate) floor: FileNo,
    /// The lsn that those files begin with.
    pub(crate) floor_lsn: Lsn,
    /// For each stream the newest file before `floor`.
    pub(crate) heads: Option<BlockRef>,
    /// By shard number.
    pub(crate) shards: Vec<ShardRef>,
    /// The files before `floor`, each with a durable footer.
    pub(crate) files: Vec<(FileNo, Footed)>,
    /// The number of the newest segment so far.
    pub(crate) last_segment: SegmentNo,
    /// The segments, in rising order.
    pub(crate) segments: Vec<Segment>,
}

impl Manifest {
    /// The manifest of a new data directory.
    pub(crate) fn new(directory_id: u128) -> Self {
        Self {
            version: VERSION,
            directory_id,
            lsn: Lsn::ZERO,
            newest_time: Timestamp(0),
            last_checkpoint: 0,
            floor: 1,
            floor_lsn: Lsn(1),
            heads: None,
            shards: vec![ShardRef::default(); SHARD_COUNT],
            files: Vec::new(),
            last_segment: 0,
            segments: Vec::new(),
        }
    }

    /// Up to here every shard is saved.
    pub(crate) fn saved(&self) -> Lsn {
        self.shards.iter().map(|shard| shard.lsn).min().unwrap_or(Lsn::ZERO)
    }

    /// Every block that this manifest refers to.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = BlockRef> {
        self.shards.iter().filter_map(|shard| shard.image).chain(self.heads)
    }

    /// Reads the manifest; `None` when there is none.
    ///
    /// # Errors
    /// `Corrupt` when it is damaged, `Format` when it is of another version.
    pub(crate) fn load(disk: &dyn Disk) -> Result<Option<Self>> {
        let failed = |source| Error::io(PATH, "reading the manifest", source);
        let file = match disk.open(PATH) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(failed)?,
        };
        let len = file.len().map_err(failed)?;
        let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
        let read = file.read_at(&mut bytes, 0).map_err(failed)?;
        bytes.truncate(read);
        Self::decode(&bytes).map(Some)
    }

    /// Makes this the manifest. When it returns, a power cut cannot bring the old one back.
    ///
    /// # Errors
    /// `Full` leaves the old manifest in force; after `Io` either may be.
    pub(crate) fn store(&self, disk: &dyn Disk) -> Result<()> {
        let failed = |source| Error::io(PATH, "writing the manifest", source);
        match disk.remove(NEXT_PATH) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(failed(error));
            }
            _ => {}
        }
        let file = disk.create(NEXT_PATH).map_err(failed)?;
        file.write_at(&self.encode(), 0).map_err(failed)?;
        file.sync().map_err(failed)?;
        disk.rename(NEXT_PATH, PATH).map_err(failed)?;
        // Renamed it is: whatever ails the sync, "no room, and nothing happened" is not it.
        disk.sync_dir("").map_err(|source| Error { kind: Kind::Io, ..failed(source) })
    }

    /// Tells what it says, part by part.
    pub(crate) fn tell(&self, watcher: &mut dyn Watcher) {
        let number = Value::Number;
        let mut fact =
            |what, fields| watcher.fact(&|| Fact { what, at: 0, fields: Vec::clone(&fields) });
        fact(
            "manifest",
            vec![
                ("directory_id", Value::Id(self.directory_id)),
                ("lsn", number(self.lsn.0)),
                ("saved_lsn", number(self.saved().0)),
                ("newest_time_ms", number(self.newest_time.0)),
                ("floor", number(self.floor.into())),
                ("floor_lsn", number(self.floor_lsn.0)),
                ("last_checkpoint", number(self.last_checkpoint)),
                ("last_segment", number(self.last_segment.into())),
            ],
        );
        for (shard, saved) in self.shards.iter().enumerate() {
            let Some(image) = saved.image else { continue };
            fact(
                "shard",
                vec![
                    ("shard", number(shard as u64)),
                    ("lsn", number(saved.lsn.0)),
                    ("checkpoint", number(image.file)),
                    ("position", number(image.position)),
                    ("len", number(image.len)),
                ],
            );
        }
        for (no, footed) in &self.files {
            fact(
                "log_file",
                vec![
                    ("number", number((*no).into())),
                    ("first_lsn", number(footed.first_lsn.0)),
                    ("last_lsn", number(footed.last_lsn.0)),
                    ("len", number(footed.len)),
                ],
            );
        }
        for segment in &self.segments {
            fact(
                "segment",
                vec![
                    ("number", number(segment.no.into())),
                    ("level", number(segment.level.into())),
                    ("oldest_file", number(segment.files[0].into())),
                    ("newest_file", number(segment.files[1].into())),
                    ("first_stream", Value::Stream(segment.streams[0])),
                    ("last_stream", Value::Stream(segment.streams[1])),
                    ("len", number(segment.len)),
                ],
            );
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        let count = |len: usize| u32::try_from(len).expect("fewer than 2^32 files and shards");
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&self.floor.to_le_bytes());
        out.extend_from_slice(&self.directory_id.to_le_bytes());
        let (lsn, time) = (self.lsn.0, self.newest_time.0);
        for field in [self.floor_lsn.0, lsn, time, self.last_checkpoint] {
            out.extend_from_slice(&field.to_le_bytes());
        }
        out.extend_from_slice(&count(self.shards.len()).to_le_bytes());
        out.extend_from_slice(&count(self.files.len()).to_le_bytes());
        put_block(&mut out, self.heads);
        for shard in &self.shards {
            out.extend_from_slice(&shard.lsn.0.to_le_bytes());
            put_block(&mut out, shard.image);
        }
        for (no, footed) in &self.files {
            out.extend_from_slice(&no.to_le_bytes());
            for field in [footed.first_lsn.0, footed.last_lsn.0, footed.len] {
                out.extend_from_slice(&field.to_le_bytes());
            }
        }
        out.extend_from_slice(&self.last_segment.to_le_bytes());
        out.extend_from_slice(&count(self.segments.len()).to_le_bytes());
        for segment in &self.segments {
            let Segment { no, level, files: [first, last], streams: [low, high], len } = segment;
            for field in [no, level, first, last] {
                out.extend_from_slice(&field.to_le_bytes());
            }
            for field in [low.0, high.0, *len] {
                out.extend_from_slice(&field.to_le_bytes());
            }
        }
        codec::put_crc(&mut out);
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        let damaged = || Error::corrupt(PATH, 0, "the manifest is damaged");
        let mut cursor = Cursor::new(bytes);
        if cursor.array() != Some(MAGIC) {
            return Err(damaged());
        }
        let version = cursor.u32().ok_or_else(damaged)?;
        if !(VERSION_WITHOUT_SEGMENTS..=VERSION).contains(&version) {
            let detail = format!("manifest version {version}, this program knows {VERSION}");
            return Err(Error::format(PATH, detail));
        }
        let intact = codec::check_crc(bytes).ok_or_else(damaged)?;
        Self::decode_intact(intact, version).ok_or_else(damaged)
    }

    fn decode_intact(bytes: &[u8], version: u32) -> Option<Self> {
        let mut cursor = Cursor::new(bytes);
        cursor.take(12)?;
        let floor = cursor.u32()?;
        let directory_id = cursor.u128()?;
        let floor_lsn = Lsn(cursor.u64()?);
        let lsn = Lsn(cursor.u64()?);
        let newest_time = Timestamp(cursor.u64()?);
        let last_checkpoint = cursor.u64()?;
        let shard_count = cursor.u32()?;
        let file_count = cursor.u32()?;
        let heads = block(&mut cursor)?;
        let mut shards = Vec::with_capacity(SHARD_COUNT);
        for _ in 0..shard_count {
            let lsn = Lsn(cursor.u64()?);
            shards.push(ShardRef { lsn, image: block(&mut cursor)? });
        }
        let mut files = Vec::new();
        for _ in 0..file_count {
            let no = cursor.u32()?;
            let first_lsn = Lsn(cursor.u64()?);
            let last_lsn = Lsn(cursor.u64()?);
            files.push((no, Footed { first_lsn, last_lsn, len: cursor.u64()? }));
        }
        let (last_segment, segments) = match version {
            VERSION_WITHOUT_SEGMENTS => (0, Vec::new()),
            _ => (cursor.u32()?, segments(&mut cursor)?),
        };
        let rising = files.windows(2).all(|pair| pair[0].0 < pair[1].0)
            && segments.windows(2).all(|pair| pair[0].no < pair[1].no)
            && segments.last().is_none_or(|segment| segment.no <= last_segment);
        let below = files.last().is_none_or(|(no, _)| *no < floor);
        let sane = cursor.is_at_end() && shards.len() == SHARD_COUNT && rising && below;
        sane.then_some(Self {
            version,
            directory_id,
            lsn,
            newest_time,
            last_checkpoint,
            floor,
            floor_lsn,
            heads,
            shards,
            files,
            last_segment,
            segments,
        })
    }
}

fn segments(cursor: &mut Cursor<'_>) -> Option<Vec<Segment>> {
    let count = cursor.u32()?;
    let mut segments = Vec::new();
    for _ in 0..count {
        let (no, level) = (cursor.u32()?, cursor.u32()?);
        let files = [cursor.u32()?, cursor.u32()?];
        let streams = [StreamId(cursor.u64()?), StreamId(cursor.u64()?)];
        segments.push(Segment { no, level, files, streams, len: cursor.u64()? });
    }
    Some(segments)
}

fn put_block(out: &mut Vec<u8>, block: Option<BlockRef>) {
    let block = block.unwrap_or(BlockRef { file: 0, position: 0, len: 0, crc: 0 });
    for field in [block.file, block.position, block.len] {
        out.extend_from_slice(&field.to_le_bytes());
    }
    out.extend_from_slice(&block.crc.to_le_bytes());
}

/// The outer option is about the bytes, the inner one about the block.
#[expect(clippy::option_option, reason = "malformed and absent are two things")]
fn block(cursor: &mut Cursor<'_>) -> Option<Option<BlockRef>> {
    let (file, position, len) = (cursor.u64()?, cursor.u64()?, cursor.u64()?);
    let block = BlockRef { file, position, len, crc: cursor.u32()? };
    Some((file > 0).then_some(block))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::MemDisk;
    use crate::error::Kind;

    fn example() -> Manifest {
        let mut manifest = Manifest::new(42);
        let block = |file| BlockRef { file, position: 40, len: 7, crc: 9 };
        manifest.lsn = Lsn(100);
        manifest.last_checkpoint = 3;
        manifest.floor = 5;
        manifest.heads = Some(block(3));
        manifest.shards[7] = ShardRef { lsn: Lsn(90), image: Some(block(2)) };
        let footed = Footed { first_lsn: Lsn(1), last_lsn: Lsn(50), len: 4_096 };
        manifest.files = vec![(2, footed), (4, footed)];
        let (files, streams) = ([1, 3], [StreamId(7), StreamId(9)]);
        manifest.segments = vec![Segment { no: 2, level: 1, files, streams, len: 8_192 }];
        manifest.last_segment = 2;
        manifest
    }

    #[test]
    fn a_manifest_comes_back_as_it_was_stored() {
        let disk = MemDisk::new();
        assert_eq!(Manifest::load(&disk).unwrap(), None);
        Manifest::new(1).store(&disk).unwrap();
        example().store(&disk).unwrap();
        assert_eq!(Manifest::load(&disk).unwrap(), Some(example()));
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let good = example().encode();
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            let kind = Manifest::decode(&bad).unwrap_err().kind;
            assert!(matches!(kind, Kind::Corrupt | Kind::Format), "bit {bit}");
        }
    }

    #[test]
    fn a_newer_version_is_refused_as_such() {
        let mut bytes = example().encode();
        bytes[8] = 4;
        assert_eq!(Manifest::decode(&bytes).unwrap_err().kind, Kind::Format);
    }
}
