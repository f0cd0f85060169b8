//! `headwater serve`: the server.

use std::error::Error;
use std::io;
use std::net::SocketAddr;

use headwater_server::RunError;
use headwater_server::config::Config;

use crate::config::Layers;
use crate::failure::{Exit, Failure, Outcome};
use crate::logging;
use crate::screen::{Screen, print};
use crate::settings::Told;

/// Run the server.
///
/// Prints one line on stdout once it takes requests: `listening on http://ADDRESS:PORT`, or
/// `https://` with a certificate. SIGTERM or SIGINT end it after the requests in flight. Every
/// acknowledged write is on disk (fdatasync) before its answer.
///
/// A setting is taken from its flag, else from its variable, else from the file; else it has its
/// default. `headwater config show --origin` tells which it is.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) told: Told,
}

const EXAMPLES: &str = "\
Examples:
  headwater serve --listen 127.0.0.1:4437 --data-dir /var/lib/headwater
  headwater serve --listen 0.0.0.0:80 --data-dir /data --public-url https://streams.example.com
  headwater serve --config /etc/headwater/config.toml
  headwater serve --listen 0.0.0.0:443 --tls-cert chain.pem --tls-key key.pem
  HEADWATER_MAX_APPEND_SIZE=64MiB headwater serve --data-dir /data";

pub(crate) fn run(args: Args, layers: &Layers, screen: Screen) -> Outcome {
    logging::start(&args.told.log, screen);
    if let Some(file) = &layers.file {
        tracing::info!(file = %file.display(), "settings read");
    }
    serve(args.told.into_config(), screen, |_| {})
}

/// Serves until told to stop. `welcome` runs once requests are taken.
pub(crate) fn serve(config: Config, screen: Screen, welcome: impl FnOnce(SocketAddr)) -> Outcome {
    let asked = config.listen;
    let scheme = scheme(&config);
    headwater_server::run(config, |bound| {
        if let Err(failure) = print(format!("listening on {scheme}://{bound}\n").as_bytes()) {
            // The server is of use without its line.
            failure.report(screen);
        }
        welcome(bound);
    })
    .map_err(|error| stopped(&error, asked))
}

/// What URLs of this server begin with.
pub(crate) fn scheme(config: &Config) -> &'static str {
    if config.tls.is_some() { "https" } else { "http" }
}

fn stopped(error: &RunError, asked: SocketAddr) -> Failure {
    let exit = Exit::Server(error.exit_code());
    let failure = match error.source() {
        Some(cause) => Failure::because(exit, error.to_string(), cause),
        None => Failure::new(exit, error.to_string()),
    };
    // A directory may be denied, too; only an address that is taken or denied has another one.
    let RunError::Listen(_, cause) = error else { return failure };
    match cause.kind() {
        io::ErrorKind::AddrInUse => failure.hint(format!(
            "another process listens on {asked}; --listen names another address, port 0 any free \
             port"
        )),
        io::ErrorKind::PermissionDenied if asked.port() < 1024 => failure
            .hint("ports below 1024 are the administrator's; --listen names another".to_owned()),
        _ => failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_address_that_is_denied_is_told_to_be_the_administrators() {
        let denied = || io::Error::from(io::ErrorKind::PermissionDenied);
        let told = |error: &RunError, port: u16| {
            let asked = SocketAddr::from(([127, 0, 0, 1], port));
            format!("{:?}", stopped(error, asked)).contains("administrator's")
        };
        let address = SocketAddr::from(([127, 0, 0, 1], 80));
        assert!(told(&RunError::Listen(address, denied()), 80));
        assert!(!told(&RunError::Listen(address, denied()), 8080));
        // A folder or a thread that is denied has no port, though any may have been asked for.
        assert!(!told(&RunError::System(denied()), 0));
    }
}
