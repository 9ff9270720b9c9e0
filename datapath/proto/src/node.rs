//! The core's state and its getters.

use std::collections::VecDeque;
use std::time::Duration;

use am_wire::control::{Incarnation, Name};
use am_wire::{Acks, Address, Buffer, Class, Flow};

use crate::address_conflict::AddressConflicts;
use crate::config::{Config, Placement};
use crate::control_queue::{ControlQueue, DeferredControl, Outgoing, PendingReject};
use crate::counters::Counters;
use crate::credits::CreditBudget;
use crate::endpoint::Endpoints;
use crate::fair_share::FairShare;
use crate::flow::{PerClass, Phase};
use crate::flows::Flows;
use crate::gaps::Gaps;
use crate::output::{Command, Event, FlowState, NameConflict, Peer};
use crate::peers::{PeerRun, Peers, QuietPeer, UNKNOWN_RUN};
use crate::presence::{FIRST_BEACON_PAUSE, Watch};
use crate::rate_limit::{BroadcastLimit, ProbeRounds, RateLimit};
use crate::rtt::Timing;
use crate::search::Search;
use crate::senders::Senders;
use crate::signs_of_life::NotPolling;
use crate::slots::{SlotIndex, Slots};
use crate::time::{Time, TimerState, Timers};
use crate::unknown_flows::UnknownFlows;
use crate::{EndpointId, FlowId};

/// Room for the rejects of a few turns.
pub(crate) const MAX_PENDING_REJECTS: usize = 512;

/// The rate of beacons in answer to beacons. A beacon can be forged in any node's name, so answers need a limit. A node
/// without an answer asks again, and receives the next beacon.
const BEACON_ANSWER_RATE: RateLimit = RateLimit::new(Duration::from_micros(200), 1024);

/// The sans-IO core of one node. `B` is the memory of a frame.
///
/// Calls come in four classes, and each says so. **Getters** change nothing.
/// **From below**: [`on_frame`](Core::on_frame), [`on_timeout`](Core::on_timeout),
/// and, when the outputs are on their way, [`run_deferred`](Core::run_deferred).
/// **From above**: [`add_endpoint`](Core::add_endpoint), [`connect`](Core::connect),
/// [`send`](Core::send), [`release`](Core::release) and the like.
/// **Outputs**: [`transmit`](Core::transmit) and the `poll_*`. Any number of inputs at the same `now`; then
/// drain the outputs until each says `None`.
///
/// What each message touches comes first, and the compiler keeps this order: a field more in [`Discovery`] moves none of
/// these to another cache line.
#[derive(Debug)]
#[repr(C)]
pub struct Core<B> {
    /// When the last input or output was.
    pub(crate) now: Time,
    pub(crate) receiving: Receiving,
    pub(crate) deferred: Deferred,
    pub(crate) outputs: Outputs,
    pub(crate) sending: Sending<B>,
    pub(crate) slots: Slots<B>,
    pub(crate) endpoints: Endpoints<B>,
    pub(crate) flows: Flows,
    pub(crate) time: Times,
    pub(crate) config: Config,
    pub(crate) counters: Counters,
    pub(crate) random: Random,
    /// Set in the first node of a group.
    pub(crate) placement: Placement,
    pub(crate) discovery: Discovery,
}

/// Frames to send: see `transmit.rs`.
#[derive(Debug)]
pub(crate) struct Sending<B> {
    /// Flows with an acknowledgement to send now.
    pub(crate) acks_due: VecDeque<Flow>,
    /// Messages to reject.
    pub(crate) pending_rejects: VecDeque<PendingReject>,
    /// Of flows that end, and quiet ones.
    pub(crate) deferred_control: VecDeque<DeferredControl>,
    pub(crate) control: ControlQueue<B>,
    /// Whether a message keeps acknowledgements or rejects from leaving: one of these goes next.
    pub(crate) answer_first: bool,
}

/// The room for arriving messages, and its division among peers.
#[derive(Debug)]
pub(crate) struct Receiving {
    /// There is no room, and the transport was notified.
    pub(crate) is_full: bool,
    pub(crate) gaps: Gaps,
    pub(crate) budget: CreditBudget,
    /// The peers that have flows.
    pub(crate) senders: Senders,
    /// What of the budget each sender may have.
    pub(crate) fair_shares: PerClass<FairShare>,
    /// Requests delivered and not yet answered: a slot is set aside for each.
    pub(crate) replies_owed: usize,
}

