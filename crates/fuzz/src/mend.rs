//! Makes the checksums of a damaged file right, as far as its structure can still be followed, so
//! that what lies behind them is reached. Written from `docs/format.md`, not from the decoders.

/// The bytes of a log file in front of its first frame.
const LOG_HEADER: usize = 60;
const FRAME_HEADER: usize = 72;
const FOOTER_TRAILER: usize = 96;
const SEGMENT_HEADER: usize = 36;
const SEGMENT_TRAILER: usize = 56;
const CHUNK: usize = 64 * 1024;

/// A file that ends in the checksum of everything before.
pub(crate) fn whole(bytes: &mut [u8]) {
    let end = bytes.len();
    seal(bytes, 0, end);
}

/// Writes the checksum of `start..end - 4` into the last four bytes of `start..end`.
fn seal(bytes: &mut [u8], start: usize, end: usize) {
    let Some(part) = bytes.get_mut(start..end) else { return };
    if let Some((body, crc)) = part.split_last_chunk_mut::<4>() {
        *crc = crc32c::crc32c(body).to_le_bytes();
    }
}

fn put(bytes: &mut [u8], at: usize, value: u32) {
    if let Some(place) = bytes.get_mut(at..at + 4) {
        place.copy_from_slice(&value.to_le_bytes());
    }
}

/// Four bytes as an index.
fn u32_at(bytes: &[u8], at: usize) -> Option<usize> {
    let bytes: [u8; 4] = bytes.get(at..at.checked_add(4)?)?.try_into().ok()?;
    Some(u32::from_le_bytes(bytes) as usize)
}

fn u64_at(bytes: &[u8], at: usize) -> Option<usize> {
    let bytes: [u8; 8] = bytes.get(at..at.checked_add(8)?)?.try_into().ok()?;
    usize::try_from(u64::from_le_bytes(bytes)).ok()
}

fn crc_of(bytes: &[u8], start: usize, len: usize) -> Option<u32> {
    bytes.get(start..start.checked_add(len)?).map(crc32c::crc32c)
}

/// A log file. `before` is the checksum of the frame in front of its first one, where that is to
/// be written, too. Returns the checksum of its last frame.
pub(crate) fn log(bytes: &mut [u8], before: Option<u32>) -> Option<u32> {
    seal(bytes, 0, LOG_HEADER);
    let (mut at, mut last) = (LOG_HEADER, before);
    while bytes.get(at..at + 4) == Some(b"HWfr") {
        let Some(end) = u32_at(bytes, at + 48).and_then(|len| (at + FRAME_HEADER).checked_add(len))
        else {
            break;
        };
        if end > bytes.len() {
            break;
        }
        if let Some(last) = last {
            put(bytes, at + 32, last);
        }
        entries(bytes, at + FRAME_HEADER, end);
        let crc = crc32c::crc32c(&bytes[at..at + 68]);
        let crc = crc32c::crc32c_append(crc, &bytes[at + FRAME_HEADER..end]);
        put(bytes, at + 68, crc);
        last = Some(crc);
        at = end;
    }
    footer(bytes, last);
    last
}

/// The heads and chunks of the entries of a frame's body.
fn entries(bytes: &mut [u8], start: usize, end: usize) -> Option<()> {
    let mut at = start;
    while at < end {
        for _ in 0..varint(bytes, &mut at)? {
            let flags = *bytes.get(at + 1)?;
            at += 2;
            let meta = varint(bytes, &mut at)?;
            at = at.checked_add(meta)?;
            if flags == 1 {
                at = head(bytes, at, end)?;
            }
            if at > end {
                return None;
            }
        }
    }
    Some(())
}

/// One head and the payload behind it; where that ends.
fn head(bytes: &mut [u8], start: usize, limit: usize) -> Option<usize> {
    let mut at = start.checked_add(8)?;
    varint(bytes, &mut at)?;
    varint(bytes, &mut at)?;
    let payload = varint(bytes, &mut at)?;
    if varint(bytes, &mut at)? > 1 {
        let lens = varint(bytes, &mut at)?;
        at = at.checked_add(lens)?;
    }
    let chunks = payload.div_ceil(CHUNK);
    let behind = at.checked_add(chunks.checked_mul(4)?)?.checked_add(4)?;
    let end = behind.checked_add(payload)?;
    if end > limit.min(bytes.len()) {
        return None;
    }
    for chunk in 0..chunks {
        let from = behind + chunk * CHUNK;
        let crc = crc32c::crc32c(&bytes[from..end.min(from + CHUNK)]);
        put(bytes, at + 4 * chunk, crc);
    }
    seal(bytes, start, behind);
    Some(end)
}

fn varint(bytes: &[u8], at: &mut usize) -> Option<usize> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = *bytes.get(*at)?;
        *at += 1;
        value |= u64::from(byte & 0x7f).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            return usize::try_from(value).ok();
        }
    }
    None
}

