//! The state that a node and its endpoints share, and how a message is written into its frame. The state is borrowed only
//! during a call, and never while a handler runs.

use std::cell::Cell;
use std::collections::HashSet;
use std::io;
use std::thread;
use std::time::Duration;

use am_engine::{Clock, Engine, PollScope};
use am_proto::{Core, Delivery, EndpointId, Event, FlowEnd, FlowId, FlowState, SendError, Time};
use am_ring::{Frame, Lease, LeaseTable, Owned, ProcessRc, ProcessWeak, RefMut};
use am_transport::Transport;
use am_wire::control::Control;
use am_wire::long::Head;
use am_wire::{Buffer, Class, Framing, HEAD_WORDS, MAX_WORDS, WORD_BYTES};

use crate::bulk::{Bulk, Destination, PAYLOAD_AT, SentMessage};
use crate::events::EventQueues;
use crate::group_place::Membership;
use crate::log::{self, Log};
use crate::members::MemberQueues;
use crate::payload::Payload;
use crate::peers_file::Entry;
use crate::waker::Waiter;
use crate::{HandlerId, NotOpen, RequestError};

pub(crate) type NodeRc = ProcessRc<NodeState>;
/// For tokens and prepared messages, which must not keep their node alive.
pub(crate) type NodeWeak = ProcessWeak<NodeState>;

/// Borrow the node in a `Drop`. In a forked child there is nothing to do, because the node is the parent's. This crate never drops a part
/// of a node while it borrows the node, so any other failure is a bug. While a panic unwinds, a second panic would abort.
#[inline(always)]
pub(crate) fn borrow_to_drop(node: &NodeRc) -> Option<RefMut<'_, NodeState>> {
    node.try_borrow_mut().or_else(|| is_borrowed(node))
}

#[cold]
fn is_borrowed<T>(node: &NodeRc) -> Option<T> {
    assert!(thread::panicking() || !node.is_here(), "dropped while its node is borrowed");
    None
}

/// The longest sleep while the program keeps messages, if the process has no descriptor left for a waker: a thread that drops a message
/// cannot wake this one then.
const MAX_SLEEP_WITH_KEPT: Duration = Duration::from_millis(1);

/// The longest sleep while a long message waits for memory, which no frame announces.
const MAX_SLEEP_WITHOUT_MEMORY: Duration = Duration::from_millis(10);

/// Its alignment and `repr(C)` fix the layout: it depends neither on earlier allocations nor on the sizes of the fields.
#[repr(C, align(64))]
pub(crate) struct NodeState {
    pub(crate) engine: Engine,
    pub(crate) transport: Owned<Box<dyn Transport>>,
    pub(crate) clock: Clock,
    /// A frame for each token, and one for the next request.
    pub(crate) for_replies: Vec<Frame>,
    /// Set once the program waits in a loop of its own, has a waker or keeps a message.
    pub(crate) waiter: Option<Box<Waiter>>,
    pub(crate) events: EventQueues,
    pub(crate) members: MemberQueues,
    /// The credits of messages that handlers kept.
    pub(crate) kept: KeptCredits,
    /// How often the node had been changed at the end of a turn that found nothing, and until when only a frame brings work, if it is not
    /// changed again.
    at_rest: (u64, Time),
    /// Prepared requests that are not committed yet.
    pub(crate) prepared: usize,
    /// The static table's file, as it was loaded last.
    pub(crate) loaded_peers: Vec<Entry>,
    /// Transfers.
    pub(crate) bulk: Bulk,
    pub(crate) tally: Tally,
    pub(crate) log: Log,
    /// Connections on which a request would have blocked. Recorded once an endpoint waits for [`Events::CAN_SEND`](crate::Events).
    pub(crate) blocked: Option<HashSet<(EndpointId, FlowId)>>,
    /// Set for a member of a group.
    pub(crate) membership: Option<Membership>,
}

/// The counters of this layer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    /// Messages for a handler that the endpoint does not have. The handler for unhandled messages got them.
    pub(crate) unhandled: u64,
    /// How often requests had to wait because no frame was left for a reply.
    pub(crate) no_reply_frame: u64,
    /// Answers that arrived too late, or to no call of this node.
    pub(crate) late_answers: u64,
}

