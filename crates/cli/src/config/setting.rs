//! What a setting is, read from the flag that declares it.

use std::any::TypeId;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::builder::{OsStr, Resettable, Str};
use clap::{Arg, ArgAction, Args as _, Command};

use crate::settings::Told;
use crate::units::{Size, Span};

/// A setting. Its key in a file is the long name of its flag.
#[derive(Debug)]
pub(super) struct Setting(Arg);

/// What the values of a setting are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    Switch,
    Count,
    Size,
    Duration,
    Address,
    Path,
    /// One of a few words.
    Choice(Vec<String>),
    /// Text, in a notation that the setting has for itself if any.
    Text,
}

/// The command whose flags are the settings.
pub(super) fn declared() -> Command {
    Told::augment_args(Command::new("headwater"))
}

/// Every setting, in the order of the flags.
pub(super) fn settings() -> Vec<Setting> {
    settings_of(declared())
}

/// The settings among the flags of `command`.
pub(super) fn settings_of(command: Command) -> Vec<Setting> {
    let mut command = with_answerable_switches(command);
    // Fills in what follows from what is declared.
    command.build();
    command.get_arguments().filter(|arg| is_setting(arg)).cloned().map(Setting).collect()
}

/// `command` as it takes what stands in a file: settings as flags, and no environment.
pub(super) fn flags_alone(command: Command) -> Command {
    with_answerable_switches(command)
        .no_binary_name(true)
        .mut_args(|arg| arg.env(Resettable::<OsStr>::Reset))
}

/// `command` with switches that can be told no, `--must-exist=false`: else a flag could not win
/// over a file.
pub(super) fn with_answerable_switches(command: Command) -> Command {
    command.mut_args(|arg| {
        if !is_setting(&arg) || !matches!(arg.get_action(), ArgAction::SetTrue) {
            return arg;
        }
        arg.action(ArgAction::Set)
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true")
            .default_value("false")
            .value_name("true|false")
            .hide_possible_values(true)
    })
}

/// Whatever the environment may say is a setting, but for where the file is.
fn is_setting(arg: &Arg) -> bool {
    arg.get_env().is_some() && arg.get_id() != FILE
}

/// The id of the flag that names the file.
pub(super) const FILE: &str = "config";

impl Setting {
    /// What clap knows it by.
    pub(super) fn id(&self) -> &str {
        self.0.get_id().as_str()
    }

    /// Its key in a file; with two dashes before it, its flag.
    pub(super) fn key(&self) -> &str {
        self.0.get_long().expect("a setting is a flag with a long name")
    }

    pub(super) fn variable(&self) -> &str {
        self.0.get_env().and_then(|name| name.to_str()).expect("a setting has a variable, in ASCII")
    }

    pub(super) fn heading(&self) -> &str {
        self.0.get_help_heading().unwrap_or("General")
    }

    /// What stands for a value in the help: `DURATION`.
    pub(super) fn placeholder(&self) -> &str {
        self.0.get_value_names().and_then(<[Str]>::first).map_or("VALUE", Str::as_str)
    }

    /// Whether it takes several values: an array in a file.
    pub(super) fn is_list(&self) -> bool {
        matches!(self.0.get_action(), ArgAction::Append)
    }

    /// Whether its value is shown nowhere.
    pub(super) fn is_secret(&self) -> bool {
        self.0.is_hide_env_values_set()
    }

    pub(super) fn kind(&self) -> Kind {
        let parsed = self.0.get_value_parser().type_id();
        let numbers = [
            TypeId::of::<usize>(),
            TypeId::of::<u64>(),
            TypeId::of::<u32>(),
            TypeId::of::<u16>(),
            TypeId::of::<std::num::NonZeroU32>(),
        ];
        let choices = self.0.get_possible_values();
        if parsed == TypeId::of::<bool>() {
            Kind::Switch
        } else if !choices.is_empty() {
            Kind::Choice(choices.iter().map(|choice| choice.get_name().to_owned()).collect())
        } else if parsed == TypeId::of::<Size>() {
            Kind::Size
        } else if parsed == TypeId::of::<Span>() {
            Kind::Duration
        } else if parsed == TypeId::of::<SocketAddr>() {
            Kind::Address
        } else if parsed == TypeId::of::<PathBuf>() {
            Kind::Path
        } else if numbers.iter().any(|number| parsed == *number) {
            Kind::Count
        } else {
            Kind::Text
        }
    }

    /// What it does: whole sentences.
    pub(super) fn help(&self) -> String {
        let mut help = self.whole_help();
        if let Some(words) = help.find(DEFAULT_IN_WORDS) {
            help.truncate(words);
        }
        if !help.ends_with('.') {
            help.push('.');
        }
        help
    }

    /// The default as values of the flag; none if it is not set by default.
    pub(super) fn default(&self) -> Vec<String> {
        let values = self.0.get_default_values().iter();
        values.map(|value| value.to_string_lossy().into_owned()).collect()
    }

    /// What it means that it is not set, where the help says so: `[default: …]` at its end.
    pub(super) fn default_in_words(&self) -> Option<String> {
        let help = self.whole_help();
        let (_, words) = help.split_once(DEFAULT_IN_WORDS)?;
        Some(words.trim_end_matches(['.', ']']).to_owned())
    }

    fn whole_help(&self) -> String {
        let help = self.0.get_long_help().or(self.0.get_help()).expect("a setting has a help text");
        help.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// `values` as they stand in a file.
    pub(super) fn toml(&self, values: &[String]) -> String {
        let kind = self.kind();
        let one = |value: &String| match kind {
            Kind::Switch | Kind::Count => value.clone(),
            _ => quoted(value),
        };
        if self.is_list() {
            return format!("[{}]", values.iter().map(one).collect::<Vec<_>>().join(", "));
        }
        values.iter().map(one).collect()
    }
}

impl Kind {
    /// What a value is, in a few words.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Switch => "true or false".to_owned(),
            Self::Count => "a whole number".to_owned(),
            Self::Size => "a size: bytes, or a text like \"64MiB\"".to_owned(),
            Self::Duration => "a duration: a text like \"30s\"".to_owned(),
            Self::Address => "an address and a port: a text like \"127.0.0.1:4437\"".to_owned(),
            Self::Path => "a path: a text".to_owned(),
            Self::Choice(words) => {
                let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
                format!("one of {}", words.join(", "))
            }
            Self::Text => "a text".to_owned(),
        }
    }

    /// What a value is, in a word.
    pub(super) fn unit(&self) -> String {
        match self {
            Self::Switch => "true or false".to_owned(),
            Self::Count => "count".to_owned(),
            Self::Size => "size".to_owned(),
            Self::Duration => "duration".to_owned(),
            Self::Address => "address".to_owned(),
            Self::Path => "path".to_owned(),
            Self::Choice(words) => words.join(", "),
            Self::Text => "text".to_owned(),
        }
    }
}

/// `text` as a TOML string: JSON's escapes are TOML's too, but TOML takes no raw DEL.
pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

const DEFAULT_IN_WORDS: &str = " [default: ";
