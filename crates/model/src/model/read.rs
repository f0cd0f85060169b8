//! GET and HEAD of a stream: catch-up, long-poll, SSE, by offset or by record.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::{Answer, At, Key, Life, Model, PAGE_BYTES, Stream, media_type, offset};
use super::{parse_number, parse_offset};
use crate::ask::{Ask, Body, Expect};

const NDJSON: &str = "application/x-ndjson";
const RECORDS: &str = "application/vnd.durable-stream-records+ndjson";

/// Where a read begins, as asked.
enum Start {
    Offset(At),
    Record(u64),
    LastRecords(u64),
}

impl Model {
    pub(super) fn head(&mut self, key: &Key) -> Answer {
        let stream = self.stream(key)?;
        let (ttl, until) = match &stream.life {
            Life::Endless => (None, None),
            Life::Ttl { seconds, .. } => (Some(*seconds), None),
            Life::Until { text, .. } => (None, Some(text)),
        };
        let expect = Expect::empty(200)
            .with("content-type", &stream.content_type)
            .with("stream-next-offset", offset(stream.tail()))
            .flag("stream-closed", stream.closed)
            .with_some("stream-ttl", ttl)
            .with_some("stream-expires-at", until)
            .with_some("stream-record-next", stream.is_json().then(|| stream.next()));
        Ok(stream.facts(expect))
    }

    pub(super) fn read(&mut self, ask: &Ask, key: &Key) -> Answer {
        let now = self.now;
        let live = ask.param("live");
        let stream = self.stream(key)?;
        let (start, max) = start(ask)?;
        if !stream.is_json() && (max.is_some() || !matches!(start, Start::Offset(_))) {
            return Err(Expect::problem(400, "RECORDS_NEED_JSON"));
        }
        let from = stream.locate(&start)?;
        stream.renew(now, live.is_none());
        let max = max.unwrap_or(u64::MAX);
        if live == Some("sse") {
            return Ok(stream.events(from, max));
        }
        let now = matches!(start, Start::Offset(At::Now) | Start::LastRecords(0));
        Ok(stream.page(from, max, live.is_some(), now && live.is_none(), ask.header("accept")))
    }
}

impl Stream {
    /// Where a read begins.
    fn locate(&self, start: &Start) -> Result<u64, Expect> {
        match *start {
            Start::Offset(At::Start) if self.retained > 0 => Err(self.trimmed()),
            Start::Offset(At::Start) => Ok(0),
            Start::Offset(At::Now) => Ok(self.tail()),
            Start::Offset(At::Number(at)) if at < self.retained => Err(self.trimmed()),
            Start::Offset(At::Number(at)) if at < self.tail() && self.record_at(at).is_none() => {
                Err(Expect::problem(400, "OFFSET_NOT_A_BOUNDARY"))
            }
            Start::Offset(At::Number(at)) => Ok(at),
            Start::Record(n) if n < self.first() => Err(self.trimmed()),
            Start::Record(n) if n > self.next() => Err(Expect::problem(400, "RECORD_OUT_OF_RANGE")),
            Start::Record(n) => Ok(self.offset_of(n)),
            Start::LastRecords(k) => {
                Ok(self.offset_of(self.next().saturating_sub(k).max(self.first())))
            }
        }
    }

    /// What is said of discarded history.
    pub(super) fn trimmed(&self) -> Expect {
        let snapshot = self.snapshot.as_ref();
        Expect::problem(410, "OFFSET_TRIMMED")
            .with("stream-retained-offset", offset(self.retained))
            .with("stream-next-offset", offset(self.tail()))
            .with_some("stream-snapshot-offset", snapshot.map(|it| offset(it.offset)))
            .with("link", "bootstrap")
    }

    /// What HEAD and reads say of the stream.
    pub(super) fn facts(&self, expect: Expect) -> Expect {
        let retained = Some(self.retained).filter(|retained| *retained > 0).map(offset);
        let expect = self
            .name_snapshot(expect)
            .with_some("stream-retained-offset", retained)
            .with_some("stream-record-first", self.is_json().then(|| self.first()));
        let extension = "json-record-coordinates-v1";
        expect.with_some("stream-extensions", self.is_json().then_some(extension))
    }

    pub(super) fn name_snapshot(&self, expect: Expect) -> Expect {
        let snapshot = self.snapshot.as_ref();
        expect
            .with_some("stream-snapshot-offset", snapshot.map(|it| offset(it.offset)))
            .with_some("stream-snapshot-digest", snapshot.map(|it| &it.digest))
    }

    /// The records of a page that begins at `from`.
    fn page_records(&self, from: u64, max: u64) -> std::ops::Range<u64> {
        let start = self.record_at(from).unwrap_or(self.next());
        let mut end = start;
        let fits = |end| self.offset_of(end) - from <= PAGE_BYTES;
        while end < self.next() && end - start < max && (end == start || fits(end + 1)) {
            end += 1;
        }
        start..end
    }