/// Which nodes are there, and what their claims are worth.
#[derive(Debug, Default)]
pub(crate) struct Discovery {
    pub(crate) peers: Peers,
    pub(crate) address_conflicts: AddressConflicts,
    /// Who says last that it is this node, and since when.
    pub(crate) duplicate_name: Option<(Peer, Time)>,
    /// The last two that were found to claim one name, and when.
    pub(crate) name_conflict: Option<(NameConflict, Time)>,
    /// When this node last said so to the earlier one of such two.
    pub(crate) name_refused_at: Option<Time>,
    /// Who says last that another node has this one's name, and when.
    pub(crate) name_lost: Option<(Address, Time)>,
    pub(crate) unknown_flows: UnknownFlows,
    /// A probe was answered that another was asked.
    pub(crate) was_probe_overheard: bool,
    pub(crate) watch: Watch,
    pub(crate) search: Search,
    pub(crate) probe_rounds: ProbeRounds,
    /// Broadcasts which say that this node polls again.
    pub(crate) late_news: BroadcastLimit,
    pub(crate) not_polling: NotPolling,
    /// When the last frame without this node's segment key arrived.
    pub(crate) unauthenticated_at: Option<Time>,
    /// This node said farewell, and answers no more.
    pub(crate) has_left: bool,
}

/// What is due when.
#[derive(Debug)]
pub(crate) struct Times {
    pub(crate) timing: Timing,
    pub(crate) timers: Timers,
    pub(crate) beacon_timer: TimerState,
    /// The pause before the next beacon but one.
    pub(crate) beacon_pause: Duration,
    pub(crate) beacon_answers: RateLimit,
    pub(crate) keepalive_timer: TimerState,
    /// More flows are to become idle.
    pub(crate) idle_timer: TimerState,
    /// The peers that were asked in the last keepalive round, by their runs.
    pub(crate) quiet_peers: Vec<(PeerRun, QuietPeer)>,
}

/// Work for [`Core::run_deferred`], when the outputs are on their way.
#[derive(Debug)]
pub(crate) struct Deferred {
    /// Messages that left since the deferred work was last done.
    pub(crate) just_sent: Vec<SlotIndex>,
    /// How many of them have the time at which they left.
    pub(crate) timed: usize,
    /// Flows on which messages arrived or were released.
    pub(crate) dirty: Vec<Flow>,
    /// Acknowledgements that came in frames of their own.
    pub(crate) received_acks: VecDeque<(Flow, Acks)>,
}

/// What is neither a frame nor a message.
#[derive(Debug)]
pub(crate) struct Outputs {
    pub(crate) events: VecDeque<Event>,
    pub(crate) commands: VecDeque<Command>,
}

impl Times {
    pub(crate) fn new(config: &Config) -> Self {
        Times {
            timing: Timing::new(config),
            timers: Timers::new(256),
            beacon_timer: TimerState::default(),
            beacon_pause: FIRST_BEACON_PAUSE,
            beacon_answers: BEACON_ANSWER_RATE,
            keepalive_timer: TimerState::default(),
            idle_timer: TimerState::default(),
            quiet_peers: Vec::new(),
        }
    }
}

impl<B: Buffer> Core<B> {
    /// Getter: the settings.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Getter: the state of a flow.
    pub fn state(&self, flow: FlowId) -> FlowState {
        match self.flows.get(flow) {
            Some(record) => record.state(),
            None => self.flows.why_ended(flow).map_or(FlowState::Unknown, FlowState::Ended),
        }
    }

    /// Getter: the local endpoint of a flow.
    pub fn endpoint_of(&self, flow: FlowId) -> EndpointId {
        self.flows.get(flow).map_or(EndpointId::NONE, |record| record.endpoint)
    }

    /// Getter: whether handlers get the messages of this flow in the order in which they were sent.
    pub fn is_ordered(&self, flow: FlowId) -> bool {
        self.flows.get(flow).is_none_or(|record| record.setup.is_ordered)
    }

    /// Getter: the names of the peer's node and endpoint.
    pub fn peer_names(&self, flow: FlowId) -> Option<(Name, Name)> {
        self.flows.get(flow).map(|record| (record.peer.node_name, record.peer.endpoint))
    }

    /// Getter: the run of the peer that the flow is with. `None` if the peer has not named it.
    pub fn peer_run(&self, flow: FlowId) -> Option<Incarnation> {
        let (_, run) = self.flows.get(flow)?.peer.node?;
        (run != UNKNOWN_RUN).then_some(run)
    }

