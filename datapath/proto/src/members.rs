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
//! A beacon can be forged or late, so a node counts as a member only once it has echoed a nonce (a [`Probe`]). A node
//! that watches sends several beacons within the time-out, so where all nodes watch, none has to be asked. A member that
//! was silent for half of the time-out is asked in each round, with more copies of the question each time, because
//! frames can be lost. It is declared absent only after [`MIN_UNANSWERED_ROUNDS`] rounds, because this node itself may
//! have been descheduled. If it was, and finds others silent for the whole time-out, it asks in shorter rounds. A round
//! that began late does not count, and a node that is late in each round makes its rounds longer.
//! A farewell can be forged as well, so it only makes this node ask at once.
//!
//! Among many members each node watches only [`REACH`] others this closely, as in SWIM (Das et al., 2002). Beacons are
//! rarer then, and the time-out of all other members is longer. A node that finds one of its [`REACH`] silent broadcasts
//! a Leave in the silent one's name. All others then ask it, and if it is alive it denies the report with a beacon.
//!
//! ```text
//!   members          beacons of each   of all together   time-out of those not watched closely
//!   up to 33         3 in 1 s          100/s             1 s
//!   N, up to 500     1 in N × 10 ms    100/s             N × 30 ms
//!   up to 5000       1 in 5 s          N / 5 s           15 s
//!   up to 16,384     1 in N × 1 ms     1000/s            N × 3 ms
//! ```

use std::collections::BTreeMap;
use std::iter;
use std::time::Duration;

use am_wire::control::{Control, Leave, Probe, ProbeSeen, Step};
use am_wire::{Address, Buffer};

use crate::mutants::{self, Mutant};
use crate::node::Core;
use crate::output::{Command, Departure, Event, Member, MemberChange, Peer};
use crate::peers::{PeerRun, QuietPeer};
use crate::presence::{INTRODUCTIONS, MAX_UNVERIFIED_ROUNDS, Presence, REACH, ROUNDS_TO_DENY, Stage};
use crate::time::{Time, TimerKind};

/// Rounds in the time-out.
const ROUNDS: u32 = 10;
/// Rounds in which a member must have been asked before it is declared absent.
const MIN_UNANSWERED_ROUNDS: u8 = 4;
/// Rounds in which a member that said farewell must have been asked.
const MIN_FAREWELL_ROUNDS: u8 = 2;
/// The most members with an open question. The others wait until some of these have answered or are gone, so an
/// overloaded network or machine is not flooded with repetitions.
const MAX_ASKED: usize = 64;

/// A round of questions.
struct Round {
    now: Time,
    /// Whether this round began on time. If not, this node was descheduled, and answers may still wait to be read.
    is_timely: bool,
    /// The members that are watched closely, by index.
    near: Vec<usize>,
    far_timeout: Duration,
    /// Members with an open question.
    asked: usize,
    /// The first member that could not be asked. The next round starts there.
    postponed: Option<usize>,
    /// When the last frame of each peer arrived on a flow. Collected when it is first needed.
    on_flows: Option<BTreeMap<PeerRun, QuietPeer>>,
}

impl<B: Buffer> Core<B> {
    /// From above: report members with [`Event::Member`] from now on, beginning with those that are present.
    pub fn watch_members(&mut self) {
        if self.discovery.watch.is_on {
            return;
        }
        let peers = &mut self.discovery.peers;
        peers.presences = Some(vec![Presence::default(); peers.records.len()]);
        (self.discovery.watch.is_on, self.discovery.watch.introductions) = (true, INTRODUCTIONS);
        // Nodes that start together must not all ask the same node first.
        self.discovery.watch.cursor = self.random.next() as u32 as usize;
        self.broadcast_beacon(true);
        self.arm_beacon(self.now);
        self.arm_members(self.now);
    }

    /// Getter: the members. While they are watched, these are the nodes that have answered. Otherwise they are all nodes
    /// of which a beacon arrived, which may be gone.
    pub fn members(&self) -> impl Iterator<Item = Member> {
        let peers = &self.discovery.peers;
        let is_member = |at: &usize| match &peers.presences {
            Some(presences) => presences[*at].stage == Stage::Present,
            None => peers.records[*at].has_beaconed(),
        };
        (0..peers.records.len()).filter(is_member).map(|at| peers.member(at, self.config.max_frame))
    }

    /// From above: announce with the next outputs that this node leaves. From now on it answers no question.
    pub fn say_farewell(&mut self) {
        self.discovery.has_left = true;
        let leave = Leave { node: self.config.node, incarnation: self.config.incarnation };
        // Twice, because one may be lost.
        for _ in 0..2 {
            self.sending.control.push(Address::BROADCAST, Control::Leave(leave));
        }
    }

