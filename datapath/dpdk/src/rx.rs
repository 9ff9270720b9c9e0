//! The receive path. The driver pushes received frames, and the transport pops them. The transport gives the driver
//! empty frames of the pool to receive into; when it has none left, the driver drops what arrives.
//!
//! The driver is always asked for a whole burst, because some return nothing when asked for less. Frames beyond the
//! caller's budget wait here.

use am_ring::{Frame, Pool};
use am_transport::Steering;
use am_wire::Buffer;

use crate::abi;
use crate::ffi::{BURST, Port};
use crate::open::Opened;

/// The most frames that one call looks at. A flood of frames that steering drops must not keep the thread here.
const MAX_PER_CALL: usize = 16 * BURST;
/// Receive buffers that may be missing while frames arrive. The others are refilled when nothing arrives.
const MAX_MISSING: usize = BURST / 2;

/// The received frames that are not delivered yet, and counters.
pub(crate) struct Rx {
    arrived: [abi::Frame; BURST],
    /// The undelivered ones are `next..end`.
    next: usize,
    end: usize,
    received: u64,
    bytes: u64,
    invalid: u32,
    starved: u64,
}

impl Default for Rx {
    fn default() -> Rx {
        Rx { arrived: [abi::Frame::default(); BURST], next: 0, end: 0, received: 0, bytes: 0, invalid: 0, starved: 0 }
    }
}

impl Rx {
    /// Pass received frames to `each`, at most `budget`.
    #[inline]
    pub(crate) fn receive(
        &mut self,
        opened: &mut Opened,
        steering: &mut Steering,
        budget: usize,
        each: &mut dyn FnMut(Frame),
    ) -> usize {
        let Opened { port, pool, .. } = opened;
        let (mut taken, mut looked) = (0, 0);
        while taken < budget && looked < MAX_PER_CALL {
            // Whether the driver may have more.
            let whole = self.next < self.end || self.burst(port);
            if self.next == self.end {
                break;
            }
            let from = self.next;
            while taken < budget
                && let Some(frame) = self.pop(port, pool)
            {
                taken += self.deliver(frame, steering, each);
            }
            looked += self.next - from;
            self.refill(port, pool, MAX_MISSING);
            if !whole {
                break;
            }
        }
        if looked == 0 {
            self.refill(port, pool, 0);
        }
        self.received += taken as u64;
        taken
    }

    /// Receive a burst. Returns whether the driver may have more.
    #[inline]
    fn burst(&mut self, port: &mut Port) -> bool {
        self.next = 0;
        self.end = port.receive(&mut self.arrived, &mut self.invalid);
        self.end == BURST
    }

    #[inline]
    fn pop(&mut self, port: &Port, pool: &Pool) -> Option<Frame> {
        let frame = *self.arrived[..self.end].get(self.next)?;
        self.next += 1;
        // SAFETY: `burst` received it, and each index is used once.
        Some(unsafe { port.adopt(pool, frame) })
    }

    #[inline]
    fn deliver(&mut self, frame: Frame, steering: &mut Steering, each: &mut dyn FnMut(Frame)) -> usize {
        if !steering.admits(frame.bytes()) {
            return 0;
        }
        self.bytes += frame.bytes().len() as u64;
        each(frame);
        1
    }

    /// Give the driver receive buffers, if it lacks more than `few`.
    #[inline]
    fn refill(&mut self, port: &mut Port, pool: &Pool, few: usize) {
        let lacking = port.rx_level.saturating_sub(port.rx_buffers());
        if lacking > few {
            let given = port.give_rx_buffers(pool, lacking);
            self.starved += u64::from(given < lacking.min(BURST));
        }
    }

    /// Discard received frames that are not delivered.
    pub(crate) fn clear(&mut self, opened: &mut Opened) {
        let Opened { port, pool, .. } = opened;
        while self.pop(port, pool).is_some() {}
    }

    pub(crate) fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        each("dpdk_received", self.received);
        each("dpdk_received_bytes", self.bytes);
        each("dpdk_lost_in_pieces", self.invalid.into());
        each("dpdk_starved", self.starved);
    }
}
