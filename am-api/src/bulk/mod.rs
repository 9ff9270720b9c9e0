//! Bulk transfers: up to 4 GiB into a registered region of the peer, or out of it. A transfer is cut into segments as its
//! frames are written. Each segment is copied to its place when it arrives, in any order.
//!
//! ```text
//!   put    alpha ── segments ──▶ beta: Deposited       ── Done ──▶   alpha: Put
//!   get    alpha ── Get ──▶ beta ── segments ──▶ alpha: Get ── Done ──▶ beta: Served
//! ```
//!
//! `under_way.rs` has the transfers; `regions.rs` checks the rights of peers; `outgoing.rs` sends the segments; `incoming.rs`
//! deposits them; `extent.rs` keeps track of the parts that have arrived; `notices.rs` queues the notices for peers. `lent.rs` is the
//! way without segments, where the receiver can read the sender's memory; `messages.rs` puts long messages together (`assembly.rs`), also in
//! memory of the program (`destination.rs`), and `dropped.rs` keeps track of those that may lack segments. All work is done in
//! [`poll`](crate::Endpoint::poll).

mod assembly;
mod destination;
mod dropped;
mod extent;
mod incoming;
mod lent;
mod memory;
mod messages;
mod notices;
mod outgoing;
mod regions;
mod under_way;

use std::collections::{HashMap, HashSet, VecDeque};
use std::mem;

use am_proto::{Core, Delivery, EndpointId, Fate, FlowId, FlowState, MessageNumber, ReturnReason, Returned, Time};
use am_ring::Frame;
use am_transport::Transport;
use am_wire::bulk::{Notice, NoticeKind};
use am_wire::long::Head;
use am_wire::{Buffer, Class, Kind};
use memory::MessageMemory;

pub use destination::{Destination, LongHead};
pub(crate) use memory::{PAYLOAD_AT, buffer_length};
pub(crate) use messages::LongMessages;
pub use regions::{Region, RegionId, RegionInUse, Rights};
pub(crate) use under_way::{SentMessage, Source};

use crate::NotOpen;

/// Identifies a transfer among those that this side of a connection asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TransferId(pub(crate) u32);

/// The kind of a transfer, as this side sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TransferKind {
    /// This side's [`put`](crate::Endpoint::put) into a region of the peer.
    Put,
    /// This side's [`get`](crate::Endpoint::get) out of a region of the peer.
    Get,
    /// A put of the peer into a region of this side. Reported only if a part of it arrived.
    Deposited,
    /// A get of the peer out of a region of this side.
    Served,
}

/// Why a transfer did not complete.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TransferError {
    /// The transfer could not begin.
    #[error(transparent)]
    NotOpen(#[from] NotOpen),
    /// The peer's endpoint has no such region. It may have been dropped.
    #[error("there is no such region, or no longer; ask the peer for its present id")]
    NoRegion,
    /// The region's rights do not allow reading, or writing.
    #[error("the region's rights do not allow this; its owner registers it with `Rights::READ` or `Rights::WRITE`")]
    Denied,
    /// The transfer goes beyond the end of the region.
    #[error("this goes beyond the end of the region; send less, or elsewhere")]
    OutOfBounds,
    /// The transfer is longer than 4 GiB.
    #[error("this is longer than 4 GiB; make several transfers of it")]
    TooLong,
    /// This side's region was borrowed at the call, or when a part of the transfer arrived.
    #[error("this side's region is borrowed; drop what `Region::bytes` returned, then try again")]
    Borrowed,
    /// The peer's program has borrowed the region while it polls.
    #[error("the peer has the region borrowed while it polls; it has to drop what `Region::bytes` returned. Try again")]
    PeerBorrowed,
    /// This side already has the most transfers that it may have at once.
    #[error(
        "{MAX_OWN_TRANSFERS} transfers of this node have not ended; poll until `on_transfer` has reported some, then try again"
    )]
    TooMany,
    /// The peer already has the most transfers that it may have at once.
    #[error("the peer has too many transfers at once; wait until some have ended, then try again")]
    Busy,
    /// The side that had asked for the transfer cancelled it. Both ends get this error.
    #[error("it was cancelled; everything before byte {from} of the transfer has arrived, and nothing after it")]
    Cancelled {
        /// No byte was sent from here on.
        from: u64,
    },
    /// The connection ended. Both ends get this error: the side that closes it gets it at once, the other one after the
    /// [keepalive](crate::Builder::keepalive) at the latest.
    #[error("the connection ended: {reason}; everything before byte {from} of the transfer has arrived")]
    Lost {
        /// Why it ended.
        reason: ReturnReason,
        /// Parts may be missing from this byte on. The two ends may get different numbers, because the sender counts only
        /// acknowledged bytes.
        from: u64,
    },
}

