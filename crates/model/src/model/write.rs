//! POST to a stream: appends, closes, batches.

use serde_json::{Value, json};

use super::{
    Answer, Key, Model, Producer, Stream, asks_to_close, check_content_type, media_type, offset,
    parse_number,
};
use crate::ask::{Ask, Body, Expect};
use crate::json;

/// The largest number of a producer.
const NUMBER_MAX: u64 = (1 << 53) - 1;

/// A producer's stamp: id, epoch, number.
type Stamp = (String, u64, u64);

/// One append: a request, or a frame of a batch.
struct Append<'a> {
    content_type: Option<&'a str>,
    body: &'a [u8],
    stamp: Option<Stamp>,
    seq: Option<&'a str>,
    close: bool,
    record_match: Option<u64>,
}

impl Model {
    pub(super) fn append(&mut self, ask: &Ask, key: &Key) -> Answer {
        let now = self.now;
        let stream = self.stream(key)?;
        let stamp = stamp(ask)?;
        let record_match = match ask.header("stream-record-match") {
            None => None,
            Some(text) => {
                Some(parse_number(text, 20).ok_or(Expect::problem(400, "INVALID_HEADER"))?)
            }
        };
        let content_type = ask.header("content-type");
        if !ask.body.is_empty() {
            content_type.map_or(Ok(()), check_content_type)?;
        }
        let (seq, close) = (ask.header("stream-seq"), asks_to_close(ask));
        let append = Append { content_type, body: &ask.body, stamp, seq, close, record_match };
        stream.append(&append, now)
    }

    pub(super) fn batch(&mut self, ask: &Ask, key: &Key) -> Answer {
        let now = self.now;
        let stream = self.stream(key)?;
        for header in ["stream-seq", "stream-closed", "stream-record-match"] {
            if ask.header(header).is_some() {
                return Err(Expect::problem(400, "INVALID_HEADER"));
            }
        }
        let stamp = stamp(ask)?;
        let content_type = ask.header("content-type");
        content_type.map_or(Ok(()), check_content_type)?;
        let Some(content_type) = content_type else {
            return Err(Expect::problem(400, "CONTENT_TYPE_MISSING"));
        };
        if !stream.closed && media_type(content_type) != media_type(&stream.content_type) {
            let expected = "CONTENT_TYPE_MISMATCH";
            return Err(Expect::problem(409, expected));
        }
        let frames = frames(&ask.body).ok_or(Expect::problem(400, "INVALID_BATCH"))?;
        let mut reports = Vec::new();
        for (body, number) in frames.into_iter().zip(0..) {
            let stamp = stamp.clone().map(|(id, epoch, seq)| (id, epoch, seq + number));
            let content_type = Some(content_type);
            let (seq, close, record_match) = (None, false, None);
            let append = Append { content_type, body, stamp, seq, close, record_match };
            reports.push(report(&stream.append(&append, now)));
        }
        let all_well = reports.iter().all(|report| report["status"] == 204);
        if all_well && ask.header("prefer") == Some("return=minimal") {
            return Ok(Expect::empty(204).with("preference-applied", "return=minimal"));
        }
        let mut expect = Expect::empty(200).with("content-type", "application/json");
        expect.body = Body::Json(Value::Array(reports));
        Ok(expect)
    }
}

impl Stream {
    fn append(&mut self, append: &Append<'_>, now: u64) -> Answer {
        let close_only = append.body.is_empty() && append.close;
        if append.body.is_empty() && !close_only {
            return Err(Expect::problem(400, "EMPTY_BODY"));
        }
        if !append.body.is_empty() && append.content_type.is_none() {
            return Err(Expect::problem(400, "CONTENT_TYPE_MISSING"));
        }
        if self.closed {
            return self.append_closed(append, close_only);
        }
        if !close_only {
            let content_type = append.content_type.unwrap_or_default();
            if media_type(content_type) != media_type(&self.content_type) {
                return Err(Expect::problem(409, "CONTENT_TYPE_MISMATCH"));
            }
        }
        self.check_records_exist(append)?;
        if let Some(stamp) = &append.stamp
            && let Some(repeated) = self.check_producer(stamp)?
        {
            return Ok(repeated);
        }
        let last = self.seq.as_deref();
        if append.seq.is_some_and(|seq| last.is_some_and(|last| seq <= last)) {
            return Err(Expect::problem(409, "STREAM_SEQ_CONFLICT"));
        }
        self.check_record(append)?;
        self.accept(append, close_only, now)
    }

    fn check_records_exist(&self, append: &Append<'_>) -> Result<(), Expect> {
        let fits = append.record_match.is_none() || self.is_json();
        if fits { Ok(()) } else { Err(Expect::problem(400, "RECORDS_NEED_JSON")) }
    }

    fn check_record(&self, append: &Append<'_>) -> Result<(), Expect> {
        if append.record_match.is_none_or(|record| record == self.next()) {
            return Ok(());
        }
        Err(Expect::problem(412, "RECORD_MISMATCH")
            .with("stream-record-next", self.next())
            .with("stream-next-offset", offset(self.tail())))
    }

