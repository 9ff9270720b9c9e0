//! Long messages that arrive: their segments are put together, and messages behind them on their connection wait, so that
//! handlers run in order.
//!
//! ```text
//!   head ──▶ lane of its connection and class ─────────────▶ ready ──▶ handler
//!   segments ──▶ buffer, within the limit of memory ──┘ all is there
//! ```
//!
//! A message without memory waits for it, in the order of arrival. Its segments are dropped, and the sender, which keeps the
//! message, is asked for them later. A message whose sender stops has to give its memory to one that waits.

use std::collections::{BTreeSet, HashMap, VecDeque};

use am_proto::mutants::{self, Mutant};
use am_proto::{Core, Delivery, EndpointId, FlowId, MessageNumber};
use am_ring::{ForeignPart, Frame};
use am_wire::bulk::{Notice, NoticeKind, Segment};
use am_wire::long::{EAGER, Head, MESSAGE};
use am_wire::{Buffer, Class, WORD_BYTES};

use super::assembly::{Arriving, copied};
use super::destination::Destination;
use super::dropped::DroppedEarly;
use super::lent::Data;
use super::memory::{MessageMemory, PAYLOAD_AT, buffer_length};
use super::notices::Notices;

/// The most messages of a connection that have segments and no head yet.
const MAX_WITHOUT_HEAD: usize = 4;

/// The most replies of a connection that wait behind a long one while this side may send more requests on it. Long ones beyond it keep
/// their credit.
const MAX_WAITING_REPLIES: usize = 256;

/// The most messages of a connection and class that wait behind a long one without credit, in memory of their own. Further ones keep
/// their credit. Requests of a sender of this library stay far below, because it sends none once it has been asked for segments.
const MAX_WITHOUT_CREDIT: usize = 4096;

/// How many of them give their credit to a sender that does not know yet that it was asked for segments. It learns that in a few round
/// trips, and each takes one credit.
const MAX_BEFORE_SEGMENTS: usize = 1024;

/// The most notices that wait for a sender while its long messages may begin. A sender that polls stays far below, because its credit is
/// withheld before.
const MAX_NOTICES: usize = 1 << 14;

/// The most messages for which a turn looks for memory. The next turn goes on behind them.
const MAX_TRIES: usize = 64;

/// A message that got nothing for this part of the patience gives its memory to one that waits: a quarter of a second.
const STALLED: u32 = 6;

/// A peer has at most one of this many parts of the memory while others wait.
const PARTS: usize = 4;

/// Messages of a connection and class, from an incomplete long one on. Those before it are ready, or handled.
struct Lane {
    flow: FlowId,
    class: Class,
    endpoint: EndpointId,
    waiting: VecDeque<Waiting>,
    /// How many of its messages are ready and not handled yet.
    ready: usize,
}

enum Waiting {
    Short {
        message: Delivery<Frame>,
        has_credit: bool,
    },
    /// The id of a long message.
    Long(u32),
}

/// A message for a handler.
pub(super) struct Ready {
    pub(super) endpoint: EndpointId,
    message: Delivery<Frame>,
    /// The memory of the program that has its payload.
    placed: Option<ForeignPart>,
    /// The id of a long message. Its sender keeps it until a handler gets it.
    id: Option<u32>,
}

/// Long messages that arrive at a node.
pub(crate) struct LongMessages {
    lanes: Vec<Lane>,
    arriving: Vec<Arriving>,
    pub(super) ready: VecDeque<Ready>,
    /// Long messages that wait for memory, in order.
    want_memory: VecDeque<(FlowId, u32)>,
    memory: MessageMemory,
    dropped_early: DroppedEarly,
    pub(crate) counters: LongCounters,
}

/// The counters of long messages.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LongCounters {
    /// Messages put together.
    pub(crate) received: u64,
    /// Messages that had to wait for memory.
    pub(crate) waited: u64,
    /// Messages whose sender stopped, and that lost their memory to others.
    pub(crate) evicted: u64,
    /// Malformed heads and segments.
    pub(crate) malformed: u64,
}

/// What depositing and asking needs of the node.
pub(super) struct Io<'a> {
    pub(super) core: &'a mut Core<Frame>,
    pub(super) notices: &'a mut Notices,
}

