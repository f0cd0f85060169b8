//! `headwater backup` and `headwater restore`.

use std::path::PathBuf;

use headwater_server::offline::{self, Copied};

use crate::failure::Outcome;
use crate::screen::{Field, Screen};
use crate::verify;

/// Copy a data directory as it is now, while a server may write to it.
///
/// The backup has every write that was acknowledged before it began, and of each stream a whole
/// prefix. It is read back and verified before it counts. Run again on the same OUT, it copies only
/// what is new; interrupted, it leaves the backup that was there before. No server is asked: this
/// runs on the machine that has the directory.
#[derive(Debug, clap::Args)]
#[command(after_help = BACKUP_EXAMPLES)]
pub(crate) struct BackupArgs {
    /// The data directory.
    #[arg(long, env = "HEADWATER_DATA_DIR", value_name = "DIR", default_value = "headwater-data")]
    data_dir: PathBuf,

    /// The backup: missing, empty, or an earlier backup of the same directory.
    #[arg(value_name = "OUT")]
    out: PathBuf,

    /// Print one JSON object a line.
    #[arg(long)]
    json: bool,
}

/// Make a data directory of a backup.
///
/// Every checksum is verified on the way. Interrupted, it leaves a directory that no server opens;
/// run again, it starts anew. The new directory has an id of its own.
#[derive(Debug, clap::Args)]
#[command(after_help = RESTORE_EXAMPLES)]
pub(crate) struct RestoreArgs {
    /// The backup.
    #[arg(value_name = "OUT")]
    backup: PathBuf,

    /// The data directory to make; missing or empty.
    #[arg(value_name = "DIR")]
    dir: PathBuf,

    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

const BACKUP_EXAMPLES: &str = "\
Example:
  headwater backup --data-dir /var/lib/headwater /backup/headwater";

const RESTORE_EXAMPLES: &str = "\
Example:
  headwater restore /backup/headwater /var/lib/headwater";

pub(crate) fn backup(args: &BackupArgs, screen: Screen) -> Outcome {
    let saved = offline::backup(&args.data_dir, &args.out);
    let saved = saved.map_err(|error| verify::failed(&error))?;
    verify::findings(&saved.report, args.json)?;
    let mut fields = copied(&saved.copied);
    fields.push(("streams", saved.report.streams.all().count().into()));
    fields.push(("finished", saved.published.into()));
    screen.record(&fields, args.json)?;
    verify::judge(&saved.report, &args.data_dir.display().to_string())
}

pub(crate) fn restore(args: &RestoreArgs, screen: Screen) -> Outcome {
    let done = offline::restore(&args.backup, &args.dir);
    let done = done.map_err(|error| verify::failed(&error))?;
    screen.record(&copied(&done), args.json)
}

fn copied(copied: &Copied) -> Vec<Field> {
    vec![
        ("files", copied.files.into()),
        ("bytes", copied.bytes.into()),
        ("copied_files", copied.copied_files.into()),
        ("copied_bytes", copied.copied_bytes.into()),
    ]
}
