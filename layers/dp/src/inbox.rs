//! The receiving side of an endpoint: what arrives goes into its pool; what finds no room waits in the frames in which it came.
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
/// The first part of a longer one. Its word is the length of the whole.
pub(crate) const FIRST: HandlerId = HandlerId(1);
/// A further part. Its word is its offset in the whole.
pub(crate) const MORE: HandlerId = HandlerId(2);
/// The answer to a message that the pool can never hold. Its words are the message's length, and the most that the pool can hold.
pub(crate) const TOO_LONG: HandlerId = HandlerId(3);

/// A long message on its way.
#[derive(Clone, Copy, Debug)]
enum Arriving {
    /// Into the pool.
    Into { token: TokenId, at: usize, len: usize },
    /// It is too long for the pool: the bytes that are left to drop.
    Nowhere { left: usize },
}

/// See the module's page.
pub(crate) struct Inbox<M> {
    /// Of the endpoint's [`PointId`](crate::point::PointId).
    pub(crate) serial: u32,
    pub(crate) pool: Pool<M>,
    waiting: VecDeque<OwnedMessage>,
    arriving: HashMap<Connection, Arriving>,
    /// What the next reads report: edges into this endpoint, and the one out of it, whose other end died; a message that was too long.
    pub(crate) reports: VecDeque<ReadError>,
    /// Connections that ended; what they left incomplete goes when all that arrived was handled.
    ended: Vec<(Connection, Option<(Nid, Dpid)>)>,
    /// Connections of others to this endpoint, and whose they are.
    accepted: Vec<(Connection, (Nid, Dpid), Name)>,
    /// Those whose DPID another process has now, until the node notices that they ended.
    replaced: Vec<Connection>,
    /// Those that have not ended yet, and of which the program knows that messages are lost.
    told: Vec<Connection>,
    /// Messages of this endpoint that their receivers can never hold: by which connection, the length, and the most that they can hold.
    pub(crate) refusals: Vec<(Connection, [u64; 2])>,
    /// Senders of messages that this endpoint can never hold, and the lengths of these.
    pub(crate) refused: Vec<(Connection, usize)>,
    pub(crate) signal: Signal,
    /// It is in the list of arrivals, or need not be.
    pub(crate) is_listed: bool,
    /// Messages received.
    pub(crate) received: u64,
}

