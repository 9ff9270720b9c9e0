//! Runs the handler that a received message names: step 8 of the table in README.md. The node is not borrowed while a
//! handler runs, so that handlers can send.

use std::cell::Cell;

use am_proto::{Delivery, Time};
use am_ring::Frame;
use am_wire::Class;

use crate::endpoint::Handlers;
use crate::node_state::{NodeState, borrow_to_drop};
use crate::{
    CallError, CallId, ConnectionChange, ConnectionEvent, Endpoint, HandlerId, MemberEvent, Message, Outcome, Request,
    Returned, Token, Transfer,
};

/// The most messages that one poll hands to handlers. A poll ends even if messages keep arriving, so endpoints that
/// are polled in turn are all served.
pub const BUDGET: usize = 64;

impl<S> Endpoint<S> {
    pub(crate) fn dispatch(&self, state: &mut S) -> usize {
        let handlers = &mut *self.handlers.borrow_mut();
        let handled = self.run_events(handlers, state);
        self.run_messages(handlers, state, handled, BUDGET)
    }

    /// Events only.
    pub(crate) fn dispatch_events(&self, state: &mut S) -> usize {
        self.run_events(&mut self.handlers.borrow_mut(), state)
    }

    /// Messages only, at most `most`.
    pub(crate) fn dispatch_messages(&self, state: &mut S, most: usize) -> usize {
        self.run_messages(&mut self.handlers.borrow_mut(), state, 0, most)
    }

    #[inline(always)]
    fn run_events(&self, handlers: &mut Handlers<S>, state: &mut S) -> usize {
        let mut handled = 0;
        // One check for all kinds of events, because nearly every turn has messages only.
        if self.has_other_work() {
            handled = handlers.run_other_work(self, state);
            handled += self.run_ready(handlers, state);
        }
        handled
    }

    /// Handle long messages that are complete, and those that waited for them.
    #[cold]
    fn run_ready(&self, handlers: &mut Handlers<S>, state: &mut S) -> usize {
        let mut handled = 0;
        self.take_ready(|message| {
            match message.delivery.class {
                Class::Request => handlers.run_request(state, message),
                Class::Reply => handlers.run_reply(state, message),
            }
            handled += 1;
        });
        handled
    }

    fn take_ready(&self, mut run: impl FnMut(&InHand<'_, S>)) {
        for _ in 0..BUDGET {
            let next = self.node.borrow_mut().bulk.next_ready(self.id);
            let Some(delivery) = next else { break };
            run(&InHand { endpoint: self, delivery: &delivery, kept: Cell::new(None) });
        }
    }

    /// Events without messages, and then the long messages that are complete, for `run`.
    pub(crate) fn dispatch_events_and(&self, state: &mut S, mut run: impl FnMut(&mut S, &Message<'_, S>)) -> usize {
        let mut handled = 0;
        if self.has_other_work() {
            handled = self.handlers.borrow_mut().run_other_work(self, state);
            self.take_ready(|message| {
                run(state, &message.message());
                if message.delivery.class == Class::Request {
                    self.node.borrow_mut().core().decline_reply(message.delivery.flow);
                }
                handled += 1;
            });
        }
        handled
    }

    /// Handle messages until `handled`, which counts those handled before, reaches `most`. Returns `handled`.
    #[inline(always)]
    fn run_messages(&self, handlers: &mut Handlers<S>, state: &mut S, mut handled: usize, most: usize) -> usize {
        while handled < most {
            let Some(delivery) = self.next() else { break };
            // Pass the delivery by reference: another move would stall on store forwarding.
            let current = InHand { endpoint: self, delivery: &delivery, kept: Cell::new(None) };
            match current.delivery.class {
                Class::Request => handlers.run_request(state, &current),
                Class::Reply => handlers.run_reply(state, &current),
            }
            handled += 1;
        }
        handled
    }

    /// Pass at most `most` messages to `run`, which does not reply to them. Returns how many, and whether the node has more
    /// messages, for this endpoint or another one.
    #[inline]
    pub(crate) fn take_each(&self, most: usize, mut run: impl FnMut(&Message<'_, S>)) -> (usize, bool) {
        let mut taken = 0;
        while taken < most {
            let mut node = self.node.borrow_mut();
            if !node.engine.core().has_deliveries() {
                return (taken, false);
            }
            let next = node.next_one_way(self.id);
            drop(node);
            let Some(delivery) = next else { break };
            let current = InHand { endpoint: self, delivery: &delivery, kept: Cell::new(None) };
            run(&current.message());
            taken += 1;
        }
        (taken, true)
    }

    /// Whether there is work beside messages.
    #[inline]
    fn has_other_work(&self) -> bool {
        let node = self.node.borrow();
        node.has_news() || node.engine.core().has_bulk() || self.calls.borrow().next_check() != Time::NEVER
    }

    #[inline]
    fn next(&self) -> Option<Delivery<Frame>> {
        let mut node = self.node.borrow_mut();
        if node.engine.core().has_deliveries() { node.next(self.id) } else { None }
    }
}

/// A message while its handler runs. Its credit is released when the handler returns or panics, unless the handler keeps the
/// message.
struct InHand<'a, S> {
    endpoint: &'a Endpoint<S>,
    delivery: &'a Delivery<Frame>,
    kept: Cell<Option<usize>>,
}

impl<S> InHand<'_, S> {
    #[inline]
    fn message(&self) -> Message<'_, S> {
        Message::new(self.endpoint, self.delivery, Some(&self.kept))
    }
}

