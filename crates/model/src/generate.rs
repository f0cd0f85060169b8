//! Chooses the next request from a step's own randomness and what the model holds by then: few
//! names, small bodies, mostly sensible, now and then wrong on purpose.

use crate::ask::{Ask, Surface};
use crate::model::{EPOCH_MS, Model, Stream, key, offset};
use crate::rng::Rng;

const JSON: &str = "application/json";

const JSON_BODIES: [&str; 24] = [
    "1",
    "{\"a\":1}",
    " [1, 2 ,3] ",
    "[]",
    "[[]]",
    "[[1,2],[3]]",
    "[{\"a\":1,\"a\":2},null,\"x\"]",
    "\"text, with ] and \\\" in it\"",
    "1.0",
    "9007199254740993",
    "[\"\\ud800\",12345678901234567890123456789]",
    "{\"line\":\n1}",
    "[1,\r\n2]",
    "[true , false]",
    "\"é ∞ 😀\"",
    "[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19]",
    "\"a longer text, so that a page is full at some time or other: Lorem ipsum dolor sit amet\"",
    "{\"deep\":[[[[1]]]]}",
    "-0.0e-5",
    "[\"\"]",
    "{",
    "[1,]",
    "nope",
    "[[1]",
];

const TEXT_BODIES: [&str; 9] = [
    "a",
    "hello",
    " leading space",
    "two\nlines",
    "cr\r\nlf and\rcr",
    "event: control\n\ndata: x\n\n",
    "ends with a line\n",
    // No sub-offset that is tried cuts a character, since SSE would wait for the rest of it.
    "an é, ∞ and 😀",
    "a longer text, so that a page is full at some time or other: Lorem ipsum dolor sit amet",
];

/// One of the requests that a step may make.
pub fn ask(rng: &mut Rng<'_>, model: &Model, tag: &str) -> Ask {
    let surface = rng.pick(&[Surface::Root, Surface::Root, Surface::Ds, Surface::Base]);
    let half = if rng.one_in(4) { "b" } else { "a" };
    let id = rng.pick(&["s", "s", "t", "u v"]);
    let mut ask = Ask::about(surface, &format!("{tag}-{half}"), id);
    let missing = surface != Surface::Base && !model.has_bucket(&ask.bucket);
    if missing && !rng.one_in(5) {
        return Ask { method: "PUT", stream: None, ..ask };
    }
    if surface != Surface::Base && rng.one_in(150) {
        "UP".clone_into(&mut ask.bucket);
    }
    if rng.one_in(150) {
        ask.stream = Some("a..b".to_owned());
    }
    let key = key(surface, &ask.bucket, ask.stream.as_deref().unwrap_or_default());
    let Some(stream) = model.streams.get(&key) else {
        match rng.below(10) {
            0 => any(rng, &mut ask, None),
            1 if surface != Surface::Base => bucket(rng, &mut ask),
            _ => create(rng, &mut ask, None, model, tag),
        }
        return ask;
    };
    match rng.below(12) {
        0 => create(rng, &mut ask, Some(stream), model, tag),
        1 if surface != Surface::Base => bucket(rng, &mut ask),
        _ => any(rng, &mut ask, Some(stream)),
    }
    ask
}

/// A request about a stream that does not create it.
fn any(rng: &mut Rng<'_>, ask: &mut Ask, stream: Option<&Stream>) {
    match rng.below(100) {
        0..38 => append(rng, ask, stream),
        38..43 => batch(rng, ask, stream),
        43..64 => read(rng, ask, stream),
        64..68 => ask.method = "HEAD",
        68..72 => ask.method = "DELETE",
        72..80 => publish(rng, ask, stream),
        80..85 => snapshot(rng, ask, stream),
        85..90 => named(rng, ask, stream, "retention"),
        90..95 => {
            "bootstrap".clone_into(&mut ask.resource);
            ask.method = rng.pick(&["GET", "GET", "GET", "HEAD"]);
            if rng.one_in(12) {
                ask.query.push(("live", "sse".to_owned()));
            }
        }
        _ => attributes(rng, ask),
    }
}

