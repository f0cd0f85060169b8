//! Waiting for a moment to within some tens of microseconds. The runtime's own timers count whole
//! milliseconds, which is longer than many an answer takes.

use std::io;
use std::os::fd::OwnedFd;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::io::unix::AsyncFd;
use tokio::time::Instant;

/// A timer of the kernel.
#[derive(Debug)]
pub(crate) struct Pace(AsyncFd<OwnedFd>);

impl Pace {
    pub(crate) fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        #[expect(deprecated, reason = "its successor is unsafe; an OwnedFd stays what it is")]
        Ok(Self(AsyncFd::new(timer)?))
    }

    /// Returns at `moment`, at once if it is past.
    pub(crate) async fn until(&self, moment: Instant) -> io::Result<()> {
        let wait = moment.saturating_duration_since(Instant::now());
        if wait.is_zero() {
            return Ok(());
        }
        let once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let value = Timespec {
            tv_sec: i64::try_from(wait.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(wait.subsec_nanos()),
        };
        let spec = Itimerspec { it_interval: once, it_value: value };
        timerfd_settime(self.0.get_ref(), TimerfdTimerFlags::empty(), &spec)?;
        loop {
            let mut ready = self.0.readable().await?;
            let mut expirations = [0; 8];
            let expired =
                ready.try_io(|timer| Ok(rustix::io::read(timer.get_ref(), &mut expirations)?));
            if let Ok(read) = expired {
                read?;
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn it_never_returns_early_and_can_be_used_again() {
        let pace = Pace::new().expect("a timer");
        let mut moment = Instant::now();
        pace.until(moment).await.expect("past moments are fine");
        for _ in 0..20 {
            moment += Duration::from_micros(300);
            pace.until(moment).await.expect("a timer");
            assert!(Instant::now() >= moment);
        }
    }
}
