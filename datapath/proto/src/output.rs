//! The core's outputs.

use am_wire::bounce::RejectTemplate;
use am_wire::coalesced::CoalescedMessage;
use am_wire::control::{Incarnation, Name, NodeId, Refusal};
use am_wire::long::Head;
use am_wire::{Address, Buffer, Class, Flow, Framing, HEAD_WORDS, Kind, MAX_WORDS, Seq, WORD_BYTES};

use crate::{EndpointId, FlowId};

/// A frame to send.
#[derive(Debug)]
pub struct Transmit<B> {
    /// The destination; it is also in the frame.
    pub to: Address,
    /// The whole frame.
    pub frame: B,
}

/// What one call of [`Core::transmit`](crate::Core::transmit) has handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Transmitted {
    /// The frames that the transport took.
    pub taken: usize,
    /// Whether it did not take the last one.
    pub is_refused: bool,
}

impl Transmitted {
    pub(crate) fn may_go_on(self, most: usize) -> bool {
        self.taken < most && !self.is_refused
    }

    pub(crate) fn note(&mut self, is_taken: bool) {
        self.taken += usize::from(is_taken);
        self.is_refused = !is_taken;
    }
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
        self.words.get(..self.count as usize).unwrap_or(&self.words)
    }

    /// The word at this index; 0 if there is none.
    #[inline]
    pub fn at(&self, place: usize) -> u64 {
        self.words.get(place).copied().unwrap_or(0)
    }
}

/// The number of a message that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageNumber {
    pub(crate) flow: FlowId,
    pub(crate) class: Class,
    pub(crate) seq: u16,
}

/// A message that arrived, for a handler.
///
/// A request comes with the right to reply once (AM-II's token). [`Core::send`](crate::Core::send) of a reply uses it, and
/// [`Core::decline_reply`](crate::Core::decline_reply) declines it. Then, for both classes, call
/// [`Core::release`](crate::Core::release), which grants the sender's credit again.
#[derive(Debug)]
pub struct Delivery<B> {
    /// The flow on which it arrived. The reply goes back on it.
    pub flow: FlowId,
    /// Request or reply.
    pub class: Class,
    /// The kind of frame: also request or reply, or else a segment of a bulk transfer.
    pub kind: Kind,
    /// Index into the endpoint's handler table.
    pub handler: u8,
    /// The number of words at the start of the body.
    pub(crate) words: u8,
    pub(crate) body_at: u16,
    pub(crate) body: u32,
    /// The low 16 bits of the sequence number.
    pub(crate) seq: u16,
    /// The messages behind this one in its frame that are delivered with it.
    pub(crate) behind: u16,
    /// The frame.
    pub frame: B,
}

impl<B> Delivery<B> {
    /// How many messages behind this one in its frame are delivered with it: see [`Core::poll_reply`](crate::Core::poll_reply).
    #[inline]
    pub fn behind(&self) -> u16 {
        self.behind
    }

    /// Whether this is the head of a long message.
    #[inline]
    pub fn is_head(&self) -> bool {
        self.words as usize == HEAD_WORDS
    }
}

