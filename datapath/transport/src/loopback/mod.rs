//! A wire in memory, with two or more ends.
//!
//! ```text
//!    Loopback 1            Loopback 2            Loopback 3      one thread or three
//!    pool, steering        pool, steering        pool, steering
//!      │  ▲                  │  ▲                  │  ▲
//!      ▼  │                  ▼  │                  ▼  │
//!   ═══╧══╧══════════════════╧══╧══════════════════╧══╧═══     one queue from
//!                                                              each end to each other
//! ```
//!
//! No frame is copied: the receiver gets the sender's frame, or a share of it if the sender keeps one. The frame returns to
//! the sender's pool when both have dropped it. Arriving frames are steered as by the XDP program. No frame is lost or
//! reordered. A full queue takes no frame.
//!
//! The ends are made together, as [`Plug`]s. Each is opened on the thread that uses it, because its pool stays there.
//!
//! ```
//! use am_transport::{Transport, loopback};
//!
//! let [left, right] = loopback::pair();
//! let far = std::thread::spawn(move || right.open().unwrap().caps().address);
//! let mut left = left.open()?;
//! assert_ne!(left.caps().address, far.join().unwrap());
//! left.flush();
//! # Ok::<(), am_ring::LayoutError>(())
//! ```

mod plug;

use am_ring::Frame;
use am_wire::{Address, Buffer};
use plug::{Inlet, Outlet};
pub use plug::{LoopbackOptions, Plug, pair, wire, wire_with};

use crate::{Caps, Command, Notice, PeerAddressError, Steering, Transport};

/// One end of the wire, open.
#[derive(Debug)]
pub struct Loopback {
    caps: Caps,
    steering: Steering,
    /// The queues to each other end, and from each.
    to: Vec<Outlet>,
    from: Vec<Inlet>,
    /// The queue that is read first. It changes each time, so that a busy end does not starve another.
    first: usize,
    count: Count,
}

#[derive(Debug, Default)]
struct Count {
    sent: u64,
    received: u64,
    full: u64,
    unplugged: u64,
    too_long: u64,
}

impl Loopback {
    /// Put a frame into all queues or, if one is full, into none. So a frame that was not sent can be sent again, and no end
    /// gets it twice.
    fn flood(&mut self, frame: &Frame) -> bool {
        if self.to.iter().any(|outlet| !outlet.queue.is_abandoned() && outlet.queue.is_full()) {
            self.count.full += 1;
            return false;
        }
        self.to.iter_mut().all(|outlet| outlet.send(frame, &mut self.count))
    }

    /// Hand over at most `budget` frames from the queue of one other end.
    fn receive_from(&mut self, end: usize, budget: usize, each: &mut dyn FnMut(Frame)) -> usize {
        let inlet = &mut self.from[end];
        let mut taken = 0;
        // The number of steps is fixed before the loop, so a flood of frames that steering drops cannot keep this call from
        // returning.
        for _ in 0..inlet.len() {
            if taken == budget {
                break;
            }
            let Some(frame) = inlet.pop() else { break };
            if self.steering.admits(frame.bytes()) {
                taken += 1;
                each(frame);
            }
        }
        taken
    }
}

impl Transport for Loopback {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn receive(&mut self, budget: usize, each: &mut dyn FnMut(Frame)) -> usize {
        let ends = self.from.len();
        let mut taken = 0;
        for end in (self.first..ends).chain(0..self.first) {
            taken += self.receive_from(end, budget - taken, each);
        }
        self.first = (self.first + 1) % ends;
        self.count.received += taken as u64;
        taken
    }

    fn send(&mut self, to: Address, frame: &Frame) -> bool {
        if frame.bytes().len() > self.caps.max_frame {
            self.count.too_long += 1;
            return true;
        }
        match self.to.iter_mut().find(|outlet| outlet.to == to) {
            Some(outlet) => outlet.send(frame, &mut self.count),
            // A broadcast, or an unknown address: flooded to all ends, as a switch does.
            None => self.flood(frame),
        }
    }

    fn flush(&mut self) {
        self.to.iter_mut().for_each(Outlet::ring_doorbell);
    }

    fn control(&mut self, command: Command<'_>) -> Result<(), PeerAddressError> {
        self.steering.control(command, &self.caps)
    }

    fn poll_notices(&mut self, each: &mut dyn FnMut(Notice<'_>)) {
        self.steering.notices(each);
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        each("loopback_sent", self.count.sent);
        each("loopback_received", self.count.received);
        each("loopback_full", self.count.full);
        each("loopback_lost_unplugged", self.count.unplugged);
        each("loopback_lost_too_long", self.count.too_long);
        self.steering.counters(each);
    }
}
