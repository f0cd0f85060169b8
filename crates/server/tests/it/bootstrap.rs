//! Bootstrap (`extensions.md` §6): exact bytes, completeness, one consistent view.

use std::thread;
use std::time::Duration;

use crate::support::{
    Answer, Headwater, Part, SURFACES, get, head, offset, parts, post, put, request,
};

#[test]
fn json_messages_come_without_their_separators_and_otherwise_byte_for_byte() {
    let server = Headwater::start();
    server.json_stream(
        "/demo/s",
        &["[1.0, {\"b\" :2,\"b\":3}]", "[[ 1,\n2 ]]", "\"\\u00e9,\"", " null "],
    );
    let answer = server.send(get("/demo/s/bootstrap")).expect(200);
    let json = |body: &str| Part::new("application/json", body);
    let expected = [
        Part::new("application/octet-stream", ""),
        json("1.0"),
        json("{\"b\" :2,\"b\":3}"),
        json("[ 1,\n2 ]"),
        json("\"\\u00e9,\""),
        json("null"),
    ];
    assert_eq!(parts(&answer), expected);
    assert_eq!(answer.next_offset(), server.send(head("/demo/s")).next_offset());
}

#[test]
fn each_part_has_the_content_type_as_it_was_created() {
    let server = Headwater::start();
    server.create("/demo/s", "Text/Plain; Charset=\"utf-8\"", "a");
    server.append("/demo/s", "text/plain", "b");
    let parts = parts(&server.send(get("/demo/s/bootstrap")).expect(200));
    assert_eq!(parts[1], Part::new("Text/Plain; Charset=\"utf-8\"", "a"));
    assert_eq!(parts[2], Part::new("Text/Plain; Charset=\"utf-8\"", "b"));
}

#[test]
fn the_boundary_differs_from_answer_to_answer_and_has_128_bits() {
    let server = Headwater::start();
    server.text_stream("/demo/s", &["a"]);
    let boundary = || {
        let answer = server.send(get("/demo/s/bootstrap")).expect(200);
        answer.need("content-type").split_once("boundary=").unwrap().1.to_owned()
    };
    let one = boundary();
    assert!(one.len() >= 22, "128 bits need 22 characters of base64: {one}");
    assert_ne!(one, boundary());
}

#[test]
fn it_begins_at_the_snapshot_or_else_at_the_boundary_of_retention() {
    let server = Headwater::start();
    for (prefix, below) in SURFACES {
        let path =
            if below.is_empty() { format!("{prefix}/{}", prefix.len()) } else { prefix.to_owned() };
        server.text_stream(&path, &["a", "b", "c", "d"]);
        let resource = |name: &str| format!("{path}{below}/{name}");
        server.publish(&resource("snapshot/1"), "A");
        server.send(put(resource("retention/1"))).expect(204);
        let digest = server.publish(&resource("snapshot/3"), "ABC");
        let answer = server.send(get(resource("bootstrap"))).expect(200).has(&[
            ("stream-snapshot-offset", &offset(3)),
            ("stream-snapshot-digest", &digest),
            ("stream-next-offset", &offset(4)),
        ]);
        assert_eq!(parts(&answer), [Part::new("text/plain", "ABC"), Part::new("text/plain", "d")]);
    }
}

#[test]
fn an_empty_stream_is_one_empty_part() {
    let server = Headwater::start();
    for content_type in ["text/plain", "application/json", "image/png"] {
        let path = format!("/demo/{}", content_type.len());
        server.create(&path, content_type, "");
        let answer = server.send(get(format!("{path}/bootstrap"))).expect(200);
        let answer =
            answer.has(&[("stream-next-offset", &offset(0)), ("stream-up-to-date", "true")]);
        assert_eq!(parts(&answer), [Part::new("application/octet-stream", "")]);
    }
}

#[test]
fn a_closed_stream_says_so() {
    let server = Headwater::start();
    server.text_stream("/demo/s", &["a"]);
    server.send(get("/demo/s/bootstrap")).expect(200).lacks(&["stream-closed"]);
    server.send(post("/demo/s").header("Stream-Closed", "true")).expect(204);
    server.send(get("/demo/s/bootstrap")).expect(200).has(&[("stream-closed", "true")]);
}

