//! The engine on a simulated disk and clock, from a seed.
//!
//! One seed is one world: a few generations of clients, accidents and background work, each ended
//! by a crash and followed by a recovery. Everything that the engine answers, stores and recovers
//! is compared with a naive model; the same seed does the same again, event by event.
//!
//! Start reading at [`run`], then `world.rs`; `history.rs` says what a crash may leave, `oracle.rs`
//! what is compared, `disk.rs` what a power cut does.

mod bug;
mod clock;
mod disk;
mod history;
mod model;
mod oracle;
mod record;
mod rng;
mod trace;
mod workload;
mod world;

pub use bug::Bug;
pub use disk::Failure;
pub use oracle::Violation;
pub use world::{
    Accident, Config, Damage, Explored, Points, Report, SCENARIOS, SOMETIMES, Start, damage,
    explore, fail_each, fail_each_read, run,
};
