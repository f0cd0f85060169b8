//! Data directories that the whole program has written, one for each version of the format, open
//! with what was in them; a newer version is left alone.
//!
//! `GOLDEN=write cargo test -p headwater --test it golden` writes the one of the current version
//! where there is none yet. What was written once is never written again: another binary's
//! directory (`GOLDEN_BINARY=PATH GOLDEN_VERSION=N`) was made in the same way by a binary of its
//! time. Each is what `kill -9` has left. Zeros at the ends of its files are not kept; `index.json`
//! has the lengths, and what the server said of its streams before it was killed.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::support::{Directory, Server, eventually, finish, headwater, run};
use crate::wire::{Answer, Wire};

/// The version that this program writes.
const CURRENT: u32 = 3;

/// Files so small that a few hundred appends fill several, and checkpoints happen.
const SMALL: [&str; 4] = ["--log-file-size", "16KiB", "--replay-max", "24KiB"];

/// What has to come back with each answer.
const HEADERS: [&str; 9] = [
    "content-type",
    "stream-next-offset",
    "stream-closed",
    "stream-retained-offset",
    "stream-snapshot-offset",
    "stream-snapshot-digest",
    "stream-record-first",
    "stream-record-next",
    "stream-expires-at",
];

/// What is asked of every server that has opened the directory.
const STREAMS: [&str; 9] = [
    "/gold/text",
    "/gold/json",
    "/gold/trimmed",
    "/gold/snapshot",
    "/gold/fork",
    "/gold/fork-of-fork",
    "/gold/deleted-source",
    "/gold/orphan",
    "/v1/stream/deep/base",
];

const PRODUCER: &str = "golden-producer";
const PRODUCED: u32 = 5;

/// What the server says, by the request.
type Answers = BTreeMap<String, Value>;

fn golden(version: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/v{version}"))
}

#[test]
fn a_directory_of_version_1_opens_with_all_that_was_in_it() {
    opens(1);
}

#[test]
fn a_directory_of_version_2_opens_with_all_that_was_in_it() {
    assert!(!files(&golden(2)).keys().all(|name| !name.starts_with("segment/")), "it has segments");
    opens(2);
}

#[test]
fn a_directory_of_version_3_opens_with_all_that_was_in_it() {
    if std::env::var("GOLDEN").is_ok_and(|value| value == "write") {
        let version =
            std::env::var("GOLDEN_VERSION").map_or(CURRENT, |no| no.parse().expect("one"));
        write(version);
    }
    let index = fs::read_to_string(golden(3).join("index.json")).expect("a file");
    assert!(index.contains("demo/doc-*:read,append"), "it has keys");
    opens(3);
}

fn opens(version: u32) {
    let directory = Directory::new();
    let answers = unpack(version, directory.path());
    let verified = run(&["verify", &directory.path().display().to_string()]).ok();
    assert!(verified.contains("damage\t0\n"), "{verified}");
    let server = Server::start(&directory, &SMALL);
    compare(&ask_all(&server), &answers);
    let mut wire = Wire::open(&server);
    assert_eq!(produce(&mut wire, PRODUCED - 1).status, 204, "it is a repetition");
    assert_eq!(produce(&mut wire, PRODUCED).status, 200, "it goes on");
    for path in ["/gold/text", "/gold/fork-of-fork", "/v1/stream/deep/base"] {
        let before = wire.read(path);
        assert_eq!(wire.ask("POST", path, b"more").0, 204, "{path}");
        assert_eq!(wire.read(path), [&before[..], b"more"].concat(), "{path}");
    }
    let after = ask_all(&server);
    drop(server);
    let server = Server::start(&directory, &SMALL);
    compare(&ask_all(&server), &after);
    server.stop().ok();
    run(&["verify", &directory.path().display().to_string()]).ok();
}

