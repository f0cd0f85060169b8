//! What a client noted down.

/// The return of a call that never returned.
pub const NEVER: u64 = u64::MAX;

/// One call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Who called. Told to people; nothing is decided by it.
    pub process: u32,
    /// When the call began, before anything was sent. Any unit, one monotonic clock for all.
    pub invoked: u64,
    /// When it ended, after everything was received; [`NEVER`] without an answer.
    pub returned: u64,
    /// What was asked, and what came back.
    pub op: Op,
}

/// What was asked, and what came back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// Add one message. A request with several is as many events with the same times.
    Append {
        /// Names the message, once in a history.
        message: u64,
        /// Where it lies.
        outcome: Outcome<Span>,
    },
    /// Read from an offset on.
    Read {
        /// The offset.
        from: u64,
        /// What was there.
        outcome: Outcome<Slice>,
    },
    /// Ask where the stream ends.
    Tail {
        /// Where.
        outcome: Outcome<State>,
    },
    /// Let nobody append any more.
    Close {
        /// The final tail.
        outcome: Outcome<u64>,
    },
    /// Delete the stream.
    Delete {
        /// Nothing more is told.
        outcome: Outcome<()>,
    },
    /// Discard everything before an offset.
    Retain {
        /// The offset.
        to: u64,
        /// Nothing more is told.
        outcome: Outcome<()>,
    },
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome<T> {
    /// It was carried out.
    Done(T),
    /// It was not carried out, and never will be.
    Refused(Why),
    /// It may have been carried out, or yet be.
    Unknown,
}

/// Why a call was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// The stream is closed.
    Closed,
    /// The stream is deleted.
    Gone,
    /// The offset lies before this one, the earliest that is retained.
    Trimmed(u64),
    /// For a reason that says nothing about the stream.
    Other,
}

/// Where a message lies: from `start` up to and without `end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Its first offset.
    pub start: u64,
    /// The offset behind it.
    pub end: u64,
}

/// A message in a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message {
    /// Its name.
    pub id: u64,
    /// Its place.
    pub span: Span,
}

/// What a read returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slice {
    /// The messages, in the order in which they came.
    pub messages: Vec<Message>,
    /// The offset to go on from.
    pub to: u64,
    /// Whether the answer said that this is the tail, and if so whether the stream is closed there.
    pub tail: Option<bool>,
}

/// What an answer says about the stream as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct State {
    /// Its tail.
    pub tail: u64,
    /// Whether it is closed.
    pub closed: bool,
    /// The earliest offset that is retained, where that was told.
    pub retained: Option<u64>,
}
