//! Wrong usage: exit 2, before anything is asked of a server.

use crate::support::{finish, headwater, run};

#[test]
fn wrong_usage_exits_with_2_and_says_what_was_expected() {
    for (args, expected) in [
        (&["tial", "demo/hello"][..], "similar subcommand exists: 'tail'"),
        (&["read"], "<STREAM>"),
        (&["read", "hello"], "expected BUCKET/STREAM"),
        (&["read", "demo/a/b"], "a stream id has no '/'"),
        (&["read", "demo/x", "--offset", "1", "--record", "2"], "cannot be used with"),
        (&["read", "demo/x", "--url", "localhost:4437"], "expected a URL like"),
        (&["tail", "demo/x", "-n", "x"], "invalid digit"),
        (&["append", "demo/x", "--lines", "--batch"], "cannot be used with"),
        (&["append", "demo/x", "y", "--producer-id", "p"], "--producer-seq"),
        (&["append", "demo/x", "y", "--producer-epoch", "1"], "--producer-id"),
        (&["append", "demo/x", "--lines", "--seq", "1"], "cannot be used with"),
        (&["create", "demo/x", "--ttl", "1w"], "expected whole seconds"),
        (&["create", "demo/x", "--ttl", "1", "--expires-at", "x"], "cannot be used with"),
        (&["fork", "demo/x", "demo/y", "--sub-offset", "1"], "--offset"),
        (&["ls", "demo", "--base"], "cannot be used with"),
        (&["retain", "demo/x"], "OFFSET"),
        (&["retain", "demo/x", "1", "--record", "2"], "cannot be used with"),
        (&["snapshot", "put", "demo/x", "-"], "--offset"),
        (&["serve", "--max-append-size", "64MB"], "64MiB"),
        (&["serve", "--sse-max-duration", "30"], "30s"),
        (&["serve", "--listen", "4437"], "invalid socket address"),
        (&["serve", "--log-level", "a=b=c"], "--log-level"),
        (&["head", "demo/x", "--color", "sometimes"], "never"),
    ] {
        let told = run(args).fails_with(2);
        assert!(told.starts_with("error: "), "{args:?}: {told}");
        assert!(told.contains(expected), "{args:?}: {told}");
    }
}

#[test]
fn a_header_that_cannot_be_sent_is_wrong_usage() {
    let told = run(&["append", "demo/x", "y", "--content-type", "a\nb"]).fails_with(2);
    assert!(told.contains("does not fit into a header"), "{told}");
}

#[test]
fn no_server_is_exit_6_with_a_hint() {
    // Port 1 is reserved, and nobody listens there.
    let url = "http://127.0.0.1:1";
    for args in [
        &["head", "demo/x"][..],
        &["read", "demo/x"],
        &["tail", "demo/x"],
        &["append", "demo/x", "y"],
        &["ls"],
    ] {
        let told = finish(headwater().args(args).env("STREAM_URL", url)).fails_with(6);
        assert!(told.contains("no answer from http://127.0.0.1:1"), "{told}");
        assert!(told.contains("\ncaused by: "), "{told}");
        assert!(told.contains("\n\nhint: "), "{told}");
    }
}

#[test]
fn colour_is_for_terminals_and_for_those_who_ask() {
    let told = |flag| run(&["head", "demo/x", "--url", "http://127.0.0.1:1", flag]).fails_with(6);
    assert!(!told("--color=auto").contains('\x1b'));
    assert!(!told("--color=never").contains('\x1b'));
    assert!(told("--color=always").starts_with("\x1b[1;31merror:\x1b[0m "));
}