#[test]
fn head_has_the_same_headers() {
    let server = Headwater::start();
    server.json_stream("/demo/s", &["1", "2"]);
    server.publish("/demo/s/snapshot/2", "x");
    let named = |answer: &Answer| {
        let mut headers: Vec<_> = answer
            .headers
            .iter()
            .filter(|(name, _)| !matches!(&**name, "date" | "transfer-encoding"))
            .map(|(name, value)| {
                let value = value.split("boundary=").next().unwrap();
                (name.clone(), value.to_owned())
            })
            .collect();
        headers.sort();
        headers
    };
    let read = server.send(get("/demo/s/bootstrap")).expect(200);
    let told = server.send(head("/demo/s/bootstrap")).expect(200);
    assert_eq!(named(&read), named(&told));
    assert_eq!(server.send(head("/demo/s/bootstrap?live=sse")).status, 400);
    assert_eq!(server.send(head("/demo/none/bootstrap")).status, 404);
}

#[test]
fn a_live_parameter_is_400_and_others_are_ignored() {
    let server = Headwater::start();
    server.text_stream("/demo/s", &["a"]);
    for bad in ["live=sse", "live=", "live", "x=1&live=no"] {
        server.send(get(format!("/demo/s/bootstrap?{bad}"))).problem(400, "INVALID_QUERY");
    }
    let odd = "/demo/s/bootstrap?offset=nonsense&offset=2&record=x&max_records=0&alive=1";
    assert_eq!(parts(&server.send(get(odd)).expect(200)).len(), 2);
}

#[test]
fn missing_and_soft_deleted_streams_are_404_and_410() {
    let server = Headwater::start();
    server.send(get("/demo/s/bootstrap")).problem(404, "STREAM_NOT_FOUND");
    server.text_stream("/demo/s", &["a"]);
    server.send(put("/demo/f").header("Stream-Forked-From", "/demo/s")).expect(201);
    server.send(request("DELETE", "/demo/s")).expect(204);
    server.send(get("/demo/s/bootstrap")).problem(410, "STREAM_DELETED");
    let fork = server.send(get("/demo/f/bootstrap")).expect(200);
    assert_eq!(parts(&fork)[1], Part::new("text/plain", "a"));
}

/// 20,000 messages of 100 to 199 bytes.
fn messages() -> Vec<Vec<u8>> {
    (0..20_000_usize)
        .map(|n| format!("{n:05}").into_bytes().into_iter().cycle().take(100 + n % 100).collect())
        .collect()
}

fn frames(messages: &[Vec<u8>]) -> Vec<u8> {
    let mut body = Vec::new();
    for message in messages {
        body.extend_from_slice(&u32::try_from(message.len()).unwrap().to_be_bytes());
        body.extend_from_slice(message);
    }
    body
}

fn fill(server: &Headwater, path: &str, messages: &[Vec<u8>]) {
    server.create(path, "application/octet-stream", "");
    for batch in messages.chunks(4096) {
        let append = post(format!("{path}/append-batch"))
            .header("Prefer", "return=minimal")
            .typed("application/octet-stream", frames(batch));
        server.send(append).expect(204);
    }
}

