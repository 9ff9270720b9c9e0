//! The receiving side of an endpoint. Messages are copied into its pool. A message that finds no room waits in its frame.
//!
//! ```text
//!   a short message ──────────────▶ pool ──▶ read, free
//!   a long one      FIRST, MORE.. ─▶ reserved, written piece by piece
//!   no room:        waiting ──┘      (its sender gets no credit for it, so `waiting` is bounded)
//! ```

use std::collections::{HashMap, VecDeque};

use am_api::{Connection, HandlerId, Message, Name, OwnedMessage};

use crate::descriptor::Signal;
use crate::pool::{Pool, TokenId};
use crate::{Dpid, Nid, ReadError};

/// A message of one frame.
pub(crate) const SHORT: HandlerId = HandlerId(0);
/// The first part of a longer message. Its word is the length of the whole message.
pub(crate) const FIRST: HandlerId = HandlerId(1);
/// A further part. Its word is its offset in the message.
pub(crate) const MORE: HandlerId = HandlerId(2);
/// The refusal of a message that is longer than the pool. Its words are the message's length, and the size of the pool.
pub(crate) const TOO_LONG: HandlerId = HandlerId(3);

/// A long message of which parts have arrived.
#[derive(Clone, Copy, Debug)]
enum Arriving {
    /// The parts are written into the pool.
    Into { token: TokenId, at: usize, len: usize },
    /// The message is too long for the pool. `left` more bytes of it are to be dropped.
    Nowhere { left: usize },
}

/// The receiving side of an endpoint.
pub(crate) struct Inbox<M> {
    /// The serial number in the endpoint's [`PointId`](crate::point::PointId).
    pub(crate) serial: u32,
    pub(crate) pool: Pool<M>,
    waiting: VecDeque<OwnedMessage>,
    arriving: HashMap<Connection, Arriving>,
    /// The errors for the next reads: edges whose other end died, and a message of this endpoint that was too long for its receiver.
    pub(crate) reports: VecDeque<ReadError>,
    /// Connections that ended. Their incomplete messages are dropped when everything that arrived was handled.
    ended: Vec<(Connection, Option<(Nid, Dpid)>)>,
    /// Connections of other endpoints to this one, with the peer's numbers and the name of its node.
    accepted: Vec<(Connection, (Nid, Dpid), Name)>,
    /// Accepted connections whose DPID another process has now, until the node notices that they ended.
    replaced: Vec<Connection>,
    /// Accepted connections of which the program knows that messages are lost, until they end.
    reported_lost: Vec<Connection>,
    /// Messages of this endpoint that their receivers refused: the connection, the message's length, and the size of the receiver's pool.
    pub(crate) refusals_received: Vec<(Connection, [u64; 2])>,
    /// Refusals that this endpoint has to send: the connection, and the length of the message.
    pub(crate) refusals_to_send: Vec<(Connection, usize)>,
    pub(crate) signal: Signal,
    /// The inbox is in the list of arrivals, or need not be put there.
    pub(crate) is_listed: bool,
    /// Messages received.
    pub(crate) received: u64,
}

impl<M: AsRef<[u8]> + AsMut<[u8]>> Inbox<M> {
    pub(crate) fn new(serial: u32, memory: M, signal: Signal) -> Self {
        let (waiting, arriving, reports, ended) = Default::default();
        let (refusals_received, refusals_to_send, accepted, replaced, reported_lost) = Default::default();
        let (pool, is_listed, received) = (Pool::new(memory), false, 0);
        Inbox {
            serial,
            pool,
            waiting,
            arriving,
            reports,
            ended,
            accepted,
            replaced,
            reported_lost,
            refusals_received,
            refusals_to_send,
            signal,
            is_listed,
            received,
        }
    }

    #[inline]
    pub(crate) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether connections ended, and may have left messages incomplete.
    pub(crate) fn has_ended(&self) -> bool {
        !self.ended.is_empty()
    }

