//! Progress of long work: a line on a terminal, nothing anywhere else.
//!
//! Promise: nothing is drawn unless standard error is a terminal and the work takes longer than a moment; the
//! line is gone when the work is done, and a result on standard output is never mixed with it.
//! Start with [`ProgressLine::of`].

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Work that takes less time shows no progress.
const PATIENCE: Duration = Duration::from_millis(300);

/// The progress of one piece of work. Threads may share it.
#[derive(Debug)]
pub(crate) struct ProgressLine {
    total: u64,
    what: &'static str,
    began: Instant,
    is_shown: bool,
    bar: OnceLock<ProgressBar>,
    done: std::sync::atomic::AtomicU64,
}

impl ProgressLine {
    /// Progress through `total` items. `what` is the label, as in "searching".
    pub(crate) fn of(what: &'static str, total: u64) -> Self {
        let is_shown = crate::print::is_error_terminal() && !crate::ui::is_quiet();
        let (bar, done) = (OnceLock::new(), std::sync::atomic::AtomicU64::new(0));
        Self { total, what, began: Instant::now(), is_shown, bar, done }
    }

    /// Adds `count` items that are done.
    pub(crate) fn add(&self, count: u64) {
        let done = self.done.fetch_add(count, std::sync::atomic::Ordering::Relaxed) + count;
        if self.is_shown && self.began.elapsed() > PATIENCE {
            self.bar.get_or_init(|| bar(self.what, self.total)).set_position(done);
        }
    }

    /// Prints something to standard output without mixing it with the line.
    pub(crate) fn suspend<R>(&self, print: impl FnOnce() -> R) -> R {
        match self.bar.get() {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }
}

/// Progress of work that finds out itself how much there is to do.
#[derive(Debug)]
pub(crate) struct DeferredProgress {
    what: &'static str,
    begun: OnceLock<ProgressLine>,
}

impl DeferredProgress {
    /// `what` is the label, as in "searching".
    pub(crate) fn new(what: &'static str) -> Self {
        Self { what, begun: OnceLock::new() }
    }

    /// Prints something to standard output without mixing it with the line.
    pub(crate) fn suspend<R>(&self, print: impl FnOnce() -> R) -> R {
        match self.begun.get() {
            Some(progress) => progress.suspend(print),
            None => print(),
        }
    }
}

impl berth_verbs::ProgressSink for DeferredProgress {
    fn begin(&self, total: u64) {
        let _ = self.begun.get_or_init(|| ProgressLine::of(self.what, total));
    }

    fn add(&self, count: u64) {
        if let Some(progress) = self.begun.get() {
            progress.add(count);
        }
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        if let Some(bar) = self.bar.get() {
            bar.finish_and_clear();
        }
    }
}

fn bar(what: &'static str, total: u64) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} {eta}");
    bar.set_style(style.expect("the template is valid"));
    bar.set_message(what);
    bar
}
