//! Runs the handler that a received message names: step 8 of the table in README.md. The node is not borrowed while a
//! handler runs, so that handlers can send.

use std::cell::Cell;

use am_proto::Delivery;
use am_ring::Frame;
use am_wire::Class;

use crate::bulk::LongHead;
use crate::endpoint::{Handlers, Work};
use crate::node_state::{NodeState, borrow_to_drop};
use crate::{
    CallError, CallId, ConnectionChange, ConnectionEvent, Endpoint, GroupMessage, HandlerId, MemberEvent, Message,
    Outcome, Request, Returned, Token, Transfer,
};

/// The most messages that one poll hands to handlers. A poll ends even if messages keep arriving, so endpoints that
/// are polled in turn are all served.
pub const BUDGET: usize = 64;

impl<S> Endpoint<S> {
    #[inline]
    pub(crate) fn dispatch(&self, state: &mut S, work: Work) -> usize {
        let handlers = &mut *self.handlers.borrow_mut();
        if work == Work::All {
            return self.dispatch_all(handlers, state);
        }
        self.run_messages(handlers, state, 0, BUDGET)
    }

    /// The same when there is more than messages. Segments whose heads have not been taken come last.
    #[cold]
    #[inline(never)]
    fn dispatch_all(&self, handlers: &mut Handlers<S>, state: &mut S) -> usize {
        let mut events = handlers.run_other_work(self, state);
        // Segments do not use the budget of messages, because some wait for the heads among those.
        let mut messages = self.run_either(handlers, state, 0, BUDGET);
        if self.node.borrow().engine.core().has_bulk() {
            events += handlers.run_bulk(self, state, false);
            messages = self.run_either(handlers, state, messages, BUDGET);
        }
        events + messages
    }

    /// Events, and the long messages that are complete, with those that waited for them.
    pub(crate) fn dispatch_events(&self, state: &mut S) -> usize {
        let mut handled = 0;
        if self.has_other_work() {
            let handlers = &mut *self.handlers.borrow_mut();
            handled = handlers.run_other_work(self, state);
            self.take_ready(|message| {
                handlers.run(state, message);
                handled += 1;
            });
        }
        handled
    }

    /// Segments that wait for the heads of their messages, now that the messages of this turn have been taken, and what they complete.
    #[cold]
    pub(crate) fn dispatch_segments(&self, state: &mut S) -> usize {
        let handlers = &mut *self.handlers.borrow_mut();
        let mut handled = handlers.run_bulk(self, state, false);
        self.take_ready(|message| {
            handlers.run(state, message);
            handled += 1;
        });
        handled
    }

