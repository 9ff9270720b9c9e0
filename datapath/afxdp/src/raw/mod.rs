//! **Bare AF_XDP**: what this crate, and all that stands on it, is measured against.
//!
//! The same socket, opened in the same way, and then xsk-rs's rings with
//! nothing of ours above them: no pool, no handles, no protocol, no copy. The
//! frames to send are written once and sent again and again; arrived frames are
//! looked at where they are and go straight back, to the fill ring or, turned
//! round, to the TX ring. What this does is the most that AF_XDP does on the
//! machine, so it takes every liberty that a program with one purpose may take.
//!
//! ```text
//!  chunks   0 ... ARRIVALS            │ ... + OUTGOING      │ ... + NOTES
//!           what arrives              │ one frame, written  │ other frames
//!                                     │ into each           │
//!   fill ◀──┬── looked at ◀── rx      │                     │
//!           └── echo ──▶ tx ──▶ done  │ stack ──▶ tx        │ stack ──▶ tx
//!                └──────▶ fill        │   ▲── done ◀──┘     │   ▲── done ◀──┘
//! ```
//!
//! Frames longer than a chunk are in several, one after the other: *pieces*, all
//! but the last marked so, which is all that is different about them.
//!
//! Not a [`Transport`](am_transport::Transport), and not for applications.

mod open;

use std::fmt;
use std::io;

use xsk_rs::{CompQueue, FillQueue, FrameDesc, RxQueue, TxQueue, Umem};

use crate::close::CloseOnDrop;
use crate::cut::HEADROOM;
use crate::mode::Mode;
use crate::program::Attached;

/// The most frames that are handed to the kernel with one doorbell, or looked
/// at in one go.
pub const BATCH: usize = 64;

/// Chunks for what arrives: half as many as the fill ring has entries.
const ARRIVALS: usize = 1024;
/// The same where a frame takes several.
const MANY_ARRIVALS: usize = 4096;
/// Chunks with the frame to send. Few, so that they stay in the cache.
const OUTGOING: usize = 1024;
/// Chunks for other frames.
const NOTES: usize = 16;
/// More pieces of the frame follow (`XDP_PKT_CONTD`).
const CONTINUED: u32 = 1;
/// A turn in which nothing arrives looks after what is being sent every so often.
const TAIL: u32 = 1024;

/// One queue of an interface, with nothing between its rings and the caller.
pub struct Raw {
    // Dropped in this order, for the reasons given at `Xdp`.
    _program: Attached,
    rx: RxQueue,
    tx: TxQueue,
    fill: FillQueue,
    done: CompQueue,
    _socket: CloseOnDrop,
    umem: Umem,
    chunk: usize,
    /// Chunks for what arrives.
    arrivals: usize,
    /// Chunks that the longest frame takes,
    most_pieces: usize,
    /// and the written one.
    pieces: usize,
    /// By chunk: its descriptor, with the length it is sent with.
    chunks: Vec<FrameDesc>,
    /// Written and free to send, piece by piece; the one used last, still in
    /// the cache, on top.
    outgoing: Vec<FrameDesc>,
    notes: Vec<FrameDesc>,
    arrived: Vec<FrameDesc>,
    /// The next piece to arrive is not the first of its frame, which goes back or not.
    amid: Option<bool>,
    echoes: Vec<FrameDesc>,
    /// Chunks handed over and not yet done.
    sending: usize,
    idle: u32,
    mode: Mode,
    max_frame: usize,
}

impl Raw {
    /// Which mode the kernel gave us.
    pub fn mode(&self) -> &Mode {
        &self.mode
    }

    /// The longest frame, from the destination address on.
    pub fn max_frame(&self) -> usize {
        self.max_frame
    }

    /// The most frames that may be on their way to here while nobody looks.
    pub fn depth(&self) -> usize {
        self.arrivals / self.most_pieces
    }

