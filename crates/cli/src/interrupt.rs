//! Ctrl-C as an ordinary end, for the verb that has no other.

use std::thread;

use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

use crate::failure::{Exit, Failure, Outcome};

/// What a process that was interrupted exits with.
const EXIT_INTERRUPTED: i32 = 130;

/// From now on, SIGINT runs `farewell` on a thread of its own and ends the process with 130.
pub(crate) fn exit_on_sigint(farewell: impl FnOnce() + Send + 'static) -> Outcome {
    let unable = |error| Failure::because(Exit::Failed, "cannot listen for signals", &error);
    let runtime = Builder::new_current_thread().enable_io().build().map_err(unable)?;
    // Registered before this returns, so that no Ctrl-C is missed.
    let mut interrupts = {
        let _inside = runtime.enter();
        signal(SignalKind::interrupt()).map_err(unable)?
    };
    thread::spawn(move || {
        if runtime.block_on(interrupts.recv()).is_some() {
            farewell();
            #[expect(clippy::exit, reason = "the main thread is blocked in a read")]
            std::process::exit(EXIT_INTERRUPTED);
        }
    });
    Ok(())
}
