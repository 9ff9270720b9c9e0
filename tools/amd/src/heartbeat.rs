//! A program's heartbeat: the data of [`heartbeats`](crate::heartbeats).

use std::time::Instant;

/// A program that has read nothing in this many looks does not poll.
const LOOKS: u32 = 2;

/// A program's heartbeat, and how far it reads.
#[derive(Debug, Default)]
pub(crate) struct Heartbeat {
    pub(crate) frame: Vec<u8>,
    unread_from: Option<u32>,
    looks: u32,
    pub(crate) sent_at: Option<Instant>,
}

impl Heartbeat {
    /// The program gives its frame, or asks for it. Returns whether it is to be sent now.
    pub(crate) fn on_packet(&mut self, frame: &[u8]) -> bool {
        let is_repeated = self.frame == frame;
        if !is_repeated {
            self.frame = frame.to_vec();
        }
        is_repeated
    }

    /// Whether the program leaves frames unread.
    pub(crate) fn is_due(&mut self, unread_from: Option<u32>) -> bool {
        self.looks = if unread_from.is_some() && unread_from == self.unread_from { self.looks + 1 } else { 0 };
        self.unread_from = unread_from;
        self.looks >= LOOKS
    }
}
