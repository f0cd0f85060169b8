//! `headwater bench`: every work does what it says, tells it, and leaves nothing behind.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;
use std::thread;

use serde_json::Value;

use crate::support::{Directory, Server, finish, headwater, signal};

/// Runs a work with `--json` and returns what it told.
fn bench(server: &Server, args: &str) -> Value {
    let args: Vec<&str> = args.split_whitespace().collect();
    let out = server.run(&[&["bench"], args.as_slice(), &["--json"]].concat()).ok();
    let told: Value = serde_json::from_str(&out).expect("one JSON object");
    assert_eq!(told["work"], args[0]);
    assert!(told["failed"].is_null() || told["failed"] == 0, "{told}");
    told
}

#[track_caller]
fn positive(told: &Value, names: &[&str]) {
    for name in names {
        assert!(told[name].as_f64().is_some_and(|figure| figure > 0.0), "{name}: {told}");
    }
}

fn streams(server: &Server) -> String {
    server.run(&["ls", "--base"]).ok()
}

#[test]
fn appends_are_measured_one_by_one_in_batches_and_at_a_rate() {
    let directory = Directory::new();
    let server = Server::start(&directory, &[]);
    let short = "--connections 4 --streams 3 --seconds 0.3 --warm-up 0.1";
    let told = bench(&server, &format!("append {short} --size 100"));
    positive(&told, &["appends", "appends_per_s", "mb_per_s", "p50_ms", "p999_ms", "max_ms"]);
    let told = bench(&server, &format!("append {short} --content-type application/json"));
    positive(&told, &["appends"]);
    let told = bench(&server, &format!("append {short} --batch 10"));
    let batches = told["appends"].as_u64().expect("a count");
    assert!(batches > 0 && batches.is_multiple_of(10), "{told}");

    let told = bench(&server, &format!("open-loop {short} --rate 200"));
    // All that were due in the window, one more or less at its edges.
    let appends = told["appends"].as_u64().expect("a count");
    assert!((59..=61).contains(&appends), "{told}");
    assert_eq!(streams(&server), "", "nothing is left behind");
}

#[test]
fn what_clients_saw_is_checked_on_request() {
    let directory = Directory::new();
    let server = Server::start(&directory, &["--read-page-size", "4KiB"]);
    let short = "--connections 8 --streams 3 --seconds 0.3 --warm-up 0.1 --size 100 --check";
    for content in ["application/octet-stream", "application/json"] {
        let told = bench(&server, &format!("append {short} --content-type {content}"));
        let (checked, appends) = (told["checked_events"].as_u64(), told["appends"].as_u64());
        assert!(checked > appends && appends > Some(0), "{told}");
    }
    let told = bench(&server, "fan-out --readers 10 --rate 50 --seconds 0.4 --warm-up 0.1 --check");
    let (checked, deliveries) = (told["checked_events"].as_u64(), told["deliveries"].as_u64());
    assert!(checked >= deliveries && deliveries > Some(0), "{told}");
}

#[test]
fn a_fan_out_is_whole() {
    let directory = Directory::new();
    let server = Server::start(&directory, &[]);
    let told = bench(&server, "fan-out --readers 20 --rate 50 --seconds 0.4 --warm-up 0.1");
    assert_eq!((&told["lost"], &told["doubled"]), (&0.into(), &0.into()), "{told}");
    assert_eq!(told["reconnects"], 0, "{told}");
    // Every message that was due in the window, by every reader.
    let deliveries = told["deliveries"].as_u64().expect("a count");
    assert!((19 * 20..=21 * 20).contains(&deliveries), "{told}");
    assert_eq!(streams(&server), "");
}

#[test]
fn a_fan_out_goes_on_where_the_server_ended_an_answer() {
    let directory = Directory::new();
    let server = Server::start(&directory, &["--sse-max-duration", "200ms"]);
    let told = bench(&server, "fan-out --readers 5 --rate 50 --seconds 0.8 --warm-up 0.1");
    assert_eq!((&told["lost"], &told["doubled"]), (&0.into(), &0.into()), "{told}");
    positive(&told, &["reconnects", "deliveries"]);
}

#[test]
fn reads_are_of_whole_streams() {
    let directory = Directory::new();
    let server = Server::start(&directory, &["--read-page-size", "256KiB"]);
    let told = bench(&server, "catch-up --bytes 2MiB --size 64KiB --readers 2 --seconds 0.2");
    assert_eq!(told["bytes"], 2 << 20);
    positive(&told, &["write_mb_per_s", "mb_per_s", "reads", "p99_ms"]);
    let told = bench(&server, "replay --streams 7 --messages 300 --connections 3 --rounds 2");
    positive(&told, &["streams_per_s", "mb_per_s", "write_messages_per_s"]);
    assert_eq!(streams(&server), "");
}

#[test]
fn creation_ends_with_the_last_stream() {
    let directory = Directory::new();
    let server = Server::start(&directory, &[]);
    let told = bench(&server, "create --connections 4 --streams 30 --seconds 20 --keep");
    assert_eq!(told["creates"], 30);
    assert_eq!(streams(&server).lines().count(), 30, "kept, as was asked");
}

