//! The threads that serve requests: one for each core, each with its own connections and its own
//! runtime. What a connection does stays on its thread, so that no task ever moves and waking one
//! from its own thread costs no system call.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;

use super::accept::{Accepted, Slot};
use super::connection;
use crate::certificates::Current;
use crate::engine::BELLS_MAX;
use crate::http::App;

/// A thread that sleeps must be woken when a timer is set that ends before all others, and the
/// runtime does so with a system call even when it is the thread's own timer. With one timer that
/// always ends soon, those of requests never are the first.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// All workers.
pub(crate) struct Workers {
    workers: Vec<Worker>,
    /// Set when they are to end at once.
    cut: watch::Sender<bool>,
}

struct Worker {
    /// New connections; there are never more in here than there are slots.
    sockets: mpsc::UnboundedSender<(std::net::TcpStream, Slot)>,
    /// Connections that it has, or will have in a moment.
    load: Arc<AtomicUsize>,
    /// Resolves when it has drained.
    drained: oneshot::Receiver<()>,
    thread: JoinHandle<()>,
}

/// What a worker works with.
struct Bench {
    app: Arc<App>,
    sockets: mpsc::UnboundedReceiver<(std::net::TcpStream, Slot)>,
    tls: Option<Current>,
    draining: watch::Receiver<bool>,
    cut: watch::Receiver<bool>,
    /// Dropped at the end of the drain.
    drained: oneshot::Sender<()>,
}

/// One worker for each core.
pub(crate) fn count() -> usize {
    thread::available_parallelism().map_or(1, usize::from).min(BELLS_MAX)
}

impl Workers {
    /// Starts `count` threads. They end when `draining` has become true and their connections have
    /// ended, or by [`Workers::stop`].
    pub(crate) fn start(
        app: &App,
        count: usize,
        tls: Option<&Current>,
        draining: &watch::Receiver<bool>,
    ) -> io::Result<Self> {
        let (cut, is_cut) = watch::channel(false);
        let mut workers = Vec::with_capacity(count);
        for no in 0..count {
            let (sockets, receiver) = mpsc::unbounded_channel();
            let (tell_drained, drained) = oneshot::channel();
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let bench = Bench {
                app: app.for_worker(),
                sockets: receiver,
                tls: tls.cloned(),
                draining: draining.clone(),
                cut: is_cut.clone(),
                drained: tell_drained,
            };
            let thread = thread::Builder::new().name(format!("worker-{no}")).spawn(move || {
                runtime.block_on(work(bench));
                // What may wait for the disk is not waited for: requests are over.
                runtime.shutdown_background();
            })?;
            workers.push(Worker { sockets, load: Arc::default(), drained, thread });
        }
        Ok(Self { workers, cut })
    }

    /// Hands a connection to the worker that has the fewest.
    pub(crate) fn serve(&self, Accepted { socket, permit }: Accepted) {
        let idlest = self.workers.iter().min_by_key(|worker| worker.load.load(Ordering::Relaxed));
        if let Some(worker) = idlest {
            let slot = Slot::new(permit, Arc::clone(&worker.load));
            // A worker that has ended takes no more connections.
            let _draining = worker.sockets.send((socket, slot)).is_err();
        }
    }

    /// Waits until every worker has drained.
    pub(crate) async fn drained(&mut self) {
        for worker in &mut self.workers {
            let _dropped = (&mut worker.drained).await.is_err();
        }
    }

    /// Ends them; requests that are still waiting are cut.
    pub(crate) fn stop(self) {
        self.cut.send_replace(true);
        for worker in self.workers {
            if worker.thread.join().is_err() {
                tracing::error!("a worker had panicked");
            }
        }
    }
}

async fn work(bench: Bench) {
    let Bench { app, sockets, tls, draining, mut cut, drained } = bench;
    let pump = app.engine.attend();
    tokio::select! {
        () = serve(app, sockets, tls, draining) => {}
        () = pump_for_ever(pump) => {}
        () = heartbeat() => {}
        _ = cut.wait_for(|cut| *cut) => {}
    }
    drop(drained);
}

async fn pump_for_ever(pump: Option<crate::engine::Pump>) {
    match pump {
        Some(pump) => pump.await,
        None => std::future::pending().await,
    }
}

async fn heartbeat() {
    loop {
        tokio::time::sleep(HEARTBEAT).await;
    }
}

/// Serves connections until the server drains, then waits for them to end.
async fn serve(
    app: Arc<App>,
    mut sockets: mpsc::UnboundedReceiver<(std::net::TcpStream, Slot)>,
    tls: Option<Current>,
    mut draining: watch::Receiver<bool>,
) {
    let mut connections = JoinSet::new();
    loop {
        let (socket, slot) = tokio::select! {
            _ = draining.wait_for(|draining| *draining) => break,
            Some(handed) = sockets.recv() => handed,
            Some(_) = connections.join_next(), if !connections.is_empty() => continue,
        };
        match tokio::net::TcpStream::from_std(socket) {
            Ok(socket) => {
                let (draining, tls) = (draining.clone(), tls.clone());
                connections.spawn(connection(Arc::clone(&app), socket, slot, draining, tls));
            }
            Err(error) => tracing::warn!(%error, "a connection cannot be served"),
        }
    }
    drop(sockets);
    let patience = app.config.drain_timeout;
    let ended =
        tokio::time::timeout(patience, async { while connections.join_next().await.is_some() {} });
    if ended.await.is_err() {
        tracing::warn!(open = connections.len(), "connections are cut at the end of the drain");
    }
}
