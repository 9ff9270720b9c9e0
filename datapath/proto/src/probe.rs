//! Probing: which framing, and which frame length, reach a peer.
//!
//! Three questions, once for each peer. *Do forged source addresses arrive?* If not, something filters them: `plain`.
//! *Does a switch learn them?* A frame **to** the forged address arrives where nothing learns. A switch that learned
//! the address at this node's own port holds it back. So `bare` if it arrives, else `split`. *Do frames of full length
//! arrive?* If not, the peer's NIC cuts them or an MTU on the path is smaller, and this node sends shorter ones.
//!
//! ```text
//!  Forged ─┬─ yes ─▶ Learned ─┬─ yes: bare  ─┐          (split, where a third node is present or could be)
//!          │                  └─ no:  split ─┼─▶ Long ─┬─ yes ──────────────▶ known
//!          └─ no: plain ─────────────────────┘    ▲    └─ no: half of it ─┐
//!                                                 └───────────────────────┘
//! ```
//!
//! Each question is sent with a control probe that passes every network. Silence means "no" only after the peer has answered
//! enough control probes to exclude a lost probe or a slow peer as the cause.

use core::time::Duration;

use am_wire::control::{Control, NodeId, Probe, Step};
use am_wire::frame::split_source;
use am_wire::{Buffer, Flow, Framing};

use crate::config::FramingChoice;
use crate::node::Core;
use crate::output::{Command, FramingWhy, Peer};
use crate::peers::{KnownPath, Path, PeerRecord, Probing};
use crate::time::{Time, TimerKind};

/// Answered control probes that make silence a "no". At 30 % loss, one question in 50,000 is misjudged.
const ENOUGH_ANSWERS: u8 = 8;
/// Time between two rounds.
const ROUND_INTERVAL: Duration = Duration::from_millis(2);
/// The largest factor on that time while the peer does not answer.
const MAX_INTERVAL_FACTOR: u32 = 32;
/// Time for a switch to learn an address: it does so in the background.
const SWITCH_LEARNING_TIME: Duration = Duration::from_millis(12);
/// Time for a peer that receives cut frames to reopen its NIC in another way.
const NIC_REOPEN_TIME: Duration = Duration::from_millis(250);
/// Time between two rounds while the peer may be reopening its NIC.
const NIC_REOPEN_INTERVAL: Duration = Duration::from_millis(16);
/// Among many peers the pause between two rounds doubles each time, up to a second.
const MAX_CROWDED_DOUBLINGS: u16 = 9;
/// A peer that answered within this many rounds is answering now.
const RECENT_ROUNDS: u16 = 2;
/// After this many unanswered rounds a peer is silent. It may be reopening its NIC. Its earlier answers do not show
/// what arrives afterwards.
pub(crate) const SILENT_ROUNDS: u16 = 8;
/// After this many unanswered rounds (48 ms at first) the transport is asked to try another path.
const SUSPECT_ROUNDS: u16 = 2 * SILENT_ROUNDS;
/// Among many peers, half a second at first.
const CROWDED_SUSPECT_ROUNDS: u16 = 8;
/// Unanswered rounds, two seconds of them, after which the peer counts as absent.
const ABSENT_ROUNDS: u16 = 64;
/// The shortest frame length to try: every NIC takes this much.
const MIN_PROBED_LENGTH: u32 = 256;

impl Probing {
    /// The time to the next round.
    fn interval(&self, is_crowded: bool) -> Duration {
        match self.answered {
            ENOUGH_ANSWERS.. if self.unanswered < SILENT_ROUNDS => NIC_REOPEN_INTERVAL,
            _ if is_crowded => ROUND_INTERVAL * (1 << self.unanswered.saturating_sub(1).min(MAX_CROWDED_DOUBLINGS)),
            _ => ROUND_INTERVAL * (1 << (self.unanswered / u16::from(ENOUGH_ANSWERS)).min(15)).min(MAX_INTERVAL_FACTOR),
        }
    }

