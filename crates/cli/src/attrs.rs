//! `headwater attrs`: the application's own JSON object beside a stream.

use ureq::http::Method;

use crate::address::StreamAddress;
use crate::args::ServerArgs;
use crate::client::{Client, Payload};
use crate::failure::Outcome;
use crate::input;
use crate::screen::{print, say};

/// Get and set the attributes of a stream: one JSON object, at most 16 KiB.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Print the attributes; `{}` if none were set.
    #[command(after_help = "Example:\n  headwater attrs get demo/hello | jq .owner")]
    Get(Get),
    /// Replace the attributes as a whole; `{}` clears them.
    #[command(after_help = "Example:\n  headwater attrs set demo/hello '{\"owner\":\"ops\"}'")]
    Set(Set),
}

#[derive(Debug, clap::Args)]
struct Get {
    /// BUCKET/STREAM, or a path under /v1/stream/ or /ds/.
    #[arg(value_name = "STREAM")]
    stream: StreamAddress,

    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Debug, clap::Args)]
struct Set {
    /// BUCKET/STREAM, or a path under /v1/stream/ or /ds/.
    #[arg(value_name = "STREAM")]
    stream: StreamAddress,

    /// The object; without it, or with `-`, stdin.
    #[arg(value_name = "JSON")]
    object: Option<String>,

    #[command(flatten)]
    server: ServerArgs,
}

const EXAMPLES: &str = "\
Examples:
  headwater attrs set demo/hello '{\"owner\":\"ops\"}'
  headwater attrs get demo/hello";

/// Above the 16 KiB that a server keeps.
const ATTRIBUTES_BYTES_MAX: u64 = 1 << 20;

pub(crate) fn run(args: Args) -> Outcome {
    match args.verb {
        Verb::Get(Get { stream, server }) => {
            let client = Client::new(&server);
            let path = stream.sub_path("attrs");
            let what = format!("get the attributes of {stream}");
            let mut object = client
                .stream_call(Method::GET, path, &stream, what)
                .send(Payload::none())?
                .into_bytes(ATTRIBUTES_BYTES_MAX)?;
            object.push(b'\n');
            print(&object)
        }
        Verb::Set(Set { stream, object, server }) => {
            let object = input::whole(object.as_deref())?;
            let client = Client::new(&server);
            let path = stream.sub_path("attrs");
            let what = format!("set the attributes of {stream}");
            client
                .stream_call(Method::PUT, path, &stream, what)
                .header("content-type", "application/json")
                .send(Payload::Bytes(&object))?;
            say(format_args!("set the attributes of {stream}"));
            Ok(())
        }
    }
}
