//! Probes of peers, answers to this node's probes, and what follows from the path that they show.

use am_wire::control::{Control, Probe, ProbeSeen, Step};
use am_wire::{Address, Buffer};

use crate::node::Core;
use crate::output::Peer;
use crate::peers::Path;
use crate::probe::SILENT_ROUNDS;
use crate::time::Time;

impl<B: Buffer> Core<B> {
    /// A peer's probe arrived: answer it. If the sender is unknown, its beacon was missed. So ask it, at a limited rate,
    /// because the probe may be forged. Every round has a probe from the sender's true address.
    pub(crate) fn on_probe(&mut self, source: Address, probe: &Probe) {
        if self.discovery.has_left {
            return;
        }
        let Some(at) = self.discovery.peers.by_node(probe.node) else {
            if probe.step == Step::True && self.time.beacon_answers.try_take(self.now) {
                self.send_beacon(source, true);
            }
            return;
        };
        let Peer { name, address: to, .. } = self.discovery.peers.records[at].peer;
        self.sending.control.push(to, Control::ProbeSeen(ProbeSeen { id: probe.id, step: probe.step }));
        // The peer is there. It answers set-ups when it knows its path to this node.
        let longest = self.longest_wait();
        for flow in self.flows.in_setup_with(name) {
            self.flows.by_flow(flow).into_iter().for_each(|record| record.setup.on_probed(longest));
        }
    }

    /// An answer to a probe of this node. Hosts that overheard the probe answer too, but only the peer's own answer
    /// counts.
    pub(crate) fn on_probe_seen(&mut self, now: Time, source: Address, seen: &ProbeSeen) {
        if let Some(claimed) = self.discovery.address_conflicts.note_answer(source, seen.id) {
            return self.discovery.peers.by_node(claimed.node).into_iter().for_each(|at| self.judge(now, at, &claimed));
        }
        if self.on_member_answer(now, source, seen) {
            return;
        }
        let Some(at) = self.discovery.peers.by_probe(seen.id) else { return };
        let record = &mut self.discovery.peers.records[at];
        if record.peer.address != source {
            // This probe went to a forged address, so any host on the segment may have received it.
            self.discovery.was_probe_overheard |= seen.step == Step::Learned;
            return;
        }
        record.is_unresponsive = false;
        let Path::Probing(probing) = &mut record.path else { return };
        if seen.step == probing.question {
            let is_known = self.conclude(now, at, true);
            self.advance_setups_if(is_known, now, at);
        } else if seen.step == Step::True {
            let before = if probing.unanswered < SILENT_ROUNDS { probing.answered } else { 0 };
            probing.answered = before.saturating_add(1);
            probing.unanswered = 0;
        }
    }

    pub(crate) fn probe_timeout(&mut self, now: Time, at: Time, owner: u16) {
        if self.discovery.peers.records[owner as usize].probe_timer.take_if_due(at) {
            let is_known = self.probe_round(now, owner as usize);
            self.advance_setups_if(is_known, now, owner as usize);
        }
    }

    fn advance_setups_if(&mut self, is_known: bool, now: Time, at: usize) {
        if is_known {
            self.advance_setups(now, self.discovery.peers.records[at].peer.name);
        }
    }
}