am_transport::debug_as_display!(TransferError);

impl TransferError {
    /// The result that a peer's notice reports. Everything before byte `from` has arrived.
    fn of(notice: &Notice, from: u64) -> Result<(), TransferError> {
        match notice.what {
            NoticeKind::Get
            | NoticeKind::Done
            | NoticeKind::Waiting
            | NoticeKind::Cancel
            | NoticeKind::Lent
            | NoticeKind::Unreadable => Ok(()),
            NoticeKind::Cancelled => Err(TransferError::Cancelled { from }),
            NoticeKind::NoRegion => Err(TransferError::NoRegion),
            NoticeKind::Denied => Err(TransferError::Denied),
            NoticeKind::OutOfBounds => Err(TransferError::OutOfBounds),
            NoticeKind::Busy if notice.region != 0 => Err(TransferError::PeerBorrowed),
            NoticeKind::Busy => Err(TransferError::Busy),
        }
    }
}

/// A transfer as the endpoint's handler gets it. `result` has no meaning before the transfer ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Completion {
    pub(crate) kind: TransferKind,
    pub(crate) endpoint: EndpointId,
    pub(crate) flow: FlowId,
    pub(crate) transfer: u32,
    pub(crate) region: u32,
    pub(crate) offset: u64,
    pub(crate) length: u64,
    pub(crate) result: Result<(), TransferError>,
}

impl Completion {
    /// Whether this is the transfer with this number.
    pub(crate) fn is(&self, endpoint: EndpointId, flow: FlowId, transfer: u32) -> bool {
        (self.endpoint, self.flow, self.transfer) == (endpoint, flow, transfer)
    }
}

/// This bit is set in the number of a get. The side that asks chooses the number, and the other side's segments carry it.
const ANSWER: u32 = 1 << 31;

/// The most bytes of one transfer: 4 GiB.
const MAX_TRANSFER: u64 = 1 << 32;

/// The most transfers of peers at once, in each direction.
pub const MAX_TRANSFERS: usize = 1024;

/// The most transfers of this node at once, in each direction.
pub const MAX_OWN_TRANSFERS: usize = 16_384;

/// The most refused transfers that this node remembers, because their segments may be in flight.
const MAX_REFUSED: usize = 64;

/// All transfers of a node.
///
/// Each turn checks whether there are any. The fields of that check come first, on few cache lines.
#[repr(C)]
pub(crate) struct Bulk {
    /// Whether there is nothing to send, to wait for or to end.
    is_quiet: bool,
    /// Whether there is anything for an endpoint: an ended transfer, a long message, a returned one.
    has_news: bool,
    /// Long messages that arrive.
    pub(crate) long: LongMessages,
    outgoing: VecDeque<under_way::OutgoingTransfer>,
    /// Gets of this side, and puts of peers that have begun.
    arriving: Vec<under_way::Arriving>,
    /// Ended transfers, for the handlers of endpoints.
    completions: VecDeque<Completion>,
    /// Long messages of this side that could not be delivered.
    returned: VecDeque<(EndpointId, Returned<Frame>)>,
    /// The memory of long messages of this side.
    sending: MessageMemory,
    /// Connections that have ended, but may still have transfers.
    ended: HashMap<FlowId, (EndpointId, ReturnReason)>,
    /// Connections whose peer cannot read this process's memory.
    unreadable: HashSet<FlowId>,
    /// Notices for peers.
    notices: notices::Notices,
    pub(crate) regions: regions::Regions,
    /// The index in `outgoing` of the transfer that sends next.
    next: usize,
    /// The parts of `arriving` that have arrived beyond a gap.
    pieces: extent::Pieces,
    /// Transfers that were just refused or cancelled. Their segments in flight are refused too.
    refused: VecDeque<(FlowId, u32)>,
    /// Memory that the program had lent to transfers that have ended, to be dropped.
    lent: Vec<Source>,
    next_id: u32,
    /// The index in `arriving` of the put whose connection is checked next.
    next_checked: usize,
    /// When to probe each peer that a transfer waits for. `None` if there is no transfer.
    probe_at: Option<Time>,
    pub(crate) counters: BulkCounters,
}

