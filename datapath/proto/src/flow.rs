//! One flow: this side's half of a connection between a local endpoint and a peer's.

use core::ops::{Index, IndexMut};
use core::time::Duration;
use std::collections::VecDeque;

use am_wire::control::{Accept, Control, FlowParameters, Incarnation, Keepalive, Name, NodeId, Refusal};
use am_wire::{Acks, Address, Class, Flow, Framing, Kind, Piggyback, Seq, Template};

use crate::mutants::{self, Mutant};
use crate::output::{FlowState, FramingWhy, ReturnReason};
use crate::peers::KnownPath;
use crate::receive_queue::ReceiveQueue;
use crate::reject_queue::RejectQueue;
use crate::reordering::Reordering;
use crate::rtt::Rtt;
use crate::send_queue::SendQueue;
use crate::senders::SenderIndex;
use crate::time::{Time, TimerState};
use crate::{EndpointId, FlowId, WINDOW};

/// One value for each class.
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// This node asked for the flow, or will ask as soon as it knows the peer and the path.
    Connecting(AskedMember),
    /// Messages can be sent.
    Open,
    /// This side closed the flow. The peer has not answered yet.
    Closing,
    Refused(Refusal),
    Ended(ReturnReason),
}

/// How to reach the peer. Known once the flow is open.
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
    /// The longest payload that the peer accepts in one message.
    pub(crate) max_message: u32,
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
        max_message: 0,
    };

    pub(crate) fn max_frame(&self) -> u32 {
        self.max_body + self.framing.body_at() as u32
    }
}

/// The peer's names, and which run of it the flow belongs to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlowPeer {
    pub(crate) node_name: Name,
    pub(crate) endpoint: Name,
    /// `None` until the peer is found.
    pub(crate) node: Option<(NodeId, Incarnation)>,
}

/// The set-up of a flow; later its close.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    /// Number of the attempt.
    pub(crate) id: u32,
    /// This node asked for the flow. Otherwise the peer did.
    pub(crate) is_ours: bool,
    /// Handlers get the messages of a class in the order in which they were sent.
    pub(crate) is_ordered: bool,
    pub(crate) tag: u64,
    /// When the set-up or the close is given up. Of an open flow: when it opened.
    pub(crate) deadline: Time,
    /// Questions since something was learned. The wait doubles with each.
    pub(crate) tries: u8,
    /// Questions in all.
    pub(crate) total_tries: u8,
}

/// Which member of a group is asked for a flow, in one byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AskedMember(u8);

impl AskedMember {
    const NO_REDIRECT: u8 = 0x80;

    /// 0: the first, or a node in no group.
    pub(crate) fn number(self) -> u8 {
        self.0 & Refusal::MAX_MEMBER
    }

    /// Whether the member shall not name another, because one was silent before.
    pub(crate) fn no_redirect(self) -> bool {
        self.0 & Self::NO_REDIRECT != 0
    }

    pub(crate) fn new(number: u8, no_redirect: bool) -> AskedMember {
        AskedMember(number & Refusal::MAX_MEMBER | if no_redirect { Self::NO_REDIRECT } else { 0 })
    }
}

/// This node may have been descheduled, so it gives nothing up before it has asked this often.
const MIN_TRIES: u8 = 4;

impl Setup {
    /// Whether to give up. News of the peer extends the set-up, but not without limit: the news may be forged.
    pub(crate) fn is_expired(&self, now: Time) -> bool {
        now >= self.deadline && (self.tries >= MIN_TRIES || self.total_tries >= 4 * MIN_TRIES)
    }
}

/// How long nothing came from the peer, and how often it was asked since.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Silence {
    /// When the last frame of the peer arrived.
    pub(crate) since: Time,
    probes: u8,
}

impl Silence {
    #[inline]
    pub(crate) fn from(now: Time) -> Self {
        Silence { since: now, probes: 0 }
    }

    /// The peer gave another sign of life.
    pub(crate) fn extend_to(&mut self, sign: Option<Time>) {
        if let Some(sign) = sign.filter(|&sign| sign > self.since && self.has_begun()) {
            *self = Silence::from(sign);
        }
    }

    /// Whether a frame of the peer ever arrived on this flow, or one was waited for.
    pub(crate) fn has_begun(&self) -> bool {
        self.since != Time::default()
    }

    /// A time-out: messages are sent again. Returns whether it is not the first time-out. A single one may be one lost
    /// frame, which says nothing about the path.
    pub(crate) fn count_probe(&mut self) -> bool {
        self.probes = self.probes.saturating_add(1);
        self.probes > 1
    }

    pub(crate) fn exceeds(&self, now: Time, patience: Duration) -> bool {
        now - self.since >= patience && self.probes >= MIN_TRIES
    }
}

