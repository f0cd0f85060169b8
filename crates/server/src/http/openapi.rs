//! `GET /-/openapi.json`: the interface as `OpenAPI` 3.1, made from [`ROUTES`] when it is first
//! asked for. What a route takes and gives is said here once for each [`Verb`]; a verb without a
//! description does not compile.

use std::sync::LazyLock;

use bytes::Bytes;
use http::{Method, StatusCode, header};
use serde_json::{Map, Value, json};

use super::body::Body;
use super::respond::{self, Reply};
use super::routes::{Need, ROUTES, Route, Spot, Verb};

static DOCUMENT: LazyLock<Bytes> = LazyLock::new(|| document().to_string().into());

pub(super) fn get() -> Reply {
    let mut reply = respond::status(StatusCode::OK);
    *reply.body_mut() = Body::Full(DOCUMENT.clone());
    let headers = reply.headers_mut();
    headers.insert(header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, respond::NO_STORE);
    reply
}

fn document() -> Value {
    let mut paths = Map::new();
    for route in ROUTES {
        for template in templates(route.at) {
            let item = paths.entry(template.path.clone()).or_insert_with(|| json!({}));
            item[route.method.as_str().to_ascii_lowercase()] = operation(route, &template);
            let has_head = ROUTES.iter().any(|r| r.at == route.at && r.method == Method::HEAD);
            if route.method == Method::GET && !has_head {
                item["head"] = head_of(&item["get"]);
            }
        }
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Headwater",
            "description": "Durable streams over plain HTTP: the Durable Streams base protocol \
                under /v1/stream, and buckets, snapshots, retention, bootstrap, records, \
                batches.",
            "version": env!("CARGO_PKG_VERSION"),
            "license": { "name": "MIT", "identifier": "MIT" },
        },
        "paths": paths,
        "components": {
            "securitySchemes": {
                "bearer": { "type": "http", "scheme": "bearer" },
                "link": { "type": "apiKey", "in": "query", "name": "token" },
            },
            "schemas": { "Problem": problem() },
        },
    })
}

/// An address as `OpenAPI` writes it.
struct Template {
    path: String,
    /// Tells operations with the same verb apart.
    surface: &'static str,
    parameters: Vec<Value>,
}

/// Where a place is to be found, once for each surface that has it.
fn templates(at: Spot) -> Vec<Template> {
    let fixed =
        |path: &str| vec![Template { path: path.to_owned(), surface: "", parameters: Vec::new() }];
    let of_bucket = |rest: &str| {
        let surfaces = [("", ""), ("/ds", "Ds")];
        let template = |(prefix, surface)| Template {
            path: format!("{prefix}/{{bucket}}{rest}"),
            surface,
            parameters: vec![bucket()],
        };
        surfaces.map(template).into()
    };
    let of_stream = |rest: &str| {
        let offset = rest.contains("{offset}").then(offset);
        let mut all: Vec<Template> = of_bucket(&format!("/{{stream}}{rest}"));
        let mark = if rest.is_empty() { "" } else { "/~" };
        all.push(Template {
            path: format!("/v1/stream/{{path}}{mark}{rest}"),
            surface: "Base",
            parameters: vec![path(
                "path",
                "Any depth of segments; a slash stands for itself.",
                1024,
            )],
        });
        for template in &mut all {
            if template.surface != "Base" {
                template.parameters.push(path("stream", "The stream's id.", 122));
            }
            template.parameters.extend(offset.clone());
        }
        all
    };
    match at {
        Spot::Root => fixed("/"),
        Spot::Health => fixed("/-/healthz"),
        Spot::Ready => fixed("/-/readyz"),
        Spot::Version => fixed("/-/version"),
        Spot::OpenApi => fixed("/-/openapi.json"),
        Spot::Metrics => fixed("/-/metrics"),
        Spot::Buckets => fixed("/-/buckets"),
        Spot::BaseStreams => fixed("/-/streams"),
        Spot::Keys => fixed("/-/keys"),
        Spot::Key => vec![Template {
            path: "/-/keys/{key_id}".to_owned(),
            surface: "",
            parameters: vec![path("key_id", "16 hexadecimal digits.", 16)],
        }],
        Spot::Bucket => of_bucket(""),
        Spot::Listing => of_bucket("/streams"),
        Spot::Stream => of_stream(""),
        Spot::Snapshot => of_stream("/snapshot"),
        Spot::SnapshotAt => of_stream("/snapshot/{offset}"),
        Spot::Retention => of_stream("/retention"),
        Spot::RetentionAt => of_stream("/retention/{offset}"),
        Spot::Bootstrap => of_stream("/bootstrap"),
        Spot::AppendBatch => of_stream("/append-batch"),
        Spot::Attributes => of_stream("/attrs"),
    }
}

