//! What is made for those who watch a server: dashboard, alerts, and the forms of its log.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use serde_json::Value;
use yaml_rust2::{Yaml, YamlLoader};

use crate::support::{Directory, Server, run};

fn ask(server: &Server, target: &str, headers: &str) -> String {
    send(server, "GET", target, headers, "")
}

/// One request on a connection of its own; the whole answer.
fn send(server: &Server, method: &str, target: &str, headers: &str, body: &str) -> String {
    let address = server.url.strip_prefix("http://").expect("a URL");
    let mut socket = TcpStream::connect(address).expect("a server");
    let common = "Host: x\r\nConnection: close\r\n";
    let request = format!("{method} {target} HTTP/1.1\r\n{common}{headers}\r\n{body}");
    socket.write_all(request.as_bytes()).expect("a socket");
    let mut answer = String::new();
    socket.read_to_string(&mut answer).expect("UTF-8");
    answer
}

/// The names that a query can use, as a running server has them.
fn names() -> BTreeSet<String> {
    let directory = Directory::new();
    let server = Server::start(&directory, &[]);
    let scrape = ask(&server, "/-/metrics", "");
    let mut names = BTreeSet::new();
    for line in scrape.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (name, kind) = line.split_once(' ').expect("a name and a type");
        let suffixes: &[&str] = match kind {
            "counter" => &["_total"],
            "histogram" => &["_bucket", "_sum", "_count"],
            _ => &[""],
        };
        names.extend(suffixes.iter().map(|suffix| format!("{name}{suffix}")));
    }
    assert!(names.len() > 30, "{scrape}");
    names
}

/// The metrics that a query is about, each of which there has to be.
fn check_query(query: &str, names: &BTreeSet<String>) {
    let words = query.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let used = words.filter(|w| w.starts_with("headwater_") || w.starts_with("process_"));
    let mut count = 0;
    for name in used {
        assert!(names.contains(name), "{name} in {query}");
        count += 1;
    }
    assert!(count > 0, "no metric in {query}");
    for (open, close) in [('(', ')'), ('{', '}'), ('[', ']')] {
        assert_eq!(query.matches(open).count(), query.matches(close).count(), "{query}");
    }
}

#[test]
fn every_panel_of_the_dashboard_asks_for_metrics_that_there_are() {
    let names = names();
    let dashboard: Value =
        serde_json::from_str(&run(&["generate", "grafana-dashboard"]).ok()).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let mut ids = BTreeSet::new();
    for panel in panels {
        assert!(ids.insert(panel["id"].as_u64()), "{panel}");
        let targets = panel["targets"].as_array().map_or(&[][..], Vec::as_slice);
        assert_eq!(targets.is_empty(), panel["type"] == "row", "{panel}");
        for target in targets {
            check_query(target["expr"].as_str().expect("a query"), &names);
        }
    }
    for variable in dashboard["templating"]["list"].as_array().expect("variables") {
        if variable["type"] == "query" {
            check_query(variable["query"].as_str().expect("a query"), &names);
        }
    }
}

#[test]
fn every_alert_asks_for_metrics_that_there_are_and_says_what_to_do() {
    let names = names();
    let text = run(&["generate", "alerts"]).ok();
    let documents = YamlLoader::load_from_str(&text).expect("YAML");
    let mut alerts = BTreeSet::new();
    for group in documents[0]["groups"].as_vec().expect("groups") {
        for rule in group["rules"].as_vec().expect("rules") {
            let text = |yaml: &Yaml| yaml.as_str().expect("a text").to_owned();
            assert!(alerts.insert(text(&rule["alert"])), "{rule:?}");
            check_query(&text(&rule["expr"]), &names);
            let severity = text(&rule["labels"]["severity"]);
            assert!(["page", "ticket"].contains(&severity.as_str()), "{rule:?}");
            assert!(!text(&rule["annotations"]["summary"]).is_empty(), "{rule:?}");
            assert!(!text(&rule["annotations"]["description"]).is_empty(), "{rule:?}");
        }
    }
    assert!(alerts.len() > 5, "{alerts:?}");
}

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

#[test]
fn the_access_log_has_a_line_for_each_request_and_no_secret() {
    let directory = Directory::new();
    let flags = ["--access-log", "--log-format", "json", "--log-level", "info"];
    let server = Server::start(&directory, &flags);
    let ids = format!("X-Request-Id: a-1\r\ntraceparent: 00-{TRACE}-00f067aa0ba902b7-01\r\n");
    ask(&server, "/demo/none?token=hwl_secret&offset=-1", &ids);
    ask(&server, "/-/healthz", "");
    let told = server.stop().stderr;
    assert!(!told.contains("hwl_secret"), "{told}");
    let lines: Vec<Value> =
        told.lines().map(|line| serde_json::from_str(line).expect("an object a line")).collect();
    let access: Vec<&Value> =
        lines.iter().filter(|line| line["target"] == "headwater::access").collect();
    let [missing, health] = access[..] else { panic!("{told}") };
    for (member, expected) in [
        ("method", "GET".into()),
        ("path", "/demo/none?token=REDACTED&offset=-1".into()),
        ("route", "read".into()),
        ("status", Value::from(404)),
        ("request_id", "a-1".into()),
        ("trace_id", TRACE.into()),
    ] {
        assert_eq!(missing[member], expected, "{missing}");
    }
    assert!(missing["bytes"].as_u64() > Some(0) && missing["duration_us"].is_u64(), "{missing}");
    assert_eq!((&health["route"], &health["status"]), (&"alive".into(), &200.into()));
    assert_eq!(health["request_id"].as_str().map(str::len), Some(16), "{health}");
}

#[test]
fn a_failure_is_logged_with_the_ids_of_its_request() {
    let directory = Directory::new();
    // More room is to be left than any disk has.
    let flags = ["--log-format", "json", "--disk-reserve", "1000000TiB", "--log-file-size", "1MiB"];
    let server = Server::start(&directory, &flags);
    let length = "Content-Type: text/plain\r\nContent-Length: 2000000\r\nX-Request-Id: a-1\r\n";
    let body = "x".repeat(2_000_000);
    let trace = format!("traceparent: 00-{TRACE}-00f067aa0ba902b7-01\r\n");
    let answer = send(&server, "PUT", "/v1/stream/a", &format!("{length}{trace}"), &body);
    assert!(answer.starts_with("HTTP/1.1 507 "), "{answer}");
    assert!(answer.contains("x-request-id: a-1\r\n"), "{answer}");
    assert!(answer.contains(r#""request_id":"a-1""#), "{answer}");
    let told = server.stop().stderr;
    let line = told.lines().find(|line| line.contains("a request failed")).expect("a line");
    let line: Value = serde_json::from_str(line).expect("an object a line");
    for (member, expected) in
        [("level", "ERROR"), ("code", "DISK_FULL"), ("request_id", "a-1"), ("trace_id", TRACE)]
    {
        assert_eq!(line[member], expected, "{line}");
    }
    assert!(line["fault"].as_str().is_some_and(|fault| fault.contains("reserve")), "{line}");
}

#[test]
fn without_the_flag_requests_are_not_logged() {
    let directory = Directory::new();
    let server = Server::start(&directory, &["--log-level", "info"]);
    ask(&server, "/-/healthz", "X-Request-Id: a-1\r\n");
    let told = server.stop().stderr;
    assert!(told.contains("listening") && !told.contains("healthz") && !told.contains("a-1"));
}
