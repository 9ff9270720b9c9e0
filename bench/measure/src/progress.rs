//! A progress bar on standard error, on terminals only.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// The bar, until it is dropped.
#[derive(Debug)]
pub struct Progress(ProgressBar);

impl Progress {
    /// A bar for this many measurements. It has no thread, so it is never drawn during a measurement.
    pub fn new(measurements: usize, quiet: bool) -> Progress {
        let target = if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let bar = ProgressBar::with_draw_target(Some(measurements as u64), target);
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len}  {msg}") {
            bar.set_style(style);
        }
        Progress(bar)
    }

    /// Say what is measured now.
    pub fn say(&self, what: &str) {
        self.0.set_message(what.to_owned());
    }

    /// One more measurement is done.
    pub fn done(&self) {
        self.0.inc(1);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