fn bucket() -> Value {
    json!({
        "name": "bucket", "in": "path", "required": true,
        "schema": { "type": "string", "pattern": "^[a-z0-9_-]{4,64}$" },
    })
}

fn path(name: &str, description: &str, length_max: u32) -> Value {
    json!({
        "name": name, "in": "path", "required": true, "description": description,
        "schema": { "type": "string", "minLength": 1, "maxLength": length_max },
    })
}

fn offset() -> Value {
    json!({
        "name": "offset", "in": "path", "required": true, "description": "As the server gave it.",
        "schema": { "type": "string", "pattern": "^[0-9]{20}$" },
    })
}

/// What a verb takes and gives.
struct About {
    summary: &'static str,
    query: &'static [(&'static str, &'static str)],
    headers: &'static [(&'static str, &'static str)],
    /// The media type of the request's body, if it may have one.
    body: Option<&'static str>,
    /// The statuses of success, each with the media type of its body.
    success: &'static [(u16, Option<&'static str>)],
}

const NOTHING: About = About { summary: "", query: &[], headers: &[], body: None, success: &[] };
const JSON: &str = "application/json";
const ANY: &str = "*/*";
const METRICS: &str = "application/openmetrics-text";
const PAGES: &[(&str, &str)] = &[
    ("prefix", "Only names that begin with this."),
    ("after", "Only names behind this one: next_cursor of the page before."),
    ("limit", "At most so many, 1 to 1000."),
];
const READS: &[(&str, &str)] = &[
    ("offset", "Where to begin: -1, now, or a Stream-Next-Offset."),
    ("record", "Where to begin on a JSON stream: an ordinal, or now."),
    ("tail_records", "Begin so many records before the tail."),
    ("max_records", "At most so many records."),
    ("live", "long-poll or sse: wait at the tail."),
    ("cursor", "The Stream-Cursor of the last answer."),
];
const APPENDS: &[(&str, &str)] = &[
    ("stream-closed", "true closes the stream with this."),
    ("stream-seq", "The writer's own order: must rise."),
    ("stream-record-match", "Append only as this record."),
    ("producer-id", "An idempotent producer's name; comes with the next two."),
    ("producer-epoch", "Its incarnation."),
    ("producer-seq", "Its number for this append."),
];
const CREATES: &[(&str, &str)] = &[
    ("stream-ttl", "Seconds that the stream lives unused."),
    ("stream-expires-at", "When the stream ends, RFC 3339."),
    ("stream-closed", "true creates it closed."),
    ("stream-forked-from", "The path of the stream to fork."),
    ("stream-fork-offset", "Where to fork."),
    ("stream-fork-sub-offset", "Bytes or messages past that."),
    ("stream-attrs", "A JSON object of the application's."),
];

