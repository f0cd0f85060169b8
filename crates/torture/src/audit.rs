//! After a restart, while nobody works: compares everything that the server now says with
//! everything that it had said, and settles what was in question.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::bootstrap;
use crate::http::{Client, Request, Response};
use crate::judge::Verdict;
use crate::life::{Sight, Snapshot, Tri};
use crate::lifecycle::BUCKETS;
use crate::listing::check_bucket;
use crate::log::{Breach, Checked, breach};
use crate::reader::{Next, read_on};
use crate::rng::Rng;
use crate::world::{Ledger, Stream, World};

/// Looks at everything that is not gone for good.
pub fn audit(world: &World, client: &mut Client, rng: &mut Rng) {
    // Oldest first: a fork is compared with a source that has been settled.
    for stream in &world.streams() {
        if !stream.superseded.load(Ordering::SeqCst) {
            look(world, client, stream, rng);
        }
    }
    for bucket in BUCKETS {
        let checked = check_bucket(world, client, bucket);
        if let Err(Breach(what)) = checked {
            world.breach(format!("bucket {bucket}: {what}"));
        }
    }
}

fn look(world: &World, client: &mut Client, stream: &Arc<Stream>, rng: &mut Rng) {
    let (sight, was_under_way) = {
        let ledger = stream.ledger();
        (ledger.sight(), ledger.life.born == Tri::Maybe)
    };
    let head = Request::new("HEAD", stream.place.path(rng));
    match world.judge(stream, &sight, "audit", client.call(&head)) {
        Verdict::Done(head) => {
            stream.round.store(world.round(), Ordering::SeqCst);
            if was_under_way {
                born_unseen(stream, &sight, &head);
            }
            let audited = whole(world, client, stream, &sight, &head, rng);
            world.check(stream, "audit", audited);
            settle(world, stream, head.flag("stream-closed"));
            if head.flag("stream-closed") {
                refuses_appends(world, client, stream, rng);
            }
        }
        Verdict::Gone => {
            let mut ledger = stream.ledger();
            ledger.life.settle(false, false);
            ledger.unknown.clear();
            ledger.owed.clear();
            drop(ledger);
            world.judge_history(stream);
        }
        Verdict::Closed | Verdict::Refused(_) | Verdict::Unknown | Verdict::NotDone => {
            world.breach(format!("{stream}, audit: HEAD is not answered"));
        }
    }
}

/// What is closed takes no more.
fn refuses_appends(world: &World, client: &mut Client, stream: &Arc<Stream>, rng: &mut Rng) {
    let sight = stream.ledger().sight();
    let request = Request::new("POST", stream.place.path(rng))
        .body(stream.form.content_type(), b"{\"not\":\"a message of this run\"}".to_vec());
    let verdict = world.judge(stream, &sight, "an append after its close", client.call(&request));
    if !matches!(verdict, Verdict::Closed) {
        world.breach(format!("{stream}, an append after its close: {verdict:?}"));
    }
}

/// A creation that had no answer has happened.
fn born_unseen(stream: &Stream, sight: &Sight, head: &Response) {
    let Some(source) = &stream.source else { return };
    if stream.base() == u64::MAX {
        // Nobody could append yet.
        let tail = head.number("stream-next-offset").unwrap_or(0);
        stream.base.store(tail, Ordering::SeqCst);
    }
    let source = source.ledger();
    stream.ledger().life.inherit(stream.base(), sight, &source.life);
}

/// Everything about a stream that is there.
fn whole(
    world: &World,
    client: &mut Client,
    stream: &Arc<Stream>,
    sight: &Sight,
    head: &Response,
    rng: &mut Rng,
) -> Checked {
    world.count("audits", 1);
    world.tail_told(stream, sight, head)?;
    let retained = head.number("stream-retained-offset").unwrap_or(0);
    let snapshot = {
        let mut ledger = stream.ledger();
        ledger.life.retained_at(sight, retained)?;
        let told = head.number("stream-snapshot-offset").zip(head.header("stream-snapshot-digest"));
        ledger.life.snapshot_is(sight, told, Some(retained))?
    };
    let mut record = head.number("stream-record-first");
    let (Next::Tail(end) | Next::End(end)) =
        read_on(world, client, stream, retained, &mut record, rng)
    else {
        return breach!("it cannot be read to its end");
    };
    if head.number("stream-next-offset") != Some(end) {
        return breach!("a read ends at {end}, and HEAD says: {:?}", head);
    }
    if head.number("stream-record-next") != record {
        return breach!("a read ends at record {record:?}, and HEAD says: {:?}", head);
    }
    if retained > 0 {
        below_the_boundary(client, stream, retained)?;
    }
    attributes(client, stream, sight)?;
    if let Some(snapshot) = &snapshot {
        body_of(world, client, stream, snapshot)?;
    }
    bootstrap::check(world, client, stream)
}