#[test]
fn a_slowly_read_answer_is_complete_ordered_and_one_view_whatever_happens_meanwhile() {
    let server = Headwater::start();
    let messages = messages();
    fill(&server, "/ds/demo/s", &messages);
    let total: usize = messages.iter().map(Vec::len).sum();
    let at = |count: usize| messages[..count].iter().map(Vec::len).sum::<usize>();
    server.publish(&format!("/ds/demo/s/snapshot/{}", at(1)), "first");
    let mut reading = server.connect();
    reading.send(&get("/ds/demo/s/bootstrap"));
    let mut answer = reading.answer_head();
    assert_eq!(answer.status, 200);
    assert_eq!(answer.next_offset(), offset(total as u64));
    // The server fills the buffers in between and then waits for this client. Meanwhile:
    server.append("/ds/demo/s", "application/octet-stream", "later");
    server.publish(&format!("/ds/demo/s/snapshot/{}", at(10_000)), "second");
    server.append("/ds/demo/s", "application/octet-stream", "later still");
    server.publish(&format!("/ds/demo/s/snapshot/{total}"), "third");
    server.send(request("DELETE", "/ds/demo/s")).expect(204);
    server.create("/ds/demo/s", "text/plain", "another incarnation");
    while let Some(chunk) = reading.chunk().unwrap() {
        answer.body.extend_from_slice(&chunk);
        if answer.body.len() < 400_000 {
            thread::sleep(Duration::from_millis(1));
        }
    }
    let parts = parts(&answer);
    assert_eq!(parts[0], Part::new("text/plain", "first"));
    assert_eq!(parts.len(), messages.len());
    for (part, message) in parts[1..].iter().zip(&messages[1..]) {
        assert_eq!(part.content_type, "application/octet-stream");
        assert!(part.body == *message, "each message whole and in order");
    }
}

#[test]
fn while_others_write_an_answer_ends_where_it_said() {
    let server = Headwater::start();
    server.create("/ds/demo/s", "application/octet-stream", "");
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for n in 0..200_u32 {
                let end = server.append("/ds/demo/s", "application/octet-stream", n.to_be_bytes());
                if n % 10 == 9 {
                    server.publish(&format!("/ds/demo/s/snapshot/{end}"), &end);
                }
            }
        });
        while !writer.is_finished() {
            let answer = server.send(get("/ds/demo/s/bootstrap")).expect(200);
            let parts = parts(&answer);
            let from = match answer.need("stream-snapshot-offset") {
                "-1" => {
                    assert_eq!(parts[0].body, b"");
                    0
                }
                at => {
                    assert_eq!(parts[0].body, at.as_bytes(), "the snapshot that the head names");
                    at.parse::<u32>().unwrap() / 4
                }
            };
            let next: u32 = answer.next_offset().parse::<u32>().unwrap() / 4;
            let expected: Vec<_> = (from..next).map(|n| n.to_be_bytes().to_vec()).collect();
            let got: Vec<_> = parts.into_iter().skip(1).map(|part| part.body).collect();
            assert_eq!(got, expected);
        }
    });
}

#[test]
fn a_client_that_takes_nothing_is_cut_without_the_final_boundary() {
    let server = Headwater::with(|config| config.slow_reader_timeout = Duration::from_millis(200));
    // Far more than the buffers of two sockets.
    server.create("/demo/s", "application/octet-stream", vec![b'x'; 30_000_000]);
    let mut reading = server.connect();
    reading.send(&get("/demo/s/bootstrap"));
    let head = reading.answer_head();
    let boundary = head.need("content-type").split_once("boundary=").unwrap().1.to_owned();
    thread::sleep(Duration::from_millis(600));
    let mut body = Vec::new();
    let cut = loop {
        match reading.chunk() {
            Ok(Some(chunk)) => body.extend_from_slice(&chunk),
            Ok(None) => break false,
            Err(_) => break true,
        }
    };
    assert!(cut, "the answer must not look complete");
    let last = format!("--{boundary}--");
    assert!(!body.windows(last.len()).any(|window| window == last.as_bytes()));
}

#[test]
fn an_answer_older_than_its_limit_is_cut() {
    let server = Headwater::with(|config| {
        config.response_max_duration = Duration::from_millis(200);
        config.sse_max_duration = Duration::from_millis(200);
    });
    server.create("/demo/s", "application/octet-stream", "");
    for _ in 0..30 {
        server.append("/demo/s", "application/octet-stream", vec![b'x'; 1_000_000]);
    }
    let mut reading = server.connect();
    reading.send(&get("/demo/s/bootstrap"));
    reading.answer_head();
    // It takes something all the time, and so is not slow; but it takes too long.
    let cut = loop {
        thread::sleep(Duration::from_millis(50));
        match reading.chunk() {
            Ok(Some(_)) => {}
            Ok(None) => break false,
            Err(_) => break true,
        }
    };
    assert!(cut);
}
