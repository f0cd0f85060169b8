//! `headwater read`: what a stream holds now.

use ureq::http::Method;

use crate::address::StreamAddress;
use crate::args::ServerArgs;
use crate::client::{Answer, Call, Client, Payload};
use crate::failure::{Exit, Failure, Outcome};
use crate::json::{is_json, media_type};
use crate::screen::{Screen, print, pump};

/// Read a stream up to its end.
///
/// Prints the bytes as they are; a JSON stream is printed as one array, or with --json one message
/// a line.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// BUCKET/STREAM, or a path under /v1/stream/ or /ds/.
    #[arg(value_name = "STREAM")]
    stream: StreamAddress,

    #[command(flatten)]
    start: Start,

    /// One message a line; JSON streams only.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    server: ServerArgs,
}

/// Where to begin; without any of these at the earliest byte there is.
#[derive(Debug, clap::Args)]
#[group(multiple = false)]
struct Start {
    /// Begin at this offset.
    #[arg(long, value_name = "OFFSET", allow_hyphen_values = true)]
    offset: Option<String>,

    /// Begin at this record; JSON streams only.
    #[arg(long, value_name = "N")]
    record: Option<u64>,

    /// Only the last K records; JSON streams only.
    #[arg(long, short = 'n', value_name = "K")]
    tail_records: Option<u64>,
}

const EXAMPLES: &str = "\
Examples:
  headwater read demo/hello
  headwater read demo/hello --offset 00000000000000000042
  headwater read demo/events --tail-records 10 --json | jq .kind";

/// A page that has to be in memory; a page is at most one message larger than the server's limit.
const PAGE_BYTES_MAX: u64 = 1 << 30;

pub(crate) fn run(args: &Args, screen: Screen) -> Outcome {
    let client = Client::new(&args.server);
    let page_at = |offset: Option<&str>| page(&client, args, offset).send(Payload::none());
    let mut answer = page_at(None)?;
    let content_type = answer.promised("content-type")?.to_owned();
    if args.json && media_type(&content_type) != NDJSON {
        return Err(no_json_lines(&args.stream, &content_type));
    }
    let mut array = (!args.json && is_json(&content_type)).then(Array::default);
    loop {
        let next = answer.promised("stream-next-offset")?.to_owned();
        let at_tail = answer.flag("stream-up-to-date");
        if let Some(array) = &mut array {
            array.page(answer)?;
        } else {
            let lost = answer.on_lost();
            pump(&mut answer.into_reader(), lost)?;
        }
        if at_tail {
            break;
        }
        answer = page_at(Some(&next))?;
        if answer.header("stream-next-offset") == Some(&next) && !answer.flag("stream-up-to-date") {
            return Err(answer.nonsense(format_args!("the server stands still at offset {next}")));
        }
    }
    if let Some(array) = array {
        array.close(screen)?;
    }
    Ok(())
}

/// Why `--json` cannot be had.
pub(crate) fn no_json_lines(stream: &StreamAddress, content_type: &str) -> Failure {
    let what = format!("{stream} has no JSON messages: its content type is {content_type}");
    Failure::new(Exit::Usage, what).hint("leave --json away to get the bytes".to_owned())
}

const NDJSON: &str = "application/x-ndjson";

/// The request for the page at `offset`, or for the first one.
fn page<'a>(client: &'a Client, args: &Args, offset: Option<&str>) -> Call<'a> {
    let what = format!("read {}", args.stream);
    let call = client
        .stream_call(Method::GET, args.stream.path(), &args.stream, what)
        .header_if("accept", args.json.then_some(NDJSON));
    match (offset, &args.start) {
        (Some(offset), _) => call.query("offset", offset),
        (None, Start { record: Some(record), .. }) => call.query("record", record),
        (None, Start { tail_records: Some(count), .. }) => call.query("tail_records", count),
        (None, Start { offset, .. }) => call.query("offset", offset.as_deref().unwrap_or("-1")),
    }
}

/// One array made of the arrays of all pages. Messages are passed on untouched.
#[derive(Debug, Default)]
struct Array {
    begun: bool,
}

impl Array {
    fn page(&mut self, answer: Answer) -> Outcome {
        let nonsense = answer.nonsense("a page of a JSON stream is no array");
        let body = answer.into_bytes(PAGE_BYTES_MAX)?;
        let inner = elements(&body).ok_or(nonsense)?;
        if inner.is_empty() {
            return Ok(());
        }
        print(if self.begun { b"," } else { b"[" })?;
        self.begun = true;
        print(inner)
    }

    /// A person gets a line end after it.
    fn close(self, screen: Screen) -> Outcome {
        print(if self.begun { b"]" } else { b"[]" })?;
        print(if screen.stdout_is_terminal() { b"\n" } else { b"" })
    }
}

/// What is between the brackets of an array.
fn elements(array: &[u8]) -> Option<&[u8]> {
    let array = array.trim_ascii();
    Some(array.strip_prefix(b"[")?.strip_suffix(b"]")?.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_elements_of_an_array_are_what_its_brackets_hold() {
        assert_eq!(elements(b"[1,[2]]"), Some(&b"1,[2]"[..]));
        assert_eq!(elements(b" [ ]\n"), Some(&b""[..]));
        assert_eq!(elements(b"{}"), None);
        assert_eq!(elements(b"["), None);
        assert_eq!(elements(b""), None);
    }
}
