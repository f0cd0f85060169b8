//! Sockets: accepting connections, serving HTTP/1.1 on them, and ending them.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, Sleep};

use crate::http::App;

/// What a client that was refused may still send before its connection is closed on it.
const LINGER_BYTES: usize = 16 * 1024 * 1024;

/// How long such a client may take.
const LINGER: Duration = Duration::from_secs(2);

/// How long to rest when the process has no descriptor left for a connection.
const ACCEPT_REST: Duration = Duration::from_millis(50);

/// Accepts connections until the server drains, then waits for them to end.
pub(crate) async fn serve(
    app: Arc<App>,
    listener: TcpListener,
    mut draining: watch::Receiver<bool>,
) {
    let slots = Arc::new(Semaphore::new(app.config.connections_max));
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            _ = draining.wait_for(|draining| *draining) => break,
            accepted = accept(&listener, &slots) => accepted,
            Some(_) = connections.join_next(), if !connections.is_empty() => continue,
        };
        let (socket, slot) = accepted;
        let (app, draining) = (Arc::clone(&app), draining.clone());
        connections.spawn(async move {
            connection(app, socket, draining).await;
            drop(slot);
        });
    }
    drop(listener);
    let patience = app.config.drain_timeout;
    let ended =
        tokio::time::timeout(patience, async { while connections.join_next().await.is_some() {} });
    if ended.await.is_err() {
        tracing::warn!(open = connections.len(), "connections are cut at the end of the drain");
    }
}

async fn accept(
    listener: &TcpListener,
    slots: &Arc<Semaphore>,
) -> (TcpStream, tokio::sync::OwnedSemaphorePermit) {
    let slot = Arc::clone(slots).acquire_owned().await.expect("the semaphore is never closed");
    loop {
        match listener.accept().await {
            Ok((socket, _)) => return (socket, slot),
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_REST).await;
            }
        }
    }
}

async fn connection(app: Arc<App>, socket: TcpStream, mut draining: watch::Receiver<bool>) {
    // Small answers leave at once; without this they would wait for more.
    let _refused = socket.set_nodelay(true).is_err();
    let patience = app.config.slow_reader_timeout;
    let io = TokioIo::new(Patient { socket, patience, stuck: None });
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(app.config.header_timeout)
        .max_buf_size(app.config.header_bytes_max)
        .pipeline_flush(true);
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let app = Arc::clone(&app);
        Box::pin(async move { Ok::<_, std::convert::Infallible>(app.answer(request).await) })
    });
    let mut connection = builder.serve_connection(io, service);
    let finished = tokio::select! {
        result = poll_fn(|cx| connection.poll_without_shutdown(cx)) => Some(result),
        _ = draining.wait_for(|draining| *draining) => None,
    };
    let result = if let Some(result) = finished {
        result
    } else {
        Pin::new(&mut connection).graceful_shutdown();
        poll_fn(|cx| connection.poll_without_shutdown(cx)).await
    };
    if let Err(error) = &result {
        tracing::debug!(%error, "a connection broke");
    }
    linger(connection.into_parts().io.into_inner().socket).await;
}

/// Ends a connection so that an answer given before the request was read reaches the client:
/// closing at once, with bytes unread, would make the kernel discard it.
async fn linger(mut socket: TcpStream) {
    if socket.shutdown().await.is_err() {
        return;
    }
    let _slow = tokio::time::timeout(LINGER, async {
        let mut buffer = vec![0; 16 * 1024];
        let mut left = LINGER_BYTES;
        while let Ok(read) = socket.read(&mut buffer).await
            && read > 0
            && left > 0
        {
            left = left.saturating_sub(read);
        }
    })
    .await
    .is_err();
}

/// A socket that gives up on a client which takes no byte for too long.
struct Patient {
    socket: TcpStream,
    patience: Duration,
    stuck: Option<Pin<Box<Sleep>>>,
}

impl Patient {
    fn watch<T>(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stuck = None;
            return written;
        }
        let patience = self.patience;
        let stuck = self
            .stuck
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(Instant::now() + patience)));
        match stuck.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncRead for Patient {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(cx, buf)
    }
}

impl AsyncWrite for Patient {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write(cx, buf);
        self.watch(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write_vectored(cx, bufs);
        self.watch(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.socket).poll_flush(cx);
        self.watch(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}