#[test]
fn a_directory_of_a_newer_version_is_refused_and_left_as_it_is() {
    let names = files(&golden(CURRENT));
    let newest = |dir: &str| names.keys().rfind(|name| name.starts_with(dir)).expect("one").clone();
    // The newest log file with frames: the one behind it was allocated ahead of need.
    let mut logs =
        names.iter().filter(|(name, bytes)| name.starts_with("log/") && bytes.len() > 100);
    let log = logs.next_back().expect("one").0.clone();
    for name in ["MANIFEST".to_owned(), newest("checkpoint/"), log] {
        let directory = Directory::new();
        unpack(CURRENT, directory.path());
        let path = directory.path().join(&name);
        let mut bytes = fs::read(&path).expect("a file");
        bytes[8] += 1;
        fs::write(&path, bytes).expect("a file");
        let before = files(directory.path());
        let serve = ["serve", "--listen", "127.0.0.1:0", "--data-dir"];
        let told = finish(headwater().args(serve).arg(directory.path())).fails_with(2);
        assert!(told.contains("version"), "{name}: {told}");
        assert!(files(directory.path()) == before, "{name}: something was changed");
    }
}

#[track_caller]
fn compare(is: &Answers, was: &Answers) {
    for (request, answer) in was {
        assert_eq!(is.get(request), Some(answer), "{request}");
    }
}

fn produce(wire: &mut Wire, seq: u32) -> Answer {
    let headers = [
        ("Content-Type", "application/json"),
        ("Producer-Id", PRODUCER),
        ("Producer-Epoch", "1"),
        ("Producer-Seq", &seq.to_string()),
    ];
    wire.send("POST", "/gold/json", &headers, format!("[{{\"seq\":{seq}}},{seq}]").as_bytes())
}

/// What the server says of everything.
fn ask_all(server: &Server) -> Answers {
    let mut wire = Wire::open(server);
    let mut answers = Answers::new();
    let mut ask = |method: &str, path: String| {
        let answer = wire.send(method, &path, &[], b"");
        let headers = HEADERS.iter().filter_map(|name| Some((*name, answer.header(name)?)));
        let headers: BTreeMap<_, _> = headers.collect();
        let body = String::from_utf8(answer.body.clone()).expect("all of it is text");
        let told = json!({ "status": answer.status, "headers": headers, "body": body });
        answers.insert(format!("{method} {path}"), told);
        answer.header("location").map(str::to_owned)
    };
    for path in STREAMS {
        let below = if path.starts_with("/v1/") { format!("{path}/~") } else { path.to_owned() };
        ask("HEAD", path.to_owned());
        ask("GET", format!("{path}?offset=-1"));
        ask("GET", format!("{below}/attrs"));
        if let Some(place) = ask("GET", format!("{below}/snapshot")) {
            ask("GET", place);
        }
    }
    ask("GET", format!("{}?offset={:020}", STREAMS[2], trimmed_to()));
    for path in ["/gold/streams?limit=100", "/gold", "/empty", "/deleted", "/-/keys"] {
        ask("GET", path.to_owned());
    }
    answers
}

fn trimmed_to() -> usize {
    (0..10).map(|n| message("trimmed", n).len()).sum()
}

fn message(what: &str, n: u32) -> String {
    format!("{what} {n} {};", "abcdefghij".repeat(20))
}

/// Writes the golden directory of a version, unless there is one.
fn write(version: u32) {
    let place = golden(version);
    if place.exists() {
        return;
    }
    let directory = Directory::new();
    let binary = || std::env::var_os("GOLDEN_BINARY").map_or_else(headwater, Command::new);
    let serve = [&["serve", "--listen", "127.0.0.1:0"], &SMALL[..]].concat();
    let server = Server::of(binary(), &directory, &serve);
    fill(&mut Wire::open(&server));
    server.stop().ok();
    // Files are regrouped once nothing of them is in memory, and if that is worth it.
    let server = Server::of(binary(), &directory, &serve);
    let mut wire = Wire::open(&server);
    assert_eq!(wire.ask("DELETE", "/gold/waste", b"").0, 204);
    settled(directory.path(), version);
    for seq in 0..PRODUCED {
        assert_eq!(produce(&mut wire, seq).status, 200, "{seq}");
    }
    let answers = ask_all(&server);
    // kill -9
    drop(server);
    let mut lengths = BTreeMap::new();
    for (name, bytes) in files(directory.path()) {
        let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        let path = place.join(&name);
        fs::create_dir_all(path.parent().expect("it lies in a directory")).expect("a directory");
        fs::write(path, &bytes[..end]).expect("a file");
        lengths.insert(name, bytes.len());
    }
    let index = json!({ "lengths": lengths, "answers": answers });
    fs::write(place.join("index.json"), format!("{index:#}\n")).expect("a file");
}

