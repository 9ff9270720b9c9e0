//! A member learns how far the order has got, without a message in it: for a read that misses nothing.
//!
//! ```text
//!   member                     others
//!   catch_up ── CatchUp ──────▶ as long as they are in this epoch
//!            ◀─ IsAt: number ── what they hold; the sequencer: what it has given
//!   a majority in one epoch: deliver up to the highest ──▶ CaughtUp
//! ```
//!
//! What was delivered as `Safe` anywhere before the question is held by a member of each majority, so by one that answers. What was delivered as `Agreed` has its
//! number from the sequencer, whose answer has to be among them. A member of a deposed sequencer's epoch finds no majority in it: one of each had promised
//! to leave it before the next epoch began.

use std::collections::BTreeMap;

use crate::log::Level;
use crate::member::{CatchUp, Core, Output, Role};
use crate::message::Message;
use crate::mutants::{self, Mutant};
use crate::view::{Epoch, MemberId, Number, Time};

impl Core {
    /// Deliver all messages that have been delivered anywhere, with this level, until now. [`Output::CaughtUp`] says when it is done. Returns its number.
    pub fn catch_up(&mut self, now: Time, level: Level) -> u64 {
        self.advance(now);
        let id = self.next_catch_up;
        self.next_catch_up += 1;
        let catch_up =
            CatchUp { level, epoch: self.ballot.epoch(), answers: BTreeMap::new(), again_at: self.now, end: None };
        self.catch_ups.insert(id, catch_up);
        self.ask_where_others_are();
        id
    }

    fn can_catch_up(&self) -> bool {
        self.role == Role::Member && self.ballot.is_open() && self.ballot.view().has(self.me.id)
    }

    /// All before this number are on their way to every member.
    fn reached(&self) -> Number {
        self.lead.as_ref().map_or(self.log.held(), |lead| lead.sequencer.next())
    }

    /// Ask those that have not answered. In another epoch all are asked again: what they said is about another order.
    pub(crate) fn ask_where_others_are(&mut self) {
        if self.catch_ups.is_empty() || !self.can_catch_up() {
            return;
        }
        let (epoch, now) = (self.ballot.epoch(), self.now);
        let others: Vec<MemberId> = self.ballot.view().ids().filter(|id| !self.is_me(*id)).collect();
        let mut catch_ups = std::mem::take(&mut self.catch_ups);
        for (id, catch_up) in &mut catch_ups {
            if catch_up.epoch != epoch {
                (catch_up.epoch, catch_up.end, catch_up.again_at) = (epoch, None, now);
                catch_up.answers.clear();
            }
            if catch_up.end.is_none() && catch_up.again_at <= now {
                catch_up.again_at = now + self.settings.resend;
                for to in others.iter().filter(|to| !catch_up.answers.contains_key(to)) {
                    self.post(*to, Message::CatchUp { epoch, id: *id });
                }
            }
        }
        self.catch_ups = catch_ups;
        self.know_end();
    }

    pub(crate) fn on_catch_up(&mut self, from: MemberId, epoch: Epoch, id: u64) {
        if self.can_catch_up() && epoch == self.ballot.epoch() {
            let number = self.reached();
            self.post(from, Message::IsAt { epoch, id, number });
        }
    }

    pub(crate) fn on_is_at(&mut self, from: MemberId, epoch: Epoch, id: u64, number: Number) {
        let is_current = self.can_catch_up() && epoch == self.ballot.epoch();
        if let Some(catch_up) = self.catch_ups.get_mut(&id).filter(|catch_up| is_current && catch_up.epoch == epoch) {
            catch_up.answers.insert(from, number);
            self.know_end();
        }
    }

    /// With the answers of a majority it is known how far to deliver.
    fn know_end(&mut self) {
        let (reached, me, view) = (self.reached(), self.me.id, self.ballot.view());
        for catch_up in self.catch_ups.values_mut().filter(|catch_up| catch_up.end.is_none()) {
            let has_answered = |id| id == me || catch_up.answers.contains_key(&id);
            let is_enough = catch_up.level == Level::Safe || has_answered(view.sequencer);
            if is_enough && (view.is_majority(has_answered) || mutants::is_active(Mutant::NoMajorityAsked)) {
                catch_up.end = Some(catch_up.answers.values().copied().fold(reached, Number::max));
            }
        }
    }

    /// The next one that is done.
    pub(crate) fn caught_up(&mut self) -> Option<Output> {
        if self.catch_ups.is_empty() || !self.can_catch_up() {
            return None;
        }
        let (epoch, delivered) = (self.ballot.epoch(), self.delivered);
        let is_done = |catch_up: &CatchUp| catch_up.epoch == epoch && catch_up.end.is_some_and(|end| end <= delivered);
        let id = self.catch_ups.iter().find(|(_, catch_up)| is_done(catch_up)).map(|(id, _)| *id)?;
        self.catch_ups.remove(&id);
        Some(Output::CaughtUp(id))
    }

    /// When members are asked again.
    pub(crate) fn asks_where_others_are_at(&self) -> Option<Time> {
        let waiting = self.catch_ups.values().filter(|catch_up| catch_up.end.is_none() && self.can_catch_up());
        waiting.map(|catch_up| catch_up.again_at).min()
    }
}
