//! `headwater append`: data at the end of a stream, as one message, by lines, or in batches.

use serde_json::Value;
use ureq::http::{Method, StatusCode};

use crate::address::StreamAddress;
use crate::args::ServerArgs;
use crate::client::{Answer, Call, Client, Payload};
use crate::failure::{Failure, Outcome, Problem};
use crate::hint::Subject;
use crate::screen::{Field, Screen, say};
use crate::{input, json, receipt};

/// Append to a stream.
///
/// Without --lines or --batch everything is one append. On a JSON stream an append is one JSON
/// value; an array is appended element by element, each a message of its own.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// BUCKET/STREAM, or a path under /v1/stream/ or /ds/.
    #[arg(value_name = "STREAM")]
    stream: StreamAddress,

    /// What to append; without it, or with `-`, stdin.
    #[arg(value_name = "DATA", allow_hyphen_values = true)]
    data: Option<String>,

    #[command(flatten)]
    pieces: Pieces,

    /// Must be the stream's own, which is the default.
    #[arg(long, value_name = "TYPE")]
    content_type: Option<String>,

    /// Close the stream with the last append.
    #[arg(long)]
    close: bool,

    #[command(flatten)]
    producer: Producer,

    /// Stream-Seq: refuse the append unless this is greater than the last one, byte by byte.
    #[arg(long = "seq", value_name = "TEXT", conflicts_with_all = ["lines", "batch"])]
    stream_seq: Option<String>,

    /// Refuse the append unless the next record of the JSON stream is this one.
    #[arg(long, value_name = "N", conflicts_with_all = ["lines", "batch"])]
    record_match: Option<u64>,

    /// One JSON object for each append.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    server: ServerArgs,
}

/// How the input is cut; without any of these it is one append.
#[derive(Debug, clap::Args)]
#[group(multiple = false)]
struct Pieces {
    /// Append each line by itself, as it comes. The line end belongs to the line, except on JSON
    /// streams, where blank lines are skipped.
    #[arg(long)]
    lines: bool,

    /// Like --lines, with as many lines in a request as have come: far fewer round trips.
    #[arg(long)]
    batch: bool,
}

/// What makes an append that is sent again be stored once.
#[derive(Debug, clap::Args)]
struct Producer {
    /// Name of this producer: a repeated append with the same numbers is stored once.
    #[arg(long = "producer-id", value_name = "ID", requires = "seq")]
    id: Option<String>,

    /// Epoch of this producer; a higher one fences off the lower.
    #[arg(
        id = "epoch",
        long = "producer-epoch",
        alias = "epoch",
        value_name = "N",
        requires = "id",
        default_value_t = 0
    )]
    epoch: u64,

    /// Sequence number of the first append; --lines and --batch count on from it.
    #[arg(id = "seq", long = "producer-seq", value_name = "N", requires = "id")]
    seq: Option<u64>,
}

const EXAMPLES: &str = "\
Examples:
  headwater append demo/hello 'hello'
  date | headwater append demo/hello
  tail -f app.log | headwater append demo/log --lines
  headwater append demo/events --batch --producer-id import-7 --producer-seq 0 < events.ndjson";

/// The most frames that one batch may have (`extensions.md` §8).
const BATCH_FRAMES_MAX: usize = 4096;
/// Where a batch ends although more has come: far below what a server takes by default.
const BATCH_BYTES_MAX: usize = 4 << 20;

pub(crate) fn run(args: &Args, screen: Screen) -> Outcome {
    let client = Client::new(&args.server);
    let what = format!("append to {}", args.stream);
    let content_type = if let Some(content_type) = &args.content_type {
        content_type.clone()
    } else {
        let head = client.head(&args.stream, &args.stream.path(), &what)?;
        head.promised("content-type")?.to_owned()
    };
    let mut appender =
        Appender { client, what, content_type, sent: 0, last: Vec::new(), args, screen };
    if !args.pieces.lines && !args.pieces.batch {
        let data = input::whole(args.data.as_deref())?;
        appender.one(&data, args.close)?;
        return appender.finish();
    }
    let skip_blank = json::is_json(&appender.content_type);
    let mut lines = input::lines(args.data.as_deref());
    while let Some(block) = lines.next_block()? {
        let lines: Vec<&[u8]> = block
            .split_inclusive(|&byte| byte == b'\n')
            .filter(|line| !skip_blank || !line.trim_ascii().is_empty())
            .collect();
        if args.pieces.batch {
            for batch in batches(&lines) {
                appender.batch(batch)?;
            }
        } else {
            for line in lines {
                appender.one(line, false)?;
            }
        }
    }
    if args.close {
        appender.close()?;
    }
    appender.finish()
}

/// Appends one after the other and counts them.
struct Appender<'a> {
    client: Client,
    what: String,
    content_type: String,
    /// Appends so far.
    sent: u64,
    /// What the last of them answered.
    last: Vec<Field>,
    args: &'a Args,
    screen: Screen,
}

