//! From above: sending messages, taking and releasing those that arrived.

use am_wire::{Buffer, Class, Kind, Seq, frame};

use crate::counters::Counters;
use crate::flow::{FlowRecord, Phase, Route};
use crate::node::{Core, Receiving};
use crate::output::{Delivery, ReturnReason};
use crate::slots::{FOR_SEGMENTS, Slots};
use crate::{EndpointId, FlowId};

/// Why a message was not admitted. Nothing was sent or kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The receiver has not granted more credit yet.
    #[error("no credit now: the receiver has not made room yet; poll, then try again")]
    NoCredit,
    /// All of this node's send frames are in use.
    #[error("all {0} send frames of this node hold unacknowledged messages; poll, then try again")]
    Full(usize),
    /// The flow is in set-up.
    #[error("the flow is not open yet; poll until it is")]
    Connecting,
    /// The flow ended.
    #[error("the flow has ended: {0}; connect again")]
    Ended(ReturnReason),
    /// The peer refused the flow.
    #[error("the peer refused the flow: {0:?}")]
    Refused(am_wire::control::Refusal),
    /// The flow was closed on this side.
    #[error("this flow was closed on this node; connect again")]
    Unknown,
    /// The message does not fit a frame.
    #[error("{needs} bytes of words and payload, but this flow carries at most {max} in one message")]
    TooLarge {
        /// Bytes of words (8 each) and payload.
        needs: usize,
        /// The most that a frame of the flow holds.
        max: usize,
    },
}

impl<B: Buffer> Core<B> {
    /// From above: send a message: a request, a reply, or, with `Put` and `Get`, a segment of a bulk transfer, which is
    /// admitted, kept and sent again like a request, and gives no right to reply. `write` writes its body into `frame`:
    /// `body` bytes, of which the first `words` times 8 are the words, the rest payload. A reply uses up the right to
    /// reply that came with its request.
    ///
    /// # Errors
    /// The message was not admitted. The error returns the frame, and the right to reply stays. A reply on an open flow
    /// fails only if it is too large.
    #[inline(always)]
    #[expect(clippy::too_many_arguments, reason = "a message has that many parts")]
    pub fn send(
        &mut self,
        flow: FlowId,
        kind: impl Into<Kind> + Into<Class> + Copy,
        handler: u8,
        words: u8,
        mut frame: B,
        body: usize,
        write: impl FnOnce(&mut [u8]),
    ) -> Result<(), (SendError, B)> {
        let (class, kind): (Class, Kind) = (kind.into(), kind.into());
        let Some(record) = self.flows.get_mut(flow) else {
            return Err((self.unknown(flow), frame));
        };
        if let Err(error) = record.admit(class, kind, body, &mut self.slots, self.receiving.replies_owed) {
            return Err((error, frame));
        }
        let framing = record.route.framing;
        let Some(place) = frame.space().and_then(|space| frame::body(space, framing, body).ok()) else {
            return Err((SendError::TooLarge { needs: body, max: 0 }, frame));
        };
        let Some(link) = self.slots.free.pop() else { return Err((SendError::Full(self.slots.slots.len()), frame)) };
        // The header is written when the frame leaves: the message may leave in another frame.
        write(place);
        frame.set_len(frame::length(framing, body));
        let slot = &mut self.slots[link];
        (slot.frame, slot.flow, slot.class, slot.kind) = (Some(frame), flow.flow, class, kind);
        (slot.handler, slot.words, slot.body, slot.times_sent, slot.timeouts) = (handler, words, body as u32, 0, 0);
        slot.count = 1;
        record.send[class].push(&mut self.slots, link);
        note_admitted(class, &mut self.counters, &mut self.receiving);
        Ok(())
    }

    /// Getter: whether a message waits to leave, to which [`append`](Self::append) may add another one.
    #[inline]
    pub fn has_ready(&self) -> bool {
        !self.slots.ready.is_empty()
    }

    /// From above: as [`send`](Self::send), if the message fits the frame of the last one of its flow and class, and that has not left yet.
    /// Returns the place of its body, to be written now. If there is none, nothing has happened: `send` it.
    #[inline(always)]
    pub fn append(&mut self, flow: FlowId, class: Class, handler: u8, words: u8, body: usize) -> Option<&mut [u8]> {
        let below = self.config.coalesce_below;
        let record = self.flows.get_mut(flow).filter(|record| record.phase == Phase::Open)?;
        let Route { framing, max_body, .. } = record.route;
        let queue = &mut record.send[class];
        let slot = queue.last_to_leave(&mut self.slots).filter(|slot| slot.has_small(below) && body < below)?;
        let place = slot.append(framing, max_body as usize, handler, words, body)?;
        queue.note_appended();
        note_admitted(class, &mut self.counters, &mut self.receiving);
        Some(place)
    }

