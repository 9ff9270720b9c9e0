//! Probing: which framing can be used towards a peer, and how long may a frame be?
//!
//! Three questions, asked once for each peer. *Do forged source addresses
//! arrive?* If not, something filters them: `plain`. *Does something learn
//! them?* A frame sent **to** the forged address is kept back by a switch that
//! has learned it at our own port, and arrives where nothing learns: then
//! `bare`, else `split`. *Do frames of the full length arrive?* If not, the
//! peer's NIC cuts them or an MTU between is smaller, and ours are shorter.
//!
//! ```text
//!  Forged ─┬─ yes ─▶ Learned ─┬─ yes: bare  ─┐          (where a third was heard, or would not be: split)
//!          │                  └─ no:  split ─┼─▶ Long ─┬─ yes ──────────────▶ known
//!          └─ no: plain ─────────────────────┘    ▲    └─ no: half of it ─┐
//!                                                 └───────────────────────┘
//! ```
//!
//! With each question goes a probe that every network lets through. Silence is a "no" only
//! when so many of these were answered meanwhile that a lost probe or a slow peer cannot have decided.

use core::time::Duration;

use am_wire::control::{Control, NodeId, Probe, ProbeSeen, Step};
use am_wire::frame::split_source;
use am_wire::{Address, Buffer, Flow, Framing};

use crate::config::FramingChoice;
use crate::node::Core;
use crate::output::{Command, FramingWhy, Peer};
use crate::path::{Known, Path, Probing};
use crate::time::Time;
use crate::timers::Wait;

/// So many answered probes make of silence on the question an answer: where 30 % of the frames are lost,
/// one in 50,000 questions is misjudged.
const ENOUGH: u8 = 8;
/// Between two rounds.
const INTERVAL: Duration = Duration::from_millis(2);
/// Between two rounds where nothing is answered for long, it is so many times as much.
const SLOWEST: u32 = 32;
/// Switches learn in the background: so much time they are given.
const LEARNING: Duration = Duration::from_millis(12);
/// A peer that finds frames cut is given so much time to open its NIC in another way.
const REPAIR: Duration = Duration::from_millis(250);
/// Between two rounds in that time.
const REPAIRING: Duration = Duration::from_millis(16);
/// With fewer rounds without any answer a peer answers now.
const RECENT: u16 = 2;
/// Rounds without any answer after which a peer is silent: it may be opening its NIC anew, and what it answered before says
/// nothing of what arrives afterwards.
const SILENT: u16 = 8;
/// After so many, 48 ms at first, another way to it is tried, where there is one.
const SUSPICIOUS: u16 = 2 * SILENT;
/// Rounds without any answer, two seconds of them, after which nobody is there.
const GIVEN_UP: u16 = 64;
/// No frame need be shorter: every NIC takes these.
const SHORTEST: u32 = 256;

impl Probing {
    /// When the next round is due.
    fn interval(&self) -> Duration {
        match self.answered {
            ENOUGH.. if self.unanswered < SILENT => REPAIRING,
            _ => INTERVAL * (1 << (self.unanswered / u16::from(ENOUGH)).min(15)).min(SLOWEST),
        }
    }

    /// Whether silence on the question has become an answer.
    fn is_no(&self, now: Time, longest: u32) -> bool {
        let is_first_long = self.question == Step::Long && self.length == longest;
        let is_repaired = !is_first_long || now - self.since >= REPAIR;
        self.answered >= ENOUGH && self.unanswered < RECENT && is_repaired
    }
}

impl<B: Buffer> Core<B> {
    /// What to send with towards a peer; `None` while it is being found out.
    pub(crate) fn path_to(&mut self, now: Time, at: usize) -> Option<Known> {
        match self.discovery.peers.get(at)?.path {
            Path::Known(known) => return Some(self.on_a_cable(at, known)),
            Path::Probing(_) => return None,
            Path::Unknown => match self.config.framing {
                FramingChoice::Fixed(framing) => self.probe_length(now, at, (framing, FramingWhy::Configured)),
                FramingChoice::Auto => self.question(now, at, Probing::new(Step::Forged)),
            },
        }
        // Where there is nothing to ask, it is known at once.
        if let Path::Known(known) = self.discovery.peers.get(at)?.path { Some(known) } else { None }
    }