fn bucket(rng: &mut Rng<'_>, ask: &mut Ask) {
    ask.stream = None;
    match rng.below(8) {
        0 => ask.method = "PUT",
        1 => ask.method = "DELETE",
        2 => ask.method = "HEAD",
        3 => {}
        _ => {
            "streams".clone_into(&mut ask.resource);
            if rng.one_in(2) {
                ask.query.push(("prefix", rng.pick(&["", "s", "u ", "x"]).to_owned()));
            }
            if rng.one_in(3) {
                ask.query.push(("after", rng.pick(&["", "s", "t", "zz"]).to_owned()));
            }
            if rng.one_in(2) {
                ask.query
                    .push(("limit", rng.pick(&["1", "2", "1000", "0", "1001", "x"]).to_owned()));
            }
        }
    }
}

fn create(rng: &mut Rng<'_>, ask: &mut Ask, there: Option<&Stream>, model: &Model, tag: &str) {
    ask.method = "PUT";
    let same = there.filter(|_| !rng.one_in(3));
    let kind = match same {
        Some(there) => there.kind().to_owned(),
        None => rng.pick(&[JSON, JSON, "text/plain", "application/octet-stream"]).to_owned(),
    };
    let forks = match same {
        Some(there) => there.is_fork() || rng.one_in(8),
        None => rng.one_in(3),
    };
    let typed = !rng.one_in(if forks { 2 } else { 6 });
    if typed {
        head(ask, "Content-Type", decorate(rng, &kind));
    }
    if forks {
        fork(rng, ask, there, model, tag);
    }
    match rng.below(12) {
        0..3 => {
            let ttl = rng.pick(&["1", "2", "2", "3", "5", "5", "0", "00060", "+60", "1e3"]);
            head(ask, "Stream-TTL", ttl.to_owned());
        }
        3 => head(ask, "Stream-Expires-At", instant(rng, model.now)),
        4 if rng.one_in(3) => head(ask, "Stream-Expires-At", "not-a-timestamp".to_owned()),
        5 if rng.one_in(3) => {
            head(ask, "Stream-Expires-At", instant(rng, model.now));
            head(ask, "Stream-TTL", "5".to_owned());
        }
        _ => {}
    }
    if rng.one_in(10) || (there.is_some_and(|it| it.closed) && rng.one_in(2)) {
        head(ask, "Stream-Closed", rng.pick(&["true", "TRUE", "false"]).to_owned());
    }
    if rng.one_in(8) {
        let attributes = ["{}", "{\"a\":1}", "{\"a\": 1}", "{\"b\":[2]}", "[1]", "{"];
        head(ask, "Stream-Attrs", rng.pick(&attributes).to_owned());
    }
    if rng.one_in(3) {
        // Without a type of its own a fork holds what its source holds: a number is all of that.
        let inherits = forks && !typed;
        ask.body = if inherits { b"1".to_vec() } else { body(rng, &kind) };
    }
}

