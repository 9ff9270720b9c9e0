//! A progress bar on standard error, on terminals only.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

#[derive(Debug)]
pub struct Progress(ProgressBar);

impl Progress {
    /// A bar for this many measurements. It has no thread, so it is never drawn during a measurement.
    pub fn new(measurements: usize, quiet: bool) -> Progress {
        Progress::drawn(measurements as u64, quiet, "{bar:30} {pos}/{len}  {msg}")
    }

    /// A bar for this many messages, with their rate.
    pub fn of_messages(messages: u64, quiet: bool) -> Progress {
        Progress::drawn(messages, quiet, "{bar:30} {human_pos}/{human_len}  {per_sec}  {eta}")
    }

    fn drawn(length: u64, quiet: bool, style: &str) -> Progress {
        let target = if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let bar = ProgressBar::with_draw_target(Some(length), target);
        if let Ok(style) = ProgressStyle::with_template(style) {
            bar.set_style(style);
        }
        Progress(bar)
    }

    pub fn say(&self, what: &str) {
        self.0.set_message(what.to_owned());
    }

    pub fn done(&self) {
        self.add(1);
    }

    pub fn add(&self, more: u64) {
        self.0.inc(more);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
