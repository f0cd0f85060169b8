//! A live bar on stderr, where somebody sees it.

use std::rc::Rc;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::report::per_second;
use super::session::Window;
use super::tally::SharedTally;

/// A bar that is gone when this is dropped.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    updating: Option<JoinHandle<()>>,
}

/// How far a phase is, and what to say about it.
#[derive(Debug)]
pub(crate) struct Position {
    pub(crate) at: u64,
    pub(crate) text: String,
}

/// Often enough to be live, and rare enough not to be measured.
const INTERVAL: Duration = Duration::from_millis(200);
const STYLE: &str = "{prefix:>12} [{bar:32}] {msg}";

impl Progress {
    /// Fills as requests are answered.
    pub(crate) fn counting(label: &'static str, end: u64, tally: &SharedTally) -> Self {
        let (tally, since) = (Rc::clone(tally), Instant::now());
        Self::show(label, end, move || {
            let at = tally.borrow().done();
            let rate = per_second(at as f64, since.elapsed()).unwrap_or(0.0);
            Position { at, text: format!("{at} of {end}, {rate:.0}/s") }
        })
    }

    /// Fills with time, from now until the window is over.
    pub(crate) fn timed(label: &'static str, window: Window, tally: &SharedTally) -> Self {
        let (tally, begun) = (Rc::clone(tally), Instant::now());
        let end = window.until.saturating_duration_since(begun);
        Self::show(label, millis(end), move || {
            let tally = tally.borrow();
            let text = match per_second(tally.done() as f64, window.elapsed()) {
                None => "warming up".to_owned(),
                Some(rate) => {
                    let p99 = tally.latency.quantile_ms(0.99).unwrap_or(0.0);
                    format!("{rate:.0}/s, p99 {p99:.2} ms")
                }
            };
            Position { at: millis(begun.elapsed()), text }
        })
    }

    /// Asks for the position a few times a second, if stderr is a terminal.
    pub(crate) fn show(
        label: &'static str,
        end: u64,
        position: impl Fn() -> Position + 'static,
    ) -> Self {
        let bar = ProgressBar::with_draw_target(Some(end), ProgressDrawTarget::stderr());
        if bar.is_hidden() {
            return Self { bar, updating: None };
        }
        let style = ProgressStyle::with_template(STYLE).expect("a template that is well formed");
        bar.set_style(style.progress_chars("=> "));
        bar.set_prefix(label);
        let updated = bar.clone();
        let updating = tokio::task::spawn_local(async move {
            loop {
                let Position { at, text } = position();
                updated.set_position(at);
                updated.set_message(text);
                updated.tick();
                tokio::time::sleep(INTERVAL).await;
            }
        });
        Self { bar, updating: Some(updating) }
    }
}

/// A length of time as a bar counts it.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(updating) = &self.updating {
            updating.abort();
        }
        self.bar.finish_and_clear();
    }
}