    /// A node says farewell, or reports that another one is silent.
    pub(crate) fn on_leave(&mut self, source: Address, leave: &Leave) {
        let Leave { node, incarnation } = *leave;
        if (node, incarnation) == (self.config.node, self.config.incarnation) {
            return self.deny_silence();
        }
        let Some(at) = self.discovery.peers.by_node(node) else { return };
        let peer = self.discovery.peers.records[at].peer;
        let (is_farewell, long_ago) = (peer.address == source, self.config.member_timeout / 2);
        let Some(presence) = self.discovery.peers.presence_mut(at).filter(|_| peer.incarnation == incarnation) else {
            return;
        };
        if presence.stage != Stage::Present {
            return;
        }
        if is_farewell && !presence.has_said_farewell {
            (presence.has_said_farewell, presence.rounds_asked) = (true, 0);
        }
        if !is_farewell && !presence.is_reported_silent && self.now - presence.heard_at >= long_ago {
            presence.is_reported_silent = true;
            presence.rounds_to_deny = ROUNDS_TO_DENY + self.random.next() as u8 % (ROUNDS_TO_DENY + 1);
        }
    }

    /// Others report that this node is silent. A beacon answers all of them.
    fn deny_silence(&mut self) {
        if !self.discovery.has_left && self.discovery.watch.denial_rate.try_take(self.now) {
            self.broadcast_beacon(false);
        }
    }

    /// A member that this node watches closely is silent: report it to the others.
    fn report_silence(&mut self, now: Time, at: usize) {
        let watch = &mut self.discovery.watch;
        // The members that follow it may be gone too, so watch more of them closely.
        watch.reach = (watch.reach + REACH).min(watch.crowd.max(REACH));
        if watch.is_crowded && watch.report_rate.try_take(now) && !mutants::is_active(Mutant::SilenceStays) {
            let Peer { node, incarnation, .. } = self.discovery.peers.records[at].peer;
            self.sending.control.push(Address::BROADCAST, Control::Leave(Leave { node, incarnation }));
        }
    }

    fn arm_members(&mut self, now: Time) {
        let watch = &mut self.discovery.watch;
        let rounds = if watch.is_hurried { 2 * ROUNDS } else { ROUNDS };
        watch.round = (self.config.member_timeout / rounds).max(watch.shortest_round);
        self.time.timers.arm(&mut watch.timer, TimerKind::Members, 0, now + watch.round);
    }

    /// A round: check every peer.
    pub(crate) fn members_timeout(&mut self, now: Time, at: Time) {
        if !self.discovery.watch.timer.take_if_due(at) {
            return;
        }
        self.ask_about_conflicts(now);
        let mut round = self.begin_round(now, at);
        let (first, count) = (self.discovery.watch.cursor, self.discovery.peers.records.len());
        for at in (0..count).map(|n| (first + n) % count) {
            self.look_at_member(at, &mut round);
        }
        self.discovery.watch.cursor = round.postponed.unwrap_or(first);
        self.arm_members(now);
    }

    fn begin_round(&mut self, now: Time, due: Time) -> Round {
        let peers = &self.discovery.peers;
        let present = |at: &usize| peers.presence(*at).stage == Stage::Present;
        let is_asked = |at: &usize| peers.presence(*at).rounds_asked > 0;
        let mut near: Vec<usize> = (0..peers.records.len()).filter(present).collect();
        let (members, asked) = (near.len(), near.iter().filter(|at| is_asked(at)).count());
        let known = peers.iter().filter(|record| record.has_beaconed()).count();
        let is_timely = self.discovery.watch.begin_round(&self.config, members, known, now - due);
        let reach = self.discovery.watch.reach;
        if reach < members {
            let behind = |at: &usize| peers.records[*at].peer.node.0.wrapping_sub(self.config.node.0);
            near.select_nth_unstable_by_key(reach, behind);
            near.truncate(reach);
            near.sort_unstable();
        }
        let far_timeout = self.discovery.watch.far_timeout(&self.config);
        Round { now, is_timely, near, far_timeout, asked, postponed: None, on_flows: None }
    }

    fn look_at_member(&mut self, at: usize, round: &mut Round) {
        let presence = self.discovery.peers.presence(at);
        let is_crowded = self.discovery.watch.is_crowded;
        match presence.stage {
            _ if !self.discovery.peers.records[at].has_beaconed() => (),
            Stage::Absent => (),
            // The member's answer may wait to be read.
            _ if presence.rounds_asked > 0 && !round.is_timely => (),
            Stage::Unverified if presence.rounds_asked == MAX_UNVERIFIED_ROUNDS => (),
            Stage::Unverified if self.discovery.watch.unverified_rate.try_take(round.now) => {
                self.ask_member(at, 1 + usize::from(presence.rounds_asked > 0 && !is_crowded));
            }
            Stage::Unverified => _ = round.postponed.get_or_insert(at),
            Stage::Present if presence.has_said_farewell => match presence.rounds_asked >= MIN_FAREWELL_ROUNDS {
                true => self.on_farewell_confirmed(at),
                false => self.ask_present(at, if is_crowded { 1 } else { 2 }, round),
            },
            Stage::Present => self.look_at_present(at, round),
        }
    }