    /// Whether refusals were received, or are to be sent.
    #[inline]
    pub(crate) fn has_refusals(&self) -> bool {
        !(self.refusals_received.is_empty() && self.refusals_to_send.is_empty())
    }

    /// Whether a call of `read` would return something.
    #[inline]
    pub(crate) fn is_readable(&self) -> bool {
        self.pool.has_unread() || self.has_report()
    }

    /// Whether the next `read` returns an error. Errors are returned after all messages that arrived.
    #[inline]
    pub(crate) fn has_report(&self) -> bool {
        !self.reports.is_empty() && !self.pool.has_unread() && self.waiting.is_empty()
    }

    /// Take this inbox out of the list of arrivals. If a signal is wanted, make the descriptor readable if there is something to read. Returns
    /// whether the caller has to watch the signal's byte from now on.
    pub(crate) fn take_arrival(&mut self, is_signal_wanted: bool) -> bool {
        self.is_listed = false;
        if is_signal_wanted && self.is_readable() {
            self.signal.set();
        }
        self.signal.is_on() && !std::mem::replace(&mut self.signal.is_watched, true)
    }

    /// After a read that found something: if the endpoint is empty now, its descriptor is not readable any more. Returns whether the
    /// descriptor has to become readable if the program stops reading.
    #[inline]
    pub(crate) fn settle_signal(&mut self) -> bool {
        let is_readable = self.is_readable();
        if !is_readable && self.signal.is_on() {
            self.signal.clear();
        }
        is_readable && !self.is_listed
    }

    /// Release the pool's oldest messages, and copy waiting ones into the pool.
    pub(crate) fn free(&mut self, count: usize) -> bool {
        let is_done = self.pool.free(count);
        self.take_waiting();
        is_done
    }

    /// Pass the bytes of the next message to `use_it`, and release it.
    pub(crate) fn take_with(&mut self, use_it: impl FnOnce(&[u8])) -> bool {
        let is_done = self.pool.take_with(use_it);
        self.take_waiting();
        is_done
    }

    /// A message of one frame, or from another endpoint of this process. Returns whether there was room.
    #[inline]
    pub(crate) fn on_short(&mut self, message: &[u8]) -> bool {
        let is_taken = self.waiting.is_empty() && !message.is_empty() && self.pool.push(message);
        self.received += u64::from(is_taken);
        is_taken
    }

    fn on_short_without_room<S>(&mut self, message: &Message<'_, S>) {
        if message.payload().is_empty() {
            return;
        }
        if !self.can_hold(message.payload().len()) {
            // A frame may be longer than the pool.
            self.refusals_to_send.push((message.from(), message.payload().len()));
            return;
        }
        self.abandon(message.from());
        self.take_waiting();
        if !self.on_short(message.payload()) {
            self.waiting.push_back(message.keep());
        }
    }

    /// A message that is not a short one with room.
    #[cold]
    pub(crate) fn on_special<S>(&mut self, message: &Message<'_, S>) {
        match message.handler() {
            SHORT => self.on_short_without_room(message),
            FIRST => self.on_first(message),
            MORE => self.on_more(message),
            TOO_LONG => self.refusals_received.push((message.from(), [message.word(0), message.word(1)])),
            // Sent by a node that does not speak this protocol.
            _ => {}
        }
    }

    /// Drop the incomplete message of this connection: its sender breaks the protocol by beginning another one. Returns whether there was one.
    fn abandon(&mut self, from: Connection) -> bool {
        let Some(Arriving::Into { token, .. }) = self.arriving.remove(&from) else { return false };
        self.pool.cancel(token);
        true
    }

    fn on_first<S>(&mut self, message: &Message<'_, S>) {
        let (from, len) = (message.from(), usize::try_from(message.word(0)).unwrap_or(usize::MAX));
        self.abandon(from);
        self.take_waiting();
        if !(self.waiting.is_empty() && self.begin(from, len, message.payload())) {
            self.waiting.push_back(message.keep());
        }
    }

    fn can_hold(&self, len: usize) -> bool {
        (1..=self.pool.size()).contains(&len)
    }

