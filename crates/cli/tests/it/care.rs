//! Taking care of a data directory from outside: verify, inspect, export, backup and restore.
//!
//! `CARE_KILLS=200 cargo test -p headwater --test it care` kills more backups and restores.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crate::support::{Directory, Run, Server, eventually, finish, headwater, numbered, run};
use crate::wire::Wire;

/// Small files, so that there are log files of every age, and checkpoints.
const SMALL: [&str; 4] = ["--log-file-size", "64KiB", "--replay-max", "128KiB"];

fn path(n: usize) -> String {
    format!("/v1/stream/s{n}")
}

/// The whole binary on two paths.
fn two(verb: &[&str], from: &Path, to: &Path) -> Run {
    finish(headwater().args(verb).arg(from).arg(to))
}

fn verify(dir: &Path) -> Run {
    run(&["verify", &dir.display().to_string()])
}

/// A stopped directory with some streams in several log files, checkpoints and a snapshot; what
/// `care/…` streams hold.
fn example(directory: &Directory) -> Vec<(String, Vec<u8>)> {
    let server = Server::start(directory, &SMALL);
    server.run(&["bucket", "create", "care"]).ok();
    let mut model = Vec::new();
    for name in ["care/a", "care/b", "care/c"] {
        let text = numbered(300, |n| format!("{name} {n} {}", "x".repeat(300)));
        server.run(&["create", name, "--content-type", "text/plain"]).ok();
        server.run_with(&["append", name, "--lines"], text.as_bytes()).ok();
        model.push((name.to_owned(), text.into_bytes()));
    }
    let put = ["snapshot", "put", "care/a", "-", "--offset", &format!("{:020}", model[0].1.len())];
    server.run_with(&put, b"a snapshot").ok();
    server.stop().ok();
    model
}

/// The files of a directory, by its folder.
fn files(directory: &Path, folder: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory.join(folder)).expect("a folder");
    let mut files: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    files
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).expect("a file");
    bytes[at] ^= 1;
    fs::write(path, bytes).expect("a file");
}

#[test]
fn a_flipped_bit_in_each_kind_of_file_is_exit_7_and_names_file_and_stream() {
    let directory = Directory::new();
    example(&directory);
    let told = verify(directory.path()).ok();
    assert!(told.contains("damage\t0\n") && told.contains("mb_per_s\t"), "{told}");
    let logs = files(directory.path(), "log");
    assert!(logs.len() > 3, "{logs:?}");
    for (file, at, part, stream) in [
        (directory.path().join("MANIFEST"), 20, "manifest", ""),
        (files(directory.path(), "checkpoint").remove(0), 100, "checkpoint", ""),
        (logs[1].clone(), 3_000, "frame", "care/"),
        (logs[1].clone(), 40, "header", ""),
        (files(directory.path(), "blob").remove(0), 35, "blob", "care/a"),
    ] {
        flip(&file, at);
        let told = verify(directory.path());
        assert_eq!(told.code, Some(7), "{file:?}: {}", told.stdout);
        let name = file.strip_prefix(directory.path()).expect("inside").display().to_string();
        let found = told.stdout.lines().any(|line| {
            line.starts_with("damage\t")
                && line.contains(&name)
                && line.contains(&format!("{part}: "))
                && line.contains(stream)
        });
        assert!(found, "{name} {part}: {}", told.stdout);
        flip(&file, at);
    }
    verify(directory.path()).ok();
}

#[test]
fn a_directory_in_use_is_not_verified_and_says_what_to_do() {
    let directory = Directory::new();
    let server = Server::start(&directory, &[]);
    let told = verify(directory.path()).fails_with(2);
    assert!(told.contains("another process holds") && told.contains("headwater backup"), "{told}");
    server.stop().ok();
    verify(directory.path()).ok();
    assert_eq!(verify(&directory.path().join("missing")).code, Some(1));
}

