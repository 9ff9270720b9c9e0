//! The sequencer's work besides numbers: beats, the lease, credits that return, and the members that join and leave.

use am_wire::stamp::SENDERS;

use crate::ballot::Changes;
use crate::leader::{ALMOST, Learner};
use crate::member::{Core, Mark, Role};
use crate::message::{Ack, Ended, Message};
use crate::transfer::STATE_AGAIN;
use crate::view::{Epoch, Member, MemberId, Number, Time};

/// Learners that are ready wait this long for others, so that one change of the view takes all.
const GATHER: Time = Time::from_millis(40);
/// The most bytes of messages that are kept for a member that does not answer.
const KEPT_BYTES: usize = 1 << 30;
/// The most beats without a lease.
const MOST_UNANSWERED: u32 = 10;
/// A gap that no member could fill ends the epoch after this time.
const STUCK: Time = Time::from_millis(150);

impl Core {
    /// A member, or a process that becomes one, says how far it is.
    pub(crate) fn on_ack(&mut self, from: MemberId, ack: Ack) {
        if self.ballot.view().has(from) {
            self.mark(from, &ack);
        }
        if self.lead.is_none() && self.ballot.is_open() && !self.ballot.view().has(from) {
            return self.send_away(from, Ended::NotInView);
        }
        let view = self.ballot.view();
        let (Some(lead), true) = (&mut self.lead, self.ballot.is_open()) else { return };
        let is_near = lead.is_near(&ack);
        let (next, learner) = (lead.sequencer.next(), lead.learners.get_mut(&from));
        let is_known = learner.is_some() || view.has(from);
        if let Some(learner) = learner {
            learner.has_state = ack.held >= self.log.first();
            let is_following = ack.epoch == view.epoch && learner.has_state;
            learner.heard_at = self.now;
            learner.is_at(is_following.then_some(ack.held), is_near, next);
        }
        if !is_known {
            return self.send_away(from, Ended::NotInView);
        } else if ack.epoch < view.epoch {
            if let Some(new_view) = self.ballot.fixed() {
                let message = Message::NewView(new_view.clone());
                self.post(from, message);
            }
            return;
        } else if ack.epoch > view.epoch {
            // It answers another sequencer's beats.
            return;
        }
        lead.on_answer(from, ack.beat, self.settings.silence, self.now);
        self.recycle();
    }

    /// Take back the credits of messages that all answering members have handled.
    pub(crate) fn recycle(&mut self) {
        let (now, silence, is_held_back) = (self.now, self.settings.silence, self.is_held_back());
        let Some(lead) = &mut self.lead else { return };
        let answering = self.marks.values().filter(|mark| mark.heard_at + silence >= now);
        let consumed = answering.map(Mark::consumed).min().unwrap_or(self.delivered).min(self.delivered);
        if !is_held_back {
            lead.take_back(consumed, now);
        }
        self.mine.set_limit(lead.own_limit());
        let all = self.marks.values().map(Mark::consumed);
        let learners = lead.learners.values().filter_map(|learner| learner.held.or(learner.state_end));
        let everywhere = all.chain(learners).min().unwrap_or(self.delivered).min(self.delivered);
        let kept = lead.sequencer.next().saturating_sub(self.settings.kept as u64);
        let kept = kept.max(self.log.first_within(KEPT_BYTES).min(lead.sequencer.recycled())).min(self.log.held());
        lead.freed = lead.freed.max(everywhere).max(kept);
        self.log.free(lead.freed);
    }

    /// The token has been at all members.
    pub(crate) fn on_token(&mut self, epoch: Epoch, round: u32, consumed: Number) {
        let consumed = consumed.min(self.delivered);
        let view = self.ballot.view();
        if !self.ballot.is_open() || epoch != view.epoch {
            return;
        }
        let Some(slot) = view.slot(self.me.id) else { return };
        let is_held_back = self.is_held_back();
        if let Some(lead) = &mut self.lead {
            // An earlier one that was late says the truth, too.
            if !is_held_back {
                lead.take_back(consumed, self.now);
            }
            if round == lead.token.round {
                lead.token.again_at = self.now;
            }
            for mark in self.marks.values_mut() {
                mark.has_handled(epoch, consumed);
            }
            self.recycle();
            return;
        }
        // Each once: where no member leads it would go round for ever, and a network that doubles messages would make ever more of it.
        if (epoch, round) > self.last_token {
            self.last_token = (epoch, round);
            let next = view.members[(slot + 1) % view.members.len()].id;
            self.post(next, Message::Token { epoch, round, consumed });
        }
    }

