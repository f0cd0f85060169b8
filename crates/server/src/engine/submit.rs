//! Submitting a command: lock the shards that it needs, in ascending order, decide, take room in
//! the log, apply, queue. Nothing is changed before room is certain, so a full disk refuses a
//! command whole.

use std::sync::Arc;

use headwater_core::command::{Command, Decision, Logged, Receipt, Stop, View};
use headwater_core::entry::{Effects, Entry as Logical};
use headwater_core::ids::{Lsn, ShardNo, StreamName};
use headwater_core::refusal::Refusal;
use headwater_core::state::{Bucket, Now, State};
use headwater_core::stream::append::Append;
use headwater_storage::{Data, Entry, Kind, Lens, Use, group_bytes};
use parking_lot::MutexGuard;
use smallvec::{SmallVec, smallvec};

use super::publish::Done;
use super::quota::{Share, Usage};
use super::shard::Shard;
use super::tide::Ticket;
use super::{Durable, Engine, Fault, Pending};

/// How a command ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// The answer.
    Accepted(Receipt),
    /// The protocol says no.
    Refused(Refusal),
    /// The command's evidence is missing or about another incarnation: look again, submit again.
    Stale,
}

/// Shards in ascending order. Most commands need one.
type Needed = SmallVec<[ShardNo; 4]>;

/// Shards locked in ascending order.
struct Locked<'a>(SmallVec<[(ShardNo, MutexGuard<'a, Shard>); 1]>);

impl Locked<'_> {
    fn view<T>(&self, look: impl FnOnce(&View<'_>) -> T) -> T {
        if let [(no, shard)] = &*self.0 {
            return look(&View(&[(*no, &shard.state)]));
        }
        let states: Vec<(ShardNo, &State)> =
            self.0.iter().map(|(no, shard)| (*no, &shard.state)).collect();
        look(&View(&states))
    }

    fn shard(&mut self, no: ShardNo) -> &mut Shard {
        let found = self.0.iter_mut().find(|(held, _)| *held == no);
        &mut found.expect("a decision writes only to shards that it has seen").1
    }

    fn touched(&self, command: &Command) -> Lsn {
        self.view(|view| command.touched(view))
    }

    fn get(&self, no: ShardNo) -> Option<&State> {
        self.0.iter().find(|(held, _)| *held == no).map(|(_, shard)| &shard.state)
    }
}

impl Engine {
    /// Decides and applies a command. The outcome waits inside [`Pending`] until it is durable.
    pub fn submit(&self, command: &Command) -> Result<Pending, Fault> {
        let mut needed: Needed = smallvec![command.shard()];
        loop {
            let mut locked = self.lock(&needed);
            // A clock is read under the locks, so that times in a shard's entries do not cross.
            let now = self.now();
            if let Err(shard) = self.settle(&mut locked, command.streams(), now) {
                add(&mut needed, shard);
                continue;
            }
            match locked.view(|view| command.decide(view, now)) {
                Err(Stop::Widen(shard)) => {
                    add(&mut needed, shard);
                }
                Err(Stop::Stale) => {
                    return Ok(Pending { outcome: Outcome::Stale, durable: Durable::Now });
                }
                Err(Stop::Refuse(refusal)) => {
                    let durable = self.durable(locked.touched(command));
                    return Ok(Pending { outcome: Outcome::Refused(refusal), durable });
                }
                Ok(Decision::Repeat(receipt)) => {
                    let durable = self.durable(locked.touched(command));
                    return Ok(Pending { outcome: Outcome::Accepted(receipt), durable });
                }
                Ok(Decision::Write(group, receipt)) => {
                    let usage = if command.is_essential() { Use::Essential } else { Use::Normal };
                    if usage == Use::Normal
                        && let Some(refusal) = self.over_quota(&locked, command)
                    {
                        let durable = self.durable(locked.touched(command));
                        return Ok(Pending { outcome: Outcome::Refused(refusal), durable });
                    }
                    let lsn = self.write(&mut locked, &group, usage, now)?;
                    let durable = Durable::Soon(Ticket::new(&self.tide, lsn));
                    return Ok(Pending { outcome: Outcome::Accepted(receipt), durable });
                }
            }
        }
    }

    /// Submits appends to one stream, each on its own, with nothing in between. A fault ends the
    /// batch: it is the last result, and the appends behind it are not tried.
    pub fn submit_batch(&self, appends: &[Append]) -> (Vec<Result<Outcome, Fault>>, Durable) {
        let Some(first) = appends.first() else { return (Vec::new(), Durable::Now) };
        let mut locked = self.lock(&[first.name.shard()]);
        let now = self.now();
        let mut outcomes = Vec::with_capacity(appends.len());
        for append in appends {
            let command = Command::Append(append.clone());
            let decision = locked.view(|view| command.decide(view, now));
            let outcome = match decision {
                Ok(Decision::Repeat(receipt)) => Ok(Outcome::Accepted(receipt)),
                Ok(Decision::Write(group, receipt)) => match self.over_quota(&locked, &command) {
                    Some(refusal) => Ok(Outcome::Refused(refusal)),
                    None => self
                        .write(&mut locked, &group, Use::Normal, now)
                        .map(|_lsn| Outcome::Accepted(receipt)),
                },
                Err(Stop::Refuse(refusal)) => Ok(Outcome::Refused(refusal)),
                Err(Stop::Widen(_) | Stop::Stale) => {
                    unreachable!("an append looks at its own stream only")
                }
            };
            let stop = outcome.is_err();
            outcomes.push(outcome);
            if stop {
                break;
            }
        }
        let durable = self.durable(locked.touched(&Command::Append(first.clone())));
        (outcomes, durable)
    }

