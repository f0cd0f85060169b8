//! `headwater dev`: the server with nothing to decide, and what to try first.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use headwater_server::config::Config;

use crate::failure::Outcome;
use crate::logging::{self, LogArgs};
use crate::screen::{Paint, Screen, say};
use crate::serve::serve;
use crate::settings::Place;

/// Run a server on this machine, ready to try.
///
/// Like `serve` with every setting at its default and a bucket named `demo`. What is written is as
/// durable as with `serve`. No configuration file is read.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    log: LogArgs,
}

const EXAMPLES: &str = "\
Examples:
  headwater dev
  headwater dev --listen 127.0.0.1:8080 --data-dir /tmp/headwater";

/// The bucket that is there from the start.
const BUCKET: &str = "demo";

pub(crate) fn run(args: Args, screen: Screen) -> Outcome {
    logging::start(&args.log, screen);
    let config = Config {
        listen: args.place.listen,
        data_dir: args.place.data_dir,
        bucket: Some(BUCKET.to_owned()),
        ..Config::default()
    };
    let data_dir: PathBuf = config.data_dir.clone();
    serve(config, screen, |bound| {
        say(welcome(&data_dir, bound, screen));
    })
}

fn welcome(data_dir: &Path, bound: SocketAddr, screen: Screen) -> String {
    let url = format!("http://{bound}");
    // The client's own default needs no flag.
    let flag =
        if bound == Config::default().listen { String::new() } else { format!(" --url {url}") };
    format!(
        "
headwater {version}

  data        {data_dir}
  durability  every acknowledged write is on disk (fdatasync) before the answer
  url         {url}

  curl -X PUT  {url}/{BUCKET}/hello -H 'Content-Type: text/plain'
  curl -X POST {url}/{BUCKET}/hello -H 'Content-Type: text/plain' -d 'hello'
  curl -N     '{url}/{BUCKET}/hello?offset=-1&live=sse'

{next} headwater tail {BUCKET}/hello{flag}
",
        version = env!("CARGO_PKG_VERSION"),
        data_dir = data_dir.display(),
        next = screen.paint_stderr(Paint::Hint, "next:"),
    )
}
