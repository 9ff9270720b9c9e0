//! The core's outputs.

use am_wire::bounce::RejectTemplate;
use am_wire::coalesced::CoalescedMessage;
use am_wire::control::{Incarnation, Name, NodeId, Refusal};
use am_wire::{Address, Buffer, Class, Flow, Framing, Kind, MAX_WORDS, Seq, WORD_BYTES};

use crate::{EndpointId, FlowId};

/// A frame to send.
#[derive(Debug)]
pub struct Transmit<B> {
    /// The destination; it is also in the frame.
    pub to: Address,
    /// The whole frame.
    pub frame: B,
}

/// The words of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Words {
    words: [u64; MAX_WORDS],
    count: u8,
}

impl Words {
    /// The words as a slice.
    #[inline]
    pub fn as_slice(&self) -> &[u64] {
        &self.words[..self.count as usize]
    }

    /// The word at this index; 0 if there is none.
    #[inline]
    pub fn at(&self, place: usize) -> u64 {
        self.words.get(place).copied().unwrap_or(0)
    }
}

/// A message that arrived, for a handler.
///
/// A request comes with the right to reply once. Use it with [`Core::send`](crate::Core::send) of a reply, or give it
/// up with [`Core::decline_reply`](crate::Core::decline_reply). Then, for both classes, call [`Core::release`](crate::Core::release):
/// the credit goes back to the sender.
#[derive(Debug)]
pub struct Delivery<B> {
    /// The flow on which it arrived. The reply goes back on it.
    pub flow: FlowId,
    /// Request or reply.
    pub class: Class,
    /// The same, or a segment of a bulk transfer.
    pub kind: Kind,
    /// Index into the endpoint's handler table.
    pub handler: u8,
    /// How many words start the body.
    pub(crate) words: u8,
    pub(crate) body_at: u16,
    pub(crate) body: u32,
    /// The low 16 bits of the sequence number.
    pub(crate) seq: u16,
    /// The frame.
    pub frame: B,
}

impl<B: Buffer> Delivery<B> {
    /// A message of a coalesced frame whose body starts at `body_at`.
    #[inline(always)]
    pub(crate) fn coalesced(
        flow: FlowId,
        class: Class,
        message: &CoalescedMessage,
        body_at: usize,
        seq: Seq,
        frame: B,
    ) -> Self {
        let &CoalescedMessage { handler, words, at, length } = message;
        let (body_at, body) = ((body_at + at) as u16, length as u32);
        Delivery { flow, class, kind: class.into(), handler, words, body_at, body, seq: seq.0 as u16, frame }
    }

    /// A second handle on the same message, for a message that outlives its handler.
    pub fn share(&self) -> Self {
        Delivery { frame: self.frame.share(), ..*self }
    }

    #[inline]
    fn body(&self) -> &[u8] {
        let at = self.body_at as usize;
        self.frame.bytes().get(at..at + self.body as usize).unwrap_or_default()
    }

    /// The message's words.
    #[inline]
    pub fn words(&self) -> Words {
        let mut words = Words { count: self.words, ..Words::default() };
        if self.words == 0 {
            return words;
        }
        for (word, bytes) in words.words.iter_mut().zip(self.body().chunks_exact(WORD_BYTES)).take(self.words as usize)
        {
            *word = bytes.try_into().map_or(0, u64::from_be_bytes);
        }
        words
    }

    /// The message's payload.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        self.body().get(self.words as usize * WORD_BYTES..).unwrap_or_default()
    }
}

/// What a forked child is told of its parent's node and connections.
pub const FORKED: &str = "this process was forked, and the node is its parent's: open a node in this process";

/// Why a message returned to its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum ReturnReason {
    /// Nothing came from the peer for longer than the configured patience.
    #[error("the peer does not answer")]
    Unreachable,
    /// The peer is alive, and its program did not poll for as long as [`Config::poll_patience`](crate::Config::poll_patience).
    #[error("the peer is alive, but its program does not poll")]
    NotPolling,
    /// The peer closed the flow or its endpoint, or this side did.
    #[error("the connection was closed")]
    Closed,
    /// The peer restarted and does not know the flow.
    #[error("the peer was restarted")]
    Restarted,
    /// The tag of an endpoint has changed, and the flow was made with the old one.
    #[error("the endpoint has another tag now")]
    Tag,
    /// Two live nodes have one name, that of this node or of the peer: the one that was started last counts.
    #[error("another node was started under the same name")]
    NameTaken,
    /// The peer's endpoint does not have the handler that the message names. The flow stays.
    #[error("the peer's endpoint does not have this handler")]
    NoHandler,
    /// This process was forked. The connections are its parent's.
    #[error("{}", FORKED)]
    Forked,
}

/// Whether a returned message was handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fate {
    /// No handler got it, and none will. It may be sent again, to any node.
    NotDelivered,
    /// It left, and the peer could not say whether it arrived: the peer crashed, restarted or is silent.
    Unknown,
}

