//! A transport that writes down what passes.
//!
//! Every frame, in both directions, goes into a pcap file for tcpdump and
//! Wireshark: those that were sent when the transport took them, those that
//! arrived when they were handed over. For looking at what goes wrong, not for
//! the data path: it writes to a file, asks for the time of each frame, and
//! copies it; what it writes to may allocate and block.
//!
//! The file is complete up to the last `flush`, whatever happens to the process then.
//! A file that can no longer be written ends the trace and nothing else.
//!
//! ```no_run
//! # fn main() -> std::io::Result<()> {
//! let end = am_transport::loopback::wire(2).pop().unwrap().open().unwrap();
//! let end = am_transport::trace::Trace::create(end, "left.pcap")?;   // then: tcpdump -e -xx -r left.pcap
//! # Ok(())
//! # }
//! ```

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use am_ring::Frame;
use am_wire::{Address, Buffer};

use crate::{Caps, Command, IntroduceError, Notice, PeerInfo, Transport, pcap};

/// A transport, and the file that tells of it.
#[derive(Debug)]
pub struct Trace<T, W: Write> {
    inner: T,
    log: Log<W>,
}

#[derive(Debug)]
struct Log<W> {
    out: W,
    frames: u64,
    /// Since the last flush.
    fresh: bool,
    error: Option<io::Error>,
}

impl<T: Transport> Trace<T, BufWriter<File>> {
    /// Trace a transport into a new file; one of the same name is replaced.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn create(inner: T, path: impl AsRef<Path>) -> io::Result<Self> {
        Trace::new(inner, BufWriter::new(File::create(path)?))
    }
}

impl<T: Transport> Trace<T, BufWriter<File>> {
    /// Go on with a file that an earlier trace has written, or begin it.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn append(inner: T, path: impl AsRef<Path>) -> io::Result<Self> {
        let file = File::options().append(true).create(true).open(path)?;
        let is_new = file.metadata()?.len() == 0;
        let mut out = BufWriter::new(file);
        if is_new {
            pcap::start(&mut out)?;
        }
        Ok(Trace::over(inner, out))
    }
}

impl<T: Transport, W: Write> Trace<T, W> {
    /// Trace a transport into whatever takes bytes, buffered better than not.
    ///
    /// # Errors
    /// The start of the file cannot be written.
    pub fn new(inner: T, mut out: W) -> io::Result<Self> {
        pcap::start(&mut out)?;
        Ok(Trace::over(inner, out))
    }

    fn over(inner: T, out: W) -> Self {
        let log = Log { out, frames: 0, fresh: true, error: None };
        Trace { inner, log }
    }

    /// What ended the trace, if something did.
    pub fn error(&self) -> Option<&io::Error> {
        self.log.error.as_ref()
    }
}

impl<W: Write> Log<W> {
    fn frame(&mut self, bytes: &[u8]) {
        // A clock before 1970 is no reason to stop.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        self.unless_ended(|out| pcap::frame(out, now, bytes));
        self.frames += self.error.is_none() as u64;
        self.fresh = true;
    }

    fn flush(&mut self) {
        if self.fresh {
            self.unless_ended(W::flush);
            self.fresh = false;
        }
    }

    fn unless_ended(&mut self, write: impl FnOnce(&mut W) -> io::Result<()>) {
        if self.error.is_none() {
            self.error = write(&mut self.out).err();
        }
    }
}

impl<T: Transport, W: Write> Transport for Trace<T, W> {
    fn caps(&self) -> &Caps {
        self.inner.caps()
    }

    fn receive(&mut self, budget: usize, each: &mut dyn FnMut(Frame)) -> usize {
        let Trace { inner, log, .. } = self;
        inner.receive(budget, &mut |frame| {
            log.frame(frame.bytes());
            each(frame);
        })
    }

    fn send(&mut self, to: Address, frame: &Frame) -> bool {
        let sent = self.inner.send(to, frame);
        if sent {
            self.log.frame(frame.bytes());
        }
        sent
    }

    fn flush(&mut self) {
        self.inner.flush();
        self.log.flush();
    }

    fn control(&mut self, command: Command<'_>) -> Result<(), IntroduceError> {
        self.inner.control(command)
    }

    fn poll_notices(&mut self, each: &mut dyn FnMut(Notice<'_>)) {
        self.inner.poll_notices(each);
    }

    fn peer(&self, at: Address) -> PeerInfo {
        self.inner.peer(at)
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        self.inner.counters(each);
        each("trace_frames", self.log.frames);
        each("trace_ended", self.log.error.is_some() as u64);
    }
}
