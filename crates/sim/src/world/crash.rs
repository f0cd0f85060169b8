//! The end of a life, and the recovery from it.

use std::cmp::Reverse;
use std::sync::Arc;

use headwater_core::command::Command;
use headwater_core::ids::StreamName;
use headwater_core::state::Life;
use headwater_server::engine::{Engine, Seams};
use headwater_storage::{Disk, Kind};

use super::World;
use crate::bug::Bug;
use crate::clock::SimClock;
use crate::model::{Action, Change};
use crate::oracle::{self, Check, violation};

/// How often a recovery may be interrupted before it is left in peace.
const RECOVERY_DEATHS_MAX: u32 = 3;

impl World {
    /// Ends this life in one of several ways, and begins the next.
    pub(super) fn end_of_life(&mut self) -> Check {
        if !self.down && self.rng.one_in(6) && self.stop_cleanly()? {
            return self.recover();
        }
        if !self.down && self.rng.one_in(4) {
            self.reclaim_early()?;
        }
        if !self.down && self.history.unsettled() > 0 && self.rng.one_in(2) {
            let after = self.rng.below(3);
            self.disk.with(|medium| medium.faults.die_in = Some(after));
            self.commit_all()?;
        }
        let (dead, broken) = self.disk.with(|medium| (medium.dead, medium.failed));
        if dead {
            self.sometimes("died in a call");
        }
        if let Some(what) = broken {
            self.sometimes(what);
        }
        let unknown = self.end_process();
        match self.rng.below(4) {
            0 => {
                self.trace.line(format_args!("kill"));
                self.sometimes("kill");
                self.disk = self.disk.crash(false);
                self.recover()?;
            }
            1 => {
                self.trace.line(format_args!("kill, then power cut"));
                self.sometimes("kill, then power cut");
                self.disk = self.disk.crash(false);
                self.recover()?;
                let _none = self.end_process();
                self.disk = self.disk.crash(true);
                self.recover()?;
            }
            _ => {
                self.trace.line(format_args!("power cut"));
                self.sometimes("power cut");
                self.disk = self.disk.crash(true);
                self.recover()?;
            }
        }
        self.retry(unknown)
    }

    /// Lets a checkpoint reclaim while a deletion is only queued: no byte of that stream may go.
    fn reclaim_early(&mut self) -> Check {
        self.begin_checkpoint()?;
        self.commit_all()?;
        let name = self.rng.pick(&self.workload.names).clone();
        if !self.down {
            self.submit(Action::plain(Command::Delete(name)))?;
        }
        if !self.down {
            self.finish_checkpoint()?;
        }
        if self.down { Ok(()) } else { self.maintain() }
    }

    /// A stop as an operator asks for it. False when the disk failed meanwhile.
    pub(super) fn stop_cleanly(&mut self) -> Check<bool> {
        self.trace.line(format_args!("clean stop"));
        let engine = self.engine();
        if let Err(error) = engine.seal() {
            self.failed("sealing", &error)?;
            if !self.down {
                return violation!("a clean stop ran out of room: {error}");
            }
            return Ok(false);
        }
        self.history.settle(engine.positions().0);
        self.poll()?;
        if self.history.unsettled() > 0 || !self.flights.is_empty() {
            return violation!("a clean stop left answers waiting");
        }
        drop(engine);
        let _none = self.end_process();
        // What was sealed survives even this.
        self.disk = self.disk.crash(self.rng.one_in(2));
        self.sometimes("clean stop");
        Ok(true)
    }

    /// The process is gone, and with it everything in memory. Returns what nobody got an answer to.
    pub(super) fn end_process(&mut self) -> Vec<Action> {
        self.disk.with(|medium| medium.dead = true);
        self.slow.clear();
        self.renewals.clear();
        for watched in std::mem::take(&mut self.watched) {
            let read = self.history.reads.entry(watched.id).or_insert(0);
            *read = watched.since.max(*read);
        }
        self.engine = None;
        self.down = false;
        std::mem::take(&mut self.flights).into_iter().map(|flight| flight.action).collect()
    }

    /// Opens the data directory, perhaps dying on the way, and finds out what happened.
    pub(super) fn recover(&mut self) -> Check {
        self.apply_recovery_bug();
        for attempt in 0.. {
            let full = self.rng.one_in(2);
            let die = !self.scripted && attempt < RECOVERY_DEATHS_MAX && self.rng.one_in(3);
            let after = self.rng.below(40);
            self.disk.with(|medium| medium.faults.die_in = die.then_some(after));
            let files = self.log_files();
            let opened = Engine::open(self.seams(), self.options.clone());
            let resized = |(path, len)| files.iter().any(|it| it.0 == path && it.1 != len);
            if self.log_files().into_iter().any(resized) {
                self.sometimes("footer rebuilt at the start");
            }
            let dead = self.disk.with(|medium| medium.dead);
            match opened {
                Ok(engine) if !dead => {
                    self.engine = Some(engine);
                    break;
                }
                Err(error) if !dead => {
                    if error.0.kind == Kind::Full && self.is_tight() {
                        self.trace.line(format_args!("no room to start"));
                        self.disk.with(|medium| medium.capacity = self.roomy);
                        self.disk = self.disk.crash(false);
                        continue;
                    }
                    return violation!("the data directory does not open: {}", error.0);
                }
                _ => {
                    self.trace.line(format_args!("died in recovery"));
                    self.sometimes("died in recovery");
                    self.disk = self.disk.crash(full);
                }
            }
        }
        self.disk.with(|medium| medium.faults.die_in = None);
        self.settle_history()
    }

