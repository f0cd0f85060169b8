//! Damage is found, named and kept away from clients; everything else is served.

use std::path::{Path, PathBuf};

use headwater_server::Server;

use crate::support::{Headwater, get};

/// The only file of a folder of the data directory.
fn only_file(data_dir: &Path, folder: &str) -> PathBuf {
    let mut files = std::fs::read_dir(data_dir.join(folder)).unwrap();
    let file = files.next().unwrap().unwrap().path();
    assert!(files.next().is_none(), "one file in {folder}");
    file
}

fn flip(path: &Path, at: usize) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[at] ^= 0x10;
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn a_damaged_snapshot_body_is_a_500_and_the_stream_is_served() {
    let server = Headwater::start();
    let tail = server.text_stream("/demo/a", &["one", "two"]).pop().unwrap();
    let body = "x".repeat(200_000);
    server.publish(&format!("/demo/a/snapshot/{tail}"), &body);
    flip(&only_file(&server.config().data_dir, "blob"), 1_000);

    for path in [format!("/demo/a/snapshot/{tail}"), "/demo/a/bootstrap".to_owned()] {
        server.send(get(path)).problem(500, "DATA_DAMAGED");
    }
    assert_eq!(server.send(get("/demo/a")).expect(200).text(), "onetwo");
    // A new snapshot heals it.
    let tail = server.append("/demo/a", "text/plain", "three");
    server.publish(&format!("/demo/a/snapshot/{tail}"), "new");
    server.send(get("/demo/a/bootstrap")).expect(200);
}

#[test]
fn a_log_that_is_damaged_in_the_middle_is_refused_with_exit_code_7_and_left_as_it_is() {
    let mut server = Headwater::start();
    server.text_stream("/demo/a", &["one", "two", "three"]);
    server.restart();
    // A copy of what a stopped server left, and of the empty log of the next one.
    let mut config = server.config();
    let copy = config.data_dir.with_extension("copy");
    for folder in ["log", "checkpoint", "blob", "cut"] {
        std::fs::create_dir_all(copy.join(folder)).unwrap();
        for file in std::fs::read_dir(config.data_dir.join(folder)).unwrap() {
            let file = file.unwrap();
            std::fs::copy(file.path(), copy.join(folder).join(file.file_name())).unwrap();
        }
    }
    std::fs::copy(config.data_dir.join("MANIFEST"), copy.join("MANIFEST")).unwrap();
    let mut logs: Vec<_> =
        std::fs::read_dir(copy.join("log")).unwrap().map(|file| file.unwrap().path()).collect();
    logs.sort();
    flip(&logs[0], 200);
    let damaged = std::fs::read(&logs[0]).unwrap();

    config.data_dir = copy;
    let error = Server::start(config.clone()).map(|_started| ()).expect_err("damage is refused");
    assert_eq!(error.exit_code(), 7, "{error}");
    assert_eq!(std::fs::read(&logs[0]).unwrap(), damaged);
    std::fs::remove_dir_all(config.data_dir).unwrap();
}
