//! A server inside another program: what `run` does, on a thread of its own.

use std::io;
use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use tokio::sync::oneshot;

use crate::clock::{Clock, SystemClock};
use crate::config::Config;
use crate::run::{RunError, Stops, run_until};

/// A running server. Dropping it drains it without waiting for the end.
///
/// As with [`crate::run`], a failed write or sync of the log ends the process.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    thread: JoinHandle<Result<(), RunError>>,
}

impl Server {
    /// Starts a server and returns once it listens.
    pub fn start(config: Config) -> Result<Self, RunError> {
        Self::start_at(config, Box::new(SystemClock::new()))
    }

    /// As [`Self::start`], with another clock for what the protocol measures: how long streams live
    /// and when they were written. Timeouts of connections and live reads stay in real time.
    pub fn start_at(config: Config, clock: Box<dyn Clock>) -> Result<Self, RunError> {
        let (stop, asked) = oneshot::channel();
        let (tell, listening) = mpsc::sync_channel(1);
        let thread = thread::Builder::new()
            .name("server".to_owned())
            .spawn(move || {
                let ready = move |address| {
                    let _caller_panicked = tell.send(address).is_err();
                };
                run_until(config, clock, ready, || Ok(Stops::Asked(Some(asked))))
            })
            .map_err(RunError::System)?;
        match listening.recv() {
            Ok(address) => Ok(Self { address, stop, thread }),
            Err(_not_listening) => Err(match join(thread) {
                Err(error) => error,
                Ok(()) => RunError::System(io::Error::other("the server ended at its start")),
            }),
        }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Drains it, seals its log, and returns when both are done.
    pub fn stop(self) -> Result<(), RunError> {
        drop(self.stop);
        join(self.thread)
    }
}

/// The thread's end; its panic goes on here.
fn join(thread: JoinHandle<Result<(), RunError>>) -> Result<(), RunError> {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
