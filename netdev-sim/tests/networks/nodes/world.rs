//! A run: the network, its nodes, and the checkers after every turn.

use std::collections::BTreeSet;

use am_netdev_sim::check::content::{MessageId, NodeRun};
use am_netdev_sim::check::delivery::check_kept;
use am_netdev_sim::check::endings::{EndReason, Endings, Liveness, PeerState};
use am_netdev_sim::check::frames;
use am_netdev_sim::check::turns::Turns;
use am_netdev_sim::check::{Checked, Violation};
use am_netdev_sim::{MS, Nanos, Net, NetOptions, NodeEvent};
use am_proto::{FlowState, ReturnReason};
use am_wire::{Class, Reason};

use super::app::EndedFlow;
use super::checks::{Checks, NAME_TAKEN, Seen};
use super::coverage;
use super::node::Node;
use super::work::Work;

/// The time between two heartbeats.
const HEARTBEATS: Nanos = 200 * MS;

pub struct World {
    pub net: Net,
    work: Work,
    places: Vec<NodeSlot>,
    turns: Turns,
    checks: Checks,
    liveness: Liveness,
    /// How many rounds of last requests were sent.
    last_rounds: u8,
    /// Counters of the nodes that died.
    counted: Seen,
}

/// The place of a node, whether it lives or not.
#[derive(Default)]
struct NodeSlot {
    node: Option<Node>,
    run: u16,
    since: Nanos,
    /// Whether heartbeats were sent for it since its last turn.
    was_late: bool,
}

/// The results of a run without a violation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub delivered: u64,
    pub returned: u64,
    pub events: u64,
    /// The time from the last fault until everything was resolved.
    pub drained_in: Nanos,
    pub digest: u64,
}

impl World {
    pub fn new(options: NetOptions, work: Work) -> World {
        let quiet_from = options.last_fault();
        let net = Net::new(options);
        let (places, turns) = ((0..net.options().nodes).map(|_| NodeSlot::default()).collect(), Turns::of(&net));
        let endings = Endings::new(quiet_from, work.max_timeout.max(work.beacon));
        let checks = Checks { quiet_from, endings, ..Checks::default() };
        // A set-up with a dead peer ends after the configured patience, and so does a message to it.
        let liveness = Liveness { from: quiet_from, within: 3 * work.patience + 500 * MS };
        let mut world = World { net, work, places, turns, checks, liveness, last_rounds: 0, counted: Seen::new() };
        (0..world.places.len()).for_each(|at| world.start(at));
        world
    }

    fn start(&mut self, at: usize) {
        let place = &mut self.places[at];
        place.run += 1;
        place.since = self.net.now();
        place.node = Some(Node::start(&mut self.net, &self.work, NodeRun { node: at as u16, run: place.run }));
        self.turns.start(&mut self.net, at);
    }

    /// Run until everything is resolved; then for a while that shows that it stays so; then until every flow has sent one
    /// last request and all credit is back.
    pub fn run(&mut self) -> Result<Report, Violation> {
        let (mut drained, mut first) = (None, None);
        while let Some(step) = self.net.step_once() {
            if !self.on_step(step)? {
                continue;
            }
            assert!(!self.checks.seen.contains_key(NAME_TAKEN), "each name has one node");
            let now = self.net.now();
            if now < self.checks.quiet_from {
                continue;
            }
            let since = *drained.get_or_insert(now);
            let undecided = self.undecided();
            if undecided > 0 {
                drained = None;
                self.liveness.check(now, undecided).map_err(|violation| self.explain(violation))?;
            } else if now > since + self.quiet_time() {
                let first = *first.get_or_insert(since);
                let missing = self.unsettled()?;
                if self.last_rounds > 0 && missing.is_empty() {
                    return Ok(self.report(first));
                }
                self.send_last_requests(&missing);
                drained = None;
            }
        }
        // No event is left, so no node lives: a live node sends beacons.
        self.liveness.check(Nanos::MAX, self.undecided())?;
        Ok(self.report(self.net.now().max(self.checks.quiet_from)))
    }

