//! What clients, services and tasks of one endpoint share. All of it is on the node's thread.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use am_api::{
    CallId, Connection, ConnectionChange, ConnectionEvent, Endpoint, EndpointName, Fate, Message, Name, NotOpen,
    Outcome, Request, RequestError, ReturnReason, Sender,
};

use crate::bytes::{Bytes, SHORT};
use crate::calls::{CallKey, Calls, Ended, Ending, NewCall, PeerKey, Phase, Then};
use crate::codec::{DecodeError, Encode, EncodeError, sure, to_vec, writing};
use crate::control::Control;
use crate::deadlines::{Deadlines, Ticket};
use crate::error::{CallError, NotSent};
use crate::outbox::{Outbox, Parcel};
use crate::peers::{HeldPeer, Peers};
use crate::status::{CALL, CANCEL, FLOW, ITEM, RESULT, SentCall, Status};
use crate::stream::{Posts, StreamKey, StreamTable, Streams};
use crate::tasks::Tasks;
use crate::wakers::Place;

/// The most calls of this side without an outcome, or with one that was not fetched.
pub const MAX_CALLS: usize = 1 << 16;

const CLOSED: CallError<Infallible> = CallError::NotSent(NotSent::Connection("its `Rpc` was dropped"));

/// The server has a status that this side does not know: the method may have run.
const OTHER_VERSION: CallError<Infallible> =
    CallError::MalformedResult(DecodeError::Invalid("outcome that this version knows"));

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
    /// When a method has returned last, in this turn or before, in nanoseconds.
    returned: Cell<u64>,
    /// Until when the call in progress has to be answered, in nanoseconds: calls that it makes have no more time.
    pub(crate) due: Cell<u64>,
    /// Connections that have ended and are not closed yet.
    ended: RefCell<Vec<(Connection, NotOpen)>>,
    /// The endpoint was dropped, so no turn comes any more.
    is_closed: Cell<bool>,
    pub(crate) agenda: Agenda,
}

/// When a turn has to look at more than messages. One check for all that there may be, because nearly every turn has messages only.
#[derive(Default)]
pub(crate) struct Agenda {
    /// Or before. Zero while something waits: a call for room, a parcel, an ended connection. `None` if nothing is due.
    next: Cell<Option<Duration>>,
}

impl Agenda {
    /// Something waits from now on.
    pub(crate) fn add(&self) {
        self.add_due(Duration::ZERO);
    }

    fn add_due(&self, due: Duration) {
        self.next.set(Some(self.next.get().map_or(due, |next| next.min(due))));
    }
}

/// Those who have to hear of calls once no table is borrowed.
#[derive(Default)]
struct News {
    over: Vec<Ended>,
    /// Streams of calls that were sent.
    begun: Vec<(StreamKey, Rc<Streams>)>,
    woken: Vec<Waker>,
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
            due: Cell::new(u64::MAX),
            ended: RefCell::default(),
            is_closed: Cell::new(false),
            agenda: Agenda::default(),
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
                let call = SentCall { on: message.from(), id: CallId(message.word(0)) };
                runtime.tasks.cancel(call);
                runtime.streams.end(StreamKey { call, is_own: false });
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

    /// The time when the next method of this turn begins, in nanoseconds, without a look at the clock.
    #[inline]
    pub(crate) fn now(&self) -> u64 {
        self.turn_time().max(self.returned.get())
    }

    /// When what is handled now was received, in nanoseconds.
    #[inline]
    pub(crate) fn turn_time(&self) -> u64 {
        nanoseconds(self.sender.turn_time())
    }

    /// A method of this turn has returned: how many nanoseconds it took.
    #[inline]
    pub(crate) fn took(&self) -> u64 {
        let begun = self.now();
        self.returned.set(nanoseconds(self.sender.time()));
        self.returned.get().saturating_sub(begun)
    }

    /// The name of the endpoint behind a connection.
    pub(crate) fn caller(&self, on: Connection) -> Option<EndpointName> {
        self.callers.borrow().get(&on).copied().or_else(|| self.sender.peer(on))
    }

    // ---- calls of this side

    pub(crate) fn peer_named(&self, name: (&str, &str, u64)) -> HeldPeer {
        let calls = self.calls.borrow();
        self.peers.borrow_mut().named(name, |peer| calls.has_queued(peer))
    }

    /// The node of a peer. `None` if it has left.
    pub(crate) fn node_of(&self, peer: PeerKey) -> Option<Name> {
        let node = self.peers.borrow().node_of(peer)?;
        node.map_or_else(|connection| self.caller(connection).map(|caller| caller.node), Some)
    }

