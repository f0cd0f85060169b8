//! `headwater bucket`: create, list, show and remove buckets.

use serde_json::Value;
use ureq::http::Method;

use crate::address::encode;
use crate::args::ServerArgs;
use crate::client::{Call, Client, Payload};
use crate::confirm;
use crate::failure::Outcome;
use crate::hint::Subject;
use crate::ls;
use crate::screen::{Screen, say};

/// Create, list, show and remove buckets.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Create a bucket.
    #[command(after_help = "Example:\n  headwater bucket create demo")]
    Create(One),
    /// List the buckets.
    #[command(after_help = "Example:\n  headwater bucket ls --prefix team-")]
    Ls(List),
    /// Show a bucket.
    #[command(after_help = "Example:\n  headwater bucket show demo --json")]
    Show(One),
    /// Remove a bucket that has no streams.
    #[command(after_help = "Example:\n  headwater bucket rm demo --yes")]
    Rm(Remove),
}

#[derive(Debug, clap::Args)]
struct One {
    /// 4 to 64 of a-z, 0-9, _ and -.
    #[arg(value_name = "BUCKET")]
    bucket: String,

    /// Print one JSON object.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Debug, clap::Args)]
struct List {
    /// Only names that begin with this.
    #[arg(long, value_name = "TEXT")]
    prefix: Option<String>,

    /// One JSON object a line.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Debug, clap::Args)]
struct Remove {
    /// The bucket to remove.
    #[arg(value_name = "BUCKET")]
    bucket: String,

    /// Do not ask, even on a terminal.
    #[arg(long, short)]
    yes: bool,

    #[command(flatten)]
    server: ServerArgs,
}

const EXAMPLES: &str = "\
Examples:
  headwater bucket create demo
  headwater bucket ls";

pub(crate) fn run(args: Args, screen: Screen) -> Outcome {
    match args.verb {
        Verb::Create(args) => show(&args, Method::PUT, "create", screen),
        Verb::Show(args) => show(&args, Method::GET, "show", screen),
        Verb::Ls(args) => {
            let client = Client::new(&args.server);
            ls::buckets(args.prefix.as_deref()).print(&client, screen, args.json)
        }
        Verb::Rm(args) => {
            confirm::ask(&format!("remove bucket {}?", args.bucket), args.yes)?;
            let client = Client::new(&args.server);
            call(&client, Method::DELETE, &args.bucket, "remove").send(Payload::none())?;
            say(format_args!("removed bucket {}", args.bucket));
            Ok(())
        }
    }
}

/// Creating and showing answer with the same object.
fn show(args: &One, method: Method, verb: &str, screen: Screen) -> Outcome {
    let client = Client::new(&args.server);
    let bucket = call(&client, method, &args.bucket, verb).send(Payload::none())?.into_json()?;
    let field = |name: &'static str| (name, bucket.get(name).cloned().unwrap_or(Value::Null));
    let fields = [field("bucket_id"), field("streams"), field("created_at_ms")];
    screen.record(&fields, args.json)
}

fn call<'a>(client: &'a Client, method: Method, bucket: &str, verb: &str) -> Call<'a> {
    let path = format!("/{}", encode(bucket));
    client.call(method, path, Subject::bucket(bucket), format_args!("{verb} bucket {bucket}"))
}
