//! The client verbs against a real server.

use std::io::Read as _;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::{Directory, Run, Server, numbered};

const DEMO: &[&str] = &["--bucket", "demo"];

fn json(output: &str) -> Value {
    serde_json::from_str(output).expect(output)
}

fn lines(output: &str) -> Vec<Value> {
    output.lines().map(json).collect()
}

#[test]
fn buckets_are_created_listed_shown_and_removed() {
    let directory = Directory::new();
    let server = Server::start(&directory, &[]);
    let created = json(&server.run(&["bucket", "create", "demo", "--json"]).ok());
    assert_eq!((&created["bucket_id"], &created["streams"]), (&json!("demo"), &json!(0)));
    let told = server.run(&["bucket", "create", "demo"]).fails_with(4);
    assert!(told.contains("hint: `headwater bucket show demo` shows it"), "{told}");

    assert_eq!(json(&server.run(&["bucket", "show", "demo", "--json"]).ok()), created);
    assert_eq!(lines(&server.run(&["ls", "--json"]).ok()), [created]);
    assert_eq!(server.run(&["bucket", "ls", "--prefix", "x"]).ok(), "");

    server.run(&["create", "demo/x"]).ok();
    let told = server.run(&["bucket", "rm", "demo", "--yes"]).fails_with(4);
    assert!(told.contains("`headwater ls demo`"), "{told}");
    server.run(&["delete", "demo/x"]).ok();
    assert_eq!(server.run(&["bucket", "rm", "demo"]).ok(), "");
    server.run(&["bucket", "show", "demo"]).fails_with(3);
}

#[test]
fn a_text_stream_from_create_to_delete() {
    let directory = Directory::new();
    let server = Server::start(&directory, DEMO);
    let create = ["create", "demo/hello", "--content-type", "text/plain", "--data", "a"];
    assert!(server.run(&create).ok().starts_with("created\ttrue\n"));
    assert!(server.run(&create).ok().starts_with("created\tfalse\n"));
    server.run(&["append", "demo/hello", "b"]).ok();
    server.run_with(&["append", "demo/hello"], b"c\n").ok();
    server.run_with(&["append", "demo/hello", "-"], b"d\n").ok();
    assert_eq!(server.run(&["read", "demo/hello"]).ok(), "abc\nd\n");
    let from = "00000000000000000002";
    assert_eq!(server.run(&["read", "demo/hello", "--offset", from]).ok(), "c\nd\n");

    let closed = json(&server.run(&["close", "demo/hello", "--json"]).ok());
    assert_eq!(closed["closed"], true);
    let told = server.run(&["append", "demo/hello", "e"]).fails_with(4);
    assert!(told.contains("409 STREAM_CLOSED"), "{told}");
    assert!(told.contains("headwater fork demo/hello NEW"), "{told}");

    let head = json(&server.run(&["head", "demo/hello", "--json"]).ok());
    assert_eq!(
        head,
        json!({
            "stream": "demo/hello", "content_type": "text/plain", "closed": true,
            "next_offset": "00000000000000000006", "ttl_seconds": null, "expires_at": null,
            "record_first": null, "record_next": null, "retained_offset": null,
            "snapshot_offset": null, "snapshot_digest": null,
        })
    );
    assert_eq!(server.run(&["delete", "demo/hello", "--yes"]).ok(), "");
    server.run(&["head", "demo/hello"]).fails_with(3);
}

#[test]
fn every_missing_thing_is_exit_3_with_the_command_that_makes_it() {
    let directory = Directory::new();
    let server = Server::start(&directory, DEMO);
    for args in [
        &["read", "gone/x"][..],
        &["head", "gone/x"],
        &["append", "gone/x", "y"],
        &["create", "gone/x"],
        &["ls", "gone"],
        &["tail", "gone/x"],
    ] {
        let told = server.run(args).fails_with(3);
        assert!(told.contains("hint: `headwater bucket create gone`"), "{args:?}: {told}");
    }
    for args in [&["read", "demo/a b"][..], &["append", "demo/a b", "y"], &["close", "demo/a b"]] {
        let told = server.run(args).fails_with(3);
        assert!(told.contains("hint: `headwater create 'demo/a b'`"), "{args:?}: {told}");
    }
    server.run(&["snapshot", "get", "demo/x"]).fails_with(3);
}

