//! A long message while it is put together, in a buffer of the node or in memory of the program.

use am_proto::mutants::{self, Mutant};
use am_proto::{Delivery, EndpointId, FlowId, Time};
use am_ring::{Frame, Layout, Pool};
use am_wire::Buffer;
use am_wire::bulk::{Notice, NoticeKind};
use am_wire::control::Name;

use super::destination::Destination;
use super::lent::Data;
use super::memory::PAYLOAD_AT;

/// The most gaps in a message. Beyond this, the sender is asked to begin anew behind the first.
const MAX_GAPS: usize = 128;

/// A long message that arrives.
pub(super) struct Arriving {
    pub(super) flow: FlowId,
    pub(super) endpoint: EndpointId,
    /// The name of the peer's node.
    pub(super) peer: Option<Name>,
    pub(super) id: u32,
    pub(super) total: u32,
    /// Its head, once that has arrived.
    pub(super) head: Option<Delivery<Frame>>,
    /// Whether the head's credit was released, so that the segments may use it.
    pub(super) is_released: bool,
    pub(super) buffer: Option<Frame>,
    /// Where its payload goes, except its front, if not into the buffer.
    pub(super) destination: Option<Destination>,
    /// A part of it that was lent could not be read, and is sent again.
    pub(super) is_unreadable: bool,
    /// The number of the present attempt. Segments of other attempts are dropped.
    pub(super) attempt: u32,
    /// The bytes that have arrived, in order and apart from each other.
    pub(super) arrived: Vec<(u32, u32)>,
    pub(super) last_progress: Time,
}

impl Arriving {
    /// Whether all of it has arrived.
    pub(super) fn is_whole(&self) -> bool {
        self.head.is_some() && self.buffer.is_some() && self.front() == self.total
    }

    /// Whether segments of it are sent again.
    pub(super) fn is_fetched_again(&self) -> bool {
        self.attempt > 0 || self.is_unreadable
    }

    /// What its buffer has to hold.
    pub(super) fn buffer_bytes(&self) -> usize {
        PAYLOAD_AT + self.destination.as_ref().map_or(self.total as usize, |destination| destination.front)
    }

    /// Its payload goes there. A part of it may have arrived before the head. The buffer that has it gives way to `for_front`.
    pub(super) fn send_to(&mut self, destination: Destination, for_front: Option<Frame>) {
        if let Some(mut buffer) = self.buffer.take() {
            for &(from, to) in &self.arrived {
                let bytes = buffer.bytes().get(PAYLOAD_AT + from as usize..PAYLOAD_AT + to as usize);
                destination.deposit(from as usize, &mut Data::Here(bytes.unwrap_or_default()));
            }
            buffer.set_len(PAYLOAD_AT + destination.front);
            self.buffer = for_front.or(Some(buffer));
        }
        self.destination = Some(destination);
    }

    /// Everything before this byte has arrived.
    pub(super) fn front(&self) -> u32 {
        self.arrived.first().map_or(0, |&(from, to)| if from == 0 { to } else { 0 })
    }

    /// Copy these bytes to their place. `None` if they cannot be read, `false` if there was no room for one more gap.
    pub(super) fn deposit(&mut self, at: u32, data: &mut Data<'_>) -> Option<bool> {
        let Some(place) = self.buffer.as_mut().and_then(Buffer::space) else { return Some(false) };
        let start = PAYLOAD_AT + at as usize;
        let is_read = match (&self.destination, place.get_mut(start..start + data.len())) {
            _ if at > 0 && mutants::is_active(Mutant::SegmentLost) => true,
            (Some(destination), _) => destination.deposit(at as usize, data),
            (None, Some(place)) => data.copy_to(place),
            (None, None) => return Some(false),
        };
        if !is_read {
            return None;
        }
        let to = at + data.len() as u32;
        let first = self.arrived.partition_point(|&(_, end)| end < at);
        let behind = self.arrived.partition_point(|&(from, _)| from <= to);
        if first == behind {
            self.arrived.insert(first, (at, to));
            return Some(self.arrived.len() <= MAX_GAPS);
        }
        let (from, end) = (self.arrived[first].0.min(at), self.arrived[behind - 1].1.max(to));
        self.arrived.splice(first..behind, [(from, end)]);
        Some(true)
    }

    /// The head waits without credit: it leaves its frame.
    pub(super) fn leave_frame(&mut self) {
        if self.is_released {
            self.head = self.head.take().map(copied);
        }
    }

    /// The notice that asks for all behind the first gap, in the present attempt.
    pub(super) fn rest(&self) -> Notice {
        let (into, offset, length) = (self.attempt, self.front().into(), self.total.into());
        Notice { into, offset, length, ..Notice::of(NoticeKind::Get, self.id) }
    }

    /// Release the memory. The next attempt begins anew.
    pub(super) fn lose_memory(&mut self) {
        self.leave_frame();
        self.buffer = None;
        self.arrived.clear();
        self.attempt += 1;
    }
}

/// The same message in memory of its own: a message that waits without credit gives up its frame.
pub(super) fn copied(message: Delivery<Frame>) -> Delivery<Frame> {
    let stride = message.body_length().next_multiple_of(64).max(64);
    let memory = Pool::heap(Layout { frames: 1, stride, headroom: 0 }).ok().and_then(|pool| pool.take());
    memory.and_then(|frame| message.copied_to(frame)).unwrap_or(message)
}