/// The counters of transfers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BulkCounters {
    /// Segments sent.
    pub(crate) sent: u64,
    /// Segments deposited.
    pub(crate) deposited: u64,
    /// Refused segments and gets. The peer gets the reason in a notice.
    pub(crate) refused: u64,
    /// Malformed bodies, and answers to no get of this node.
    pub(crate) malformed: u64,
    /// Pieces that peers lent, to be copied from the memory of their processes.
    pub(crate) lent: u64,
    /// Pieces that this side lent and the peer could not read.
    pub(crate) unreadable: u64,
    /// Long messages of this side.
    pub(crate) messages_sent: u64,
}

impl Bulk {
    /// Long messages may take this much memory in each direction.
    pub(crate) fn new(message_memory: usize) -> Self {
        Bulk {
            is_quiet: true,
            has_news: false,
            long: LongMessages::new(message_memory),
            outgoing: VecDeque::new(),
            arriving: vec![],
            completions: VecDeque::new(),
            returned: VecDeque::new(),
            sending: MessageMemory::new(message_memory),
            ended: HashMap::new(),
            unreadable: HashSet::new(),
            notices: notices::Notices::default(),
            regions: regions::Regions::default(),
            next: 0,
            pieces: extent::Pieces::default(),
            refused: VecDeque::new(),
            lent: vec![],
            next_id: 0,
            next_checked: 0,
            probe_at: None,
            counters: BulkCounters::default(),
        }
    }

    /// The memory of long messages in each direction.
    pub(crate) fn message_memory(&self) -> usize {
        self.sending.limit()
    }

    /// Each turn asks for these two, so they are computed when something has changed.
    fn settle(&mut self) {
        let is_idle =
            self.outgoing.is_empty() && self.notices.is_empty() && self.arriving.is_empty() && self.long.is_idle();
        if is_idle {
            self.probe_at = None;
        }
        self.is_quiet = is_idle && self.ended.is_empty();
        self.has_news = !(self.completions.is_empty()
            && self.returned.is_empty()
            && self.long.ready.is_empty()
            && self.lent.is_empty());
    }

    /// Whether all is idle, and no ended connection may still have transfers.
    #[inline]
    pub(crate) fn is_quiet(&self) -> bool {
        self.is_quiet
    }

    /// Whether there is anything for an endpoint: an ended transfer, a long message, a returned one.
    #[inline]
    pub(crate) fn has_news(&self) -> bool {
        self.has_news
    }

    /// Whether a transfer of this endpoint has ended, or a long message is complete, and its handler has not run.
    pub(crate) fn has_news_of(&self, endpoint: EndpointId) -> bool {
        self.completions.iter().any(|completion| completion.endpoint == endpoint)
            || self.long.ready.iter().any(|ready| ready.endpoint == endpoint)
    }

    /// Whether a long message of this endpoint has returned.
    pub(crate) fn has_returned_of(&self, endpoint: EndpointId) -> bool {
        self.returned.iter().any(|(of, _)| *of == endpoint)
    }

    /// The next transfer of this endpoint that has ended.
    pub(crate) fn next_completion(&mut self, endpoint: EndpointId) -> Option<Completion> {
        let at = self.completions.iter().position(|completion| completion.endpoint == endpoint)?;
        let completion = self.completions.remove(at);
        self.settle();
        completion
    }

    /// The next long message of this endpoint that has returned.
    pub(crate) fn next_returned(&mut self, endpoint: EndpointId) -> Option<Returned<Frame>> {
        let at = self.returned.iter().position(|(of, _)| *of == endpoint)?;
        let (_, returned) = self.returned.remove(at)?;
        self.settle();
        Some(returned)
    }