    /// As [`dispatch_segments`](Self::dispatch_segments), with `run` instead of the handlers of messages.
    #[cold]
    pub(crate) fn dispatch_segments_and(&self, state: &mut S, mut run: impl FnMut(&mut S, &Message<'_, S>)) -> usize {
        let mut handled = self.handlers.borrow_mut().run_bulk(self, state, false);
        self.take_ready_one_way(&mut |message| {
            run(state, message);
            handled += 1;
        });
        handled
    }

    /// Messages only, at most `most`.
    pub(crate) fn dispatch_messages(&self, state: &mut S, most: usize) -> usize {
        self.run_either(&mut self.handlers.borrow_mut(), state, 0, most)
    }

    /// Handle messages until `handled` reaches `most`, whether long ones arrive or not.
    fn run_either(&self, handlers: &mut Handlers<S>, state: &mut S, handled: usize, most: usize) -> usize {
        if self.has_lanes() {
            return self.run_in_order(handlers, state, handled, most);
        }
        self.run_messages(handlers, state, handled, most)
    }

    fn take_ready(&self, mut run: impl FnMut(&InHand<'_, S>)) {
        for _ in 0..BUDGET {
            let next = self.node.borrow_mut().next_ready(self.id);
            let Some(delivery) = next else { break };
            run(&InHand::waited(self, &delivery));
        }
    }

    /// As [`dispatch_events`](Self::dispatch_events), with `run` instead of the handlers of messages.
    pub(crate) fn dispatch_events_and(&self, state: &mut S, mut run: impl FnMut(&mut S, &Message<'_, S>)) -> usize {
        let mut handled = 0;
        if self.has_other_work() {
            handled = self.handlers.borrow_mut().run_other_work(self, state);
            self.take_ready_one_way(&mut |message| {
                run(state, message);
                handled += 1;
            });
        }
        handled
    }

    /// Handle messages until `handled`, which counts those handled before, reaches `most`. Returns `handled`.
    #[inline(always)]
    fn run_messages(&self, handlers: &mut Handlers<S>, state: &mut S, mut handled: usize, most: usize) -> usize {
        while handled < most {
            let mut node = self.node.borrow_mut();
            if !node.engine.core().has_deliveries() {
                break;
            }
            let mut next = node.next(self.id);
            let Some(delivery) = &mut next else { break };
            if delivery.is_head() {
                drop(node);
                next.into_iter().for_each(|head| self.hold(handlers, state, head));
                return self.run_in_order(handlers, state, handled, most);
            }
            drop(node);
            if delivery.behind() > 0 {
                handled += self.run_frame(handlers, state, delivery, most - handled);
                continue;
            }
            // Pass the delivery by reference: another move would stall on store forwarding.
            handlers.run(state, &InHand { endpoint: self, delivery, kept: Cell::new(None) });
            handled += 1;
        }
        handled
    }

    /// Handle at most `most` messages that arrived together in a frame. Returns how many there were.
    #[inline(never)]
    fn run_frame(&self, handlers: &mut Handlers<S>, state: &mut S, first: &mut Delivery<Frame>, most: usize) -> usize {
        let frame = FrameInHand::new(self, first);
        frame.run(most, |current| handlers.run(state, current), |message| self.node.borrow_mut().next_in_frame(message))
    }

    /// As [`run_messages`](Self::run_messages) while long messages arrive: others may have to wait for them.
    #[cold]
    #[inline(never)]
    fn run_in_order(&self, handlers: &mut Handlers<S>, state: &mut S, mut handled: usize, most: usize) -> usize {
        while handled < most {
            let mut node = self.node.borrow_mut();
            let message = match node.next_ready(self.id) {
                Some(ready) => Some(ready),
                None => match node.next(self.id) {
                    Some(head) if head.is_head() => {
                        drop(node);
                        self.hold(handlers, state, head);
                        continue;
                    }
                    Some(next) => {
                        let next = node.core().only_first(self.id, next);
                        node.admit(self.id, next)
                    }
                    None => break,
                },
            };
            drop(node);
            if let Some(delivery) = message {
                handlers.run(state, &InHand::waited(self, &delivery));
                handled += 1;
            }
        }
        handled
    }

    /// The head of a long message was taken from the core: ask the program where its payload goes, while the node is not borrowed.
    #[cold]
    #[inline(never)]
    fn hold(&self, handlers: &mut Handlers<S>, state: &mut S, head: Delivery<Frame>) {
        let asked = handlers.into.as_mut().zip(LongHead::of(&head));
        let destination = asked.and_then(|(into, head)| into(state, &head));
        self.node.borrow_mut().hold(self.id, head, destination);
    }

    /// Whether messages may have to wait for long ones.
    fn has_lanes(&self) -> bool {
        self.node.borrow().bulk.long.has_lanes()
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
            let mut next = node.core().poll_one_way(self.id);
            let is_in_order = node.bulk.long.has_lanes();
            drop(node);
            let Some(delivery) = &mut next else { break };
            if delivery.is_head() || is_in_order {
                next.into_iter().for_each(|message| self.hold_one_way(message, &mut run));
                continue;
            }
            if delivery.behind() > 0 {
                let frame = FrameInHand::new(self, delivery);
                taken += frame.run(most - taken, |current| run(&current.message()), Delivery::next_in_frame);
                continue;
            }
            let current = InHand { endpoint: self, delivery, kept: Cell::new(None) };
            run(&current.message());
            taken += 1;
        }
        (taken, true)
    }

    /// As [`take_each`](Self::take_each) for one message, which may have to wait for a long one. A request counts
    /// as one with a right to reply, which it gives up while it waits.
    #[cold]
    #[inline(never)]
    fn hold_one_way(&self, message: Delivery<Frame>, run: &mut impl FnMut(&Message<'_, S>)) {
        let mut node = self.node.borrow_mut();
        let message = node.core().only_first(self.id, message);
        let (flow, is_request) = (message.flow, message.class == Class::Request);
        if is_request {
            node.core().keep_right_to_reply();
        }
        let message = node.admit(self.id, message);
        if message.is_some() && is_request {
            node.core().decline_reply(flow);
        }
        drop(node);
        if let Some(delivery) = message {
            run(&InHand::waited(self, &delivery).message());
        }
        self.take_ready_one_way(run);
    }

    /// Long messages that are complete, and those that waited for them, for a program that does not reply.
    fn take_ready_one_way(&self, run: &mut impl FnMut(&Message<'_, S>)) {
        self.take_ready(|message| {
            run(&message.message());
            if message.delivery.class == Class::Request {
                self.node.borrow_mut().core().decline_reply(message.delivery.flow);
            }
        });
    }

    /// Whether there is work beside messages.
    fn has_other_work(&self) -> bool {
        let node = self.node.borrow();
        self.has_events(&node) || node.has_segments_or_lanes()
    }
}

/// A message while its handler runs. Its credit is released when the handler returns or panics, unless the handler keeps the
/// message.
struct InHand<'a, S> {
    endpoint: &'a Endpoint<S>,
    delivery: &'a Delivery<Frame>,
    kept: Cell<Option<usize>>,
}

impl<'a, S> InHand<'a, S> {
    /// A message that may have waited for a long one, or is one: its credit may have been released already.
    fn waited(endpoint: &'a Endpoint<S>, delivery: &'a Delivery<Frame>) -> Self {
        InHand { endpoint, delivery, kept: Cell::new((!delivery.has_credit()).then_some(usize::MAX)) }
    }
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
            && let Some(mut node) = borrow_to_drop(&self.endpoint.node)
        {
            node.core().release(self.delivery.flow, self.delivery.class, 1);
        }
    }
}

/// The messages that arrived together in a frame, from the one on whose handler runs. At the end, the credit of those before it is
/// released, and those behind it wait again.
struct FrameInHand<'a, S> {
    endpoint: &'a Endpoint<S>,
    delivery: &'a mut Delivery<Frame>,
    /// The messages behind the first.
    behind: u16,
    /// The handled messages that no handler keeps.
    released: u16,
}

impl<'a, S> FrameInHand<'a, S> {
    fn new(endpoint: &'a Endpoint<S>, delivery: &'a mut Delivery<Frame>) -> Self {
        FrameInHand { endpoint, behind: delivery.behind(), delivery, released: 0 }
    }

