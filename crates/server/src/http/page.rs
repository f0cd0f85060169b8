//! One page of a stream as an answer: its head, and its body in the form that the client asked for.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures_util::stream;
use headwater_core::ids::{Offset, Record};
use headwater_core::json;
use headwater_core::state::Life;
use headwater_core::stream::read::Facts;
use headwater_core::wire::accept::Representation;
use headwater_core::wire::coding::Coding;
use headwater_core::wire::etag::{ETag, ReadIdentity};
use headwater_core::wire::headers::{self as h, Fields};
use headwater_storage::{Chunk, Reader};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, StatusCode, header};

use super::App;
use super::body::Body;
use super::encode::{Candidate, Right, encode};
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

/// The same two for who came with credentials: whoever checks them stands behind the caches that
/// others share, and these must not answer in its place.
const CATCH_UP_PRIVATE: HeaderValue =
    HeaderValue::from_static("private, max-age=60, stale-while-revalidate=300");
const SEALED_PRIVATE: HeaderValue =
    HeaderValue::from_static("private, max-age=3600, stale-while-revalidate=300, immutable");

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

    /// The tag of a read from `start` to `end`, which may both lie beyond the tail.
    pub(super) fn read_tag(
        &self,
        facts: &Facts,
        [start, end]: [Offset; 2],
        (representation, coding): (Representation, Coding),
    ) -> ETag {
        ETag::of_read(&ReadIdentity {
            salt: self.engine.salt(),
            stream: facts.id,
            start,
            end,
            closed: facts.closed && end >= facts.tail,
            representation,
            coding,
        })
    }

    /// The answer to a catch-up read, or 304 when the client has it already.
    pub(super) async fn page_reply(
        self: &Arc<Self>,
        head: &Parts,
        facts: &Facts,
        page: Page,
    ) -> Result<Reply, Failure> {
        let representation = representation(head, facts);
        let (etag, fresh) = self.tagged(head, facts, page, representation);
        let mut reply = match fresh {
            Fresh::Known => respond::status(StatusCode::NOT_MODIFIED),
            Fresh::Coded(right) => {
                let form = Form::new(facts.is_json(), representation, page);
                let mut reader = self.reader(facts, page.from.0, page.to.0);
                if !form.needs_messages() {
                    reader = reader.bytes_only();
                }
                let len = form.len(page);
                let mut reply = http::Response::new(body(reader, page, form).await?);
                if let Some(right) = right {
                    encode(&mut reply, right);
                } else if let Some(len) = len {
                    respond::insert(reply.headers_mut(), header::CONTENT_LENGTH, len);
                }
                reply
            }
        };
        let headers = reply.headers_mut();
        respond::insert(headers, header::ETAG, etag);
        page_headers(headers, head, facts, page, representation);
        self.vary(headers, facts);
        self.engine.renew(facts).wait().await?;
        Ok(reply)
    }

    /// The tag of the answer to a read, which depends on how its body is coded, and whether a body
    /// is needed at all.
    fn tagged(
        &self,
        head: &Parts,
        facts: &Facts,
        page: Page,
        representation: Representation,
    ) -> (ETag, Fresh) {
        let tag = |coding| self.read_tag(facts, [page.from.0, page.to.0], (representation, coding));
        let known = |etag: &ETag| Fields::of(&head.headers).if_none_match(etag);
        let candidate = Candidate::new(page.to.0.since(page.from.0), &[&facts.content]);
        let coding = self.coding(head, &candidate);
        let etag = tag(coding);
        if known(&etag) {
            return (etag, Fresh::Known);
        }
        if coding == Coding::Identity {
            return (etag, Fresh::Coded(None));
        }
        if let Some(right) = self.encoder(coding) {
            return (etag, Fresh::Coded(Some(right)));
        }
        let etag = tag(Coding::Identity);
        let fresh = if known(&etag) { Fresh::Known } else { Fresh::Coded(None) };
        (etag, fresh)
    }
}

/// Whether a client has an answer already.
enum Fresh {
    /// It has.
    Known,
    /// It gets it, compressed if there is a right to that.
    Coded(Option<Right>),
}

/// The form that a client asked for; streams that are not JSON have only one.
pub(super) fn representation(head: &Parts, facts: &Facts) -> Representation {
    if facts.is_json() { Fields::of(&head.headers).representation() } else { Representation::Array }
}

