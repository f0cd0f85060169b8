//! What goes where: data to stdout, talk to stderr, colour only where somebody sees it.

use std::fmt;
use std::io::{self, IsTerminal as _, Write as _};

use serde_json::Value;

use crate::args::ColorChoice;
use crate::failure::{Failure, Outcome};

/// What stdout and stderr are, and whether they take colour.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Screen {
    stdout_is_terminal: bool,
    stdout_colour: bool,
    stderr_colour: bool,
}

/// A named value of an answer. The name is that of the JSON form and never changes.
pub(crate) type Field = (&'static str, Value);

/// The few meanings that have a colour.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Paint {
    Error,
    Hint,
    Open,
    Closed,
    Heading,
}

impl Screen {
    pub(crate) fn new(choice: ColorChoice) -> Self {
        let allowed = |is_terminal: bool| match choice {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => {
                is_terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
            }
        };
        let stdout_is_terminal = io::stdout().is_terminal();
        Self {
            stdout_is_terminal,
            stdout_colour: allowed(stdout_is_terminal),
            stderr_colour: allowed(io::stderr().is_terminal()),
        }
    }

    pub(crate) fn stdout_is_terminal(self) -> bool {
        self.stdout_is_terminal
    }

    pub(crate) fn stderr_colour(self) -> bool {
        self.stderr_colour
    }

    /// `text` in the colour of its meaning, if stderr takes colour.
    pub(crate) fn paint_stderr(self, paint: Paint, text: &str) -> String {
        painted(paint, text, self.stderr_colour)
    }

    /// `text` in the colour of its meaning, if stdout takes colour.
    pub(crate) fn paint_stdout(self, paint: Paint, text: &str) -> String {
        painted(paint, text, self.stdout_colour)
    }

    /// One structured answer: a JSON object on a line, or one field a line. A person is not told
    /// what there is not; a pipe gets every field.
    pub(crate) fn record(self, fields: &[Field], json: bool) -> Outcome {
        if json {
            return print(json_line(fields).as_bytes());
        }
        let mut out = String::new();
        let shown = fields.iter().filter(|(_, value)| !self.stdout_is_terminal || !value.is_null());
        let width = fields.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        for (name, value) in shown {
            let value = cell(value);
            let line = if self.stdout_is_terminal {
                format!("{:width$}  {value}\n", name.replace('_', " "))
            } else {
                format!("{name}\t{value}\n")
            };
            out.push_str(&line);
        }
        print(out.as_bytes())
    }
}

/// A line for the person, on stderr.
pub(crate) fn say(text: impl fmt::Display) {
    if let Err(_closed) = writeln!(io::stderr(), "{text}") {
        // Nobody listens there; the work goes on.
    }
}

/// Writes all of `data` to stdout, now.
pub(crate) fn print(data: &[u8]) -> Outcome {
    let mut stdout = io::stdout().lock();
    stdout.write_all(data).and_then(|()| stdout.flush()).map_err(Failure::stdout)
}

/// Copies `reader` to stdout. `lost` says what a failing reader means.
pub(crate) fn pump(reader: &mut dyn io::Read, lost: impl FnOnce(&io::Error) -> Failure) -> Outcome {
    let mut stdout = io::stdout().lock();
    let mut buffer = vec![0; PUMP_BYTES];
    loop {
        match reader.read(&mut buffer) {
            Ok(0) => return stdout.flush().map_err(Failure::stdout),
            Ok(len) => stdout.write_all(&buffer[..len]).map_err(Failure::stdout)?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(lost(&error)),
        }
    }
}

/// `fields` as one JSON object and a newline, in the given order.
pub(crate) fn json_line(fields: &[Field]) -> String {
    let members: Vec<String> =
        fields.iter().map(|(name, value)| format!("{}:{value}", Value::from(*name))).collect();
    format!("{{{}}}\n", members.join(","))
}

/// A value as a person reads it: no quotes, `-` for nothing, and no control character, which could
/// break a row or drive the terminal.
pub(crate) fn cell(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => printable(text),
        other => other.to_string(),
    }
}

/// `text` with control characters escaped.
pub(crate) fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}

fn painted(paint: Paint, text: &str, colour: bool) -> String {
    if !colour {
        return text.to_owned();
    }
    let code = match paint {
        Paint::Error => "1;31",
        Paint::Hint => "1;36",
        Paint::Open => "32",
        Paint::Closed => "33",
        Paint::Heading => "1",
    };
    format!("\x1b[{code}m{text}\x1b[0m")
}

const PUMP_BYTES: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_keeps_the_order_and_escapes() {
        let line =
            json_line(&[("next_offset", "07".into()), ("a", Value::Null), ("text", "\"\n".into())]);
        assert_eq!(line, "{\"next_offset\":\"07\",\"a\":null,\"text\":\"\\\"\\n\"}\n");
    }

    #[test]
    fn a_cell_cannot_break_its_row_or_drive_the_terminal() {
        assert_eq!(cell(&"a\tb\nc\x1b[2J".into()), "a\\tb\\nc\\u{1b}[2J");
        assert_eq!(cell(&Value::Null), "-");
        assert_eq!(cell(&true.into()), "true");
        assert_eq!(cell(&"grün 🙂".into()), "grün 🙂");
    }

    #[test]
    fn without_colour_text_stays_text() {
        assert_eq!(painted(Paint::Error, "error", false), "error");
        assert_eq!(painted(Paint::Error, "error", true), "\x1b[1;31merror\x1b[0m");
    }
}
