//! One flow: a conversation between an endpoint of ours and one of a peer's.

use core::ops::{Index, IndexMut};
use core::time::Duration;

use am_wire::control::{Incarnation, Name, NodeId, Offer, Refusal};
use am_wire::{Acks, Address, Class, Flow, Framing, Piggyback, Seq};

use crate::order::Order;
use crate::output::{FlowState, FramingWhy, ReturnReason};
use crate::path::Known;
use crate::receive_queue::ReceiveQueue;
use crate::reject_queue::RejectQueue;
use crate::rtt::Rtt;
use crate::send_queue::SendQueue;
use crate::time::Time;
use crate::timers::Armed;
use crate::{EndpointId, FlowId, WINDOW};

/// One of each class.
#[derive(Debug)]
pub(crate) struct PerClass<T>(pub(crate) [T; 2]);

impl<T> Index<Class> for PerClass<T> {
    type Output = T;

    #[inline]
    fn index(&self, class: Class) -> &T {
        &self.0[class.index()]
    }
}

impl<T> IndexMut<Class> for PerClass<T> {
    #[inline]
    fn index_mut(&mut self, class: Class) -> &mut T {
        &mut self.0[class.index()]
    }
}

/// Where a flow stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// We asked, or will once the peer is found and its framing known.
    Asking,
    /// Messages flow.
    Open,
    /// We closed it; the peer has not answered yet.
    Leaving,
    /// The peer said no.
    Refused(Refusal),
    /// It is over.
    Dead(ReturnReason),
}

/// How to reach the other side; known once the flow is open.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Route {
    pub(crate) to: Address,
    /// The flow id that the peer chose, and its nonce.
    pub(crate) flow: Flow,
    pub(crate) nonce: u16,
    pub(crate) framing: Framing,
    pub(crate) why: FramingWhy,
    /// The most bytes of words and payload in one message.
    pub(crate) max_body: u32,
}

impl Route {
    /// Not known yet.
    const NONE: Route = Route {
        to: Address([0; 6]),
        flow: Flow::NODE,
        nonce: 0,
        framing: Framing::Plain,
        why: FramingWhy::Configured,
        max_body: 0,
    };

    /// The longest frame.
    pub(crate) fn max_frame(&self) -> u32 {
        self.max_body + self.framing.body_at() as u32
    }
}

/// Who is at the other side.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Remote {
    pub(crate) node_name: Name,
    pub(crate) endpoint: Name,
    /// Known once the peer has been found.
    pub(crate) node: Option<(NodeId, Incarnation)>,
}

/// The set-up of a flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    /// Number of the attempt.
    pub(crate) id: u32,
    /// Whether we asked; otherwise the peer did.
    pub(crate) ours: bool,
    /// Handlers get the messages of a class in the order in which they were sent.
    pub(crate) is_ordered: bool,
    pub(crate) tag: u64,
    /// Give up then.
    pub(crate) until: Time,
    /// How often something was asked; the wait doubles each time, and is short again when something was learned.
    pub(crate) tries: u8,
    /// How often it was asked in all.
    pub(crate) asked: u8,
}

/// It may be us who were away: nobody is given up who was not asked so often.
const TIMES: u8 = 4;

impl Setup {
    /// Whether it is to be given up. As long as something is learned it goes on, but not for ever: that may be forged.
    pub(crate) fn is_over(&self, now: Time) -> bool {
        now >= self.until && (self.tries >= TIMES || self.asked >= 4 * TIMES)
    }
}

/// Since when a peer has not been heard, and how often it was asked since then.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Silence {
    since: Time,
    asked: u8,
}

impl Silence {
    #[inline]
    pub(crate) fn from(now: Time) -> Self {
        Silence { since: now, asked: 0 }
    }

    /// When the peer was last heard.
    pub(crate) fn since(&self) -> Time {
        self.since
    }

