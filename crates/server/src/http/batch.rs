//! `POST {stream}/append-batch` (`extensions.md` §8): many small appends in one request, each on
//! its own.

use std::sync::Arc;

use bytes::{Buf, Bytes};
use headwater_core::command::{Body, Receipt};
use headwater_core::refusal::Refusal;
use headwater_core::state::ProducerStamp;
use headwater_core::stream::append::Append;
use headwater_core::wire::headers::{self as h, Fields, NUMBER_MAX};
use headwater_core::wire::invalid::{Invalid, code};
use http::request::Parts;
use http::{HeaderName, HeaderValue, StatusCode};
use hyper::body::Incoming;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::append::producer;
use super::body::Taken;
use super::respond::{self, Answer, Failure};
use super::{App, Place, check_encoding};
use crate::engine::Outcome;

/// How many frames one request may have.
const FRAMES_MAX: usize = 4096;

/// Headers that say something about one append, and so nothing about many.
const NOT_HERE: [HeaderName; 3] = [h::STREAM_SEQ, h::STREAM_CLOSED, h::STREAM_RECORD_MATCH];

pub(super) async fn append(app: &Arc<App>, head: &Parts, body: Incoming, place: Place) -> Answer {
    let facts = app.facts(&place.name).await?;
    let fields = Fields::of(&head.headers);
    if let Some(name) = NOT_HERE.iter().find(|name| head.headers.contains_key(*name)) {
        let detail = format!("the header {name} belongs to a single append");
        return Err(Invalid::new(code::INVALID_HEADER, detail).into());
    }
    let producer = producer(fields)?;
    let content = fields.content_type()?.ok_or(Refusal::ContentTypeMissing)?;
    check_encoding(head)?;
    if !facts.closed && !content.same_media_type(&facts.content) {
        return Err(Refusal::ContentTypeMismatch {
            expected: facts.content.media_type(),
            got: content.media_type(),
        }
        .into());
    }
    let Taken { bytes, share } = app.take_body(body, app.config.append_bytes_max).await?;
    let frames = frames(bytes)?;
    let appends: Vec<Append> = frames
        .into_iter()
        .zip(0_u64..)
        .map(|(payload, index)| {
            Ok(Append {
                name: place.name.clone(),
                body: Body::read(payload, Some(&content)),
                content: Some(content.clone()),
                producer: producer.as_ref().map(|first| numbered(first, index)).transpose()?,
                stream_seq: None,
                close: false,
                record_match: None,
            })
        })
        .collect::<Result<_, Invalid>>()?;
    let submitted = Instant::now();
    let (results, durable) = app.engine.submit_batch(&appends);
    let sizes: Vec<usize> = appends.iter().map(|append| append.body.stored_bytes()).collect();
    let asked = appends.len();
    drop(appends);
    durable.wait().await?;
    drop(share);
    app.sheet.ack.took(submitted.elapsed());
    let mut outcomes = Vec::with_capacity(asked);
    for (result, bytes) in results.into_iter().zip(sizes) {
        match result {
            Ok(outcome) => {
                app.sheet.appended(&outcome, bytes);
                outcomes.push(outcome);
            }
            // Nothing of the batch was appended: the answer can say so.
            Err(fault) if outcomes.is_empty() => return Err(fault.into()),
            Err(_full) => break,
        }
    }
    let all_well = outcomes.len() == asked
        && outcomes.iter().all(|outcome| matches!(outcome, Outcome::Accepted(_)));
    if all_well && fields.prefers_minimal() {
        let mut reply = respond::status(StatusCode::NO_CONTENT);
        reply
            .headers_mut()
            .insert(h::PREFERENCE_APPLIED, HeaderValue::from_static("return=minimal"));
        return Ok(reply);
    }
    let tail = outcomes.iter().rev().find_map(end).unwrap_or(facts.tail.to_string());
    let mut reports: Vec<Value> =
        outcomes.into_iter().map(|outcome| report(outcome, &tail)).collect();
    reports.resize_with(asked, || no_room(&tail));
    Ok(respond::json(StatusCode::OK, &Value::Array(reports)))
}

/// The report of a frame for which the disk has no room.
fn no_room(tail: &str) -> Value {
    json!({
        "status": 507,
        "code": "DISK_FULL",
        "error": "There was no room on the disk for this frame; earlier ones are appended.",
        "stream_next_offset": tail,
    })
}

fn numbered(first: &ProducerStamp, index: u64) -> Result<ProducerStamp, Invalid> {
    let seq = first.seq + index;
    if seq > NUMBER_MAX {
        let detail = format!("the producer-seq of the last frame is at most {NUMBER_MAX}");
        return Err(Invalid::new(code::INVALID_PRODUCER, detail));
    }
    Ok(ProducerStamp { seq, ..first.clone() })
}

/// Takes the frames apart: each a length in four bytes, most significant first, and a payload.
fn frames(mut body: Bytes) -> Result<Vec<Bytes>, Failure> {
    let broken = |why: &str| {
        Failure::problem(
            StatusCode::BAD_REQUEST,
            "INVALID_BATCH",
            "The batch cannot be read",
            format!("Nothing was appended: {why}."),
        )
    };
    let mut frames = Vec::new();
    while body.has_remaining() {
        if frames.len() == FRAMES_MAX {
            return Err(Failure::limit(
                StatusCode::PAYLOAD_TOO_LARGE,
                "TOO_MANY_FRAMES",
                "Too many frames",
                format!("A batch has at most {FRAMES_MAX} frames."),
                FRAMES_MAX as u64,
            ));
        }
        let len = body.try_get_u32().map_err(|_short| broken("a frame's length is cut off"))?;
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        if len == 0 {
            return Err(broken("a frame is empty"));
        }
        if len > body.remaining() {
            return Err(broken("a frame is cut off"));
        }
        frames.push(body.split_to(len));
    }
    if frames.is_empty() {
        return Err(broken("there is no frame"));
    }
    Ok(frames)
}

fn end(outcome: &Outcome) -> Option<String> {
    match outcome {
        Outcome::Accepted(Receipt::Appended(receipt)) => Some(receipt.next_offset.to_string()),
        _ => None,
    }
}

fn report(outcome: Outcome, tail: &str) -> Value {
    match outcome.decided() {
        Ok(Receipt::Appended(receipt)) => {
            let mut result =
                json!({ "status": 204, "stream_next_offset": receipt.next_offset.to_string() });
            if let Some((start, next)) = receipt.records {
                result["stream_record_start"] = start.0.into();
                result["stream_record_next"] = next.0.into();
            }
            result
        }
        Ok(_) => unreachable!("an append is answered by its own receipt"),
        Err(refusal) => {
            let code = refusal.code();
            let mut result = json!({
                "status": code.status.as_u16(),
                "code": code.code,
                "error": refusal.to_string(),
                "stream_next_offset": tail,
            });
            if let Refusal::StreamClosed { tail } = refusal {
                result["stream_closed"] = true.into();
                result["stream_next_offset"] = tail.to_string().into();
            }
            result
        }
    }
}
