//! The verbs: one file each, with what is asked, when it is refused, and what it changes.

pub mod append;
pub mod attributes;
pub mod bucket;
pub mod create;
pub mod delete;
pub mod expiry;
pub mod fork;
pub mod producer;
pub mod read;
pub mod retention;
pub mod snapshot;
