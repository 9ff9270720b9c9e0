//! Endpoints, and FM's host receive queue: accepted messages that wait for `extract` (here `poll_deliver`).
//!
//! Pushed by: frames from below. Popped by: the layer above. Bounded by: `Config::receive_frames`, all endpoints
//! together; the last quarter is for replies. When full: nothing more is accepted, and senders keep what they sent.
//!
//! **The reorder buffer** holds messages that arrived before an earlier one of their flow and class. They wait for it,
//! so that handlers get a flow's requests in the order in which they were sent, and its replies likewise. Pushed by:
//! frames from below that arrive behind a gap. Popped by: the message that closes the gap; the flow's end, because the
//! sender knows that they arrived. Bounded by: a quarter of the room for all waiting messages. When full: a message
//! behind a gap is not accepted, and is sent again. The message that closes a gap needs no place here, so a full buffer
//! always drains.

use std::collections::{HashMap, VecDeque};

use am_wire::control::Name;
use am_wire::{Class, Flow, Kind, Seq};

use crate::flow::{FlowRecord, PerClass};
use crate::output::{Delivery, Returned};
use crate::receive_queue::Verdict;
use crate::refusals::{HandlerSet, RefusedSeqs};
use crate::{EndpointId, WINDOW};

/// By flow and class, the low 16 bits of the sequence numbers of accepted messages that no handler will get.
pub(crate) type UnhandledSeqs = HashMap<(Flow, Class), Vec<u16>>;

#[derive(Debug)]
pub(crate) struct Endpoint<B> {
    pub(crate) name: Name,
    pub(crate) tag: u64,
    pub(crate) handlers: PerClass<HandlerSet>,
    pub(crate) received: PerClass<VecDeque<Delivery<B>>>,
    /// Segments of bulk transfers. They use the credit of requests.
    pub(crate) bulk: VecDeque<Delivery<B>>,
    pub(crate) returned: VecDeque<Returned<B>>,
}

#[derive(Debug)]
pub(crate) struct Endpoints<B> {
    pub(crate) endpoints: Vec<Option<Endpoint<B>>>,
    /// Messages in all receive queues together.
    pub(crate) waiting_count: usize,
    /// How many of them there may be. Held messages lower this bound.
    pub(crate) room: PerClass<usize>,
    /// The reorder buffer.
    pub(crate) held: HashMap<(Flow, Class, Seq), Delivery<B>>,
    pub(crate) max_held: usize,
    pub(crate) refused: RefusedSeqs,
    /// Segments of bulk transfers in all queues together.
    pub(crate) bulk_count: usize,
    /// Returned messages in all queues together.
    pub(crate) returned_count: usize,
}

/// Waiting requests must leave room for replies. Otherwise two nodes full of each other's requests would wait for each
/// other for ever.
pub(crate) fn room_for_requests(room: usize) -> usize {
    (room - room.div_ceil(4)).max(1)
}

impl<B> Endpoints<B> {
    pub(crate) fn new(room: usize) -> Self {
        let max_held = room / 4;
        let held = HashMap::with_capacity(2 * max_held.min(WINDOW));
        let room = PerClass([room_for_requests(room), room]);
        let refused = RefusedSeqs::new();
        Endpoints {
            endpoints: Vec::new(),
            waiting_count: 0,
            room,
            held,
            max_held,
            refused,
            bulk_count: 0,
            returned_count: 0,
        }
    }

    /// Create an endpoint. Its queues have room for one flow's window at once, or for two where the network reorders.
    /// `None` if all 65,535 endpoints are in use.
    pub(crate) fn add(&mut self, name: Name, tag: u64, window: usize) -> Option<EndpointId> {
        let at = self.endpoints.iter().position(Option::is_none).unwrap_or(self.endpoints.len());
        let id = EndpointId(u16::try_from(at).ok()?);
        if id == EndpointId::NONE {
            return None;
        }
        let received = PerClass([0, 1].map(|_| VecDeque::with_capacity(2 * window)));
        let bulk = VecDeque::with_capacity(window);
        let handlers = PerClass([HandlerSet::ALL, HandlerSet::ALL]);
        let endpoint = Endpoint { name, tag, handlers, received, bulk, returned: VecDeque::new() };
        if at == self.endpoints.len() {
            self.endpoints.push(None);
        }
        self.endpoints[at] = Some(endpoint);
        Some(id)
    }

