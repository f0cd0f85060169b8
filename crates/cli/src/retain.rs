//! `headwater retain`: discard what a snapshot covers.

use ureq::http::Method;

use crate::address::StreamAddress;
use crate::args::ServerArgs;
use crate::client::{Client, Payload};
use crate::confirm;
use crate::failure::Outcome;
use crate::screen::Screen;

/// Discard the beginning of a stream, up to its snapshot at most.
///
/// Readers that start below the boundary are sent to the snapshot. Asks first when stdin is a
/// terminal.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// BUCKET/STREAM, or a path under /v1/stream/ or /ds/.
    #[arg(value_name = "STREAM")]
    stream: StreamAddress,

    /// The earliest offset to keep.
    #[arg(value_name = "OFFSET", required_unless_present = "record")]
    offset: Option<String>,

    /// The first record to keep; JSON streams only.
    #[arg(long, value_name = "N", conflicts_with = "offset")]
    record: Option<u64>,

    /// Do not ask, even on a terminal.
    #[arg(long, short)]
    yes: bool,

    /// Print one JSON object.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    server: ServerArgs,
}

const EXAMPLES: &str = "\
Examples:
  headwater retain demo/doc 00000000000000004096
  headwater retain demo/events --record 1000 --yes";

pub(crate) fn run(args: &Args, screen: Screen) -> Outcome {
    let (resource, boundary) = match (&args.offset, args.record) {
        (Some(offset), _) => {
            (format!("retention/{}", crate::address::encode(offset)), format!("offset {offset}"))
        }
        (None, record) => {
            ("retention".to_owned(), format!("record {}", record.unwrap_or_default()))
        }
    };
    confirm::ask(&format!("discard everything of {} before {boundary}?", args.stream), args.yes)?;
    let client = Client::new(&args.server);
    let path = args.stream.sub_path(&resource);
    let what = format!("discard the beginning of {}", args.stream);
    let answer = client
        .stream_call(Method::PUT, path, &args.stream, what)
        .query_if("record", args.record)
        .send(Payload::none())?;
    let fields = [("retained_offset", answer.text("stream-retained-offset"))];
    screen.record(&fields, args.json)
}