    /// Pass at most `most` messages to `run`. `next` goes on to the next one, if that can be handled now. Returns how many there were.
    #[inline(always)]
    fn run(
        mut self,
        most: usize,
        mut run: impl FnMut(&InHand<'_, S>),
        next: impl Fn(&mut Delivery<Frame>) -> bool,
    ) -> usize {
        let mut count = 0;
        loop {
            let current = InHand { endpoint: self.endpoint, delivery: self.delivery, kept: Cell::new(None) };
            run(&current);
            // Its credit is released with those of the others.
            self.released += u16::from(current.kept.replace(Some(usize::MAX)).is_none());
            drop(current);
            count += 1;
            if count == most || self.delivery.behind() == 0 || !next(self.delivery) {
                return count;
            }
        }
    }
}

impl<S> Drop for FrameInHand<'_, S> {
    #[inline]
    fn drop(&mut self) {
        if let Some(mut node) = borrow_to_drop(&self.endpoint.node) {
            node.core().release(self.delivery.flow, self.delivery.class, self.released);
            let handled = self.behind - self.delivery.behind();
            node.core().keep_behind(self.endpoint.id, handled, self.delivery);
        }
    }
}

impl<S> Handlers<S> {
    #[inline(always)]
    fn run(&mut self, state: &mut S, message: &InHand<'_, S>) {
        match message.delivery.class {
            Class::Request => self.run_request(state, message),
            Class::Reply => self.run_reply(state, message),
        }
    }

    #[inline(always)]
    fn run_request(&mut self, state: &mut S, request: &InHand<'_, S>) {
        // Without a handler the token is dropped, which declines the reply.
        let message = request.message();
        let token = Token::new(request.endpoint.node.downgrade(), request.delivery, message.word(0));
        match self.requests.get(HandlerId(request.delivery.handler)) {
            Some(run) => run(state, Request { message, token }),
            None => self.run_unhandled(state, request),
        }
    }

    #[inline(always)]
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
            handled += self.run_group_frames(endpoint, state);
            handled += self.run_returned(endpoint, state);
        }
        if endpoint.node.borrow().has_bulk() {
            handled += self.run_bulk(endpoint, state, true);
        }
        handled += self.run_unanswered(endpoint, state);
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
        let is_request = returned.class() == Class::Request;
        if let Some(due) = is_request.then(|| endpoint.take_returned_call(&message)).flatten() {
            let (id, result) = (CallId(message.word(0)), Err(CallError::Returned(returned)));
            self.run_outcome(state, Outcome { id, to, handler, due, result, endpoint });
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

    /// Deposit received segments, then report the transfers that ended. With `heads_first`, segments of long messages whose heads have
    /// not been taken wait, so that the messages of this turn are taken before them.
    #[cold]
    fn run_bulk(&mut self, endpoint: &Endpoint<S>, state: &mut S, heads_first: bool) -> usize {
        let mut handled = endpoint.node.borrow_mut().take_in(endpoint.id, BUDGET, heads_first);
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
    fn run_group_frames(&mut self, endpoint: &Endpoint<S>, state: &mut S) -> usize {
        let next = || endpoint.node.borrow_mut().core().poll_group_frame(endpoint.id);
        let mut handled = 0;
        while handled < BUDGET
            && let Some((header, frame)) = next()
        {
            if let Some(run) = &mut self.group {
                run(state, GroupMessage::new(header, &frame, endpoint));
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
