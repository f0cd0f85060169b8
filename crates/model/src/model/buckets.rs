//! Buckets and the listing of their streams.

use serde_json::{Value, json};

use super::{Answer, Model, Stream, parse_number};
use crate::ask::{Ask, Body, Expect};

const LIMIT_MAX: u64 = 1000;

impl Model {
    pub(super) fn bucket(&mut self, ask: &Ask) -> Answer {
        let id = &ask.bucket;
        let there = self.buckets.get(id).copied();
        match (ask.method, ask.resource.as_str(), there) {
            ("PUT", "", Some(_)) => Err(Expect::problem(409, "BUCKET_EXISTS")),
            ("PUT", "", None) => {
                self.buckets.insert(id.clone(), self.now);
                let expect = bucket(201, id, 0, self.now);
                Ok(expect.with("location", format!("http://HOST{}", ask.home())))
            }
            (_, _, None) => Err(Expect::problem(404, "BUCKET_NOT_FOUND")),
            ("GET" | "HEAD", "", Some(created)) => Ok(bucket(200, id, self.count(id), created)),
            ("DELETE", "", Some(_)) if self.count(id) > 0 => {
                Err(Expect::problem(409, "BUCKET_NOT_EMPTY"))
            }
            ("DELETE", "", Some(_)) => {
                self.buckets.remove(id);
                Ok(Expect::empty(204))
            }
            ("GET", "streams", Some(_)) => self.list(ask),
            _ => unreachable!("nobody asks {ask}"),
        }
    }

    /// Soft-deleted streams count.
    fn count(&self, id: &str) -> usize {
        self.streams.keys().filter(|(bucket, _)| bucket == id).count()
    }

    fn list(&self, ask: &Ask) -> Answer {
        let invalid = || Expect::problem(400, "INVALID_QUERY");
        let limit = ask.param("limit").map_or(Some(LIMIT_MAX), |text| parse_number(text, 4));
        let limit = limit.filter(|limit| (1..=LIMIT_MAX).contains(limit)).ok_or_else(invalid)?;
        let limit = usize::try_from(limit).expect("a small number");
        let prefix = ask.param("prefix").unwrap_or_default();
        let mut entries: Vec<_> = self
            .streams
            .iter()
            .filter(|((bucket, id), stream)| {
                *bucket == ask.bucket
                    && !stream.deleted
                    && id.starts_with(prefix)
                    && ask.param("after").is_none_or(|after| id.as_str() > after)
            })
            .map(|((_, id), stream)| entry(id, stream))
            .collect();
        let has_more = entries.len() > limit;
        entries.truncate(limit);
        let last = entries.last().filter(|_| has_more).map(|entry| entry["stream_id"].clone());
        let mut expect = Expect::empty(200).with("content-type", "application/json");
        expect.body = Body::Json(json!({
            "bucket_id": ask.bucket,
            "prefix": prefix,
            "stream_count": entries.len(),
            "streams": entries,
            "next_cursor": last,
            "has_more": has_more,
        }));
        Ok(expect)
    }
}

fn entry(id: &str, stream: &Stream) -> Value {
    json!({
        "stream_id": id,
        "status": if stream.closed { "Closed" } else { "Open" },
        "content_type": stream.content_type,
        "tail_offset": stream.tail(),
        "created_at_ms": stream.created_at,
        "last_write_at_ms": stream.written_at,
        "snapshot_offset": stream.snapshot.as_ref().map(|snapshot| snapshot.offset),
        "retained_offset": stream.retained,
    })
}

fn bucket(status: u16, id: &str, streams: usize, created: u64) -> Expect {
    let mut expect = Expect::empty(status).with("content-type", "application/json");
    let body = json!({ "bucket_id": id, "streams": streams, "created_at_ms": created });
    expect.body = Body::Json(body);
    expect
}
