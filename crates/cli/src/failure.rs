//! What went wrong, why, what to do, and with which exit code.

use std::error::Error;
use std::fmt::Display;
use std::io;
use std::process::ExitCode;

use serde_json::Value;
use ureq::http::StatusCode;

use crate::hint::{self, Subject};
use crate::interrupt::EXIT_INTERRUPTED;
use crate::screen::{Paint, Screen, printable, say};

/// The result of a verb.
pub(crate) type Outcome = Result<(), Failure>;

/// How the process ends; documented in `headwater --help` and `docs/cli.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Failed,
    Usage,
    NotFound,
    Conflict,
    Auth,
    Unavailable,
    Corrupt,
    /// What the server's own error says.
    Server(u8),
}

/// Why a verb ended early.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The reader of our output has seen enough: no failure at all.
    BrokenPipe,
    /// The person wanted the end, and knows why it came.
    Interrupted,
    /// Everything else. Boxed, since it is rare and large.
    Reported(Box<Report>),
}

/// A failure as it is told.
#[derive(Debug)]
pub(crate) struct Report {
    what: String,
    causes: Vec<String>,
    hint: Option<String>,
    exit: Exit,
}

/// The error body of a server (`extensions.md` §1), as far as it has one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) code: Option<String>,
    pub(crate) title: Option<String>,
    pub(crate) detail: Option<String>,
}

impl Failure {
    /// `what` failed.
    pub(crate) fn new(exit: Exit, what: impl Into<String>) -> Self {
        Self::Reported(Box::new(Report { what: what.into(), causes: Vec::new(), hint: None, exit }))
    }

    /// `what` failed because of `cause` and everything behind it.
    pub(crate) fn because(exit: Exit, what: impl Into<String>, cause: &dyn Error) -> Self {
        let chain = std::iter::successors(Some(cause), |&error| error.source());
        Self::new(exit, what).causes(chain)
    }

    /// stdout did not take what we wrote.
    // By value, so that it can stand in `map_err`.
    #[expect(clippy::needless_pass_by_value, reason = "the shape of map_err")]
    pub(crate) fn stdout(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::BrokenPipe,
            _ => Self::because(Exit::Failed, "cannot write to stdout", &error),
        }
    }

    /// The server said no to `what`.
    pub(crate) fn refused(
        what: &str,
        status: StatusCode,
        problem: &Problem,
        subject: &Subject,
    ) -> Self {
        let title =
            problem.title.as_deref().or(status.canonical_reason()).unwrap_or("the server refused");
        let code = problem.code.as_deref().map(|code| format!(" {code}"));
        let facts = format!("{}{}", status.as_u16(), code.unwrap_or_default());
        let cause = match &problem.detail {
            Some(detail) => format!("{} ({facts})", printable(detail)),
            None => format!("the server answered {facts}"),
        };
        let exit = Exit::of(status, problem.code.as_deref());
        Self::new(exit, format!("{what}: {}", printable(title)))
            .causes([cause])
            .hint(hint::for_refusal(status, problem, subject))
    }

    /// Why, each reason in a line.
    pub(crate) fn causes(mut self, causes: impl IntoIterator<Item = impl Display>) -> Self {
        if let Self::Reported(report) = &mut self {
            report.causes.extend(causes.into_iter().map(|c| c.to_string()));
        }
        self
    }

    /// What to do about it.
    pub(crate) fn hint(mut self, hint: impl Into<Option<String>>) -> Self {
        if let Self::Reported(report) = &mut self {
            report.hint = hint.into();
        }
        self
    }

    /// Whether trying again later may help.
    pub(crate) fn is_transient(&self) -> bool {
        matches!(self, Self::Reported(report) if report.exit == Exit::Unavailable)
    }

    /// The last cause in words: what to say when it is not the end.
    pub(crate) fn reason(&self) -> &str {
        match self {
            Self::BrokenPipe => "broken pipe",
            Self::Interrupted => "interrupted",
            Self::Reported(report) => report.causes.last().unwrap_or(&report.what),
        }
    }

    /// Tells it on stderr. Returns how to exit.
    pub(crate) fn report(&self, screen: Screen) -> ExitCode {
        let report = match self {
            Self::BrokenPipe => return ExitCode::SUCCESS,
            Self::Interrupted => return ExitCode::from(EXIT_INTERRUPTED),
            Self::Reported(report) => report,
        };
        say(format_args!("{} {}", screen.paint_stderr(Paint::Error, "error:"), report.what));
        for cause in &report.causes {
            say(format_args!("{} {cause}", screen.paint_stderr(Paint::Error, "caused by:")));
        }
        if let Some(hint) = &report.hint {
            say(format_args!("\n{} {hint}", screen.paint_stderr(Paint::Hint, "hint:")));
        }
        ExitCode::from(report.exit.code())
    }
}