    /// Why a quota stands against a command that would add something.
    fn over_quota(&self, locked: &Locked<'_>, command: &Command) -> Option<Refusal> {
        let usage = self.usage.get()?;
        let bucket_streams = match command {
            Command::Create(create) => {
                let bucket = create.name.bucket();
                let found = locked.get(bucket.shard()).and_then(|state| state.bucket(&bucket).ok());
                found.map_or(0, Bucket::streams)
            }
            _ => 0,
        };
        usage.refuse(command, bucket_streams)
    }

    fn lock(&self, needed: &[ShardNo]) -> Locked<'_> {
        Locked(needed.iter().map(|no| (*no, self.shard(*no).lock())).collect())
    }

    /// The first access that finds a stream expired makes it final. Names the shard that is missing
    /// from the locks, if one is.
    fn settle<'a>(
        &self,
        locked: &mut Locked<'_>,
        names: impl Iterator<Item = &'a StreamName>,
        now: Now,
    ) -> Result<(), ShardNo> {
        for name in names {
            let found = locked.get(name.shard()).and_then(|state| state.find(name));
            if !found.is_some_and(|stream| !stream.hidden && stream.expired(now)) {
                continue;
            }
            match locked.view(|view| Command::Expire(name.clone()).decide(view, now)) {
                Err(Stop::Widen(shard)) => return Err(shard),
                Ok(Decision::Write(group, _)) => {
                    // Without a byte of room left it stays expired, and nobody can use it.
                    let _full = self.write(locked, &group, Use::Essential, now).is_err();
                }
                Ok(Decision::Repeat(_)) | Err(Stop::Refuse(_) | Stop::Stale) => {}
            }
        }
        Ok(())
    }

    fn write(
        &self,
        locked: &mut Locked<'_>,
        group: &[Logged],
        usage: Use,
        now: Now,
    ) -> Result<Lsn, Fault> {
        let entries: SmallVec<[Entry; 1]> = group.iter().map(stored).collect();
        let room = self.store.reserve(group_bytes(&entries), usage);
        let permit = room.inspect_err(|error| {
            if error.kind == Kind::Full {
                self.press();
            }
        })?;
        let mut done = Done::default();
        for logged in group {
            let shard = locked.shard(logged.entry.shard());
            let effects = match self.usage.get() {
                None => shard.state.apply(&logged.entry),
                Some(usage) => apply_counted(usage, &mut shard.state, &logged.entry),
            };
            self.begin(shard, &effects, now);
            let waiter = effects.changed.and_then(|id| shard.waiters.get(&id));
            let groups = waiter.into_iter().flat_map(|waiter| &waiter.groups);
            done.wake.extend(groups.map(|group| (group.bell, Arc::clone(&group.notify))));
            if effects.need_follow_up() {
                done.effects.push(effects);
            }
        }
        let lsn = self.store.enqueue(permit, &entries, done);
        for logged in group {
            let shard = locked.shard(logged.entry.shard());
            shard.state.mark(&logged.entry, lsn);
            shard.applied = lsn;
        }
        Ok(lsn)
    }

    /// The effects that begin at once, since they only ever keep things alive longer.
    pub(super) fn begin(&self, shard: &mut Shard, effects: &Effects, now: Now) {
        if let Some(blob) = effects.blob_used {
            self.use_blob(blob);
        }
        if let Some(id) = effects.timed {
            self.arm(shard, id, now);
        }
    }
}

fn add(needed: &mut Needed, shard: ShardNo) {
    if let Err(at) = needed.binary_search(&shard) {
        needed.insert(at, shard);
    }
}

/// Applies an entry and takes note of what it adds and gives back.
fn apply_counted(usage: &Usage, state: &mut State, entry: &Logical) -> Effects {
    let stream = entry.stream();
    let before = Share::find(state, stream);
    let effects = state.apply(entry);
    usage.follow(before.as_ref(), Share::find(state, stream).as_ref());
    if let Logical::BucketDeleted { bucket } = entry {
        usage.forget(bucket);
    }
    effects
}

/// An entry as storage takes it.
fn stored(logged: &Logged) -> Entry {
    Entry {
        shard: logged.entry.shard(),
        meta: logged.entry.encode(),
        data: logged.data.as_ref().map(|data| Data {
            stream: data.stream,
            offset: data.offset,
            record: data.record,
            lens: data.messages.lens.iter().copied().collect::<Lens>(),
            payload: data.messages.bytes.clone(),
        }),
    }
}