    /// The next long message for this endpoint.
    pub(crate) fn next_ready(&mut self, endpoint: EndpointId, may_reply: bool) -> Option<Delivery<Frame>> {
        let message = self.long.next_ready(endpoint, may_reply, &mut self.notices);
        self.settle();
        message
    }

    /// A message was taken from the core. It is returned if it need not wait for a long one, and is no long one.
    pub(crate) fn admit(
        &mut self,
        core: &mut Core<Frame>,
        endpoint: EndpointId,
        message: Delivery<Frame>,
    ) -> Option<Delivery<Frame>> {
        let message = self.long.admit(&mut messages::Io { core, notices: &mut self.notices }, endpoint, message);
        self.settle();
        message
    }

    /// The head of a long message was taken from the core.
    pub(crate) fn hold(
        &mut self,
        core: &mut Core<Frame>,
        endpoint: EndpointId,
        head: Delivery<Frame>,
        destination: Option<Destination>,
    ) {
        self.long.on_head(&mut messages::Io { core, notices: &mut self.notices }, endpoint, head, destination);
        self.settle();
    }

    /// Memory for a long message of this side, with this much payload. A reply must not fail.
    pub(crate) fn message_frame(&mut self, class: Class, payload: usize) -> Option<Frame> {
        let bytes = PAYLOAD_AT + payload;
        match class {
            Class::Request => self.sending.take(bytes),
            Class::Reply => self.sending.take_beyond(bytes),
        }
    }

    /// Whether there is memory for the long message that found none last.
    pub(crate) fn has_message_memory(&self) -> bool {
        self.sending.has_room()
    }

    /// A long message did not begin. The caller of a send has borrowed the node, so its payload is dropped later.
    pub(crate) fn drop_unsent(&mut self, message: SentMessage) {
        self.lent.extend(message.shared.map(Source::Lent));
        self.settle();
    }

    /// The number of the next long message of this side.
    pub(crate) fn next_message_id(&mut self) -> u32 {
        self.next_id()
    }

    /// A long message of `length` bytes begins: its head, with the first `at` bytes, was sent.
    pub(crate) fn send_message(
        &mut self,
        endpoint: EndpointId,
        id: u32,
        (at, length): (usize, usize),
        message: SentMessage,
    ) {
        let (kind, flow, region, result) = (TransferKind::Put, message.flow, am_wire::long::MESSAGE, Ok(()));
        let length = length as u64;
        self.counters.messages_sent += 1;
        let completion = Completion { kind, endpoint, flow, transfer: id, region, offset: 0, length, result };
        self.outgoing.push_back(under_way::OutgoingTransfer::message(completion, message, at as u64));
        self.settle();
    }

    /// The bytes of this side's long messages that are on their way on this connection.
    pub(crate) fn message_bytes_on(&self, flow: FlowId) -> usize {
        let its = self.outgoing.iter().filter(|outgoing| outgoing.is_message() && outgoing.completion.flow == flow);
        its.map(|outgoing| outgoing.completion.length as usize).sum()
    }

    /// Whether a long message of this endpoint is on its way, and this node does not owe its handlers too many reports of transfers.
    pub(crate) fn has_message_of(&self, endpoint: EndpointId) -> bool {
        self.completions.len() < MAX_TRANSFERS
            && self.outgoing.iter().any(|outgoing| outgoing.is_message() && outgoing.completion.endpoint == endpoint)
    }

    /// Whether a request may follow on this connection. Behind a long one it has to wait until all segments have left, because it
    /// would wait at the receiver with the credit that they need. Behind one that is lent it waits until a handler has got that.
    /// It leaves credit to the notices that wait, because messages at both sides may wait for those.
    #[inline]
    pub(crate) fn may_follow(&self, core: &Core<Frame>, flow: FlowId) -> bool {
        self.is_quiet || self.has_left(core, flow)
    }

    #[cold]
    fn has_left(&self, core: &Core<Frame>, flow: FlowId) -> bool {
        let mut its = self.outgoing.iter().filter(|outgoing| outgoing.completion.flow == flow && outgoing.is_message());
        let notices = self.notices.of(flow);
        its.all(|outgoing| outgoing.is_sent && outgoing.lease.is_none())
            && (notices == 0 || core.credit(flow, Class::Request) > notices)
            && !self.long.is_full_of_replies(flow)
    }