#[test]
fn odd_stream_names_work_everywhere() {
    let directory = Directory::new();
    let server = Server::start(&directory, DEMO);
    let names = ["-1", "now", "100%", "a b", "%20", "?x=1&y", "#", "a+b", "🙂", "snapshot", "~"];
    for name in names {
        let stream = format!("demo/{name}");
        server.run(&["create", &stream, "--data", name]).ok();
        assert_eq!(server.run(&["read", &stream]).ok(), name);
        assert_eq!(server.run(&["attrs", "get", &stream]).ok(), "{}\n");
    }
    let listed = server.run(&["ls", "demo", "--json"]).ok();
    let mut listed: Vec<Value> = lines(&listed).iter().map(|s| s["stream_id"].clone()).collect();
    listed.sort_by_key(ToString::to_string);
    let mut names = names.map(Value::from);
    names.sort_by_key(ToString::to_string);
    assert_eq!(listed, names);
}

#[test]
fn lines_and_batches_append_each_line_in_order() {
    let directory = Directory::new();
    let server = Server::start(&directory, DEMO);
    for flag in ["--lines", "--batch"] {
        server.run(&["create", "demo/log", "--content-type", "text/plain"]).ok();
        let answer = server.run_with(&["append", "demo/log", flag], b"a\n\nb\nc").ok();
        assert!(answer.starts_with("appends\t4\nnext_offset\t00000000000000000006\n"), "{answer}");
        assert_eq!(server.run(&["read", "demo/log"]).ok(), "a\n\nb\nc");
        server.run(&["delete", "demo/log"]).ok();

        server.run(&["create", "demo/ev", "--content-type", "application/json"]).ok();
        let append = ["append", "demo/ev", flag, "--json", "--close"];
        let answers = lines(&server.run_with(&append, b"{\"a\":1}\n\n 2 \n").ok());
        let records: Vec<&Value> = answers.iter().map(|answer| &answer["record_next"]).collect();
        assert_eq!(records[..2], [&json!(1), &json!(2)], "{flag}");
        assert_eq!(answers.last().expect("the close")["closed"], true);
        assert_eq!(server.run(&["read", "demo/ev", "--json"]).ok(), "{\"a\":1}\n2\n");
        server.run(&["delete", "demo/ev"]).ok();
    }
}

#[test]
fn a_batch_larger_than_a_request_arrives_whole() {
    let directory = Directory::new();
    let server = Server::start(&directory, DEMO);
    server.run(&["create", "demo/ev", "--content-type", "application/json"]).ok();
    let input = numbered(10_000, |n| n.to_string());
    let append = ["append", "demo/ev", "--batch", "--producer-id", "p", "--producer-seq", "0"];
    for _ in 0..2 {
        // The second run repeats the first one's numbers, so nothing is stored twice.
        let answer = server.run_with(&append, input.as_bytes()).ok();
        assert!(answer.starts_with("appends\t10000\n"), "{answer}");
    }
    assert_eq!(server.run(&["read", "demo/ev", "--json"]).ok(), input);
}

#[test]
fn a_refused_line_stops_the_run_with_its_reason() {
    let directory = Directory::new();
    let server = Server::start(&directory, DEMO);
    // The lines of one request do not depend on each other.
    for (flag, kept) in [("--lines", "1\n"), ("--batch", "1\n3\n")] {
        server.run(&["create", "demo/ev", "--content-type", "application/json"]).ok();
        let run = server.run_with(&["append", "demo/ev", flag], b"1\n{\n3\n");
        let told = run.fails_with(1);
        let count = kept.lines().count();
        assert!(told.contains(&format!("{count} appends to demo/ev succeeded")), "{told}");
        assert!(told.contains("400 INVALID_JSON"), "{told}");
        assert_eq!(server.run(&["read", "demo/ev", "--json"]).ok(), kept);
        server.run(&["delete", "demo/ev"]).ok();
    }
}

#[test]
fn producers_sequences_and_record_matches_are_conflicts_with_hints() {
    let directory = Directory::new();
    let server = Server::start(&directory, DEMO);
    server.run(&["create", "demo/ev", "--content-type", "application/json"]).ok();
    let append = |flags: &str| -> Run {
        let flags: Vec<&str> = flags.split_whitespace().collect();
        server.run(&[&["append", "demo/ev", "1", "--json"], &flags[..]].concat())
    };
    let producer = "--producer-id p --producer-epoch 1 --producer-seq 0";
    assert_eq!(json(&append(producer).ok())["duplicate"], false);
    assert_eq!(json(&append(producer).ok())["duplicate"], true);
    let told = append("--producer-id p --producer-epoch 1 --producer-seq 5").fails_with(4);
    assert!(told.contains("PRODUCER_GAP"), "{told}");
    let told = append("--producer-id p --producer-epoch 0 --producer-seq 1").fails_with(4);
    assert!(told.contains("PRODUCER_FENCED") && told.contains("--producer-epoch"), "{told}");

    append("--seq b").ok();
    let told = append("--seq a").fails_with(4);
    assert!(told.contains("STREAM_SEQ_CONFLICT"), "{told}");
    append("--record-match 2").ok();
    let told = append("--record-match 2").fails_with(4);
    assert!(told.contains("412 RECORD_MISMATCH"), "{told}");
}

