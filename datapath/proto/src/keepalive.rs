//! Keepalive: whether a quiet peer is still alive. A Close or a restarted peer's beacon may be lost, and a killed peer
//! sends nothing. A node without messages in flight would never notice, and would keep the peer's credits for ever. So it
//! asks a quiet peer about one flow in each round, and in turn about each quiet flow. A peer that does not know the flow
//! says so. Otherwise it acknowledges what arrived. A peer that answers nothing for
//! [`Config::keepalive`](crate::Config::keepalive) is unreachable, and all its flows end. If the transport reports that a
//! peer is gone, no question is needed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use std::{iter, mem};

use am_wire::control::{Control, Keepalive};
use am_wire::{Address, Buffer, Flow};

use crate::FlowId;
use crate::control_queue::DeferredControl;
use crate::flow::{FlowRecord, Phase};
use crate::mutants::{self, Mutant};
use crate::node::Core;
use crate::output::{Departure, ReturnReason};
use crate::peers::{PeerRun, QuietPeer};
use crate::time::{Time, TimerKind};

/// The most flows to ask about in one round. A node with more quiet ones needs several rounds.
const MAX_FLOWS_A_ROUND: usize = 512;

/// The most flows that become idle at once, and the pause before the next ones. This bounds the time that messages wait
/// behind this work.
const MAX_IDLE_AT_ONCE: usize = 64;
const IDLE_PAUSE: Duration = Duration::from_millis(1);

/// This node may have been descheduled, so a peer is unreachable only after this many rounds without an answer.
const MIN_UNANSWERED_ROUNDS: u32 = 3;

impl<B: Buffer> Core<B> {
    /// Ask each peer that was quiet since the last round. End the flows of those that have not answered for too long.
    pub(crate) fn keepalive_timeout(&mut self, now: Time, at: Time) {
        if !self.time.keepalive_timer.take_if_due(at) {
            return;
        }
        self.endpoints.cool_down();
        let round = self.config.keepalive_round();
        let mut quiet = self.quiet_peers(now);
        let mut before = mem::take(&mut self.time.quiet_peers).into_iter().peekable();
        let mut silent = BTreeSet::new();
        for (run, peer) in &mut quiet {
            while before.next_if(|(known, _)| known < run).is_some() {}
            let before = before.next_if(|(known, _)| known == run).map(|(_, known)| known);
            let before = before.filter(|known| known.last_received == peer.last_received);
            peer.rounds_asked = before.map_or(0, |known| known.rounds_asked);
            let is_over =
                peer.rounds_asked >= MIN_UNANSWERED_ROUNDS && now - peer.last_received >= self.config.keepalive;
            if is_over && !mutants::is_active(Mutant::DeadStay) {
                silent.insert(*run);
                continue;
            }
            // Frames can be lost, so each round sends more copies of the question.
            let questions = iter::repeat_n(DeferredControl::Keepalive(peer.flow), 1 << peer.rounds_asked.min(3));
            self.sending.deferred_control.extend(questions);
            peer.rounds_asked += 1;
        }
        self.time.quiet_peers = quiet;
        if !silent.is_empty() {
            self.end_silent_flows(now, &silent);
        }
        self.ask_about_quiet_flows(now);
        self.make_idle(now);
        // Nodes that started together must not ask together, so a round is shorter by a random part, up to a quarter. A
        // peer is then asked often enough within the keepalive time, and its end is noticed at most a quarter later.
        let round = round.as_nanos() as u64;
        let next = now.later(round - self.random.next() % (round / 4 + 1));
        self.time.timers.arm(&mut self.time.keepalive_timer, TimerKind::Keepalive, 0, next);
    }

    /// The peers from which nothing came for a round, by their runs.
    fn quiet_peers(&mut self, now: Time) -> Vec<(PeerRun, QuietPeer)> {
        let (active, since) = (self.last_received(), self.a_round_before(now));
        let mut quiet = self.flows.idle.quiet_peers(active, since);
        for (run, peer) in &mut quiet {
            peer.last_received = peer.last_received.max(self.last_sign_of(run).unwrap_or_default());
        }
        quiet.retain(|(_, peer)| peer.last_received <= since);
        quiet
    }

    fn a_round_before(&self, now: Time) -> Time {
        Time(now.0.saturating_sub(self.config.keepalive_round().as_nanos() as u64))
    }

    /// Make flows at rest idle. If there are many, a timer continues soon.
    pub(crate) fn make_idle(&mut self, now: Time) {
        // Half a round, because a peer whose own half is idle asks about the flow in each round. That is no use of it.
        let (quiet, gaps) = (self.config.keepalive_round() / 2, &mut self.receiving.gaps);
        let may_be_more = self.flows.make_idle(now, quiet, MAX_IDLE_AT_ONCE, gaps);
        self.receiving.budget.idle = self.flows.idle.credits();
        if may_be_more {
            self.time.timers.arm(&mut self.time.idle_timer, TimerKind::Idle, 0, now + IDLE_PAUSE);
        }
    }

