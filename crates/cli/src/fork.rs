//! `headwater fork`: a new stream that begins as another one.

use ureq::http::Method;

use crate::address::StreamAddress;
use crate::args::ServerArgs;
use crate::client::{Client, Payload};
use crate::create::{self, Life};
use crate::failure::Outcome;
use crate::screen::Screen;

/// Create a stream that begins with the content of another one.
///
/// The data is shared, not copied. Later appends to the source do not show in the fork.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The stream to fork.
    #[arg(value_name = "SOURCE")]
    source: StreamAddress,

    /// The stream to create.
    #[arg(value_name = "TARGET")]
    target: StreamAddress,

    /// Share the source up to this offset [default: its end].
    #[arg(long, value_name = "OFFSET")]
    offset: Option<String>,

    /// Share this many bytes (JSON streams: messages) more, inside what was appended at --offset.
    #[arg(long, value_name = "N", requires = "offset")]
    sub_offset: Option<u64>,

    #[command(flatten)]
    life: Life,

    /// Print one JSON object.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    server: ServerArgs,
}

const EXAMPLES: &str = "\
Examples:
  headwater fork demo/chat demo/chat-what-if
  headwater fork demo/chat demo/chat-retry --offset 00000000000000000042";

pub(crate) fn run(args: &Args, screen: Screen) -> Outcome {
    let client = Client::new(&args.server);
    let what = format!("fork {} as {}", args.source, args.target);
    let call = client
        .stream_call(Method::PUT, args.target.path(), &args.target, what)
        .header("stream-forked-from", args.source.path())
        .header_if("stream-fork-offset", args.offset.as_deref())
        .header_if("stream-fork-sub-offset", args.sub_offset);
    let answer = args.life.headers(call).send(Payload::none())?;
    create::report(&answer, &args.target, screen, args.json)
}
