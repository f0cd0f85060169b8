//! Text that reads like the framing of events arrives as text: the cases that the tests from
//! outside use with other people's parsers, read by the parser of these tests.

use serde_json::Value;

use crate::support::{Headwater, Sse, post, put};

const CASES: &str = include_str!("../../../../tests/injection/cases.json");

/// Fewer would mean that the table was not read.
const CASES_MIN: usize = 60;

/// The bytes of one append of the table: text, text many times, or bytes in hex.
fn bytes(append: &Value) -> Vec<u8> {
    if let Some(text) = append.as_str() {
        return text.as_bytes().to_vec();
    }
    if let Some(hex) = append["hex"].as_str() {
        let digits = hex.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
        return digits.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect();
    }
    let times = usize::try_from(append["times"].as_u64().unwrap()).unwrap();
    append["text"].as_str().unwrap().repeat(times).into_bytes()
}

/// Text as it has to arrive: SSE forces each line end to be one LF.
fn arriving(sent: &[u8]) -> String {
    String::from_utf8_lossy(sent).replace("\r\n", "\n").replace('\r', "\n")
}

/// The data of an answer up to its end. Every event is data, or a control event of the server: one
/// that names a place which an append has ended at.
fn data_of(mut sse: Sse, places: &[String]) -> Vec<String> {
    let (mut data, mut controls, mut last) = (Vec::new(), 0, Value::Null);
    while let Some(event) = sse.next() {
        if event.name == "data" {
            data.push(event.data);
        } else {
            last = event.control();
            controls += 1;
            let place = last["streamNextOffset"].as_str().unwrap();
            assert!(places.iter().any(|known| known == place), "{place} is nobody's");
        }
    }
    assert_eq!(
        (&last["streamClosed"], last["streamNextOffset"].as_str()),
        (&Value::Bool(true), places.last().map(String::as_str))
    );
    assert!(controls <= data.len() + 2, "{controls} control events for {} of data", data.len());
    data
}

#[test]
fn no_text_forges_an_event() {
    let server = Headwater::start();
    let table: Value = serde_json::from_str(CASES).unwrap();
    let cases = table["cases"].as_array().unwrap();
    assert!(cases.len() >= CASES_MIN);
    for (number, case) in cases.iter().enumerate() {
        let (path, kind) = (format!("/demo/case{number}"), case["type"].as_str().unwrap());
        server.create(&path, kind, "");
        let mut live = server.sse(&format!("{path}?offset=-1&live=sse"));
        live.control();
        let appends: Vec<_> = case["appends"].as_array().unwrap().iter().map(bytes).collect();
        let mut places = vec!["0".repeat(20)];
        places.extend(appends.iter().map(|append| server.append(&path, kind, append)));
        server.send(post(&path).header("Stream-Closed", "true")).expect(204);
        let caught_up = server.sse(&format!("{path}?offset=-1&live=sse"));
        for sse in [live, caught_up] {
            check(case, &appends, &data_of(sse, &places));
        }
    }
}

fn check(case: &Value, appends: &[Vec<u8>], data: &[String]) {
    let name = case["name"].as_str().unwrap();
    match case["type"].as_str().unwrap() {
        "application/json" => {
            let values = |text: &[u8]| match serde_json::from_slice(text).expect(name) {
                Value::Array(values) => values,
                value => vec![value],
            };
            let sent: Vec<Value> = appends.iter().flat_map(|append| values(append)).collect();
            let came: Vec<Value> = data.iter().flat_map(|text| values(text.as_bytes())).collect();
            assert_eq!(came, sent, "{name}");
        }
        "application/octet-stream" => {
            // What base64 cannot spell is not there; the tests of text decode it.
            let is_base64 = |b: u8| b.is_ascii_alphanumeric() || b"+/=".contains(&b);
            assert!(data.iter().all(|text| text.bytes().all(is_base64)), "{name}: {data:?}");
        }
        _ => assert_eq!(data.concat(), arriving(&appends.concat()), "{name}"),
    }
}

#[test]
fn a_name_that_reads_like_an_event_comes_back_in_none() {
    let server = Headwater::start();
    let table: Value = serde_json::from_str(CASES).unwrap();
    for name in table["names"].as_array().unwrap() {
        let path = format!("/demo/{}", name.as_str().unwrap());
        server.send(put(&path).header("Stream-Closed", "true").text("x")).expect(201);
        let places = ["0", "1"].map(|place| format!("{place:0>20}"));
        let data = data_of(server.sse(&format!("{path}?offset=-1&live=sse")), &places);
        assert_eq!(data, ["x"], "{path}");
    }
}
