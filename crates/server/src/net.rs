//! Sockets: accepting connections, serving HTTP on them, and ending them.
//!
//! ```text
//! accept ─► worker ─► open ─┬─ HTTP/1.1 ─┬─ all answered, or the peer is gone ─► linger ─► closed
//!                           └─ HTTP/2 ───┴─ too slow, or an answer too old ────► reset
//! ```

mod accept;
mod handler;
mod http2;
mod io;
mod live;
mod open;
mod patient;
mod worker;

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use http::{HeaderValue, Version, header};
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{HttpService, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::Instant;

pub(crate) use self::accept::Acceptor;
use self::accept::Slot;
use self::handler::Handler;
use self::io::Io;
pub(crate) use self::live::Handover;
use self::live::Live;
use self::open::{Opened, open};
use self::patient::Patient;
pub(crate) use self::worker::{Workers, count};
use crate::certificates::Current;
use crate::http::{App, Body, Peer, Reply};
use crate::metrics::Open;

/// What a client that was refused may still send before its connection is closed on it.
const LINGER_BYTES: usize = 16 * 1024 * 1024;

/// How long such a client may take.
const LINGER: Duration = Duration::from_secs(2);

/// The same while the server drains: a client that keeps its side of an idle connection open holds
/// up nobody.
const LINGER_IN_DRAIN: Duration = Duration::from_millis(200);

/// The least that hyper takes as a limit of its buffers, in bytes.
const BUFFER_BYTES_MIN: usize = 8 * 1024;

/// When the answer under way, or the newest one, has to be over.
type Until = Arc<Mutex<Option<Instant>>>;

/// How the part of a connection that is HTTP ended.
enum Ended {
    /// It is to be closed.
    Done(Io),
    /// It is to be closed at once, and what was sent forgotten.
    Cut(Io),
    /// The head of an answer is out, and its body goes on for long.
    Live(Live),
    /// Nothing is left of it.
    Gone,
}

/// Serves one connection to its end; with `tls` if there is any.
async fn connection(
    app: Arc<App>,
    socket: TcpStream,
    slot: Slot,
    draining: watch::Receiver<bool>,
    tls: Option<Current>,
) {
    // Small answers leave at once; without this they would wait for more.
    let _refused = socket.set_nodelay(true).is_err();
    let longest = app.config.response_max_duration.max(app.config.sse_max_duration);
    let ending = draining.clone();
    let sheet = Arc::clone(&app.sheet);
    let _counted = Open::connection(&sheet);
    // In a box, so that its memory comes back when the rest is live.
    let (io, cut) = match Box::pin(speak(app, socket, slot.clone(), draining, tls)).await {
        Ended::Done(io) => (io, false),
        Ended::Cut(io) => (io, true),
        Ended::Live(mut live) => {
            let over = tokio::time::timeout(longest, live.run()).await;
            if let Ok(Err(error)) = &over {
                tracing::debug!(%error, "a live connection broke");
            }
            (live.io, over.is_err())
        }
        Ended::Gone => return,
    };
    sheet.old_answers.add(u64::from(cut));
    sheet.slow_readers.add(u64::from(io.gave_up()));
    if cut || io.gave_up() {
        reset(&io.into_socket());
    } else {
        let patience = if *ending.borrow() { LINGER_IN_DRAIN } else { LINGER };
        Box::pin(linger(io, patience)).await;
    }
    drop(slot);
}

/// Serves a connection in what its client speaks.
async fn speak(
    app: Arc<App>,
    socket: TcpStream,
    slot: Slot,
    mut draining: watch::Receiver<bool>,
    tls: Option<Current>,
) -> Ended {
    let handover = Arc::<Handover>::default();
    let peer = app.peer(&socket);
    let patient = Patient::new(socket, app.config.slow_reader_timeout, Arc::clone(&handover));
    let opening = tokio::time::timeout(app.config.header_timeout, open(patient, tls.as_ref()));
    let opened = tokio::select! {
        biased;
        opened = opening => opened.unwrap_or(Opened::Gone),
        _ = draining.wait_for(|draining| *draining) => Opened::Gone,
    };
    match opened {
        Opened::Http1(io) => Box::pin(requests(app, io, handover, peer, slot, draining)).await,
        Opened::Http2(mut io) => {
            match Box::pin(http2::serve(&app, &mut io, peer, &slot, draining)).await {
                http2::Ended::Done => Ended::Done(io),
                http2::Ended::Cut => Ended::Cut(io),
            }
        }
        Opened::Refused(io) => Ended::Done(io),
        Opened::Gone => Ended::Gone,
    }
}

/// Answers requests of HTTP/1.1 until one of the answers goes on without hyper, or none follows.
async fn requests(
    app: Arc<App>,
    io: Io,
    handover: Arc<Handover>,
    peer: Option<Peer>,
    slot: Slot,
    mut draining: watch::Receiver<bool>,
) -> Ended {
    let until = Until::default();
    let longest = app.config.response_max_duration.max(app.config.sse_max_duration);
    let live = Mutex::new(None);
    let builder = builder(&app);
    let service = service_fn(|mut request: Request<Incoming>| {
        if let Some(peer) = peer {
            peer.mark(&mut request);
        }
        let in_chunks = request.version() == Version::HTTP_11;
        let handler = Handler::new(Arc::clone(&app), slot.clone(), request);
        let (until, live, handover) = (&until, &live, &handover);
        *until.lock() = None;
        handler.map(move |mut reply| {
            *until.lock() = Some(Instant::now() + longest);
            if in_chunks && let Some(pieces) = reply.body_mut().hand_over(handover) {
                reply.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
                *live.lock() = Some(pieces);
            }
            Ok::<_, Infallible>(reply)
        })
    });
    let mut connection = builder.serve_connection(TokioIo::new(io), service);
    // What hardly ever happens is polled only when it does.
    let mut drain: FuturesUnordered<_> =
        [draining.wait_for(|draining| *draining).map(drop)].into_iter().collect();
    let mut late: FuturesUnordered<_> = [overdue(&until, longest)].into_iter().collect();
    let served = async {
        let finished = tokio::select! {
            biased;
            result = until_handed_over(&mut connection, &handover) => Some(result),
            _ = drain.next() => None,
        };
        let result = if let Some(result) = finished {
            result
        } else {
            Pin::new(&mut connection).graceful_shutdown();
            until_handed_over(&mut connection, &handover).await
        };
        if let Err(error) = &result {
            tracing::debug!(%error, "a connection broke");
        }
    };
    let too_old = tokio::select! {
        biased;
        () = served => false,
        _ = late.next() => true,
    };
    drop((drain, late));
    let io = connection.into_parts().io.into_inner();
    match live.into_inner() {
        _ if too_old => Ended::Cut(io),
        Some(pieces) if handover.is_done() => Ended::Live(Live { io, pieces }),
        _ => Ended::Done(io),
    }
}

/// Drives HTTP until nothing is left to do, or to be done by hyper.
async fn until_handed_over<S, R>(
    connection: &mut http1::Connection<TokioIo<Io>, S>,
    handover: &Handover,
) -> hyper::Result<()>
where
    S: HttpService<Incoming, ResBody = Body, Error = Infallible, Future = R> + Unpin,
    R: Future<Output = Result<Reply, Infallible>> + Unpin,
{
    poll_fn(|cx| match connection.poll_without_shutdown(cx) {
        Poll::Pending if handover.is_done() => Poll::Ready(Ok(())),
        other => other,
    })
    .await
}

fn builder(app: &App) -> http1::Builder {
    let mut builder = http1::Builder::new();
    // `pipeline_flush` stays off: it holds answers back while the client has sent more than was
    // read, and a single byte behind a request would let an endless answer pile up in memory.
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(app.config.header_timeout)
        .max_header_size(app.config.header_bytes_max)
        .max_buf_size(app.config.header_bytes_max.max(BUFFER_BYTES_MIN));
    builder
}

/// Waits until an answer is older than `longest`. No answer that begins while this sleeps can be
/// overdue before it wakes.
async fn overdue(until: &Mutex<Option<Instant>>, longest: Duration) {
    loop {
        let end = *until.lock();
        tokio::time::sleep_until(end.unwrap_or_else(|| Instant::now() + longest)).await;
        if until.lock().is_some_and(|end| end <= Instant::now()) {
            return;
        }
    }
}

/// Ends a connection so that an answer given before the request was read reaches the client:
/// closing at once, with bytes unread, would make the kernel discard it.
async fn linger(mut io: Io, patience: Duration) {
    let _slow = tokio::time::timeout(patience, async {
        if io.shutdown().await.is_err() {
            return;
        }
        let mut socket = io.into_socket();
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

/// Ends a connection whose client does not read: what it was sent is given up, so that the kernel
/// does not keep it either.
fn reset(socket: &TcpStream) {
    let _gone = socket.set_zero_linger().is_err();
}
