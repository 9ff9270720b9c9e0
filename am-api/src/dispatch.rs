//! From a message that has arrived to the function that it names: step 8 of
//! its path. No borrow of the node is held while a handler runs, so that
//! handlers may send.

use std::cell::Cell;
use std::rc::Rc;

use am_proto::{Delivery, Time};
use am_ring::Frame;
use am_wire::{Class, Kind};

use crate::bulk::Source;
use crate::handler::Handlers;
use crate::inboxes::Letter;
use crate::{Connection, ConnectionEvent, Endpoint, HandlerId, Message, Port, Returned, Token, Transfer};

/// The most messages that one poll hands to handlers: a poll ends, however
/// much arrives, and endpoints that are polled in turn all get theirs.
pub const BUDGET: usize = 64;

impl<S> Endpoint<S> {
    pub(crate) fn dispatch(&mut self, state: &mut S) -> usize {
        let Endpoint { port, handlers, .. } = self;
        let mut handled = 0;
        if port.shared.borrow().has_news() {
            handled = handlers.run_flow_events(port, state);
            handled += handlers.run_returned(port, state);
        }
        if port.shared.borrow().has_bulk() {
            handled += handlers.run_bulk(port, state);
        }
        if port.deadlines.borrow().next() != Time::NEVER {
            handled += handlers.run_late(port, state);
        }
        while handled < BUDGET {
            let Some(delivery) = port.next() else { break };
            // By reference: a delivery that is moved once more waits for its own stores.
            let in_hand = InHand { port, delivery: &delivery, kept: Cell::new(None) };
            match in_hand.delivery.class {
                Class::Request => handlers.run_request(state, &in_hand),
                Class::Reply => handlers.run_reply(state, &in_hand),
            }
            handled += 1;
        }
        handled
    }
}

impl Port {
    fn next_spent(&self) -> Option<Source> {
        self.shared.borrow_mut().bulk.next_spent()
    }

    #[inline]
    fn next(&self) -> Option<Delivery<Frame>> {
        let mut shared = self.shared.borrow_mut();
        if shared.engine.core().has_deliveries() { shared.next(self.id) } else { None }
    }
}

/// A message in a handler's hands. Its credit returns to the sender when the
/// handler is done, in whatever way, unless it keeps the message.
struct InHand<'a> {
    port: &'a Port,
    delivery: &'a Delivery<Frame>,
    kept: Cell<Option<usize>>,
}

impl InHand<'_> {
    #[inline]
    fn message(&self) -> Message<'_> {
        Message::new(self.port, self.delivery, Some(&self.kept))
    }
}

impl Drop for InHand<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.kept.get().is_none()
            && let Ok(mut shared) = self.port.shared.try_borrow_mut()
        {
            shared.core().release(self.delivery.flow, self.delivery.class);
        }
    }
}

impl<S> Handlers<S> {
    #[inline]
    fn run_request(&mut self, state: &mut S, request: &InHand<'_>) {
        // Where the handler is missing the token is dropped, and so the reply forgone.
        let token = Token::new(Rc::downgrade(&request.port.shared), request.delivery.flow);
        match self.requests.get(HandlerId(request.delivery.handler)) {
            Some(run) => run(state, request.message(), token),
            None => self.run_unhandled(state, request),
        }
    }

    #[inline]
    fn run_reply(&mut self, state: &mut S, reply: &InHand<'_>) {
        match self.replies.get(HandlerId(reply.delivery.handler)) {
            Some(run) => run(state, reply.message()),
            None => self.run_unhandled(state, reply),
        }
    }

    #[cold]
    fn run_unhandled(&mut self, state: &mut S, message: &InHand<'_>) {
        message.port.shared.borrow_mut().tally.unhandled += 1;
        if let Some(run) = &mut self.unhandled {
            run(state, message.message());
        }
    }

    #[cold]
    fn run_returned(&mut self, port: &Port, state: &mut S) -> usize {
        let mut handled = 0;
        while handled < BUDGET {
            let next = port.shared.borrow_mut().core().poll_returned(port.id);
            let Some(returned) = next else { break };
            if matches!(returned.message.kind, Kind::Put | Kind::Get) {
                port.shared.borrow_mut().bulk.on_returned(port.id, &returned.message);
                handled += 1;
                continue;
            }
            port.shared.borrow_mut().log.note_returned(port.id, &returned);
            // It was sent from here: what its handler keeps has no credit to return.
            let message = Message::new(port, &returned.message, None);
            if returned.message.class == Class::Request {
                port.came_back(&message);
            }
            if let Some(run) = &mut self.returned {
                run(state, Returned { message, reason: returned.reason, fate: returned.fate });
            }
            handled += 1;
        }
        handled
    }

    #[cold]
    fn run_late(&mut self, port: &Port, state: &mut S) -> usize {
        let (now, mut handled) = (port.shared.borrow().engine.core().now(), 0);
        while handled < BUDGET
            && let Some(late) = port.next_late(now)
        {
            if let Some(run) = &mut self.late {
                run(state, late);
            }
            handled += 1;
        }
        handled
    }

    /// Deposit what came in, then tell what is over.
    #[cold]
    fn run_bulk(&mut self, port: &Port, state: &mut S) -> usize {
        let mut handled = port.shared.borrow_mut().take_in_bulk(port.id, BUDGET);
        while let Some(spent) = port.next_spent() {
            drop(spent);
        }
        while handled < 2 * BUDGET {
            let next = port.shared.borrow_mut().bulk.next_over(port.id);
            let Some(over) = next else { break };
            if let Some(run) = &mut self.transfer {
                run(state, Transfer::of(&over, port));
            }
            handled += 1;
        }
        handled
    }

    #[cold]
    fn run_flow_events(&mut self, port: &Port, state: &mut S) -> usize {
        let Some(run) = &mut self.flow else { return 0 };
        let mut handled = 0;
        while handled < BUDGET {
            let next = port.shared.borrow_mut().flow_event(port.id);
            let Some(Letter { change, flow, names, unhandled }) = next else { break };
            // One of ours that was closed meanwhile, by ourselves.
            let Some(names) = names else { continue };
            run(state, ConnectionEvent { change, remote: Connection(flow), names, unhandled, port });
            handled += 1;
        }
        handled
    }
}
