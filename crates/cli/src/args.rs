//! The command line as a whole. The arguments of a verb are in the verb's own file.

use std::str::FromStr;
use std::time::Duration;

use clap::{Parser, Subcommand, ValueEnum};
use ureq::tls::{PemItem, RootCerts, parse_pem};

use crate::address::BaseUrl;
use crate::units::Span;
use crate::{
    append, attrs, backup, bench, bootstrap, bucket, check, close, config, create, delete, dev,
    fork, generate, head, inspect, key, ls, read, retain, serve, snapshot, tail, torture, verify,
};

/// Durable streams over plain HTTP: one binary that serves them and uses them.
#[derive(Debug, Parser)]
#[command(name = "headwater", version, after_help = AFTER_HELP, max_term_width = 100)]
pub(crate) struct Cli {
    /// When to use colour; `auto` means on a terminal, unless the environment has `NO_COLOR`.
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: ColorChoice,

    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorChoice {
    Auto,
    Always,
    Never,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Serve(Box<serve::Args>),
    Dev(dev::Args),
    Config(config::Args),
    Check(check::Args),
    Bucket(bucket::Args),
    Create(create::Args),
    Append(append::Args),
    Read(read::Args),
    Tail(tail::Args),
    Head(head::Args),
    Close(close::Args),
    Delete(delete::Args),
    Fork(fork::Args),
    Ls(ls::Args),
    Snapshot(snapshot::Args),
    Retain(retain::Args),
    Bootstrap(bootstrap::Args),
    Attrs(attrs::Args),
    Key(key::Args),
    Link(key::LinkArgs),
    Bench(bench::Args),
    Verify(verify::Args),
    Inspect(inspect::Args),
    Backup(backup::BackupArgs),
    Restore(backup::RestoreArgs),
    Generate(generate::Args),
    Torture(torture::Args),
}

/// Which server to talk to, and how. Part of every verb that is a client.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Server")]
pub(crate) struct ServerArgs {
    /// Base URL of the server.
    #[arg(long, env = "STREAM_URL", value_name = "URL", default_value = "http://127.0.0.1:4437")]
    pub(crate) url: BaseUrl,

    /// Value of the Authorization header, for example "Bearer TOKEN".
    #[arg(long, env = "STREAM_AUTH", value_name = "VALUE", hide_env_values = true)]
    pub(crate) auth: Option<String>,

    /// Trust the authorities in this PEM file, or the one certificate in it, instead of those that
    /// browsers trust.
    #[arg(long, env = "STREAM_CA", value_name = "FILE")]
    pub(crate) ca: Option<Authorities>,

    /// Give up when the server makes no progress for this long.
    #[arg(long, value_name = "DURATION", default_value_t = Span(Duration::from_mins(1)))]
    pub(crate) timeout: Span,
}

/// Whose certificates are trusted.
#[derive(Debug, Clone)]
pub(crate) struct Authorities(pub(crate) RootCerts);

impl FromStr for Authorities {
    type Err = String;

    fn from_str(file: &str) -> Result<Self, String> {
        let text = std::fs::read(file).map_err(|error| error.to_string())?;
        let mut trusted = Vec::new();
        for item in parse_pem(&text) {
            if let PemItem::Certificate(certificate) = item.map_err(|error| error.to_string())? {
                trusted.push(certificate);
            }
        }
        if trusted.is_empty() {
            return Err("there is no certificate in PEM form in it".to_owned());
        }
        Ok(Self(RootCerts::new_with_certs(&trusted)))
    }
}

const AFTER_HELP: &str = "\
Streams are named BUCKET/STREAM, or by a path that begins with /v1/stream/ (the base protocol's
name space) or /ds/. Names are written as they are; headwater percent-encodes them.

Data goes to stdout, everything else to stderr. A terminal gets aligned columns, a pipe gets the
same columns separated by tabs, and --json gives one JSON object a line.

Exit codes:
    0  done (also when the reader of our output went away)
    1  failed
    2  wrong usage or configuration
    3  not found or gone (404, 410)
    4  conflict or precondition failed (409, 412, a fenced producer)
    5  not authenticated or not allowed (401, 403)
    6  server unavailable (no connection, 503, 507), or stopped on a failed sync
    7  damaged data found
  130  interrupted

Examples:
  headwater dev
  headwater create demo/hello --content-type text/plain --data 'hi '
  headwater append demo/hello 'there'
  headwater read demo/hello
  STREAM_URL=https://streams.example.com headwater tail demo/hello";