/// Every kind of thing that a directory may hold.
fn fill(wire: &mut Wire) {
    let text = [("Content-Type", "text/plain")];
    let forked = |from: &'static str| [text[0], ("Stream-Forked-From", from)];
    let mut made = |method: &str, path: &str, headers: &[(&str, &str)], body: &str| {
        let answer = wire.send(method, path, headers, body.as_bytes());
        assert!(answer.status < 300, "{method} {path}: {answer:?}");
    };
    for bucket in ["/gold", "/empty", "/deleted"] {
        made("PUT", bucket, &[], "");
    }
    made("DELETE", "/deleted", &[], "");
    made("POST", "/-/keys", &[], r#"{"scopes":["demo/doc-*:read,append"],"label":"golden"}"#);
    for name in ["text", "trimmed", "snapshot", "deleted-source", "waste"] {
        made("PUT", &format!("/gold/{name}"), &text, "");
    }
    made("PUT", "/gold/json", &[("Content-Type", "application/json")], "[{\"first\":true}]");
    let lasting = [text[0], ("Stream-Expires-At", "2120-01-02T03:04:05Z")];
    made("PUT", "/v1/stream/deep/base", &lasting, "base;");
    for n in 0..40 {
        for name in ["text", "trimmed", "snapshot", "deleted-source", "waste", "waste"] {
            made("POST", &format!("/gold/{name}"), &text, &message(name, n));
        }
    }
    for path in ["/gold/json/attrs", "/v1/stream/deep/base/~/attrs"] {
        made("PUT", path, &[("Content-Type", "application/json")], "{\"kind\":\"golden\"}");
    }
    let (here, state) =
        (format!("{:020}", trimmed_to()), [("Content-Type", "application/x-state")]);
    made("PUT", &format!("/ds/gold/trimmed/snapshot/{here}"), &state, "the state so far");
    let there = format!("{:020}", message("snapshot", 0).len());
    made("PUT", &format!("/gold/snapshot/snapshot/{there}"), &state, &"a snapshot;".repeat(50));
    made("PUT", "/gold/fork", &forked("/gold/text"), "");
    made("POST", "/gold/fork", &text, "of the fork;");
    made("PUT", "/gold/fork-of-fork", &forked("/gold/fork"), "");
    made("POST", "/gold/fork-of-fork", &text, "of its fork;");
    made("PUT", "/gold/orphan", &forked("/gold/deleted-source"), "");
    made("DELETE", "/gold/deleted-source", &[], "");
    made("POST", "/gold/snapshot", &[text[0], ("Stream-Closed", "true")], "the end");
}

/// Waits until a checkpoint is there and, since version 2, segments stand for old log files.
fn settled(directory: &Path, version: u32) {
    let checkpoints = directory.join("checkpoint");
    let oldest = directory.join("log/0000000001.log");
    eventually("the background work", || {
        let has_checkpoint = fs::read_dir(&checkpoints).is_ok_and(|mut all| all.next().is_some());
        has_checkpoint && (version == 1 || !oldest.exists())
    });
}

/// The files of a directory that hold data, by path.
fn files(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for dir in ["", "log", "segment", "checkpoint", "blob", "cut"] {
        let Ok(entries) = fs::read_dir(directory.join(dir)) else { continue };
        for path in entries.map(|entry| entry.expect("an entry").path()) {
            let name = path.strip_prefix(directory).expect("inside").display().to_string();
            if path.is_file() && !["LOCK", "index.json"].contains(&name.as_str()) {
                found.insert(name, fs::read(&path).expect("a file"));
            }
        }
    }
    found
}

/// Makes the golden directory of a version in `to`; what the server said of it.
fn unpack(version: u32, to: &Path) -> Answers {
    let place = golden(version);
    let index = fs::read_to_string(place.join("index.json")).expect("it is kept for ever");
    let index: Value = serde_json::from_str(&index).expect("it was written as JSON");
    for (name, mut bytes) in files(&place) {
        let len = index["lengths"][&name].as_u64().expect("the length of each file");
        bytes.resize(usize::try_from(len).expect("they are short"), 0);
        let path = to.join(&name);
        fs::create_dir_all(path.parent().expect("it lies in a directory")).expect("a directory");
        fs::write(path, bytes).expect("a file");
    }
    serde_json::from_value(index["answers"].clone()).expect("an object")
}
