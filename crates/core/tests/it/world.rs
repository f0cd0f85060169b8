//! All shards of a node, driven as an engine drives them, with everything an engine keeps around
//! them replaced by the simplest thing that could be right: messages in a list, blobs in a count.
//! Every accepted group is checked on its way: entries survive encoding, and a second set of
//! shards, which sees only decoded entries, stays equal to the first.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use headwater_core::command::{Command, Decision, Evidence, Logged, Receipt, Stop, Target, View};
use headwater_core::entry::{Effects, Entry};
use headwater_core::ids::{BlobId, Lsn, Offset, Record, ShardNo, StreamId, StreamName, Timestamp};
use headwater_core::refusal::Refusal;
use headwater_core::state::{Now, Origin, State, Stream};
use headwater_core::stream::fork::{Anchor, Cut, Fork, ForkEvidence};
use headwater_core::stream::read::Facts;

mod check;

/// One message where it lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) offset: Offset,
    pub(crate) record: Record,
    pub(crate) bytes: Bytes,
}

impl Message {
    fn end(&self) -> Offset {
        self.offset.plus(self.bytes.len() as u64)
    }
}

pub(crate) struct World {
    pub(crate) now: Now,
    states: Vec<State>,
    replicas: Vec<State>,
    /// Everything that each incarnation holds, inherited messages copied.
    copied: BTreeMap<StreamId, Vec<Message>>,
    /// What each incarnation brought itself, inherited messages left where they are. Kept for ever.
    own: BTreeMap<StreamId, Vec<Message>>,
    /// Soft-deleted streams without forks, waiting to be purged.
    purges: VecDeque<StreamId>,
    /// How many streams name each snapshot body.
    blobs: BTreeMap<BlobId, usize>,
    lsn: Lsn,
    /// Every entry, encoded.
    pub(crate) log: Vec<Bytes>,
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Outcome {
    Wrote(Receipt),
    Repeated(Receipt),
    Refused(Refusal),
}

impl World {
    pub(crate) fn new() -> Self {
        let shards = || ShardNo::all().map(State::new).collect();
        Self {
            now: Now { node: Timestamp(0), wall: Timestamp(0) },
            states: shards(),
            replicas: shards(),
            copied: BTreeMap::new(),
            own: BTreeMap::new(),
            purges: VecDeque::new(),
            blobs: BTreeMap::new(),
            lsn: Lsn::ZERO,
            log: Vec::new(),
        }
    }

    pub(crate) fn shards(&self) -> &[State] {
        &self.states
    }

    pub(crate) fn shard(&self, no: ShardNo) -> &State {
        &self.states[no.index()]
    }

    pub(crate) fn stream(&self, name: &StreamName) -> Option<&Stream> {
        self.shard(name.shard()).find(name)
    }

    pub(crate) fn facts(&mut self, name: &StreamName) -> Result<Facts, Refusal> {
        self.settle(name);
        self.shard(name.shard()).live(name, self.now).map(Stream::facts)
    }

    /// The messages of a live stream from `from` on.
    pub(crate) fn messages(&self, id: StreamId, from: Offset) -> &[Message] {
        let all = self.copied.get(&id).map_or(&[][..], |all| all);
        &all[all.partition_point(|message| message.offset < from)..]
    }

    pub(crate) fn advance(&mut self, ms: u64) {
        self.now.node.0 += ms;
        self.now.wall.0 += ms;
    }

    /// Decides as often as it takes, then applies.
    pub(crate) fn submit(&mut self, command: &Command) -> Outcome {
        for name in command.streams() {
            // A create ends an expired stream by itself: without room in the log nobody else can.
            if !matches!(command, Command::Create(create) if create.name == *name) {
                self.settle(name);
            }
        }
        match self.decide(command) {
            Err(Stop::Stale) => {
                let command = self.with_evidence(command);
                for misled in misled(&command) {
                    assert_eq!(self.decide(&misled), Err(Stop::Stale), "{misled:?}");
                }
                match self.decide(&command) {
                    Err(Stop::Stale) => panic!("fresh evidence is stale: {command:?}"),
                    decided => self.conclude(decided),
                }
            }
            decided => self.conclude(decided),
        }
    }

