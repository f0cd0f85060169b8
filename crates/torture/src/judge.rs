//! What an answer says about a stream as a whole, whoever asked and whatever for.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::http::{Lost, Response};
use crate::life::{Sight, Tri};
use crate::log::Checked;
use crate::world::{Stream, World};

/// What a worker sees of the round that it works in.
#[derive(Debug)]
pub struct Round<'a> {
    /// The run.
    pub world: &'a World,
    /// Where the server listens in this round.
    pub address: SocketAddr,
    /// Set once the server has been told to end.
    pub over: &'a AtomicBool,
}

impl Round<'_> {
    /// Whether there is still work to do.
    pub fn goes_on(&self) -> bool {
        !self.over.load(Ordering::SeqCst)
    }

    /// Does not spin while the server is going away.
    pub fn rest(&self) {
        thread::sleep(Duration::from_millis(1));
    }
}

/// An answer, sorted by what a client does next.
#[derive(Debug)]
pub enum Verdict {
    /// 2xx or 3xx.
    Done(Response),
    /// The stream is not there.
    Gone,
    /// The stream is closed.
    Closed,
    /// The server said no; nothing was changed.
    Refused(Response),
    /// Nobody knows.
    Unknown,
    /// It certainly was not carried out, and another attempt may be.
    NotDone,
}

impl World {
    /// Sorts an answer, and checks it against what was known when the request began.
    pub fn judge(
        &self,
        stream: &Stream,
        sight: &Sight,
        during: &str,
        answer: Result<Response, Lost>,
    ) -> Verdict {
        self.count("operations", 1);
        let answer = match answer {
            Ok(answer) => answer,
            Err(Lost::NotSent) => return Verdict::NotDone,
            Err(lost) => {
                if lost.is_hang() {
                    self.breach(format!("{stream}, {during}: no answer"));
                }
                return Verdict::Unknown;
            }
        };
        let mut ledger = stream.ledger();
        let life = &mut ledger.life;
        let (verdict, checked) = match answer.status {
            200..400 => {
                let checked = life.there(sight);
                (Verdict::Done(answer), checked)
            }
            404 => (Verdict::Gone, life.missing()),
            410 if answer.header("stream-retained-offset").is_none() => {
                (Verdict::Gone, life.missing())
            }
            409 if answer.flag("stream-closed") => {
                let tail = answer.number("stream-next-offset").unwrap_or(0);
                let there = life.there(sight);
                (Verdict::Closed, there.and_then(|()| ledger.closed_at(sight, tail)))
            }
            500.. => {
                drop(ledger);
                return self.failed(stream, during, &answer);
            }
            _ => {
                let checked = life.there(sight);
                (Verdict::Refused(answer), checked)
            }
        };
        drop(ledger);
        self.check(stream, during, checked);
        verdict
    }

    fn failed(&self, stream: &Stream, during: &str, answer: &Response) -> Verdict {
        self.count("answers 503 or 507", 1);
        if !matches!(answer.status, 503 | 507) {
            let life = &stream.ledger().life;
            let (gone, from, to) = (life.gone, life.retained, life.retained_max);
            self.breach(format!(
                "{stream} (deleted: {gone:?}, boundary: {from}..={to}), {during}: {}",
                answer.brief()
            ));
        }
        let body: serde_json::Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        if body["effect"] == "not-applied" { Verdict::NotDone } else { Verdict::Unknown }
    }

    /// An answer that no rule explains.
    pub fn unexpected(&self, stream: &Stream, during: &str, answer: &Response) {
        self.breach(format!("{stream}, {during}: an unexpected answer: {}", answer.brief()));
    }

    /// A 2xx answer to a read names the tail and whether the stream is closed there.
    pub fn tail_told(&self, stream: &Stream, sight: &Sight, answer: &Response) -> Checked {
        let tail = answer.number("stream-next-offset").unwrap_or(0);
        let mut ledger = stream.ledger();
        if answer.flag("stream-closed") {
            ledger.log.tail(sight.floor, tail)?;
            ledger.closed_at(sight, tail)
        } else {
            ledger.open_at(sight, tail)?;
            ledger.life.open(sight)
        }
    }
}

impl Stream {
    /// Notes that somebody is about to close it.
    pub fn may_close(&self) {
        let mut ledger = self.ledger();
        ledger.life.closed = ledger.life.closed.max(Tri::Maybe);
        ledger.record.close();
    }
}
