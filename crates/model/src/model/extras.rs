//! Snapshots, retention, bootstrap, attributes.

use serde_json::Value;

use super::{
    Answer, At, Key, Model, Snapshot, Stream, check_content_type, offset, parse_number,
    parse_offset,
};
use crate::ask::{Ask, Body, Expect, Surface};

/// The largest attributes, in bytes.
const ATTRIBUTES_BYTES_MAX: usize = 16 * 1024;

/// A place that a request names by its path or by `record`.
enum Named {
    Offset(u64),
    Record(u64),
}

impl Model {
    pub(super) fn publish(&mut self, ask: &Ask, key: &Key, at: Option<&str>) -> Answer {
        let named = named(ask, at)?;
        let content_type = ask.header("content-type").unwrap_or("application/octet-stream");
        check_content_type(content_type)?;
        let now = self.now;
        let stream = self.stream(key)?;
        let at = stream.place(&named)?;
        if at < stream.retained {
            return Err(stream.trimmed());
        }
        if at > stream.tail() {
            return Err(stream.beyond());
        }
        stream.record_at(at).ok_or(Expect::problem(400, "OFFSET_NOT_A_BOUNDARY"))?;
        let digest = digest(content_type, &ask.body);
        let trims = ask.surface == Surface::Ds;
        let visible = stream.snapshot.as_ref();
        let repeated = visible.is_some_and(|it| it.offset == at && it.digest == digest);
        if !repeated {
            let refused = |code| Err(stream.name_snapshot(Expect::problem(409, code)));
            let wanted = ask.header("stream-snapshot-match");
            if wanted.is_some_and(|wanted| visible.is_none_or(|it| it.digest != wanted)) {
                return refused("SNAPSHOT_MATCH_FAILED");
            }
            match visible {
                Some(visible) if at < visible.offset => return refused("SNAPSHOT_STALE"),
                Some(visible) if at == visible.offset => return refused("SNAPSHOT_CONFLICT"),
                _ => {}
            }
            let (content_type, body) = (content_type.to_owned(), ask.body.clone());
            stream.snapshot = Some(Snapshot { offset: at, digest, content_type, body });
        }
        let advances = trims && at > stream.retained;
        if advances {
            stream.retained = at;
        }
        if !repeated || advances {
            stream.renew(now, true);
        }
        let expect = Expect::empty(204)
            .with("stream-next-offset", offset(stream.tail()))
            .with("stream-retained-offset", offset(stream.retained));
        Ok(stream.name_snapshot(expect))
    }

    pub(super) fn newest_snapshot(&mut self, ask: &Ask, key: &Key) -> Answer {
        let now = self.now;
        let stream = self.stream(key)?;
        let Some(snapshot) = stream.snapshot.clone() else {
            return Err(Expect::problem(404, "SNAPSHOT_NOT_FOUND"));
        };
        if ask.method == "GET" {
            stream.renew(now, true);
        }
        let location = ask.at(&format!("snapshot/{}", offset(snapshot.offset)));
        Ok(stream.name_snapshot(Expect::empty(307).with("location", location)))
    }

    pub(super) fn snapshot(&mut self, ask: &Ask, key: &Key, at: &str) -> Answer {
        let now = self.now;
        let stream = self.stream(key)?;
        let at = number(at)?;
        let Some(snapshot) = stream.snapshot.clone().filter(|it| it.offset == at) else {
            return Err(Expect::problem(404, "SNAPSHOT_NOT_FOUND"));
        };
        if ask.method == "GET" {
            stream.renew(now, true);
        }
        let mut expect = Expect::empty(200)
            .with("content-type", &snapshot.content_type)
            .with("etag", format!("\"{}\"", snapshot.digest))
            .with("accept-ranges", "bytes")
            .with("stream-next-offset", offset(at))
            .with("stream-up-to-date", at == stream.tail());
        expect.body = Body::Exact(snapshot.body.clone());
        Ok(stream.name_snapshot(expect))
    }

    pub(super) fn delete_snapshot(&mut self, key: &Key, at: &str) -> Answer {
        let stream = self.stream(key)?;
        let at = number(at)?;
        let visible = stream.snapshot.as_ref().is_some_and(|snapshot| snapshot.offset == at);
        let (status, code) =
            if visible { (409, "SNAPSHOT_VISIBLE") } else { (404, "SNAPSHOT_NOT_FOUND") };
        Err(Expect::problem(status, code))
    }

