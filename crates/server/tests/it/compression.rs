//! Compressed answers (RFC 9110 §8.4, §12.5.3): which bodies are compressed for whom, and that
//! caches and clients can tell them apart.

use std::io::Read as _;

use crate::support::{Answer, Headwater, SURFACES, get, head, put};

/// More than a page of the test servers, of bytes that compress.
fn long_text() -> String {
    let line = |n| format!("line {n} of a text that repeats itself\n");
    (0..4_000).map(line).collect::<Vec<String>>().concat()
}

/// What a client that knows the coding reads.
fn decoded(answer: &Answer) -> Vec<u8> {
    let mut out = Vec::new();
    match answer.header("content-encoding") {
        None => out.extend_from_slice(&answer.body),
        Some("gzip") => {
            flate2::read::GzDecoder::new(&*answer.body).read_to_end(&mut out).map(drop).unwrap();
        }
        Some("zstd") => out = zstd::decode_all(&*answer.body).unwrap(),
        Some(other) => panic!("nobody asked for {other}"),
    }
    out
}

#[test]
fn a_page_is_compressed_as_the_client_likes_it_best_and_decodes_to_the_same_bytes() {
    let server = Headwater::start();
    let text = long_text();
    for (n, (prefix, _)) in SURFACES.iter().enumerate() {
        let stream = format!("{prefix}/{n}");
        server.create(&stream, "text/plain", &text);
        let plain = server.send(get(&stream)).expect(200).lacks(&["content-encoding"]);
        assert_eq!(plain.body, text.as_bytes());
        for (accept, coding) in [
            ("gzip", Some("gzip")),
            ("gzip, deflate, br", Some("gzip")),
            ("gzip, deflate, br, zstd", Some("zstd")),
            ("zstd;q=0.5, gzip;q=0.7", Some("gzip")),
            ("*", Some("zstd")),
            ("identity;q=0, *;q=0.1", Some("zstd")),
            ("identity, gzip;q=0.5", None),
            ("br", None),
            ("gzip;q=0", None),
            ("*;q=0", None),
        ] {
            let answer = server.send(get(&stream).header("Accept-Encoding", accept)).expect(200);
            assert_eq!(answer.header("content-encoding"), coding, "{accept}");
            assert_eq!(decoded(&answer), text.as_bytes(), "{accept}");
            assert_eq!(answer.need("vary"), "accept-encoding", "{accept}");
            assert_eq!(answer.need("content-type"), "text/plain");
            assert_eq!(answer.next_offset(), plain.next_offset());
            if coding.is_some() {
                assert!(answer.body.len() < text.len() / 4, "{accept}: {}", answer.body.len());
                answer.lacks(&["content-length"]);
            }
        }
    }
}

#[test]
fn every_form_of_a_json_stream_is_compressed() {
    let server = Headwater::start();
    let messages: Vec<String> = (0..500).map(|n| format!("{{\"number\":{n}}}")).collect();
    server.create("/demo/s", "application/json", format!("[{}]", messages.join(",")));
    for accept in [
        "application/json",
        "application/x-ndjson",
        "application/vnd.durable-stream-records+ndjson",
    ] {
        let request = get("/demo/s?record=0").header("Accept", accept);
        let plain = server.send(request.clone()).expect(200);
        for coding in ["gzip", "zstd"] {
            let coded = server.send(request.clone().header("Accept-Encoding", coding)).expect(200);
            assert_eq!(coded.need("content-encoding"), coding);
            assert_eq!(coded.need("vary"), "accept, accept-encoding");
            assert_eq!(decoded(&coded), plain.body, "{accept} {coding}");
            assert_eq!(coded.need("stream-record-next"), "500");
        }
    }
}

#[test]
fn each_coding_has_a_tag_of_its_own_by_which_it_is_not_sent_again() {
    let server = Headwater::start();
    server.create("/demo/s", "text/plain", long_text());
    let mut tags = Vec::new();
    for coding in ["identity", "gzip", "zstd"] {
        let request = get("/demo/s").header("Accept-Encoding", coding);
        let tag = server.send(request.clone()).expect(200).need("etag").to_owned();
        assert!(!tags.contains(&tag), "{tag} is taken");
        let again = server.send(request.clone().header("If-None-Match", &tag)).expect(304);
        again.has(&[("etag", &tag), ("vary", "accept-encoding")]).lacks(&["content-encoding"]);
        for other in &tags {
            server.send(request.clone().header("If-None-Match", other)).expect(200);
        }
        tags.push(tag);
    }
}

#[test]
fn a_body_below_a_kibibyte_is_compressed_only_for_whoever_refuses_it_as_it_is() {
    let server = Headwater::start();
    for (name, len, compressed) in [("below", 1023, false), ("at", 1024, true)] {
        let stream = format!("/demo/{name}");
        server.create(&stream, "text/plain", "x".repeat(len));
        let answer = server.send(get(&stream).header("Accept-Encoding", "gzip")).expect(200);
        assert_eq!(answer.header("content-encoding").is_some(), compressed);
        assert_eq!(decoded(&answer), "x".repeat(len).as_bytes());
        assert_eq!(answer.need("vary"), "accept-encoding");
    }
    let refusing = get("/demo/below").header("Accept-Encoding", "gzip, identity;q=0");
    let answer = server.send(refusing).expect(200);
    assert_eq!(answer.need("content-encoding"), "gzip");
    assert_eq!(decoded(&answer), "x".repeat(1023).as_bytes());
}

