//! Kills the real server under load, starts it again on the same data, and compares what it then
//! says with everything that it had said before.
//!
//! - [`run`] is the frame: rounds of work, each ended by force, each followed by an audit.
//! - [`log`] and [`life`] are the checker: what a stream must contain, and what it must be. They
//!   know nothing of HTTP, time or processes. [`record`] keeps the whole history of a stream, for
//!   the checker of `headwater-history`.
//! - [`message`] makes content that describes itself, [`content`] finds it again in what is read.
//! - [`producer`], [`plain`], [`reader`], [`lifecycle`], [`publisher`] and [`tenant`] work;
//!   [`judge`] looks at every answer that they get.
//! - [`audit`], [`bootstrap`] and [`listing`] look at everything after a restart; [`graves`]
//!   forgets what is gone.
//! - [`process`] and [`http`] reach the server.

pub mod audit;
pub mod bootstrap;
pub mod content;
pub mod graves;
pub mod http;
pub mod judge;
pub mod life;
pub mod lifecycle;
pub mod listing;
pub mod log;
pub mod message;
pub mod plain;
pub mod process;
pub mod producer;
pub mod publisher;
pub mod reader;
pub mod record;
pub mod rng;
pub mod run;
pub mod sse;
pub mod tenant;
pub mod world;
