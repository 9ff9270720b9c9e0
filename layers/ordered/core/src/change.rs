//! The change of views: candidates, promises, the next view's log.

use crate::ballot::{Accepted, Changes};
use crate::leader::Lead;
use crate::log::Entry;
use crate::member::{Candidacy, Core, Mark, Output, Repair, Role};
use crate::message::{Ended, Message, NewView, Promise, State};
use crate::mutants::{self, Mutant};
use crate::view::{Epoch, MemberId, Number, Time};

/// A candidate that a majority has answered waits at most this long for the others.
const WAIT_FOR_ALL: Time = Time::from_millis(50);
/// The candidates' order: one more step behind the sequencer waits so much longer.
const STAGGER: Time = Time::from_millis(15);
/// A candidate gives up after this time, and begins again.
const GIVE_UP: Time = Time::from_millis(400);
/// The pause between two requests for the state doubles so often.
const MOST_DOUBLED: usize = 6;
/// The most ranges behind a gap in a promise.
const RANGES: usize = 16;

impl Core {
    fn own_promise(&self) -> Promise {
        Promise {
            chain: self.ballot.chain().to_vec(),
            history: self.ballot.history().to_vec(),
            held: self.log.held(),
            ranges: self.log.ranges_behind_gap(RANGES),
        }
    }

    /// When this member becomes a candidate, if it hears nothing until then.
    pub(crate) fn candidate_at(&self) -> Option<Time> {
        // One that diverged too: it may be the only one left that knows the view.
        let may_ask = matches!(self.role, Role::Member | Role::Diverged { .. });
        if !may_ask || self.candidacy.is_some() || self.lead.is_some() && self.ballot.is_open() {
            return None;
        }
        let is_any = || self.views().any(|view| view.has(self.me.id)) && !self.is_out();
        if !self.is_settled_member() && !is_any() {
            return None;
        }
        let view = self.ballot.view();
        // The last sequencer itself comes last.
        let rank = view.rank(self.me.id).filter(|rank| *rank > 0).unwrap_or(view.members.len()).max(1) as u32;
        let silence = if self.has_resigned { Time::ZERO } else { self.settings.silence };
        Some(self.heard_at + silence + STAGGER * (rank - 1))
    }

    /// Ask all to follow this member into a new view.
    pub(crate) fn propose(&mut self, changes: Changes) {
        self.seal();
        self.converge();
        self.put_out = changes.remove.iter().map(|id| (*id, self.reason(*id))).collect();
        let own = self.own_promise();
        let epoch = self.ballot.propose(self.highest_epoch, own, changes);
        self.highest_epoch = epoch;
        (self.heard_at, self.has_resigned) = (self.now, false);
        self.candidacy = Some(Candidacy {
            fix_at: self.now + WAIT_FOR_ALL,
            fixed_at: None,
            send_again_at: self.now + self.settings.beat,
            give_up_at: self.now + GIVE_UP,
        });
        self.ask_for_promises();
        self.fix();
    }

    /// Ask the members whose promise is awaited: those of the own views, and of views that a promise names.
    fn ask_for_promises(&mut self) {
        let epoch = self.ballot.promised();
        for id in self.ballot.awaited() {
            self.post(id, Message::Propose { epoch });
        }
    }

    fn send_voters(&mut self, message: &Message) {
        let mut voters = self.ballot.voters();
        voters.remove(&self.me.id);
        for id in voters {
            self.post(id, message.clone());
        }
    }

