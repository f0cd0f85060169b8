//! Whether what the clients of one stream saw can have happened.
//!
//! A history is a list of [`Event`]s: who asked for what and when, and what came back and when, all
//! on one monotonic clock. [`check`] says whether a single stream, changed by one call at a time,
//! explains all of it, with each call taking effect between its beginning and its end:
//! linearizability. For calls in general that question is exponential. A log answers it itself,
//! because its offsets say in which order its appends took effect; what remains are comparisons,
//! and the whole is O(n log n).
//!
//! The rules are listed at [`Rule`]. Two of them take the history to be complete: it begins with an
//! empty stream, and the bytes of appends without an answer are known as soon as a read has shown
//! them. So end a history with a read of everything.
//!
//! This crate is pure and depends on nothing. [`Stream`] takes the same facts one by one, for those
//! who check while they work.

mod event;
mod stream;
mod sweep;

pub use event::{Event, Message, NEVER, Op, Outcome, Slice, Span, State, Why};
pub use stream::{Checked, Rule, Sight, Stream, Violation};
pub use sweep::{check, check_from};