    /// The time that a call has which asks for so much: no more than the call in progress.
    #[inline]
    pub(crate) fn at_most(&self, within: Duration) -> Duration {
        match self.due.get() {
            u64::MAX => within,
            due => within.min(Duration::from_nanos(due).saturating_sub(self.sender.time())),
        }
    }

    /// Send a call, or let it wait for room.
    #[inline]
    pub(crate) fn call(&self, new: NewCall, arguments: &impl Encode) -> CallKey {
        let arguments = match sure(arguments) {
            Ok(_) if self.is_closed.get() => return self.fail(new.streams, CLOSED),
            Ok(arguments) => arguments,
            Err(error) => return self.fail(new.streams, CallError::Unencodable(error)),
        };
        let within = self.at_most(new.within);
        let mut calls = self.calls.borrow_mut();
        let connection = self.peers.borrow().connection(new.peer);
        if let Some(on) = connection
            && calls.len() < MAX_CALLS
            && !calls.has_queued(new.peer)
        {
            let words = [new.method.to_word(), nanoseconds(within)];
            match self.sender.try_call_with(on, CALL, &words, arguments.size(), writing(&arguments), within) {
                Ok(id) => {
                    let call = SentCall { on, id };
                    let key = calls.add_sent(call, new.streams.clone());
                    drop(calls);
                    if let Some(streams) = &new.streams {
                        self.streams.add(self, StreamKey { call, is_own: true }, streams);
                    }
                    return key;
                }
                Err(error) if error.is_temporary() => {}
                // The event that says so is still to come. There is another connection in the next turn.
                Err(RequestError::Dead(_) | RequestError::Refused(_) | RequestError::Closed) => {
                    self.peers.borrow_mut().ended(on, Instant::now());
                }
                Err(error) => {
                    drop(calls);
                    return self.fail(new.streams, error.into());
                }
            }
        }
        drop(calls);
        self.queue(NewCall { within, ..new }, to_vec(&arguments))
    }

    /// A call that was not sent.
    #[cold]
    #[inline(never)]
    pub(crate) fn fail(&self, streams: Option<Rc<Streams>>, error: CallError<Infallible>) -> CallKey {
        let key = self.calls.borrow_mut().add_failed(error);
        streams.iter().for_each(|streams| streams.end());
        key
    }

    /// Let a call wait for room.
    #[cold]
    #[inline(never)]
    fn queue(&self, new: NewCall, arguments: Result<Vec<u8>, EncodeError>) -> CallKey {
        let mut calls = self.calls.borrow_mut();
        let is_full = calls.len() >= MAX_CALLS;
        let has_left = self.peers.borrow_mut().get(new.peer).is_none();
        let error = match arguments {
            _ if is_full => CallError::NotSent(NotSent::TooManyCalls(MAX_CALLS)),
            _ if has_left => CallError::NotSent(NotSent::Connection("the peer has left")),
            Err(error) => CallError::Unencodable(error),
            Ok(arguments) => {
                self.agenda.add();
                let due = self.sender.time() + new.within;
                return calls.add_queued(new, arguments, due);
            }
        };
        drop(calls);
        self.fail(new.streams, error)
    }

    /// Send calls that wait, as far as there is room.
    fn flush_queues(&self) {
        let mut news = News::default();
        let (mut calls, mut peers) = (self.calls.borrow_mut(), self.peers.borrow_mut());
        let mut last = None;
        while let Some(peer) = calls.next_queue(last) {
            last = Some(peer);
            match peers.connect(peer, &self.sender) {
                Ok(Some(on)) => self.flush_queue(&mut calls, peer, on, &mut news),
                Ok(None) => {}
                Err(error) => news.over.extend(calls.end_queue(peer, || not_connected(&error))),
            }
            if !calls.has_queued(peer) {
                news.woken.append(&mut peers.take_waiting(peer));
            }
        }
        drop((calls, peers));
        self.tell(news);
    }

    fn tell(&self, News { over, begun, woken }: News) {
        begun.iter().for_each(|(key, streams)| self.streams.add(self, *key, streams));
        over.into_iter().for_each(|ended| ended.tell(&self.streams));
        woken.into_iter().for_each(Waker::wake);
    }

    pub(crate) fn has_no_outcome(&self, key: CallKey) -> bool {
        !matches!(self.calls.borrow().phase(key), None | Some(Phase::Done(_)))
    }

    /// Run this with the outcome of a call that has none yet.
    pub(crate) fn then(&self, key: CallKey, run: Then) {
        self.calls.borrow_mut().then(key, run, self.tasks.waker());
    }

    /// Run what waits for outcomes that have come. If one panics, and the program goes on, the others run in the next turn.
    fn run_outcomes(&self) -> bool {
        let next = || self.calls.borrow_mut().next_outcome();
        let mut has_run = false;
        while let Some((run, ending)) = next() {
            has_run = true;
            run(ending);
        }
        has_run
    }

