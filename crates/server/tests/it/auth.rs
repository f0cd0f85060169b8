//! Who may do what: every route with every kind of credential, keys and links, and what becomes of
//! live readers when a credential ends.

mod jwt;

use std::time::Duration;

use headwater_core::access::Scopes;
use headwater_core::ids::StreamName;
use headwater_server::auth::{RootKey, Rules, hash, sign};
use serde_json::{Value, json};

use crate::support::{
    Answer, Headwater, Request, Sse, delete, eventually, get, head, offset, post, put, request,
};

const ROOT: &str = "a-root-key-that-only-tests-have-0123456789";

fn rules() -> Rules {
    Rules { root: Some(RootKey(hash(ROOT))), ..Rules::default() }
}

fn server() -> Headwater {
    Headwater::with(|config| config.auth = Some(rules()))
}

fn bearer(request: Request, token: &str) -> Request {
    request.header("Authorization", format!("Bearer {token}"))
}

/// A new key with these scopes.
fn key(server: &Headwater, scopes: &[&str]) -> Value {
    let body = json!({ "label": "test", "scopes": scopes }).to_string();
    server.send(bearer(post("/-/keys").json(body), ROOT)).expect(201).value()
}

fn token(server: &Headwater, scopes: &[&str]) -> String {
    key(server, scopes)["token"].as_str().unwrap().to_owned()
}

fn stream(server: &Headwater, path: &str) {
    server.send(bearer(put(path).text("hello"), ROOT)).expect(201);
}

fn name(key: &str) -> StreamName {
    StreamName::from_stored(key).unwrap()
}

fn in_an_hour() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    now.as_secs() + 3600
}