    /// Run with undetected damage until the faults end. Only the promises on frames and memory are checked. Returns how
    /// many frames the live nodes dropped, by reason.
    pub fn run_damaged(&mut self) -> Result<Vec<(&'static str, u64)>, Violation> {
        while self.net.now() < self.checks.quiet_from + 20 * MS
            && let Some(step) = self.net.step_once()
        {
            match self.on_step(step).map(|_| ()) {
                Err(violation) if ["frames", "memory"].contains(&violation.checker) => return Err(violation),
                Err(_) => {
                    let soon = self.net.now() + MS;
                    (0..self.places.len()).for_each(|at| self.turns.schedule(&mut self.net, at, soon));
                }
                Ok(()) => (),
            }
        }
        let counters = self.nodes().map(|node| node.engine.core().counters());
        let dropped = |counters: &am_proto::Counters| counters.dropped;
        let each = counters.map(dropped).flat_map(|dropped| Reason::ALL.iter().zip(dropped));
        Ok(each.map(|(reason, count)| (reason.name(), count)).collect())
    }

    /// How long the network has to stay resolved. The first time is long enough to give up dead peers; later ones wait
    /// only for lost notices.
    fn quiet_time(&self) -> Nanos {
        let heard = self.work.max_timeout.max(self.work.beacon) + 20 * MS;
        if self.last_rounds == 0 { 2 * self.work.patience + 200 * MS } else { heard }
    }

    /// Every flow sends one more request, and is answered. In later rounds only the flows that miss credit do: a full
    /// buffer may have dropped the notice of it again.
    fn send_last_requests(&mut self, missing: &BTreeSet<u64>) {
        let all = self.last_rounds == 0;
        self.last_rounds += 1;
        self.checks.is_last_round = true;
        let now = self.net.now();
        self.liveness.from = now;
        for at in 0..self.places.len() {
            if let Some(node) = &mut self.places[at].node {
                node.app.queue_last_requests(|serial| all || missing.contains(&serial));
                self.turns.schedule(&mut self.net, at, now);
            }
        }
    }

    /// The flows that miss credit or their initiator. After the last round there must be none. Checks that all frames are
    /// free.
    fn unsettled(&mut self) -> Result<BTreeSet<u64>, Violation> {
        const MAX_LAST_ROUNDS: u8 = 12;
        for (at, place) in self.places.iter().enumerate() {
            let Some(node) = &place.node else { continue };
            // A probe or a beacon may wait for room in the TX ring. Messages of a dead node may wait behind its lost ones, and then for the
            // next turn.
            let (core, mut held) = (node.engine.core(), vec![]);
            core.frames(&mut |frame| held.push(frame.index()));
            let may_hold = held.len() <= 1 || core.has_held() || core.has_deliveries();
            frames::check_running(self.net.nic(at), if may_hold { &held } else { &[] })?;
        }
        let mut missing = self.orphaned_flows();
        if self.last_rounds >= MAX_LAST_ROUNDS
            && let Some(flow) = missing.first()
        {
            let what = format!("flow {flow:#x} is kept for a peer that is dead, or does not know it");
            return Err(Violation { checker: "endings", what });
        }
        let left = self.nodes().flat_map(|node| node.app.credits(&node.engine));
        let left = left.filter(|&(serial, class, _)| class == Class::Request || self.initiator_lives(serial));
        for (serial, class, left) in left {
            match self.checks.credits.check_settled(serial, class, left) {
                Err(violation) if self.last_rounds >= MAX_LAST_ROUNDS => return Err(violation),
                settled => _ = settled.is_err() && missing.insert(serial),
            }
        }
        Ok(missing)
    }

    /// Handle one event, and run its checks. Whether it concerned a node.
    fn on_step(&mut self, (at, happening): (usize, Option<NodeEvent>)) -> Result<bool, Violation> {
        self.turns.check(&mut self.net, at, happening)?;
        let Some(happening) = happening else { return Ok(false) };
        let checked = self.handle(happening);
        self.turns.record(&mut self.net, at);
        checked.map(|()| true)
    }