/// The credits of kept messages. A message may be dropped on any thread, but only the node's thread may release its credit.
#[derive(Debug)]
pub(crate) struct KeptCredits {
    lender: LeaseTable,
    /// The owner of each credit, by place in `lender`.
    owners: Box<[Option<(FlowId, Class)>]>,
}

impl KeptCredits {
    /// Room for `count` messages.
    pub(crate) fn new(count: usize) -> Self {
        KeptCredits { lender: LeaseTable::new(count), owners: vec![None; count].into() }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.lender.is_empty()
    }

    /// A lease on this message's credit, the first or a further one. `None` if more messages are kept than can be in flight: the
    /// credit is released at once.
    pub(crate) fn hold(&mut self, kept: &Cell<Option<usize>>, flow: FlowId, class: Class) -> Option<Lease> {
        if let Some(place) = kept.get() {
            return self.lender.lease_again(place);
        }
        let loan = self.lender.lease()?;
        self.owners[loan.place()] = Some((flow, class));
        kept.set(Some(loan.place()));
        Some(loan)
    }

    /// The credit of the next kept message that was dropped.
    pub(crate) fn next_dropped(&mut self) -> Option<(FlowId, Class)> {
        self.owners[self.lender.reclaim()?].take()
    }
}

/// Messages with at least this many bytes of words and payload evict each other from the L1 cache. So each is handed to the transport at
/// once, and its frame is prefetched. A shorter one may be coalesced with others, and waits for the doorbell.
pub(crate) const LARGE: usize = am_proto::Config::COALESCE_BELOW;

/// A payload below this fits every frame, with all words: the shortest frames of nodes carry control messages.
const SMALL: usize = 64;

const _: () = assert!(Framing::Plain.body_at() + MAX_WORDS * WORD_BYTES + SMALL <= Control::MAX_FRAME);

/// Words in network byte order.
#[inline]
pub(crate) fn put_words(place: &mut [u8], words: &[u64]) {
    for (place, word) in place.chunks_exact_mut(WORD_BYTES).zip(words) {
        place.copy_from_slice(&word.to_be_bytes());
    }
}

impl NodeState {
    /// `message_memory` is the limit of memory for long messages, in each direction.
    pub(crate) fn new(
        engine: Engine,
        transport: Owned<Box<dyn Transport>>,
        clock: Clock,
        message_memory: usize,
    ) -> Self {
        NodeState {
            for_replies: Vec::with_capacity(engine.core().config().send_frames + 1),
            kept: KeptCredits::new(engine.core().config().receive_frames),
            at_rest: (0, Time::default()),
            engine,
            transport,
            clock,
            events: EventQueues::default(),
            members: MemberQueues::default(),
            prepared: 0,
            loaded_peers: vec![],
            bulk: Bulk::new(message_memory),
            tally: Tally::default(),
            log: Log::default(),
            waiter: None,
            blocked: None,
            membership: None,
        }
    }

    #[inline]
    pub(crate) fn core(&mut self) -> &mut Core<Frame> {
        self.engine.core_mut()
    }

    /// The transport has got an address of a peer.
    pub(crate) fn on_address_added(&mut self) {
        let now = self.clock.now();
        self.core().on_address_added(now);
    }

    /// Framing and the most bytes of words and payload of an open connection.
    pub(crate) fn open_flow(&self, flow: FlowId) -> Result<(Framing, usize), NotOpen> {
        NotOpen::of(self.engine.core().state(flow))
    }

    /// The longest payload of a message on an open connection: what the peer accepts, or what fits a frame beside all words.
    pub(crate) fn max_payload(&self, flow: FlowId) -> Option<usize> {
        match self.engine.core().state(flow) {
            FlowState::Open { max_body, max_message, .. } => Some(longest_payload(max_body, max_message)),
            _ => None,
        }
    }

    /// The time of the last turn. Reads the clock if that turn did not.
    #[inline]
    pub(crate) fn now(&self) -> Time {
        if self.engine.is_postponed() { self.clock.now() } else { self.engine.core().now() }
    }