    /// Fix the next view, once all have promised, or a majority and the others do not answer.
    pub(crate) fn fix(&mut self) {
        let Some(candidacy) = &self.candidacy else { return };
        let (silence, now) = (self.settings.silence, self.now);
        // Only the sequencer hears the others all the time.
        let is_silent =
            |id: &MemberId| self.lead.is_some() && self.marks.get(id).is_some_and(|mark| mark.heard_at + silence < now);
        let old = self.ballot.view().sequencer;
        let awaited = self.ballot.awaited();
        if candidacy.fix_at > now && awaited.iter().any(|id| *id != old && !is_silent(id)) {
            return;
        }
        if let Some(new_view) = self.ballot.fix() {
            self.candidacy = self.candidacy.take().map(|candidacy| Candidacy { fixed_at: Some(now), ..candidacy });
            self.send_voters(&Message::NewView(new_view.clone()));
            self.on_new_view(self.me.id, new_view);
        } else if let Some(latest) = self.ballot.promised_views().last().filter(|view| !view.has(self.me.id)) {
            // It was put out meanwhile, and the members of that view can go on.
            let (epoch, members) = (self.ballot.promised(), latest.ids().collect::<Vec<_>>());
            members.into_iter().for_each(|id| self.post(id, Message::Resign { epoch }));
            (self.candidacy, self.heard_at) = (None, now + GIVE_UP);
            self.ballot.withdraw();
        }
    }

    /// A candidate asks this member to follow it.
    pub(crate) fn on_propose(&mut self, from: MemberId, epoch: Epoch) {
        self.highest_epoch = self.highest_epoch.max(epoch);
        let sequencer = self.ballot.view().sequencer;
        let is_member = self.ballot.follows() && self.ballot.view().has(self.me.id);
        let is_heard = is_member && self.now < self.heard_at + self.settings.silence;
        let leads = self.lead.as_ref().is_some_and(|lead| self.ballot.is_open() && lead.has_lease(self.now));
        let promised = self.ballot.promised();
        let is_foreign = self.ballot.is_open() && !self.ballot.view().has(from);
        if (is_heard || leads) && is_foreign && self.is_settled() {
            self.send_away(from, Ended::NotInView);
        } else if (is_heard && from != sequencer && !self.has_resigned && !self.is_me(sequencer)) || leads {
            self.post(from, Message::Refuse { promised });
        } else if self.ballot.promise(epoch) {
            (self.candidacy, self.heard_at, self.has_resigned) = (None, self.now, false);
            self.seal();
            self.promised_to = Some((epoch, from));
            self.converge();
            self.post_promise(from, epoch);
        } else if self.promised_to == Some((epoch, from)) && self.ballot.awaits_view(epoch) {
            // The first promise may be lost.
            self.post_promise(from, epoch);
        } else {
            self.post(from, Message::Refuse { promised });
        }
    }

    fn post_promise(&mut self, to: MemberId, epoch: Epoch) {
        let promise = self.own_promise();
        self.post(to, Message::Promise { epoch, promise });
    }

    pub(crate) fn on_promise(&mut self, from: MemberId, epoch: Epoch, promise: Promise) {
        self.hear(from);
        self.ballot.on_promise(from, epoch, promise);
        self.fix();
    }

    /// The next view is fixed: fetch what its log begins with, then install it.
    pub(crate) fn on_new_view(&mut self, from: MemberId, new_view: NewView) {
        let epoch = new_view.view.epoch;
        self.highest_epoch = self.highest_epoch.max(epoch);
        match self.ballot.on_new_view(&new_view) {
            Accepted::Fetch { cut } if self.delivered > cut => self.diverge(cut),
            Accepted::Fetch { cut } => {
                self.converge();
                self.truncate(cut);
                self.heard_at = self.now;
                self.repair = Repair {
                    known_end: new_view.base(),
                    at: Some(self.now),
                    state_again_at: self.repair.state_again_at,
                    ..Repair::default()
                };
                if from != self.me.id {
                    self.candidacy = None;
                }
                self.install();
            }
            Accepted::Pending => self.heard_at = self.now,
            Accepted::Installed => self.post(from, Message::Installed { epoch }),
            Accepted::Refused => self.post(from, Message::Refuse { promised: self.ballot.promised() }),
            Accepted::Forgotten => self.diverge(0),
        }
    }

