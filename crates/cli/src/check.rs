//! `headwater check`: whether a server takes requests, for scripts and container health checks.

use ureq::http::Method;

use crate::args::ServerArgs;
use crate::client::{Client, Payload};
use crate::failure::Outcome;
use crate::hint::Subject;
use crate::screen::print;

/// Ask a server whether it takes requests.
///
/// Prints `ready` and exits with 0 if it does. Exits with 6 when it does not, or does not answer.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    server: ServerArgs,
}

const EXAMPLES: &str = "\
Examples:
  headwater check
  until headwater check --url http://127.0.0.1:8080; do sleep 1; done";

pub(crate) fn run(args: &Args) -> Outcome {
    let client = Client::new(&args.server);
    let path = "/-/readyz".to_owned();
    client.call(Method::GET, path, Subject::default(), "use the server").send(Payload::none())?;
    print(b"ready\n")
}
