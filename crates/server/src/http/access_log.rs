//! One line for each request, when somebody asks for it. What a query says is left as it is, but
//! for what opens doors.

use std::borrow::Cow;
use std::time::Duration;

use http::request::Parts;
use http::{StatusCode, Uri};
use http_body::Body as _;

use super::Verb;
use super::origin::Origin;
use super::respond::Reply;
use crate::metrics::Pace;

/// The parameter of a query that is a credential: a signed link's.
const SECRET: &str = "token";

/// Logs an answer whose head is ready, except that nothing has happened.
pub(super) fn log(
    head: &Parts,
    origin: &Origin,
    verb: Option<Verb>,
    pace: Pace,
    reply: &Reply,
    took: Duration,
) {
    // A reader that waits comes back for ever: these would be most lines, and say nothing.
    if pace == Pace::Live && reply.status() == StatusCode::NO_CONTENT {
        return;
    }
    let Origin { request_id, trace_id } = origin;
    tracing::info!(
        target: "headwater::access",
        method = head.method.as_str(),
        path = %redacted(&head.uri),
        route = verb.map_or("none", Verb::name),
        status = reply.status().as_u16(),
        // Nothing for an answer that is made while it is sent.
        bytes = reply.body().size_hint().exact(),
        duration_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
        request_id,
        trace_id,
        "request"
    );
}

/// Path and query, without secrets.
pub(super) fn redacted(uri: &Uri) -> Cow<'_, str> {
    let Some(query) = uri.query() else { return uri.path().into() };
    let is_secret = |pair: &str| {
        let name = pair.split('=').next().unwrap_or_default();
        // However it is escaped, it names the same.
        let name = percent_decoded(name);
        name.eq_ignore_ascii_case(SECRET.as_bytes())
    };
    let pairs: Vec<&str> = query
        .split('&')
        .map(|pair| if is_secret(pair) { "token=REDACTED" } else { pair })
        .collect();
    format!("{}?{}", uri.path(), pairs.join("&")).into()
}

fn percent_decoded(text: &str) -> Vec<u8> {
    let mut bytes = text.bytes();
    let mut decoded = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        let mut ahead = bytes.clone();
        let digit = |b: Option<u8>| b.and_then(|b| char::from(b).to_digit(16));
        match (byte, digit(ahead.next()), digit(ahead.next())) {
            (b'%', Some(high), Some(low)) => {
                decoded.push(u8::try_from(high * 16 + low).unwrap_or(b'?'));
                bytes = ahead;
            }
            _ => decoded.push(byte),
        }
    }
    decoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_token_gets_into_a_log_however_it_is_written() {
        for (target, shown) in [
            ("/demo/a", "/demo/a"),
            ("/demo/a?offset=-1", "/demo/a?offset=-1"),
            ("/demo/a?token=hwl_x&live=sse", "/demo/a?token=REDACTED&live=sse"),
            (
                "/demo/a?live=sse&%74oke%6E=hwl_x&TOKEN=y",
                "/demo/a?live=sse&token=REDACTED&token=REDACTED",
            ),
            ("/demo/a?tokens=3&%zz=%7", "/demo/a?tokens=3&%zz=%7"),
        ] {
            assert_eq!(redacted(&target.parse().unwrap()), shown);
        }
    }
}
