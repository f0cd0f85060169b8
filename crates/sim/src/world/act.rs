//! Submitting commands, and judging the answers.

use headwater_core::command::{Command, Evidence, Target};
use headwater_core::ids::{Lsn, Offset, Record, StreamName};
use headwater_core::refusal::Refusal;
use headwater_core::state::Now;
use headwater_core::stream::append::Append;
use headwater_core::stream::fork::{Anchor, Cut, Fork, ForkEvidence};
use headwater_core::stream::read::Facts;
use headwater_server::engine::{Engine, Fault};
use headwater_storage::Error;

use super::{Flight, World};
use crate::bug::Bug;
use crate::history::Key;
use crate::model::{Action, Age, Answer, Change, Expect, Model};
use crate::oracle::{Check, violation};
use crate::record::Asked;

impl World {
    pub(super) fn submit_next(&mut self) -> Check {
        let now = self.engine().now();
        let action = self.workload.next(&self.history.live, now);
        self.submit(action)
    }

    pub(super) fn submit(&mut self, mut action: Action) -> Check {
        for name in names(&action.command) {
            self.decide_age(&name);
        }
        if !self.gather_evidence(&mut action.command)? || !self.store_blob(&action)? {
            return Ok(());
        }
        let engine = self.engine();
        let now = engine.now();
        let sent = self.perturb(&action, now);
        let submitted = engine.submit(&sent);
        if self.bug == Some(Bug::AppendedTwice)
            && matches!(sent, Command::Append(_))
            && self.rng.one_in(8)
        {
            let _again = engine.submit(&sent).is_ok();
        }
        let seen = names(&action.command);
        // A source that was hidden for the fork comes before the end of that fork.
        for name in seen.iter().rev().filter(|name| engine.peek(name).is_some_and(|it| it.1)) {
            self.note_expired(name, now);
        }
        for name in &seen {
            self.note_expired(name, now);
        }
        let pending = match submitted {
            Ok(pending) => pending,
            Err(fault) => return self.refused_by_disk(&action, &fault),
        };
        if !self.tight {
            self.note_room();
        }
        let Expect { answer, change } = self.expect(&action, now);
        self.trace.line(format_args!("{}: {answer:?}", describe(&action)));
        self.note_rare(&action, &answer, change.as_ref());
        let (needs, asked) = if let Some(change) = change {
            self.happened(&engine, change)
        } else {
            let keys = depends_on(&self.history.live, &action.command, &answer);
            (self.history.touched(&keys), None)
        };
        self.flights.push(Flight { pending, action, expected: answer, asked, needs });
        if self.bug == Some(Bug::AnswerBeforeDurable) {
            self.history.settle(engine.positions().1);
        }
        self.poll()
    }

    pub(super) fn submit_batch(&mut self) -> Check {
        let actions = self.workload.batch(&self.history.live);
        let appends: Vec<Append> = actions.iter().filter_map(Action::append).cloned().collect();
        let name = appends[0].name.clone();
        self.decide_age(&name);
        let engine = self.engine();
        let now = engine.now();
        let (outcomes, mut durable) = engine.submit_batch(&appends);
        self.note_expired(&name, now);
        for (action, outcome) in actions.iter().zip(&outcomes) {
            let outcome = match outcome {
                Ok(outcome) => outcome,
                Err(fault) => return self.refused_by_disk(action, fault),
            };
            let Expect { answer, change } = self.expect(action, now);
            let got = Answer::of(outcome);
            self.trace.line(format_args!("batch {}: {answer:?}", describe(action)));
            if got != answer {
                return violation!("batch {}: {got:?} instead of {answer:?}", describe(action));
            }
            if let Some(change) = change {
                self.happened(&engine, change);
                self.sometimes("batch appended");
            }
        }
        let needs = self.history.touched(&[Key::Stream(name)]);
        if durable.poll().is_ok_and(|ready| ready) && engine.positions().0 < needs {
            return violation!("a batch was answered before it was durable");
        }
        Ok(())
    }

    /// Notes a change that the engine has just queued, and where.
    fn happened(&mut self, engine: &Engine, mut change: Change) -> (Lsn, Option<Asked>) {
        if let Change::Created(name, stream) = &mut change
            && let Some((id, _)) = engine.peek(name)
        {
            stream.id = id;
        }
        let lsn = engine.positions().1;
        self.trace.line(format_args!("  queued as {}", lsn.0));
        let asked = self.note_asked(&change);
        self.history.push(change, lsn);
        (lsn, asked)
    }