    /// The pending view's log has other messages from this number on. Their contents are others, too.
    fn truncate(&mut self, end: Number) {
        if !mutants::is_active(Mutant::GapFilledTwice) {
            self.log.truncate(end);
            self.apart.truncate(end);
        }
    }

    /// What this member holds is not the log of the pending view from a number on, and the program has handled it. The member
    /// keeps its vote and its log, and goes on with the state of another one.
    fn diverge(&mut self, cut: Number) {
        (self.candidacy, self.heard_at) = (None, self.now);
        self.role = Role::Diverged { cut, ask_at: self.now, attempt: 0 };
        self.ask_for_state();
    }

    /// Another epoch is promised, or its view fixed: what this member holds may be part of its log.
    fn converge(&mut self) {
        if matches!(self.role, Role::Diverged { .. }) {
            self.role = Role::Member;
        }
    }

    /// Ask the members of the pending view for the state, one after the other.
    pub(crate) fn ask_for_state(&mut self) {
        let Role::Diverged { cut, ask_at, attempt } = self.role else { return };
        let is_due = ask_at <= self.now && !self.takes_state();
        let Some(pending) = self.ballot.pending().filter(|_| is_due) else { return };
        let epoch = pending.view.epoch;
        let mut others: Vec<MemberId> = pending.view.ids().filter(|id| !self.is_me(*id)).collect();
        let first = others.iter().position(|id| *id == pending.view.sequencer).unwrap_or(0);
        others.rotate_left(first);
        // States may be large. Each request is an answer.
        let pause = self.settings.beat * (1 << attempt.min(MOST_DOUBLED));
        self.role = Role::Diverged { cut, ask_at: self.now + pause, attempt: attempt + 1 };
        if !others.is_empty() {
            self.post(others[attempt % others.len()], Message::NeedState { epoch });
        }
    }

    /// Another member has no use for what it holds.
    pub(crate) fn on_need_state(&mut self, from: MemberId, epoch: Epoch) {
        let is_pending = self.ballot.pending().is_some_and(|pending| pending.view.epoch == epoch);
        if self.ballot.is_open() && !self.ballot.view().has(from) {
            self.send_away(from, Ended::NotInView);
        } else if self.role == Role::Member && (is_pending || self.ballot.epoch() == epoch) {
            self.take_state(from, false);
        }
    }

    /// Whether a state takes the place of what the program has handled, or of messages that no member sends.
    pub(crate) fn needs(&self, state: &State) -> bool {
        self.ballot.keeps(state.view.epoch, state.number)
            && match self.role {
                Role::Diverged { .. } => state.number >= self.log.first(),
                _ => state.number > self.log.held(),
            }
    }

    /// The state of another member has arrived. The own log stays as far as it is part of the pending view's: the next candidate
    /// may count on it.
    pub(crate) fn go_on_with(&mut self, state: State) {
        if let Role::Diverged { cut, .. } = self.role {
            self.out.push_back(Output::Diverged(cut));
            self.truncate(cut);
        }
        // Some of them may be in the state; which ones is not known.
        let submitted = self.mine.take_submitted();
        self.give_back(submitted);
        self.log.skip_to(state.number);
        (self.role, self.delivered) = (Role::Member, state.number);
        self.restore(state.number, state.state);
        // What the pending view's log has behind the state is asked for at once: no message may say that it is missing.
        self.repair.at = Some(self.now);
        self.install();
    }