    /// Whether a message waits for memory, which no frame announces.
    pub(crate) fn wants_memory(&self) -> bool {
        self.long.wants_memory()
    }

    /// This side closes the connection: its incomplete messages are dropped.
    pub(crate) fn close(&mut self, core: &mut Core<Frame>, flow: FlowId) {
        self.long.end(&mut messages::Io { core, notices: &mut self.notices }, |_, _, of| of == flow);
        self.settle();
    }

    /// Forget a closed endpoint. Returns the memory that was lent to its transfers, which the caller drops while the node is not
    /// borrowed, and the numbers of messages that were taken from the core and that no handler got.
    #[must_use]
    pub(crate) fn forget(
        &mut self,
        core: &mut Core<Frame>,
        transport: &mut dyn Transport,
        endpoint: EndpointId,
    ) -> (Vec<Source>, Vec<MessageNumber>, usize) {
        // Segments that were acknowledged count as deposited.
        while self.take_in(core, transport, endpoint, MAX_TRANSFERS, false) > 0 {}
        let its = self.outgoing.iter().filter(|outgoing| outgoing.completion.endpoint == endpoint);
        let abandoned = its.filter(|outgoing| outgoing.is_message()).count();
        let dropped = self.long.forget(endpoint);
        for at in (0..self.outgoing.len()).rev() {
            if self.outgoing[at].completion.endpoint == endpoint {
                self.end_outgoing(at, Ok(()));
            }
        }
        self.arriving.retain(|arriving| arriving.completion.endpoint != endpoint);
        self.pieces.keep(|key| self.arriving.iter().any(|left| left.key() == key));
        self.completions.retain(|completion| completion.endpoint != endpoint);
        self.returned.retain(|(of, _)| *of != endpoint);
        self.regions.forget(endpoint);
        self.settle();
        (mem::take(&mut self.lent), dropped, abandoned)
    }

    /// End an outgoing transfer.
    fn end_outgoing(&mut self, at: usize, result: Result<(), TransferError>) {
        let Some(outgoing) = self.outgoing.remove(at) else { return };
        let fate = outgoing.fate();
        mem::drop(outgoing.lease);
        let (completion, source) = (outgoing.completion, outgoing.source);
        match (source, result) {
            (Source::Message(message), Err(TransferError::Lost { reason, .. })) => {
                let message = self.return_message(message);
                self.returned.push_back((completion.endpoint, Returned { reason, fate, message }));
            }
            (Source::Message(message), _) => {
                self.lent.extend(message.shared.map(Source::Lent));
                mem::drop(message.frame);
                self.sending.trim();
            }
            (source, result) => {
                self.lent.push(source);
                self.completions.push_back(Completion { result, ..completion });
            }
        }
    }

    /// A message could not be delivered. A head returns as the whole message. `None` for segments and notices.
    pub(crate) fn take_returned(&mut self, endpoint: EndpointId, returned: Returned<Frame>) -> Option<Returned<Frame>> {
        if matches!(returned.message.kind, Kind::Put | Kind::Get) {
            self.on_returned(endpoint, &returned);
            return None;
        }
        let Some((Head { id, .. }, ..)) = returned.message.head() else { return Some(returned) };
        let is_it = |outgoing: &under_way::OutgoingTransfer| {
            outgoing.is_message() && outgoing.completion.is(endpoint, returned.message.flow, id)
        };
        let at = self.outgoing.iter().position(is_it)?;
        let outgoing = self.outgoing.remove(at)?;
        // Segments of it may have arrived without it.
        self.notices.push(returned.message.flow, Notice::of(NoticeKind::Cancel, id));
        self.settle();
        let fate = if outgoing.fate() == Fate::NotDelivered { Fate::NotDelivered } else { returned.fate };
        mem::drop(outgoing.lease);
        let Source::Message(message) = outgoing.source else { return None };
        let message = self.return_message(message);
        self.settle();
        Some(Returned { fate, message, ..returned })
    }

