//! What the core answered, as text.

use headwater_core::command::{AppendReceipt, CreateReceipt, Receipt};
use headwater_core::ids::{Offset, Record};
use headwater_core::refusal::Refusal;
use headwater_core::state::{Life, Snapshot};
use headwater_core::stream::read::Facts;

use crate::world::{Message, Outcome};

/// The words for all receipts, as [`receipt_word`] gives them.
pub(super) const RECEIPTS: [&str; 11] = [
    "done",
    "nothing to do",
    "bucket created",
    "stream created",
    "stream exists",
    "appended",
    "append repeated",
    "published",
    "publish repeated",
    "retained",
    "retention repeated",
];

pub(super) fn receipt_word(receipt: &Receipt, wrote: bool) -> &'static str {
    match receipt {
        Receipt::Done if wrote => "done",
        Receipt::Done => "nothing to do",
        Receipt::BucketCreated { .. } => "bucket created",
        Receipt::Created(created) if created.fresh => "stream created",
        Receipt::Created(_) => "stream exists",
        Receipt::Appended(appended) if appended.repeated => "append repeated",
        Receipt::Appended(_) => "appended",
        Receipt::Published(_) if wrote => "published",
        Receipt::Published(_) => "publish repeated",
        Receipt::Retained { .. } if wrote => "retained",
        Receipt::Retained { .. } => "retention repeated",
    }
}

pub(super) fn outcome(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Wrote(receipt) => self::receipt(receipt, "ok"),
        Outcome::Repeated(receipt) => self::receipt(receipt, "again"),
        Outcome::Refused(refusal) => self::refusal(refusal),
    }
}

fn receipt(receipt: &Receipt, word: &str) -> String {
    match receipt {
        Receipt::Done => word.to_owned(),
        Receipt::BucketCreated { at } => format!("{word} created_at_ms={}", at.0),
        Receipt::Created(created) => self::created(created),
        Receipt::Appended(appended) => self::appended(appended, word),
        Receipt::Published(published) => format!(
            "{word} {} tail={} retained={}",
            snapshot(&published.snapshot),
            published.tail.0,
            published.retained.0
        ),
        Receipt::Retained { retained } => format!("{word} retained={}", retained.0),
    }
}

fn created(created: &CreateReceipt) -> String {
    let status = if created.fresh { 201 } else { 200 };
    let closed = if created.closed { " closed" } else { "" };
    format!(
        "{status} type={} tail={} records={}{closed}",
        created.content.as_str(),
        created.tail.0,
        range(created.records)
    )
}

fn appended(appended: &AppendReceipt, word: &str) -> String {
    let mut parts = vec![word.to_owned(), format!("next={}", appended.next_offset.0)];
    parts.extend(appended.records.map(|records| format!("records={}", range(records))));
    parts.extend(appended.producer.map(|(epoch, seq)| format!("epoch={epoch} seq={seq}")));
    parts.extend(appended.closed.then(|| "closed".to_owned()));
    parts.join(" ")
}

fn range((from, to): (Record, Record)) -> String {
    format!("{from}..{to}")
}

pub(super) fn snapshot(snapshot: &Snapshot) -> String {
    let digest = snapshot.digest.to_string();
    format!(
        "snapshot={} digest={} type={}",
        snapshot.offset.0,
        &digest[..8],
        snapshot.content.as_str()
    )
}

pub(super) fn refusal(refusal: &Refusal) -> String {
    let code = refusal.code();
    let facts = match refusal {
        Refusal::Trimmed { retained, tail, snapshot } => {
            format!(" retained={} tail={} {}", retained.0, tail.0, place(*snapshot))
        }
        Refusal::RecordMismatch { next, tail } => format!(" next={next} tail={}", tail.0),
        _ => refusal.limit().map_or(String::new(), |limit| format!(" limit={limit}")),
    };
    format!("{} {}{facts}\n    {refusal}", code.status.as_u16(), code.code)
}

fn place(snapshot: Option<Offset>) -> String {
    snapshot.map_or("snapshot=none".to_owned(), |offset| format!("snapshot={}", offset.0))
}

pub(super) fn facts(facts: &Facts) -> String {
    let state = if facts.closed { "closed" } else { "open" };
    let mut lines = vec![
        format!(
            "{state} type={} {} created={} written={}",
            facts.content.as_str(),
            life(&facts.life),
            facts.created_at.0,
            facts.written_at.0
        ),
        format!(
            "tail={} retained={} records={}",
            facts.tail.0,
            facts.retained.0,
            range((facts.first, facts.next))
        ),
    ];
    lines.extend(facts.snapshot.as_deref().map(snapshot));
    let attributes = facts.attributes.as_ref();
    lines.extend(attributes.map(|json| format!("attributes {}", String::from_utf8_lossy(json))));
    lines.join("\n")
}

fn life(life: &Life) -> String {
    match life {
        Life::Endless => "endless".to_owned(),
        Life::Ttl { window, inherited, .. } => format!("ttl={window} inherited={inherited}"),
        Life::Until { at, inherited } => format!("until={} inherited={inherited}", at.as_str()),
    }
}

pub(super) fn messages(messages: &[Message]) -> Vec<String> {
    let line = |message: &Message| {
        let text = String::from_utf8_lossy(&message.bytes);
        format!("{} #{} {text}", message.offset.0, message.record)
    };
    messages.iter().map(line).collect()
}
