//! Asking before something is lost. A script is never asked: it has no terminal to answer from.

use std::io::{self, IsTerminal as _, Write as _};

use crate::failure::{Exit, Failure, Outcome};

/// Asks `question` if somebody sits at stdin. Anything but yes is a failure.
pub(crate) fn ask(question: &str, yes: bool) -> Outcome {
    if yes || !io::stdin().is_terminal() {
        return Ok(());
    }
    let unasked = |error: io::Error| Failure::because(Exit::Failed, "cannot ask", &error);
    let mut stderr = io::stderr();
    write!(stderr, "{question} [y/N] ").and_then(|()| stderr.flush()).map_err(unasked)?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer).map_err(unasked)?;
    if ["y", "yes"].contains(&answer.trim().to_ascii_lowercase().as_str()) {
        Ok(())
    } else {
        Err(Failure::new(Exit::Failed, "not confirmed; nothing was changed"))
    }
}