#[test]
fn extensions_are_measured_in_a_bucket_and_on_the_base_surface() {
    let directory = Directory::new();
    let mut server = Server::start(&directory, &["--bucket", "demo"]);
    for prefix in ["/demo", "/v1/stream/deep/down"] {
        let root = server.url.clone();
        server.url.push_str(prefix);
        let told = bench(&server, "bootstrap --messages 500 --size 100 --seconds 0.1");
        positive(&told, &["bootstraps", "mb_per_s"]);
        let told =
            bench(&server, "snapshots --snapshot-size 1MiB --rounds 2 --seconds 0.1 --size 64");
        positive(&told, &["snapshots", "quiet_p99_ms", "publishing_p99_ms", "p99_ratio"]);
        server.url = root;
    }
    assert_eq!(server.run(&["ls", "demo"]).ok(), "");
    assert_eq!(streams(&server), "");
}

#[test]
fn what_the_server_used_is_told_with_its_process_id() {
    let directory = Directory::new();
    let server = Server::start(&directory, &[]);
    let pid = server.id();
    let told = bench(&server, &format!("idle --streams 50 --readers 10 --pid {pid}"));
    assert_eq!((&told["streams"], &told["readers"]), (&50.into(), &10.into()), "{told}");
    let with_readers = told["descriptors_with_readers"].as_u64().expect("a count");
    assert!(with_readers >= 10 + told["descriptors"].as_u64().expect("a count"), "{told}");
    let told = bench(&server, &format!("append --seconds 0.3 --warm-up 0 --pid {pid}"));
    positive(&told, &["server_rss_mb", "server_written_per_byte"]);

    let missing = server.run(&["bench", "idle", "--streams", "1"]).fails_with(2);
    assert!(missing.contains("--pid"), "{missing}");
    let wrong = server.run(&["bench", "append", "--pid", "0"]).fails_with(2);
    assert!(wrong.contains("/proc/0"), "{wrong}");
}

#[test]
fn an_interrupt_tells_what_there_is_and_cleans_up() {
    let directory = Directory::new();
    let server = Server::start(&directory, &[]);
    let mut child = server
        .client(&["bench", "append", "--seconds", "600", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    while streams(&server).is_empty() {
        assert!(child.try_wait().expect("our child").is_none(), "it ended early");
    }
    signal(&child, "INT");
    let (mut stdout, mut stderr) = (String::new(), String::new());
    child.stdout.take().expect("a pipe").read_to_string(&mut stdout).expect("UTF-8");
    child.stderr.take().expect("a pipe").read_to_string(&mut stderr).expect("UTF-8");
    assert_eq!(child.wait().expect("it ends").code(), Some(130), "{stderr}");
    assert!(stderr.contains("interrupted"), "{stderr}");
    let told: Value = serde_json::from_str(&stdout).expect("one JSON object");
    assert_eq!(told["work"], "append");
    assert_eq!(streams(&server), "");
}

#[test]
fn people_get_a_table_and_no_bar_where_nobody_sees_it() {
    let directory = Directory::new();
    let server = Server::start(&directory, &[]);
    let run = server.run(&["bench", "create", "--streams", "5"]);
    assert_eq!(run.stderr, "");
    assert!(run.ok().contains("\ncreates\t5\n"));
}

#[test]
fn a_missing_server_a_missing_bucket_and_nonsense_are_told_apart() {
    let directory = Directory::new();
    let server = Server::start(&directory, &[]);
    let mut in_bucket = server.client(&["bench", "append"]);
    in_bucket.env("STREAM_URL", format!("{}/demo", server.url));
    let told = finish(&mut in_bucket).fails_with(3);
    assert!(told.contains("create the bucket"), "{told}");

    let free = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("bound");
    let nobody = format!("http://{free}");
    let told = finish(headwater().args(["bench", "append", "--url", &nobody])).fails_with(6);
    assert!(told.contains("headwater dev"), "{told}");

    for nonsense in ["--seconds=0", "--connections=0", "--size=0", "--size=1 --batch=0"] {
        let args: Vec<&str> = nonsense.split(' ').collect();
        server.run(&[&["bench", "append"], args.as_slice()].concat()).fails_with(2);
    }
    server.run(&["bench", "fan-out", "--size", "42"]).fails_with(2);
}

/// Answers every request on `connection` as a server of the base protocol alone would.
fn base_protocol(connection: TcpStream) {
    let mut writer = connection.try_clone().expect("a descriptor");
    let mut reader = BufReader::new(connection);
    loop {
        let (mut request, mut len) = (String::new(), 0);
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            if let Some(value) = line.strip_prefix("Content-Length: ") {
                len = value.trim().parse().expect("a length");
            }
            if line == "\r\n" {
                break;
            }
            request.push_str(&line);
        }
        reader.read_exact(&mut vec![0; len]).expect("a whole body");
        let status = match request.contains("/~/") {
            true => "404 Not Found",
            false if request.starts_with("PUT") => "201 Created",
            false => "200 OK",
        };
        let answer =
            format!("HTTP/1.1 {status}\r\nStream-Next-Offset: 1_1\r\nContent-Length: 0\r\n\r\n");
        if writer.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

#[test]
fn a_server_without_an_extension_is_told_so() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            thread::spawn(move || base_protocol(connection));
        }
    });
    for (work, extension) in [
        ("append --batch 2", "append-batch"),
        ("bootstrap --messages 1", "snapshot"),
        ("snapshots", "snapshot"),
    ] {
        let args: Vec<&str> = work.split(' ').collect();
        let told = finish(headwater().arg("bench").args(args).args(["--url", &url])).fails_with(1);
        let expected = format!("the server has no {extension}: it answered 404");
        assert!(told.contains(&expected) && told.contains("hint:"), "{told}");
    }
    let short = ["bench", "append", "--seconds", "0.1", "--warm-up", "0", "--url", &url];
    finish(headwater().args(short)).ok();
}