    /// Why a flow is not known: it ended, or this side closed it.
    #[cold]
    fn unknown(&self, flow: FlowId) -> SendError {
        self.flows.why_ended(flow).map_or(SendError::Unknown, SendError::Ended)
    }

    /// From above: give up the right to reply to a request of this flow.
    #[inline]
    pub fn decline_reply(&mut self, _flow: FlowId) {
        self.receiving.note_answered();
    }

    /// From above: this many delivered messages have been handled. Their credits go back to the sender: with the next frame, or
    /// at once when many have gathered.
    #[inline(never)]
    pub fn release(&mut self, flow: FlowId, class: Class, count: u16) {
        // An active flow is processed later anyway if messages have arrived since: nothing else is to be done then.
        let usual = self.flows.active(flow.flow).filter(|record| record.is_dirty && record.id.nonce == flow.nonce);
        if !usual.is_some_and(|record| record.phase == Phase::Open && record.receive[class].release_all(count)) {
            self.release_any(flow, class, count);
        }
    }

    #[inline(never)]
    fn release_any(&mut self, flow: FlowId, class: Class, count: u16) {
        let Some(record) = self.flows.get_mut(flow).filter(|record| record.phase == Phase::Open) else { return };
        let queue = &mut record.receive[class];
        let withheld = queue.release(count);
        if withheld > 0 {
            self.receiving.budget.release(withheld);
        }
        if queue.is_urgent() {
            record.queue_ack(&mut self.sending.acks_due);
        }
        record.mark_dirty(&mut self.deferred.dirty);
    }

    /// Getter: whether the peer of an open flow may send a message that has not arrived yet.
    pub fn has_credit_left(&self, flow: FlowId, class: Class) -> bool {
        let record = self.flows.get(flow).filter(|record| record.phase == Phase::Open);
        record.is_none_or(|record| record.receive[class].has_credit_left())
    }

    /// Output: the next message for an endpoint, replies first. Requests wait until a slot can be set aside for their
    /// reply.
    pub fn poll_deliver(&mut self, endpoint: EndpointId) -> Option<Delivery<B>> {
        let first = self.poll_reply(endpoint).or_else(|| self.poll_request(endpoint))?;
        Some(self.only_first(endpoint, first))
    }

    /// Output: the next reply for an endpoint, with those [behind it](Delivery::behind) in its frame. Call
    /// [`next_in_frame`](Delivery::next_in_frame) for each of these, or [`keep_behind`](Self::keep_behind).
    #[inline]
    pub fn poll_reply(&mut self, endpoint: EndpointId) -> Option<Delivery<B>> {
        self.endpoints.pop(endpoint, Class::Reply)
    }

    /// Output: the next request for an endpoint, with those [behind it](Delivery::behind) in its frame. `None` also if no slot
    /// can be set aside for its reply. Those behind it have no right to reply yet: call [`next_request`](Self::next_request) for each,
    /// or [`keep_behind`](Self::keep_behind).
    #[inline]
    pub fn poll_request(&mut self, endpoint: EndpointId) -> Option<Delivery<B>> {
        if !self.has_slot_for_reply() {
            return None;
        }
        let request = self.endpoints.pop(endpoint, Class::Request)?;
        self.receiving.replies_owed += 1;
        Some(request)
    }

    /// Output: go on to the request behind this one in its frame. `false`, with nothing changed, if there is none, or no slot can be
    /// set aside for its reply.
    #[inline]
    pub fn next_request(&mut self, request: &mut Delivery<B>) -> bool {
        let is_next = self.has_slot_for_reply() && request.next_in_frame();
        self.receiving.replies_owed += usize::from(is_next);
        is_next
    }

    #[inline]
    fn has_slot_for_reply(&self) -> bool {
        self.slots.free.len() > self.receiving.replies_owed + FOR_SEGMENTS
    }

    /// From above: of the messages behind the first one in a frame, this many were handled, and `last` is the last of them. The others
    /// are the next ones of their endpoint again.
    pub fn keep_behind(&mut self, endpoint: EndpointId, handled: u16, last: &mut Delivery<B>) {
        let others = last.next_in_frame().then(|| Delivery { behind: last.behind, ..last.share() });
        last.behind = 0;
        self.endpoints.put_back(endpoint, handled, others);
    }

    /// As [`keep_behind`](Self::keep_behind), before the message is handled. Returns it alone.
    #[inline]
    pub fn only_first(&mut self, endpoint: EndpointId, mut messages: Delivery<B>) -> Delivery<B> {
        if messages.behind == 0 {
            return messages;
        }
        let first = messages.share();
        self.keep_behind(endpoint, 0, &mut messages);
        first
    }

    /// Output: the next message for an endpoint that replies to none, with those behind it in its frame: no slot is set aside.
    #[inline]
    pub fn poll_one_way(&mut self, endpoint: EndpointId) -> Option<Delivery<B>> {
        self.endpoints.pop(endpoint, Class::Request).or_else(|| self.poll_reply(endpoint))
    }