    /// Send the calls that wait for room on this connection.
    fn flush_queue(&self, calls: &mut Calls, peer: PeerKey, on: Connection, news: &mut News) {
        let now = self.sender.time();
        while let Some((key, queued)) = calls.first_queued(peer) {
            let within = queued.within(now);
            let words = [queued.method.to_word(), nanoseconds(within)];
            let error = if within.is_zero() {
                CallError::Late
            } else {
                match self.sender.try_call(on, CALL, &words, &queued.arguments, within) {
                    Ok(id) => {
                        let call = SentCall { on, id };
                        let streams = calls.sends(key, call);
                        news.begun.extend(streams.map(|streams| (StreamKey { call, is_own: true }, streams)));
                        continue;
                    }
                    Err(error) if error.is_temporary() => break,
                    Err(error) => error.into(),
                }
            };
            news.over.push(calls.end(key, || Ending::NoAnswer(error)));
        }
    }

    /// Whether no call waits for room at this peer; otherwise this waker is woken then.
    pub(crate) fn poll_room(&self, peer: PeerKey, place: &mut Place, waker: &Waker) -> Poll<()> {
        let mut peers = self.peers.borrow_mut();
        let full = peers.get(peer).filter(|_| self.calls.borrow().has_queued(peer) && !self.is_closed.get());
        let Some(peer) = full else { return Poll::Ready(()) };
        let old = peer.waiting.add(place, waker);
        drop(peers);
        drop(old);
        Poll::Pending
    }

    /// A call of this peer does not wait for room any more.
    fn leaves_queue(&self, peer: PeerKey) {
        let has_room = !self.calls.borrow().has_queued(peer);
        let woken = if has_room { self.peers.borrow_mut().take_waiting(peer) } else { vec![] };
        woken.into_iter().for_each(Waker::wake);
    }

    /// Who waited for room waits no more.
    pub(crate) fn leave_room(&self, peer: PeerKey, place: &mut Place) {
        let waker = self.peers.borrow_mut().get(peer).and_then(|peer| peer.waiting.remove(place));
        drop(waker);
    }

    /// Whether this call has an outcome, which is stored; otherwise this waker is woken then.
    #[inline]
    pub(crate) fn poll_call(&self, key: CallKey, waker: &Waker, outcome: &mut Ending) -> bool {
        let (has_ended, _replaced) = self.calls.borrow_mut().poll(key, waker, outcome);
        has_ended
    }

    /// The program dropped this call: forget it, and tell the server.
    pub(crate) fn drop_call(&self, key: CallKey) {
        let forgotten = self.calls.borrow_mut().forget(key);
        let Some((phase, ended)) = forgotten else { return };
        ended.tell(&self.streams);
        match phase {
            Phase::Sent(call) | Phase::Running(call, _) => self.cancel(call),
            Phase::Queued(queued) => self.leaves_queue(queued.peer()),
            Phase::Done(_) => {}
        }
    }

    fn cancel(&self, call: SentCall) {
        self.post(call.on, &Parcel::of_words(CANCEL, [call.id.0, 0]));
    }

    /// A call of a peer runs as a task.
    pub(crate) fn begin_task(&self, call: SentCall, control: Rc<Control>, due: Duration, bytes: usize) {
        self.agenda.add_due(due);
        self.tasks.add(call, control, due, bytes);
    }

    #[inline]
    fn on_outcome(&self, outcome: Outcome<'_, ()>) {
        let status = outcome.result.as_ref().ok().and_then(|answer| Status::of_word(answer.word(1)));
        match (status, &outcome.result) {
            (Some(status), Ok(answer)) if status != Status::Running => {
                let mut calls = self.calls.borrow_mut();
                let (key, may_keep) = (calls.key_of(outcome.id), calls.may_keep());
                let ended = calls.end(key, || Ending::Answer(status, self.kept(answer, may_keep)));
                drop(calls);
                ended.tell(&self.streams);
            }
            _ => self.on_no_answer(outcome),
        }
    }

    /// A call has another outcome than an answer, or runs.
    #[cold]
    #[inline(never)]
    fn on_no_answer(&self, outcome: Outcome<'_, ()>) {
        let Outcome { id, to, due, result, .. } = outcome;
        let call = SentCall { on: to, id };
        let mut calls = self.calls.borrow_mut();
        let key = calls.key_of(id);
        let error = match result {
            Ok(answer) if answer.word(1) == Status::Running as u64 => match self.end_of(to) {
                // Its result does not come any more.
                Some(reason) => CallError::Unknown(reason),
                None => {
                    self.agenda.add_due(due);
                    return calls.runs(key, call, due);
                }
            },
            Ok(_) => OTHER_VERSION,
            Err(am_api::CallError::Returned(back)) if back.fate == Fate::NotDelivered => CallError::Dead(back.reason),
            Err(am_api::CallError::Returned(back)) => CallError::Unknown(back.reason),
            Err(am_api::CallError::Ended(reason)) => CallError::Unknown(reason),
            Err(am_api::CallError::TimedOut) => CallError::Deadline,
        };
        let is_late = error == CallError::Deadline;
        let ended = calls.end(key, || Ending::NoAnswer(error));
        drop(calls);
        if is_late {
            self.cancel(call);
        }
        ended.tell(&self.streams);
    }