    /// A request of this endpoint was not sent. If it would have blocked, record that for [`Events::CAN_SEND`](crate::Events). Returns `why`.
    #[cold]
    pub(crate) fn note_blocked(&mut self, endpoint: EndpointId, flow: FlowId, why: RequestError) -> RequestError {
        if let Some(blocked) = &mut self.blocked
            && why.is_temporary()
        {
            blocked.insert((endpoint, flow));
        }
        why
    }

    /// The frame that was set aside for a reply. After the connection has ended, another reply may have used it.
    #[inline]
    pub(crate) fn reply_frame(&mut self, flow: FlowId) -> Result<Frame, RequestError> {
        self.for_replies.pop().ok_or_else(|| self.no_reply_frame(flow))
    }

    #[cold]
    fn no_reply_frame(&self, flow: FlowId) -> RequestError {
        self.open_flow(flow).map_or_else(RequestError::from, |_| RequestError::NoFrame)
    }

    /// Write the message into the frame of the last one of its connection and class, if there is room and that frame has not left yet. Returns
    /// whether it did.
    #[inline(always)]
    pub(crate) fn append<P: Payload + ?Sized>(
        &mut self,
        flow: FlowId,
        class: Class,
        handler: HandlerId,
        words: &[u64],
        payload: &P,
    ) -> bool {
        let (bytes, words_bytes) = (payload.bytes(), words.len() * WORD_BYTES);
        if !self.engine.core().has_ready()
            || bytes >= LARGE
            || words.len() > MAX_WORDS
            || class == Class::Request && !self.bulk.may_follow(self.engine.core(), flow)
        {
            return false;
        }
        let place = self.core().append(flow, class, handler.0, words.len() as u8, words_bytes + bytes);
        let Some(place) = place else { return false };
        put_words(place, words);
        payload.put(&mut place[words_bytes..]);
        true
    }

    /// As [`append`](Self::append), of a reply.
    // Never: what replies is long already, and would keep less in registers.
    #[inline(never)]
    pub(crate) fn append_reply<P: Payload + ?Sized>(
        &mut self,
        flow: FlowId,
        handler: HandlerId,
        words: &[u64],
        payload: &P,
    ) -> bool {
        let is_added = self.append(flow, Class::Reply, handler, words, payload);
        if is_added {
            self.release_aside();
        }
        is_added
    }

    /// Admit the message, and write it into the frame. An error returns the frame. With `LONG`, a message that does not fit leaves in
    /// several frames. One of less than [`SMALL`] fits every frame.
    #[inline(always)]
    pub(crate) fn send<const LONG: bool, P: Payload + ?Sized>(
        &mut self,
        flow: FlowId,
        class: Class,
        handler: HandlerId,
        words: &[u64],
        payload: &P,
        frame: Frame,
    ) -> Result<(), (RequestError, Frame)> {
        if words.len() > MAX_WORDS {
            return Err((RequestError::TooManyWords { count: words.len(), most: MAX_WORDS }, frame));
        }
        if class == Class::Request && !self.bulk.may_follow(self.engine.core(), flow) {
            return Err((RequestError::NoCredit, frame));
        }
        if payload.bytes() >= SMALL {
            return self.send_large::<LONG, P>(flow, class, handler, words, payload, frame);
        }
        self.send_in_frame(flow, class, handler, words, payload, frame).map_err(|(error, frame)| (error.into(), frame))
    }

    #[inline(always)]
    fn send_in_frame<P: Payload + ?Sized>(
        &mut self,
        flow: FlowId,
        class: Class,
        handler: HandlerId,
        words: &[u64],
        payload: &P,
        frame: Frame,
    ) -> Result<(), (SendError, Frame)> {
        let words_bytes = words.len() * WORD_BYTES;
        let body = payload.bytes().saturating_add(words_bytes);
        self.core().send(flow, class, handler.0, words.len() as u8, frame, body, |place| {
            put_words(place, words);
            payload.put(&mut place[words_bytes..]);
        })
    }