impl LongMessages {
    pub(crate) fn new(limit: usize) -> Self {
        LongMessages {
            lanes: vec![],
            arriving: vec![],
            ready: VecDeque::new(),
            want_memory: VecDeque::new(),
            memory: MessageMemory::new(limit),
            dropped_early: DroppedEarly::default(),
            counters: LongCounters::default(),
        }
    }

    /// Whether a message of the core may have to wait for another one.
    #[inline]
    pub(crate) fn has_lanes(&self) -> bool {
        !self.lanes.is_empty()
    }

    /// Whether many replies of this connection wait behind a long one.
    pub(super) fn is_full_of_replies(&self, flow: FlowId) -> bool {
        let mut lanes = self.lanes.iter().filter(|lane| (lane.flow, lane.class) == (flow, Class::Reply));
        lanes.any(|lane| lane.waiting.len() >= MAX_WAITING_REPLIES)
    }

    pub(super) fn is_idle(&self) -> bool {
        self.arriving.is_empty() && self.lanes.is_empty()
    }

    /// Bytes of all buffers.
    #[cfg(test)]
    pub(super) fn held_bytes(&self) -> usize {
        self.memory.bytes()
    }

    /// Whether a message waits for memory. The node looks again after a while: a kept message may be dropped on any thread.
    pub(super) fn wants_memory(&self) -> bool {
        !self.want_memory.is_empty()
    }

    /// The next message of this endpoint that is ready. Requests among them have no right to reply yet; without `may_reply` they
    /// wait on.
    pub(super) fn next_ready(
        &mut self,
        endpoint: EndpointId,
        may_reply: bool,
        notices: &mut Notices,
    ) -> Option<Delivery<Frame>> {
        let may_run = |message: &Delivery<Frame>| may_reply || message.class == Class::Reply;
        let at = self.ready.iter().position(|ready| ready.endpoint == endpoint && may_run(&ready.message))?;
        let Ready { message, placed, id, .. } = self.ready.remove(at)?;
        if let Some(id) = id {
            notices.push(message.flow, Notice::of(NoticeKind::Done, id));
        }
        if let Some(at) = self.lane_of(&message) {
            self.lanes[at].ready -= 1;
            self.drop_lane_if_empty(at);
        }
        self.memory.trim();
        // Where the program has taken its memory back, nothing has arrived.
        let is_there = placed.is_some_and(|part| part.is_registered());
        Some(if is_there { message.placed() } else { message })
    }

    fn lane_of(&self, message: &Delivery<Frame>) -> Option<usize> {
        self.lanes.iter().position(|lane| (lane.flow, lane.class) == (message.flow, message.class))
    }

    fn drop_lane_if_empty(&mut self, at: usize) {
        if self.lanes[at].ready == 0 && self.lanes[at].waiting.is_empty() {
            self.lanes.swap_remove(at);
        }
    }

    /// A message was taken from the core. It is returned if it need not wait, and is no head.
    pub(super) fn admit(
        &mut self,
        io: &mut Io<'_>,
        endpoint: EndpointId,
        message: Delivery<Frame>,
    ) -> Option<Delivery<Frame>> {
        if message.is_head() {
            self.on_head(io, endpoint, message, None);
            return None;
        }
        let lane = self.lane_of(&message).filter(|_| io.core.is_ordered(message.flow));
        let Some(at) = lane else { return Some(message) };
        let (flow, class) = (message.flow, message.class);
        let is_fetched_again = self.is_fetched_again(flow);
        let lane = &mut self.lanes[at];
        give_up_reply(io.core, &message);
        if lane.waiting.is_empty() {
            lane.ready += 1;
            self.ready.push_back(Ready { endpoint, message, placed: None, id: None });
        } else if (class == Class::Reply || is_fetched_again) && lane.waiting.len() < MAX_WITHOUT_CREDIT {
            io.core.release(flow, class, 1);
            lane.waiting.push_back(Waiting::Short { message: copied(message), has_credit: false });
        } else {
            lane.waiting.push_back(Waiting::Short { message, has_credit: true });
        }
        None
    }

