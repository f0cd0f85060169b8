//! Everything the protocol says, with no I/O: same input, same output, always.

pub mod access;
pub mod codec;
pub mod command;
pub mod content;
pub mod entry;
pub mod ids;
pub mod json;
mod messages;
pub mod moment;
pub mod refusal;
pub mod state;
pub mod stream;
pub mod wire;
