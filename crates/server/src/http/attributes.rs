//! `GET` and `PUT {stream}/attrs` (`extensions.md` §9).

use std::sync::Arc;

use bytes::Bytes;
use headwater_core::command::Command;
use headwater_core::content::Mode;
use headwater_core::json;
use headwater_core::stream::attributes::SetAttributes;
use headwater_core::wire::headers::{ATTRIBUTES_BYTES_MAX, Fields};
use headwater_core::wire::invalid::{Invalid, code};
use http::request::Parts;
use http::{HeaderValue, Response, StatusCode, header};
use hyper::body::Incoming;

use super::body::Body;
use super::respond::{self, Answer, Failure};
use super::{App, Place, check_encoding};

pub(super) async fn get(app: &Arc<App>, place: &Place) -> Answer {
    let facts = app.facts(&place.name).await?;
    let json = facts.attributes.unwrap_or(Bytes::from_static(b"{}"));
    let mut reply = Response::new(Body::Full(json));
    let headers = reply.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, respond::NO_STORE);
    Ok(reply)
}

pub(super) async fn put(app: &Arc<App>, head: &Parts, body: Incoming, place: Place) -> Answer {
    let content = Fields::of(&head.headers).content_type()?;
    if content.is_some_and(|content| content.mode() != Mode::Json) {
        return Err(Failure::problem(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "ATTRIBUTES_NEED_JSON",
            "Attributes are JSON",
            "The attributes of a stream are one object of application/json.",
        ));
    }
    check_encoding(head)?;
    let taken = app.take_body(body, ATTRIBUTES_BYTES_MAX as u64).await?;
    let text = json::object(&taken.bytes).map_err(|error| {
        let detail = format!("the attributes of a stream are one JSON object: {error}");
        Invalid::new(code::INVALID_ATTRIBUTES, detail)
    })?;
    let empty = text[1..text.len() - 1].trim().is_empty();
    let json = (!empty).then(|| Bytes::copy_from_slice(text.as_bytes()));
    let command = Command::SetAttributes(SetAttributes { name: place.name.clone(), json });
    app.must_exist(&place).await?;
    app.engine.submit(&command)?.wait().await?.decided()?;
    Ok(respond::status(StatusCode::NO_CONTENT))
}
