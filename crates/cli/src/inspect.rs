//! `headwater inspect`: what lies in the files of a data directory.

use std::path::{Path, PathBuf};

use clap::Subcommand;
use headwater_server::offline::{self, Fact, Report};

use crate::failure::{Exit, Failure, Outcome};
use crate::screen::{Field, Screen, cell, json_line, print};
use crate::verify;

/// Show what lies in the files of a data directory, or take out of it what is intact.
///
/// Nothing in the directory is changed, and no server may run on it. Damage is shown behind what is
/// intact, and makes the exit code 7.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Log(FileArgs),
    Segment(FileArgs),
    Checkpoint(FileArgs),
    Manifest(FileArgs),
    Streams(DirArgs),
    Dir(DirArgs),
    Export(ExportArgs),
}

/// Show a file: a log file's frames, entries and footer, a segment's runs, a checkpoint's images,
/// or what the manifest says.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
struct FileArgs {
    /// The file, inside its data directory.
    #[arg(value_name = "PATH")]
    path: PathBuf,

    /// Print one JSON object a line.
    #[arg(long)]
    json: bool,
}

/// Show a whole directory: its streams, or everything in its files.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
struct DirArgs {
    /// The data directory.
    #[arg(value_name = "DIR")]
    dir: PathBuf,

    /// Print one JSON object a line.
    #[arg(long)]
    json: bool,
}

/// Save the intact bytes of every stream to a new directory.
///
/// OUT/streams/ has a file for each stream: its intact bytes from the earliest readable one on,
/// back to back, as a read gives them (the messages of JSON streams are each followed by a comma).
/// OUT/index.json says which file is which stream, its content type, the offsets that are there
/// (`ranges`) and those that are not (`gaps`).
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
struct ExportArgs {
    /// The data directory.
    #[arg(value_name = "DIR")]
    dir: PathBuf,

    /// Where to save; empty or missing.
    #[arg(value_name = "OUT")]
    out: PathBuf,

    /// Print one JSON object a line.
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  headwater inspect dir /var/lib/headwater
  headwater inspect streams /var/lib/headwater --json
  headwater inspect manifest /var/lib/headwater/MANIFEST
  headwater inspect log /var/lib/headwater/log/0000000007.log
  headwater inspect segment /var/lib/headwater/segment/0000000005.seg
  headwater inspect checkpoint /var/lib/headwater/checkpoint/0000000003.ckpt
  headwater inspect export /var/lib/headwater /tmp/saved";

pub(crate) fn run(args: &Args, screen: Screen) -> Outcome {
    match &args.verb {
        Verb::Log(args) => file(args, "log"),
        Verb::Segment(args) => file(args, "segment"),
        Verb::Checkpoint(args) => file(args, "checkpoint"),
        Verb::Manifest(args) => file(args, ""),
        Verb::Streams(args) => streams(args),
        Verb::Dir(args) => look(&args.dir, None, args.json),
        Verb::Export(args) => export(args, screen),
    }
}

/// The data directory is where the file is, or one above its folder.
fn file(args: &FileArgs, folder: &str) -> Outcome {
    let path = std::path::absolute(&args.path)
        .map_err(|e| Failure::because(Exit::Usage, "cannot find the file", &e))?;
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let parent = path.parent().unwrap_or(Path::new("/"));
    if folder.is_empty() {
        return look(parent, Some(name), args.json);
    }
    if parent.file_name().is_none_or(|name| name != folder) {
        let what = format!(
            "{}: expected a file in the folder {folder}/ of a data directory",
            args.path.display()
        );
        return Err(Failure::new(Exit::Usage, what));
    }
    let root = parent.parent().unwrap_or(Path::new("/"));
    look(root, Some(&format!("{folder}/{name}")), args.json)
}

fn look(dir: &Path, file: Option<&str>, json: bool) -> Outcome {
    let mut printed = Ok(());
    let mut tell = |fact: Fact| {
        if printed.is_ok() {
            printed = print(line(&fact, json).as_bytes());
        }
    };
    let report = offline::inspect(dir, file, &mut tell);
    printed?;
    let report = report.map_err(|error| verify::failed(&error))?;
    verify::findings(&report, json)?;
    verify::judge(&report, &dir.display().to_string())
}

/// A fact as a line: what it is, where, and what it says.
fn line(fact: &Fact, json: bool) -> String {
    if json {
        let mut fields: Vec<Field> = vec![("what", fact.what.into()), ("at", fact.at.into())];
        fields.extend(fact.fields.iter().map(|(name, value)| (*name, verify::value(value))));
        return json_line(&fields);
    }
    let said = fact.fields.iter();
    let said = said.map(|(name, value)| format!("\t{name}={}", cell(&verify::value(value))));
    format!("{}\t@{}{}\n", fact.what, fact.at, said.collect::<String>())
}

fn streams(args: &DirArgs) -> Outcome {
    let report = offline::inspect(&args.dir, None, &mut |_| {});
    let report = report.map_err(|error| verify::failed(&error))?;
    for stream in report.streams.all() {
        let fields: [Field; 10] = [
            ("stream", stream.name.key().into()),
            ("id", offline::id_text(stream.id).into()),
            ("content_type", stream.content.as_str().into()),
            ("closed", stream.closed.into()),
            ("deleted", stream.hidden.into()),
            ("retained_offset", stream.retained().0.into()),
            ("next_offset", stream.tail.0.into()),
            ("record_first", stream.first().0.into()),
            ("record_next", stream.next.0.into()),
            ("snapshot_offset", stream.snapshot().map(|snapshot| snapshot.offset.0).into()),
        ];
        let text = if args.json {
            json_line(&fields)
        } else {
            let cells: Vec<String> = fields.iter().map(|(_, value)| cell(value)).collect();
            cells.join("\t") + "\n"
        };
        print(text.as_bytes())?;
    }
    end(&report, &args.dir, args.json)
}

fn export(args: &ExportArgs, screen: Screen) -> Outcome {
    let export = offline::export(&args.dir, &args.out).map_err(|error| verify::failed(&error))?;
    let fields: [Field; 3] = [
        ("streams", export.streams.into()),
        ("bytes", export.bytes.into()),
        ("incomplete", export.incomplete.into()),
    ];
    verify::findings(&export.report, args.json)?;
    screen.record(&fields, args.json)?;
    verify::judge(&export.report, &args.dir.display().to_string())
}

fn end(report: &Report, dir: &Path, json: bool) -> Outcome {
    verify::findings(report, json)?;
    verify::judge(report, &dir.display().to_string())
}
