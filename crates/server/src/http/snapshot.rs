//! `{stream}/snapshot` and `{stream}/snapshot/{offset}` (`extensions.md` §4). A body streams to
//! storage and is hashed on the way; no more than a piece of it is ever in memory.

use std::fmt::Write as _;
use std::io;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures_util::{StreamExt as _, stream};
use headwater_core::command::{Command, PublishReceipt, Receipt, StoredBlob};
use headwater_core::content::ContentType;
use headwater_core::ids::BlobId;
use headwater_core::refusal::Refusal;
use headwater_core::state::{Digest, Snapshot};
use headwater_core::stream::read::Facts;
use headwater_core::stream::snapshot::Publish;
use headwater_core::wire::etag::ETag;
use headwater_core::wire::headers::{self as h, Fields};
use headwater_core::wire::path::{self, Resource, Surface};
use headwater_core::wire::query::OffsetToken;
use headwater_core::wire::range::ByteRange;
use headwater_storage::{BlobReader, BlobWriter};
use http::request::Parts;
use http::{HeaderValue, Response, StatusCode, header};
use hyper::body::Incoming;

use super::body::{Body, Pieces, check_declared};
use super::locate::{ATTEMPTS_MAX, blocking};
use super::respond::{self, Answer, Failure, Reply};
use super::retention::target;
use super::{App, Place, check_encoding};
use crate::auth::{Access, link};
use crate::digest;
use crate::engine::Outcome;
use crate::random;

/// A body is handed to storage in pieces of about this size.
const PIECE_BYTES: usize = 256 * 1024;

pub(super) async fn publish(
    app: &Arc<App>,
    head: &Parts,
    body: Incoming,
    place: Place,
    at: Option<&str>,
) -> Answer {
    let fields = Fields::of(&head.headers);
    let target = target(head, at)?;
    let content = fields.content_type()?.unwrap_or_default();
    let expected = fields.snapshot_match()?;
    check_encoding(head)?;
    check_declared(&body, app.config.snapshot_bytes_max)?;
    let mut publish = Publish {
        name: place.name.clone(),
        target,
        evidence: None,
        // What is no text is no digest, and matches none.
        expected: expected.map(|value| String::from_utf8_lossy(value).into_owned()),
        content,
        blob: None,
        retain: place.surface == Surface::Ds,
    };
    decide(app, &mut publish).await?;
    let stored = store(app, &publish.content, body).await?;
    let blob = stored.blob;
    publish.blob = Some(stored);
    let decided = decide(app, &mut publish).await;
    let taken = matches!(&decided, Ok(Some(receipt)) if receipt.snapshot.blob == blob);
    // After a fault it is unknown whether the log names the body: the next start will know.
    if !taken && matches!(decided, Ok(_) | Err(Failure::Refused(_))) {
        let engine = Arc::clone(&app.engine);
        blocking(move || engine.store().blobs().remove(blob)).await?;
    }
    let Some(receipt) = decided? else { unreachable!("a publish with a body is decided") };
    Ok(reply(&receipt))
}

/// Decides with fresh evidence; without a body, whether the head alone would be refused.
async fn decide(app: &Arc<App>, publish: &mut Publish) -> Result<Option<PublishReceipt>, Failure> {
    for _ in 0..ATTEMPTS_MAX {
        let facts = app.facts(&publish.name).await?;
        publish.evidence = app.evidence(&facts, publish.target).await?;
        match app.engine.submit(&Command::Publish(publish.clone()))?.wait().await? {
            Outcome::Stale => {}
            Outcome::Refused(refusal) => return Err(refusal.into()),
            Outcome::Accepted(Receipt::Published(receipt)) => return Ok(Some(receipt)),
            Outcome::Accepted(_) => return Ok(None),
        }
    }
    Err(Failure::unsettled())
}

