//! One stream, as far as anything that was said commits it.
//!
//! ```text
//!   0         boundary                          floor
//!   ├─ gone ──┼─ message ─┼─ message ─┼─ ? ─────┼─ still open ...
//!                                      └ seen by nobody yet: an append without an answer
//! ```
//!
//! A stream's state only grows: its tail first, then closed, then deleted. So a call can be put in
//! its place among the others exactly if it says no less than every call that had ended when it
//! began (its [`Sight`]), and nothing that was never asked for.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};
use std::num::NonZeroU32;

use crate::event::{Message, Op, Outcome, Slice, Span, State, Why};

/// What a history may not do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// Each acknowledged append is there exactly once, at its offset.
    Present,
    /// An append that ended before another began, or that anybody had seen by then, lies before it.
    Order,
    /// Every read is a contiguous slice of the one log, of appends that somebody asked for.
    Slice,
    /// A tail includes every append that ended before it was asked for, and all that was seen.
    Tail,
    /// An append without an answer is there at most once, a refused one never.
    Once,
    /// Closed and deleted happen when asked for, and stay so. A closed stream does not grow.
    Closed,
    /// Deleted stays deleted.
    Deleted,
    /// The earliest retained offset only advances, and only as far as somebody asked.
    Retained,
}

/// A rule that was broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub rule: Rule,
    /// What happened, told to a person; `#n` is the event with that number.
    pub what: String,
    /// The numbers of the events that contradict each other: the one at which it was noticed first.
    pub events: Vec<usize>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.rule, self.what)
    }
}

/// What a check says.
pub type Checked<T = ()> = Result<T, Violation>;

/// An offset up to which something is certain, and the event that made it so. Small, since there
/// is one for each call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Mark {
    at: u64,
    by: Option<NonZeroU32>,
}

/// What was certain when a call began: its answer may not fall behind it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sight {
    floor: Mark,
    retained: Mark,
    closed: Fact,
    gone: Fact,
}

/// Something that is certain once an event has shown it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Fact(Option<NonZeroU32>);

/// The number of an event as it is kept: one more than told.
fn kept(no: usize) -> Option<NonZeroU32> {
    let no = u32::try_from(no + 1).expect("a history has less than four thousand million events");
    NonZeroU32::new(no)
}

fn told(by: Option<NonZeroU32>) -> Option<usize> {
    Some(usize::try_from(by?.get()).expect("it came from a usize") - 1)
}

impl Mark {
    fn get(self) -> Option<(u64, usize)> {
        Some((self.at, told(self.by)?))
    }

    fn raise(&mut self, at: u64, no: usize) {
        if self.by.is_none() || self.at < at {
            *self = Self { at, by: kept(no) };
        }
    }
}

impl Fact {
    fn get(self) -> Option<usize> {
        told(self.0)
    }

    fn note(&mut self, no: usize) {
        self.0 = self.0.or(kept(no));
    }
}

/// A message at its place.
#[derive(Debug, Clone, Copy)]
struct Placed {
    id: u64,
    end: u64,
    by: usize,
}

/// An append that somebody has asked for.
#[derive(Debug, Clone, Copy)]
struct Asked {
    by: usize,
    sight: Sight,
    start: Option<u64>,
    refused: bool,
}

/// What is known of a stream that began empty.
#[derive(Debug, Default)]
pub struct Stream {
    base: u64,
    messages: BTreeMap<u64, Placed>,
    asked: HashMap<u64, Asked, BuildHasherDefault<Mixed>>,
    /// Tails that were told and that no message is known to touch.
    bare_tails: BTreeSet<u64>,
    now: Sight,
    close_asked: Fact,
    delete_asked: Fact,
    retain_asked: Mark,
    final_tail: Option<(u64, usize)>,
}

macro_rules! violation {
    ($rule:ident, [$($no:expr),*], $($arg:tt)*) => {
        Err(Violation { rule: Rule::$rule, what: format!($($arg)*), events: vec![$($no),*] })
    };
}

impl Stream {
    /// An empty stream, whose first message will lie at `base`.
    pub fn starting_at(base: u64) -> Self {
        Self { base, ..Self::default() }
    }

    /// Takes memory for so many appends at once.
    pub(crate) fn reserve(&mut self, appends: usize) {
        self.asked.reserve(appends);
    }

