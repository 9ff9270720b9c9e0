//! The settings of a node.

use core::fmt;
use core::time::Duration;
use std::collections::VecDeque;

use am_wire::control::{Incarnation, Name, NodeId};
use am_wire::{Address, EtherType, Framing};

use crate::segment_key::SegmentKey;

/// The framing that a node sends with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum FramingChoice {
    /// Probe the network to each peer, and use the cheapest framing that works.
    #[default]
    Auto,
    /// This framing, on every network.
    Fixed(Framing),
}

/// Settings of a [`Core`](crate::Core). [`Config::new`] sets all but the first four to good values.
#[derive(Clone, Debug)]
pub struct Config {
    /// The node's id.
    pub node: NodeId,
    /// The number of this run. Later runs have larger numbers.
    pub incarnation: Incarnation,
    /// The node's name.
    pub name: Name,
    /// The node's true address on the link.
    pub address: Address,
    /// The network's EtherTypes.
    pub ethertype: EtherType,
    /// The framing to send with.
    pub framing: FramingChoice,
    /// Whether this node receives the beacons of all nodes that can send to it. If not, as over UDP, frames carry a
    /// nonce.
    pub hears_all: bool,
    /// The longest frame of the transport, from the destination address on.
    pub max_frame: usize,
    /// The longest payload that this node accepts in one message.
    pub max_message: u32,
    /// Whether to test, before the first message to a peer, that a frame of full length arrives.
    pub probe_length: bool,
    /// Frames for messages that wait to be extracted, all flows together; at least 2. Credits are granted out of these.
    /// With very many flows the credits exceed them, and the receiver rejects what finds no room.
    pub receive_frames: usize,
    /// The most unacknowledged messages, all flows together; at least 3.
    pub send_frames: usize,
    /// The most credits of a flow and class, at most [`crate::WINDOW`].
    pub window: u16,
    /// A message with fewer bytes of words and payload than this may share a frame with others of its flow. 0 turns
    /// coalescing off.
    pub coalesce_below: usize,
    /// How long an acknowledgement waits for a message to travel with; up to twice as long where the peer's answers take
    /// longer.
    pub ack_delay: Duration,
    /// The most messages that one acknowledgement covers before it must be sent (FM 1.0 aggregates them: §4.5).
    pub ack_every: u16,
    /// The shortest retransmission time-out.
    pub min_timeout: Duration,
    /// The longest retransmission time-out.
    pub max_timeout: Duration,
    /// How long a peer may give no sign of life while this node retransmits. After that the peer is unreachable, and its
    /// messages go back to their senders.
    pub patience: Duration,
    /// How long a peer may live and not poll while this node waits for it. After that its messages go back to their
    /// senders. `None`: for ever.
    pub poll_patience: Option<Duration>,
    /// How long a peer may send nothing and answer no keepalive, when nothing was sent to it. After that it is
    /// unreachable. The core notices this at most a quarter of this time later.
    pub keepalive: Duration,
    /// How often a node announces its address, so that switches remember it.
    pub beacon: Duration,
    /// Where members are watched: how long one may be silent and answer no question before it is said to be gone.
    pub member_timeout: Duration,
    /// The segment's key. Nodes with another one, or none, do not talk with this node.
    pub key: Option<SegmentKey>,
    /// Seed of the first sequence numbers, flow ids and nonces.
    pub seed: u64,
    /// The first sequence number of every flow, instead of a random one: for tests where numbers wrap.
    #[doc(hidden)]
    pub first_seq: Option<u32>,
}

impl Config {
    /// Two messages below this size fit one frame at an MTU of 1500, in each framing.
    pub const COALESCE_BELOW: usize = 741;

    /// The longest payload that a node accepts, unless it is set: 1 MiB.
    pub const MAX_MESSAGE: u32 = 1 << 20;

    /// Default settings for a node.
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
            max_message: Config::MAX_MESSAGE,
            probe_length: true,
            receive_frames: 2048,
            send_frames: 2048,
            window: 128,
            coalesce_below: Config::COALESCE_BELOW,
            ack_delay: Duration::from_micros(50),
            ack_every: 32,
            min_timeout: Duration::from_micros(250),
            max_timeout: Duration::from_millis(50),
            patience: Duration::from_millis(1500),
            poll_patience: None,
            keepalive: Duration::from_secs(20),
            beacon: Duration::from_secs(5),
            key: None,
            member_timeout: Duration::from_secs(1),
            seed: incarnation.0 ^ node.0,
            first_seq: None,
        }
    }

    /// How often this node asks a quiet peer.
    pub(crate) fn keepalive_round(&self) -> Duration {
        self.keepalive / 4
    }

    /// The same settings for a transport that loses nothing and keeps the order. Acknowledgements then only carry
    /// credit, and time-outs are long. The transport may be reliable only while its connection lives, so the core still
    /// keeps each message until it is acknowledged (its frame, not a copy).
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

/// Chooses the member of a group for a peer, by the peer's node name: 0 is this node.
pub type ChooseMember = Box<dyn FnMut(Name) -> u8>;

/// The number of attempts whose member is kept. A peer repeats a question that was not answered in time, and the repetition gets the same
/// member.
const KEPT_CHOICES: usize = 256;

/// A question for a flow: the run that asks, and its number.
type Attempt = (NodeId, Incarnation, u32);

/// How this node, as the first of its group, places peers.
#[derive(Default)]
pub(crate) struct Placement {
    choose: Option<ChooseMember>,
    /// The members chosen last, each with its attempt.
    chosen: VecDeque<(Attempt, u8)>,
}

impl Placement {
    pub(crate) fn new(choose: ChooseMember) -> Placement {
        Placement { choose: Some(choose), chosen: VecDeque::new() }
    }

    /// The member for this attempt of a peer with this name. `None` where this node is no group's first.
    pub(crate) fn member(&mut self, attempt: Attempt, peer: Name) -> Option<u8> {
        let choose = self.choose.as_mut()?;
        if let Some(&(_, member)) = self.chosen.iter().find(|(known, _)| *known == attempt) {
            return Some(member);
        }
        let member = choose(peer);
        self.chosen.truncate(KEPT_CHOICES - 1);
        self.chosen.push_front((attempt, member));
        Some(member)
    }
}

impl fmt::Debug for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Placement").field(&self.choose.is_some()).finish()
    }
}
