//! Values that come back: none splits a head, and none comes from where a client put it.

use crate::support::{Headwater, request};

#[test]
fn a_content_type_is_stored_as_one_harmless_value_or_refused() {
    let server = Headwater::start();
    let long = format!("text/plain; x={}", "a".repeat(8192));
    let fits = format!("text/plain; x={}", "a".repeat(256 - 14));
    let over = format!("text/plain; x={}", "a".repeat(257 - 14));
    let legal: &[&str] = &[
        "text/html",
        "TEXT/Plain",
        "text/html; charset=\"<script>alert(1)</script>\"",
        "multipart/mixed; boundary=x",
        "text/event-stream",
        "application/problem+json",
        "image/svg+xml",
        "text/plain; a=\"\\\"\"",
        "text/plain;",
        &fits,
    ];
    let illegal: &[&str] = &[
        "text/plain\u{e9}",
        "text/pl\u{f6}in; charset=utf-8",
        "text/plain; x=\u{e9}",
        "text",
        "text/",
        "/plain",
        "text/plain/x",
        "text /plain",
        "text/plain, text/html",
        "text/plain; x",
        "text/plain; x=\"",
        "text/plain; =x",
        "<script>",
        "text/plain; x=a b",
        &long,
        &over,
    ];
    for (number, value) in legal.iter().enumerate() {
        let path = format!("/demo/legal{number}");
        let fields = format!("Content-Type: {value}\r\n");
        server.ask("PUT", &path, &fields, b"x").expect(201);
        for path in [path.clone(), format!("{path}/snapshot/1")] {
            if path.ends_with("/1") {
                server.ask("PUT", &path, &fields, b"<script>alert(1)</script>").expect(204);
            }
            let answer = server.ask("GET", &path, "", b"").expect(200);
            assert!(answer.need("content-type").eq_ignore_ascii_case(value), "{answer:?}");
            assert_eq!(answer.need("x-content-type-options"), "nosniff");
            assert_eq!(answer.need("cross-origin-resource-policy"), "cross-origin");
        }
    }
    server.create("/demo/x");
    for (number, value) in illegal.iter().enumerate() {
        let path = format!("/demo/illegal{number}");
        let fields = format!("Content-Type: {value}\r\n");
        for path in [path.as_str(), "/demo/x/snapshot/0"] {
            server.ask("PUT", path, &fields, b"").expect(400);
        }
        server.ask("GET", &path, "", b"").expect(404);
    }
}

#[test]
fn no_value_carries_a_line_break_or_a_nul_into_the_store() {
    let server = Headwater::start();
    for field in ["Content-Type", "Stream-Seq", "Producer-Id", "Stream-Attrs", "Stream-TTL"] {
        for value in ["text/plain\rX-Evil: 1", "text/plain\0", "a\u{b}b", "a\u{7f}b", "\r", "a\r b"]
        {
            let mut wire = server.connect();
            wire.send(request("PUT", "/demo/evil", &format!("{field}: {value}\r\n"), b""));
            wire.answer("PUT").expect(400);
            wire.ended();
        }
        // A line break begins another field, which means nothing in an answer.
        let split = format!("{field}: 1\r\nX-Evil: 1\r\n");
        let answer = server.ask("PUT", "/demo/evil%zz", &split, b"");
        assert_eq!(answer.get("x-evil"), None);
    }
    server.ask("GET", "/demo/evil", "", b"").expect(404);
}

#[test]
fn location_comes_from_the_host_of_the_request_and_nothing_else() {
    let server = Headwater::start();
    let forwarded = "X-Forwarded-Host: evil.example\r\nX-Forwarded-Proto: https\r\n\
        X-Forwarded-For: 6.6.6.6\r\nX-Forwarded-Port: 666\r\nX-Forwarded-Prefix: /evil\r\n\
        Forwarded: host=evil.example;proto=https\r\nX-Original-URL: /demo/evil\r\n\
        X-Rewrite-URL: /demo/evil\r\nX-HTTP-Method-Override: DELETE\r\nX-Host: evil.example\r\n";
    let answer = server.ask("PUT", "/demo/x", forwarded, b"").expect(201);
    assert_eq!(answer.need("location"), "http://test/demo/x");
    assert!(!format!("{answer:?}").contains("evil"), "{answer:?}");
    server.ask("GET", "/demo/x", forwarded, b"").expect(200);
    // An absolute target's host counts for more than the field.
    let mut wire = server.connect();
    wire.send(request("PUT", "http://named:81/demo/y", "", b""));
    assert_eq!(wire.answer("PUT").expect(201).need("location"), "http://named:81/demo/y");

    let public = Headwater::with(|c| c.public_url = Some("https://streams.example/".to_owned()));
    let answer = public.ask("PUT", "/demo/x", forwarded, b"").expect(201);
    assert_eq!(answer.need("location"), "https://streams.example/demo/x");
}

#[test]
fn a_poisoned_host_comes_back_nowhere_but_in_the_location_of_a_creation() {
    let server = Headwater::start();
    let text = "Content-Type: application/json\r\n";
    server.ask("PUT", "/demo/x", text, b"[1]").expect(201);
    server.ask("PUT", "/demo/x/snapshot/2", text, b"{}").expect(204);
    for (method, path) in [
        ("GET", "/"),
        ("GET", "/-/version"),
        ("GET", "/-/buckets"),
        ("GET", "/demo"),
        ("GET", "/demo/streams"),
        ("GET", "/demo/x"),
        ("HEAD", "/demo/x"),
        ("PUT", "/demo/x"),
        ("GET", "/demo/x/snapshot"),
        ("GET", "/demo/x/snapshot/2"),
        ("GET", "/demo/x/bootstrap"),
        ("GET", "/demo/none"),
        ("GET", "/demo/x?offset=bad"),
        ("OPTIONS", "/demo/x"),
        ("PUT", "/demo/x/retention/9999"),
        ("DELETE", "/demo"),
        ("GET", "/v1/stream/__ds/jwks.json"),
    ] {
        let mut wire = server.connect();
        let fields = if method == "PUT" { text } else { "" };
        let bytes = String::from_utf8(request(method, path, fields, b"")).unwrap();
        wire.send(bytes.replace("Host: test", "Host: poison.example"));
        let answer = wire.answer(method);
        let shown = format!("{answer:?}{}", String::from_utf8_lossy(&answer.body));
        assert!(!shown.contains("poison"), "{method} {path}: {shown}");
    }
    // A redirect is relative, whatever the host.
    let answer = server.ask("GET", "/demo/x/snapshot", "", b"").expect(307);
    assert!(answer.need("location").starts_with("/demo/x/snapshot/"));
}

#[test]
fn a_refusal_never_repeats_the_body() {
    let server = Headwater::start();
    server.ask("PUT", "/demo/x", "Content-Type: application/json\r\n", b"[]").expect(201);
    let json = "Content-Type: application/json\r\n";
    for body in ["{\"secret\": nan}", "secret", "[\"secret\"", "[1,,\"secret\"]"] {
        let answer = server.ask("POST", "/demo/x", json, body.as_bytes());
        assert_eq!(answer.status, 400);
        assert!(!answer.text().contains("secret"), "{}", answer.text());
        assert!(!answer.text().contains("/work") && !answer.text().contains("src/"));
    }
}
