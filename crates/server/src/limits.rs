//! How much clients may do at a time, how often, and how much they may keep. Bodies, heads and
//! connections have limits of their own in [`crate::config::Config`].

mod gate;
mod rate;

use std::num::NonZeroU32;

pub(crate) use gate::{Gate, Seat, Turn};
pub(crate) use rate::Client;

use crate::engine::Quotas;

/// The limits. `Default` is what a server has without settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Requests at a time, over all connections: 503. A quarter is for reads alone, so that writes
    /// are turned away first. Live readers are not counted among them.
    pub requests_max: usize,
    /// Live readers at a time: 503. Without it, three quarters of the connections that there may
    /// be.
    pub live_readers_max: Option<usize>,
    /// Live readers of one stream: 429. Readers that join in the same moment may be a few more.
    pub stream_readers_max: Option<usize>,
    /// How often a client may ask: 429.
    pub rate: Option<Rate>,
    /// How much may be kept: 409 and 507.
    pub quotas: Quotas,
}

/// Requests of one client: an API key, or an address (IPv4, or the first half of IPv6) where there
/// is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Requests a second, in the long run.
    pub per_second: NonZeroU32,
    /// Requests at once after a rest.
    pub burst: NonZeroU32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            requests_max: 8192,
            live_readers_max: None,
            stream_readers_max: None,
            rate: None,
            quotas: Quotas::default(),
        }
    }
}