    /// Whether the peer answers.
    pub(crate) fn is_answered(&self) -> bool {
        self.unanswered < SILENT_ROUNDS
    }

    /// Whether silence means "no" by now.
    fn is_silence_an_answer(&self, now: Time, longest: u32) -> bool {
        let is_first_long = self.question == Step::Long && self.length == longest;
        let is_repaired = !is_first_long || now - self.since >= NIC_REOPEN_TIME;
        self.answered >= ENOUGH_ANSWERS && self.unanswered < RECENT_ROUNDS && is_repaired
    }
}

impl<B: Buffer> Core<B> {
    /// How to send to a peer. `None` while that is being probed; this call starts the probe.
    pub(crate) fn path_to(&mut self, now: Time, at: usize) -> Option<KnownPath> {
        match self.discovery.peers.records[at].path {
            Path::Known(known) => return Some(self.checked_for_third_node(at, known)),
            Path::Probing(_) => return None,
            Path::Unknown => match self.config.framing {
                FramingChoice::Fixed(framing) => self.probe_length(now, at, (framing, FramingWhy::Configured)),
                FramingChoice::Auto => self.ask_question(now, at, Probing::new(Step::Forged)),
            },
        };
        // With nothing to probe, the answer is there at once.
        if let Path::Known(known) = self.discovery.peers.records[at].path { Some(known) } else { None }
    }

    /// The path as found, but `split` instead of `bare` once a third node can send. Without a nonce, a forged or late
    /// frame would soon pass as genuine. Open flows stay as they are.
    fn checked_for_third_node(&mut self, at: usize, known: KnownPath) -> KnownPath {
        let ours = [self.discovery.peers.records[at].peer.address, self.config.address];
        let is_third = |record: &PeerRecord| !ours.contains(&record.peer.address);
        // A third node is present: it sent a beacon, or answered a probe meant for the peer.
        let is_shared = || self.discovery.was_probe_overheard || self.discovery.peers.iter().any(is_third);
        if known.why != FramingWhy::NothingLearns || !is_shared() {
            return known;
        }
        let shared = KnownPath { framing: Framing::Split, why: FramingWhy::Shared, ..known };
        self.discovery.peers.records[at].path = Path::Known(shared);
        shared
    }

    /// The peer is alive, but some frames do not reach it. The next flow to it probes the path again.
    pub(crate) fn forget_path(&mut self, node: NodeId) {
        if let Some(at) = self.discovery.peers.by_node(node) {
            self.forget_path_at(at);
        }
    }

    pub(crate) fn forget_path_at(&mut self, at: usize) {
        let path = &mut self.discovery.peers.records[at].path;
        if matches!(path, Path::Known(_)) {
            *path = Path::Unknown;
        }
    }

    /// Ask a question. One about a switch is asked only after the switch had time to learn. Returns whether the path is known now.
    fn ask_question(&mut self, now: Time, at: usize, probing: Probing) -> bool {
        let id = self.random.next() as u32;
        self.discovery.peers.set_probe(at, id);
        let record = &mut self.discovery.peers.records[at];
        record.path = Path::Probing(Probing { id, since: now, ..probing });
        record.probe_timer.disarm();
        if probing.question == Step::Learned {
            self.time.timers.arm(&mut record.probe_timer, TimerKind::Probe, at as u16, now + SWITCH_LEARNING_TIME);
            return false;
        }
        self.probe_round(now, at)
    }