    pub(super) fn retain(&mut self, ask: &Ask, key: &Key, at: Option<&str>) -> Answer {
        let named = named(ask, at)?;
        let now = self.now;
        let stream = self.stream(key)?;
        if matches!(named, Named::Record(_)) && !stream.is_json() {
            return Err(Expect::problem(400, "RECORDS_NEED_JSON"));
        }
        let Some(snapshot) = stream.snapshot.as_ref().map(|snapshot| snapshot.offset) else {
            return Err(Expect::problem(409, "RETENTION_NEEDS_SNAPSHOT"));
        };
        let backwards = Expect::problem(409, "RETENTION_BACKWARDS")
            .with("stream-retained-offset", offset(stream.retained));
        let at = match named {
            Named::Record(n) if n < stream.first() => return Err(backwards),
            Named::Record(n) if n > stream.next() => u64::MAX,
            _ => stream.place(&named)?,
        };
        if at < stream.retained {
            return Err(backwards);
        }
        if at > snapshot {
            return Err(Expect::problem(409, "RETENTION_BEYOND_SNAPSHOT"));
        }
        stream.record_at(at).ok_or(Expect::problem(400, "OFFSET_NOT_A_BOUNDARY"))?;
        if at > stream.retained {
            stream.retained = at;
            stream.renew(now, true);
        }
        Ok(Expect::empty(204).with("stream-retained-offset", offset(at)))
    }

    pub(super) fn bootstrap(&mut self, ask: &Ask, key: &Key) -> Answer {
        let now = self.now;
        let stream = self.stream(key)?;
        if ask.param("live").is_some() {
            return Err(Expect::problem(400, "INVALID_QUERY"));
        }
        if ask.method == "GET" {
            stream.renew(now, true);
        }
        let (start, first) = match &stream.snapshot {
            Some(it) => (it.offset, (it.content_type.clone(), it.body.clone())),
            None => (stream.retained, ("application/octet-stream".to_owned(), Vec::new())),
        };
        let start = stream.record_at(start).expect("snapshots lie at boundaries");
        let separator = usize::from(stream.is_json());
        let messages = &stream.messages[usize::try_from(start).expect("in memory")..];
        let part = |message: &Vec<u8>| {
            (stream.content_type.clone(), message[..message.len() - separator].to_vec())
        };
        let parts = std::iter::once(first).chain(messages.iter().map(part)).collect();
        let snapshot = stream.snapshot.as_ref();
        let mut expect = Expect::empty(200)
            .with("content-type", "multipart/mixed; boundary=*")
            .with_some("stream-snapshot-offset", snapshot.is_none().then_some("-1"))
            .with("stream-next-offset", offset(stream.tail()))
            .with("stream-up-to-date", "true")
            .flag("stream-closed", stream.closed);
        expect.body = Body::Parts(parts);
        Ok(stream.facts(expect))
    }

    pub(super) fn attributes(&mut self, key: &Key) -> Answer {
        let stream = self.stream(key)?;
        let mut expect = Expect::empty(200).with("content-type", "application/json");
        expect.body = Body::Json(stream.attributes.clone());
        Ok(expect)
    }

    pub(super) fn set_attributes(&mut self, ask: &Ask, key: &Key) -> Answer {
        if ask.header("content-type") != Some("application/json") {
            return Err(Expect::problem(415, "ATTRIBUTES_NEED_JSON"));
        }
        if ask.body.len() > ATTRIBUTES_BYTES_MAX {
            return Err(Expect::problem(413, "BODY_TOO_LARGE"));
        }
        let attributes = serde_json::from_slice::<Value>(&ask.body).ok().filter(Value::is_object);
        let attributes = attributes.ok_or(Expect::problem(400, "INVALID_ATTRIBUTES"))?;
        let now = self.now;
        let stream = self.stream(key)?;
        stream.attributes = attributes;
        stream.renew(now, true);
        Ok(Expect::empty(204))
    }
}

impl Stream {
    /// The offset that a request names.
    fn place(&self, named: &Named) -> Result<u64, Expect> {
        match *named {
            Named::Offset(at) => Ok(at),
            Named::Record(_) if !self.is_json() => Err(Expect::problem(400, "RECORDS_NEED_JSON")),
            Named::Record(n) if n > self.next() => Err(self.beyond()),
            Named::Record(n) => Ok(self.offset_of(n)),
        }
    }

    fn beyond(&self) -> Expect {
        Expect::problem(409, "OFFSET_BEYOND_TAIL").with("stream-next-offset", offset(self.tail()))
    }
}

fn number(text: &str) -> Result<u64, Expect> {
    match parse_offset(text)? {
        At::Number(at) => Ok(at),
        _ => Err(Expect::problem(400, "INVALID_OFFSET")),
    }
}

fn named(ask: &Ask, at: Option<&str>) -> Result<Named, Expect> {
    let record = ask.param("record").map(|n| {
        parse_number(n, 20).map(Named::Record).ok_or(Expect::problem(400, "INVALID_QUERY"))
    });
    match (at, record.transpose()?) {
        (Some(at), None) => Ok(Named::Offset(number(at)?)),
        (None, Some(record)) => Ok(record),
        _ => Err(Expect::problem(400, "INVALID_OFFSET")),
    }
}

fn digest(content_type: &str, body: &[u8]) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&(content_type.len() as u64).to_le_bytes());
    hasher.update(content_type.as_bytes());
    hasher.update(body);
    hasher.finalize().to_hex().to_string()
}
