//! Set-up of flows: find the peer, probe the path, ask, get an answer (AM-II's `AM_Map`; Directed Point's
//! `dp_connect`).

use core::time::Duration;

use am_wire::control::{
    Accept, Closed, Connect, ConnectFlags, Control, FinalAck, FinalAcks, FlowParameters, Name, Refusal, Refuse,
};
use am_wire::{Address, Buffer, Class, Flow, Seq};

use crate::fair_share::FairShare;
use crate::flow::{FlowPeer, FlowRecord, Phase, Setup};
use crate::node::{Core, Receiving};
use crate::output::{Command, Event, ReturnReason};
use crate::peers::Path;
use crate::time::{Time, TimerKind};
use crate::{EndpointId, FlowId};

/// The first wait for an answer. It doubles each time.
const FIRST_WAIT: Duration = Duration::from_millis(4);
const MAX_WAIT: Duration = Duration::from_millis(64);
/// While this node asks many peers, each of these may be asked by as many, and answer late. So the longest wait grows with the number of
/// set-ups and peers. It stays a small part of the patience, because questions may be lost.
const WAIT_PER_SETUP: Duration = Duration::from_millis(8);
const MAX_CROWDED_WAIT: Duration = Duration::from_secs(1);
const WAITS_OF_PATIENCE: u32 = 16;
/// The longest wait of a search for an unknown peer. Each question is a broadcast that every node answers, and many nodes may search at
/// once. A peer that comes later announces itself.
const MAX_SEARCH_WAIT: Duration = Duration::from_secs(1);

/// After more tries than this (60 ms) the transport learns that the path may be broken. A peer on a busy machine needs
/// less to answer.
const SUSPECT_TRIES: u8 = 4;
/// After more tries than this, the peer may be at another address. A peer that is there needs less time to probe its
/// path to this node.
const MOVED_TRIES: u8 = 4;

/// After this many tries, 250 ms, a member of a group is given up for another.
const MEMBER_TRIES: u8 = 7;

/// Why this node could not ask for a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// All 16,383 flow ids are in use.
    #[error("all 16383 flow ids of this node are in use: close flows that are no longer needed")]
    NoFlow,
    /// The endpoint was closed.
    #[error("the endpoint was closed: create it again")]
    NoEndpoint,
    /// The name is this node's own.
    #[error("`{0}` is this node's own name: name another node")]
    OwnName(Name),
    /// This process was forked.
    #[error("{}", crate::FORKED)]
    Forked,
}

impl Setup {
    fn new(id: u32, is_ours: bool, is_ordered: bool, tag: u64, deadline: Time) -> Setup {
        Setup { id, is_ours, is_ordered, tag, deadline, tries: 0, total_tries: 0 }
    }

    fn renew_patience(&mut self, deadline: Time) {
        (self.deadline, self.total_tries) = (deadline, 0);
    }

    /// The peer probes its path to this node, and answers when it knows the path. Ask soon again.
    pub(crate) fn on_probed(&mut self, longest: Duration) {
        self.tries = self.tries.min(if longest > 2 * MAX_WAIT { 5 } else { 1 });
    }

    /// Count a question. Returns when to ask again, or to give up.
    pub(crate) fn next_try(&mut self, now: Time, is_search: bool, longest: Duration) -> Time {
        let longest = if is_search && now < self.deadline { MAX_SEARCH_WAIT } else { longest.max(MAX_WAIT) };
        let wait = (FIRST_WAIT * (1 << self.tries.min(8))).min(longest);
        self.tries = self.tries.saturating_add(1);
        self.total_tries = self.total_tries.saturating_add(1);
        if now < self.deadline { (now + wait).min(self.deadline) } else { now + wait }
    }
}

impl<B: Buffer> Core<B> {
    /// From above: ask for a flow from a local endpoint to the named endpoint of the named node, which must have the
    /// tag. The flow is `Connecting` until [`Event::SetupFinished`], which comes after the configured patience at the latest,
    /// unless this node is descheduled. A flow that need not keep the order is faster where frames are lost: a lost
    /// message delays no later one.
    ///
    /// # Errors
    /// No flow id is left, the endpoint is closed, or the name is this node's own.
    pub fn connect(
        &mut self,
        now: Time,
        from: EndpointId,
        (node, endpoint, tag): (Name, Name, u64),
        is_ordered: bool,
    ) -> Result<FlowId, ConnectError> {
        if self.flows.is_forked {
            return Err(ConnectError::Forked);
        }
        self.endpoints.get(from).ok_or(ConnectError::NoEndpoint)?;
        if node == self.config.name {
            return Err(ConnectError::OwnName(node));
        }
        let flow = self.flows.reserve().ok_or(ConnectError::NoFlow)?;
        let (id, until) = (self.flows.new_attempt(|| self.random.next() as u32), now + self.config.patience);
        let setup = Setup::new(id, true, is_ordered, tag, until);
        let remote = FlowPeer { node_name: node, endpoint, node: None };
        let id = self.insert_flow(flow, from, remote, setup);
        self.flows.begin_setup(flow);
        self.advance_setup(now, flow);
        Ok(id)
    }

