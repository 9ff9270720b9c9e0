//! Plans and answers as lines of JSON between a process and the one that started it. When the other process ends, for
//! any reason, its end of the pipe closes.

use std::io::{BufRead, BufReader, Read, Write, stdin};
use std::process;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::Error;
use crate::watch::Watch;

/// Every loop checks the watch. If one does not, a process whose parent is gone ends after this time.
const EXIT_TIMEOUT: Duration = Duration::from_secs(5);
/// How often signals are checked while nothing arrives.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Lines of `T` as they arrive. A thread of its own reads them, and sleeps in between.
#[derive(Debug)]
pub struct Lines<T> {
    lines: Receiver<Result<T, serde_json::Error>>,
}

impl<T: DeserializeOwned + Send + 'static> Lines<T> {
    /// Read from here; `closed` is called at the end of the input.
    pub(crate) fn read(from: impl Read + Send + 'static, closed: impl FnOnce() + Send + 'static) -> Lines<T> {
        let (send, lines) = channel();
        thread::spawn(move || {
            for line in BufReader::new(from).lines().map_while(Result::ok) {
                if send.send(serde_json::from_str(&line)).is_err() {
                    break;
                }
            }
            closed();
        });
        Lines { lines }
    }

    /// Read from standard input. When the parent process closes it, `watch` says so, and this process ends.
    pub fn from_parent(watch: &Watch) -> Lines<T> {
        let watch = watch.clone();
        Lines::read(stdin(), move || {
            watch.peer_is_gone();
            thread::sleep(EXIT_TIMEOUT);
            process::exit(1);
        })
    }

    /// The next line within `patience`; `None` if the other side is gone.
    ///
    /// # Errors
    /// A reason to stop; [`Error::Refused`] if the line cannot be parsed, or none arrived.
    pub fn next(&self, patience: Duration, watch: &Watch) -> Result<Option<T>, Error> {
        let start = Instant::now();
        loop {
            match self.lines.recv_timeout(CHECK_INTERVAL) {
                Ok(line) => return line.map(Some).map_err(not_understood),
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
                Err(RecvTimeoutError::Timeout) => watch.check()?,
            }
            if start.elapsed() > patience {
                return Err(Error::Refused(format!("no answer within {} s", patience.as_secs())));
            }
        }
    }
}

fn not_understood(error: serde_json::Error) -> Error {
    Error::Refused(format!("not understood: {error}"))
}

/// Write one line, and flush it.
pub fn write_line(to: &mut dyn Write, what: &impl Serialize) -> Result<(), Error> {
    let line = serde_json::to_string(what).map_err(|e| Error::Refused(e.to_string()))?;
    writeln!(to, "{line}").and_then(|()| to.flush()).map_err(|_| Error::gone())
}