impl<S> Drop for InHand<'_, S> {
    #[inline]
    fn drop(&mut self) {
        if self.kept.get().is_none()
            && self.delivery.has_credit()
            && let Some(mut node) = borrow_to_drop(&self.endpoint.node)
        {
            node.core().release(self.delivery.flow, self.delivery.class);
        }
    }
}

impl<S> Handlers<S> {
    #[inline]
    fn run_request(&mut self, state: &mut S, request: &InHand<'_, S>) {
        // Without a handler the token is dropped, which declines the reply.
        let token = Token::new(request.endpoint.node.downgrade(), request.delivery.flow);
        match self.requests.get(HandlerId(request.delivery.handler)) {
            Some(run) => run(state, Request { message: request.message(), token }),
            None => self.run_unhandled(state, request),
        }
    }

    #[inline]
    fn run_reply(&mut self, state: &mut S, reply: &InHand<'_, S>) {
        match self.replies.get(HandlerId(reply.delivery.handler)) {
            Some(run) => run(state, reply.message()),
            None => self.run_unhandled(state, reply),
        }
    }

    #[cold]
    fn run_unhandled(&mut self, state: &mut S, message: &InHand<'_, S>) {
        message.endpoint.node.borrow_mut().tally.unhandled += 1;
        if let Some(run) = &mut self.unhandled {
            run(state, message.message());
        }
    }

    #[cold]
    fn run_other_work(&mut self, endpoint: &Endpoint<S>, state: &mut S) -> usize {
        let mut handled = 0;
        if endpoint.node.borrow().has_news() {
            handled = self.run_connection_events(endpoint, state);
            handled += self.run_member_events(endpoint, state);
            handled += self.run_returned(endpoint, state);
        }
        if endpoint.node.borrow().has_bulk() {
            handled += self.run_bulk(endpoint, state);
        }
        if endpoint.calls.borrow().next_check() != Time::NEVER {
            handled += self.run_unanswered(endpoint, state);
        }
        handled
    }

    #[cold]
    fn run_returned(&mut self, endpoint: &Endpoint<S>, state: &mut S) -> usize {
        let mut handled = 0;
        while handled < BUDGET {
            let next = endpoint.node.borrow_mut().core().poll_returned(endpoint.id);
            let Some(returned) = next else { break };
            handled += 1;
            let returned = endpoint.node.borrow_mut().bulk.take_returned(endpoint.id, returned);
            if let Some(returned) = returned {
                self.run_one_returned(endpoint, state, &returned);
            }
        }
        while handled < BUDGET {
            let next = endpoint.node.borrow_mut().bulk.next_returned(endpoint.id);
            let Some(returned) = next else { break };
            handled += 1;
            self.run_one_returned(endpoint, state, &returned);
        }
        handled
    }

