//! What clients, services and tasks of one endpoint share. All of it is on the node's thread.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use am_api::{
    CallId, Connection, ConnectionChange, ConnectionEvent, Endpoint, EndpointName, Fate, Message, Name, NotOpen,
    Outcome, Request, RequestError, ReturnReason, Sender,
};

use crate::bytes::Bytes;
use crate::calls::{CallKey, Called, Calls, Ended, Ending, Phase};
use crate::codec::{DecodeError, Encode, sure, to_vec, writing};
use crate::control::Control;
use crate::deadlines::{Deadlines, Ticket};
use crate::error::{CallError, NotSent};
use crate::outbox::{Outbox, Parcel};
use crate::peers::{HeldPeer, PeerKey, PeerState, Peers};
use crate::status::{CALL, CANCEL, FLOW, ITEM, RESULT, Status};
use crate::stream::{Posts, StreamKey, StreamTable, Streams};
use crate::tasks::Tasks;
use crate::wakers::Place;

/// The most calls of this side without an outcome, or with one that was not fetched.
pub const MAX_CALLS: usize = 1 << 16;

const CLOSED: CallError<Infallible> = CallError::NotSent(NotSent::Connection("its `Rpc` was dropped"));

/// The server has a status that this side does not know: the method may have run.
const OTHER_VERSION: CallError<Infallible> =
    CallError::MalformedResult(DecodeError::Invalid("outcome that this version knows"));

/// The longest time that a call may have.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

pub(crate) struct Runtime {
    pub(crate) sender: Sender,
    calls: RefCell<Calls>,
    peers: RefCell<Peers>,
    /// Callers by connection: what they had sent is handled after they have left, too.
    callers: RefCell<BTreeMap<Connection, EndpointName>>,
    pub(crate) outbox: Outbox,
    pub(crate) tasks: Tasks,
    pub(crate) streams: StreamTable,
    /// Tasks that wait for a time.
    pub(crate) timers: RefCell<Deadlines<Waker>>,
    /// When a method has returned last, in this turn or before.
    returned: Cell<Duration>,
    /// Until when the call in progress has to be answered: calls that it makes have no more time.
    pub(crate) due: Cell<Option<Duration>>,
    /// Connections that have ended and are not closed yet.
    ended: RefCell<Vec<(Connection, NotOpen)>>,
    /// The endpoint was dropped, so no turn comes any more.
    is_closed: Cell<bool>,
    pub(crate) agenda: Agenda,
}

/// Why a turn has to look at more than messages: one check for all, because nearly every turn has messages only.
pub(crate) struct Agenda {
    /// Something waits: a call for room, a parcel, an ended connection.
    is_busy: Cell<bool>,
    /// When the next running call or task is due, or before.
    due: Cell<Duration>,
}

impl Agenda {
    /// Something waits from now on.
    pub(crate) fn add(&self) {
        self.is_busy.set(true);
    }

    fn add_due(&self, due: Duration) {
        self.due.set(self.due.get().min(due));
    }
}

impl Runtime {
    pub(crate) fn new(endpoint: &mut Endpoint<()>, tasks: Tasks) -> Rc<Runtime> {
        let runtime = Rc::new(Runtime {
            sender: endpoint.sender(),
            calls: RefCell::default(),
            peers: RefCell::default(),
            callers: RefCell::default(),
            outbox: Outbox::default(),
            tasks,
            streams: StreamTable::default(),
            timers: RefCell::default(),
            returned: Cell::default(),
            due: Cell::new(None),
            ended: RefCell::default(),
            is_closed: Cell::new(false),
            agenda: Agenda { is_busy: Cell::new(false), due: Cell::new(Duration::MAX) },
        });
        let with = |run: fn(&Runtime, &Message<'_, ()>)| {
            let runtime = runtime.clone();
            move |(): &mut (), request: Request<'_, ()>| run(&runtime, &request.message)
        };
        endpoint.on_request(RESULT, with(Runtime::on_result));
        endpoint.on_request(ITEM, with(|runtime, message| runtime.streams.on_item(message)));
        endpoint.on_request(FLOW, with(|runtime, message| runtime.streams.on_flow(message)));
        endpoint.on_request(
            CANCEL,
            with(|runtime, message| {
                let (from, id) = (message.from(), CallId(message.word(0)));
                runtime.tasks.cancel((from, id));
                runtime.streams.end((from, id, false));
            }),
        );
        let of_outcomes = runtime.clone();
        endpoint.on_outcome(CALL, move |(), outcome| of_outcomes.on_outcome(outcome));
        let of_connections = runtime.clone();
        endpoint.on_connection(move |(), event| of_connections.on_connection(&event));
        runtime
    }

