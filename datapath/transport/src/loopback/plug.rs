//! Ends of a wire, before they are opened.

use am_ring::spsc::{self, Consumer, Producer};
use am_ring::{Frame, Layout, LayoutError, Pool};
use am_wire::{Address, EtherType};

use super::{Count, Loopback};
use crate::{Caps, Steering};

/// Frames start on a cache line of their own.
const ALIGN: usize = 128;

/// Settings of a wire, the same for all of its ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Frames in the pool of each end.
    pub frames: usize,
    /// The longest frame, in bytes from the destination address on.
    pub max_frame: usize,
    /// Frames on their way from one end to one other, at most (rounded up to a
    /// power of two).
    pub queue: usize,
    /// The network's EtherTypes.
    pub ethertype: EtherType,
}

impl Default for Options {
    /// As Ethernet at MTU 1500.
    fn default() -> Self {
        Options { frames: 4096, max_frame: 1514, queue: 512, ethertype: EtherType::DEFAULT }
    }
}

/// One end of a wire, to be opened on the thread that uses it.
#[derive(Debug)]
pub struct Plug {
    address: Address,
    options: Options,
    to: Vec<(Address, Producer<Frame>)>,
    from: Vec<Consumer<Frame>>,
}

/// A wire with two ends, with the default [`Options`].
pub fn pair() -> [Plug; 2] {
    let mut ends = wire(2).into_iter();
    std::array::from_fn(|_| ends.next().expect("a wire of two ends has two"))
}

/// A wire with so many ends, at least two, with the default [`Options`].
pub fn wire(ends: usize) -> Vec<Plug> {
    wire_with(ends, Options::default())
}

/// A wire with so many ends, at least two. Their addresses count from
/// 02:00:00:00:00:01 on.
pub fn wire_with(ends: usize, options: Options) -> Vec<Plug> {
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
    /// The true address that the end will have.
    pub fn address(&self) -> Address {
        self.address
    }

    /// Open it here. Its pool stays on this thread.
    ///
    /// # Errors
    /// The options ask for a pool that cannot be.
    pub fn open(self) -> Result<Loopback, LayoutError> {
        let Options { frames, max_frame, ethertype, .. } = self.options;
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
