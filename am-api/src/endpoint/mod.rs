//! Endpoints: messages arrive there and run its handlers.

mod call;
mod group_message;
mod handler;
mod message;
mod sender;
mod transfer;

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use am_engine::{Idle, PollScope};
use am_proto::{EndpointId, Time};
use am_transport::Transport;
use am_wire::Class;
use am_wire::control::Name;

pub use call::{CallError, Outcome};
pub use group_message::GroupMessage;
pub(crate) use group_message::group_payload;
pub(crate) use handler::Handlers;
pub(crate) use message::Head;
pub use message::{ConnectionEvent, MemberEvent, Message, Request, Returned};
pub use sender::Sender;
pub use transfer::Transfer;

use crate::group_place::Membership;
use crate::log;
use crate::node_state::{NodeRc, NodeState, borrow_to_drop};
use crate::waker::{BY_PROGRAM, Waiter};
use crate::{Connection, Destination, Events, HandlerId, LongHead, NotOpen, NotReached, RequestError};
use call::Calls;

/// After a rest of this time, the transport may have notices.
const LONG_REST: Duration = Duration::from_millis(1);

/// An endpoint of a node, with the handlers of the messages that arrive for it.
///
/// `S` is the application's state: handlers get it as `&mut S` from the caller that polls. A handler finds its endpoint at
/// [`Message::endpoint`], and can do everything with it but poll and set handlers.
///
/// Dropping it closes its connections. What was sent and has not arrived may be lost then: see [Ending](crate#ending).
pub struct Endpoint<S> {
    pub(crate) node: NodeRc,
    pub(crate) id: EndpointId,
    name: Name,
    /// Borrowed while handlers run. They get the endpoint by `&`, so they cannot poll it.
    pub(crate) handlers: RefCell<Handlers<S>>,
    pub(crate) shared: Rc<EndpointShared>,
    /// Whether this is the view of a [`Sender`]. The endpoint outlives it.
    is_view: bool,
    pub(crate) idle: Idle,
    /// The number of idle turns in a row.
    idle_turns: u32,
    /// Another thread has ended the wait.
    pub(crate) is_woken: bool,
    pub(crate) mask: Events,
    /// Whether it has waited for events.
    pub(crate) listens: bool,
}

/// The parts of an endpoint that its [`Sender`]s use, too.
#[derive(Debug, Default)]
pub(crate) struct EndpointShared {
    pub(crate) calls: RefCell<Calls>,
    /// 0 until one is set.
    weight: Cell<u8>,
    pub(crate) translations: RefCell<Vec<Option<Translation>>>,
}

/// An entry of a translation table.
#[derive(Debug)]
pub(crate) struct Translation {
    pub(crate) node: String,
    pub(crate) endpoint: String,
    pub(crate) connection: Connection,
}

/// What a turn has for handlers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    Nothing,
    /// Messages only, as nearly every turn that has any.
    Messages,
    All,
}

impl<S> Endpoint<S> {
    /// An endpoint, or a view of the one that has these shared parts.
    pub(crate) fn new(
        node: NodeRc,
        id: EndpointId,
        name: Name,
        idle: Idle,
        view_of: Option<Rc<EndpointShared>>,
    ) -> Self {
        Endpoint {
            node,
            id,
            name,
            handlers: RefCell::default(),
            is_view: view_of.is_some(),
            shared: view_of.unwrap_or_default(),
            idle,
            idle_turns: 0,
            is_woken: false,
            mask: Events::default(),
            listens: false,
        }
    }

