//! Paths: a table of what each segment may name on each surface, and proof that nothing is ever
//! written where a name points.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::support::{Headwater, Wire, request};

/// A segment, the status of creating a stream of that name in a bucket, and on the base surface.
/// 201 means that the name is legal, and comes back in `Location` as the same name; 200 that it is
/// another spelling of the one before.
const SEGMENTS: &[(&str, u16, u16)] = &[
    ("plain", 201, 201),
    ("a..b", 400, 201),
    ("..", 400, 400),
    (".", 201, 400),
    ("...", 400, 201),
    ("....", 400, 201),
    (".%2e", 400, 400),
    ("%2e.", 400, 400),
    ("%2e", 200, 400),
    ("%2e%2e", 400, 400),
    ("%2E%2E", 400, 400),
    ("%2e%2E", 400, 400),
    ("%252e%252e", 201, 201),
    ("%25252e", 201, 201),
    ("%c0%ae%c0%ae", 400, 400),
    ("%c0%af", 400, 400),
    ("%e0%80%af", 400, 400),
    ("%f0%80%80%af", 400, 400),
    ("%f8%80%80%80%af", 400, 400),
    ("%ed%a0%80", 400, 400),
    ("%f4%90%80%80", 400, 400),
    ("%ff", 400, 400),
    ("%80", 400, 400),
    ("..%2f", 400, 400),
    ("..%2F..%2Fetc%2Fpasswd", 400, 400),
    ("%2f", 400, 400),
    ("%2fetc%2fpasswd", 400, 400),
    ("a%2fb", 400, 400),
    ("%252f", 201, 201),
    ("%5c", 201, 201),
    ("%5c..%5c..%5cetc", 400, 201),
    ("..%5c..%5cetc", 400, 201),
    ("C:%5cboot.ini", 201, 201),
    ("%255c", 201, 201),
    ("%00", 400, 400),
    ("a%00", 400, 400),
    ("a%00.txt", 400, 400),
    ("..%00", 400, 400),
    ("%2500", 201, 201),
    ("%", 400, 400),
    ("%2", 400, 400),
    ("%zz", 400, 400),
    ("%2g", 400, 400),
    ("%u002e%u002e", 400, 400),
    ("%%32%65", 400, 400),
    ("a%", 400, 400),
    ("", 400, 400),
    ("..;", 400, 201),
    ("..;a=b", 400, 201),
    (";", 201, 201),
    ("con", 201, 201),
    ("nul.txt", 201, 201),
    ("-1", 201, 201),
    ("now", 201, 201),
    ("snapshot", 201, 201),
    ("streams", 400, 201),
    ("%73treams", 400, 200),
    ("bootstrap", 201, 201),
    ("__ds", 201, 404),
    ("%5f_ds", 200, 404),
    ("~", 201, 400),
    ("%7e", 200, 400),
    ("~root", 201, 201),
    ("%20", 201, 201),
    ("a+b", 201, 201),
    ("%3f", 201, 201),
    ("%23", 201, 201),
    ("%26%3d", 201, 201),
    ("%0d%0aX-Evil:%201", 201, 201),
    ("%0a", 201, 201),
    ("%09", 201, 201),
    ("%7f", 201, 201),
    ("%1b%5b2J", 201, 201),
    ("%3cscript%3e", 201, 201),
    ("%22%27%60", 201, 201),
    ("%f0%9f%98%80", 201, 201),
    ("%c3%a9", 201, 201),
    ("e%cc%81", 201, 201),
    ("%e2%80%ae", 201, 201),
    ("%ef%bb%bf", 201, 201),
    ("%EF%BC%8E%EF%BC%8E", 201, 201),
    ("PLAIN", 201, 201),
    ("blob", 201, 201),
    ("log", 201, 201),
];

/// The prefixes of the three surfaces, each with a bucket of its own.
const SURFACES: [(&str, bool); 3] =
    [("/demo/", true), ("/ds/other/", true), ("/v1/stream/", false)];

#[test]
fn a_segment_names_what_the_table_says_and_nothing_outside_the_data_directory() {
    let server = Headwater::start();
    server.ask("PUT", "/other", "", b"").expect(201);
    let parent = server.config.data_dir.parent().unwrap().to_owned();
    let before = outside(&parent);
    let mut wire = server.connect();
    let mut cases = 0;
    for (prefix, in_bucket) in SURFACES {
        for (segment, bucket_status, base_status) in SEGMENTS {
            let want = if in_bucket { *bucket_status } else { *base_status };
            let target = format!("{prefix}{segment}");
            create(&mut wire, &target, want);
            cases += 1;
        }
    }
    for (target, want) in LONG.iter().flat_map(|(len, in_bucket, on_base)| {
        let name = "a".repeat(*len);
        [(format!("/demo/{name}"), *in_bucket), (format!("/v1/stream/{name}"), *on_base)]
    }) {
        create(&mut wire, &target, want);
        cases += 1;
    }
    assert!(cases >= 150, "only {cases} cases");
    assert_eq!(outside(&parent), before, "nothing is written beside the data directory");
    for file in inside(&server.config.data_dir) {
        let name = file.file_name().unwrap().to_str().unwrap();
        let ours = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b".-_".contains(&b);
        assert!(
            OURS.contains(&name) || name.bytes().all(ours),
            "a client's name became a file: {}",
            file.display()
        );
    }
    assert!(!Path::new("/tmp/headwater-evil").exists());
}

