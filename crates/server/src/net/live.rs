//! Answers that go on for long, without what HTTP needed to begin them: hyper keeps two buffers of
//! 8 KiB for each connection, and its parser, which a reader that waits for news has no use for.

use std::io::{self, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::{Buf as _, Bytes};
use futures_util::StreamExt as _;
use smallvec::SmallVec;
use tokio::io::AsyncWriteExt as _;

use super::io::Io;
use crate::http::Stream;

/// How much of what a client sends although it was told that nothing more is read is taken at a
/// time, to be forgotten.
const IGNORED_BYTES: usize = 256;

/// How far an answer has come whose head hyper sends, but not its body.
///
/// ```text
/// the body is asked for: the head lies in hyper's buffer ─► the socket is flushed: it has left
/// ```
#[derive(Debug, Default)]
pub(crate) struct Handover {
    asked: AtomicBool,
    flushed: AtomicBool,
}

impl Handover {
    /// The body was asked for.
    pub(crate) fn ask(&self) {
        self.asked.store(true, Ordering::Relaxed);
    }

    /// Everything that was written so far is with the socket.
    pub(super) fn flush(&self) {
        if self.asked.load(Ordering::Relaxed) {
            self.flushed.store(true, Ordering::Relaxed);
        }
    }

    /// Whether hyper has done its part.
    pub(super) fn is_done(&self) -> bool {
        self.flushed.load(Ordering::Relaxed)
    }
}

/// An answer whose head is sent, and its body in chunks that is not begun.
pub(super) struct Live {
    pub(super) io: Io,
    pub(super) pieces: Stream,
}

impl Live {
    /// Sends the body until it ends or the client is gone.
    pub(super) async fn run(&mut self) -> io::Result<()> {
        loop {
            let piece = tokio::select! {
                piece = self.pieces.next() => piece.transpose()?,
                gone = gone(&mut self.io) => return gone,
            };
            let Some(piece) = piece else {
                self.io.write_all(b"0\r\n\r\n").await?;
                return self.io.flush().await;
            };
            self.send(piece).await?;
        }
    }

    /// One chunk, in one write if the socket takes it; nothing is copied.
    async fn send(&mut self, piece: Bytes) -> io::Result<()> {
        // No byte at all would end the body.
        if piece.is_empty() {
            return Ok(());
        }
        let mut head = SmallVec::<[u8; 24]>::new();
        write!(head, "{:x}\r\n", piece.len())?;
        let mut chunk = head.as_slice().chain(piece).chain(&b"\r\n"[..]);
        self.io.write_all_buf(&mut chunk).await?;
        // TLS may have taken it without the socket.
        self.io.flush().await
    }
}

/// Resolves when the client has closed its side.
async fn gone(io: &mut Io) -> io::Result<()> {
    let mut ignored = [0; IGNORED_BYTES];
    // In full, since `Buf` also has some of the names in `AsyncReadExt`.
    while tokio::io::AsyncReadExt::read(io, &mut ignored).await? > 0 {}
    Ok(())
}
