//! API keys: `GET` and `POST /-/keys`, `DELETE /-/keys/{id}`. A key's token is in the answer to its
//! creation and nowhere else.

use std::sync::Arc;
use std::time::Duration;

use headwater_core::access::{Key, KeyId, LABEL_BYTES_MAX, Scopes, is_over};
use headwater_core::command::Command;
use headwater_core::ids::Timestamp;
use headwater_core::refusal::Refusal;
use headwater_core::wire::query::ListingQuery;
use http::request::Parts;
use http::{StatusCode, header};
use hyper::body::Incoming;
use serde_json::{Map, Value, json};

use super::App;
use super::locate::ATTEMPTS_MAX;
use super::respond::{self, Answer, Failure};
use crate::auth::Token;
use crate::engine::Outcome;

/// The longest body of a creation.
const BODY_BYTES_MAX: u64 = 64 * 1024;

/// `GET /-/keys`: in the order of their ids.
pub(super) async fn list(app: &Arc<App>, head: &Parts) -> Answer {
    let query = ListingQuery::parse(head.uri.query())?;
    let limit = usize::try_from(query.limit).unwrap_or(usize::MAX);
    let after = query.after.as_deref().map(|id| KeyId::parse(id).ok_or(Refusal::KeyNotFound));
    let after = after.transpose()?;
    let keys = app.engine.keys().wait().await??;
    let wall = app.engine.now().wall;
    let mut rest = keys.iter().filter(|key| after.is_none_or(|after| key.id > after));
    let page: Vec<&Key> = rest.by_ref().take(limit).collect();
    let next = page.last().filter(|_| rest.next().is_some()).map(|key| key.id.to_string());
    let page = json!({
        "key_count": page.len(),
        "keys": page.iter().map(|key| row(key, wall)).collect::<Vec<_>>(),
        "has_more": next.is_some(),
        "next_cursor": next,
    });
    Ok(respond::json(StatusCode::OK, &page))
}

fn row(key: &Key, wall: Timestamp) -> Value {
    json!({
        "key_id": key.id.to_string(),
        "label": key.label,
        "scopes": key.scopes.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "created_at_ms": key.created_at.0,
        "expires_at_ms": key.expires_at.map(|at| at.0),
        "expired": is_over(key.expires_at, wall),
    })
}

/// `POST /-/keys`: `{"label", "scopes": [...], "expires_in_seconds"}`; only the scopes are needed.
pub(super) async fn create(app: &Arc<App>, body: Incoming) -> Answer {
    let taken = app.take_body(body, BODY_BYTES_MAX).await?;
    let now = app.engine.now();
    let wanted = Wanted::read(&taken.bytes)?;
    for _ in 0..ATTEMPTS_MAX {
        let token = Token::random();
        let lives = wanted.expires_in_seconds.map(Duration::from_secs);
        let key = token.key(&wanted.label, &wanted.scopes, lives, now);
        match app.engine.submit(&Command::CreateKey(Box::new(key.clone())))?.wait().await? {
            Outcome::Stale => {}
            Outcome::Refused(refusal) => return Err(refusal.into()),
            Outcome::Accepted(_) => {
                app.reload_keys();
                let mut row = row(&key, now.wall);
                row["token"] = token.reveal().into();
                let mut reply = respond::json(StatusCode::CREATED, &row);
                let location = format!("/-/keys/{}", key.id);
                respond::insert(reply.headers_mut(), header::LOCATION, location);
                return Ok(reply);
            }
        }
    }
    Err(Failure::unsettled())
}

/// `DELETE /-/keys/{id}`: who holds it is turned away from now on, live readers too.
pub(super) async fn revoke(app: &Arc<App>, id: &str) -> Answer {
    let id = KeyId::parse(id).ok_or(Refusal::KeyNotFound)?;
    app.engine.submit(&Command::RevokeKey(id))?.wait().await?.decided()?;
    app.reload_keys();
    Ok(respond::status(StatusCode::NO_CONTENT))
}

/// What a creation asks for.
struct Wanted {
    label: String,
    scopes: Scopes,
    expires_in_seconds: Option<u64>,
}

impl Wanted {
    fn read(body: &[u8]) -> Result<Self, Failure> {
        let members: Map<String, Value> = serde_json::from_slice(body)
            .map_err(|_error| bad("the body is one JSON object with scopes, a list of texts"))?;
        let mut wanted =
            Self { label: String::new(), scopes: Scopes::default(), expires_in_seconds: None };
        for (name, value) in members {
            match (name.as_str(), value) {
                ("label", Value::String(label)) if label.len() <= LABEL_BYTES_MAX => {
                    wanted.label = label;
                }
                ("label", _) => return Err(bad("label is a text of at most 100 bytes")),
                ("scopes", Value::Array(scopes)) => wanted.scopes = self::scopes(&scopes)?,
                ("scopes", _) => return Err(bad("scopes is a list of texts")),
                ("expires_in_seconds", Value::Null) => {}
                ("expires_in_seconds", value) => {
                    let seconds = value.as_u64().filter(|seconds| *seconds > 0);
                    let seconds = seconds.ok_or_else(|| bad("expires_in_seconds is above 0"))?;
                    wanted.expires_in_seconds = Some(seconds);
                }
                (name, _) => {
                    let name = headwater_core::wire::invalid::shown(name);
                    return Err(bad(&format!("a key has no member {name}")));
                }
            }
        }
        if wanted.scopes.iter().len() == 0 {
            return Err(bad("a key needs a scope, for example demo/*:read,append"));
        }
        Ok(wanted)
    }
}

fn scopes(values: &[Value]) -> Result<Scopes, Failure> {
    let texts: Option<Vec<&str>> = values.iter().map(Value::as_str).collect();
    let texts = texts.ok_or_else(|| bad("scopes is a list of texts"))?;
    if texts.iter().any(|text| text.contains(|c: char| c.is_ascii_whitespace())) {
        return Err(bad("a scope holds no space (%20 in a name)"));
    }
    Scopes::parse(&texts.join(" ")).map_err(|error| bad(error.rule))
}

fn bad(what: &str) -> Failure {
    let detail = format!("Expected otherwise: {what}.");
    Failure::problem(StatusCode::BAD_REQUEST, "INVALID_KEY", "Not a key", detail)
}
