//! `headwater create`: a new stream.

use ureq::http::{Method, StatusCode};

use crate::address::StreamAddress;
use crate::args::ServerArgs;
use crate::client::{Answer, Call, Client, Payload};
use crate::failure::Outcome;
use crate::screen::{Field, Screen, say};
use crate::units::Ttl;
use crate::{input, json, receipt};

/// Create a stream.
///
/// Creating it again with the same settings changes nothing and is no error.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// BUCKET/STREAM, or a path under /v1/stream/ or /ds/.
    #[arg(value_name = "STREAM")]
    stream: StreamAddress,

    /// What the stream contains [default: application/octet-stream].
    #[arg(long, value_name = "TYPE")]
    content_type: Option<String>,

    #[command(flatten)]
    life: Life,

    /// Create it closed: nothing can be appended.
    #[arg(long)]
    closed: bool,

    /// Attributes of the stream: one JSON object.
    #[arg(long, value_name = "JSON")]
    attrs: Option<String>,

    /// First content; `-` reads it from stdin.
    #[arg(long, value_name = "DATA", allow_hyphen_values = true)]
    data: Option<String>,

    /// Print one JSON object.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    server: ServerArgs,
}

/// How long a stream lives.
#[derive(Debug, clap::Args)]
pub(crate) struct Life {
    /// Remove the stream when it was neither read nor written for this long: 1h, or seconds.
    #[arg(long, value_name = "DURATION", conflicts_with = "expires_at")]
    ttl: Option<Ttl>,

    /// Remove the stream at this time, like 2030-01-31T12:00:00Z.
    #[arg(long, value_name = "TIME")]
    expires_at: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  headwater create demo/hello --content-type text/plain --data 'hello '
  headwater create demo/events --content-type application/json --ttl 7d
  gunzip < export.json.gz | headwater create demo/import --content-type application/json --data -";

impl Life {
    pub(crate) fn headers<'a>(&self, call: Call<'a>) -> Call<'a> {
        call.header_if("stream-ttl", self.ttl.map(|ttl| ttl.0))
            .header_if("stream-expires-at", self.expires_at.as_deref())
    }
}

pub(crate) fn run(args: &Args, screen: Screen) -> Outcome {
    let data = match args.data.as_deref() {
        Some(data) => input::whole(Some(data))?,
        None => Vec::new(),
    };
    let client = Client::new(&args.server);
    let what = format!("create {}", args.stream);
    let call = client
        .stream_call(Method::PUT, args.stream.path(), &args.stream, what)
        .header_if("content-type", args.content_type.as_deref())
        .header_if("stream-closed", args.closed.then_some("true"))
        .header_if("stream-attrs", args.attrs.as_deref().map(json::for_header));
    let answer = args.life.headers(call).send(Payload::Bytes(&data))?;
    report(&answer, &args.stream, screen, args.json)
}

/// Says whether the stream is new, and where it stands.
pub(crate) fn report(
    answer: &Answer,
    stream: &StreamAddress,
    screen: Screen,
    json: bool,
) -> Outcome {
    let created = answer.status() == StatusCode::CREATED;
    if created {
        say(format_args!("created {stream}"));
    } else {
        say(format_args!("{stream} was there already, with the same settings"));
    }
    let mut fields: Vec<Field> =
        vec![("created", created.into()), ("content_type", answer.text("content-type"))];
    fields.extend(receipt::fields(answer));
    screen.record(&fields, json)
}
