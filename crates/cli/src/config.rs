//! `headwater config`: what the server's settings are, where they come from, and their file.
//!
//! A setting is declared once, as a flag in [`crate::settings`]; everything here is read from that
//! declaration. [`setting`] says what a setting is, [`file`] reads a file of them, and [`layers`]
//! puts flags over the environment over the file over the defaults.

mod file;
mod layers;
#[cfg(test)]
mod page;
mod schema;
mod setting;
mod show;
mod template;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use crate::failure::{Exit, Failure, Outcome};
use crate::screen::{print, say};
use crate::settings::Told;
use file::File;

pub(crate) use layers::{CommandLine, Layers};

/// Show, check and describe the server's settings and their file.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Print the settings that `serve` would have with these flags, here and now.
    ///
    /// What is printed is a configuration file. A secret is left out.
    #[command(after_help = SHOW_EXAMPLES)]
    Show(Box<Show>),
    /// Check a configuration file: every mistake with its line.
    ///
    /// Exit code 0 without mistakes, else 2. Nothing is started and no data are looked at.
    #[command(after_help = "Example:\n  headwater config check /etc/headwater/config.toml")]
    Check(Check),
    /// Print the JSON Schema of the configuration file, for editors.
    #[command(after_help = "Example:\n  headwater config schema > headwater.schema.json")]
    Schema,
    /// Print a configuration file that has every setting, commented out, with its default.
    #[command(after_help = "Example:\n  headwater config default > headwater.toml")]
    Default,
}

#[derive(Debug, clap::Args)]
struct Show {
    /// Tell where each value comes from.
    #[arg(long)]
    origin: bool,

    /// Print one JSON object a line.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    told: Told,
}

#[derive(Debug, clap::Args)]
struct Check {
    /// The file [default: headwater.toml or else /etc/headwater/config.toml].
    #[arg(env = "HEADWATER_CONFIG", value_name = "FILE")]
    file: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  headwater config default > headwater.toml
  headwater config check headwater.toml
  headwater config show --origin";

const SHOW_EXAMPLES: &str = "\
Members with --json: setting, value, origin (default, file, environment or flag), file, line,
variable, secret

Examples:
  headwater config show --origin
  headwater config show --config new.toml
  headwater config show --json | jq -r 'select(.origin != \"default\") | .setting'";

pub(crate) fn run(args: Args, layers: &Layers) -> Outcome {
    match args.verb {
        Verb::Show(show) if show.json => print(show::json(layers).as_bytes()),
        Verb::Show(show) => print(show::toml(layers, show.origin).as_bytes()),
        Verb::Check(check) => self::check(&check),
        Verb::Schema => print(format!("{:#}\n", schema::schema()).as_bytes()),
        Verb::Default => print(template::template().as_bytes()),
    }
}

fn check(args: &Check) -> Outcome {
    let Some(file) = File::find(args.file.as_deref())? else {
        let [first, second] = file::PLACES;
        let what = format!("there is neither {first} nor {second}");
        return Err(Failure::new(Exit::Usage, what)
            .hint("name the file: headwater config check FILE".to_owned()));
    };
    let entries = file.entries()?;
    file.check_together(&entries)?;
    say(format_args!("{}: no mistakes, {} settings", file.path().display(), entries.len()));
    Ok(())
}
