//! A wire in memory, with two or more ends.
//!
//! ```text
//!    Loopback 1            Loopback 2            Loopback 3      one thread or three
//!    pool, steering        pool, steering        pool, steering
//!      │  ▲                  │  ▲                  │  ▲
//!      ▼  │                  ▼  │                  ▼  │
//!   ═══╧══╧══════════════════╧══╧══════════════════╧══╧═══     one spsc queue from
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

use am_ring::spsc::{self, Consumer, Producer};
use am_ring::{Frame, Layout, LayoutError, Pool};
use am_wire::{Address, Buffer, EtherType};

use crate::{Caps, Command, Notice, PeerAddressError, Steering, Transport};

/// The settings of a wire and all its ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoopbackOptions {
    /// Frames in the pool of each end.
    pub frames: usize,
    /// The longest frame, in bytes from the destination address on.
    pub max_frame: usize,
    /// The most frames on their way from one end to one other, rounded up to a power of two.
    pub queue: usize,
    /// The network's EtherTypes.
    pub ethertype: EtherType,
}

impl Default for LoopbackOptions {
    /// Ethernet with an MTU of 1500.
    fn default() -> Self {
        LoopbackOptions { frames: 4096, max_frame: 1514, queue: 512, ethertype: EtherType::DEFAULT }
    }
}

/// One end of a wire. The thread that uses it opens it.
#[derive(Debug)]
pub struct Plug {
    address: Address,
    options: LoopbackOptions,
    to: Vec<(Address, Producer<Frame>)>,
    from: Vec<Consumer<Frame>>,
}

/// A wire with two ends, with the default [`LoopbackOptions`].
pub fn pair() -> [Plug; 2] {
    wire(2).try_into().expect("a wire of two ends has two")
}

/// A wire with this many ends, at least two, with the default [`LoopbackOptions`].
pub fn wire(ends: usize) -> Vec<Plug> {
    wire_with(ends, LoopbackOptions::default())
}

/// A wire with this many ends, at least two. Their addresses count from 02:00:00:00:00:01.
pub fn wire_with(ends: usize, options: LoopbackOptions) -> Vec<Plug> {
    let ends = ends.max(2);
    let address = |end: usize| Address::from_u64((2 << 40) + 1 + end as u64);
    let plug = |end| Plug { address: address(end), options, to: vec![], from: vec![] };
    let mut plugs: Vec<Plug> = (0..ends).map(plug).collect();
    for from in 0..ends {
        for to in (0..ends).filter(|to| *to != from) {
            let (producer, consumer) = spsc::queue(options.queue);
            plugs[from].to.push((address(to), producer));
            plugs[to].from.push(consumer);
        }
    }
    plugs
}

impl Plug {
    /// The true address of the end.
    pub fn address(&self) -> Address {
        self.address
    }

    /// Open the end on this thread. Its pool stays here.
    ///
    /// # Errors
    /// The options ask for an impossible pool.
    pub fn open(self) -> Result<Loopback, LayoutError> {
        let LoopbackOptions { frames, max_frame, ethertype, .. } = self.options;
        // Frames start on a cache line of their own.
        let stride = max_frame.next_multiple_of(128);
        let caps = Caps {
            name: "loopback".into(),
            mode: "memory".into(),
            address: self.address,
            max_frame,
            reliable: true,
            ordered: true,
            hears_all: true,
            pool: Pool::heap(Layout { frames, stride, headroom: 0 })?,
            wake: None,
        };
        let steering = Steering::new(ethertype, self.address);
        Ok(Loopback { caps, steering, to: self.to, from: self.from, first: 0, count: Count::default() })
    }
}

/// One end of the wire, open.
#[derive(Debug)]
pub struct Loopback {
    caps: Caps,
    steering: Steering,
    /// The queues to each other end, and from each.
    to: Vec<(Address, Producer<Frame>)>,
    from: Vec<Consumer<Frame>>,
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
    /// Put a frame into the queue to one other end. A frame to a closed end is lost, as on an unplugged cable.
    fn send_one(&mut self, end: usize, frame: &Frame) -> bool {
        let (_, queue) = &mut self.to[end];
        if queue.is_abandoned() {
            self.count.unplugged += 1;
            return true;
        }
        let went = queue.push(frame.share()).is_ok();
        let count = if went { &mut self.count.sent } else { &mut self.count.full };
        *count += 1;
        went
    }

    /// Put a frame into all queues or, if one is full, into none. So a frame that was not sent can be sent again, and no end
    /// gets it twice.
    fn flood(&mut self, frame: &Frame) -> bool {
        if self.to.iter_mut().any(|(_, queue)| !queue.is_abandoned() && queue.reserve(1) == 0) {
            self.count.full += 1;
            return false;
        }
        (0..self.to.len()).all(|end| self.send_one(end, frame))
    }

    /// Hand over at most `budget` frames from the queue of one other end.
    fn receive_from(&mut self, end: usize, budget: usize, each: &mut dyn FnMut(Frame)) -> usize {
        let queue = &mut self.from[end];
        let mut taken = 0;
        // The number of steps is fixed before the loop, so a flood of frames that steering drops cannot keep this call from
        // returning.
        for _ in 0..queue.peek() {
            if taken == budget {
                break;
            }
            let Some(frame) = queue.pop() else { break };
            if self.steering.admits(frame.bytes()) {
                taken += 1;
                each(frame);
            }
        }
        queue.release();
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
        match self.to.iter().position(|(address, _)| *address == to) {
            Some(end) => self.send_one(end, frame),
            // A broadcast, or an unknown address: flooded to all ends, as a switch does.
            None => self.flood(frame),
        }
    }

    fn flush(&mut self) {
        self.to.iter_mut().for_each(|(_, queue)| queue.submit());
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
