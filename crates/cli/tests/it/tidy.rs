//! Taste that a compiler does not check. A list of exceptions is a list to be read: each names its
//! reason.

use std::fs;
use std::path::{Path, PathBuf};

/// A file longer than this hides a second promise.
const FILE_LINES_MAX: usize = 800;

const LINE_CHARS_MAX: usize = 100;

/// Files that may be longer, each with its reason.
const LONG_FILES: [(&str, &str); 0] = [];

/// Where the two seams are: nothing else may open a file or read a clock.
const DISK: &str = "crates/storage/src/disk/";
/// Read what operators hand to a server, which is no data of its own.
const HANDED_OVER: [&str; 2] =
    ["crates/server/src/auth/jwt/source.rs", "crates/server/src/certificates"];
const CLOCK: &str = "crates/server/src/clock.rs";
/// What the operating system tells of the process is nobody's data, and has no seam.
const SYSTEM: &str = "crates/server/src/metrics/system.rs";

struct Source {
    path: String,
    text: String,
}

impl Source {
    /// What ships: no tests, no test-only crates.
    fn ships(&self) -> bool {
        let test = self.path.contains("/tests/") || self.path.ends_with("tests.rs");
        let test_crate =
            ["crates/fuzz/", "crates/model/", "crates/sim/", "crates/torture/", "bench/"]
                .iter()
                .any(|folder| self.path.starts_with(folder));
        !test && !test_crate
    }

    /// The text without the unit tests at the bottom.
    fn code(&self) -> &str {
        self.text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or(&self.text)
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

fn sources() -> Vec<Source> {
    let root = root();
    let mut found = Vec::new();
    let mut folders = vec![root.join("crates"), root.join("bench/ceiling")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder of the repository") {
            let path = entry.expect("an entry of a folder").path();
            if path.is_dir() && !path.ends_with("target") {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).expect("a source file");
                let path = path.strip_prefix(&root).expect("below the root");
                found.push(Source { path: path.display().to_string(), text });
            }
        }
    }
    assert!(found.len() > 100, "the walk has found the sources");
    found
}

fn nothing(violations: &[String]) {
    assert!(violations.is_empty(), "\n{}", violations.join("\n"));
}

#[test]
fn every_module_opens_with_what_it_is_for() {
    let missing =
        |source: &&Source| !source.text.starts_with("//!") && !source.path.ends_with("/tests.rs");
    nothing(&sources().iter().filter(missing).map(|s| s.path.clone()).collect::<Vec<_>>());
}

#[test]
fn lines_and_files_stay_short() {
    let mut violations = Vec::new();
    for source in sources() {
        let lines = source.text.lines().count();
        let excused = LONG_FILES.iter().any(|(path, _)| *path == source.path);
        if lines > FILE_LINES_MAX && !excused {
            violations.push(format!("{}: {lines} lines", source.path));
        }
        for (number, line) in (1..).zip(source.text.lines()) {
            if line.chars().count() > LINE_CHARS_MAX {
                violations.push(format!(
                    "{}:{number}: {} chars",
                    source.path,
                    line.chars().count()
                ));
            }
        }
    }
    nothing(&violations);
}

#[test]
fn no_work_is_left_behind() {
    let marks = ["TODO", "FIXME", "XXX"].map(|mark| format!("// {mark}"));
    let stubs = ["todo", "unimplemented"].map(|name| format!("{name}!("));
    let mut violations = Vec::new();
    for source in sources() {
        for mark in marks.iter().chain(&stubs) {
            if source.text.contains(mark.as_str()) {
                violations.push(format!("{}: {mark}", source.path));
            }
        }
    }
    nothing(&violations);
}

