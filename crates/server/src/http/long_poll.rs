//! `GET {stream}?live=long-poll` (base protocol §7): data at once if there is some, otherwise as
//! soon as there is, otherwise 204.

use std::sync::Arc;

use headwater_core::ids::Record;
use headwater_core::refusal::Refusal;
use headwater_core::stream::read::{Facts, Start};
use headwater_core::wire::cursor;
use headwater_core::wire::headers as h;
use headwater_core::wire::query::ReadQuery;
use http::request::Parts;
use http::{StatusCode, header};
use tokio::time::Instant;

use super::App;
use super::page::stream_headers;
use super::respond::{self, Answer, Failure, Reply};
use crate::auth::Visit;
use crate::metrics::{LiveKind, Open};
use crate::random;

pub(super) async fn read(
    app: &Arc<App>,
    head: &Parts,
    facts: Facts,
    start: Start,
    query: ReadQuery,
) -> Answer {
    let deadline = Instant::now() + app.config.long_poll_timeout;
    let mut draining = app.draining.clone();
    let (mut facts, mut start) = (facts, start);
    // `now` means the tail at the time of the request, not a later one.
    let mut from = match &start {
        Start::Beyond(_) => None,
        _ => Some(app.place(&facts, &start).await?),
    };
    let _seat = app.seat(facts.id)?;
    // A refusal, which leaves the TTL window alone, has been given by now.
    app.engine.renew(&facts).wait().await?;
    let watch = app.engine.watch(facts.id);
    let _counted = Open::reader(&app.sheet, LiveKind::LongPoll);
    let mut visit = app.visit(head);
    let mut over = false;
    loop {
        let changed = watch.changed();
        facts = again(app, &facts).await?;
        if let Start::Beyond(beyond) = &start
            && let Some(reached) = App::reached(&facts, beyond)
        {
            from = Some(app.place(&facts, &reached).await?);
            start = reached;
        }
        if let Some(from) = from {
            if from.0 < facts.retained {
                return Err(facts.trimmed().into());
            }
            if from.0 < facts.tail {
                let page =
                    app.page(&facts, from, app.config.read_page_bytes, query.max_records).await?;
                let mut reply = app.page_reply(head, &facts, page).await?;
                add_cursor(&mut reply, app, &query);
                return Ok(reply);
            }
        }
        over |= facts.closed || *draining.borrow_and_update();
        let timeout = if over {
            true
        } else {
            tokio::select! {
                () = changed => false,
                () = tokio::time::sleep_until(deadline) => true,
                _ = draining.changed() => false,
                () = Visit::over_if_any(&mut visit) => {
                    over = true;
                    true
                }
            }
        };
        if timeout && (over || !grew(app, &facts).await?) {
            let next = match (&start, from) {
                (Start::Beyond(beyond), _) => beyond.to_string(),
                (_, Some(from)) => from.0.to_string(),
                (_, None) => facts.tail.to_string(),
            };
            let record = from.map_or(facts.next, |from| from.1);
            return Ok(nothing(app, &facts, &query, &next, record));
        }
    }
}

/// Whether something arrived while the deadline passed: it is delivered rather than skipped.
async fn grew(app: &App, facts: &Facts) -> Result<bool, Failure> {
    Ok(again(app, facts).await?.tail > facts.tail)
}

/// Looks at the same incarnation again.
async fn again(app: &App, facts: &Facts) -> Result<Facts, Failure> {
    match app.engine.look_at(facts.id).wait().await? {
        Ok(facts) => Ok(facts),
        Err(refusal @ (Refusal::StreamNotFound | Refusal::StreamDeleted)) => Err(refusal.into()),
        Err(other) => Err(other.into()),
    }
}

fn nothing(app: &App, facts: &Facts, query: &ReadQuery, next: &str, record: Record) -> Reply {
    let mut reply = respond::status(StatusCode::NO_CONTENT);
    let headers = reply.headers_mut();
    respond::insert(headers, h::STREAM_NEXT_OFFSET, next);
    headers.insert(h::STREAM_UP_TO_DATE, respond::TRUE);
    headers.insert(header::CACHE_CONTROL, respond::NO_STORE);
    stream_headers(headers, facts);
    app.vary(headers, facts);
    if facts.is_json() {
        respond::insert(headers, h::STREAM_RECORD_START, record);
        respond::insert(headers, h::STREAM_RECORD_NEXT, record);
    }
    if facts.closed {
        headers.insert(h::STREAM_CLOSED, respond::TRUE);
    } else {
        add_cursor(&mut reply, app, query);
    }
    reply
}

fn add_cursor(reply: &mut Reply, app: &App, query: &ReadQuery) {
    let now = app.engine.now().wall.0;
    let cursor = cursor::next(query.cursor.as_deref(), now, random::number());
    respond::insert(reply.headers_mut(), h::STREAM_CURSOR, cursor);
}
