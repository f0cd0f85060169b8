//! The HTTP interface as a small model, and the real server compared with it, request by request.
//!
//! [`model`] says what the specification says and shares no code with the server. [`drive`] sends
//! random requests ([`generate`]) over real connections and holds each answer against the model's
//! ([`check`]); time is the test's own, and now and then the server is started anew. Everything
//! follows from a seed and the number of a case, so both together are a replay.

pub mod ask;
pub mod check;
pub mod drive;
pub mod generate;
pub mod host;
pub mod json;
pub mod lie;
pub mod model;
pub mod rng;