#[derive(Debug)]
pub(crate) struct FlowRecord {
    pub(crate) id: FlowId,
    pub(crate) endpoint: EndpointId,
    pub(crate) phase: Phase,
    pub(crate) peer: FlowPeer,
    pub(crate) setup: Setup,
    /// The number of this node's first request, less the number of the peer's first reply.
    reply_offset: u32,
    pub(crate) route: Route,
    /// The part of the headers that is the same in all messages. `None` until the first message leaves on this route.
    pub(crate) template: Option<Template>,
    pub(crate) send: PerClass<SendQueue>,
    pub(crate) receive: PerClass<ReceiveQueue>,
    pub(crate) rejects: RejectQueue,
    pub(crate) rtt: Rtt,
    /// How long nothing came from the peer while messages are in flight.
    pub(crate) silence: Silence,
    /// Accepted messages that no acknowledgement has covered.
    pub(crate) unacked: u16,
    pub(crate) ack_queued: bool,
    /// The acknowledgement reports something that a piggyback cannot carry.
    pub(crate) ack_forced: bool,
    /// When the acknowledgement must leave at the latest.
    pub(crate) ack_at: Time,
    pub(crate) is_dirty: bool,
    /// The peer, among those that have flows.
    pub(crate) sender: SenderIndex,
    /// The last piggybacked acknowledgement, not processed yet.
    pub(crate) pending_piggyback: Option<Piggyback>,
    /// When the newly acknowledged message was sent: the start of a round-trip sample. [`Time::NEVER`] if there is
    /// none.
    pub(crate) sample_sent_at: Time,
    pub(crate) ack_timer: TimerState,
    /// The next retransmission time-out. During set-up and close: the next repetition of the question.
    pub(crate) resend_timer: TimerState,
    /// The loss-detection state. It exists from the first loss or duplicate on.
    pub(crate) reordering: Option<Box<Reordering>>,
}

impl FlowRecord {
    pub(crate) fn new(
        id: FlowId,
        endpoint: EndpointId,
        remote: FlowPeer,
        setup: Setup,
        first: [Seq; 2],
        (sender, credits): (SenderIndex, [u16; 2]),
    ) -> Self {
        FlowRecord {
            id,
            endpoint,
            phase: Phase::Connecting(AskedMember::default()),
            peer: remote,
            setup,
            reply_offset: 0,
            route: Route::NONE,
            template: None,
            send: PerClass(first.map(SendQueue::new)),
            receive: PerClass(credits.map(|credits| ReceiveQueue::new(Seq(0), credits))),
            rejects: RejectQueue::default(),
            rtt: Rtt::default(),
            silence: Silence::default(),
            unacked: 0,
            ack_queued: false,
            ack_forced: false,
            ack_at: Time::NEVER,
            is_dirty: false,
            sender,
            pending_piggyback: None,
            sample_sent_at: Time::NEVER,
            ack_timer: TimerState::default(),
            resend_timer: TimerState::default(),
            reordering: None,
        }
    }

    /// The record of an open flow that was idle. The caller adds the numbers.
    pub(crate) fn restored(
        id: FlowId,
        endpoint: EndpointId,
        peer: FlowPeer,
        setup: Setup,
        (reply_offset, route): (u32, Route),
    ) -> Self {
        FlowRecord { reply_offset, route, ..FlowRecord::new(id, endpoint, peer, setup, [Seq(0); 2], (0, [0; 2])) }
    }

    pub(crate) fn reply_offset(&self) -> u32 {
        self.reply_offset
    }

    pub(crate) fn is_connecting(&self) -> bool {
        matches!(self.phase, Phase::Connecting(_))
    }

    /// Which member of the peer's group is asked, while one is.
    pub(crate) fn asked(&self) -> AskedMember {
        if let Phase::Connecting(asked) = self.phase { asked } else { AskedMember::default() }
    }

    pub(crate) fn state(&self) -> FlowState {
        match self.phase {
            Phase::Connecting(_) => FlowState::Connecting,
            Phase::Open => FlowState::Open {
                framing: self.route.framing,
                why: self.route.why,
                max_body: self.route.max_body as usize,
                max_message: self.route.max_message as usize,
            },
            Phase::Refused(why) => FlowState::Refused(why),
            Phase::Ended(reason) => FlowState::Ended(reason),
            Phase::Closing => FlowState::Unknown,
        }
    }

    /// This side's offer at set-up. It stays the same each time the peer asks, because nothing is acknowledged before
    /// the peer has received it. Its longest frame is what reaches the peer, so a reply may be as long as its request.
    pub(crate) fn offer(&self, max_frame: u32, max_message: u32) -> FlowParameters {
        FlowParameters {
            flow: self.id.flow,
            nonce: self.id.nonce,
            first: [self.send.0[0].first(), self.send.0[1].first()],
            credits: [self.receive.0[0].granted, self.receive.0[1].granted],
            max_frame,
            max_message,
        }
    }