impl<B: Buffer> Delivery<B> {
    /// Go on to the message behind this one in its frame, if there is one.
    #[inline]
    pub fn next_in_frame(&mut self) -> bool {
        if self.behind == 0 {
            return false;
        }
        let end = self.body_at as usize + self.body as usize;
        let Some(next) = CoalescedMessage::find(self.frame.bytes(), end) else { return false };
        (self.handler, self.words) = (next.handler, next.words);
        (self.body_at, self.body) = (next.at as u16, next.length as u32);
        (self.seq, self.behind) = (self.seq.wrapping_add(1), self.behind - 1);
        true
    }

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
        Delivery { flow, class, kind: class.into(), handler, words, body_at, body, seq: seq.0 as u16, behind: 0, frame }
    }

    /// For the head of a long message: the head, the message's words, and the payload that the frame has.
    pub fn head(&self) -> Option<(Head, Words, &[u8])> {
        if !self.is_head() {
            return None;
        }
        let (head, rest) = Head::parse(self.body())?;
        let (words, payload) = rest.split_at_checked(MAX_WORDS * WORD_BYTES)?;
        let mut own = Words { count: head.words, ..Words::default() };
        for (word, bytes) in own.words.iter_mut().zip(words.chunks_exact(WORD_BYTES)).take(head.words.into()) {
            *word = bytes.try_into().map_or(0, u64::from_be_bytes);
        }
        Some((head, own, payload))
    }

    /// The bytes of its words and payload.
    pub fn body_length(&self) -> usize {
        self.body as usize
    }

    /// The same message in a frame of this length at least. `None` if it is shorter.
    pub fn copied_to(&self, mut frame: B) -> Option<Self> {
        let body = self.body();
        frame.space()?.get_mut(..body.len())?.copy_from_slice(body);
        frame.set_len(body.len());
        Some(Delivery { body_at: 0, behind: 0, frame, ..*self })
    }

    /// The whole of the long message whose head this is. `frame` has its words, in network byte order, and its payload from
    /// `body_at` on.
    #[must_use]
    pub fn whole(&self, frame: B, words: usize, body_at: usize) -> Self {
        let body = frame.bytes().len().saturating_sub(body_at) as u32;
        Delivery { words: words.min(MAX_WORDS) as u8, body_at: body_at as u16, body, frame, ..*self }
    }

    /// A long message of this side that could not be delivered. `frame` has its words and its payload from `body_at` on.
    pub fn returned(flow: FlowId, class: Class, handler: u8, words: usize, body_at: usize, frame: B) -> Self {
        let body = frame.bytes().len().saturating_sub(body_at) as u32;
        let (words, body_at) = (words.min(MAX_WORDS) as u8, body_at as u16);
        Delivery { flow, class, kind: class.into(), handler, words, body_at, body, seq: 0, behind: 0, frame }
    }

    /// The same message, of which the credit was released already. Its kind is that of the segments that had the credit since.
    #[must_use]
    pub fn without_credit(self) -> Self {
        Delivery { kind: Kind::Put, ..self }
    }

    /// The same message without credit, of which a part lies in memory of the program.
    #[must_use]
    pub fn placed(self) -> Self {
        Delivery { kind: Kind::Get, ..self }
    }

    /// Whether a part of the message lies in memory of the program.
    #[inline]
    pub fn is_placed(&self) -> bool {
        self.kind == Kind::Get
    }

    /// Whether the message's credit is to be released after its handler has run.
    #[inline]
    pub fn has_credit(&self) -> bool {
        !matches!(self.kind, Kind::Put | Kind::Get)
    }

    /// The number of the message, for [`Core::close`](crate::Core::close).
    pub fn number(&self) -> MessageNumber {
        MessageNumber { flow: self.flow, class: self.class, seq: self.seq }
    }

    /// A second handle on the same message, without those behind it, for a message that outlives its handler.
    pub fn share(&self) -> Self {
        Delivery { frame: self.frame.share(), behind: 0, ..*self }
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

/// The error text for a forked child that uses its parent's node or connections.
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
    /// Another live node has the name of this node or of the peer. The node that was started last keeps the name.
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
    /// No handler got the message, and none will. The message may be sent again, to any node.
    NotDelivered,
    /// The message was sent, and may have been handled or not: the peer crashed, restarted or is silent.
    Unknown,
}

/// A message that could not be delivered, back at its sender in full (AM-II's return-to-sender, Chun et al., "Error
/// handling").
#[derive(Debug)]
pub struct Returned<B> {
    /// Why the message returned.
    pub reason: ReturnReason,
    /// Whether a handler may have run for the message.
    pub fate: Fate,
    /// The message as it was sent; `flow` is the flow it was sent on.
    pub message: Delivery<B>,
}