    /// Event `no` begins. Only what `op` asks for is looked at. The result goes to [`Self::end`].
    pub fn begin(&mut self, no: usize, op: &Op) -> Checked<Sight> {
        match op {
            Op::Append { message, .. } => {
                let asked = Asked { by: no, sight: self.now, start: None, refused: false };
                if let Some(other) = self.asked.insert(*message, asked) {
                    let by = other.by;
                    return violation!(Once, [no, by], "#{no} and #{by} append the same {message}");
                }
            }
            Op::Close { .. } => self.close_asked.note(no),
            Op::Delete { .. } => self.delete_asked.note(no),
            Op::Retain { to, .. } => self.retain_asked.raise(*to, no),
            Op::Read { .. } | Op::Tail { .. } => {}
        }
        Ok(self.now)
    }

    /// Event `no`, which began with `sight`, ends.
    pub fn end(&mut self, no: usize, op: &Op, sight: &Sight) -> Checked {
        match op {
            Op::Append { message, outcome } => match outcome {
                Outcome::Done(span) => {
                    self.put(no, Message { id: *message, span: *span })?;
                    is_there(no, sight)?;
                    self.now.floor.raise(span.end, no);
                    Ok(())
                }
                Outcome::Refused(why) => {
                    self.refused_append(no, *message)?;
                    self.refused(no, *why, sight, None)
                }
                Outcome::Unknown => Ok(()),
            },
            Op::Read { from, outcome } => match outcome {
                Outcome::Done(slice) => self.read(no, *from, slice, sight),
                Outcome::Refused(why) => self.refused(no, *why, sight, Some(*from)),
                Outcome::Unknown => Ok(()),
            },
            Op::Tail { outcome } => match outcome {
                Outcome::Done(state) => self.tail(no, *state, sight),
                Outcome::Refused(why) => self.refused(no, *why, sight, None),
                Outcome::Unknown => Ok(()),
            },
            Op::Close { outcome } => match outcome {
                Outcome::Done(tail) => {
                    let state = State { tail: *tail, closed: true, retained: None };
                    self.tail(no, state, sight)
                }
                Outcome::Refused(why) => self.refused(no, *why, sight, None),
                Outcome::Unknown => Ok(()),
            },
            Op::Delete { outcome } => match outcome {
                Outcome::Done(()) => {
                    is_there(no, sight)?;
                    self.now.gone.note(no);
                    Ok(())
                }
                Outcome::Refused(why) => self.refused(no, *why, sight, None),
                Outcome::Unknown => Ok(()),
            },
            Op::Retain { to, outcome } => match outcome {
                Outcome::Done(()) => {
                    is_there(no, sight)?;
                    self.now.retained.raise(*to, no);
                    Ok(())
                }
                Outcome::Refused(why) => self.refused(no, *why, sight, None),
                Outcome::Unknown => Ok(()),
            },
        }
    }

    /// All events have ended: what was seen by nobody can only be appends without an answer.
    pub fn finish(&self) -> Checked {
        let open = self.asked.values().filter(|it| it.start.is_none() && !it.refused).count();
        let floor = self.now.floor.get().unwrap_or_default();
        let mut end = self.base;
        let mut gaps = 0;
        let starts = self.messages.iter().map(|(start, placed)| (*start, placed.end, placed.by));
        for (start, next, by) in starts.chain([(floor.0, floor.0, floor.1)]) {
            gaps += usize::from(start > end);
            if gaps > open {
                return violation!(
                    Slice,
                    [by],
                    "#{by} lies behind {end}..{start}, which nobody can have written"
                );
            }
            end = next;
        }
        Ok(())
    }

    fn refused(&mut self, no: usize, why: Why, sight: &Sight, from: Option<u64>) -> Checked {
        match why {
            Why::Closed => {
                is_there(no, sight)?;
                self.closed(no)
            }
            Why::Gone if self.delete_asked.get().is_none() => {
                violation!(Deleted, [no], "#{no} finds no stream, and nobody has deleted it")
            }
            Why::Gone => {
                self.now.gone.note(no);
                Ok(())
            }
            Why::Trimmed(retained) => {
                is_there(no, sight)?;
                if let Some(from) = from.filter(|from| *from >= retained) {
                    return violation!(
                        Retained,
                        [no],
                        "#{no} is refused at {from}, which the boundary {retained} allows"
                    );
                }
                self.retained_at(no, retained, sight)
            }
            Why::Other => Ok(()),
        }
    }