fn about(verb: Verb) -> About {
    let json_page = &[(200, Some(JSON))];
    match verb {
        Verb::Version => About { summary: "What runs here", success: json_page, ..NOTHING },
        Verb::Alive => About { summary: "Whether it runs", success: json_page, ..NOTHING },
        Verb::Ready => About {
            summary: "Whether it takes requests",
            success: &[(200, Some(JSON)), (503, Some(JSON))],
            ..NOTHING
        },
        Verb::OpenApi => About { summary: "This document", success: json_page, ..NOTHING },
        Verb::Metrics => About {
            summary: "What was counted and measured, for Prometheus",
            success: &[(200, Some(METRICS))],
            ..NOTHING
        },
        Verb::ListBuckets => {
            About { summary: "List the buckets", query: PAGES, success: json_page, ..NOTHING }
        }
        Verb::ListBase => About {
            summary: "List the streams of the base surface",
            query: PAGES,
            success: json_page,
            ..NOTHING
        },
        Verb::ListKeys => About {
            summary: "List the API keys",
            query: &PAGES[1..],
            success: json_page,
            ..NOTHING
        },
        Verb::CreateKey => About {
            summary: "Create an API key; its token is shown this once",
            body: Some(JSON),
            success: &[(201, Some(JSON))],
            ..NOTHING
        },
        Verb::RevokeKey => {
            About { summary: "Revoke an API key", success: &[(204, None)], ..NOTHING }
        }
        Verb::CreateBucket => {
            About { summary: "Create a bucket", success: &[(201, Some(JSON))], ..NOTHING }
        }
        Verb::ShowBucket => About { summary: "Show a bucket", success: json_page, ..NOTHING },
        Verb::DeleteBucket => {
            About { summary: "Delete an empty bucket", success: &[(204, None)], ..NOTHING }
        }
        Verb::List => About {
            summary: "List the streams of a bucket",
            query: PAGES,
            success: json_page,
            ..NOTHING
        },
        Verb::Create => About {
            summary: "Create a stream, with first messages if there is a body, or fork one",
            headers: CREATES,
            body: Some(ANY),
            success: &[(200, None), (201, None)],
            ..NOTHING
        },
        Verb::Append => About {
            summary: "Append to a stream, close it, or both",
            headers: APPENDS,
            body: Some(ANY),
            success: &[(200, None), (204, None)],
            ..NOTHING
        },
        Verb::Head => About { summary: "What a stream is", success: &[(200, None)], ..NOTHING },
        Verb::Read => About {
            summary: "Read from an offset: a page, a long-poll, or events as they come",
            query: READS,
            headers: &[
                ("if-none-match", "The ETag of a page that is here already."),
                ("last-event-id", "Where a browser's EventSource got to; wins over offset."),
            ],
            success: &[(200, Some(ANY)), (204, None), (304, None)],
            ..NOTHING
        },
        Verb::Delete => About { summary: "Delete a stream", success: &[(204, None)], ..NOTHING },
        Verb::Publish => About {
            summary: "Publish a snapshot of everything below an offset",
            query: &[("record", "The place as a record, where the path has no offset.")],
            headers: &[(
                "stream-snapshot-match",
                "Publish only over the snapshot with this digest.",
            )],
            body: Some(ANY),
            success: &[(204, None)],
        },
        Verb::Redirect => {
            About { summary: "Where the visible snapshot is", success: &[(307, None)], ..NOTHING }
        }
        Verb::GetSnapshot => About {
            summary: "The visible snapshot",
            headers: &[
                ("range", "One range of bytes."),
                ("if-range", "The ETag that the range is of."),
                ("if-none-match", "The ETag of what is here already."),
            ],
            success: &[(200, Some(ANY)), (206, Some(ANY)), (304, None)],
            ..NOTHING
        },
        Verb::DeleteSnapshot => About {
            summary: "Delete a snapshot that is not visible any more",
            success: &[(204, None)],
            ..NOTHING
        },
        Verb::Retain => About {
            summary: "Discard history that the snapshot covers",
            query: &[("record", "The place as a record, where the path has no offset.")],
            success: &[(204, None)],
            ..NOTHING
        },
        Verb::Bootstrap => About {
            summary: "The visible snapshot and every later message, in one answer",
            success: &[(200, Some("multipart/mixed"))],
            ..NOTHING
        },
        Verb::AppendBatch => About {
            summary: "Append many messages, each behind its length (4 bytes, big-endian)",
            headers: &APPENDS[3..],
            body: Some(ANY),
            success: &[(200, Some(JSON)), (204, None)],
            ..NOTHING
        },
        Verb::GetAttributes => {
            About { summary: "The application's attributes", success: json_page, ..NOTHING }
        }
        Verb::SetAttributes => About {
            summary: "Replace the application's attributes",
            body: Some(JSON),
            success: &[(204, None)],
            ..NOTHING
        },
    }
}