    /// What was found, but for `bare` where a third can send: without a nonce a forged or late frame is soon taken for a true one.
    /// Flows that are open stay as they are.
    fn on_a_cable(&mut self, at: usize, known: Known) -> Known {
        if known.why != FramingWhy::NothingLearns || !self.is_shared_with(at) {
            return known;
        }
        let shared = Known { framing: Framing::Split, why: FramingWhy::Shared, ..known };
        self.discovery.peers.get(at).into_iter().for_each(|record| record.path = Path::Known(shared));
        shared
    }

    /// Whether a third was heard: its beacon, or its answer to a probe that was for the peer.
    fn is_shared_with(&mut self, at: usize) -> bool {
        let Some(peer) = self.discovery.peers.get(at).map(|record| record.peer.address) else { return false };
        let known = [peer, self.config.address];
        self.discovery.overheard || self.discovery.peers.iter().any(|other| !known.contains(&other.address))
    }

    /// The peer lives, and something does not reach it: the next flow to it finds out again what does.
    pub(crate) fn forget_path(&mut self, node: NodeId) {
        let record = self.discovery.peers.by_node(node).and_then(|at| self.discovery.peers.get(at));
        if let Some(record) = record.filter(|record| matches!(record.path, Path::Known(_))) {
            record.path = Path::Unknown;
        }
    }

    /// Ask; first in a moment, where it is a switch that is asked.
    fn question(&mut self, now: Time, at: usize, probing: Probing) {
        let id = self.random.next() as u32;
        self.discovery.peers.probe(at, id);
        let Some(record) = self.discovery.peers.get(at) else { return };
        let is_of_a_switch = probing.question == Step::Learned;
        record.path = Path::Probing(Probing { id, since: now, ..probing });
        record.armed.disarm();
        if is_of_a_switch {
            self.time.timers.arm(&mut record.armed, Wait::Probe, at as u16, now + LEARNING);
        } else {
            self.probe(now, at);
        }
    }

    /// The next round, or the conclusion.
    fn probe(&mut self, now: Time, at: usize) {
        let longest = self.longest_to(at);
        let (node, forged) = (self.config.node, split_source(Flow::NODE, self.config.address));
        let Some(record) = self.discovery.peers.get(at) else { return };
        let Path::Probing(probing) = &mut record.path else { return };
        probing.length = probing.length.min(longest);
        if probing.is_no(now, longest) {
            return self.conclude(now, at, false);
        }
        if probing.unanswered == GIVEN_UP {
            // Asked again when it is wanted again.
            record.path = Path::Unknown;
            return;
        }
        probing.unanswered = probing.unanswered.saturating_add(1);
        let Probing { id, question, length, .. } = *probing;
        let next = now + probing.interval();
        let peer = record.peer.address;
        if probing.unanswered.is_multiple_of(SUSPICIOUS) {
            self.outputs.commands.push_back(Command::ReportLoss(peer));
        }
        self.time.timers.arm(&mut record.armed, Wait::Probe, at as u16, next);
        let (to, framing) = match question {
            Step::Forged => (peer, Framing::Split),
            Step::Learned => (forged, Framing::Plain),
            Step::True | Step::Long => (peer, Framing::Plain),
        };
        self.sending.control.push_padded(
            to,
            framing,
            Control::Probe(Probe { id, node, step: question }),
            length as usize,
        );
        self.sending.control.push(peer, Control::Probe(Probe { id, node, step: Step::True }));
    }

    pub(crate) fn probe_timeout(&mut self, now: Time, at: Time, owner: u16) {
        let fired = self.discovery.peers.get(owner as usize).is_some_and(|record| record.armed.fired(at));
        if fired {
            self.probe(now, owner as usize);
        }
    }