    /// Notes for the checker of histories what somebody has asked for.
    fn note_asked(&mut self, change: &Change) -> Option<Asked> {
        match change {
            Change::Created(_, stream) => {
                self.record.created(stream.id, stream.tail(), stream.closed);
                None
            }
            Change::Appended { name, appended, .. } => {
                let stream = &self.history.live.streams[name];
                let len = appended.messages.iter().map(|message| message.len() as u64).sum();
                let asked = (len > 0).then(|| self.record.append(stream.id, len));
                if appended.close {
                    self.record.close(stream.id);
                }
                asked
            }
            _ => None,
        }
    }

    fn expect(&self, action: &Action, now: Now) -> Expect {
        let age = |stream: &crate::model::Stream| self.history.age(stream, now);
        self.history.live.expect(action, now, &age)
    }

    /// Asks the engine whether a stream has expired, where recovery has left that open.
    fn decide_age(&mut self, name: &StreamName) {
        let engine = self.engine();
        let now = engine.now();
        let age = self.history.live.streams.get(name).map(|it| self.history.age(it, now));
        if age != Some(Age::Either) {
            return;
        }
        let _released_later = engine.look(name);
        self.note_expired(name, now);
        let stream = self.history.live.streams.get(name);
        if let Some(stream) = stream.filter(|stream| !stream.hidden) {
            self.history.shown.insert(stream.id, now.node.0);
        }
    }

    /// An access has ended a stream if its time was over.
    fn note_expired(&mut self, name: &StreamName, now: Now) {
        let Some(stream) = self.history.live.streams.get(name) else { return };
        let over = self.history.age(stream, now) != Age::Alive;
        let engine = self.engine();
        let still = engine.peek(name) == Some((stream.id, stream.hidden));
        if over && !stream.hidden && !still {
            self.history.push_own(&engine, Change::Ended(name.clone()));
            self.sometimes("expired at an access");
        }
    }

    /// The submission failed: there was no room, or the disk is gone.
    fn refused_by_disk(&mut self, action: &Action, fault: &Fault) -> Check {
        self.trace.line(format_args!("{}: fault {fault}", describe(action)));
        match &fault.cause {
            Some(cause) => self.failed(&describe(action), cause)?,
            None => self.down = true,
        }
        if !self.down
            && let Command::Publish(publish) = &action.command
            && let Some(blob) = &publish.blob
            && let Err(error) = self.engine().blobs().remove(blob.blob)
        {
            self.failed("removing a blob", &error)?;
        }
        Ok(())
    }

    /// Takes the answers that are out, and compares them.
    pub(super) fn poll(&mut self) -> Check {
        let engine = self.engine();
        let durable = engine.positions().0;
        self.history.settle(durable);
        self.answer_reads();
        let mut waiting = Vec::new();
        for mut flight in std::mem::take(&mut self.flights) {
            let outcome = match flight.pending.poll() {
                Ok(Some(outcome)) => outcome,
                Ok(None) => {
                    waiting.push(flight);
                    continue;
                }
                Err(_) if self.disk.with(|medium| medium.dead || medium.failed.is_some()) => {
                    self.down = true;
                    waiting.push(flight);
                    continue;
                }
                Err(fault) => return violation!("{}: {fault}", describe(&flight.action)),
            };
            let got = Answer::of(outcome);
            if got != flight.expected {
                return violation!(
                    "{}: {outcome:?} instead of {:?}",
                    describe(&flight.action),
                    flight.expected
                );
            }
            if flight.needs > durable {
                return violation!(
                    "{}: answered {got:?} before {} is durable; that is {}",
                    describe(&flight.action),
                    flight.needs.0,
                    durable.0
                );
            }
            if let (Some(asked), Answer::Appended { next, .. }) = (flight.asked, got) {
                self.record.acked(asked, next);
            }
        }
        self.flights = waiting;
        Ok(())
    }

    /// Looks up what the command needs to know of committed bytes, as a server does. False when
    /// the disk died meanwhile.
    fn gather_evidence(&mut self, command: &mut Command) -> Check<bool> {
        let name = match command {
            Command::Publish(publish) => publish.name.clone(),
            Command::Retain(retain) => retain.name.clone(),
            Command::Create(create) => match &create.fork {
                Some(fork) if matches!(fork.anchor, Anchor::At(_)) => fork.source.clone(),
                _ => return Ok(true),
            },
            _ => return Ok(true),
        };
        let Some(facts) = self.look(&name)? else { return Ok(!self.down) };
        let engine = self.engine();
        let gathered =
            match command {
                Command::Publish(publish) => evidence(&engine, &facts, publish.target)
                    .map(|evidence| publish.evidence = evidence),
                Command::Retain(retain) => evidence(&engine, &facts, retain.target)
                    .map(|evidence| retain.evidence = evidence),
                Command::Create(create) => match &mut create.fork {
                    Some(fork) => fork_evidence(&engine, &facts, fork)
                        .map(|evidence| fork.evidence = evidence),
                    None => Ok(()),
                },
                _ => Ok(()),
            };
        match gathered {
            Ok(()) => Ok(true),
            Err(error) => {
                self.failed("gathering evidence", &error)?;
                Ok(false)
            }
        }
    }

