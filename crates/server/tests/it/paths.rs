//! Addresses (`extensions.md` §1): how a path is read, on all three surfaces.

use crate::support::{BOTH, Headwater, SURFACES, delete, get, head, post, put, request};

/// A name that is legal on every surface, and what comes back of it in a path.
const ODD_NAMES: [(&str, &str); 9] = [
    ("snapshot", "snapshot"),
    ("bootstrap", "bootstrap"),
    ("retention", "retention"),
    ("-1", "-1"),
    ("now", "now"),
    ("a%20b", "a%20b"),
    ("%3F%25%23", "%3F%25%23"),
    ("%F0%9F%9A%80", "%F0%9F%9A%80"),
    // A plus is a plus in a path, and needs no escape.
    ("a+b", "a+b"),
];

#[test]
fn odd_names_are_names_and_come_back_encoded() {
    let server = Headwater::start();
    for prefix in ["/ds/demo", "/demo", "/v1/stream/x"] {
        for (name, encoded) in ODD_NAMES {
            let path = format!("{prefix}/{name}");
            let created = server.send(put(&path).text("hi"));
            assert!(matches!(created.status, 200 | 201), "{created:?}");
            assert_eq!(server.send(get(&path)).expect(200).text(), "hi");
            if let Some(location) = created.header("location") {
                assert_eq!(location, format!("http://{}{prefix}/{encoded}", server.host()));
            }
        }
    }
}

#[test]
fn a_segment_is_decoded_exactly_once() {
    let server = Headwater::start();
    for prefix in ["/demo", "/v1/stream"] {
        server.create(&format!("{prefix}/%61b"), "text/plain", "one");
        assert_eq!(server.send(get(format!("{prefix}/ab"))).expect(200).text(), "one");
        // %2561b is the name "%61b", which is another stream.
        server.send(get(format!("{prefix}/%2561b"))).problem(404, "STREAM_NOT_FOUND");
        server.create(&format!("{prefix}/%2561b"), "text/plain", "two");
        assert_eq!(server.send(get(format!("{prefix}/ab"))).expect(200).text(), "one");
    }
}

#[test]
fn a_path_that_cannot_be_read_is_400_on_every_surface() {
    let server = Headwater::start();
    for path in [
        "/demo/",
        "/ds/demo/",
        "/ds/demo/s/",
        "/demo//s",
        "//demo/s",
        "/v1/stream/",
        "/v1/stream/a/",
        "/v1/stream/a//b",
        "/demo/a%2Fb",
        "/ds/demo/a%2fb",
        "/v1/stream/a%2Fb",
        "/demo/%",
        "/demo/%4",
        "/ds/demo/%zz",
        "/v1/stream/%G0",
        "/demo/%FF",
        "/v1/stream/%C3",
        "/demo/s/snapshot/",
        "/v1/stream/a/~/snapshot/",
    ] {
        for method in ["GET", "PUT", "POST", "DELETE"] {
            server.send(request(method, path).text("x")).problem(400, "INVALID_PATH");
        }
    }
}

#[test]
fn an_unknown_sub_resource_is_404_also_on_a_stream_that_exists() {
    let server = Headwater::start();
    for (stream, below) in SURFACES {
        let stream = if below.is_empty() { format!("{stream}/s") } else { stream.to_owned() };
        server.send(put(&stream).text("x"));
        for rest in ["nothing", "snapshot/1/2", "retention/1/2", "bootstrap/x", "streams"] {
            for method in ["GET", "PUT", "DELETE"] {
                let path = format!("{stream}{below}/{rest}");
                server.send(request(method, path).text("x")).problem(404, "NOT_FOUND");
            }
        }
    }
    server.create("/v1/stream/deep", "text/plain", "x");
    server.send(get("/v1/stream/deep/~")).problem(404, "NOT_FOUND");
    server.send(get("/v1/other/x")).problem(404, "NOT_FOUND");
    server.send(get("/-/nothing")).problem(404, "NOT_FOUND");
}

#[test]
fn the_base_surface_has_rules_of_its_own() {
    let server = Headwater::start();
    let longest = "x".repeat(1024);
    for good in ["a", "a/b/c/d/e/f", "..a", "a..b", "x/__ds", "~a", &longest] {
        server.create(&format!("/v1/stream/{good}"), "text/plain", "");
    }
    let too_long = "x".repeat(1025);
    for bad in [".", "..", "a/../b", "a/./b", "%2E%2E", "a%00", &too_long] {
        server.send(put(format!("/v1/stream/{bad}")).text("")).problem(400, "INVALID_STREAM_ID");
    }
    server.send(put("/v1/stream/~").text("")).expect(400);
    // `__ds` is the subscription API's.
    let reserved = server.send(put("/v1/stream/__ds/x").text("")).problem(404, "NOT_FOUND");
    assert_eq!(reserved.value()["error"]["code"], "NOT_FOUND");
    assert!(reserved.value()["error"]["message"].is_string());
}

#[test]
fn the_base_surface_is_a_name_space_of_its_own() {
    let server = Headwater::start();
    server.create("/v1/stream/demo/s", "text/plain", "base");
    server.send(get("/demo/s")).problem(404, "STREAM_NOT_FOUND");
    server.create("/demo/s", "text/plain", "bucket");
    assert_eq!(server.send(get("/v1/stream/demo/s")).expect(200).text(), "base");
    // The two other surfaces are one.
    assert_eq!(server.send(get("/ds/demo/s")).expect(200).text(), "bucket");
    server.send(put("/ds/demo/s").text("")).expect(200);
    server.send(put("/demo")).problem(409, "BUCKET_EXISTS");
    server.send(delete("/ds/demo/s")).expect(204);
    server.send(get("/demo/s")).problem(404, "STREAM_NOT_FOUND");
}

