//! From the bytes of an answer to messages at offsets, and into the logs that they belong to.

use std::sync::Arc;

use crate::log::{Breach, Checked, Seen, breach};
use crate::message::{Key, excerpt};
use crate::world::{Form, Stream, World};

/// How a read's bytes are arranged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// The body of a read, or the payload of an event: a JSON array on JSON streams.
    Whole,
    /// One message alone, as a part of a bootstrap answer.
    Single,
}

/// Messages that belong to one log: a fork's read begins with those of its source.
struct Run {
    owner: Arc<Stream>,
    from: u64,
    seen: Vec<Seen>,
}

impl World {
    /// Takes down that a read of `stream` returned `bytes` for everything from `from` to `to`.
    /// `record` is the number of the first record, where it is known.
    pub fn observed(
        &self,
        stream: &Arc<Stream>,
        (from, to): (u64, u64),
        bytes: &[u8],
        record: Option<u64>,
    ) -> Checked<usize> {
        let mut reader = Reader { world: self, stream, at: from, record, runs: Vec::new() };
        reader.read(bytes, Layout::Whole)?;
        let count = reader.runs.iter().map(|run| run.seen.len()).sum();
        reader.finish(to)?;
        Ok(count)
    }

    /// As [`Self::observed`], of messages that come one by one.
    pub fn observed_parts(
        &self,
        stream: &Arc<Stream>,
        (from, to): (u64, u64),
        parts: &[&[u8]],
    ) -> Checked {
        let mut reader = Reader { world: self, stream, at: from, record: None, runs: Vec::new() };
        for part in parts {
            reader.read(part, Layout::Single)?;
        }
        reader.finish(to)
    }

    /// What an append with these messages looks like once it ends at `end`.
    pub fn placed(
        &self,
        stream: &Stream,
        first: Key,
        count: u32,
        end: u64,
        record: Option<u64>,
    ) -> Checked<Vec<Seen>> {
        let mut start = end;
        let mut placed = Vec::new();
        for by in (0..count).rev() {
            let key = first.plus(by);
            let len = self.recipe.message(stream.no, key).len() as u64 + stream.form.separator();
            let end = start;
            start = start
                .checked_sub(len)
                .ok_or_else(|| Breach(format!("append {first} cannot end at {end}")))?;
            let record = record.map(|record| record + u64::from(by));
            placed.push(Seen { start, end, key, record });
        }
        placed.reverse();
        Ok(placed)
    }
}

struct Reader<'a> {
    world: &'a World,
    stream: &'a Arc<Stream>,
    at: u64,
    record: Option<u64>,
    runs: Vec<Run>,
}

impl Reader<'_> {
    fn read(&mut self, bytes: &[u8], layout: Layout) -> Checked {
        let is_array = self.stream.form == Form::Json && layout == Layout::Whole;
        let mut rest = bytes;
        if is_array {
            let inner = bytes.strip_prefix(b"[").and_then(|bytes| bytes.strip_suffix(b"]"));
            let Some(inner) = inner else {
                return breach!("this is no JSON array: {}", excerpt(bytes));
            };
            rest = inner;
        }
        while !rest.is_empty() {
            let len = self.message(rest)?;
            rest = &rest[len..];
            if is_array && !rest.is_empty() {
                let Some(behind) = rest.strip_prefix(b",").filter(|rest| !rest.is_empty()) else {
                    return breach!("at {} the array goes on with {}", self.at, excerpt(rest));
                };
                rest = behind;
            } else if layout == Layout::Single && !rest.is_empty() {
                return breach!("at {} a part goes on with {}", self.at, excerpt(rest));
            }
        }
        Ok(())
    }

    /// Takes in the message at the start of `bytes` and returns its length there.
    fn message(&mut self, bytes: &[u8]) -> Checked<usize> {
        let owner = owner(self.stream, self.at);
        let (key, len) = match &owner.piece {
            Some(piece) if self.at == owner.base() => {
                let whole = self.world.recipe.message(piece.stream, piece.key);
                let len = usize::try_from(piece.len).expect("a piece fits in memory");
                if !bytes.starts_with(&whole[..len]) {
                    return breach!("at {} the fork's first piece is altered", self.at);
                }
                (Key::PIECE, len)
            }
            _ => {
                let found = self.world.recipe.recognise(bytes);
                let found = found.map_err(|what| Breach(format!("at {}: {what}", self.at)))?;
                if found.stream != owner.no {
                    let (is, no) = (found.stream, owner.no);
                    return breach!(
                        "at {} there is {} of s{is} where messages of s{no} belong",
                        self.at,
                        found.key
                    );
                }
                (found.key, found.len)
            }
        };
        let start = self.at;
        self.at += len as u64 + self.stream.form.separator();
        let seen = Seen { start, end: self.at, key, record: self.record };
        self.record = self.record.map(|record| record + 1);
        match self.runs.last_mut().filter(|run| run.owner.no == owner.no) {
            Some(run) => run.seen.push(seen),
            None => self.runs.push(Run { owner, from: start, seen: vec![seen] }),
        }
        Ok(len)
    }

    fn finish(self, to: u64) -> Checked {
        if self.at != to {
            return breach!("a read that is to end at {to} ends at {}", self.at);
        }
        let mut runs = self.runs.into_iter().peekable();
        while let Some(run) = runs.next() {
            let end = runs.peek().map_or(to, |next| next.from);
            let mut ledger = run.owner.ledger();
            let checked = ledger.observed(run.from, end, &run.seen);
            checked.map_err(|Breach(what)| {
                if run.owner.no == self.stream.no {
                    Breach(what)
                } else {
                    Breach(format!("in the part of s{}: {what}", run.owner.no))
                }
            })?;
        }
        let mut ledger = self.stream.ledger();
        let floor = ledger.log.floor();
        // Even a fork that has nothing of its own has shown its tail.
        ledger.log.tail(floor.min(to), to)
    }
}