    /// The head of a message was taken from the core. Its payload goes to `destination`.
    pub(super) fn on_head(
        &mut self,
        io: &mut Io<'_>,
        endpoint: EndpointId,
        message: Delivery<Frame>,
        destination: Option<Destination>,
    ) {
        give_up_reply(io.core, &message);
        let (flow, class) = (message.flow, message.class);
        let most = io.core.config().max_message;
        let head =
            message.head().filter(|(head, _, payload)| head.total <= most && payload.len() <= head.total as usize);
        let begun = head.as_ref().and_then(|(Head { id, .. }, ..)| self.position(flow, *id));
        let is_repeated = begun.is_some_and(|at| self.arriving[at].head.is_some());
        let has_room = io.notices.of(flow) < MAX_NOTICES;
        let Some((Head { id, total, .. }, _, first)) = head.filter(|_| !is_repeated && has_room) else {
            // No node sends this.
            self.counters.malformed += 1;
            return io.core.release(flow, class, 1);
        };
        let destination = destination.filter(|destination| destination.fits(total as usize, first.len()));
        let lane = self.lane_of(&message).unwrap_or_else(|| {
            self.lanes.push(Lane { flow, class, endpoint, waiting: VecDeque::new(), ready: 0 });
            self.lanes.len() - 1
        });
        let may_release = self.lanes[lane].waiting.len() < MAX_WAITING_REPLIES && !io.notices.holds(flow);
        self.lanes[lane].waiting.push_back(Waiting::Long(id));
        let at = begun.unwrap_or_else(|| {
            self.begin(io.core, flow, endpoint, id, total);
            let at = self.arriving.len() - 1;
            self.arriving[at].attempt = u32::from(self.dropped_early.on_head(flow, id));
            at
        });
        let arriving = &mut self.arriving[at];
        if arriving.total != total {
            // The segments were of no message of ours.
            arriving.lose_memory();
            arriving.total = total;
        }
        if let Some(destination) = destination {
            let bytes = PAYLOAD_AT + destination.front;
            let for_front = if arriving.buffer.is_some() { self.memory.take(bytes) } else { None };
            arriving.send_to(destination, for_front);
        }
        arriving.head = Some(message);
        if class == Class::Reply && may_release {
            arriving.is_released = true;
            io.core.release(flow, class, 1);
        }
        if arriving.buffer.is_some() || self.give_memory(at) {
            self.on_memory(io, at);
        } else {
            self.arriving[at].leave_frame();
            self.want(at);
        }
    }

    fn position(&self, flow: FlowId, id: u32) -> Option<usize> {
        self.arriving.iter().position(|arriving| (arriving.flow, arriving.id) == (flow, id))
    }

    fn begin(&mut self, core: &mut Core<Frame>, flow: FlowId, endpoint: EndpointId, id: u32, total: u32) {
        let peer = core.peer_names(flow).map(|(node, _)| node);
        let (head, buffer, arrived, last_progress) = (None, None, vec![], core.now());
        self.arriving.push(Arriving {
            flow,
            endpoint,
            peer,
            id,
            total,
            head,
            is_released: false,
            buffer,
            destination: None,
            is_unreadable: false,
            attempt: 0,
            arrived,
            last_progress,
        });
    }

    /// Give a message its buffer, unless its peer has much already and others wait. On a connection the first message comes
    /// first, because handlers run in order.
    fn give_memory(&mut self, at: usize) -> bool {
        let Arriving { flow, id, peer, .. } = self.arriving[at];
        let comes_first =
            |other: &Arriving| other.flow == flow && other.id != id && other.head.is_some() && other.buffer.is_none();
        let is_before = |other: &Arriving| {
            let mut ids = self.lanes.iter().filter(|lane| lane.flow == flow).flat_map(|lane| &lane.waiting);
            let of = |waiting: &Waiting| matches!(waiting, Waiting::Long(of) if *of == id || *of == other.id);
            matches!(ids.find(|waiting| of(waiting)), Some(Waiting::Long(first)) if *first == other.id)
        };
        if self.arriving.iter().any(|other| comes_first(other) && is_before(other)) {
            return false;
        }
        let bytes = self.arriving[at].buffer_bytes();
        let of_peer = self.arriving.iter().filter(|other| other.peer == peer && other.buffer.is_some());
        let has: usize = of_peer.map(|other| buffer_length(other.buffer_bytes())).sum();
        let is_greedy = has > 0 && has + buffer_length(bytes) > self.memory.limit() / PARTS;
        if !is_greedy || self.want_memory.is_empty() {
            self.arriving[at].buffer = self.memory.take(bytes);
        }
        let has_memory = self.arriving[at].buffer.is_some();
        if has_memory {
            self.want_memory.retain(|waiting| *waiting != (flow, id));
        }
        has_memory
    }