/// Every route, the action that it needs, and what that is about.
fn routes() -> Vec<(Request, &'static str, About)> {
    let mut routes = vec![
        (put("/newbucket"), "admin", About::NewBucket),
        (get("/demo"), "read", About::Demo),
        (head("/demo"), "read", About::Demo),
        (delete("/empty"), "admin", About::Empty),
        (get("/demo/streams"), "read", About::Demo),
        (head("/demo/streams"), "read", About::Demo),
        (get("/-/streams"), "read", About::Base),
        (get("/-/buckets"), "read", About::Node),
        (get("/-/metrics"), "admin", About::Node),
        (get("/-/keys"), "admin", About::Node),
        (post("/-/keys").json(r#"{"scopes":["demo:read"]}"#), "admin", About::Node),
        (delete("/-/keys/0000000000000001"), "admin", About::Node),
    ];
    for (path, tilde, about) in [
        ("/demo/s", "", About::Demo),
        ("/ds/demo/s", "", About::Demo),
        ("/v1/stream/s", "/~", About::Base),
    ] {
        let at = |resource: &str| format!("{path}{tilde}/{resource}");
        routes.extend([
            (put(path).text("hello"), "create", about),
            (post(path).text("x"), "append", about),
            (get(path), "read", about),
            (head(path), "read", about),
            (get(format!("{path}?offset=now&live=long-poll")), "read", about),
            (get(at("snapshot")), "read", about),
            (put(at(&format!("snapshot/{}", offset(5)))).text("s"), "snapshot", about),
            (get(at(&format!("snapshot/{}", offset(5)))), "read", about),
            (delete(at(&format!("snapshot/{}", offset(4)))), "snapshot", about),
            (put(at(&format!("retention/{}", offset(5)))), "snapshot", about),
            (put(at("retention?record=0")), "snapshot", about),
            (get(at("bootstrap")), "read", about),
            (
                post(at("append-batch")).typed("application/octet-stream", [0, 0, 0, 1, b'x']),
                "append",
                about,
            ),
            (get(at("attrs")), "read", about),
            (put(at("attrs")).json("{}"), "create", about),
            (delete(path), "delete", about),
        ]);
    }
    routes
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum About {
    Node,
    Demo,
    Empty,
    NewBucket,
    Base,
}

impl About {
    /// Patterns that cover it.
    fn patterns(self) -> &'static [&'static str] {
        match self {
            Self::Node => &["*"],
            Self::Demo => &["*", "demo"],
            Self::Empty => &["*", "empty"],
            Self::NewBucket => &["*", "newbucket"],
            Self::Base => &["*", "/*"],
        }
    }
}

fn is_denied(answer: &Answer) -> bool {
    matches!(answer.status, 401 | 403) && !answer.text().contains("PRODUCER_FENCED")
}

#[test]
fn every_route_takes_exactly_the_credentials_that_allow_it() {
    let server = server();
    server.send(bearer(put("/empty"), ROOT)).expect(201);
    let patterns = ["*", "demo", "empty", "newbucket", "/*", "demo/other*", "other"];
    let actions = ["read", "append", "create", "delete", "snapshot", "admin"];
    let mut keys = Vec::new();
    for pattern in patterns {
        for action in actions {
            keys.push((pattern, action, token(&server, &[&format!("{pattern}:{action}")])));
        }
    }
    let mut tried = 0;
    for (request, needed, about) in routes() {
        for nobody in ["", "Bearer", "Bearer ", "Bearer hw_0000000000000001_x", "Basic YTpi", ROOT]
        {
            let request = match nobody {
                "" => request.clone(),
                value => request.clone().header("Authorization", value),
            };
            let answer = server.send(request.clone());
            assert_eq!(answer.status, 401, "{request:?} with {nobody:?}");
            assert!(answer.need("www-authenticate").starts_with("Bearer"));
            tried += 1;
        }
        for (pattern, action, token) in &keys {
            let answer = server.send(bearer(request.clone(), token));
            let covered = about.patterns().contains(pattern);
            let allowed = covered && (*action == needed || *action == "admin");
            let shown = format!("{request:?} with {pattern}:{action}: {}", answer.status);
            assert_eq!(is_denied(&answer), !allowed, "{shown}");
            assert!(allowed || answer.status == 403, "{shown}");
            tried += 1;
        }
    }
    assert!(tried > 2_500, "{tried}");
}

#[test]
fn what_tells_nothing_needs_no_credential() {
    let server = server();
    for path in ["/", "/-/healthz", "/-/readyz", "/-/version"] {
        server.send(get(path)).expect(200);
    }
    server.send(request("OPTIONS", "/demo/s")).expect(204);
    for path in ["/-/nothing", "/-/keys/a/b"] {
        server.send(get(path)).expect(404);
    }
    server.send(post("/demo")).problem(405, "METHOD_NOT_ALLOWED");
}

#[test]
fn a_key_is_shown_once_and_outlives_a_restart() {
    let mut server = server();
    let created = key(&server, &["demo:read"]);
    let token = created["token"].as_str().unwrap();
    stream(&server, "/demo/s");
    server.restart();
    server.send(bearer(get("/demo/s"), token)).expect(200);
    let listed = server.send(bearer(get("/-/keys"), ROOT)).expect(200);
    assert!(!listed.text().contains("token") && !listed.text().contains(&token[20..]));
    let row = &listed.value()["keys"][0];
    assert_eq!(row["key_id"], created["key_id"]);
    assert_eq!(row["scopes"], json!(["demo:read"]));
    assert_eq!((row["label"].as_str(), row["expired"].as_bool()), (Some("test"), Some(false)));
    assert_eq!(listed.value()["key_count"], 1);
}

#[test]
fn a_revoked_key_opens_nothing_any_more() {
    let mut server = server();
    stream(&server, "/demo/s");
    let created = key(&server, &["demo:read"]);
    let token = created["token"].as_str().unwrap();
    let path = format!("/-/keys/{}", created["key_id"].as_str().unwrap());
    server.send(bearer(get("/demo/s"), token)).expect(200);
    server.send(bearer(delete(&path), ROOT)).expect(204);
    server.send(bearer(delete(&path), ROOT)).problem(404, "KEY_NOT_FOUND");
    server.send(bearer(get("/demo/s"), token)).problem(401, "INVALID_CREDENTIAL");
    server.restart();
    server.send(bearer(get("/demo/s"), token)).problem(401, "INVALID_CREDENTIAL");
}

#[test]
fn a_key_ends_when_it_was_said_to() {
    let server = server();
    stream(&server, "/demo/s");
    let body = r#"{"scopes":["demo:read"],"expires_in_seconds":1}"#;
    let created = server.send(bearer(post("/-/keys").json(body), ROOT)).expect(201).value();
    let token = created["token"].as_str().unwrap();
    assert!(created["expires_at_ms"].as_u64() > created["created_at_ms"].as_u64());
    server.send(bearer(get("/demo/s"), token)).expect(200);
    eventually("the key is over", || server.send(bearer(get("/demo/s"), token)).status == 401);
    let listed = server.send(bearer(get("/-/keys"), ROOT)).value();
    assert_eq!(listed["keys"][0]["expired"], true);
}

#[test]
fn keys_are_listed_by_pages() {
    let server = server();
    let mut ids: Vec<Value> = (0..5).map(|_| key(&server, &["*:read"])["key_id"].clone()).collect();
    ids.sort_by_key(|id| id.as_str().unwrap().to_owned());
    let (mut found, mut after) = (Vec::new(), String::new());
    loop {
        let page = server.send(bearer(get(format!("/-/keys?limit=2{after}")), ROOT)).value();
        found.extend(page["keys"].as_array().unwrap().iter().map(|row| row["key_id"].clone()));
        if page["has_more"] == false {
            break;
        }
        after = format!("&after={}", page["next_cursor"].as_str().unwrap());
    }
    assert_eq!(found, ids);
}

#[test]
fn what_is_no_key_is_refused() {
    let server = server();
    for body in [
        "",
        "[]",
        "{}",
        r#"{"scopes":[]}"#,
        r#"{"scopes":"*:read"}"#,
        r#"{"scopes":["*:fly"]}"#,
        r#"{"scopes":[1]}"#,
        r#"{"scopes":["*:read *:admin"]}"#,
        r#"{"scopes":["*:read"],"x":1}"#,
        r#"{"scopes":["*:read"],"label":7}"#,
        r#"{"scopes":["*:read"],"expires_in_seconds":0}"#,
        r#"{"scopes":["*:read"],"expires_in_seconds":-1}"#,
    ] {
        server.send(bearer(post("/-/keys").json(body), ROOT)).problem(400, "INVALID_KEY");
    }
}

#[test]
fn a_fork_needs_its_source_as_well() {
    let server = server();
    stream(&server, "/demo/source");
    let fork = |token: &str| {
        let request = put("/demo/fork").header("Stream-Forked-From", "/demo/source");
        server.send(bearer(request, token))
    };
    fork(&token(&server, &["demo/fork:create"])).problem(403, "FORBIDDEN");
    fork(&token(&server, &["demo/source:read"])).problem(403, "FORBIDDEN");
    fork(&token(&server, &["demo/fork:create", "demo/source:read"])).expect(201);
}

#[test]
fn a_prefix_lists_what_it_covers() {
    let server = server();
    let token = token(&server, &["demo/doc-*:read"]);
    let list = |prefix: &str| {
        server.send(bearer(get(format!("/demo/streams?prefix={prefix}")), &token)).status
    };
    assert_eq!((list("doc-"), list("doc-1"), list("doc"), list("")), (200, 200, 403, 403));
    // What a percent escape hides is seen.
    assert_eq!((list("%64oc-"), list("%64og")), (200, 403));
}

#[test]
fn names_cannot_be_spelled_around_a_scope() {
    let server = server();
    stream(&server, "/demo/secret");
    let token = token(&server, &["demo/open*:read", "/demo/secret:read"]);
    for path in [
        "/demo/secret",
        "/ds/demo/secret",
        "/demo/%73ecret",
        "/%64emo/secret",
        "/ds/demo/secre%74",
        "/demo/open%2F..%2Fsecret",
        "/demo/open/../secret",
        "//demo/secret",
        "/demo/secret/",
        "/demo/./secret",
        "/v1/stream/../../demo/secret",
    ] {
        let answer = server.send(bearer(get(path), &token));
        assert!(answer.status >= 400, "{path}");
        assert!(!answer.text().contains("hello"), "{path}");
    }
}

#[test]
fn what_a_credential_may_not_touch_can_look_as_if_it_were_not_there() {
    let rules = Rules { conceal: true, ..rules() };
    let server = Headwater::with(|config| config.auth = Some(rules));
    stream(&server, "/demo/s");
    let token = token(&server, &["other:admin", "demo/mine:read"]);
    for path in ["/demo/s", "/demo/missing", "/ds/demo/s", "/nobucket/s"] {
        let hidden = server.send(bearer(get(path), &token)).problem(404, "STREAM_NOT_FOUND");
        let missing = server.send(bearer(get("/v1/stream/missing"), ROOT));
        assert_eq!(hidden.text(), missing.problem(404, "STREAM_NOT_FOUND").text(), "{path}");
        server.send(bearer(post(path).text("x"), &token)).problem(404, "STREAM_NOT_FOUND");
    }
    server.send(bearer(get("/demo"), &token)).problem(404, "BUCKET_NOT_FOUND");
    // What it may touch is not hidden from it.
    server.send(bearer(post("/demo/mine").text("x"), &token)).problem(403, "FORBIDDEN");
    server.send(bearer(get("/-/keys"), &token)).problem(403, "FORBIDDEN");
}

#[test]
fn anonymous_scopes_are_for_everybody_and_no_more() {
    let anonymous = Scopes::parse("demo/open*:read").unwrap();
    let rules = Rules { anonymous, ..rules() };
    let server = Headwater::with(|config| config.auth = Some(rules));
    stream(&server, "/demo/open-1");
    stream(&server, "/demo/closed");
    server.send(get("/demo/open-1")).expect(200);
    server.send(get("/demo/closed")).problem(401, "UNAUTHORIZED");
    server.send(post("/demo/open-1").text("x")).problem(401, "UNAUTHORIZED");
    // A credential that is no good is not as good as none.
    server.send(bearer(get("/demo/open-1"), "nonsense")).problem(401, "INVALID_CREDENTIAL");
}

#[test]
fn a_link_reads_its_stream_and_nothing_else() {
    let server = server();
    stream(&server, "/demo/a_b");
    stream(&server, "/demo/other");
    server
        .send(bearer(put(format!("/demo/a_b/snapshot/{}", offset(5))).text("s"), ROOT))
        .expect(204);
    let token = token(&server, &["demo:read,append"]);
    let link = sign(&token, &name("demo/a_b"), in_an_hour()).unwrap();
    let ask = |request: Request| server.send(request);
    for path in ["/demo/a_b", "/ds/demo/a_b"] {
        ask(get(format!("{path}?token={link}"))).expect(200);
        ask(head(format!("{path}?token={link}"))).expect(200);
        ask(get(format!("{path}?offset=-1&token={link}"))).expect(200);
        ask(get(format!("{path}/bootstrap?token={link}"))).expect(200);
        let redirect = ask(get(format!("{path}/snapshot?token={link}"))).expect(307);
        ask(get(redirect.need("location"))).expect(200);
        ask(post(format!("{path}?token={link}")).text("x")).problem(403, "FORBIDDEN");
        ask(delete(format!("{path}?token={link}"))).problem(403, "FORBIDDEN");
    }
    for path in ["/demo/other", "/demo/a_b2", "/v1/stream/demo/a_b", "/demo", "/demo/streams"] {
        ask(get(format!("{path}?token={link}"))).problem(403, "FORBIDDEN");
    }
    ask(get(format!("/demo/a_b?token={link}0"))).problem(401, "INVALID_CREDENTIAL");
    ask(get(format!("/demo/a_b?token={token}"))).problem(401, "INVALID_CREDENTIAL");
    let over = sign(&token, &name("demo/a_b"), 1_000).unwrap();
    ask(get(format!("/demo/a_b?token={over}"))).problem(401, "INVALID_CREDENTIAL");
}

#[test]
fn a_link_may_do_no_more_than_its_key_and_ends_with_it() {
    let server = server();
    stream(&server, "/demo/s");
    let writer = token(&server, &["demo:append"]);
    let link = sign(&writer, &name("demo/s"), in_an_hour()).unwrap();
    server.send(get(format!("/demo/s?token={link}"))).problem(403, "FORBIDDEN");
    let reader = key(&server, &["demo:read"]);
    let link = sign(reader["token"].as_str().unwrap(), &name("demo/s"), in_an_hour()).unwrap();
    server.send(get(format!("/demo/s?token={link}"))).expect(200);
    let id = reader["key_id"].as_str().unwrap();
    server.send(bearer(delete(format!("/-/keys/{id}")), ROOT)).expect(204);
    server.send(get(format!("/demo/s?token={link}"))).problem(401, "INVALID_CREDENTIAL");
}

#[test]
fn a_live_reader_ends_when_its_key_is_revoked() {
    let server = Headwater::with(|config| {
        config.auth = Some(rules());
        config.sse_max_duration = Duration::from_mins(1);
        config.long_poll_timeout = Duration::from_mins(1);
    });
    stream(&server, "/demo/s");
    let created = key(&server, &["demo:read"]);
    let other = token(&server, &["demo:read"]);
    let reader_token = created["token"].as_str().unwrap();
    let link = sign(reader_token, &name("demo/s"), in_an_hour()).unwrap();
    let mut sse = Sse::open(server.connect(), &format!("/demo/s?offset=-1&live=sse&token={link}"));
    assert_eq!(sse.pair().0, "hello");
    let mut poll = server.connect();
    poll.send(&bearer(get("/demo/s?offset=now&live=long-poll"), reader_token));
    let mut stays =
        Sse::open_with(server.connect(), &bearer(get("/demo/s?offset=-1&live=sse"), &other));
    assert_eq!(stays.pair().0, "hello");
    let id = created["key_id"].as_str().unwrap();
    server.send(bearer(delete(format!("/-/keys/{id}")), ROOT)).expect(204);
    assert_eq!(poll.answer("GET").status, 204);
    sse.ends();
    server.send(bearer(post("/demo/s").text("more"), ROOT)).expect(204);
    assert_eq!(stays.pair().0, "more");
}

#[test]
fn a_live_reader_ends_with_its_link() {
    let server = Headwater::with(|config| {
        config.auth = Some(rules());
        config.sse_max_duration = Duration::from_mins(1);
    });
    stream(&server, "/demo/s");
    let token = token(&server, &["demo:read"]);
    let link = sign(&token, &name("demo/s"), in_an_hour() - 3600 + 2).unwrap();
    let mut sse = Sse::open(server.connect(), &format!("/demo/s?offset=-1&live=sse&token={link}"));
    assert_eq!(sse.pair().0, "hello");
    sse.ends();
}

#[test]
fn with_credentials_no_answer_is_for_a_shared_cache() {
    let server = server();
    server
        .send(bearer(put("/demo/s").text("hello").header("Stream-Closed", "true"), ROOT))
        .expect(201);
    for path in
        ["/demo/s", "/demo/s?offset=-1", "/demo/s?offset=now", "/demo", "/demo/streams", "/"]
    {
        let answer = server.send(bearer(get(path), ROOT)).expect(200);
        let kept = answer.need("cache-control");
        assert!(kept.contains("private") || kept.contains("no-store"), "{path}: {kept}");
        assert!(!kept.contains("public"), "{path}: {kept}");
    }
}

#[test]
fn a_server_that_everybody_can_reach_asks_for_credentials() {
    let config = |change: &dyn Fn(&mut headwater_server::config::Config)| {
        let server = Headwater::start();
        let mut config = server.config();
        drop(server);
        config.listen = "0.0.0.0:0".parse().unwrap();
        change(&mut config);
        headwater_server::Server::start(config)
    };
    let refused = config(&|_| {}).unwrap_err();
    assert!(refused.to_string().contains("--insecure"), "{refused}");
    assert_eq!(refused.exit_code(), 2);
}

#[test]
fn a_browser_that_comes_back_reads_on_where_it_was() {
    let server = Headwater::start();
    server.text_stream("/demo/s", &["one", "two"]);
    let target = "/demo/s?offset=-1&live=sse";
    let come_back = |last: &str| {
        let request = get(target).header("Last-Event-ID", last);
        Sse::open_with(server.connect(), &request)
    };
    assert_eq!(come_back(&offset(3)).pair().0, "two");
    assert_eq!(come_back("").pair().0, "onetwo");
    let request = get(target).header("Last-Event-ID", "x");
    server.send(request).problem(400, "INVALID_OFFSET");
    // Other reads know no such header.
    let request = get("/demo/s?offset=-1").header("Last-Event-ID", offset(3));
    assert_eq!(server.send(request).expect(200).text(), "onetwo");
}
