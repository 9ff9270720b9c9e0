//! What every driver makes of its transport: data messages and control messages between two sides.

mod control;
mod spin_wait;

pub(crate) use control::{ControlMessage, Step};
pub use spin_wait::SpinWait;
pub(crate) use spin_wait::Timeouts;

use std::os::fd::BorrowedFd;

use crate::error::Error;
use crate::loss::Loss;
use crate::plan::Batching;
use crate::size::FrameLayout;

/// Messages that a sender hands over with one doorbell. In copy mode the kernel sends at most 32 frames a system call,
/// so more would gain nothing.
pub(crate) const BATCH: usize = 32;

/// The result of one receive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Arrived {
    /// Data messages.
    pub(crate) messages: u64,
    /// Their payload bytes, as they arrived.
    pub(crate) bytes: u64,
    /// Data messages with wrong length or content.
    pub(crate) wrong: u64,
    /// A control message of the other side.
    pub(crate) control: Option<ControlMessage>,
}

impl Arrived {
    /// Add a later result.
    #[inline]
    pub(crate) fn add(&mut self, more: Arrived) {
        self.control = more.control;
        self.messages += more.messages;
        self.bytes += more.bytes;
        self.wrong += more.wrong;
    }
}

/// What a channel is.
#[derive(Clone, Debug)]
pub(crate) struct ChannelInfo {
    /// The device and its mode: `veth copy`, `kernel`, `memory`.
    pub(crate) mode: String,
    /// Where the XDP program runs, `native` or `generic`; `None` without one.
    pub(crate) xdp: Option<&'static str>,
    /// Where our header is in its frames, or `none`.
    pub(crate) framing: &'static str,
    /// How messages are handed over when many are sent.
    pub(crate) batching: Batching,
    pub(crate) layout: FrameLayout,
    /// The most payload in a frame of a bulk transfer; `None` without bulk transfers.
    pub(crate) segment: Option<usize>,
}

impl ChannelInfo {
    /// A channel without header and XDP program that sends bursts of frames, each with at most `largest` bytes of one
    /// message.
    pub(crate) fn new(mode: impl Into<String>, largest: usize) -> ChannelInfo {
        let (mode, layout) = (mode.into(), FrameLayout::of_frames(largest));
        ChannelInfo { mode, xdp: None, framing: "none", batching: Batching::Bursts, layout, segment: None }
    }
}

/// One side of an open driver: data messages of one size, and control messages.
///
/// A channel without its own flow control has a [`window`](Channel::window): it may lose messages of both kinds, and keeps
/// their order. A channel with flow control loses nothing, but a control message may overtake data that is sent again.
/// Any control message may find no room, so a side that waits for an answer asks again.
pub(crate) trait Channel {
    fn info(&self) -> &ChannelInfo;

    /// Frames with messages sent so far; `None` if each message has one.
    fn frames_sent(&self) -> Option<u64> {
        None
    }

    /// Why the file of `--trace` ends before the last frame, if it does.
    fn trace_error(&self) -> Option<Error> {
        None
    }

    /// What keeps this side from the other, as far as the driver knows.
    fn problem(&self) -> Option<String> {
        None
    }

    /// The descriptor that is readable when something can be received, of a channel that can be waited for.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Whether a message has begun that the kernel has no room for.
    fn has_rest(&self) -> bool {
        false
    }

    /// Set the size of data messages, at most the `most` of its layout.
    fn prepare(&mut self, size: usize) -> Result<(), Error>;

    /// Let data messages be bulk transfers of this size, if the driver has them: one way, or one at a time and each echoed by a
    /// transfer.
    fn transfer(&mut self, size: usize, _is_echoed: bool) -> Result<(), Error> {
        self.prepare(size)
    }

    /// Lose this share of the frames that arrive; `false` if the driver cannot.
    fn lose(&mut self, loss: Loss) -> bool {
        loss == Loss::NONE
    }

    /// Set whether data is sent back as it arrives.
    fn echo(&mut self, on: bool);

    /// Send up to `count` data messages with one doorbell. Returns how many had room.
    fn send(&mut self, count: usize) -> Result<usize, Error>;

    /// The sender has its next message ready: the next [`receive`](Channel::receive) does not wait for arrivals.
    fn keep_sending(&mut self) {}

    /// Receive about `budget` messages, and at most one control message. Further control messages are kept for the next
    /// call.
    fn receive(&mut self, budget: usize) -> Result<Arrived, Error>;

    /// Send a control message. It is lost if there is no room now.
    fn send_control(&mut self, control: ControlMessage) -> Result<(), Error>;

    /// The most data messages in flight, for a driver without its own flow control, which may lose what arrives too
    /// fast.
    fn window(&self) -> Option<u64> {
        None
    }
}