    fn refused_append(&mut self, no: usize, id: u64) -> Checked {
        let asked = self.asked.get_mut(&id).expect("what ends has begun");
        asked.refused = true;
        match asked.start {
            Some(start) => {
                let by = self.messages[&start].by;
                violation!(Once, [no, by], "#{no} was refused, and #{by} shows it at {start}")
            }
            None => Ok(()),
        }
    }

    fn read(&mut self, no: usize, from: u64, slice: &Slice, sight: &Sight) -> Checked {
        is_there(no, sight)?;
        if let Some((retained, by)) = sight.retained.get().filter(|(retained, _)| from < *retained)
        {
            return violation!(
                Retained,
                [no, by],
                "#{no} reads from {from}, and #{by} had moved the boundary to {retained}"
            );
        }
        // Most of what is read is known already, and lies side by side.
        let known = self.messages.range(from..).zip(&slice.messages);
        let is_same = |((start, placed), message): &((&u64, &Placed), &Message)| {
            let Message { id, span } = **message;
            (**start, placed.end, placed.id) == (span.start, span.end, id)
        };
        let known = known.take_while(is_same).count();
        let mut end = from;
        for (nth, message) in slice.messages.iter().enumerate() {
            if message.span.start != end {
                let start = message.span.start;
                return violation!(Slice, [no], "#{no} goes from {end} on at {start}");
            }
            if nth >= known {
                self.put(no, *message)?;
            }
            end = message.span.end;
        }
        if end != slice.to {
            return violation!(Slice, [no], "#{no} ends at {end} and goes on at {}", slice.to);
        }
        if let Some(closed) = slice.tail {
            return self.tail(no, State { tail: end, closed, retained: None }, sight);
        }
        self.now.floor.raise(end, no);
        self.within_final(no)
    }

    fn tail(&mut self, no: usize, state: State, sight: &Sight) -> Checked {
        is_there(no, sight)?;
        let tail = state.tail;
        if let Some((floor, by)) = sight.floor.get().filter(|(floor, _)| tail < *floor) {
            return violation!(Tail, [no, by], "#{no} ends at {tail}, and #{by} had shown {floor}");
        }
        self.is_boundary(no, tail)?;
        self.now.floor.raise(tail, no);
        if let Some(retained) = state.retained {
            self.retained_at(no, retained, sight)?;
        }
        match sight.closed.get() {
            _ if state.closed => {
                self.closed(no)?;
                let (settled, by) = *self.final_tail.get_or_insert((tail, no));
                if settled != tail {
                    return violation!(
                        Closed,
                        [no, by],
                        "#{no} is closed at {tail}, and #{by} at {settled}"
                    );
                }
                self.within_final(no)
            }
            Some(by) => {
                violation!(Closed, [no, by], "#{no} is open, and #{by} had shown it closed")
            }
            None => self.within_final(no),
        }
    }

    /// An answer shows that the stream is closed.
    fn closed(&mut self, no: usize) -> Checked {
        if self.close_asked.get().is_none() {
            return violation!(Closed, [no], "#{no} is closed, and nobody has asked for that");
        }
        self.now.closed.note(no);
        Ok(())
    }

    /// Nothing lies behind the tail at which the stream is closed.
    fn within_final(&self, no: usize) -> Checked {
        let Some((tail, by)) = self.final_tail else { return Ok(()) };
        let last = self.messages.last_key_value().map(|(_, placed)| (placed.end, placed.by));
        match last.max(self.now.floor.get()) {
            Some((end, other)) if end > tail => violation!(
                Closed,
                [no, by, other],
                "#{no}: it is closed at {tail} by #{by}, and #{other} reaches {end}"
            ),
            _ => Ok(()),
        }
    }

    fn retained_at(&mut self, no: usize, retained: u64, sight: &Sight) -> Checked {
        if let Some((floor, by)) = sight.retained.get().filter(|(floor, _)| retained < *floor) {
            return violation!(
                Retained,
                [no, by],
                "#{no} has the boundary {retained}, and #{by} had shown {floor}"
            );
        }
        let asked = self.retain_asked.at;
        if retained > asked {
            return violation!(
                Retained,
                [no],
                "#{no} has the boundary {retained}, and nobody has asked for more than {asked}"
            );
        }
        self.now.retained.raise(retained, no);
        Ok(())
    }

