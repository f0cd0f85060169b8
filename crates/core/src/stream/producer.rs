//! Idempotent producers: a batch that is sent again is not stored again (base protocol §6). The
//! state travels in the same entry as the batch, so a crash cannot separate them.

use std::sync::Arc;

use crate::ids::{Record, Timestamp};
use crate::refusal::Refusal;
use crate::state::{Now, ProducerStamp, ProducerState, Stream};

/// How many producers one stream remembers.
pub const PRODUCERS_MAX: usize = 10_000;

/// A producer that was idle for this long may be forgotten for a new one: seven days.
pub const PRODUCER_IDLE_MS: u64 = 7 * 24 * 60 * 60 * 1000;

/// What a producer's stamp means on an open stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The next batch.
    Accept {
        /// The producer that makes room for a new one.
        evicted: Option<Arc<str>>,
    },
    /// A batch that was accepted before.
    Repeat(ProducerState),
}

pub(crate) fn state(stream: &Stream, id: &str) -> Option<ProducerState> {
    stream.extra.as_ref()?.producers.get(id).copied()
}

pub(crate) fn judge(stream: &Stream, stamp: &ProducerStamp, now: Now) -> Result<Verdict, Refusal> {
    let Some(known) = state(stream, &stamp.id) else {
        return if stamp.seq == 0 {
            Ok(Verdict::Accept { evicted: room_for_one(stream, now)? })
        } else {
            Err(Refusal::ProducerGap { expected: 0, received: stamp.seq })
        };
    };
    if stamp.epoch < known.epoch {
        Err(Refusal::ProducerFenced { current: known.epoch })
    } else if stamp.epoch > known.epoch {
        if stamp.seq == 0 {
            Ok(Verdict::Accept { evicted: None })
        } else {
            Err(Refusal::ProducerEpochStart { received: stamp.seq })
        }
    } else if stamp.seq <= known.seq {
        Ok(Verdict::Repeat(known))
    } else if stamp.seq == known.seq + 1 {
        Ok(Verdict::Accept { evicted: None })
    } else {
        Err(Refusal::ProducerGap { expected: known.seq + 1, received: stamp.seq })
    }
}

/// At the limit, the producer that has been idle longest, if it has been idle long enough.
fn room_for_one(stream: &Stream, now: Now) -> Result<Option<Arc<str>>, Refusal> {
    let Some(extra) = &stream.extra else {
        return Ok(None);
    };
    if extra.producers.len() < PRODUCERS_MAX {
        return Ok(None);
    }
    extra
        .producers
        .iter()
        .min_by_key(|(_, state)| state.at)
        .filter(|(_, state)| now.node.0.saturating_sub(state.at.0) >= PRODUCER_IDLE_MS)
        .map(|(id, _)| Some(Arc::clone(id)))
        .ok_or(Refusal::ProducerLimit { limit: PRODUCERS_MAX })
}

pub(crate) fn accept(stream: &mut Stream, stamp: &ProducerStamp, at: Timestamp, first: Record) {
    let last = (first, stream.next);
    let state = ProducerState { epoch: stamp.epoch, seq: stamp.seq, at, last };
    stream.extra_mut().producers.insert(Arc::clone(&stamp.id), state);
}
