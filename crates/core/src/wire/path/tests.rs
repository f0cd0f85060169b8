use proptest::prelude::*;

use super::*;

fn bucket(id: &str) -> BucketId {
    BucketId::parse(id).expect("a valid bucket id")
}

fn in_demo(local: &str) -> StreamName {
    StreamName::in_bucket(&bucket("demo"), local).expect("a valid stream id")
}

fn base(path: &str) -> StreamName {
    StreamName::on_base(path.split('/')).expect("a valid path")
}

fn refusal(path: &str) -> &'static str {
    match parse(path) {
        Err(PathError::Invalid(invalid)) => invalid.code,
        Err(PathError::Unknown { .. }) => "404",
        Ok(target) => panic!("{path} names {target:?}"),
    }
}

#[test]
fn the_server_has_addresses_of_its_own() {
    for (path, target) in [
        ("/", Target::Root),
        ("/-", Target::Operational("")),
        ("/-/", Target::Operational("")),
        ("/-/healthz", Target::Operational("healthz")),
        ("/%2D/console/%zz//x", Target::Operational("console/%zz//x")),
        ("/v1/stream/__ds", Target::SubscriptionApi("")),
        ("/v1/stream/__ds/jwks.json", Target::SubscriptionApi("jwks.json")),
        (
            "/v1/stream/%5F_ds/subscriptions/a/streams/b%2Fc",
            Target::SubscriptionApi("subscriptions/a/streams/b%2Fc"),
        ),
    ] {
        assert_eq!(parse(path), Ok(target), "{path}");
    }
}

#[test]
fn buckets_and_listings_are_on_two_surfaces() {
    for (prefix, surface) in [("", Surface::Root), ("/ds", Surface::Ds)] {
        let path = format!("{prefix}/demo");
        assert_eq!(parse(&path), Ok(Target::Bucket { surface, bucket: bucket("demo") }));
        let path = format!("{prefix}/d%65mo/str%65ams");
        assert_eq!(parse(&path), Ok(Target::Listing { surface, bucket: bucket("demo") }));
    }
}

#[test]
fn every_resource_is_reached_on_every_surface() {
    for (below, resource) in [
        ("", Resource::Stream),
        ("/snapshot", Resource::Snapshot),
        ("/snapshot/-1", Resource::SnapshotAt("-1".into())),
        ("/snapshot/%30%2042%0A", Resource::SnapshotAt("0 42\n".into())),
        ("/retention", Resource::Retention),
        ("/retention/00000000000000000042", Resource::RetentionAt("00000000000000000042".into())),
        ("/bootstrap", Resource::Bootstrap),
        ("/append-batch", Resource::AppendBatch),
        ("/attrs", Resource::Attributes),
    ] {
        let name = in_demo("a b");
        for (prefix, surface) in [("", Surface::Root), ("/ds", Surface::Ds)] {
            let path = format!("{prefix}/demo/a%20b{below}");
            let target = Target::Stream { surface, name: name.clone(), resource: resource.clone() };
            assert_eq!(parse(&path), Ok(target), "{path}");
        }
        let tilde = if below.is_empty() { "" } else { "/~" };
        let path = format!("/v1/stream/a%20b/c{tilde}{below}");
        let name = base("a b/c");
        assert_eq!(parse(&path), Ok(Target::Stream { surface: Surface::Base, name, resource }));
    }
}

#[test]
fn odd_stream_ids_are_legal() {
    for (raw, local) in [
        ("snapshot", "snapshot"),
        ("bootstrap", "bootstrap"),
        ("retention", "retention"),
        ("-1", "-1"),
        ("now", "now"),
        ("a+b", "a+b"),
        ("%20", " "),
        ("%3F", "?"),
        ("100%25", "100%"),
        ("%2541", "%41"),
        ("%F0%9F%99%82", "🙂"),
        ("~", "~"),
        ("__ds", "__ds"),
        (".", "."),
    ] {
        let path = format!("/demo/{raw}");
        let (name, resource) = (in_demo(local), Resource::Stream);
        assert_eq!(parse(&path), Ok(Target::Stream { surface: Surface::Root, name, resource }));
    }
    let Ok(Target::Stream { name, resource, .. }) = parse("/demo/snapshot/snapshot/snapshot")
    else {
        panic!("a stream called snapshot can have snapshots");
    };
    assert_eq!((name.local(), resource), ("snapshot", Resource::SnapshotAt("snapshot".into())));
}

