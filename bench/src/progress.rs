//! A bar on standard error while it takes its time; nothing where nobody looks.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::plan::Bench;
use crate::via::Via;

/// How far it is.
#[derive(Debug)]
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// Of so many measurements. Drawn on a terminal only, and never while
    /// something is measured: the bar has no thread of its own.
    pub(crate) fn new(measurements: usize, quiet: bool) -> Progress {
        let target = if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let bar = ProgressBar::with_draw_target(Some(measurements as u64), target);
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len}  {msg}") {
            bar.set_style(style);
        }
        Progress(bar)
    }

    /// This comes now.
    pub(crate) fn now(&self, bench: Bench, via: Via) {
        self.0.set_message(format!("{bench} by {via}"));
    }

    /// This comes now, in other words.
    pub(crate) fn say(&self, what: &str) {
        self.0.set_message(what.to_owned());
    }

    /// One more is done.
    pub(crate) fn done(&self) {
        self.0.inc(1);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