#[test]
fn a_read_pages_to_the_end_and_a_json_stream_stays_one_array() {
    let directory = Directory::new();
    let flags = ["--bucket", "demo", "--read-page-size", "1KiB"];
    let server = Server::start(&directory, &flags);
    let text = numbered(2_000, |n| format!("line {n}"));
    server.run(&["create", "demo/log", "--content-type", "text/plain"]).ok();
    server.run_with(&["append", "demo/log", "--batch"], text.as_bytes()).ok();
    assert_eq!(server.run(&["read", "demo/log"]).ok(), text);

    server.run(&["create", "demo/ev", "--content-type", "application/json"]).ok();
    let messages = numbered(2_000, |n| format!("[{n}, 1.0]"));
    let each_wrapped = numbered(2_000, |n| format!("[[{n}, 1.0]]"));
    server.run_with(&["append", "demo/ev", "--batch"], each_wrapped.as_bytes()).ok();
    assert_eq!(server.run(&["read", "demo/ev", "--json"]).ok(), messages);
    let array = server.run(&["read", "demo/ev"]).ok();
    assert_eq!(json(&array).as_array().map(Vec::len), Some(2_000));
    assert!(array.starts_with("[[0, 1.0],[1, 1.0]"), "{}", &array[..40]);

    let last = ["read", "demo/ev", "--json", "--tail-records", "2"];
    assert_eq!(server.run(&last).ok(), "[1998, 1.0]\n[1999, 1.0]\n");
    let from = ["read", "demo/ev", "--json", "--record", "1999"];
    assert_eq!(server.run(&from).ok(), "[1999, 1.0]\n");
}

#[test]
fn an_empty_json_stream_reads_as_an_empty_array() {
    let directory = Directory::new();
    let server = Server::start(&directory, DEMO);
    server.run(&["create", "demo/ev", "--content-type", "application/json"]).ok();
    assert_eq!(server.run(&["read", "demo/ev"]).ok(), "[]");
    assert_eq!(server.run(&["read", "demo/ev", "--json"]).ok(), "");
}