    /// The peer behind a connection.
    pub(crate) fn peer_of(&self, connection: Connection) -> HeldPeer {
        // The event that would remove an entry has been.
        if !self.sender.is_open(connection) {
            return HeldPeer::default();
        }
        self.peers.borrow_mut().of(connection)
    }

    /// The time when the next method of this turn begins, without a look at the clock.
    #[inline]
    pub(crate) fn now(&self) -> Duration {
        self.sender.turn_time().max(self.returned.get())
    }

    /// A method has returned: the time.
    #[inline]
    pub(crate) fn now_again(&self) -> Duration {
        self.returned.set(self.sender.time());
        self.returned.get()
    }

    /// The name of the endpoint behind a connection.
    pub(crate) fn caller(&self, on: Connection) -> Option<EndpointName> {
        self.callers.borrow().get(&on).copied().or_else(|| self.sender.peer(on))
    }

    // ---- calls of this side

    pub(crate) fn peer_named(&self, name: (&str, &str, u64)) -> HeldPeer {
        self.peers.borrow_mut().named(name)
    }

    /// The node of a peer. `None` if it has left.
    pub(crate) fn node_of(&self, peer: PeerKey) -> Option<Name> {
        let node = self.peers.borrow().node_of(peer)?;
        node.map_or_else(|connection| self.caller(connection).map(|caller| caller.node), Some)
    }

    /// The time that a call has which asks for so much: no more than the call in progress.
    #[inline]
    pub(crate) fn at_most(&self, within: Duration) -> Duration {
        let within = within.min(LONGEST);
        self.due.get().map_or(within, |due| within.min(due.saturating_sub(self.sender.time())))
    }

    /// Send a call, or let it wait for room. `within`: the time that it has, unless the call in progress has less.
    #[inline]
    pub(crate) fn call(
        &self,
        peer: PeerKey,
        called: Called,
        arguments: &impl Encode,
        (within, streams): (Duration, Option<Rc<Streams>>),
    ) -> Result<CallKey, CallError<Infallible>> {
        if self.is_closed.get() {
            return Err(CLOSED);
        }
        if let Some(encoded) = sure(arguments).map_err(CallError::Unencodable)? {
            return self.call(peer, called, &encoded, (within, streams));
        }
        let within = self.at_most(within);
        let mut calls = self.calls.borrow_mut();
        let mut peers = self.peers.borrow_mut();
        if let Some(to) = peers.get(peer).and_then(PeerState::open).filter(|_| calls.len() < MAX_CALLS) {
            let words = [called.method.id.to_word(), within.as_nanos() as u64];
            match self.sender.try_call_with(to, CALL, &words, arguments.size(), writing(arguments), within) {
                Ok(id) => {
                    streams.iter().for_each(|streams| self.streams.add(self, (to, id, true), streams));
                    let key = calls.add(called, Phase::Sent(to, id), streams);
                    calls.sent(key, id);
                    return Ok(key);
                }
                Err(error) if error.is_temporary() => {}
                // The event that says so is still to come. There is another connection in the next turn.
                Err(RequestError::Dead(_) | RequestError::Refused(_) | RequestError::Closed) => {
                    peers.ended(to, Instant::now());
                }
                Err(error) => return Err(error.into()),
            }
        }
        drop((calls, peers));
        self.queue(peer, called, to_vec(arguments).map_err(CallError::Unencodable)?, (within, streams))
    }