fn footer(bytes: &mut [u8], last: Option<u32>) -> Option<()> {
    let trailer = bytes.len().checked_sub(FOOTER_TRAILER)?;
    if bytes.get(trailer..trailer + 8)? != b"HWATRFTR" {
        return None;
    }
    let items = u64_at(bytes, trailer + 64)?;
    let (streams, count) = (u32_at(bytes, trailer + 80)?, u32_at(bytes, trailer + 84)?);
    let table = items.checked_add(count.checked_mul(16)?)?;
    for stream in 0..streams {
        let entry = table.checked_add(48 * stream)?;
        let Some(first) = u32_at(bytes, entry + 36) else { break };
        let Some(crc) =
            u32_at(bytes, entry + 40).and_then(|n| crc_of(bytes, items + 16 * first, 16 * n))
        else {
            continue;
        };
        put(bytes, entry + 44, crc);
    }
    if let Some(crc) = crc_of(bytes, table, 48 * streams) {
        put(bytes, trailer + 88, crc);
    }
    if let Some(last) = last {
        put(bytes, trailer + 72, last);
    }
    let end = bytes.len();
    seal(bytes, trailer, end);
    Some(())
}

/// A segment.
pub(crate) fn segment(bytes: &mut [u8]) {
    seal(bytes, 0, SEGMENT_HEADER);
    let _followed = segment_parts(bytes).is_some();
}

fn segment_parts(bytes: &mut [u8]) -> Option<()> {
    let trailer = bytes.len().checked_sub(SEGMENT_TRAILER)?;
    let heads = u32_at(bytes, trailer + 32)?;
    let items = u32_at(bytes, trailer + 36)?;
    let table = items.checked_add(12 * u32_at(bytes, trailer + 40)?)?;
    let runs = u32_at(bytes, trailer + 44)?;
    for run in (0..runs).map(|run| table + 68 * run).take_while(|at| at + 68 <= trailer) {
        blocks(bytes, run, heads);
        let (first, count) = (u32_at(bytes, run + 56)?, u32_at(bytes, run + 60)?);
        if count > 0
            && let Some(crc) = crc_of(bytes, items + 12 * first, 12 * count)
        {
            put(bytes, run + 64, crc);
        }
    }
    let directory = table.checked_add(68 * runs)?;
    for page in 0..runs.div_ceil(64) {
        let len = 68 * (runs - 64 * page).min(64);
        let Some(crc) = crc_of(bytes, table + 68 * 64 * page, len) else { break };
        put(bytes, directory + 16 * page + 12, crc);
    }
    if let Some(crc) = crc_of(bytes, directory, 16 * runs.div_ceil(64)) {
        put(bytes, trailer + 48, crc);
    }
    let end = bytes.len();
    seal(bytes, trailer, end);
    Some(())
}

/// The heads of a run's blocks, whose bytes lie elsewhere.
fn blocks(bytes: &mut [u8], run: usize, heads: usize) -> Option<()> {
    let mut payload = u32_at(bytes, run + 44)?;
    let mut at = heads.checked_add(u32_at(bytes, run + 48)?)?;
    let end = at.checked_add(u32_at(bytes, run + 52)?)?.min(bytes.len());
    while at < end {
        let start = at;
        at = at.checked_add(8)?;
        varint(bytes, &mut at)?;
        varint(bytes, &mut at)?;
        let len = varint(bytes, &mut at)?;
        if varint(bytes, &mut at)? > 1 {
            let lens = varint(bytes, &mut at)?;
            at = at.checked_add(lens)?;
        }
        for chunk in 0..len.div_ceil(CHUNK) {
            // Beyond the file this ends at once.
            let from = payload.checked_add(chunk * CHUNK)?;
            let crc = crc_of(bytes, from, (len - chunk * CHUNK).min(CHUNK))?;
            put(bytes, at, crc);
            at += 4;
        }
        at += 4;
        if at > end {
            return None;
        }
        seal(bytes, start, at);
        payload = payload.checked_add(len)?;
    }
    Some(())
}

/// A checkpoint file.
pub(crate) fn checkpoint(bytes: &mut [u8]) {
    seal(bytes, 0, 40);
    for (at, len) in checkpoint_blocks(bytes) {
        if let Some(crc) = crc_of(bytes, at + 24, len) {
            put(bytes, at + 4, crc);
        }
    }
}

/// Where the blocks of a checkpoint file start, and how long they are behind their headers.
pub(crate) fn checkpoint_blocks(bytes: &[u8]) -> Vec<(usize, usize)> {
    let (mut blocks, mut at) = (Vec::new(), 40_usize);
    while let Some(len) = u64_at(bytes, at + 16) {
        blocks.push((at, len));
        match (at + 24).checked_add(len) {
            Some(end) if end < bytes.len() => at = end,
            _ => break,
        }
    }
    blocks
}

