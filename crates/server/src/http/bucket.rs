//! Buckets and listings (`extensions.md` §3).

use std::sync::Arc;

use headwater_core::command::{Command, Receipt};
use headwater_core::ids::BucketId;
use headwater_core::stream::read::Facts;
use headwater_core::wire::invalid::{Invalid, code};
use headwater_core::wire::path::{self, Surface};
use headwater_core::wire::query::ListingQuery;
use http::request::Parts;
use http::{StatusCode, header};
use serde_json::{Value, json};

use super::App;
use super::respond::{self, Answer, Failure};

pub(super) async fn create(
    app: &Arc<App>,
    head: &Parts,
    surface: Surface,
    bucket: BucketId,
) -> Answer {
    let outcome = app.engine.submit(&Command::CreateBucket(bucket.clone()))?.wait().await?;
    let Receipt::BucketCreated { at } = outcome.decided()? else {
        unreachable!("a bucket's creation is answered by its own receipt")
    };
    let mut reply = respond::json(StatusCode::CREATED, &entry(&bucket, 0, at.0));
    let location = app.absolute(head, &path::encode_bucket(surface, &bucket));
    respond::insert(reply.headers_mut(), header::LOCATION, location);
    Ok(reply)
}

pub(super) async fn show(app: &Arc<App>, bucket: &BucketId) -> Answer {
    let facts = app.engine.look_bucket(bucket).wait().await??;
    Ok(respond::json(StatusCode::OK, &entry(bucket, facts.streams, facts.created_at.0)))
}

pub(super) async fn delete(app: &Arc<App>, bucket: BucketId) -> Answer {
    app.engine.settle_expired();
    app.engine.submit(&Command::DeleteBucket(bucket))?.wait().await?.decided()?;
    Ok(respond::status(StatusCode::NO_CONTENT))
}

/// `GET /{bucket}/streams`.
pub(super) async fn list(app: &Arc<App>, head: &Parts, bucket: &BucketId) -> Answer {
    streams(app, head, bucket, "stream_id").await
}

/// `GET /-/streams`: the streams of the base surface.
pub(super) async fn list_base(app: &Arc<App>, head: &Parts) -> Answer {
    streams(app, head, &BucketId::base(), "path").await
}

async fn streams(app: &Arc<App>, head: &Parts, bucket: &BucketId, name: &str) -> Answer {
    if !bucket.is_base() {
        app.engine.look_bucket(bucket).wait().await??;
    }
    let query = ListingQuery::parse(head.uri.query())?;
    let after = query.after.as_deref().unwrap_or("");
    let limit = usize::try_from(query.limit).unwrap_or(usize::MAX);
    let listing = app.engine.list(bucket, &query.prefix, after, limit).wait().await??;
    let last = listing.last.filter(|_| listing.has_more);
    let streams: Vec<Value> = listing.streams.iter().map(|facts| row(facts, name)).collect();
    let mut page = json!({
        "prefix": query.prefix,
        "stream_count": streams.len(),
        "streams": streams,
        "next_cursor": last,
        "has_more": listing.has_more,
    });
    if !bucket.is_base() {
        page["bucket_id"] = bucket.as_str().into();
    }
    Ok(respond::json(StatusCode::OK, &page))
}

fn row(facts: &Facts, name: &str) -> Value {
    json!({
        name: facts.name.local(),
        "status": if facts.closed { "Closed" } else { "Open" },
        "content_type": facts.content.as_str(),
        "tail_offset": facts.tail.0,
        "created_at_ms": facts.created_at.0,
        "last_write_at_ms": facts.written_at.0,
        "snapshot_offset": facts.snapshot.as_ref().map(|snapshot| snapshot.offset.0),
        "retained_offset": facts.retained.0,
    })
}

/// `GET /-/buckets`.
pub(super) async fn list_buckets(app: &Arc<App>, head: &Parts) -> Answer {
    let query = ListingQuery::parse(head.uri.query())?;
    let limit = usize::try_from(query.limit).unwrap_or(usize::MAX);
    let after = query.after.as_deref().unwrap_or("");
    let (mut found, durable) = app.engine.list_buckets(&query.prefix, after, limit + 1);
    durable.wait().await?;
    let has_more = found.len() > limit;
    found.truncate(limit);
    let next_cursor = found.last().filter(|_| has_more).map(|(id, _)| id.as_str().to_owned());
    let buckets: Vec<Value> =
        found.iter().map(|(id, facts)| entry(id, facts.streams, facts.created_at.0)).collect();
    let page = json!({
        "prefix": query.prefix,
        "bucket_count": buckets.len(),
        "buckets": buckets,
        "next_cursor": next_cursor,
        "has_more": has_more,
    });
    Ok(respond::json(StatusCode::OK, &page))
}

fn entry(bucket: &BucketId, streams: u64, created_at_ms: u64) -> Value {
    json!({ "bucket_id": bucket.as_str(), "streams": streams, "created_at_ms": created_at_ms })
}

/// The stream id `streams` cannot be used: the listing stands there.
pub(super) fn reserved_name() -> Failure {
    let detail = "the stream id 'streams' is reserved for the listing, which takes GET and HEAD";
    Invalid::new(code::INVALID_STREAM_ID, detail).into()
}
