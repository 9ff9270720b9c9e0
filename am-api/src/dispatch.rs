//! From a message that has arrived to the function that it names: step 8 of
//! its path. No borrow of the node is held while a handler runs, so that
//! handlers may send.

use std::rc::Rc;

use proto::Delivery;
use ring::Frame;

use crate::{Endpoint, FlowEvent, Handler, Message, Remote, Returned, Token};

/// The most messages that one poll hands to handlers: a poll ends, however
/// much arrives, and endpoints that are polled in turn all get theirs.
pub const BUDGET: usize = 64;

impl<S> Endpoint<S> {
    pub(crate) fn dispatch(&mut self, state: &mut S) -> usize {
        self.dispatch_flow_events(state);
        let mut handled = self.dispatch_returned(state);
        while handled < BUDGET {
            let next = self.port.shared.borrow_mut().next(self.port.id);
            let Some((delivery, reply_frame)) = next else { break };
            match reply_frame {
                Some(frame) => self.run_request(state, &delivery, frame),
                None => self.run_reply(state, &delivery),
            }
            self.port.shared.borrow_mut().core().release(delivery.flow, delivery.class);
            handled += 1;
        }
        handled
    }

    #[inline]
    fn run_request(&mut self, state: &mut S, delivery: &Delivery<Frame>, reply_frame: Frame) {
        // Where the handler is missing the token is dropped, and so the reply forgone.
        let token = Token::new(Rc::downgrade(&self.port.shared), delivery.flow, reply_frame);
        match self.handlers.requests.get(Handler(delivery.handler)) {
            Some(run) => run(state, Message { port: &self.port, delivery }, token),
            None => self.unhandled(state, delivery),
        }
    }

    #[inline]
    fn run_reply(&mut self, state: &mut S, delivery: &Delivery<Frame>) {
        match self.handlers.replies.get(Handler(delivery.handler)) {
            Some(run) => run(state, Message { port: &self.port, delivery }),
            None => self.unhandled(state, delivery),
        }
    }

    #[cold]
    fn unhandled(&mut self, state: &mut S, delivery: &Delivery<Frame>) {
        self.port.shared.borrow_mut().tally.unhandled += 1;
        if let Some(run) = &mut self.handlers.unhandled {
            run(state, Message { port: &self.port, delivery });
        }
    }

    fn dispatch_returned(&mut self, state: &mut S) -> usize {
        let mut handled = 0;
        while handled < BUDGET {
            let next = self.port.shared.borrow_mut().core().poll_returned(self.port.id);
            let Some(returned) = next else { break };
            if let Some(run) = &mut self.handlers.returned {
                let message = Message { port: &self.port, delivery: &returned.message };
                run(state, Returned { message, reason: returned.reason });
            }
            handled += 1;
        }
        handled
    }

    fn dispatch_flow_events(&mut self, state: &mut S) {
        let Some(run) = &mut self.handlers.flow else { return };
        for _ in 0..BUDGET {
            let next = self.port.shared.borrow_mut().inboxes.take(self.port.id);
            let Some((change, flow)) = next else { break };
            run(state, FlowEvent { change, remote: Remote(flow), port: &self.port });
        }
    }
}
