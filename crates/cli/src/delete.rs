//! `headwater delete`: the end of a stream.

use ureq::http::Method;

use crate::address::StreamAddress;
use crate::args::ServerArgs;
use crate::client::{Client, Payload};
use crate::confirm;
use crate::failure::Outcome;
use crate::screen::say;

/// Delete a stream and its data.
///
/// Forks of it stay readable. Asks first when stdin is a terminal.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// BUCKET/STREAM, or a path under /v1/stream/ or /ds/.
    #[arg(value_name = "STREAM")]
    stream: StreamAddress,

    /// Do not ask, even on a terminal.
    #[arg(long, short)]
    yes: bool,

    #[command(flatten)]
    server: ServerArgs,
}

const EXAMPLES: &str = "\
Examples:
  headwater delete demo/hello
  headwater ls demo --prefix tmp- | cut -f1 | xargs -I{} headwater delete demo/{} --yes";

pub(crate) fn run(args: &Args) -> Outcome {
    confirm::ask(&format!("delete {} and its data?", args.stream), args.yes)?;
    let client = Client::new(&args.server);
    let what = format!("delete {}", args.stream);
    client
        .stream_call(Method::DELETE, args.stream.path(), &args.stream, what)
        .send(Payload::none())?;
    say(format_args!("deleted {}", args.stream));
    Ok(())
}
