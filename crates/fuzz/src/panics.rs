//! A panic in a task of the server ends only that task. Here it counts as the failure it is.

use std::cell::Cell;
use std::panic;
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

static SEEN: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// Whether this thread runs a target, whose own panics everybody sees.
    static OWN: Cell<bool> = const { Cell::new(false) };
}

/// Runs a target on this thread.
pub(crate) fn own(run: impl FnOnce()) {
    OWN.set(true);
    run();
}

/// Counts the panics of other threads from now on, whatever else is done about them.
pub(crate) fn watch() {
    static WATCHING: Once = Once::new();
    WATCHING.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !OWN.get() {
                SEEN.fetch_add(1, Ordering::SeqCst);
            }
            before(info);
        }));
    });
}

/// # Panics
/// When a thread has panicked that runs no target: one of the server's.
pub(crate) fn none() {
    assert_eq!(SEEN.load(Ordering::SeqCst), 0, "something in the server has panicked");
}