    /// An endpoint has connected. A DPID has one owner. So if another process had it, that one has died, even if this node has not noticed yet.
    pub(crate) fn on_accepted(&mut self, connection: Connection, peer: (Nid, Dpid), node: Name) {
        let is_replaced = |old: &mut (Connection, (Nid, Dpid), Name)| old.1 == peer && old.2 != node;
        let dead: Vec<Connection> = self.accepted.extract_if(.., is_replaced).map(|old| old.0).collect();
        if !dead.is_empty() {
            self.reports.push_back(ReadError::Lost { nid: peer.0, dpid: peer.1 });
            self.ended.extend(dead.iter().map(|&dead| (dead, None)));
            self.replaced.extend(dead);
        }
        self.accepted.push((connection, peer, node));
    }

    /// A connection ended. `lost` is its other end, if that died.
    pub(crate) fn on_ended(&mut self, connection: Connection, lost: Option<(Nid, Dpid)>) {
        let is_reported = take(&mut self.reported_lost, connection);
        // Already reported when its successor connected.
        if take(&mut self.replaced, connection) {
            return;
        }
        let of_accepted = self.accepted.extract_if(.., |old| old.0 == connection).map(|old| old.1).last();
        // If the other end died, that report covers its incomplete messages.
        self.ended.push((connection, of_accepted.filter(|_| lost.is_none() && !is_reported)));
        self.report_lost(lost.filter(|_| !is_reported));
    }

    /// Report that messages of this peer are lost, unless the program has not read the last such report yet.
    fn report_lost(&mut self, peer: Option<(Nid, Dpid)>) {
        let report = peer.map(|(nid, dpid)| ReadError::Lost { nid, dpid });
        self.reports.extend(report.filter(|report| !self.reports.contains(report)));
    }

    /// A message that this endpoint has written to that one was refused. Only the last refusal is reported, and only if no write returns the
    /// error first.
    pub(crate) fn report_too_long(&mut self, (nid, dpid): (Nid, Dpid), len: usize, most: usize) {
        self.forget_too_long();
        self.reports.push_back(ReadError::TooLong { nid, dpid, len, most });
    }

    /// A write has returned the error: do not report it again.
    pub(crate) fn forget_too_long(&mut self) {
        self.reports.retain(|report| !matches!(report, ReadError::TooLong { .. }));
    }

    /// A part of a message of this connection is missing: the connection has ended, or is about to. Report this once.
    fn report_gap(&mut self, from: Connection) {
        if let Some(ended) = self.ended.iter_mut().find(|old| old.0 == from) {
            let peer = ended.1.take();
            return self.report_lost(peer);
        }
        if !self.reported_lost.contains(&from) {
            self.reported_lost.push(from);
            self.report_lost(self.accepted.iter().find(|old| old.0 == from).map(|old| old.1));
        }
    }

    fn on_more<S>(&mut self, message: &Message<'_, S>) {
        let (from, piece) = (message.from(), message.payload());
        if self.arriving.contains_key(&from) {
            self.add(from, message.word(0), piece);
        } else if self.waiting.iter().any(|first| first.from() == from && first.handler() == FIRST) {
            self.waiting.push_back(message.keep());
        }
    }

    /// Begin a long message, if there is room for all of it. A message that is longer than the pool is refused, and its parts are dropped.
    /// Returns whether the part was handled.
    fn begin(&mut self, from: Connection, len: usize, piece: &[u8]) -> bool {
        self.abandon(from);
        if !self.can_hold(len) {
            self.set_arriving(from, Arriving::Nowhere { left: len.saturating_sub(piece.len()) });
            self.refusals_to_send.push((from, len));
            return true;
        }
        let Some(token) = self.pool.reserve(len) else { return false };
        self.arriving.insert(from, Arriving::Into { token, at: 0, len });
        self.add(from, 0, piece);
        true
    }