impl<M: AsRef<[u8]> + AsMut<[u8]>> Inbox<M> {
    pub(crate) fn new(serial: u32, memory: M, signal: Signal) -> Self {
        let (waiting, arriving, reports, ended) = Default::default();
        let (refusals, refused, accepted, replaced, told) = Default::default();
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
            told,
            refusals,
            refused,
            signal,
            is_listed,
            received,
        }
    }

    #[inline]
    pub(crate) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether connections ended, and may have left something incomplete.
    pub(crate) fn has_ended(&self) -> bool {
        !self.ended.is_empty()
    }

    /// Whether somebody has to be told that a message was too long.
    #[inline]
    pub(crate) fn is_special(&self) -> bool {
        !(self.refusals.is_empty() && self.refused.is_empty())
    }

    /// Whether a call of `read` would return something.
    #[inline]
    pub(crate) fn is_readable(&self) -> bool {
        self.pool.has_unread() || self.has_report()
    }

    /// Whether the next `read` reports the end of an edge, or a message that was too long: after all messages that arrived.
    #[inline]
    pub(crate) fn has_report(&self) -> bool {
        !self.reports.is_empty() && !self.pool.has_unread() && self.waiting.is_empty()
    }

    /// The arrival was looked at: where wanted, the descriptor says now that there is something to read. Returns whether the byte has to be
    /// watched from now on.
    pub(crate) fn take_arrival(&mut self, is_signal_wanted: bool) -> bool {
        self.is_listed = false;
        if is_signal_wanted && self.is_readable() {
            self.signal.set();
        }
        self.signal.is_on() && !std::mem::replace(&mut self.signal.is_watched, true)
    }

    /// After a read that found something: an empty endpoint is not readable any more. Returns whether it is to become readable, if the
    /// program stops reading.
    #[inline]
    pub(crate) fn settle_signal(&mut self) -> bool {
        let is_readable = self.is_readable();
        if !is_readable && self.signal.is_on() {
            self.signal.clear();
        }
        is_readable && !self.is_listed
    }

    /// The pool's oldest messages go back; what waited for room comes in.
    pub(crate) fn free(&mut self, count: usize) -> bool {
        let is_done = self.pool.free(count);
        self.take_waiting();
        is_done
    }

    /// The next message: its bytes are used, and it goes back.
    pub(crate) fn take_with(&mut self, use_it: impl FnOnce(&[u8])) -> bool {
        let is_done = self.pool.take_with(use_it);
        self.take_waiting();
        is_done
    }

    /// A message of one frame, or of another endpoint of this process. Returns whether there was room.
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
            // Frames may be longer than pools.
            self.refused.push((message.from(), message.payload().len()));
            return;
        }
        self.abandon(message.from());
        self.take_waiting();
        if !self.on_short(message.payload()) {
            self.waiting.push_back(message.keep());
        }
    }

    /// A message of any other kind than a short one with room.
    #[cold]
    pub(crate) fn on_special<S>(&mut self, message: &Message<'_, S>) {
        match message.handler() {
            SHORT => self.on_short_without_room(message),
            FIRST => self.on_first(message),
            MORE => self.on_more(message),
            TOO_LONG => self.refusals.push((message.from(), [message.word(0), message.word(1)])),
            // Of nodes that do not speak this protocol.
            _ => {}
        }
    }

    /// The sender begins another message: it does not keep to the order, and what it left incomplete goes.
    /// Returns whether there was something.
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

    /// An endpoint has connected. A DPID has one owner: if another process had it, that has died, which may not be noticed yet.
    pub(crate) fn on_accepted(&mut self, connection: Connection, peer: (Nid, Dpid), node: Name) {
        let heirs = |old: &mut (Connection, (Nid, Dpid), Name)| old.1 == peer && old.2 != node;
        let dead: Vec<Connection> = self.accepted.extract_if(.., heirs).map(|old| old.0).collect();
        if !dead.is_empty() {
            self.reports.push_back(ReadError::Lost { nid: peer.0, dpid: peer.1 });
            self.ended.extend(dead.iter().map(|&dead| (dead, None)));
            self.replaced.extend(dead);
        }
        self.accepted.push((connection, peer, node));
    }

    /// A connection ended; by the death of its other end, if that is given.
    pub(crate) fn on_ended(&mut self, connection: Connection, lost: Option<(Nid, Dpid)>) {
        let is_told = take(&mut self.told, connection);
        // Already reported when its successor connected.
        if take(&mut self.replaced, connection) {
            return;
        }
        let of_accepted = self.accepted.extract_if(.., |old| old.0 == connection).map(|old| old.1).last();
        // What it leaves incomplete is reported with its death.
        self.ended.push((connection, of_accepted.filter(|_| lost.is_none() && !is_told)));
        self.report_lost(lost.filter(|_| !is_told));
    }

    /// Messages of this endpoint are lost. It is reported once, until the program has read that.
    fn report_lost(&mut self, peer: Option<(Nid, Dpid)>) {
        let report = peer.map(|(nid, dpid)| ReadError::Lost { nid, dpid });
        self.reports.extend(report.filter(|report| !self.reports.contains(report)));
    }

    /// A message that this endpoint has written to that one came to nothing. The last one is reported, unless a write says it before.
    pub(crate) fn report_too_long(&mut self, (nid, dpid): (Nid, Dpid), len: usize, most: usize) {
        self.forget_too_long();
        self.reports.push_back(ReadError::TooLong { nid, dpid, len, most });
    }

    /// The program knows of it.
    pub(crate) fn forget_too_long(&mut self) {
        self.reports.retain(|report| !matches!(report, ReadError::TooLong { .. }));
    }

    /// A message of this connection is lost: it has ended, or is about to. That is said once.
    fn report_gap(&mut self, from: Connection) {
        if let Some(ended) = self.ended.iter_mut().find(|old| old.0 == from) {
            let peer = ended.1.take();
            return self.report_lost(peer);
        }
        if !self.told.contains(&from) {
            self.told.push(from);
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

    /// A long message begins, if there is room for the whole. For one that is too long there never will be: its parts are dropped.
    fn begin(&mut self, from: Connection, len: usize, piece: &[u8]) -> bool {
        self.abandon(from);
        if !self.can_hold(len) {
            self.set_arriving(from, Arriving::Nowhere { left: len.saturating_sub(piece.len()) });
            self.refused.push((from, len));
            return true;
        }
        let Some(token) = self.pool.reserve(len) else { return false };
        self.arriving.insert(from, Arriving::Into { token, at: 0, len });
        self.add(from, 0, piece);
        true
    }

    /// A part of a long message, which belongs at this offset. Where a connection ends, a part may be missing before it.
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

    /// The pool may have room again: put in what waits.
    pub(crate) fn take_waiting(&mut self) {
        while let Some(message) = self.waiting.front() {
            let (from, handler) = (message.from(), message.handler());
            // A part is left only if its first one was dropped with its connection.
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

    /// The further parts of a long message whose first part waited until now: they may stand behind another one without room.
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

    /// Connections have ended, and all that arrived on them was handled: what is incomplete stays so.
    pub(crate) fn drop_incomplete(&mut self) {
        for (from, peer) in std::mem::take(&mut self.ended) {
            if self.abandon(from) | self.drop_waiting_parts(from) {
                self.report_lost(peer);
            }
        }
        self.take_waiting();
    }

    /// Of the long messages of this connection that wait, keep those that are complete. Returns whether others were there.
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

/// The length of the message that this is, or that it begins.
fn len_of(message: &OwnedMessage) -> usize {
    if message.handler() == FIRST { usize::try_from(message.word(0)).unwrap_or(usize::MAX) } else { message.len() }
}
