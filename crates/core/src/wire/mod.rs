//! The protocol's text: what a request's head says and how an answer is spelled.
//!
//! Everything here is a pure function of its arguments. Parsers refuse with [`invalid::Invalid`],
//! which is always a 400; the one exception is an address that names nothing, a 404 ([`path`]).

pub mod accept;
pub mod coding;
pub mod cors;
pub mod cursor;
pub mod etag;
pub mod headers;
pub mod invalid;
mod list;
pub mod multipart;
pub mod path;
pub mod problem;
pub mod query;
pub mod range;
pub mod sse;
