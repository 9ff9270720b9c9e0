//! **Bare DPDK**: what this crate, and all that stands on it, is measured against.
//!
//! The same port, opened in the same way, and then bursts through its driver
//! with nothing of ours above them: no pool, no handles, no protocol, no copy.
//! The frames to send are written once and sent again and again; arrived frames
//! are looked at where they are, and go straight back to the driver to receive
//! into or, turned round, to be sent.
//!
//! ```text
//!   blanks ◀──┬── looked at ◀── receive         outgoing ──▶ send
//!             └── home ◀── sent ◀── echo            ▲── home ◀──┘
//! ```
//!
//! A note goes in one of the outgoing frames, which is written anew when it is home.
//!
//! Not a [`Transport`](am_transport::Transport), and not for applications.

use std::fmt;
use std::io;

use am_wire::Address;

use crate::abi;
use crate::border::BURST;
use crate::open::{self, Opened};
use crate::{OpenError, Options};

/// The most frames that are handed to the driver, or looked at, in one go.
pub const BATCH: usize = BURST;
/// Frames with what is to be sent. Few, so that they stay in the cache.
const OUTGOING: usize = 512;

/// One port, with nothing between its driver and the caller.
pub struct Raw {
    opened: Opened,
    /// Written and free to send; the one used last, still in the cache, on top.
    outgoing: Vec<abi::Frame>,
    /// What [`send`](Raw::send) sends.
    template: Vec<u8>,
    /// By frame: what it was written as if it is one of the outgoing; of no bytes if that is no longer the template.
    written: Box<[Option<abi::Frame>]>,
    /// What has arrived; looked at up to `next`.
    arrived: [abi::Frame; BURST],
    next: usize,
    end: usize,
    echoes: Vec<abi::Frame>,
    /// Looked at: for the driver to receive into again.
    blanks: Vec<u32>,
}

impl Raw {
    /// Open a device.
    ///
    /// # Errors
    /// As [`crate::open`].
    pub fn open(options: &Options) -> Result<Raw, OpenError> {
        let opened = open::open(options)?;
        let frames = opened.pool.layout().frames;
        let mut written = vec![None; frames];
        let taken = (0..OUTGOING).map_while(|_| opened.pool.copy(&[])).map(|frame| {
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
            blanks: Vec::with_capacity(frames),
        })
    }

    /// As [`am_transport::Caps::mode`].
    pub fn mode(&self) -> &str {
        &self.opened.mode
    }

    /// Its true address.
    pub fn address(&self) -> Address {
        self.opened.address
    }

    /// Whether there is somebody at the other end.
    pub fn is_up(&self) -> bool {
        self.opened.ask().link().unwrap_or(false)
    }

    /// The longest frame, from the destination address on.
    pub fn max_frame(&self) -> usize {
        self.opened.max_frame
    }

    /// Frames that may be on their way to here while nobody looks.
    pub fn depth(&self) -> usize {
        self.opened.ask().depth()
    }

    /// What [`send`](Raw::send) sends from now on.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] for a frame that is too long.
    pub fn write(&mut self, frame: &[u8]) -> io::Result<()> {
        self.check(frame)?;
        self.reap();
        frame.clone_into(&mut self.template);
        // Those that are out are written when they come home.
        self.written.iter_mut().flatten().for_each(|place| place.len = 0);
        for place in std::mem::take(&mut self.outgoing) {
            self.renew(place);
        }
        Ok(())
    }

    fn check(&self, frame: &[u8]) -> io::Result<()> {
        if frame.len() <= self.opened.max_frame { Ok(()) } else { Err(io::ErrorKind::InvalidInput.into()) }
    }

    /// Write these bytes into an outgoing frame that is here.
    fn fill(opened: &mut Opened, place: abi::Frame, bytes: &[u8]) -> abi::Frame {
        let place = abi::Frame { len: bytes.len() as u32, ..place };
        // SAFETY: taken by `open` and in no driver's hands; a chunk has room for the longest frame, and
        // this is the only view of it.
        unsafe { opened.port().0.bytes(place) }.copy_from_slice(bytes);
        place
    }

    /// An outgoing frame that is here becomes the template again.
    #[cold]
    fn renew(&mut self, place: abi::Frame) {
        let place = Raw::fill(&mut self.opened, place, &self.template);
        self.written[place.index as usize] = Some(place);
        self.outgoing.push(place);
    }