    /// Install the pending view, once the log up to its base is here.
    pub(crate) fn install(&mut self) {
        let Some(base) = self.ballot.pending().map(NewView::base) else { return };
        if self.role != Role::Member {
            return;
        }
        if self.log.held() < base && !mutants::is_active(Mutant::CountedEarly) {
            return self.ask_for_gap();
        }
        self.truncate(base);
        self.ballot.install();
        self.forget_places();
        self.heard_at = self.now;
        let (epoch, sequencer) = (self.ballot.epoch(), self.ballot.view().sequencer);
        let (leads, has_led) = (self.is_me(sequencer), self.lead.take().is_some());
        if has_led && !leads {
            // Where the sequencer changes often, no time of one alone would be as long as the patience.
            self.marks.values_mut().for_each(|mark| mark.asked = mark.asked_for(self.asks_since, self.now));
        } else if !has_led {
            self.asks_since = self.now;
        }
        if leads {
            self.on_installed(sequencer, epoch);
        } else {
            self.post(sequencer, Message::Installed { epoch });
        }
    }

    /// At the candidate: a member has installed the view.
    pub(crate) fn on_installed(&mut self, from: MemberId, epoch: Epoch) {
        self.hear(from);
        if self.ballot.on_installed(from, epoch) {
            self.begin_epoch();
        }
    }

    fn hear(&mut self, from: MemberId) {
        if let Some(mark) = self.marks.get_mut(&from) {
            mark.hear(self.now);
        }
    }

    /// The sequencer says that this epoch's view is current.
    pub(crate) fn on_current(&mut self, epoch: Epoch) {
        if self.ballot.on_current(epoch) {
            self.begin_epoch();
        }
    }

    /// The installed view is current: messages of its epoch are sent and delivered from now on.
    fn begin_epoch(&mut self) {
        let (view, base) = (self.ballot.view().clone(), self.log.held());
        let mine = |entry: &Entry| self.is_me(entry.sender) && entry.epoch > self.returned;
        let is_mine = |number: &Number| self.log.get(*number).is_some_and(|entry| mine(entry));
        let is_new = !mutants::is_active(Mutant::StampedTwice);
        let numbered_before = (self.delivered..base).filter(|number| is_new && is_mine(number)).count();
        self.mine.begin(view.epoch, numbered_before);
        let old = std::mem::take(&mut self.marks);
        for id in view.ids().filter(|id| *id != self.me.id) {
            let mark = old.get(&id).copied().unwrap_or(Mark { heard_at: self.now, ..Mark::default() });
            self.marks.insert(id, Mark { held: base, last_ack: None, ..mark });
        }
        (self.has_resigned, self.heard_at, self.last_beat, self.safe_to) = (false, self.now, 0, base);
        if self.is_me(view.sequencer) {
            // From then on the members that have installed the view follow no other candidate.
            let since = self.candidacy.as_ref().and_then(|candidacy| candidacy.fixed_at).unwrap_or_default();
            // The last one closes its table first.
            self.lead = None;
            let lead = Lead::new(&view, base, self.delivered, &self.settings, &self.table, (self.now, since));
            self.mine.set_limit(lead.own_limit());
            self.lead = Some(lead);
            self.candidacy = None;
        }
        self.acks_at_once = self.is_among_first();
        self.out.push_back(Output::View(view));
        self.repair.known_end = base;
        self.ask_where_others_are();
    }

    /// What a candidate does as time passes.
    pub(crate) fn campaign_on(&mut self) {
        if self.candidate_at().is_some_and(|at| at <= self.now) {
            self.propose(Changes::default());
        }
        self.fix();
        let Some(candidacy) = &mut self.candidacy else { return };
        if candidacy.give_up_at <= self.now {
            self.candidacy = None;
            self.ballot.withdraw();
            // Two candidates that hinder each other wait for different times.
            let mixed = (self.me.id.0 ^ u64::from(self.highest_epoch.0)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 61;
            self.heard_at = self.now + self.settings.silence * mixed as u32 / 8;
        } else if candidacy.send_again_at <= self.now {
            candidacy.send_again_at = self.now + self.settings.beat;
            match self.ballot.fixed().cloned() {
                Some(new_view) => self.send_voters(&Message::NewView(new_view)),
                None => self.ask_for_promises(),
            }
        }
    }
}
