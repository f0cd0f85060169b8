//! The body of every error (`extensions.md` §1, RFC 9457).

use bytes::Bytes;
use http::StatusCode;
use serde_json::{Map, Value};

/// The content type of an error body.
pub const MEDIA_TYPE: &str = "application/problem+json";

/// What a failed request may have changed: the only thing a writer must know before it retries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Nothing happened; the same request may be sent again.
    NotApplied,
    /// It may or may not have happened; only a retry with the same producer numbers is safe.
    Unknown,
}

impl Effect {
    /// The word for it in an error body.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotApplied => "not-applied",
            Self::Unknown => "unknown",
        }
    }
}

/// An error as the client sees it. Details must never echo a body or name an internal path.
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    /// The answer's status.
    pub status: StatusCode,
    /// A stable `UPPER_SNAKE` word that programs may match on.
    pub code: &'static str,
    /// What this code means, the same for every occurrence.
    pub title: &'static str,
    /// What happened this time: expected, got, what to do.
    pub detail: String,
    /// The limit that was exceeded, in its own unit; always there on a 413.
    pub limit: Option<u64>,
    /// What the request may have changed, where that is in question.
    pub effect: Option<Effect>,
    /// Further members. One that has the name of a member above is left out.
    pub extra: Vec<(&'static str, Value)>,
}

impl Problem {
    /// A problem without limit, effect and further members.
    pub fn new(
        status: StatusCode,
        code: &'static str,
        title: &'static str,
        detail: impl Into<String>,
    ) -> Self {
        let detail = detail.into();
        Self { status, code, title, detail, limit: None, effect: None, extra: Vec::new() }
    }

    /// The `type` member: a name, not an address, so that it means the same on every server.
    pub fn type_uri(&self) -> String {
        format!("urn:headwater:error:{}", self.code)
    }

    /// The body: one JSON object.
    pub fn to_json(&self) -> Bytes {
        let mut members = Map::new();
        members.insert("type".into(), self.type_uri().into());
        members.insert("title".into(), self.title.into());
        members.insert("status".into(), self.status.as_u16().into());
        members.insert("detail".into(), self.detail.as_str().into());
        members.insert("code".into(), self.code.into());
        if let Some(limit) = self.limit {
            members.insert("limit".into(), limit.into());
        }
        if let Some(effect) = self.effect {
            members.insert("effect".into(), effect.as_str().into());
        }
        for (name, value) in &self.extra {
            members.entry(*name).or_insert_with(|| value.clone());
        }
        Value::Object(members).to_string().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_problem_has_the_members_of_rfc_9457_and_ours() {
        let problem = Problem {
            limit: Some(32),
            effect: Some(Effect::NotApplied),
            extra: vec![("stream_next_offset", "07".into()), ("status", 200.into())],
            ..Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "APPEND_TOO_LARGE", "Too large", "\"\n")
        };
        let body: Value = serde_json::from_slice(&problem.to_json()).unwrap();
        let expected = json!({
            "type": "urn:headwater:error:APPEND_TOO_LARGE", "title": "Too large", "status": 413,
            "detail": "\"\n", "code": "APPEND_TOO_LARGE", "limit": 32, "effect": "not-applied",
            "stream_next_offset": "07",
        });
        assert_eq!(body, expected);
    }

    #[test]
    fn optional_members_are_absent_rather_than_null() {
        let problem = Problem::new(StatusCode::NOT_FOUND, "STREAM_NOT_FOUND", "No stream", "x");
        let body: Value = serde_json::from_slice(&problem.to_json()).unwrap();
        assert_eq!(body.as_object().unwrap().len(), 5);
    }
}