    /// Whether the peer was ever heard on this flow, or waited for.
    pub(crate) fn has_begun(&self) -> bool {
        self.since != Time::default()
    }

    /// A time-out: messages go out again. Whether that is not the first: one frame
    /// may have been lost, which says nothing of the way.
    pub(crate) fn ask(&mut self) -> bool {
        self.asked = self.asked.saturating_add(1);
        self.asked > 1
    }

    /// Whether it has lasted longer than `patience`.
    pub(crate) fn is_over(&self, now: Time, patience: Duration) -> bool {
        now - self.since >= patience && self.asked >= TIMES
    }
}

#[derive(Debug)]
pub(crate) struct FlowRecord {
    pub(crate) id: FlowId,
    pub(crate) endpoint: EndpointId,
    pub(crate) phase: Phase,
    pub(crate) remote: Remote,
    pub(crate) setup: Setup,
    /// From the number of the peer's first reply to that of our first request.
    answers: u32,
    pub(crate) route: Route,
    pub(crate) send: PerClass<SendQueue>,
    pub(crate) receive: PerClass<ReceiveQueue>,
    pub(crate) rejects: RejectQueue,
    pub(crate) rtt: Rtt,
    /// How long the peer has not been heard, while something is on its way.
    pub(crate) silence: Silence,
    /// Messages accepted that the peer was not told of.
    pub(crate) unacked: u16,
    /// In the queue of flows with an acknowledgement to send.
    pub(crate) ack_queued: bool,
    /// That acknowledgement tells of something that no piggyback can tell.
    pub(crate) ack_forced: bool,
    /// When the acknowledgement must go at the latest.
    pub(crate) ack_at: Time,
    /// In the list of flows to settle.
    pub(crate) touched: bool,
    /// The first of those that were set up with its peer in a row: for all of
    /// them it counts as a peer that has credits.
    pub(crate) is_first: bool,
    /// Acknowledgements that rode in on messages and have not been looked at.
    pub(crate) told: Option<Piggyback>,
    /// When a message left that is acknowledged now: a round trip to note. [`Time::NEVER`] where there is none.
    pub(crate) sampled: Time,
    pub(crate) ack_armed: Armed,
    /// The next time-out of its messages; or, before it is open and when it is left, of what the peer is asked.
    pub(crate) resend_armed: Armed,
    /// What is known of the network's order, since something was lost or came again.
    pub(crate) order: Option<Box<Order>>,
}

impl FlowRecord {
    pub(crate) fn new(
        id: FlowId,
        endpoint: EndpointId,
        remote: Remote,
        setup: Setup,
        first: [Seq; 2],
        peer_first: [Seq; 2],
        credits: [u16; 2],
    ) -> Self {
        FlowRecord {
            id,
            endpoint,
            phase: Phase::Asking,
            remote,
            setup,
            answers: 0,
            route: Route::NONE,
            send: PerClass(first.map(SendQueue::new)),
            receive: PerClass([0, 1].map(|class| ReceiveQueue::new(peer_first[class], credits[class]))),
            rejects: RejectQueue::default(),
            rtt: Rtt::default(),
            silence: Silence::default(),
            unacked: 0,
            ack_queued: false,
            ack_forced: false,
            ack_at: Time::NEVER,
            touched: false,
            is_first: false,
            told: None,
            sampled: Time::NEVER,
            ack_armed: Armed::default(),
            resend_armed: Armed::default(),
            order: None,
        }
    }

    pub(crate) fn state(&self) -> FlowState {
        match self.phase {
            Phase::Asking => FlowState::Connecting,
            Phase::Open => FlowState::Open {
                framing: self.route.framing,
                why: self.route.why,
                max_body: self.route.max_body as usize,
            },
            Phase::Refused(why) => FlowState::Refused(why),
            Phase::Dead(reason) => FlowState::Dead(reason),
            Phase::Leaving => FlowState::Unknown,
        }
    }

