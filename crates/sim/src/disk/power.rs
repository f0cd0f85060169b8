//! What a power cut leaves: everything synced, and any part of the rest.

use super::medium::{FileOp, Medium};
use crate::rng::Rng;

/// How hard one power cut hits.
#[derive(Debug, Clone, Copy)]
enum Hit {
    /// Everything that was not synced is lost.
    Hard,
    /// Everything had been written back already.
    Soft,
    /// Each change on its own: kept, lost or torn.
    Mixed { sector: usize },
}

impl Medium {
    pub(super) fn cut_power(&mut self) {
        let mut rng = self.rng.fork();
        let hit = match rng.below(8) {
            0 | 1 => Hit::Hard,
            2 => Hit::Soft,
            n => Hit::Mixed { sector: if n < 6 { 512 } else { 4096 } },
        };
        for file in self.files.values_mut() {
            for op in std::mem::take(&mut file.pending) {
                match hit {
                    Hit::Hard => {}
                    Hit::Soft => op.apply(&mut file.durable),
                    Hit::Mixed { sector } => leave(&op, &mut file.durable, sector, &mut rng),
                }
            }
        }
        // A journal keeps a prefix of the names' changes, other file systems any part of them.
        let journal = rng.index(self.pending.len() + 1);
        let in_order = rng.one_in(2);
        for (no, op) in std::mem::take(&mut self.pending).into_iter().enumerate() {
            let kept = match hit {
                Hit::Hard => false,
                Hit::Soft => true,
                Hit::Mixed { .. } if in_order => no < journal,
                Hit::Mixed { .. } => rng.one_in(2),
            };
            if kept {
                op.apply(&mut self.durable_names, &mut self.durable_dirs);
            }
        }
        self.forget_cache();
    }

    /// From now on only what is on the medium is there.
    pub(super) fn forget_cache(&mut self) {
        self.files.values_mut().for_each(|file| file.cache.clone_from(&file.durable));
        let dirs = &self.durable_dirs;
        self.durable_names.retain(|path, _| {
            path.rsplit_once('/').is_none_or(|(parent, _)| dirs.contains(parent))
        });
        self.names.clone_from(&self.durable_names);
        self.dirs.clone_from(&self.durable_dirs);
        self.drop_nameless();
    }
}

/// Leaves a part of one change on the medium.
fn leave(op: &FileOp, durable: &mut Vec<u8>, sector: usize, rng: &mut Rng) {
    let (at, bytes) = match op {
        FileOp::Len(_) => {
            if rng.one_in(2) {
                op.apply(durable);
            }
            return;
        }
        FileOp::Write { at, bytes } => (*at, bytes),
    };
    match rng.below(4) {
        0 => op.apply(durable),
        // Room was there, the bytes were not: they read as zeros.
        1 => grow(durable, at + bytes.len(), rng),
        _ => {
            let shape = rng.below(3);
            let sectors = (at % sector + bytes.len()).div_ceil(sector);
            let edge = rng.index(sectors + 1);
            for no in 0..sectors {
                let kept = match shape {
                    0 => no < edge,
                    1 => no >= edge,
                    _ => rng.one_in(2),
                };
                let start = (no * sector).saturating_sub(at % sector).min(bytes.len());
                let end = ((no + 1) * sector - at % sector).min(bytes.len());
                if kept && start < end {
                    let bytes = bytes[start..end].into();
                    FileOp::Write { at: at + start, bytes }.apply(durable);
                }
            }
            grow(durable, at + bytes.len(), rng);
        }
    }
}

fn grow(durable: &mut Vec<u8>, end: usize, rng: &mut Rng) {
    if durable.len() < end && rng.one_in(2) {
        durable.resize(end, 0);
    }
}