    /// Let a call wait for room.
    #[cold]
    #[inline(never)]
    fn queue(
        &self,
        peer: PeerKey,
        called: Called,
        arguments: Vec<u8>,
        (within, streams): (Duration, Option<Rc<Streams>>),
    ) -> Result<CallKey, CallError<Infallible>> {
        let (mut calls, mut peers) = (self.calls.borrow_mut(), self.peers.borrow_mut());
        if calls.len() >= MAX_CALLS {
            return Err(CallError::NotSent(NotSent::TooManyCalls(MAX_CALLS)));
        }
        let state = peers.get(peer).ok_or(CallError::NotSent(NotSent::Connection("the peer has left")))?;
        let due = self.sender.time() + within;
        let key = calls.add(called, Phase::Queued { arguments, due }, streams);
        state.queue.push_back(key);
        peers.queued += 1;
        self.agenda.add();
        Ok(key)
    }

    /// Send calls that wait, as far as there is room.
    fn flush_queues(&self) {
        let (mut over, mut woken, mut begun) = (vec![], vec![], vec![]);
        let now = self.sender.time();
        let mut peers = self.peers.borrow_mut();
        for key in peers.all_keys() {
            let Some(peer) = peers.get(key).filter(|peer| !peer.queue.is_empty()) else { continue };
            let before = peer.link.connection();
            let to = match peer.link.connect(&*self.sender, Instant::now()) {
                Ok(Some(to)) => to,
                Ok(None) => continue,
                Err(error) => {
                    let queue = std::mem::take(&mut peer.queue);
                    woken.extend(peer.waiting.take());
                    peers.queued -= queue.len();
                    self.fail_queue(queue, &mut over, || not_connected(&error));
                    continue;
                }
            };
            let done = self.flush_queue(&mut peer.queue, (to, now), &mut over, &mut begun);
            if peer.queue.is_empty() {
                woken.extend(peer.waiting.take());
            }
            peers.queued -= done;
            if before.is_none() {
                peers.connected(key, to);
            }
        }
        drop(peers);
        begun.iter().for_each(|(key, streams)| self.streams.add(self, *key, streams));
        over.into_iter().for_each(|ended| ended.tell(&self.streams));
        woken.into_iter().for_each(Waker::wake);
    }

    /// Whether no call waits for room at this peer; otherwise this waker is woken then.
    pub(crate) fn poll_room(&self, peer: PeerKey, place: &mut Place, waker: &Waker) -> Poll<()> {
        let mut peers = self.peers.borrow_mut();
        let full = peers.get(peer).filter(|peer| !peer.queue.is_empty() && !self.is_closed.get());
        let Some(peer) = full else { return Poll::Ready(()) };
        let old = peer.waiting.add(place, waker);
        drop(peers);
        drop(old);
        Poll::Pending
    }

    /// Who waited for room waits no more.
    pub(crate) fn leave_room(&self, peer: PeerKey, place: &mut Place) {
        let waker = self.peers.borrow_mut().get(peer).and_then(|peer| peer.waiting.remove(place));
        drop(waker);
    }

    /// Send the calls of one peer. Returns how many do not wait any more.
    fn flush_queue(
        &self,
        queue: &mut VecDeque<CallKey>,
        (to, now): (Connection, Duration),
        over: &mut Vec<Ended>,
        begun: &mut Vec<(StreamKey, Rc<Streams>)>,
    ) -> usize {
        let before = queue.len();
        let mut calls = self.calls.borrow_mut();
        // Those that were dropped, and those whose time is over.
        queue.retain(|&key| match calls.get(key) {
            Some(call) => match call.phase {
                Phase::Queued { due, .. } if due <= now => {
                    over.push(calls.end(key, || Ending::NoAnswer(CallError::Late)));
                    false
                }
                _ => true,
            },
            None => false,
        });
        while let Some(&key) = queue.front() {
            let Some(call) = calls.get(key) else { break };
            let Phase::Queued { arguments, due } = &call.phase else { break };
            let within = due.saturating_sub(now);
            let words = [call.called.method.id.to_word(), within.as_nanos() as u64];
            match self.sender.try_call(to, CALL, &words, arguments, within) {
                Ok(id) => {
                    call.phase = Phase::Sent(to, id);
                    begun.extend(call.streams.clone().map(|streams| ((to, id, true), streams)));
                    calls.sent(key, id);
                }
                Err(error) if error.is_temporary() => break,
                Err(error) => over.push(calls.end(key, || Ending::NoAnswer(error.into()))),
            }
            queue.pop_front();
        }
        before - queue.len()
    }

