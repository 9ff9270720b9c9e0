//! What a node is told about itself when it starts.

use core::time::Duration;

use am_wire::control::{Incarnation, Name, NodeId};
use am_wire::{Address, EtherType, Framing};

/// Which framing a node sends with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum FramingChoice {
    /// Find out what the network to each peer lets through, and take the cheapest.
    #[default]
    Auto,
    /// This one, whatever the network is.
    Fixed(Framing),
}

/// Settings of a [`Core`](crate::Core). [`Config::new`] has good ones for all
/// but the first four.
#[derive(Clone, Debug)]
pub struct Config {
    /// Who this is.
    pub node: NodeId,
    /// Which run of it: later runs have larger numbers.
    pub incarnation: Incarnation,
    /// What it is called.
    pub name: Name,
    /// Its true address on the link.
    pub address: Address,
    /// The network's EtherTypes.
    pub ethertype: EtherType,
    /// The framing to send with.
    pub framing: FramingChoice,
    /// Whether each node that can send here is heard. Where strangers are not, as over UDP, frames have a nonce.
    pub hears_all: bool,
    /// The longest frame of the transport, from the destination address on.
    pub max_frame: usize,
    /// Whether a frame of full length is sent to each peer before the first message, to see that it arrives.
    pub probe_length: bool,
    /// Frames that may arrive and wait to be extracted, all flows together:
    /// credits are cut from these. What comes beyond them, from more flows than
    /// they are enough for, returns to its sender. At least 2.
    pub receive_frames: usize,
    /// Messages sent and not acknowledged, all flows together; at least 2.
    pub send_frames: usize,
    /// The most credits of a flow and class, at most [`crate::WINDOW`].
    pub window: u16,
    /// Messages of fewer bytes of words and payload share a frame where several
    /// wait for the same flow; 0: each has a frame of its own.
    pub bundle_below: usize,
    /// An acknowledgement waits so long for something to ride on.
    pub ack_delay: Duration,
    /// So many messages at most wait for one acknowledgement (FM 1.0 aggregates them: §4.5).
    pub ack_every: u16,
    /// The retransmission time-out is never shorter.
    pub min_timeout: Duration,
    /// The retransmission time-out is never longer.
    pub max_timeout: Duration,
    /// A peer that has not been heard for so long, while we sent again and
    /// again, is unreachable: its messages go back to their senders.
    pub patience: Duration,
    /// A peer that has not been heard for so long, and answers no question, is unreachable, though nothing was sent to it. It
    /// is noticed a quarter of this later at most.
    pub keepalive: Duration,
    /// How often a node says where it is, so that switches remember.
    pub beacon: Duration,
    /// Seed of the first sequence numbers, flow ids and nonces.
    pub seed: u64,
    /// The first sequence number of every flow, instead of one drawn from the
    /// seed: for tests of what happens where numbers wrap.
    #[doc(hidden)]
    pub first_number: Option<u32>,
}

impl Config {
    /// Two messages of fewer bytes fit a frame at an MTU of 1500, in whichever framing.
    pub const BUNDLE_BELOW: usize = 741;

    /// Settings for a node.
    pub fn new(node: NodeId, incarnation: Incarnation, name: Name, address: Address) -> Self {
        Config {
            node,
            incarnation,
            name,
            address,
            ethertype: EtherType::DEFAULT,
            framing: FramingChoice::Auto,
            hears_all: true,
            max_frame: 1514,
            probe_length: true,
            receive_frames: 2048,
            send_frames: 2048,
            window: 128,
            bundle_below: Config::BUNDLE_BELOW,
            ack_delay: Duration::from_micros(50),
            ack_every: 32,
            min_timeout: Duration::from_micros(250),
            max_timeout: Duration::from_millis(50),
            patience: Duration::from_millis(1500),
            keepalive: Duration::from_secs(20),
            beacon: Duration::from_secs(5),
            seed: incarnation.0 ^ node.0,
            first_number: None,
        }
    }

    /// How often a peer that is not heard is asked.
    pub(crate) fn quiet_round(&self) -> Duration {
        self.keepalive / 4
    }

    /// The same over a transport that loses nothing and keeps the order: what is told of
    /// messages is credit, and nothing is asked before a peer is silent for long.
    /// A transport may be reliable only as long as its connection lives, so
    /// what is not acknowledged stays at hand all the same (its frame, not a copy).
    #[must_use]
    pub fn reliable(self) -> Self {
        Config {
            probe_length: false,
            ack_every: u16::MAX,
            min_timeout: Duration::from_millis(200),
            max_timeout: Duration::from_millis(400),
            ..self
        }
    }
}
