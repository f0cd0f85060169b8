//! CORS by bucket: which pages may use what, and what an answer says of it.

use headwater_server::cors::{Cors, Rule};

use crate::support::{Answer, Headwater, Request, get, head, post, put, request};

const APP: &str = "https://app.example";
const OTHER: &str = "https://other.example";

/// What nobody gets who may not look.
const CORS: [&str; 5] = [
    "access-control-allow-origin",
    "access-control-expose-headers",
    "access-control-allow-methods",
    "access-control-allow-headers",
    "access-control-max-age",
];

fn server(rules: &[&str]) -> Headwater {
    let rules = rules.iter().map(|rule| Rule::parse(rule).unwrap());
    Headwater::with(|config| config.cors = Cors::new(rules))
}

/// The answer to a request that a page of `origin` sends.
fn from(server: &Headwater, origin: &str, request: Request) -> Answer {
    server.connect().round(&request.header("Origin", origin))
}

fn preflight(path: &str) -> Request {
    request("OPTIONS", path).header("Access-Control-Request-Method", "PUT")
}

/// All values of a header, which may come more than once.
fn all<'a>(answer: &'a Answer, name: &str) -> Vec<&'a str> {
    let named = answer.headers.iter().filter(|(given, _)| given == name);
    named.flat_map(|(_, value)| value.split(", ")).collect()
}

#[test]
fn an_allowed_origin_is_echoed_and_others_get_no_cors_headers() {
    let server = server(&[&format!("demo={APP},https://second.example")]);
    for setup in [put("/demo/s").text("x"), put("/v1/stream/s").text("x")] {
        server.connect().round(&setup).expect(201);
    }
    for request in [
        get("/demo/s"),
        get("/ds/demo/s"),
        head("/demo/s"),
        post("/demo/s").text("y"),
        get("/demo/missing"),
        get("/demo"),
        get("/demo/streams"),
    ] {
        let allowed = from(&server, APP, request.clone());
        assert_eq!(allowed.need("access-control-allow-origin"), APP, "{request:?}");
        allowed.need("access-control-expose-headers");
        let refused = from(&server, OTHER, request.clone());
        assert_eq!(refused.status, allowed.status, "the server itself refuses nobody for it");
        for answer in [&refused, &server.connect().round(&request)] {
            answer.clone().lacks(&CORS);
            assert!(all(answer, "vary").contains(&"origin"), "{}", answer.shown());
        }
        assert!(all(&allowed, "vary").contains(&"origin"));
        assert_eq!(allowed.header("access-control-allow-credentials"), None);
    }
    // Other buckets have no rule.
    for path in ["/v1/stream/s", "/-/healthz", "/other"] {
        let answer = from(&server, OTHER, get(path));
        assert_eq!(answer.need("access-control-allow-origin"), "*");
        assert!(!all(&answer, "vary").contains(&"origin"));
    }
}

#[test]
fn an_origin_is_compared_whole() {
    let server = server(&[&format!("demo={APP}")]);
    for near in [
        "https://app.example.evil",
        "https://app.exampl",
        "http://app.example",
        "https://app.example:444",
        "https://APP.example",
        "https://x.app.example",
        "null",
        "*",
        "",
    ] {
        from(&server, near, get("/demo")).expect(200).lacks(&CORS);
    }
}

#[test]
fn a_preflight_is_kept_for_a_day_and_the_same_whether_anything_exists() {
    let server = server(&[&format!("demo={APP}"), &format!("gone={APP}")]);
    server.connect().round(&put("/demo/s").text("x")).expect(201);
    let paths = ["/demo/s", "/demo/missing", "/gone/s", "/demo", "/gone", "/ds/gone/s/snapshot/1"];
    for (origin, allowed) in [(APP, true), (OTHER, false)] {
        let answer = |path: &str| {
            let mut answer = from(&server, origin, preflight(path)).expect(204);
            answer.headers.retain(|(name, _)| name != "date");
            answer
        };
        let first = answer(paths[0]);
        if allowed {
            first.clone().has(&[
                ("access-control-allow-origin", APP),
                ("access-control-max-age", "86400"),
                ("vary", "origin"),
            ]);
            assert!(first.need("access-control-allow-headers").contains("stream-closed"));
        } else {
            first.clone().has(&[("vary", "origin")]).lacks(&CORS);
        }
        for path in paths {
            assert_eq!(answer(path).headers, first.headers, "{path}");
        }
    }
}

#[test]
fn the_base_surface_and_all_other_buckets_have_names_of_their_own() {
    let server = server(&[&format!("/={APP}"), &format!("*={OTHER}"), "demo=*"]);
    for (path, allowed) in [
        ("/v1/stream/a/b", Some(APP)),
        ("/-/streams", Some(APP)),
        ("/another/s", Some(OTHER)),
        ("/-/healthz", Some(OTHER)),
        ("/no%", Some(OTHER)),
        ("/demo/s", None),
    ] {
        for origin in [APP, OTHER] {
            let answer = from(&server, origin, get(path));
            let told = answer.header("access-control-allow-origin");
            match allowed {
                Some(allowed) => assert_eq!(told, (origin == allowed).then_some(allowed), "{path}"),
                None => assert_eq!(told, Some("*"), "{path}"),
            }
        }
    }
}

#[test]
fn live_events_and_shared_pages_tell_caches_what_they_depend_on() {
    let server = server(&[&format!("demo={APP}")]);
    server.connect().round(&put("/demo/s").json("[1]")).expect(201);
    let page = from(&server, APP, get("/demo/s"));
    assert_eq!(all(&page, "vary"), ["accept", "accept-encoding", "origin"]);
    let mut live = server.connect();
    live.send(&get("/demo/s?offset=-1&live=sse").header("Origin", APP));
    assert_eq!(live.answer_head().expect(200).need("access-control-allow-origin"), APP);
}