    #[inline(never)]
    fn send_large<const LONG: bool, P: Payload + ?Sized>(
        &mut self,
        flow: FlowId,
        class: Class,
        handler: HandlerId,
        words: &[u64],
        payload: &P,
        frame: Frame,
    ) -> Result<(), (RequestError, Frame)> {
        match self.send_in_frame(flow, class, handler, words, payload, frame) {
            Ok(()) => {
                if payload.bytes() + words.len() * WORD_BYTES >= LARGE {
                    self.engine.send_early(&mut **self.transport);
                }
                Ok(())
            }
            Err((SendError::TooLarge { .. }, frame)) if LONG => {
                self.send_long(flow, class, handler, words, payload, frame)
            }
            Err((SendError::TooLarge { max, .. }, frame)) => {
                let most = max.saturating_sub(words.len() * WORD_BYTES);
                Err((RequestError::TooLargeForFrame { needs: payload.bytes(), most }, frame))
            }
            Err((error, frame)) => Err((error.into(), frame)),
        }
    }

    /// Send the head of a message that is longer than a frame. Its payload is copied, for the segments and for its return, unless the
    /// program shares it.
    #[cold]
    #[inline(never)]
    fn send_long<P: Payload + ?Sized>(
        &mut self,
        flow: FlowId,
        class: Class,
        handler: HandlerId,
        words: &[u64],
        payload: &P,
        frame: Frame,
    ) -> Result<(), (RequestError, Frame)> {
        let (max_body, most) = match self.engine.core().state(flow) {
            FlowState::Open { max_body, max_message, .. } => (max_body, max_message),
            other => return Err((NotOpen::of(other).map_or_else(RequestError::from, |_| RequestError::Closed), frame)),
        };
        let (bytes, words_bytes) = (payload.bytes(), words.len() * WORD_BYTES);
        let start = HEAD_WORDS * WORD_BYTES;
        if bytes > most || max_body <= start {
            let most = most.max(max_body.saturating_sub(words_bytes));
            return Err((RequestError::TooLarge { needs: bytes, most }, frame));
        }
        if class == Class::Request && self.engine.core().credit(flow, class) == 0 {
            return Err((RequestError::NoCredit, frame));
        }
        let (copied, shared) = (payload.own_bytes(), payload.share());
        let Some(mut whole) = self.bulk.message_frame(class, copied) else {
            return Err((RequestError::QueueFull, frame));
        };
        let Some(place) = whole.space() else { return Err((RequestError::NoFrame, frame)) };
        put_words(&mut place[PAYLOAD_AT - words_bytes..PAYLOAD_AT], words);
        payload.put_own(&mut place[PAYLOAD_AT..PAYLOAD_AT + copied]);
        let message = SentMessage { flow, class, handler: handler.0, words: words.len(), frame: whole, shared };
        let id = self.bulk.next_message_id();
        let head = Head { id, total: bytes as u32, words: words.len() as u8 };
        let begun = bytes.min(max_body - start);
        let write = |to: &mut [u8]| {
            to[..Head::BYTES].copy_from_slice(&head.to_bytes());
            to[Head::BYTES..start].fill(0);
            put_words(&mut to[Head::BYTES..start], words);
            message.copy_to(0, &mut to[start..]);
        };
        let endpoint = self.engine.core().endpoint_of(flow);
        let core = self.engine.core_mut();
        if let Err((error, frame)) = core.send(flow, class, handler.0, HEAD_WORDS as u8, frame, start + begun, write) {
            self.bulk.drop_unsent(message);
            return Err((error.into(), frame));
        }
        self.engine.send_early(&mut **self.transport);
        self.bulk.send_message(endpoint, id, (begun, bytes), message);
        Ok(())
    }

    /// Limit a sleep if the drop of a kept message does not wake this thread.
    #[inline]
    pub(crate) fn limit_sleep(&self, now: Time, until: Time) -> Time {
        let until = if self.bulk.wants_memory() { until.min(now + MAX_SLEEP_WITHOUT_MEMORY) } else { until };
        if self.kept.is_empty() || self.waiter.is_some() { until } else { until.min(now + MAX_SLEEP_WITH_KEPT) }
    }

    /// First half of a turn; see [`Engine::inhale`].
    // Always, as the halves below it: otherwise it depends on how many other turns the program has.
    #[inline(always)]
    pub(crate) fn inhale(&mut self, look: PollScope) -> usize {
        if !self.kept.is_empty() {
            self.release_dropped();
        }
        self.engine.inhale(look, || self.clock.now(), &mut **self.transport)
    }

