//! Keepalive: whether a quiet peer is still there. A Close may be lost, and so may a restarted peer's beacon, and a
//! killed peer sends nothing. A node without messages of its own in flight would never notice, and would keep the
//! peer's credits for ever. So it asks a peer that was quiet for long about one flow, and now and then about each quiet
//! flow. A peer that does not know the flow says so. Otherwise it acknowledges what arrived. A peer that answers
//! nothing for [`Config::keepalive`](crate::Config::keepalive) is unreachable, and all its flows end. The transport may
//! also report that a peer has gone: then nothing is asked.

use std::collections::BTreeMap;

use am_wire::control::{Accept, Control, Still};
use am_wire::{Address, Buffer, Flow};

use crate::FlowId;
use crate::control_queue::Later;
use crate::flow::{FlowRecord, Phase};
use crate::node::{Core, Sending, Times};
use crate::output::ReturnReason;
use crate::planted::{self, Bug};
use crate::quiet::{Quiet, Run};
use crate::time::Time;
use crate::timers::Wait;

/// The most flows to ask about in one round. A node with more quiet ones needs several rounds.
const FLOWS_AT_ONCE: usize = 512;

/// This node may have been descheduled, so a peer is unreachable only after this many rounds without an answer.
const ROUNDS: u32 = 3;

impl<B: Buffer> Core<B> {
    /// Ask each peer that was quiet since the last round. End the flows of those that have not answered for too long.
    pub(crate) fn look_after_quiet(&mut self, now: Time) {
        let round = self.config.quiet_round();
        let mut quiet = self.last_heard();
        quiet.retain(|_, peer| now - peer.heard >= round);
        for (run, peer) in &mut quiet {
            let before = self.time.vigil.quiet.get(run).filter(|before| before.heard == peer.heard);
            peer.asked = before.map_or(0, |before| before.asked);
            let is_over = peer.asked >= ROUNDS && now - peer.heard >= self.config.keepalive;
            if is_over && !planted::is(Bug::DeadStay) {
                self.give_up(now, *run);
                continue;
            }
            // Frames are lost now and then: a longer silence gets more questions.
            (0..1 << peer.asked.min(3)).for_each(|_| self.sending.later.push_back(Later::Question(peer.flow)));
            peer.asked += 1;
        }
        self.time.vigil.quiet = quiet;
        self.ask_about_flows(now);
    }

    pub(crate) fn quiet_timeout(&mut self, now: Time, at: Time) {
        if self.time.vigil.armed.fired(at) {
            self.look_after_quiet(now);
            // Nodes that started together must not ask together. A round is shorter by up to a quarter. So a peer is
            // asked often enough within the keepalive time, and is given up at most a quarter of it later.
            let round = self.config.quiet_round().as_nanos() as u64;
            let next = now.later(round - self.random.next() % (round / 4 + 1));
            self.time.timers.arm(&mut self.time.vigil.armed, Wait::Quiet, 0, next);
        }
    }

    /// For each peer with open flows: when its last frame arrived.
    fn last_heard(&self) -> BTreeMap<Run, Quiet> {
        let mut peers: BTreeMap<Run, Quiet> = BTreeMap::new();
        for record in self.flows.iter().filter(|record| record.phase == Phase::Open) {
            let (Some(run), heard) = (record.remote.node, record.heard()) else { continue };
            let peer = peers.entry(run).or_insert(Quiet { heard, flow: record.id.flow, asked: 0 });
            peer.heard = peer.heard.max(heard);
        }
        peers
    }

    /// End the flows of this run that were silent for the whole keepalive time. A frame on another flow shows that the
    /// peer lives, so that flow stays.
    fn give_up(&mut self, now: Time, run: Run) {
        let keepalive = self.config.keepalive;
        let its = |record: &FlowRecord| {
            record.phase == Phase::Open && record.remote.node == Some(run) && now - record.heard() >= keepalive
        };
        for id in self.flows.those(its) {
            self.end(id, ReturnReason::Unreachable, None);
        }
    }

    /// From below: the peer at this address has ended for good. Its unacknowledged messages come back. The next run of
    /// its name is discovered anew.
    #[cold]
    pub fn on_peer_gone(&mut self, address: Address) {
        for id in self.flows.those(|record| record.route.to == address) {
            match self.flows.get(id).map(|record| record.phase) {
                Some(Phase::Open) => self.end_untold(id, ReturnReason::Unreachable, None),
                Some(Phase::Leaving) => self.left(id, None),
                _ => (),
            }
        }
        if let Some(node) = self.discovery.peers.learned_at(address) {
            self.discovery.peers.remove(node);
            self.discovery.claims.forget(node);
        }
    }

    fn ask_about_flows(&mut self, now: Time) {
        let Core { flows, config, sending: Sending { later, .. }, time: Times { vigil, .. }, .. } = self;
        let round = config.quiet_round();
        let asked = |record: &FlowRecord| Some(vigil.quiet.get(&record.remote.node?)?.flow);
        let is_quiet = |record: &&FlowRecord| {
            record.phase == Phase::Open && !record.is_heard(now, round) && asked(record) != Some(record.id.flow)
        };
        let mut quiet = flows.around().filter(is_quiet);
        quiet.by_ref().take(FLOWS_AT_ONCE).for_each(|record| later.push_back(Later::Question(record.id.flow)));
        let next = quiet.next().map(|record| record.id.flow);
        drop(quiet);
        flows.turn_to(next);
    }

    pub(crate) fn next_question(&mut self, flow: Flow) -> Option<(Address, Control)> {
        let record = self.flows.by_flow(flow).filter(|record| record.phase == Phase::Open)?;
        Some((record.route.to, record.question()))
    }

    /// A peer asks whether its flow is open here. The answer is an acknowledgement, or that the flow is closed.
    #[cold]
    pub(crate) fn on_still(&mut self, source: Address, still: &Still) {
        let is_it = |record: &&mut FlowRecord| {
            let route = &record.route;
            record.id.nonce == still.nonce
                && record.phase == Phase::Open
                && (route.to, route.flow, route.nonce) == (source, still.own, still.own_nonce)
        };
        match self.flows.by_flow(still.flow).filter(is_it) {
            Some(record) => {
                record.touch(&mut self.deferred.touched);
                record.ack_forced = true;
                record.queue_ack(&mut self.sending.acks_due);
            }
            None => {
                let id = FlowId { flow: still.flow, nonce: still.nonce };
                self.say_closed(source, id, (still.own, still.own_nonce));
            }
        }
    }
}

impl FlowRecord {
    /// What to ask about a flow. A flow that was accepted and never used is accepted once more: its peer may still wait
    /// for the answer. If not, the peer acknowledges.
    pub(crate) fn question(&self) -> Control {
        let (route, id) = (self.route, self.id);
        if !self.setup.ours && !self.silence.has_begun() {
            return Control::Accept(Accept { id: self.setup.id, offer: self.offer(route.max_frame()) });
        }
        Control::Still(Still { flow: route.flow, nonce: route.nonce, own: id.flow, own_nonce: id.nonce })
    }
}
