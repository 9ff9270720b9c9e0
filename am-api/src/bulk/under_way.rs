//! Transfers under way: outgoing ones and arriving ones.

use std::collections::VecDeque;
use std::rc::Weak;

use am_proto::{Delivery, Fate, FlowId};
use am_ring::Frame;
use am_wire::bulk::LENT_BYTES;
use am_wire::long::EAGER;
use am_wire::{Buffer, Class, WORD_BYTES};

use super::extent::{Extent, Key};
use super::lent::Lease;
use super::memory::PAYLOAD_AT;
use super::regions::Memory;
use super::{Completion, TransferKind};

/// The source of a transfer's bytes.
pub(crate) enum Source {
    /// Lent by the caller of `put`.
    Lent(Box<dyn AsRef<[u8]>>),
    /// A region of this side, which a peer gets.
    Region(Memory),
    /// A long message.
    Message(SentMessage),
}

/// A long message of this side, until its receiver has all of it.
pub(crate) struct SentMessage {
    pub(crate) flow: FlowId,
    pub(crate) class: Class,
    pub(crate) handler: u8,
    pub(crate) words: usize,
    /// It has the words, and the payload from [`PAYLOAD_AT`] on, except what is shared.
    pub(crate) frame: Frame,
    /// The rest of the payload, if the program shares it.
    pub(crate) shared: Option<Box<dyn AsRef<[u8]>>>,
}

impl SentMessage {
    /// The bytes of the payload that the frame has.
    fn own(&self) -> &[u8] {
        self.frame.bytes().get(PAYLOAD_AT..).unwrap_or_default()
    }

    /// The bytes that lie together from this one of the payload on.
    fn rest(&self, at: usize) -> &[u8] {
        let own = self.own();
        match (&self.shared, at.checked_sub(own.len())) {
            (Some(data), Some(at)) => (**data).as_ref().get(at..).unwrap_or_default(),
            _ => own.get(at..).unwrap_or_default(),
        }
    }

    /// Copy the bytes from this one of the payload on. They are 0 if their owner has shortened them.
    pub(crate) fn copy_to(&self, at: usize, place: &mut [u8]) {
        let own = self.own().len().saturating_sub(at).min(place.len());
        let (first, second) = place.split_at_mut(own);
        first.copy_from_slice(&self.rest(at)[..own]);
        if !second.is_empty() {
            copy_or_clear(second, self.rest(at + own));
        }
    }

    /// The message as a returned one.
    pub(super) fn to_delivery(&self) -> Delivery<Frame> {
        let &SentMessage { flow, class, handler, words, .. } = self;
        Delivery::returned(flow, class, handler, words, PAYLOAD_AT - words * WORD_BYTES, self.frame.share())
    }
}

/// Copy the start of these bytes. They are 0 if their owner has shortened them.
fn copy_or_clear(place: &mut [u8], bytes: &[u8]) {
    match bytes.get(..place.len()) {
        Some(bytes) => place.copy_from_slice(bytes),
        None => place.fill(0),
    }
}

/// A transfer whose bytes leave here: a put of this side, or a get of a peer.
pub(super) struct OutgoingTransfer {
    /// While the peer may read its bytes from this process's memory. It ends before the memory is given up.
    pub(super) lease: Option<Lease>,
    pub(super) completion: Completion,
    pub(super) source: Source,
    /// The start of the transfer in the source.
    pub(super) from: u64,
    /// The number of bytes that were put into segments.
    pub(super) at: u64,
    /// All segments were sent. A transfer of no bytes has one segment too.
    pub(super) is_sent: bool,
    /// The first byte of the segments that returned undelivered. `u64::MAX` if none did.
    pub(super) lost: u64,
    /// The most credit that the connection has had.
    pub(super) most_credit: usize,
    /// No more bytes are to be sent.
    pub(super) is_cancelled: bool,
    /// Pieces that were lent and that the peer cannot read: they are sent again, in frames.
    pub(super) again: VecDeque<(u64, u64)>,
    /// Bytes up to this one may be sent now: all of a transfer, and of a message what the receiver has memory for.
    pub(super) until: u64,
}

impl OutgoingTransfer {
    pub(super) fn new(completion: Completion, source: Source, from: u64) -> Self {
        OutgoingTransfer {
            lease: None,
            completion,
            source,
            from,
            at: 0,
            is_sent: false,
            lost: u64::MAX,
            most_credit: 1,
            is_cancelled: false,
            again: VecDeque::new(),
            until: completion.length,
        }
    }

    /// A long message whose head, with its first `at` bytes, was sent.
    pub(super) fn message(completion: Completion, message: SentMessage, at: u64) -> Self {
        let until = u64::from(EAGER).max(at).min(completion.length);
        let transfer = OutgoingTransfer::new(completion, Source::Message(message), 0);
        OutgoingTransfer { at, until, is_sent: at == completion.length, ..transfer }
    }

