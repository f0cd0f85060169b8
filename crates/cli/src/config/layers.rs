//! Flags over the environment over the file over the defaults.
//!
//! clap knows three of the four. What the file has and neither the command line nor the environment
//! says is put on the command line as the flag of its name, and the line is read again. So whatever
//! clap demands of a flag (its type, what it needs, what it excludes) holds for the file too.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{ArgMatches, Command, CommandFactory as _, FromArgMatches as _};

use super::file::{Entry, File, summary};
use super::setting::{FILE, Setting, settings, with_answerable_switches};
use crate::args::{Cli, ColorChoice};
use crate::failure::{Exit, Failure};

/// The command line as it was given.
pub(crate) struct CommandLine {
    arguments: Vec<OsString>,
    matches: ArgMatches,
}

/// The settings and where they come from; empty for a verb that has none.
#[derive(Debug, Default)]
pub(crate) struct Layers {
    /// The file that was read.
    pub(crate) file: Option<PathBuf>,
    pub(super) settings: Vec<Layered>,
}

#[derive(Debug)]
pub(super) struct Layered {
    pub(super) setting: Setting,
    /// As its flag has them; none if it is not set.
    pub(super) values: Vec<String>,
    pub(super) origin: Origin,
}

/// Where a value comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    Default,
    /// On this line of the file.
    File(usize),
    Environment,
    Flag,
}

impl CommandLine {
    /// Reads it. Ends the process on wrong usage, or if only help was asked for.
    pub(crate) fn parse(arguments: Vec<OsString>) -> Self {
        let matches = match command().try_get_matches_from(&arguments) {
            Ok(matches) => matches,
            Err(error) => match without_needs(&arguments, &error) {
                Some(matches) => matches,
                None => naming_its_variable(error, &arguments).exit(),
            },
        };
        Self { arguments, matches }
    }

    pub(crate) fn color(&self) -> ColorChoice {
        *self.matches.get_one("color").expect("a flag with a default")
    }

    /// The command line with what the file has to add to it now, if its verb takes a file. Never
    /// ends the process.
    pub(crate) fn with_file(&self) -> Result<(Cli, Layers), Failure> {
        let Some(told) = told(&self.matches) else {
            return Ok((cli(&self.matches)?, Layers::default()));
        };
        let named = told.get_one::<PathBuf>(FILE);
        let file = File::find(named.map(PathBuf::as_path))?;
        let entries = match &file {
            Some(file) => file.entries()?,
            None => Vec::new(),
        };
        let matches = self.matches_with(told, file.as_ref(), &entries)?;
        let whole = self::told(&matches).expect("the verb is the same");
        let layers = Layers {
            settings: layered(told, whole, &entries),
            file: file.map(|file| file.path().to_owned()),
        };
        Ok((cli(&matches)?, layers))
    }

    fn matches_with(
        &self,
        told: &ArgMatches,
        file: Option<&File>,
        entries: &[Entry],
    ) -> Result<ArgMatches, Failure> {
        let mut arguments = self.arguments.clone();
        // Behind a lone `--` there are no flags.
        let end = arguments.iter().position(|argument| argument == "--");
        let end = end.unwrap_or(arguments.len());
        let known = settings();
        let id_of = |entry: &&Entry| {
            known.iter().find(|setting| setting.key() == entry.key).map(Setting::id)
        };
        let flags = entries
            .iter()
            .filter(|entry| id_of(entry).is_some_and(|id| !is_said(told, id)))
            .flat_map(Entry::flags)
            .map(OsString::from);
        arguments.splice(end..end, flags.collect::<Vec<_>>());
        match (command().try_get_matches_from(&arguments), file) {
            (Ok(matches), _) => Ok(matches),
            (Err(error), Some(file)) if arguments.len() > self.arguments.len() => {
                Err(file.clashes(&error))
            }
            (Err(error), _) => Err(refused(&error)),
        }
    }
}

/// The whole command line, with switches of the server that can be told no.
fn command() -> Command {
    Cli::command()
        .mut_subcommand("serve", with_answerable_switches)
        .mut_subcommand("config", |config| config.mut_subcommand("show", with_answerable_switches))
}

/// What was understood of `arguments` if all that is wrong is that something is missing, which a
/// file may have.
fn without_needs(arguments: &[OsString], error: &clap::Error) -> Option<ArgMatches> {
    if error.kind() != ErrorKind::MissingRequiredArgument {
        return None;
    }
    let matches = command().ignore_errors(true).try_get_matches_from(arguments).ok()?;
    told(&matches).is_some().then_some(matches)
}

/// `error`, which also names the variable that a value comes from: clap names the flag alone.
fn naming_its_variable(mut error: clap::Error, arguments: &[OsString]) -> clap::Error {
    let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg) else { return error };
    let name = |text: &str| text.split([' ', '=', '[']).next().map(str::to_owned);
    let flag = name(flag);
    let is_given = arguments.iter().any(|given| given.to_str().and_then(name) == flag);
    let known = settings();
    let setting = known.iter().find(|setting| {
        flag.as_deref().and_then(|flag| flag.strip_prefix("--")) == Some(setting.key())
    });
    if let (Some(setting), false) = (setting, is_given) {
        let told = format!("{} in the environment has this value", setting.variable());
        let told = ContextValue::StyledStrs(vec![told.into()]);
        let _replaced = error.insert(ContextKind::Suggested, told);
    }
    error
}

/// The part with the settings, if the verb has them: the verbs that [`command`] names.
fn told(matches: &ArgMatches) -> Option<&ArgMatches> {
    match matches.subcommand()? {
        ("serve", serve) => Some(serve),
        ("config", config) => config.subcommand_matches("show"),
        _ => None,
    }
}

fn is_said(told: &ArgMatches, id: &str) -> bool {
    matches!(told.value_source(id), Some(ValueSource::CommandLine | ValueSource::EnvVariable))
}

fn cli(matches: &ArgMatches) -> Result<Cli, Failure> {
    Cli::from_arg_matches(matches).map_err(|error| refused(&error))
}

/// What clap says against the command line alone.
fn refused(error: &clap::Error) -> Failure {
    Failure::new(Exit::Usage, summary(error))
}

/// `given` knows flags and the environment apart from the file, `whole` has every value.
fn layered(given: &ArgMatches, whole: &ArgMatches, entries: &[Entry]) -> Vec<Layered> {
    let layer = |setting: Setting| {
        let line = entries.iter().find(|entry| entry.key == setting.key()).map(|entry| entry.line);
        let origin = match given.value_source(setting.id()) {
            Some(ValueSource::CommandLine) => Origin::Flag,
            Some(ValueSource::EnvVariable) => Origin::Environment,
            _ => line.map_or(Origin::Default, Origin::File),
        };
        let values = whole.get_raw(setting.id()).into_iter().flatten();
        let values = values.map(|value| value.to_string_lossy().into_owned()).collect();
        Layered { setting, values, origin }
    };
    settings().into_iter().map(layer).collect()
}
