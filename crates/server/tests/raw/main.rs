//! The server's edges, as bytes over a socket: whatever a client sends is rejected, or read as
//! exactly the requests that RFC 9112 says it is, and nothing that it does or leaves undone holds
//! the server up. Every answer is parsed strictly.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod answer;
mod bodies;
mod child;
mod corpus;
mod drain;
mod floods;
mod framing;
mod headers;
mod heads;
mod http2;
mod limits;
mod multiplex;
mod paths;
mod pipelining;
mod secure;
mod slow;
mod support;
