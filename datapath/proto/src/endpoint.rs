//! Endpoints, and FM's host receive queue: accepted messages that wait for `extract` (here `poll_deliver`).
//!
//! Pushed by: frames from below; the messages of a coalesced frame stay together where they can. Popped by: the layer above.
//! Bounded by: `Config::receive_frames`, all endpoints together; the last quarter is for replies. When full: requests are
//! rejected, and their senders send them again.
//!
//! **The reorder buffer** holds messages that arrived before an earlier one of their flow and class. They wait for it,
//! so that handlers get a flow's requests in the order in which they were sent, and its replies likewise. Pushed by:
//! frames from below that arrive behind a gap. Popped by: the message that closes the gap; the flow's end, because the
//! sender already counts these messages as received. Bounded by: a quarter of the room for all waiting messages. When
//! full: a request behind a gap is rejected, and is sent again. The message that closes a gap never enters this buffer,
//! so a full buffer always drains.

use std::collections::{HashMap, VecDeque};

use am_wire::control::Name;
use am_wire::{Class, Flow, Kind, Seq};

use crate::credits::room_for_requests;
use crate::flow::{FlowRecord, PerClass};
use crate::group_queue::GroupQueues;
use crate::handler_set::{HandlerSet, RefusedSeqs};
use crate::output::{Delivery, Returned};
use crate::receive_queue::Verdict;
use crate::warm::WarmEndpoints;
use crate::{EndpointId, FlowId, WINDOW};

/// By flow and class, the low 16 bits of the sequence numbers of accepted messages that no handler will get.
pub(crate) type UnhandledSeqs = HashMap<(Flow, Class), Vec<u16>>;

#[derive(Debug)]
pub(crate) struct Endpoint<B> {
    pub(crate) name: Name,
    pub(crate) tag: u64,
    /// The endpoint has or had a flow.
    pub(crate) had_flows: bool,
    pub(crate) handlers: PerClass<HandlerSet>,
    received: PerClass<VecDeque<Delivery<B>>>,
    /// The messages in `received`, or in hand, that are behind others in their frames.
    behind: usize,
    /// Segments of bulk transfers. They use the credit of requests.
    bulk: VecDeque<Delivery<B>>,
    pub(crate) returned: VecDeque<Returned<B>>,
}

#[derive(Debug)]
pub(crate) struct Endpoints<B> {
    pub(crate) endpoints: Vec<Option<Endpoint<B>>>,
    names: HashMap<Name, EndpointId>,
    /// Ids of closed endpoints, for new ones.
    free_ids: Vec<EndpointId>,
    /// The memory of receive queues that no endpoint uses now.
    spare: Vec<VecDeque<Delivery<B>>>,
    /// Messages that a queue has memory for from the start: a flow's window, twice because the network may reorder.
    queue_length: usize,
    /// Endpoints whose queues have memory.
    pub(crate) warm: WarmEndpoints,
    /// Messages in all receive queues together.
    pub(crate) waiting_count: usize,
    /// The bound on `waiting_count`, by class. Each message in the reorder buffer lowers it by one.
    pub(crate) room: PerClass<usize>,
    /// While fewer messages than this wait, every endpoint has room.
    plenty: usize,
    /// The reorder buffer.
    pub(crate) reorder_buffer: HashMap<(Flow, Class, Seq), Delivery<B>>,
    pub(crate) reorder_capacity: usize,
    pub(crate) refused: RefusedSeqs,
    /// Segments of bulk transfers in all queues together.
    pub(crate) bulk_count: usize,
    /// Returned messages in all queues together.
    pub(crate) returned_count: usize,
    pub(crate) groups: GroupQueues<B>,
}

/// The number of queues that have memory from the start: those of one endpoint. Most nodes have only one.
const INITIAL_QUEUES: usize = 3;

impl<B> Endpoint<B> {
    /// Messages that wait here.
    pub(crate) fn waiting(&self) -> usize {
        self.received.0.iter().map(VecDeque::len).sum::<usize>() + self.behind + self.bulk.len()
    }

    /// Append the messages of a frame, for which [`Endpoints::reserve`] has found room.
    #[inline(always)]
    pub(crate) fn push_next(&mut self, first: Delivery<B>) {
        self.behind += usize::from(first.behind);
        self.received[first.class].push_back(first);
    }

    /// Whether no queue has memory.
    fn is_cold(&self) -> bool {
        self.received.0.iter().chain([&self.bulk]).all(|queue| queue.capacity() == 0)
    }

    fn take_queues(&mut self) -> [VecDeque<Delivery<B>>; 3] {
        let [requests, replies] = &mut self.received.0;
        [requests, replies, &mut self.bulk].map(std::mem::take)
    }
}