impl Exit {
    /// The exit for an answer of the server.
    pub(crate) fn of(status: StatusCode, code: Option<&str>) -> Self {
        match (status.as_u16(), code) {
            // 403 by the protocol, yet about a newer epoch and not about who is asking.
            (_, Some("PRODUCER_FENCED")) => Self::Conflict,
            (_, Some("DATA_DAMAGED")) => Self::Corrupt,
            (404 | 410, _) => Self::NotFound,
            (409 | 412, _) => Self::Conflict,
            (401 | 403, _) => Self::Auth,
            (408 | 429 | 502 | 503 | 504 | 507, _) => Self::Unavailable,
            _ => Self::Failed,
        }
    }

    fn code(self) -> u8 {
        match self {
            Self::Failed => 1,
            Self::Usage => 2,
            Self::NotFound => 3,
            Self::Conflict => 4,
            Self::Auth => 5,
            Self::Unavailable => 6,
            Self::Corrupt => 7,
            Self::Server(code) => code,
        }
    }
}

impl Problem {
    /// The members that `body` has; none of a body that is no problem document.
    pub(crate) fn parse(body: &[u8]) -> Self {
        let Ok(Value::Object(mut members)) = serde_json::from_slice(body) else {
            return Self::default();
        };
        let mut take = |name: &str| match members.remove(name) {
            Some(Value::String(text)) => Some(text),
            _ => None,
        };
        Self { code: take("code"), title: take("title"), detail: take("detail") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(failure: Failure) -> Report {
        match failure {
            Failure::Reported(report) => *report,
            Failure::BrokenPipe | Failure::Interrupted => panic!("a report"),
        }
    }

    #[test]
    fn statuses_have_the_documented_exit_codes() {
        for (status, code, exit) in [
            (400, None, 1),
            (401, None, 5),
            (403, None, 5),
            (403, Some("PRODUCER_FENCED"), 4),
            (404, Some("STREAM_NOT_FOUND"), 3),
            (410, Some("OFFSET_TRIMMED"), 3),
            (409, None, 4),
            (412, None, 4),
            (413, None, 1),
            (500, None, 1),
            (500, Some("DATA_DAMAGED"), 7),
            (503, None, 6),
            (507, None, 6),
        ] {
            let status = StatusCode::from_u16(status).unwrap();
            assert_eq!(Exit::of(status, code).code(), exit, "{status} {code:?}");
        }
    }

    #[test]
    fn a_refusal_names_title_detail_status_code_and_a_way_out() {
        let body = br#"{"title":"No such bucket","detail":"There is no bucket \"demo\".",
            "code":"BUCKET_NOT_FOUND","status":404}"#;
        let subject = Subject::bucket("demo");
        let status = StatusCode::NOT_FOUND;
        let report = report(Failure::refused(
            "cannot create demo/hello",
            status,
            &Problem::parse(body),
            &subject,
        ));
        assert_eq!(report.what, "cannot create demo/hello: No such bucket");
        assert_eq!(report.causes, ["There is no bucket \"demo\". (404 BUCKET_NOT_FOUND)"]);
        let hint = report.hint.expect("a common code has a hint");
        assert!(hint.contains("headwater bucket create demo"), "{hint}");
    }

    #[test]
    fn an_answer_without_a_problem_is_still_told() {
        for body in [&b""[..], b"<html>", b"[1]", br#"{"code":7}"#] {
            let report = report(Failure::refused(
                "cannot read demo/x",
                StatusCode::BAD_GATEWAY,
                &Problem::parse(body),
                &Subject::bucket("demo"),
            ));
            assert_eq!(report.what, "cannot read demo/x: Bad Gateway");
            assert_eq!(report.causes, ["the server answered 502"]);
        }
    }

    #[test]
    fn a_broken_pipe_is_success() {
        let gone = Failure::stdout(io::ErrorKind::BrokenPipe.into());
        assert!(matches!(gone, Failure::BrokenPipe));
        let full = Failure::stdout(io::ErrorKind::StorageFull.into());
        assert_eq!(report(full).exit, Exit::Failed);
    }
}
