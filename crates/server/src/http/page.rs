//! One page of a stream as an answer: its head, and its body in the form that the client asked for.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures_util::stream;
use headwater_core::ids::{Offset, Record};
use headwater_core::json;
use headwater_core::state::Life;
use headwater_core::stream::read::Facts;
use headwater_core::wire::accept::Representation;
use headwater_core::wire::etag::{ETag, ReadIdentity};
use headwater_core::wire::headers::{self as h, Fields};
use headwater_storage::{Chunk, Reader};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, StatusCode, header};

use super::App;
use super::body::Body;
use super::locate::next;
use super::respond::{self, Failure, Reply};

/// A page up to this size is read before the answer begins, so that its length and its first
/// fault are known.
const SMALL_PAGE_BYTES: u64 = 256 * 1024;

const CATCH_UP: HeaderValue =
    HeaderValue::from_static("public, max-age=60, stale-while-revalidate=300");

/// The same for a page that nothing can be added to: it ends before the tail, or the stream is
/// closed. Not longer than an hour, since the stream may be deleted and its name used again.
const SEALED: HeaderValue =
    HeaderValue::from_static("public, max-age=3600, stale-while-revalidate=300, immutable");

/// Which messages an answer holds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Page {
    pub(super) from: (Offset, Record),
    pub(super) to: (Offset, Record),
}

impl App {
    /// The page of at most `bytes_max` that begins at `from`; one message may be longer.
    pub(super) async fn page(
        &self,
        facts: &Facts,
        from: (Offset, Record),
        bytes_max: u64,
        max_records: Option<u64>,
    ) -> Result<Page, Failure> {
        if from.0 >= facts.tail {
            return Ok(Page { from, to: from });
        }
        // The usual case of a live reader needs no lookup: all that is left fits.
        let left = facts.next.0.saturating_sub(from.1.0);
        let all_records = max_records.is_none_or(|max| left <= max);
        if all_records && facts.tail.since(from.0) <= bytes_max {
            return Ok(Page { from, to: (facts.tail, facts.next) });
        }
        let messages_max = max_records.unwrap_or(u64::MAX);
        let extent = self.extent(facts, from.0, bytes_max, messages_max).await?;
        Ok(Page { from, to: (extent.end, extent.record_end) })
    }

    /// The answer to a catch-up read, or 304 when the client has it already.
    pub(super) async fn page_reply(
        self: &Arc<Self>,
        head: &Parts,
        facts: &Facts,
        page: Page,
    ) -> Result<Reply, Failure> {
        let fields = Fields(&head.headers);
        let representation =
            if facts.is_json() { fields.representation() } else { Representation::Array };
        let etag = ETag::of_read(&ReadIdentity {
            salt: self.engine.salt(),
            stream: facts.id,
            start: page.from.0,
            end: page.to.0,
            closed: facts.closed && page.to.0 == facts.tail,
            representation,
        });
        let mut reply = if fields.if_none_match(&etag) {
            respond::status(StatusCode::NOT_MODIFIED)
        } else {
            let reader = self.reader(facts, page.from.0, page.to.0);
            http::Response::new(body(reader, page, facts.is_json(), representation).await?)
        };
        let headers = reply.headers_mut();
        respond::insert(headers, header::ETAG, etag);
        page_headers(headers, facts, page, representation);
        self.engine.renew(facts).wait().await?;
        Ok(reply)
    }
}

/// What the head of an answer says of a page.
pub(super) fn page_headers(
    headers: &mut HeaderMap,
    facts: &Facts,
    page: Page,
    representation: Representation,
) {
    let content = match representation {
        Representation::Array => facts.content.as_str(),
        other => other.media_type(),
    };
    respond::insert(headers, header::CONTENT_TYPE, content);
    respond::insert(headers, h::STREAM_NEXT_OFFSET, page.to.0);
    let at_tail = page.to.0 == facts.tail;
    if at_tail {
        headers.insert(h::STREAM_UP_TO_DATE, respond::TRUE);
        if facts.closed {
            headers.insert(h::STREAM_CLOSED, respond::TRUE);
        }
    }
    let cache = if page.from.0 == page.to.0 {
        respond::NO_STORE
    } else if !at_tail || facts.closed {
        SEALED
    } else {
        CATCH_UP
    };
    headers.insert(header::CACHE_CONTROL, cache);
    stream_headers(headers, facts);
    if facts.is_json() {
        respond::insert(headers, h::STREAM_RECORD_START, page.from.1);
        respond::insert(headers, h::STREAM_RECORD_NEXT, page.to.1);
    }
}

/// What reads and HEAD say of a stream: its snapshot, its boundary of retention, its records.
pub(super) fn stream_headers(headers: &mut HeaderMap, facts: &Facts) {
    if let Some(snapshot) = &facts.snapshot {
        respond::snapshot(headers, snapshot);
    }
    if facts.retained > Offset::ZERO {
        respond::insert(headers, h::STREAM_RETAINED_OFFSET, facts.retained);
    }
    if facts.is_json() {
        headers.insert(header::VARY, HeaderValue::from_static("accept"));
        headers.insert(h::STREAM_EXTENSIONS, HeaderValue::from_static(h::EXTENSION_RECORDS));
        respond::insert(headers, h::STREAM_RECORD_FIRST, facts.first);
    }
}