    fn fail_queue(&self, queue: VecDeque<CallKey>, over: &mut Vec<Ended>, error: impl Fn() -> CallError<Infallible>) {
        let mut calls = self.calls.borrow_mut();
        over.extend(queue.into_iter().map(|key| calls.end(key, || Ending::NoAnswer(error()))));
    }

    /// The outcome of this call, if it has one; otherwise this waker is woken then.
    #[inline]
    pub(crate) fn poll_call(&self, key: CallKey, waker: &Waker) -> Option<(Called, Ending)> {
        let mut calls = self.calls.borrow_mut();
        let waiting = calls.get(key)?;
        if let Phase::Done(_) = waiting.phase {
            return calls.fetch(key);
        }
        let Some(old) = &mut waiting.waker else {
            waiting.waker = Some(waker.clone());
            return None;
        };
        if !old.will_wake(waker) {
            // The old one may run code of the program when it is dropped.
            let old = std::mem::replace(old, waker.clone());
            drop(calls);
            drop(old);
        }
        None
    }

    /// The program dropped this call: forget it, and tell the server.
    pub(crate) fn drop_call(&self, key: CallKey) {
        let forgotten = self.calls.borrow_mut().forget(key);
        let Some((phase, ended)) = forgotten else { return };
        ended.tell(&self.streams);
        if let Phase::Sent(to, id) | Phase::Running(to, id) = phase {
            self.calls.borrow_mut().take_running((to, id));
            self.cancel(to, id);
        }
    }

    fn cancel(&self, to: Connection, id: CallId) {
        self.post(to, &Parcel::of_words(CANCEL, [id.0, 0]));
    }

    /// A call of a peer runs as a task.
    pub(crate) fn begin_task(&self, key: (Connection, CallId), control: Rc<Control>, due: Duration, bytes: usize) {
        self.agenda.add_due(due);
        self.tasks.add(key, control, due, bytes);
    }

    fn on_outcome(&self, outcome: Outcome<'_, ()>) {
        let Outcome { id, to, due, result, .. } = outcome;
        let mut calls = self.calls.borrow_mut();
        let key = calls.key_of(id);
        let error = match result {
            Ok(answer) => match Status::of_word(answer.word(1)) {
                Some(Status::Running) => match self.end_of(to) {
                    // Its result does not come any more.
                    Some(reason) => CallError::Unknown(reason),
                    None => {
                        self.agenda.add_due(due);
                        return calls.runs(key, (to, id), due);
                    }
                },
                Some(status) => {
                    let may_keep = calls.may_keep();
                    let ended = calls.end(key, || Ending::Answer(status, self.kept(&answer, may_keep)));
                    drop(calls);
                    return ended.tell(&self.streams);
                }
                None => OTHER_VERSION,
            },
            Err(am_api::CallError::Returned(back)) if back.fate == Fate::NotDelivered => CallError::Dead(back.reason),
            Err(am_api::CallError::Returned(back)) => CallError::Unknown(back.reason),
            Err(am_api::CallError::Ended(reason)) => CallError::Unknown(reason),
            Err(am_api::CallError::TimedOut) => CallError::Deadline,
        };
        let is_late = error == CallError::Deadline;
        let ended = calls.end(key, || Ending::NoAnswer(error));
        drop(calls);
        if is_late {
            self.cancel(to, id);
        }
        ended.tell(&self.streams);
    }

    /// The payload of an outcome: its frame, or a copy, which leaves the sender its credit.
    #[inline]
    fn kept(&self, message: &Message<'_, ()>, may_keep: bool) -> Bytes {
        if may_keep { Bytes::keep(message) } else { self.in_memory(message) }
    }

