//! PUT of a stream, forks included.

use serde_json::{Value, json};

use super::{
    Answer, At, ForkedFrom, Key, Life, Model, Stream, asks_to_close, check_content_type, key,
    media_type, offset, parse_number, parse_offset,
};
use crate::ask::{Ask, Expect, Surface};
use crate::json;

/// What the head of a PUT asks for.
struct Wish {
    content_type: Option<String>,
    life: Life,
    closed: bool,
    attributes: Option<Value>,
    fork: Option<ForkedFrom>,
}

impl Model {
    pub(super) fn create(&mut self, ask: &Ask, key: Key) -> Answer {
        let wish = self.wish(ask)?;
        if !key.0.is_empty() && !self.buckets.contains_key(&key.0) {
            return Err(Expect::problem(404, "BUCKET_NOT_FOUND"));
        }
        let now = self.now;
        if let Some(there) = self.streams.get_mut(&key) {
            if there.deleted {
                return Err(Expect::problem(409, "STREAM_HELD"));
            }
            if !matches(there, &wish) {
                return Err(Expect::problem(409, "STREAM_EXISTS"));
            }
            there.renew(now, true);
            // It appended nothing.
            let here = there.next();
            return Ok(created(there, 200, (here, here)));
        }
        let mut stream = match &wish.fork {
            Some(from) => self.fork(from, wish.content_type.as_deref())?,
            None => blank(wish.content_type.as_deref().unwrap_or("application/octet-stream")),
        };
        let start = stream.next();
        for message in initial(&stream, &ask.body)? {
            stream.push(message);
        }
        if wish.life != Life::Endless {
            (stream.life, stream.inherited_life) = (wish.life, false);
        }
        stream.renew(now, true);
        self.ids += 1;
        stream.id = self.ids;
        stream.closed = wish.closed;
        stream.attributes = wish.attributes.unwrap_or(json!({}));
        (stream.created_at, stream.written_at) = (now, now);
        let expect = created(&stream, 201, (start, stream.next()));
        self.streams.insert(key, stream);
        Ok(expect.with("location", format!("http://HOST{}", ask.home())))
    }

    /// What the head says, if it can be read.
    fn wish(&self, ask: &Ask) -> Result<Wish, Expect> {
        let content_type = ask.header("content-type").map(str::to_owned);
        if let Some(content_type) = &content_type {
            check_content_type(content_type)?;
        }
        let life = self.lifetime(ask.header("stream-ttl"), ask.header("stream-expires-at"))?;
        let fork = forked_from(ask)?;
        let attributes = match ask.header("stream-attrs").map(serde_json::from_str::<Value>) {
            None => None,
            Some(Ok(attributes)) if attributes.is_object() => Some(attributes),
            Some(_) => return Err(Expect::problem(400, "INVALID_ATTRIBUTES")),
        };
        Ok(Wish { content_type, life, closed: asks_to_close(ask), attributes, fork })
    }

    fn lifetime(&self, ttl: Option<&str>, until: Option<&str>) -> Result<Life, Expect> {
        let invalid = Expect::problem(400, "INVALID_LIFETIME");
        match (ttl, until) {
            (None, None) => Ok(Life::Endless),
            (Some(text), None) => {
                let seconds =
                    parse_number(text, 12).filter(|_| text == "0" || !text.starts_with('0'));
                let seconds = seconds.ok_or(invalid)?;
                let end = self.now + seconds * 1000;
                Ok(Life::Ttl { seconds, early: end, late: end })
            }
            // The generator writes instants of one day in one form, or no instant at all.
            (None, Some(text)) => {
                let time = text.strip_prefix("2030-01-01T").and_then(|t| t.strip_suffix('Z'));
                let parts = time.ok_or(invalid)?.split(':').map(str::parse::<u64>);
                let add = |sum, part: Result<u64, _>| Some(sum * 60 + part.ok()?);
                let seconds = parts.into_iter().try_fold(0, add).expect("the generator wrote it");
                let at = EPOCH_MS + seconds * 1000;
                Ok(Life::Until { text: text.to_owned(), at })
            }
            (Some(_), Some(_)) => Err(invalid),
        }
    }

    fn fork(&self, from: &ForkedFrom, content_type: Option<&str>) -> Result<Stream, Expect> {
        let (source, at, sub) = from;
        if !source.0.is_empty() && !self.buckets.contains_key(&source.0) {
            return Err(Expect::problem(404, "BUCKET_NOT_FOUND"));
        }
        let source = match self.streams.get(source) {
            None => return Err(Expect::problem(404, "FORK_SOURCE_NOT_FOUND")),
            Some(source) if source.deleted => {
                return Err(Expect::problem(409, "FORK_SOURCE_DELETED"));
            }
            Some(source) => source,
        };
        if content_type.is_some_and(|it| media_type(it) != media_type(&source.content_type)) {
            return Err(Expect::problem(409, "CONTENT_TYPE_MISMATCH"));
        }
        if *sub > 0 && at.is_none() {
            return Err(Expect::problem(400, "FORK_SUB_OFFSET"));
        }
        let at = at.unwrap_or(source.tail());
        if at > source.tail() {
            return Err(Expect::problem(400, "FORK_OFFSET_BEYOND_TAIL"));
        }
        if at < source.retained {
            return Err(Expect::problem(410, "FORK_OFFSET_TRIMMED"));
        }
        let index = source.record_at(at).ok_or(Expect::problem(400, "OFFSET_NOT_A_BOUNDARY"))?;
        let index = usize::try_from(index).expect("a record in memory");
        let mut messages = source.messages[..index].to_vec();
        messages.extend(cut(source, index, *sub)?);
        let mut fork = blank(content_type.unwrap_or(&source.content_type));
        fork.messages = messages;
        fork.retained = source.retained;
        fork.snapshot = source.snapshot.clone().filter(|snapshot| snapshot.offset <= fork.tail());
        if fork.snapshot.is_none() && source.retained > 0 {
            return Err(Expect::problem(409, "FORK_UNCOVERED"));
        }
        (fork.life, fork.inherited_life) = (source.life.clone(), source.life != Life::Endless);
        fork.parent = Some(source.id);
        // A later PUT may name the offset that this one left to the server.
        fork.forked_from = Some((from.0.clone(), Some(at), *sub));
        Ok(fork)
    }
}

