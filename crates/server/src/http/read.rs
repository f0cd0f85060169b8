//! `GET {stream}` and `HEAD {stream}`.

use std::sync::Arc;

use bytes::Bytes;
use headwater_core::ids::Offset;
use headwater_core::refusal::Refusal;
use headwater_core::stream::read::{Beyond, Facts, Start};
use headwater_core::wire::accept::Representation;
use headwater_core::wire::coding::Coding;
use headwater_core::wire::headers::{self as h, Fields};
use headwater_core::wire::query::{Live, ReadQuery, ReadStart};
use http::request::Parts;
use http::{StatusCode, header};

use super::body::Body;
use super::page::{Page, lifetime_headers, page_headers, representation, stream_headers};
use super::respond::{self, Answer, Failure, Reply};
use super::{App, Place, long_poll, sse};

pub(super) async fn read(app: &Arc<App>, head: &Parts, place: Place) -> Answer {
    let facts = app.facts(&place.name).await?;
    let mut query = ReadQuery::parse(head.uri.query())?;
    if query.live == Some(Live::Sse)
        && let Some(last) = Fields::of(&head.headers).last_event_id()?
    {
        // A browser comes back with the URL that it began with: where it got to is said here.
        query.start = Some(ReadStart::Offset(last));
    }
    let start = facts.start(query.start.as_ref())?;
    if query.max_records.is_some() && !facts.is_json() {
        return Err(Refusal::RecordsNeedJson.into());
    }
    let asked = query.start.clone();
    let answer = match query.live {
        None => catch_up(app, head, &facts, &start, query.max_records).await,
        Some(Live::LongPoll) => long_poll::read(app, head, facts, start, query).await,
        Some(Live::Sse) => sse::read(app, head, facts, start, query).await,
    };
    if let Err(Failure::Problem(..) | Failure::Broken(_)) = &answer {
        // What was discarded in the middle of a read is not damaged: the refusal tells.
        app.facts(&place.name).await?.start(asked.as_ref())?;
    }
    answer
}

async fn catch_up(
    app: &Arc<App>,
    head: &Parts,
    facts: &Facts,
    start: &Start,
    max_records: Option<u64>,
) -> Answer {
    match start {
        Start::Now => {
            app.engine.renew(facts).wait().await?;
            Ok(nothing_new(app, head, facts))
        }
        Start::Beyond(beyond) => {
            app.engine.renew(facts).wait().await?;
            Ok(nothing_yet(app, head, facts, beyond))
        }
        Start::At(_) | Start::Record(_) => {
            let from = app.place(facts, start).await?;
            let page = app.page(facts, from, app.config.read_page_bytes, max_records).await?;
            app.page_reply(head, facts, page).await
        }
    }
}

/// The empty answer at the tail: it is about a moment, so it has no tag and nobody may keep it.
fn nothing_new(app: &App, head: &Parts, facts: &Facts) -> Reply {
    let tail = (facts.tail, facts.next);
    let representation = representation(head, facts);
    let body = match representation {
        Representation::Array if facts.is_json() => Bytes::from_static(b"[]"),
        _ => Bytes::new(),
    };
    let mut reply = http::Response::new(Body::Full(body));
    let page = Page { from: tail, to: tail };
    page_headers(reply.headers_mut(), head, facts, page, representation);
    app.vary(reply.headers_mut(), facts);
    reply
}

/// The empty answer beyond the tail. It has a tag as every answer about a place has (base protocol
/// §5), until the stream grows past that place.
fn nothing_yet(app: &App, head: &Parts, facts: &Facts, beyond: &Beyond) -> Reply {
    let at = match beyond {
        Beyond::Offset(offset) => *offset,
        Beyond::Never(_) => Offset(u64::MAX),
    };
    let form = (representation(head, facts), Coding::Identity);
    let etag = app.read_tag(facts, [at, at], form);
    let mut reply = nothing_new(app, head, facts);
    if Fields::of(&head.headers).if_none_match(&etag) {
        *reply.status_mut() = StatusCode::NOT_MODIFIED;
        *reply.body_mut() = Body::empty();
    }
    respond::insert(reply.headers_mut(), header::ETAG, etag);
    respond::insert(reply.headers_mut(), h::STREAM_NEXT_OFFSET, beyond);
    reply
}

/// `HEAD {stream}`: metadata. It does not renew the TTL window.
pub(super) async fn head(app: &Arc<App>, place: &Place) -> Answer {
    let facts = app.facts(&place.name).await?;
    let mut reply = http::Response::new(Body::empty());
    let headers = reply.headers_mut();
    respond::insert(headers, header::CONTENT_TYPE, facts.content.as_str());
    respond::insert(headers, h::STREAM_NEXT_OFFSET, facts.tail);
    headers.insert(header::CACHE_CONTROL, respond::NO_STORE);
    if facts.closed {
        headers.insert(h::STREAM_CLOSED, respond::TRUE);
    }
    lifetime_headers(headers, &facts);
    stream_headers(headers, &facts);
    app.vary(headers, &facts);
    if facts.is_json() {
        respond::insert(headers, h::STREAM_RECORD_NEXT, facts.next);
    }
    Ok(reply)
}

impl App {
    /// What a live reader learns at `offset` when it looks again: the place to read from, or
    /// nothing while the offset still lies beyond the tail.
    pub(super) fn reached(facts: &Facts, waiting_for: &Beyond) -> Option<Start> {
        match waiting_for {
            Beyond::Offset(offset) if *offset <= facts.tail => Some(Start::At(*offset)),
            Beyond::Offset(_) | Beyond::Never(_) => None,
        }
    }
}
