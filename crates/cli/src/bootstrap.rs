//! `headwater bootstrap`: the snapshot and all that followed it, in one consistent answer.

use std::io;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use ureq::http::Method;

use crate::address::StreamAddress;
use crate::args::ServerArgs;
use crate::client::{Client, Payload};
use crate::failure::{Failure, Outcome};
use crate::json::is_json;
use crate::multipart::Parts;
use crate::screen::{Field, json_line, print};

/// Print the snapshot of a stream and every message after it.
///
/// Prints the bytes one after the other; on a JSON stream each part ends with a newline. With
/// --json: first a line with the answer's headers, then a line for each part, whose bytes are in
/// `text` if they are UTF-8 and in `base64` if not.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// BUCKET/STREAM, or a path under /v1/stream/ or /ds/.
    #[arg(value_name = "STREAM")]
    stream: StreamAddress,

    /// One JSON object a line.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    server: ServerArgs,
}

const EXAMPLES: &str = "\
Examples:
  headwater bootstrap demo/doc > doc.bin
  headwater bootstrap demo/events --json | jq -r 'select(.part == \"message\") | .text'";

/// With `--json` a part has to be in memory; snapshots have 128 MiB at most by default.
const PART_BYTES_MAX: usize = 1 << 30;

pub(crate) fn run(args: &Args) -> Outcome {
    let client = Client::new(&args.server);
    let path = args.stream.sub_path("bootstrap");
    let what = format!("bootstrap {}", args.stream);
    let answer = client.stream_call(Method::GET, path, &args.stream, what).send(Payload::none())?;

    let head: [Field; 6] = [
        ("part", "head".into()),
        ("snapshot_offset", answer.text("stream-snapshot-offset")),
        ("snapshot_digest", answer.text("stream-snapshot-digest")),
        ("next_offset", answer.text("stream-next-offset")),
        ("up_to_date", answer.flag("stream-up-to-date").into()),
        ("closed", answer.flag("stream-closed").into()),
    ];
    let has_snapshot = answer.header("stream-snapshot-offset") != Some("-1");
    let content_type = answer.promised("content-type")?.to_owned();
    let nonsense = answer.nonsense("the answer is no multipart");
    let lost = answer.on_lost();
    let mut parts = Parts::new(answer.into_reader(), &content_type).ok_or(nonsense)?;

    if args.json {
        print(json_line(&head).as_bytes())?;
        print_objects(&mut parts, has_snapshot, &lost)
    } else {
        print_bytes(&mut parts, has_snapshot, &lost)
    }
}

/// What a failing read of the answer means.
type Lost<'a> = &'a dyn Fn(&io::Error) -> Failure;

fn print_bytes(parts: &mut Parts<impl io::Read>, has_snapshot: bool, lost: Lost<'_>) -> Outcome {
    let mut placeholder = !has_snapshot;
    while let Some(content_type) = parts.next_part().map_err(|e| lost(&e))? {
        while let Some(piece) = parts.next_piece().map_err(|e| lost(&e))? {
            print(piece)?;
        }
        // The empty part in place of a snapshot is no line.
        if is_json(&content_type) && !std::mem::take(&mut placeholder) {
            print(b"\n")?;
        }
    }
    Ok(())
}

fn print_objects(parts: &mut Parts<impl io::Read>, has_snapshot: bool, lost: Lost<'_>) -> Outcome {
    let mut is_first = true;
    while let Some(content_type) = parts.next_part().map_err(|e| lost(&e))? {
        let mut body = Vec::new();
        while let Some(piece) = parts.next_piece().map_err(|e| lost(&e))? {
            if body.len() + piece.len() > PART_BYTES_MAX {
                return Err(lost(&io::Error::other("a part is larger than 1 GiB")));
            }
            body.extend_from_slice(piece);
        }
        let is_snapshot = std::mem::take(&mut is_first);
        if is_snapshot && !has_snapshot {
            continue;
        }
        let part = if is_snapshot { "snapshot" } else { "message" };
        let bytes: Field = match String::from_utf8(body) {
            Ok(text) => ("text", text.into()),
            Err(error) => ("base64", BASE64.encode(error.as_bytes()).into()),
        };
        let fields = [("part", part.into()), ("content_type", content_type.into()), bytes];
        print(json_line(&fields).as_bytes())?;
    }
    Ok(())
}
