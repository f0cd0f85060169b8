//! How far the log is durable, and how that reaches whoever waits for it.
//!
//! ```text
//! commit thread                     a thread that serves requests
//! publish ─► durable = lsn ─► ring ─┬─► pump ─► wakes its own tasks
//!            at most one wake-up ───┘
//! ```
//! A task that waits leaves its waker at the bell of its own thread. A commit rings each bell that
//! has something to tell once, however many tasks that concerns; waking them is then the business
//! of their own thread, which needs no system call for it.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};
use std::thread::{self, ThreadId};

use headwater_core::ids::Lsn;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::Fault;

/// Threads with a bell of their own; the tasks of any others are woken one by one.
pub(crate) const BELLS_MAX: usize = 64;

/// Up to where the log is durable and published.
#[derive(Debug)]
pub(super) struct Tide {
    durable: AtomicU64,
    /// The log is over: what is not durable by now never will be.
    stopped: AtomicBool,
    /// The bells with a thread come first; the last one is for all other threads.
    bells: Box<[Bell]>,
}

/// Which bell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BellNo(usize);

/// Where the tasks of one thread wait.
#[derive(Debug, Default)]
struct Bell {
    thread: OnceLock<ThreadId>,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// Who waits for the log, in the order of the positions. A task that has gone away since is
    /// woken for nothing, once.
    waiting: VecDeque<(Lsn, Waker)>,
    /// The readers that have something to look at.
    changed: Vec<Arc<Notify>>,
    /// The pump of the thread, while it sleeps.
    pump: Option<Waker>,
}

/// What a bell has to tell its thread.
#[derive(Debug, Default)]
struct News {
    due: Vec<Waker>,
    changed: Vec<Arc<Notify>>,
}

impl Tide {
    pub(super) fn new(durable: Lsn) -> Arc<Self> {
        Arc::new(Self {
            durable: AtomicU64::new(durable.0),
            stopped: AtomicBool::new(false),
            bells: (0..=BELLS_MAX).map(|_| Bell::default()).collect(),
        })
    }

    /// The bell of the calling thread.
    pub(super) fn bell(&self) -> BellNo {
        let thread = thread::current().id();
        for (no, bell) in self.bells.iter().enumerate() {
            match bell.thread.get() {
                Some(owner) if *owner == thread => return BellNo(no),
                Some(_) => {}
                None => break,
            }
        }
        BellNo(BELLS_MAX)
    }

    /// Gives the calling thread a bell of its own, if one is left. Whoever drives the tasks of the
    /// thread must drive the pump, too.
    pub(super) fn attend(self: &Arc<Self>) -> Option<Pump> {
        let thread = thread::current().id();
        let free = |bell: &Bell| *bell.thread.get_or_init(|| thread) == thread;
        let no = self.bells[..BELLS_MAX].iter().position(free)?;
        Some(Pump { tide: Arc::clone(self), no: BellNo(no), news: News::default() })
    }

    /// Notes that readers at a bell have something to look at once it rings.
    pub(super) fn note(&self, no: BellNo, changed: Arc<Notify>) {
        self.bells[no.0].inner.lock().changed.push(changed);
    }

    /// The log is durable up to `durable`: rings every bell at which that matters to somebody.
    pub(super) fn rise(&self, durable: Lsn) {
        self.durable.store(durable.0, Ordering::Release);
        self.ring();
    }

    /// The log is over: whoever waits for more is told.
    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        self.ring();
    }

    fn ring(&self) {
        let owned = self.bells[..BELLS_MAX].iter().take_while(|bell| bell.thread.get().is_some());
        for bell in owned {
            let mut inner = bell.inner.lock();
            let pump = if self.has_news(&inner) { inner.pump.take() } else { None };
            drop(inner);
            if let Some(pump) = pump {
                pump.wake();
            }
        }
        let mut news = News::default();
        self.take(&mut self.bells[BELLS_MAX].inner.lock(), &mut news);
        news.tell();
    }

    fn has_news(&self, inner: &Inner) -> bool {
        !inner.changed.is_empty()
            || inner.waiting.front().is_some_and(|(lsn, _)| self.is_over(*lsn))
    }

    fn take(&self, inner: &mut Inner, news: &mut News) {
        let due = inner.waiting.partition_point(|(lsn, _)| self.is_over(*lsn));
        news.due.extend(inner.waiting.drain(..due).map(|(_, waker)| waker));
        news.changed.append(&mut inner.changed);
    }

    /// Whether nobody has to wait for `lsn` any more.
    fn is_over(&self, lsn: Lsn) -> bool {
        self.durable.load(Ordering::Acquire) >= lsn.0 || self.stopped.load(Ordering::Acquire)
    }

    fn check(&self, lsn: Lsn) -> Result<bool, Fault> {
        if self.durable.load(Ordering::Acquire) >= lsn.0 {
            Ok(true)
        } else if self.stopped.load(Ordering::Acquire) {
            Err(Fault::stopped())
        } else {
            Ok(false)
        }
    }
}

impl News {
    fn is_empty(&self) -> bool {
        self.due.is_empty() && self.changed.is_empty()
    }

    fn tell(&mut self) {
        self.due.drain(..).for_each(Waker::wake);
        self.changed.drain(..).for_each(|readers| readers.notify_waiters());
    }
}

/// A place in the log that somebody waits for. Dropping it gives up waiting.
#[derive(Debug)]
pub struct Ticket {
    tide: Arc<Tide>,
    lsn: Lsn,
    /// Who is to be woken, as last left at a bell.
    left: Option<Waker>,
}

impl Ticket {
    pub(super) fn new(tide: &Arc<Tide>, lsn: Lsn) -> Self {
        Self { tide: Arc::clone(tide), lsn, left: None }
    }

    /// Whether the log is durable up to here by now; an error means that it has stopped.
    pub(super) fn check(&self) -> Result<bool, Fault> {
        self.tide.check(self.lsn)
    }
}

impl Future for Ticket {
    type Output = Result<(), Fault>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { tide, lsn, left } = &mut *self;
        if tide.check(*lsn)? {
            return Poll::Ready(Ok(()));
        }
        if left.as_ref().is_some_and(|left| left.will_wake(cx.waker())) {
            return Poll::Pending;
        }
        let mut inner = tide.bells[tide.bell().0].inner.lock();
        // Checked under the lock that a ring takes: a rise after this finds the waker.
        if tide.check(*lsn)? {
            return Poll::Ready(Ok(()));
        }
        let at = inner.waiting.iter().rposition(|(other, _)| other <= lsn).map_or(0, |at| at + 1);
        inner.waiting.insert(at, (*lsn, cx.waker().clone()));
        *left = Some(cx.waker().clone());
        Poll::Pending
    }
}

/// Wakes the tasks of one thread. Never ends; dropped with its thread's other tasks.
pub(crate) struct Pump {
    tide: Arc<Tide>,
    no: BellNo,
    /// Empty between two polls, kept for its memory.
    news: News,
}

impl Future for Pump {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Self { tide, no, news } = &mut *self;
        loop {
            let mut inner = tide.bells[no.0].inner.lock();
            tide.take(&mut inner, news);
            if news.is_empty() {
                inner.pump = Some(cx.waker().clone());
                return Poll::Pending;
            }
            drop(inner);
            news.tell();
        }
    }
}

#[cfg(test)]
mod tests;