fn fork(rng: &mut Rng<'_>, ask: &mut Ask, there: Option<&Stream>, model: &Model, tag: &str) {
    let again = there.and_then(Stream::forked_from).filter(|_| !rng.one_in(4)).cloned();
    let mine = model.streams.iter().filter(|((bucket, id), _)| {
        bucket.starts_with(tag) || (bucket.is_empty() && id.starts_with(tag))
    });
    let sources: Vec<_> = mine.map(|(key, _)| key.clone()).collect();
    let source = match &again {
        Some((source, _, _)) => source.clone(),
        None if sources.is_empty() || rng.one_in(12) => (format!("{tag}-a"), "none".to_owned()),
        None => {
            sources[usize::try_from(rng.below(sources.len() as u64)).expect("an index")].clone()
        }
    };
    let id = source.1.replace(' ', "%20");
    let path = match rng.below(30) {
        0 => "http://127.0.0.1/x".to_owned(),
        _ if source.0.is_empty() => format!("/v1/stream/{id}"),
        n if n % 2 == 0 => format!("/{}/{id}", source.0),
        _ => format!("/ds/{}/{id}", source.0),
    };
    head(ask, "Stream-Forked-From", path);
    let (mut at, mut sub) = (None, None);
    if let Some((_, anchor, cut)) = again {
        at = anchor.filter(|_| !rng.one_in(3)).map(offset);
        sub = Some(cut).filter(|cut| *cut > 0 || rng.one_in(4)).map(|cut| cut.to_string());
    } else {
        if !rng.one_in(3) {
            at = Some(place(rng, model.streams.get(&source)));
        }
        if rng.one_in(if at.is_some() { 2 } else { 10 }) {
            let subs = ["0", "1", "1", "2", "2", "3", "5", "40", "05", "x"];
            sub = Some(rng.pick(&subs).to_owned());
        }
    }
    if let Some(at) = at {
        head(ask, "Stream-Fork-Offset", at);
    }
    if let Some(sub) = sub {
        head(ask, "Stream-Fork-Sub-Offset", sub);
    }
}

fn append(rng: &mut Rng<'_>, ask: &mut Ask, stream: Option<&Stream>) {
    ask.method = "POST";
    let kind = own_kind(rng, stream);
    let empty = rng.one_in(14);
    if !empty {
        ask.body = body(rng, &kind);
    }
    if !rng.one_in(if empty { 2 } else { 30 }) {
        head(ask, "Content-Type", decorate(rng, &kind));
    }
    if rng.one_in(if empty { 2 } else { 20 }) {
        head(ask, "Stream-Closed", rng.pick(&["true", "True", "true", "yes"]).to_owned());
    }
    if rng.one_in(3) {
        producer(rng, ask, stream);
    }
    if rng.one_in(8) {
        let seqs = ["1", "2", "10", "a", "B", "b", "c", "d"];
        head(ask, "Stream-Seq", rng.pick(&seqs).to_owned());
    }
    let is_json = stream.is_some_and(Stream::is_json);
    if rng.one_in(if is_json { 8 } else { 60 }) {
        let next = stream.map_or(0, Stream::next);
        let value = match rng.below(6) {
            0 => "x".to_owned(),
            1 => (next + 1).to_string(),
            2 => next.saturating_sub(1).to_string(),
            _ => next.to_string(),
        };
        head(ask, "Stream-Record-Match", value);
    }
}

fn producer(rng: &mut Rng<'_>, ask: &mut Ask, stream: Option<&Stream>) {
    let id = rng.pick(&["p", "p", "q"]);
    let (epoch, next) = match stream.and_then(|stream| stream.producers.get(id)) {
        Some(known) => (known.epoch, known.seq + 1),
        None => (rng.below(2), 0),
    };
    let (epoch, seq) = match rng.below(20) {
        0..11 => (epoch, next),
        11..14 => (epoch, next.saturating_sub(1)),
        14 => (epoch, next.saturating_sub(2)),
        15 => (epoch, next + 1),
        16 => (epoch + 1, 0),
        17 => (epoch + 1, 1),
        _ => (epoch.saturating_sub(1), next),
    };
    let bad = rng.below(60);
    if bad != 0 {
        head(ask, "Producer-Id", if bad == 1 { "" } else { id }.to_owned());
    }
    head(ask, "Producer-Epoch", if bad == 2 { "1abc".to_owned() } else { epoch.to_string() });
    if bad != 3 {
        head(ask, "Producer-Seq", if bad == 4 { "-1".to_owned() } else { seq.to_string() });
    }
}