fn operation(route: &Route, template: &Template) -> Value {
    let about = about(route.verb);
    let mut parameters = template.parameters.clone();
    let optional = |place: &str, name: &str, description: &str| {
        let schema = json!({ "type": "string" });
        json!({ "name": name, "in": place, "description": description, "schema": schema })
    };
    parameters.extend(about.query.iter().map(|(name, says)| optional("query", name, says)));
    let headers = about.headers.iter();
    parameters.extend(headers.map(|(name, says)| optional("header", name, says)));
    let mut responses = Map::new();
    for (status, media) in about.success {
        responses.insert(status.to_string(), answer(*status, *media));
    }
    let problem = json!({
        "description": "Refused or failed; `code` says why.",
        "content": {
            "application/problem+json": { "schema": { "$ref": "#/components/schemas/Problem" } },
        },
    });
    responses.insert("default".to_owned(), problem);
    let method = route.method.as_str().to_ascii_lowercase();
    let mut operation = json!({
        "operationId": format!("{method}{:?}{}", route.at, template.surface),
        "summary": about.summary,
        "parameters": parameters,
        "responses": responses,
    });
    if let Some(media) = about.body {
        operation["requestBody"] = json!({ "content": { media: {} } });
    }
    if route.method == Method::HEAD {
        without_bodies(&mut operation);
    }
    operation["security"] = match route.need {
        Need::Nothing => json!([]),
        Need::Stream(headwater_core::access::Action::Read) => {
            json!([{ "bearer": [] }, { "link": [] }])
        }
        _ => json!([{ "bearer": [] }]),
    };
    operation
}

fn answer(status: u16, media: Option<&str>) -> Value {
    let reason = StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason());
    let mut answer = json!({ "description": reason.unwrap_or_default() });
    if let Some(media) = media {
        answer["content"] = json!({ media: {} });
    }
    answer
}

/// HEAD of what has a GET: the same without bodies.
fn head_of(get: &Value) -> Value {
    let mut head = get.clone();
    if let Some(id) = get["operationId"].as_str() {
        head["operationId"] = format!("head{}", id.trim_start_matches("get")).into();
    }
    without_bodies(&mut head);
    head
}

fn without_bodies(operation: &mut Value) {
    if let Some(responses) = operation["responses"].as_object_mut() {
        for response in responses.values_mut().filter_map(Value::as_object_mut) {
            response.remove("content");
        }
    }
}

/// The body of every refusal (RFC 9457).
fn problem() -> Value {
    json!({
        "type": "object",
        "required": ["type", "title", "status", "detail", "code"],
        "properties": {
            "type": { "type": "string" },
            "title": { "type": "string" },
            "status": { "type": "integer", "minimum": 400, "maximum": 599 },
            "detail": { "type": "string" },
            "code": { "type": "string", "pattern": "^[A-Z_]+$" },
            "limit": { "type": "integer" },
            "effect": { "enum": ["not-applied", "unknown"] },
        },
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use headwater_core::wire::headers;

    use super::*;

    #[test]
    fn every_route_is_described_under_a_name_of_its_own() {
        let document = document();
        let (mut ids, mut operations) = (BTreeSet::new(), 0);
        for item in document["paths"].as_object().unwrap().values() {
            for operation in item.as_object().unwrap().values() {
                operations += 1;
                let id = operation["operationId"].as_str().unwrap();
                assert!(ids.insert(id.to_owned()), "{id} is there twice");
                assert_ne!(operation["summary"], "", "{id}");
                assert!(operation["responses"].as_object().unwrap().len() > 1, "{id}");
            }
        }
        let expected: usize = ROUTES.iter().map(|route| templates(route.at).len()).sum();
        assert!(operations > expected, "HEAD comes on top");
    }

    #[test]
    fn every_request_header_of_the_protocol_is_described() {
        let text = document().to_string();
        for name in &headers::REQUEST {
            assert!(text.contains(&format!("{:?}", name.as_str())), "{name}");
        }
    }

    #[test]
    fn the_parameters_of_a_path_are_those_in_its_template() {
        let document = document();
        for (path, item) in document["paths"].as_object().unwrap() {
            let named: BTreeSet<&str> =
                path.split('{').skip(1).filter_map(|part| part.split('}').next()).collect();
            for operation in item.as_object().unwrap().values() {
                let all = operation["parameters"].as_array().unwrap();
                let in_path = all.iter().filter(|parameter| parameter["in"] == "path");
                let said: BTreeSet<&str> =
                    in_path.map(|parameter| parameter["name"].as_str().unwrap()).collect();
                assert_eq!(said, named, "{path}");
            }
        }
    }
}