    /// The endpoint's name.
    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    /// Run this for requests that name `handler`. Requests for a handler that the endpoint does not have return to their senders
    /// with [`ReturnReason::NoHandler`](crate::ReturnReason::NoHandler). So set an endpoint's handlers before any endpoint of its
    /// node is polled again.
    pub fn on_request(&mut self, handler: HandlerId, run: impl FnMut(&mut S, Request<'_, S>) + 'static) {
        self.node.borrow_mut().core().add_handler(self.id, Class::Request, handler.0);
        self.handlers.get_mut().requests.set(handler, Box::new(run));
    }

    /// Run this for replies that name `handler`.
    pub fn on_reply(&mut self, handler: HandlerId, run: impl FnMut(&mut S, Message<'_, S>) + 'static) {
        self.node.borrow_mut().core().add_handler(self.id, Class::Reply, handler.0);
        self.handlers.get_mut().replies.set(handler, Box::new(run));
    }

    /// Run this for messages of this endpoint that could not be delivered. A [call](Endpoint::try_call) has its
    /// [outcome](Endpoint::on_outcome) instead. Without this handler, returned messages are only counted (`returned`).
    pub fn on_returned(&mut self, run: impl FnMut(&mut S, Returned<'_, S>) + 'static) {
        self.handlers.get_mut().returned = Some(Box::new(run));
    }

    /// Run this for messages that name a handler that this endpoint does not have. Without it, these return to their senders. They
    /// are counted (`unhandled`).
    pub fn on_unhandled(&mut self, run: impl FnMut(&mut S, Message<'_, S>) + 'static) {
        self.node.borrow_mut().core().set_all_handlers(self.id, true);
        self.handlers.get_mut().unhandled = Some(Box::new(run));
    }

    /// Run this for the head of each message longer than a frame. What it returns is where the payload goes as it arrives, instead of into
    /// memory of the node, and the handler gets a [placed](Message::is_placed) message. It may run long before the handler, also before those
    /// of earlier messages. An [`EndpointSet`](crate::EndpointSet) does not ask.
    pub fn receive_into(&mut self, run: impl FnMut(&mut S, &LongHead<'_>) -> Option<Destination> + 'static) {
        self.handlers.get_mut().into = Some(Box::new(run));
    }

    /// Run this when a bulk transfer of this endpoint or of a peer ends, however it ends.
    pub fn on_transfer(&mut self, run: impl FnMut(&mut S, Transfer<'_, S>) + 'static) {
        self.handlers.get_mut().transfer = Some(Box::new(run));
    }

    /// Run this when a connection of this endpoint opens, fails or ends; not when this side closes it.
    pub fn on_connection(&mut self, run: impl FnMut(&mut S, ConnectionEvent<'_, S>) + 'static) {
        self.node.borrow_mut().events.add(self.id);
        self.handlers.get_mut().connection = Some(Box::new(run));
    }

    /// Run this when a node of the segment joins, changes or leaves, beginning with those that are present. The node asks silent
    /// members, and so notices a crash within two seconds; [`Builder::member_timeout`](crate::Builder::member_timeout) changes
    /// this time. Connections are not affected: they end as [`on_connection`](Endpoint::on_connection) reports.
    ///
    /// ```
    /// use am_api::{MemberChange, Node};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let (alpha, beta) = (Node::open("alpha", "sim:5")?, Node::open("beta", "sim:5")?);
    /// let (mut watches, mut other) = (alpha.endpoint::<bool>("main")?, beta.endpoint::<()>("main")?);
    /// watches.on_members(|is_there, event| *is_there = event.change == MemberChange::Joined);
    /// let mut is_there = false;
    /// while !is_there {
    ///     watches.poll(&mut is_there);
    ///     other.poll(&mut ());
    /// }
    /// assert_eq!(alpha.members()[0].peer.name.as_str(), "beta");
    /// # Ok(())
    /// # }
    /// ```
    pub fn on_members(&mut self, run: impl FnMut(&mut S, MemberEvent<'_, S>) + 'static) {
        let mut node = self.node.borrow_mut();
        node.core().watch_members();
        let present = node.engine.core().members().collect();
        node.members.add(self.id, present);
        drop(node);
        self.handlers.get_mut().members = Some(Box::new(run));
    }

    /// One turn of the node's loop: receive frames, run the handlers of this endpoint's messages (at most
    /// [`BUDGET`](crate::BUDGET)), send frames. Returns how many messages and events were handled.
    #[inline]
    pub fn poll(&mut self, state: &mut S) -> usize {
        self.turn(state, PollScope::Everything).0
    }

    /// Returns the number of messages handled, and whether the turn was busy: it received, handled or sent something.
    #[inline]
    fn turn(&mut self, state: &mut S, look: PollScope) -> (usize, bool) {
        let writes = self.node.writes();
        let mut node = self.node.borrow_mut();
        let work_at = || self.shared.calls.borrow().next_check();
        let Some(received) = node.inhale_or_rest(look, writes, work_at) else { return (0, false) };
        let mut handled = 0;
        let work = self.work(&node);
        if work != Work::Nothing {
            drop(node);
            handled = self.dispatch(state, work);
            node = self.node.borrow_mut();
        }
        let sent = node.exhale();
        let is_busy = received + handled + sent > 0;
        if !is_busy {
            node.rest(self.node.writes());
        }
        (handled, is_busy)
    }

    #[inline]
    fn work(&self, node: &NodeState) -> Work {
        if self.has_events(node) {
            return Work::All;
        }
        match node.engine.core().has_deliveries() {
            false => Work::Nothing,
            true if node.has_segments_or_lanes() => Work::All,
            true => Work::Messages,
        }
    }

    /// Whether there are events, or calls may have waited too long for an answer.
    #[inline]
    pub(crate) fn has_events(&self, node: &NodeState) -> bool {
        node.has_news() || self.shared.calls.borrow().next_check() <= node.engine.core().now()
    }

    /// Handle what a turn of another endpoint of the node has received for this one: for a program that polls several. It neither receives nor sends.
    /// Returns the number of messages and events handled.
    #[inline]
    pub fn handle(&mut self, state: &mut S) -> usize {
        let work = self.work(&self.node.borrow());
        if work == Work::Nothing { 0 } else { self.dispatch(state, work) }
    }

    /// The time, by the clock of the node. 0 was before it opened.
    pub fn time(&self) -> Duration {
        self.node.borrow().clock.now() - Time::default()
    }

    /// The longest payload that this node accepts as one message, in bytes ([`Builder::max_message`](crate::Builder::max_message)).
    pub fn max_message(&self) -> usize {
        self.node.borrow().engine.core().config().max_message as usize
    }

    /// The [time](Endpoint::time) at which the turn in progress began, or the last one: what arrived was received then or before. It costs
    /// no reading of the clock.
    #[inline]
    pub fn turn_time(&self) -> Duration {
        self.node.borrow().engine.core().now() - Time::default()
    }

    /// Send waiting frames now instead of with the next poll.
    pub fn flush(&self) {
        self.node.borrow_mut().exhale();
    }

    /// Poll until a message or an event (a connection, a transfer, a deadline) has been handled, the time is over, or a
    /// [waker](crate::Node::waker) ends the wait. Spin, yield or sleep meanwhile. Returns how many were handled.
    pub fn wait(&mut self, state: &mut S, timeout: Duration) -> usize {
        self.wait_or(state, timeout, |_| false)
    }

    /// The same, and it ends as well when another endpoint of the node has [work](crate::Node::has_work): for a program that polls several.
    pub fn wait_any(&mut self, state: &mut S, timeout: Duration) -> usize {
        let has_work = |endpoint: &Self| {
            let node = endpoint.node.borrow();
            node.has_work() || node.has_bulk()
        };
        // What an earlier turn has received shows in no later one.
        if has_work(self) { self.poll(state) } else { self.wait_or(state, timeout, has_work) }
    }

    fn wait_or(&mut self, state: &mut S, timeout: Duration, ends: impl Fn(&Self) -> bool) -> usize {
        let mut handled = 0;
        self.poll_until(state, timeout, |endpoint, _, just| {
            handled += just;
            handled > 0 || endpoint.is_woken || ends(endpoint)
        });
        if handled == 0 {
            self.is_woken = false;
        }
        handled
    }

    /// Poll until `wanted` is true or the time is over. Returns whether it is true.
    pub fn wait_until(&mut self, state: &mut S, timeout: Duration, mut wanted: impl FnMut(&S) -> bool) -> bool {
        wanted(state) || self.poll_until(state, timeout, |_, state, _| wanted(state))
    }

    /// Poll until the connection is open.
    ///
    /// # Errors
    /// See [`NotOpen`]. After `timeout` it is [`NotOpen::Connecting`]. If the node's [patience](crate::Builder::patience) is
    /// shorter, the set-up fails sooner, with [`NotOpen::Dead`]. The error also says which nodes have been heard, and what is
    /// wrong with this node.
    pub fn wait_open(&mut self, state: &mut S, to: Connection, timeout: Duration) -> Result<(), NotReached> {
        self.poll_until(state, timeout, |endpoint, _, _| endpoint.ready(to) != Err(NotOpen::Connecting));
        self.ready(to).map_err(|why| self.node.borrow_mut().not_reached(why))
    }

    /// Poll until the peer's node has accepted all that was sent on the connection, or it has returned (see
    /// [`is_accepted`](Endpoint::is_accepted)), or the time is over. Returns whether it has. A program that has sent and is about to end
    /// calls this first.
    pub fn wait_accepted(&mut self, state: &mut S, to: Connection, timeout: Duration) -> bool {
        self.is_accepted(to) || self.poll_until(state, timeout, |endpoint, _, _| endpoint.is_accepted(to))
    }

    /// As [`try_request`](Endpoint::try_request), but polls until there is room, however long the receiver takes. Handlers run
    /// meanwhile, so a handler cannot call it.
    ///
    /// # Errors
    /// Those that are not [temporary](RequestError::is_temporary).
    pub fn request(
        &mut self,
        state: &mut S,
        to: Connection,
        handler: HandlerId,
        words: &[u64],
        payload: &[u8],
    ) -> Result<(), RequestError> {
        self.idle_turns = 0;
        loop {
            match self.try_request(to, handler, words, payload) {
                Err(error) if error.is_temporary() => {
                    let (_, is_busy) = self.turn(state, PollScope::of_idle_turn(self.idle_turns));
                    self.rest_if_idle(is_busy, Time::NEVER);
                }
                done => return done,
            }
        }
    }

    /// `done` gets the endpoint, the state, and how many messages the turn before it handled.
    fn poll_until(
        &mut self,
        state: &mut S,
        timeout: Duration,
        mut done: impl FnMut(&Self, &mut S, usize) -> bool,
    ) -> bool {
        self.idle_turns = 0;
        let mut until = None;
        loop {
            let (handled, is_busy) = self.turn(state, PollScope::of_idle_turn(self.idle_turns));
            // The core's time may be old, so the timeout starts after the first turn, which reads the clock.
            let until = *until.get_or_insert_with(|| self.node.borrow().now() + timeout);
            self.rest_if_idle(is_busy, until);
            if done(self, state, handled) {
                return true;
            }
            if self.node.borrow().now() >= until {
                return false;
            }
        }
    }

    /// After a turn: a rest, at most until this time, if it was idle. Only every eighth idle turn in a row reads the clock. The others
    /// check only for frames, which keeps this loop short.
    #[inline]
    fn rest_if_idle(&mut self, is_busy: bool, until: Time) {
        if is_busy {
            self.idle_turns = 0;
            self.idle.busy();
        } else {
            self.idle_turns = self.idle_turns.wrapping_add(1);
            let next_check = self.shared.calls.borrow().next_check();
            self.rest(until.min(next_check));
        }
    }

    /// Nothing happened: spin, yield or sleep, until this time at most.
    #[inline]
    pub(crate) fn rest(&mut self, until: Time) {
        let mut node = self.node.borrow_mut();
        let (now, due) = (node.engine.core().now(), node.engine.sleep_until());
        let until = due.min(node.limit_sleep(now, until));
        let NodeState { engine, transport, waiter, .. } = &mut *node;
        let waiter = waiter.as_deref();
        let may_sleep = |transport: &mut (dyn Transport + 'static)| {
            waiter.is_none_or(Waiter::try_sleep)
                && (transport.caps().wakes_by_level || engine.inhale(PollScope::FramesOnly, || now, transport) == 0)
        };
        let wake = waiter.and_then(Waiter::sleeps_on);
        let gave_away = self.idle.wait(now, until, &mut ***transport, wake, may_sleep);
        if let Some(waiter) = waiter {
            self.is_woken |= waiter.end_sleep() & BY_PROGRAM != 0;
        }
        if gave_away {
            let woken_at = node.clock.now();
            // After a long sleep, or one until a deadline, the next turn checks everything, because the seven that skip it may each
            // come after a long sleep.
            if woken_at - now >= LONG_REST || woken_at >= until {
                self.idle_turns = 0;
            }
            node.core().run_deferred(woken_at);
            // Publish here too, because connections that this side has closed end without an event.
            Membership::publish(&node.membership, node.engine.core());
        }
    }

    /// What this endpoint does from now on while it waits and nothing happens, instead of what its [node](crate::Builder::idle) does. For a thread
    /// that sometimes spins and sometimes sleeps.
    pub fn set_idle(&mut self, idle: Idle) {
        self.idle = idle;
    }

    /// Set how many messages this endpoint may handle in a visit of its [set](crate::EndpointSet), in units of
    /// [`EndpointSet::VISIT`](crate::EndpointSet::VISIT). It is 1 at first, and 0 means 1. It is valid from the next visit on.
    pub fn set_weight(&self, weight: u8) {
        self.shared.weight.set(weight);
    }

    /// The weight that was set last.
    pub fn weight(&self) -> u8 {
        self.shared.weight.get().max(1)
    }

    /// Use another tag from now on. Connections that peers made with the old tag end with
    /// [`ReturnReason::Tag`](crate::ReturnReason::Tag), on both sides. Undelivered messages return; those that had arrived are handled.
    pub fn set_tag(&self, tag: u64) {
        self.node.borrow_mut().core().set_tag(self.id, tag);
    }
}

impl<S> Drop for Endpoint<S> {
    /// Close the endpoint, and notify its peers at once.
    fn drop(&mut self) {
        if self.is_view {
            return;
        }
        let Some(mut node) = borrow_to_drop(&self.node) else { return };
        let NodeState { bulk, engine, transport, .. } = &mut *node;
        let (lent, dropped, abandoned) = bulk.forget(engine.core_mut(), &mut ***transport, self.id);
        log::report_abandoned(engine.core_mut(), Some(self.id), abandoned);
        node.core().close_endpoint(self.id, &dropped);
        node.events.remove(self.id);
        node.members.remove(self.id);
        node.exhale();
        drop(node);
        drop(lent);
    }
}

impl<S> fmt::Debug for Endpoint<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("name", &self.name).finish_non_exhaustive()
    }
}
