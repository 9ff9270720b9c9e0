//! A receiver without room returns requests to their senders (FM 1.0, §4.5):
//! only their numbers, since senders keep what they send.
//!
//! Pushed by: requests that find no room. Popped by: `poll_transmit`. Bounded
//! by: [`MOST`]. When full: the request is dropped and counted, and its
//! sender's time-out repairs that.

use std::collections::VecDeque;

use am_wire::{Class, Seq};

use crate::FlowId;
use crate::counters::Counters;
use crate::flow::FlowRecord;

/// Some turns' worth of frames that arrive.
const MOST: usize = 512;

/// Requests to be returned.
#[derive(Debug)]
pub(crate) struct Bounces(pub(crate) VecDeque<(FlowId, Seq)>);

impl Bounces {
    pub(crate) fn new() -> Self {
        Bounces(VecDeque::with_capacity(MOST))
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn push(&mut self, flow: FlowId, seq: Seq) -> bool {
        let fits = self.0.len() < MOST;
        if fits {
            self.0.push_back((flow, seq));
        }
        fits
    }

    /// There is no room for a message. Its sender hears that it was seen: to
    /// be busy is not to be gone. A reply is not returned, as it has room of
    /// its own, which its receiver alone can overrun; an acknowledgement, which
    /// is forced then, says that we live.
    #[cold]
    pub(crate) fn turn_away(&mut self, record: &mut FlowRecord, class: Class, seq: Seq, counters: &mut Counters) {
        counters.no_room += 1;
        if class == Class::Request {
            counters.rejects_dropped += !self.push(record.id, seq) as u64;
        } else {
            record.ack_forced = true;
        }
    }
}