    /// Add the part of a long message at this offset. If the connection is ending, a part before it may be missing.
    fn add(&mut self, from: Connection, offset: u64, piece: &[u8]) {
        let next = match self.arriving.get(&from).copied() {
            None => return,
            Some(Arriving::Nowhere { left }) => Arriving::Nowhere { left: left.saturating_sub(piece.len()) },
            Some(Arriving::Into { at, .. }) if at as u64 != offset => {
                self.abandon(from);
                self.report_gap(from);
                return;
            }
            Some(Arriving::Into { token, at, len }) => {
                self.pool.write(token, at, piece);
                Arriving::Into { token, at: at + piece.len(), len }
            }
        };
        self.set_arriving(from, next);
    }

    fn set_arriving(&mut self, from: Connection, next: Arriving) {
        match next {
            Arriving::Into { token, at, len } if at >= len => {
                self.arriving.remove(&from);
                self.pool.complete(token);
                self.received += 1;
            }
            Arriving::Nowhere { left: 0 } => _ = self.arriving.remove(&from),
            more => _ = self.arriving.insert(from, more),
        }
    }

    /// The pool may have room again: copy waiting messages into it.
    pub(crate) fn take_waiting(&mut self) {
        while let Some(message) = self.waiting.front() {
            let (from, handler) = (message.from(), message.handler());
            // A part at the front belongs to no message: its first part was dropped with its connection.
            let is_part = handler == MORE;
            let len = len_of(message);
            if !is_part && self.can_hold(len) && !self.pool.has_room(len) {
                return;
            }
            let Some(message) = self.waiting.pop_front() else { return };
            match handler {
                FIRST => {
                    self.begin(from, len_of(&message), &message);
                    self.take_parts(from);
                }
                _ if is_part => {}
                _ => {
                    self.pool.push(&message);
                    self.received += 1;
                }
            }
        }
    }

    /// Add the waiting parts of a long message whose first part waited until now. Another message without room may be between them.
    fn take_parts(&mut self, from: Connection) {
        let mut others = VecDeque::with_capacity(self.waiting.len());
        for message in std::mem::take(&mut self.waiting) {
            if message.from() == from && message.handler() == MORE && self.arriving.contains_key(&from) {
                self.add(from, message.word(0), &message);
            } else {
                others.push_back(message);
            }
        }
        self.waiting = others;
    }

    /// Connections have ended, and everything that arrived on them was handled: drop their incomplete messages.
    pub(crate) fn drop_incomplete(&mut self) {
        for (from, peer) in std::mem::take(&mut self.ended) {
            if self.abandon(from) | self.drop_waiting_parts(from) {
                self.report_lost(peer);
            }
        }
        self.take_waiting();
    }

    /// Drop the waiting parts of this connection's incomplete messages. Returns whether there were any.
    fn drop_waiting_parts(&mut self, from: Connection) -> bool {
        // For each first part, how far the parts behind it reach without a gap, and the length of the whole.
        let mut reach: Vec<(usize, usize)> = vec![];
        for message in self.waiting.iter().filter(|message| message.from() == from) {
            match (message.handler(), reach.last_mut()) {
                (FIRST, _) => reach.push((message.len(), len_of(message))),
                (MORE, Some((at, _))) if *at as u64 == message.word(0) => *at += message.len(),
                _ => {}
            }
        }
        let (mut firsts, before) = (0, self.waiting.len());
        self.waiting.retain(|message| {
            let is_part = message.from() == from && matches!(message.handler(), FIRST | MORE);
            firsts += usize::from(is_part && message.handler() == FIRST);
            !is_part || reach.get(firsts.wrapping_sub(1)).is_some_and(|(at, len)| at >= len)
        });
        self.waiting.len() < before
    }
}

/// Remove this connection from a list. Returns whether it was there.
fn take(list: &mut Vec<Connection>, connection: Connection) -> bool {
    list.iter().position(|each| *each == connection).map(|at| list.swap_remove(at)).is_some()
}

/// The length of a short message, or of the long message that this part begins.
fn len_of(message: &OwnedMessage) -> usize {
    if message.handler() == FIRST { usize::try_from(message.word(0)).unwrap_or(usize::MAX) } else { message.len() }
}