    /// Remove an endpoint and the messages that wait at it. No handler gets these.
    pub(crate) fn remove(&mut self, id: EndpointId) -> UnhandledSeqs {
        let mut unhandled = UnhandledSeqs::new();
        let Some(endpoint) = self.endpoints.get_mut(id.0 as usize).and_then(Option::take) else { return unhandled };
        self.returned_count -= endpoint.returned.len();
        self.bulk_count -= endpoint.bulk.len();
        for message in endpoint.received.0.iter().flatten().chain(&endpoint.bulk) {
            unhandled.entry((message.flow.flow, message.class)).or_default().push(message.seq);
            self.waiting_count -= 1;
        }
        unhandled
    }

    #[inline]
    pub(crate) fn get(&mut self, id: EndpointId) -> Option<&mut Endpoint<B>> {
        self.endpoints.get_mut(id.0 as usize)?.as_mut()
    }

    pub(crate) fn by_name(&self, name: Name) -> Option<(EndpointId, &Endpoint<B>)> {
        self.endpoints
            .iter()
            .enumerate()
            .filter_map(|(at, endpoint)| Some((EndpointId(at as u16), endpoint.as_ref()?)))
            .find(|(_, endpoint)| endpoint.name == name)
    }

    pub(crate) fn frames(&self) -> impl Iterator<Item = &B> {
        let waiting = self.endpoints.iter().flatten().flat_map(|endpoint| {
            let received = endpoint.received.0.iter().flatten().chain(&endpoint.bulk);
            received.map(|message| &message.frame).chain(endpoint.returned.iter().map(|back| &back.message.frame))
        });
        waiting.chain(self.held.values().map(|message| &message.frame))
    }

    #[inline]
    pub(crate) fn has_room(&self, class: Class) -> bool {
        self.waiting_count < self.room[class]
    }

    /// The sequence numbers of all held messages of a flow and class, in order, starting from `near`.
    pub(crate) fn held_seqs(&self, flow: Flow, class: Class, near: Seq) -> Vec<Seq> {
        let its = self.held.keys().filter(|&&(of, kind, _)| (of, kind) == (flow, class));
        let mut numbers: Vec<Seq> = its.map(|&(.., seq)| seq).collect();
        numbers.sort_unstable_by_key(|seq| seq.since(near));
        numbers
    }

    /// Put a message into its endpoint's queue, or hold it if earlier messages are missing. Returns `false`, and drops the
    /// message, if its endpoint does not have the handler, or its number is refused.
    #[inline(always)]
    pub(crate) fn accept(&mut self, record: &FlowRecord, verdict: Verdict, seq: Seq, delivery: Delivery<B>) -> bool {
        if verdict == Verdict::Next && self.refused.is_empty() {
            return self.push(record.endpoint, delivery, true);
        }
        self.accept_rare(record, verdict, seq, delivery)
    }

    #[cold]
    fn accept_rare(&mut self, record: &FlowRecord, verdict: Verdict, seq: Seq, delivery: Delivery<B>) -> bool {
        let class = delivery.class;
        if self.refused.contains(&(record.id.flow, class, seq)) {
            return false;
        }
        // The second condition matters with a mutant that takes a duplicate for a new message. It is delivered then, and
        // a checker must notice.
        let is_held = verdict == Verdict::Ahead
            && record.receive[class].next_expected().before(seq.plus(1))
            && record.must_wait_for_earlier(delivery.kind);
        if !is_held {
            return self.push(record.endpoint, delivery, true);
        }
        let handler = delivery.handler;
        let takes = self.get(record.endpoint).is_some_and(|endpoint| endpoint.handlers[class].has(handler));
        if takes {
            self.hold(seq, delivery);
        }
        takes
    }

