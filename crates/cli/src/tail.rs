//! `headwater tail`: a stream as it grows.

use std::io::BufReader;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::Value;
use ureq::http::Method;

use crate::address::StreamAddress;
use crate::args::ServerArgs;
use crate::client::{Answer, Client, Payload};
use crate::failure::{Exit, Failure, Outcome};
use crate::hint::shell;
use crate::interrupt;
use crate::json::{array_to_lines, is_json};
use crate::read::no_json_lines;
use crate::screen::{print, say};
use crate::sse::{Event, Events};

/// Follow a stream: print what is appended, as it is appended.
///
/// A JSON stream is printed one message a line, from its last 10 messages on; any other as it is,
/// from its end on. Reconnects where it left off. Ends when the stream is closed, or with Ctrl-C.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// BUCKET/STREAM, or a path under /v1/stream/ or /ds/.
    #[arg(value_name = "STREAM")]
    stream: StreamAddress,

    #[command(flatten)]
    start: Start,

    /// Insist on one JSON message a line; an error on other streams.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    server: ServerArgs,
}

/// Where to begin.
#[derive(Debug, Clone, clap::Args)]
#[group(multiple = false)]
struct Start {
    /// Begin at this offset; -1 is the earliest.
    #[arg(long, value_name = "OFFSET", allow_hyphen_values = true)]
    offset: Option<String>,

    /// Begin at this record; JSON streams only.
    #[arg(long, value_name = "N")]
    record: Option<u64>,

    /// Begin with the last K records; JSON streams only.
    #[arg(long, short = 'n', value_name = "K")]
    tail_records: Option<u64>,
}

const EXAMPLES: &str = "\
Examples:
  headwater tail demo/hello
  headwater tail demo/hello --offset -1
  headwater tail demo/events -n 100 | jq .kind";

/// How many records of a JSON stream are shown without a flag.
const TAIL_RECORDS: u64 = 10;
/// How long to wait before a connection that failed is tried again: doubled up to the maximum.
const BACKOFF_MIN: Duration = Duration::from_millis(100);
const BACKOFF_MAX: Duration = Duration::from_secs(5);
/// A connection that lived this long did not fail; servers end them from time to time.
const LIFE_MIN: Duration = Duration::from_secs(1);

pub(crate) fn run(args: Args) -> Outcome {
    let client = Client::new(&args.server);
    let what = format!("follow {}", args.stream);
    let head = client.head(&args.stream, &args.stream.path(), &what)?;
    let content_type = head.promised("content-type")?;
    let json = is_json(content_type);
    if !json && (args.json || args.start.record.is_some() || args.start.tail_records.is_some()) {
        return Err(no_json_lines(&args.stream, content_type));
    }
    let position = match args.start {
        Start { offset: Some(offset), .. } => Position::Offset(offset),
        Start { record: Some(record), .. } => Position::Record(record),
        Start { tail_records: Some(count), .. } => Position::LastRecords(count),
        Start { .. } if json => Position::LastRecords(TAIL_RECORDS),
        // Rather than `now`: what is appended from here on must not be missed.
        Start { .. } => Position::Offset(head.promised("stream-next-offset")?.to_owned()),
    };
    let mut follower = Follower {
        client,
        stream: args.stream,
        what,
        json,
        position: Shared::new(position),
        cursor: None,
    };
    follower.say_where_to_go_on_when_interrupted()?;
    follower.run()
}

/// Where to read on.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Position {
    Offset(String),
    Record(u64),
    LastRecords(u64),
}

/// Everything before this was printed. Shared with the thread that says farewell.
#[derive(Debug, Clone)]
struct Shared(Arc<Mutex<Position>>);

/// One stream being followed, over as many connections as it takes.
struct Follower {
    client: Client,
    stream: StreamAddress,
    what: String,
    json: bool,
    position: Shared,
    /// What the server asked to send back, so that a cache can tell followers apart.
    cursor: Option<String>,
}

/// How a connection ended, when it did not fail.
#[derive(Debug, PartialEq, Eq)]
enum End {
    /// The stream is closed and all of it was printed.
    StreamClosed,
    /// The connection alone.
    Disconnected,
}

impl Follower {
    fn run(&mut self) -> Outcome {
        let mut connected = false;
        let mut backoff = BACKOFF_MIN;
        let mut quiet = false;
        loop {
            let begun = Instant::now();
            let failure = match self.connect() {
                Ok(answer) => {
                    connected = true;
                    match self.print_events(answer) {
                        Ok(End::StreamClosed) => {
                            say(format_args!("{} is closed", self.stream));
                            return Ok(());
                        }
                        Ok(End::Disconnected) => None,
                        Err(failure) => Some(failure),
                    }
                }
                Err(failure) => Some(failure),
            };
            match failure {
                Some(failure) if !connected || !failure.is_transient() => return Err(failure),
                // Once an outage, not once a try.
                Some(failure) if !quiet => {
                    say(format_args!("reconnecting: {}", failure.reason()));
                    quiet = true;
                }
                _ => {}
            }
            if begun.elapsed() >= LIFE_MIN {
                backoff = BACKOFF_MIN;
                quiet = false;
            } else {
                thread::sleep(backoff);
                backoff = (backoff * 2).min(BACKOFF_MAX);
            }
        }
    }

