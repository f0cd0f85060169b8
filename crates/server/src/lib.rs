//! The only place with sockets, tasks and time; it moves data between the core, which knows the
//! protocol, and storage, which keeps the bytes.

pub mod auth;
mod certificates;
pub mod clock;
pub mod config;
pub mod cors;
mod descriptors;
mod digest;
mod embed;
pub mod engine;
mod http;
pub mod limits;
mod metrics;
mod net;
pub mod offline;
mod random;
mod run;

pub use certificates::{BadCertificate, self_signed};
pub use embed::Server;
pub use run::{RunError, run};