/// When the stream ends, as it was configured.
pub(super) fn lifetime_headers(headers: &mut HeaderMap, facts: &Facts) {
    match &facts.life {
        Life::Endless => {}
        Life::Ttl { window, .. } => respond::insert(headers, h::STREAM_TTL, window),
        Life::Until { at, .. } => respond::insert(headers, h::STREAM_EXPIRES_AT, at.as_str()),
    }
}

/// The body of a page.
async fn body(
    reader: Reader,
    page: Page,
    is_json: bool,
    representation: Representation,
) -> Result<Body, Failure> {
    let mut form = Form::new(is_json, representation);
    if page.from.0 == page.to.0 {
        return Ok(Body::Full(form.finish()));
    }
    let len = page.to.0.since(page.from.0);
    // The first chunk is read before the head goes out: damage is an answer of its own.
    let Some((first, rest)) = next(reader).await? else { return Ok(Body::Full(form.finish())) };
    if len > SMALL_PAGE_BYTES {
        return Ok(Body::pieces(pieces(form, first, rest)));
    }
    if !is_json && first.bytes.len() as u64 == len {
        return Ok(Body::Full(first.bytes));
    }
    let mut all = BytesMut::with_capacity(usize::try_from(len).unwrap_or(0) + 2);
    all.extend_from_slice(&form.chunk(&first));
    let mut reader = rest;
    while let Some((chunk, rest)) = next(reader).await? {
        all.extend_from_slice(&form.chunk(&chunk));
        reader = rest;
    }
    all.extend_from_slice(&form.finish());
    Ok(Body::Full(all.freeze()))
}

/// The rest of a long page, chunk by chunk.
fn pieces(
    form: Form,
    first: Chunk,
    reader: Reader,
) -> impl futures_util::Stream<Item = std::io::Result<Bytes>> + Send {
    struct State {
        form: Form,
        ready: Option<Chunk>,
        reader: Option<Reader>,
    }
    let state = State { form, ready: Some(first), reader: Some(reader) };
    stream::unfold(state, |mut state| async move {
        if let Some(chunk) = state.ready.take() {
            let piece = state.form.chunk(&chunk);
            return Some((Ok(piece), state));
        }
        match next(state.reader.take()?).await {
            Ok(Some((chunk, reader))) => {
                let piece = state.form.chunk(&chunk);
                state.reader = Some(reader);
                Some((Ok(piece), state))
            }
            Ok(None) => {
                let end = state.form.finish();
                (!end.is_empty()).then_some((Ok(end), state))
            }
            Err(_failure) => {
                Some((Err(std::io::Error::other("the stream could not be read on")), state))
            }
        }
    })
}

/// Turns canonical bytes into the form that the client asked for.
enum Form {
    /// As they are.
    Raw,
    /// A JSON array: the separator at the end of a chunk is held back until more follows.
    Array { begun: bool, held: bool },
    /// A message a line; a message may arrive in several chunks.
    Lines { partial: BytesMut, with_record: bool },
}

impl Form {
    fn new(is_json: bool, representation: Representation) -> Self {
        match (is_json, representation) {
            (false, _) => Self::Raw,
            (true, Representation::Array) => Self::Array { begun: false, held: false },
            (true, Representation::Ndjson) => {
                Self::Lines { partial: BytesMut::new(), with_record: false }
            }
            (true, Representation::RecordNdjson) => {
                Self::Lines { partial: BytesMut::new(), with_record: true }
            }
        }
    }

    fn chunk(&mut self, chunk: &Chunk) -> Bytes {
        match self {
            Self::Raw => chunk.bytes.clone(),
            Self::Array { begun, held } => {
                let mut out = BytesMut::with_capacity(chunk.bytes.len() + 1);
                let len = chunk.bytes.len();
                let ends = chunk.ends.last().is_some_and(|end| *end as usize == len);
                if !*begun {
                    out.extend_from_slice(b"[");
                } else if *held {
                    out.extend_from_slice(&[json::SEPARATOR]);
                }
                (*begun, *held) = (true, ends);
                out.extend_from_slice(&chunk.bytes[..len - usize::from(ends)]);
                out.freeze()
            }
            Self::Lines { partial, with_record } => {
                let mut out = BytesMut::with_capacity(chunk.bytes.len() + 64);
                let mut record = chunk.record;
                let mut start = 0;
                for end in chunk.ends.iter().map(|end| *end as usize) {
                    let piece = &chunk.bytes[start..end];
                    let message = if partial.is_empty() {
                        Bytes::copy_from_slice(piece)
                    } else {
                        partial.extend_from_slice(piece);
                        partial.split().freeze()
                    };
                    if *with_record {
                        json::write_record_line(&mut out, record, &message);
                    } else {
                        json::write_line(&mut out, &message);
                    }
                    record.0 += 1;
                    start = end;
                }
                partial.extend_from_slice(&chunk.bytes[start..]);
                out.freeze()
            }
        }
    }

    fn finish(&mut self) -> Bytes {
        match self {
            Self::Array { begun: false, .. } => Bytes::from_static(b"[]"),
            Self::Array { begun: true, .. } => Bytes::from_static(b"]"),
            Self::Raw | Self::Lines { .. } => Bytes::new(),
        }
    }
}