/// Files of the data directory whose names are in capitals.
const OURS: [&str; 2] = ["LOCK", "MANIFEST"];

/// Lengths of plain names, and the statuses of creating them in the bucket `demo` and on the base
/// surface: 122 bytes together with the bucket's, and 1024.
const LONG: &[(usize, u16, u16)] =
    &[(117, 201, 201), (118, 400, 201), (1024, 400, 201), (1025, 400, 400), (4096, 400, 400)];

#[track_caller]
fn create(wire: &mut Wire, target: &str, want: u16) {
    let answer = wire.ask("PUT", target, "Content-Type: text/plain\r\n", b"payload");
    assert_eq!(answer.status, want, "{target}: {}", answer.text());
    if want != 201 {
        return;
    }
    let location = answer.need("location").to_owned();
    let path = location.strip_prefix("http://test").unwrap_or_else(|| panic!("{location}"));
    let canonical = path.bytes().all(|b| b.is_ascii_graphic() && !b"\\\"<>`{}|^".contains(&b));
    assert!(canonical, "{target}: {location}");
    for same in [path, target] {
        let answer = wire.ask("GET", same, "", b"").expect(200);
        assert_eq!(answer.text(), "payload", "{target} via {same}");
    }
}

#[test]
fn a_path_that_climbs_is_not_resolved_before_it_is_read() {
    let server = Headwater::start();
    server.create("/demo/x");
    for target in [
        "/demo/../demo/x",
        "/demo/./x",
        "/demo/y/../x",
        "/demo//x",
        "//demo/x",
        "/demo/x/",
        "/../demo/x",
        "/./demo/x",
        "/demo/x/..",
        "/demo/%2e%2e/demo/x",
        "/ds/../demo/x",
        "/v1/stream/../../demo/x",
        "/-/../demo/x",
        "/demo\\x",
        "/demo%2fx",
        "/demo%5cx",
        "/DEMO/x",
        "/d%65mo%00/x",
    ] {
        let answer = server.ask("GET", target, "", b"");
        assert!([400, 404].contains(&answer.status), "{target}: {answer:?}");
    }
    // A needless escape names the same stream.
    server.ask("GET", "/d%65mo/%78", "", b"").expect(200);
}

#[test]
fn a_snapshot_and_a_fork_reach_no_file_by_name_either() {
    let server = Headwater::start();
    server.create("/demo/x");
    for name in ["..%2f..%2fevil", "%2e%2e", "%00", "%2ftmp%2fheadwater-evil", "..", "1%2f..%2f2"] {
        let path = format!("/demo/x/snapshot/{name}");
        for method in ["PUT", "GET", "DELETE"] {
            server.ask(method, &path, "", b"").expect(400);
        }
        server.ask("PUT", &format!("/demo/x/retention/{name}"), "", b"").expect(400);
        let fork = format!("Stream-Forked-From: /demo/{name}\r\n");
        let status = server.ask("PUT", "/demo/fork", &fork, b"").status;
        assert!([400, 404].contains(&status), "{name}: {status}");
    }
}

#[test]
fn bytes_that_no_target_may_hold_are_refused() {
    let server = Headwater::start();
    for raw in [&b"/demo/\xff"[..], b"/demo/\xc3\xa9", b"/demo/\x01", b"/demo/\x7f", b"/demo/\\"] {
        let mut bytes = request("PUT", "@", "", b"");
        let at = bytes.iter().position(|b| *b == b'@').unwrap();
        bytes.splice(at..=at, raw.iter().copied());
        let mut wire = server.connect();
        wire.send(&bytes);
        // Raw UTF-8 is read as if it were escaped; nothing else passes.
        let status = wire.answer("PUT").status;
        let legal = raw == b"/demo/\xc3\xa9" || raw == b"/demo/\\";
        assert!(status == 400 || (legal && status == 201), "{raw:?}: {status}");
    }
}

fn outside(parent: &Path) -> BTreeSet<PathBuf> {
    std::fs::read_dir(parent).unwrap().map(|entry| entry.unwrap().path()).collect()
}

fn inside(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(inside(&path));
        }
        files.push(path);
    }
    files
}