    /// Stores the body of a snapshot. False when that failed.
    fn store_blob(&mut self, action: &Action) -> Check<bool> {
        let Command::Publish(publish) = &action.command else { return Ok(true) };
        let id = publish.blob.as_ref().expect("the workload chose one").blob;
        let mut body = action.blob.to_vec();
        if self.bug == Some(Bug::SnapshotBytesChanged)
            && let Some(last) = body.last_mut()
        {
            *last ^= 1;
        }
        let piece = to_usize(self.rng.within(1, 5_000));
        let engine = self.engine();
        let written = engine.blobs().create(id).and_then(|mut writer| {
            body.chunks(piece).try_for_each(|piece| writer.write(piece))?;
            writer.finish()
        });
        match written {
            Ok(len) if len == body.len() as u64 => Ok(true),
            Ok(len) => violation!("a blob of {} bytes is said to have {len}", body.len()),
            Err(error) => {
                self.failed("storing a snapshot", &error)?;
                Ok(false)
            }
        }
    }

    /// Starts a snapshot's body and leaves it.
    pub(super) fn abandon_blob(&mut self) -> Check {
        let id = headwater_core::ids::BlobId(self.rng.id());
        let finish = self.rng.one_in(2);
        let written = self.engine().blobs().create(id).and_then(|mut writer| {
            writer.write(b"never to be seen")?;
            if finish { writer.finish().map(|_| ()) } else { Ok(()) }
        });
        self.trace.line(format_args!("a snapshot is abandoned"));
        written.or_else(|error| self.failed("abandoning a snapshot", &error))
    }

    /// What is really sent, where a bug is to be imitated.
    fn perturb(&mut self, action: &Action, now: Now) -> Command {
        let mut sent = action.command.clone();
        match (self.bug, &mut sent) {
            (Some(Bug::DuplicateStored), Command::Append(append)) => {
                let answer = self.expect(action, now).answer;
                if matches!(answer, Answer::Appended { repeated: true, closed: false, .. }) {
                    append.producer = None;
                }
            }
            (Some(Bug::CloseForgotten), Command::Append(append)) if !append.is_close_only() => {
                append.close = false;
            }
            (Some(Bug::RetentionForgotten), Command::Retain(retain)) => {
                let stream = self.history.live.streams.get(&retain.name);
                if let Some(stream) = stream.filter(|stream| stream.snapshot.is_some()) {
                    retain.target = Target::Offset(Offset(stream.retained()));
                }
            }
            (Some(Bug::ForkOffByOne), Command::Create(create)) => {
                if let Some(fork) = &mut create.fork {
                    fork.sub_offset = fork.sub_offset.saturating_sub(1);
                }
            }
            (Some(Bug::AttributesForgotten), Command::SetAttributes(set)) => set.json = None,
            _ => {}
        }
        sent
    }

    fn note_room(&mut self) {
        if self.coverage.contains_key("disk full") {
            self.sometimes("disk full over");
        }
    }

    fn note_rare(&mut self, action: &Action, answer: &Answer, change: Option<&Change>) {
        let what = match (answer, change) {
            (Answer::Appended { repeated: true, .. }, _) if self.retrying => {
                "duplicate after a crash"
            }
            (Answer::Refused("PRODUCER_FENCED"), _) => "producer fenced",
            (_, Some(Change::Published { name, .. })) => {
                let replaced = self.history.live.streams[name].snapshot.is_some();
                if replaced { "snapshot replaced" } else { "snapshot visible" }
            }
            (Answer::Published { .. }, None) => "snapshot repeated",
            (_, Some(Change::Retained { .. })) => "retained",
            (_, Some(Change::BucketDeleted(_))) => "bucket deleted",
            (_, Some(Change::Created(_, stream))) => {
                let Some(origin) = &stream.origin else { return };
                if self.history.live.depth(&origin.source) >= 2 {
                    self.sometimes("fork chain of three");
                }
                let Command::Create(create) = &action.command else { return };
                let fork = create.fork.as_ref();
                let cut = fork.and_then(|fork| fork.evidence.as_ref()?.cut.as_ref());
                if !matches!(cut, Some(Cut::Piece(_))) {
                    return;
                }
                "fork cut inside a message"
            }
            _ => return,
        };
        self.sometimes(what);
    }
}

impl Action {
    pub(super) fn append(&self) -> Option<&Append> {
        match &self.command {
            Command::Append(append) => Some(append),
            _ => None,
        }
    }
}

