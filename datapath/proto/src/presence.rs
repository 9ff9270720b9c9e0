//! Whether a peer is a member: the data of [`members`](crate::members).

use core::time::Duration;

use am_wire::{Address, Framing};

use crate::config::Config;
use crate::mutants::{self, Mutant};
use crate::output::Member;
use crate::rate_limit::RateLimit;
use crate::time::{Time, TimerState};

/// How many beacons this node sends within the time-out, while it watches.
const BEACONS: u32 = 3;
/// How much each member adds to the pause between two beacons of a node, until the pause is the usual one. All members
/// together then send 100 beacons a second.
const SHARE: Duration = Duration::from_millis(10);
/// How much each member adds beyond the usual pause. 500 members reach that pause, and 5000 exceed it: then all together
/// send 1000 beacons a second.
const SMALL_SHARE: Duration = Duration::from_millis(1);
/// The first pause between two beacons after the start, and at a new address. It doubles each time, up to the usual pause: five beacons
/// leave in the first two seconds, so the node becomes known soon even where a fifth of all frames is lost.
pub(crate) const FIRST_BEACON_PAUSE: Duration = Duration::from_millis(100);
/// How many members a node watches closely: those that follow it in the order of node ids. So each member is watched
/// closely by this many others.
pub(crate) const REACH: usize = 4;
/// In how many rounds a node that has never answered is asked. Its next beacon starts the count anew.
pub(crate) const MAX_UNVERIFIED_ROUNDS: u8 = 4;
/// In this time all nodes that have never answered are asked once, if that takes at least 50 and at most 1000 questions
/// a second. The rate is limited because their beacons may be forged.
const VERIFY_TIME: Duration = Duration::from_secs(4);
const UNVERIFIED_INTERVALS: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(20)];
const UNVERIFIED_RATE: RateLimit = RateLimit::new(UNVERIFIED_INTERVALS[1], 64);
/// The most nodes that count as members of the crowd before they have answered: their beacons may be forged.
const MAX_UNVERIFIED: usize = 500;
/// The rate of reports that a member is silent. It is limited because a node that no longer receives reports all others.
const REPORT_RATE: RateLimit = RateLimit::new(Duration::from_millis(50), 16);
/// The rate of beacons of a node that others report as silent.
const DENIAL_RATE: RateLimit = RateLimit::new(Duration::from_millis(500), 1);
/// A member has this many rounds to deny a report, or up to twice this number: it is random, so that not all nodes ask
/// at once.
pub(crate) const ROUNDS_TO_DENY: u8 = 3;
/// How many beacons ask for an answer after this node began to watch: several, because frames may be lost.
pub(crate) const INTRODUCTIONS: u8 = 3;

/// Whether a peer is a member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Stage {
    #[default]
    Unverified,
    Present,
    Absent,
}

/// What the last event reported of a member: its address, its longest frame and its framing.
pub(crate) type Reported = (Address, u32, Option<Framing>);

/// A peer as a member.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Presence {
    pub(crate) stage: Stage,
    pub(crate) has_said_farewell: bool,
    /// Another node reports that it is silent.
    pub(crate) is_reported_silent: bool,
    /// Rounds that it has left to deny the report, before this node asks it.
    pub(crate) rounds_to_deny: u8,
    /// Rounds in which it was asked since its last sign of life.
    pub(crate) rounds_asked: u8,
    /// The nonce of these questions.
    pub(crate) nonce: u32,
    /// When its last beacon or answer arrived.
    pub(crate) heard_at: Time,
    pub(crate) reported: Option<Reported>,
}

impl Presence {
    /// A beacon of this run arrived. `is_proof` says whether it counts as a sign of life.
    pub(crate) fn on_beacon(&mut self, now: Time, is_proof: bool) {
        match self.stage {
            Stage::Present if is_proof && !self.has_said_farewell => self.on_sign_of_life(now),
            Stage::Unverified if self.rounds_asked < MAX_UNVERIFIED_ROUNDS => {}
            Stage::Unverified | Stage::Absent => *self = Presence::default(),
            Stage::Present => {}
        }
    }

    pub(crate) fn on_sign_of_life(&mut self, at: Time) {
        (self.heard_at, self.rounds_asked, self.is_reported_silent) = (at, 0, false);
    }

    pub(crate) fn is_asked_with(&self, id: u32) -> bool {
        self.rounds_asked > 0 && self.nonce == id
    }
}

