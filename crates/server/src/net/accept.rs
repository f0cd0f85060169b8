//! Taking connections in, as many as there may be, whatever the system runs out of.

use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use socket2::SockRef;
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

/// How long to rest when the process has no descriptor left for a connection.
const REST: Duration = Duration::from_millis(50);

/// How often at most a failure is logged.
const LOG_EVERY: Duration = Duration::from_secs(10);

/// Connections that the kernel holds for us until they are accepted. All readers come back at once
/// when a server restarts; one that finds no place waits for a second before it tries again.
const BACKLOG: i32 = 4096;

/// One of the connections that there may be at a time. Free again when nothing holds it.
#[derive(Clone)]
pub(super) struct Slot {
    _held: Arc<Held>,
}

struct Held {
    _permit: OwnedSemaphorePermit,
    load: Arc<AtomicUsize>,
}

impl Slot {
    /// A slot that counts in `load` while it is held.
    pub(super) fn new(permit: OwnedSemaphorePermit, load: Arc<AtomicUsize>) -> Self {
        load.fetch_add(1, Ordering::Relaxed);
        Self { _held: Arc::new(Held { _permit: permit, load }) }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.load.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A new connection, not yet anybody's; it does not block.
pub(crate) struct Accepted {
    pub(super) socket: TcpStream,
    pub(super) permit: OwnedSemaphorePermit,
}

/// The listening socket.
pub(crate) struct Acceptor {
    listener: TcpListener,
    slots: Arc<Semaphore>,
    logged: Option<Instant>,
}

impl Acceptor {
    /// At most `slots` connections at a time.
    pub(crate) fn new(listener: TcpListener, slots: usize) -> Self {
        // The socket listens already; this only gives it a longer queue.
        if let Err(error) = SockRef::from(&listener).listen(BACKLOG) {
            tracing::warn!(%error, "the queue of new connections stays short");
        }
        let slots = Arc::new(Semaphore::new(slots.min(Semaphore::MAX_PERMITS)));
        Self { listener, slots, logged: None }
    }

    /// The next connection, once there is one and room for it. Safe to cancel.
    pub(crate) async fn accept(&mut self) -> Accepted {
        let slots = Arc::clone(&self.slots);
        let permit = slots.acquire_owned().await.expect("the semaphore is never closed");
        loop {
            // Given up by this thread's runtime, for that of a worker.
            let accepted = self.listener.accept().await.and_then(|(socket, _)| socket.into_std());
            match accepted {
                Ok(socket) => return Accepted { socket, permit },
                Err(error) if is_of_the_client(&error) => {}
                Err(error) => {
                    self.log(&error);
                    tokio::time::sleep(REST).await;
                }
            }
        }
    }

    fn log(&mut self, error: &io::Error) {
        let now = Instant::now();
        if self.logged.is_none_or(|logged| now - logged >= LOG_EVERY) {
            self.logged = Some(now);
            tracing::warn!(%error, "connections cannot be accepted");
        }
    }
}

/// Whether only the connection that was to be accepted has failed, not the accepting.
fn is_of_the_client(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset)
}
