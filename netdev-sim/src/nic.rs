//! A card, with the memory of its node.

use am_ring::{Frame, Layout, LayoutError, Pool};
use am_transport::{Caps, Command, Notice, PeerAddressError, Transport};
use am_wire::Address;

use crate::card::{Card, NicCount};
use crate::options::NetOptions;

/// A NIC: a [`Card`] and the pool of its frames. Together they are a transport.
#[derive(Debug)]
pub struct Nic {
    caps: Caps,
    pub(crate) card: Card,
}

/// The device at the end of a cable: a [`Nic`], or a [`Card`] alone, whose pool is on another thread.
pub trait NetDevice: Sized {
    /// Open the device around a new card.
    ///
    /// # Panics
    /// The options ask for an impossible pool.
    fn open(options: &NetOptions, card: Card, address: Address) -> Self;

    /// The part that the network uses.
    fn card(&mut self) -> &mut Card;
}

impl NetDevice for Card {
    fn open(_: &NetOptions, card: Card, _: Address) -> Card {
        card
    }

    fn card(&mut self) -> &mut Card {
        self
    }
}

impl NetDevice for Nic {
    fn open(options: &NetOptions, mut card: Card, address: Address) -> Nic {
        let caps = caps(options, address).expect("options that a pool can be made from");
        card.refill(&caps.pool);
        Nic { caps, card }
    }

    fn card(&mut self) -> &mut Card {
        &mut self.card
    }
}

/// The capabilities that a node sees of its NIC, with a new pool.
///
/// # Errors
/// The options ask for an impossible pool.
pub(crate) fn caps(options: &NetOptions, address: Address) -> Result<Caps, LayoutError> {
    let stride = options.max_frame.next_multiple_of(128);
    Ok(Caps {
        name: format!("sim:{}", options.seed),
        mode: "simulated".into(),
        address,
        max_frame: options.max_frame,
        reliable: false,
        ordered: false,
        hears_all: true,
        pool: Pool::heap(Layout { frames: options.frames, stride, headroom: 0 })?,
        wake: None,
        wakes_by_level: false,
        out_of_band: None,
    })
}

impl Nic {
    /// The NIC's counters.
    pub fn count(&self) -> NicCount {
        self.card.count
    }

    /// How many different frames are in the four rings or among `others`. A frame that is sent again before its first
    /// completion is in the rings twice.
    pub(crate) fn frames_held_with(&self, others: &[usize]) -> usize {
        let mut seen = vec![0_u64; self.caps.pool.layout().frames.div_ceil(64)];
        let numbers = self.card.frame_numbers_held().chain(others.iter().copied());
        numbers.for_each(|number| seen[number / 64] |= 1 << (number % 64));
        seen.iter().map(|bits| bits.count_ones() as usize).sum()
    }

    /// Whether frames wait to be received.
    pub fn has_arrivals(&self) -> bool {
        self.card.has_arrivals()
    }
}

impl Transport for Nic {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn receive(&mut self, budget: usize, each: &mut dyn FnMut(Frame)) -> usize {
        self.card.receive(budget, &self.caps.pool, each)
    }

    fn send(&mut self, _to: Address, frame: &Frame) -> bool {
        self.card.send(frame)
    }

    fn flush(&mut self) {
        self.card.flush(&self.caps.pool);
    }

    fn control(&mut self, command: Command<'_>) -> Result<(), PeerAddressError> {
        self.card.control(command, &self.caps)
    }

    fn poll_notices(&mut self, each: &mut dyn FnMut(Notice<'_>)) {
        self.card.notices(each);
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        self.card.counters(each);
    }
}
