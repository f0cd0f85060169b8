//! The decoders of single parts, for the crate that fuzzes them and for nobody else: what some
//! bytes say, and the bytes that say the same. Whole files and directories need nothing from here;
//! [`crate::verify_file`] and [`crate::Store::open`] read them.

use std::sync::Arc;

use bytes::Bytes;
use headwater_core::ids::{BlobId, Lsn, Timestamp};

use crate::blob::BlobReader;
use crate::disk::{Disk, DiskFile, MemDisk};
use crate::entry::{Data, Entry};
use crate::error::Result;
use crate::log::file::Header;
use crate::log::footer::Table;
use crate::log::frame::{self, HEADER_LEN};
use crate::log::group::{self, Head};
use crate::manifest::Manifest;
use crate::segment::{self, Directory};

/// The groups of a frame, each with its entries.
pub type Groups = Vec<Vec<Entry>>;

/// Whether `bytes` begin like log file `no`.
///
/// # Errors
/// As the start of a server has them.
pub fn log_header(no: u32, bytes: &[u8]) -> Result<bool> {
    Header::parse(no, bytes).map(|header| header.is_some())
}

/// The frame of any log at `at` in `file`: its length, and what it holds or why nobody can tell.
/// `None` when there is no intact frame.
pub fn frame(file: &Bytes, at: usize) -> Option<(usize, std::result::Result<Groups, String>)> {
    let found = frame::parse_any(file.get(at..)?).ok()?;
    let mut groups = Groups::new();
    let body = at + HEADER_LEN..at + found.len;
    let decoded = group::decode(file, body, found.header.groups, &mut |number, entry| {
        let data = entry.data.map(|(head, placed)| {
            let end = placed.position as usize + placed.len as usize;
            let payload = file.slice(end - placed.payload_len as usize..end);
            let (stream, offset, record) = (head.stream, head.offset, head.record);
            Data { stream, offset, record, lens: head.lens, payload }
        });
        groups.resize_with(number as usize + 1, Vec::new);
        groups[number as usize].push(Entry {
            shard: entry.shard,
            meta: Bytes::copy_from_slice(entry.meta),
            data,
        });
        Ok(())
    });
    Some((found.len, decoded.map(|()| groups)))
}

/// The frame that holds `groups`, and the room that its groups were said to take.
pub fn write_frame(groups: &Groups) -> (Vec<u8>, u64) {
    let (mut bytes, mut placed, mut room) = (vec![0; HEADER_LEN], Vec::new(), 0);
    for entries in groups {
        group::check(entries);
        room += group::measure(entries).body;
        group::encode(entries, &mut bytes, &mut placed);
    }
    let narrow = |len: usize| u32::try_from(len).expect("a fuzzed frame is small");
    let header = frame::Header {
        log_id: 1,
        slot: 0,
        prev_crc: 0,
        first_lsn: Lsn(1),
        groups: narrow(groups.len()),
        body_len: narrow(bytes.len() - HEADER_LEN),
        time: Timestamp(1),
        seal: false,
    };
    frame::finish(&mut bytes, &header);
    (bytes, room)
}

/// How many entries the footer of log file `no` describes.
///
/// # Errors
/// As a read has them.
pub fn footer(no: u32, bytes: &[u8]) -> Result<usize> {
    let file = file_of(bytes);
    let table = Table::load(no, &*file)?;
    let mut items = 0;
    for entry in &table.streams {
        items += table.load_items(entry, &*file)?.len();
        table.find(entry.stream);
    }
    Ok(items)
}

/// How many blocks segment `no` describes: all that a read looks at is looked at.
///
/// # Errors
/// As a read has them.
pub fn segment(no: u32, bytes: &[u8]) -> Result<usize> {
    segment::check_header(no, None, bytes)?;
    let file = file_of(bytes);
    let directory = Directory::load(no, &*file)?;
    let mut blocks = 0;
    for number in 0..directory.pages() {
        let page = directory.load_page(number, &*file)?;
        for run in page.iter() {
            directory.page_of(run.stream, run.files[0]);
            segment::find(&page, run.stream, run.files[1]);
            let items = directory.load_items(run, &*file)?;
            for at in 0..items.len() {
                let start = directory.heads_at() as usize + run.heads_at as usize;
                let head = segment::head_len(run, &items, at)
                    .and_then(|_len| bytes.get(start + items[at].head as usize..));
                blocks += usize::from(head.and_then(Head::parse).is_some());
            }
        }
    }
    Ok(blocks)
}

/// The bytes of the manifest that `bytes` are.
///
/// # Errors
/// As the start of a server has them.
pub fn manifest(bytes: &[u8]) -> Result<Vec<u8>> {
    Manifest::decode(bytes).map(|manifest| manifest.encode())
}

/// The blob that `bytes` are.
///
/// # Errors
/// As a read has them.
pub fn blob(id: BlobId, bytes: &[u8]) -> Result<BlobReader> {
    BlobReader::load(id, file_of(bytes))
}

fn file_of(bytes: &[u8]) -> Arc<dyn DiskFile> {
    let file = MemDisk::new().create("file").expect("a disk without a limit has room");
    file.write_at(bytes, 0).expect("a disk without a limit has room");
    file
}
