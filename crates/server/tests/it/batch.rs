//! Many small appends in one request (`extensions.md` §8).

use serde_json::{Value, json};

use crate::support::{Answer, Headwater, Request, SURFACES, get, head, offset, post, put, request};

fn frames<T: AsRef<[u8]>>(payloads: &[T]) -> Vec<u8> {
    let mut body = Vec::new();
    for payload in payloads {
        let payload = payload.as_ref();
        body.extend_from_slice(&u32::try_from(payload.len()).unwrap().to_be_bytes());
        body.extend_from_slice(payload);
    }
    body
}

fn batch(content_type: &str, payloads: &[&str]) -> Request {
    post("/demo/s/append-batch").typed(content_type, frames(payloads))
}

fn numbered(request: Request, epoch: u32, seq: u64) -> Request {
    let request = request.header("Producer-Id", "p").header("Producer-Epoch", epoch);
    request.header("Producer-Seq", seq)
}

fn statuses(answer: &Answer) -> Vec<u64> {
    answer.value().as_array().unwrap().iter().map(|r| r["status"].as_u64().unwrap()).collect()
}

#[test]
fn each_frame_is_an_append_of_its_own_on_every_surface() {
    let server = Headwater::start();
    for (prefix, below) in SURFACES {
        let path =
            if below.is_empty() { format!("{prefix}/{}", prefix.len()) } else { prefix.to_owned() };
        server.create(&path, "text/plain", "a");
        let request = post(format!("{path}{below}/append-batch")).text(frames(&["bc", "d"]));
        let answer = server.send(request).expect(200);
        assert_eq!(answer.need("content-type"), "application/json");
        let expected = json!([
            { "status": 204, "stream_next_offset": offset(3) },
            { "status": 204, "stream_next_offset": offset(4) },
        ]);
        assert_eq!(answer.value(), expected);
        assert_eq!(server.send(get(format!("{path}?offset=1"))).expect(200).text(), "bcd");
        // Each frame is a message.
        server.send(get(format!("{path}?offset=3"))).expect(200);
        server.send(get(format!("{path}?offset=2"))).problem(400, "OFFSET_NOT_A_BOUNDARY");
    }
}

#[test]
fn on_json_each_frame_is_flattened_and_tells_its_records() {
    let server = Headwater::start();
    server.json_stream("/demo/s", &["0"]);
    let answer = server.send(batch("application/json", &["[1,2]", "3", "[[4]]"])).expect(200);
    let result = |end: u64, start: u64, next: u64| {
        json!({
            "status": 204,
            "stream_next_offset": offset(end),
            "stream_record_start": start,
            "stream_record_next": next,
        })
    };
    let expected = json!([result(6, 1, 3), result(8, 3, 4), result(12, 4, 5)]);
    assert_eq!(answer.value(), expected);
    assert_eq!(server.send(get("/demo/s")).expect(200).text(), "[0,1,2,3,[4]]");
}

#[test]
fn a_failed_frame_does_not_stop_later_ones() {
    let server = Headwater::start();
    server.json_stream("/demo/s", &[]);
    let answer = server.send(batch("application/json", &["1", "{", "[]", "4"])).expect(200);
    let results = answer.value();
    assert_eq!(statuses(&answer), [204, 400, 400, 204]);
    assert_eq!(
        (&results[1]["code"], &results[2]["code"]),
        (&"INVALID_JSON".into(), &"EMPTY_ARRAY".into())
    );
    for result in [&results[1], &results[2]] {
        assert!(result["error"].is_string());
        assert!(result["stream_next_offset"].is_string());
    }
    assert_eq!(server.send(get("/demo/s")).expect(200).text(), "[1,4]");
}

#[test]
fn producer_headers_number_the_frames_and_a_retry_is_exactly_once() {
    let server = Headwater::start();
    server.json_stream("/demo/s", &[]);
    let send = |seq: u64, payloads: &[&str]| {
        server.send(numbered(batch("application/json", payloads), 0, seq)).expect(200)
    };
    assert_eq!(statuses(&send(0, &["0", "1", "2"])), [204; 3]);
    // All of it again, and a part of it with something new.
    assert_eq!(statuses(&send(0, &["0", "1", "2"])), [204; 3]);
    assert_eq!(statuses(&send(1, &["1", "2", "3"])), [204; 3]);
    assert_eq!(server.send(get("/demo/s")).expect(200).text(), "[0,1,2,3]");
    // The numbers are those of single appends.
    let single = numbered(post("/demo/s").json("3"), 0, 3);
    server.send(single).expect(204);
    server.send(numbered(post("/demo/s").json("4"), 0, 4)).expect(200);
    // A gap refuses the frame and, by themselves, those behind it.
    let gap = send(6, &["6", "7"]);
    assert_eq!(statuses(&gap), [409; 2]);
    assert_eq!(gap.value()[0]["code"], "PRODUCER_GAP");
    let mixed = send(5, &["5", "{", "7"]);
    assert_eq!(statuses(&mixed), [204, 400, 409]);
    assert_eq!(server.send(get("/demo/s")).expect(200).text(), "[0,1,2,3,4,5]");
    let fenced = numbered(batch("application/json", &["x"]), 0, 0);
    server.send(numbered(post("/demo/s").json("9"), 1, 0)).expect(200);
    assert_eq!(server.send(fenced).expect(200).value()[0]["code"], "PRODUCER_FENCED");
}

#[test]
fn numbers_beyond_the_largest_are_400_with_nothing_applied() {
    let server = Headwater::start();
    server.json_stream("/demo/s", &[]);
    let request = numbered(batch("application/json", &["1", "2"]), 0, (1 << 53) - 1);
    server.send(request).problem(400, "INVALID_PRODUCER");
    let half = batch("application/json", &["1"]).header("Producer-Id", "p");
    server.send(half).problem(400, "INVALID_PRODUCER");
    assert_eq!(server.send(get("/demo/s")).expect(200).text(), "[]");
}