    #[cold]
    #[inline(never)]
    fn in_memory(&self, message: &Message<'_, ()>) -> Bytes {
        Bytes::keep_long(message, self.sender.frame_payload(message.from(), 2).unwrap_or(0))
    }

    fn on_result(&self, message: &Message<'_, ()>) {
        let mut calls = self.calls.borrow_mut();
        let may_keep = calls.may_keep();
        let ending = || match Status::of_word(message.word(1)) {
            Some(status) => Ending::Answer(status, self.kept(message, may_keep)),
            None => Ending::NoAnswer(OTHER_VERSION),
        };
        let of = (message.from(), CallId(message.word(0)));
        // Replies and requests have an order each, so a result may come before the answer that the call runs.
        let key = calls.take_running(of).or_else(|| calls.take_sent(of)).unwrap_or_default();
        let ended = calls.end(key, ending);
        drop(calls);
        ended.tell(&self.streams);
    }

    fn on_connection(&self, event: &ConnectionEvent<'_, ()>) {
        let why = match event.change {
            ConnectionChange::Ended(reason) => NotOpen::Dead(reason),
            ConnectionChange::Failed(why) => why,
            ConnectionChange::Accepted => {
                self.callers.borrow_mut().insert(event.connection, event.peer);
                return;
            }
            ConnectionChange::Opened => return,
        };
        let connection = event.connection;
        self.tasks.cancel_all(connection);
        self.streams.end_all(Some(connection));
        let mut over = vec![];
        let (queue, woken) = self.peers.borrow_mut().ended(connection, Instant::now());
        self.fail_queue(queue, &mut over, || why.into());
        let mut calls = self.calls.borrow_mut();
        if let NotOpen::Dead(reason) = why {
            for key in calls.take_running_on(connection) {
                over.push(calls.end(key, || Ending::NoAnswer(CallError::Unknown(reason))));
            }
        }
        drop(calls);
        self.ended.borrow_mut().push((connection, why));
        self.agenda.add();
        over.into_iter().for_each(|ended| ended.tell(&self.streams));
        woken.into_iter().for_each(Waker::wake);
    }

    /// Why this connection has ended. Answers that had arrived are handled after it has.
    fn end_of(&self, connection: Connection) -> Option<ReturnReason> {
        self.ended.borrow().iter().find_map(|(ended, why)| match why {
            NotOpen::Dead(reason) if *ended == connection => Some(*reason),
            _ => None,
        })
    }

    /// Close ended connections, once all calls on them have their outcomes: a node has few flow ids.
    fn close_ended(&self) {
        if self.ended.borrow().is_empty() {
            return;
        }
        let calls = self.calls.borrow();
        let is_done = |(connection, _): &mut (Connection, NotOpen)| !calls.has_sent_on(*connection);
        let done: Vec<_> = self.ended.borrow_mut().extract_if(.., is_done).collect();
        drop(calls);
        for (connection, _) in done {
            self.callers.borrow_mut().remove(&connection);
            self.sender.close(connection);
        }
    }

    // ---- the loop

    /// What there is to do after a turn. Returns whether something was done.
    #[inline]
    pub(crate) fn after_turn(&self) -> bool {
        if !self.agenda.is_busy.get() && !self.tasks.is_woken() && self.agenda.due.get() > self.sender.turn_time() {
            return false;
        }
        self.look_at_all()
    }

    #[cold]
    fn look_at_all(&self) -> bool {
        if self.peers.borrow().queued > 0 {
            self.flush_queues();
        }
        self.end_late_calls();
        self.wake_timers();
        let has_run = self.tasks.run(self.sender.turn_time());
        self.outbox.flush(&self.sender);
        self.close_ended();
        let is_busy = self.peers.borrow().queued > 0 || !self.outbox.is_empty() || !self.ended.borrow().is_empty();
        self.agenda.is_busy.set(is_busy);
        self.agenda.due.set(self.next_due().unwrap_or(Duration::MAX));
        has_run
    }

