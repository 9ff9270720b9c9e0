//! Bulk transfers: up to 4 GiB into a registered region of the peer, or out of
//! it. Cut into segments once, at the lowest level; each is deposited where it
//! belongs as it arrives, in any order, and copied nowhere else.
//!
//! ```text
//!   put    alpha ── segments ──▶ beta: Deposited       ── Done ──▶   alpha: Put
//!   get    alpha ── Get ──▶ beta ── segments ──▶ alpha: Get ── Done ──▶ beta: Served
//! ```
//!
//! `regions.rs` checks the rights of peers; `outgoing.rs` sends the segments; `incoming.rs` deposits them; `notices.rs` has the
//! notices for peers.
//! All of it happens in [`poll`](crate::Endpoint::poll).

mod extent;
mod incoming;
mod notices;
mod outgoing;
mod regions;

use std::collections::{HashMap, VecDeque};
use std::mem;

use am_proto::{Core, EndpointId, FlowId, FlowState, ReturnReason, Time};
use am_ring::Frame;
use am_wire::bulk::{Notice, NoticeKind};

pub(crate) use outgoing::Source;
pub use regions::{Region, RegionId, RegionInUse, Rights};

use crate::NotOpen;

/// A transfer: unique among those that this side of a connection asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TransferId(pub(crate) u32);

/// What a transfer was, seen from here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TransferKind {
    /// Our [`put`](crate::Endpoint::put) into the peer's region.
    Put,
    /// Our [`get`](crate::Endpoint::get) out of the peer's region.
    Get,
    /// A put of the peer, into a region of ours: one of which something has arrived.
    Deposited,
    /// A get of the peer, out of a region of ours.
    Served,
}

/// Why a transfer did not happen, or not as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransferError {
    /// It could not even be begun.
    #[error(transparent)]
    NotOpen(#[from] NotOpen),
    /// The peer's endpoint has no such region, or no longer.
    #[error("there is no such region, or no longer; ask the peer for its present id")]
    NoRegion,
    /// It may not be read, or not written.
    #[error("the region's rights do not allow this; its owner registers it with `Rights::READ` or `Rights::WRITE`")]
    Denied,
    /// The region is shorter than what was to be read or written.
    #[error("this goes beyond the end of the region; send less, or elsewhere")]
    OutOfBounds,
    /// It is longer than a transfer may be.
    #[error("this is longer than 4 GiB; make several transfers of it")]
    TooLong,
    /// The region of this side is borrowed: it was when the transfer was asked for, or when a part of it arrived.
    #[error("this side's region is borrowed; drop what `Region::bytes` returned, then try again")]
    Borrowed,
    /// The peer's program has borrowed the region while it polls.
    #[error("the peer has the region borrowed while it polls; it has to drop what `Region::bytes` returned. Try again")]
    PeerBorrowed,
    /// The peer has as many transfers at once as it can have.
    #[error("the peer has too many transfers at once; wait until some have ended, then try again")]
    Busy,
    /// The side that had asked for it did not want it any more. Both ends hear the same.
    #[error("it was cancelled; everything before byte {from} of the transfer has arrived, and nothing after it")]
    Cancelled {
        /// From this byte on nothing was sent.
        from: u64,
    },
    /// The connection ended. Both ends hear it: the one that closes it at once, the other as soon as it knows, which is after the
    /// [keepalive](crate::Builder::keepalive) at the latest.
    #[error("the connection ended: {reason}; everything before byte {from} of the transfer has arrived")]
    Lost {
        /// Why it ended.
        reason: ReturnReason,
        /// From this byte on, parts may be missing. The two ends do not know the same: the receiver's number is what is there,
        /// the sender's what it knows to be there.
        from: u64,
    },
}

impl TransferError {
    /// What the peer says of a transfer, of which so much is there.
    fn of(notice: &Notice, from: u64) -> Result<(), TransferError> {
        match notice.what {
            NoticeKind::Get | NoticeKind::Done | NoticeKind::Waiting | NoticeKind::Cancel => Ok(()),
            NoticeKind::Cancelled => Err(TransferError::Cancelled { from }),
            NoticeKind::NoRegion => Err(TransferError::NoRegion),
            NoticeKind::Denied => Err(TransferError::Denied),
            NoticeKind::OutOfBounds => Err(TransferError::OutOfBounds),
            NoticeKind::Busy if notice.region != 0 => Err(TransferError::PeerBorrowed),
            NoticeKind::Busy => Err(TransferError::Busy),
        }
    }
}

/// A transfer that has ended, or its description until then: what the endpoint's handler gets.
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
    /// Whether it is this transfer of this endpoint.
    pub(crate) fn is(&self, endpoint: EndpointId, flow: FlowId, transfer: u32) -> bool {
        (self.endpoint, self.flow, self.transfer) == (endpoint, flow, transfer)
    }
}

/// Set in the transfers that answer a get: their numbers are the asker's.
const ANSWER: u32 = 1 << 31;

/// The most bytes of one transfer: 4 GiB.
const MAX_TRANSFER: u64 = 1 << 32;

/// The most transfers of peers at once, in each direction.
const MAX_TRANSFERS: usize = 1024;

/// The most refused transfers that are remembered, because segments of them may be in flight.
const MAX_REFUSED: usize = 64;

