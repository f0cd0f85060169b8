//! The one place where answers get their final form: common headers, and the problem body of
//! every refusal and failure (`extensions.md` §1, Errors).

use std::fmt;
use std::io::Write as _;

use headwater_core::refusal::Refusal;
use headwater_core::state::Snapshot;
use headwater_core::wire::cors;
use headwater_core::wire::headers as h;
use headwater_core::wire::invalid::Invalid;
use headwater_core::wire::path::{self, PathError, Resource, Target};
use headwater_core::wire::problem::{self, Effect, Problem};
use http::header::{self, HeaderName};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use smallvec::SmallVec;

use super::body::Body;
use crate::engine::{self, Fault};

/// An answer.
pub(crate) type Reply = Response<Body>;

/// What a handler returns.
pub(crate) type Answer = Result<Reply, Failure>;

/// Offsets, numbers and digests are no longer than this.
const SHORT_VALUE_BYTES: usize = 64;

/// Seconds after which a refused client should try again.
const RETRY_AFTER_SECONDS: u64 = 1;

/// The member of a problem that names a setting.
const LIMIT_NAME: &str = "limit_name";

/// An answer that is not a success.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The protocol says no.
    Refused(Refusal),
    /// The server says no, or cannot.
    Problem(Box<Problem>, HeaderMap),
    /// Something broke, which is to be logged.
    Broken(Box<Fault>),
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<Invalid> for Failure {
    fn from(invalid: Invalid) -> Self {
        Self::Refused(invalid.into())
    }
}

impl From<PathError> for Failure {
    fn from(error: PathError) -> Self {
        match error {
            PathError::Invalid(invalid) => invalid.into(),
            PathError::Unknown { detail } => {
                Self::problem(StatusCode::NOT_FOUND, "NOT_FOUND", "No such resource", detail)
            }
        }
    }
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        Self::Broken(Box::new(fault))
    }
}

impl From<headwater_storage::Error> for Failure {
    fn from(error: headwater_storage::Error) -> Self {
        Fault::from(error).into()
    }
}

impl Failure {
    /// A problem without further members.
    pub(crate) fn problem(
        status: StatusCode,
        code: &'static str,
        title: &'static str,
        detail: impl Into<String>,
    ) -> Self {
        Self::Problem(Box::new(Problem::new(status, code, title, detail)), HeaderMap::new())
    }

    /// A limit was exceeded.
    pub(crate) fn limit(
        status: StatusCode,
        code: &'static str,
        title: &'static str,
        detail: impl Into<String>,
        limit: u64,
    ) -> Self {
        let mut problem = Problem::new(status, code, title, detail);
        problem.limit = Some(limit);
        Self::Problem(Box::new(problem), HeaderMap::new())
    }

    /// The same, and the setting that raises the limit.
    pub(crate) fn named(mut self, setting: &'static str) -> Self {
        if let Self::Problem(problem, _) = &mut self {
            problem.extra.push((LIMIT_NAME, setting.into()));
        }
        self
    }

    /// The same, on which the client should come back after so many seconds.
    pub(crate) fn retry_after(mut self, seconds: u64) -> Self {
        if let Self::Problem(_, headers) = &mut self {
            insert(headers, header::RETRY_AFTER, seconds);
        }
        self
    }

    /// Too much is going on; another attempt may find room.
    pub(crate) fn busy(detail: &str, limit: u64) -> Self {
        let status = StatusCode::SERVICE_UNAVAILABLE;
        Self::limit(status, "OVERLOADED", "Too much at once", detail, limit)
            .retry_after(RETRY_AFTER_SECONDS)
    }

    /// What a request has looked at changed every time before it could be decided.
    pub(crate) fn unsettled() -> Self {
        let detail = "The stream was deleted and created anew, or changed, again and again.";
        let status = StatusCode::SERVICE_UNAVAILABLE;
        Self::problem(status, "OVERLOADED", "Too much at once", detail)
            .retry_after(RETRY_AFTER_SECONDS)
    }

    /// Too many requests at a time on connections of HTTP/2.
    pub(crate) fn many_streams(limit: usize) -> Self {
        let detail = "Too many requests are being answered on connections of HTTP/2.";
        Self::busy(detail, limit as u64).named("http2-max-streams")
    }

    /// The client stopped sending.
    pub(crate) fn body_timeout() -> Self {
        Self::problem(
            StatusCode::REQUEST_TIMEOUT,
            "BODY_TIMEOUT",
            "The body did not arrive",
            "No byte of the body arrived within body_timeout.",
        )
    }

    /// The body ended early, or its framing is broken.
    pub(crate) fn broken_body(error: &hyper::Error) -> Self {
        let detail = if error.is_incomplete_message() {
            "The connection ended before the body did."
        } else {
            "The framing of the body is broken."
        };
        Self::problem(StatusCode::BAD_REQUEST, "BROKEN_BODY", "The body is not whole", detail)
    }