    fn handle(&mut self, happening: NodeEvent) -> Checked {
        let now = self.net.now();
        match happening {
            NodeEvent::Alarm(at) if self.turns.begin(&self.net, at) => self.turn(at),
            NodeEvent::Alarm(at) => {
                self.beat(at);
                Ok(())
            }
            NodeEvent::Wake(at) => {
                self.turns.schedule(&mut self.net, at, now);
                Ok(())
            }
            NodeEvent::Stall(at, until) => {
                self.checks.count_event("stalled");
                self.stall(at, until);
                Ok(())
            }
            NodeEvent::Death(at) => {
                self.checks.count_event("died");
                self.death(at)
            }
            NodeEvent::Restart(at) => {
                self.checks.count_event("restarted");
                self.start(at);
                Ok(())
            }
        }
    }

    fn turn(&mut self, at: usize) -> Checked {
        let was_late = std::mem::take(&mut self.places[at].was_late);
        let Some(node) = self.places[at].node.as_mut() else { return Ok(()) };
        if was_late {
            node.engine.core_mut().on_late();
        }
        let due = node.turn(&mut self.net, &mut self.checks)?;
        let ended = std::mem::take(&mut node.app.ended);
        ended.iter().try_for_each(|ended| self.ended(ended))?;
        self.update_grants(at)?;
        self.check_kept(at)?;
        self.turns.schedule(&mut self.net, at, due);
        let Some(node) = &self.places[at].node else { return Ok(()) };
        self.checks.check_credits(&node.engine, &node.app)
    }

    /// Tell the checker the credits that the node grants its peers.
    fn update_grants(&mut self, at: usize) -> Checked {
        let World { places, checks, .. } = self;
        let Some(node) = &places[at].node else { return Ok(()) };
        let mut grants = node.app.grants(&node.engine);
        grants.try_for_each(|(serial, class, credits)| checks.credits.change_grant(serial, class, credits))
    }

    /// Compare the messages that count as acknowledged with those that the peers have accepted.
    fn check_kept(&self, at: usize) -> Checked {
        let Some(node) = &self.places[at].node else { return Ok(()) };
        let here = &self.places[at];
        let valid = |there: u16, serial: u64, since: Nanos| {
            let (place, asked) = (&self.places[there as usize], MessageId::from_word(serial).from);
            let waits = place.node.as_ref().is_none_or(|node| node.engine.core().has_deliveries());
            // Both nodes are in the run in which they set up the flow.
            !waits
                && !self.checks.endings.closed.contains(&serial)
                && place.since <= since
                && (asked.node != there || asked.run == place.run)
                && here.since <= since
        };
        let flows = node.app.open_flows(&node.engine);
        let mut flows = flows.filter(|&(serial, _, _, to, since)| valid(to, serial, since));
        flows.try_for_each(|(flow, class, id, to, _)| {
            let Some(held) = self.held(to, flow, class) else { return Ok(()) };
            let (sent, delivered) = self.checks.counts(flow, class);
            let delivered = delivered + held;
            check_kept(flow, sent, delivered, node.engine.core().outstanding(id, class))
        })
    }

    /// How many messages of a flow wait at that node behind a gap. `None` if the node does not know the flow's number yet.
    fn held(&self, at: u16, serial: u64, class: Class) -> Option<usize> {
        let node = self.places[at as usize].node.as_ref()?;
        let core = node.engine.core();
        match node.app.half(serial, class == Class::Reply) {
            Some(half) => Some(core.held_messages(half, class)),
            None => (!core.has_held()).then_some(0),
        }
    }

    fn stall(&mut self, at: usize, until: Nanos) {
        self.turns.stall(&mut self.net, at, until);
        let beats = if self.work.heartbeats { (until - self.net.now()) / HEARTBEATS } else { 0 };
        (2..beats).for_each(|beat| self.net.alarm(self.net.now() + beat * HEARTBEATS, at));
    }