/// Stores a body under a name of its own.
async fn store(
    app: &Arc<App>,
    content: &ContentType,
    body: Incoming,
) -> Result<StoredBlob, Failure> {
    let blob = BlobId(random::id());
    let engine = Arc::clone(&app.engine);
    let mut writer = blocking(move || engine.store().blobs().create(blob)).await?;
    let mut hasher = Box::new(digest::start(content));
    let mut pieces = Pieces::new(app, body, app.config.snapshot_bytes_max);
    let mut buffer = BytesMut::with_capacity(PIECE_BYTES);
    while let Some(piece) = pieces.next().await? {
        buffer.extend_from_slice(&piece);
        if buffer.len() >= PIECE_BYTES {
            (writer, hasher) = write(writer, hasher, buffer.split().freeze()).await?;
        }
    }
    let (writer, hasher) = write(writer, hasher, buffer.freeze()).await?;
    let len = blocking(move || writer.finish()).await?;
    Ok(StoredBlob { blob, len, digest: Digest(*hasher.finalize().as_bytes()) })
}

async fn write(
    mut writer: BlobWriter,
    mut hasher: Box<blake3::Hasher>,
    bytes: Bytes,
) -> Result<(BlobWriter, Box<blake3::Hasher>), Failure> {
    blocking(move || {
        hasher.update(&bytes);
        writer.write(&bytes)?;
        Ok((writer, hasher))
    })
    .await
}

fn reply(receipt: &PublishReceipt) -> Reply {
    let mut reply = respond::status(StatusCode::NO_CONTENT);
    let headers = reply.headers_mut();
    respond::insert(headers, h::STREAM_NEXT_OFFSET, receipt.tail);
    respond::snapshot(headers, &receipt.snapshot);
    respond::insert(headers, h::STREAM_RETAINED_OFFSET, receipt.retained);
    reply
}

/// `GET {stream}/snapshot`: where the visible snapshot is.
pub(super) async fn redirect(app: &Arc<App>, head: &Parts, place: &Place) -> Answer {
    let facts = app.facts(&place.name).await?;
    let snapshot = facts.snapshot.as_ref().ok_or(Refusal::SnapshotNotFound)?;
    let resource = Resource::SnapshotAt(snapshot.offset.to_string());
    let mut reply = respond::status(StatusCode::TEMPORARY_REDIRECT);
    let headers = reply.headers_mut();
    let mut location = path::encode(place.surface, &place.name, &resource);
    // A signed link covers where it leads.
    let linked = head.extensions.get::<Access>().is_some_and(Access::is_link);
    if let Some(token) = link::of_query(head.uri.query()).filter(|_| linked) {
        let _infallible = write!(location, "?{}={token}", link::PARAMETER).is_ok();
    }
    respond::insert(headers, header::LOCATION, location);
    respond::snapshot(headers, snapshot);
    headers.insert(header::CACHE_CONTROL, respond::NO_STORE);
    if head.method == http::Method::GET {
        app.engine.renew(&facts).wait().await?;
    }
    Ok(reply)
}

/// `GET {stream}/snapshot/{offset}`.
pub(super) async fn get(app: &Arc<App>, head: &Parts, place: &Place, at: &str) -> Answer {
    let facts = app.facts(&place.name).await?;
    let token = OffsetToken::parse_position(at)?;
    let snapshot = facts
        .snapshot
        .as_ref()
        .filter(|snapshot| token == OffsetToken::At(snapshot.offset))
        .ok_or(Refusal::SnapshotNotFound)?;
    let etag = ETag::of_digest(&snapshot.digest.to_string());
    let fields = Fields::of(&head.headers);
    let mut reply = Response::new(Body::empty());
    let headers = reply.headers_mut();
    respond::insert(headers, header::CONTENT_TYPE, snapshot.content.as_str());
    respond::insert(headers, header::ETAG, &etag);
    headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    respond::snapshot(headers, snapshot);
    respond::insert(headers, h::STREAM_NEXT_OFFSET, snapshot.offset);
    respond::insert(headers, h::STREAM_UP_TO_DATE, facts.tail == snapshot.offset);
    if fields.if_none_match(&etag) {
        *reply.status_mut() = StatusCode::NOT_MODIFIED;
        app.engine.renew(&facts).wait().await?;
        return Ok(reply);
    }
    let range = fields.range(snapshot.len, &etag);
    if let Some(range) = range.content_range(snapshot.len) {
        respond::insert(headers, header::CONTENT_RANGE, range);
    }
    let (status, start, end) = match range {
        ByteRange::Full => (StatusCode::OK, 0, snapshot.len),
        ByteRange::Part { start, end } => (StatusCode::PARTIAL_CONTENT, start, end),
        ByteRange::Unsatisfiable => {
            *reply.status_mut() = StatusCode::RANGE_NOT_SATISFIABLE;
            return Err(unsatisfiable(reply, snapshot.len));
        }
    };
    respond::insert(headers, header::CONTENT_LENGTH, end - start);
    *reply.status_mut() = status;
    if head.method == http::Method::GET {
        let reader = app.open_blob(&facts, snapshot).await?.ok_or(Refusal::SnapshotNotFound)?;
        *reply.body_mut() = Body::pieces(blob_pieces(reader, start, end).await?);
        app.engine.renew(&facts).wait().await?;
    }
    Ok(reply)
}