    /// While many messages are in flight, a token collects what all have handled. The token goes round and round: beats alone, some milliseconds apart,
    /// would give credits back more slowly than a group can use them. A member without others asks none.
    pub(crate) fn send_token(&mut self) {
        let (Some(lead), true) = (&mut self.lead, self.ballot.is_open()) else { return };
        let in_flight = lead.sequencer.next() - lead.sequencer.recycled();
        if in_flight * 4 < self.settings.capacity as u64 {
            return;
        }
        if lead.view.members.len() < 2 {
            return self.recycle();
        }
        if lead.token.again_at > self.now {
            return;
        }
        lead.token.round += 1;
        lead.token.again_at = self.now + self.settings.beat / 2;
        let (epoch, round, consumed) = (lead.sequencer.epoch, lead.token.round, self.delivered);
        let slot = lead.view.slot(lead.own).unwrap_or(0);
        let next = lead.view.members[(slot + 1) % lead.view.members.len()].id;
        self.post(next, Message::Token { epoch, round, consumed });
    }

    /// What the sequencer does as time passes.
    pub(crate) fn lead_on(&mut self) {
        if self.lead.is_none() || !self.ballot.is_open() {
            return;
        }
        self.on_own_time();
        self.send_token();
        let (silence, now, safe) = (self.settings.silence, self.now, self.safe());
        let is_settled = self.is_settled();
        let Some(lead) = &mut self.lead else { return };
        let is_due = lead.beat_at <= now;
        if is_due {
            lead.beat_at = now + self.settings.beat;
        }
        // One that is heard, and hears no answers, leaves its work to another.
        lead.unanswered = if lead.has_lease(now) { 0 } else { lead.unanswered.saturating_add(is_due.into()) };
        if is_due && lead.unanswered <= MOST_UNANSWERED {
            let beat = lead.beat(now, safe, is_settled);
            lead.on_answer(lead.own, beat.beat, silence, now);
            self.repair.known_end = self.repair.known_end.max(beat.next);
            self.multicast(Message::Beat(beat));
            self.look_for_gap();
        }
        self.put_out();
        self.send_states();
        let changes = self.changes();
        if !changes.add.is_empty() || !changes.remove.is_empty() || self.is_stuck() {
            self.propose(changes);
        }
    }

    /// Whether a majority knows that the view is current. Until then the others may need the promise of a process that is in it no
    /// more.
    pub(crate) fn is_settled(&self) -> bool {
        let epoch = self.ballot.epoch();
        let knows = |ack: &Ack| ack.epoch == epoch && ack.beat > 0;
        let has_answered = |id| self.marks.get(&id).is_some_and(|mark| mark.last_ack.as_ref().is_some_and(knows));
        match self.lead {
            Some(_) => self.ballot.view().is_majority(|id| self.is_me(id) || has_answered(id)),
            None => self.settled == epoch,
        }
    }

    /// Send away the members that are put out.
    fn put_out(&mut self) {
        if self.is_settled() {
            for (id, why) in std::mem::take(&mut self.put_out) {
                self.send_away(id, why);
            }
        }
    }

    /// The sequencer's own progress counts like the others'.
    fn on_own_time(&mut self) {
        let held = self.log.held();
        if let Some(lead) = &mut self.lead {
            let missing = (held < lead.sequencer.next()).then_some(held);
            lead.stuck_since = match (missing, lead.stuck_since) {
                (Some(number), Some((since, at))) if since == number => Some((number, at)),
                (Some(number), _) => Some((number, self.now)),
                (None, _) => None,
            };
        }
        self.recycle();
    }

    /// A message has a number, and no member has it: the epoch has to end in front of it.
    fn is_stuck(&self) -> bool {
        let since = self.lead.as_ref().and_then(|lead| lead.stuck_since);
        since.is_some_and(|(number, at)| at + STUCK + self.patience_for(number) <= self.now)
    }

