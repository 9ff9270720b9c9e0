//! Frames that wait to be sent later.

use am_ring::Frame;
use am_wire::Address;

use super::fate::Wait;

/// A frame that waits until one of its two counts is zero.
#[derive(Debug)]
struct Held {
    to: Address,
    frame: Frame,
    frames: u32,
    turns: u32,
}

/// The waiting frames, oldest first. Their number is bounded.
#[derive(Debug)]
pub(super) struct Waiting {
    held: Vec<Held>,
    most: usize,
    longest: u32,
}

impl Waiting {
    /// Room for `most` frames, each of which waits for at most `longest` turns.
    pub(super) fn new(most: usize, longest: u32) -> Waiting {
        Waiting { held: Vec::with_capacity(most), most, longest: longest.max(1) }
    }

    pub(super) fn len(&self) -> usize {
        self.held.len()
    }

    pub(super) fn is_full(&self) -> bool {
        self.held.len() == self.most
    }

    /// Add a frame. There must be room.
    pub(super) fn hold(&mut self, to: Address, frame: Frame, wait: Wait) {
        let (frames, turns) = match wait {
            Wait::No => (0, 0),
            Wait::Frames(frames) => (frames, self.longest),
            Wait::Turns(turns) => (u32::MAX, turns),
        };
        self.held.push(Held { to, frame, frames, turns });
    }

    /// A later frame was sent: it has overtaken all of these.
    pub(super) fn overtaken(&mut self) {
        overtake(&mut self.held);
    }

    /// A turn has ended.
    pub(super) fn turn(&mut self) {
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

fn overtake(older: &mut [Held]) {
    older.iter_mut().for_each(|held| held.frames = held.frames.saturating_sub(1));
}
