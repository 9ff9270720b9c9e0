//! What the core gives back.

use am_wire::bounce::Back;
use am_wire::control::{Incarnation, Name, NodeId, Refusal};
use am_wire::{Address, Buffer, Class, Flow, Framing, Kind, MAX_WORDS, WORD};

use crate::{EndpointId, FlowId};

/// A frame to send.
#[derive(Debug)]
pub struct Transmit<B> {
    /// Where to; also in the frame.
    pub to: Address,
    /// The whole frame.
    pub frame: B,
}

/// Word arguments of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Words {
    words: [u64; MAX_WORDS],
    count: u8,
}

impl Words {
    /// The words there are.
    #[inline]
    pub fn as_slice(&self) -> &[u64] {
        &self.words[..self.count as usize]
    }

    /// The word at this place, 0 where there is none.
    #[inline]
    pub fn at(&self, place: usize) -> u64 {
        self.words.get(place).copied().unwrap_or(0)
    }
}

/// A message that has arrived, for a handler.
///
/// A request comes with the right to answer it once: give it back with
/// [`Core::send`](crate::Core::send) of a reply or, unused, say
/// [`Core::forgo`](crate::Core::forgo). Then, for both classes, say
/// [`Core::release`](crate::Core::release): the credit returns to the sender.
#[derive(Debug)]
pub struct Delivery<B> {
    /// The conversation; replies go back on it.
    pub flow: FlowId,
    /// Request or reply.
    pub class: Class,
    /// The same, or part of a bulk transfer.
    pub kind: Kind,
    /// Index into the endpoint's handler table.
    pub handler: u8,
    /// How many words start the body.
    pub(crate) words: u8,
    /// Where in the frame the body is.
    pub(crate) body_at: u16,
    pub(crate) body: u32,
    /// The low bits of its number.
    pub(crate) seq: u16,
    /// The frame.
    pub frame: B,
}

impl<B: Buffer> Delivery<B> {
    /// A second handle on the same message: what is kept beyond its handler.
    pub fn share(&self) -> Self {
        let &Delivery { flow, class, kind, handler, words, body_at, body, seq, ref frame } = self;
        Delivery { flow, class, kind, handler, words, body_at, body, seq, frame: frame.share() }
    }

    /// Words and payload, as they stand in the frame.
    #[inline]
    fn body(&self) -> &[u8] {
        let at = self.body_at as usize;
        self.frame.bytes().get(at..at + self.body as usize).unwrap_or_default()
    }

    /// Its word arguments.
    #[inline]
    pub fn words(&self) -> Words {
        let mut words = Words { count: self.words, ..Words::default() };
        if self.words == 0 {
            return words;
        }
        for (word, bytes) in words.words.iter_mut().zip(self.body().chunks_exact(WORD)).take(self.words as usize) {
            *word = bytes.try_into().map_or(0, u64::from_be_bytes);
        }
        words
    }

    /// The user's bytes.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        self.body().get(self.words as usize * WORD..).unwrap_or_default()
    }
}

/// Why a message came back to its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum ReturnReason {
    /// The peer has been silent for longer than the configured patience.
    #[error("the peer does not answer")]
    Unreachable,
    /// The peer closed the flow or its endpoint, or this side did.
    #[error("the flow was closed")]
    Closed,
    /// The peer has been started again and knows nothing of the flow.
    #[error("the peer was restarted")]
    Restarted,
}

/// Whether a message that came back was handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fate {
    /// No handler got it, and none will: it may be sent again, to whomever.
    NotDelivered,
    /// It left, and the peer could not say any more whether it had arrived: the peer crashed, was started again, or is silent.
    Unknown,
}

/// A message that could not be delivered, back at its sender with all it
/// carried (AM-II's return-to-sender, Chun et al., "Error handling").
#[derive(Debug)]
pub struct Returned<B> {
    /// Why.
    pub reason: ReturnReason,
    /// Whether it was handled all the same.
    pub fate: Fate,
    /// The message as it was sent; `flow` is the flow it was sent on.
    pub message: Delivery<B>,
}

/// A node on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Who.
    pub node: NodeId,
    /// Which run of it.
    pub incarnation: Incarnation,
    /// Its name.
    pub name: Name,
    /// Where frames for it go.
    pub address: Address,
}

/// Two nodes that live and say that they are the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contest {
    /// What both are called.
    pub name: Name,
    /// Where they are.
    pub addresses: [Address; 2],
}

/// How a framing came to be used towards a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FramingWhy {
    /// The configuration says so.
    Configured,
    /// Forged source addresses pass, and nothing between learns them: a cable.
    NothingLearns,
    /// Forged source addresses pass, and more than two nodes were heard where nothing learns: a hub, or a switch whose
    /// learning is off. Or nodes that are not heard may send here, as over UDP and TCP.
    Shared,
    /// Forged source addresses pass, through a switch that learns them.
    SwitchLearns,
    /// Forged source addresses do not arrive.
    ForgedDropped,
}

/// The state of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowState {
    /// Being set up: the peer is looked for, probed, or asked.
    Connecting,
    /// Messages can be sent.
    Open {
        /// The framing that we send with.
        framing: Framing,
        /// Why that one.
        why: FramingWhy,
        /// The most bytes of words (8 each) and payload together.
        max_body: usize,
    },
    /// The peer refused.
    Refused(Refusal),
    /// The flow was open and is no more, or never came to be.
    Dead(ReturnReason),
    /// There is no such flow, or no longer.
    Unknown,
}

/// Whose flow ended, and why: one that a peer had asked for is forgotten when
/// this is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ending {
    /// Name of the peer's node.
    pub node: Name,
    /// Name of its endpoint.
    pub endpoint: Name,
    /// Why.
    pub reason: ReturnReason,
    /// Messages of ours, by class, that the peer had acknowledged and that no handler got: the last ones of those
    /// that did not come back.
    pub unhandled: [u32; 2],
}

/// What happened besides messages, for the user.
#[derive(Debug)]
pub enum Event {
    /// A flow that this node asked for is open, or will not be: see its state.
    Settled(EndpointId, FlowId),
    /// A peer opened a flow to one of our endpoints: the names of its node and
    /// its endpoint, for a user that reads this when the flow is closed already.
    Accepted(EndpointId, FlowId, (Name, Name)),
    /// A flow that was open is closed. Messages on it come back as [`Returned`].
    Ended(EndpointId, FlowId, Ending),
    /// Two nodes that live claim one name: see [`Core::contested`](crate::Core::contested). As often as this is found.
    Contested,
}

/// What the transport must do.
#[derive(Debug)]
pub enum Command {
    /// This flow id is in use from now on, or no longer.
    Steer(Flow, bool),
    /// The start of the rejects of this flow's requests.
    RejectTemplate(Flow, Back),
    /// There is no room for requests, or there is again.
    RxFull(bool),
    /// The most credits that were ever granted together, rounded up: so many frames may arrive at once.
    RxCredit(usize),
    /// Frames to this address seem not to arrive: another path may help.
    ReportLoss(Address),
}