#[test]
fn only_the_seams_touch_files_and_clocks() {
    let files = ["std::fs::", "fs::File", "OpenOptions"];
    let clocks = ["SystemTime::now", "std::time::Instant::now"];
    let mut violations = Vec::new();
    for source in sources().iter().filter(|source| source.ships()) {
        let engine = !source.path.starts_with("crates/cli/");
        let handed_over = HANDED_OVER.iter().any(|file| source.path.starts_with(file));
        let exempt = source.path.starts_with(DISK) || source.path == SYSTEM || handed_over;
        if engine && !exempt {
            let used = files.iter().filter(|name| source.code().contains(**name));
            violations.extend(used.map(|name| format!("{}: {name}", source.path)));
        }
        if engine && source.path != CLOCK {
            let used = clocks.iter().filter(|name| source.code().contains(**name));
            violations.extend(used.map(|name| format!("{}: {name}", source.path)));
        }
    }
    nothing(&violations);
}

#[test]
fn storage_knows_names_and_positions_of_the_core_and_nothing_else() {
    let mut violations = Vec::new();
    for source in sources().iter().filter(|source| source.path.starts_with("crates/storage/src/")) {
        for line in source.code().lines() {
            if line.contains("headwater_core::") && !line.contains("headwater_core::ids") {
                violations.push(format!("{}: {}", source.path, line.trim()));
            }
        }
    }
    nothing(&violations);
}

#[test]
fn the_core_does_no_io() {
    let banned = ["tokio", "std::net", "std::thread", "tracing", "getrandom"];
    let mut violations = Vec::new();
    for source in sources().iter().filter(|source| source.path.starts_with("crates/core/src/")) {
        let used = banned.iter().filter(|name| source.code().contains(&format!("use {name}")));
        violations.extend(used.map(|name| format!("{}: {name}", source.path)));
    }
    nothing(&violations);
}

#[test]
fn every_verb_of_the_core_has_a_script() {
    let scripts = root().join("crates/core/tests/scripts");
    let mut missing = Vec::new();
    for source in sources() {
        if let Some(verb) = source.path.strip_prefix("crates/core/src/stream/")
            && !verb.contains('/')
        {
            let script = scripts.join(verb).with_extension("txt");
            if !script.exists() {
                missing.push(script.display().to_string());
            }
        }
    }
    nothing(&missing);
}

/// Every `UPPER_SNAKE` text in quotes: that is how codes stand in the sources.
fn codes(text: &str) -> Vec<&str> {
    let is_code = |word: &&str| {
        word.len() > 5
            && word.starts_with(|first: char| first.is_ascii_uppercase())
            && word.bytes().all(|b| b.is_ascii_uppercase() || b == b'_')
    };
    text.split('"').filter(is_code).collect()
}

#[test]
fn every_error_code_is_documented() {
    let page = fs::read_to_string(root().join("docs/errors.md")).expect("the page of errors");
    let mut missing = Vec::new();
    for source in sources().iter().filter(|source| source.ships()) {
        let tells = source.path.starts_with("crates/server/src/http/")
            || source.path.starts_with("crates/core/src/refusal")
            || source.path.starts_with("crates/core/src/wire/invalid")
            || source.path == "crates/core/src/json.rs";
        if tells {
            let unknown = codes(source.code()).into_iter().filter(|code| {
                *code != "CARGO_PKG_VERSION" && !page.contains(&format!("| `{code}` |"))
            });
            missing.extend(unknown.map(|code| format!("{}: {code}", source.path)));
        }
    }
    nothing(&missing);
}

#[test]
fn links_between_documents_resolve() {
    let root = root();
    let mut folders = vec![root.clone(), root.join("docs"), root.join("docs/decisions")];
    folders.push(root.join("docs/spec"));
    let mut broken = Vec::new();
    for folder in folders {
        for entry in fs::read_dir(&folder).expect("a folder of documents") {
            let path = entry.expect("an entry of a folder").path();
            if path.extension().is_none_or(|extension| extension != "md") {
                continue;
            }
            let text = fs::read_to_string(&path).expect("a document");
            for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
                let file = target.split('#').next().unwrap_or(target);
                let inside = !file.is_empty() && !file.contains("://");
                if inside && !folder.join(file).exists() {
                    broken.push(format!("{}: {target}", path.display()));
                }
            }
        }
    }
    nothing(&broken);
}