    /// From above: a request that has no right to reply gets it. [`free_slots`](Self::free_slots) has to have one.
    /// [`decline_reply`](Self::decline_reply) gives the right up.
    pub fn keep_right_to_reply(&mut self) {
        self.receiving.replies_owed += 1;
    }

    /// Output: the next segment of a bulk transfer for an endpoint. Call [`Core::release`] for it, as for a request.
    pub fn poll_bulk(&mut self, endpoint: EndpointId) -> Option<Delivery<B>> {
        self.poll_bulk_if(endpoint, |_| true)
    }

    /// The same, if the layer above wants it now. It stays the next one otherwise.
    pub fn poll_bulk_if(
        &mut self,
        endpoint: EndpointId,
        wanted: impl FnOnce(&Delivery<B>) -> bool,
    ) -> Option<Delivery<B>> {
        self.endpoints.pop_bulk(endpoint, wanted)
    }

    /// Getter: whether any endpoint has segments of bulk transfers.
    #[inline]
    pub fn has_bulk(&self) -> bool {
        self.endpoints.bulk_count > 0
    }

    /// Getter: whether this endpoint has segments of bulk transfers from this flow, which may have ended.
    pub fn has_bulk_of(&self, endpoint: EndpointId, flow: FlowId) -> bool {
        self.endpoints.has_bulk_of(endpoint, flow)
    }

    /// Getter: delivered requests whose right to reply is neither used nor given up.
    #[inline]
    pub fn replies_owed(&self) -> usize {
        self.receiving.replies_owed
    }

    /// Getter: how many more requests could be sent, if credit allows.
    pub fn free_slots(&self) -> usize {
        self.slots.free.len().saturating_sub(self.receiving.replies_owed + FOR_SEGMENTS)
    }

    /// Getter: how many messages of a flow and class are in the reorder buffer.
    pub fn held_messages(&self, flow: FlowId, class: Class) -> usize {
        self.endpoints.buffered_seqs(flow.flow, class, Seq(0)).len()
    }

    /// Getter: whether the reorder buffer has any message.
    pub fn has_held(&self) -> bool {
        !self.endpoints.reorder_buffer.is_empty()
    }

    /// Getter: whether any endpoint has messages to deliver.
    #[inline]
    pub fn has_deliveries(&self) -> bool {
        self.endpoints.waiting_count > 0
    }

    /// Getter: whether this endpoint has messages, or segments of bulk transfers, to deliver.
    pub fn has_deliveries_to(&mut self, endpoint: EndpointId) -> bool {
        self.endpoints.get(endpoint).is_some_and(|endpoint| endpoint.waiting() > 0)
    }
}

/// Count a message that was admitted. A reply uses up a right to reply.
#[inline(always)]
fn note_admitted(class: Class, counters: &mut Counters, receiving: &mut Receiving) {
    match class {
        Class::Request => counters.requests_sent += 1,
        Class::Reply => {
            counters.replies_sent += 1;
            receiving.note_answered();
        }
    }
}

impl Receiving {
    /// A right to reply was used, or given up.
    #[inline]
    fn note_answered(&mut self) {
        self.replies_owed = self.replies_owed.saturating_sub(1);
    }
}

impl FlowRecord {
    /// Whether a message with a body of this length is admitted now.
    #[inline]
    fn admit<B>(
        &mut self,
        class: Class,
        kind: Kind,
        body: usize,
        slots: &mut Slots<B>,
        replies_owed: usize,
    ) -> Result<(), SendError> {
        match self.phase {
            Phase::Open => {}
            Phase::Connecting(_) => return Err(SendError::Connecting),
            Phase::Refused(why) => return Err(SendError::Refused(why)),
            Phase::Ended(reason) => return Err(SendError::Ended(reason)),
            Phase::Closing => return Err(SendError::Unknown),
        }
        let max_body = self.route.max_body as usize;
        if body > max_body {
            return Err(SendError::TooLarge { needs: body, max: max_body });
        }
        if class == Class::Reply {
            return Ok(());
        }
        if self.send[class].credit() == 0 {
            // The last piggybacked acknowledgement may carry credit, and is not processed yet.
            let piggyback = self.pending_piggyback.take().ok_or(SendError::NoCredit)?;
            self.on_piggyback(piggyback, slots);
            if self.send[class].credit() == 0 {
                return Err(SendError::NoCredit);
            }
        }
        // One slot always stays free for a reply. Otherwise two nodes full of each other's requests would wait for each
        // other for ever. Others stay free for segments.
        let is_segment = matches!(kind, Kind::Put | Kind::Get);
        let kept_free = if is_segment { replies_owed } else { replies_owed.max(1) + FOR_SEGMENTS };
        if slots.free.len() <= kept_free { Err(SendError::Full(slots.slots.len())) } else { Ok(()) }
    }
}