    /// A message with a head has its buffer: copy what the head brought, and ask for what the sender does not send by itself.
    fn on_memory(&mut self, io: &mut Io<'_>, at: usize) {
        let arriving = &mut self.arriving[at];
        let (flow, total) = (arriving.flow, arriving.total);
        arriving.last_progress = io.core.now();
        let Some(head) = &arriving.head else { return };
        // A handle of its own: the buffer is written meanwhile.
        let head = head.share();
        let Some((_, words, payload)) = head.head() else { return };
        if let Some(place) = arriving.buffer.as_mut().and_then(Buffer::space) {
            let count = words.as_slice().len();
            for (place, word) in
                place[PAYLOAD_AT - count * WORD_BYTES..].chunks_exact_mut(WORD_BYTES).zip(words.as_slice())
            {
                place.copy_from_slice(&word.to_be_bytes());
            }
            if let Some(&Destination { front, .. }) = arriving.destination.as_ref() {
                place[PAYLOAD_AT..PAYLOAD_AT + front].copy_from_slice(&payload[..front]);
            }
        }
        arriving.deposit(0, &mut Data::Here(payload));
        if arriving.attempt > 0 || total > EAGER {
            io.notices.push(flow, arriving.rest());
        }
        self.advance(io, flow);
    }

    /// Senders are to send segments again, which takes credit. One without credit gets some of what the messages that wait hold. It may
    /// use this for further messages, as long as it does not know yet that it was asked, and a credit beyond its share is not granted
    /// again. So each turn looks whether it still has one.
    pub(super) fn give_credit(&mut self, core: &mut Core<Frame>) {
        let lacks_segments = |of: &&Arriving| of.head.is_some() && of.buffer.is_some() && !of.is_whole();
        let asked = self.arriving.iter().filter(lacks_segments).filter(|arriving| arriving.is_fetched_again());
        let without_credit = |flow: &FlowId| !core.has_credit_left(*flow, Class::Request);
        let flows: BTreeSet<FlowId> = asked.map(|arriving| arriving.flow).filter(without_credit).collect();
        flows.into_iter().for_each(|flow| self.release_waiting(core, flow, false));
    }

    /// Release the credit of the messages that wait: of all, or of the first ones until the sender has some.
    #[cold]
    fn release_waiting(&mut self, core: &mut Core<Frame>, flow: FlowId, is_all: bool) {
        let most = if is_all { MAX_WITHOUT_CREDIT } else { MAX_BEFORE_SEGMENTS };
        let all = self.arriving.iter_mut().filter(|arriving| arriving.flow == flow && !arriving.is_released);
        let mut with_credit: HashMap<u32, &mut Arriving> = all.map(|arriving| (arriving.id, arriving)).collect();
        for lane in self.lanes.iter_mut().filter(|lane| lane.flow == flow && lane.class == Class::Request) {
            for waiting in lane.waiting.iter_mut().take(most) {
                match waiting {
                    _ if !is_all && core.has_credit_left(flow, Class::Request) => return,
                    Waiting::Short { has_credit: false, .. } => continue,
                    Waiting::Short { message, has_credit } => {
                        (*message, *has_credit) = (copied(message.share()), false);
                    }
                    Waiting::Long(id) => {
                        let Some(arriving) = with_credit.remove(id) else { continue };
                        arriving.is_released = true;
                        arriving.leave_frame();
                    }
                }
                core.release(flow, Class::Request, 1);
            }
        }
    }

    /// Whether segments of a message on this connection are sent again.
    fn is_fetched_again(&self, flow: FlowId) -> bool {
        self.arriving.iter().any(|arriving| arriving.flow == flow && arriving.is_fetched_again())
    }

    /// Whether this is a segment of a message whose head has not been taken from the core.
    pub(super) fn is_before_head(&self, flow: FlowId, segment: &Segment) -> bool {
        let has_head = || self.position(flow, segment.transfer).is_some_and(|at| self.arriving[at].head.is_some());
        is_of_message(segment.region, segment.transfer) && !has_head()
    }

