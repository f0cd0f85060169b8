//! Readers. Whatever one of them has been given must be there for ever, at the same offsets, until
//! the boundary passes it; so each read goes into the stream's log and is compared with it.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::http::{Client, Connection, Lost, Request, Response};
use crate::judge::{Round, Verdict};
use crate::life::Sight;
use crate::log::{Breach, Checked, breach};
use crate::rng::Rng;
use crate::sse::Parser;
use crate::world::{Form, Stream, World};

/// No stream has as many pages.
const PAGES_MAX: usize = 2000;

/// How a reader reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// From somewhere to the tail, again and again.
    CatchUp,
    /// Follows one stream by long-polls, across restarts.
    LongPoll,
    /// Follows one stream by server-sent events, across restarts.
    Sse,
}

/// A reader.
#[derive(Debug)]
pub struct Reader {
    mode: Mode,
    place: Option<(Arc<Stream>, u64)>,
}

/// What a page of a read leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// There is more at this offset.
    On(u64),
    /// This is the tail for now.
    Tail(u64),
    /// There will be no more after this offset.
    End(u64),
    /// What was asked for is below the boundary, which is here.
    Trimmed(u64),
    /// The stream is gone.
    Gone,
    /// There was no answer.
    Lost,
}

impl Reader {
    /// A reader that has read nothing.
    pub fn new(mode: Mode) -> Self {
        Self { mode, place: None }
    }

    /// Reads until the round is over.
    pub fn work(&mut self, round: &Round<'_>, mut rng: Rng) {
        let mut client = Client::new(round.address);
        while round.goes_on() {
            if rng.one_in(50) {
                self.place = None;
            }
            let place = self.place.take().or_else(|| {
                let streams = round.world.streams_where(Stream::lives);
                Some((Arc::clone(rng.pick(&streams)?), 0))
            });
            let Some((stream, from)) = place else {
                round.rest();
                continue;
            };
            let next = match self.mode {
                Mode::CatchUp => {
                    catch_up(round.world, &mut client, &stream, &mut rng);
                    continue;
                }
                Mode::LongPoll => {
                    page(round.world, &mut client, &stream, from, true, &mut None, &mut rng)
                }
                Mode::Sse => follow(round, &stream, from, &mut rng),
            };
            self.place = match next {
                Next::On(offset) | Next::Tail(offset) | Next::Trimmed(offset) => {
                    Some((stream, offset))
                }
                Next::Lost => {
                    round.rest();
                    Some((stream, from))
                }
                Next::End(_) | Next::Gone => None,
            };
        }
    }
}

/// Reads from a random place to the tail.
fn catch_up(world: &World, client: &mut Client, stream: &Arc<Stream>, rng: &mut Rng) {
    let from = {
        let ledger = stream.ledger();
        let within = rng.below(ledger.log.floor() + 1);
        if rng.one_in(2) { 0 } else { ledger.log.at_or_above(within).map_or(0, |seen| seen.start) }
    };
    read_on(world, client, stream, from, &mut None, rng);
}

/// Reads page after page from `from` to the tail. `record` is the number of the next record, where
/// it is known.
pub fn read_on(
    world: &World,
    client: &mut Client,
    stream: &Arc<Stream>,
    from: u64,
    record: &mut Option<u64>,
    rng: &mut Rng,
) -> Next {
    let mut from = from;
    for _ in 0..PAGES_MAX {
        match page(world, client, stream, from, false, record, rng) {
            Next::On(offset) | Next::Trimmed(offset) => from = offset,
            next => return next,
        }
    }
    world.breach(format!("{stream}: a read does not end"));
    Next::Lost
}

fn page(
    world: &World,
    client: &mut Client,
    stream: &Arc<Stream>,
    from: u64,
    live: bool,
    record: &mut Option<u64>,
    rng: &mut Rng,
) -> Next {
    let path = stream.place.path(rng);
    let offset = if from == 0 && rng.one_in(2) { "-1".to_owned() } else { format!("{from:020}") };
    let live_query = if live { "&live=long-poll" } else { "" };
    let request = Request::new("GET", format!("{path}?offset={offset}{live_query}"));
    let sight = stream.ledger().sight();
    let during = format!("GET {path}?offset={offset}{live_query}");
    match world.judge(stream, &sight, &during, client.call(&request)) {
        Verdict::Done(answer) => {
            let next = read_page(world, stream, &sight, from, record, &answer);
            match next {
                Ok(next) => next,
                Err(Breach(what)) => {
                    world.breach(format!("{stream}, {during}: {what}"));
                    Next::Gone
                }
            }
        }
        Verdict::Refused(answer) if answer.status == 410 => {
            trimmed(world, stream, &sight, from, &answer)
        }
        Verdict::Refused(answer) => {
            world.unexpected(stream, &during, &answer);
            Next::Gone
        }
        Verdict::Gone | Verdict::Closed => Next::Gone,
        Verdict::Unknown | Verdict::NotDone => Next::Lost,
    }
}