    /// The next round, or the conclusion. Returns whether the path is known now.
    pub(crate) fn probe_round(&mut self, now: Time, at: usize) -> bool {
        let longest = self.max_frame_to(at);
        let (node, forged) = (self.config.node, split_source(Flow::NODE, self.config.address));
        let record = &mut self.discovery.peers.records[at];
        let Path::Probing(probing) = &mut record.path else { return false };
        probing.length = probing.length.min(longest);
        if probing.is_silence_an_answer(now, longest) {
            return self.conclude(now, at, false);
        }
        if probing.unanswered == ABSENT_ROUNDS {
            // Probed again at the next request for it.
            record.path = Path::Unknown;
            return false;
        }
        probing.unanswered = probing.unanswered.saturating_add(1);
        let Probing { id, question, length, .. } = *probing;
        let is_crowded = self.discovery.probe_rounds.is_crowded(now);
        let next = now + probing.interval(is_crowded);
        let peer = record.peer.address;
        if probing.unanswered.is_multiple_of(if is_crowded { CROWDED_SUSPECT_ROUNDS } else { SUSPECT_ROUNDS }) {
            self.outputs.commands.push_back(Command::ReportLoss(peer));
        }
        self.time.timers.arm(&mut record.probe_timer, TimerKind::Probe, at as u16, next);
        let (to, framing) = match question {
            Step::Forged => (peer, Framing::Split),
            Step::Learned => (forged, Framing::Plain),
            Step::True | Step::Long => (peer, Framing::Plain),
        };
        let probe = |step| Control::Probe(Probe { id, node, step });
        self.sending.control.push_padded(to, framing, probe(question), length as usize);
        self.sending.control.push(peer, probe(Step::True));
        false
    }

    /// A question is answered. Returns whether the path is known now.
    pub(crate) fn conclude(&mut self, now: Time, at: usize, yes: bool) -> bool {
        let Path::Probing(probing) = self.discovery.peers.records[at].path else { return false };
        match (probing.question, yes) {
            (Step::Forged, true) if self.config.hears_all => self.ask_question(now, at, Probing::new(Step::Learned)),
            (Step::Forged, true) => self.probe_length(now, at, (Framing::Split, FramingWhy::Shared)),
            (Step::Forged, false) => self.probe_length(now, at, (Framing::Plain, FramingWhy::ForgedDropped)),
            (Step::Learned, true) => self.probe_length(now, at, (Framing::Bare, FramingWhy::NothingLearns)),
            (Step::Learned, false) => self.probe_length(now, at, (Framing::Split, FramingWhy::SwitchLearns)),
            _ if yes || probing.length <= MIN_PROBED_LENGTH => self.finish_probing(at, &probing),
            _ => {
                let (length, framing) = ((probing.length / 2).max(MIN_PROBED_LENGTH), probing.framing);
                self.ask_question(now, at, Probing { length, framing, ..Probing::new(probing.question) })
            }
        }
    }

    /// The framing is known: probe the length, unless the configuration says not to.
    fn probe_length(&mut self, now: Time, at: usize, framing: (Framing, FramingWhy)) -> bool {
        let length = self.max_frame_to(at);
        let probing = Probing { length, framing, ..Probing::new(Step::Long) };
        if self.config.probe_length { self.ask_question(now, at, probing) } else { self.finish_probing(at, &probing) }
    }

    /// The probes are finished: the path is known now.
    fn finish_probing(&mut self, at: usize, probing: &Probing) -> bool {
        let (framing, why) = probing.framing;
        // If the peer's own limit is smaller, its offer says so.
        let is_full = probing.length == self.max_frame_to(at);
        let max_frame = if is_full { self.config.max_frame as u32 } else { probing.length };
        let record = &mut self.discovery.peers.records[at];
        record.path = Path::Known(KnownPath { framing, why, max_frame });
        true
    }

    /// Getter: the peers that frames of full length do not reach, and the longest frame that does.
    pub fn shortened_peers(&self) -> impl Iterator<Item = (&Peer, usize)> {
        let lengths = self.discovery.peers.iter().filter_map(|record| match &record.path {
            Path::Known(known) => Some((&record.peer, known.max_frame as usize)),
            _ => None,
        });
        lengths.filter(|(_, longest)| *longest < self.config.max_frame)
    }

    /// The longest frame that both sides support.
    fn max_frame_to(&self, at: usize) -> u32 {
        self.discovery.peers.records[at].max_frame.min(self.config.max_frame as u32)
    }
}