    /// A segment of a message arrived. Returns `false` if its data is in memory that cannot be read.
    pub(super) fn on_segment(
        &mut self,
        io: &mut Io<'_>,
        endpoint: EndpointId,
        flow: FlowId,
        segment: &Segment,
        data: &mut Data<'_>,
    ) -> bool {
        let (id, total, now) = (segment.transfer, segment.total as u32, io.core.now());
        let end = segment.at.saturating_add(data.len() as u64);
        if segment.total > u64::from(io.core.config().max_message) || end > segment.total {
            self.counters.malformed += 1;
            return true;
        }
        let is_of_another = mutants::is_active(Mutant::SegmentOfAnother);
        let first = self.arriving.iter().position(|arriving| arriving.flow == flow).filter(|_| is_of_another);
        let at = match first.or_else(|| self.position(flow, id)) {
            Some(at) => at,
            None => {
                let is_early = |arriving: &&Arriving| arriving.flow == flow && arriving.head.is_none();
                // A later attempt was for a message that has ended.
                if segment.start != 0 || io.core.peer_names(flow).is_none() {
                    return true;
                }
                // Once segments were dropped, the message waits for its head, which asks for all of it.
                if self.dropped_early.may_have(flow, id) {
                    return true;
                }
                if self.arriving.iter().filter(is_early).count() >= MAX_WITHOUT_HEAD {
                    self.dropped_early.note(io.core, flow, id);
                    return true;
                }
                self.begin(io.core, flow, endpoint, id, total);
                self.arriving.len() - 1
            }
        };
        let arriving = &self.arriving[at];
        if u64::from(arriving.attempt) != segment.start {
            return true;
        }
        if arriving.total != total && !is_of_another {
            self.counters.malformed += 1;
            return true;
        }
        // One with a head that has no memory waits for it: what the head brought is copied first.
        if arriving.buffer.is_none() && (arriving.head.is_some() || !self.give_memory(at)) {
            // The next attempt begins once there is memory.
            self.arriving[at].attempt += 1;
            self.want(at);
            return true;
        }
        let arriving = &mut self.arriving[at];
        arriving.last_progress = now;
        let Some(has_room) = arriving.deposit(segment.at as u32, data) else {
            arriving.is_unreadable = true;
            self.release_waiting(io.core, flow, true);
            return false;
        };
        if arriving.attempt > 0 {
            // It knows that it was asked.
            self.release_waiting(io.core, flow, true);
        }
        let arriving = &mut self.arriving[at];
        if !has_room {
            arriving.arrived.truncate(usize::from(arriving.front() > 0));
            arriving.attempt += 1;
            io.notices.push(flow, arriving.rest());
        }
        if self.arriving[at].is_whole() {
            self.advance(io, flow);
        }
        true
    }

    /// The sender gave a message up, which may have no head here. Segments of it may still arrive.
    pub(super) fn on_cancel(&mut self, core: &Core<Frame>, flow: FlowId, id: u32) {
        self.dropped_early.note(core, flow, id);
        if let Some(at) = self.position(flow, id)
            && self.arriving[at].head.is_none()
        {
            self.arriving.swap_remove(at);
            self.memory.trim();
        }
    }

    /// Pass on the messages at the front of a connection's lanes that are complete.
    fn advance(&mut self, io: &mut Io<'_>, flow: FlowId) {
        let is_ordered = io.core.is_ordered(flow);
        for lane in (0..self.lanes.len()).rev() {
            if self.lanes[lane].flow != flow {
                continue;
            }
            let mut place = 0;
            while let Some(next) = self.lanes[lane].waiting.get(place) {
                let is_complete = match next {
                    Waiting::Short { .. } => true,
                    Waiting::Long(id) => self.position(flow, *id).is_some_and(|at| self.arriving[at].is_whole()),
                };
                if is_complete {
                    self.pass_on(io, lane, place);
                } else if is_ordered {
                    break;
                } else {
                    place += 1;
                }
            }
            if !io.notices.holds(flow) {
                self.release_front(io.core, lane);
            }
            self.drop_lane_if_empty(lane);
        }
    }

