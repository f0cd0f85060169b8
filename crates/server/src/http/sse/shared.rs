//! The newest events of a worker, so that readers of one stream who stand at the same place get the
//! same bytes, encoded once.

use std::collections::VecDeque;

use bytes::Bytes;
use headwater_core::ids::{Offset, Record, StreamId};
use headwater_core::wire::sse::TextEvents;
use parking_lot::Mutex;

/// How many events are kept. They are asked for by readers that were woken together.
const EVENTS_MAX: usize = 16;

/// All of them together have at most this many bytes, the newest aside.
const EVENTS_BYTES_MAX: usize = 1024 * 1024;

/// Everything that an event is made from: readers who see the same are sent the same.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Sight {
    pub(super) stream: StreamId,
    pub(super) from: Offset,
    pub(super) tail: Offset,
    pub(super) closed: bool,
    pub(super) first: Record,
    pub(super) text: TextEvents,
    pub(super) cursor: String,
}

/// A data event with its control event, and how it leaves a reader.
#[derive(Debug, Clone)]
pub(super) struct Event {
    pub(super) bytes: Bytes,
    pub(super) to: (Offset, Record),
    pub(super) text: TextEvents,
    pub(super) caught_up: bool,
}

/// The newest events, the newest first.
#[derive(Default)]
pub(crate) struct Events {
    kept: Mutex<VecDeque<(Sight, Event)>>,
}

impl Events {
    /// The event for whoever sees this, if it is still here.
    pub(super) fn get(&self, sight: &Sight) -> Option<Event> {
        let kept = self.kept.lock();
        kept.iter().find(|(other, _)| other == sight).map(|(_, event)| event.clone())
    }

    pub(super) fn keep(&self, sight: Sight, event: Event) {
        let mut kept = self.kept.lock();
        kept.push_front((sight, event));
        let mut bytes = 0;
        let fits = |(_, event): &&(Sight, Event)| {
            let is_newest = bytes == 0;
            bytes += event.bytes.len();
            is_newest || bytes <= EVENTS_BYTES_MAX
        };
        let len = kept.iter().take(EVENTS_MAX).take_while(fits).count();
        kept.truncate(len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sight(stream: u64) -> Sight {
        Sight {
            stream: StreamId(stream),
            from: Offset(0),
            tail: Offset(1),
            closed: false,
            first: Record(0),
            text: TextEvents::default(),
            cursor: "7".into(),
        }
    }

    fn event(len: usize) -> Event {
        Event {
            bytes: vec![b'x'; len].into(),
            to: (Offset(1), Record(1)),
            text: TextEvents::default(),
            caught_up: true,
        }
    }

    #[test]
    fn readers_at_the_same_place_get_the_same_memory_and_no_others_do() {
        let events = Events::default();
        let sent = event(100);
        events.keep(sight(1), sent.clone());
        assert_eq!(events.get(&sight(1)).unwrap().bytes.as_ptr(), sent.bytes.as_ptr());
        for other in [
            sight(2),
            Sight { from: Offset(1), ..sight(1) },
            Sight { tail: Offset(2), ..sight(1) },
            Sight { closed: true, ..sight(1) },
            Sight { first: Record(1), ..sight(1) },
            Sight { cursor: "8".into(), ..sight(1) },
        ] {
            assert!(events.get(&other).is_none(), "{other:?}");
        }
    }

    #[test]
    fn the_newest_event_is_kept_and_older_ones_within_the_limits() {
        let events = Events::default();
        for stream in 0..100 {
            events.keep(sight(stream), event(1));
        }
        assert!(events.get(&sight(99)).is_some() && events.get(&sight(84)).is_some());
        assert!(events.get(&sight(83)).is_none());
        events.keep(sight(100), event(2 * EVENTS_BYTES_MAX));
        assert!(events.get(&sight(100)).is_some() && events.get(&sight(99)).is_none());
        events.keep(sight(101), event(EVENTS_BYTES_MAX));
        events.keep(sight(102), event(1));
        assert!(events.get(&sight(102)).is_some() && events.get(&sight(101)).is_none());
    }
}