    pub(crate) fn idle_timeout(&mut self, now: Time, at: Time) {
        if self.time.idle_timer.take_if_due(at) {
            self.make_idle(now);
        }
    }

    /// For each peer with active flows: when its last frame arrived on one of them.
    pub(crate) fn last_received(&self) -> BTreeMap<PeerRun, QuietPeer> {
        let mut peers = BTreeMap::new();
        for record in self.flows.iter_active().filter(|record| record.phase == Phase::Open) {
            let (Some(run), last_received) = (record.peer.node, record.last_received()) else { continue };
            let peer = QuietPeer { last_received, flow: record.id.flow, rounds_asked: 0 };
            let peer = peers.entry(run).or_insert(peer);
            peer.last_received = peer.last_received.max(last_received);
        }
        peers
    }

    /// End the flows of these runs that were silent for the whole keepalive time. A frame on another flow shows that the
    /// peer lives, so that flow stays.
    fn end_silent_flows(&mut self, now: Time, runs: &BTreeSet<PeerRun>) {
        let keepalive = self.config.keepalive;
        let is_silent = |record: &FlowRecord| record.phase == Phase::Open && now - record.last_received() >= keepalive;
        for id in self.flows.filter_of(|run| runs.contains(run), is_silent) {
            self.end_flow(id, ReturnReason::Unreachable, None);
        }
    }

    /// From below: the process at this address has ended. Unacknowledged messages to it return. The next run of its name
    /// is discovered anew.
    #[cold]
    pub fn on_peer_gone(&mut self, address: Address) {
        for id in self.flows.filter(|record| record.route.to == address) {
            match self.flows.get(id).map(|record| record.phase) {
                Some(Phase::Open) => self.end_flow_silently(id, ReturnReason::Unreachable, None),
                Some(Phase::Closing) => self.finish_close(id, None),
                _ => (),
            }
        }
        if let Some(node) = self.discovery.peers.by_address(address) {
            self.forget_peer(node, Departure::Silent);
        }
    }

    /// Ask about quiet flows: all active ones, and idle ones in turn. The flow that [`Core::keepalive_timeout`] already
    /// asked about is left out.
    fn ask_about_quiet_flows(&mut self, now: Time) {
        let round = self.config.keepalive_round();
        let peers = &self.time.quiet_peers;
        let was_asked = |flow: Flow, run: &PeerRun| {
            let found = peers.binary_search_by_key(run, |&(run, _)| run);
            found.is_ok_and(|at| peers[at].1.flow == flow)
        };
        let is_quiet = |record: &&FlowRecord| {
            let is_active = now - record.silence.since < round || record.in_flight();
            record.phase == Phase::Open && !is_active
        };
        let active = self.flows.iter_active().filter(is_quiet);
        let active = active.filter_map(|record| Some((record.id.flow, record.peer.node?)));
        let mut quiet = active.chain(self.flows.idle.quiet_from(self.flows.cursor, self.a_round_before(now)));
        let asked = quiet.by_ref().take(MAX_FLOWS_A_ROUND).filter(|(flow, run)| !was_asked(*flow, run));
        self.sending.deferred_control.extend(asked.map(|(flow, _)| DeferredControl::Keepalive(flow)));
        let next = quiet.next();
        drop(quiet);
        self.flows.cursor = next.map_or(self.flows.cursor, |(flow, _)| flow.id());
    }

    pub(crate) fn next_keepalive(&mut self, flow: Flow) -> Option<(Address, Control)> {
        let record = self.flows.look(flow).filter(|record| record.phase == Phase::Open)?;
        Some((record.route.to, record.keepalive_question(self.config.max_message)))
    }

    /// A peer asks whether its flow is open here. The answer is an acknowledgement or a Closed.
    #[cold]
    pub(crate) fn on_keepalive(&mut self, source: Address, question: &Keepalive) {
        let is_it = |record: &&mut FlowRecord| {
            let route = &record.route;
            record.id.nonce == question.nonce
                && record.phase == Phase::Open
                && (route.to, route.flow, route.nonce) == (source, question.own, question.own_nonce)
        };
        if let Some(is_due) = self.flows.idle.on_keepalive(source, question) {
            self.deferred.dirty.push(question.flow);
            return self.sending.acks_due.extend(is_due.then_some(question.flow));
        }
        match self.flows.by_flow(question.flow).filter(is_it) {
            Some(record) => {
                record.mark_dirty(&mut self.deferred.dirty);
                record.ack_forced = true;
                record.queue_ack(&mut self.sending.acks_due);
            }
            None => {
                let id = FlowId { flow: question.flow, nonce: question.nonce };
                self.send_closed(source, id, (question.own, question.own_nonce));
            }
        }
    }
}
