//! Taking connections in, as many as there may be, whatever the system runs out of.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use socket2::SockRef;
use tokio::net::{TcpListener, TcpStream};
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
pub(super) type Slot = Arc<OwnedSemaphorePermit>;

/// The listening socket.
pub(super) struct Acceptor {
    listener: TcpListener,
    slots: Arc<Semaphore>,
    logged: Option<Instant>,
}

impl Acceptor {
    /// At most `slots` connections at a time.
    pub(super) fn new(listener: TcpListener, slots: usize) -> Self {
        // The socket listens already; this only gives it a longer queue.
        if let Err(error) = SockRef::from(&listener).listen(BACKLOG) {
            tracing::warn!(%error, "the queue of new connections stays short");
        }
        let slots = Arc::new(Semaphore::new(slots.min(Semaphore::MAX_PERMITS)));
        Self { listener, slots, logged: None }
    }

    /// The next connection, once there is one and room for it. Safe to cancel.
    pub(super) async fn accept(&mut self) -> (TcpStream, Slot) {
        let slots = Arc::clone(&self.slots);
        let slot = slots.acquire_owned().await.expect("the semaphore is never closed");
        loop {
            match self.listener.accept().await {
                Ok((socket, _)) => return (socket, Arc::new(slot)),
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
