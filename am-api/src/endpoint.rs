//! Endpoints: where messages come to, and whose handlers they run.

use std::ops::Deref;
use std::time::Duration;

use engine::Idle;

use crate::handler::Handlers;
use crate::{FlowEvent, Handler, Message, NotOpen, Port, Remote, RequestError, Returned, Token};

/// An endpoint of a node, with the handlers of the messages that come to it.
///
/// `S` is the application's state: handlers get it as `&mut S`, from whoever
/// polls. Everything that sends is a method of the [`Port`] that an endpoint
/// derefs to; handlers find it at [`Message::port`].
pub struct Endpoint<S> {
    pub(crate) port: Port,
    pub(crate) handlers: Handlers<S>,
    idle: Idle,
}

impl<S> Endpoint<S> {
    pub(crate) fn new(port: Port, idle: Idle) -> Self {
        Endpoint { port, handlers: Handlers::default(), idle }
    }

    /// Run this for requests that name `handler`. Unless the token is used or
    /// kept, the request stays without a reply.
    pub fn on_request(&mut self, handler: Handler, run: impl FnMut(&mut S, Message<'_>, Token) + 'static) {
        self.handlers.requests.set(handler, Box::new(run));
    }

    /// Run this for replies that name `handler`.
    pub fn on_reply(&mut self, handler: Handler, run: impl FnMut(&mut S, Message<'_>) + 'static) {
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

    /// Run this when a conversation of this endpoint opens or ends.
    pub fn on_flow(&mut self, run: impl FnMut(&mut S, FlowEvent<'_>) + 'static) {
        self.port.shared.borrow_mut().inboxes.listen(self.port.id);
        self.handlers.flow = Some(Box::new(run));
    }

    /// One turn of the node's loop: take in what has arrived, run the handlers
    /// of what is for this endpoint (at most [`BUDGET`](crate::BUDGET)
    /// messages), let out what is to leave. Returns how many messages were handled.
    #[inline]
    pub fn poll(&mut self, state: &mut S) -> usize {
        self.turn(state).0
    }

    /// Messages handled, and whether anything happened at all.
    fn turn(&mut self, state: &mut S) -> (usize, bool) {
        let mut shared = self.port.shared.borrow_mut();
        let received = shared.inhale();
        let mut handled = 0;
        if shared.has_work() {
            drop(shared);
            handled = self.dispatch(state);
            shared = self.port.shared.borrow_mut();
        }
        let sent = shared.exhale();
        (handled, received + handled + sent > 0)
    }

    /// Poll until a message has been handled or the time is over; spin, yield
    /// or sleep meanwhile. Returns how many were handled.
    pub fn wait(&mut self, state: &mut S, timeout: Duration) -> usize {
        let mut handled = 0;
        self.poll_until(state, timeout, |_, just| {
            handled += just;
            handled > 0
        });
        handled
    }

    /// Poll until the state is as wanted or the time is over; the first is `true`.
    pub fn wait_until(&mut self, state: &mut S, timeout: Duration, mut wanted: impl FnMut(&S) -> bool) -> bool {
        wanted(state) || self.poll_until(state, timeout, |state, _| wanted(state))
    }

    /// Poll until the connection is open.
    ///
    /// # Errors
    /// See [`NotOpen`]; after `timeout` it is [`NotOpen::Connecting`].
    pub fn wait_open(&mut self, state: &mut S, to: Remote, timeout: Duration) -> Result<(), NotOpen> {
        let mut open = self.port.ready(to);
        let until = self.now() + timeout;
        while open == Err(NotOpen::Connecting) && self.now() < until {
            self.rest_or_turn(state, until);
            open = self.port.ready(to);
        }
        open
    }

    /// [`Port::request`] that polls until there is room, however long the
    /// receiver takes; handlers run meanwhile, so it is not for handlers.
    ///
    /// # Errors
    /// Those that polling does not help.
    pub fn request_blocking(
        &mut self,
        state: &mut S,
        to: Remote,
        handler: Handler,
        words: &[u64],
        payload: &[u8],
    ) -> Result<(), RequestError> {
        loop {
            match self.port.request(to, handler, words, payload) {
                Err(error) if error.is_temporary() => self.rest_or_turn(state, proto::Time::NEVER),
                done => return done,
            };
        }
    }

    fn poll_until(&mut self, state: &mut S, timeout: Duration, mut done: impl FnMut(&mut S, usize) -> bool) -> bool {
        let until = self.now() + timeout;
        loop {
            let handled = self.rest_or_turn(state, until);
            if done(state, handled) {
                return true;
            }
            if self.now() >= until {
                return false;
            }
        }
    }

    /// A turn, and a rest where it found nothing. Returns messages handled.
    fn rest_or_turn(&mut self, state: &mut S, until: proto::Time) -> usize {
        let (handled, busy) = self.turn(state);
        if busy {
            self.idle.busy();
        } else {
            let mut shared = self.port.shared.borrow_mut();
            let (now, due) = (shared.engine.core().now(), shared.engine.sleep_until());
            if self.idle.wait(now, due.min(until), shared.transport.caps().wake.as_deref()) {
                let now = shared.clock.now();
                shared.core().settle(now);
            }
        }
        handled
    }

    fn now(&self) -> proto::Time {
        self.port.shared.borrow().clock.now()
    }
}

impl<S> Deref for Endpoint<S> {
    type Target = Port;

    fn deref(&self) -> &Port {
        &self.port
    }
}
