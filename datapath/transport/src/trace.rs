//! A transport that records its frames.
//!
//! Every frame, in both directions, goes into a pcap file for tcpdump and Wireshark: a sent frame when the transport takes
//! it, a received frame when it is handed over. A trace is for debugging, and not for the data path: it reads the time of
//! each frame, copies it and writes it to a file, which may allocate and block.
//!
//! The file is complete up to the last `flush`, even if the process is killed. If the file cannot be written any more, the
//! trace ends, and the transport works on.
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
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use am_ring::Frame;
use am_wire::{Address, Buffer};

use crate::{Caps, Command, Notice, PeerAddressError, PeerInfo, Transport};

/// A transport, and the file of its frames.
#[derive(Debug)]
pub struct Trace<T, W: Write> {
    inner: T,
    log: Log<W>,
}

#[derive(Debug)]
struct Log<W> {
    out: W,
    frames: u64,
    /// Whether frames were written since the last flush.
    fresh: bool,
    error: Arc<OnceLock<io::Error>>,
}

impl<T: Transport> Trace<T, BufWriter<File>> {
    /// Trace a transport into a new file, which replaces one of the same name.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn create(inner: T, path: impl AsRef<Path>) -> io::Result<Self> {
        Trace::new(inner, BufWriter::new(File::create(path)?))
    }

    /// Trace a transport into the file of an earlier trace, behind its frames; or into a new file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn append(inner: T, path: impl AsRef<Path>) -> io::Result<Self> {
        let file = File::options().append(true).create(true).open(path)?;
        let (is_new, out) = (file.metadata()?.len() == 0, BufWriter::new(file));
        if is_new { Trace::new(inner, out) } else { Ok(Trace::over(inner, out)) }
    }
}

impl<T: Transport, W: Write> Trace<T, W> {
    /// Trace a transport into any writer. It should be buffered.
    ///
    /// # Errors
    /// The start of the file cannot be written.
    pub fn new(inner: T, mut out: W) -> io::Result<Self> {
        write_header(&mut out)?;
        Ok(Trace::over(inner, out))
    }

    fn over(inner: T, out: W) -> Self {
        Trace { inner, log: Log { out, frames: 0, fresh: true, error: Arc::default() } }
    }

    /// The error that ends the trace, once one does. A node that takes the transport does not hide it.
    pub fn error(&self) -> Arc<OnceLock<io::Error>> {
        Arc::clone(&self.log.error)
    }
}

impl<W: Write> Log<W> {
    fn frame(&mut self, bytes: &[u8]) {
        // A clock before 1970 is no reason to stop.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        self.unless_ended(|out| write_frame(out, now, bytes));
        self.frames += self.error.get().is_none() as u64;
        self.fresh = true;
    }

    fn flush(&mut self) {
        if self.fresh {
            self.unless_ended(W::flush);
            self.fresh = false;
        }
    }

    fn unless_ended(&mut self, write: impl FnOnce(&mut W) -> io::Result<()>) {
        if self.error.get().is_none()
            && let Err(error) = write(&mut self.out)
        {
            // Nobody else sets it.
            let _ = self.error.set(error);
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

    fn control(&mut self, command: Command<'_>) -> Result<(), PeerAddressError> {
        self.inner.control(command)
    }

    fn poll_notices(&mut self, each: &mut dyn FnMut(Notice<'_>)) {
        self.inner.poll_notices(each);
    }

    fn peer(&self, at: Address) -> PeerInfo {
        self.inner.peer(at)
    }

    fn read_memory(&mut self, of: Address, at: u64, into: &mut [u8]) -> bool {
        self.inner.read_memory(of, at, into)
    }

    fn room_within(&self) -> Duration {
        self.inner.room_within()
    }

    fn prefers_reading(&mut self, of: Address, bytes: u64) -> bool {
        self.inner.prefers_reading(of, bytes)
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        self.inner.counters(each);
        each("trace_frames", self.log.frames);
        each("trace_ended", self.log.error.get().is_some() as u64);
    }
}

/// The longest part of a frame that is written.
const MAX_CAPTURED_BYTES: u32 = 256 * 1024;

/// Write the header of a capture file of Ethernet frames, in the format that tcpdump and Wireshark read, with times in
/// nanoseconds.
///
/// # Errors
/// `out` cannot be written.
pub fn write_header(out: &mut impl Write) -> io::Result<()> {
    // The format's number, its version (2.4), the offset of the time zone and the accuracy (every program writes 0), the
    // longest frame, and Ethernet.
    write_numbers(out, &[0xa1b2_3c4d, 4 << 16 | 2, 0, 0, MAX_CAPTURED_BYTES, 1])
}

/// Write one frame. `at` is the time since 1970.
///
/// # Errors
/// `out` cannot be written.
pub fn write_frame(out: &mut impl Write, at: Duration, bytes: &[u8]) -> io::Result<()> {
    let captured = &bytes[..bytes.len().min(MAX_CAPTURED_BYTES as usize)];
    write_numbers(out, &[at.as_secs() as u32, at.subsec_nanos(), captured.len() as u32, bytes.len() as u32])?;
    out.write_all(captured)
}

/// The byte order of the first number is that of the file.
fn write_numbers(out: &mut impl Write, numbers: &[u32]) -> io::Result<()> {
    numbers.iter().try_for_each(|number| out.write_all(&number.to_le_bytes()))
}
