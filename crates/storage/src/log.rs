//! The log: a chain of numbered frames in append files. Every layout is told in `docs/format.md`.
//!
//! ```text
//! log        frame 0 · frame 1 · frame 2 · … · seal        one log per start of the process
//! file       header │ frame · frame · frame │ footer        the files of a log, in order
//! frame      header │ group · group                         one write, one sync
//! group      count  │ entry · entry                         atomic; has one Lsn
//! entry      shard, meta │ data head, payload
//! ```

pub(crate) mod allocator;
pub(crate) mod debt;
pub(crate) mod file;
pub(crate) mod footer;
pub(crate) mod frame;
pub(crate) mod group;
pub(crate) mod lane;
pub(crate) mod recover;
pub(crate) mod room;