    /// A heartbeat of a node that does not run.
    fn beat(&mut self, at: usize) {
        if self.work.heartbeats && self.turns.is_busy(&self.net, at) {
            let place = &mut self.places[at];
            place.was_late = true;
            place.node.iter().for_each(|node| node.beat(&mut self.net));
        }
    }

    fn death(&mut self, at: usize) -> Checked {
        let Some(node) = self.places[at].node.take() else { return Ok(()) };
        coverage::node(&mut self.counted, &node);
        self.turns.cancel(at);
        self.checks.deliveries.excuse(NodeRun { node: at as u16, run: self.places[at].run });
        node.end(self.net.options().frames)
    }

    /// How often each event has happened so far: in the network, the protocol, the application.
    pub fn seen(&mut self) -> Seen {
        let mut seen = self.counted.clone();
        self.nodes().for_each(|node| coverage::node(&mut seen, node));
        coverage::net(&mut seen, &mut self.net);
        coverage::add(&mut seen, &self.checks.seen);
        seen
    }

    fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.places.iter().filter_map(|place| place.node.as_ref())
    }

    fn undecided(&self) -> usize {
        self.checks.deliveries.unresolved() + self.nodes().map(|node| node.app.undecided(&node.engine)).sum::<usize>()
    }

    fn explain(&self, mut violation: Violation) -> Violation {
        if let Some(id) = self.checks.deliveries.first_unresolved() {
            violation.what += &format!("; the first message is {id:?}");
        }
        violation
    }

    /// Accepted flows whose initiator is dead or has closed them.
    fn orphaned_flows(&self) -> BTreeSet<u64> {
        let open = self.nodes().flat_map(|node| node.app.open_flows(&node.engine));
        let accepted = open.filter(|(_, class, ..)| *class == Class::Reply).map(|(serial, ..)| serial);
        accepted.filter(|&serial| !self.initiator_lives(serial)).collect()
    }

    /// Whether the initiator of a flow still has it. The other side only replies, and may not have noticed the end.
    fn initiator_lives(&self, serial: u64) -> bool {
        let node = self.places[MessageId::from_word(serial).from.node as usize].node.as_ref();
        node.is_some_and(|node| node.app.half(serial, true).is_some())
    }

    fn ended(&self, ended: &EndedFlow) -> Checked {
        let place = &self.places[ended.to as usize];
        let id = place.node.as_ref().and_then(|node| Some((node, node.app.half(ended.serial, !ended.ours)?)));
        let open = id.is_some_and(|(node, id)| matches!(node.engine.core().state(id), FlowState::Open { .. }));
        let how = match ended.reason {
            ReturnReason::Unreachable => EndReason::GivenUp,
            ReturnReason::Closed => EndReason::Closed,
            ReturnReason::Restarted => EndReason::Restarted,
            ReturnReason::Tag => unreachable!("tags do not change here"),
            ReturnReason::NoHandler => unreachable!("it ends no flow"),
            ReturnReason::Forked => unreachable!("no process is forked"),
            ReturnReason::NotPolling => unreachable!("the patience has no end"),
            ReturnReason::NameTaken => unreachable!("each name has one node"),
        };
        if self.work.heartbeats && how == EndReason::GivenUp {
            let what = format!("flow {:#x} was given up: its peer is alive", ended.serial);
            return Err(Violation { checker: "busy", what });
        }
        // A later run may have answered a question to an earlier one.
        let restarted = place.run > 1;
        self.checks.endings.check_end(self.net.now(), ended.serial, how, PeerState { open, restarted })
    }

    fn report(&self, drained: Nanos) -> Report {
        let (delivered, returned) = self.checks.deliveries.counts();
        let drained_in = drained - self.checks.quiet_from;
        Report { delivered, returned, events: self.net.events(), drained_in, digest: self.checks.digest }
    }
}
