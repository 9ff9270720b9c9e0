//! What the sequencer knows besides numbers: the lease, the processes that join, the members that leave.

use std::collections::{BTreeMap, BTreeSet};

use crate::message::{Ack, Beat};
use crate::mutants::{self, Mutant};
use crate::sequencer::{Sequencer, StampTable};
use crate::settings::Settings;
use crate::transfer::MOST_BEHIND;
use crate::view::{Member, MemberId, Number, Time, View};

/// A process that joins is ready if it lacks at most this many messages.
pub(crate) const ALMOST: u64 = 64;
/// Beats whose times are remembered.
const BEATS: usize = 32;

/// What only the sequencer knows.
#[derive(Debug)]
pub(crate) struct Lead {
    pub(crate) sequencer: Sequencer,
    pub(crate) view: View,
    pub(crate) own: MemberId,
    pub(crate) beat: u32,
    pub(crate) beat_at: Time,
    /// Beats since the lease has ended.
    pub(crate) unanswered: u32,
    pub(crate) began_at: Time,
    pub(crate) sent_at: [Time; BEATS],
    /// All numbers before these were given when they were sent.
    pub(crate) next_at: [Number; BEATS],
    /// For each member, when the last beat was sent that it has answered.
    pub(crate) answered: BTreeMap<MemberId, Time>,
    pub(crate) lease_until: Time,
    pub(crate) learners: BTreeMap<MemberId, Learner>,
    pub(crate) leaving: BTreeSet<MemberId>,
    pub(crate) token: Token,
    pub(crate) freed: Number,
    pub(crate) waits_since: Option<Time>,
    pub(crate) stuck_since: Option<(Number, Time)>,
}

/// A process that follows the order to become a member.
#[derive(Debug)]
pub(crate) struct Learner {
    pub(crate) member: Member,
    pub(crate) state_sent_at: Option<Time>,
    pub(crate) has_state: bool,
    /// The state that was sent to it ends before this number. What follows is kept for it.
    pub(crate) state_end: Option<Number>,
    /// What it holds of this epoch's log, once it has the state.
    pub(crate) held: Option<Number>,
    /// It held almost all that had a number when the beat was sent that it has answered.
    pub(crate) is_near: bool,
    pub(crate) heard_at: Time,
    pub(crate) ready_since: Option<Time>,
    /// It has fallen behind, and has not come near since.
    pub(crate) is_behind: bool,
}

impl Learner {
    /// A process that wants to join.
    pub(crate) fn new(member: Member, now: Time) -> Learner {
        Learner {
            member,
            state_sent_at: None,
            has_state: false,
            state_end: None,
            held: None,
            is_near: false,
            heard_at: now,
            ready_since: None,
            is_behind: false,
        }
    }

    /// What it holds of this epoch's log, or what its state ends with, while `first` and all that follows is kept.
    fn at(&self, first: Number) -> Option<Number> {
        self.held.or(self.state_end).filter(|at| *at >= first)
    }

    /// It has answered a beat.
    pub(crate) fn is_at(&mut self, held: Option<Number>, is_near: bool, next: Number) {
        (self.held, self.is_near) = (held, is_near);
        self.is_behind = held.is_some_and(|held| !is_near && (self.is_behind || held + MOST_BEHIND < next));
    }

    /// Whether the group has to send no further messages until this process is near: it would fall behind for ever. One that does not answer is not
    /// waited for.
    pub(crate) fn holds_back(&self, next: Number, first: Number, now: Time, silence: Time) -> bool {
        let has_much_to_take = || self.held.is_none() && self.state_end.is_some_and(|at| at + MOST_BEHIND < next);
        self.heard_at + silence * 2 > now && self.at(first).is_some() && (self.is_behind || has_much_to_take())
    }
}

/// The token that collects what all have consumed.
#[derive(Debug, Default)]
pub(crate) struct Token {
    pub(crate) round: u32,
    pub(crate) again_at: Time,
}