    /// Send the written frame up to `count` times; returns how often there was room.
    #[inline]
    pub fn send(&mut self, count: usize) -> usize {
        if self.template.is_empty() {
            return 0;
        }
        let from = self.outgoing.len().saturating_sub(count.min(BATCH));
        let (port, _) = self.opened.port();
        let sent = port.send_these(&self.outgoing[from..]);
        self.outgoing.drain(from..from + sent);
        self.reap();
        sent
    }

    /// As [`send`](Raw::send), after `fill` had the bytes of each.
    #[inline]
    pub fn send_each(&mut self, count: usize, fill: &mut dyn FnMut(&mut [u8])) -> usize {
        let from = self.outgoing.len().saturating_sub(count.min(BATCH));
        for &place in &self.outgoing[from..] {
            // SAFETY: taken by `open` and in no driver's hands; this is the only view of it.
            fill(unsafe { self.opened.port().0.bytes(place) });
        }
        self.send(count)
    }

    /// Send this frame once; `false` where there is no room now.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] for a frame that is too long.
    pub fn send_note(&mut self, frame: &[u8]) -> io::Result<bool> {
        self.check(frame)?;
        self.reap();
        let Some(place) = self.outgoing.pop() else { return Ok(false) };
        self.written[place.index as usize] = Some(abi::Frame { len: 0, ..place });
        let note = Raw::fill(&mut self.opened, place, frame);
        let sent = self.opened.port().0.send_these(&[note]) == 1;
        if !sent {
            self.renew(place);
        }
        self.reap();
        Ok(sent)
    }

    /// Look at arrived frames, `budget` at most; those for which `each` says so
    /// go back as they are then. Returns how many there were.
    #[inline]
    pub fn receive(&mut self, budget: usize, each: &mut dyn FnMut(&mut [u8]) -> bool) -> usize {
        let (port, _) = self.opened.port();
        if self.next == self.end {
            // A whole burst: some drivers give nothing to who asks for less.
            (self.next, self.end) = (0, port.receive(&mut self.arrived, &mut 0));
        }
        let count = budget.min(self.end - self.next);
        for &frame in &self.arrived[self.next..self.next + count] {
            // SAFETY: it has arrived and was not looked at before, and this is the only view of it.
            if each(unsafe { port.bytes(frame) }) {
                self.echoes.push(frame);
            } else {
                self.blanks.push(frame.index);
            }
        }
        self.next += count;
        if !self.echoes.is_empty() {
            let sent = port.send_these(&self.echoes);
            // What finds no room is lost, as on a wire.
            self.blanks.extend(self.echoes[sent..].iter().map(|frame| frame.index));
            self.echoes.clear();
            self.reap();
        }
        let (port, _) = self.opened.port();
        if !self.blanks.is_empty() {
            // SAFETY: looked at above, or sent and home again: nobody uses them.
            unsafe { port.give_these(&self.blanks) };
            self.blanks.clear();
        }
        count
    }

    /// Take back what has been sent.
    #[inline]
    fn reap(&mut self) {
        let (port, _) = self.opened.port();
        port.ask_sent();
        if !port.has_sent() {
            return;
        }
        let Raw { outgoing, written, blanks, .. } = self;
        let here = outgoing.len();
        let mut stale = false;
        port.sent(&mut |frame| match written[frame.index as usize] {
            Some(place) => {
                stale |= place.len == 0;
                outgoing.push(place);
            }
            None => blanks.push(frame.index),
        });
        if stale {
            for place in self.outgoing.split_off(here) {
                self.renew(place);
            }
        }
    }
}

/// Brings home what is here; the port does it with the rest.
impl Drop for Raw {
    fn drop(&mut self) {
        let (port, pool) = self.opened.port();
        let here = self.outgoing.iter().chain(&self.arrived[self.next..self.end]).copied();
        let here = here.chain(self.blanks.iter().map(|&index| abi::Frame { index, start: 0, len: 0 }));
        for frame in here {
            // SAFETY: made raw by `open`, or got from the port and not given back.
            drop(unsafe { port.adopt(pool, frame) });
        }
    }
}

impl fmt::Debug for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Raw").field("mode", &self.mode()).finish_non_exhaustive()
    }
}
