//! One keep-alive connection with one request in flight.

use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::wire::{Framing, Head, Step};

/// Enough for an answer without much of a body.
pub(crate) const SMALL_BUFFER: usize = 8 * 1024;
/// For bodies by the megabyte: few system calls, and still in the cache.
pub(crate) const LARGE_BUFFER: usize = 256 * 1024;

/// A connection to the server, and what has come in on it and was not looked at yet.
#[derive(Debug)]
pub(crate) struct Connection {
    address: SocketAddr,
    stream: TcpStream,
    /// `buffer[start..end]` is what has come in.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

impl Connection {
    /// `buffer` bytes are read at a time.
    pub(crate) async fn open(address: SocketAddr, buffer: usize) -> io::Result<Self> {
        let stream = connect(address).await?;
        Ok(Self { address, stream, buffer: vec![0; buffer], start: 0, end: 0 })
    }

    /// A new connection in place of this one.
    pub(crate) async fn reopen(&mut self) -> io::Result<()> {
        self.stream = connect(self.address).await?;
        (self.start, self.end) = (0, 0);
        Ok(())
    }

    /// Sends a request, or a part of one.
    pub(crate) async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await
    }

    /// The head of the next answer that is not only informational.
    pub(crate) async fn head(&mut self) -> io::Result<Head> {
        loop {
            if let Some((head, len)) = Head::parse(&self.buffer[self.start..self.end])? {
                self.start += len;
                if head.status >= 200 {
                    return Ok(head);
                }
            } else {
                self.fill().await?;
            }
        }
    }

    /// The next piece of a body, `None` at its end.
    pub(crate) async fn piece(&mut self, framing: &mut Framing) -> io::Result<Option<&[u8]>> {
        loop {
            match framing.step(&self.buffer[self.start..self.end])? {
                Step::More => match self.fill().await {
                    Err(error) if is_end(&error) && *framing == Framing::UntilClose => {
                        *framing = Framing::Done;
                    }
                    filled => filled?,
                },
                Step::Skip(len) => self.start += len,
                Step::Data(len) => {
                    let from = self.start;
                    self.start += len;
                    return Ok(Some(&self.buffer[from..self.start]));
                }
                Step::Done => return Ok(None),
            }
        }
    }

    /// A request and its answer, of whose body only the length counts. Ready for the next request.
    pub(crate) async fn exchange(&mut self, request: &[u8]) -> io::Result<(Head, u64)> {
        self.send(request).await?;
        self.answer().await
    }

    /// The answer to a request that was sent, as in [`Self::exchange`].
    pub(crate) async fn answer(&mut self) -> io::Result<(Head, u64)> {
        let mut head = self.head().await?;
        let mut len = 0;
        while let Some(piece) = self.piece(&mut head.framing).await? {
            len += piece.len() as u64;
        }
        if !head.keep_alive {
            self.reopen().await?;
        }
        Ok((head, len))
    }

    async fn fill(&mut self) -> io::Result<()> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.end == self.buffer.len() {
            if self.start == 0 {
                self.buffer.resize(self.buffer.len() * 2, 0);
            } else {
                self.buffer.copy_within(self.start..self.end, 0);
                (self.start, self.end) = (0, self.end - self.start);
            }
        }
        match self.stream.read(&mut self.buffer[self.end..]).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            len => {
                self.end += len;
                Ok(())
            }
        }
    }
}

async fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

fn is_end(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::UnexpectedEof
}
