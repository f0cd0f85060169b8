//! `serve` and `dev`.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use crate::support::{Directory, Server, finish, headwater, run, signal};

#[test]
fn stdout_has_the_ready_line_alone_and_sigterm_is_a_clean_end() {
    let directory = Directory::new();
    let server = Server::start(&directory, &[]);
    server.run(&["bucket", "create", "demo"]).ok();
    let stopped = server.stop();
    assert_eq!((stopped.code, stopped.stdout.as_str()), (Some(0), ""), "{}", stopped.stderr);
}

#[test]
fn what_was_written_is_there_after_a_restart() {
    let directory = Directory::new();
    let server = Server::start(&directory, &["--bucket", "demo"]);
    server.run(&["create", "demo/hello", "--data", "kept"]).ok();
    server.stop().ok();

    let server = Server::start(&directory, &["--bucket", "demo"]);
    assert_eq!(server.run(&["read", "demo/hello"]).ok(), "kept");
}

#[test]
fn dev_has_a_bucket_and_says_what_to_try() {
    let directory = Directory::new();
    let server = Server::spawn(&directory, &["dev", "--listen", "127.0.0.1:0"]);
    assert!(server.run(&["bucket", "ls"]).ok().starts_with("demo\t0\t"));

    let url = server.url.clone();
    let welcome = server.stop().stderr;
    for expected in [
        "on disk (fdatasync) before the answer".to_owned(),
        directory.path().display().to_string(),
        format!("curl -X PUT  {url}/demo/hello"),
        format!("curl -X POST {url}/demo/hello"),
        format!("curl -N     '{url}/demo/hello?offset=-1&live=sse'"),
        format!("next: headwater tail demo/hello --url {url}"),
    ] {
        assert!(welcome.contains(&expected), "{expected}:\n{welcome}");
    }
}

#[test]
fn dev_with_tls_shows_a_certificate_that_its_own_client_can_trust() {
    let directory = Directory::new();
    let server = Server::spawn(&directory, &["dev", "--tls", "--listen", "127.0.0.1:0"]);
    assert!(server.url.starts_with("https://"), "{}", server.url);
    let file = format!("{}-tls/cert.pem", directory.path().display());
    assert!(server.run(&["bucket", "ls", "--ca", &file]).ok().starts_with("demo\t0\t"));
    // Nobody else vouches for it.
    server.run(&["bucket", "ls"]).fails_with(6);
    let welcome = server.stop().stderr;
    assert!(welcome.contains(&format!("  certificate {file}\n  sha-256     ")), "{welcome}");
    std::fs::remove_dir_all(format!("{}-tls", directory.path().display())).expect("it is there");
}

#[test]
fn a_certificate_that_cannot_be_read_is_named() {
    let directory = Directory::new();
    let data_dir = directory.path().to_str().expect("UTF-8");
    let files = ["--tls-cert", "/nowhere/cert.pem", "--tls-key", "/nowhere/key.pem"];
    let told = run(&[&["serve", "--data-dir", data_dir], &files[..]].concat()).fails_with(2);
    assert!(told.contains("/nowhere/cert.pem: cannot be read"), "{told}");
}

#[test]
fn an_address_in_use_is_told_with_a_way_out() {
    let (first, second) = (Directory::new(), Directory::new());
    let server = Server::start(&first, &[]);
    let address = server.url.strip_prefix("http://").expect("a URL");
    let data_dir = second.path().to_str().expect("UTF-8");
    let told = run(&["serve", "--listen", address, "--data-dir", data_dir]).fails_with(1);
    assert!(told.contains(&format!("another process listens on {address}")), "{told}");
}

#[test]
fn a_data_directory_has_one_server_at_a_time() {
    let directory = Directory::new();
    let _server = Server::start(&directory, &[]);
    let data_dir = directory.path().to_str().expect("UTF-8");
    let told = run(&["serve", "--listen", "127.0.0.1:0", "--data-dir", data_dir]).fails_with(2);
    assert!(told.contains("error: "), "{told}");
}

#[test]
fn settings_reach_the_server_and_a_refusal_reaches_a_client_that_would_send_much() {
    let directory = Directory::new();
    let flags = ["--bucket", "demo", "--max-append-size", "4", "--max-snapshot-size", "5"];
    let server = Server::start(&directory, &flags);
    server.run(&["create", "demo/x"]).ok();
    server.run(&["append", "demo/x", "1234"]).ok();
    let told = server.run(&["append", "demo/x", "12345"]).fails_with(1);
    assert!(told.contains("(413 "), "{told}");
    assert!(told.contains("--max-append-size"), "{told}");

    let large = vec![b'x'; 16 << 20];
    let told = server.run_with(&["append", "demo/x"], &large).fails_with(1);
    assert!(told.contains("has more than 4 bytes. (413 "), "{told}");
    let file = directory.path().join("large");
    std::fs::write(&file, &large).expect("room");
    let file = file.to_str().expect("UTF-8");
    let told = server.run(&["snapshot", "put", "demo/x", file, "--offset", "4"]).fails_with(1);
    assert!(told.contains("has more than 5 bytes. (413 "), "{told}");
}

#[test]
fn a_ready_line_that_cannot_be_written_does_not_stop_the_server() {
    let directory = Directory::new();
    let full = std::fs::File::options().write(true).open("/dev/full").expect("a full device");
    let mut child = headwater()
        .args(["serve", "--listen", "127.0.0.1:0", "--bucket", "demo", "--data-dir"])
        .arg(directory.path())
        .stdout(full)
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    // The log names the address too.
    let stderr = BufReader::new(child.stderr.take().expect("a pipe"));
    let mut told = stderr.lines().map(|line| line.expect("UTF-8"));
    let line = told.find(|line| line.contains("address=")).expect("it listens");
    let (_, address) = line.split_once("address=").expect("found");
    let complaint = told.next().expect("a complaint");
    assert!(complaint.contains("cannot write to stdout"), "{complaint}");

    let listed = finish(headwater().args(["ls", "--url", &format!("http://{address}")]));
    assert!(listed.ok().starts_with("demo\t"));
    signal(&child, "TERM");
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
}
