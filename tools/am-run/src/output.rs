//! The processes' output, line by line.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd;

use crate::protocol::Stream;

/// A line that is longer is written in pieces.
const MAX_LINE: usize = 1 << 20;

/// A pipe that is writable takes this many bytes at once (`PIPE_BUF`), so that no write blocks.
const PIECE: usize = 4096;

/// The interval in milliseconds at which a blocked write checks whether the job is interrupted.
const LOOK: u8 = 100;

/// When the job is interrupted, output is dropped if its reader has read nothing for this long.
const STALLED: Duration = Duration::from_secs(1);

/// Collects the lines of all processes and writes each as a whole.
#[derive(Debug, Default)]
pub(crate) struct Output {
    prefix: bool,
    /// The incomplete last lines of the processes.
    open: Mutex<BTreeMap<(u32, Stream), Vec<u8>>>,
    /// Whether a signal has asked for the end of the job.
    is_interrupted: AtomicBool,
    /// Whether the rest of the output is dropped.
    is_given_up: AtomicBool,
}

impl Output {
    pub(crate) fn new(prefix: bool) -> Output {
        Output { prefix, ..Output::default() }
    }

    /// The job is interrupted: from now on do not wait for a reader that reads nothing.
    pub(crate) fn interrupt(&self) {
        self.is_interrupted.store(true, Relaxed);
    }

    /// Add output of a process, and write the complete lines.
    ///
    /// # Errors
    /// The errors of standard output and standard error.
    pub(crate) fn write(&self, rank: u32, stream: Stream, bytes: &[u8]) -> io::Result<()> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let line = open.entry((rank, stream)).or_default();
        line.extend_from_slice(bytes);
        let whole = match line.iter().rposition(|byte| *byte == b'\n') {
            Some(end) => end + 1,
            None if line.len() > MAX_LINE => line.len(),
            None => return Ok(()),
        };
        let lines: Vec<u8> = line.drain(..whole).collect();
        self.put(rank, stream, &lines)
    }

    /// Write the last line of a process that has ended, which may lack its newline.
    ///
    /// # Errors
    /// The errors of standard output and standard error.
    pub(crate) fn end(&self, rank: u32) -> io::Result<()> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        for stream in [Stream::Output, Stream::Error] {
            if let Some(line) = open.remove(&(rank, stream)).filter(|line| !line.is_empty()) {
                self.put(rank, stream, &line)?;
            }
        }
        Ok(())
    }

    fn put(&self, rank: u32, stream: Stream, lines: &[u8]) -> io::Result<()> {
        let prefixed = || lines.split_inclusive(|byte| *byte == b'\n').flat_map(|line| [tag(rank), line.to_vec()]);
        let text = if self.prefix { prefixed().flatten().collect() } else { lines.to_vec() };
        match stream {
            Stream::Output => self.write_all(io::stdout().as_fd(), &text),
            Stream::Error => self.write_all(io::stderr().as_fd(), &text),
        }
    }

    /// Write all of it, however long the reader takes, unless the job is interrupted.
    fn write_all(&self, to: BorrowedFd<'_>, mut bytes: &[u8]) -> io::Result<()> {
        let mut last_taken = Instant::now();
        while !bytes.is_empty() && !self.is_given_up.load(Relaxed) {
            match poll(&mut [PollFd::new(to, PollFlags::POLLOUT)], PollTimeout::from(LOOK)) {
                Ok(0) => {
                    let is_stalled = last_taken.elapsed() > STALLED;
                    self.is_given_up.fetch_or(is_stalled && self.is_interrupted.load(Relaxed), Relaxed);
                    continue;
                }
                Err(why) if why != Errno::EINTR => return Err(why.into()),
                _ => {}
            }
            match unistd::write(to, &bytes[..bytes.len().min(PIECE)]) {
                Ok(taken) => (bytes, last_taken) = (&bytes[taken..], Instant::now()),
                Err(Errno::EINTR | Errno::EAGAIN) => {}
                Err(why) => return Err(why.into()),
            }
        }
        Ok(())
    }
}

fn tag(rank: u32) -> Vec<u8> {
    format!("[{rank}] ").into_bytes()
}
