//! **Bare DPDK**: the baseline that benches compare this crate, and everything above it, with.
//!
//! The port is opened in the same way, and then used through its driver's bursts directly: no pool, no handles, no
//! protocol, no copy. The frames to send are written once and sent again and again. Received frames are read in place,
//! and go straight back to the driver, to receive into or, as an echo, to be sent.
//!
//! ```text
//!   rx frames ◀──┬── read in place ◀── receive    tx frames ──▶ send
//!                └── returned ◀── sent ◀── echo      ▲── returned ◀──┘
//! ```
//!
//! A control frame uses one of the frames to send, which is rewritten when it has returned.
//!
//! This is not a [`Transport`](am_transport::Transport), and not for applications.

use std::fmt;
use std::io;

use am_wire::Address;

use crate::abi;
use crate::ffi::BURST;
use crate::open::{self, Opened};
use crate::{DpdkOpenError, DpdkOptions};

/// The most frames that are given to the driver, or received, in one call.
pub const BATCH: usize = BURST;
/// Frames to send. Few, so that they stay in the cache.
const TX_FRAMES: usize = 512;

/// One port. The caller works its driver directly.
pub struct Raw {
    opened: Opened,
    /// Frames that are written and free to send. The last used is on top, because it is still in the cache.
    outgoing: Vec<abi::Frame>,
    /// The frame that [`send`](Raw::send) sends.
    template: Vec<u8>,
    /// For each frame to send, its place and written length; length 0 if it no longer holds the template. `None` for
    /// all other frames.
    written: Box<[Option<abi::Frame>]>,
    /// Received frames; those before `next` were delivered.
    arrived: [abi::Frame; BURST],
    next: usize,
    end: usize,
    echoes: Vec<abi::Frame>,
    /// Frames that the driver can receive into again.
    rx_indices: Vec<u32>,
}

impl Raw {
    /// Open a device.
    ///
    /// # Errors
    /// As [`crate::open()`].
    pub fn open(options: &DpdkOptions) -> Result<Raw, DpdkOpenError> {
        let opened = open::open(options)?;
        let frames = opened.pool.layout().frames;
        let mut written = vec![None; frames];
        let taken = (0..TX_FRAMES).map_while(|_| opened.pool.copy(&[])).map(|frame| {
            let raw = frame.into_raw();
            let place = abi::Frame { index: raw.index, start: raw.start, len: 0 };
            written[raw.index as usize] = Some(place);
            place
        });
        Ok(Raw {
            outgoing: taken.collect(),
            opened,
            template: Vec::new(),
            written: written.into(),
            arrived: [abi::Frame::default(); BURST],
            next: 0,
            end: 0,
            echoes: Vec::with_capacity(BATCH),
            rx_indices: Vec::with_capacity(frames),
        })
    }

    /// Driver, pages and steering, as in [`am_transport::Caps::mode`].
    pub fn mode(&self) -> &str {
        &self.opened.mode
    }

    /// The device's address.
    pub fn address(&self) -> Address {
        self.opened.address
    }

    /// Whether the other end is connected.
    pub fn is_up(&self) -> bool {
        self.opened.port.is_link_up().unwrap_or(false)
    }

    /// The longest frame, from the destination address on.
    pub fn max_frame(&self) -> usize {
        self.opened.max_frame
    }

    /// Frames that may be in flight to this end while it does not receive.
    pub fn depth(&self) -> usize {
        self.opened.port.depth()
    }

    /// Set the frame that [`send`](Raw::send) sends.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] for a frame that is too long.
    pub fn write(&mut self, frame: &[u8]) -> io::Result<()> {
        self.check(frame)?;
        self.reap();
        frame.clone_into(&mut self.template);
        // Frames that the driver has are rewritten when they return.
        self.written.iter_mut().flatten().for_each(|place| place.len = 0);
        for place in std::mem::take(&mut self.outgoing) {
            self.rewrite_template(place);
        }
        Ok(())
    }

    fn check(&self, frame: &[u8]) -> io::Result<()> {
        if frame.len() <= self.opened.max_frame { Ok(()) } else { Err(io::ErrorKind::InvalidInput.into()) }
    }

    /// Write these bytes into a frame that the driver does not have.
    fn write_into(opened: &mut Opened, place: abi::Frame, bytes: &[u8]) -> abi::Frame {
        let place = abi::Frame { len: bytes.len() as u32, ..place };
        // SAFETY: taken by `open`, and not with the driver. A chunk has room for the longest frame, and this is the
        // only view of it.
        unsafe { opened.port.bytes(place) }.copy_from_slice(bytes);
        place
    }

