//! What carries the bytes of a connection: its socket, or TLS over it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use super::patient::Patient;

/// The socket, or TLS over it. One type for both, so that HTTP is compiled once.
pub(super) enum Io {
    /// Bytes as they are.
    Plain(Patient),
    /// In a box, since it is hundreds of bytes that a plain connection does not need.
    Secure(Box<TlsStream<Patient>>),
}

impl Io {
    /// Whether the client was too slow.
    pub(super) fn gave_up(&self) -> bool {
        match self {
            Self::Plain(patient) => patient.gave_up(),
            Self::Secure(tls) => tls.get_ref().0.gave_up(),
        }
    }

    /// The socket alone, for its end.
    pub(super) fn into_socket(self) -> TcpStream {
        match self {
            Self::Plain(patient) => patient.into_socket(),
            Self::Secure(tls) => tls.into_inner().0.into_socket(),
        }
    }
}

impl AsyncRead for Io {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(patient) => Pin::new(patient).poll_read(cx, buf),
            Self::Secure(tls) => Pin::new(tls).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Io {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(patient) => Pin::new(patient).poll_write(cx, buf),
            Self::Secure(tls) => Pin::new(tls).poll_write(cx, buf),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(patient) => Pin::new(patient).poll_write_vectored(cx, bufs),
            Self::Secure(tls) => Pin::new(tls).poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(patient) => patient.is_write_vectored(),
            Self::Secure(tls) => tls.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(patient) => Pin::new(patient).poll_flush(cx),
            Self::Secure(tls) => Pin::new(tls).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(patient) => Pin::new(patient).poll_shutdown(cx),
            Self::Secure(tls) => Pin::new(tls).poll_shutdown(cx),
        }
    }
}