    /// A long message returns with its payload, which is copied if the program shared it.
    fn return_message(&mut self, mut message: SentMessage) -> Delivery<Frame> {
        if let Some(data) = message.shared.take() {
            let (bytes, own) = ((*data).as_ref(), message.frame.bytes());
            if let Some(mut whole) = self.sending.take_beyond(own.len() + bytes.len())
                && let Some(place) = whole.space()
            {
                place[..own.len()].copy_from_slice(own);
                place[own.len()..][..bytes.len()].copy_from_slice(bytes);
                message.frame = whole;
            }
            self.lent.push(Source::Lent(data));
        }
        message.to_delivery()
    }

    /// Memory that was lent to a transfer that has ended. Its `Drop` may call the node, so the caller must drop it while the node
    /// is not borrowed.
    pub(crate) fn next_lent(&mut self) -> Option<Source> {
        self.lent.pop()
    }

    /// A connection has ended, and this side did not close it. Store the reason, because the core forgets a connection that the
    /// peer opened when it ends.
    pub(crate) fn on_ended(&mut self, endpoint: EndpointId, flow: FlowId, reason: ReturnReason) {
        self.ended.insert(flow, (endpoint, reason));
        self.settle();
    }

    /// End the transfers of connections that have ended. This runs after the frames of a turn have left.
    #[inline(never)]
    pub(crate) fn end_dead(&mut self, core: &mut Core<Frame>) {
        for at in (0..self.outgoing.len()).rev() {
            let (completion, from) = (self.outgoing[at].completion, self.outgoing[at].arrived());
            if let Some(reason) = self.ended_for_good(core, &completion) {
                self.end_outgoing(at, Err(TransferError::Lost { reason, from }));
            }
        }
        self.unreadable.retain(|&flow| matches!(core.state(flow), FlowState::Open { .. }));
        // A restarted peer uses the numbers again from the start, so forget refused transfers of ended connections.
        if self.refused.front().is_some_and(|(flow, _)| self.reason(core, *flow).is_some()) {
            self.refused.pop_front();
        }
        // Check one put of a peer in each turn, and all of them once a connection is known to have ended.
        self.next_checked = if self.next_checked < self.arriving.len() { self.next_checked } else { 0 };
        for at in (0..self.arriving.len()).rev() {
            let (completion, from) = (self.arriving[at].completion, self.arriving[at].extent.front);
            if (at == self.next_checked || !self.ended.is_empty() || completion.kind == TransferKind::Get)
                && let Some(reason) = self.ended_for_good(core, &completion)
            {
                self.complete(at, Err(TransferError::Lost { reason, from }));
            }
        }
        self.next_checked += 1;
        if !self.ended.is_empty() {
            let mut ended = mem::take(&mut self.ended);
            ended.retain(|&flow, &mut (endpoint, _)| {
                self.outgoing.iter().any(|outgoing| outgoing.completion.flow == flow)
                    || self.arriving.iter().any(|arriving| arriving.completion.flow == flow)
                    || core.has_bulk_of(endpoint, flow)
            });
            self.ended = ended;
        }
        if !self.long.is_idle() {
            let is_over = |core: &Core<Frame>, endpoint: EndpointId, flow: FlowId| {
                let is_ended =
                    matches!(core.state(flow), FlowState::Ended(_) | FlowState::Refused(_) | FlowState::Unknown);
                is_ended && !core.has_bulk_of(endpoint, flow)
            };
            self.long.end(&mut messages::Io { core, notices: &mut self.notices }, is_over);
        }
        self.settle();
    }

    /// Why the connection has ended, once none of its messages can arrive or return any more.
    fn ended_for_good(&self, core: &mut Core<Frame>, of: &Completion) -> Option<ReturnReason> {
        let reason = self.reason(core, of.flow)?;
        let goes_on = core.has_unacknowledged(of.flow)
            || core.has_returned_to(of.endpoint)
            || core.has_bulk_of(of.endpoint, of.flow);
        (!goes_on).then_some(reason)
    }

    /// Why the connection has ended, if it has.
    fn reason(&self, core: &Core<Frame>, flow: FlowId) -> Option<ReturnReason> {
        match core.state(flow) {
            FlowState::Open { .. } | FlowState::Connecting => None,
            FlowState::Ended(reason) => Some(reason),
            FlowState::Refused(_) | FlowState::Unknown => {
                Some(self.ended.get(&flow).map_or(ReturnReason::Closed, |&(_, reason)| reason))
            }
        }
    }
}

#[cfg(test)]
mod tests;