    fn insert_flow(&mut self, flow: Flow, endpoint: EndpointId, remote: FlowPeer, setup: Setup) -> FlowId {
        let id = FlowId { flow, nonce: self.random.next() as u16 };
        let first = [0, 1].map(|_| Seq(self.config.first_seq.unwrap_or(self.random.next() as u32)));
        self.endpoints.get(endpoint).into_iter().for_each(|found| found.had_flows = true);
        let Receiving { fair_shares, budget, senders, .. } = &mut self.receiving;
        let sender = senders.add_flow(self.discovery.peers.hash(remote.node_name));
        if senders.has_one_flow(sender) {
            fair_shares.0.iter_mut().for_each(|share| share.add_peer(sender));
        }
        budget.peers = senders.count();
        let grant = |share: &FairShare| budget.grant(self.config.window, share.per_present_sender());
        let credits = fair_shares.0.each_ref().map(grant);
        let record = FlowRecord::new(id, endpoint, remote, setup, first, (sender, credits));
        self.flows.insert(record);
        self.outputs.commands.push_back(Command::Steer(flow, true));
        id
    }

    /// Something was learned about this peer. Flows in set-up may be waiting for it.
    pub(crate) fn advance_setups(&mut self, now: Time, peer: Name) {
        for flow in self.flows.in_setup_with(peer) {
            if let Some(record) = self.flows.by_flow(flow) {
                record.setup.tries = 0;
            }
            self.advance_setup(now, flow);
        }
    }

    /// Ask for the next thing that a flow needs, now and again later.
    pub(crate) fn advance_setup(&mut self, now: Time, flow: Flow) {
        let Some(record) = self.flows.by_flow(flow).filter(|record| record.is_connecting()) else { return };
        let id = record.id;
        if record.setup.is_expired(now) && !self.extend_setup(now, id) {
            return self.end_flow(id, ReturnReason::Unreachable, None);
        }
        let Some(record) = self.flows.by_flow(flow) else { return };
        if record.setup.tries >= MEMBER_TRIES {
            self.leave_silent_member(now, id);
        }
        let longest = self.longest_wait();
        let Some(record) = self.flows.by_flow(flow) else { return };
        let known = self.discovery.peers.by_name(record.peer.node_name);
        let next = record.setup.next_try(now, known.is_none(), longest);
        self.time.timers.arm(&mut record.resend_timer, TimerKind::Setup, flow.id(), next);
        let unanswered = record.setup.tries.saturating_sub(MOVED_TRIES);
        match known {
            None => {
                if record.setup.tries > SUSPECT_TRIES {
                    self.outputs.commands.push_back(Command::AskAlive(Address::BROADCAST));
                }
                self.introduce();
                self.search(now);
            }
            Some(peer) => match self.discovery.peers.address_without_beacon(peer) {
                Some(address) => self.send_beacon(address, true),
                None => {
                    self.ask_for_flow(now, flow, peer);
                    if unanswered > 0 {
                        self.on_unanswered_setup(now, flow, peer, unanswered);
                    }
                }
            },
        }
    }

    /// The longest wait for an answer.
    pub(crate) fn longest_wait(&self) -> Duration {
        let peers = self.flows.in_setup().min(self.discovery.peers.count());
        let most = (self.config.patience / WAITS_OF_PATIENCE).clamp(MAX_WAIT, MAX_CROWDED_WAIT);
        (WAIT_PER_SETUP * peers as u32).clamp(MAX_WAIT, most)
    }

    /// A set-up is not given up while the peer is alive and does not poll. Nor is it while a process is alive whose beacon has not come,
    /// because that process may be the peer. Returns whether the set-up continues.
    #[cold]
    fn extend_setup(&mut self, now: Time, id: FlowId) -> bool {
        let Some(record) = self.flows.get(id) else { return false };
        let peer = self.discovery.peers.by_name(record.peer.node_name);
        let address = peer.map_or(Address::BROADCAST, |at| self.discovery.peers.records[at].peer.address);
        let is_extended = self.discovery.not_polling.waits_for(address, now, self.config.poll_patience);
        if let Some(record) = self.flows.get_mut(id).filter(|_| is_extended) {
            record.setup.renew_patience(now + self.config.patience);
        }
        is_extended
    }