    /// As [`inhale`](Self::inhale), in a turn before which the node had been changed this often. `None` if there is nothing, and the turn is
    /// over. `work_at` is when the endpoint has work without a frame.
    #[inline(always)]
    pub(crate) fn inhale_or_rest(&mut self, look: PollScope, writes: u64, work_at: impl Fn() -> Time) -> Option<usize> {
        if self.at_rest.0 != writes || !self.kept.is_empty() {
            return Some(self.inhale(look));
        }
        // The turn itself has changed it.
        self.at_rest.0 += 1;
        let until = self.at_rest.1.min(work_at());
        let received = self.engine.inhale_at_rest(look, until, || self.clock.now(), &mut **self.transport);
        if received.is_none() {
            self.waiter.iter().for_each(|waiter| waiter.note_spin());
        }
        received
    }

    /// A turn has found nothing, with which the node was changed this often.
    #[inline]
    pub(crate) fn rest(&mut self, writes: u64) {
        if let Some(until) = self.engine.rest_until()
            && self.bulk.is_quiet()
            && !self.has_work()
        {
            self.at_rest = (writes, until);
        }
    }

    /// Release the credits of kept messages that were dropped.
    #[cold]
    fn release_dropped(&mut self) {
        while let Some((flow, class)) = self.kept.next_dropped() {
            self.core().release(flow, class, 1);
        }
    }

    pub(crate) fn waiter(&mut self) -> io::Result<&mut Waiter> {
        if self.waiter.is_none() {
            self.waiter = Some(Box::new(Waiter::new(&**self.transport)?));
        }
        self.waiter.as_deref_mut().ok_or_else(|| io::ErrorKind::Unsupported.into())
    }

    /// Whether there is anything for handlers to do.
    #[inline]
    pub(crate) fn has_work(&self) -> bool {
        self.engine.core().has_deliveries() || self.has_news()
    }

    /// Second half of a turn; see [`Engine::exhale`].
    #[inline]
    pub(crate) fn exhale(&mut self) -> usize {
        // Nearly every turn has neither transfers nor events.
        let is_usual = self.bulk.is_quiet() && !self.engine.core().has_events() && !self.log.has_returned();
        if !is_usual {
            self.bulk.pump(&mut self.engine, &mut **self.transport, self.prepared);
            if self.engine.core().has_events() {
                self.take_events();
            }
        }
        let sent = self.engine.exhale(|| self.clock.now(), &mut **self.transport);
        if !is_usual {
            self.bulk.end_dead(self.engine.core_mut());
            self.log.report(self.engine.core_mut());
        }
        if sent > 0 {
            self.set_aside();
        } else if let Some(waiter) = &self.waiter {
            waiter.note_spin();
        }
        sent
    }

    #[cold]
    fn take_events(&mut self) {
        let NodeState { engine, events, members, bulk, log, .. } = self;
        while let Some(event) = engine.core_mut().poll_event() {
            if let Event::Ended(endpoint, flow, FlowEnd { reason, .. }) = event {
                bulk.on_ended(endpoint, flow, reason);
            }
            log.note(event);
            match event {
                Event::Member(member, change) => members.push(member, change),
                event => events.push(event),
            }
        }
        Membership::publish(&self.membership, self.engine.core());
    }

    /// Set frames aside for replies: one for each token, and one for the next request. Returns whether the next request has its
    /// frame.
    #[inline]
    fn set_aside(&mut self) -> bool {
        let owed = self.engine.core().replies_owed();
        if self.for_replies.len() <= owed {
            self.for_replies.extend(self.engine.pool().take());
        }
        self.for_replies.len() > owed
    }

    /// A token was dropped without a reply.
    #[inline]
    pub(crate) fn decline_reply(&mut self, flow: FlowId) {
        self.core().decline_reply(flow);
        self.release_aside();
    }

    /// A right to reply is used or given up. Release the frame that was set aside for the reply, if it was not used.
    #[inline]
    fn release_aside(&mut self) {
        if self.for_replies.len() > self.engine.core().replies_owed() + 1 {
            self.for_replies.pop();
        }
    }

