//! Holds an answer against what the model says.

use std::io;
use std::net::SocketAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use headwater_torture::http::{Connection, Response};
use serde_json::Value;

use crate::ask::{Ask, Body, CHECKED, Expect, excerpt};

/// An answer of the server.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The headers that are compared.
    pub headers: Vec<(&'static str, String)>,
    /// The body; of an SSE response, up to where it has caught up.
    pub body: Vec<u8>,
}

impl Answer {
    fn of(response: Response) -> Self {
        let header = |name| Some((name, response.header(name)?.to_owned()));
        let headers = CHECKED.into_iter().filter_map(header).collect();
        Self { status: response.status, headers, body: response.body }
    }

    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(is, _)| *is == name).map(|(_, value)| value.as_str())
    }

    /// In short, for a person.
    pub fn brief(&self) -> String {
        let headers: Vec<String> =
            self.headers.iter().map(|(name, value)| format!("{name}={value}")).collect();
        format!("{} {} \"{}\"", self.status, headers.join(" "), excerpt(&self.body))
    }
}

/// Reads the answer to `ask`.
pub fn receive(connection: &mut Connection, ask: &Ask, expect: &Expect) -> io::Result<Answer> {
    if !matches!(expect.body, Body::Events(..)) {
        return Ok(Answer::of(connection.receive(ask.method)?));
    }
    let (mut response, chunked) = connection.receive_head()?;
    while chunked && !has_caught_up(&response.body) {
        let Some(chunk) = connection.chunk()? else { break };
        response.body.extend_from_slice(&chunk);
    }
    Ok(Answer::of(response))
}

/// Whether the last event says that nothing is left.
fn has_caught_up(body: &[u8]) -> bool {
    let text = String::from_utf8_lossy(body);
    let Some(text) = text.strip_suffix("\n\n") else { return false };
    let last = text.rsplit("\n\n").next().unwrap_or_default();
    let control =
        last.split_once('\n').and_then(|(_id, event)| event.strip_prefix("event: control\ndata:"));
    let control = control.and_then(|json| serde_json::from_str::<Value>(json).ok());
    control.is_some_and(|it| it["upToDate"] == true || it["streamClosed"] == true)
}

/// What is wrong with an answer.
pub fn check(answer: &Answer, ask: &Ask, expect: &Expect, host: SocketAddr) -> Result<(), String> {
    if answer.status != expect.status {
        return Err(format!("status {}, not {}", answer.status, expect.status));
    }
    for name in CHECKED {
        let wanted = expect.headers.iter().find(|(is, _)| *is == name);
        let wanted = wanted.map(|(_, value)| value.replace("//HOST", &format!("//{host}")));
        let got = answer.header(name);
        let same = match (got, &wanted) {
            (Some(got), Some(wanted)) => match wanted.strip_suffix('*') {
                Some(start) => got.starts_with(start) && got.len() > start.len(),
                None => got == wanted,
            },
            (None, None) => true,
            _ => false,
        };
        if !same {
            return Err(format!("header {name} is {got:?}, not {wanted:?}"));
        }
    }
    if ask.method == "HEAD" {
        return Ok(());
    }
    match &expect.body {
        Body::Exact(bytes) if *bytes == answer.body => Ok(()),
        Body::Exact(bytes) => Err(format!("the body is not \"{}\"", excerpt(bytes))),
        Body::Problem(code) => {
            let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
            let status = body["status"] == expect.status;
            let whole = status && body["title"].is_string() && body["detail"].is_string();
            // Which of the two is missing is not always said.
            let missing = *code == "BUCKET_NOT_FOUND" && body["code"] == "STREAM_NOT_FOUND";
            if whole && (missing || body["code"] == *code) {
                Ok(())
            } else {
                Err(format!("no whole problem with code {code}"))
            }
        }
        Body::Json(wanted) => {
            let got: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
            if covers(&got, wanted) { Ok(()) } else { Err(format!("the body is not {wanted}")) }
        }
        Body::Parts(wanted) => check_parts(answer, wanted),
        Body::Events(data, control) => check_events(answer, data, control),
    }
}