#[test]
fn findings_and_facts_are_json_objects_on_request() {
    let directory = Directory::new();
    example(&directory);
    let dir = directory.path().display().to_string();
    let log = files(directory.path(), "log")[1].display().to_string();
    let checkpoint = files(directory.path(), "checkpoint")[0].display().to_string();
    for (args, expected) in [
        (vec!["verify", &dir], "\"damage\":0"),
        (vec!["inspect", "streams", &dir], "\"stream\":\"care/b\""),
        (vec!["inspect", "manifest", &format!("{dir}/MANIFEST")], "\"what\":\"log_file\""),
        (vec!["inspect", "log", &log], "\"kind\":\"appended\""),
        (vec!["inspect", "checkpoint", &checkpoint], "\"what\":\"image\""),
        (vec!["inspect", "dir", &dir], "\"what\":\"blob\""),
    ] {
        let told = run(&[&args[..], &["--json"]].concat()).ok();
        assert!(told.contains(expected), "{args:?}: {told}");
        for line in told.lines() {
            serde_json::from_str::<serde_json::Value>(line).expect("an object a line");
        }
    }
    let told = run(&["inspect", "log", &checkpoint]).fails_with(2);
    assert!(told.contains("expected a file in the folder log/"), "{told}");
}

#[test]
fn an_export_saves_what_a_damaged_directory_still_has() {
    let directory = Directory::new();
    let model = example(&directory);
    // A byte of a message of care/b, in the middle of a log file.
    let needle = b"care/b 150 ";
    let found = files(directory.path(), "log").into_iter().find_map(|file| {
        let bytes = fs::read(&file).expect("a file");
        let at = bytes.windows(needle.len()).position(|window| window == needle)?;
        Some((file, at))
    });
    let (file, at) = found.expect("it is in the log");
    flip(&file, at + 20);
    let out = directory.path().with_extension("out");
    let before: Vec<_> =
        files(directory.path(), "log").iter().map(fs::read).map(Result::ok).collect();
    let told = two(&["inspect", "export"], directory.path(), &out);
    assert_eq!(told.code, Some(7), "{}", told.stderr);
    let after: Vec<_> =
        files(directory.path(), "log").iter().map(fs::read).map(Result::ok).collect();
    assert!(before == after, "nothing is written into the directory");
    check_export(&out, &model, Some("care/b"));
}

/// A stopped directory whose older log files have been regrouped: segments, a fork that reads its
/// source's bytes from them, and a log. What its streams hold.
fn regrouped(directory: &Directory) -> Vec<(String, Vec<u8>)> {
    let flags = ["--log-file-size", "16KiB", "--replay-max", "32KiB"];
    let server = Server::start(directory, &flags);
    let mut wire = Wire::open(&server);
    let mut made = |method, path: &str, body: &[u8]| {
        let (status, _) = wire.ask(method, path, body);
        assert!(status < 300, "{method} {path}: {status}");
    };
    made("PUT", "/care", b"");
    let mut model: Vec<(String, Vec<u8>)> =
        ["care/a", "care/b", "care/waste"].map(|name| (name.to_owned(), Vec::new())).into();
    for (name, _) in &model {
        made("PUT", &format!("/{name}"), b"");
    }
    for n in 0..60 {
        for (name, text) in &mut model {
            let message = format!("{name} {n} {}\n", "x".repeat(400));
            made("POST", &format!("/{name}"), message.as_bytes());
            text.extend_from_slice(message.as_bytes());
        }
    }
    // What is deleted leaves the files half empty, so that they are worth regrouping; but not
    // while what is in them is still in memory.
    server.stop().ok();
    let server = Server::start(directory, &flags);
    assert_eq!(Wire::open(&server).ask("DELETE", "/care/waste", b"").0, 204);
    model.pop();
    let oldest = directory.path().join("log/0000000001.log");
    eventually("segments in place of log files", || !oldest.exists());
    server.run(&["fork", "care/a", "care/fork"]).ok();
    model.push(("care/fork".to_owned(), model[0].1.clone()));
    server.stop().ok();
    model
}

/// Where `needle` lies in the segments of a directory.
fn find_in_segments(directory: &Path, needle: &[u8]) -> (PathBuf, usize) {
    let found = files(directory, "segment").into_iter().find_map(|file| {
        let bytes = fs::read(&file).expect("a file");
        let at = bytes.windows(needle.len()).position(|window| window == needle)?;
        Some((file, at))
    });
    found.expect("it is in a segment")
}