    /// What this side says of itself at set-up: the same each time it is
    /// asked, because nothing is acknowledged before the other side has heard it.
    /// Its longest frame is what reaches the peer, so that a reply may be as long as its request.
    pub(crate) fn offer(&self, max_frame: u32) -> Offer {
        Offer {
            flow: self.id.flow,
            nonce: self.id.nonce,
            first: [self.send.0[0].first(), self.send.0[1].first()],
            credits: [self.receive.0[0].granted(), self.receive.0[1].granted()],
            max_frame,
        }
    }

    /// The other half is known: messages can flow.
    pub(crate) fn open(&mut self, offer: &Offer, to: Address, path: &Known) {
        let &Known { framing, why, max_frame } = path;
        let max_frame = max_frame.min(offer.max_frame) as usize;
        self.route = Route {
            to,
            flow: offer.flow,
            nonce: offer.nonce,
            framing,
            why,
            max_body: max_frame.saturating_sub(framing.body_at()) as u32,
        };
        self.answers = self.send[Class::Request].first().0.wrapping_sub(offer.first[Class::Reply.index()].0);
        for class in Class::ALL {
            let credits = offer.credits[class.index()];
            let queue = &mut self.send[class];
            queue.allow(queue.first().plus(credits as u32));
            let granted = self.receive[class].granted();
            self.receive[class] = ReceiveQueue::new(offer.first[class.index()], granted);
        }
        // It was the set-up's.
        self.resend_armed.disarm();
        self.phase = Phase::Open;
    }

    /// On an ordered flow: whether one of our requests was handled, as the replies say that have come: each is to another request, and handlers got
    /// the requests in order. So many as there are replies were handled, whether or not that was acknowledged.
    pub(crate) fn is_answered(&self, request: Seq) -> bool {
        let before = self.receive[Class::Reply].near().plus(self.answers);
        // A request that waits here is within a window of what was handled. Numbers wrap.
        (1..=WINDOW as i32).contains(&before.since(request))
    }

    /// When the peer was last heard, or waited for.
    pub(crate) fn heard(&self) -> Time {
        if self.silence.has_begun() { self.silence.since } else { self.setup.until }
    }

    /// Whether the peer was heard, or is being waited for, within that time.
    pub(crate) fn is_heard(&self, now: Time, within: Duration) -> bool {
        now - self.silence.since < within || self.in_flight()
    }

    #[inline]
    pub(crate) fn in_flight(&self) -> bool {
        self.send.0[0].in_flight() || self.send.0[1].in_flight()
    }

    /// There is something to settle: see [`Core::settle`](crate::Core::settle).
    #[inline]
    pub(crate) fn touch(&mut self, touched: &mut Vec<Flow>) {
        if !self.touched {
            self.touched = true;
            touched.push(self.id.flow);
        }
    }

    /// Whether an acknowledgement would tell the peer anything.
    pub(crate) fn has_to_tell(&self) -> bool {
        self.ack_forced || self.unacked > 0 || self.receive.0.iter().any(|queue| queue.untold() > 0)
    }

    /// The acknowledgement for a frame of its own; everything is told with it.
    pub(crate) fn acks(&mut self) -> Acks {
        self.ack_forced = false;
        self.unacked = 0;
        self.ack_at = Time::NEVER;
        let [requests, replies] = &mut self.receive.0;
        Acks { classes: [requests.tell(), replies.tell()] }
    }

    /// The acknowledgement to put into the padding of a message; with it
    /// everything is told that there is to tell, unless there are gaps.
    #[inline]
    pub(crate) fn piggyback(&mut self) -> Piggyback {
        let mut piggyback = Piggyback::default();
        for (told, queue) in piggyback.classes.iter_mut().zip(&mut self.receive.0) {
            (told.accepted, told.limit) = queue.tell_short();
        }
        self.unacked = 0;
        self.ack_at = Time::NEVER;
        piggyback
    }
}
