//! Reading: only what is durable may come out, and it never changes.

use std::task::{Context, Waker};

use headwater_core::ids::{Offset, StreamName};
use headwater_core::stream::read::Facts;

use super::act::code;
use super::{SlowRead, Watched, World};
use crate::model::{Age, Change, Life};
use crate::oracle::{self, Check, Expected, violation};

/// Readers that are open at a time.
const SLOW_MAX: usize = 3;

impl Watched {
    fn is_woken(&mut self) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        self.changed.as_mut().poll(&mut context).is_ready()
    }
}

impl World {
    /// Looks at a stream as a request does, and waits until what it sees is durable. Nothing when
    /// there is no such stream, as there must not be, or when the disk died.
    pub(super) fn look(&mut self, name: &StreamName) -> Check<Option<Facts>> {
        let engine = self.engine();
        let now = engine.now();
        let invoked = self.record.moment();
        let mut look = engine.look(name);
        self.trace.line(format_args!("look at {}", name.key()));
        self.note_look(name);
        let live = self.history.live.streams.get(name).cloned();
        let needs = self.history.touched(&[crate::history::Key::Stream(name.clone())]);
        let facts = loop {
            match look.poll() {
                Ok(Some(facts)) => break facts.clone(),
                Ok(None) => self.commit()?,
                Err(_) if self.down => return Ok(None),
                Err(fault) => return violation!("looking at {}: {fault}", name.key()),
            }
            if self.down {
                return Ok(None);
            }
        };
        if let Ok(facts) = &facts {
            self.record.tail(facts.id, invoked, facts.tail.0, facts.closed);
        }
        if engine.positions().0 < needs {
            return violation!("{} was shown before it was durable", name.key());
        }
        let age = live.as_ref().map(|stream| self.history.age(stream, now));
        let expected = match &live {
            Some(stream) if stream.hidden => Err("STREAM_DELETED"),
            Some(stream) if age != Some(Age::Over) => Ok(stream),
            _ if !self.history.live.has_bucket(&name.bucket()) => Err("BUCKET_NOT_FOUND"),
            _ => Err("STREAM_NOT_FOUND"),
        };
        match (facts, expected) {
            (Ok(facts), Ok(stream)) => match oracle::difference(&facts, false, stream) {
                None => Ok(Some(facts)),
                Some(why) => violation!("{}: {why}", name.key()),
            },
            (Err(refusal), Err(expected)) if code(&refusal) == expected => Ok(None),
            (Err(_), Ok(_)) if age == Some(Age::Either) => Ok(None),
            (got, expected) => {
                let expected = expected.map(|stream| stream.id);
                violation!("looking at {}: {got:?} instead of {expected:?}", name.key())
            }
        }
    }

    /// A look ends a stream whose time is over.
    fn note_look(&mut self, name: &StreamName) {
        let engine = self.engine();
        let Some(stream) = self.history.live.streams.get(name) else { return };
        let over = self.history.age(stream, engine.now()) != Age::Alive;
        if over && !stream.hidden && engine.peek(name) != Some((stream.id, false)) {
            self.history.push_own(&engine, Change::Ended(name.clone()));
            self.sometimes("expired at an access");
        }
    }

    pub(super) fn read_something(&mut self) -> Check {
        let name = self.rng.pick(&self.workload.names).clone();
        let Some(facts) = self.look(&name)? else { return Ok(()) };
        let Some(stream) = self.history.live.streams.get(&name).cloned() else { return Ok(()) };
        let span = stream.next() - stream.first;
        let from = stream.first + if self.rng.one_in(2) { 0 } else { self.rng.index(span + 1) };
        let to = if self.rng.one_in(2) {
            stream.next()
        } else {
            from + self.rng.index(stream.next() - from + 1)
        };
        self.trace.line(format_args!("read {} {from}..{to}", name.key()));
        let engine = self.engine();
        let [start, end] = [from, to].map(|record| Offset(stream.start_of(record)));
        if !engine.range(&facts, start, end).is_hot() {
            self.sometimes("cold read");
        }
        let read = oracle::check_range(&engine, &facts, &stream, from, to);
        if self.has_died() {
            return Ok(());
        }
        read?;
        for record in [from, to] {
            let start = Offset(stream.start_of(record));
            let got = engine.record_at(&facts, start).map(|found| found.map(|it| it.0));
            if !matches!(got, Ok(Some(it)) if it == record as u64) {
                return violation!("{}: {got:?} starts at {}", name.key(), start.0);
            }
        }
        if matches!(stream.life, Life::Window(_)) {
            self.renew(&facts);
        }
        Ok(())
    }

