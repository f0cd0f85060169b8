//! `POST {stream}`.

use std::sync::Arc;

use bytes::Bytes;
use headwater_core::command::{AppendReceipt, Body, Command, Receipt};
use headwater_core::state::ProducerStamp;
use headwater_core::stream::append::Append;
use headwater_core::wire::headers::{self as h, Fields};
use http::request::Parts;
use http::{HeaderMap, StatusCode, header};
use hyper::body::Incoming;
use tokio::time::Instant;

use super::body::{Share, Taken, declared_len};
use super::respond::{self, Answer, Failure, Reply};
use super::{App, Place, check_encoding};

/// A body longer than this is not taken in before the stream is known to exist.
const EAGER_BYTES_MAX: u64 = 64 * 1024;

pub(super) async fn append(app: &Arc<App>, head: &Parts, body: Incoming, place: Place) -> Answer {
    if declared_len(&body).is_none_or(|len| len > EAGER_BYTES_MAX) {
        app.must_exist(&place).await?;
    }
    // A missing stream comes before whatever else is wrong with the request.
    let (append, share) = match read(app, head, body, &place).await {
        Ok(read) => read,
        Err(failure) => {
            app.must_exist(&place).await?;
            return Err(failure);
        }
    };
    let has_messages = append.body != Body::Empty;
    let bytes = append.body.stored_bytes();
    let submitted = Instant::now();
    let pending = app.engine.submit(&Command::Append(append))?;
    // The log has a copy of the body by now; its share stays taken until that is written.
    let outcome = pending.wait().await?;
    drop(share);
    app.sheet.ack.took(submitted.elapsed());
    app.sheet.appended(&outcome, bytes);
    match outcome.decided()? {
        Receipt::Appended(receipt) => Ok(reply(&receipt, has_messages)),
        _ => unreachable!("an append is answered by its own receipt"),
    }
}

async fn read(
    app: &Arc<App>,
    head: &Parts,
    body: Incoming,
    place: &Place,
) -> Result<(Append, Share), Failure> {
    let fields = Fields::of(&head.headers);
    let producer = producer(fields)?;
    let stream_seq = fields.stream_seq()?.map(|seq| Bytes::copy_from_slice(seq.as_bytes()));
    let close = fields.closed()?;
    let record_match = fields.record_match()?;
    check_encoding(head)?;
    let Taken { bytes, share } = app.take_body(body, app.config.append_bytes_max).await?;
    // A close without a body says nothing about content, however the header reads.
    let content = if bytes.is_empty() { None } else { fields.content_type()? };
    let body = Body::read(bytes, content.as_ref());
    let name = place.name.clone();
    Ok((Append { name, content, body, producer, stream_seq, close, record_match }, share))
}

pub(super) fn producer(fields: Fields<'_>) -> Result<Option<ProducerStamp>, Failure> {
    Ok(fields.producer()?.map(|fields| ProducerStamp {
        id: fields.id.into(),
        epoch: fields.epoch,
        seq: fields.seq,
    }))
}

fn reply(receipt: &AppendReceipt, has_messages: bool) -> Reply {
    // A new batch of a producer is a 200, so that it can be told from a repetition.
    let fresh_batch = receipt.producer.is_some() && !receipt.repeated && has_messages;
    let mut reply =
        respond::status(if fresh_batch { StatusCode::OK } else { StatusCode::NO_CONTENT });
    let headers: &mut HeaderMap = reply.headers_mut();
    headers.insert(header::CACHE_CONTROL, respond::NO_STORE);
    respond::insert(headers, h::STREAM_NEXT_OFFSET, receipt.next_offset);
    if receipt.closed {
        headers.insert(h::STREAM_CLOSED, respond::TRUE);
    }
    if let Some((epoch, seq)) = receipt.producer {
        respond::insert(headers, h::PRODUCER_EPOCH, epoch);
        respond::insert(headers, h::PRODUCER_SEQ, seq);
    }
    if let Some((start, next)) = receipt.records {
        respond::insert(headers, h::STREAM_RECORD_START, start);
        respond::insert(headers, h::STREAM_RECORD_NEXT, next);
    }
    reply
}