/// A message that could not be delivered, back at its sender in full (AM-II's return-to-sender, Chun et al., "Error
/// handling").
#[derive(Debug)]
pub struct Returned<B> {
    /// Why it returned.
    pub reason: ReturnReason,
    /// Whether it was handled nevertheless.
    pub fate: Fate,
    /// The message as it was sent; `flow` is the flow it was sent on.
    pub message: Delivery<B>,
}

/// A node of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The node's id.
    pub node: NodeId,
    /// The number of its run.
    pub incarnation: Incarnation,
    /// Its name.
    pub name: Name,
    /// The address for frames to it.
    pub address: Address,
}

/// A node of the segment, as this node sees it now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Who it is, which run of it, and where.
    pub peer: Peer,
    /// The longest frame that reaches it, in bytes from the destination address on, as far as this node knows.
    pub max_frame: usize,
    /// The framing towards it, once the path has been probed: when the first connection with it is set up.
    pub framing: Option<Framing>,
}

/// What happened to a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MemberChange {
    /// It is there: it has answered.
    Joined,
    /// Its address, its longest frame or its framing is another one.
    Changed,
    /// It is gone.
    Left(Departure),
}

/// Why a member is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Departure {
    /// It said so, and answers no more.
    #[error("it left")]
    Farewell,
    /// It sends nothing and answers no question: it crashed, is stopped, or cannot be reached. Or the system reported
    /// the end of its process.
    #[error("it is silent")]
    Silent,
    /// A new run of it is there.
    #[error("it was restarted")]
    Restarted,
    /// This node was told to forget it, or had no room to remember it.
    #[error("it was forgotten")]
    Forgotten,
}

/// Two live nodes that use the same identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameConflict {
    /// Their name.
    pub name: Name,
    /// Their addresses.
    pub addresses: [Address; 2],
}

/// Why a framing is used towards a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FramingWhy {
    /// The configuration fixes it.
    Configured,
    /// Frames with forged source addresses arrive, and nothing between learns these addresses: a cable.
    NothingLearns,
    /// Frames with forged source addresses arrive, and more than two nodes are present where nothing learns: a hub, or
    /// a switch whose learning is off. Or nodes that this node does not know may send to it, as over UDP and TCP.
    Shared,
    /// Frames with forged source addresses arrive through a switch that learns these addresses.
    SwitchLearns,
    /// Frames with forged source addresses do not arrive.
    ForgedDropped,
}

/// The state of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowState {
    /// In set-up: this node searches for the peer, probes the path, or waits for an answer.
    Connecting,
    /// Messages can be sent.
    Open {
        /// The framing that this node sends with.
        framing: Framing,
        /// Why this framing.
        why: FramingWhy,
        /// The most bytes of words (8 each) and payload together.
        max_body: usize,
    },
    /// The peer refused the flow.
    Refused(Refusal),
    /// The flow ended, or its set-up failed.
    Ended(ReturnReason),
    /// No such flow, or no longer.
    Unknown,
}

/// Whose flow ended, and why. A flow that the peer had asked for no longer exists when this event is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowEnd {
    /// Name of the peer's node.
    pub node: Name,
    /// Name of its endpoint.
    pub endpoint: Name,
    /// Why.
    pub reason: ReturnReason,
    /// By class: messages of this side that the peer had acknowledged and that no handler got. They are the last ones
    /// of those that did not come back.
    pub unhandled: [u32; 2],
}

/// What happened besides messages, for the user.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// The set-up of a flow that this node asked for is finished. The flow's state has the result.
    SetupFinished(EndpointId, FlowId),
    /// A peer opened a flow to a local endpoint. The names are those of its node and endpoint, because the flow may
    /// have ended when the event is read.
    Accepted(EndpointId, FlowId, (Name, Name)),
    /// An open flow ended. Its messages come back as [`Returned`].
    Ended(EndpointId, FlowId, FlowEnd),
    /// Two live nodes use the same identity: see [`Core::name_conflict`](crate::Core::name_conflict). Reported each time this
    /// is found.
    NameConflict,
    /// A member joined, changed or left. Only after [`Core::watch_members`](crate::Core::watch_members).
    Member(Member, MemberChange),
}

/// What the transport must do.
#[derive(Debug)]
pub enum Command {
    /// This flow id is in use from now on, or no longer.
    Steer(Flow, bool),
    /// The reject template of this flow.
    RejectTemplate(Flow, RejectTemplate),
    /// There is no room for requests, or there is again. A transport that can reject requests by itself does so
    /// meanwhile.
    RxFull(bool),
    /// The largest sum of credits ever granted, rounded up: the most frames that may arrive at once.
    RxCredit(usize),
    /// Frames to this address seem not to arrive. Another path may help.
    ReportLoss(Address),
    /// The peer at this address is silent. If something says that it is alive nevertheless, call
    /// [`Core::on_peer_alive`](crate::Core::on_peer_alive). At [`Address::BROADCAST`]: a peer is looked for. Call
    /// [`Core::on_stranger_alive`](crate::Core::on_stranger_alive) for whatever is there.
    AskAlive(Address),
}