#[test]
fn base_paths_take_what_is_special_elsewhere() {
    for path in ["snapshot", "a/snapshot/0", "streams", "demo/streams", "x/__ds", "ds/demo", "a~b"]
    {
        let (name, resource) = (base(path), Resource::Stream);
        let target = Target::Stream { surface: Surface::Base, name, resource };
        assert_eq!(parse(&format!("/v1/stream/{path}")), Ok(target), "{path}");
    }
    // An encoded tilde is the same segment, since a segment is what it decodes to.
    assert_eq!(parse("/v1/stream/a/%7E/attrs"), parse("/v1/stream/a/~/attrs"));
}

#[test]
fn what_cannot_be_read_is_refused() {
    for (path, code) in [
        ("", code::INVALID_PATH),
        ("*", code::INVALID_PATH),
        ("demo/x", code::INVALID_PATH),
        ("//", code::INVALID_PATH),
        ("/demo/", code::INVALID_PATH),
        ("/demo//x", code::INVALID_PATH),
        ("/demo/x/", code::INVALID_PATH),
        ("/demo/x/snapshot/", code::INVALID_PATH),
        ("/ds/", code::INVALID_PATH),
        ("/v1/stream/", code::INVALID_PATH),
        ("/v1/stream/a/", code::INVALID_PATH),
        ("/v1/stream/a/~/", code::INVALID_PATH),
        ("/demo/a%2Fb", code::INVALID_PATH),
        ("/demo/a%2fb", code::INVALID_PATH),
        ("/v1/stream/a%2Fb", code::INVALID_PATH),
        ("/demo/x/snapshot/a%2Fb", code::INVALID_PATH),
        ("/demo/%", code::INVALID_PATH),
        ("/demo/%4", code::INVALID_PATH),
        ("/demo/%4g", code::INVALID_PATH),
        ("/demo/%+1", code::INVALID_PATH),
        ("/demo/%FF", code::INVALID_PATH),
        ("/demo/x/nonsense/%", code::INVALID_PATH),
        ("/ds", code::INVALID_BUCKET_ID),
        ("/v1", code::INVALID_BUCKET_ID),
        ("/abc", code::INVALID_BUCKET_ID),
        ("/abc/x/nonsense", code::INVALID_BUCKET_ID),
        ("/Demo", code::INVALID_BUCKET_ID),
        ("/ds/abc", code::INVALID_BUCKET_ID),
        ("/ds/demo%20", code::INVALID_BUCKET_ID),
        ("/demo/a..b", code::INVALID_STREAM_ID),
        ("/demo/%2E.", code::INVALID_STREAM_ID),
        ("/demo/a%00", code::INVALID_STREAM_ID),
        ("/demo/streams/snapshot", code::INVALID_STREAM_ID),
        ("/v1/stream", code::INVALID_STREAM_ID),
        ("/v1/stream/.", code::INVALID_STREAM_ID),
        ("/v1/stream/a/%2e%2e/b", code::INVALID_STREAM_ID),
        ("/v1/stream/a%00", code::INVALID_STREAM_ID),
        ("/v1/stream/~", code::INVALID_STREAM_ID),
        ("/v1/stream/~/snapshot", code::INVALID_STREAM_ID),
    ] {
        assert_eq!(refusal(path), code, "{path}");
    }
    let long = format!("/demo/{}", "x".repeat(118));
    assert_eq!(refusal(&long), code::INVALID_STREAM_ID);
}

#[test]
fn what_does_not_exist_is_not_found() {
    for path in [
        "/demo/x/nonsense",
        "/demo/x/Snapshot",
        "/demo/x/snapshot/0/more",
        "/demo/x/bootstrap/0",
        "/demo/x/~/snapshot",
        "/ds/demo/x/append_batch",
        "/v1/streams",
        "/v1/x/y",
        "/v1/stream/a/~",
        "/v1/stream/a/~/nonsense",
        "/v1/stream/a/~/~",
        "/v1/stream/a/~/retention/0/more",
    ] {
        assert_eq!(refusal(path), "404", "{path}");
    }
}