    fn end_late_calls(&self) {
        let now = self.sender.turn_time();
        loop {
            let mut calls = self.calls.borrow_mut();
            let Some(((to, id), key)) = calls.pop_due(now) else { break };
            let ended = calls.end(key, || Ending::NoAnswer(CallError::Deadline));
            drop(calls);
            self.cancel(to, id);
            ended.tell(&self.streams);
        }
    }

    /// When the next call, task or timer is due.
    fn next_due(&self) -> Option<Duration> {
        let due = [self.calls.borrow().next_due(), self.tasks.next_due(), self.timers.borrow().next()];
        due.into_iter().flatten().min()
    }

    /// Whether no turn comes any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.get()
    }

    /// Wake this at that time.
    pub(crate) fn add_timer(&self, due: Duration, waker: &Waker) -> Ticket {
        self.agenda.add_due(due);
        self.timers.borrow_mut().add(due, waker.clone())
    }

    fn wake_timers(&self) {
        let next = || self.timers.borrow_mut().pop(self.sender.turn_time());
        while let Some(waker) = next() {
            waker.wake();
        }
    }

    /// How long the loop may sleep at most.
    pub(crate) fn may_sleep(&self) -> Option<Duration> {
        // Room is made by frames, which end the sleep. What makes it otherwise is looked for now and then.
        const RETRY: Duration = Duration::from_millis(10);
        let now = self.sender.time();
        let is_waiting = self.peers.borrow().queued > 0 || !self.outbox.is_empty();
        let retry = is_waiting.then_some(RETRY);
        self.next_due().map(|due| due.saturating_sub(now)).into_iter().chain(retry).min()
    }

    /// The endpoint is dropped, so no turn comes any more: end all calls, and drop the tasks, which may have the runtime.
    pub(crate) fn close(&self) {
        self.is_closed.set(true);
        self.streams.end_all(None);
        self.tasks.cancel_everything();
        self.tasks.clear();
        let (timers, waiting) = (self.timers.take(), self.peers.borrow_mut().take_waiting());
        timers.into_all().chain(waiting).for_each(Waker::wake);
        let mut calls = self.calls.borrow_mut();
        let end = |phase: &Phase| match phase {
            Phase::Queued { .. } => Some(CLOSED),
            Phase::Sent(..) | Phase::Running(..) => Some(CallError::Unknown(ReturnReason::Closed)),
            Phase::Done(_) => None,
        };
        let over = calls.end_all(end);
        drop(calls);
        over.into_iter().for_each(|ended| ended.tell(&self.streams));
    }

    /// Calls without an outcome, of this side and of others, and messages that wait.
    pub(crate) fn unfinished(&self) -> usize {
        self.calls.borrow().unfinished() + self.tasks.len() + self.outbox.len()
    }

    /// Calls that are under way: those of this side, tasks of others, and messages that wait.
    pub(crate) fn under_way(&self) -> usize {
        self.calls.borrow().len() + self.tasks.len() + usize::from(!self.outbox.is_empty())
    }

    /// How much each table has: nothing but peers, once nothing is under way.
    pub(crate) fn sizes(&self) -> [(&'static str, usize); 6] {
        let (calls, running) = {
            let calls = self.calls.borrow();
            (calls.len(), calls.running())
        };
        [
            ("calls", calls),
            ("running", running),
            ("tasks", self.tasks.len()),
            ("streams", self.streams.len()),
            ("messages", self.outbox.len()),
            ("peers", self.peers.borrow().len()),
        ]
    }
}

fn not_connected(error: &am_api::ConnectError) -> CallError<Infallible> {
    CallError::NotSent(NotSent::Connection(match error {
        am_api::ConnectError::NoFlow => "no flow id is left on this node",
        am_api::ConnectError::OwnNode(_) => "the name is this node's own",
        am_api::ConnectError::Forked => "this process was forked",
        _ => "the name of the peer is invalid, or this side is closed",
    }))
}

impl Posts for Runtime {
    /// Send a message of the layer's own.
    fn post(&self, to: Connection, parcel: &Parcel<'_>) {
        self.outbox.send(&self.sender, to, parcel);
        self.agenda.add();
    }

    fn max_payload(&self, to: Connection) -> Option<usize> {
        self.sender.max_payload(to)
    }
}