    /// The payload of an outcome: its frame, or a copy, which leaves the sender its credit.
    #[inline]
    fn kept(&self, message: &Message<'_, ()>, may_keep: bool) -> Bytes {
        if may_keep || message.payload().len() <= SHORT { Bytes::keep(message) } else { self.in_memory(message) }
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
        let call = SentCall { on: message.from(), id: CallId(message.word(0)) };
        let key = calls.find(call).unwrap_or_default();
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
        let (peer, woken) = self.peers.borrow_mut().ended(connection, Instant::now());
        let mut calls = self.calls.borrow_mut();
        let mut over = calls.end_queue(peer, || why.into());
        if let NotOpen::Dead(reason) = why {
            let running = calls.running_on(connection).into_iter();
            over.extend(running.map(|key| calls.end(key, || Ending::NoAnswer(CallError::Unknown(reason)))));
        }
        drop(calls);
        self.ended.borrow_mut().push((connection, why));
        self.agenda.add();
        self.tell(News { over, woken, ..News::default() });
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
        self.is_due() && self.look_at_all()
    }

    /// Whether a turn has to look at more than messages.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        let is_due = |next| next <= self.sender.turn_time();
        self.tasks.is_woken() || self.agenda.next.get().is_some_and(is_due)
    }

    #[cold]
    fn look_at_all(&self) -> bool {
        self.end_late_calls();
        if self.calls.borrow().has_queue() {
            self.flush_queues();
        }
        self.wake_timers();
        let has_run = self.run_outcomes() | self.tasks.run(self.sender.turn_time());
        self.outbox.flush(&self.sender);
        self.close_ended();
        let is_busy = self.has_waiting() || !self.ended.borrow().is_empty();
        self.agenda.next.set(if is_busy { Some(Duration::ZERO) } else { self.next_due() });
        has_run
    }

    /// Whether a call or a parcel waits for room.
    fn has_waiting(&self) -> bool {
        self.calls.borrow().has_queue() || !self.outbox.is_empty()
    }

    fn end_late_calls(&self) {
        let now = self.sender.turn_time();
        loop {
            let mut calls = self.calls.borrow_mut();
            let Some(key) = calls.pop_due(now) else { break };
            let (queue, sent) = match calls.phase(key) {
                Some(Phase::Queued(queued)) => (Some(queued.peer()), None),
                Some(Phase::Running(call, _)) => (None, Some(*call)),
                _ => (None, None),
            };
            let error = if sent.is_some() { CallError::Deadline } else { CallError::Late };
            let ended = calls.end(key, || Ending::NoAnswer(error));
            drop(calls);
            sent.into_iter().for_each(|call| self.cancel(call));
            ended.tell(&self.streams);
            queue.into_iter().for_each(|peer| self.leaves_queue(peer));
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
        let retry = self.has_waiting().then_some(RETRY);
        self.next_due().map(|due| due.saturating_sub(now)).into_iter().chain(retry).min()
    }

    /// The endpoint is dropped, so no turn comes any more: end all calls, and drop the tasks, which may have the runtime.
    pub(crate) fn close(&self) {
        self.is_closed.set(true);
        self.streams.end_all(None);
        self.tasks.cancel_everything();
        self.tasks.clear();
        let (timers, waiting) = (self.timers.take(), self.peers.borrow_mut().take_all_waiting());
        timers.into_all().chain(waiting).for_each(Waker::wake);
        let mut calls = self.calls.borrow_mut();
        let end = |phase: &Phase| match phase {
            Phase::Queued(_) => Some(CLOSED),
            Phase::Sent(..) | Phase::Running(..) => Some(CallError::Unknown(ReturnReason::Closed)),
            Phase::Done(_) => None,
        };
        let (over, outcomes) = (calls.end_all(end), calls.take_outcomes());
        drop(calls);
        over.into_iter().for_each(|ended| ended.tell(&self.streams));
        drop(outcomes);
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

/// A node's time. All of it is in 64 bits.
#[inline]
pub(crate) fn nanoseconds(time: Duration) -> u64 {
    time.as_nanos() as u64
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