#[test]
fn messages_never_repeat_much_of_the_input() {
    let path = format!("/demo/{}%zz", "\u{1}".repeat(1_000));
    let Err(PathError::Invalid(invalid)) = parse(&path) else { panic!("a bad escape") };
    assert!(invalid.detail.len() < 200 && invalid.detail.chars().all(|c| !c.is_control()));
}

#[test]
fn a_fork_names_a_stream_on_any_surface() {
    for (path, name) in [
        ("/demo/x", in_demo("x")),
        ("/ds/demo/a%20b", in_demo("a b")),
        ("/v1/stream/a/b", base("a/b")),
    ] {
        assert_eq!(parse_stream(path), Ok(name), "{path}");
    }
    for bad in [
        "",
        "x",
        "http://127.0.0.1/demo/x",
        "//host/demo/x",
        "/",
        "/demo",
        "/demo/streams",
        "/demo/x/snapshot",
        "/demo/x/nonsense",
        "/demo/x?offset=1",
        "/demo/x#y",
        "/demo/%zz",
        "/-/healthz",
        "/v1/stream/__ds/x",
        "/v1/stream/x/~/attrs",
    ] {
        assert_eq!(parse_stream(bad).expect_err(bad).code, code::INVALID_FORK, "{bad}");
    }
}

#[test]
fn paths_are_encoded_no_more_than_they_need() {
    let resource = Resource::SnapshotAt("00000000000000000007".into());
    for (surface, name, expected) in [
        (Surface::Root, in_demo("a:b@c"), "/demo/a:b@c/snapshot/00000000000000000007"),
        (
            Surface::Ds,
            in_demo("a b?%>é"),
            "/ds/demo/a%20b%3F%25%3E%C3%A9/snapshot/00000000000000000007",
        ),
        (Surface::Base, base("a b/c"), "/v1/stream/a%20b/c/~/snapshot/00000000000000000007"),
    ] {
        assert_eq!(encode(surface, &name, &resource), expected);
    }
    assert_eq!(encode_bucket(Surface::Ds, &bucket("demo")), "/ds/demo");
    assert_eq!(encode_bucket(Surface::Root, &bucket("demo")), "/demo");
}

fn any_resource() -> impl Strategy<Value = Resource> {
    prop_oneof![
        Just(Resource::Stream),
        Just(Resource::Snapshot),
        "[^/]{1,20}".prop_map(Resource::SnapshotAt),
        Just(Resource::Retention),
        "[^/]{1,20}".prop_map(Resource::RetentionAt),
        Just(Resource::Bootstrap),
        Just(Resource::AppendBatch),
        Just(Resource::Attributes),
    ]
}

proptest! {
    #[test]
    fn encoding_and_reading_a_stream_path_are_inverse(
        local in "[^/]{1,30}", path in "[^/]{1,9}(/[^/]{1,9}){0,3}", resource in any_resource(),
    ) {
        let in_bucket = StreamName::in_bucket(&bucket("demo"), &local).ok();
        let on_base = StreamName::on_base(path.split('/')).ok();
        for (surface, name) in
            [(Surface::Root, in_bucket.clone()), (Surface::Ds, in_bucket), (Surface::Base, on_base)]
        {
            let Some(name) = name else { continue };
            let path = encode(surface, &name, &resource);
            prop_assert!(path.bytes().all(|b| b.is_ascii_graphic() && !b"?#<>\"\\".contains(&b)));
            let target = Target::Stream { surface, name, resource: resource.clone() };
            prop_assert_eq!(parse(&path), Ok(target));
        }
    }

    #[test]
    fn any_path_can_be_read(path in "(/|%|[a-z~.-]{1,6}|%[0-9A-F]{2}|.){0,12}") {
        parse(&path).ok();
        parse(&format!("/{path}")).ok();
        parse(&format!("/v1/stream/{path}")).ok();
        parse_stream(&path).ok();
    }
}
