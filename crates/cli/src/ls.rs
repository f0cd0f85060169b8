//! `headwater ls`: the buckets, or the streams of one.

use crate::address::encode;
use crate::args::ServerArgs;
use crate::client::Client;
use crate::failure::Outcome;
use crate::hint::Subject;
use crate::listing::{Column, Kind, Listing};
use crate::screen::Screen;

/// List buckets, or the streams of a bucket.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The bucket whose streams to list; without it, the buckets.
    #[arg(value_name = "BUCKET", conflicts_with = "base")]
    bucket: Option<String>,

    /// Only names that begin with this.
    #[arg(long, value_name = "TEXT")]
    prefix: Option<String>,

    /// List the streams under /v1/stream/, which are in no bucket.
    #[arg(long)]
    base: bool,

    /// One JSON object a line.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    server: ServerArgs,
}

const EXAMPLES: &str = "\
Columns of streams: stream_id (path with --base), status, content_type, tail_offset,
snapshot_offset, retained_offset, created_at_ms, last_write_at_ms
Columns of buckets: bucket_id, streams, created_at_ms

Examples:
  headwater ls
  headwater ls demo --prefix orders-
  headwater ls demo --json | jq -r 'select(.status == \"Closed\") | .stream_id'";

pub(crate) fn run(args: &Args, screen: Screen) -> Outcome {
    let listing = match &args.bucket {
        Some(bucket) => Listing {
            path: format!("/{}/streams", encode(bucket)),
            entries: "streams",
            columns: STREAMS,
            prefix: args.prefix.as_deref(),
            subject: Subject::bucket(bucket),
            what: format!("list the streams of {bucket}"),
        },
        None if args.base => Listing {
            path: "/-/streams".to_owned(),
            entries: "streams",
            columns: BASE_STREAMS,
            prefix: args.prefix.as_deref(),
            subject: Subject::default(),
            what: "list the streams of /v1/stream".to_owned(),
        },
        None => buckets(args.prefix.as_deref()),
    };
    listing.print(&Client::new(&args.server), screen, args.json)
}

/// The listing of all buckets; also what `headwater bucket ls` prints.
pub(crate) fn buckets(prefix: Option<&str>) -> Listing<'_> {
    Listing {
        path: "/-/buckets".to_owned(),
        entries: "buckets",
        columns: BUCKETS,
        prefix,
        subject: Subject::default(),
        what: "list the buckets".to_owned(),
    }
}

const BUCKETS: &[Column] = &[
    column("bucket_id", Kind::Text),
    column("streams", Kind::Number),
    column("created_at_ms", Kind::Time),
];

const STREAMS: &[Column] = &stream_columns("stream_id");
const BASE_STREAMS: &[Column] = &stream_columns("path");

const fn stream_columns(name: &'static str) -> [Column; 8] {
    [
        column(name, Kind::Text),
        column("status", Kind::Status),
        column("content_type", Kind::Text),
        column("tail_offset", Kind::Number),
        column("snapshot_offset", Kind::Number),
        column("retained_offset", Kind::Number),
        column("created_at_ms", Kind::Time),
        column("last_write_at_ms", Kind::Time),
    ]
}

const fn column(member: &'static str, kind: Kind) -> Column {
    Column { member, kind }
}