/// Below the boundary nothing is readable.
fn below_the_boundary(client: &mut Client, stream: &Stream, retained: u64) -> Checked {
    let answer = ask(client, &Request::new("GET", format!("{}?offset=-1", stream.place)))?;
    if (answer.status, answer.number("stream-retained-offset")) == (410, Some(retained)) {
        return Ok(());
    }
    breach!("the boundary is {retained}, and a read from the start: {}", answer.brief())
}

fn attributes(client: &mut Client, stream: &Stream, sight: &Sight) -> Checked {
    let answer = ask(client, &Request::new("GET", stream.place.below("attrs", false)))?;
    let body: serde_json::Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let version = match &body["version"] {
        serde_json::Value::Null if answer.body == b"{}" => Some(0),
        version => version.as_u64().and_then(|version| u32::try_from(version).ok()),
    };
    let Some(version) = version else {
        return breach!("these are no attributes: {}", answer.brief());
    };
    stream.ledger().life.attributes_are(sight, version)
}

/// The visible snapshot's body is what was published.
fn body_of(world: &World, client: &mut Client, stream: &Stream, snapshot: &Snapshot) -> Checked {
    let path = stream.place.below("snapshot", false);
    let answer = ask(client, &Request::new("GET", path.clone()))?;
    let Some(place) = answer.header("location").filter(|_| answer.status == 307) else {
        return breach!("GET {path}: {}", answer.brief());
    };
    let answer = ask(client, &Request::new("GET", place))?;
    let expected = world.recipe.blob(snapshot.stream, snapshot.k);
    if answer.status != 200 || answer.body != expected {
        return breach!("the snapshot {snapshot:?} is altered: {}", answer.brief());
    }
    world.count("snapshots compared", 1);
    Ok(())
}

/// What was in question is what it looks like.
fn settle(world: &World, stream: &Stream, is_closed: bool) {
    let mut ledger = stream.ledger();
    ledger.life.settle(true, is_closed);
    let checked = resolve(world, &mut ledger);
    ledger.unknown.clear();
    ledger.owed.clear();
    let retained = ledger.life.retained;
    let no_gap =
        ledger.producers.iter().try_for_each(|writer| ledger.log.no_gap(*writer, retained));
    drop(ledger);
    world.check(stream, "audit", checked.and(no_gap));
}

/// Appends without an answer are there as a whole or not at all; owed ones are there.
fn resolve(world: &World, ledger: &mut Ledger) -> Checked {
    let Ledger { log, life, unknown, owed, .. } = ledger;
    for append in unknown.drain(..) {
        let keys = (0..append.count).map(|by| append.first.plus(by));
        let there = keys.clone().filter(|key| log.has(*key)).count();
        let is_there = there > 0;
        world.count(if is_there { "unknown: present" } else { "unknown: absent" }, 1);
        if is_there && there < keys.len() && life.retained == 0 {
            return breach!("of append {} only {there} messages are there", append.first);
        }
        if life.retained == 0 && !is_there {
            // It cannot come any more.
            keys.clone().try_for_each(|key| log.refused(key))?;
        }
    }
    let lost = owed.iter().find(|owed| owed.floor >= life.retained && !log.has(owed.key));
    match lost {
        Some(lost) => breach!("{} was called a duplicate and is not there", lost.key),
        None => Ok(()),
    }
}

/// An answer, whatever it is.
pub fn ask(client: &mut Client, request: &Request) -> Checked<Response> {
    client.call(request).map_err(|lost| Breach(format!("{request:?} is not answered: {lost:?}")))
}
