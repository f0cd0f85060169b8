//! Sockets: accepting connections, serving HTTP/1.1 on them, and ending them.
//!
//! ```text
//! accept ─► worker ─► connection ─┬─ every answer given, or the peer is gone ─► linger ─► closed
//!                                 └─ too slow, or an answer too old ──────────► reset
//! ```

mod accept;
mod handler;
mod patient;
mod worker;

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::Instant;

pub(crate) use self::accept::Acceptor;
use self::accept::Slot;
use self::handler::Handler;
use self::patient::Patient;
pub(crate) use self::worker::{Workers, count};
use crate::http::App;

/// What a client that was refused may still send before its connection is closed on it.
const LINGER_BYTES: usize = 16 * 1024 * 1024;

/// How long such a client may take.
const LINGER: Duration = Duration::from_secs(2);

/// The least that hyper takes as a limit of its buffers, in bytes.
const BUFFER_BYTES_MIN: usize = 8 * 1024;

/// When the answer under way, or the newest one, has to be over.
type Until = Arc<Mutex<Option<Instant>>>;

async fn connection(
    app: Arc<App>,
    socket: TcpStream,
    slot: Slot,
    mut draining: watch::Receiver<bool>,
) {
    // Small answers leave at once; without this they would wait for more.
    let _refused = socket.set_nodelay(true).is_err();
    let until = Until::default();
    let longest = app.config.response_max_duration.max(app.config.sse_max_duration);
    let io = TokioIo::new(Patient::new(socket, app.config.slow_reader_timeout));
    let builder = builder(&app);
    let service = service_fn(|request: Request<Incoming>| {
        let handler = Handler::new(Arc::clone(&app), slot.clone(), request);
        let until = &until;
        *until.lock() = None;
        handler.map(move |reply| {
            *until.lock() = Some(Instant::now() + longest);
            Ok::<_, Infallible>(reply)
        })
    });
    let mut connection = builder.serve_connection(io, service);
    let served = async {
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
    };
    let too_old = tokio::select! {
        () = served => false,
        () = overdue(&until, longest) => true,
    };
    let io = connection.into_parts().io.into_inner();
    if too_old || io.gave_up() {
        reset(&io.into_socket());
    } else {
        linger(io.into_socket()).await;
    }
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

/// Ends a connection whose client does not read: what it was sent is given up, so that the kernel
/// does not keep it either.
fn reset(socket: &TcpStream) {
    let _gone = socket.set_zero_linger().is_err();
}
