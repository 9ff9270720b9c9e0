//! A member's state on its way to another process, in pieces: parts of the program's state, and the messages that were delivered after each was asked for.
//!
//! ```text
//!   giver ── part ─ messages ─ part ─ .. ─ messages ─ state: all before this number ──▶ taker
//!         ◀────────────── all pieces before this one are here ──────────────
//! ```
//!
//! The order goes on meanwhile: nothing of the log is kept for the taker before the last piece. A taker that is slower than the order does not stop it: beyond a bound its
//! pieces are dropped, and it begins anew later.

use std::rc::Rc;

use bytes::Bytes;

use crate::leader::Learner;
use crate::log::Entry;
use crate::member::{Core, Output, Role};
use crate::message::{Message, PieceContent, State};
use crate::transfer::{Giving, Item, Late, MOST_DOUBLED, MOST_PAUSES, PAUSE, PIECE, Place, time_of};
use crate::view::{MemberId, Time};

impl Core {
    /// Ask the program for its state, for this process, unless one is on its way there. A program may need longer for a state than a sequencer may
    /// be silent: if each request had an answer, those that pile up meanwhile would end the next epoch, too.
    pub(crate) fn take_state(&mut self, to: MemberId, is_for_learner: bool) {
        let now = self.now;
        self.states.retain(|_, until| *until > now);
        let is_on_its_way = self.states.contains_key(&to) || self.givings.contains_key(&to) || self.asked == Some(to);
        if is_on_its_way || self.late.get(&to).is_some_and(|late| late.again_at > now) {
            return;
        }
        self.next_state += 1;
        let id = u64::from(self.ballot.epoch().0) << 32 | u64::from(self.next_state);
        self.givings.insert(to, Giving::new(id, is_for_learner, now));
        self.ask_for_part(to);
    }

    /// One part is asked for at a time: it has the effect of all that was delivered until then, and of nothing else.
    fn ask_for_part(&mut self, joiner: MemberId) {
        let Some(giving) = self.givings.get_mut(&joiner).filter(|giving| giving.queue.is_empty()) else { return };
        if let (Some(place), None) = (giving.place, self.asked) {
            giving.queue.push_back(Item::Awaited);
            giving.has_begun = true;
            self.asked = Some(joiner);
            self.out.push_back(Output::TakeState { joiner, place });
        }
    }

    /// All of the program's state, as [`Output::TakeState`] asked for it: it contains all messages that were delivered.
    pub fn state_taken(&mut self, joiner: MemberId, state: Bytes) {
        self.part_taken(joiner, &state, None);
    }

    /// A part of the program's state, and where the next one begins. It has the effect of all messages that were delivered when [`Output::TakeState`]
    /// asked for it, and of no others.
    pub fn part_taken(&mut self, joiner: MemberId, part: &Bytes, next: Option<Place>) {
        if self.asked == Some(joiner) {
            self.asked = None;
        }
        let Some(giving) = self.givings.get_mut(&joiner) else { return };
        let is_first = giving.window.is_empty() && giving.acked == 0 && giving.queue.len() == 1;
        if is_first && next.is_none() && part.len() <= PIECE {
            self.givings.remove(&joiner);
            return self.send_whole(joiner, part.clone());
        }
        giving.on_part(part, next);
    }

    /// A short state is one message.
    fn send_whole(&mut self, joiner: MemberId, state: Bytes) {
        self.states.insert(joiner, self.now + self.settings.beat + time_of(state.len() as u64));
        self.late.remove(&joiner);
        if let Some(learner) = self.lead.as_mut().and_then(|lead| lead.learners.get_mut(&joiner)) {
            learner.state_end = Some(self.delivered);
        }
        let state = self.state(Some(state));
        self.post(joiner, Message::State(state));
    }

    fn state(&self, state: Option<Bytes>) -> State {
        let (view, history) = (self.ballot.view().clone(), self.ballot.history().to_vec());
        State { view, history, number: self.delivered, state }
    }

    /// A message is delivered here: those that take the state get it after what they have.
    pub(crate) fn give_delivered(&mut self, entry: &Rc<Entry>) {
        self.givings.values_mut().for_each(|giving| giving.on_delivered(entry));
    }

    /// Send the pieces for which there is room. Called when nothing is to be delivered: what was is one piece then.
    pub(crate) fn give_on(&mut self) {
        let (now, was_held_back) = (self.now, self.is_held_back());
        for to in self.givings.keys().copied().collect::<Vec<_>>() {
            self.ask_for_part(to);
            let Some(giving) = self.givings.get_mut(&to) else { continue };
            giving.make_pieces(now);
            if giving.is_whole() && giving.has_room() && self.may_end(to) {
                self.end_giving(to);
            }
            self.send_pieces(to);
        }
        self.held_back_since = self.is_held_back().then(|| self.held_back_since.unwrap_or(now));
        let most = self.settings.slow.unwrap_or(self.settings.patience);
        if self.held_back_since.is_some_and(|since| since + most <= now) {
            let slow: Vec<MemberId> = self.held_back_by().collect();
            slow.into_iter().for_each(|joiner| self.is_late(joiner));
        }
        if was_held_back && !self.is_held_back() {
            self.recycle();
        }
    }

    /// Whether credits wait for a process that joins: messages come faster than it takes them.
    pub(crate) fn is_held_back(&self) -> bool {
        self.held_back_by().next().is_some()
    }

