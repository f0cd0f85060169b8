//! Runs `tests/scripts/*.txt`. A line that begins with `> ` is asked of the core; what follows it,
//! up to an empty line, a comment (`#`) or the next question, is what the core must answer. With
//! `UPDATE=1` in the environment the answers are written anew: review the difference.
//!
//! ```text
//! > append demo/a type=text/plain producer=p:0:1 body=hello
//! 409 PRODUCER_GAP
//!     The producer's next sequence number is 0, got 1. Send what is missing first.
//! ```
//!
//! `body=` and `json=` take the rest of the line. Time stands still unless a script says `wait`.

mod answer;
mod ask;
mod words;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::{env, fs};

use ask::Session;

/// A script that was run.
struct Run {
    path: PathBuf,
    /// The script as it is.
    expected: String,
    /// The script with the answers that the core gives now.
    got: String,
    /// The words for the receipts and refusals that came.
    produced: BTreeSet<String>,
}

static RUNS: LazyLock<Vec<Run>> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts");
    let entries = fs::read_dir(folder).unwrap();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.into_iter().map(run).collect()
});

fn run(path: PathBuf) -> Run {
    let expected = fs::read_to_string(&path).unwrap();
    let mut session = Session::default();
    let mut got = String::new();
    let mut answered = false;
    for (number, line) in expected.lines().enumerate() {
        let place = format!("{}:{}", path.display(), number + 1);
        if let Some(question) = line.strip_prefix("> ") {
            let answer = session.ask(question, &place);
            writeln!(got, "{line}\n{}", answer.trim_end()).unwrap();
            answered = true;
        } else if line.is_empty() || line.starts_with('#') {
            writeln!(got, "{line}").unwrap();
            answered = false;
        } else {
            assert!(answered, "{place}: an answer without a question");
        }
    }
    Run { path, expected, got, produced: session.produced }
}

#[test]
fn every_script_gets_the_answers_that_it_expects() {
    let mut wrong = Vec::new();
    for Run { path, expected, got, .. } in RUNS.iter().filter(|run| run.expected != run.got) {
        if env::var_os("UPDATE").is_some_and(|value| value == "1") {
            fs::write(path, got).unwrap();
        } else {
            wrong.push(difference(path, expected, got));
        }
    }
    assert!(wrong.is_empty(), "{}\nUPDATE=1 writes these answers.", wrong.join("\n"));
}

/// The first place where the two differ, with a little of what stands before it.
fn difference(path: &Path, expected: &str, got: &str) -> String {
    let same = expected.lines().zip(got.lines()).take_while(|(one, other)| one == other).count();
    let show = |text: &str| -> String {
        let lines = text.lines().skip(same.saturating_sub(3)).take(6);
        lines.fold(String::new(), |shown, line| shown + "    " + line + "\n")
    };
    let place = format!("{}:{}", path.display(), same + 1);
    format!("{place}\n  expected\n{}  got\n{}", show(expected), show(got))
}

#[test]
fn every_refusal_and_every_receipt_is_in_some_script() {
    let produced: BTreeSet<_> = RUNS.iter().flat_map(|run| &run.produced).collect();
    let expected = refusal_codes().into_iter().chain(answer::RECEIPTS.map(str::to_owned));
    let missing: Vec<_> = expected.filter(|word| !produced.contains(word)).collect();
    assert!(missing.is_empty(), "no script produces {missing:?}");
}

/// What no script can bring about: a message of 4 GiB, and the quotas, which are counted over all
/// shards by the engine and refused there.
const NOT_DECIDED_HERE: [&str; 4] =
    ["MESSAGE_TOO_LARGE", "STREAM_LIMIT", "BUCKET_STREAM_LIMIT", "BUCKET_BYTES_LIMIT"];

/// The codes of the table of refusals, read from its source, so that none can be forgotten.
fn refusal_codes() -> Vec<String> {
    let sources = [include_str!("../../src/refusal.rs"), include_str!("../../src/json.rs")];
    let words = sources.iter().flat_map(|source| source.split('"'));
    let is_code =
        |word: &&str| word.len() > 3 && word.bytes().all(|b| b.is_ascii_uppercase() || b == b'_');
    let codes = words.filter(is_code).filter(|code| !NOT_DECIDED_HERE.contains(code));
    let codes: Vec<_> = codes.map(str::to_owned).collect();
    assert!(codes.len() > 40, "the table is where it was: {codes:?}");
    codes
}

#[test]
fn every_verb_has_a_script() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/stream");
    let verbs = fs::read_dir(sources).unwrap().map(|entry| entry.unwrap().path());
    let scripts: BTreeSet<_> = RUNS.iter().filter_map(|run| run.path.file_stem()).collect();
    for verb in verbs {
        assert!(scripts.contains(verb.file_stem().unwrap()), "no script for {}", verb.display());
    }
}
