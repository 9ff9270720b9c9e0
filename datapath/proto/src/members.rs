//! Membership: which nodes are on the segment now, as events. Nothing here runs before a program watches.
//!
//! ```text
//!               beacon                 answer                  silent for the time-out,
//!   unknown ───────────▶ unverified ───────────▶ present ──────────────────────────────▶ absent
//!                             ▲            Joined  │  ▲   and no answer to any question     │ Left
//!                             │                    └──┘ beacon, answer, frame on a flow     │
//!                             └─────────────────────────────────────────────────────────────┘ beacon
//! ```
//!
//! A beacon can be forged or late, so a node counts as a member when it has echoed a nonce (a [`Probe`]). A node that
//! watches introduces itself several times within the time-out. Where all nodes watch, nobody has to ask. A member that
//! was silent for half of the time-out is asked in each round, and more often each time, because questions can be lost.
//! It is declared absent only after [`MIN_UNANSWERED_ROUNDS`] rounds: this node itself may have been descheduled. A node
//! that was, and finds others silent for the whole time-out, asks in shorter rounds.
//! A farewell may be forged as well. It makes this node ask at once.

use std::collections::BTreeMap;
use std::iter;

use am_wire::control::{Control, Leave, Probe, ProbeSeen, Step};
use am_wire::{Address, Buffer};

use crate::node::Core;
use crate::output::{Command, Departure, Event, Member, MemberChange, Peer};
use crate::peers::{PeerRun, QuietPeer};
use crate::presence::{INTRODUCTIONS, MAX_UNVERIFIED_ROUNDS, Presence, Stage};
use crate::time::{Time, TimerKind};

/// Rounds in the time-out.
const ROUNDS: u32 = 10;
/// Rounds in which a member was asked before its silence counts.
const MIN_UNANSWERED_ROUNDS: u8 = 4;
/// The same for a member that said farewell.
const MIN_FAREWELL_ROUNDS: u8 = 2;
/// The most members to ask in one round. With more silent ones it takes several.
const MAX_ASKED_A_ROUND: usize = 256;
impl<B: Buffer> Core<B> {
    /// From above: report members with [`Event::Member`] from now on, beginning with those that are there.
    pub fn watch_members(&mut self) {
        if self.discovery.watch.is_on {
            return;
        }
        let peers = &mut self.discovery.peers;
        peers.presences = Some(vec![Presence::default(); peers.records.len()]);
        (self.discovery.watch.is_on, self.discovery.watch.introductions) = (true, INTRODUCTIONS);
        self.broadcast_beacon(true);
        self.arm_beacon(self.now);
        self.arm_members(self.now);
    }

    /// Getter: the nodes that are there. While members are watched, those that have answered. Otherwise those that were
    /// heard of once, which may be gone.
    pub fn members(&self) -> impl Iterator<Item = Member> {
        let peers = &self.discovery.peers;
        let is_member = |at: &usize| match &peers.presences {
            Some(presences) => presences[*at].stage == Stage::Present,
            None => peers.records[*at].has_beaconed(),
        };
        (0..peers.records.len()).filter(is_member).map(|at| peers.member(at, self.config.max_frame))
    }

    /// From above: tell all nodes that this one leaves, with the next outputs. It answers no questions any more.
    pub fn say_farewell(&mut self) {
        self.discovery.has_left = true;
        let leave = Leave { node: self.config.node, incarnation: self.config.incarnation };
        // One may be lost.
        for _ in 0..2 {
            self.sending.control.push(Address::BROADCAST, Control::Leave(leave));
        }
    }

    pub(crate) fn on_leave(&mut self, leave: &Leave) {
        let Some(at) = self.discovery.peers.by_node(leave.node) else { return };
        let is_its_run = self.discovery.peers.records[at].peer.incarnation == leave.incarnation;
        let Some(presence) = self.discovery.peers.presence_mut(at).filter(|_| is_its_run) else { return };
        if presence.stage == Stage::Present && !presence.has_said_farewell {
            (presence.has_said_farewell, presence.rounds_asked) = (true, 0);
        }
    }

    fn arm_members(&mut self, now: Time) {
        let rounds = if self.discovery.watch.is_late { 2 * ROUNDS } else { ROUNDS };
        let next = now + self.config.member_timeout / rounds;
        self.time.timers.arm(&mut self.discovery.watch.timer, TimerKind::Members, 0, next);
    }

    /// Look at all peers.
    pub(crate) fn members_timeout(&mut self, now: Time, at: Time) {
        if !self.discovery.watch.timer.take_if_due(at) {
            return;
        }
        self.discovery.watch.is_late = false;
        self.ask_about_conflicts(now);
        let count = self.discovery.peers.records.len();
        // When frames on flows arrived, once that matters.
        let (mut on_flows, mut asked) = (None, 0);
        let first = self.discovery.watch.cursor;
        for at in (0..count).map(|n| (first + n) % count) {
            if asked == MAX_ASKED_A_ROUND {
                self.discovery.watch.cursor = at;
                break;
            }
            asked += usize::from(self.look_at_member(now, at, &mut on_flows));
        }
        self.arm_members(now);
    }

