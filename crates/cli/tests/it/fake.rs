//! What a well-behaved server rarely does, played by a fake one: answers that break off, refuse, or
//! make no sense.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::thread::{self, JoinHandle};

use crate::support::{Run, finish, headwater};

/// Answers one connection after the other, each with the next of `answers`, and returns the request
/// lines that it got.
fn serve(answers: Vec<String>) -> (String, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    let serving = thread::spawn(move || {
        let mut requests = Vec::new();
        for answer in answers {
            let (mut connection, _) = listener.accept().expect("a connection");
            let mut lines = BufReader::new(&connection).lines().map(|line| line.expect("a head"));
            requests.push(lines.next().expect("a request line"));
            let _headers = lines.take_while(|line| !line.is_empty()).count();
            connection.write_all(answer.as_bytes()).expect("the client listens");
        }
        requests
    });
    (url, serving)
}

/// A whole answer with its length, after which the connection closes.
fn answer(status: &str, headers: &str, body: &str) -> String {
    let len = body.len();
    format!(
        "HTTP/1.1 {status}\r\n{headers}Content-Length: {len}\r\nConnection: close\r\n\r\n{body}"
    )
}

/// An answer that ends where the connection does.
fn events(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n{body}")
}

fn run(url: &str, args: &[&str]) -> Run {
    finish(headwater().args(args).env("STREAM_URL", url))
}

const HEAD: &str = "Content-Type: text/plain\r\nStream-Next-Offset: 07\r\n";

#[test]
fn data_whose_control_event_never_came_is_printed_once() {
    let (url, serving) = serve(vec![
        answer("200 OK", HEAD, ""),
        events(
            "event: data\ndata:one\n\nevent: control\n\
             data:{\"streamNextOffset\":\"10\",\"streamCursor\":\"5\"}\n\n\
             event: data\ndata:two\n\n",
        ),
        answer("503 Service Unavailable", "", ""),
        events(
            "event: data\ndata:two\n\nevent: control\n\
             data:{\"streamNextOffset\":\"13\",\"streamClosed\":true}\n\n",
        ),
    ]);
    assert_eq!(run(&url, &["tail", "demo/x"]).ok(), "onetwo");
    assert_eq!(
        serving.join().expect("it served"),
        [
            "HEAD /demo/x HTTP/1.1",
            "GET /demo/x?live=sse&offset=07 HTTP/1.1",
            "GET /demo/x?live=sse&cursor=5&offset=10 HTTP/1.1",
            "GET /demo/x?live=sse&cursor=5&offset=10 HTTP/1.1",
        ]
    );
}

#[test]
fn an_answer_that_breaks_off_is_unavailable_and_not_the_end() {
    let broken = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nStream-Next-Offset: 9\r\n\
        Stream-Up-To-Date: true\r\nContent-Length: 9\r\n\r\nhello";
    let (url, serving) = serve(vec![broken.to_owned()]);
    let run = run(&url, &["read", "demo/x"]);
    assert_eq!(run.code, Some(6), "{}", run.stderr);
    assert!(run.stderr.contains("the answer broke off"), "{}", run.stderr);
    serving.join().expect("it served");

    let multipart = "Content-Type: multipart/mixed; boundary=B\r\n";
    let cut = "--B\r\nContent-Type: text/plain\r\n\r\nhel";
    let (url, serving) = serve(vec![answer("200 OK", multipart, cut)]);
    let run = self::run(&url, &["bootstrap", "demo/x"]);
    assert_eq!(run.code, Some(6), "{}", run.stderr);
    assert!(run.stderr.contains("cut off before its final boundary"), "{}", run.stderr);
    serving.join().expect("it served");
}

#[test]
fn a_read_does_not_loop_where_the_server_stands_still() {
    let page = answer("200 OK", "Content-Type: text/plain\r\nStream-Next-Offset: 7\r\n", "");
    let (url, serving) = serve(vec![page.clone(), page]);
    let told = run(&url, &["read", "demo/x"]).fails_with(1);
    assert!(told.contains("stands still at offset 7"), "{told}");
    serving.join().expect("it served");
}

#[test]
fn statuses_have_their_exit_codes_with_and_without_a_problem() {
    let problem = "Content-Type: application/problem+json\r\n";
    let damaged = r#"{"code":"DATA_DAMAGED","title":"Damaged","detail":"A block."}"#;
    for (status, body, code, hint) in [
        ("401 Unauthorized", "", 5, "STREAM_AUTH"),
        ("403 Forbidden", "", 5, "STREAM_AUTH"),
        ("500 Internal Server Error", damaged, 7, ""),
        ("500 Internal Server Error", "oops", 1, ""),
        ("503 Service Unavailable", "", 6, "try again"),
        ("507 Insufficient Storage", "", 6, "disk"),
        ("418 I'm a teapot", "", 1, ""),
    ] {
        let (url, serving) = serve(vec![answer(status, problem, body)]);
        let told = run(&url, &["read", "demo/x"]).fails_with(code);
        assert!(told.contains(&status[..3]), "{status}: {told}");
        assert!(told.contains(hint), "{status}: {told}");
        serving.join().expect("it served");
    }
}

#[test]
fn a_refusal_cannot_drive_the_terminal() {
    let body = r#"{"code":"X","title":"\u001b[2Jgone","detail":"a\u0007b"}"#;
    let (url, serving) = serve(vec![answer("400 Bad Request", "", body)]);
    let told = run(&url, &["read", "demo/x"]).fails_with(1);
    assert!(!told.contains(['\x1b', '\x07']), "{told:?}");
    serving.join().expect("it served");
}

#[test]
fn events_that_make_no_sense_end_the_tail() {
    for nonsense in ["event: control\ndata:{}\n\n", "event: control\ndata:x\n\n"] {
        let (url, serving) = serve(vec![answer("200 OK", HEAD, ""), events(nonsense)]);
        let told = run(&url, &["tail", "demo/x"]).fails_with(1);
        assert!(told.contains("not what the protocol promises"), "{told}");
        serving.join().expect("it served");
    }
}
