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
//! Not a [`Transport`](transport::Transport), and not for applications.

use std::fmt;
use std::io;

use wire::Address;

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
    /// By frame: what it was written as, if it was.
    written: Box<[Option<abi::Frame>]>,
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
        Ok(Raw {
            opened,
            outgoing: Vec::with_capacity(OUTGOING),
            written: vec![None; frames].into(),
            echoes: Vec::with_capacity(BATCH),
            blanks: Vec::with_capacity(frames),
        })
    }

    /// As [`transport::Caps::mode`].
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

    /// What [`send`](Raw::send) sends from now on. For once, before anything is sent.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] for a frame that is too long; [`io::ErrorKind::OutOfMemory`] for the second time.
    pub fn write(&mut self, frame: &[u8]) -> io::Result<()> {
        if frame.len() > self.opened.max_frame {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        if self.written.iter().any(Option::is_some) {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        for _ in 0..OUTGOING {
            let Some(copy) = self.opened.pool.copy(frame) else { break };
            let raw = copy.into_raw();
            let place = abi::Frame { index: raw.index, start: raw.start, len: raw.len };
            self.written[raw.index as usize] = Some(place);
            self.outgoing.push(place);
        }
        Ok(())
    }

    /// Send the written frame up to `count` times; returns how often there was room.
    #[inline]
    pub fn send(&mut self, count: usize) -> usize {
        let from = self.outgoing.len().saturating_sub(count.min(BATCH));
        let (port, _) = self.opened.port();
        let sent = port.send_these(&self.outgoing[from..]);
        self.outgoing.drain(from..from + sent);
        self.reap();
        sent
    }

    /// Look at arrived frames, [`BATCH`] at most; those for which `each` says so
    /// go back as they are then. Returns how many there were.
    #[inline]
    pub fn receive(&mut self, each: &mut dyn FnMut(&mut [u8]) -> bool) -> usize {
        let mut arrived = [abi::Frame::default(); BURST];
        let (port, _) = self.opened.port();
        let count = port.receive(&mut arrived, &mut 0);
        for &frame in &arrived[..count] {
            // SAFETY: it has just arrived, and this is the only view of it.
            if each(unsafe { port.bytes(frame) }) {
                self.echoes.push(frame);
            } else {
                self.blanks.push(frame.index);
            }
        }
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
        port.sent(&mut |frame| match written[frame.index as usize] {
            Some(place) => outgoing.push(place),
            None => blanks.push(frame.index),
        });
    }
}

/// Brings home what is here; the port does it with the rest.
impl Drop for Raw {
    fn drop(&mut self) {
        let (port, pool) = self.opened.port();
        let here = self.outgoing.iter().copied();
        let here = here.chain(self.blanks.iter().map(|&index| abi::Frame { index, start: 0, len: 0 }));
        for frame in here {
            // SAFETY: made raw by `write`, or got from the port and not given back.
            drop(unsafe { port.adopt(pool, frame) });
        }
    }
}

impl fmt::Debug for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Raw").field("mode", &self.mode()).finish_non_exhaustive()
    }
}
