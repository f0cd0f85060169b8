//! The ceilings that a durable server is compared with: hyper that reads a body and answers 204,
//! and the same after the body is on disk.
//!
//! With `--fsync FILE` one thread commits in groups: it writes all bodies that have come, calls
//! `fdatasync` once, and releases their answers. It keeps no index and serves no reads, so that a
//! server which is as fast does everything else for nothing. Without, nothing is kept at all.
//! A multi-threaded runtime, as most servers have it.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;

use bytes::Bytes;
use clap::Parser;
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::sync::oneshot;

/// Answers 201 to PUT and 204 to everything else.
#[derive(Debug, Parser)]
struct Args {
    /// Where to listen; port 0 picks a free one, which is printed.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,

    /// Commit bodies to this file, in groups, before answering.
    #[arg(long, value_name = "FILE")]
    fsync: Option<PathBuf>,
}

/// A body that waits to be on disk, and how its request learns of it.
struct Commit {
    body: Bytes,
    done: oneshot::Sender<()>,
}

/// Where bodies go, if they are kept.
type Log = Option<mpsc::SyncSender<Commit>>;

/// A group is not made larger than this.
const GROUP_BYTES_MAX: usize = 8 << 20;
/// More waiting bodies than connections never happen.
const WAITING_MAX: usize = 65_536;

fn main() -> io::Result<()> {
    let args = Args::parse();
    let log = args.fsync.map(start_log).transpose()?;
    let runtime = Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(serve(args.listen, log))
}

fn start_log(path: PathBuf) -> io::Result<mpsc::SyncSender<Commit>> {
    let file = OpenOptions::new().create(true).write(true).truncate(true).open(path)?;
    let (sender, commits) = mpsc::sync_channel(WAITING_MAX);
    thread::spawn(move || commit_groups(file, &commits));
    Ok(sender)
}

/// Ends with the last sender, or at the first error: then no request is answered any more.
fn commit_groups(mut file: File, commits: &mpsc::Receiver<Commit>) {
    let mut bytes = Vec::new();
    while let Ok(first) = commits.recv() {
        bytes.clear();
        bytes.extend_from_slice(&first.body);
        let mut group = vec![first.done];
        while bytes.len() < GROUP_BYTES_MAX
            && let Ok(next) = commits.try_recv()
        {
            bytes.extend_from_slice(&next.body);
            group.push(next.done);
        }
        if file.write_all(&bytes).and_then(|()| file.sync_data()).is_err() {
            return;
        }
        for done in group {
            // An error if the client went away, which is its own affair.
            let _went_away = done.send(()).is_err();
        }
    }
}

async fn serve(listen: SocketAddr, log: Log) -> io::Result<()> {
    let listener = TcpListener::bind(listen).await?;
    writeln!(io::stdout(), "listening on http://{}", listener.local_addr()?)?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let log = log.clone();
        tokio::spawn(async move {
            let service = service_fn(move |request| answer(log.clone(), request));
            let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
            // Clients may break off at any time.
            drop(connection.await);
        });
    }
}

async fn answer(log: Log, request: Request<Incoming>) -> hyper::Result<Response<Empty<Bytes>>> {
    let status = match *request.method() {
        Method::PUT => StatusCode::CREATED,
        _ => StatusCode::NO_CONTENT,
    };
    let body = request.into_body().collect().await?.to_bytes();
    let is_kept = match log {
        Some(log) if !body.is_empty() => commit(&log, body).await,
        Some(_) | None => true,
    };
    let mut response = Response::new(Empty::new());
    *response.status_mut() = if is_kept { status } else { StatusCode::INSUFFICIENT_STORAGE };
    Ok(response)
}

/// Whether the body is on disk.
async fn commit(log: &mpsc::SyncSender<Commit>, body: Bytes) -> bool {
    let (done, on_disk) = oneshot::channel();
    log.try_send(Commit { body, done }).is_ok() && on_disk.await.is_ok()
}