    /// Getter: the name of an endpoint.
    pub fn endpoint_name(&mut self, endpoint: EndpointId) -> Option<Name> {
        self.endpoints.get(endpoint).map(|endpoint| endpoint.name)
    }

    /// Getter: the endpoints that have messages to deliver, and some that had. The number changes with the list.
    pub fn warm_endpoints(&self) -> (u64, impl Iterator<Item = EndpointId>) {
        self.endpoints.warm.listed()
    }

    /// Getter: the address to which the frames of an open flow go.
    pub fn address(&self, flow: FlowId) -> Option<Address> {
        self.flows.get(flow).filter(|record| record.phase == Phase::Open).map(|record| record.route.to)
    }

    /// Getter: the known nodes.
    pub fn peers(&self) -> impl Iterator<Item = &Peer> {
        self.discovery.peers.iter().map(|record| &record.peer)
    }

    /// Getter: the counters.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Getter: how many messages of a class a flow could admit now.
    pub fn credit(&self, flow: FlowId, class: Class) -> usize {
        self.flows.get(flow).map_or(0, |record| record.send[class].credit() as usize)
    }

    /// Getter: whether an admitted message of this flow is unacknowledged, in either class.
    pub fn has_unacknowledged(&self, flow: FlowId) -> bool {
        self.flows.get(flow).is_some_and(|record| Class::ALL.iter().any(|&class| !record.send[class].is_empty()))
    }

    /// Getter: how many messages of a class a flow keeps until they are acknowledged.
    pub fn outstanding(&self, flow: FlowId, class: Class) -> usize {
        self.flows.get(flow).map_or(0, |record| record.send[class].outstanding(&self.slots))
    }

    /// Getter: every frame that the core holds, including those that a NIC shares.
    pub fn frames(&self, each: &mut dyn FnMut(&B)) {
        self.slots.slots.iter().filter_map(|slot| slot.frame.as_ref()).for_each(&mut *each);
        for outgoing in &self.sending.control.0 {
            if let Outgoing::NotTaken(transmit) = outgoing {
                each(&transmit.frame);
            }
        }
        self.endpoints.frames().for_each(each);
    }

    /// Getter: the credits granted, all flows together: the most messages in flight to this node.
    pub fn granted(&self) -> usize {
        self.receiving.budget.granted
    }

    /// Getter: the credits that the peer of a flow holds for a class. They are those that it may still use, and those
    /// of its messages that are not released yet, once it knows of its latest grant.
    pub fn granted_to(&self, flow: FlowId, class: Class) -> usize {
        self.flows.get(flow).map_or(0, |record| record.receive[class].granted as usize)
    }

    /// Getter: the latest time for the next call of [`Core::on_timeout`].
    #[inline]
    pub fn sleep_until(&self) -> Time {
        self.time.timers.next_due()
    }

    /// Getter: whether [`Core::poll_event`] has an event.
    #[inline]
    pub fn has_events(&self) -> bool {
        !self.outputs.events.is_empty()
    }

    /// Getter: whether [`Core::transmit`] may have anything.
    #[inline]
    pub fn has_output(&self) -> bool {
        !(self.slots.ready.is_empty()
            && self.sending.acks_due.is_empty()
            && self.sending.pending_rejects.is_empty()
            && self.sending.control.0.is_empty()
            && self.sending.deferred_control.is_empty())
    }

    /// Getter: the core's current time: the last one passed in.
    #[inline]
    pub fn now(&self) -> Time {
        self.now
    }

    /// Getter: whether [`Core::poll_command`] has a command.
    #[inline]
    pub fn has_commands(&self) -> bool {
        !self.outputs.commands.is_empty()
    }

    /// Output: the next event for the user.
    #[inline]
    pub fn poll_event(&mut self) -> Option<Event> {
        self.outputs.events.pop_front()
    }

    /// Output: the next command for the transport. Pass commands on before sending frames. A frame may tell a peer a
    /// new flow id, and steering must let the peer's answer in.
    #[inline]
    pub fn poll_command(&mut self) -> Option<Command> {
        self.outputs.commands.pop_front()
    }
}

/// Random numbers for sequence numbers, ids and nonces (splitmix64). They tell old frames from new ones, and an
/// attacker that cannot receive this node's frames cannot guess them. They are as hard to guess as [`Config::seed`].
#[derive(Debug)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// A random part of this time.
    pub(crate) fn part_of(&mut self, time: Duration) -> Duration {
        let most = time.as_nanos() as u64;
        Duration::from_nanos(if most == 0 { 0 } else { self.next() % most })
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}