impl<B> Endpoints<B> {
    pub(crate) fn new(frames: usize, window: usize) -> Self {
        let reorder_capacity = frames / 4;
        Endpoints {
            endpoints: Vec::new(),
            names: HashMap::new(),
            free_ids: Vec::new(),
            spare: (0..INITIAL_QUEUES).map(|_| VecDeque::with_capacity(2 * window)).collect(),
            queue_length: 2 * window,
            warm: WarmEndpoints::default(),
            waiting_count: 0,
            room: PerClass([room_for_requests(frames), frames]),
            plenty: room_for_requests(frames) / 2,
            reorder_buffer: HashMap::with_capacity(2 * reorder_capacity.min(WINDOW)),
            reorder_capacity,
            refused: RefusedSeqs::new(),
            bulk_count: 0,
            returned_count: 0,
            groups: GroupQueues::new(),
        }
    }

    /// Create an endpoint. `None` if all 65,535 endpoints are in use.
    pub(crate) fn add(&mut self, name: Name, tag: u64) -> Option<EndpointId> {
        let id = self.free_ids.pop().or_else(|| Some(EndpointId(u16::try_from(self.endpoints.len()).ok()?)))?;
        if id == EndpointId::NONE {
            return None;
        }
        let endpoint = Endpoint {
            name,
            tag,
            had_flows: false,
            handlers: PerClass([HandlerSet::ALL, HandlerSet::ALL]),
            received: PerClass([VecDeque::new(), VecDeque::new()]),
            behind: 0,
            bulk: VecDeque::new(),
            returned: VecDeque::new(),
        };
        let at = usize::from(id.0);
        if at == self.endpoints.len() {
            self.endpoints.push(None);
        }
        self.endpoints[at] = Some(endpoint);
        self.names.insert(name, id);
        Some(id)
    }

    /// Remove an endpoint. Returns the numbers of the messages that waited at it: no handler gets these.
    pub(crate) fn remove(&mut self, id: EndpointId) -> UnhandledSeqs {
        let mut unhandled = UnhandledSeqs::new();
        let Some(mut endpoint) = self.endpoints.get_mut(usize::from(id.0)).and_then(Option::take) else {
            return unhandled;
        };
        self.names.remove(&endpoint.name);
        self.free_ids.push(id);
        self.groups.retain(|queue| queue.endpoint != id);
        self.returned_count -= endpoint.returned.len();
        self.bulk_count -= endpoint.bulk.len();
        self.waiting_count -= endpoint.waiting();
        for mut queue in endpoint.take_queues() {
            for message in queue.drain(..).filter(|message| !message.is_head()) {
                let numbers = (0..=message.behind).map(|behind| message.seq.wrapping_add(behind));
                unhandled.entry((message.flow.flow, message.class)).or_default().extend(numbers);
            }
            self.keep_spare(queue);
        }
        unhandled
    }

    #[inline]
    pub(crate) fn get(&mut self, id: EndpointId) -> Option<&mut Endpoint<B>> {
        self.endpoints.get_mut(id.0 as usize)?.as_mut()
    }

    pub(crate) fn by_name(&self, name: Name) -> Option<(EndpointId, &Endpoint<B>)> {
        let id = *self.names.get(&name)?;
        Some((id, self.endpoints.get(usize::from(id.0))?.as_ref()?))
    }

    pub(crate) fn frames(&self) -> impl Iterator<Item = &B> {
        let waiting = self.endpoints.iter().flatten().flat_map(|endpoint| {
            let received = endpoint.received.0.iter().flatten().chain(&endpoint.bulk);
            received.map(|message| &message.frame).chain(endpoint.returned.iter().map(|back| &back.message.frame))
        });
        waiting.chain(self.reorder_buffer.values().map(|message| &message.frame))
    }

    /// Whether a segment of a bulk transfer on this flow waits at the endpoint.
    pub(crate) fn has_bulk_of(&self, id: EndpointId, flow: FlowId) -> bool {
        let endpoint = self.endpoints.get(usize::from(id.0)).and_then(Option::as_ref);
        endpoint.is_some_and(|endpoint| endpoint.bulk.iter().any(|message| message.flow == flow))
    }

    /// Whether there is a frame for one more message to this endpoint.
    #[inline]
    pub(crate) fn has_room(&self, class: Class, id: EndpointId) -> bool {
        self.waiting_count < self.plenty || self.has_room_for(class, id)
    }

    /// The slow path of [`Endpoints::has_room`], for when less than half of the room is free. If the node has several
    /// endpoints, one of them may hold at most four times as many frames as are free. So an endpoint that is not polled
    /// leaves frames to the others.
    #[cold]
    fn has_room_for(&self, class: Class, id: EndpointId) -> bool {
        let free = self.room[class].saturating_sub(self.waiting_count);
        let endpoint = self.endpoints.get(usize::from(id.0)).and_then(Option::as_ref);
        free > 0 && (self.names.len() == 1 || endpoint.is_none_or(|endpoint| endpoint.waiting() <= 4 * free))
    }