    /// A bug: a handler has panicked.
    pub(crate) fn panicked() -> Self {
        let mut problem = Problem::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "INTERNAL",
            "The server has a bug",
            "The request was given up. Whether it was applied is not known.",
        );
        problem.effect = Some(Effect::Unknown);
        Self::Problem(Box::new(problem), HeaderMap::new())
    }

    /// The same, on a connection that ends with this answer.
    pub(crate) fn closing(mut self) -> Self {
        if let Self::Problem(_, headers) = &mut self {
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        self
    }

    /// Whoever asks has to say who it is.
    pub(crate) fn unauthorized(code: &'static str, detail: &str, challenge: HeaderValue) -> Self {
        let problem = Problem::new(StatusCode::UNAUTHORIZED, code, "Who is asking?", detail);
        let mut headers = HeaderMap::new();
        headers.insert(header::WWW_AUTHENTICATE, challenge);
        Self::Problem(Box::new(problem), headers)
    }

    /// The method does not exist on this resource.
    pub(crate) fn method(allow: &str) -> Self {
        let problem = Problem::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "METHOD_NOT_ALLOWED",
            "No such method here",
            format!("This resource takes {allow}."),
        );
        let mut headers = HeaderMap::new();
        insert(&mut headers, header::ALLOW, allow);
        Self::Problem(Box::new(problem), headers)
    }

    /// Logs what broke when no answer can tell of it any more.
    pub(crate) fn broke_off(&self) {
        if let Self::Broken(fault) = self {
            tracing::error!(%fault, "an answer broke off");
        }
    }

    /// What the client is told. `target` is what the request was about, for links.
    pub(crate) fn told(self, target: Option<&Target<'_>>) -> (Box<Problem>, HeaderMap) {
        match self {
            Self::Problem(problem, headers) => (problem, headers),
            Self::Broken(fault) => (Box::new(broken(&fault)), HeaderMap::new()),
            Self::Refused(refusal) => {
                let code = refusal.code();
                let mut problem =
                    Problem::new(code.status, code.code, code.title, refusal.to_string());
                problem.limit = refusal.limit();
                if let Some(setting) = setting(&refusal) {
                    problem.extra.push((LIMIT_NAME, setting.into()));
                }
                let mut headers = facts(&refusal);
                if let (Refusal::Trimmed { .. }, Some(Target::Stream { surface, name, .. })) =
                    (&refusal, target)
                {
                    let path = path::encode(*surface, name, &Resource::Bootstrap);
                    insert(&mut headers, header::LINK, format!("<{path}>; rel=\"bootstrap\""));
                }
                (Box::new(problem), headers)
            }
        }
    }
}

fn broken(fault: &Fault) -> Problem {
    let (status, code, title, detail) = if fault.is_full() {
        (
            StatusCode::INSUFFICIENT_STORAGE,
            "DISK_FULL",
            "No room on the disk",
            "Nothing was changed. Delete streams, advance retention or add disk space, then \
             send the request again.",
        )
    } else if fault.is_damage() {
        (
            StatusCode::INTERNAL_SERVER_ERROR,
            "DATA_DAMAGED",
            "Stored bytes are damaged",
            "A checksum does not match what was written. Other data is not affected.",
        )
    } else {
        (
            StatusCode::SERVICE_UNAVAILABLE,
            "UNAVAILABLE",
            "The server cannot answer",
            "The server is stopping or its storage has failed.",
        )
    };
    let mut problem = Problem::new(status, code, title, detail);
    problem.effect = Some(match fault.effect {
        engine::Effect::NotApplied => Effect::NotApplied,
        engine::Effect::Unknown => Effect::Unknown,
    });
    problem
}

/// Whether a problem is that a limit of the server was reached.
pub(crate) fn is_limit(problem: &Problem) -> bool {
    problem.limit.is_some()
        || matches!(problem.code, "OVERLOADED" | "DISK_FULL")
        || problem.status == StatusCode::TOO_MANY_REQUESTS
}

/// The answer that tells of a problem.
pub(crate) fn write(problem: &Problem, mut headers: HeaderMap) -> Reply {
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(problem::MEDIA_TYPE));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    let mut reply = Response::new(Body::Full(problem.to_json()));
    *reply.status_mut() = problem.status;
    *reply.headers_mut() = headers;
    reply
}

/// The setting that raises the limit of a refusal, where there is one.
fn setting(refusal: &Refusal) -> Option<&'static str> {
    match refusal {
        Refusal::StreamLimit { .. } => Some("max-streams"),
        Refusal::BucketStreamLimit { .. } => Some("max-bucket-streams"),
        Refusal::BucketBytesLimit { .. } => Some("max-bucket-size"),
        _ => None,
    }
}

