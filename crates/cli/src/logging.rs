//! The server's log: lines on stderr.

use std::io;

use tracing_subscriber::EnvFilter;

use crate::failure::{Exit, Failure, Outcome};
use crate::screen::Screen;

/// How much the server logs.
#[derive(Debug, clap::Args)]
pub(crate) struct LogArgs {
    /// How much to log: error, warn, info, debug or trace, also by part, as in
    /// `info,headwater_storage=debug`.
    #[arg(long, env = "HEADWATER_LOG", value_name = "FILTER", default_value = "info")]
    log_level: String,
}

/// Sends the log to stderr from now on.
pub(crate) fn start(args: &LogArgs, screen: Screen) -> Outcome {
    let filter = EnvFilter::try_new(&args.log_level).map_err(|error| {
        let what = format!("--log-level '{}' is no filter", args.log_level);
        Failure::because(Exit::Usage, what, &error)
            .hint("use error, warn, info, debug or trace".to_owned())
    })?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(screen.stderr_colour())
        .init();
    Ok(())
}
