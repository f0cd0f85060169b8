//! `headwater snapshot`: publish, fetch and show the snapshot of a stream.

use std::fs::File;
use std::io;

use ureq::http::Method;

use crate::address::{StreamAddress, encode};
use crate::args::ServerArgs;
use crate::client::{Client, Payload};
use crate::failure::{Exit, Failure, Outcome};
use crate::screen::{Field, Screen, pump};

/// Publish, fetch and show the snapshot of a stream.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Publish what the stream amounts to at an offset.
    ///
    /// Addressed as /ds/BUCKET/STREAM, the stream is also discarded up to there.
    #[command(after_help = "Examples:\n  \
        headwater snapshot put demo/doc doc.bin --offset 00000000000000004096\n  \
        make-state | headwater snapshot put demo/events - --record 1000 \
        --content-type application/json")]
    Put(Put),
    /// Write the snapshot to stdout.
    #[command(after_help = "Example:\n  headwater snapshot get demo/doc > doc.bin")]
    Get(Get),
    /// Show the snapshot's offset, digest, type and size.
    #[command(after_help = "Example:\n  headwater snapshot show demo/doc --json | jq -r .offset")]
    Show(Show),
}

#[derive(Debug, clap::Args)]
struct Put {
    /// BUCKET/STREAM, or a path under /v1/stream/ or /ds/.
    #[arg(value_name = "STREAM")]
    stream: StreamAddress,

    /// The file to publish; `-` is stdin.
    #[arg(value_name = "FILE")]
    file: String,

    /// The offset up to which the snapshot covers the stream.
    #[arg(long, value_name = "OFFSET", required_unless_present = "record")]
    offset: Option<String>,

    /// The record before which the snapshot ends; JSON streams only.
    #[arg(long, value_name = "N", conflicts_with = "offset")]
    record: Option<u64>,

    /// What the snapshot is [default: application/octet-stream].
    #[arg(long, value_name = "TYPE")]
    content_type: Option<String>,

    /// Publish only if the visible snapshot has this digest.
    #[arg(long = "match", value_name = "DIGEST")]
    expected: Option<String>,

    /// Print one JSON object.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Debug, clap::Args)]
struct Get {
    /// BUCKET/STREAM, or a path under /v1/stream/ or /ds/.
    #[arg(value_name = "STREAM")]
    stream: StreamAddress,

    /// The snapshot of this offset [default: the visible one].
    #[arg(long, value_name = "OFFSET")]
    offset: Option<String>,

    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Debug, clap::Args)]
struct Show {
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
  headwater snapshot put demo/doc doc.bin --offset 00000000000000004096
  headwater snapshot get demo/doc > doc.bin";

pub(crate) fn run(args: Args, screen: Screen) -> Outcome {
    match args.verb {
        Verb::Put(args) => put(&args, screen),
        Verb::Get(args) => get(&args),
        Verb::Show(args) => show(&args, screen),
    }
}

fn put(args: &Put, screen: Screen) -> Outcome {
    let payload = open(&args.file)?;
    let resource = match &args.offset {
        Some(offset) => format!("snapshot/{}", encode(offset)),
        None => "snapshot".to_owned(),
    };
    let path = args.stream.sub_path(&resource);
    let what = format!("publish a snapshot of {}", args.stream);
    let client = Client::new(&args.server);
    let answer = client
        .stream_call(Method::PUT, path, &args.stream, what)
        .query_if("record", args.record)
        .header_if("content-type", args.content_type.as_deref())
        .header_if("stream-snapshot-match", args.expected.as_deref())
        .send(payload)?;
    let fields: [Field; 4] = [
        ("offset", answer.text("stream-snapshot-offset")),
        ("digest", answer.text("stream-snapshot-digest")),
        ("retained_offset", answer.text("stream-retained-offset")),
        ("next_offset", answer.text("stream-next-offset")),
    ];
    screen.record(&fields, args.json)
}

/// A file is sent with its length; stdin and pipes have none to tell.
fn open(name: &str) -> Result<Payload<'static>, Failure> {
    if name == "-" {
        return Ok(Payload::Reader(Box::new(io::stdin())));
    }
    let unreadable = |error| Failure::because(Exit::Failed, format!("cannot read {name}"), &error);
    let file = File::open(name).map_err(unreadable)?;
    let metadata = file.metadata().map_err(unreadable)?;
    if metadata.is_dir() {
        return Err(unreadable(io::ErrorKind::IsADirectory.into()));
    }
    Ok(if metadata.is_file() { Payload::File(file) } else { Payload::Reader(Box::new(file)) })
}

/// Without an offset the server redirects to the visible snapshot.
fn get(args: &Get) -> Outcome {
    let resource = match &args.offset {
        Some(offset) => format!("snapshot/{}", encode(offset)),
        None => "snapshot".to_owned(),
    };
    let path = args.stream.sub_path(&resource);
    let what = format!("get the snapshot of {}", args.stream);
    let client = Client::new(&args.server);
    let answer = client.stream_call(Method::GET, path, &args.stream, what).send(Payload::none())?;
    let lost = answer.on_lost();
    pump(&mut answer.into_reader(), lost)
}

fn show(args: &Show, screen: Screen) -> Outcome {
    let client = Client::new(&args.server);
    let path = args.stream.sub_path("snapshot");
    let what = format!("look at the snapshot of {}", args.stream);
    let answer = client.head(&args.stream, &path, &what)?;
    let fields: [Field; 5] = [
        ("offset", answer.text("stream-snapshot-offset")),
        ("digest", answer.text("stream-snapshot-digest")),
        ("content_type", answer.text("content-type")),
        ("bytes", answer.number("content-length")),
        ("up_to_date", answer.flag("stream-up-to-date").into()),
    ];
    screen.record(&fields, args.json)
}
