//! `headwater dev`: the server with nothing to decide, and what to try first.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use headwater_server::config::Config;
use headwater_server::self_signed::{self, SelfSigned};

use crate::failure::{Exit, Failure, Outcome};
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
    /// Serve HTTPS, with a certificate that is made for this machine and kept beside the data.
    #[arg(long, env = "HEADWATER_DEV_TLS")]
    tls: bool,
    #[command(flatten)]
    log: LogArgs,
}

const EXAMPLES: &str = "\
Examples:
  headwater dev
  headwater dev --tls
  headwater dev --listen 127.0.0.1:8080 --data-dir /tmp/headwater";

/// The bucket that is there from the start.
const BUCKET: &str = "demo";

pub(crate) fn run(args: Args, screen: Screen) -> Outcome {
    logging::start(&args.log, screen);
    let own = args.tls.then(|| certificate(&args.place)).transpose()?;
    let config = Config {
        listen: args.place.listen,
        data_dir: args.place.data_dir,
        tls: own.as_ref().map(|own| own.tls.clone()),
        bucket: Some(BUCKET.to_owned()),
        ..Config::default()
    };
    let data_dir: PathBuf = config.data_dir.clone();
    serve(config, screen, |bound| {
        say(welcome(&data_dir, bound, own.as_ref(), screen));
    })
}

/// The certificate in the folder beside that of the data.
fn certificate(place: &Place) -> Result<SelfSigned, Failure> {
    let mut folder = place.data_dir.clone().into_os_string();
    folder.push("-tls");
    self_signed::obtain(Path::new(&folder), place.listen.ip()).map_err(|error| {
        let what = format!("cannot make a certificate in {}", Path::new(&folder).display());
        Failure::because(Exit::Failed, what, &error)
    })
}

fn welcome(data_dir: &Path, bound: SocketAddr, own: Option<&SelfSigned>, screen: Screen) -> String {
    let scheme = if own.is_some() { "https" } else { "http" };
    let url = format!("{scheme}://{bound}");
    let (shown, trust, flag) = match own {
        Some(SelfSigned { tls, fingerprint }) => {
            let file = tls.certificate.display();
            (
                format!("  certificate {file}\n  sha-256     {fingerprint}\n"),
                format!(" --cacert {file}"),
                format!(" --url {url} --ca {file}"),
            )
        }
        // The client's own default needs no flag.
        None if bound == Config::default().listen => Default::default(),
        None => (String::new(), String::new(), format!(" --url {url}")),
    };
    format!(
        "
headwater {version}

  data        {data_dir}
  durability  every acknowledged write is on disk (fdatasync) before the answer
  url         {url}
{shown}
  curl -X PUT  {url}/{BUCKET}/hello -H 'Content-Type: text/plain'{trust}
  curl -X POST {url}/{BUCKET}/hello -H 'Content-Type: text/plain' -d 'hello'{trust}
  curl -N     '{url}/{BUCKET}/hello?offset=-1&live=sse'{trust}

{next} headwater tail {BUCKET}/hello{flag}
",
        version = env!("CARGO_PKG_VERSION"),
        data_dir = data_dir.display(),
        next = screen.paint_stderr(Paint::Hint, "next:"),
    )
}
