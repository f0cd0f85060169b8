//! Heads: hosts, methods, versions, sizes, `Expect`.

use std::time::Duration;

use crate::support::{Headwater, Wire, request};

/// An append with `host` as its lines of `Host`, and `target` in place of the path.
fn host_case(server: &Headwater, target: &str, host: &str) -> u16 {
    let mut wire = server.connect();
    wire.send(format!(
        "POST {target} HTTP/1.1\r\n{host}Content-Type: text/plain\r\nContent-Length: 1\r\n\r\nx"
    ));
    wire.answer("POST").status
}

#[test]
fn an_http_1_1_request_names_exactly_one_valid_host() {
    let server = Headwater::start();
    server.create("/demo/x");
    for host in ["h", "h:80", "H.Example:", "127.0.0.1:1", "[::1]", "[::1]:4437", "a_b.c-d"] {
        assert_eq!(host_case(&server, "/demo/x", &format!("Host: {host}\r\n")), 204, "{host}");
    }
    for host in [
        "", "h:99999", "h:port", "h:+80", "h:8 0", "a b", "a,b", "user@h", "h/path", "h/", "h?q",
        "h#f", "h\\x", "http://h", "h\"", "<h>", "h:80:90", "[::1", "::1", ":80", "h%00",
        "h\u{e9}",
    ] {
        assert_eq!(host_case(&server, "/demo/x", &format!("Host: {host}\r\n")), 400, "{host:?}");
    }
    assert_eq!(host_case(&server, "/demo/x", ""), 400);
    assert_eq!(host_case(&server, "/demo/x", "Host: h\r\nHost: h\r\n"), 400);
    assert_eq!(host_case(&server, "/demo/x", "Host: h\r\nhost: evil\r\n"), 400);
    // The target's own host counts, and takes the place of the field.
    assert_eq!(host_case(&server, "http://other:81/demo/x", "Host: h\r\n"), 204);
    assert_eq!(host_case(&server, "http://other/demo/x", ""), 400);
    assert_eq!(host_case(&server, "http://user@other/demo/x", "Host: h\r\n"), 400);
    let mut wire = server.connect();
    wire.send(b"PUT /demo/old HTTP/1.0\r\nContent-Type: text/plain\r\n\r\n");
    let location = wire.answer("PUT").expect(201).need("location").to_owned();
    assert_eq!(location, format!("http://{}/demo/old", server.address()));
    wire.ended();
}

#[test]
fn a_refused_host_is_a_problem_and_ends_the_connection() {
    let server = Headwater::start();
    let mut wire = server.connect();
    wire.send(b"GET /demo HTTP/1.1\r\n\r\n");
    let answer = wire.answer("GET").problem(400, "INVALID_HOST");
    assert!(answer.closes());
    wire.ended();
}

#[test]
fn other_forms_of_targets_name_nothing() {
    let server = Headwater::start();
    for (line, status) in [
        ("OPTIONS *", 204),
        ("GET *", 400),
        ("GET test:80", 400),
        ("CONNECT test:80", 400),
        ("CONNECT /demo", 405),
    ] {
        let mut wire = server.connect();
        wire.send(format!("{line} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n"));
        let method = line.split(' ').next().unwrap();
        assert_eq!(wire.answer(method).status, status, "{line}");
        wire.ended();
    }
}

#[test]
fn a_method_that_a_resource_does_not_take_is_405_with_those_that_it_takes() {
    let server = Headwater::start();
    server.create("/demo/x");
    let mut wire = server.connect();
    for path in [
        "/",
        "/-/healthz",
        "/demo",
        "/demo/x",
        "/demo/x/snapshot",
        "/demo/x/snapshot/0",
        "/demo/x/retention",
        "/demo/x/retention/0",
        "/demo/x/bootstrap",
        "/demo/x/append-batch",
        "/demo/x/attrs",
        "/v1/stream/x",
    ] {
        for method in
            ["PATCH", "TRACE", "get", "Post", "QUERY", "PROPFIND", "X-Y", "M!#$%&'*+.^_`|~"]
        {
            let answer = wire.ask(method, path, "", b"").problem(405, "METHOD_NOT_ALLOWED");
            let allow = answer.need("allow");
            assert!(allow.split(", ").any(|method| method == "OPTIONS"), "{path}: {allow}");
            assert!(!answer.text().contains("PROPFIND"));
        }
    }
    // The same connection all the way: none of this confused its framing.
    wire.ask("GET", "/demo/x", "", b"").expect(200);
}

#[test]
fn a_body_on_a_method_that_ignores_it_is_not_the_next_request() {
    let server = Headwater::start();
    server.create("/demo/x");
    let hidden = request("PUT", "/demo/hidden", "", b"");
    for method in ["GET", "HEAD", "DELETE", "OPTIONS", "PATCH", "TRACE"] {
        let mut wire = server.connect();
        wire.send(request(method, "/demo/x/bootstrap", "", &hidden));
        let answer = wire.answer(method);
        assert!(answer.status < 500, "{method}: {answer:?}");
        wire.send(request("GET", "/-/version", "Connection: close\r\n", b""));
        if let Some(answer) = wire.next("GET") {
            assert!(answer.text().contains("version"), "{method}: {answer:?}");
        }
        server.ask("GET", "/demo/hidden", "", b"").expect(404);
    }
}

