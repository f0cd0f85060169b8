//! Buckets and listings (`extensions.md` §3).

use serde_json::Value;

use crate::support::{
    BOTH, Headwater, delete, eventually, get, head, offset, percent_encode, post, put,
};

fn names(page: &Value, member: &str) -> Vec<String> {
    page["streams"]
        .as_array()
        .unwrap()
        .iter()
        .map(|s| s[member].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn a_bucket_is_created_told_and_deleted_on_both_surfaces() {
    let server = Headwater::start();
    for prefix in ["", "/ds"] {
        let bucket = format!("{prefix}/made");
        let created = server.send(put(&bucket)).expect(201);
        assert_eq!(created.need("location"), format!("http://{}{bucket}", server.host()));
        let body = created.value();
        assert_eq!((&body["bucket_id"], &body["streams"]), (&"made".into(), &0.into()));
        let told = server.send(get(&bucket)).expect(200).value();
        assert_eq!(told["created_at_ms"], body["created_at_ms"]);
        assert_eq!(server.send(head(&bucket)).expect(200).body, b"");
        server.send(put(&bucket)).problem(409, "BUCKET_EXISTS");
        server.send(delete(&bucket)).expect(204);
        assert_eq!(server.send(head(&bucket)).status, 404);
    }
}

#[test]
fn a_page_goes_on_exactly_where_the_last_one_ended() {
    let server = Headwater::start();
    // By bytes, not by letters: B < a < ab < é.
    let sorted = ["-", "B", "a", "a%20b", "ab", "b", "%C3%A9", "%F0%9F%9A%80"];
    for name in sorted.iter().rev() {
        server.create(&format!("/demo/{name}"), "text/plain", "");
    }
    let decoded = ["-", "B", "a", "a b", "ab", "b", "é", "🚀"];
    for surface in BOTH {
        for limit in 1..=9 {
            let (mut seen, mut after) = (Vec::new(), String::new());
            loop {
                let query = format!("{surface}/streams?limit={limit}{after}");
                let page = server.send(get(query)).expect(200).value();
                let found = names(&page, "stream_id");
                assert_eq!(page["stream_count"], found.len());
                assert!(found.len() <= limit);
                let (more, cursor) = (&page["has_more"], &page["next_cursor"]);
                assert_eq!(*more == true, !cursor.is_null());
                seen.extend(found);
                let Some(cursor) = cursor.as_str() else { break };
                assert_eq!(cursor, seen.last().unwrap());
                after = format!("&after={}", percent_encode(cursor));
            }
            assert_eq!(seen, decoded, "pages of {limit}");
        }
    }
}

#[test]
fn prefix_and_after_compose_and_need_not_exist() {
    let server = Headwater::start();
    for name in ["a", "aa", "ab", "b", "ba"] {
        server.create(&format!("/demo/{name}"), "text/plain", "");
    }
    for (query, expected, more) in [
        ("prefix=a", &["a", "aa", "ab"][..], false),
        ("prefix=a&after=a", &["aa", "ab"], false),
        ("prefix=a&after=a0", &["aa", "ab"], false),
        ("prefix=b&after=a", &["b", "ba"], false),
        ("prefix=a&after=b", &[], false),
        ("prefix=a&limit=2", &["a", "aa"], true),
        ("prefix=a&limit=3", &["a", "aa", "ab"], false),
        ("after=ab&limit=1", &["b"], true),
        ("after=zzz", &[], false),
        ("prefix=zzz", &[], false),
        ("prefix=&after=", &["a", "aa", "ab", "b", "ba"], false),
        ("limit=1000", &["a", "aa", "ab", "b", "ba"], false),
        ("limit=0001&unknown=1", &["a"], true),
    ] {
        let page = server.send(get(format!("/demo/streams?{query}"))).expect(200).value();
        assert_eq!(names(&page, "stream_id"), expected, "{query}");
        assert_eq!(page["has_more"], more, "{query}");
    }
    let page = server.send(get("/demo/streams?prefix=a%25+b")).expect(200).value();
    assert_eq!(page["prefix"], "a% b");
}

#[test]
fn a_limit_outside_1_to_1000_is_400_in_every_listing() {
    let server = Headwater::start();
    for listing in ["/demo/streams", "/ds/demo/streams", "/-/buckets", "/-/streams"] {
        for bad in ["0", "1001", "-1", "", "x", "1.0", "%2B1", "99999999999999999999"] {
            let answer = server.send(get(format!("{listing}?limit={bad}")));
            answer.problem(400, "INVALID_QUERY");
        }
        server.send(get(format!("{listing}?prefix=%FF"))).problem(400, "INVALID_QUERY");
        server.send(get(format!("{listing}?prefix=%f"))).problem(400, "INVALID_QUERY");
        server.send(get(format!("{listing}?prefix=a&prefix=b"))).problem(400, "INVALID_QUERY");
        server.send(get(format!("{listing}?limit=1000"))).expect(200);
    }
}

#[test]
fn an_entry_tells_all_there_is_to_know() {
    let server = Headwater::start();
    server.create("/demo/s", "Text/Plain; charset=utf-8", "abcd");
    server.append("/demo/s", "text/plain", "ef");
    server.publish("/demo/s/snapshot/4", "x");
    let entry = |path: &str| server.send(get(path)).expect(200).value()["streams"][0].clone();
    let before = entry("/demo/streams");
    let expected = [
        ("stream_id", Value::from("s")),
        ("status", "Open".into()),
        ("content_type", "Text/Plain; charset=utf-8".into()),
        ("tail_offset", 6.into()),
        ("snapshot_offset", 4.into()),
        ("retained_offset", 0.into()),
    ];
    for (member, value) in expected {
        assert_eq!(before[member], value);
    }
    assert_eq!(before.as_object().unwrap().len(), 8, "and the two times");
    server.send(put("/demo/s/retention/4")).expect(204);
    server.send(post("/demo/s").header("Stream-Closed", "true")).expect(204);
    let after = entry("/ds/demo/streams");
    assert_eq!((&after["status"], &after["retained_offset"]), (&"Closed".into(), &4.into()));
    assert_eq!(after["created_at_ms"], before["created_at_ms"]);
    assert!(after["last_write_at_ms"].as_u64() >= before["last_write_at_ms"].as_u64());
}

#[test]
fn counts_include_soft_deleted_streams_and_listings_do_not() {
    let server = Headwater::start();
    let count = || server.send(get("/demo")).expect(200).value()["streams"].clone();
    let listed = || names(&server.send(get("/demo/streams")).expect(200).value(), "stream_id");
    server.send(put("/other")).expect(201);
    server.text_stream("/demo/s", &["a"]);
    server.send(put("/other/f").header("Stream-Forked-From", "/demo/s")).expect(201);
    server.send(delete("/demo/s")).expect(204);
    assert_eq!((count(), listed()), (1.into(), vec![]));
    // The refusal says how many streams only forks hold.
    let refused = server.send(delete("/demo")).problem(409, "BUCKET_NOT_EMPTY");
    let detail = refused.value()["detail"].as_str().unwrap().to_owned();
    assert_eq!(detail.matches('1').count(), 2, "{detail}");
    server.send(delete("/other/f")).expect(204);
    eventually("the last fork's source is purged", || count() == 0);
    server.send(delete("/demo")).expect(204);
}

#[test]
fn expired_streams_count_and_show_nowhere() {
    let server = Headwater::start();
    server
        .send(put("/demo/a").header("Stream-Expires-At", "2001-01-01T00:00:00Z").text("x"))
        .expect(201);
    server.send(put("/demo/b").header("Stream-TTL", "0").text("x")).expect(201);
    eventually("a window of nothing passes", || server.send(head("/demo/b")).status == 404);
    assert_eq!(server.send(get("/demo")).expect(200).value()["streams"], 0);
    assert_eq!(server.send(get("/demo/streams")).expect(200).value()["stream_count"], 0);
    server.send(delete("/demo")).expect(204);
}

#[test]
fn deleting_a_bucket_takes_its_expired_streams_along() {
    let server = Headwater::start();
    for n in 0..50 {
        let past = put(format!("/demo/{n}")).header("Stream-Expires-At", "2001-01-01T00:00:00Z");
        server.send(past.text("x")).expect(201);
    }
    server.send(delete("/demo")).expect(204);
    server.send(put("/demo")).expect(201);
    assert_eq!(server.send(get("/demo")).value()["streams"], 0);
}

#[test]
fn all_buckets_are_listed_in_order() {
    let server = Headwater::start();
    for id in ["beta", "alpha", "beta-2", "a_really_long_name"] {
        server.send(put(format!("/{id}"))).expect(201);
    }
    server.create("/beta/s", "text/plain", "");
    let list = |query: &str| server.send(get(format!("/-/buckets{query}"))).expect(200).value();
    let ids = |page: &Value| -> Vec<String> {
        let buckets = page["buckets"].as_array().unwrap();
        buckets.iter().map(|b| b["bucket_id"].as_str().unwrap().to_owned()).collect()
    };
    let all = list("");
    assert_eq!(ids(&all), ["a_really_long_name", "alpha", "beta", "beta-2", "demo"]);
    assert_eq!(
        (&all["bucket_count"], &all["has_more"], &all["prefix"]),
        (&5.into(), &false.into(), &"".into())
    );
    assert!(all["next_cursor"].is_null());
    assert_eq!(all["buckets"][2]["streams"], 1);
    assert!(all["buckets"][2]["created_at_ms"].is_u64());
    let page = list("?prefix=beta&limit=1");
    assert_eq!((ids(&page), &page["next_cursor"]), (vec!["beta".to_owned()], &"beta".into()));
    assert_eq!(ids(&list("?prefix=beta&after=beta")), ["beta-2"]);
    assert_eq!(ids(&list("?after=beta-2")), ["demo"]);
}

#[test]
fn the_streams_of_the_base_surface_are_listed_by_path() {
    let server = Headwater::start();
    let list = |query: &str| server.send(get(format!("/-/streams{query}"))).expect(200).value();
    let empty = list("");
    assert_eq!((&empty["stream_count"], &empty["has_more"]), (&0.into(), &false.into()));
    for path in ["a/b", "a", "b/%20/c"] {
        server.create(&format!("/v1/stream/{path}"), "text/plain", "xy");
    }
    server.create("/demo/in-a-bucket", "text/plain", "");
    let all = list("");
    assert_eq!(names(&all, "path"), ["a", "a/b", "b/ /c"]);
    assert!(all["bucket_id"].is_null());
    let entry = &all["streams"][0];
    assert!(entry["stream_id"].is_null());
    assert_eq!((&entry["tail_offset"], &entry["status"]), (&2.into(), &"Open".into()));
    let page = list("?prefix=a&limit=1");
    assert_eq!((names(&page, "path"), &page["next_cursor"]), (vec!["a".to_owned()], &"a".into()));
    assert_eq!(names(&list("?prefix=a&after=a"), "path"), ["a/b"]);
    // The name space is no bucket that anybody could delete or list otherwise.
    assert_eq!(server.send(get("/-/buckets")).value()["bucket_count"], 1);
}

#[test]
fn no_stream_ever_lives_in_a_deleted_bucket() {
    let server = Headwater::start();
    for round in 0..20 {
        let bucket = format!("/race{round}");
        server.send(put(&bucket)).expect(201);
        let (deleted, created) = std::thread::scope(|scope| {
            let create = scope.spawn(|| server.send(put(format!("{bucket}/s")).text("x")).status);
            let deleted = server.send(delete(&bucket)).status;
            (deleted, create.join().unwrap())
        });
        match (deleted, created) {
            (204, 404) => {
                server.send(put(&bucket)).expect(201);
                server.send(get(format!("{bucket}/s"))).problem(404, "STREAM_NOT_FOUND");
            }
            (409, 201) => {
                let read = server.send(get(format!("{bucket}/s"))).expect(200);
                assert_eq!(read.next_offset(), offset(1));
            }
            other => panic!("not one after the other: {other:?}"),
        }
    }
}