/// All transfers of a node.
#[derive(Default)]
pub(crate) struct Bulk {
    pub(crate) regions: regions::Regions,
    outgoing: VecDeque<outgoing::OutgoingTransfer>,
    /// Which of them has its turn next.
    next: usize,
    /// Gets of this side, and puts of peers that have begun.
    arriving: Vec<incoming::Arriving>,
    /// What has come of them beyond gaps.
    pieces: extent::Pieces,
    /// Connections that have ended, of which there may still be transfers.
    ended: HashMap<FlowId, (EndpointId, ReturnReason)>,
    /// Puts of peers that were refused last for lack of room: what is still on its way of them stays refused.
    refused: VecDeque<(FlowId, u32)>,
    /// To be told to peers.
    notices: notices::Notices,
    /// To be told to endpoints.
    completions: VecDeque<Completion>,
    /// What transfers that are over had lent.
    lent: Vec<Source>,
    next_id: u32,
    /// Which put of `arriving` is looked at next for whether its peer is gone.
    look_at: usize,
    /// Then peers that we wait for are asked to acknowledge something; not set where no transfer is.
    probe_at: Option<Time>,
    pub(crate) counters: BulkCounters,
}

/// What is counted of transfers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BulkCounters {
    /// Segments sent.
    pub(crate) sent: u64,
    /// Segments deposited.
    pub(crate) deposited: u64,
    /// Segments and questions that were refused, and why was told.
    pub(crate) refused: u64,
    /// Bodies that make no sense, and answers to nothing that was asked.
    pub(crate) senseless: u64,
}

impl Bulk {
    /// Whether nothing is to be sent, and nothing is waited for.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.outgoing.is_empty() && self.notices.is_empty() && self.arriving.is_empty()
    }

    /// Nor is anything known of transfers that have ended.
    #[inline]
    pub(crate) fn is_quiet(&self) -> bool {
        self.is_idle() && self.ended.is_empty()
    }

    #[inline]
    pub(crate) fn has_completions(&self) -> bool {
        !self.completions.is_empty()
    }

    /// The next transfer of this endpoint that is over.
    pub(crate) fn next_completion(&mut self, endpoint: EndpointId) -> Option<Completion> {
        let at = self.completions.iter().position(|completion| completion.endpoint == endpoint)?;
        if self.is_idle() {
            self.probe_at = None;
        }
        self.completions.remove(at)
    }

    /// Its endpoint is closed. What was lent to transfers of it is to be dropped where the node is not borrowed.
    #[must_use]
    pub(crate) fn forget(&mut self, endpoint: EndpointId) -> Vec<Source> {
        for at in (0..self.outgoing.len()).rev() {
            if self.outgoing[at].completion.endpoint == endpoint {
                self.end_outgoing(at, Ok(()));
            }
        }
        self.arriving.retain(|arriving| arriving.completion.endpoint != endpoint);
        self.pieces.keep(|key| self.arriving.iter().any(|left| left.key() == key));
        self.completions.retain(|completion| completion.endpoint != endpoint);
        self.regions.forget(endpoint);
        mem::take(&mut self.lent)
    }

    /// A transfer from here is over.
    fn end_outgoing(&mut self, at: usize, result: Result<(), TransferError>) {
        let Some(outgoing) = self.outgoing.remove(at) else { return };
        self.lent.push(outgoing.source);
        self.completions.push_back(Completion { result, ..outgoing.completion });
    }

    /// What was lent to transfers that are over: its drop may call the node, which may not be borrowed then.
    pub(crate) fn next_lent(&mut self) -> Option<Source> {
        self.lent.pop()
    }

    /// A connection has ended, not by our own doing. Its reason is noted now: a peer's connection is forgotten when it ends.
    pub(crate) fn on_ended(&mut self, endpoint: EndpointId, flow: FlowId, reason: ReturnReason) {
        self.ended.insert(flow, (endpoint, reason));
    }

    /// Part of a turn with transfers or events, behind these: connections end, and their transfers with them. Both ends hear
    /// of each, with the reason.
    #[inline(never)]
    pub(crate) fn end_dead(&mut self, core: &mut Core<Frame>) {
        for at in (0..self.outgoing.len()).rev() {
            let (completion, from) = (self.outgoing[at].completion, self.outgoing[at].arrived());
            if let Some(reason) = self.ended_for_good(core, &completion) {
                self.end_outgoing(at, Err(TransferError::Lost { reason, from }));
            }
        }
        // A restarted peer counts its transfers from the start.
        if self.refused.front().is_some_and(|(flow, _)| self.reason(core, *flow).is_some()) {
            self.refused.pop_front();
        }
        // Of the puts of peers one a turn is looked at, and all where a connection is known to have ended.
        self.look_at = if self.look_at < self.arriving.len() { self.look_at } else { 0 };
        for at in (0..self.arriving.len()).rev() {
            let (completion, from) = (self.arriving[at].completion, self.arriving[at].extent.front);
            if (at == self.look_at || !self.ended.is_empty() || completion.kind == TransferKind::Get)
                && let Some(reason) = self.ended_for_good(core, &completion)
            {
                self.complete(at, Err(TransferError::Lost { reason, from }));
            }
        }
        self.look_at += 1;
        if !self.ended.is_empty() {
            let mut ended = mem::take(&mut self.ended);
            ended.retain(|&flow, &mut (endpoint, _)| {
                self.outgoing.iter().any(|outgoing| outgoing.completion.flow == flow)
                    || self.arriving.iter().any(|arriving| arriving.completion.flow == flow)
                    || core.has_bulk_of(endpoint, flow)
            });
            self.ended = ended;
        }
    }

    /// Why, once everything that had come is taken in, and everything that comes back is back.
    fn ended_for_good(&self, core: &mut Core<Frame>, of: &Completion) -> Option<ReturnReason> {
        let reason = self.reason(core, of.flow)?;
        let goes_on = core.has_unacknowledged(of.flow)
            || core.has_returned_to(of.endpoint)
            || core.has_bulk_of(of.endpoint, of.flow);
        (!goes_on).then_some(reason)
    }

    /// Why it has ended, if it has.
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