    /// The long message at the front of a lane has its memory: its segments may use the credit of its head. Those behind it keep
    /// theirs, because each has a frame.
    fn release_front(&mut self, core: &mut Core<Frame>, lane: usize) {
        let Lane { flow, class, .. } = self.lanes[lane];
        if let Some(&Waiting::Long(id)) = self.lanes[lane].waiting.front()
            && let Some(at) = self.position(flow, id)
            && class == Class::Request
            && self.arriving[at].buffer.is_some()
            && !std::mem::replace(&mut self.arriving[at].is_released, true)
        {
            core.release(flow, class, 1);
        }
    }

    /// A message of a lane is complete: it becomes ready.
    fn pass_on(&mut self, io: &mut Io<'_>, lane: usize, place: usize) {
        let Lane { flow, class, endpoint, .. } = self.lanes[lane];
        let (message, placed, id) = match self.lanes[lane].waiting.remove(place) {
            Some(Waiting::Short { message, has_credit: true }) => (message, None, None),
            Some(Waiting::Short { message, has_credit: false }) => (message.without_credit(), None, None),
            Some(Waiting::Long(id)) => {
                let Some(at) = self.position(flow, id) else { return };
                let arriving = self.arriving.swap_remove(at);
                if arriving.attempt > 0 {
                    // Segments of earlier attempts may still arrive. They begin no message.
                    self.dropped_early.note(io.core, flow, id);
                }
                let (Some(head), Some(buffer)) = (arriving.head, arriving.buffer) else { return };
                let words = head.head().map_or(0, |(head, ..)| usize::from(head.words));
                self.counters.received += 1;
                let whole = head.whole(buffer, words, PAYLOAD_AT - words * WORD_BYTES);
                let placed = arriving.destination.map(|destination| destination.memory);
                let is_withheld = !arriving.is_released && io.notices.withholds(flow, class);
                let is_released = arriving.is_released || is_withheld;
                // Its frame is free: the message has the front only.
                if placed.is_some() && !is_released {
                    io.core.release(flow, class, 1);
                }
                let has_credit = placed.is_none() && !is_released;
                (if has_credit { whole } else { whole.without_credit() }, placed, Some(id))
            }
            None => return,
        };
        if id.is_some() && mutants::is_active(Mutant::LongTwice) {
            self.lanes[lane].ready += 1;
            let message = message.share().without_credit();
            self.ready.push_back(Ready { endpoint, message, placed: placed.clone(), id: None });
        }
        self.lanes[lane].ready += 1;
        self.ready.push_back(Ready { endpoint, message, placed, id });
    }

    /// Give memory to messages that wait for it, as far as there is any. One whose sender has stopped loses its own.
    pub(super) fn share_memory(&mut self, io: &mut Io<'_>) {
        let (now, stalled_after) = (io.core.now(), io.core.config().patience / STALLED);
        for _ in 0..self.want_memory.len().min(MAX_TRIES) {
            let Some((flow, id)) = self.want_memory.pop_front() else { return };
            let Some(at) = self.position(flow, id) else { continue };
            if self.give_memory(at) {
                self.on_memory(io, at);
                continue;
            }
            self.want_memory.push_back((flow, id));
            // Handlers run in order, so one behind it on its connection can do without.
            if let Some(behind) = self.last_behind(at) {
                self.arriving[behind].lose_memory();
                self.want(behind);
                continue;
            }
            let is_stalled = |other: &&Arriving| {
                other.buffer.is_some() && !other.is_whole() && now - other.last_progress >= stalled_after
            };
            let stalled = self.arriving.iter().filter(is_stalled).min_by_key(|other| other.last_progress);
            if let Some(flow) = stalled.map(|stalled| stalled.flow) {
                self.evict(io.core, flow);
            }
        }
    }

    /// A message behind this one on its connection that has memory, the last one first.
    fn last_behind(&self, at: usize) -> Option<usize> {
        let Arriving { flow, id, head, .. } = &self.arriving[at];
        let order = |id: u32| {
            let mut ids = self.lanes.iter().filter(|lane| lane.flow == *flow).flat_map(|lane| &lane.waiting);
            ids.position(|waiting| matches!(waiting, Waiting::Long(of) if *of == id)).unwrap_or(usize::MAX)
        };
        let its = self.arriving.iter().enumerate().filter(|(_, other)| other.flow == *flow && other.buffer.is_some());
        let behind = its.filter(|(_, other)| head.is_some() && order(other.id) > order(*id));
        behind.max_by_key(|(_, other)| order(other.id)).map(|(at, _)| at)
    }

