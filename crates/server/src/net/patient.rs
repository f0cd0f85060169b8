//! A socket that gives up on a client which takes no byte for too long.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};

use super::live::Handover;

/// The socket. Once it has given up, every write fails with `TimedOut`.
pub(super) struct Patient {
    socket: TcpStream,
    patience: Duration,
    /// Ends when the client has taken nothing since a write had to wait.
    stuck: Option<Pin<Box<Sleep>>>,
    gave_up: bool,
    /// Told when everything that was written is with the socket.
    handover: Arc<Handover>,
}

impl Patient {
    pub(super) fn new(socket: TcpStream, patience: Duration, handover: Arc<Handover>) -> Self {
        Self { socket, patience, stuck: None, gave_up: false, handover }
    }

    pub(super) fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Whether the client was too slow.
    pub(super) fn gave_up(&self) -> bool {
        self.gave_up
    }

    pub(super) fn into_socket(self) -> TcpStream {
        self.socket
    }

    fn watch(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            self.stuck = None;
            return written;
        }
        let patience = self.patience;
        let stuck = self
            .stuck
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(Instant::now() + patience)));
        match stuck.as_mut().poll(cx) {
            Poll::Ready(()) => {
                self.gave_up = true;
                Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
            }
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
        // One piece needs no list of pieces, which the kernel would have to read first.
        if let [only] = bufs {
            return self.poll_write(cx, only);
        }
        let written = Pin::new(&mut self.socket).poll_write_vectored(cx, bufs);
        self.watch(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.socket).poll_flush(cx);
        if flushed.is_ready() {
            self.handover.flush();
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}
