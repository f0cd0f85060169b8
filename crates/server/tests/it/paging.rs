//! Pages (`extensions.md` §2): a read stops at the size limit only on a message boundary, and the
//! pages of a stream are the stream.

use crate::support::{Answer, Headwater, PAGE, get, head, offset, post};

/// Sizes that fall on, before and behind the ends of pages.
fn sizes() -> Vec<usize> {
    let mut sizes: Vec<usize> = (0..200).map(|n| 1 + (n * 7919) % 5000).collect();
    sizes.extend([PAGE, 1, PAGE - 1, PAGE + 1, 3 * PAGE, 1, 1, PAGE / 2, PAGE / 2, 10]);
    sizes
}

fn message(index: usize, len: usize) -> Vec<u8> {
    format!("<{index}>").into_bytes().into_iter().cycle().take(len).collect()
}

/// Reads page after page until the answer that reaches the tail.
fn pages(server: &Headwater, path: &str, live: &str) -> Vec<Answer> {
    let mut pages: Vec<Answer> = Vec::new();
    loop {
        let from = pages.last().map_or("0", |page| page.next_offset());
        let page = server.send(get(format!("{path}?offset={from}{live}"))).expect(200);
        let done = page.header("stream-up-to-date").is_some();
        assert!(page.next_offset() > from || done, "no progress");
        pages.push(page);
        if done {
            return pages;
        }
    }
}

#[test]
fn pages_of_bytes_end_on_boundaries_and_concatenate_exactly() {
    let mut server = Headwater::start();
    server.create("/demo/s", "application/octet-stream", "");
    let mut connection = server.connect();
    let (mut all, mut boundaries) = (Vec::new(), vec![offset(0)]);
    for (index, len) in sizes().into_iter().enumerate() {
        let message = message(index, len);
        let append = post("/demo/s").typed("application/octet-stream", &message);
        connection.round(&append).expect(204);
        all.extend_from_slice(&message);
        boundaries.push(offset(all.len() as u64));
    }
    drop(connection);
    let mut before = None;
    for round in ["hot", "after a restart"] {
        for live in ["", "&live=long-poll"] {
            let pages = pages(&server, "/demo/s", live);
            let read: Vec<u8> = pages.iter().flat_map(|page| page.body.clone()).collect();
            assert!(read == all, "{round}{live}");
            assert!(pages.len() > 5);
            for page in &pages {
                assert!(boundaries.iter().any(|boundary| boundary == page.next_offset()));
                page.need("etag");
            }
            // No page but the one of a single message is larger than the limit.
            let large: Vec<_> = pages.iter().filter(|page| page.body.len() > PAGE + 5000).collect();
            assert_eq!(large.len(), 1, "{round}{live}");
            let ends: Vec<_> = pages.iter().map(|page| page.next_offset().to_owned()).collect();
            assert_eq!(
                *before.get_or_insert(ends.clone()),
                ends,
                "pages do not depend on where bytes are"
            );
        }
        server.restart();
    }
}

#[test]
fn pages_of_json_are_arrays_of_whole_messages() {
    let server = Headwater::start();
    server.create("/demo/s", "application/json", "");
    let mut connection = server.connect();
    let mut all = Vec::new();
    for (index, len) in sizes().into_iter().enumerate() {
        let text = String::from_utf8(message(index, len)).unwrap();
        connection.round(&post("/demo/s").json(format!("[\"{text}\",{index}]"))).expect(204);
        all.extend([serde_json::json!(text), serde_json::json!(index)]);
    }
    for live in ["", "&live=long-poll"] {
        let pages = pages(&server, "/demo/s", live);
        let read: Vec<_> =
            pages.iter().flat_map(|page| page.value().as_array().unwrap().clone()).collect();
        assert!(read == all);
        let mut next = String::from("0");
        for page in &pages {
            assert_eq!(page.need("stream-record-start"), next);
            page.need("stream-record-next").clone_into(&mut next);
        }
        assert_eq!(next, all.len().to_string());
    }
    // The same by SSE, one array an event.
    let mut sse = server.sse("/demo/s?offset=0&live=sse");
    let mut read = Vec::new();
    loop {
        let (data, control) = sse.pair();
        read.extend(serde_json::from_str::<Vec<serde_json::Value>>(&data).unwrap());
        if control["upToDate"] == true {
            break;
        }
    }
    assert!(read == all);
}

#[test]
fn a_message_larger_than_the_page_is_sent_whole() {
    let server = Headwater::start();
    let large = "x".repeat(10 * PAGE);
    server.create("/demo/s", "text/plain", &large);
    server.append("/demo/s", "text/plain", "small");
    let page = server.send(get("/demo/s")).expect(200).lacks(&["stream-up-to-date"]);
    assert!(page.text() == large);
    assert_eq!(page.next_offset(), offset(10 * PAGE as u64));
    assert_eq!(server.send(get(format!("/demo/s?offset={}", page.next_offset()))).text(), "small");
    let (data, control) = server.sse("/demo/s?offset=-1&live=sse").pair();
    assert!(data == large);
    assert!(control["upToDate"].is_null());
    let polled = server.send(get("/demo/s?offset=-1&live=long-poll")).expect(200);
    assert!(polled.text() == large);
    polled.lacks(&["stream-up-to-date"]);
}