#[test]
fn a_directory_with_segments_is_verified_shown_and_saved() {
    let directory = Directory::new();
    let model = regrouped(&directory);
    let told = verify(directory.path()).ok();
    assert!(told.contains("damage\t0\n"), "{told}");
    let (segment, _) = find_in_segments(directory.path(), b"care/b 3 ");
    let shown = run(&["inspect", "segment", &segment.display().to_string(), "--json"]).ok();
    let runs = shown.lines().map(|line| serde_json::from_str(line).expect("an object a line"));
    let is_run = |line: &serde_json::Value| line["what"] == "run" && line["len"].as_u64() > Some(0);
    assert!(runs.filter(is_run).count() >= 2, "{shown}");
    let out = directory.path().with_extension("saved");
    two(&["inspect", "export"], directory.path(), &out).ok();
    assert_eq!(check_export(&out, &model, None), 0);
}

#[test]
fn damage_in_each_part_of_a_segment_is_named_and_the_rest_is_saved() {
    let directory = Directory::new();
    let model = regrouped(&directory);
    let (segment, at) = find_in_segments(directory.path(), b"care/b 3 ");
    let name = segment.strip_prefix(directory.path()).expect("inside").display().to_string();
    let len = fs::metadata(&segment).expect("a file").len();
    let end = usize::try_from(len).expect("it is short");
    for (at, part, stream) in [
        (at + 30, "block", "care/b"),
        (20, "header", ""),
        (end - 20, "", ""),
        (end - 70, "table", ""),
    ] {
        flip(&segment, at);
        let told = verify(directory.path());
        assert_eq!(told.code, Some(7), "{part}: {}", told.stdout);
        let is_told = |line: &str| {
            line.starts_with("damage\t")
                && [&name, part, stream].iter().all(|word| line.contains(word))
        };
        assert!(told.stdout.lines().any(is_told), "{part}: {}", told.stdout);
        flip(&segment, at);
    }
    flip(&segment, at + 30);
    let out = directory.path().with_extension("saved");
    let told = two(&["inspect", "export"], directory.path(), &out);
    assert_eq!(told.code, Some(7), "{}", told.stderr);
    check_export(&out, &model, Some("care/b"));
}

/// An export holds what its index says, and that is everything but a part of `damaged`; how many
/// bytes are lost.
fn check_export(out: &Path, model: &[(String, Vec<u8>)], damaged: Option<&str>) -> usize {
    let mut lost = 0;
    let index = fs::read_to_string(out.join("index.json")).expect("an index");
    let index: serde_json::Value = serde_json::from_str(&index).expect("JSON");
    let entries = index.as_array().expect("a list");
    assert_eq!(entries.len(), model.len(), "{index}");
    for (name, text) in model {
        let entry = entries.iter().find(|entry| entry["stream"] == **name).expect("each stream");
        let saved = fs::read(out.join(entry["file"].as_str().expect("a path"))).expect("a file");
        let ranges: Vec<[usize; 2]> =
            serde_json::from_value(entry["ranges"].clone()).expect("ranges");
        let expected: Vec<u8> =
            ranges.iter().flat_map(|range| text[range[0]..range[1]].to_vec()).collect();
        assert!(saved == expected, "{name}");
        let is_damaged = damaged == Some(name);
        assert_eq!(
            entry["gaps"].as_array().map(Vec::len),
            Some(usize::from(is_damaged)),
            "{entry}"
        );
        assert_eq!(saved.len() < text.len(), is_damaged, "{name}");
        lost += text.len() - saved.len();
    }
    fs::remove_dir_all(out).expect("it is ours");
    lost
}