#[test]
fn json_lines_of_other_streams_are_wrong_usage() {
    let directory = Directory::new();
    let server = Server::start(&directory, DEMO);
    server.run(&["create", "demo/x", "--content-type", "text/plain"]).ok();
    for args in [
        &["read", "demo/x", "--json"][..],
        &["tail", "demo/x", "--json"],
        &["tail", "demo/x", "-n", "1"],
    ] {
        let told = server.run(args).fails_with(2);
        assert!(told.contains("its content type is text/plain"), "{told}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let directory = Directory::new();
    let server = Server::start(&directory, DEMO);
    server.run(&["create", "demo/big"]).ok();
    server.run_with(&["append", "demo/big"], &vec![b'x'; 8 << 20]).ok();
    let mut child = server
        .client(&["read", "demo/big"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut first = [0; 16];
    child.stdout.take().expect("a pipe").read_exact(&mut first).expect("some bytes");
    let output = child.wait_with_output().expect("it ends");
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), told.as_ref()), (Some(0), ""));
}

#[test]
fn a_long_listing_is_paged_to_its_end() {
    let directory = Directory::new();
    let server = Server::start(&directory, DEMO);
    let agent = ureq::Agent::new_with_defaults();
    for n in 0..1_001 {
        let url = format!("{}/demo/s{n:04}", server.url);
        agent.put(url).send_empty().expect("created");
    }
    let listed = server.run(&["ls", "demo"]).ok();
    let names: Vec<&str> = listed.lines().filter_map(|line| line.split('\t').next()).collect();
    assert_eq!(names.len(), 1_001);
    assert!(names.is_sorted(), "{names:?}");
    assert_eq!(server.run(&["ls", "demo", "--prefix", "s000"]).ok().lines().count(), 10);
}

#[test]
fn a_listing_has_the_documented_columns() {
    let directory = Directory::new();
    let server = Server::start(&directory, DEMO);
    server.run(&["create", "demo/x", "--content-type", "text/plain", "--data", "abc"]).ok();
    let listed = server.run(&["ls", "demo"]).ok();
    let row: Vec<&str> = listed.trim_end().split('\t').collect();
    assert_eq!(row[..6], ["x", "Open", "text/plain", "3", "-", "0"]);
    assert!(row[6..].iter().all(|time| time.ends_with('Z')) && row.len() == 8, "{row:?}");

    server.run(&["create", "/v1/stream/a/b", "--data", "x"]).ok();
    let listed = lines(&server.run(&["ls", "--base", "--json"]).ok());
    assert_eq!(listed.len(), 1);
    assert_eq!((&listed[0]["path"], &listed[0]["tail_offset"]), (&json!("a/b"), &json!(1)));
}

#[test]
fn snapshots_retention_and_bootstrap_fit_together() {
    let directory = Directory::new();
    let server = Server::start(&directory, DEMO);
    server.run(&["create", "demo/ev", "--content-type", "application/json"]).ok();
    server.run_with(&["append", "demo/ev", "--batch"], b"1\n2\n3\n").ok();
    let told = server.run(&["retain", "demo/ev", "--record", "2"]).fails_with(4);
    assert!(told.contains("headwater snapshot put demo/ev"), "{told}");

    let put = ["snapshot", "put", "demo/ev", "-", "--record", "2", "--content-type", "text/x"];
    server.run_with(&put, b"one two").ok();
    let shown = json(&server.run(&["snapshot", "show", "demo/ev", "--json"]).ok());
    assert_eq!(
        (&shown["offset"], &shown["content_type"], &shown["bytes"], &shown["up_to_date"]),
        (&json!("00000000000000000004"), &json!("text/x"), &json!(7), &json!(false))
    );
    assert_eq!(server.run(&["snapshot", "get", "demo/ev"]).ok(), "one two");
    let stale = ["snapshot", "put", "demo/ev", "/dev/null", "--record", "1"];
    let told = server.run(&stale).fails_with(4);
    assert!(told.contains("headwater snapshot show demo/ev"), "{told}");

    let kept = server.run(&["retain", "demo/ev", "00000000000000000004"]).ok();
    assert_eq!(kept, "retained_offset\t00000000000000000004\n");
    let told = server.run(&["read", "demo/ev"]).fails_with(3);
    assert!(told.contains("hint: `headwater bootstrap demo/ev`"), "{told}");

    assert_eq!(server.run(&["bootstrap", "demo/ev"]).ok(), "one two3\n");
    let parts = lines(&server.run(&["bootstrap", "demo/ev", "--json"]).ok());
    assert_eq!(
        parts,
        [
            json!({
                "part": "head", "snapshot_offset": "00000000000000000004",
                "snapshot_digest": shown["digest"], "next_offset": "00000000000000000006",
                "up_to_date": true, "closed": false,
            }),
            json!({"part": "snapshot", "content_type": "text/x", "text": "one two"}),
            json!({"part": "message", "content_type": "application/json", "text": "3"}),
        ]
    );
}

#[test]
fn a_bootstrap_without_a_snapshot_is_its_messages_in_bytes_that_json_can_carry() {
    let directory = Directory::new();
    let server = Server::start(&directory, DEMO);
    server.run(&["create", "demo/bin"]).ok();
    server.run_with(&["append", "demo/bin"], &[0xff, 0x00]).ok();
    let parts = lines(&server.run(&["bootstrap", "demo/bin", "--json"]).ok());
    assert_eq!(parts[0]["snapshot_offset"], "-1");
    let content_type = "application/octet-stream";
    let message = json!({"part": "message", "content_type": content_type, "base64": "/wA="});
    assert_eq!(parts[1..], [message]);
}

#[test]
fn publishing_on_the_ds_surface_trims() {
    let directory = Directory::new();
    let server = Server::start(&directory, DEMO);
    server.run(&["create", "demo/doc", "--data", "abc"]).ok();
    let tail = "00000000000000000003";
    let put = ["snapshot", "put", "/ds/demo/doc", "/dev/null", "--offset", tail, "--json"];
    assert_eq!(json(&server.run(&put).ok())["retained_offset"], tail);
    server.run(&["read", "demo/doc"]).fails_with(3);
}

#[test]
fn the_base_surface_has_every_verb_too() {
    let directory = Directory::new();
    let server = Server::start(&directory, &[]);
    let stream = "/v1/stream/a b/c";
    server.run(&["create", stream, "--data", "x", "--attrs", "{\"a\":\"ü\"}"]).ok();
    server.run_with(&["append", stream, "--batch"], b"y\n").ok();
    assert_eq!(server.run(&["read", stream]).ok(), "xy\n");
    assert_eq!(json(&server.run(&["attrs", "get", stream]).ok()), json!({"a": "ü"}));
    server.run(&["attrs", "set", stream, "{}"]).ok();
    assert_eq!(server.run(&["attrs", "get", stream]).ok(), "{}\n");
    server.run(&["snapshot", "put", stream, "/dev/null", "--offset", "1"]).ok();
    assert_eq!(server.run(&["bootstrap", stream]).ok(), "y\n");
    server.run(&["fork", stream, "/v1/stream/fork", "--offset", "1"]).ok();
    assert_eq!(server.run(&["read", "/v1/stream/fork"]).ok(), "x");
}