    fn conclude(&mut self, decided: Result<Decision, Stop>) -> Outcome {
        match decided {
            Ok(Decision::Write(group, receipt)) => {
                self.write(&group);
                Outcome::Wrote(receipt)
            }
            Ok(Decision::Repeat(receipt)) => Outcome::Repeated(receipt),
            Err(Stop::Refuse(refusal)) => Outcome::Refused(refusal),
            Err(stop) => panic!("not an end: {stop:?}"),
        }
    }

    /// Widens the view until it is wide enough. The same question has the same answer.
    fn decide(&self, command: &Command) -> Result<Decision, Stop> {
        let mut needed = BTreeSet::from([command.shard()]);
        loop {
            let states: Vec<_> = needed.iter().map(|no| (*no, self.shard(*no))).collect();
            let view = View(&states);
            let decided = command.decide(&view, self.now);
            assert_eq!(decided, command.decide(&view, self.now), "{command:?}");
            assert!(command.touched(&view) <= self.lsn, "{command:?}");
            match decided {
                Err(Stop::Widen(no)) => assert!(needed.insert(no), "widened twice: {command:?}"),
                Ok(Decision::Write(group, receipt)) => {
                    let unseen = |logged: &Logged| !needed.contains(&logged.entry.shard());
                    assert!(!group.iter().any(unseen), "writes to a shard unseen: {group:?}");
                    return Ok(Decision::Write(group, receipt));
                }
                decided => return decided,
            }
        }
    }

    /// The first access that finds a stream expired makes it final.
    fn settle(&mut self, name: &StreamName) {
        let expired = |stream: &Stream| !stream.hidden && stream.expired(self.now);
        if self.stream(name).is_some_and(expired) {
            let decided = self.decide(&Command::Expire(name.clone()));
            assert!(matches!(self.conclude(decided), Outcome::Wrote(_)), "{name:?}");
        }
    }

    /// Purges until nothing is left to purge.
    pub(crate) fn purge_all(&mut self) -> usize {
        let mut purged = 0;
        while let Some(id) = self.purges.pop_front() {
            let decided = self.decide(&Command::Purge(id));
            purged += usize::from(matches!(self.conclude(decided), Outcome::Wrote(_)));
        }
        purged
    }

    /// A read: renews the window, and records it when the recorded renewal is old.
    pub(crate) fn renew(&mut self, id: StreamId) {
        if self.states[id.shard().index()].renew(id, self.now) {
            let decided = self.decide(&Command::Renew(id));
            self.conclude(decided);
        }
    }

    pub(crate) fn count_reader(&mut self, id: StreamId, joined: bool) {
        self.states[id.shard().index()].count_reader(id, joined, self.now);
    }

    /// Loses everything that is not in an image, and recovers.
    pub(crate) fn restart(&mut self) {
        let image = |state: &State| State::from_image(&state.image()).expect("our own image");
        self.states = self.replicas.iter().map(image).collect();
        for state in &mut self.states {
            state.grant_recovery_grace();
        }
    }

    fn write(&mut self, group: &[Logged]) {
        self.lsn = self.lsn.next();
        for Logged { entry, data } in group {
            let encoded = entry.encode();
            let decoded = Entry::decode(&encoded).expect("our own entry");
            assert_eq!(&decoded, entry);
            self.log.push(encoded);
            if let Entry::Created(created) = entry {
                self.begin(created.id);
                self.inherit(created.id, created.origin.as_ref(), created.start.0);
            }
            if let Some(data) = data {
                let (mut offset, mut record, mut rest) =
                    (data.offset, data.record, data.messages.bytes.clone());
                for len in &data.messages.lens {
                    let bytes = rest.split_to(usize::try_from(*len).unwrap());
                    let message = Message { offset, record, bytes };
                    (offset, record) = (message.end(), Record(record.0 + 1));
                    self.copied.get_mut(&data.stream).unwrap().push(message.clone());
                    self.own.get_mut(&data.stream).unwrap().push(message);
                }
                assert!(rest.is_empty(), "lengths add up to the bytes");
            }
            let index = entry.shard().index();
            let effects = self.states[index].apply(entry);
            assert_eq!(effects, self.replicas[index].apply(&decoded), "{entry:?}");
            self.states[index].mark(entry, self.lsn);
            self.follow_up(&effects);
        }
    }

    fn begin(&mut self, id: StreamId) {
        assert!(self.own.insert(id, Vec::new()).is_none(), "{id:?} is used twice");
        self.copied.insert(id, Vec::new());
    }