    /// A peer's probe arrived: tell it. Where it is nobody's, who sent it missed us, or we missed them: everybody
    /// is asked, but sparingly, as it may be made up.
    pub(crate) fn on_probe(&mut self, probe: &Probe) {
        let Some(at) = self.discovery.peers.by_node(probe.node) else {
            if self.discovery.probes.is_time(self.now, self.discovery.peers.count()) {
                self.announce(true);
            }
            return;
        };
        if let Some(record) = self.discovery.peers.get(at) {
            let to = record.peer.address;
            self.sending.control.push(to, Control::ProbeSeen(ProbeSeen { id: probe.id, step: probe.step }));
        }
    }

    /// A probe of ours arrived. Hosts that overheard it answer too: only the
    /// peer's own answer counts.
    pub(crate) fn on_probe_seen(&mut self, now: Time, source: Address, seen: &ProbeSeen) {
        if self.claimant_answers(now, source, seen) {
            return;
        }
        let Some(at) = self.discovery.peers.by_probe(seen.id) else { return };
        let Some(record) = self.discovery.peers.get(at) else { return };
        if record.peer.address != source {
            // It was not sent to a true address, so whoever is on the segment may have heard it.
            self.discovery.overheard |= seen.step == Step::Learned;
            return;
        }
        record.mute = false;
        let Path::Probing(probing) = &mut record.path else { return };
        if seen.step == probing.question {
            self.conclude(now, at, true);
        } else if seen.step == Step::True {
            let before = if probing.unanswered < SILENT { probing.answered } else { 0 };
            probing.answered = before.saturating_add(1);
            probing.unanswered = 0;
        }
    }

    /// The question is answered.
    fn conclude(&mut self, now: Time, at: usize, yes: bool) {
        let Some(Path::Probing(probing)) = self.discovery.peers.get(at).map(|record| record.path) else { return };
        match (probing.question, yes) {
            (Step::Forged, true) if self.config.hears_all => self.question(now, at, Probing::new(Step::Learned)),
            (Step::Forged, true) => self.probe_length(now, at, (Framing::Split, FramingWhy::Shared)),
            (Step::Forged, false) => self.probe_length(now, at, (Framing::Plain, FramingWhy::ForgedDropped)),
            (Step::Learned, true) => self.probe_length(now, at, (Framing::Bare, FramingWhy::NothingLearns)),
            (Step::Learned, false) => self.probe_length(now, at, (Framing::Split, FramingWhy::SwitchLearns)),
            (Step::True | Step::Long, true) => self.found(at, &probing),
            (Step::True | Step::Long, false) if probing.length <= SHORTEST => self.found(at, &probing),
            (Step::True | Step::Long, false) => {
                let length = (probing.length / 2).max(SHORTEST);
                self.question(now, at, Probing { length, ..probing.again() });
            }
        }
    }

    /// The framing is known. The length is, where nothing is ever lost.
    fn probe_length(&mut self, now: Time, at: usize, framing: (Framing, FramingWhy)) {
        let length = self.longest_to(at);
        let probing = Probing { length, framing, ..Probing::new(Step::Long) };
        if self.config.probe_length { self.question(now, at, probing) } else { self.found(at, &probing) }
    }

    /// All is known.
    fn found(&mut self, at: usize, probing: &Probing) {
        let (framing, why) = probing.framing;
        // The peer says itself where its own frames are shorter.
        let is_full = probing.length == self.longest_to(at);
        let max_frame = if is_full { self.config.max_frame as u32 } else { probing.length };
        let Some(record) = self.discovery.peers.get(at) else { return };
        record.path = Path::Known(Known { framing, why, max_frame });
        let name = record.peer.name;
        let now = self.now;
        self.advance_asking(now, name);
    }

    /// Getter: the peers that no frame of the full length reaches, and the longest that does.
    pub fn shortened(&self) -> impl Iterator<Item = (&Peer, usize)> {
        let all = self.discovery.peers.known().map(|(peer, known)| (peer, known.max_frame as usize));
        all.filter(|(_, most)| *most < self.config.max_frame)
    }

    /// The longest frame that both ends can have.
    fn longest_to(&mut self, at: usize) -> u32 {
        let longest = self.config.max_frame as u32;
        self.discovery.peers.get(at).map_or(longest, |record| longest.min(record.max_frame))
    }
}