    /// Whether there is a frame for a segment or notice where there is none for a request. Both need nothing but a poll, as replies
    /// do, and requests that wait may wait for them.
    #[cold]
    pub(crate) fn has_room_for_bulk(&self, kind: Kind, record: &FlowRecord) -> bool {
        matches!(kind, Kind::Put | Kind::Get) && self.has_room_for(Class::Reply, record.endpoint)
    }

    /// Whether every endpoint is out of frames for this class.
    pub(crate) fn is_full(&self, class: Class) -> bool {
        self.waiting_count >= self.room[class]
    }

    /// The sequence numbers of a flow and class in the reorder buffer, in order, starting from `near`.
    pub(crate) fn buffered_seqs(&self, flow: Flow, class: Class, near: Seq) -> Vec<Seq> {
        let its = self.reorder_buffer.keys().filter(|&&(of, kind, _)| (of, kind) == (flow, class));
        let mut numbers: Vec<Seq> = its.map(|&(.., seq)| seq).collect();
        numbers.sort_unstable_by_key(|seq| seq.since(near));
        numbers
    }

    /// The endpoint of a frame's messages, which are the next ones of their flow, all for one handler. [Push](Endpoint::push_next) them
    /// as one, and count them. `None` if that may need more than a push.
    #[inline(always)]
    pub(crate) fn reserve(
        &mut self,
        id: EndpointId,
        class: Class,
        handler: Option<u8>,
        count: usize,
    ) -> Option<&mut Endpoint<B>> {
        if self.waiting_count + count > self.plenty || !self.refused.is_empty() {
            return None;
        }
        let endpoint = self.endpoints.get_mut(id.0 as usize)?.as_mut()?;
        let queue = &endpoint.received[class];
        (queue.len() < queue.capacity() && endpoint.handlers[class].has(handler?)).then_some(endpoint)
    }