    pub(super) fn settle_history(&mut self) -> Check {
        let engine = self.engine();
        if engine.recovered().cut_bytes > 0 {
            self.sometimes("torn tail cut");
        }
        self.elapsed = 0;
        self.born = engine.now().node.0;
        let (mut model, mut gone, happened, lost) =
            oracle::resolve(&engine, &self.history, &self.workload.buckets)?;
        self.trace.line(format_args!("recovered: {happened} happened, {lost} lost, {gone:?} gone"));
        if happened > 0 {
            self.sometimes("unknown outcome: happened");
        }
        if lost > 0 {
            self.sometimes("unknown outcome: lost");
        }
        // First those that are only hidden, while their forks are there; then forks before sources.
        let order = |name: &StreamName| (engine.peek(name).is_none(), Reverse(model.depth(name)));
        gone.sort_by_cached_key(order);
        for name in gone {
            model.apply(&Change::Ended(name.clone()));
            if engine.peek(&name).is_none() {
                model.apply(&Change::Purged(name));
            }
        }
        for name in model.streams.keys() {
            // Renewals by reads may have been recorded, at times of the engine's choice; recovery
            // adds an eighth of the window. A read that is newer than that was never answered.
            let Some((facts, _)) = engine.facts_now(name) else { continue };
            if let Life::Ttl { renewed_at, window, .. } = facts.life {
                let granted = renewed_at.0 + window.millis() / 8;
                if self.history.answered.get(&facts.id).is_some_and(|at| granted < *at) {
                    return violation!("{}: the crash cut a read's renewal short", name.key());
                }
                self.history.reads.insert(facts.id, granted);
            }
        }
        for (name, stream) in &model.streams {
            let (life, renewed) = (stream.life, stream.renewed);
            let read = self.history.reads.get(&stream.id);
            self.trace.line(format_args!("  {} {life:?}, {renewed}, {read:?}", name.key()));
        }
        self.history.restart(model);
        self.trace.line(format_args!("  it is {}", self.born));
        if self.bug == Some(Bug::DeletedComesBack) {
            self.resurrect(&engine);
        }
        oracle::check_everything(&engine, &self.history.live)
    }

    /// Sends again what got no answer, as clients with idempotent producers do.
    fn retry(&mut self, unknown: Vec<Action>) -> Check {
        self.retrying = true;
        for action in unknown {
            let produced = action.append().is_some_and(|append| append.producer.is_some());
            if produced && !self.down {
                self.submit(action)?;
            }
        }
        self.retrying = false;
        self.poll()
    }

    /// Opens a copy of the disk as if the process had been killed now: what is replayed must be
    /// what is live.
    pub(super) fn compare_replay(&mut self) -> Check {
        self.commit_all()?;
        if self.down || self.is_tight() || self.bug.is_some_and(|bug| bug.lie().is_some()) {
            return Ok(());
        }
        let live = self.engine();
        let seams = Seams { disk: Arc::new(self.disk.copy()), ..self.seams() };
        let copy = match Engine::open(seams, self.options.clone()) {
            Ok(copy) => copy,
            Err(error) => return violation!("a copy does not open: {}", error.0),
        };
        self.sometimes("replayed state compared");
        match live.differs_from(&copy) {
            Some(shard) => violation!("the replayed state of shard {} differs", shard.0),
            None => Ok(()),
        }
    }

    pub(super) fn seams(&mut self) -> Seams {
        Seams {
            disk: Arc::new(self.disk.clone()),
            clock: Box::new(SimClock::clone(&self.clock)),
            log_id: self.rng.id(),
            directory_id: self.rng.id(),
        }
    }

    /// Ends everything that is left: the room comes back.
    pub(super) fn wind_down(&mut self) -> Check {
        self.tight = false;
        self.disk.with(|medium| {
            medium.capacity = self.roomy;
            medium.faults = crate::disk::Faults { lie: medium.faults.lie, ..Default::default() };
        });
        self.check()?;
        self.compare_replay()?;
        if self.rng.one_in(2) {
            return Ok(());
        }
        let names: Vec<_> = self.history.live.streams.keys().cloned().collect();
        for name in names {
            self.submit(Action::plain(Command::Delete(name)))?;
        }
        for _ in 0..64 {
            self.maintain()?;
            self.commit_all()?;
            self.begin_checkpoint()?;
            self.finish_checkpoint()?;
        }
        self.check()?;
        if let Some((name, _)) = self.history.live.streams.first_key_value() {
            return violation!("{} was deleted and never purged", name.key());
        }
        let bytes: u64 = self.log_files().iter().map(|(_, len)| len).sum();
        if bytes > 4 * self.options.log_file_bytes {
            return violation!("nothing is left, but the log takes {bytes} bytes");
        }
        Ok(())
    }

    fn apply_recovery_bug(&mut self) {
        match self.bug {
            Some(Bug::OlderStateRecovered) => {
                if let Some(earlier) = self.earlier.take().filter(|_| self.rng.one_in(2)) {
                    self.disk = earlier;
                }
                self.earlier = Some(self.disk.copy());
            }
            Some(Bug::NewestLogFileIgnored) => {
                if let Some((path, _)) = self.log_files().last() {
                    let gone = self.disk.remove(path);
                    debug_assert!(gone.is_ok(), "it was there");
                }
            }
            _ => {}
        }
    }

    /// Imitates a deletion that the log forgot.
    fn resurrect(&mut self, engine: &Engine) {
        let missing = self.workload.names.iter().find(|name| {
            let free = !self.history.live.streams.contains_key(*name);
            free && self.history.live.has_bucket(&name.bucket())
        });
        if let Some(name) = missing {
            let create = headwater_core::stream::create::Create {
                name: name.clone(),
                content: None,
                body: headwater_core::command::Body::Empty,
                lifetime: None,
                closed: false,
                attributes: None,
                fork: None,
            };
            let _back = engine.submit(&Command::Create(Box::new(create))).is_ok();
        }
    }
}