/// Whose messages lie at `offset` of a stream: its own, or those of what it was forked from.
pub fn owner(stream: &Arc<Stream>, offset: u64) -> Arc<Stream> {
    let mut owner = stream;
    while let Some(source) = owner.source.as_ref().filter(|_| offset < owner.base()) {
        owner = source;
    }
    Arc::clone(owner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::{Piece, Place};

    const FIRST: Key = Key { writer: 7, n: 0 };

    fn place(no: u32) -> Place {
        Place::Base(format!("s{no}"))
    }

    fn stream(world: &World, form: Form) -> Arc<Stream> {
        world.enrol(place, form, None)
    }

    #[track_caller]
    fn broken<T: std::fmt::Debug>(checked: Checked<T>, says: &str) {
        let breach = checked.expect_err(says);
        assert!(breach.0.contains(says), "{breach}");
    }

    #[test]
    fn json_messages_are_found_with_their_separators() {
        let world = World::new(1);
        let stream = stream(&world, Form::Json);
        let messages = [world.recipe.message(0, FIRST), world.recipe.message(0, FIRST.plus(1))];
        let body = crate::plain::body(&world, &stream, FIRST, 2);
        let end = messages.iter().map(|message| message.len() as u64 + 1).sum();
        assert_eq!(world.observed(&stream, (0, end), &body, Some(0)), Ok(2));
        let placed = world.placed(&stream, FIRST, 2, end, Some(0)).unwrap();
        assert_eq!(stream.ledger().log.acked(0, &placed), Ok(()));
        broken(world.observed(&stream, (0, end - 1), &body, None), "ends at");
        broken(world.observed(&stream, (0, end), b"[{]", None), "no message");
    }

    #[test]
    fn what_a_fork_inherits_is_compared_with_its_source() {
        let world = World::new(1);
        let source = stream(&world, Form::Text);
        let bytes = world.recipe.message(source.no, FIRST);
        let base = bytes.len() as u64;
        world.observed(&source, (0, base), &bytes, None).unwrap();
        let fork = world.enrol(place, Form::Text, Some((Arc::clone(&source), base, None)));
        let own = world.recipe.message(fork.no, FIRST);
        let tail = base + own.len() as u64;
        let whole = [bytes.clone(), own.clone()].concat();
        assert_eq!(world.observed(&fork, (0, tail), &whole, None), Ok(2));
        assert_eq!(fork.ledger().log.len(), 1);
        let twin = (1..).map(|by| world.recipe.message(source.no, FIRST.plus(by)));
        let twin = twin.take(10_000).find(|twin| twin.len() == bytes.len()).expect("a twin");
        let swapped = [twin, own].concat();
        broken(world.observed(&fork, (0, tail), &swapped, None), "in the part of s0: where w7 n0");
        let again = [bytes.clone(), bytes].concat();
        broken(world.observed(&fork, (0, 2 * base), &again, None), "messages of s1 belong");
    }

    #[test]
    fn a_fork_may_begin_with_a_piece() {
        let world = World::new(1);
        let source = stream(&world, Form::Bytes);
        let message = world.recipe.message(source.no, FIRST);
        let piece = Piece { stream: source.no, key: FIRST, len: 9 };
        let fork = world.enrol(place, Form::Bytes, Some((source, 0, Some(piece))));
        let own = world.recipe.message(fork.no, FIRST);
        let whole = [&message[..9], &own].concat();
        assert_eq!(world.observed(&fork, (0, whole.len() as u64), &whole, None), Ok(2));
        let mut altered = whole;
        altered[8] ^= 1;
        broken(world.observed(&fork, (0, altered.len() as u64), &altered, None), "is altered");
    }
}
