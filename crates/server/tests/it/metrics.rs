//! What a server tells about itself: a scrape, readiness, and the ids of requests.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use headwater_server::auth::{RootKey, Rules, hash};

use crate::support::{Headwater, eventually, get, head, post, put};

const DOCUMENTATION: &str = include_str!("../../../../docs/metrics.md");

fn scrape(server: &Headwater) -> String {
    let answer = server.send(get("/-/metrics")).expect(200);
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    answer.has(&[("content-type", kind), ("cache-control", "no-store")]).text().to_owned()
}

/// The value of a series, written as in a scrape; nothing without it.
fn value(scrape: &str, series: &str) -> Option<f64> {
    let line = scrape.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.map(|value| value.parse().unwrap())
}

#[track_caller]
fn check(server: &Headwater, expected: &[(&str, f64)]) {
    let text = scrape(server);
    for (series, expected) in expected {
        assert_eq!(value(&text, series), Some(*expected), "{series}\n{text}");
    }
}

/// The table of the documentation, as a scrape has it.
fn table(scrape: &str) -> String {
    let mut labels = BTreeMap::<&str, Vec<&str>>::new();
    for line in scrape.lines().filter(|line| !line.starts_with('#')) {
        let (name, rest) = line.split_once(['{', ' ']).unwrap();
        let names = rest.split('"').step_by(2).filter_map(|part| part.strip_suffix('='));
        let names = names.map(|name| name.trim_start_matches(['{', ',']));
        labels.insert(name, names.filter(|name| *name != "le").collect());
    }
    let mut rows = String::new();
    let lines: Vec<&str> = scrape.lines().collect();
    for (at, line) in lines.iter().enumerate() {
        let Some(help) = line.strip_prefix("# HELP ") else { continue };
        let (name, help) = help.split_once(' ').unwrap();
        let kind = lines[at + 1].rsplit(' ').next().unwrap();
        let unit = lines[at + 2].strip_prefix("# UNIT ").and_then(|unit| unit.split(' ').nth(1));
        let (shown, sample) = match kind {
            "counter" => (format!("{name}_total"), format!("{name}_total")),
            "histogram" => (name.to_owned(), format!("{name}_bucket")),
            _ => (name.to_owned(), name.to_owned()),
        };
        let labels = labels.get(sample.as_str()).expect("each has a series").join("`, `");
        let labels = if labels.is_empty() { labels } else { format!("`{labels}`") };
        let unit = unit.unwrap_or_default();
        writeln!(rows, "| `{shown}` | {kind} | {unit} | {labels} | {help} |").unwrap();
    }
    rows
}

#[test]
fn the_documentation_lists_every_metric_with_its_type_unit_and_meaning() {
    let server = Headwater::with(|config| config.append_bytes_max = 10);
    // What is counted by code has no series before.
    server.send(get("/demo/none")).problem(404, "STREAM_NOT_FOUND");
    server.create("/demo/s", "text/plain", "");
    server.send(post("/demo/s").text("much too long")).problem(413, "BODY_TOO_LARGE");
    let table = table(&scrape(&server));
    assert!(DOCUMENTATION.contains(&table), "docs/metrics.md should have:\n{table}");
}

#[test]
fn names_have_one_prefix_and_end_with_their_unit() {
    let server = Headwater::start();
    let text = scrape(&server);
    for line in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        assert!(line.starts_with("headwater_") || line.starts_with("process_"), "{line}");
    }
    for line in text.lines().filter_map(|line| line.strip_prefix("# UNIT ")) {
        let (name, unit) = line.split_once(' ').unwrap();
        assert!(name.ends_with(&format!("_{unit}")), "{line}");
    }
    assert!(text.ends_with("# EOF\n"), "{text}");
}

#[test]
fn appends_are_counted_once_and_repetitions_apart() {
    let server = Headwater::start();
    server.create("/demo/j", "application/json", "");
    server.create("/demo/t", "text/plain", "");
    server.append("/demo/j", "application/json", "[1, 22,333]");
    let append = |epoch: u64, seq: u64| {
        let request = post("/demo/t").text("abcd").header("Producer-Id", "p");
        server.send(request.header("Producer-Epoch", epoch).header("Producer-Seq", seq))
    };
    append(1, 0).expect(200);
    append(1, 0).expect(204);
    append(0, 0).problem(403, "PRODUCER_FENCED");
    append(1, 7).problem(409, "PRODUCER_GAP");
    let frames = [&b"\0\0\0\x02ab"[..], b"\0\0\0\x01c"].concat();
    server.send(post("/demo/t/append-batch").text(frames)).expect(200);
    check(
        &server,
        &[
            ("headwater_appended_messages_total", 3.0 + 1.0 + 2.0),
            // A JSON message is stored with a comma.
            ("headwater_appended_bytes_total", 9.0 + 4.0 + 3.0),
            ("headwater_producer_duplicates_total", 1.0),
            ("headwater_producer_fenced_total", 1.0),
            ("headwater_producer_gaps_total", 1.0),
            ("headwater_http_requests_total{route=\"append\",status=\"2xx\"}", 3.0),
            ("headwater_http_requests_total{route=\"append\",status=\"4xx\"}", 2.0),
            ("headwater_refusals_total{code=\"PRODUCER_GAP\"}", 1.0),
            ("headwater_http_request_duration_seconds_count{kind=\"append\"}", 6.0),
            ("headwater_streams", 2.0),
            ("headwater_buckets", 1.0),
        ],
    );
    let text = scrape(&server);
    // A refusal waits for what it was decided from, too.
    assert_eq!(value(&text, "headwater_ack_duration_seconds_count"), Some(6.0));
    let commits = value(&text, "headwater_commit_duration_seconds_count").unwrap();
    // The bucket, two streams, and four appends, two of them in one request.
    let groups = value(&text, "headwater_commit_groups_sum").unwrap();
    assert!(commits >= 3.0 && groups >= commits && groups >= 7.0, "{commits} {groups}");
    let synced = value(&text, "headwater_fsync_duration_seconds_count{file=\"log\"}").unwrap();
    assert!(synced >= commits, "{synced} {commits}");
    let bytes = value(&text, "headwater_commit_bytes_total").unwrap();
    let written = value(&text, "headwater_disk_written_bytes_total{file=\"log\"}").unwrap();
    assert!(bytes > 16.0 && written >= bytes, "{bytes} {written}");
}