impl Appender<'_> {
    /// One append, with or without the close.
    fn one(&mut self, data: &[u8], close: bool) -> Outcome {
        let answer = self
            .call(self.args.stream.path())
            .header_if("stream-seq", self.args.stream_seq.as_deref())
            .header_if("stream-record-match", self.args.record_match)
            .header_if("stream-closed", close.then_some("true"))
            .send(Payload::Bytes(data))
            .map_err(|failure| self.progress(failure))?;
        self.sent += 1;
        let duplicate = self.is_duplicate(&answer);
        let mut fields = receipt::fields(&answer);
        fields.push(("duplicate", duplicate.into()));
        self.appended(fields)
    }

    /// Many appends in one request. One that is refused does not keep the server from those behind
    /// it; it fails here once all are counted.
    fn batch(&mut self, lines: &[&[u8]]) -> Outcome {
        let answer = self
            .call(self.args.stream.sub_path("append-batch"))
            .send(Payload::Bytes(&frames(lines)))
            .map_err(|failure| self.progress(failure))?;
        let nonsense = answer.nonsense("the answer to a batch is no list of results");
        let Value::Array(results) = answer.into_json()? else {
            return Err(nonsense);
        };
        let mut refused = None;
        for result in &results {
            let status = result["status"].as_u64().and_then(|s| u16::try_from(s).ok());
            match status.and_then(|status| StatusCode::from_u16(status).ok()) {
                Some(status) if status.is_success() => {
                    self.sent += 1;
                    self.appended(vec![
                        ("next_offset", result["stream_next_offset"].clone()),
                        ("record_start", result["stream_record_start"].clone()),
                        ("record_next", result["stream_record_next"].clone()),
                        ("closed", false.into()),
                    ])?;
                }
                Some(status) if refused.is_none() => refused = Some(self.refused(status, result)),
                Some(_) => {}
                None => return Err(nonsense),
            }
        }
        refused.map_or(Ok(()), |failure| Err(self.progress(failure)))
    }

    /// The close that ends a run of lines.
    fn close(&mut self) -> Outcome {
        let answer = self
            .client
            .stream_call(
                Method::POST,
                self.args.stream.path(),
                &self.args.stream,
                format_args!("close {}", self.args.stream),
            )
            .header("stream-closed", "true")
            .send(Payload::none())
            .map_err(|failure| self.progress(failure))?;
        self.appended(receipt::fields(&answer))
    }

    /// The summary, unless every append was reported by itself.
    fn finish(self) -> Outcome {
        if self.args.json || self.last.is_empty() {
            return Ok(());
        }
        let mut fields: Vec<Field> = vec![("appends", self.sent.into())];
        fields.extend(self.last);
        self.screen.record(&fields, false)
    }

    fn call(&self, path: String) -> Call<'_> {
        let args = self.args;
        let seq = args.producer.seq.map(|first| first.saturating_add(self.sent));
        self.client
            .stream_call(Method::POST, path, &args.stream, &self.what)
            .header("content-type", &self.content_type)
            .header_if("producer-id", args.producer.id.as_deref())
            .header_if("producer-epoch", seq.map(|_| args.producer.epoch))
            .header_if("producer-seq", seq)
    }

    /// With producer numbers an append answers 200, and 204 only where it was stored before.
    fn is_duplicate(&self, answer: &Answer) -> bool {
        self.args.producer.id.is_some() && answer.status() == StatusCode::NO_CONTENT
    }

    fn appended(&mut self, fields: Vec<Field>) -> Outcome {
        if self.args.json {
            return self.screen.record(&fields, true);
        }
        self.last = fields;
        Ok(())
    }

    fn refused(&self, status: StatusCode, result: &Value) -> Failure {
        let text = |name: &str| result[name].as_str().map(str::to_owned);
        let problem = Problem { code: text("code"), title: None, detail: text("error") };
        let what = format!("cannot {}", self.what);
        Failure::refused(&what, status, &problem, &Subject::stream(&self.args.stream))
    }

    /// Tells how far it came, so that the rest can be sent again.
    fn progress(&self, failure: Failure) -> Failure {
        if (self.args.pieces.lines || self.args.pieces.batch) && self.sent > 0 {
            say(format_args!("{} appends to {} succeeded", self.sent, self.args.stream));
        }
        failure
    }
}

/// `lines` cut into pieces that a request may hold.
fn batches<'a>(mut lines: &'a [&'a [u8]]) -> impl Iterator<Item = &'a [&'a [u8]]> {
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = |line: &&&[u8]| {
            bytes += 4 + line.len();
            bytes <= BATCH_BYTES_MAX
        };
        let count = lines.iter().take(BATCH_FRAMES_MAX).take_while(fits).count();
        // A line larger than a batch goes alone.
        let (batch, rest) = lines.split_at(count.max(1).min(lines.len()));
        lines = rest;
        (!batch.is_empty()).then_some(batch)
    })
}

/// The body of a batch: each line behind its length, big-endian.
fn frames(lines: &[&[u8]]) -> Vec<u8> {
    let bytes: usize = lines.iter().map(|line| 4 + line.len()).sum();
    let mut body = Vec::with_capacity(bytes);
    for line in lines {
        let len = u32::try_from(line.len()).expect("the input limits a line far below 4 GiB");
        body.extend_from_slice(&len.to_be_bytes());
        body.extend_from_slice(line);
    }
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_a_big_endian_length_and_the_line() {
        assert_eq!(frames(&[b"a\n", b""]), b"\0\0\0\x02a\n\0\0\0\0");
        let long = vec![b'x'; 0x0102];
        assert_eq!(frames(&[&long])[..4], [0, 0, 1, 2]);
    }

    #[test]
    fn batches_keep_order_and_limits() {
        let small: Vec<&[u8]> = vec![b"x"; 2 * BATCH_FRAMES_MAX + 1];
        let sizes: Vec<usize> = batches(&small).map(<[_]>::len).collect();
        assert_eq!(sizes, [BATCH_FRAMES_MAX, BATCH_FRAMES_MAX, 1]);

        let large = vec![b'x'; BATCH_BYTES_MAX];
        let half = vec![b'x'; BATCH_BYTES_MAX / 2];
        let lines: Vec<&[u8]> = vec![b"a", &large, &half, b"b", &half, b"c"];
        let sizes: Vec<usize> = batches(&lines).map(<[_]>::len).collect();
        assert_eq!(sizes, [1, 1, 2, 2]);
        assert_eq!(batches(&[]).count(), 0);
    }
}