/// Whether this node watches members, and how closely.
#[derive(Debug)]
pub(crate) struct Watch {
    pub(crate) is_on: bool,
    pub(crate) timer: TimerState,
    pub(crate) introductions: u8,
    /// Members, or nodes that may become members, as counted in the last round.
    pub(crate) crowd: usize,
    /// The group is so large that this node watches only some of its members closely.
    pub(crate) is_crowded: bool,
    /// How many members this node watches closely: more than [`REACH`] for a while after one of these became silent.
    pub(crate) reach: usize,
    pub(crate) unverified_rate: RateLimit,
    pub(crate) report_rate: RateLimit,
    pub(crate) denial_rate: RateLimit,
    /// A member is silent for the whole time-out, and was not asked often enough.
    pub(crate) is_hurried: bool,
    /// How late the last round began.
    lateness: Duration,
    /// The shortest pause between two rounds: a node that is late again and again asks more slowly.
    pub(crate) shortest_round: Duration,
    /// The pause before the next round.
    pub(crate) round: Duration,
    /// Where the next round starts.
    pub(crate) cursor: usize,
}

impl Default for Watch {
    fn default() -> Self {
        Watch {
            is_on: false,
            timer: TimerState::default(),
            introductions: 0,
            crowd: 0,
            is_crowded: false,
            reach: REACH,
            unverified_rate: UNVERIFIED_RATE,
            report_rate: REPORT_RATE,
            denial_rate: DENIAL_RATE,
            is_hurried: false,
            lateness: Duration::ZERO,
            shortest_round: Duration::ZERO,
            round: Duration::ZERO,
            cursor: 0,
        }
    }
}

impl Watch {
    /// How often this node introduces itself.
    pub(crate) fn beacon_interval(&self, config: &Config) -> Duration {
        if !self.is_on {
            return config.beacon;
        }
        let crowd = if mutants::is_active(Mutant::RatesStay) { 0 } else { self.crowd as u32 };
        let shortest = (config.member_timeout / BEACONS).max(SHARE * crowd);
        config.beacon.min(shortest).max(SMALL_SHARE * crowd)
    }

    /// How long a member may be silent that others watch closely, and none of them reports.
    pub(crate) fn far_timeout(&self, config: &Config) -> Duration {
        config.member_timeout.max(self.beacon_interval(config) * BEACONS)
    }

    /// Whether the next beacon wants answers. Among many members one lost beacon matters less than the answers of all.
    pub(crate) fn take_introduction(&mut self) -> bool {
        let is_wanted = self.introductions > 0 && !self.is_crowded;
        self.introductions = self.introductions.saturating_sub(1);
        is_wanted
    }

    /// A round begins, so much later than it was due. Returns whether it counts: after a longer delay than the pause
    /// before it, answers to the last round may still wait to be read.
    pub(crate) fn begin_round(&mut self, config: &Config, members: usize, known: usize, late: Duration) -> bool {
        self.crowd = members.max(known.min(MAX_UNVERIFIED));
        self.is_crowded = self.far_timeout(config) > config.member_timeout;
        self.reach -= (self.reach - REACH).div_ceil(16);
        let [shortest, longest] = UNVERIFIED_INTERVALS;
        self.unverified_rate.set_interval((VERIFY_TIME / known.max(1) as u32).clamp(shortest, longest));
        self.shortest_round = late.min(self.lateness);
        self.lateness = late;
        self.is_hurried = false;
        late <= self.round
    }
}

impl Member {
    pub(crate) fn as_reported(&self) -> Reported {
        (self.peer.address, self.max_frame as u32, self.framing)
    }
}

#[cfg(test)]
mod tests {
    use am_wire::Address;
    use am_wire::control::{Incarnation, Name, NodeId};

    use super::*;

    fn watch(crowd: usize) -> (Config, Watch) {
        let name = Name::new("alpha").expect("short");
        let config = Config::new(NodeId(1), Incarnation(1), name, Address([2, 0, 0, 0, 0, 1]));
        (config, Watch { is_on: true, crowd, ..Watch::default() })
    }

    #[test]
    fn the_beacons_of_all_members_stay_far_below_the_gate() {
        for members in 1..=crate::MAX_PEERS {
            let (config, watch) = watch(members);
            // A fortieth of what the gate lets through.
            let share = Duration::from_nanos(40 * am_wire::gate::TOTAL_INTERVAL_NS) * members as u32;
            assert!(watch.beacon_interval(&config) >= share, "{members}");
        }
    }

    #[test]
    fn time_outs_grow_with_the_members_and_not_before_there_are_many() {
        let far = |members| {
            let (config, watch) = watch(members);
            watch.far_timeout(&config).as_millis()
        };
        assert_eq!(
            [0, 1, 33, 34, 100, 200, 500, 1000, 5000, 16_384].map(far),
            [1000, 1000, 1000, 1020, 3000, 6000, 15_000, 15_000, 15_000, 49_152]
        );
        assert!((1..16_384).all(|members| far(members) <= far(members + 1)));
    }
}
