//! Bodies: what answers are made of, and how requests are taken in within their limits.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::{FutureExt as _, StreamExt as _};
use http::StatusCode;
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use super::App;
use super::respond::Failure;
use crate::net::Handover;

/// The budget of bodies in flight is counted in pieces of this many bytes.
pub(crate) const BUDGET_UNIT: u64 = 1024;

/// A body's first share of the budget is at most this many bytes: more is given for what has
/// arrived, not for what was promised. Bodies of which nothing arrives, on as many connections as
/// there may be by default, hold a quarter of the default budget, so that they keep nobody out.
const FIRST_SHARE_BYTES: u64 = 4 * 1024;

/// A body makes progress when this many bytes of it have arrived, or its rest. Without this a byte
/// now and then would hold a connection and a share of the budget for ever.
const PROGRESS_BYTES: u64 = 64 * 1024;

/// Pieces of an answer, made as they are asked for.
pub(crate) type Stream = Pin<Box<dyn futures_util::Stream<Item = io::Result<Bytes>> + Send>>;

/// The body of an answer.
pub(crate) enum Body {
    /// Known in full.
    Full(Bytes),
    /// The same in several pieces, the next one last.
    Several(Vec<Bytes>),
    /// Made piece by piece, as fast as the client takes it.
    Pieces(Stream),
    /// The same, but mostly there is nothing to send.
    Live(Stream),
    /// Sent by somebody else, who is told when the head of the answer is ready to leave.
    Elsewhere(Arc<Handover>),
}

impl Body {
    /// No byte.
    pub(crate) fn empty() -> Self {
        Self::Full(Bytes::new())
    }

    /// Pieces that are there already, in this order.
    pub(crate) fn several(mut pieces: Vec<Bytes>) -> Self {
        pieces.retain(|piece| !piece.is_empty());
        if pieces.len() <= 1 {
            return Self::Full(pieces.pop().unwrap_or_default());
        }
        pieces.reverse();
        Self::Several(pieces)
    }

    /// Pieces, until there are no more.
    pub(crate) fn pieces(
        stream: impl futures_util::Stream<Item = io::Result<Bytes>> + Send + 'static,
    ) -> Self {
        Self::Pieces(Box::pin(stream))
    }

    /// The pieces of a live answer, which go on without hyper; `handover` tells when.
    pub(crate) fn hand_over(&mut self, handover: &Arc<Handover>) -> Option<Stream> {
        match std::mem::replace(self, Self::Elsewhere(Arc::clone(handover))) {
            Self::Live(pieces) => Some(pieces),
            other => {
                *self = other;
                None
            }
        }
    }

