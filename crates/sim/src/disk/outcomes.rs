//! Every disk that a power cut may leave, one after the other, where [`super::power`] throws dice.
//!
//! Each un-synced change of a file is kept or lost on its own, and a write is torn at the borders
//! of sectors: in any way if it has few, else in front of or behind any border. Changes of names
//! are kept or lost in any combination.

use super::medium::{FileOp, Medium, NameOp};
use crate::trace::hash_of;

const SECTOR: usize = 512;
/// A write of so many sectors is torn in every way.
const SECTORS_IN_ANY_WAY: usize = 4;
/// Outcomes of one moment, at most.
const OUTCOMES_MAX: u64 = 20_000;

/// What may become of one change: the ways, each a list of changes that do happen.
type Ways = Vec<Vec<FileOp>>;

impl Medium {
    /// Calls `f` with each disk that a power cut may leave. True when there were too many, and the
    /// rest was left out.
    pub(super) fn outcomes(&self, f: &mut impl FnMut(Self)) -> bool {
        let files: Vec<(u64, Ways)> = self
            .files
            .iter()
            .flat_map(|(inode, file)| file.pending.iter().map(|op| (*inode, ways(op))))
            .collect();
        let names = u32::try_from(self.pending.len()).unwrap_or(u32::MAX).min(62);
        let each = files.iter().map(|(_, ways)| ways.len() as u64);
        let total = each.fold(1u64 << names, u64::saturating_mul);
        for choice in 0..total.min(OUTCOMES_MAX) {
            f(self.outcome(choice, &files));
        }
        total > OUTCOMES_MAX
    }

    /// The disk that is left when change after change goes the way that the digits of `choice` say.
    fn outcome(&self, mut choice: u64, files: &[(u64, Ways)]) -> Self {
        let mut left = self.copy();
        for op in std::mem::take(&mut left.pending) {
            if choice.is_multiple_of(2) {
                NameOp::apply(&op, &mut left.durable_names, &mut left.durable_dirs);
            }
            choice /= 2;
        }
        for file in left.files.values_mut() {
            file.pending.clear();
        }
        for (inode, ways) in files {
            let at = usize::try_from(choice % ways.len() as u64).expect("ways are few");
            choice /= ways.len() as u64;
            let file = left.file(*inode);
            ways[at].iter().for_each(|op| op.apply(&mut file.durable));
        }
        left.forget_cache();
        left
    }

    /// A number that tells disks with different contents apart.
    pub(super) fn fingerprint(&self) -> u64 {
        let mut text = Vec::new();
        for dir in &self.dirs {
            text.extend_from_slice(dir.as_bytes());
            text.push(0);
        }
        for (path, inode) in &self.names {
            text.extend_from_slice(path.as_bytes());
            text.extend_from_slice(&hash_of(&self.files[inode].cache).to_le_bytes());
        }
        hash_of(&text)
    }
}

fn ways(op: &FileOp) -> Ways {
    let FileOp::Write { at, bytes } = op else { return vec![vec![op.clone()], Vec::new()] };
    let first = at % SECTOR;
    let sectors = (first + bytes.len()).div_ceil(SECTOR);
    let piece = |no: usize| {
        let start = (no * SECTOR).saturating_sub(first).min(bytes.len());
        let end = ((no + 1) * SECTOR - first).min(bytes.len());
        FileOp::Write { at: at + start, bytes: bytes[start..end].into() }
    };
    if sectors <= SECTORS_IN_ANY_WAY {
        let kept = |set: usize| (0..sectors).filter(move |no| set >> no & 1 == 1);
        return (0..1 << sectors).map(|set| kept(set).map(piece).collect()).collect();
    }
    let prefixes = (0..=sectors).map(|edge| (0..edge).map(piece).collect());
    let suffixes = (1..sectors).map(|edge| (edge..sectors).map(piece).collect());
    prefixes.chain(suffixes).collect()
}
