//! Output that survives a closed reader; `println!` would panic.

use std::io::{ErrorKind, Write, stderr, stdout};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::error::Error;

/// Print on standard output. A reader that is gone, such as `head`, is no error.
pub fn print(text: &str) -> Result<(), Error> {
    said(stdout().lock(), text)
}

fn said(mut to: impl Write, text: &str) -> Result<(), Error> {
    match to.write_all(text.as_bytes()).and_then(|()| to.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result.map_err(Error::system("writing to standard output")),
    }
}

/// Print on standard error, by one write: a signal may end this process at any time, and both sides share the terminal. If that
/// fails, nothing can be reported.
pub fn status(text: &str) {
    let _ = stderr().write_all(format!("am-bench: {}\n", harmless(text)).as_bytes());
}

/// Remove control characters: names and reasons come from the network, and could control a terminal.
fn harmless(text: &str) -> String {
    text.replace(|c: char| c.is_control() && c != '\n', "\u{fffd}")
}

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

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::pipe;

    use super::*;

    #[test]
    fn what_comes_from_the_network_steers_no_terminal() {
        assert_eq!(harmless("alpha\x1b[2J\r\nbeta"), "alpha\u{fffd}[2J\u{fffd}\nbeta");
    }

    #[test]
    fn a_reader_that_went_away_is_no_error_and_a_full_disk_is() {
        let (reader, writer) = pipe().unwrap();
        drop(reader);
        assert!(said(writer, "text").is_ok());
        let full = File::options().write(true).open("/dev/full").unwrap();
        assert_eq!(said(full, "text").unwrap_err().exit_code(), 1);
    }
}
