//! The configuration file: TOML, one key for each setting, no sections.
//!
//! A file is read as a whole and every mistake in it is told with its line, not only the first.

use std::error::Error as _;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::setting::{Kind, Setting, declared, flags_alone, quoted, settings_of};
use crate::failure::{Exit, Failure, Outcome};
use crate::screen::printable;

/// Where a file is looked for when none is named; the first that is there is read.
pub(super) const PLACES: [&str; 2] = ["headwater.toml", "/etc/headwater/config.toml"];

/// A larger file is refused.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// From here on a name resembles another (Jaro-Winkler, 0 to 1).
const RESEMBLANCE_MIN: f64 = 0.8;

/// A file as it was read.
#[derive(Debug)]
pub(super) struct File {
    path: PathBuf,
    text: String,
}

/// A setting that a file has.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) key: String,
    /// As the flag would have them; several only for a list, none for an empty one.
    pub(super) values: Vec<String>,
    /// Whether that is so without the file, too.
    pub(super) is_default: bool,
    /// Counted from 1.
    pub(super) line: usize,
}

/// A mistake, and its line, counted from 1.
type Mistake = (usize, String);

impl File {
    /// The file that is `named`, else the first of [`PLACES`] that is there.
    pub(super) fn find(named: Option<&Path>) -> Result<Option<Self>, Failure> {
        if let Some(path) = named {
            return match Self::read(path) {
                Ok(file) => file.map(Some),
                Err(error) => Err(unreadable(path, &error)),
            };
        }
        for path in PLACES.map(Path::new) {
            match Self::read(path) {
                Ok(file) => return file.map(Some),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(unreadable(path, &error)),
            }
        }
        Ok(None)
    }

    fn read(path: &Path) -> io::Result<Result<Self, Failure>> {
        let mut bytes = Vec::new();
        fs::File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > FILE_BYTES_MAX {
            let what = format!("{} has more than {FILE_BYTES_MAX} bytes", path.display());
            return Ok(Err(Failure::new(Exit::Usage, what)));
        }
        Ok(match String::from_utf8(bytes) {
            Ok(text) => Ok(Self { path: path.to_owned(), text }),
            Err(error) => {
                let line = line_of(error.as_bytes(), error.utf8_error().valid_up_to());
                let what = format!("{}:{line}: this is not UTF-8", path.display());
                Err(Failure::new(Exit::Usage, what))
            }
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The settings in the order of their lines, each with values that its flag would take.
    pub(super) fn entries(&self) -> Result<Vec<Entry>, Failure> {
        let (entries, mistakes) = entries(&self.text, declared());
        if mistakes.is_empty() {
            return Ok(entries);
        }
        let path = self.path.display();
        let lines = mistakes.iter().map(|(line, what)| format!("{path}:{line}: {what}"));
        Err(Failure::new(Exit::Usage, format!("{path} is not a valid configuration"))
            .causes(lines)
            .hint("headwater config default prints every setting and how it is written".to_owned()))
    }

    /// Whether the settings go together, where they are all that is said.
    pub(super) fn check_together(&self, entries: &[Entry]) -> Outcome {
        let flags = entries.iter().flat_map(Entry::flags);
        match flags_alone(declared()).try_get_matches_from(flags) {
            Ok(_matches) => Ok(()),
            Err(error) => Err(self.clashes(&error)),
        }
    }

    /// What clap says against the settings of this file as a whole.
    pub(super) fn clashes(&self, error: &clap::Error) -> Failure {
        let what = format!("{} does not go together", self.path.display());
        Failure::new(Exit::Usage, what)
            .causes([summary(error)])
            .hint("each setting of the file counts as the flag of its name".to_owned())
    }
}

impl Entry {
    /// The entry on a command line. A default is left out: a switch that is off needs nothing of
    /// what it would need if it were on.
    pub(super) fn flags(&self) -> impl Iterator<Item = String> {
        let values = if self.is_default { &[] } else { &self.values[..] };
        values.iter().map(|value| format!("--{}={value}", self.key))
    }
}

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    Failure::because(Exit::Usage, format!("cannot read {}", path.display()), error)
}

/// What `text` sets of the settings that are `declared`, and what is wrong with it, both in the
/// order of their lines.
pub(super) fn entries(text: &str, declared: Command) -> (Vec<Entry>, Vec<Mistake>) {
    let (table, errors) = DeTable::parse_recoverable(text);
    let mut reader = Reader {
        text,
        known: settings_of(declared.clone()),
        flags: flags_alone(declared),
        entries: Vec::new(),
        mistakes: Vec::new(),
    };
    for error in errors {
        let line = reader.line(error.span().map_or(0, |span| span.start));
        reader.mistakes.push((line, format!("not TOML: {}", error.message())));
    }
    reader.table("", table.get_ref());
    let Reader { mut entries, mut mistakes, .. } = reader;
    entries.sort_by_key(|entry| entry.line);
    // One slip can break several rules of TOML: the first is the cause.
    mistakes.sort_by_key(|(line, _)| *line);
    mistakes.dedup_by_key(|(line, _)| *line);
    (entries, mistakes)
}

struct Reader<'a> {
    text: &'a str,
    known: Vec<Setting>,
    flags: Command,
    entries: Vec<Entry>,
    mistakes: Vec<Mistake>,
}

impl Reader<'_> {
    fn line(&self, position: usize) -> usize {
        line_of(self.text.as_bytes(), position)
    }

