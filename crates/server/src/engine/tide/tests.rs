use std::sync::atomic::AtomicUsize;
use std::task::Wake;

use super::*;

/// Counts how often it was woken.
#[derive(Default)]
struct Counter(AtomicUsize);

impl Counter {
    fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn counter() -> (Arc<Counter>, Waker) {
    let counter = Arc::new(Counter::default());
    (Arc::clone(&counter), Waker::from(counter))
}

fn poll<F: Future + Unpin>(future: &mut F, waker: &Waker) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(waker))
}

#[test]
fn a_rise_wakes_a_thread_once_and_the_thread_wakes_only_those_who_are_due() {
    let tide = Tide::new(Lsn(0));
    let mut pump = tide.attend().unwrap();
    let (rung, pump_waker) = counter();
    assert!(poll(&mut pump, &pump_waker).is_pending());
    // Not in the order of their positions.
    let mut tasks: Vec<_> = [3, 1, 2, 1]
        .map(|lsn| (lsn, Ticket::new(&tide, Lsn(lsn)), counter()))
        .into_iter()
        .collect();
    for (_, ticket, (_, waker)) in &mut tasks {
        assert!(poll(ticket, waker).is_pending());
    }
    tide.rise(Lsn(1));
    tide.rise(Lsn(2));
    assert_eq!(rung.count(), 1, "the pump has not looked in between");
    assert!(tasks.iter().all(|(_, _, (woken, _))| woken.count() == 0));
    assert!(poll(&mut pump, &pump_waker).is_pending());
    for (lsn, ticket, (woken, waker)) in &mut tasks {
        assert_eq!(woken.count(), usize::from(*lsn <= 2), "{lsn}");
        assert_eq!(poll(ticket, waker).is_ready(), *lsn <= 2, "{lsn}");
    }
    tide.rise(Lsn(3));
    assert_eq!(rung.count(), 2);
}

#[test]
fn a_rise_that_concerns_nobody_rings_nowhere() {
    let tide = Tide::new(Lsn(0));
    let mut pump = tide.attend().unwrap();
    let (rung, waker) = counter();
    assert!(poll(&mut pump, &waker).is_pending());
    let mut ticket = Ticket::new(&tide, Lsn(5));
    assert!(poll(&mut ticket, &counter().1).is_pending());
    tide.rise(Lsn(4));
    assert_eq!(rung.count(), 0);
}

#[test]
fn a_ticket_that_is_polled_again_and_again_waits_once() {
    let tide = Tide::new(Lsn(0));
    let (woken, waker) = counter();
    let mut ticket = Ticket::new(&tide, Lsn(1));
    for _ in 0..100 {
        assert!(poll(&mut ticket, &waker).is_pending());
    }
    assert_eq!(tide.bells[BELLS_MAX].inner.lock().waiting.len(), 1);
    tide.rise(Lsn(1));
    assert_eq!(woken.count(), 1);
}

#[test]
fn whoever_gives_up_waiting_leaves_nothing_behind_after_the_next_rise() {
    let tide = Tide::new(Lsn(0));
    for lsn in 1..=100 {
        let mut ticket = Ticket::new(&tide, Lsn(lsn));
        assert!(poll(&mut ticket, &counter().1).is_pending());
        drop(ticket);
        tide.rise(Lsn(lsn));
        assert!(tide.bells[BELLS_MAX].inner.lock().waiting.is_empty());
    }
}

#[test]
fn a_task_that_moved_to_another_waker_is_woken_by_that_one() {
    let tide = Tide::new(Lsn(0));
    let (first, second) = (counter(), counter());
    let mut ticket = Ticket::new(&tide, Lsn(1));
    assert!(poll(&mut ticket, &first.1).is_pending());
    assert!(poll(&mut ticket, &second.1).is_pending());
    tide.rise(Lsn(1));
    assert_eq!(second.0.count(), 1);
}

#[test]
fn a_log_that_stops_fails_those_who_wait_and_no_others() {
    let tide = Tide::new(Lsn(1));
    let (woken, waker) = counter();
    let mut late = Ticket::new(&tide, Lsn(2));
    assert!(poll(&mut late, &waker).is_pending());
    tide.stop();
    assert_eq!(woken.count(), 1);
    assert!(matches!(poll(&mut late, &waker), Poll::Ready(Err(_))));
    assert!(late.check().is_err());
    assert!(matches!(poll(&mut Ticket::new(&tide, Lsn(1)), &waker), Poll::Ready(Ok(()))));
}

#[test]
fn a_task_of_a_thread_without_a_bell_is_woken_by_the_rise_itself() {
    let tide = Tide::new(Lsn(0));
    let pump = tide.attend().unwrap();
    let (woken, waker) = counter();
    let other = thread::scope(|scope| {
        scope
            .spawn(|| {
                let mut ticket = Ticket::new(&tide, Lsn(1));
                assert!(poll(&mut ticket, &waker).is_pending());
                tide.bell()
            })
            .join()
            .unwrap()
    });
    assert_eq!((tide.bell(), other), (pump.no, BellNo(BELLS_MAX)));
    tide.rise(Lsn(1));
    assert_eq!(woken.count(), 1);
}

#[test]
fn a_thread_has_one_bell_and_there_are_only_so_many() {
    let tide = Tide::new(Lsn(0));
    assert_eq!(tide.attend().unwrap().no, tide.attend().unwrap().no);
    thread::scope(|scope| {
        for _ in 1..BELLS_MAX {
            scope.spawn(|| assert!(tide.attend().is_some())).join().unwrap();
        }
        scope.spawn(|| assert!(tide.attend().is_none())).join().unwrap();
    });
}
