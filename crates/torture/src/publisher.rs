//! The actor that publishes snapshots, moves boundaries and sets attributes. Nobody else does.

use std::sync::Arc;

use crate::http::{Client, Request, Response};
use crate::judge::{Round, Verdict};
use crate::life::{Sight, Snapshot};
use crate::log::{Checked, breach};
use crate::rng::Rng;
use crate::world::{Stream, World};

/// The content type of snapshots.
const CONTENT_TYPE: &str = "application/x-state";

/// Acts until the round is over.
pub fn work(round: &Round<'_>, mut rng: Rng) {
    let mut client = Client::new(round.address);
    while round.goes_on() {
        let streams = round.world.streams_where(Stream::lives);
        if let Some(stream) = rng.pick(&streams) {
            match rng.below(5) {
                0..3 => publish(round.world, &mut client, stream, &mut rng),
                3 => retain(round.world, &mut client, stream, &mut rng),
                _ => set_attributes(round.world, &mut client, stream),
            }
        }
        round.rest();
    }
}

/// The digest that the server is to tell of a body.
fn digest(body: &[u8]) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&(CONTENT_TYPE.len() as u64).to_le_bytes());
    hasher.update(CONTENT_TYPE.as_bytes());
    hasher.update(body);
    hasher.finalize().to_hex().to_string()
}

fn publish(world: &World, client: &mut Client, stream: &Arc<Stream>, rng: &mut Rng) {
    let trims = stream.place.can_trim() && rng.one_in(2);
    let (sight, offset, snapshot, visible) = {
        let mut ledger = stream.ledger();
        let back = usize::try_from(rng.below(30)).expect("a few");
        let newest = ledger.life.publishes.last_key_value().map(|(offset, _)| *offset);
        let offset = ledger.log.from_end(back).map(|seen| seen.end);
        let visible = ledger.life.visible().map(|(offset, is)| (offset, is.clone()));
        let (offset, snapshot) = match (offset, &visible) {
            // The same once more.
            (_, Some((offset, is))) if rng.one_in(6) => (*offset, Snapshot { trims, ..is.clone() }),
            (Some(offset), _) if newest.is_none_or(|newest| offset > newest) => {
                let k = world.new_writer();
                let digest = digest(&world.recipe.blob(stream.no, k));
                (offset, Snapshot { stream: stream.no, k, digest, trims })
            }
            _ => return,
        };
        if offset < ledger.life.retained_max {
            return;
        }
        let sight = ledger.sight();
        if newest != Some(offset) {
            ledger.life.publishes.insert(offset, snapshot.clone());
        }
        if trims {
            ledger.life.retained_max = offset;
        }
        (sight, offset, snapshot, visible)
    };
    let path = stream.place.below(&format!("snapshot/{offset:020}"), trims);
    let blob = world.recipe.blob(snapshot.stream, snapshot.k);
    let mut request = Request::new("PUT", path.clone()).body(CONTENT_TYPE, blob);
    if let Some((_, visible)) = visible.filter(|_| rng.one_in(3)) {
        request = request.header("Stream-Snapshot-Match", visible.digest);
    }
    match world.judge(stream, &sight, &path, client.call(&request)) {
        Verdict::Done(answer) => {
            world.count("publishes", 1);
            let checked = published(stream, &sight, offset, &snapshot, &answer);
            world.check(stream, &path, checked);
        }
        Verdict::Refused(answer) => world.unexpected(stream, &path, &answer),
        Verdict::Gone | Verdict::Closed | Verdict::Unknown | Verdict::NotDone => {}
    }
}

fn published(
    stream: &Stream,
    sight: &Sight,
    offset: u64,
    snapshot: &Snapshot,
    answer: &Response,
) -> Checked {
    let mut ledger = stream.ledger();
    let told = answer.number("stream-snapshot-offset").zip(answer.header("stream-snapshot-digest"));
    if told != Some((offset, snapshot.digest.as_str())) {
        return breach!("a publish at {offset} is answered with {told:?}");
    }
    let retained = answer.number("stream-retained-offset").unwrap_or(0);
    if snapshot.trims {
        if retained < offset {
            return breach!("a publish at {offset} left the boundary at {retained}");
        }
        // Also if it was published before without: from now on, the two belong together.
        ledger.life.publishes.insert(offset, snapshot.clone());
    }
    ledger.life.retained_at(sight, retained)?;
    ledger.life.snapshot_is(sight, told, Some(retained))?;
    Ok(())
}

fn retain(world: &World, client: &mut Client, stream: &Arc<Stream>, rng: &mut Rng) {
    let (sight, offset) = {
        let mut ledger = stream.ledger();
        let Some((snapshot, _)) = ledger.life.visible() else { return };
        let from = ledger.life.retained_max;
        if from > snapshot {
            return;
        }
        let wish = from + rng.below(snapshot - from + 1);
        let boundary = ledger.log.at_or_above(wish).map(|seen| seen.start);
        let offset = boundary.filter(|offset| *offset <= snapshot).unwrap_or(snapshot);
        ledger.life.retained_max = offset;
        (ledger.sight(), offset)
    };
    let path = stream.place.below(&format!("retention/{offset:020}"), rng.one_in(2));
    match world.judge(stream, &sight, &path, client.call(&Request::new("PUT", path.clone()))) {
        Verdict::Done(answer) => {
            world.count("retentions", 1);
            let told = answer.number("stream-retained-offset").unwrap_or(0);
            let checked = if told == offset {
                stream.ledger().life.retained_at(&sight, told)
            } else {
                breach!("a boundary at {offset} is answered with {told}")
            };
            world.check(stream, &path, checked);
        }
        Verdict::Refused(answer) => world.unexpected(stream, &path, &answer),
        Verdict::Gone | Verdict::Closed | Verdict::Unknown | Verdict::NotDone => {}
    }
}

fn set_attributes(world: &World, client: &mut Client, stream: &Arc<Stream>) {
    let (sight, version) = {
        let mut ledger = stream.ledger();
        ledger.life.attributes_max += 1;
        (ledger.sight(), ledger.life.attributes_max)
    };
    let body = format!("{{\"version\":{version}}}").into_bytes();
    let request =
        Request::new("PUT", stream.place.below("attrs", false)).body("application/json", body);
    match world.judge(stream, &sight, "attrs", client.call(&request)) {
        Verdict::Done(_) => {
            world.count("attributes set", 1);
            let checked = stream.ledger().life.attributes_are(&sight, version);
            world.check(stream, "attrs", checked);
        }
        Verdict::Refused(answer) => world.unexpected(stream, "attrs", &answer),
        Verdict::Gone | Verdict::Closed | Verdict::Unknown | Verdict::NotDone => {}
    }
}