    /// Keeps a permit until the last piece is made; a body that is known in full needs it no more.
    pub(crate) fn hold(&mut self, permit: OwnedSemaphorePermit) {
        if let Self::Pieces(pieces) = self {
            let pieces = std::mem::replace(pieces, Box::pin(futures_util::stream::empty()));
            let held = pieces.inspect(move |_| {
                let _until_dropped = &permit;
            });
            *self = Self::pieces(held);
        }
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match self.get_mut() {
            Self::Full(bytes) if bytes.is_empty() => Poll::Ready(None),
            Self::Full(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Self::Several(pieces) => Poll::Ready(pieces.pop().map(|piece| Ok(Frame::data(piece)))),
            Self::Elsewhere(handover) => {
                handover.ask();
                Poll::Pending
            }
            Self::Pieces(pieces) | Self::Live(pieces) => {
                pieces.as_mut().poll_next(cx).map(|piece| piece.map(|piece| piece.map(Frame::data)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Full(bytes) => bytes.is_empty(),
            Self::Several(pieces) => pieces.is_empty(),
            Self::Pieces(_) | Self::Live(_) | Self::Elsewhere(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Full(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::Several(pieces) => {
                SizeHint::with_exact(pieces.iter().map(|piece| piece.len() as u64).sum())
            }
            Self::Pieces(_) | Self::Live(_) | Self::Elsewhere(_) => SizeHint::default(),
        }
    }
}

/// A request body in memory, and its share of the memory that all of them may take.
pub(crate) struct Taken {
    pub(crate) bytes: Bytes,
    /// To be kept as long as the bytes, or a copy of them, are.
    pub(crate) share: Share,
}

/// A body's share of the memory that all of them may take; an empty body has none.
pub(crate) type Share = Option<OwnedSemaphorePermit>;

/// The declared length, if there is one; none is needed when there is no body.
pub(crate) fn declared_len(body: &Incoming) -> Option<u64> {
    body.size_hint().exact()
}

/// Refuses a body that is declared too long before a byte of it is read.
pub(crate) fn check_declared(body: &Incoming, limit: u64) -> Result<(), Failure> {
    match declared_len(body) {
        Some(len) if len > limit => Err(too_large(limit)),
        _ => Ok(()),
    }
}

/// The answer to a body over `limit` bytes.
pub(crate) fn too_large(limit: u64) -> Failure {
    Failure::limit(
        StatusCode::PAYLOAD_TOO_LARGE,
        "BODY_TOO_LARGE",
        "The body is too large",
        format!("The body has more than {limit} bytes."),
        limit,
    )
    .closing()
}

impl App {
    /// Takes a body in, whole.
    pub(crate) async fn take_body(&self, body: Incoming, limit: u64) -> Result<Taken, Failure> {
        check_declared(&body, limit)?;
        if body.is_end_stream() {
            return Ok(Taken { bytes: Bytes::new(), share: None });
        }
        let declared = declared_len(&body);
        let mut share = self.share(declared.unwrap_or(BUDGET_UNIT).min(FIRST_SHARE_BYTES))?;
        let mut pieces = Pieces::new(self, body, limit);
        let Some(first) = pieces.next().await? else {
            return Ok(Taken { bytes: Bytes::new(), share: None });
        };
        let longest = declared.unwrap_or(limit);
        self.widen(&mut share, first.len(), longest)?;
        let second = if pieces.body.is_end_stream() { None } else { pieces.next().await? };
        let Some(second) = second else {
            return Ok(Taken { bytes: first, share: Some(share) });
        };
        let mut all = BytesMut::with_capacity(usize::try_from(declared.unwrap_or(0)).unwrap_or(0));
        all.extend_from_slice(&first);
        all.extend_from_slice(&second);
        loop {
            self.widen(&mut share, all.len(), longest)?;
            match pieces.next().await? {
                Some(piece) => all.extend_from_slice(&piece),
                None => return Ok(Taken { bytes: all.freeze(), share: Some(share) }),
            }
        }
    }

    /// Makes sure that a body has a share for all that has arrived of it; it is never longer than
    /// `longest`.
    fn widen(
        &self,
        share: &mut OwnedSemaphorePermit,
        arrived: usize,
        longest: u64,
    ) -> Result<(), Failure> {
        let held = share.num_permits() as u64 * BUDGET_UNIT;
        if let Some(missing) = (arrived as u64).checked_sub(held).filter(|more| *more > 0) {
            // Doubling keeps the number of steps small.
            let rest = longest.saturating_sub(held);
            share.merge(self.share(missing.max(held.min(rest)))?);
        }
        Ok(())
    }

    fn share(&self, bytes: u64) -> Result<OwnedSemaphorePermit, Failure> {
        let units = u32::try_from(bytes.div_ceil(BUDGET_UNIT)).unwrap_or(u32::MAX);
        let budget = Arc::clone(&self.body_budget);
        budget.try_acquire_many_owned(units.max(1)).map_err(|_busy| {
            let detail = "The request bodies now in memory leave no room for this one.";
            let limit = self.config.body_bytes_in_flight_max;
            Failure::busy(detail, limit).named("max-body-memory").closing()
        })
    }
}

/// A request body, piece by piece, within its limits of size and time.
pub(crate) struct Pieces<'a> {
    app: &'a App,
    body: Incoming,
    limit: u64,
    taken: u64,
    /// What the client may still make us wait until it has made progress.
    patience: Duration,
    /// Bytes since then.
    progress: u64,
}

impl<'a> Pieces<'a> {
    pub(crate) fn new(app: &'a App, body: Incoming, limit: u64) -> Self {
        Self { app, body, limit, taken: 0, patience: app.config.body_timeout, progress: 0 }
    }

    /// The next piece, or nothing at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        loop {
            // Mostly it is there already, and no clock has to be asked.
            let frame = match self.body.frame().now_or_never() {
                Some(frame) => frame,
                None => self.wait().await?,
            };
            let frame = match frame {
                None => return Ok(None),
                Some(Err(error)) => return Err(Failure::broken_body(&error).closing()),
                Some(Ok(frame)) => frame,
            };
            // Trailers say nothing that we know.
            let Ok(data) = frame.into_data() else { continue };
            self.taken += data.len() as u64;
            if self.taken > self.limit {
                return Err(too_large(self.limit));
            }
            self.progress += data.len() as u64;
            if self.progress >= PROGRESS_BYTES {
                self.progress = 0;
                self.patience = self.app.config.body_timeout;
            }
            if !data.is_empty() {
                return Ok(Some(data));
            }
        }
    }

    /// What hyper has next for us, as long as the client's time lasts.
    async fn wait(&mut self) -> Result<Option<hyper::Result<Frame<Bytes>>>, Failure> {
        let began = Instant::now();
        let frame = tokio::time::timeout(self.patience, self.body.frame()).await;
        self.patience = self.patience.saturating_sub(began.elapsed());
        frame.map_err(|_elapsed| Failure::body_timeout().closing())
    }
}
