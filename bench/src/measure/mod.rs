//! One measurement, the same loops for every via.
//!
//! ```text
//!   near                                        far
//!    │ Hello {bench, size, times} ─────────────▶│  repeated until answered
//!    │◀────────────────────────────────── Ready │
//!    │ data ───────────────────────────────────▶│
//!    │◀──────────── data (latency) · Got (flow, losses) │  a via with no flow control gets a window
//!    │◀────────────── Counted {messages, bytes} │  not for latency: the receiver's own interval
//!    │ HowMany {sent} ─────────────────────────▶│  until all has come, or no more does:
//!    │◀───────────────────────── Got {messages} │  only then is something lost
//!    │ Stop ───────────────────────────────────▶│
//!    │◀──────────────── Stopped {in all, wrong} │
//!    ╎ … next size …                            ╎
//!    │ End ────────────────────────────────────▶│  next via; GiveUp: no more at all
//!    │◀────────────────────────────────── Ended │
//! ```
//!
//! Read first: [`Port`], then [`latency`] and [`throughput`], then [`far`].

pub(crate) mod far;
pub(crate) mod latency;
mod note;
mod pace;
mod steps;
pub(crate) mod throughput;

#[cfg(test)]
pub(crate) mod fake;

pub(crate) use note::{Note, Step};
pub(crate) use pace::{Pace, Patience};
pub(crate) use steps::{STAY, end, give_up, settle, start, stop};

use crate::batching::Batching;
use crate::error::Error;
use crate::loss::Loss;

/// Messages that a sender hands over with one doorbell. In copy mode the
/// kernel sends at most 32 frames a system call, so more would gain nothing.
pub(crate) const BATCH: usize = 32;

/// What came with one look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Arrived {
    /// Data messages.
    pub(crate) messages: u64,
    /// Their payload in bytes, as it arrived.
    pub(crate) bytes: u64,
    /// Those of them whose length or content is not what was sent.
    pub(crate) wrong: u64,
    /// What the other side had to say.
    pub(crate) note: Option<Note>,
}

impl Arrived {
    /// More has come.
    #[inline]
    pub(crate) fn add(&mut self, more: Arrived) {
        self.note = more.note;
        self.messages += more.messages;
        self.bytes += more.bytes;
        self.wrong += more.wrong;
    }
}

/// One side of a via: data messages of one size, and notes.
///
/// A port without flow control of its own has a [`window`](Port::window): it may
/// lose notes and data, and keeps their order. One that has none loses nothing,
/// but a note may overtake data that has to be sent again. A note may always find
/// no room; those who wait for an answer ask again.
pub(crate) trait Port {
    /// What the user asks first: `veth copy`, `kernel`, `memory`.
    fn mode(&self) -> &str;

    /// Where the XDP program runs, `native` or `generic`; `None` where there is none.
    fn xdp(&self) -> Option<&'static str> {
        None
    }

    /// How messages are handed over where many are sent.
    fn batching(&self) -> Batching {
        Batching::Bursts
    }

    /// Frames with messages that were sent so far, where that is not one for each.
    fn frames_sent(&self) -> Option<u64> {
        None
    }

    /// Our header's place in its frames, or `none`.
    fn framing(&self) -> &'static str {
        "none"
    }

    /// The most bytes of payload in one frame.
    fn largest(&self) -> usize;

    /// The most bytes of payload in one data message, which may take several frames.
    fn most(&self) -> usize {
        self.largest()
    }

    /// Frames that a data message of this size takes, at most [`most`](Port::most) bytes.
    fn frames(&self, size: usize) -> usize {
        size.div_ceil(self.largest().max(1)).max(1)
    }

    /// The bytes of payload that so many frames hold.
    fn filling(&self, frames: usize) -> usize {
        frames * self.largest()
    }

    /// Data messages have this many bytes from now on, at most [`most`](Port::most).
    ///
    /// # Errors
    /// The via cannot be used (any more).
    fn prepare(&mut self, size: usize) -> Result<(), Error>;

    /// The most payload in a frame of a bulk transfer; `None` where there are none.
    fn segment(&self) -> Option<usize> {
        None
    }

    /// Data messages are bulk transfers of this many bytes from now on, where
    /// there are any.
    ///
    /// # Errors
    /// The via cannot be used (any more).
    fn transfer(&mut self, size: usize) -> Result<(), Error> {
        self.prepare(size)
    }

    /// Data messages are bulk transfers of this many bytes from now on, where there
    /// are any, one at a time, and each that is echoed comes back as one.
    ///
    /// # Errors
    /// The via cannot be used (any more).
    fn volley(&mut self, size: usize) -> Result<(), Error> {
        self.prepare(size)
    }

    /// Lose so many of the frames that arrive from now on; `false` where that
    /// cannot be done.
    fn lose(&mut self, loss: Loss) -> bool {
        loss == Loss::NONE
    }

    /// Whether data is sent back as it arrives, from now on.
    fn echo(&mut self, on: bool);

    /// Send up to `count` data messages, with one doorbell; returns how many
    /// there was room for.
    ///
    /// # Errors
    /// The via cannot be used any more.
    fn send(&mut self, count: usize) -> Result<usize, Error>;

    /// Take what has arrived: about `budget` messages, at most one note. A
    /// note that comes with others is kept for the next time.
    ///
    /// # Errors
    /// The via cannot be used any more.
    fn receive(&mut self, budget: usize) -> Result<Arrived, Error>;

    /// Send a note; lost where there is no room now.
    ///
    /// # Errors
    /// The via cannot be used any more.
    fn tell(&mut self, note: Note) -> Result<(), Error>;

    /// The most data messages to have on their way, for a via that has no
    /// flow control of its own and may lose what comes too fast.
    fn window(&self) -> Option<u64>;
}