    /// A message waits for memory.
    fn want(&mut self, at: usize) {
        let Arriving { flow, id, .. } = self.arriving[at];
        if !self.want_memory.contains(&(flow, id)) {
            self.counters.waited += 1;
            self.want_memory.push_back((flow, id));
        }
    }

    /// The sender of a connection has stopped: take the memory of its messages, also of those that wait behind the one that is
    /// not complete.
    fn evict(&mut self, core: &Core<Frame>, flow: FlowId) {
        self.counters.evicted += 1;
        for arriving in self.arriving.iter_mut().filter(|arriving| arriving.flow == flow) {
            arriving.lose_memory();
        }
        let waiting = self.lanes.iter().filter(|lane| lane.flow == flow).flat_map(|lane| &lane.waiting);
        for waiting in waiting {
            if let Waiting::Long(id) = waiting
                && !self.want_memory.contains(&(flow, *id))
            {
                self.want_memory.push_back((flow, *id));
            }
        }
        // Those without a head are begun again when it comes.
        for arriving in self.arriving.extract_if(.., |arriving| arriving.flow == flow && arriving.head.is_none()) {
            self.dropped_early.note(core, flow, arriving.id);
        }
    }

    /// The connections of incomplete messages, whose peers may have died.
    pub(super) fn flows(&self) -> impl Iterator<Item = (FlowId, u32)> {
        self.arriving.iter().map(|arriving| (arriving.flow, arriving.id))
    }

    /// End the lanes of connections that have ended, for which `is_over` is true. Incomplete messages are dropped, and those
    /// behind become ready.
    pub(super) fn end(&mut self, io: &mut Io<'_>, is_over: impl Fn(&Core<Frame>, EndpointId, FlowId) -> bool) {
        let ends = |arriving: &Arriving, core: &Core<Frame>| {
            !arriving.is_whole() && is_over(core, arriving.endpoint, arriving.flow)
        };
        while let Some(at) = self.arriving.iter().position(|arriving| ends(arriving, io.core)) {
            let arriving = self.arriving.swap_remove(at);
            let flow = arriving.flow;
            for lane in self.lanes.iter_mut().filter(|lane| lane.flow == flow) {
                lane.waiting.retain(|waiting| !matches!(waiting, Waiting::Long(id) if *id == arriving.id));
            }
            self.advance(io, flow);
            self.memory.trim();
        }
    }

    /// Forget a closed endpoint. Returns the numbers of its short messages that no handler got. The senders of long ones keep
    /// them, and so know it.
    pub(super) fn forget(&mut self, endpoint: EndpointId) -> Vec<MessageNumber> {
        let mut dropped = vec![];
        for Ready { message, id, .. } in self.ready.iter().filter(|ready| ready.endpoint == endpoint) {
            dropped.extend(id.is_none().then(|| message.number()));
        }
        self.ready.retain(|ready| ready.endpoint != endpoint);
        for lane in self.lanes.extract_if(.., |lane| lane.endpoint == endpoint) {
            for waiting in lane.waiting {
                if let Waiting::Short { message, .. } = waiting {
                    dropped.push(message.number());
                }
            }
        }
        let its = self.arriving.iter().filter(|arriving| arriving.endpoint == endpoint);
        let its_flows: Vec<FlowId> = its.map(|arriving| arriving.flow).collect();
        let gone = |flow: FlowId| its_flows.contains(&flow);
        self.arriving.retain(|arriving| arriving.endpoint != endpoint);
        self.want_memory.retain(|(flow, _)| !gone(*flow));
        self.memory.trim();
        dropped
    }
}

/// A request waits, or no handler gets it. Meanwhile it needs no room for its reply.
fn give_up_reply(core: &mut Core<Frame>, message: &Delivery<Frame>) {
    if message.class == Class::Request {
        core.decline_reply(message.flow);
    }
}

/// The notices and segments of messages.
pub(super) fn is_of_message(region: u32, transfer: u32) -> bool {
    region == MESSAGE && transfer <= Head::MAX_ID
}
