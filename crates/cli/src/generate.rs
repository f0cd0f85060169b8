//! `headwater generate`: files for other programs that watch a server.

use crate::failure::Outcome;
use crate::screen::print;

/// Print files for the programs that watch a server.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Clone, Copy, clap::Subcommand)]
enum What {
    /// A dashboard for Grafana, to be imported as JSON.
    #[command(after_help = "Example:\n  headwater generate grafana-dashboard > headwater.json")]
    GrafanaDashboard,
    /// Alerts for Prometheus, to be named under `rule_files`.
    #[command(after_help = "Example:\n  headwater generate alerts > headwater-alerts.yml")]
    Alerts,
}

const EXAMPLES: &str = "\
Examples:
  headwater generate grafana-dashboard > headwater.json
  headwater generate alerts > headwater-alerts.yml";

pub(crate) fn run(args: &Args) -> Outcome {
    let text = match args.what {
        What::GrafanaDashboard => include_str!("../assets/grafana-dashboard.json"),
        What::Alerts => include_str!("../assets/alerts.yml"),
    };
    print(text.as_bytes())
}