    /// Whether there are events for endpoints: connections that opened or ended, returned messages, completed
    /// transfers.
    #[inline]
    pub(crate) fn has_news(&self) -> bool {
        self.engine.core().has_returned()
            || !self.events.is_empty()
            || !self.members.is_empty()
            || self.bulk.has_news()
            || self.engine.core().has_group_frames()
    }

    /// Whether segments of transfers have arrived, or messages may have to wait for long ones.
    #[inline]
    pub(crate) fn has_segments_or_lanes(&self) -> bool {
        self.engine.core().has_bulk() || self.bulk.long.has_lanes()
    }

    /// Whether endpoints have anything to do for transfers.
    #[inline]
    pub(crate) fn has_bulk(&self) -> bool {
        self.engine.core().has_bulk() || self.bulk.has_news()
    }

    /// The next message for an endpoint, replies first, with those behind it in its frame. A request is delivered only once a frame for
    /// its reply is set aside, so that no reply fails for lack of memory. While there is none, requests wait.
    #[inline(always)]
    pub(crate) fn next(&mut self, endpoint: EndpointId) -> Option<Delivery<Frame>> {
        if let Some(reply) = self.core().poll_reply(endpoint) {
            return Some(reply);
        }
        if !self.set_aside() {
            self.tally.no_reply_frame += 1;
            return None;
        }
        self.core().poll_request(endpoint)
    }

    /// Go on to the message behind this one in its frame. `false` if there is none, or it is a request that has to wait.
    #[inline(always)]
    pub(crate) fn next_in_frame(&mut self, message: &mut Delivery<Frame>) -> bool {
        match message.class {
            Class::Reply => message.next_in_frame(),
            Class::Request => self.set_aside() && self.core().next_request(message),
        }
    }

    /// The next message that waited for a long one, or is one, and is ready. A request gets its right to reply now.
    pub(crate) fn next_ready(&mut self, endpoint: EndpointId) -> Option<Delivery<Frame>> {
        let may_reply = self.set_aside() && self.engine.core().free_slots() > 0;
        let message = self.bulk.next_ready(endpoint, may_reply)?;
        if message.class == Class::Request {
            self.core().keep_right_to_reply();
        }
        Some(message)
    }

    /// Handle at most `most` segments and notices that wait for this endpoint; with `heads_first` only those in front of the first
    /// segment whose message has no head yet. Returns how many there were.
    pub(crate) fn take_in(&mut self, endpoint: EndpointId, most: usize, heads_first: bool) -> usize {
        let NodeState { bulk, engine, transport, .. } = self;
        bulk.take_in(engine.core_mut(), &mut ***transport, endpoint, most, heads_first)
    }

    /// The head of a long message was taken from the core. Its payload goes to `destination`.
    pub(crate) fn hold(&mut self, endpoint: EndpointId, head: Delivery<Frame>, destination: Option<Destination>) {
        let NodeState { bulk, engine, .. } = self;
        bulk.hold(engine.core_mut(), endpoint, head, destination);
    }

    /// A message was taken from the core while long ones arrive, or is the head of one. It is returned if it need not wait.
    pub(crate) fn admit(&mut self, endpoint: EndpointId, message: Delivery<Frame>) -> Option<Delivery<Frame>> {
        let NodeState { bulk, engine, .. } = self;
        bulk.admit(engine.core_mut(), endpoint, message)
    }
}

/// A frame carries what the peer need not accept as a long message, and shares its room with up to [`MAX_WORDS`].
pub(crate) fn longest_payload(max_body: usize, max_message: usize) -> usize {
    max_message.max(max_body.saturating_sub(MAX_WORDS * WORD_BYTES))
}

impl Drop for NodeState {
    /// The node and its endpoints are dropped. Close the connections, which notifies the peers. A forked child closes nothing.
    fn drop(&mut self) {
        let NodeState { engine, transport, clock, .. } = self;
        if Owned::is_here(transport) {
            let unacknowledged = engine.shut_down(|| clock.now(), &mut ***transport);
            log::report_abandoned(engine.core_mut(), None, unacknowledged);
        }
    }
}
