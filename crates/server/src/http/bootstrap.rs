//! `GET {stream}/bootstrap` (`extensions.md` §6): the visible snapshot, then every later message,
//! in one answer and one consistent view, streamed in constant memory.

use std::io;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use futures_util::stream;
use headwater_core::json;
use headwater_core::stream::read::Facts;
use headwater_core::wire::headers as h;
use headwater_core::wire::multipart::{Boundary, PART_TAIL};
use headwater_core::wire::query::refuse_live;
use headwater_storage::{Chunk, Reader};
use http::request::Parts;
use http::{HeaderValue, Method, Response, header};

use super::body::Body;
use super::encode::{Candidate, encode};
use super::locate::{ATTEMPTS_MAX, next};
use super::page::stream_headers;
use super::respond::{self, Answer, Failure, Reply};
use super::snapshot::blob_pieces;
use super::{App, Place};
use crate::random;

/// Small messages are collected until an answer's piece has about this many bytes.
const PIECE_BYTES: usize = 64 * 1024;

/// The content type of the first part when there is no snapshot.
const NO_SNAPSHOT_TYPE: &str = "application/octet-stream";

pub(super) async fn get(app: &Arc<App>, head: &Parts, place: &Place) -> Answer {
    for _ in 0..ATTEMPTS_MAX {
        let facts = app.facts(&place.name).await?;
        refuse_live(head.uri.query())?;
        if let Some(reply) = view(app, head, facts).await? {
            return Ok(reply);
        }
    }
    Err(Failure::unsettled())
}

/// The answer, or nothing when what `facts` name was given up before this could take hold of it.
async fn view(app: &Arc<App>, head: &Parts, facts: Facts) -> Result<Option<Reply>, Failure> {
    let boundary = Boundary::new(random::id());
    let mut reply = Response::new(Body::empty());
    let headers = reply.headers_mut();
    stream_headers(headers, &facts);
    let candidate = candidate(&facts);
    if app.config.encoders_max > 0 && candidate.compressible {
        headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    }
    respond::insert(headers, header::CONTENT_TYPE, boundary.content_type());
    headers.insert(header::CACHE_CONTROL, respond::NO_STORE);
    if facts.snapshot.is_none() {
        headers.insert(h::STREAM_SNAPSHOT_OFFSET, HeaderValue::from_static("-1"));
    }
    respond::insert(headers, h::STREAM_NEXT_OFFSET, facts.tail);
    headers.insert(h::STREAM_UP_TO_DATE, respond::TRUE);
    if facts.closed {
        headers.insert(h::STREAM_CLOSED, respond::TRUE);
    }
    let right = app.encoder(app.coding(head, &candidate));
    if head.method == Method::GET {
        app.engine.renew(&facts).wait().await?;
        let Some(body) = body(app, facts, boundary).await? else { return Ok(None) };
        *reply.body_mut() = body;
    }
    if let Some(right) = right {
        encode(&mut reply, right);
    }
    Ok(Some(reply))
}

/// What the parts hold, all together.
fn candidate(facts: &Facts) -> Candidate {
    match &facts.snapshot {
        Some(snapshot) => Candidate::new(
            facts.tail.since(snapshot.offset).saturating_add(snapshot.len),
            &[&facts.content, &snapshot.content],
        ),
        None => Candidate::new(facts.tail.since(facts.retained), &[&facts.content]),
    }
}

async fn body(app: &Arc<App>, facts: Facts, boundary: Boundary) -> Result<Option<Body>, Failure> {
    let from = facts.snapshot.as_ref().map_or(facts.retained, |snapshot| snapshot.offset);
    // Both hold what they need from here on: nothing that happens later changes this answer.
    let reader = app.reader(&facts, from, facts.tail);
    let blob = match &facts.snapshot {
        Some(snapshot) => match app.open_blob(&facts, snapshot).await? {
            Some(reader) => Some((reader, snapshot.len)),
            None => return Ok(None),
        },
        None => None,
    };
    // The reader protects what it needs only since it was made.
    if app.engine.look_at(facts.id).wait().await??.retained > from {
        return Ok(None);
    }
    let first_type = match &facts.snapshot {
        Some(snapshot) => snapshot.content.as_str().to_owned(),
        None => NO_SNAPSHOT_TYPE.to_owned(),
    };
    let mut opening = BytesMut::new();
    boundary.begin_part(&mut opening, &first_type);
    let opening = stream::iter([Ok(opening.freeze())]);
    // The first piece of each is read before the head goes out: damage is an answer of its own.
    let snapshot = match blob {
        Some((reader, len)) => Some(blob_pieces(reader, 0, len).await?),
        None => None,
    };
    let (ready, reader) = next(reader).await?.unzip();
    let updates = updates(Updates {
        boundary,
        content: facts.content.as_str().to_owned(),
        is_json: facts.is_json(),
        ready,
        reader,
        inside: false,
    });
    let snapshot = stream::iter(snapshot).flatten();
    Ok(Some(Body::pieces(opening.chain(snapshot).chain(updates))))
}

/// The parts behind the snapshot.
struct Updates {
    boundary: Boundary,
    content: String,
    is_json: bool,
    /// A chunk that was read ahead.
    ready: Option<Chunk>,
    /// None when everything was read.
    reader: Option<Reader>,
    /// Whether a part is open whose message goes on in the next chunk.
    inside: bool,
}

fn updates(state: Updates) -> impl futures_util::Stream<Item = io::Result<Bytes>> + Send {
    // The first piece ends the snapshot's part.
    let opening = Bytes::from_static(PART_TAIL);
    stream::unfold(Some((state, opening)), |state| async move {
        let (mut state, opening) = state?;
        let mut out = BytesMut::with_capacity(PIECE_BYTES);
        out.extend_from_slice(&opening);
        loop {
            match state.next().await {
                Ok(Some(chunk)) => {
                    state.add(&mut out, &chunk);
                    if out.len() >= PIECE_BYTES {
                        return Some((Ok(out.freeze()), Some((state, Bytes::new()))));
                    }
                }
                Ok(None) => {
                    state.boundary.close(&mut out);
                    return Some((Ok(out.freeze()), None));
                }
                // Cut without the final boundary, so that the client can tell.
                Err(failure) => {
                    failure.broke_off();
                    let cut = io::Error::other("the stream could not be read on");
                    return Some((Err(cut), None));
                }
            }
        }
    })
}

impl Updates {
    async fn next(&mut self) -> Result<Option<Chunk>, Failure> {
        if self.ready.is_some() {
            return Ok(self.ready.take());
        }
        let Some(reader) = self.reader.take() else { return Ok(None) };
        let (chunk, reader) = next(reader).await?.unzip();
        self.reader = reader;
        Ok(chunk)
    }

    fn add(&mut self, out: &mut BytesMut, chunk: &Chunk) {
        let mut start = 0;
        for end in chunk.ends.iter().map(|end| *end as usize) {
            self.begin(out);
            let message = &chunk.bytes[start..end];
            let message = if self.is_json { json::without_separator(message) } else { message };
            out.extend_from_slice(message);
            out.extend_from_slice(PART_TAIL);
            self.inside = false;
            start = end;
        }
        let rest = &chunk.bytes[start..];
        if !rest.is_empty() {
            self.begin(out);
            out.extend_from_slice(rest);
            self.inside = true;
        }
    }

    fn begin(&mut self, out: &mut BytesMut) {
        if !self.inside {
            self.boundary.begin_part(out, &self.content);
        }
    }
}
