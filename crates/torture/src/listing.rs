//! Buckets: their listing, what it says of each stream, and their counts.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::audit::ask;
use crate::http::{Client, Request};
use crate::life::Tri;
use crate::log::{Checked, breach};
use crate::world::{Place, Stream, World};

/// How long purges of what forks no longer need may take.
const PURGE_PATIENCE: Duration = Duration::from_secs(5);

/// How long to wait before a count is looked at again.
const PURGE_REST: Duration = Duration::from_millis(20);

/// After all streams were looked at, and while nobody works: the listing shows exactly those that
/// are there, and the bucket counts them together with those that only forks still need.
pub fn check_bucket(world: &World, client: &mut Client, bucket: &'static str) -> Checked {
    let mut listed = listing(client, bucket)?;
    let (mut there, mut held) = (0, 0);
    let needed = world.held();
    for stream in world.streams() {
        let Place::Bucket(is, name) = &stream.place else { continue };
        if *is != bucket || stream.superseded.load(std::sync::atomic::Ordering::SeqCst) {
            continue;
        }
        match stream.ends() {
            (Tri::Yes, Tri::No) => {
                there += 1;
                let Some(entry) = listed.remove(name) else {
                    return breach!("{stream} is not listed");
                };
                check_entry(&stream, &entry)?;
            }
            (Tri::Yes, _) => held += u64::from(needed.contains(&stream.no)),
            _ => {}
        }
    }
    if let Some(name) = listed.keys().next() {
        return breach!("{name} is listed and is not there");
    }
    let mut counted = None;
    for _ in 0..PURGE_PATIENCE.as_millis() / PURGE_REST.as_millis() {
        let answer = ask(client, &Request::new("GET", format!("/{bucket}")))?;
        let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        counted = body["streams"].as_u64();
        if counted == Some(there + held) {
            return Ok(());
        }
        thread::sleep(PURGE_REST);
    }
    breach!("it counts {counted:?} streams; {there} are listed, {held} held by forks")
}

fn check_entry(stream: &Stream, entry: &Value) -> Checked {
    let ledger = stream.ledger();
    let is_closed = ledger.life.closed == Tri::Yes;
    let expected = serde_json::json!({
        "status": if is_closed { "Closed" } else { "Open" },
        "content_type": stream.form.content_type(),
        "tail_offset": ledger.log.floor(),
        "snapshot_offset": ledger.life.snapshot,
        "retained_offset": ledger.life.retained,
    });
    let expected = expected.as_object().into_iter().flatten();
    match expected.into_iter().find(|(name, value)| entry[name.as_str()] != **value) {
        Some((name, value)) => breach!("{stream} is listed as {entry}; {name} should be {value}"),
        None => Ok(()),
    }
}

fn listing(client: &mut Client, bucket: &str) -> Checked<BTreeMap<String, Value>> {
    let mut listed = BTreeMap::new();
    let mut after = String::new();
    loop {
        let path = format!("/{bucket}/streams?limit=7{after}");
        let answer = ask(client, &Request::new("GET", path))?;
        let page: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        let before = listed.len();
        for entry in page["streams"].as_array().into_iter().flatten() {
            let name = entry["stream_id"].as_str().unwrap_or_default().to_owned();
            listed.insert(name, entry.clone());
        }
        match page["next_cursor"].as_str() {
            Some(cursor) if listed.len() > before => after = format!("&after={cursor}"),
            Some(_) => return breach!("its listing stands still: {}", answer.brief()),
            None => return Ok(listed),
        }
    }
}