    /// Deliver the held messages from `next` up to the next missing one.
    #[inline(always)]
    pub(crate) fn deliver_behind(&mut self, record: &FlowRecord, class: Class, next: Seq) {
        if !self.held.is_empty() {
            self.deliver_held(record, class, next, record.receive[class].next_expected());
        }
    }

    #[cold]
    fn hold(&mut self, seq: Seq, delivery: Delivery<B>) {
        self.room.0.iter_mut().for_each(|room| *room -= 1);
        self.held.insert((delivery.flow.flow, delivery.class, seq), delivery);
    }

    #[cold]
    fn deliver_held(&mut self, record: &FlowRecord, class: Class, from: Seq, until: Seq) {
        let mut seq = from;
        while seq.before(until) {
            if let Some(delivery) = self.take_held(record.id.flow, class, seq) {
                self.push(record.endpoint, delivery, false);
            }
            seq = seq.plus(1);
        }
    }

    /// The flow ended, so the missing messages will not come. Deliver the held ones. Drop those that no acknowledgement
    /// covered: their sender gets them back.
    pub(crate) fn deliver_all_held(&mut self, record: &FlowRecord) {
        if self.held.is_empty() {
            return;
        }
        for class in Class::ALL {
            let near = record.receive[class].next_expected();
            for seq in self.held_seqs(record.id.flow, class, near) {
                if seq.since(near) <= u64::BITS as i32 {
                    self.deliver_held(record, class, seq, seq.plus(1));
                } else {
                    self.take_held(record.id.flow, class, seq);
                }
            }
        }
    }

    /// The flow's endpoint is closed: no handler gets the held messages.
    pub(crate) fn drop_all_held(&mut self, flow: Flow, unhandled: &mut UnhandledSeqs) {
        if self.held.is_empty() {
            return;
        }
        for class in Class::ALL {
            for seq in self.held_seqs(flow, class, Seq(0)) {
                unhandled.entry((flow, class)).or_default().push(seq.0 as u16);
                self.take_held(flow, class, seq);
            }
        }
    }

    fn take_held(&mut self, flow: Flow, class: Class, seq: Seq) -> Option<Delivery<B>> {
        let delivery = self.held.remove(&(flow, class, seq))?;
        self.room.0.iter_mut().for_each(|room| *room += 1);
        Some(delivery)
    }

    /// Returns `false`, and drops the message, if it `must_have` a handler and does not.
    #[inline(always)]
    fn push(&mut self, id: EndpointId, delivery: Delivery<B>, must_have: bool) -> bool {
        let Some(endpoint) = self.get(id) else { return true };
        if matches!(delivery.kind, Kind::Put | Kind::Get) {
            endpoint.bulk.push_back(delivery);
            self.bulk_count += 1;
        } else if must_have && !endpoint.handlers[delivery.class].has(delivery.handler) {
            return drop_refused(delivery);
        } else {
            endpoint.received[delivery.class].push_back(delivery);
        }
        self.waiting_count += 1;
        true
    }

    pub(crate) fn pop_bulk(&mut self, id: EndpointId) -> Option<Delivery<B>> {
        let delivery = self.get(id)?.bulk.pop_front()?;
        self.bulk_count -= 1;
        self.waiting_count -= 1;
        Some(delivery)
    }

    #[inline]
    pub(crate) fn pop(&mut self, id: EndpointId, class: Class) -> Option<Delivery<B>> {
        let queue = &mut self.get(id)?.received[class];
        if queue.is_empty() {
            return None;
        }
        let delivery = queue.pop_front();
        self.waiting_count -= 1;
        delivery
    }

    pub(crate) fn push_returned(&mut self, id: EndpointId, message: Returned<B>) {
        if let Some(endpoint) = self.get(id) {
            endpoint.returned.push_back(message);
            self.returned_count += 1;
        }
    }

    pub(crate) fn pop_returned(&mut self, id: EndpointId) -> Option<Returned<B>> {
        let message = self.get(id)?.returned.pop_front()?;
        self.returned_count -= 1;
        Some(message)
    }
}

/// Out of the way of messages that are accepted.
#[cold]
fn drop_refused<B>(delivery: Delivery<B>) -> bool {
    drop(delivery);
    false
}