impl Lead {
    /// A majority follows this sequencer `since` that time.
    pub(crate) fn new(
        view: &View,
        base: Number,
        recycled: Number,
        settings: &Settings,
        table: &StampTable,
        (now, since): (Time, Time),
    ) -> Lead {
        let sequencer = Sequencer::new(view, base, recycled, settings, table);
        let lead = Lead {
            sequencer,
            view: view.clone(),
            own: view.sequencer,
            beat: 0,
            beat_at: now,
            unanswered: 0,
            began_at: now,
            sent_at: [now; BEATS],
            next_at: [0; BEATS],
            answered: view.ids().map(|id| (id, since)).collect(),
            lease_until: since + settings.silence,
            learners: BTreeMap::new(),
            leaving: BTreeSet::new(),
            token: Token::default(),
            freed: 0,
            waits_since: None,
            stuck_since: None,
        };
        lead.renew();
        lead
    }

    /// The sequencer gives numbers for as long as the lease lasts.
    fn renew(&self) {
        let is_for_ever = mutants::is_active(Mutant::LeaseForEver);
        self.sequencer.renew(if is_for_ever { Time::MAX } else { self.lease_until });
    }

    pub(crate) fn learners(&self) -> impl Iterator<Item = MemberId> + '_ {
        self.learners
            .values()
            .filter(|learner| learner.has_state || learner.state_sent_at.is_some())
            .map(|learner| learner.member.id)
    }

    /// The processes that follow the order to become members.
    pub(crate) fn learning(&self) -> impl Iterator<Item = &Member> + '_ {
        self.learners.values().map(|learner| &learner.member)
    }

    /// The sequencer's own limit.
    pub(crate) fn own_limit(&self) -> u32 {
        self.view.slot(self.own).map_or(0, |slot| self.sequencer.limit(slot))
    }

    /// When the next beat is due.
    pub(crate) fn next_time(&self) -> Time {
        self.beat_at
    }

    /// Whether it has led since a time, and no member has asked to leave.
    pub(crate) fn may_resign(&self, since: Time) -> bool {
        self.began_at <= since && self.leaving.is_empty()
    }

    /// Whether a member has asked to leave.
    pub(crate) fn lets_go(&self, id: MemberId) -> bool {
        self.leaving.contains(&id)
    }

    /// Whether a majority has promised to follow no other member until later than now.
    pub(crate) fn has_lease(&self, now: Time) -> bool {
        now < self.lease_until || mutants::is_active(Mutant::LeaseForEver)
    }

    /// Whether the credits add up.
    pub(crate) fn is_whole(&self) -> bool {
        self.sequencer.is_whole()
    }

    pub(crate) fn beat(&mut self, now: Time, safe: Number, is_settled: bool) -> Beat {
        self.beat += 1;
        self.sent_at[self.beat as usize % BEATS] = now;
        self.next_at[self.beat as usize % BEATS] = self.sequencer.next();
        let (epoch, beat, limits) = (self.sequencer.epoch, self.beat, self.sequencer.limits());
        Beat { epoch, beat, next: self.sequencer.next(), freed: self.freed, safe, limits, is_settled }
    }

    /// All before this number are handled. A sender without credit hears of its new ones at once.
    pub(crate) fn take_back(&mut self, consumed: Number, now: Time) {
        let was_exhausted = self.sequencer.is_exhausted();
        self.sequencer.recycle(consumed);
        if was_exhausted && !self.sequencer.is_exhausted() {
            self.beat_at = now;
        }
    }

    /// Whether a process that answers this beat holds almost all that had a number when it was sent. In a fast group more have one by now.
    pub(crate) fn is_near(&self, ack: &Ack) -> bool {
        let is_known = ack.beat > 0 && ack.beat <= self.beat && self.beat - ack.beat < BEATS as u32;
        is_known && ack.held.saturating_add(ALMOST) >= self.next_at[ack.beat as usize % BEATS]
    }

    /// A member has answered a beat: the lease lasts for the silence after the beat that a majority has answered.
    pub(crate) fn on_answer(&mut self, from: MemberId, beat: u32, silence: Time, now: Time) {
        if beat == 0 || beat > self.beat || self.beat - beat >= BEATS as u32 {
            return;
        }
        let sent_at = self.sent_at[beat as usize % BEATS];
        self.answered.entry(from).and_modify(|at| *at = sent_at.max(*at));
        self.answered.insert(self.own, now);
        let mut times: Vec<Time> = self.answered.values().copied().collect();
        times.sort_unstable();
        let since = |since: Time| self.view.is_majority(|id| self.answered.get(&id).is_some_and(|at| *at >= since));
        if let Some(since) = times.into_iter().rev().find(|time| since(*time)) {
            self.lease_until = self.lease_until.max(since + silence);
            self.renew();
        }
    }
}
