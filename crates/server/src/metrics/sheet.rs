//! What one worker counts. A sheet is written by its worker's thread only, and lies on cache lines
//! of its own.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use headwater_core::command::{AppendReceipt, Receipt};
use headwater_core::refusal::Refusal;
use parking_lot::Mutex;

use super::count::{Count, Durations, Level};
use crate::auth::Denied;
use crate::engine::Outcome;
use crate::http::Verb;

/// The hundreds of status codes that are told apart.
pub(crate) const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// What durations of requests are kept apart for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    /// Waits for the disk.
    Append,
    /// Reads what is there.
    Read,
    /// Waits for what will be there.
    Live,
    /// All others.
    Other,
}

impl Pace {
    pub(crate) const ALL: [Self; 4] = [Self::Append, Self::Read, Self::Live, Self::Other];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Append => "append",
            Self::Read => "read",
            Self::Live => "live",
            Self::Other => "other",
        }
    }
}

/// How a reader is live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LiveKind {
    LongPoll,
    Sse,
}

impl LiveKind {
    pub(crate) const ALL: [Self; 2] = [Self::LongPoll, Self::Sse];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::LongPoll => "long_poll",
            Self::Sse => "sse",
        }
    }
}

/// Why whoever asks was turned away.
pub(crate) const DENIALS: [&str; 3] = ["missing", "invalid", "forbidden"];

/// How often a code was answered.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Refused {
    pub(crate) times: u64,
    /// Whether it is about a limit of the server.
    pub(crate) is_limit: bool,
}

/// The counts of one worker.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Sheet {
    /// By verb, the last for what no route was found for; then by hundred of the status.
    requests: [[Count; CLASSES.len()]; Verb::ALL.len() + 1],
    durations: [Durations; Pace::ALL.len()],
    pub(crate) ack: Durations,
    pub(crate) appended_bytes: Count,
    pub(crate) appended_messages: Count,
    pub(crate) producer_duplicates: Count,
    pub(crate) producer_fenced: Count,
    pub(crate) producer_gaps: Count,
    pub(crate) connections: Level,
    pub(crate) accepted: Count,
    live: [Level; LiveKind::ALL.len()],
    pub(crate) slow_readers: Count,
    pub(crate) old_answers: Count,
    denied: [Count; DENIALS.len()],
    /// By code. A refusal has formatted a body by now, so that a lock, which only a scrape ever
    /// contends for, is nothing.
    refused: Mutex<BTreeMap<&'static str, Refused>>,
}

impl Sheet {
    /// An answer whose head is ready.
    pub(crate) fn answered(&self, verb: Option<Verb>, status: u16, pace: Pace, took: Duration) {
        self.counted(verb, status);
        self.durations[pace as usize].took(took);
    }

    /// As [`Sheet::answered`], of which nobody knows how long it took.
    pub(crate) fn counted(&self, verb: Option<Verb>, status: u16) {
        let class = usize::from(status / 100).clamp(1, CLASSES.len()) - 1;
        self.requests[Self::row(verb)][class].add(1);
    }

    fn row(verb: Option<Verb>) -> usize {
        verb.map_or(Verb::ALL.len(), |verb| verb as usize)
    }

    /// How an append ended that had `bytes` in its body.
    pub(crate) fn appended(&self, outcome: &Outcome, bytes: usize) {
        match outcome {
            Outcome::Accepted(Receipt::Appended(receipt)) => self.accepted_append(receipt, bytes),
            Outcome::Refused(Refusal::ProducerFenced { .. }) => self.producer_fenced.add(1),
            Outcome::Refused(Refusal::ProducerGap { .. }) => self.producer_gaps.add(1),
            _ => {}
        }
    }

    fn accepted_append(&self, receipt: &AppendReceipt, bytes: usize) {
        if receipt.repeated {
            self.producer_duplicates.add(u64::from(receipt.producer.is_some()));
        } else if bytes > 0 {
            self.appended_bytes.add(bytes as u64);
            let messages = receipt.records.map_or(1, |(start, next)| next.0 - start.0);
            self.appended_messages.add(messages);
        }
    }

    /// Somebody was turned away.
    pub(crate) fn denied(&self, why: Denied) {
        let at = match why {
            Denied::Missing => 0,
            Denied::Invalid => 1,
            Denied::Forbidden | Denied::Concealed => 2,
        };
        self.denied[at].add(1);
    }

    /// A refusal or a failure was answered.
    pub(crate) fn refused(&self, code: &'static str, is_limit: bool) {
        let mut refused = self.refused.lock();
        let entry = refused.entry(code).or_default();
        entry.times += 1;
        entry.is_limit |= is_limit;
    }

    pub(crate) fn requests(&self, verb: Option<Verb>, class: usize) -> u64 {
        self.requests[Self::row(verb)][class].get()
    }

    pub(crate) fn durations(&self, pace: Pace) -> &Durations {
        &self.durations[pace as usize]
    }

    pub(crate) fn live(&self, kind: LiveKind) -> &Level {
        &self.live[kind as usize]
    }

    pub(crate) fn denials(&self, at: usize) -> u64 {
        self.denied[at].get()
    }

    /// Adds what was refused to `total`.
    pub(crate) fn add_refused(&self, total: &mut BTreeMap<&'static str, Refused>) {
        for (code, refused) in &*self.refused.lock() {
            let sum = total.entry(code).or_default();
            sum.times += refused.times;
            sum.is_limit |= refused.is_limit;
        }
    }
}

/// Counts among what is open until it is dropped.
#[derive(Debug)]
pub(crate) struct Open {
    sheet: Arc<Sheet>,
    /// Nothing for a connection.
    kind: Option<LiveKind>,
}

impl Open {
    /// A connection.
    pub(crate) fn connection(sheet: &Arc<Sheet>) -> Self {
        sheet.accepted.add(1);
        Self::new(sheet, None)
    }

    /// A live reader.
    pub(crate) fn reader(sheet: &Arc<Sheet>, kind: LiveKind) -> Self {
        Self::new(sheet, Some(kind))
    }

    fn new(sheet: &Arc<Sheet>, kind: Option<LiveKind>) -> Self {
        let open = Self { sheet: Arc::clone(sheet), kind };
        open.level().rise();
        open
    }

    fn level(&self) -> &Level {
        self.kind.map_or(&self.sheet.connections, |kind| self.sheet.live(kind))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.level().fall();
    }
}