/// What the head of an answer says of a page.
pub(super) fn page_headers(
    headers: &mut HeaderMap,
    head: &Parts,
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
    let can_grow = at_tail && !facts.closed;
    let is_shared = !head.headers.contains_key(header::AUTHORIZATION);
    let cache = match (can_grow, is_shared) {
        _ if page.from.0 == page.to.0 => respond::NO_STORE,
        (false, true) => SEALED,
        (true, true) => CATCH_UP,
        (false, false) => SEALED_PRIVATE,
        (true, false) => CATCH_UP_PRIVATE,
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
async fn body(reader: Reader, page: Page, mut form: Form) -> Result<Body, Failure> {
    let len = page.to.0.since(page.from.0);
    if len == 0 {
        return Ok(Body::Full(form.empty()));
    }
    // The first chunk is read before the head goes out: damage is an answer of its own.
    let Some((first, rest)) = next(reader).await? else { return Ok(Body::Full(form.empty())) };
    if len > SMALL_PAGE_BYTES {
        return Ok(Body::pieces(pieces(form, first, rest)));
    }
    let mut all = vec![form.begin(), form.chunk(&first)];
    let mut reader = rest;
    while let Some((chunk, rest)) = next(reader).await? {
        all.push(form.chunk(&chunk));
        reader = rest;
    }
    all.push(form.finish());
    Ok(Body::several(all))
}

/// The rest of a long page, chunk by chunk.
fn pieces(
    form: Form,
    first: Chunk,
    reader: Reader,
) -> impl futures_util::Stream<Item = std::io::Result<Bytes>> + Send {
    enum At {
        Begin(Chunk, Reader),
        First(Chunk, Reader),
        Rest(Reader),
    }
    stream::unfold((form, Some(At::Begin(first, reader))), |(mut form, at)| async move {
        match at? {
            At::Begin(first, reader) => {
                // hyper leaves out a piece without a byte.
                let begin = form.begin();
                Some((Ok(begin), (form, Some(At::First(first, reader)))))
            }
            At::First(first, reader) => {
                let piece = form.chunk(&first);
                Some((Ok(piece), (form, Some(At::Rest(reader)))))
            }
            At::Rest(reader) => match next(reader).await {
                Ok(Some((chunk, reader))) => {
                    let piece = form.chunk(&chunk);
                    Some((Ok(piece), (form, Some(At::Rest(reader)))))
                }
                Ok(None) => {
                    let end = form.finish();
                    (!end.is_empty()).then_some((Ok(end), (form, None)))
                }
                Err(failure) => {
                    failure.broke_off();
                    let cut = std::io::Error::other("the stream could not be read on");
                    Some((Err(cut), (form, None)))
                }
            },
        }
    })
}

/// Turns canonical bytes into the form that the client asked for.
enum Form {
    /// As they are.
    Raw,
    /// A JSON array: as they are, in brackets, without the separator just before `end`.
    Array { end: Offset },
    /// A message a line; a message may arrive in several chunks.
    Lines { partial: BytesMut, with_record: bool },
}

impl Form {
    fn new(is_json: bool, representation: Representation, page: Page) -> Self {
        match (is_json, representation) {
            (false, _) => Self::Raw,
            (true, Representation::Array) => Self::Array { end: page.to.0 },
            (true, Representation::Ndjson) => {
                Self::Lines { partial: BytesMut::new(), with_record: false }
            }
            (true, Representation::RecordNdjson) => {
                Self::Lines { partial: BytesMut::new(), with_record: true }
            }
        }
    }

    /// Whether it has to be known where messages end.
    fn needs_messages(&self) -> bool {
        matches!(self, Self::Lines { .. })
    }

    /// How long the page is in this form, where that is known before it is read.
    fn len(&self, page: Page) -> Option<u64> {
        let len = page.to.0.since(page.from.0);
        match self {
            Self::Raw => Some(len),
            // Two brackets, and the last separator left out.
            Self::Array { .. } if len > 0 => Some(len + 1),
            Self::Array { .. } => Some(2),
            Self::Lines { .. } => None,
        }
    }

    /// A page without messages.
    fn empty(&self) -> Bytes {
        match self {
            Self::Array { .. } => Bytes::from_static(b"[]"),
            Self::Raw | Self::Lines { .. } => Bytes::new(),
        }
    }

    /// What comes before the first chunk.
    fn begin(&self) -> Bytes {
        Bytes::from_static(if matches!(self, Self::Array { .. }) { b"[" } else { b"" })
    }

    fn chunk(&mut self, chunk: &Chunk) -> Bytes {
        match self {
            Self::Raw => chunk.bytes.clone(),
            Self::Array { end } => {
                let len = chunk.bytes.len();
                let is_last = chunk.offset.plus(len as u64) == *end;
                chunk.bytes.slice(..len - usize::from(is_last))
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

    /// What comes behind the last chunk.
    fn finish(&self) -> Bytes {
        Bytes::from_static(if matches!(self, Self::Array { .. }) { b"]" } else { b"" })
    }
}