    fn connect(&self) -> Result<Answer, Failure> {
        let call = self
            .client
            .stream_call(Method::GET, self.stream.path(), &self.stream, &self.what)
            .query("live", "sse")
            .query_if("cursor", self.cursor.as_deref());
        let call = match self.position.get() {
            Position::Offset(offset) => call.query("offset", offset),
            Position::Record(record) => call.query("record", record),
            Position::LastRecords(count) => call.query("tail_records", count),
        };
        call.send(Payload::none())
    }

    /// Prints what comes. Data counts only with the control event behind it: that one says where
    /// to read on, so nothing is printed twice or left out when the connection breaks in between.
    fn print_events(&mut self, answer: Answer) -> Result<End, Failure> {
        let base64 = answer
            .header("stream-sse-data-encoding")
            .is_some_and(|encoding| encoding.eq_ignore_ascii_case("base64"));
        let nonsense = answer.nonsense("an event is not what the protocol promises");
        let lost = answer.on_lost();
        let mut events = Events::new(BufReader::new(answer.into_reader()));
        let mut pending = Vec::new();
        while let Some(event) = events.next_event().map_err(|error| lost(&error))? {
            match event.name.as_str() {
                "data" => {
                    let decoded = decode(&event, base64, self.json, &mut pending);
                    decoded.map_err(|why| nonsense_because(&self.what, &*why))?;
                }
                "control" => {
                    let Some(control) = Control::parse(&event.data) else {
                        return Err(nonsense);
                    };
                    print(&pending)?;
                    pending.clear();
                    self.position.set(Position::Offset(control.next_offset));
                    self.cursor = control.cursor;
                    if control.closed {
                        return Ok(End::StreamClosed);
                    }
                }
                _ => {}
            }
        }
        Ok(End::Disconnected)
    }

    fn say_where_to_go_on_when_interrupted(&self) -> Outcome {
        let position = self.position.clone();
        let stream = shell(&self.stream.to_string());
        interrupt::exit_on_sigint(move || {
            if let Position::Offset(offset) = position.get() {
                say(format_args!("\nnext: headwater tail {stream} --offset {offset}"));
            }
        })
    }
}

impl Shared {
    fn new(position: Position) -> Self {
        Self(Arc::new(Mutex::new(position)))
    }

    fn get(&self) -> Position {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, position: Position) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = position;
    }
}

/// A control event.
#[derive(Debug, PartialEq, Eq)]
struct Control {
    next_offset: String,
    cursor: Option<String>,
    closed: bool,
}

impl Control {
    fn parse(data: &[u8]) -> Option<Self> {
        let control: Value = serde_json::from_slice(data).ok()?;
        Some(Self {
            next_offset: control["streamNextOffset"].as_str()?.to_owned(),
            cursor: control["streamCursor"].as_str().map(str::to_owned),
            closed: control["streamClosed"].as_bool().unwrap_or(false),
        })
    }
}

/// Appends what a data event carries to `out`, as it is printed.
fn decode(
    event: &Event,
    base64: bool,
    json: bool,
    out: &mut Vec<u8>,
) -> Result<(), Box<dyn std::error::Error>> {
    if base64 {
        // The encoded text may be wrapped over several lines.
        let text: Vec<u8> = event.data.iter().copied().filter(|&b| b != b'\n').collect();
        BASE64.decode_vec(text, out)?;
    } else if json {
        array_to_lines(&event.data, out)?;
    } else {
        out.extend_from_slice(&event.data);
    }
    Ok(())
}

fn nonsense_because(what: &str, why: &dyn std::error::Error) -> Failure {
    Failure::because(Exit::Failed, format!("cannot {what}: a data event cannot be decoded"), why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(data: &str, base64: bool, json: bool) -> Result<Vec<u8>, String> {
        let event = Event { name: "data".to_owned(), data: data.as_bytes().to_vec() };
        let mut out = Vec::new();
        decode(&event, base64, json, &mut out).map_err(|error| error.to_string())?;
        Ok(out)
    }

    #[test]
    fn data_is_printed_as_its_stream_wants_it() {
        assert_eq!(decoded("a\nb", false, false).unwrap(), b"a\nb");
        assert_eq!(decoded("[{\"a\":1},2]", false, true).unwrap(), b"{\"a\":1}\n2\n");
        assert_eq!(decoded("AAEC\n/w==", true, false).unwrap(), [0, 1, 2, 0xff]);
        assert!(decoded("A", true, false).is_err());
        assert!(decoded("{}", false, true).is_err());
    }

    #[test]
    fn a_control_event_says_where_to_read_on() {
        let control = Control::parse(br#"{"streamNextOffset":"07","streamCursor":"9"}"#);
        let expected =
            Control { next_offset: "07".to_owned(), cursor: Some("9".to_owned()), closed: false };
        assert_eq!(control, Some(expected));
        let closed = Control::parse(br#"{"streamNextOffset":"07","streamClosed":true}"#);
        assert!(closed.is_some_and(|control| control.closed && control.cursor.is_none()));
        assert_eq!(Control::parse(b"{}"), None);
        assert_eq!(Control::parse(b"nonsense"), None);
    }
}