    /// What [`send`](Raw::send) sends from now on. Waits until what was sent
    /// before is done.
    ///
    /// # Errors
    /// The socket's; [`io::ErrorKind::TimedOut`] where the kernel does not
    /// finish; [`io::ErrorKind::InvalidInput`] for a frame that is too long.
    pub fn write(&mut self, frame: &[u8]) -> io::Result<()> {
        self.check(frame)?;
        self.finish()?;
        self.pieces = frame.len().div_ceil(self.chunk - HEADROOM).max(1);
        let places = &mut self.chunks[self.arrivals..][..OUTGOING / self.pieces * self.pieces];
        for places in places.chunks_mut(self.pieces) {
            write(&self.umem, places, frame);
        }
        self.outgoing.clear();
        self.outgoing.extend_from_slice(places);
        Ok(())
    }

    fn check(&self, frame: &[u8]) -> io::Result<()> {
        if frame.len() <= self.max_frame { Ok(()) } else { Err(io::ErrorKind::InvalidInput.into()) }
    }

    fn finish(&mut self) -> io::Result<()> {
        const TURNS: usize = 1_000_000;
        for _ in 0..TURNS {
            if self.sending == 0 {
                return Ok(());
            }
            self.doorbell()?;
            self.reap();
        }
        Err(io::ErrorKind::TimedOut.into())
    }

    /// Send the written frame up to `count` times, with one doorbell; returns
    /// how often there was room.
    ///
    /// # Errors
    /// The socket's.
    #[inline]
    pub fn send(&mut self, count: usize) -> io::Result<usize> {
        let from = self.ready(count);
        self.submit(from)
    }

    /// As [`send`](Raw::send), after `fill` had each frame to write into it what
    /// is to be different, or its first piece where it has several; its length stays.
    ///
    /// # Errors
    /// The socket's.
    #[inline]
    pub fn send_each(&mut self, count: usize, fill: &mut dyn FnMut(&mut [u8])) -> io::Result<usize> {
        let from = self.ready(count);
        for place in self.outgoing[from..].iter_mut().step_by(self.pieces) {
            // SAFETY: a chunk of this UMEM that is on the stack, so in no ring;
            // this is the only view of it.
            fill(unsafe { self.umem.data_mut(place) }.contents_mut());
        }
        self.submit(from)
    }

    /// Where on the stack the next frames to send begin, up to `count` of them.
    #[inline]
    fn ready(&mut self, count: usize) -> usize {
        let count = count.min(BATCH) * self.pieces;
        if self.outgoing.len() < count {
            self.reap();
        }
        self.outgoing.len().saturating_sub(count)
    }

    /// Send those from there on.
    #[inline]
    fn submit(&mut self, from: usize) -> io::Result<usize> {
        // SAFETY: chunks of this UMEM; those on the stack are in no ring.
        let queued = unsafe { self.tx.produce(&self.outgoing[from..]) };
        self.outgoing.drain(from..from + queued);
        self.sending += queued;
        self.doorbell()?;
        self.reap();
        Ok(queued / self.pieces)
    }