fn batch(rng: &mut Rng<'_>, ask: &mut Ask, stream: Option<&Stream>) {
    ask.method = "POST";
    "append-batch".clone_into(&mut ask.resource);
    let kind = own_kind(rng, stream);
    for _ in 0..=rng.below(3) {
        let frame = body(rng, &kind);
        let len = u32::try_from(frame.len()).expect("a short text");
        ask.body.extend_from_slice(&len.to_be_bytes());
        ask.body.extend_from_slice(&frame);
    }
    match rng.below(25) {
        0 => ask.body.truncate(ask.body.len() - 1),
        1 => ask.body.extend_from_slice(&[0; 4]),
        2 => ask.body.clear(),
        3 => head(ask, "Stream-Seq", "1".to_owned()),
        _ => {}
    }
    if !rng.one_in(20) {
        head(ask, "Content-Type", decorate(rng, &kind));
    }
    if rng.one_in(2) {
        producer(rng, ask, stream);
    }
    if rng.one_in(3) {
        head(ask, "Prefer", "return=minimal".to_owned());
    }
}

fn read(rng: &mut Rng<'_>, ask: &mut Ask, stream: Option<&Stream>) {
    let is_json = stream.is_some_and(Stream::is_json);
    if rng.one_in(if is_json { 3 } else { 30 }) {
        let next = stream.map_or(0, Stream::next);
        match rng.below(6) {
            0 => ask.query.push(("record", "now".to_owned())),
            1..4 => ask.query.push(("record", rng.below(next + 2).to_string())),
            _ => ask.query.push(("tail_records", rng.below(next + 2).to_string())),
        }
        if rng.one_in(2) {
            ask.query.push(("max_records", rng.pick(&["1", "2", "5", "x"]).to_owned()));
        }
    }
    if (ask.query.is_empty() && !rng.one_in(5)) || rng.one_in(40) {
        ask.query.push(("offset", place_or_word(rng, stream)));
    }
    match rng.below(12) {
        0..2 => ask.query.push(("live", "long-poll".to_owned())),
        2..5 => ask.query.push(("live", "sse".to_owned())),
        5 if rng.one_in(6) => ask.query.push(("live", "maybe".to_owned())),
        _ => {}
    }
    if rng.one_in(if is_json { 3 } else { 20 }) {
        let kinds =
            ["application/x-ndjson", "application/vnd.durable-stream-records+ndjson", "*/*", JSON];
        head(ask, "Accept", rng.pick(&kinds).to_owned());
    }
    if rng.one_in(10) {
        ask.query.push(("foo", "bar".to_owned()));
    }
}

fn publish(rng: &mut Rng<'_>, ask: &mut Ask, stream: Option<&Stream>) {
    named(rng, ask, stream, "snapshot");
    ask.body = rng.pick(&["", "fold", "folded", "folded"]).as_bytes().to_vec();
    if rng.one_in(2) {
        let kinds = ["text/plain", "application/x; v=1", "no-type"];
        head(ask, "Content-Type", rng.pick(&kinds).to_owned());
    }
    if rng.one_in(4) {
        let digest = stream.and_then(|it| it.snapshot.as_ref()).map(|it| it.digest.clone());
        let digest = digest.filter(|_| !rng.one_in(3));
        head(ask, "Stream-Snapshot-Match", digest.unwrap_or_else(|| "0".repeat(64)));
    }
}

fn snapshot(rng: &mut Rng<'_>, ask: &mut Ask, stream: Option<&Stream>) {
    ask.method = rng.pick(&["GET", "GET", "GET", "HEAD", "DELETE"]);
    if ask.method != "DELETE" && rng.one_in(3) {
        "snapshot".clone_into(&mut ask.resource);
        return;
    }
    let visible = stream.and_then(|it| it.snapshot.as_ref()).map(|it| offset(it.offset));
    let at = visible.filter(|_| !rng.one_in(4)).unwrap_or_else(|| place_or_word(rng, stream));
    ask.resource = format!("snapshot/{at}");
}

