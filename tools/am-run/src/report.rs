//! The launcher's messages. A separate thread writes them to standard error, which may fail or block. Neither changes how the job
//! ends.

use std::fmt::Display;
use std::io::{self, Write};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

/// The interval at which an end without the last words is considered.
const LOOK: Duration = Duration::from_millis(50);

/// The way to the thread that writes.
#[derive(Debug)]
pub(crate) struct Report {
    lines: Sender<String>,
    /// Ends with the thread.
    written: Receiver<()>,
}

impl Report {
    /// # Errors
    /// There is no thread for it.
    pub(crate) fn start() -> io::Result<Report> {
        let ((lines, texts), (end, written)) = (mpsc::channel::<String>(), mpsc::channel());
        thread::Builder::new().spawn(move || {
            texts.iter().for_each(say);
            drop::<Sender<()>>(end);
        })?;
        Ok(Report { lines, written })
    }

    /// Tell the user.
    pub(crate) fn say(&self, text: impl Display) {
        _ = self.lines.send(text.to_string());
    }

    /// Wait until everything is written, unless this says that it is not waited for.
    pub(crate) fn finish(self, mut gives_up: impl FnMut() -> bool) {
        drop(self.lines);
        while self.written.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) && !gives_up() {}
    }
}

/// Tell the user at once, by one write: this process may be a rank that a signal ends at any time, and a part of a line would stay.
/// What cannot be written is lost: the exit code says it, too.
pub(crate) fn say(text: impl Display) {
    _ = io::stderr().write_all(format!("am-run: {text}\n").as_bytes());
}