    /// Put a message into its endpoint's queue, or into the reorder buffer if earlier messages are missing. Returns
    /// `false`, and drops the message, if its endpoint does not have the handler, or its number is refused.
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
        // The second condition is false only with a mutant that takes a duplicate for a new message. The duplicate must
        // reach the handler, so that a checker notices it.
        let must_wait = verdict == Verdict::Ahead
            && record.receive[class].next_expected().before(seq.plus(1))
            && record.must_wait_for_earlier(delivery.kind);
        if !must_wait {
            return self.push(record.endpoint, delivery, true);
        }
        let handler = delivery.handler;
        let takes = self.get(record.endpoint).is_some_and(|endpoint| endpoint.handlers[class].has(handler));
        if takes {
            self.buffer(seq, delivery);
        }
        takes
    }

    /// A message closed a gap: deliver the buffered messages from `next` up to the next missing one.
    #[inline(always)]
    pub(crate) fn deliver_behind(&mut self, record: &FlowRecord, class: Class, next: Seq) {
        if !self.reorder_buffer.is_empty() {
            self.deliver_buffered(record, class, next, record.receive[class].next_expected());
        }
    }

    #[cold]
    fn buffer(&mut self, seq: Seq, delivery: Delivery<B>) {
        self.room.0.iter_mut().for_each(|room| *room -= 1);
        self.reorder_buffer.insert((delivery.flow.flow, delivery.class, seq), delivery);
    }

    #[cold]
    fn deliver_buffered(&mut self, record: &FlowRecord, class: Class, from: Seq, until: Seq) {
        let mut seq = from;
        while seq.before(until) {
            if let Some(delivery) = self.take_buffered(record.id.flow, class, seq) {
                self.push(record.endpoint, delivery, false);
            }
            seq = seq.plus(1);
        }
    }

    /// The flow ended, so the missing messages will not come. Deliver the buffered ones that an acknowledgement could
    /// cover, and drop the others: these return to their sender.
    pub(crate) fn flush_reorder_buffer(&mut self, record: &FlowRecord) {
        if self.reorder_buffer.is_empty() {
            return;
        }
        for class in Class::ALL {
            let near = record.receive[class].next_expected();
            for seq in self.buffered_seqs(record.id.flow, class, near) {
                if seq.since(near) <= u64::BITS as i32 {
                    self.deliver_buffered(record, class, seq, seq.plus(1));
                } else {
                    self.take_buffered(record.id.flow, class, seq);
                }
            }
        }
    }

    /// The flow's endpoint is closed: drop its buffered messages, and add their numbers to `unhandled`.
    pub(crate) fn drop_buffered(&mut self, flow: Flow, unhandled: &mut UnhandledSeqs) {
        if self.reorder_buffer.is_empty() {
            return;
        }
        for class in Class::ALL {
            for seq in self.buffered_seqs(flow, class, Seq(0)) {
                let dropped = self.take_buffered(flow, class, seq);
                if dropped.is_some_and(|message| !message.is_head()) {
                    unhandled.entry((flow, class)).or_default().push(seq.0 as u16);
                }
            }
        }
    }

    fn take_buffered(&mut self, flow: Flow, class: Class, seq: Seq) -> Option<Delivery<B>> {
        let delivery = self.reorder_buffer.remove(&(flow, class, seq))?;
        self.room.0.iter_mut().for_each(|room| *room += 1);
        Some(delivery)
    }

    /// Returns `false`, and drops the message, if `must_have` is set and its endpoint does not have the handler.
    #[inline(always)]
    fn push(&mut self, id: EndpointId, delivery: Delivery<B>, must_have: bool) -> bool {
        let Some(endpoint) = self.get(id) else { return true };
        let is_bulk = matches!(delivery.kind, Kind::Put | Kind::Get);
        if must_have && !is_bulk && !endpoint.handlers[delivery.class].has(delivery.handler) {
            return drop_refused(delivery);
        }
        let queue = if is_bulk { &mut endpoint.bulk } else { &mut endpoint.received[delivery.class] };
        if queue.capacity() == 0 {
            self.push_first(id, delivery);
        } else {
            queue.push_back(delivery);
        }
        self.bulk_count += usize::from(is_bulk);
        self.waiting_count += 1;
        true
    }

    /// Put a message into a queue that has no memory yet.
    #[cold]
    fn push_first(&mut self, id: EndpointId, delivery: Delivery<B>) {
        let mut queue = self.spare.pop().unwrap_or_else(|| VecDeque::with_capacity(self.queue_length));
        let Some(Some(endpoint)) = self.endpoints.get_mut(usize::from(id.0)) else { return };
        if endpoint.is_cold() {
            self.warm.push(id);
        }
        let (class, kind) = (delivery.class, delivery.kind);
        queue.push_back(delivery);
        match kind {
            Kind::Put | Kind::Get => endpoint.bulk = queue,
            _ => endpoint.received[class] = queue,
        }
    }

    /// Release the memory of endpoints that have no message now, and had none at the previous call.
    pub(crate) fn cool_down(&mut self) {
        let mut warm = std::mem::take(&mut self.warm);
        warm.retain(|id, was_idle| {
            let Some(endpoint) = self.get(id) else { return false };
            let is_idle = endpoint.waiting() == 0;
            if !(is_idle && std::mem::replace(was_idle, is_idle)) {
                return true;
            }
            let queues = endpoint.take_queues();
            queues.into_iter().for_each(|queue| self.keep_spare(queue));
            false
        });
        self.warm = warm;
    }

    fn keep_spare(&mut self, queue: VecDeque<Delivery<B>>) {
        if queue.capacity() > 0 && self.spare.len() < INITIAL_QUEUES {
            self.spare.push(queue);
        }
    }

    pub(crate) fn pop_bulk(
        &mut self,
        id: EndpointId,
        wanted: impl FnOnce(&Delivery<B>) -> bool,
    ) -> Option<Delivery<B>> {
        let queue = &mut self.get(id)?.bulk;
        let delivery = if wanted(queue.front()?) { queue.pop_front()? } else { return None };
        self.bulk_count -= 1;
        self.waiting_count -= 1;
        Some(delivery)
    }

    /// Take the next message, and those behind it in its frame, which count as waiting until [`put_back`](Self::put_back).
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

    /// Of the messages behind the first of a frame, which were taken with it, this many were handled. The others are the next ones of
    /// their class again.
    pub(crate) fn put_back(&mut self, id: EndpointId, handled: u16, others: Option<Delivery<B>>) {
        let Some(endpoint) = self.get(id) else { return };
        let no_more_behind = usize::from(handled) + usize::from(others.is_some());
        endpoint.behind -= no_more_behind;
        others.into_iter().for_each(|message| endpoint.received[message.class].push_front(message));
        self.waiting_count -= usize::from(handled);
    }

    pub(crate) fn push_returned(&mut self, id: EndpointId, message: Returned<B>) {
        if let Some(endpoint) = self.get(id) {
            endpoint.returned.push_back(message);
            self.returned_count += 1;
        }
    }

    pub(crate) fn pop_returned(&mut self, id: EndpointId) -> Option<Returned<B>> {
        let endpoint = self.get(id)?;
        let message = endpoint.returned.pop_front()?;
        if endpoint.returned.is_empty() {
            endpoint.returned = VecDeque::new();
        }
        self.returned_count -= 1;
        Some(message)
    }
}

/// Not inlined, to keep the fast path short.
#[cold]
fn drop_refused<B>(delivery: Delivery<B>) -> bool {
    drop(delivery);
    false
}