/// Whether `got` is `wanted`; objects in lists may have more members, and lists are of one length.
fn covers(got: &Value, wanted: &Value) -> bool {
    match (got, wanted) {
        (Value::Array(got), Value::Array(wanted)) => {
            got.len() == wanted.len() && got.iter().zip(wanted).all(|(got, it)| covers(got, it))
        }
        (Value::Object(got), Value::Object(wanted)) if got.contains_key("error") => {
            wanted.iter().all(|(name, it)| got.get(name) == Some(it))
        }
        _ => got == wanted,
    }
}

fn check_parts(answer: &Answer, wanted: &[(String, Vec<u8>)]) -> Result<(), String> {
    let kind = answer.header("content-type").unwrap_or_default();
    let boundary = kind.rsplit('=').next().unwrap_or_default();
    let mut body = Vec::new();
    for (kind, bytes) in wanted {
        body.extend_from_slice(format!("--{boundary}\r\nContent-Type: {kind}\r\n\r\n").as_bytes());
        body.extend_from_slice(bytes);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
    if body == answer.body {
        Ok(())
    } else {
        Err(format!("the body is not \"{}\"", excerpt(&body)))
    }
}

/// Takes an SSE response apart as a client does.
fn check_events(answer: &Answer, wanted: &[u8], control: &Value) -> Result<(), String> {
    let text = str::from_utf8(&answer.body).map_err(|_bytes| "an event is no text")?;
    let mut data = Vec::new();
    let mut last = Value::Null;
    let mut expects_control = false;
    let mut data_id = None;
    for block in text.split_terminator("\n\n").filter(|block| !block.starts_with(':')) {
        let mut lines = block.split('\n');
        let id = lines.next().and_then(|line| line.strip_prefix("id:")).ok_or("no id")?;
        let event = lines.next().unwrap_or_default();
        let payload = lines.map(|line| {
            let line = line.strip_prefix("data:")?;
            Some(line.strip_prefix(' ').unwrap_or(line))
        });
        let payload = payload.collect::<Option<Vec<_>>>().ok_or("a line is no data")?.join("\n");
        match event {
            "event: data" if !expects_control => data.push(payload),
            "event: control" => last = next_control(&last, &payload)?,
            _ => return Err(format!("{event:?} comes at the wrong time")),
        }
        if event == "event: data" {
            data_id = Some(id);
        } else if data_id.take().is_some_and(|before| before != id)
            || last["streamNextOffset"] != id
        {
            return Err(format!("the id {id} is not where to read on"));
        }
        expects_control = event == "event: data";
    }
    let is_json = control["streamNextRecord"].is_number();
    let base64 = answer.header("stream-sse-data-encoding").is_some();
    let (data, wanted) = if base64 {
        let decode = |text: &[u8]| STANDARD.decode(text).map_err(|_bad| "no base64");
        let pieces =
            data.iter().map(|text| decode(text.as_bytes())).collect::<Result<Vec<_>, _>>()?;
        (pieces.concat(), decode(wanted)?)
    } else if is_json && !data.is_empty() {
        let inner = |text: &String| text.strip_prefix('[')?.strip_suffix(']').map(str::to_owned);
        let inner = data.iter().map(inner).collect::<Option<Vec<_>>>().ok_or("no array")?;
        (format!("[{}]", inner.join(",")).into_bytes(), wanted.to_vec())
    } else {
        (data.concat().into_bytes(), wanted.to_vec())
    };
    if data != wanted {
        return Err(format!("the data is not \"{}\"", excerpt(&wanted)));
    }
    let has_cursor = last["streamCursor"].as_str().is_some_and(|it| it.parse::<u64>().is_ok());
    if has_cursor == (control["streamClosed"] == true) {
        return Err("a cursor goes out exactly while the stream is open".to_owned());
    }
    if let Some(last) = last.as_object_mut() {
        last.remove("streamCursor");
    }
    if last == *control { Ok(()) } else { Err(format!("the control is {last}, not {control}")) }
}

fn next_control(last: &Value, text: &str) -> Result<Value, String> {
    let next: Value = serde_json::from_str(text).map_err(|_bad| "a control is no JSON")?;
    let position = |control: &Value| control["streamNextOffset"].as_str().map(str::to_owned);
    if position(&next) <= position(last) {
        return Err("a control does not go on".to_owned());
    }
    Ok(next)
}