/// A blob.
pub(crate) fn blob(bytes: &mut [u8]) {
    seal(bytes, 0, 32);
    let _followed = blob_parts(bytes).is_some();
}

fn blob_parts(bytes: &mut [u8]) -> Option<()> {
    let trailer = bytes.len().checked_sub(32)?;
    let len = u64_at(bytes, trailer + 16)?;
    let crcs = len.checked_add(32)?;
    for chunk in 0..len.div_ceil(CHUNK) {
        let part = (len - chunk * CHUNK).min(CHUNK);
        let Some(crc) = crc_of(bytes, 32 + chunk * CHUNK, part) else { break };
        put(bytes, crcs + 4 * chunk, crc);
    }
    if let Some(crc) = crc_of(bytes, crcs, trailer.checked_sub(crcs)?) {
        put(bytes, trailer + 12, crc);
    }
    let end = bytes.len();
    seal(bytes, trailer, end);
    Some(())
}

/// A manifest, with the checksums of the blocks that it names in `checkpoints`, by number.
pub(crate) fn manifest(bytes: &mut [u8], checkpoints: &[(u64, Vec<u8>)]) {
    let shards = u32_at(bytes, 64).unwrap_or(0).min(bytes.len());
    let places = std::iter::once(72).chain((0..shards).map(|shard| 108 + 36 * shard));
    for at in places {
        let fields = [0, 8, 16].map(|field| u64_at(bytes, at + field));
        let [Some(file), Some(position), Some(len)] = fields else { break };
        let found = checkpoints.iter().find(|(number, _)| *number == file as u64);
        let crc = found.and_then(|(_, image)| crc_of(image, position.checked_add(24)?, len));
        if let Some(crc) = crc {
            put(bytes, at + 24, crc);
        }
    }
    whole(bytes);
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use bytes::Bytes;
    use headwater_storage::fuzz::frame;

    use super::*;

    type Mend<'a> = &'a dyn Fn(&mut [u8]);

    /// Every file of a folder of the golden directories, with the number in its name.
    fn golden(folder: &str) -> Vec<(u64, Vec<u8>)> {
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../storage/tests/golden");
        let mut files = Vec::new();
        for version in ["v1", "v2"] {
            let Ok(folder) = fs::read_dir(golden.join(version).join(folder)) else { continue };
            for entry in folder.map(|entry| entry.unwrap()).filter(|it| it.path().is_file()) {
                let name = entry.file_name().into_string().unwrap();
                let number = name.get(..10).and_then(|no| no.parse().ok()).unwrap_or(0);
                files.push((number, fs::read(entry.path()).unwrap()));
            }
        }
        assert!(!files.is_empty(), "there are golden files in {folder:?}");
        files
    }

    /// What is right stays as it is: the layouts here are those of `docs/format.md`.
    #[test]
    fn intact_files_are_left_alone() {
        let checkpoints = golden("checkpoint");
        let mends: [(&str, Mend<'_>); 5] = [
            ("log", &|bytes| {
                log(bytes, None);
            }),
            ("segment", &segment),
            ("checkpoint", &checkpoint),
            ("blob", &blob),
            ("", &|bytes| manifest(bytes, &checkpoints)),
        ];
        for (folder, mend) in mends {
            for (number, good) in golden(folder) {
                let mut bytes = good.clone();
                mend(&mut bytes);
                assert!(bytes == good, "file {number} of {folder:?}");
            }
        }
    }

    /// What is said in a frame may change.
    #[test]
    fn a_changed_frame_is_one_again() {
        let whole = |bytes: &[u8]| {
            let found = frame(&Bytes::copy_from_slice(bytes), LOG_HEADER);
            found.is_some_and(|(_, groups)| groups.is_ok())
        };
        // The newest file of a log may have no frame yet.
        let files: Vec<_> = golden("log").into_iter().filter(|(_, good)| whole(good)).collect();
        assert!(files.len() >= 7);
        for (number, mut bytes) in files {
            bytes[LOG_HEADER + FRAME_HEADER + 8] ^= 1;
            assert!(!whole(&bytes), "file {number}");
            log(&mut bytes, None);
            assert!(whole(&bytes), "file {number}");
        }
    }

    /// A segment, a checkpoint and a blob whose checksums are all zero.
    #[test]
    fn lost_checksums_are_found_again() {
        for (folder, mend, at) in [
            ("segment", segment as fn(&mut [u8]), 32),
            ("checkpoint", checkpoint, 44),
            ("blob", blob, 28),
        ] {
            for (number, good) in golden(folder) {
                let mut bytes = good.clone();
                let end = if folder == "checkpoint" { 40 } else { bytes.len() };
                put(&mut bytes, at, 0);
                put(&mut bytes, end - 4, 0);
                assert!(bytes != good);
                mend(&mut bytes);
                assert!(bytes == good, "file {number} of {folder:?}");
            }
        }
    }
}
