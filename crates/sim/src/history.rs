//! What was submitted and what of it is known to last. The log keeps order, so after a crash the
//! streams are what the durable changes made them, plus a first part of the rest: nothing is
//! skipped, halved or reordered.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use headwater_core::ids::{BucketId, Lsn, StreamId, StreamName};
use headwater_core::state::Now;
use headwater_server::engine::Engine;

use crate::model::{Age, Change, Life, Model, Stream};

/// A change that was submitted and is not known to be durable.
#[derive(Debug, Clone)]
struct Op {
    change: Change,
    lsn: Lsn,
    /// The engine did it by itself, at a time of its own choice.
    own: bool,
}

/// Something that an answer may have been decided from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    Stream(StreamName),
    Bucket(BucketId),
}

/// The truth about one server.
#[derive(Debug, Default, Clone)]
pub(crate) struct History {
    /// With every submitted change.
    pub(crate) live: Model,
    /// With the durable ones only.
    base: Model,
    ops: VecDeque<Op>,
    touched: BTreeMap<Key, Lsn>,
    /// Where the newest submitted change is.
    newest: Lsn,
    /// Node time of the newest renewal by a read.
    pub(crate) reads: BTreeMap<StreamId, u64>,
    /// Node time of the newest read that was answered: a crash must not cut its renewal short.
    pub(crate) answered: BTreeMap<StreamId, u64>,
    /// Node time at which the engine has shown a stream whose end was open to be alive.
    pub(crate) shown: BTreeMap<StreamId, u64>,
    /// Streams that are being watched, which stops their windows.
    pub(crate) watched: BTreeSet<StreamId>,
    /// Streams with a durable change that live readers must hear of.
    pub(crate) changed: BTreeSet<StreamId>,
}

impl History {
    /// Notes a submitted change: the log holds it at `lsn`.
    pub(crate) fn push(&mut self, change: Change, lsn: Lsn) {
        for key in Self::keys(&change) {
            self.touched.insert(key, lsn);
        }
        self.newest = lsn;
        self.live.apply(&change);
        self.ops.push_back(Op { change, lsn, own: false });
    }

    /// Notes a change that the engine has made by itself since the newest submitted one.
    ///
    /// A sweep ends many streams in as many entries, which may become durable one after the other:
    /// each is known to be durable when the newest is, and may be shown from its own on. The engine
    /// is believed where that is, within what is possible.
    pub(crate) fn push_own(&mut self, engine: &Engine, change: Change) {
        let (first, last) = (Lsn(self.newest.0 + 1), engine.positions().1);
        for key in Self::keys(&change) {
            let said = match &key {
                Key::Stream(name) => engine.stream_touched(name),
                Key::Bucket(id) => engine.bucket_touched(id),
            };
            self.touched.insert(key, said.max(first).min(last));
        }
        self.live.apply(&change);
        self.ops.push_back(Op { change, lsn: last, own: true });
    }

    /// Notes that the log is durable up to `lsn`.
    pub(crate) fn settle(&mut self, lsn: Lsn) {
        while self.ops.front().is_some_and(|op| op.lsn <= lsn) {
            let op = self.ops.pop_front().expect("there is one");
            if let Some(stream) = op.change.wakes().and_then(|name| self.base.streams.get(name)) {
                self.changed.insert(stream.id);
            }
            self.base.apply(&op.change);
        }
    }

    /// How many changes are not known to be durable.
    pub(crate) fn unsettled(&self) -> usize {
        self.ops.len()
    }

    /// The newest change of any of `keys`.
    pub(crate) fn touched(&self, keys: &[Key]) -> Lsn {
        keys.iter().filter_map(|key| self.touched.get(key)).max().copied().unwrap_or(Lsn::ZERO)
    }

    /// A read has renewed a stream's life. What recovery granted may reach further.
    pub(crate) fn note_read(&mut self, id: StreamId, at: u64) {
        let newest = self.reads.entry(id).or_insert(0);
        *newest = at.max(*newest);
    }

    /// Whether a stream's life is over.
    pub(crate) fn age(&self, stream: &Stream, now: Now) -> Age {
        let read = self.reads.get(&stream.id).copied().unwrap_or(0);
        match stream.life {
            Life::Window(_) if self.watched.contains(&stream.id) => Age::Alive,
            _ => match stream.age(read, now) {
                Age::Either if self.shown.get(&stream.id) == Some(&now.node.0) => Age::Alive,
                age => age,
            },
        }
    }

    /// What a restart may find, the most likely first: all changes, all but the last one, and so on
    /// down to the durable ones. What the engine does by itself may be missing in each. With it,
    /// how many changes happened and how many were lost.
    pub(crate) fn candidates(&self) -> impl Iterator<Item = (Model, usize, usize)> + '_ {
        let total = self.ops.iter().filter(|op| !op.own).count();
        (0..=self.ops.len()).rev().flat_map(move |end| {
            let happened: Vec<&Op> = self.ops.iter().take(end).collect();
            let asked = happened.iter().filter(|op| !op.own).count();
            [true, false].map(|with_own| {
                let mut model = self.base.clone();
                let mut ops = happened.iter().filter(|op| with_own || !op.own);
                ops.by_ref().for_each(|op| model.apply(&op.change));
                (model, asked, total - asked)
            })
        })
    }

    /// The streams that the engine had ended by itself, durable or not.
    pub(crate) fn ended(&self) -> BTreeSet<StreamName> {
        let own = self.ops.iter().filter(|op| op.own);
        own.filter_map(|op| match &op.change {
            Change::Ended(name) | Change::Purged(name) => Some(name.clone()),
            _ => None,
        })
        .collect()
    }

    /// Starts anew with what a restart has found; `reads` say how recovery has lengthened lives.
    pub(crate) fn restart(&mut self, model: Model) {
        self.base.clone_from(&model);
        self.live = model;
        self.ops.clear();
        self.touched.clear();
        self.newest = Lsn::ZERO;
        self.shown.clear();
        self.watched.clear();
        self.changed.clear();
    }

    fn keys(change: &Change) -> Vec<Key> {
        let stream = |name: &StreamName| Key::Stream(name.clone());
        match change {
            Change::BucketCreated(bucket) | Change::BucketDeleted(bucket) => {
                vec![Key::Bucket(bucket.clone())]
            }
            // A fork more or less changes nothing that can be seen of its source.
            Change::Created(name, _) | Change::Ended(name) | Change::Purged(name) => {
                vec![stream(name), Key::Bucket(name.bucket())]
            }
            Change::Appended { name, .. }
            | Change::Published { name, .. }
            | Change::Retained { name, .. }
            | Change::AttributesSet { name, .. } => vec![stream(name)],
        }
    }
}
