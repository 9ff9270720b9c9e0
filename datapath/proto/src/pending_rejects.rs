//! The receiver's queue of rejects: requests that found no room (FM 1.0, §4.5). A reject carries only the request's
//! sequence number, because the sender keeps what it sends.
//!
//! Pushed by: requests that find no room. Popped by: `transmit_reject`, when outputs are drained. Bounded by: [`MAX_PENDING_REJECTS`].
//! When full: the reject is dropped and counted. The sender's time-out then sends the request again.

use std::collections::VecDeque;

use am_wire::{Class, Seq};

use crate::FlowId;
use crate::counters::Counters;
use crate::flow::FlowRecord;

/// Room for the frames of a few turns.
const MAX_PENDING_REJECTS: usize = 512;

/// The requests to reject, by flow and sequence number.
#[derive(Debug)]
pub(crate) struct PendingRejects(pub(crate) VecDeque<(FlowId, Seq)>);

impl PendingRejects {
    pub(crate) fn new() -> Self {
        PendingRejects(VecDeque::with_capacity(MAX_PENDING_REJECTS))
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn push(&mut self, flow: FlowId, seq: Seq) -> bool {
        let fits = self.0.len() < MAX_PENDING_REJECTS;
        if fits {
            self.0.push_back((flow, seq));
        }
        fits
    }

    /// No room for a message. A reject tells the sender that this node is busy, not gone. A reply is not rejected: its
    /// receiver set room aside for it, so only the receiver itself can have used that room. The sender of a reply gets
    /// an acknowledgement instead, which shows that this node is alive.
    #[cold]
    pub(crate) fn reject(&mut self, record: &mut FlowRecord, class: Class, seq: Seq, counters: &mut Counters) {
        counters.no_room += 1;
        if class == Class::Request {
            counters.rejects_dropped += !self.push(record.id, seq) as u64;
        } else {
            record.ack_forced = true;
        }
    }
}