    fn slice(&self, records: &std::ops::Range<u64>) -> &[Vec<u8>] {
        let index = |n| usize::try_from(n).expect("a record in memory");
        &self.messages[index(records.start)..index(records.end)]
    }

    fn page(&self, from: u64, max: u64, live: bool, now: bool, accept: Option<&str>) -> Expect {
        let records = self.page_records(from, max);
        let end = from.max(self.offset_of(records.end));
        let up_to_date = end >= self.tail();
        let nothing = live && end == from;
        let kind = accept.filter(|kind| self.is_json() && [NDJSON, RECORDS].contains(kind));
        let mut expect = Expect::empty(if nothing { 204 } else { 200 })
            .with_some("content-type", (!nothing).then_some(kind.unwrap_or(&self.content_type)))
            .with("stream-next-offset", offset(end))
            .flag("stream-up-to-date", up_to_date)
            .flag("stream-closed", up_to_date && self.closed)
            .with_some("stream-cursor", (live && !(nothing && self.closed)).then_some("*"))
            .with_some("etag", (!nothing && !now).then_some("\"*"))
            .with_some("stream-record-start", self.is_json().then_some(records.start))
            .with_some("stream-record-next", self.is_json().then_some(records.end));
        if !nothing {
            expect.body = Body::Exact(self.body(&records, kind));
        }
        self.facts(expect)
    }

    fn body(&self, records: &std::ops::Range<u64>, kind: Option<&str>) -> Vec<u8> {
        let messages = self.slice(records);
        if !self.is_json() {
            return messages.concat();
        }
        let text = |message: &Vec<u8>| message[..message.len() - 1].to_vec();
        let texts: Vec<Vec<u8>> = messages.iter().map(text).collect();
        if kind.is_none() {
            return [&b"["[..], &texts.join(&b','), b"]"].concat();
        }
        let line = |(text, n): (Vec<u8>, u64)| {
            let space = |byte: u8| if matches!(byte, b'\r' | b'\n') { b' ' } else { byte };
            let text: Vec<u8> = text.into_iter().map(space).collect();
            if kind == Some(RECORDS) {
                let head = format!("{{\"record\":{n},\"value\":");
                [head.as_bytes(), &text, b"}\n"].concat()
            } else {
                [&text[..], b"\n"].concat()
            }
        };
        texts.into_iter().zip(records.start..).map(line).collect::<Vec<_>>().concat()
    }

    /// All that is there from `from` on; a response that is left open is left there.
    fn events(&self, from: u64, max: u64) -> Expect {
        let start = self.record_at(from).unwrap_or(self.next());
        let records = start..self.next().min(start.saturating_add(max));
        let end = from.max(self.offset_of(records.end));
        let kind = media_type(&self.content_type);
        let base64 = !kind.starts_with("text/") && !self.is_json();
        let data = match self.body(&records, None) {
            _ if records.is_empty() => Vec::new(),
            body if base64 => STANDARD.encode(body).into_bytes(),
            body => lines(&body),
        };
        let mut control = json!({ "streamNextOffset": offset(end) });
        if end >= self.tail() {
            control["upToDate"] = true.into();
            if self.closed {
                control["streamClosed"] = true.into();
            }
        }
        if self.is_json() {
            control["streamFirstRecord"] = self.first().into();
            control["streamNextRecord"] = records.end.into();
        }
        let mut expect = Expect::empty(200)
            .with("content-type", "text/event-stream")
            .with_some("stream-sse-data-encoding", base64.then_some("base64"));
        expect.body = Body::Events(data, control);
        self.facts(expect)
    }
}

/// Line ends as SSE carries them.
fn lines(text: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(text);
    text.replace("\r\n", "\n").replace('\r', "\n").into_bytes()
}

fn start(ask: &Ask) -> Result<(Start, Option<u64>), Expect> {
    let invalid = || Expect::problem(400, "INVALID_QUERY");
    let number = |text: &str| parse_number(text, 20).ok_or_else(invalid);
    let max = ask.param("max_records").map(number).transpose()?;
    let (at, record, last) = (ask.param("offset"), ask.param("record"), ask.param("tail_records"));
    let start = match (at, record, last) {
        (at, None, None) => {
            if max.is_some() || (at.is_none() && ask.param("live").is_some()) {
                return Err(invalid());
            }
            Start::Offset(at.map_or(Ok(At::Start), parse_offset)?)
        }
        (None, Some("now"), None) => Start::Offset(At::Now),
        (None, Some(n), None) => Start::Record(number(n)?),
        (None, None, Some(k)) => Start::LastRecords(number(k)?),
        _ => return Err(invalid()),
    };
    let is_record = record.is_some() || last.is_some();
    if ask.param("live").is_some_and(|live| !["sse", "long-poll"].contains(&live)) {
        return Err(invalid());
    }
    // `record=now` names a record too, which matters on other content types.
    match start {
        Start::Offset(At::Now) if is_record => Ok((Start::LastRecords(0), max)),
        start => Ok((start, max)),
    }
}
