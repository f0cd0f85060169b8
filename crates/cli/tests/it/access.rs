//! Keys and links, from the first key on.

use crate::support::{Directory, Run, Server, finish, headwater, run};

const ROOT: &str = "a-root-key-that-only-tests-have-0123456789";

fn server(directory: &Directory) -> Server {
    Server::start(directory, &["--bucket", "demo", "--auth", "--root-key", ROOT])
}

/// A client verb with a key.
fn with(server: &Server, key: &str, args: &[&str]) -> Run {
    finish(server.client(args).env("STREAM_AUTH", format!("Bearer {key}")))
}

/// The last column of `key create`.
fn token(created: &str) -> String {
    let token = created.lines().find_map(|line| line.strip_prefix("token\t"));
    token.expect("a token is printed").to_owned()
}

#[test]
fn the_first_key_is_made_in_the_data_directory() {
    let directory = Directory::new();
    let dir = directory.path().to_str().unwrap();
    let made = run(&["key", "create", "--data-dir", dir, "--scope", "*:admin"]).ok();
    let server = Server::start(&directory, &["--auth"]);
    // A server holds its directory.
    let refused = run(&["key", "create", "--data-dir", dir, "--scope", "*:admin"]);
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    with(&server, &token(&made), &["bucket", "create", "demo"]).ok();
    let nobody = server.run(&["bucket", "show", "demo"]);
    assert_eq!(nobody.code, Some(5), "{}", nobody.stderr);
}

#[test]
fn keys_are_created_listed_used_and_revoked() {
    let directory = Directory::new();
    let server = server(&directory);
    with(&server, ROOT, &["create", "demo/hello", "--data", "hi"]).ok();
    let args = ["key", "create", "--scope", "demo:read", "--label", "app", "--expires", "1h"];
    let created = with(&server, ROOT, &args).ok();
    let key = token(&created);
    assert_eq!(with(&server, &key, &["read", "demo/hello"]).ok(), "hi");
    assert_eq!(with(&server, &key, &["append", "demo/hello", "x"]).code, Some(5));
    let listed = with(&server, ROOT, &["key", "ls"]).ok();
    assert!(listed.contains("\tapp\tdemo:read\t") && !listed.contains(&key), "{listed}");
    let id = listed.split('\t').next().unwrap();
    with(&server, ROOT, &["key", "revoke", id]).ok();
    assert_eq!(with(&server, ROOT, &["key", "revoke", id]).code, Some(3));
    assert_eq!(with(&server, &key, &["read", "demo/hello"]).code, Some(5));
}

#[test]
fn a_link_needs_no_key() {
    let directory = Directory::new();
    let server = server(&directory);
    with(&server, ROOT, &["create", "/v1/stream/a/b", "--data", "hi"]).ok();
    let key = token(&with(&server, ROOT, &["key", "create", "--scope", "/*:read"]).ok());
    let link = with(&server, &key, &["link", "/v1/stream/a/b", "--expires", "5m"]).ok();
    let (url, query) = link.trim_end().split_once('?').unwrap();
    assert_eq!(url, format!("{}/v1/stream/a/b", server.url));
    assert!(query.starts_with("token=hwl_") && !query.contains(&key[20..]), "{query}");
    // A root key is no API key, and signs nothing.
    assert_eq!(with(&server, ROOT, &["link", "/v1/stream/a/b"]).code, Some(2));
    assert_eq!(server.run(&["link", "/v1/stream/a/b"]).code, Some(2));
}

#[test]
fn what_everybody_can_reach_is_not_left_open_by_accident() {
    let directory = Directory::new();
    let dir = directory.path().to_str().unwrap();
    let refused = run(&["serve", "--listen", "0.0.0.0:0", "--data-dir", dir]);
    assert_eq!(refused.code, Some(2));
    assert!(refused.stderr.contains("--auth") && refused.stderr.contains("--insecure"));
    assert!(!directory.path().join("MANIFEST").exists(), "nothing was begun");
}

#[test]
fn a_root_key_is_long_and_can_come_from_a_file() {
    let directory = Directory::new();
    let dir = directory.path().to_str().unwrap();
    let short = run(&["serve", "--data-dir", dir, "--auth", "--root-key", "secret"]);
    assert_eq!(short.code, Some(2), "{}", short.stderr);
    let file = std::env::temp_dir().join(format!("headwater-root-{}", std::process::id()));
    std::fs::write(&file, format!("{ROOT}\n")).unwrap();
    let server = Server::start(&directory, &["--auth", "--root-key-file", file.to_str().unwrap()]);
    with(&server, ROOT, &["bucket", "create", "demo"]).ok();
    std::fs::remove_file(&file).unwrap();
    // The help shows that there is one, never which.
    let help = finish(headwater().args(["serve", "--help"]).env("HEADWATER_ROOT_KEY", ROOT)).ok();
    assert!(help.contains("HEADWATER_ROOT_KEY") && !help.contains(ROOT));
}