    /// Returns whether it was asked.
    fn look_at_member(&mut self, now: Time, at: usize, on_flows: &mut Option<BTreeMap<PeerRun, QuietPeer>>) -> bool {
        let presence = self.discovery.peers.presence(at);
        match presence.stage {
            _ if !self.discovery.peers.records[at].has_beaconed() => false,
            Stage::Absent => false,
            Stage::Unverified => {
                let may_ask = presence.rounds_asked < MAX_UNVERIFIED_ROUNDS;
                let times = 1 + usize::from(presence.rounds_asked > 0);
                may_ask && self.discovery.watch.unverified_rate.try_take(now) && self.ask_member(at, times)
            }
            Stage::Present if presence.has_said_farewell => match presence.rounds_asked >= MIN_FAREWELL_ROUNDS {
                true => self.on_farewell_confirmed(at),
                false => self.ask_member(at, 2),
            },
            Stage::Present => self.look_at_present(now, at, on_flows),
        }
    }

    fn look_at_present(&mut self, now: Time, at: usize, on_flows: &mut Option<BTreeMap<PeerRun, QuietPeer>>) -> bool {
        self.report_changes(at);
        let timeout = self.config.member_timeout;
        let mut presence = self.discovery.peers.presence(at);
        if now - presence.heard_at < timeout / 2 {
            return false;
        }
        let Peer { node, incarnation, .. } = self.discovery.peers.records[at].peer;
        let quiet = on_flows.get_or_insert_with(|| self.last_received()).get(&(node, incarnation));
        let last_received = quiet.map(|quiet| quiet.last_received);
        let run = (node, incarnation);
        let last_received = last_received.max(self.flows.idle.last_received(&run)).max(self.last_sign_of(&run));
        if let Some(last_received) = last_received.filter(|last| *last > presence.heard_at) {
            (presence.heard_at, presence.rounds_asked) = (last_received, 0);
            self.discovery.peers.set_presence(at, presence);
        }
        let silence = now - presence.heard_at;
        if silence >= timeout && presence.rounds_asked >= MIN_UNANSWERED_ROUNDS {
            self.end_membership(at, Departure::Silent);
            return false;
        }
        self.discovery.watch.is_late |= silence >= timeout;
        silence >= timeout / 2 && self.ask_member(at, 1 << presence.rounds_asked.min(3))
    }

    /// It has left. Nobody will answer a connect.
    fn on_farewell_confirmed(&mut self, at: usize) -> bool {
        let node = self.discovery.peers.records[at].peer.node;
        self.end_membership(at, Departure::Farewell);
        if self.discovery.peers.records[at].flows == 0 {
            self.discovery.peers.remove_unless_static(node);
        }
        false
    }

    /// Ask a node whether it is there, so many times at once. Returns true.
    fn ask_member(&mut self, at: usize, times: usize) -> bool {
        let mut presence = self.discovery.peers.presence(at);
        if presence.rounds_asked == 0 {
            presence.nonce = self.random.next() as u32;
            self.discovery.peers.set_probe(at, presence.nonce);
        }
        presence.rounds_asked = presence.rounds_asked.saturating_add(1);
        self.discovery.peers.set_presence(at, presence);
        let to = self.discovery.peers.records[at].peer.address;
        let question = Control::Probe(Probe { id: presence.nonce, node: self.config.node, step: Step::True });
        self.outputs.commands.push_back(Command::AskAlive(to));
        iter::repeat_n(question, times).for_each(|question| self.sending.control.push(to, question));
        true
    }

    /// An answer to a probe. Returns whether it answers such a question.
    pub(crate) fn on_member_answer(&mut self, now: Time, source: Address, seen: &ProbeSeen) -> bool {
        let Some(at) = self.discovery.peers.by_question(seen.id) else { return false };
        if self.discovery.peers.records[at].peer.address == source {
            self.on_member_verified(now, at);
        }
        true
    }

    /// A peer has echoed a nonce.
    fn on_member_verified(&mut self, now: Time, at: usize) {
        let Presence { stage, told, .. } = self.discovery.peers.presence(at);
        let presence = Presence { stage: Stage::Present, heard_at: now, told, ..Presence::default() };
        self.discovery.peers.set_presence(at, presence);
        if stage != Stage::Present {
            self.report_member(at, MemberChange::Joined);
        }
    }

    /// Another run of this peer, or another address, is believed.
    pub(crate) fn on_member_accepted(&mut self, now: Time, at: usize, peer: &Peer) {
        if self.discovery.peers.records[at].peer.incarnation != peer.incarnation {
            self.end_membership(at, Departure::Restarted);
        }
        self.discovery.peers.replace(at, *peer);
        // It has echoed a nonce, unless it was taken from a static table.
        if self.discovery.watch.is_on && self.discovery.peers.records[at].has_beaconed() {
            self.on_member_verified(now, at);
        }
    }

    /// It is no member any more.
    pub(crate) fn end_membership(&mut self, at: usize, why: Departure) {
        let member = self.discovery.peers.told_member(at);
        self.discovery.peers.set_presence(at, Presence { stage: Stage::Absent, ..Presence::default() });
        self.outputs.events.extend(member.map(|member| Event::Member(member, MemberChange::Left(why))));
    }

    fn report_changes(&mut self, at: usize) {
        let told = self.discovery.peers.presence(at).told;
        if told.is_some_and(|told| told != self.discovery.peers.member(at, self.config.max_frame).told()) {
            self.report_member(at, MemberChange::Changed);
        }
    }

    fn report_member(&mut self, at: usize, change: MemberChange) {
        let member = self.discovery.peers.member(at, self.config.max_frame);
        self.discovery.peers.presence_mut(at).into_iter().for_each(|presence| presence.told = Some(member.told()));
        self.outputs.events.push_back(Event::Member(member, change));
    }
}
