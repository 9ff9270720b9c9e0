//! Whether a peer is a member: the data of [`members`](crate::members).

use core::time::Duration;

use am_wire::{Address, Framing};

use crate::config::Config;
use crate::output::Member;
use crate::rate_limit::RateLimit;
use crate::time::{Time, TimerState};

/// Beacons of this node in the time-out, while it watches.
const BEACONS: u32 = 3;
/// Rounds in which a node is asked that has never answered. Its next beacon starts this anew.
pub(crate) const MAX_UNVERIFIED_ROUNDS: u8 = 4;
/// The rate of questions to nodes that have never answered: their beacons may be forged.
const UNVERIFIED_RATE: RateLimit = RateLimit::new(Duration::from_millis(1), 512);
/// Beacons after the start of watching that want an answer: frames may be lost.
pub(crate) const INTRODUCTIONS: u8 = 3;

/// Whether a peer is a member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Stage {
    #[default]
    Unverified,
    Present,
    Absent,
}

/// What was last said of a member.
pub(crate) type Told = (Address, u32, Option<Framing>);

/// A peer as a member.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Presence {
    pub(crate) stage: Stage,
    pub(crate) has_said_farewell: bool,
    /// Rounds in which it was asked since its last sign of life.
    pub(crate) rounds_asked: u8,
    /// The number of these questions.
    pub(crate) nonce: u32,
    /// Its last beacon or answer.
    pub(crate) heard_at: Time,
    pub(crate) told: Option<Told>,
}

impl Presence {
    /// A beacon of this run arrived. `is_proof` says whether it counts as a sign of life.
    pub(crate) fn on_beacon(&mut self, now: Time, is_proof: bool) {
        match self.stage {
            Stage::Present if is_proof && !self.has_said_farewell => (self.heard_at, self.rounds_asked) = (now, 0),
            Stage::Unverified if self.rounds_asked < MAX_UNVERIFIED_ROUNDS => {}
            Stage::Unverified | Stage::Absent => *self = Presence::default(),
            Stage::Present => {}
        }
    }

    pub(crate) fn is_asked_with(&self, id: u32) -> bool {
        self.rounds_asked > 0 && self.nonce == id
    }
}

/// Whether this node watches members.
#[derive(Debug)]
pub(crate) struct Watch {
    pub(crate) is_on: bool,
    pub(crate) timer: TimerState,
    pub(crate) introductions: u8,
    pub(crate) unverified_rate: RateLimit,
    /// A member is silent for the whole time-out, and was not asked often enough.
    pub(crate) is_late: bool,
    /// Where the next round starts.
    pub(crate) cursor: usize,
}

impl Default for Watch {
    fn default() -> Self {
        let timer = TimerState::default();
        Watch { is_on: false, timer, introductions: 0, unverified_rate: UNVERIFIED_RATE, is_late: false, cursor: 0 }
    }
}

impl Watch {
    /// How often this node introduces itself.
    pub(crate) fn beacon_interval(&self, config: &Config) -> Duration {
        if self.is_on { config.beacon.min(config.member_timeout / BEACONS) } else { config.beacon }
    }

    /// Whether the next beacon wants answers.
    pub(crate) fn take_introduction(&mut self) -> bool {
        let is_wanted = self.introductions > 0;
        self.introductions = self.introductions.saturating_sub(1);
        is_wanted
    }
}

impl Member {
    pub(crate) fn told(&self) -> Told {
        (self.peer.address, self.max_frame as u32, self.framing)
    }
}
