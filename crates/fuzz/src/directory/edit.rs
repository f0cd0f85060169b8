//! Edits of a directory, made from a fuzzer's bytes.

use headwater_storage::{Disk, MemDisk};

use crate::input::Input;
use crate::mend;

/// No file grows longer than this.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// Edits, at most so many: more of them hit the same files.
const EDITS_MAX: usize = 24;

/// What is done to a directory.
#[derive(Debug)]
pub(super) struct Edits<'a> {
    /// Whether the checksums of edited files are made right afterwards.
    pub(super) mended: bool,
    edits: Vec<Edit<'a>>,
}

/// One edit of one file; `what` says what `at` and `value` mean.
#[derive(Debug)]
struct Edit<'a> {
    what: u8,
    file: u8,
    at: u16,
    value: &'a [u8],
}

/// Where `at` counts from, in a file whose interesting parts are its ends.
fn place(at: u16, len: u64) -> u64 {
    let at = u64::from(at);
    if at >= 0x8000 { len.saturating_sub(0x1_0000 - at) } else { at.min(len) }
}

impl<'a> Edits<'a> {
    /// A flag, then edits: a kind, a file, a place (from the end, if negative), and a value behind
    /// its length.
    pub(super) fn read(mut input: Input<'a>) -> Self {
        let mended = input.byte() & 1 == 1;
        let mut edits = Vec::new();
        while !input.is_empty() && edits.len() < EDITS_MAX {
            let (what, file, at) = (input.byte(), input.byte(), input.short());
            edits.push(Edit { what, file, at, value: input.piece() });
        }
        Self { mended, edits }
    }

    pub(super) fn carry_out(&self, disk: &MemDisk) {
        for edit in &self.edits {
            let files: Vec<String> = disk.contents().into_iter().map(|(path, _)| path).collect();
            let Some(path) = files.get(usize::from(edit.file) % files.len().max(1)) else { return };
            edit.carry_out(disk, path).expect("a disk in memory does what is asked");
        }
        if self.mended {
            mend_all(disk).expect("a disk in memory does what is asked");
        }
    }
}

impl Edit<'_> {
    fn carry_out(&self, disk: &MemDisk, path: &str) -> std::io::Result<()> {
        let file = disk.open(path)?;
        let len = file.len()?;
        let at = place(self.at, len);
        let first = self.value.first().copied().unwrap_or(0);
        match self.what % 9 {
            0 => {
                let mut byte = [0];
                file.read_at(&mut byte, at)?;
                if at < len {
                    file.write_at(&[byte[0] ^ (1 << (first % 8))], at)?;
                }
            }
            1 | 2 if at + self.value.len() as u64 <= FILE_BYTES_MAX => {
                file.write_at(self.value, at)?;
            }
            3 => file.set_len(at)?,
            4 => file.set_len((len + u64::from(self.at)).min(FILE_BYTES_MAX))?,
            5 => disk.remove(path)?,
            6 => {
                // A piece of the file again, at another place.
                let mut piece = vec![0; usize::from(first)];
                let read = file.read_at(&mut piece, at)?;
                let to = self.value.get(1..3).map_or(0, |to| u16::from_le_bytes([to[0], to[1]]));
                let to = place(to, len);
                if to + read as u64 <= FILE_BYTES_MAX {
                    file.write_at(&piece[..read], to)?;
                }
            }
            7 => return copy(disk, path, u32::from(first)),
            _ => {
                // Another number in the file's own fields, eight bytes wide.
                let mut number = [0; 8];
                file.read_at(&mut number, at)?;
                let step = i64::from(i8::from_le_bytes([first]));
                let number = u64::from_le_bytes(number).wrapping_add_signed(step);
                if at + 8 <= len {
                    file.write_at(&number.to_le_bytes(), at)?;
                }
            }
        }
        Ok(())
    }
}

/// The same bytes once more, under another number.
fn copy(disk: &MemDisk, path: &str, number: u32) -> std::io::Result<()> {
    let Some((dir, name)) = path.split_once('/') else { return Ok(()) };
    let Some((_, kind)) = name.split_once('.') else { return Ok(()) };
    let other = format!("{dir}/{number:010}.{kind}");
    let mut bytes = vec![0; usize::try_from(disk.open(path)?.len()?).expect("a small file")];
    disk.open(path)?.read_at(&mut bytes, 0)?;
    match disk.create(&other) {
        Ok(file) => file.write_at(&bytes, 0),
        // It is there already.
        Err(_taken) => Ok(()),
    }
}

/// Makes every checksum right, across the files: a log's chain, and a manifest's blocks.
fn mend_all(disk: &MemDisk) -> std::io::Result<()> {
    let mut last = None;
    let mut images = Vec::new();
    for (path, mut bytes) in disk.contents() {
        if path.starts_with("log/") {
            // The first frame of a log continues nothing.
            let begins = bytes.get(84..92) == Some(&[0; 8]);
            last = mend::log(&mut bytes, last.filter(|_| !begins)).or(last);
        } else if path.starts_with("segment/") {
            mend::segment(&mut bytes);
        } else if path.starts_with("checkpoint/") {
            mend::checkpoint(&mut bytes);
            let number = path.get(11..21).and_then(|no| no.parse::<u64>().ok()).unwrap_or(0);
            images.push((number, bytes.clone()));
        } else if path.starts_with("blob/") {
            mend::blob(&mut bytes);
        }
        disk.open(&path)?.write_at(&bytes, 0)?;
    }
    if let Ok(manifest) = disk.open("MANIFEST") {
        let mut bytes = vec![0; usize::try_from(manifest.len()?).expect("a small file")];
        manifest.read_at(&mut bytes, 0)?;
        mend::manifest(&mut bytes, &images);
        manifest.write_at(&bytes, 0)?;
    }
    Ok(())
}
