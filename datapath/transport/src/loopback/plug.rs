//! The ends of a wire, before they are opened, and the queues between them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::*};

use am_ring::{Frame, Layout, LayoutError, Pool};
use am_wire::{Address, Buffer, EtherType};
use rtrb::{Consumer, Producer, RingBuffer};

use super::{Count, Loopback};
use crate::{Caps, Steering};

/// Frames start on a cache line of their own.
const ALIGN: usize = 128;

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

/// How many frames of a queue the doorbell has shown to the receiver, ever. Processors fetch lines of the cache in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Shown(AtomicUsize);

/// The sending end of a queue, on a line of the cache. The receiver takes no frame before the doorbell.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Outlet {
    pub(super) to: Address,
    pub(super) queue: Producer<Frame>,
    sent: usize,
    /// What `shown` is: an idle flush looks no further.
    rung: usize,
    shown: Arc<Shown>,
}

impl Outlet {
    /// Put a frame into the queue. A frame to a closed end is lost, as on an unplugged cable.
    #[inline]
    pub(super) fn send(&mut self, frame: &Frame, count: &mut Count) -> bool {
        if self.queue.is_abandoned() {
            count.unplugged += 1;
            return true;
        }
        let went = self.queue.push(frame.share()).is_ok();
        self.sent = self.sent.wrapping_add(usize::from(went));
        *(if went { &mut count.sent } else { &mut count.full }) += 1;
        went
    }

    #[inline]
    pub(super) fn ring_doorbell(&mut self) {
        if self.rung != self.sent {
            self.rung = self.sent;
            self.shown.0.store(self.sent, Release);
        }
    }
}

impl Drop for Outlet {
    fn drop(&mut self) {
        self.ring_doorbell();
    }
}

/// The receiving end of a queue.
#[derive(Debug)]
pub(super) struct Inlet {
    queue: Consumer<Frame>,
    taken: usize,
    shown: Arc<Shown>,
}

impl Inlet {
    /// How many frames can be taken.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.shown.0.load(Acquire).wrapping_sub(self.taken)
    }

    #[inline]
    pub(super) fn pop(&mut self) -> Option<Frame> {
        self.taken = self.taken.wrapping_add(1);
        self.queue.pop().ok()
    }
}

impl Drop for Inlet {
    /// Frames that were not taken go home now. They should not wait for the sender's end.
    fn drop(&mut self) {
        while self.queue.pop().is_ok() {}
    }
}

/// One end of a wire. The thread that uses it opens it.
#[derive(Debug)]
pub struct Plug {
    address: Address,
    options: LoopbackOptions,
    to: Vec<Outlet>,
    from: Vec<Inlet>,
}

/// A wire with two ends, with the default [`LoopbackOptions`].
pub fn pair() -> [Plug; 2] {
    let mut ends = wire(2).into_iter();
    std::array::from_fn(|_| ends.next().expect("a wire of two ends has two"))
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
            let (producer, consumer) = RingBuffer::new(options.queue.next_power_of_two());
            let shown = Arc::<Shown>::default();
            plugs[from].to.push(Outlet { to: address(to), queue: producer, sent: 0, rung: 0, shown: shown.clone() });
            plugs[to].from.push(Inlet { queue: consumer, taken: 0, shown });
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
        let stride = max_frame.next_multiple_of(ALIGN);
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
