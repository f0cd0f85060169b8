//! The protocol core from outside: scripts that a protocol author can review, and properties that
//! hold after any sequence of commands.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]

mod golden;
mod properties;
mod script;
mod world;