#[test]
fn live_readers_and_connections_are_counted_while_they_are_there() {
    let server = Headwater::with(|config| {
        config.long_poll_timeout = std::time::Duration::from_secs(30);
        config.sse_max_duration = std::time::Duration::from_secs(30);
    });
    server.create("/demo/s", "text/plain", "");
    let mut poll = server.connect();
    poll.send(&get("/demo/s?offset=now&live=long-poll"));
    let sse = server.sse("/demo/s?offset=now&live=sse");
    let is = |series: &str, expected: f64| value(&scrape(&server), series) == Some(expected);
    let (polls, streams) =
        ("headwater_live_readers{kind=\"long_poll\"}", "headwater_live_readers{kind=\"sse\"}");
    eventually("both are counted", || is(polls, 1.0) && is(streams, 1.0));
    drop((poll, sse));
    eventually("neither is", || is(polls, 0.0) && is(streams, 0.0));
    // The scrape's own.
    eventually("connections go, too", || is("headwater_connections", 1.0));
}

#[test]
fn limits_and_refused_credentials_are_counted_by_name() {
    let rules = Rules { root: Some(RootKey(hash("r"))), ..Rules::default() };
    let server = Headwater::with(|config| {
        config.auth = Some(rules);
        config.public_metrics = true;
        config.append_bytes_max = 1;
    });
    server.send(get("/demo/s")).problem(401, "UNAUTHORIZED");
    server.send(get("/demo/s").header("Authorization", "Bearer x")).expect(401);
    let big = put("/demo/s").header("Authorization", "Bearer r").text("xx");
    server.send(big).problem(413, "BODY_TOO_LARGE");
    check(
        &server,
        &[
            ("headwater_auth_failures_total{reason=\"missing\"}", 1.0),
            ("headwater_auth_failures_total{reason=\"invalid\"}", 1.0),
            ("headwater_auth_failures_total{reason=\"forbidden\"}", 0.0),
            ("headwater_limits_refused_total{limit=\"BODY_TOO_LARGE\"}", 1.0),
        ],
    );
    assert_eq!(
        value(&scrape(&server), "headwater_limits_refused_total{limit=\"UNAUTHORIZED\"}"),
        None
    );
}

#[test]
fn a_scrape_needs_the_right_to_administer_the_server_where_credentials_are_asked_for() {
    let rules = Rules { root: Some(RootKey(hash("r"))), ..Rules::default() };
    let server = Headwater::with(|config| config.auth = Some(rules));
    server.send(get("/-/metrics")).problem(401, "UNAUTHORIZED");
    server.send(get("/-/metrics").header("Authorization", "Bearer r")).expect(200);
}

#[test]
fn readiness_says_what_is_missing() {
    let mut server = Headwater::start();
    let ready = server.send(get("/-/readyz")).expect(200).value();
    let expected = serde_json::json!({
        "status": "ready", "recovered": true, "disk": "writable", "draining": false,
    });
    assert_eq!(ready, expected);
    // More than any disk has.
    server.restart_with(|config| config.disk_reserve = Some(u64::MAX));
    let full = server.connect().round(&get("/-/readyz")).expect(503).value();
    assert_eq!((&full["status"], &full["disk"]), (&"disk_full".into(), &"full".into()));
    check(&server, &[("headwater_disk_writable", 0.0)]);
    server.send(get("/-/healthz")).expect(200);
    server.connect().round(&head("/-/readyz")).expect(503);
}

#[test]
fn a_request_id_comes_back_to_whoever_sent_one_and_names_a_failure() {
    let server = Headwater::with(|config| config.body_bytes_in_flight_max = 0);
    let with = |id: &str| put("/demo/s").text("x").header("X-Request-Id", id);
    let named = server.send(with("a-1")).problem(503, "OVERLOADED");
    assert_eq!((named.need("x-request-id"), &named.value()["request_id"]), ("a-1", &"a-1".into()));
    // One that is no id is as if there were none.
    for request in [with("a b"), put("/demo/s").text("x")] {
        let made = server.send(request).problem(503, "OVERLOADED").lacks(&["x-request-id"]);
        assert_eq!(made.value()["request_id"].as_str().unwrap().len(), 16);
    }
    let fine = server.send(get("/").header("X-Request-Id", "a-2")).expect(200);
    assert_eq!(fine.need("x-request-id"), "a-2");
    let refused = server.send(get("/demo/none").header("X-Request-Id", "a-3"));
    let refused = refused.problem(404, "STREAM_NOT_FOUND").has(&[("x-request-id", "a-3")]);
    assert!(refused.value().get("request_id").is_none());
}
