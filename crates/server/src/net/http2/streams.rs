//! The streams of one connection: a task for each, and what its client still has to take.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use http_body::{Frame, SizeHint};
use parking_lot::Mutex;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::http::Body;

/// The most that goes into one frame, in bytes: a stream whose client does not take this much
/// within `slow_reader_timeout` is cut.
const PIECE_BYTES_MAX: usize = 16 * 1024;

tokio::task_local! {
    /// The account of the stream whose task this is.
    static ACCOUNT: Arc<Account>;
}

/// The streams of one connection.
#[derive(Clone)]
pub(super) struct Streams {
    all: Arc<Mutex<Vec<Stream>>>,
    patience: Duration,
}

struct Stream {
    task: AbortHandle,
    /// Gone when the stream has ended and all of its pieces are with the socket.
    account: Weak<Account>,
}

/// What a look at the streams has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// There is none.
    Idle,
    /// They move.
    Busy,
    /// One that has ended for us still has pieces that the client does not take.
    Stuck,
}

impl Streams {
    /// None yet. A stream whose client takes nothing for `patience` will be cut.
    pub(super) fn new(patience: Duration) -> Self {
        Self { all: Arc::default(), patience }
    }

    /// Cuts the streams that are too slow or too old.
    pub(super) fn look(&self, now: Instant) -> Verdict {
        let mut all = self.all.lock();
        let mut stuck = false;
        all.retain(|stream| {
            let Some(account) = stream.account.upgrade() else { return false };
            if account.is_overdue(now, self.patience) {
                stuck |= stream.task.is_finished();
                stream.task.abort();
            }
            true
        });
        match all.is_empty() {
            _ if stuck => Verdict::Stuck,
            true => Verdict::Idle,
            false => Verdict::Busy,
        }
    }

    /// Ends what is left when the connection has ended.
    pub(super) fn abort(&self) {
        for stream in self.all.lock().drain(..) {
            stream.task.abort();
        }
    }
}

impl<F> hyper::rt::Executor<F> for Streams
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, stream: F) {
        let account = Arc::<Account>::default();
        let weak = Arc::downgrade(&account);
        let task = tokio::spawn(ACCOUNT.scope(account, stream)).abort_handle();
        let mut all = self.all.lock();
        // Before it would grow, so that this costs next to nothing for each stream.
        if all.len() == all.capacity() {
            all.retain(|stream| stream.account.strong_count() > 0);
        }
        all.push(Stream { task, account: weak });
    }
}

/// What the client of one stream has been given and has not taken.
#[derive(Default)]
pub(super) struct Account(Mutex<State>);

#[derive(Default)]
struct State {
    /// One of the requests that there may be at a time over all connections.
    permit: Option<OwnedSemaphorePermit>,
    /// Pieces that have not reached the socket.
    pieces: usize,
    /// When the client last moved, or had nothing to take.
    moved: Option<Instant>,
    /// When the answer has to be over.
    until: Option<Instant>,
}

impl Account {
    /// That of the stream whose task this is.
    pub(super) fn of_this_task() -> Arc<Self> {
        ACCOUNT.with(Arc::clone)
    }

    /// Keeps `permit` as long as anything of the stream is there.
    pub(super) fn hold(&self, permit: OwnedSemaphorePermit) {
        self.0.lock().permit = Some(permit);
    }

    /// The answer has begun and has to be over at `until`.
    pub(super) fn answered(&self, until: Instant) {
        self.0.lock().until = Some(until);
    }

    fn is_overdue(&self, now: Instant, patience: Duration) -> bool {
        let state = self.0.lock();
        let is_slow = state.pieces > 0 && state.moved.is_some_and(|moved| moved + patience <= now);
        is_slow || state.until.is_some_and(|until| until <= now)
    }

    fn give(&self) {
        let mut state = self.0.lock();
        if state.pieces == 0 {
            state.moved = Some(Instant::now());
        }
        state.pieces += 1;
    }

    fn take(&self) {
        let mut state = self.0.lock();
        state.pieces -= 1;
        state.moved = Some(Instant::now());
    }
}

/// Bytes on their way to the client. Dropped when they are with the socket, or given up.
pub(super) struct Piece {
    bytes: Bytes,
    account: Arc<Account>,
}

impl Piece {
    fn new(bytes: Bytes, account: &Arc<Account>) -> Self {
        account.give();
        Self { bytes, account: Arc::clone(account) }
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.account.take();
    }
}

impl Buf for Piece {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
    }
}

/// The body of an answer in pieces that fit into a frame.
pub(super) struct Pieces {
    body: Body,
    /// What of the body is next.
    rest: Bytes,
    account: Arc<Account>,
}

impl Pieces {
    pub(super) fn new(body: Body, account: Arc<Account>) -> Self {
        Self { body, rest: Bytes::new(), account }
    }
}

impl http_body::Body for Pieces {
    type Data = Piece;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Piece>>>> {
        while self.rest.is_empty() {
            match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => self.rest = frame.into_data().unwrap_or_default(),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
        let len = self.rest.len().min(PIECE_BYTES_MAX);
        let piece = Piece::new(self.rest.split_to(len), &self.account);
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        if self.rest.is_empty() { self.body.size_hint() } else { SizeHint::default() }
    }
}
