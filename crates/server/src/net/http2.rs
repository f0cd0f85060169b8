//! HTTP/2: many requests at a time on one connection.
//!
//! Each stream has a task of its own. What holds for a connection of HTTP/1.1 holds for a stream
//! here: its client is cut when it takes nothing for too long, or its answer is too old. The answer
//! leaves in small pieces, so that what a stream keeps in memory is small, and that it moves can be
//! seen.
//!
//! ```text
//! stream ─► handler ─► body ─► piece ─► (flow control) ─► socket
//!                        one look now and then: is a piece older than a client may take for it?
//! ```

mod streams;

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use http::header;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior};

use self::streams::{Account, Pieces, Streams, Verdict};
use super::accept::Slot;
use super::handler::Handler;
use super::io::Io;
use crate::http::{App, Peer};

/// The largest frame that a client may send, in bytes: the least that the protocol allows.
const FRAME_BYTES_MAX: u32 = 16 * 1024;

/// Streams that the client has reset before they were looked at: beyond, the connection ends.
const RESET_STREAMS_MAX: usize = 20;

/// Streams that we have reset because of errors: beyond, the connection ends.
const FAILED_STREAMS_MAX: usize = 64;

/// The largest window that the protocol knows, in bytes.
const WINDOW_BYTES_MAX: u32 = (1 << 31) - 1;

/// The least time between pings.
const PING_INTERVAL_MIN: Duration = Duration::from_secs(1);

/// How long a client may take to answer a ping.
const PING_TIMEOUT: Duration = Duration::from_secs(20);

/// How much more often streams are looked at than the shortest of their limits is long.
const LOOKS: u32 = 8;

/// The streams of a connection are looked at at least this often.
const LOOK_EVERY_MAX: Duration = Duration::from_secs(5);

/// How a connection ended.
pub(super) enum Ended {
    /// By itself.
    Done,
    /// The client did not take what was sent, or not leave when it was told to.
    Cut,
}

/// Answers the requests of one connection until it ends.
pub(super) async fn serve(
    app: &Arc<App>,
    io: &mut Io,
    peer: Option<Peer>,
    slot: &Slot,
    mut draining: watch::Receiver<bool>,
) -> Ended {
    let streams = Streams::new(app.config.slow_reader_timeout);
    let longest = app.config.response_max_duration.max(app.config.sse_max_duration);
    let service = service_fn(|mut request: Request<Incoming>| {
        if let Some(peer) = peer {
            peer.mark(&mut request);
        }
        let permit = Arc::clone(&app.streams).try_acquire_owned();
        let (app, slot) = (Arc::clone(app), slot.clone());
        async move {
            let account = Account::of_this_task();
            let mut reply = match permit {
                Ok(permit) => {
                    account.hold(permit);
                    Handler::new(app, (slot, Arc::clone(&account)), request).await
                }
                Err(_none_left) => app.crowded(),
            };
            // It belongs to HTTP/1.1: here a stream ends, not the connection.
            reply.headers_mut().remove(header::CONNECTION);
            account.answered(Instant::now() + longest);
            Ok::<_, Infallible>(reply.map(|body| Pieces::new(body, account)))
        }
    });
    let mut connection =
        pin!(builder(app, streams.clone()).serve_connection(TokioIo::new(io), service));
    let mut look = tokio::time::interval(look_every(app));
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut drain = pin!(draining.wait_for(|draining| *draining).map(drop).fuse());
    let mut idle = Idle::new(app);
    let ended = loop {
        tokio::select! {
            biased;
            result = &mut connection => {
                if let Err(error) = result {
                    tracing::debug!(%error, "a connection broke");
                }
                break Ended::Done;
            }
            () = &mut drain => connection.as_mut().graceful_shutdown(),
            now = look.tick() => match streams.look(now) {
                Verdict::Stuck => break Ended::Cut,
                verdict => match idle.after(verdict, now) {
                    Next::Wait => {}
                    Next::Leave => connection.as_mut().graceful_shutdown(),
                    Next::Cut => break Ended::Cut,
                },
            },
        }
    };
    streams.abort();
    ended
}

fn builder(app: &App, streams: Streams) -> http2::Builder<Streams> {
    let config = &app.config;
    let window = config.http2_window_bytes.min(WINDOW_BYTES_MAX);
    let send = config.http2_send_bytes_max.min(WINDOW_BYTES_MAX as usize);
    let mut builder = http2::Builder::new(streams);
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(config.http2_connection_streams_max)
        .max_header_list_size(u32::try_from(config.header_bytes_max).unwrap_or(u32::MAX))
        .initial_stream_window_size(window)
        .initial_connection_window_size(window)
        .max_frame_size(FRAME_BYTES_MAX)
        .max_send_buf_size(send)
        .max_pending_accept_reset_streams(RESET_STREAMS_MAX)
        .max_local_error_reset_streams(FAILED_STREAMS_MAX)
        .keep_alive_interval(config.http2_ping_interval.max(PING_INTERVAL_MIN))
        .keep_alive_timeout(PING_TIMEOUT);
    builder
}

fn look_every(app: &App) -> Duration {
    let shortest = app.config.slow_reader_timeout.min(app.config.header_timeout);
    (shortest / LOOKS).clamp(Duration::from_millis(1), LOOK_EVERY_MAX)
}

/// How long a connection has had no stream.
struct Idle {
    since: Option<Instant>,
    /// How long it may.
    patience: Duration,
    /// How long it may take to leave.
    grace: Duration,
}

/// What is to be done with a connection that has no streams.
enum Next {
    Wait,
    /// It is to be told that it ends.
    Leave,
    /// It was told, and is still there.
    Cut,
}

impl Idle {
    fn new(app: &App) -> Self {
        let (patience, grace) = (app.config.header_timeout, app.config.slow_reader_timeout);
        Self { since: None, patience, grace }
    }

    fn after(&mut self, verdict: Verdict, now: Instant) -> Next {
        if !matches!(verdict, Verdict::Idle) {
            self.since = None;
            return Next::Wait;
        }
        let age = now.saturating_duration_since(*self.since.get_or_insert(now));
        match () {
            () if age < self.patience => Next::Wait,
            () if age < self.patience + self.grace => Next::Leave,
            () => Next::Cut,
        }
    }
}
