//! `headwater verify`: is everything in a data directory what was written?

use std::path::PathBuf;
use std::time::Instant;

use headwater_server::offline::{self, Report, Verdict};
use serde_json::Value;

use crate::failure::{Exit, Failure, Outcome};
use crate::screen::{Field, Screen, json_line, print, printable, say};

/// Read a whole data directory, or a backup, and report every damage.
///
/// Nothing is changed. A server must not run on the directory: it is refused while one does, and
/// none can start meanwhile. Exits with 0 if everything is what was written, 7 if not, 2 if a file
/// is of a version that this program does not know.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The data directory or backup.
    #[arg(value_name = "DIR")]
    dir: PathBuf,

    /// Print a JSON object for each finding, and one that sums up.
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  headwater verify /var/lib/headwater
  headwater verify /var/lib/headwater --json | jq -r 'select(.finding == \"damage\") | .file'";

pub(crate) fn run(args: &Args, screen: Screen) -> Outcome {
    let started = Instant::now();
    let report = offline::verify(&args.dir).map_err(|error| failed(&error))?;
    let seconds = started.elapsed().as_secs_f64().max(1e-6);
    findings(&report, args.json)?;
    let damage = report.findings.iter().filter(|f| f.verdict == Verdict::Damage).count();
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    let rate = (report.scanned.bytes as f64 / 1e6 / seconds).round();
    let fields: [Field; 6] = [
        ("files", report.scanned.files.into()),
        ("bytes", report.scanned.bytes.into()),
        ("streams", report.streams.all().count().into()),
        ("damage", damage.into()),
        ("findings", (report.findings.len() as u64 + report.more_findings).into()),
        ("mb_per_s", rate.into()),
    ];
    screen.record(&fields, args.json)?;
    judge(&report, &args.dir.display().to_string())
}

/// Prints each finding: what, where, and whose.
pub(crate) fn findings(report: &Report, json: bool) -> Outcome {
    for finding in &report.findings {
        let streams = report.names(finding);
        let at = finding.at.offset.unwrap_or(0);
        if json {
            let fields: [Field; 8] = [
                ("finding", finding.verdict.name().into()),
                ("part", finding.part.name().into()),
                ("file", finding.at.path.clone().into()),
                ("offset", at.into()),
                ("len", finding.len.into()),
                ("detail", finding.detail.clone().into()),
                ("streams", streams.into()),
                ("more_streams", finding.more_streams.into()),
            ];
            print(json_line(&fields).as_bytes())?;
            continue;
        }
        let span = if finding.len > 0 { format!(", {} bytes", finding.len) } else { String::new() };
        let (verdict, part) = (finding.verdict.name(), finding.part.name());
        let path = printable(&finding.at.path);
        let more = match finding.more_streams {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let whose = match streams.as_slice() {
            [] => String::new(),
            some => format!(" [{}{more}]", printable(&some.join(", "))),
        };
        let detail = printable(&finding.detail);
        let line = format!("{verdict}\t{path}\tbyte {at}{span}\t{part}: {detail}{whose}\n");
        print(line.as_bytes())?;
    }
    if report.more_findings > 0 {
        say(format_args!("{} more findings are not listed", report.more_findings));
    }
    Ok(())
}

/// The outcome that a report stands for.
pub(crate) fn judge(report: &Report, what: &str) -> Outcome {
    match report.worst() {
        Some(Verdict::Damage) => Err(Failure::new(Exit::Corrupt, format!("{what} is damaged"))
            .hint("docs/recovery.md says what to do".to_owned())),
        Some(Verdict::Version) => {
            let what = format!("{what} has files of a version that this program does not know");
            Err(Failure::new(Exit::Usage, what))
        }
        _ => Ok(()),
    }
}

/// Why a directory could not be worked on.
pub(crate) fn failed(error: &offline::Error) -> Failure {
    let exit = match error.kind {
        offline::Kind::Corrupt => Exit::Corrupt,
        offline::Kind::Format | offline::Kind::Locked => Exit::Usage,
        _ => Exit::Failed,
    };
    let failure = match &error.source {
        Some(source) => Failure::because(exit, error.to_string(), source),
        None => Failure::new(exit, error.to_string()),
    };
    match error.kind {
        offline::Kind::Locked => failure.hint(
            "stop the server first; `headwater backup` works while it runs, and so does \
             `headwater verify` on a backup"
                .to_owned(),
        ),
        _ => failure,
    }
}

/// A value of a fact as JSON.
pub(crate) fn value(value: &offline::Value) -> Value {
    match value {
        offline::Value::Number(number) => (*number).into(),
        offline::Value::Id(id) => format!("{id:032x}").into(),
        offline::Value::Stream(id) => offline::id_text(*id).into(),
        offline::Value::Text(text) => text.as_ref().into(),
        offline::Value::Flag(flag) => (*flag).into(),
    }
}