#[test]
fn on_a_closed_stream_each_frame_is_a_409() {
    let server = Headwater::start();
    server.text_stream("/demo/s", &["ab"]);
    server.send(post("/demo/s").header("Stream-Closed", "true")).expect(204);
    let answer = server.send(batch("text/plain", &["c", "d"])).expect(200);
    for result in answer.value().as_array().unwrap() {
        let expected = [
            ("status", json!(409)),
            ("code", json!("STREAM_CLOSED")),
            ("stream_next_offset", json!(offset(2))),
            ("stream_closed", json!(true)),
        ];
        for (member, value) in expected {
            assert_eq!(result[member], value);
        }
    }
    // Also when the content type is not the stream's: closed comes first, as in an append.
    let other = server.send(batch("application/json", &["1"])).expect(200);
    assert_eq!(statuses(&other), [409]);
}

#[test]
fn return_minimal_is_a_204_when_all_succeeded() {
    let server = Headwater::start();
    server.json_stream("/demo/s", &[]);
    let minimal = |payloads: &[&str]| {
        server.send(batch("application/json", payloads).header("Prefer", "return=minimal"))
    };
    let answer = minimal(&["1", "2"]).expect(204);
    assert_eq!(answer.need("preference-applied"), "return=minimal");
    assert_eq!(statuses(&minimal(&["3", "{"]).expect(200)), [204, 400]);
    let other = batch("application/json", &["4"]).header("Prefer", "return=representation");
    server.send(other).expect(200);
    let listed =
        batch("application/json", &["5"]).header("Prefer", "respond-async, return=minimal; x=1");
    server.send(listed).expect(204);
    assert_eq!(server.send(get("/demo/s")).expect(200).text(), "[1,2,3,4,5]");
}

#[test]
fn a_body_that_is_no_batch_applies_nothing() {
    let server = Headwater::start();
    server.text_stream("/demo/s", &[]);
    let good = frames(&["one"]);
    let broken: [&[u8]; 6] = [
        b"",
        &[good.clone(), vec![0, 0]].concat(),
        &[good.clone(), vec![0, 0, 0, 5, b'x']].concat(),
        &[good.clone(), vec![0, 0, 0, 0]].concat(),
        &[vec![0, 0, 0, 0], good.clone()].concat(),
        b"\xff\xff\xff\xffx",
    ];
    for body in broken {
        let request = post("/demo/s/append-batch").text(body);
        server.send(request).problem(400, "INVALID_BATCH");
    }
    assert_eq!(server.send(head("/demo/s")).next_offset(), offset(0));
}

#[test]
fn headers_of_a_single_append_are_400() {
    let server = Headwater::start();
    server.json_stream("/demo/s", &[]);
    for (name, value) in [
        ("Stream-Seq", "1"),
        ("Stream-Closed", "true"),
        ("Stream-Closed", "false"),
        ("Stream-Record-Match", "0"),
    ] {
        let request = batch("application/json", &["1"]).header(name, value);
        server.send(request).problem(400, "INVALID_HEADER");
    }
    let no_type = request("POST", "/demo/s/append-batch").body(frames(&["1"]));
    server.send(no_type).problem(400, "CONTENT_TYPE_MISSING");
    server.send(batch("text/plain", &["1"])).problem(409, "CONTENT_TYPE_MISMATCH");
    server.send(batch("APPLICATION/json; x=y", &["1"])).expect(200);
    let missing = post("/demo/none/append-batch").json(frames(&["1"]));
    server.send(missing).problem(404, "STREAM_NOT_FOUND");
    assert_eq!(server.send(get("/demo/s")).expect(200).text(), "[1]");
}

#[test]
fn past_the_limits_a_batch_is_413_with_nothing_applied() {
    let server = Headwater::with(|config| config.append_bytes_max = 100_000);
    server.text_stream("/demo/s", &[]);
    let too_many = post("/demo/s/append-batch").text(frames(&vec!["x"; 4097]));
    let refused = server.send(too_many).problem(413, "TOO_MANY_FRAMES");
    assert_eq!(refused.value()["limit"], 4096);
    let large = "x".repeat(100_000 - 3);
    let too_large = post("/demo/s/append-batch").text(frames(&[&large]));
    let refused = server.send(too_large).problem(413, "BODY_TOO_LARGE");
    assert_eq!(refused.value()["limit"], 100_000);
    assert_eq!(server.send(head("/demo/s")).next_offset(), offset(0));
    let most = post("/demo/s/append-batch").text(frames(&vec!["x"; 4096]));
    let answer = server.send(most).expect(200);
    assert_eq!(answer.value().as_array().map(Vec::len), Some(4096));
    assert_eq!(server.send(head("/demo/s")).next_offset(), offset(4096));
}

#[test]
fn a_batch_is_visible_whole_to_a_reader_that_waits() {
    let server = Headwater::start();
    server.text_stream("/demo/s", &[]);
    let mut sse = server.sse("/demo/s?offset=now&live=sse");
    assert_eq!(sse.control()["upToDate"], true);
    let payloads: Vec<String> = (0..100).map(|n| format!("<{n}>")).collect();
    server.send(post("/demo/s/append-batch").text(frames(&payloads))).expect(200);
    let (mut seen, all) = (String::new(), payloads.concat());
    while seen.len() < all.len() {
        seen += &sse.pair().0;
    }
    assert_eq!(seen, all);
    let results: Value = server.send(get("/demo/s")).expect(200).text().into();
    assert_eq!(results, all);
    server.send(put("/demo/s").text("")).expect(200);
}