    /// Renews a stream's life because of a read; the answer goes out when that is certain.
    fn renew(&mut self, facts: &Facts) {
        let engine = self.engine();
        let (recorded, at) = (engine.renew(facts), engine.now().node.0);
        self.history.note_read(facts.id, at);
        // On a full disk reads are answered all the same.
        if !self.is_tight() {
            self.renewals.push((recorded, facts.id, at));
        }
    }

    /// Answers reads whose renewals are recorded.
    pub(super) fn answer_reads(&mut self) {
        for (mut recorded, id, at) in std::mem::take(&mut self.renewals) {
            match recorded.poll() {
                Ok(true) => {
                    let newest = self.history.answered.entry(id).or_insert(0);
                    *newest = at.max(*newest);
                }
                Ok(false) => self.renewals.push((recorded, id, at)),
                // The log has stopped: no answer.
                Err(_) => {}
            }
        }
    }

    /// Opens a reader that takes its time, or lets one take a step.
    pub(super) fn read_slowly(&mut self) -> Check {
        if self.slow.len() < SLOW_MAX && self.rng.one_in(2) {
            let name = self.rng.pick(&self.workload.names).clone();
            let Some(facts) = self.look(&name)? else { return Ok(()) };
            let Some(stream) = self.history.live.streams.get(&name) else { return Ok(()) };
            let expected = Expected::new(stream, stream.first, stream.next());
            let reader = self.engine().range(&facts, facts.retained, facts.tail);
            self.slow.push(SlowRead { reader, expected, name: name.key().to_owned() });
            return Ok(());
        }
        if self.slow.is_empty() {
            return Ok(());
        }
        let at = self.rng.index(self.slow.len());
        let slow = &mut self.slow[at];
        self.trace.line(format_args!("{} is read on", slow.name));
        let stepped = slow.expected.step(&mut slow.reader, &slow.name);
        if !self.has_died() && !stepped? {
            self.slow.remove(at);
            self.sometimes("read across other work");
        }
        Ok(())
    }

    /// Whether the process died in the middle of a read.
    fn has_died(&mut self) -> bool {
        self.down |= self.disk.with(|medium| medium.dead);
        self.down
    }

    /// A live reader comes or goes.
    pub(super) fn watch(&mut self) -> Check {
        let engine = self.engine();
        if !self.watched.is_empty() && self.rng.one_in(2) {
            let at = self.rng.index(self.watched.len());
            let Watched { watch, id, .. } = self.watched.remove(at);
            drop(watch);
            if !self.watched.iter().any(|other| other.id == id) {
                self.history.watched.remove(&id);
            }
            self.history.note_read(id, engine.now().node.0);
            self.sometimes("live reader kept a stream");
            return Ok(());
        }
        let name = self.rng.pick(&self.workload.names).clone();
        let Some(facts) = self.look(&name)? else { return Ok(()) };
        self.renew(&facts);
        let since = engine.now().node.0;
        self.history.watched.insert(facts.id);
        let watch = engine.watch(facts.id);
        let changed = Box::pin(watch.changed());
        let mut watched = Watched { watch, id: facts.id, since, changed };
        if watched.is_woken() {
            return violation!("a live reader of {} is woken by nothing", name.key());
        }
        self.history.changed.remove(&facts.id);
        self.watched.push(watched);
        Ok(())
    }

    /// Whoever watches a stream that has changed must know by now.
    pub(super) fn check_woken(&mut self) -> Check {
        let changed = std::mem::take(&mut self.history.changed);
        for at in 0..self.watched.len() {
            let watched = &mut self.watched[at];
            if !changed.contains(&watched.id) {
                continue;
            }
            if !watched.is_woken() {
                return violation!("stream {:?} changed and its live reader sleeps", watched.id);
            }
            watched.changed = Box::pin(watched.watch.changed());
            let _registered = watched.is_woken();
            self.sometimes("live reader woken");
        }
        Ok(())
    }
}