#[test]
fn heads_that_are_too_large_are_431_or_414_and_closed() {
    let server = Headwater::start();
    let long = "a".repeat(70_000);
    let many = (0..101).fold(String::new(), |all, n| all + &format!("X-{n}: 1\r\n"));
    let bombs = (0..10_000).fold(String::new(), |all, n| all + &format!("X-{n}: 1\r\n"));
    for (name, bytes, statuses) in [
        ("a field", request("GET", "/demo", &format!("X-Long: {long}\r\n"), b""), &[431][..]),
        ("a name", request("GET", "/demo", &format!("{long}: 1\r\n"), b""), &[431]),
        ("fields", request("GET", "/demo", &many, b""), &[431]),
        ("many fields", request("GET", "/demo", &bombs, b""), &[431]),
        ("a target", request("GET", &format!("/demo/{long}"), "", b""), &[414, 431]),
        ("a query", request("GET", &format!("/demo?{long}"), "", b""), &[414, 431]),
        ("a method", request(&long, "/demo", "", b""), &[400, 431]),
        (
            "a megabyte",
            request("GET", "/demo", &format!("X: {}\r\n", long.repeat(15)), b""),
            &[431],
        ),
    ] {
        let mut wire = server.connect();
        wire.send(&bytes);
        let answer = wire.answer("GET");
        assert!(statuses.contains(&answer.status), "{name}: {answer:?}");
        wire.ended();
    }
    // A head just below the limit is read.
    let fits = request("GET", "/demo", &format!("X-Long: {}\r\n", "a".repeat(65_000)), b"");
    let mut wire = server.connect();
    wire.send(&fits);
    wire.answer("GET").expect(200);
}

/// The head of an append that waits to be asked for its body.
fn expecting(path: &str, len: usize, expect: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nHost: test\r\nContent-Type: text/plain\r\n\
         Content-Length: {len}\r\nExpect: {expect}\r\n\r\n"
    )
}

#[test]
fn a_client_is_told_to_continue_only_when_its_body_is_wanted() {
    let server = Headwater::with(|config| config.append_bytes_max = 1000);
    server.create("/demo/x");
    for expect in ["100-continue", "100-CONTINUE"] {
        let mut wire = server.connect();
        wire.send(expecting("/demo/x", 5, expect));
        assert_eq!(wire.head().status, 100);
        wire.send(b"hello");
        wire.answer("POST").expect(204);
        // The connection goes on.
        wire.ask("GET", "/demo/x", "", b"").expect(200);
    }
    let closed = "Stream-Closed: true\r\nContent-Type: text/plain\r\n";
    server.ask("PUT", "/demo/done", closed, b"").expect(201);
    for (path, len, status) in [("/demo/x", 1001, 413), ("/demo/none", 100_000, 404)] {
        let mut wire = server.connect();
        wire.send(expecting(path, len, "100-continue"));
        wire.answer("POST").expect(status);
        wire.ended();
    }
    // Other expectations are ignored, as RFC 9110 §10.1.1 allows.
    let mut wire = server.connect();
    wire.send(expecting("/demo/x", 1, "200-ok") + "!");
    wire.answer("POST").expect(204);
    // A client that does not wait gets no 100 in between when its body is there already, or one
    // before its answer; never one after.
    let mut wire = server.connect();
    wire.send(expecting("/demo/x", 1, "100-continue") + "?");
    let mut answer = wire.answer("POST");
    if answer.status == 100 {
        answer = wire.answer("POST");
    }
    answer.expect(204);
    wire.ask("GET", "/demo/x", "", b"").expect(200);
    assert_eq!(server.content("/demo/x"), "hellohello!?");
}

#[test]
fn http_1_0_is_answered_without_chunks_and_kept_only_when_asked() {
    let server = Headwater::start();
    server.ask("PUT", "/demo/x", "Content-Type: text/plain\r\n", b"text").expect(201);
    let ask = |wire: &mut Wire, path: &str, keep: &str| {
        wire.send(format!("GET {path} HTTP/1.0\r\n{keep}\r\n"));
        wire.answer("GET").expect(200)
    };
    let mut wire = server.connect();
    let kept = ask(&mut wire, "/demo/x", "Connection: keep-alive\r\n");
    assert_eq!(kept.get("connection"), Some("keep-alive"));
    let last = ask(&mut wire, "/demo/x", "");
    assert_eq!(last.text(), "text");
    wire.ended();
    // What has no known length ends with the connection.
    let mut wire = server.connect();
    let parts = ask(&mut wire, "/demo/x/bootstrap", "Connection: keep-alive\r\n");
    assert_eq!(parts.get("transfer-encoding"), None);
    assert!(parts.text().trim_end().ends_with("--"));
    wire.ended();
}

#[test]
fn slow_heads_and_idle_connections_are_closed() {
    let limit = Duration::from_millis(300);
    let server = Headwater::with(|config| config.header_timeout = limit);
    let begun = std::time::Instant::now();
    server.connect().ended();
    let mut wire = server.connect();
    wire.send(b"GET /demo HTTP/1.1\r\nHost: te");
    wire.ended();
    // Bytes that trickle in do not buy time.
    let mut wire = server.connect();
    while wire.send(b"\r\n") || wire.send(b"X") {
        std::thread::sleep(Duration::from_millis(50));
        assert!(begun.elapsed() < Duration::from_secs(10), "still open");
    }
    let mut wire = server.connect();
    wire.ask("GET", "/demo", "", b"").expect(200);
    wire.ended();
}