    /// The peer's offer arrived: messages can be sent.
    pub(crate) fn open(&mut self, now: Time, offer: &FlowParameters, to: Address, path: &KnownPath) {
        let &KnownPath { framing, why, max_frame } = path;
        let max_frame = max_frame.min(offer.max_frame) as usize;
        self.route = Route {
            to,
            flow: offer.flow,
            nonce: offer.nonce,
            framing,
            why,
            max_body: max_frame.saturating_sub(framing.body_at()) as u32,
            max_message: offer.max_message,
        };
        self.template = None;
        self.reply_offset = self.send[Class::Request].first().0.wrapping_sub(offer.first[Class::Reply.index()].0);
        for class in Class::ALL {
            let credits = offer.credits[class.index()];
            let queue = &mut self.send[class];
            queue.allow(queue.first().plus(credits as u32));
            let granted = self.receive[class].granted;
            self.receive[class] = ReceiveQueue::new(offer.first[class.index()], granted);
        }
        // The set-up's timer.
        self.resend_timer.disarm();
        self.setup.deadline = now;
        self.phase = Phase::Open;
    }

    /// The peer is at this address from now on.
    pub(crate) fn route_to(&mut self, to: Address) {
        self.route.to = to;
        self.template = None;
    }

    /// On an ordered flow: whether a request was handled, judged by the replies that arrived. Each reply answers
    /// another request, and handlers get the requests in order. So at least as many requests were handled as there are
    /// replies, acknowledged or not.
    pub(crate) fn is_answered(&self, request: Seq) -> bool {
        let before = self.receive[Class::Reply].next_expected().plus(self.reply_offset);
        // An unacknowledged request is within one window of the handled ones. Numbers wrap.
        (1..=WINDOW as i32).contains(&before.since(request))
    }

    /// When the last frame of the peer arrived; before the first one, when the flow opened.
    pub(crate) fn last_received(&self) -> Time {
        if self.silence.has_begun() { self.silence.since } else { self.setup.deadline }
    }

    #[inline]
    pub(crate) fn in_flight(&self) -> bool {
        self.send.0[0].in_flight() || self.send.0[1].in_flight()
    }

    /// Mark this flow for [`Core::run_deferred`](crate::Core::run_deferred).
    #[inline]
    pub(crate) fn mark_dirty(&mut self, dirty: &mut Vec<Flow>) {
        if !self.is_dirty {
            self.is_dirty = true;
            dirty.push(self.id.flow);
        }
    }

    pub(crate) fn has_ack_to_send(&self) -> bool {
        self.ack_forced || self.unacked > 0 || self.receive.0.iter().any(|queue| queue.unadvertised() > 0)
    }

    /// The acknowledgement for a frame of its own. It carries everything that there is to report.
    pub(crate) fn take_acks(&mut self) -> Acks {
        self.ack_forced = false;
        self.unacked = 0;
        self.ack_at = Time::NEVER;
        let [requests, replies] = &mut self.receive.0;
        Acks { classes: [requests.take_ack(), replies.take_ack()] }
    }

    /// The acknowledgement for the padding of a message. It carries everything that there is to report, except gaps.
    #[inline]
    pub(crate) fn take_piggyback(&mut self) -> Piggyback {
        let [requests, replies] = &mut self.receive.0;
        self.unacked = 0;
        self.ack_at = Time::NEVER;
        Piggyback::new([requests.take_short_ack(), replies.take_short_ack()])
    }

    /// Whether a message waits for earlier ones. A bulk segment does not, because it has its own offset.
    pub(crate) fn must_wait_for_earlier(&self, kind: Kind) -> bool {
        self.setup.is_ordered && !matches!(kind, Kind::Put | Kind::Get) && !mutants::is_active(Mutant::OutOfOrder)
    }

    #[inline]
    pub(crate) fn queue_ack(&mut self, acks_due: &mut VecDeque<Flow>) {
        if !self.ack_queued {
            self.ack_queued = true;
            acks_due.push_back(self.id.flow);
        }
    }

    /// The question about a flow. If this side accepted the flow, and no frame has arrived since, the Accept may be lost,
    /// and is sent again instead. A peer that has it already acknowledges.
    pub(crate) fn keepalive_question(&self, max_message: u32) -> Control {
        let (route, id) = (self.route, self.id);
        if !self.setup.is_ours && !self.silence.has_begun() {
            return Control::Accept(Accept { id: self.setup.id, offer: self.offer(route.max_frame(), max_message) });
        }
        Control::Keepalive(Keepalive { flow: route.flow, nonce: route.nonce, own: id.flow, own_nonce: id.nonce })
    }
}