    /// Set-ups with this peer are given up after the whole patience from now.
    pub(crate) fn renew_patience(&mut self, now: Time, peer: Name) {
        for flow in self.flows.in_setup_with(peer) {
            self.flows
                .by_flow(flow)
                .into_iter()
                .for_each(|record| record.setup.renew_patience(now + self.config.patience));
        }
    }

    /// The peer does not answer. It may have restarted elsewhere without a beacon arriving here. Or another node with
    /// this name is meant. All nodes are asked, more and more seldom: the network may be full already.
    #[cold]
    fn on_unanswered_setup(&mut self, now: Time, flow: Flow, peer: usize, times: u8) {
        let name = self.discovery.peers.records[peer].peer.name;
        if times.is_power_of_two() && self.discovery.search.is_old(now, self.discovery.peers.count()) {
            self.search(now);
        }
        self.discovery.peers.records[peer].is_unresponsive = true;
        if self.discovery.peers.by_name(name) != Some(peer) {
            self.flows.by_flow(flow).into_iter().for_each(|record| record.setup.tries = 0);
        }
    }

    fn ask_for_flow(&mut self, now: Time, flow: Flow, peer: usize) {
        let known = self.path_to(now, peer);
        let (peer, Some(record)) = (&self.discovery.peers.records[peer], self.flows.by_flow(flow)) else { return };
        let Some(endpoint) = self.endpoints.get(record.endpoint) else { return };
        // While the path is probed, the probes report this.
        let is_probed = matches!(peer.path, Path::Probing(_));
        if record.setup.tries > SUSPECT_TRIES {
            let address = peer.peer.address;
            self.outputs.commands.push_back(Command::AskAlive(address));
            self.outputs.commands.extend((!is_probed).then_some(Command::ReportLoss(address)));
        }
        let Some(known) = known else { return };
        record.peer.node = Some((peer.peer.node, peer.peer.incarnation));
        record.route_to(peer.peer.address);
        let question = Connect {
            id: record.setup.id,
            node: self.config.node,
            incarnation: self.config.incarnation,
            from: endpoint.name,
            to: record.peer.endpoint,
            tag: record.setup.tag,
            flags: ConnectFlags { is_ordered: record.setup.is_ordered, no_redirect: record.asked().no_redirect() },
            offer: record.offer(known.max_frame, self.config.max_message),
        };
        self.sending.control.push(peer.peer.address, Control::Connect(question));
    }

    /// A peer asks for a flow. If the peer or the path to it is unknown, find that out first: the peer will ask again.
    pub(crate) fn on_connect(&mut self, now: Time, source: Address, question: &Connect) {
        let Some(at) = self.discovery.peers.by_node(question.node) else { return self.send_beacon(source, true) };
        let known = self.discovery.peers.records[at].peer.incarnation;
        if question.incarnation != known {
            self.counters.stale_control += u64::from(question.incarnation < known);
            if self.is_displaced(now, source, question.incarnation, known) {
                let refuse = Refuse { id: question.id, why: Refusal::Name };
                return self.sending.control.push(source, Control::Refuse(refuse));
            }
            return self.send_beacon(source, true);
        }
        if let Some(id) = self.flows.find_attempt(Some((question.node, question.incarnation)), question.id) {
            return self.send_accept(id, question.id);
        }
        if self.path_to(now, at).is_none() {
            return;
        }
        let peer = self.discovery.peers.records[at].peer.name;
        let other = if question.flags.no_redirect { None } else { self.other_member(question, peer) };
        let admitted = other.map_or_else(|| self.admit(now, at, question), Err);
        match admitted {
            Ok(id) => self.send_accept(id, question.id),
            Err(why) => self.sending.control.push(source, Control::Refuse(Refuse { id: question.id, why })),
        }
    }

    /// Create the flow that a peer asked for.
    fn admit(&mut self, now: Time, at: usize, question: &Connect) -> Result<FlowId, Refusal> {
        let (endpoint, found) = self.endpoints.by_name(question.to).ok_or(Refusal::NoEndpoint)?;
        if found.tag != question.tag {
            return Err(Refusal::Tag);
        }
        let path = self.path_to(now, at).ok_or(Refusal::Full)?;
        let peer = self.discovery.peers.records[at].peer;
        let flow = self.flows.reserve().ok_or(Refusal::Full)?;
        let remote = FlowPeer {
            node_name: peer.name,
            endpoint: question.from,
            node: Some((question.node, question.incarnation)),
        };
        let setup = Setup::new(question.id, false, question.flags.is_ordered, question.tag, now);
        let id = self.insert_flow(flow, endpoint, remote, setup);
        if let Some(record) = self.flows.get_mut(id) {
            if self.receiving.senders.has_one_flow(record.sender) {
                self.receiving.fair_shares[Class::Request].add_sender(now);
            }
            record.open(now, &question.offer, peer.address, &path);
        }
        self.discovery.peers.records[at].flows += 1;
        self.set_reject_template(id);
        self.outputs.events.push_back(Event::Accepted(endpoint, id, (peer.name, question.from)));
        Ok(id)
    }