    fn accept(&mut self, append: &Append<'_>, close_only: bool, now: u64) -> Answer {
        let start = self.next();
        let messages = match append.body {
            [] => Vec::new(),
            body if self.is_json() => match json::messages(body) {
                Ok(messages) if messages.is_empty() => {
                    return Err(Expect::problem(400, "EMPTY_ARRAY"));
                }
                messages => messages.map_err(|code| Expect::problem(400, code))?,
            },
            body => vec![body.to_vec()],
        };
        for message in messages {
            self.push(message);
        }
        let records = self.is_json().then_some((start, self.next()));
        if let Some((id, epoch, seq)) = append.stamp.clone() {
            self.producers.insert(id, Producer { epoch, seq, records });
        }
        if let Some(seq) = append.seq {
            self.seq = Some(seq.to_owned());
        }
        if append.close {
            (self.closed, self.closed_by) = (true, append.stamp.clone());
        }
        self.written_at = now;
        self.renew(now, true);
        let status = if append.stamp.is_some() && !close_only { 200 } else { 204 };
        let stamp = append.stamp.as_ref().map(|(_, epoch, seq)| (*epoch, *seq));
        Ok(self.done(status, stamp, records))
    }

    /// What is said of an append to a closed stream.
    fn append_closed(&self, append: &Append<'_>, close_only: bool) -> Answer {
        let repeated = append.stamp.is_some() && append.stamp == self.closed_by;
        if let Some((id, epoch, seq)) = append.stamp.as_ref().filter(|_| repeated) {
            let records = self.producers[id].records;
            return Ok(self.done(204, Some((*epoch, *seq)), records));
        }
        if close_only && append.stamp.is_none() {
            self.check_records_exist(append)?;
            self.check_record(append)?;
            return Ok(self.done(204, None, None));
        }
        Err(Expect::problem(409, "STREAM_CLOSED")
            .with("stream-closed", "true")
            .with("stream-next-offset", offset(self.tail())))
    }

    /// Whether the producer may go on; the answer if it has said this before.
    fn check_producer(&self, (id, epoch, seq): &Stamp) -> Result<Option<Expect>, Expect> {
        let gap = |expected: u64| {
            Err(Expect::problem(409, "PRODUCER_GAP")
                .with("producer-expected-seq", expected)
                .with("producer-received-seq", seq))
        };
        let Some(known) = self.producers.get(id) else {
            return if *seq == 0 { Ok(None) } else { gap(0) };
        };
        if *epoch < known.epoch {
            return Err(Expect::problem(403, "PRODUCER_FENCED").with("producer-epoch", known.epoch));
        }
        if *epoch > known.epoch {
            let starts = *seq == 0;
            return if starts {
                Ok(None)
            } else {
                Err(Expect::problem(400, "PRODUCER_EPOCH_START"))
            };
        }
        if *seq > known.seq + 1 {
            return gap(known.seq + 1);
        }
        let records = known.records.filter(|_| *seq == known.seq);
        let repeated = || self.done(204, Some((known.epoch, known.seq)), records);
        Ok((*seq <= known.seq).then(repeated))
    }

    fn done(&self, status: u16, stamp: Option<(u64, u64)>, records: Option<(u64, u64)>) -> Expect {
        Expect::empty(status)
            .with("stream-next-offset", offset(self.tail()))
            .flag("stream-closed", self.closed)
            .with_some("producer-epoch", stamp.map(|stamp| stamp.0))
            .with_some("producer-seq", stamp.map(|stamp| stamp.1))
            .with_some("stream-record-start", records.map(|records| records.0))
            .with_some("stream-record-next", records.map(|records| records.1))
    }
}

fn stamp(ask: &Ask) -> Result<Option<Stamp>, Expect> {
    let invalid = || Expect::problem(400, "INVALID_PRODUCER");
    let header = |name| ask.header(name);
    match (header("producer-id"), header("producer-epoch"), header("producer-seq")) {
        (None, None, None) => Ok(None),
        (Some(id), Some(epoch), Some(seq)) if !id.is_empty() => {
            let number = |text| parse_number(text, 20).filter(|n| *n <= NUMBER_MAX);
            let numbers = number(epoch).zip(number(seq)).ok_or_else(invalid)?;
            Ok(Some((id.to_owned(), numbers.0, numbers.1)))
        }
        _ => Err(invalid()),
    }
}

/// The payloads of a batch.
fn frames(mut body: &[u8]) -> Option<Vec<&[u8]>> {
    let mut frames = Vec::new();
    while !body.is_empty() {
        let (len, rest) = body.split_first_chunk()?;
        let len = usize::try_from(u32::from_be_bytes(*len)).ok().filter(|len| *len > 0)?;
        frames.push(rest.get(..len)?);
        body = &rest[len..];
    }
    Some(frames).filter(|frames| !frames.is_empty())
}

/// What a batch says of a frame.
fn report(answer: &Answer) -> Value {
    let (Ok(expect) | Err(expect)) = answer;
    let header = |name| {
        let found = expect.headers.iter().find(|(is, _)| *is == name);
        found.map(|(_, value)| value.clone())
    };
    if let Body::Problem(code) = expect.body {
        let closed = header("stream-closed").map(|_| true);
        let mut report = json!({ "status": expect.status, "code": code });
        if let Some(closed) = closed {
            report["stream_closed"] = closed.into();
            report["stream_next_offset"] = header("stream-next-offset").into();
        }
        return report;
    }
    let mut report = json!({ "status": 204, "stream_next_offset": header("stream-next-offset") });
    for (member, name) in [
        ("stream_record_start", "stream-record-start"),
        ("stream_record_next", "stream-record-next"),
    ] {
        if let Some(number) = header(name) {
            report[member] = number.parse::<u64>().expect("the model wrote it").into();
        }
    }
    report
}