    /// The processes for which credits wait. One that was too slow nevertheless is not waited for again.
    fn held_back_by(&self) -> impl Iterator<Item = MemberId> {
        let (now, silence) = (self.now, self.settings.silence);
        let lead = self.lead.as_ref();
        let (next, first) = (lead.map_or(0, |lead| lead.sequencer.next()), self.log.first());
        let takes = |id: &MemberId| self.givings.get(id).is_some_and(Giving::goes_on);
        let givings = self.givings.iter().filter(move |(_, giving)| lead.is_some() && giving.holds_back(now, silence));
        let follows =
            move |(id, learner): &(&MemberId, &Learner)| !takes(id) && learner.holds_back(next, first, now, silence);
        let learners = lead.into_iter().flat_map(|lead| &lead.learners).filter(follows);
        let all = givings.map(|(id, _)| *id).chain(learners.map(|(id, _)| *id));
        all.filter(|id| !self.late.contains_key(id))
    }

    /// A process is too slow to join while messages come so fast. It is given a state again after a pause.
    fn is_late(&mut self, joiner: MemberId) {
        let count = self.late.get(&joiner).map_or(0, |late| late.count);
        let again_at = self.now + PAUSE * (1 << count.min(MOST_PAUSES));
        self.late.insert(joiner, Late { count: count.saturating_add(1), again_at });
    }

    /// Whether the state may go into a log of this epoch. A process that joins is known to the sequencer again soon after each change of the view.
    fn may_end(&self, to: MemberId) -> bool {
        let knows = || self.lead.as_ref().is_some_and(|lead| lead.learners.contains_key(&to));
        let is_for_learner = self.givings.get(&to).is_some_and(|giving| giving.is_for_learner);
        self.role == Role::Member && (!is_for_learner || self.ballot.is_open() && knows())
    }

    fn end_giving(&mut self, to: MemberId) {
        let (now, state) = (self.now, self.state(None));
        if let Some(learner) = self.lead.as_mut().and_then(|lead| lead.learners.get_mut(&to)) {
            (learner.state_end, learner.state_sent_at) = (Some(self.delivered), Some(now));
        }
        if let Some(giving) = self.givings.get_mut(&to) {
            giving.push(PieceContent::End(state), now);
            giving.has_ended = true;
        }
    }

    fn send_pieces(&mut self, to: MemberId) {
        let Some(giving) = self.givings.get_mut(&to) else { return };
        let first = (giving.sent - giving.acked) as usize;
        let new = giving.window.iter().skip(first).cloned().map(|message| Output::Send { to, message });
        self.out.extend(new);
        giving.sent = giving.acked + giving.window.len() as u64;
    }

    /// The taker has all pieces before this one.
    pub(crate) fn on_piece_ack(&mut self, from: MemberId, id: u64, next: u64) {
        let Some(giving) = self.givings.get_mut(&from).filter(|giving| giving.id == id) else { return };
        let Some(count) = next.checked_sub(giving.acked).filter(|count| *count <= giving.window.len() as u64) else {
            return;
        };
        giving.heard_at = self.now;
        if let Some(learner) = self.lead.as_mut().and_then(|lead| lead.learners.get_mut(&from)) {
            learner.heard_at = self.now;
        }
        if count > 0 {
            giving.window.drain(..count as usize);
            (giving.acked, giving.sent) = (next, giving.sent.max(next));
            giving.attempts = 0;
        }
        // Others have arrived since: it is lost.
        let lost = giving.window.front().filter(|_| giving.soon_at <= self.now && giving.sent > giving.acked);
        let again = lost.cloned().map(|message| Output::Send { to: from, message });
        if count > 0 || again.is_some() {
            giving.wait(self.now);
        }
        self.out.extend(again);
        if giving.has_ended && giving.window.is_empty() {
            self.givings.remove(&from);
            self.late.remove(&from);
        }
    }

    /// Send again what was not acknowledged, and give up those that do not answer, are too slow, or ask another member from now on.
    pub(crate) fn give_on_time(&mut self) {
        let (now, patience) = (self.now, self.settings.patience);
        let leads = self.lead.is_some() || !self.ballot.is_open();
        let learner = |id: &MemberId| self.lead.as_ref().and_then(|lead| lead.learners.get(id));
        let has_state = |id: &MemberId| learner(id).is_some_and(|learner| learner.has_state);
        let mut late = vec![];
        let role = self.role;
        self.givings.retain(|to, giving| {
            if giving.is_too_late {
                late.push(*to);
            }
            let is_silent = !giving.window.is_empty() && giving.heard_at + patience <= now;
            let is_needed = !giving.is_for_learner || leads && !has_state(to);
            role == Role::Member && !giving.is_too_late && !is_silent && is_needed
        });
        late.into_iter().for_each(|to| self.is_late(to));
        self.late.retain(|_, late| late.again_at + patience + PAUSE * (1 << MOST_PAUSES) > now);
        let is_due = |giving: &&mut Giving| !giving.window.is_empty() && giving.again_at <= now;
        for giving in self.givings.values_mut().filter(is_due) {
            giving.attempts = (giving.attempts + 1).min(MOST_DOUBLED);
            giving.sent = giving.acked;
            giving.wait(now);
        }
    }

    /// When pieces are due again.
    pub(crate) fn gives_at(&self) -> Option<Time> {
        self.givings.values().filter_map(Giving::next_time).min()
    }

    /// The processes that were too slow for a state: more messages were sent meanwhile than may wait for one.
    pub fn late_joiners(&self) -> impl Iterator<Item = MemberId> + '_ {
        self.late.keys().copied()
    }
}