fn read_page(
    world: &World,
    stream: &Arc<Stream>,
    sight: &Sight,
    from: u64,
    record: &mut Option<u64>,
    answer: &Response,
) -> Checked<Next> {
    world.count("reads", 1);
    if from < sight.retained {
        return breach!("a read from {from} succeeds below the boundary {}", sight.retained);
    }
    let Some(next) = answer.number("stream-next-offset").filter(|next| *next >= from) else {
        return breach!("the answer does not go on: {}", answer.brief());
    };
    if answer.status == 200 {
        let count = world.observed(stream, (from, next), &answer.body, *record)?;
        *record = record.map(|record| record + count as u64);
        world.count("messages read", count as u64);
    } else if next != from {
        return breach!("a read from {from} skips to {next} without data");
    }
    if !answer.flag("stream-up-to-date") {
        return if next > from { Ok(Next::On(next)) } else { breach!("a read stands still") };
    }
    world.tail_told(stream, sight, answer)?;
    Ok(if answer.flag("stream-closed") { Next::End(next) } else { Next::Tail(next) })
}

/// A read was refused as below the boundary.
fn trimmed(world: &World, stream: &Stream, sight: &Sight, from: u64, answer: &Response) -> Next {
    let retained = answer.number("stream-retained-offset").unwrap_or(0);
    let checked = if from < retained {
        stream.ledger().life.retained_at(sight, retained)
    } else {
        breach!("a read from {from} is refused by the boundary {retained}")
    };
    world.check(stream, "410", checked);
    Next::Trimmed(retained)
}

/// Follows a stream over one response of events.
fn follow(round: &Round<'_>, stream: &Arc<Stream>, from: u64, rng: &mut Rng) -> Next {
    let world = round.world;
    let sight = stream.ledger().sight();
    let path = format!("{}?offset={from:020}&live=sse", stream.place.path(rng));
    let opened = Connection::open(round.address).and_then(|mut connection| {
        connection.send(&Request::new("GET", path.clone()))?;
        let (mut answer, is_chunked) = connection.receive_head()?;
        if !is_chunked {
            // A refusal: its body is of no interest.
            answer.body.clear();
        }
        Ok((connection, answer))
    });
    let (mut connection, answer) = match opened {
        Ok((connection, answer)) => (Some(connection), Ok(answer)),
        Err(lost) => (None, Err(lost)),
    };
    match (world.judge(stream, &sight, "SSE", answer), &mut connection) {
        (Verdict::Done(_), Some(connection)) => {
            let mut at = from;
            match events(round, stream, &sight, connection, &mut at) {
                Ok(Some(next)) => next,
                Ok(None) => Next::On(at),
                Err(Breach(what)) => {
                    world.breach(format!("{stream}, GET {path} at {at}: {what}"));
                    Next::Gone
                }
            }
        }
        (Verdict::Refused(answer), _) if answer.status == 410 => {
            trimmed(world, stream, &sight, from, &answer)
        }
        (Verdict::Refused(answer), _) => {
            world.unexpected(stream, "SSE", &answer);
            Next::Gone
        }
        (Verdict::Gone | Verdict::Closed, _) => Next::Gone,
        _ => Next::Lost,
    }
}

fn events(
    round: &Round<'_>,
    stream: &Arc<Stream>,
    sight: &Sight,
    connection: &mut Connection,
    at: &mut u64,
) -> Checked<Option<Next>> {
    let mut parser = Parser::default();
    let mut data: Option<Vec<u8>> = None;
    loop {
        let event = match parser.next(connection).map_err(Lost::from) {
            Ok(Some(event)) => event,
            Ok(None) => return Ok(None),
            Err(lost) if lost.is_hang() => return breach!("no event for too long"),
            Err(_cut) => return Ok(Some(Next::On(*at))),
        };
        if event.name == "data" {
            if data.is_some() {
                return breach!("two data events without a control event between them");
            }
            data = Some(payload(stream.form, &event.data)?);
            continue;
        }
        let control: serde_json::Value = serde_json::from_str(&event.data).unwrap_or_default();
        let next = control["streamNextOffset"].as_str().and_then(|offset| offset.parse().ok());
        let Some(next) = next.filter(|next: &u64| *next >= *at) else {
            return breach!("a control event does not go on: {}", event.data);
        };
        if let Some(data) = data.take() {
            let count = round.world.observed(stream, (*at, next), &data, None)?;
            round.world.count("messages read", count as u64);
        } else if next != *at {
            return breach!("a control event skips to {next} without data");
        }
        round.world.count("events", 1);
        *at = next;
        let mut ledger = stream.ledger();
        let is_closed = control["streamClosed"] == true;
        if control["upToDate"] == true && !is_closed {
            ledger.open_at(sight, next)?;
        }
        if is_closed {
            ledger.log.tail(sight.floor, next)?;
            ledger.closed_at(sight, next)?;
            return Ok(Some(Next::End(next)));
        }
    }
}

fn payload(form: Form, data: &str) -> Checked<Vec<u8>> {
    match form {
        Form::Json | Form::Text => Ok(data.as_bytes().to_vec()),
        Form::Bytes => STANDARD
            .decode(data.replace('\n', ""))
            .map_err(|error| Breach(format!("an event is no base64: {error}"))),
    }
}
