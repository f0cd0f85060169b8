//! Ctrl-C as an ordinary end, for verbs that have no other.

use std::thread;

use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::{Exit, Failure, Outcome};

/// What a process that was interrupted exits with.
pub(crate) const EXIT_INTERRUPTED: u8 = 130;

/// From now on, SIGINT runs `farewell` on a thread of its own and ends the process with 130.
pub(crate) fn exit_on_sigint(farewell: impl FnOnce() + Send + 'static) -> Outcome {
    let signals = Interrupts::listen()?;
    thread::spawn(move || signals.exit_after(farewell));
    Ok(())
}

/// From now on, the first SIGINT runs `told` on a thread of its own; the second ends the process
/// with 130.
pub(crate) fn on_sigint(told: impl FnOnce() + Send + 'static) -> Outcome {
    let mut signals = Interrupts::listen()?;
    thread::spawn(move || {
        if signals.wait() {
            told();
            signals.exit_after(|| ());
        }
    });
    Ok(())
}

/// The SIGINTs of this process since [`Interrupts::listen`].
struct Interrupts {
    runtime: Runtime,
    signal: Signal,
}

impl Interrupts {
    /// Registered when this returns, so that no Ctrl-C is missed.
    fn listen() -> Result<Self, Failure> {
        let unable = |error| Failure::because(Exit::Failed, "cannot listen for signals", &error);
        let runtime = Builder::new_current_thread().enable_io().build().map_err(unable)?;
        let signal = {
            let _inside = runtime.enter();
            signal(SignalKind::interrupt()).map_err(unable)?
        };
        Ok(Self { runtime, signal })
    }

    /// Whether there was one.
    fn wait(&mut self) -> bool {
        self.runtime.block_on(self.signal.recv()).is_some()
    }

    fn exit_after(mut self, farewell: impl FnOnce()) {
        if self.wait() {
            farewell();
            // The main thread is blocked in a read.
            std::process::exit(i32::from(EXIT_INTERRUPTED));
        }
    }
}