/// PUT of something at an offset, or at a record.
fn named(rng: &mut Rng<'_>, ask: &mut Ask, stream: Option<&Stream>, resource: &str) {
    ask.method = "PUT";
    let is_json = stream.is_some_and(Stream::is_json);
    let record = rng.one_in(if is_json { 3 } else { 40 });
    if record {
        let n = rng.below(stream.map_or(1, Stream::next) + 2).to_string();
        ask.query.push(("record", if rng.one_in(20) { "x".to_owned() } else { n }));
    }
    ask.resource = if record != rng.one_in(60) {
        resource.to_owned()
    } else if rng.one_in(15) {
        format!("{resource}/{}", place_or_word(rng, stream))
    } else {
        format!("{resource}/{}", place(rng, stream))
    };
}

fn attributes(rng: &mut Rng<'_>, ask: &mut Ask) {
    "attrs".clone_into(&mut ask.resource);
    if rng.one_in(2) {
        ask.method = "PUT";
        ask.body = rng.pick(&["{}", "{\"a\":1}", "{\"b\":[2]}", "[]", "{"]).as_bytes().to_vec();
        let kind = if rng.one_in(10) { "text/plain" } else { JSON };
        head(ask, "Content-Type", kind.to_owned());
    }
}

/// A number that is mostly one of the stream's own boundaries.
fn place(rng: &mut Rng<'_>, stream: Option<&Stream>) -> String {
    let ends = stream.map_or(vec![0], Stream::boundaries);
    let tail = ends[ends.len() - 1];
    let (at, retained) = (rng.pick(&ends), stream.map_or(0, |stream| stream.retained));
    match rng.below(16) {
        0..10 => offset(at),
        10 => at.to_string(),
        11 => offset(at + 1),
        12 => offset(tail + rng.below(5)),
        13 => offset(retained),
        14 => offset(retained.saturating_sub(1)),
        _ => offset(tail),
    }
}

fn place_or_word(rng: &mut Rng<'_>, stream: Option<&Stream>) -> String {
    match rng.below(12) {
        0..3 => "-1".to_owned(),
        3 => "now".to_owned(),
        4 => rng.pick(&["-2", "0,1", "now\n", "+1", "NOW", "000000000000000000001"]).to_owned(),
        _ => place(rng, stream),
    }
}

/// Mostly what the stream holds.
fn own_kind(rng: &mut Rng<'_>, stream: Option<&Stream>) -> String {
    match stream {
        Some(stream) if !rng.one_in(25) => stream.kind().to_owned(),
        _ => rng.pick(&[JSON, "text/plain", "application/octet-stream"]).to_owned(),
    }
}

/// The same type, perhaps written in another way; seldom no type at all.
fn decorate(rng: &mut Rng<'_>, kind: &str) -> String {
    match rng.below(40) {
        0 => "no-type".to_owned(),
        1 => kind.to_ascii_uppercase(),
        2 if !kind.contains(';') => format!("{kind}; charset=utf-8"),
        _ => kind.to_owned(),
    }
}

fn body(rng: &mut Rng<'_>, kind: &str) -> Vec<u8> {
    let kind = kind.to_ascii_lowercase();
    if kind.starts_with(JSON) {
        let n = JSON_BODIES.len() - if rng.one_in(4) { 0 } else { 4 };
        return rng.pick(&JSON_BODIES[..n]).as_bytes().to_vec();
    }
    if kind.starts_with("text/") {
        return rng.pick(&TEXT_BODIES).as_bytes().to_vec();
    }
    (0..=rng.below(60)).map(|_| rng.below(256).to_le_bytes()[0]).collect()
}

fn instant(rng: &mut Rng<'_>, now: u64) -> String {
    let at = (now - EPOCH_MS) / 1000 + 1 + rng.below(6);
    format!("2030-01-01T{:02}:{:02}:{:02}Z", at / 3600, at / 60 % 60, at % 60)
}

fn head(ask: &mut Ask, name: &'static str, value: String) {
    ask.headers.push((name, value));
}