/// What the answer was decided from, and so must be durable with it.
fn depends_on(model: &Model, command: &Command, answer: &Answer) -> Vec<Key> {
    let stream = |name: &StreamName| Key::Stream(name.clone());
    match (command, answer) {
        (Command::CreateBucket(bucket) | Command::DeleteBucket(bucket), _) => {
            vec![Key::Bucket(bucket.clone())]
        }
        (Command::Create(create), Answer::Refused(code)) => match (&create.fork, *code) {
            (Some(fork), "BUCKET_NOT_FOUND") if model.has_bucket(&create.name.bucket()) => {
                vec![Key::Bucket(fork.source.bucket())]
            }
            (_, "BUCKET_NOT_FOUND") => vec![Key::Bucket(create.name.bucket())],
            (Some(fork), code) if code.starts_with("FORK_") => vec![stream(&fork.source)],
            (Some(fork), "OFFSET_NOT_A_BOUNDARY") => vec![stream(&fork.source)],
            _ => vec![stream(&create.name)],
        },
        (command, _) => command.stream().map(stream).into_iter().collect(),
    }
}

/// The streams that a decision looks at.
fn names(command: &Command) -> Vec<StreamName> {
    let fork = match command {
        Command::Create(create) => create.fork.as_ref().map(|fork| fork.source.clone()),
        _ => None,
    };
    command.stream().cloned().into_iter().chain(fork).collect()
}

pub(super) fn describe(action: &Action) -> String {
    match &action.command {
        Command::Create(it) => {
            let fork = it.fork.as_ref().map(|fork| {
                format!(" from {} {:?}+{}", fork.source.key(), fork.anchor, fork.sub_offset)
            });
            let (name, life) = (it.name.key(), &it.lifetime);
            format!("create {name}{} {life:?}", fork.unwrap_or_default())
        }
        Command::Append(it) => format!(
            "append {} {} messages, {:?}, close {}",
            it.name.key(),
            action.messages.len(),
            it.producer.as_ref().map(|stamp| (&stamp.id, stamp.epoch, stamp.seq)),
            it.close
        ),
        Command::Publish(it) => {
            format!("publish {} {:?} retain {}", it.name.key(), it.target, it.retain)
        }
        Command::Retain(it) => format!("retain {} {:?}", it.name.key(), it.target),
        Command::SetAttributes(it) => format!("set attributes of {}", it.name.key()),
        Command::Delete(name) => format!("delete {}", name.key()),
        other => format!("{other:?}"),
    }
}

/// What storage says of a target; nothing where no byte needs to be looked at.
fn evidence(engine: &Engine, facts: &Facts, target: Target) -> Result<Option<Evidence>, Error> {
    let found = |offset, record| Evidence { stream: facts.id, offset, record };
    Ok(match target {
        Target::Offset(offset) if offset >= facts.retained && offset <= facts.tail => {
            Some(found(offset, engine.record_at(facts, offset)?))
        }
        Target::Record(record)
            if facts.is_json() && record >= facts.first.0 && record <= facts.next.0 =>
        {
            let record = Record(record);
            Some(found(engine.start_of(facts, record)?, Some(record)))
        }
        _ => None,
    })
}

fn fork_evidence(
    engine: &Engine,
    facts: &Facts,
    fork: &Fork,
) -> Result<Option<ForkEvidence>, Error> {
    let Anchor::At(offset) = fork.anchor else { return Ok(None) };
    let Some(anchor) = evidence(engine, facts, Target::Offset(offset))? else { return Ok(None) };
    let Some(record) = anchor.record.filter(|_| fork.sub_offset > 0 && offset < facts.tail) else {
        return Ok(Some(ForkEvidence { anchor, cut: None }));
    };
    let sub = fork.sub_offset;
    let cut = if facts.is_json() {
        let record = Record(record.0 + sub);
        if record > facts.next {
            Cut::TooFar
        } else {
            Cut::Boundary(engine.start_of(facts, record)?, record)
        }
    } else {
        let next = Record(record.0 + 1);
        let end = engine.start_of(facts, next)?;
        match end.since(offset) {
            len if sub == len => Cut::Boundary(end, next),
            len if sub > len => Cut::TooFar,
            _ => Cut::Piece(first_bytes(engine, facts, (offset, end), to_usize(sub))?),
        }
    };
    Ok(Some(ForkEvidence { anchor, cut: Some(cut) }))
}

fn first_bytes(
    engine: &Engine,
    facts: &Facts,
    (from, to): (Offset, Offset),
    len: usize,
) -> Result<bytes::Bytes, Error> {
    let mut bytes = Vec::new();
    let mut reader = engine.range(facts, from, to);
    while let Some(chunk) = reader.next()? {
        bytes.extend_from_slice(&chunk.bytes);
    }
    bytes.truncate(len);
    Ok(bytes.into())
}

/// The code of a refusal.
pub(super) fn code(refusal: &Refusal) -> &'static str {
    refusal.code().code
}

fn to_usize(value: u64) -> usize {
    usize::try_from(value).expect("sizes here are small")
}