    pub(super) fn is_message(&self) -> bool {
        matches!(self.source, Source::Message(_))
    }

    /// The receiver of a message asks for its bytes up to `until`; in a later attempt from `at` on.
    pub(super) fn ask_for(&mut self, attempt: u32, at: u64, until: u64) {
        // The segments of a message carry the attempt instead of a place in a region.
        let present = &mut self.completion.offset;
        if u64::from(attempt) > *present && at <= self.completion.length {
            (*present, self.at) = (attempt.into(), at);
            self.again.clear();
        }
        if u64::from(attempt) == *present {
            self.until = self.until.max(until).min(self.completion.length);
            self.is_sent = self.at == self.completion.length && self.again.is_empty();
        }
    }

    /// The peer cannot read the piece from this byte on, which was lent.
    pub(super) fn send_again(&mut self, from: u64) {
        let piece = (from, (from + LENT_BYTES).min(self.at));
        if self.lease.is_some() && from < self.at && !self.again.contains(&piece) {
            self.again.push_back(piece);
            self.is_sent = false;
        }
    }

    /// Whether it waits for the receiver, which has to answer in the end.
    pub(super) fn awaits_peer(&self) -> bool {
        self.is_sent || (self.again.is_empty() && self.at >= self.until && self.until < self.completion.length)
    }

    /// Whether a handler of the receiver may have got the message. It runs only once all bytes are there.
    pub(super) fn fate(&self) -> Fate {
        if self.is_sent && self.lost == u64::MAX { Fate::Unknown } else { Fate::NotDelivered }
    }

    /// Everything before this byte has arrived at the peer. Valid once all undelivered segments have returned.
    pub(super) fn arrived(&self) -> u64 {
        self.again.iter().map(|&(from, _)| from).fold(self.lost.min(self.at), u64::min)
    }

    /// Make the next segment the last one, without data. Returns whether it is still to be sent.
    pub(super) fn cancel(&mut self) -> bool {
        self.is_cancelled |= !self.is_sent;
        self.is_cancelled
    }

    /// Pass the bytes from this one on to `take`. They are empty if their owner has shortened them.
    #[inline]
    pub(super) fn with_rest(&self, at: u64, take: impl FnOnce(&[u8])) {
        let at = (self.from + at) as usize;
        match &self.source {
            Source::Lent(data) => take((**data).as_ref().get(at..).unwrap_or_default()),
            Source::Message(message) => take(message.rest(at)),
            Source::Region(memory) => {
                take(memory.try_borrow().as_deref().map_or(&[], |bytes| bytes.get(at..).unwrap_or_default()));
            }
        }
    }

    /// Copy the bytes from this one on. They are 0 if their owner has shortened them.
    #[inline]
    pub(super) fn copy_to(&self, at: u64, place: &mut [u8]) {
        match &self.source {
            Source::Message(message) => message.copy_to(at as usize, place),
            _ => self.with_rest(at, |rest| copy_or_clear(place, rest)),
        }
    }

    /// Whether there are bytes to lend.
    pub(super) fn has_to_lend(&self) -> bool {
        let length = self.completion.length;
        let lie_together = match &self.source {
            Source::Message(message) if message.shared.is_some() => self.at >= message.own().len() as u64,
            _ => true,
        };
        !self.is_cancelled && self.again.is_empty() && self.at < length && lie_together
    }

    /// The lease on its bytes. `None` if their owner has shortened them.
    pub(super) fn lease(&mut self) -> Option<&Lease> {
        if self.lease.is_none() {
            let (Completion { transfer, length, .. }, at) = (self.completion, self.at);
            let mut first = None;
            self.with_rest(at, |rest| {
                let has_all = rest.len() as u64 >= length - at;
                first = has_all.then(|| (rest.as_ptr().addr() as u64).wrapping_sub(at));
            });
            self.lease = Some(Lease::new(transfer, first?));
        }
        self.lease.as_ref()
    }

    pub(super) fn is_readable(&self) -> bool {
        match &self.source {
            Source::Region(memory) => self.is_cancelled || memory.try_borrow().is_ok(),
            Source::Lent(_) | Source::Message(_) => true,
        }
    }
}

/// A transfer whose bytes arrive here: a get of this node, or an incomplete put of a peer.
pub(super) struct Arriving {
    pub(super) completion: Completion,
    pub(super) extent: Extent,
    /// Where the bytes of a get go. Each segment of a put names its place.
    pub(super) memory: Option<Memory>,
    pub(super) is_cancelled: bool,
    /// Keeps the region in use until a put is complete: the region counts these handles.
    pub(super) _open: Weak<()>,
}

impl Arriving {
    pub(super) fn key(&self) -> Key {
        (self.completion.flow, self.completion.transfer)
    }

    pub(super) fn is_get(&self) -> bool {
        self.completion.kind == TransferKind::Get
    }
}
