//! The launcher's messages to the user. A separate thread writes them to standard error, so that a failed or blocked write does not change how
//! the job ends.

use std::fmt::Display;
use std::io::{self, Write};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

/// The interval at which [`Report::finish`] checks whether to give up waiting.
const LOOK: Duration = Duration::from_millis(50);

/// The queue to the writer thread.
#[derive(Debug)]
pub(crate) struct Report {
    lines: Sender<String>,
    /// This channel closes when the thread ends.
    written: Receiver<()>,
}

impl Report {
    /// # Errors
    /// The system cannot create the thread.
    pub(crate) fn start() -> io::Result<Report> {
        let ((lines, texts), (end, written)) = (mpsc::channel::<String>(), mpsc::channel());
        thread::Builder::new().spawn(move || {
            texts.iter().for_each(say);
            drop::<Sender<()>>(end);
        })?;
        Ok(Report { lines, written })
    }

    /// Write a message to the user.
    pub(crate) fn say(&self, text: impl Display) {
        _ = self.lines.send(text.to_string());
    }

    /// Wait until everything is written, or `gives_up` returns true.
    pub(crate) fn finish(self, mut gives_up: impl FnMut() -> bool) {
        drop(self.lines);
        while self.written.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) && !gives_up() {}
    }
}

/// Write a message to the user now, by one write: a signal may end this process at any time, and several writes could leave a part of a line.
/// A message that cannot be written is lost; the exit code reports the failure, too.
pub(crate) fn say(text: impl Display) {
    _ = io::stderr().write_all(format!("am-run: {text}\n").as_bytes());
}