    fn look_at_present(&mut self, at: usize, round: &mut Round) {
        self.report_changes(at);
        let mut presence = self.discovery.peers.presence(at);
        let (now, is_near) = (round.now, round.near.binary_search(&at).is_ok());
        let timeout =
            if is_near || presence.is_reported_silent { self.config.member_timeout } else { round.far_timeout };
        if now - presence.heard_at < timeout / 2 {
            return;
        }
        if presence.is_reported_silent && !is_near && presence.rounds_to_deny > 0 {
            presence.rounds_to_deny -= 1;
            return self.discovery.peers.set_presence(at, presence);
        }
        let Peer { node, incarnation, .. } = self.discovery.peers.records[at].peer;
        let run = (node, incarnation);
        let on_flows = round.on_flows.get_or_insert_with(|| self.last_received()).get(&run);
        let on_flows = on_flows.map(|quiet| quiet.last_received);
        let last_sign = on_flows.max(self.flows.idle.last_received(&run)).max(self.last_sign_of(&run));
        if let Some(last_sign) = last_sign.filter(|last| *last > presence.heard_at) {
            presence.on_sign_of_life(last_sign);
            self.discovery.peers.set_presence(at, presence);
        }
        let silence = now - presence.heard_at;
        if silence >= timeout && presence.rounds_asked >= MIN_UNANSWERED_ROUNDS {
            self.end_membership(at, Departure::Silent);
            if is_near {
                self.report_silence(now, at);
            }
            return;
        }
        self.discovery.watch.is_hurried |= silence >= timeout;
        if silence >= timeout / 2 {
            // On a crowded segment many nodes may ask it, so each sends few copies.
            let most = if self.discovery.watch.is_crowded { 1 } else { 3 };
            self.ask_present(at, 1 << presence.rounds_asked.min(most), round);
        }
    }

    /// The member said farewell and answers no more. Forget it, because it would not answer a connect either.
    fn on_farewell_confirmed(&mut self, at: usize) {
        let node = self.discovery.peers.records[at].peer.node;
        self.end_membership(at, Departure::Farewell);
        if self.discovery.peers.records[at].flows == 0 {
            self.discovery.peers.remove_unless_static(node);
        }
    }

    /// Ask a member whether it is present, unless too many questions are open.
    fn ask_present(&mut self, at: usize, times: usize, round: &mut Round) {
        if self.discovery.peers.presence(at).rounds_asked == 0 {
            if round.asked >= MAX_ASKED {
                round.postponed.get_or_insert(at);
                return;
            }
            round.asked += 1;
        }
        self.ask_member(at, times);
    }

    /// Ask a node whether it is present, with this many copies of the question.
    fn ask_member(&mut self, at: usize, times: usize) {
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
    }

    /// An answer to a probe. Returns whether the probe was a question about membership.
    pub(crate) fn on_member_answer(&mut self, now: Time, source: Address, seen: &ProbeSeen) -> bool {
        let Some(at) = self.discovery.peers.by_question(seen.id) else { return false };
        if self.discovery.peers.records[at].peer.address == source {
            self.on_member_verified(now, at);
        }
        true
    }

    /// A peer has echoed a nonce.
    fn on_member_verified(&mut self, now: Time, at: usize) {
        let Presence { stage, reported, .. } = self.discovery.peers.presence(at);
        let presence = Presence { stage: Stage::Present, heard_at: now, reported, ..Presence::default() };
        self.discovery.peers.set_presence(at, presence);
        if stage != Stage::Present {
            self.report_member(at, MemberChange::Joined);
        }
    }

    /// This node accepts another run or another address of this peer.
    pub(crate) fn on_member_accepted(&mut self, now: Time, at: usize, peer: &Peer) {
        if self.discovery.peers.records[at].peer.incarnation != peer.incarnation {
            self.end_membership(at, Departure::Restarted);
        }
        self.discovery.peers.replace(at, *peer);
        // The member has echoed a nonce, unless it was taken from a static table.
        if self.discovery.watch.is_on && self.discovery.peers.records[at].has_beaconed() {
            self.on_member_verified(now, at);
        }
    }

    /// This peer is no member any more. Report it, if its presence was reported.
    pub(crate) fn end_membership(&mut self, at: usize, why: Departure) {
        let member = self.discovery.peers.reported_member(at);
        self.discovery.peers.set_presence(at, Presence { stage: Stage::Absent, ..Presence::default() });
        self.outputs.events.extend(member.map(|member| Event::Member(member, MemberChange::Left(why))));
    }

    fn report_changes(&mut self, at: usize) {
        let reported = self.discovery.peers.presence(at).reported;
        if reported
            .is_some_and(|reported| reported != self.discovery.peers.member(at, self.config.max_frame).as_reported())
        {
            self.report_member(at, MemberChange::Changed);
        }
    }

    fn report_member(&mut self, at: usize, change: MemberChange) {
        let member = self.discovery.peers.member(at, self.config.max_frame);
        self.discovery
            .peers
            .presence_mut(at)
            .into_iter()
            .for_each(|presence| presence.reported = Some(member.as_reported()));
        self.outputs.events.push_back(Event::Member(member, change));
    }
}