    fn inherit(&mut self, id: StreamId, origin: Option<&Origin>, end: Offset) {
        let Some(origin) = origin else { return };
        let inherited = self.copied[&origin.source_id].iter();
        let inherited = inherited.take_while(|message| message.offset < end).cloned().collect();
        self.copied.insert(id, inherited);
    }

    fn follow_up(&mut self, effects: &Effects) {
        if let Some(blob) = effects.blob_used {
            *self.blobs.entry(blob).or_default() += 1;
        }
        if let Some(blob) = effects.blob_dropped {
            let uses = self.blobs.get_mut(&blob).expect("a dropped blob was used");
            *uses -= 1;
            if *uses == 0 {
                self.blobs.remove(&blob);
            }
        }
        if let Some(id) = effects.purgeable {
            let stream = self.shard(id.shard()).stream(id).expect("what is purgeable is there");
            assert!(stream.hidden && !stream.has_forks(), "{id:?} is in use");
            self.purges.push_back(id);
        }
        if let Some(id) = effects.removed {
            self.copied.remove(&id);
        }
    }

    /// Looks up what storage would know.
    fn with_evidence(&self, command: &Command) -> Command {
        let mut command = command.clone();
        match &mut command {
            Command::Publish(publish) => {
                publish.evidence = self.evidence(&publish.name, publish.target);
            }
            Command::Retain(retain) => {
                retain.evidence = self.evidence(&retain.name, retain.target);
            }
            Command::Create(create) => {
                if let Some(fork) = &mut create.fork {
                    fork.evidence = self.fork_evidence(fork);
                }
            }
            _ => {}
        }
        command
    }

    fn evidence(&self, name: &StreamName, target: Target) -> Option<Evidence> {
        let stream = self.stream(name)?;
        match target {
            Target::Offset(offset) => Some(self.at(stream.id, offset)),
            Target::Record(record) => {
                let found = self.messages(stream.id, Offset::ZERO).iter();
                let found = { found }.find(|message| message.record == Record(record))?;
                Some(self.at(stream.id, found.offset))
            }
            Target::Beyond => None,
        }
    }

    fn at(&self, id: StreamId, offset: Offset) -> Evidence {
        let next = self.messages(id, offset).first();
        let record = next.filter(|next| next.offset == offset).map(|next| next.record);
        Evidence { stream: id, offset, record }
    }

    fn fork_evidence(&self, fork: &Fork) -> Option<ForkEvidence> {
        let stream = self.stream(&fork.source)?;
        let Anchor::At(offset) = fork.anchor else { return None };
        let messages = self.messages(stream.id, offset);
        let cut = match (messages.first(), fork.sub_offset) {
            (None, _) | (_, 0) => None,
            (Some(_), count) if stream.is_json() => {
                let last = usize::try_from(count - 1).ok().and_then(|last| messages.get(last));
                Some(last.map_or(Cut::TooFar, |last| {
                    Cut::Boundary(last.end(), Record(last.record.0 + 1))
                }))
            }
            (Some(first), len) => Some(match usize::try_from(len).unwrap_or(usize::MAX) {
                len if len < first.bytes.len() => Cut::Piece(first.bytes.slice(..len)),
                len if len == first.bytes.len() => {
                    Cut::Boundary(first.end(), Record(first.record.0 + 1))
                }
                _ => Cut::TooFar,
            }),
        };
        Some(ForkEvidence { anchor: self.at(stream.id, offset), cut })
    }
}

/// The same command with evidence of another incarnation, and with evidence of another place.
fn misled(command: &Command) -> [Command; 2] {
    let mislead = |change: fn(&mut Evidence)| {
        let mut command = command.clone();
        let evidence = match &mut command {
            Command::Publish(publish) => publish.evidence.as_mut(),
            Command::Retain(retain) => retain.evidence.as_mut(),
            Command::Create(create) => {
                let fork = create.fork.as_mut();
                fork.and_then(|fork| fork.evidence.as_mut()).map(|evidence| &mut evidence.anchor)
            }
            _ => None,
        };
        change(evidence.expect("only a command with evidence can be stale"));
        command
    };
    let elsewhere = |evidence: &mut Evidence| {
        evidence.offset = evidence.offset.plus(1);
        evidence.record = evidence.record.map(|record| Record(record.0 + 1));
    };
    [mislead(|evidence| evidence.stream = StreamId(u64::MAX)), mislead(elsewhere)]
}