    /// The processes that join and the members that leave, if it is time.
    fn changes(&mut self) -> Changes {
        let (now, settings) = (self.now, &self.settings);
        let Some(lead) = &mut self.lead else { return Changes::default() };
        let next = lead.sequencer.next();
        for learner in lead.learners.values_mut() {
            let is_ready = learner.held.is_some_and(|held| learner.is_near || held + ALMOST >= next);
            learner.ready_since = is_ready.then(|| learner.ready_since.unwrap_or(now));
        }
        let patience = settings.patience;
        lead.learners.retain(|_, learner| learner.heard_at + patience > now);
        let waiting = lead.learners.values().any(|learner| learner.ready_since.is_none());
        let ready = lead.learners.values().filter(|learner| learner.ready_since.is_some());
        let is_time = |learner: &Learner| !waiting || learner.ready_since.is_some_and(|since| since + GATHER <= now);
        let add = match ready.clone().any(is_time) {
            true => ready.map(|learner| learner.member.clone()).collect(),
            false => vec![],
        };
        let mut remove = lead.leaving.clone();
        remove.extend(self.marks.iter().filter(|(_, mark)| self.is_given_up(mark)).map(|(id, _)| *id));
        remove.extend(self.too_slow());
        let changes = Changes { add, remove };
        if self.would_go_on(&changes) { changes } else { Changes::default() }
    }

    /// Whether the next view would have a majority of members that answer. If not, more silent members have to go at the same
    /// time.
    fn would_go_on(&self, changes: &Changes) -> bool {
        let mut view = self.ballot.view().clone();
        view.members.retain(|member| !changes.remove.contains(&member.id));
        view.members.extend(changes.add.iter().cloned());
        let answers = |mark: &Mark| mark.has_answered(self.now.saturating_sub(self.settings.beat * 3));
        let is_new = |id| changes.add.iter().any(|member| member.id == id);
        view.is_majority(|id| self.is_me(id) || is_new(id) || self.marks.get(&id).is_some_and(answers))
    }

    /// The members that the group has waited for too long, and those that need messages that are not kept any more.
    fn too_slow(&mut self) -> Vec<MemberId> {
        let (now, capacity) = (self.now, self.settings.capacity as u64);
        let Some(lead) = &mut self.lead else { return vec![] };
        let is_waiting = lead.sequencer.is_exhausted();
        lead.waits_since = is_waiting.then(|| lead.waits_since.unwrap_or(now));
        let waited = |bound: Time| lead.waits_since.is_some_and(|since| since + bound <= now);
        let is_over = self.settings.slow.is_some_and(waited);
        let recycled = lead.sequencer.recycled();
        let first = self.log.first();
        let is_slow = |ack: Ack| is_over && ack.consumed < recycled + capacity / 4 || ack.held < first;
        self.marks.iter().filter(|(_, mark)| mark.last_ack.is_some_and(is_slow)).map(|(id, _)| *id).collect()
    }

    /// A process wants to join.
    pub(crate) fn on_join(&mut self, member: Member, held: Option<Number>) {
        let (view, now) = (self.ballot.view(), self.now);
        if self.role != Role::Member || !self.ballot.is_open() || view.has(member.id) {
            return;
        }
        match &mut self.lead {
            Some(lead)
                if view.members.len() + lead.learners.len() >= SENDERS && !lead.learners.contains_key(&member.id) =>
            {
                self.send_away(member.id, Ended::Full);
            }
            Some(lead) => {
                let id = member.id;
                let learner = lead.learners.entry(id).or_insert_with(|| Learner::new(member, now));
                let has_state = held.is_some_and(|held| held >= self.log.first());
                (learner.heard_at, learner.has_state) = (now, has_state);
            }
            None => {
                let sequencer = view.sequencer;
                self.post(sequencer, Message::Join { member, held });
            }
        }
    }

    /// Ask the program for its state, for each learner that has none.
    fn send_states(&mut self) {
        let now = self.now;
        let Some(lead) = &mut self.lead else { return };
        let is_due = |learner: &&mut Learner| {
            !learner.has_state && learner.state_sent_at.is_none_or(|at| at + STATE_AGAIN <= now)
        };
        let due = lead.learners.values_mut().filter(is_due).map(|learner| {
            learner.state_sent_at = Some(now);
            learner.member.id
        });
        due.collect::<Vec<_>>().into_iter().for_each(|joiner| self.take_state(joiner, true));
    }

    /// A member wants to leave, or a process that was to become one. The next view would wait for such a process for the patience.
    pub(crate) fn on_leave(&mut self, from: MemberId) {
        if self.ballot.is_open() && !self.ballot.view().has(from) {
            self.lead.as_mut().map(|lead| lead.learners.remove(&from));
            self.send_away(from, Ended::Left);
        } else if let Some(lead) = &mut self.lead {
            lead.leaving.insert(from);
        }
    }
}