#[test]
fn what_is_compressed_already_is_not_compressed_again() {
    let server = Headwater::start();
    for (n, content) in ["image/png", "video/mp4", "application/zip"].iter().enumerate() {
        let stream = format!("/demo/{n}");
        server.create(&stream, content, long_text());
        for path in [stream.clone(), format!("{stream}/bootstrap")] {
            let answer = server.send(get(path).header("Accept-Encoding", "gzip, zstd")).expect(200);
            answer.lacks(&["content-encoding", "vary"]);
        }
    }
}

#[test]
fn a_bootstrap_is_compressed_and_head_says_the_same() {
    let server = Headwater::start();
    let text = long_text();
    server.create("/demo/s", "text/plain", &text);
    server.publish("/demo/s/snapshot/0", &text.repeat(20));
    for coding in ["gzip", "zstd"] {
        let request = get("/demo/s/bootstrap").header("Accept-Encoding", coding);
        let answer = server.send(request).expect(200);
        let boundary = answer.need("content-type").split_once("boundary=").unwrap().1;
        let body = String::from_utf8(decoded(&answer)).unwrap();
        assert!(body.ends_with(&format!("--{boundary}--\r\n")));
        assert!(body.contains(&text.repeat(20)));
        let head = server.send(head("/demo/s/bootstrap").header("Accept-Encoding", coding));
        for name in ["content-encoding", "vary", "content-length", "stream-next-offset"] {
            assert_eq!(head.header(name), answer.header(name), "{name}");
        }
        head.has(&[("content-encoding", coding), ("vary", "accept-encoding")]);
    }
    let vary = |request| server.send(request).expect(200).need("vary").to_owned();
    assert_eq!(vary(head("/demo/s")), vary(get("/demo/s")));
    assert_eq!(vary(get("/demo/s?offset=now")), "accept-encoding");
}

#[test]
fn snapshots_and_their_ranges_and_live_events_are_sent_as_they_are() {
    let server = Headwater::start();
    server.create("/demo/s", "text/plain", long_text());
    server.publish("/demo/s/snapshot/0", &long_text());
    let snapshot = get("/demo/s/snapshot/0").header("Accept-Encoding", "gzip, zstd");
    let whole = server.send(snapshot.clone()).expect(200).lacks(&["content-encoding"]);
    assert_eq!(whole.body, long_text().as_bytes());
    let part = server.send(snapshot.header("Range", "bytes=10-4999")).expect(206);
    assert_eq!(part.clone().lacks(&["content-encoding"]).body, long_text().as_bytes()[10..5000]);
    let mut live = server.connect();
    live.send(&get("/demo/s?offset=-1&live=sse").header("Accept-Encoding", "gzip, zstd"));
    live.answer_head().expect(200).lacks(&["content-encoding", "vary"]);
}

#[test]
fn a_long_poll_with_data_is_compressed() {
    let server = Headwater::start();
    server.create("/demo/s", "text/plain", long_text());
    let request = get("/demo/s?offset=-1&live=long-poll").header("Accept-Encoding", "zstd");
    let answer = server.send(request).expect(200);
    assert_eq!(answer.need("content-encoding"), "zstd");
    assert_eq!(decoded(&answer), long_text().as_bytes());
}

#[test]
fn without_encoders_nothing_is_compressed() {
    let server = Headwater::with(|config| config.encoders_max = 0);
    server.create("/demo/s", "text/plain", long_text());
    for path in ["/demo/s", "/demo/s/bootstrap"] {
        let answer = server.send(get(path).header("Accept-Encoding", "gzip, zstd")).expect(200);
        answer.lacks(&["content-encoding", "vary"]);
    }
}

#[test]
fn with_every_encoder_taken_a_body_goes_out_as_it_is_under_its_own_tag() {
    let server = Headwater::with(|config| config.encoders_max = 1);
    // More than the sockets hold, and nothing that can be compressed.
    let mut state = 1_u64;
    let noise: Vec<u8> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56).to_le_bytes()[0]
    })
    .take(16 * 1024 * 1024)
    .collect();
    server.create("/demo/big", "application/octet-stream", &noise);
    server.create("/demo/s", "text/plain", long_text());
    let read = || server.send(get("/demo/s").header("Accept-Encoding", "gzip")).expect(200);
    let tag = server.send(get("/demo/s")).need("etag").to_owned();
    let mut taking = server.connect();
    taking.send(&get("/demo/big").header("Accept-Encoding", "gzip"));
    assert_eq!(taking.answer_head().need("content-encoding"), "gzip");
    let answer = read().lacks(&["content-encoding"]).has(&[("etag", &tag)]);
    assert_eq!(answer.body, long_text().as_bytes());
    let known = get("/demo/s").header("Accept-Encoding", "gzip").header("If-None-Match", &tag);
    server.send(known).expect(304);
    drop(taking);
    crate::support::eventually("the encoder is free again", || {
        read().header("content-encoding") == Some("gzip")
    });
}

#[test]
fn a_compressed_page_of_a_cut_length_is_what_the_plain_one_is() {
    let server = Headwater::start();
    // Messages around the sizes of pages and of an encoder's steps.
    for len in [1024, 32 * 1024 - 1, 32 * 1024, 32 * 1024 + 1, 300 * 1024] {
        let stream = format!("/demo/{len}");
        let body: String = long_text().repeat(3).chars().take(len).collect();
        server.send(put(&stream).text(&body)).expect(201);
        for coding in ["gzip", "zstd"] {
            let answer = server.send(get(&stream).header("Accept-Encoding", coding)).expect(200);
            assert_eq!(decoded(&answer), body.as_bytes(), "{len} {coding}");
        }
    }
}
