//! Bytes handed over are there after a crash, or the call did not return.
//!
//! A [`Store`] is one data directory on a [`Disk`]: a log that every stream shares, segments into
//! which the log is regrouped by stream, checkpoints of the engine's state, and blobs. It keeps
//! bytes and positions and knows no protocol; what an entry means is the engine's business. Every
//! layout on the medium is in `docs/format.md`.
//!
//! Start reading at [`store`](Store), then `log/lane.rs` (how bytes get in), `read.rs` (how they
//! get out) and `log/recover.rs` (what a crash leaves).

mod backup;
mod blob;
mod buffers;
mod checkpoint;
mod codec;
mod disk;
mod entry;
mod error;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzz;
mod hash;
mod health;
mod location;
mod log;
mod lru;
mod manifest;
mod pins;
mod read;
mod ring;
mod segment;
mod space;
mod store;
mod verify;

pub use backup::{Backup, Capture, Copied, View, restore};
pub use blob::{BlobReader, BlobWriter, Blobs};
pub use checkpoint::CheckpointRound;
pub use disk::{Disk, DiskFile, MemDisk, OsDisk};
pub use entry::{Data, DataHead, Entry, Lens};
pub use error::{Error, Kind, Place, Result};
pub use log::group::{GROUP_BYTES_MAX, group_bytes, room_for};
pub use log::recover::Recovery;
pub use log::room::{Permit, Use};
pub use pins::Pin;
pub use read::{Chunk, Ends, Extent, Reader};
pub use store::{Need, Options, Start, Store, Visitor};
pub use verify::{
    Fact, Finding, Part, Piece, Scanned, Seen, Value, Verdict, Watcher, blob_path, survey, verify,
    verify_file,
};