    /// Send this frame once; `false` where there is no room now.
    ///
    /// # Errors
    /// The socket's; [`io::ErrorKind::InvalidInput`] for a frame that is longer than a chunk.
    pub fn send_note(&mut self, frame: &[u8]) -> io::Result<bool> {
        self.check(frame)?;
        self.reap();
        if frame.len() > self.chunk - HEADROOM {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let Some(mut place) = self.notes.pop() else { return Ok(false) };
        write(&self.umem, std::slice::from_mut(&mut place), frame);
        // SAFETY: a chunk of this UMEM that was on the stack, so in no ring.
        if unsafe { self.tx.produce_one(&place) } == 0 {
            self.notes.push(place);
            return Ok(false);
        }
        self.sending += 1;
        self.doorbell()?;
        Ok(true)
    }

    /// Look at arrived frames, at most `budget` or [`BATCH`]; those for which
    /// `each` says so go back as they are then. Returns how many there were.
    ///
    /// Where frames may have several pieces each is looked at, at most as many as so many
    /// of the longest frames have. `each` is told whether more of the frame follow, and what
    /// it says of the first piece counts for the frame.
    ///
    /// # Errors
    /// The socket's.
    #[inline]
    pub fn receive(&mut self, budget: usize, each: &mut dyn FnMut(&mut [u8], bool) -> bool) -> io::Result<usize> {
        // SAFETY: what comes out of this ring are chunks of this UMEM.
        let count = unsafe { self.rx.consume(&mut self.arrived[..budget.min(BATCH) * self.most_pieces]) };
        if count == 0 {
            return self.tail().map(|()| 0);
        }
        let (mut done_with, mut frames) = (0, 0);
        for at in 0..count {
            let more = self.arrived[at].has_more_frames();
            // SAFETY: the chunk has just come out of the ring, so it is ours alone.
            let says = unsafe { each(self.umem.data_mut(&mut self.arrived[at]).contents_mut(), more) };
            let echo = self.amid.unwrap_or(says);
            frames += usize::from(self.amid.is_none());
            self.amid = more.then_some(echo);
            if echo {
                self.echoes.push(self.arrived[at]);
            } else {
                self.arrived[done_with] = self.arrived[at];
                done_with += 1;
            }
        }
        // What is not there as a whole waits for the rest.
        if !self.echoes.is_empty() && self.amid.is_none() {
            self.send_echoes()?;
        }
        // SAFETY: ours, as above. The ring has room for all of them.
        unsafe { self.fill.produce(&self.arrived[..done_with]) };
        self.wake_fill()?;
        Ok(frames)
    }

    fn send_echoes(&mut self) -> io::Result<()> {
        // SAFETY: ours since they arrived, and in no other ring.
        let queued = unsafe { self.tx.produce(&self.echoes) };
        self.sending += queued;
        // SAFETY: as above; what finds no room is lost, as on a wire.
        unsafe { self.fill.produce(&self.echoes[queued..]) };
        self.echoes.clear();
        self.doorbell()?;
        self.reap();
        Ok(())
    }

    /// Take back what has been sent.
    #[inline]
    fn reap(&mut self) {
        loop {
            let mut done = [FrameDesc::default(); BATCH];
            // SAFETY: what comes out of this ring are chunks of this UMEM.
            let count = unsafe { self.done.consume(&mut done) };
            for place in &done[..count] {
                self.take_back(place);
            }
            self.sending -= count.min(self.sending);
            if count < BATCH {
                return;
            }
        }
    }

    #[inline]
    fn take_back(&mut self, place: &FrameDesc) {
        let chunk = place.addr() / self.chunk;
        if chunk < self.arrivals {
            // SAFETY: sent, so ours again; the ring has room for all of them.
            unsafe { self.fill.produce_one(&self.chunks[chunk]) };
        } else if chunk < self.arrivals + OUTGOING {
            self.outgoing.push(self.chunks[chunk]);
        } else {
            self.notes.push(self.chunks[chunk]);
        }
    }

    #[inline]
    fn doorbell(&self) -> io::Result<()> {
        if self.tx.needs_wakeup() { self.tx.wakeup() } else { Ok(()) }
    }

    #[inline]
    fn wake_fill(&mut self) -> io::Result<()> {
        if self.mode.zero_copy && self.fill.needs_wakeup() {
            self.fill.wakeup(self.rx.fd_mut(), 0)?;
        }
        Ok(())
    }

    /// What the kernel did not send at the first doorbell needs another, and a
    /// NIC that ran out of chunks needs one too.
    #[inline]
    fn tail(&mut self) -> io::Result<()> {
        self.idle = self.idle.wrapping_add(1);
        if self.idle.is_multiple_of(TAIL) {
            if self.sending > 0 {
                self.doorbell()?;
                self.reap();
            }
            self.wake_fill()?;
        }
        Ok(())
    }
}

/// A frame into as many chunks as it takes, which must be there.
fn write(umem: &Umem, places: &mut [FrameDesc], frame: &[u8]) {
    let mut rest = frame;
    for place in places {
        // SAFETY: callers pass chunks of this UMEM that are in no ring, and this
        // is the only view of it.
        let mut data = unsafe { umem.data_mut(place) };
        let (piece, after) = rest.split_at(rest.len().min(data.cursor().buf_len()));
        data.cursor().set_pos(piece.len());
        data.contents_mut().copy_from_slice(piece);
        place.set_options(if after.is_empty() { 0 } else { CONTINUED });
        rest = after;
    }
}

impl fmt::Debug for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Raw").field("mode", &self.mode).finish_non_exhaustive()
    }
}
