//! Frames that wait to be sent later.

use am_ring::Frame;
use am_wire::Address;

use super::frame_faults::SendDelay;

/// A frame that waits until `frames` later frames were sent or `turns` turns have ended. Both count down to 0.
#[derive(Debug)]
struct WaitingFrame {
    to: Address,
    frame: Frame,
    frames: u32,
    turns: u32,
}

/// The waiting frames, oldest first. Their number is bounded.
#[derive(Debug)]
pub(super) struct WaitingFrames {
    held: Vec<WaitingFrame>,
    max_frames: usize,
    max_turns: u32,
}

impl WaitingFrames {
    /// Room for `max_frames` frames, each of which waits for at most `max_turns` turns.
    pub(super) fn new(max_frames: usize, max_turns: u32) -> WaitingFrames {
        WaitingFrames { held: Vec::with_capacity(max_frames), max_frames, max_turns: max_turns.max(1) }
    }

    pub(super) fn len(&self) -> usize {
        self.held.len()
    }

    pub(super) fn is_full(&self) -> bool {
        self.held.len() == self.max_frames
    }

    /// Add a frame. There must be room.
    pub(super) fn hold(&mut self, to: Address, frame: Frame, delay: SendDelay) {
        let (frames, turns) = match delay {
            SendDelay::No => (0, 0),
            SendDelay::Frames(frames) => (frames, self.max_turns),
            SendDelay::Turns(turns) => (u32::MAX, turns),
        };
        self.held.push(WaitingFrame { to, frame, frames, turns });
    }

    /// A later frame was sent: it has overtaken all waiting frames.
    pub(super) fn count_overtaking(&mut self) {
        overtake(&mut self.held);
    }

    /// A turn has ended.
    pub(super) fn count_turn(&mut self) {
        self.held.iter_mut().for_each(|held| held.turns = held.turns.saturating_sub(1));
    }

    /// Send the frames that have waited long enough, oldest first, until there is no room.
    pub(super) fn send_due(&mut self, mut send: impl FnMut(Address, &Frame) -> bool) {
        while let Some(at) = self.held.iter().position(|held| held.frames == 0 || held.turns == 0) {
            if !send(self.held[at].to, &self.held[at].frame) {
                return;
            }
            self.held.remove(at);
            overtake(&mut self.held[..at]);
        }
    }
}

fn overtake(older: &mut [WaitingFrame]) {
    older.iter_mut().for_each(|held| held.frames = held.frames.saturating_sub(1));
}