/// Midnight of 2030-01-01, on which all tests take place.
pub const EPOCH_MS: u64 = 1_893_456_000_000;

/// What a sub-offset takes along of what follows the anchor.
fn cut(source: &Stream, index: usize, sub: u64) -> Result<Vec<Vec<u8>>, Expect> {
    let rest = &source.messages[index..];
    let sub = usize::try_from(sub).unwrap_or(usize::MAX);
    let beyond = Expect::problem(400, "FORK_SUB_OFFSET");
    if sub == 0 {
        Ok(Vec::new())
    } else if source.is_json() {
        rest.get(..sub).map(<[_]>::to_vec).ok_or(beyond)
    } else {
        let piece = rest.first().and_then(|message| message.get(..sub));
        piece.map(|piece| vec![piece.to_vec()]).ok_or(beyond)
    }
}

fn forked_from(ask: &Ask) -> Result<Option<ForkedFrom>, Expect> {
    let invalid = || Expect::problem(400, "INVALID_FORK");
    let (from, at) = (ask.header("stream-forked-from"), ask.header("stream-fork-offset"));
    let sub = match ask.header("stream-fork-sub-offset") {
        None => None,
        Some(text) if text != "0" && text.starts_with('0') => return Err(invalid()),
        Some(text) => Some(parse_number(text, 19).ok_or_else(invalid)?),
    };
    let Some(from) = from else {
        return if at.is_some() || sub.is_some() { Err(invalid()) } else { Ok(None) };
    };
    let at = match at.map(parse_offset) {
        None => None,
        Some(Ok(At::Number(at))) => Some(at),
        Some(_) => return Err(invalid()),
    };
    let sub = sub.unwrap_or(0);
    let from = from.replace("%20", " ");
    let parts: Vec<&str> = from.split('/').collect();
    let source = match parts[..] {
        ["", "v1", "stream", first, second] => key(Surface::Base, first, second),
        ["", "ds", bucket, id] => key(Surface::Ds, bucket, id),
        ["", bucket, id] => key(Surface::Root, bucket, id),
        _ => return Err(invalid()),
    };
    Ok(Some((source, at, sub)))
}

/// Whether a PUT asks for what there is.
fn matches(there: &Stream, wish: &Wish) -> bool {
    let content_type = wish.content_type.as_deref();
    let default = wish.fork.is_none().then_some("application/octet-stream");
    let same_type =
        content_type.or(default).is_none_or(|it| media_type(it) == media_type(&there.content_type));
    let same_life = match (&wish.life, &there.life) {
        (Life::Endless, life) => *life == Life::Endless || there.inherited_life,
        (Life::Ttl { seconds: a, .. }, Life::Ttl { seconds: b, .. })
        | (Life::Until { at: a, .. }, Life::Until { at: b, .. }) => a == b && !there.inherited_life,
        _ => false,
    };
    let same_fork = match (&wish.fork, &there.forked_from) {
        (None, None) => true,
        (Some((from, at, sub)), Some((source, anchor, cut))) => {
            from == source && sub == cut && at.is_none_or(|at| Some(at) == *anchor)
        }
        _ => false,
    };
    let same_attributes = wish.attributes.as_ref().is_none_or(|it| *it == there.attributes);
    same_type && same_life && same_fork && same_attributes && wish.closed == there.closed
}

fn initial(stream: &Stream, body: &[u8]) -> Result<Vec<Vec<u8>>, Expect> {
    match body {
        [] => Ok(Vec::new()),
        _ if stream.is_json() => json::messages(body).map_err(|code| Expect::problem(400, code)),
        _ => Ok(vec![body.to_vec()]),
    }
}

fn created(stream: &Stream, status: u16, (start, next): (u64, u64)) -> Expect {
    let json = stream.is_json();
    Expect::empty(status)
        .with("content-type", &stream.content_type)
        .with("stream-next-offset", offset(stream.tail()))
        .flag("stream-closed", stream.closed)
        .with_some("stream-record-start", json.then_some(start))
        .with_some("stream-record-next", json.then_some(next))
}

fn blank(content_type: &str) -> Stream {
    Stream {
        id: 0,
        content_type: content_type.to_owned(),
        messages: Vec::new(),
        closed: false,
        closed_by: None,
        life: Life::Endless,
        inherited_life: false,
        producers: std::collections::BTreeMap::new(),
        seq: None,
        snapshot: None,
        retained: 0,
        attributes: json!({}),
        parent: None,
        forked_from: None,
        deleted: false,
        created_at: 0,
        written_at: 0,
    }
}