    fn run_one_returned(&mut self, endpoint: &Endpoint<S>, state: &mut S, returned: &am_proto::Returned<Frame>) {
        endpoint.node.borrow_mut().log.note_returned(endpoint.id, returned);
        // This node sent the message, so keeping it does not withhold a peer's credit.
        let message = Message::new(endpoint, &returned.message, None);
        let (to, handler) = (message.from(), message.handler());
        let returned = Returned { message, reason: returned.reason, fate: returned.fate };
        if returned.class() == Class::Request && endpoint.take_returned_call(&message) {
            let (id, result) = (CallId(message.word(0)), Err(CallError::Returned(returned)));
            self.run_outcome(state, Outcome { id, to, handler, result, endpoint });
        } else if let Some(run) = &mut self.returned {
            run(state, returned);
        }
    }

    /// The outcomes of calls whose deadline has passed or whose connection has ended.
    #[cold]
    fn run_unanswered(&mut self, endpoint: &Endpoint<S>, state: &mut S) -> usize {
        let mut handled = 0;
        while handled < BUDGET
            && let Some(outcome) = endpoint.next_unanswered()
        {
            self.run_outcome(state, outcome);
            handled += 1;
        }
        handled
    }

    fn run_outcome(&mut self, state: &mut S, outcome: Outcome<'_, S>) {
        if let Some(run) = self.outcomes.get(outcome.handler) {
            run(state, outcome);
        }
    }

    /// Deposit received segments, then report the transfers that ended.
    #[cold]
    fn run_bulk(&mut self, endpoint: &Endpoint<S>, state: &mut S) -> usize {
        let take_in =
            |NodeState { bulk, engine, .. }: &mut NodeState| bulk.take_in(engine.core_mut(), endpoint.id, BUDGET);
        let mut handled = take_in(&mut endpoint.node.borrow_mut());
        // The `Drop` of memory that a program lent to a transfer may call the node, so drop it while the node is not borrowed.
        let next_lent = || endpoint.node.borrow_mut().bulk.next_lent();
        while let Some(lent) = next_lent() {
            drop(lent);
        }
        while handled < 2 * BUDGET {
            let next = endpoint.node.borrow_mut().bulk.next_completion(endpoint.id);
            let Some(completion) = next else { break };
            if let Some(run) = &mut self.transfer {
                run(state, Transfer::of(&completion, endpoint));
            }
            handled += 1;
        }
        handled
    }

    #[cold]
    fn run_member_events(&mut self, endpoint: &Endpoint<S>, state: &mut S) -> usize {
        let next = || endpoint.node.borrow_mut().members.pop(endpoint.id);
        let mut handled = 0;
        while handled < BUDGET
            && let Some((member, change)) = next()
        {
            if let Some(run) = &mut self.members {
                run(state, MemberEvent { change, member, endpoint });
            }
            handled += 1;
        }
        handled
    }

    #[cold]
    fn run_connection_events(&mut self, endpoint: &Endpoint<S>, state: &mut S) -> usize {
        let mut handled = 0;
        let next = || {
            let NodeState { events, engine, .. } = &mut *endpoint.node.borrow_mut();
            events.pop(endpoint.id, engine.core())
        };
        while handled < BUDGET
            && let Some((connection, (change, peer, unhandled))) = next()
        {
            if let ConnectionChange::Ended(reason) = change {
                endpoint.end_calls(connection, reason);
            }
            if let Some(run) = &mut self.connection {
                run(state, ConnectionEvent { change, connection, peer, unhandled, endpoint });
            }
            handled += 1;
        }
        handled
    }
}