fn unsatisfiable(mut reply: Reply, len: u64) -> Failure {
    let failure = Failure::problem(
        StatusCode::RANGE_NOT_SATISFIABLE,
        "RANGE_NOT_SATISFIABLE",
        "No such range",
        format!("The snapshot has {len} bytes."),
    );
    match failure {
        Failure::Problem(problem, _) => {
            let mut headers = std::mem::take(reply.headers_mut());
            headers.remove(header::ETAG);
            Failure::Problem(problem, headers)
        }
        other => other,
    }
}

/// `DELETE {stream}/snapshot/{offset}`: the visible one is needed, and there is no other.
pub(super) async fn delete(app: &Arc<App>, place: &Place, at: &str) -> Answer {
    let facts = app.facts(&place.name).await?;
    let token = OffsetToken::parse_position(at)?;
    match &facts.snapshot {
        Some(snapshot) if token == OffsetToken::At(snapshot.offset) => {
            Err(Refusal::SnapshotVisible.into())
        }
        _ => Err(Refusal::SnapshotNotFound.into()),
    }
}

impl App {
    /// Opens the body of a snapshot that `facts` name; nothing if it was superseded since, and its
    /// body is gone. Once open, it stays readable even when it is superseded.
    pub(super) async fn open_blob(
        &self,
        facts: &Facts,
        snapshot: &Snapshot,
    ) -> Result<Option<BlobReader>, Failure> {
        let (engine, blob) = (Arc::clone(&self.engine), snapshot.blob);
        let opened = blocking(move || engine.store().blobs().open(blob)).await;
        if opened.is_err() {
            // A body that nobody names any more is not damaged.
            let now = self.engine.look_at(facts.id).wait().await??;
            if now.snapshot.is_none_or(|visible| visible.blob != blob) {
                return Ok(None);
            }
        }
        opened.map(Some)
    }
}

/// The bytes of a blob from `start` to `end`, as fast as the client takes them. The first piece is
/// read at once: damage there is an answer of its own.
pub(super) async fn blob_pieces(
    reader: BlobReader,
    start: u64,
    end: u64,
) -> Result<impl futures_util::Stream<Item = io::Result<Bytes>> + Send, Failure> {
    let (first, rest) = match piece(reader, start, end).await? {
        Some((bytes, reader, next)) => (Some(Ok(bytes)), Some((reader, next))),
        None => (None, None),
    };
    let rest = stream::unfold(rest, move |state| async move {
        let (reader, at) = state?;
        match piece(reader, at, end).await {
            Ok(Some((bytes, reader, next))) => Some((Ok(bytes), Some((reader, next)))),
            Ok(None) => None,
            // Cut, so that what is missing does not look like the end.
            Err(failure) => {
                failure.broke_off();
                Some((Err(io::Error::other("the snapshot could not be read on")), None))
            }
        }
    });
    Ok(stream::iter(first).chain(rest))
}

/// The piece at `at`, and where to go on; nothing at the end.
async fn piece(
    reader: BlobReader,
    at: u64,
    end: u64,
) -> Result<Option<(Bytes, BlobReader, u64)>, Failure> {
    if at >= end {
        return Ok(None);
    }
    let max = usize::try_from(end - at).unwrap_or(usize::MAX).min(PIECE_BYTES);
    blocking(move || {
        let bytes = reader.read(at, max)?;
        let next = at + bytes.len() as u64;
        Ok(Some((bytes, reader, next)))
    })
    .await
}