    fn send_accept(&mut self, id: FlowId, attempt: u32) {
        if let Some(record) = self.flows.get(id) {
            let offer = record.offer(record.route.max_frame(), self.config.max_message);
            self.sending.control.push(record.route.to, Control::Accept(Accept { id: attempt, offer }));
        }
    }

    /// The flow of this attempt, if it still waits for an answer from `source`.
    fn awaiting_answer(&mut self, source: Address, attempt: u32) -> Option<FlowId> {
        let id = self.flows.find_attempt(None, attempt)?;
        let record = self.flows.get(id)?;
        (record.is_connecting() && record.route.to == source).then_some(id)
    }

    pub(crate) fn on_accept(&mut self, source: Address, answer: &Accept) {
        let Some(id) = self.awaiting_answer(source, answer.id) else {
            return self.on_unexpected_accept(source, answer);
        };
        let Some(peer) = self.mark_answered(id) else { return };
        let Some(path) = self.path_to(self.now, peer) else { return };
        if let Some(record) = self.flows.get_mut(id) {
            record.open(self.now, &answer.offer, source, &path);
            self.outputs.events.push_back(Event::SetupFinished(record.endpoint, id));
        }
        self.discovery.peers.records[peer].flows += 1;
        self.set_reject_template(id);
    }

    fn mark_answered(&mut self, id: FlowId) -> Option<usize> {
        let (node, _) = self.flows.get(id)?.peer.node?;
        let peer = self.discovery.peers.by_node(node)?;
        self.discovery.peers.records[peer].is_unresponsive = false;
        Some(peer)
    }

    /// No flow here waits for this answer any more. The peer is notified, so that it does not keep a flow and credits
    /// for ever. If the answer is a copy of the one that opened a flow, an acknowledgement shows the peer that the flow is
    /// open.
    #[cold]
    fn on_unexpected_accept(&mut self, source: Address, answer: &Accept) {
        let FlowParameters { flow, nonce, first, .. } = answer.offer;
        let mut is_other = false;
        if let Some(record) = self.flows.find_attempt(None, answer.id).and_then(|id| self.flows.get_mut(id)) {
            is_other = (record.route.to, record.route.flow, record.route.nonce) != (source, flow, nonce);
            if record.phase == Phase::Open && !is_other {
                record.ack_forced = true;
                return record.queue_ack(&mut self.sending.acks_due);
            }
        }
        self.counters.stale_control += 1;
        let notice = self
            .flows
            .by_attempt(answer.id)
            .find_map(|ours| self.discovery.unknown_flows.notice_to_peer(ours, source, (flow, nonce)));
        // The peer took one question, received twice, for two flows; or its answer came too late.
        let is_unused = is_other || self.discovery.unknown_flows.unanswered.contains(&answer.id);
        let classes = first.map(|before| FinalAck { before, sack: 0 });
        let none = FinalAcks { classes, ..FinalAcks::default() };
        let closed = notice.unwrap_or(Closed { flow, nonce, own: None, acks: is_unused.then_some(none) });
        self.sending.control.push(source, Control::Closed(closed));
    }

    pub(crate) fn on_refuse(&mut self, source: Address, answer: &Refuse) {
        if answer.why == Refusal::Name && answer.id == self.config.incarnation.0 as u32 {
            self.discovery.name_lost = Some((source, self.now));
            return;
        }
        let Some(id) = self.awaiting_answer(source, answer.id) else {
            self.counters.stale_control += 1;
            return;
        };
        self.mark_answered(id);
        if answer.why == Refusal::Name {
            self.discovery.name_lost = Some((source, self.now));
        }
        if let Refusal::Member(member) = answer.why {
            // A late answer to the question before the first member was asked to take this node itself.
            if self.flows.get(id).is_some_and(|record| record.asked().no_redirect()) {
                return;
            }
            if self.follow_to_member(self.now, id, member) {
                return self.advance_setup(self.now, id.flow);
            }
        }
        if let Some(record) = self.flows.get_mut(id) {
            record.phase = Phase::Refused(answer.why);
            self.outputs.events.push_back(Event::SetupFinished(record.endpoint, id));
        }
    }
}
