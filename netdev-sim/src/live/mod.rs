//! The same network against the machine's clock, for nodes of one process: `sim:SEED`.
//!
//! ```text
//!   node, its thread           node, its thread
//!  ┌──────────────┐           ┌──────────────┐
//!  │ LiveNic: pool│           │ LiveNic: pool│      am_transport::Transport
//!  └──────┬───────┘           └──────┬───────┘
//!         │  take the lock, run due events  │   
//!   ╔═════╧══════════════════════════╧═════╗
//!   ║ Net<Card>, one for all of this seed  ║
//!   ╚══════════════════╤═══════════════════╝
//!                    timer: wakes sleeping nodes
//! ```
//!
//! All nodes of a process that open the same seed share one network. The first one makes it, and it ends with the last.
//! No thread drives it. Each call first runs the events that are due, each at its own virtual time, so no node can tell
//! when an event was computed. A sleeping node makes no calls. While a node sleeps, a timer is set to the next event and
//! wakes it (`network.rs`).
//!
//! Faults are drawn from the seed in the order in which frames come onto a cable. The same frames in the same order have
//! the same faults. The times at which nodes send depend on the machine, and do not repeat.

mod network;
mod settings;
mod waker;

use std::collections::VecDeque;

use am_ring::Frame;
use am_transport::{Caps, Command, Notice, PeerAddressError, Transport, memory};
use am_wire::{Address, Buffer};

use network::JoinedNode;
pub use network::SimOpenError;
pub use settings::SimSettings;

use crate::nic;

/// A node's NIC on a simulated network of this process.
#[derive(Debug)]
pub struct LiveNic {
    caps: Caps,
    joined: JoinedNode,
    /// Frames to send. The doorbell moves all of them to the NIC under one lock.
    outbox: VecDeque<Frame>,
    /// How many frames the TX ring had room for when it was last seen, and how often it was full.
    tx_room: usize,
    tx_full: u64,
    /// Frames that were taken from the NIC. They are handed over without the network's lock.
    inbox: VecDeque<Frame>,
    /// A flush has work to do: the NIC has frames to give back, or its fill ring is not full.
    needs_flush: bool,
    /// The descriptor is armed, as far as this side knows.
    is_armed: bool,
    /// The link error while this node is alone on the network.
    alone_error: String,
}

/// Join the network of this seed. The first node makes the network.
///
/// ```
/// use am_netdev_sim::live;
/// use am_transport::Transport;
///
/// let near = live::open(&live::SimSettings { seed: 7, loss: Some(0.01), ..Default::default() })?;
/// let far = live::open(&live::SimSettings { seed: 7, ..Default::default() })?;
/// assert_eq!((&near.caps().name[..], far.caps().mode.contains("loss=0.01")), ("sim:7", true));
/// assert_ne!(near.caps().address, far.caps().address);
/// # Ok::<(), live::SimOpenError>(())
/// ```
///
/// # Errors
/// See [`SimOpenError`].
pub fn open(settings: &SimSettings) -> Result<LiveNic, SimOpenError> {
    let wanted = settings.with_defaults().options();
    memory::check(wanted.frames, wanted.max_frame)?;
    let seat = JoinedNode::join(settings)?;
    let (network, node) = (&seat.network, seat.node);
    let options = network.settings.options();
    let caps = nic::caps(&options, network.address(node))?;
    let caps = Caps { mode: network.settings.mode(), wake: Some(vec![seat.wake.clone()]), ..caps };
    let tx_room = network.with(node, |card| {
        card.refill(&caps.pool);
        card.tx_room()
    });
    Ok(LiveNic {
        alone_error: format!(
            "no other node of this process is on `{}`, and another process has a network of its own",
            caps.name
        ),
        caps,
        joined: seat,
        outbox: VecDeque::with_capacity(options.tx),
        tx_room,
        tx_full: 0,
        inbox: VecDeque::with_capacity(options.rx),
        needs_flush: false,
        is_armed: false,
    })
}

impl LiveNic {
    /// The addresses of all other nodes on the network.
    pub fn peer_addresses(&self) -> Vec<Address> {
        self.joined.network.peer_addresses(self.joined.node)
    }
}

impl Transport for LiveNic {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn receive(&mut self, budget: usize, each: &mut dyn FnMut(Frame)) -> usize {
        let LiveNic { caps, joined: JoinedNode { network, node, .. }, inbox, .. } = self;
        let now = network.now();
        // While another thread has the lock, no frame is taken.
        if !network.is_quiet(*node, now, self.is_armed)
            && let Some(seen) = network.try_with(*node, |card| {
                card.receive(budget, &caps.pool, &mut |frame| inbox.push_back(frame));
                (card.needs_flush(), card.tx_room())
            })
        {
            (self.needs_flush, self.tx_room) = seen;
        }
        let taken = inbox.len();
        self.is_armed &= taken == 0;
        inbox.drain(..).for_each(each);
        taken
    }

    #[inline]
    fn send(&mut self, _to: Address, frame: &Frame) -> bool {
        let has_room = self.outbox.len() < self.tx_room;
        if has_room {
            self.outbox.push_back(frame.share());
        } else {
            self.tx_full += 1;
        }
        has_room
    }

    #[inline]
    fn flush(&mut self) {
        if !self.needs_flush && self.outbox.is_empty() {
            return;
        }
        let LiveNic { caps, joined: seat, outbox, .. } = self;
        (self.needs_flush, self.tx_room) = seat.network.with(seat.node, |card| {
            // The ring has room: it was seen, and since then only the NIC has used the ring, and emptied it.
            outbox.drain(..).for_each(|frame| _ = card.send(&frame));
            card.flush(&caps.pool);
            (card.needs_flush(), card.tx_room())
        });
    }

    fn control(&mut self, command: Command<'_>) -> Result<(), PeerAddressError> {
        let JoinedNode { network, node, .. } = &self.joined;
        if matches!(command, Command::BeforeSleep) {
            self.is_armed = network.try_sleep(*node);
        }
        network.with(*node, |card| card.control(command, &self.caps))
    }

    fn poll_notices(&mut self, each: &mut dyn FnMut(Notice<'_>)) {
        self.joined.network.with_paused(self.joined.node, |card| card.notices(each));
        if self.joined.network.node_count() < 2 {
            each(Notice::LinkError(&self.alone_error));
        }
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        for (name, value) in self.joined.network.counters(self.joined.node) {
            each(name, if name == "sim_tx_full" { value + self.tx_full } else { value });
        }
    }
}
