//! Endpoints: where messages come to, and whose handlers they run.

use std::ops::Deref;
use std::time::Duration;

use am_engine::{Idle, Look};
use am_proto::Time;

use crate::handler::Handlers;
use crate::{
    Connection, ConnectionEvent, HandlerId, Late, Message, NotOpen, Port, RequestError, Returned, Token, Transfer,
};

/// An endpoint of a node, with the handlers of the messages that come to it.
///
/// `S` is the application's state: handlers get it as `&mut S`, from whoever
/// polls. Everything that sends is a method of the [`Port`] that an endpoint
/// derefs to; handlers find it at [`Message::port`].
pub struct Endpoint<S> {
    pub(crate) port: Port,
    pub(crate) handlers: Handlers<S>,
    idle: Idle,
    /// Turns that found nothing, one after the other.
    idle_turns: u32,
}

/// Who drops a kept message on another thread wakes nobody: while there are
/// any, a sleep is no longer than this.
const KEPT_LOOK: Duration = Duration::from_millis(1);

impl<S> Endpoint<S> {
    pub(crate) fn new(port: Port, idle: Idle) -> Self {
        Endpoint { port, handlers: Handlers::default(), idle, idle_turns: 0 }
    }

    /// Run this for requests that name `handler`. Unless the token is used or
    /// kept, the request stays without a reply.
    pub fn on_request(&mut self, handler: HandlerId, run: impl FnMut(&mut S, Message<'_>, Token) + 'static) {
        self.handlers.requests.set(handler, Box::new(run));
    }

    /// Run this for replies that name `handler`.
    pub fn on_reply(&mut self, handler: HandlerId, run: impl FnMut(&mut S, Message<'_>) + 'static) {
        self.handlers.replies.set(handler, Box::new(run));
    }

    /// Run this for messages of ours that come back undeliverable. Without it
    /// they are only counted (`returned`).
    pub fn on_returned(&mut self, run: impl FnMut(&mut S, Returned<'_>) + 'static) {
        self.handlers.returned = Some(Box::new(run));
    }

    /// Run this for messages that name a handler this endpoint does not have.
    /// They are counted in any case (`unhandled`). Their sender has its credit
    /// back and hears nothing: they were delivered, so they do not return.
    pub fn on_unhandled(&mut self, run: impl FnMut(&mut S, Message<'_>) + 'static) {
        self.handlers.unhandled = Some(Box::new(run));
    }

    /// Run this when a bulk transfer is over, ours or a peer's, in whatever way.
    pub fn on_transfer(&mut self, run: impl FnMut(&mut S, Transfer<'_>) + 'static) {
        self.handlers.transfer = Some(Box::new(run));
    }

    /// [`on_reply`](Endpoint::on_reply) for what answers [`Port::request_within`]: its first word is the request's id. An
    /// answer to nothing that waits is dropped and counted (`late_answers`).
    pub fn on_answer(&mut self, handler: HandlerId, mut run: impl FnMut(&mut S, Message<'_>) + 'static) {
        self.on_reply(handler, move |state, answer| {
            if answer.port().is_in_time(&answer) {
                run(state, answer);
            }
        });
    }

    /// Run this for each [`Port::request_within`] that was not answered in time, and has not come back.
    pub fn on_late(&mut self, run: impl FnMut(&mut S, Late<'_>) + 'static) {
        self.handlers.late = Some(Box::new(run));
    }

    /// Run this when a conversation of this endpoint opens or ends; not when this side closes it.
    pub fn on_connection(&mut self, run: impl FnMut(&mut S, ConnectionEvent<'_>) + 'static) {
        self.port.shared.borrow_mut().inboxes.listen(self.port.id);
        self.handlers.flow = Some(Box::new(run));
    }

    /// One turn of the node's loop: take in what has arrived, run the handlers
    /// of what is for this endpoint (at most [`BUDGET`](crate::BUDGET)
    /// messages), let out what is to leave. Returns how many messages and events were handled.
    #[inline]
    pub fn poll(&mut self, state: &mut S) -> usize {
        self.turn(state, Look::AtAll).0
    }

    /// Messages handled, and whether anything happened at all.
    #[inline]
    fn turn(&mut self, state: &mut S, look: Look) -> (usize, bool) {
        let mut shared = self.port.shared.borrow_mut();
        let received = shared.inhale(look);
        let mut handled = 0;
        if shared.has_work() || self.port.deadlines.borrow().next() <= shared.engine.core().now() {
            drop(shared);
            handled = self.dispatch(state);
            shared = self.port.shared.borrow_mut();
        }
        let sent = shared.exhale();
        (handled, received + handled + sent > 0)
    }

    /// Poll until a message or an event has been handled (a connection, a transfer, a deadline) or the time is over; spin,
    /// yield or sleep meanwhile. Returns how many were handled.
    pub fn wait(&mut self, state: &mut S, timeout: Duration) -> usize {
        let mut handled = 0;
        self.poll_until(state, timeout, |_, _, just| {
            handled += just;
            handled > 0
        });
        handled
    }

    /// Poll until the state is as wanted or the time is over; the first is `true`.
    pub fn wait_until(&mut self, state: &mut S, timeout: Duration, mut wanted: impl FnMut(&S) -> bool) -> bool {
        wanted(state) || self.poll_until(state, timeout, |_, state, _| wanted(state))
    }

    /// Poll until the connection is open.
    ///
    /// # Errors
    /// See [`NotOpen`]; after `timeout` it is [`NotOpen::Connecting`]. The node itself gives up sooner where
    /// its [patience](crate::Builder::patience) is shorter: then it is [`NotOpen::Dead`].
    pub fn wait_open(&mut self, state: &mut S, to: Connection, timeout: Duration) -> Result<(), NotOpen> {
        self.poll_until(state, timeout, |port, _, _| port.ready(to) != Err(NotOpen::Connecting));
        self.port.ready(to)
    }

    /// [`Port::try_request`] that polls until there is room, however long the
    /// receiver takes; handlers run meanwhile, so it is not for handlers.
    ///
    /// # Errors
    /// Those that polling does not help.
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
            match self.port.try_request(to, handler, words, payload) {
                Err(error) if error.is_temporary() => self.rest_or_turn(state, Time::NEVER),
                done => return done,
            };
        }
    }

    /// `done` gets what it may look at, and how many messages the turn before it has handled.
    fn poll_until(
        &mut self,
        state: &mut S,
        timeout: Duration,
        mut done: impl FnMut(&Port, &mut S, usize) -> bool,
    ) -> bool {
        // What the core was last told of the time may be long over: the first
        // turn looks at the clock, and the time starts with it.
        self.idle_turns = 0;
        let mut until = None;
        loop {
            let handled = self.rest_or_turn(state, until.unwrap_or_default());
            if done(&self.port, state, handled) {
                return true;
            }
            let now = self.port.shared.borrow().now();
            if now >= *until.get_or_insert(now + timeout) {
                return false;
            }
        }
    }

    /// A turn, and a rest where it found nothing. Returns messages handled.
    /// Of turns that find nothing one after the other most only glance: this
    /// loop is tight, so that the clock need not be read in each.
    #[inline]
    fn rest_or_turn(&mut self, state: &mut S, until: Time) -> usize {
        const LOOK_EVERY: u32 = 8;
        let look = if self.idle_turns.is_multiple_of(LOOK_EVERY) { Look::AtAll } else { Look::AtFrames };
        let (handled, busy) = self.turn(state, look);
        if busy {
            self.idle_turns = 0;
            self.idle.busy();
        } else {
            self.idle_turns = self.idle_turns.wrapping_add(1);
            self.rest(until);
        }
        handled
    }

    #[inline]
    fn rest(&mut self, until: Time) {
        let mut shared = self.port.shared.borrow_mut();
        let (now, due) = (shared.engine.core().now(), shared.engine.sleep_until());
        let until = until.min(self.port.deadlines.borrow().next());
        let until = if shared.kept.is_empty() { until } else { until.min(now + KEPT_LOOK) };
        if self.idle.wait(now, due.min(until), shared.transport.caps().wake.as_deref()) {
            let now = shared.clock.now();
            shared.core().settle(now);
        }
    }
}

impl<S> Deref for Endpoint<S> {
    type Target = Port;

    fn deref(&self) -> &Port {
        &self.port
    }
}