#[test]
fn closed_shows_only_where_the_end_is_reached() {
    let server = Headwater::start();
    server.create("/demo/s", "text/plain", "x".repeat(PAGE));
    let tail = server.append("/demo/s", "text/plain", "y".repeat(PAGE));
    server.send(post("/demo/s").header("Stream-Closed", "true")).expect(204);
    let first = server.send(get("/demo/s")).expect(200);
    let first = first.lacks(&["stream-closed", "stream-up-to-date"]);
    let last = server.send(get(format!("/demo/s?offset={}", first.next_offset()))).expect(200);
    last.has(&[("stream-closed", "true"), ("stream-up-to-date", "true")]);
    server.send(head("/demo/s")).has(&[("stream-closed", "true"), ("stream-next-offset", &tail)]);
}

#[test]
fn an_etag_names_the_page_and_changes_with_it() {
    let server = Headwater::start();
    server.text_stream("/demo/s", &["a", "b"]);
    let tag = |query: &str| {
        server.send(get(format!("/demo/s{query}"))).expect(200).need("etag").to_owned()
    };
    let (all, rest) = (tag(""), tag("?offset=1"));
    assert_eq!(all, tag("?offset=-1"));
    assert_ne!(all, rest);
    let revalidate = |tag: &str| server.send(get("/demo/s").header("If-None-Match", tag));
    let same = revalidate(&all).expect(304);
    assert_eq!(same.body, b"");
    same.has(&[("etag", &all), ("stream-next-offset", &offset(2)), ("stream-up-to-date", "true")]);
    revalidate(&format!("\"x\", W/{all}")).expect(304);
    revalidate("*").expect(304);
    revalidate(&rest).expect(200);
    server.append("/demo/s", "text/plain", "c");
    let grown = revalidate(&all).expect(200).need("etag").to_owned();
    assert_ne!(grown, all);
    server.send(post("/demo/s").header("Stream-Closed", "true")).expect(204);
    let closed = revalidate(&grown).expect(200).need("etag").to_owned();
    // Another incarnation with the same bytes is another page.
    server.send(crate::support::delete("/demo/s")).expect(204);
    server.text_stream("/demo/s", &["a", "b", "c"]);
    server.send(post("/demo/s").header("Stream-Closed", "true")).expect(204);
    revalidate(&closed).expect(200);
}

#[test]
fn data_may_be_cached_and_the_empty_tail_may_not() {
    let server = Headwater::start();
    server.text_stream("/demo/s", &["a"]);
    let cache =
        |query: &str| server.send(get(format!("/demo/s{query}"))).need("cache-control").to_owned();
    assert!(cache("").contains("max-age=60"));
    for empty in ["?offset=1", "?offset=now", "?offset=9", "?offset=1&live=long-poll"] {
        assert!(cache(empty).contains("no-store"), "{empty}");
    }
    server.send(get("/demo/s?offset=now")).expect(200).lacks(&["etag"]);
}

#[test]
fn what_was_asked_for_with_credentials_is_for_no_shared_cache() {
    let server = Headwater::with(|config| config.read_page_bytes = 2);
    server.text_stream("/demo/s", &["a", "b", "c"]);
    for query in ["", "?offset=2", "?offset=3", "?offset=0&live=long-poll", "?offset=now"] {
        for credentials in ["Bearer token", "Basic dTpw", ""] {
            let asked = get(format!("/demo/s{query}")).header("Authorization", credentials);
            let answer = server.send(asked).expect(200);
            let cache = answer.need("cache-control");
            let kept_apart = cache.starts_with("private, max-age=") || cache == "no-store";
            assert!(kept_apart, "{query} {credentials:?}: {cache}");
        }
    }
}

#[test]
fn only_a_page_that_can_grow_is_cached_for_a_short_time() {
    let server = Headwater::with(|config| config.read_page_bytes = 2);
    server.text_stream("/demo/s", &["a", "b", "c"]);
    let cache =
        |query: &str| server.send(get(format!("/demo/s{query}"))).need("cache-control").to_owned();
    assert!(cache("").contains("immutable"), "it is full");
    assert!(!cache("?offset=2").contains("immutable"), "it ends at the tail");
    let full = server.send(get("/demo/s")).expect(200);
    server.append("/demo/s", "text/plain", "d");
    let again = server.send(get("/demo/s")).expect(200);
    assert_eq!((&full.body, full.need("etag")), (&again.body, again.need("etag")));
    server.send(post("/demo/s").header("Stream-Closed", "true")).expect(204);
    assert!(cache("?offset=2").contains("immutable"), "nothing follows any more");
}