    /// Write the template into a frame again, and make it free to send.
    #[cold]
    fn rewrite_template(&mut self, place: abi::Frame) {
        let place = Raw::write_into(&mut self.opened, place, &self.template);
        self.written[place.index as usize] = Some(place);
        self.outgoing.push(place);
    }

    /// Send the written frame up to `count` times. Returns how many fitted.
    #[inline]
    pub fn send(&mut self, count: usize) -> usize {
        if self.template.is_empty() {
            return 0;
        }
        let from = self.outgoing.len().saturating_sub(count.min(BATCH));
        let port = &mut self.opened.port;
        let sent = port.send_shared(&self.outgoing[from..]);
        self.outgoing.drain(from..from + sent);
        self.reap();
        sent
    }

    /// As [`send`](Raw::send), but first `fill` gets the bytes of each frame, and may change them.
    #[inline]
    pub fn send_each(&mut self, count: usize, fill: &mut dyn FnMut(&mut [u8])) -> usize {
        let from = self.outgoing.len().saturating_sub(count.min(BATCH));
        for &place in &self.outgoing[from..] {
            // SAFETY: taken by `open`, and not with the driver. This is the only view of it.
            fill(unsafe { self.opened.port.bytes(place) });
        }
        self.send(count)
    }

    /// Send a control frame. False if there is no room now.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] for a frame that is too long.
    pub fn send_control(&mut self, frame: &[u8]) -> io::Result<bool> {
        self.check(frame)?;
        self.reap();
        let Some(place) = self.outgoing.pop() else { return Ok(false) };
        self.written[place.index as usize] = Some(abi::Frame { len: 0, ..place });
        let note = Raw::write_into(&mut self.opened, place, frame);
        let sent = self.opened.port.send_shared(&[note]) == 1;
        if !sent {
            self.rewrite_template(place);
        }
        self.reap();
        Ok(sent)
    }

    /// Receive frames, at most `budget`. A frame for which `each` returns true is sent back as it is then. Returns the
    /// number of frames.
    #[inline]
    pub fn receive(&mut self, budget: usize, each: &mut dyn FnMut(&mut [u8]) -> bool) -> usize {
        let port = &mut self.opened.port;
        if self.next == self.end {
            // Ask for a whole burst: some drivers return nothing when asked for less.
            (self.next, self.end) = (0, port.receive(&mut self.arrived, &mut 0));
        }
        let count = budget.min(self.end - self.next);
        for _ in 0..count {
            let frame = self.arrived[self.next];
            // Before the call: if it panics, the frame is lost, and not delivered again or returned twice.
            self.next += 1;
            // SAFETY: it was received and not delivered before, and this is the only view of it.
            if each(unsafe { port.bytes(frame) }) {
                self.echoes.push(frame);
            } else {
                self.rx_indices.push(frame.index);
            }
        }
        if !self.echoes.is_empty() {
            let sent = port.send_shared(&self.echoes);
            // Frames that find no room are lost, as on a wire.
            self.rx_indices.extend(self.echoes[sent..].iter().map(|frame| frame.index));
            self.echoes.clear();
            self.reap();
        }
        let port = &mut self.opened.port;
        if !self.rx_indices.is_empty() {
            // SAFETY: delivered above, or sent and returned: not in use.
            unsafe { port.give_rx_indices(&self.rx_indices) };
            self.rx_indices.clear();
        }
        count
    }

    /// Take sent frames back.
    #[inline]
    fn reap(&mut self) {
        let port = &mut self.opened.port;
        port.request_completions();
        if !port.has_sent() {
            return;
        }
        let Raw { outgoing, written, rx_indices: blanks, .. } = self;
        let here = outgoing.len();
        let mut stale = false;
        port.take_sent(&mut |frame| match written[frame.index as usize] {
            Some(place) => {
                stale |= place.len == 0;
                outgoing.push(place);
            }
            None => blanks.push(frame.index),
        });
        if stale {
            for place in self.outgoing.split_off(here) {
                self.rewrite_template(place);
            }
        }
    }
}

/// Returns the frames that are here to the pool. The port returns the others.
impl Drop for Raw {
    fn drop(&mut self) {
        let Opened { port, pool, .. } = &mut self.opened;
        let here = self.outgoing.iter().chain(&self.arrived[self.next..self.end]).copied();
        let here = here.chain(self.rx_indices.iter().map(|&index| abi::Frame { index, start: 0, len: 0 }));
        for frame in here {
            // SAFETY: made raw by `open`, or received from the port and not given back.
            drop(unsafe { port.adopt(pool, frame) });
        }
    }
}

impl fmt::Debug for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Raw").field("mode", &self.mode()).finish_non_exhaustive()
    }
}
