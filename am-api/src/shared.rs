//! What a node and its endpoints share. Borrowed for a call at a time, never
//! while a handler runs.

use std::cell::RefCell;
use std::rc::{Rc, Weak};

use engine::{Clock, Engine};
use proto::{Core, Delivery, EndpointId, FlowId, Time};
use ring::Frame;
use transport::Transport;

use crate::flow_event::{Inboxes, Letter};

pub(crate) type Strong = Rc<RefCell<Shared>>;
/// What tokens hold: one that is kept does not keep its node alive.
pub(crate) type Remembered = Weak<RefCell<Shared>>;

pub(crate) struct Shared {
    pub(crate) engine: Engine,
    pub(crate) transport: Box<dyn Transport>,
    pub(crate) clock: Clock,
    /// The time of this turn.
    pub(crate) now: Time,
    /// A frame at hand for the next reply.
    spare: Option<Frame>,
    pub(crate) inboxes: Inboxes,
    pub(crate) tally: Tally,
}

/// What this layer counts itself.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    /// Messages for a handler that the endpoint does not have.
    pub(crate) unhandled: u64,
    /// Times that requests had to wait because no frame was left for a reply.
    pub(crate) no_reply_frame: u64,
}

/// A message to dispatch, and for a request the frame of its reply.
pub(crate) type Next = (Delivery<Frame>, Option<Frame>);

impl Shared {
    pub(crate) fn new(engine: Engine, transport: Box<dyn Transport>, clock: Clock) -> Self {
        let now = clock.now();
        Shared { engine, transport, clock, now, spare: None, inboxes: Inboxes::default(), tally: Tally::default() }
    }

    #[inline]
    pub(crate) fn core(&mut self) -> &mut Core<Frame> {
        self.engine.core_mut()
    }

    /// First half of a turn; see [`Engine::inhale`].
    #[inline]
    pub(crate) fn inhale(&mut self) -> usize {
        self.now = self.clock.now();
        self.engine.inhale(self.now, &mut *self.transport)
    }

    /// Second half of a turn; see [`Engine::exhale`].
    #[inline]
    pub(crate) fn exhale(&mut self) -> usize {
        let inboxes = &mut self.inboxes;
        self.engine.exhale(self.now, &mut *self.transport, &mut |event| inboxes.put(event))
    }

    /// Whether anything but messages has happened that an endpoint may want to
    /// hear of: conversations that opened or ended, messages that came back.
    #[inline]
    pub(crate) fn has_news(&self) -> bool {
        self.engine.core().has_returned() || !self.inboxes.is_empty()
    }

    /// The next message for an endpoint, replies first. A request is given out
    /// together with a frame for its reply, so that no reply fails for lack of
    /// memory; while there is none, requests wait.
    #[inline]
    pub(crate) fn next(&mut self, endpoint: EndpointId) -> Option<Next> {
        if let Some(reply) = self.core().poll_reply(endpoint) {
            return Some((reply, None));
        }
        let Some(reserved) = self.spare.take().or_else(|| self.engine.pool().take()) else {
            self.tally.no_reply_frame += 1;
            return None;
        };
        let Some(request) = self.core().poll_request(endpoint) else {
            self.spare = Some(reserved);
            return None;
        };
        Some((request, Some(reserved)))
    }

    /// What next happened to a conversation of an endpoint, with the names of
    /// the other side.
    pub(crate) fn flow_event(&mut self, endpoint: EndpointId) -> Option<Letter> {
        let (change, flow, names) = self.inboxes.take(endpoint)?;
        Some((change, flow, names.or_else(|| self.engine.core().remote(flow))))
    }

    /// The right to reply lapses; the reply's frame serves the next.
    #[inline]
    pub(crate) fn forgo(&mut self, flow: FlowId, frame: Frame) {
        self.core().forgo(flow);
        self.spare = Some(frame);
    }
}

impl Drop for Shared {
    /// The last of a node and its endpoints is gone: the peers should hear of it.
    fn drop(&mut self) {
        self.engine.shut_down(self.clock.now(), &mut *self.transport);
    }
}