    /// Reads a table whose name, with a dot behind it, is `section`.
    fn table(&mut self, section: &str, table: &DeTable<'_>) {
        for (key, value) in table {
            let name = format!("{section}{}", key.get_ref());
            let line = self.line(key.span().start);
            if let DeValue::Table(inner) = value.get_ref() {
                if inner.is_empty() {
                    self.mistakes.push((line, no_section(&name)));
                }
                self.table(&format!("{name}."), inner);
                continue;
            }
            let Some(setting) = self.known.iter().find(|setting| setting.key() == name) else {
                self.mistakes.push((line, unknown(&name, &self.known)));
                continue;
            };
            match values(setting, value, &self.flags) {
                Ok(values) => {
                    let is_default = values == setting.default();
                    self.entries.push(Entry { key: name, values, is_default, line });
                }
                Err((position, what)) => {
                    let line = self.line(position);
                    self.mistakes.push((line, format!("{name}: {what}")));
                }
            }
        }
    }
}

/// The values of `setting` as its flag would have them; or where the mistake is, and which.
fn values(
    setting: &Setting,
    value: &Spanned<DeValue<'_>>,
    flags: &Command,
) -> Result<Vec<String>, (usize, String)> {
    let elements: Vec<&Spanned<DeValue<'_>>> = match value.get_ref() {
        DeValue::Array(elements) if setting.is_list() => elements.iter().collect(),
        _ => vec![value],
    };
    let one = |element: &&Spanned<DeValue<'_>>| {
        let text = spelled(&setting.kind(), element.get_ref())
            .and_then(|text| accepted(setting, &text, flags).map(|()| text));
        text.map_err(|what| (element.span().start, what))
    };
    elements.iter().map(one).collect()
}

/// A TOML value as the flag would have it, if it is of the right type.
fn spelled(kind: &Kind, value: &DeValue<'_>) -> Result<String, String> {
    match (kind, value) {
        (Kind::Switch, DeValue::Boolean(answer)) => Ok(answer.to_string()),
        (Kind::Count | Kind::Size, DeValue::Integer(number)) => {
            // Underscores are gone; another base than ten is TOML's own affair.
            match i128::from_str_radix(number.as_str(), number.radix()) {
                Ok(number) => Ok(number.to_string()),
                Err(_too_long) => Ok(number.as_str().to_owned()),
            }
        }
        (Kind::Switch | Kind::Count, other) => {
            Err(format!("expected {}, found: {}", kind.describe(), other.type_str()))
        }
        (_, DeValue::String(text)) => Ok(text.as_ref().to_owned()),
        (_, other) => Err(format!("expected {}, found: {}", kind.describe(), other.type_str())),
    }
}

/// Whether the flag of `setting` takes `value`, whatever other flags it needs or excludes.
fn accepted(setting: &Setting, value: &str, flags: &Command) -> Result<(), String> {
    let flag = format!("--{}={value}", setting.key());
    let Err(error) = flags.clone().try_get_matches_from([flag]) else { return Ok(()) };
    match error.kind() {
        ErrorKind::MissingRequiredArgument | ErrorKind::ArgumentConflict => Ok(()),
        _ if setting.is_secret() => Err("this is no value for it".to_owned()),
        _ => Err(format!("{}: {}", quoted(value), reason(&error))),
    }
}

/// Why clap refused a value.
fn reason(error: &clap::Error) -> String {
    if let Some(cause) = error.source() {
        return cause.to_string();
    }
    match error.get(ContextKind::ValidValue) {
        Some(ContextValue::Strings(words)) => format!("expected one of {}", words.join(", ")),
        _ => summary(error),
    }
}

/// What clap says, without its advice on usage and in one line.
pub(super) fn summary(error: &clap::Error) -> String {
    let text = error.to_string();
    let what = text.split("\n\n").next().unwrap_or(&text);
    let what = what.strip_prefix("error: ").unwrap_or(what);
    what.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn no_section(name: &str) -> String {
    format!("there is no section {}; settings stand in no section", quoted(name))
}

fn unknown(name: &str, known: &[Setting]) -> String {
    let mut told = format!("there is no setting {}", quoted(&printable(name)));
    if let Some(near) = nearest(name, known) {
        told.push_str("; did you mean ");
        told.push_str(near);
        told.push('?');
    }
    if name.contains('.') {
        told.push_str(" Settings stand in no section.");
    }
    told
}

/// The setting whose name resembles `name`, or its part behind the section, most.
fn nearest<'a>(name: &str, known: &'a [Setting]) -> Option<&'a str> {
    let whole = name.to_ascii_lowercase().replace(['_', '.'], "-");
    let last = name.rsplit('.').next().unwrap_or(name).to_ascii_lowercase().replace('_', "-");
    let resemblance =
        |key: &str| strsim::jaro_winkler(&whole, key).max(strsim::jaro_winkler(&last, key));
    known
        .iter()
        .map(|setting| (resemblance(setting.key()), setting.key()))
        .filter(|(resemblance, _)| *resemblance >= RESEMBLANCE_MIN)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, key)| key)
}

/// The line, counted from 1, that has the byte at `position`.
fn line_of(text: &[u8], position: usize) -> usize {
    let before = &text[..position.min(text.len())];
    1 + memchr::memchr_iter(b'\n', before).count()
}