/// The headers that the protocol asks for on a refusal.
fn facts(refusal: &Refusal) -> HeaderMap {
    let mut headers = HeaderMap::new();
    match refusal {
        Refusal::StreamClosed { tail } => {
            headers.insert(h::STREAM_CLOSED, TRUE);
            insert(&mut headers, h::STREAM_NEXT_OFFSET, tail);
        }
        Refusal::ProducerFenced { current } => {
            insert(&mut headers, h::PRODUCER_EPOCH, current);
        }
        Refusal::ProducerGap { expected, received } => {
            insert(&mut headers, h::PRODUCER_EXPECTED_SEQ, expected);
            insert(&mut headers, h::PRODUCER_RECEIVED_SEQ, received);
        }
        Refusal::ProducerLimit { .. } => {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("3600"));
        }
        Refusal::RecordMismatch { next, tail } => {
            insert(&mut headers, h::STREAM_RECORD_NEXT, next);
            insert(&mut headers, h::STREAM_NEXT_OFFSET, tail);
        }
        Refusal::Trimmed { retained, tail, snapshot } => {
            insert(&mut headers, h::STREAM_RETAINED_OFFSET, retained);
            insert(&mut headers, h::STREAM_NEXT_OFFSET, tail);
            if let Some(snapshot) = snapshot {
                insert(&mut headers, h::STREAM_SNAPSHOT_OFFSET, snapshot);
            }
        }
        Refusal::BeyondTail { tail } => insert(&mut headers, h::STREAM_NEXT_OFFSET, tail),
        Refusal::RetentionBackwards { retained } => {
            insert(&mut headers, h::STREAM_RETAINED_OFFSET, retained);
        }
        Refusal::SnapshotMatchFailed(Some(visible))
        | Refusal::SnapshotStale(visible)
        | Refusal::SnapshotConflict(visible) => snapshot(&mut headers, visible),
        _ => {}
    }
    headers
}

/// `true`.
pub(crate) const TRUE: HeaderValue = HeaderValue::from_static("true");

/// `no-store`.
pub(crate) const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

/// Sets a header to something that prints as visible ASCII.
pub(crate) fn insert(headers: &mut HeaderMap, name: HeaderName, value: impl fmt::Display) {
    // Printed in place first, since growing a string for it takes several allocations.
    let mut text = SmallVec::<[u8; SHORT_VALUE_BYTES]>::new();
    if write!(text, "{value}").is_ok()
        && let Ok(value) = HeaderValue::from_bytes(&text)
    {
        headers.insert(name, value);
    }
}

/// Names the visible snapshot.
pub(crate) fn snapshot(headers: &mut HeaderMap, visible: &Snapshot) {
    insert(headers, h::STREAM_SNAPSHOT_OFFSET, visible.offset);
    insert(headers, h::STREAM_SNAPSHOT_DIGEST, visible.digest);
}

/// An answer without a body.
pub(crate) fn status(status: StatusCode) -> Reply {
    let mut reply = Response::new(Body::empty());
    *reply.status_mut() = status;
    reply
}

/// A JSON answer that nobody may cache.
pub(crate) fn json(status: StatusCode, value: &serde_json::Value) -> Reply {
    let mut reply = Response::new(Body::Full(value.to_string().into()));
    *reply.status_mut() = status;
    let headers = reply.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, NO_STORE);
    reply
}

/// What an answer to `OPTIONS` says to a page that may ask further.
pub(super) fn allow(headers: &mut HeaderMap) {
    let list = HeaderValue::from_static;
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, list(cors::ALLOW_METHODS));
    headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, list(cors::ALLOW_HEADERS));
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, list("86400"));
}

/// What every answer carries (base protocol §1).
pub(crate) fn common(headers: &mut HeaderMap) {
    const CORP: HeaderName = HeaderName::from_static("cross-origin-resource-policy");
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(CORP, HeaderValue::from_static("cross-origin"));
}

/// What is for one credential is for no shared cache (`extensions.md` §10).
pub(crate) fn keep_private(headers: &mut HeaderMap) {
    let kept = headers.get(header::CACHE_CONTROL).and_then(|value| value.to_str().ok());
    let value = match kept {
        Some(kept) if kept.contains("no-store") => return,
        Some(kept) if kept.contains("public") => kept.replace("public", "private"),
        Some(kept) => format!("private, {kept}"),
        None => "private".to_owned(),
    };
    insert(headers, header::CACHE_CONTROL, value);
}

/// What a page of another origin may see of an answer. It is longer than most answers to writes.
pub(crate) fn expose(headers: &mut HeaderMap) {
    headers.insert(
        header::ACCESS_CONTROL_EXPOSE_HEADERS,
        HeaderValue::from_static(cors::EXPOSE_HEADERS),
    );
}