#[test]
fn bucket_ids_need_four_characters_so_that_short_segments_stay_free() {
    let server = Headwater::start();
    for bad in ["/a", "/abc", "/Abcd", "/ab.d", "/%20abcd", "/caf%C3%A9"] {
        server.send(put(bad)).problem(400, "INVALID_BUCKET_ID");
        server.send(put(format!("{bad}/s")).text("")).problem(400, "INVALID_BUCKET_ID");
        server.send(put(format!("/ds{bad}/s")).text("")).problem(400, "INVALID_BUCKET_ID");
    }
    server.send(put("/ds")).problem(400, "INVALID_BUCKET_ID");
    // An id may be escaped, like any segment.
    server.send(put("/%61bcd")).expect(201);
    server.send(get("/abcd")).expect(200);
}

#[test]
fn an_id_of_a_stream_and_its_bucket_have_122_bytes_on_both_surfaces() {
    let server = Headwater::start();
    for (index, prefix) in BOTH.into_iter().enumerate() {
        let fits = format!("{index}").repeat(117);
        server.create(&format!("{prefix}/{fits}"), "text/plain", "");
        server.send(put(format!("{prefix}/{fits}x")).text("")).problem(400, "INVALID_STREAM_ID");
        for method in ["PUT", "POST", "DELETE", "PATCH"] {
            let listing = request(method, format!("{prefix}/streams")).text("x");
            server.send(listing).problem(400, "INVALID_STREAM_ID");
        }
        server.send(get(format!("{prefix}/streams"))).expect(200);
        server.send(head(format!("{prefix}/streams"))).expect(200);
        // An escaped `streams` is the same segment.
        server.send(put(format!("{prefix}/str%65ams")).text("")).problem(400, "INVALID_STREAM_ID");
        // What belongs to a stream of that name does not exist either.
        server.send(get(format!("{prefix}/streams/bootstrap"))).problem(400, "INVALID_STREAM_ID");
    }
}

#[test]
fn a_location_names_the_surface_that_the_request_came_in_on() {
    let server = Headwater::start();
    for (stream, below) in SURFACES {
        let stream = if below.is_empty() { format!("{stream}/ü s") } else { stream.to_owned() };
        let stream = stream.replace('ü', "%C3%BC").replace(' ', "%20");
        server.send(put(&stream).text("a"));
        let published = server.send(put(format!("{stream}{below}/snapshot/1")).text("x"));
        published.expect(204);
        let redirect = server.send(get(format!("{stream}{below}/snapshot"))).expect(307);
        let expected = format!("{stream}{below}/snapshot/00000000000000000001");
        assert_eq!(redirect.need("location"), expected);
        assert_eq!(server.send(get(redirect.need("location"))).expect(200).text(), "x");
    }
}

#[test]
fn a_public_url_is_the_base_of_locations() {
    let server = Headwater::with(|config| config.public_url = Some("https://x.example/p/".into()));
    let created = server.create("/demo/s", "text/plain", "");
    assert_eq!(created.need("location"), "https://x.example/p/demo/s");
    let bucket = server.send(put("/other")).expect(201);
    assert_eq!(bucket.need("location"), "https://x.example/p/other");
}

#[test]
fn plus_is_a_space_in_a_query_and_a_plus_in_a_path() {
    let server = Headwater::start();
    server.create("/demo/a+b", "text/plain", "");
    server.create("/demo/a%20c", "text/plain", "");
    let names = |query: &str| {
        let page = server.send(get(format!("/demo/streams?prefix={query}"))).expect(200).value();
        page["streams"]
            .as_array()
            .unwrap()
            .iter()
            .map(|s| s["stream_id"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(names("a+"), ["a c"]);
    assert_eq!(names("a%20"), ["a c"]);
    assert_eq!(names("a%2B"), ["a+b"]);
}

#[test]
fn a_known_parameter_twice_is_400_and_an_unknown_one_is_ignored() {
    let server = Headwater::start();
    server.text_stream("/demo/s", &["a"]);
    for twice in [
        "/demo/s?offset=-1&offset=-1",
        "/demo/s?offset=-1&live=sse&live=sse",
        "/demo/s?offset=-1&cursor=1&cursor=1",
        "/demo/s?offs%65t=-1&offset=-1",
        "/demo/streams?prefix=a&prefix=a",
        "/demo/streams?limit=1&limit=1",
        "/-/buckets?after=a&after=b",
    ] {
        server.send(get(twice)).problem(400, "INVALID_QUERY");
    }
    server.send(get("/demo/s?offset=-1&x=1&x=2&limit=3")).expect(200);
    server.send(get("/demo/s?offset=%zz")).problem(400, "INVALID_QUERY");
    server.send(get("/demo/s?live=push&offset=-1")).problem(400, "INVALID_QUERY");
}

#[test]
fn the_servers_own_addresses_answer() {
    let server = Headwater::start();
    let version = server.send(get("/")).expect(200).value();
    assert!(version["name"].is_string() && version["version"].is_string());
    for path in ["/-/healthz", "/-/readyz", "/-/version", "/-/buckets", "/-/streams"] {
        server.send(get(path)).expect(200);
        assert_eq!(server.send(head(path)).expect(200).body, b"");
        server.send(post(path).text("x")).problem(405, "METHOD_NOT_ALLOWED");
    }
}
