//! The ends of a wire, before they are opened.

use am_ring::spsc::{self, Consumer, Producer};
use am_ring::{Frame, Layout, LayoutError, Pool};
use am_wire::{Address, EtherType};

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