#[test]
fn a_backup_under_writes_has_all_that_was_acknowledged_and_restores_byte_by_byte() {
    const STREAMS: usize = 10_000;
    const WRITERS: usize = 8;
    let directory = Directory::new();
    let (place, target) = (Directory::new(), Directory::new());
    let server =
        Server::start(&directory, &["--log-file-size", "256KiB", "--replay-max", "512KiB"]);
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let server = &server;
            scope.spawn(move || {
                let mut wire = Wire::open(server);
                for n in (writer..STREAMS).step_by(WRITERS) {
                    let body = format!("{n} begins;");
                    assert_eq!(wire.ask("PUT", &path(n), body.as_bytes()).0, 201);
                }
            });
        }
    });
    // Stream n gets "n:0;", "n:1;" …, one behind the other, and `acked` counts the answers.
    let acked: Vec<_> = (0..WRITERS).map(|_| AtomicUsize::new(0)).collect();
    let stop = AtomicBool::new(false);
    let begun = thread::scope(|scope| {
        for (writer, acked) in acked.iter().enumerate() {
            let (server, stop) = (&server, &stop);
            scope.spawn(move || {
                let mut wire = Wire::open(server);
                for k in 0.. {
                    if stop.load(Ordering::SeqCst) {
                        return;
                    }
                    let body = format!("{writer}:{k} {};", "y".repeat(500));
                    assert!(wire.ask("POST", &path(writer), body.as_bytes()).0 < 300);
                    acked.store(k + 1, Ordering::SeqCst);
                }
            });
        }
        let mut begun = Vec::new();
        for _ in 0..2 {
            begun = acked.iter().map(|acked| acked.load(Ordering::SeqCst)).collect();
            let from = directory.path().display().to_string();
            let told = two(&["backup", "--data-dir"], Path::new(&from), place.path()).ok();
            assert!(told.contains("finished\ttrue"), "{told}");
        }
        stop.store(true, Ordering::SeqCst);
        begun
    });
    two(&["restore"], place.path(), target.path()).ok();
    verify(target.path()).ok();
    let restored = Server::start(&target, &[]);
    let (mut wire, mut original) = (Wire::open(&restored), Wire::open(&server));
    for n in 0..STREAMS {
        let (copy, all) = (wire.read(&path(n)), original.read(&path(n)));
        assert!(all.starts_with(&copy), "stream {n} is a prefix");
        let least = begun.get(n).copied().unwrap_or(0);
        let count = copy.split(|byte| *byte == b';').count() - 1;
        assert!(count > least, "stream {n} has {count} of {least} and its first");
        assert!(n < WRITERS || copy == all, "stream {n} did not change");
    }
    assert!(begun.iter().all(|count| *count > 0), "there were writes: {begun:?}");
}

#[test]
fn a_backup_or_restore_that_is_killed_leaves_nothing_that_looks_whole() {
    let rounds = std::env::var("CARE_KILLS").map_or(4, |rounds| rounds.parse().expect("a number"));
    let directory = Directory::new();
    let model = example(&directory);
    let place = Directory::new();
    let from = directory.path().display().to_string();
    let backup = ["backup", "--data-dir"];
    for round in 0..rounds {
        let target = Directory::new();
        killed(&backup, Path::new(&from), place.path(), round);
        let finished = place.path().join("BACKUP").exists();
        let restored = two(&["restore"], place.path(), target.path());
        assert_eq!(restored.code == Some(0), finished, "{}", restored.stderr);
        two(&backup, Path::new(&from), place.path()).ok();
        let second = Directory::new();
        killed(&["restore"], place.path(), second.path(), round);
        if second.path().join("RESTORING").exists() {
            let serve = ["serve", "--listen", "127.0.0.1:0", "--data-dir"];
            let told = finish(headwater().args(serve).arg(second.path())).fails_with(2);
            assert!(told.contains("has not finished"), "{told}");
            two(&["restore"], place.path(), second.path()).ok();
        } else if !second.path().join("MANIFEST").exists() {
            two(&["restore"], place.path(), second.path()).ok();
        }
        let server = Server::start(&second, &[]);
        for (name, text) in &model {
            assert!(server.run(&["read", name]).ok().as_bytes() == text, "{name}");
        }
        if round % 2 == 0 {
            fs::remove_dir_all(place.path()).expect("it is ours");
        }
    }
}

/// Runs the binary and kills it after a time that depends on `round`, from before it does anything
/// to after it is done.
fn killed(verb: &[&str], from: &Path, to: &Path, round: u64) {
    let mut child = headwater()
        .args(verb)
        .arg(from)
        .arg(to)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary starts");
    thread::sleep(Duration::from_millis(round * 37 % 150));
    child.kill().expect("it is ours");
    child.wait().expect("it ends");
}
