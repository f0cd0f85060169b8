//! Replay: what the log holds is decoded as it is read, and applied by a second thread, so that a
//! long log is not gone through by one core alone. There is one order and one thread that applies:
//! the outcome is the same as without it.

use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread;

use headwater_core::entry::Entry;
use headwater_core::ids::{Lsn, ShardNo};
use headwater_core::state::{Names, State};
use headwater_storage::{DataHead, Visitor};

use crate::engine::shard::Shard;

/// Steps that are handed over at a time.
const BATCH_STEPS: usize = 512;
/// Batches that wait to be applied, at most: they bound the memory.
const BATCHES_MAX: usize = 16;

/// What is to be applied.
enum Step {
    Image(ShardNo, Lsn, Box<State>),
    Entry(Lsn, Entry),
}

/// Runs `read` with a visitor, and returns what it returned and the shards that come of what the
/// visitor was told.
pub(super) fn replay<T>(read: impl FnOnce(&mut dyn Visitor) -> T) -> (T, Vec<Shard>) {
    thread::scope(|scope| {
        let (sender, receiver) = mpsc::sync_channel(BATCHES_MAX);
        let applied = scope.spawn(move || apply(&receiver));
        let mut decoder = Decoder { names: Names::default(), batch: Vec::new(), sender };
        let outcome = read(&mut decoder);
        decoder.hand_over();
        drop(decoder);
        match applied.join() {
            Ok(shards) => (outcome, shards),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// Decodes what recovery finds.
struct Decoder {
    names: Names,
    batch: Vec<Step>,
    sender: SyncSender<Vec<Step>>,
}

impl Decoder {
    fn add(&mut self, step: Step) {
        self.batch.push(step);
        if self.batch.len() == BATCH_STEPS {
            self.hand_over();
        }
    }

    fn hand_over(&mut self) {
        let batch = std::mem::replace(&mut self.batch, Vec::with_capacity(BATCH_STEPS));
        // Nobody takes it when applying has panicked, and joining tells about that.
        drop(self.sender.send(batch));
    }
}

impl Visitor for Decoder {
    fn image(&mut self, no: ShardNo, lsn: Lsn, image: &[u8]) -> Result<(), String> {
        let mut state = State::from_image(image).map_err(|damaged| damaged.what.to_owned())?;
        state.share_names(&mut self.names);
        self.add(Step::Image(no, lsn, Box::new(state)));
        // It is large: it does not wait for others.
        self.hand_over();
        Ok(())
    }

    fn entry(
        &mut self,
        lsn: Lsn,
        no: ShardNo,
        meta: &[u8],
        _data: Option<&DataHead>,
    ) -> Result<(), String> {
        let mut entry = Entry::decode(meta).map_err(|damaged| damaged.what.to_owned())?;
        if entry.shard() != no {
            return Err("an entry of another shard".to_owned());
        }
        entry.share_names(&mut self.names);
        self.add(Step::Entry(lsn, entry));
        Ok(())
    }
}

/// The shards after all steps.
fn apply(steps: &Receiver<Vec<Step>>) -> Vec<Shard> {
    let mut shards: Vec<_> = ShardNo::all().map(Shard::new).collect();
    for step in steps.iter().flatten() {
        match step {
            Step::Image(no, lsn, state) => {
                let shard = &mut shards[no.index()];
                shard.state = *state;
                shard.applied = lsn;
                shard.checkpointed = lsn;
            }
            Step::Entry(lsn, entry) => {
                let shard = &mut shards[entry.shard().index()];
                shard.state.apply(&entry);
                shard.state.mark(&entry, lsn);
                shard.applied = lsn;
            }
        }
    }
    shards
}
