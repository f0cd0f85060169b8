//! `headwater torture`: it runs, tells what it did, and leaves nothing behind.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::Stdio;

use serde_json::Value;

use crate::support::{Directory, headwater, run, signal};

#[test]
fn a_short_run_keeps_every_promise_and_tells_what_it_did() {
    let directory = Directory::new();
    let (dir, file) = (directory.path().join("run"), directory.path().join("report.json"));
    let (dir_text, file_text) = (dir.display().to_string(), file.display().to_string());
    let flags = ["--rounds", "3", "--seed", "7", "--round-ms", "50..100", "--json"];
    let places = ["--dir", &dir_text, "--report", &file_text];
    let out = run(&[&["torture"], &flags[..], &places].concat()).ok();
    let told: Value = serde_json::from_str(&out).expect("one JSON object");
    assert_eq!((&told["seed"], &told["rounds"]), (&7.into(), &3.into()), "{told}");
    assert_eq!(told["violations"], 0, "{told}");
    let figure = |name: &str| told[name].as_u64().expect("a figure");
    assert!(figure("acked") > 0 && figure("kills") + figure("drains") == 3, "{told}");
    assert!(figure("ops") > figure("acked") / 8, "{told}");
    let written = std::fs::read_to_string(&file).expect("the report");
    assert_eq!(written, out, "the file holds what was printed");
    assert!(!dir.exists(), "a run without a violation leaves nothing");
}

#[test]
fn an_interrupted_run_is_checked_and_leaves_no_server_behind() {
    let directory = Directory::new();
    let dir = directory.path().join("run");
    let mut child = headwater()
        .args(["torture", "--rounds", "100000", "--round-ms", "20..50", "--json", "--dir"])
        .arg(&dir)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut told = BufReader::new(child.stderr.take().expect("a pipe")).lines();
    let begun = told.by_ref().any(|line| line.expect("UTF-8").starts_with("round 0:"));
    assert!(begun, "it ended early");
    signal(&child, "INT");
    let rest: Vec<String> = told.map(|line| line.expect("UTF-8")).collect();
    let mut stdout = String::new();
    child.stdout.take().expect("a pipe").read_to_string(&mut stdout).expect("UTF-8");
    assert_eq!(child.wait().expect("it ends").code(), Some(130), "{rest:?}");
    let report: Value = serde_json::from_str(&stdout).expect("one JSON object");
    assert_eq!(report["violations"], 0, "{report}");
    assert!(report["rounds"].as_u64().is_some_and(|rounds| (1..100_000).contains(&rounds)));
    assert!(!dir.exists(), "a server that still ran would have its data here");
}

#[test]
fn the_data_of_an_earlier_run_are_never_touched() {
    let directory = Directory::new();
    std::fs::create_dir(directory.path().join("data")).expect("a directory");
    let dir = directory.path().display().to_string();
    let stderr = run(&["torture", "--dir", &dir]).fails_with(2);
    assert!(stderr.contains("is there already"), "{stderr}");
    assert!(directory.path().join("data").exists());
}