    /// No message goes across `tail`.
    fn is_boundary(&mut self, no: usize, tail: u64) -> Checked {
        match self.messages.range(..tail).next_back() {
            Some((_, below)) if below.end == tail => {}
            Some((start, below)) if below.end > tail => {
                let by = below.by;
                return violation!(
                    Slice,
                    [no, by],
                    "#{no} ends at {tail}, inside {start}..{} of #{by}",
                    below.end
                );
            }
            _ if tail > 0 => {
                self.bare_tails.insert(tail);
            }
            _ => {}
        }
        Ok(())
    }

    /// Event `no` shows a message at its place.
    fn put(&mut self, no: usize, message: Message) -> Checked {
        let Message { id, span: Span { start, end } } = message;
        if let Some(known) = self.messages.get(&start) {
            let by = known.by;
            if (known.id, known.end) != (id, end) {
                return violation!(
                    Present,
                    [no, by],
                    "#{no} has {id} at {start}..{end}, where #{by} had {} up to {}",
                    known.id,
                    known.end
                );
            }
            return Ok(());
        }
        let Some(asked) = self.asked.get_mut(&id) else {
            return violation!(Slice, [no], "#{no} has {id} at {start}, and nobody appended that");
        };
        let by = asked.by;
        if asked.refused {
            return violation!(
                Once,
                [no, by],
                "#{no} has {id} at {start}, which #{by} was refused"
            );
        }
        if let Some(other) = asked.start {
            let by = self.messages[&other].by;
            return violation!(
                Once,
                [no, by],
                "#{no} has {id} at {start}, and #{by} has it at {other}"
            );
        }
        asked.start = Some(start);
        let sight = asked.sight;
        began_after(no, by, start, &sight)?;
        self.free(no, start, end)?;
        self.messages.insert(start, Placed { id, end, by: no });
        self.within_final(no)
    }

    /// No other message and no tail lies in `start..end`.
    fn free(&self, no: usize, start: u64, end: u64) -> Checked {
        // Most messages are the newest, and looking for one behind them would be for nothing.
        let last = self.messages.last_key_value();
        let is_newest = last.is_none_or(|(last, _)| *last < start);
        let below = if is_newest { last } else { self.messages.range(..start).next_back() };
        let above = (!is_newest).then(|| self.messages.range(start..).next()).flatten();
        let other = below.filter(|(_, below)| below.end > start);
        let other = other.or_else(|| above.filter(|(above, _)| **above < end));
        if let Some((other, placed)) = other {
            let by = placed.by;
            return violation!(
                Present,
                [no, by],
                "#{no} has {start}..{end}, and #{by} has {other}..{}",
                placed.end
            );
        }
        if start >= end {
            return violation!(Slice, [no], "#{no} has a message of no length at {start}");
        }
        match self.bare_tails.range(start + 1..end).next() {
            Some(tail) => violation!(Slice, [no], "#{no} has {start}..{end}, across a tail {tail}"),
            None => Ok(()),
        }
    }
}

/// An answer shows that the stream is there.
fn is_there(no: usize, sight: &Sight) -> Checked {
    match sight.gone.get() {
        Some(by) => {
            violation!(Deleted, [no, by], "#{no} finds what #{by} had shown to be deleted")
        }
        None => Ok(()),
    }
}

/// An append, asked for as event `by`, lies where the stream allowed it when it was asked for.
fn began_after(no: usize, by: usize, start: u64, sight: &Sight) -> Checked {
    if let Some((floor, other)) = sight.floor.get().filter(|(floor, _)| start < *floor) {
        return violation!(
            Order,
            [no, by, other],
            "#{by} lies at {start} (#{no}), and #{other} had shown {floor} before it began"
        );
    }
    if let Some(other) = sight.closed.get() {
        return violation!(Closed, [no, by, other], "#{by} is there, after #{other} was closed");
    }
    match sight.gone.get() {
        Some(other) => {
            violation!(Deleted, [no, by, other], "#{by} is there, after #{other} was deleted")
        }
        None => Ok(()),
    }
}

/// Names of messages are numbers, and nobody chooses them to do harm: two rounds of mixing do.
#[derive(Debug, Default)]
struct Mixed(u64);

impl Hasher for Mixed {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64((*byte).into());
        }
    }

    fn write_u64(&mut self, value: u64) {
        let mixed = (self.0 ^ value).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = (mixed ^ (mixed >> 32)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
