//! The server's log: lines on stderr.

use std::io;

use tracing_subscriber::EnvFilter;

use crate::screen::Screen;

/// How much the server logs.
#[derive(Debug, clap::Args)]
pub(crate) struct LogArgs {
    /// How much to log: error, warn, info, debug or trace, also by part, as in
    /// `info,headwater_storage=debug`.
    #[arg(
        long, env = "HEADWATER_LOG", value_name = "FILTER", default_value = "info",
        value_parser = filter
    )]
    log_level: String,

    /// How a line looks: `text` for people, `json` (an object a line) for programs.
    #[arg(long, env = "HEADWATER_LOG_FORMAT", value_name = "FORMAT", default_value = "text")]
    log_format: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Text,
    Json,
}

/// Sends the log to stderr from now on.
pub(crate) fn start(args: &LogArgs, screen: Screen) {
    let filter = EnvFilter::new(&args.log_level);
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    match args.log_format {
        Format::Text => lines.with_ansi(screen.stderr_colour()).init(),
        Format::Json => lines.json().flatten_event(true).with_span_list(false).init(),
    }
}

/// `text`, if it is a filter.
fn filter(text: &str) -> Result<String, String> {
    match EnvFilter::try_new(text) {
        Ok(_filter) => Ok(text.to_owned()),
        Err(error) => Err(format!("{error}; use error, warn, info, debug or trace")),
    }
}
