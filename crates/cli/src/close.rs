//! `headwater close`: no more appends.

use ureq::http::Method;

use crate::address::StreamAddress;
use crate::args::ServerArgs;
use crate::client::{Client, Payload};
use crate::failure::Outcome;
use crate::receipt;
use crate::screen::{Screen, say};

/// Close a stream: readers learn that nothing more will come.
///
/// Closing a closed stream changes nothing and is no error.
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
Example:
  headwater close demo/hello";

pub(crate) fn run(args: &Args, screen: Screen) -> Outcome {
    let client = Client::new(&args.server);
    let what = format!("close {}", args.stream);
    let answer = client
        .stream_call(Method::POST, args.stream.path(), &args.stream, what)
        .header("stream-closed", "true")
        .send(Payload::none())?;
    say(format_args!("closed {}", args.stream));
    screen.record(&receipt::fields(&answer), args.json)
}
