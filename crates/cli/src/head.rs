//! `headwater head`: what is known about a stream.

use crate::address::StreamAddress;
use crate::args::ServerArgs;
use crate::client::Client;
use crate::failure::Outcome;
use crate::screen::{Field, Screen};

/// Show where a stream stands and how it is set up.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// BUCKET/STREAM, or a path under /v1/stream/ or /ds/.
    #[arg(value_name = "STREAM")]
    stream: StreamAddress,

    /// Print one JSON object.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    server: ServerArgs,
}

const EXAMPLES: &str = "\
Examples:
  headwater head demo/hello
  headwater head demo/hello --json | jq -r .next_offset";

pub(crate) fn run(args: &Args, screen: Screen) -> Outcome {
    let client = Client::new(&args.server);
    let what = format!("look at {}", args.stream);
    let answer = client.head(&args.stream, &args.stream.path(), &what)?;
    let fields: [Field; 11] = [
        ("stream", args.stream.to_string().into()),
        ("content_type", answer.text("content-type")),
        ("next_offset", answer.text("stream-next-offset")),
        ("closed", answer.flag("stream-closed").into()),
        ("ttl_seconds", answer.number("stream-ttl")),
        ("expires_at", answer.text("stream-expires-at")),
        ("record_first", answer.number("stream-record-first")),
        ("record_next", answer.number("stream-record-next")),
        ("retained_offset", answer.text("stream-retained-offset")),
        ("snapshot_offset", answer.text("stream-snapshot-offset")),
        ("snapshot_digest", answer.text("stream-snapshot-digest")),
    ];
    screen.record(&fields, args.json)
}