/// A node of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The node's id.
    pub node: NodeId,
    /// The number of this run of the node.
    pub incarnation: Incarnation,
    /// The node's name.
    pub name: Name,
    /// The address for frames to the node.
    pub address: Address,
}

/// A node of the segment, as this node sees it now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// The node, its run and its address.
    pub peer: Peer,
    /// The longest frame that reaches the node, in bytes from the destination address on, as far as this node knows.
    pub max_frame: usize,
    /// The framing of frames to the node. `None` until the first connection with the node is set up, because only that probes the path.
    pub framing: Option<Framing>,
}

/// What happened to a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MemberChange {
    /// The member is present: it has answered.
    Joined,
    /// The member's address, longest frame or framing changed.
    Changed,
    /// The member is gone.
    Left(Departure),
}

/// Why a member is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Departure {
    /// The member said farewell, and answers no more.
    #[error("it left")]
    Farewell,
    /// The member sends nothing and answers no question: it crashed, is stopped, or cannot be reached. Or the system
    /// reported the end of its process.
    #[error("it is silent")]
    Silent,
    /// The member's node was started again.
    #[error("it was restarted")]
    Restarted,
    /// The program made this node forget it, or this node had no room to remember it.
    #[error("it was forgotten")]
    Forgotten,
}

/// Two live nodes with one name.
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
    /// Frames with forged source addresses arrive, and no device on the path learns these addresses: a cable.
    NothingLearns,
    /// Frames with forged source addresses arrive, no device learns them, and there are more than two nodes: a hub, or a
    /// switch whose learning is off. Or nodes that this node does not know may send to it, as over UDP and TCP.
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
        /// The most bytes of words (8 each) and payload together in one frame.
        max_body: usize,
        /// The longest payload that the peer accepts in one message.
        max_message: usize,
    },
    /// The peer refused the flow.
    Refused(Refusal),
    /// The flow ended, or its set-up failed.
    Ended(ReturnReason),
    /// There is no such flow, or it was closed.
    Unknown,
}

/// How a flow ended. This has the peer's names, because a flow that the peer opened no longer exists when the event is
/// read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowEnd {
    /// Name of the peer's node.
    pub node: Name,
    /// Name of its endpoint.
    pub endpoint: Name,
    /// Why.
    pub reason: ReturnReason,
    /// By class: how many messages of this side the peer had acknowledged although no handler got them. They are the last
    /// ones of those that did not return. Heads of long messages do not count.
    pub unhandled: [u32; 2],
}

/// What happened, besides messages.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// The set-up of a flow that this node asked for is finished. The flow's state has the result.
    SetupFinished(EndpointId, FlowId),
    /// A peer opened a flow to a local endpoint. The names are those of its node and endpoint, because the flow may
    /// have ended when the event is read.
    Accepted(EndpointId, FlowId, (Name, Name)),
    /// An open flow ended. Its undelivered messages return as [`Returned`].
    Ended(EndpointId, FlowId, FlowEnd),
    /// Two live nodes have one name: see [`Core::name_conflict`](crate::Core::name_conflict). Reported each time that this
    /// node finds it.
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
    /// Whether there is no room for requests. While there is none, a transport that can reject requests by itself does so.
    RxFull(bool),
    /// The largest sum of credits ever granted, rounded up: the most frames that may arrive at once.
    RxCredit(usize),
    /// Frames to this address seem not to arrive. Another path may help.
    ReportLoss(Address),
    /// The peer at this address is silent. If its process is known to live, call
    /// [`Core::on_peer_alive`](crate::Core::on_peer_alive). With [`Address::BROADCAST`], this node searches for a peer:
    /// call [`Core::on_stranger_alive`](crate::Core::on_stranger_alive) for each process that is known to live.
    AskAlive(Address),
    /// Send [`Core::introduction`](crate::Core::introduction) to each address that was added to the transport and has not answered.
    Introduce,
}
