//! The path of a message: submitted, stamped, held, delivered; and the repair of gaps.

use std::rc::Rc;

use am_wire::stamp::Stamp;
use bytes::Bytes;

use crate::log::{Content, Entry, Level, Long};
use crate::member::{Core, Delivery, Role};
use crate::message::{Ack, Message, Stamped};
use crate::mutants::{self, Mutant};
use crate::outgoing::Submission;
use crate::settings::Dissemination;
use crate::transfer::{STATE_AGAIN, time_of};
use crate::view::{Epoch, MemberId, Number, Time};

/// The most messages in an answer to a request for repair, and the most bytes.
const REPAIRED: u64 = 512;
const REPAIRED_BYTES: usize = 64 << 10;

/// The time that is allowed for a content doubles so often, with each request to a member that has it.
const MOST_DOUBLED: u32 = 5;

/// A member that is not among the first to acknowledge a safe message does so after this time.
const LAZY: Time = Time::from_millis(3);

impl Core {
    /// Submit what credit allows. The content of a long message goes to all members, and only its order passes the sequencer.
    pub(crate) fn submit(&mut self) {
        while self.ballot.is_open()
            && self.role == Role::Member
            && let Some(next) = self.mine.next(self.longest(), self.now, self.settings.resend)
        {
            // An earlier epoch's members have the content, or fetch it.
            if next.is_first && next.payload.len() > self.settings.apart {
                self.multicast(Message::Data { sender: self.me.id, id: next.id, payload: next.payload.clone() });
            }
            self.submit_one(next);
        }
    }

    /// The longest message that may leave.
    fn longest(&self) -> usize {
        if self.holds_contents { self.settings.apart } else { usize::MAX }
    }

    pub(crate) fn submit_again(&mut self) {
        if self.ballot.is_open() && self.mine.again_at().is_some_and(|at| at <= self.now) {
            for again in self.mine.again(self.now, self.settings.resend) {
                self.submit_one(again);
            }
        }
    }

    fn submit_one(&mut self, submission: Submission) {
        let (seq, level, content) = (submission.seq, submission.level, self.content_of(submission));
        let (epoch, sequencer) = (self.ballot.epoch(), self.ballot.view().sequencer);
        if self.is_me(sequencer) {
            self.on_submit(sequencer, epoch, seq, level, content);
        } else {
            self.post(sequencer, Message::Submit { epoch, seq, level, content });
        }
    }

    fn content_of(&self, Submission { id, payload, .. }: Submission) -> Content {
        match payload.len() > self.settings.apart {
            true => Content::Apart(Long { id, length: payload.len() as u64 }),
            false => Content::Here(payload),
        }
    }

    /// An own message of this epoch that was submitted.
    pub fn submitted(&self, seq: u32) -> Option<(Level, Content)> {
        let submission = self.mine.submitted(seq)?;
        Some((submission.level, self.content_of(submission)))
    }

    /// At the sequencer: the number of a message that its sender sends to all, and the sender's credit.
    pub fn fetch(&mut self, now: Time, from: MemberId, epoch: Epoch, seq: u32) -> Option<(Number, u32)> {
        self.advance(now);
        let slot = self.ballot.view().slot(from)? as u16;
        let stamp = self.stamp(epoch, slot, seq)?;
        Some((stamp.number, stamp.limit))
    }

    fn stamp(&mut self, epoch: Epoch, slot: u16, seq: u32) -> Option<Stamp> {
        let is_open = self.ballot.is_open() && epoch == self.ballot.epoch();
        let Some(lead) = self.lead.as_ref().filter(|_| is_open) else {
            self.counters.stale += 1;
            return None;
        };
        let stamp = lead.sequencer.stamp(self.now, slot, seq).ok();
        self.counters.not_stamped += u64::from(stamp.is_none());
        stamp
    }

    /// At the sequencer: give a message its number, and send it to all.
    pub(crate) fn on_submit(&mut self, from: MemberId, epoch: Epoch, seq: u32, level: Level, content: Content) {
        let Some(slot) = self.ballot.view().slot(from) else {
            self.counters.stale += 1;
            return;
        };
        let sender = slot as u16;
        let Some(Stamp { number, limit, .. }) = self.stamp(epoch, sender, seq) else { return };
        let stamped = Stamped { epoch, number, sender, seq, limit, level, content };
        self.multicast(Message::Stamped(stamped.clone()));
        self.on_stamped(stamped);
    }

    /// A message has its place in the order.
    pub(crate) fn on_stamped(&mut self, stamped: Stamped) {
        let Stamped { epoch, number, sender, seq, limit, level, content } = stamped;
        let view = self.ballot.view();
        let Some(sender) = view.members.get(usize::from(sender)).map(|member| member.id) else { return };
        let is_stale = !self.ballot.is_open() || epoch != view.epoch;
        if is_stale {
            self.counters.stale += 1;
            return;
        }
        if self.is_me(sender) {
            self.mine.set_limit(limit);
        }
        let (long, payload) = match content {
            Content::Here(payload) => (None, payload),
            Content::Apart(long) => (Some(long), Bytes::new()),
        };
        self.place(Entry { epoch, number, sender, seq, level, long, payload });
    }

    /// A message has its place in the order. The content of a long one may still be on its way: then it is a gap like any other.
    fn place(&mut self, entry: Entry) {
        let Some(long) = entry.long.filter(|_| entry.payload.is_empty()) else { return self.hold(entry) };
        let (sender, number) = (entry.sender, entry.number);
        let own = self.mine.payload(long.id).filter(|_| self.is_me(sender));
        match own.or_else(|| self.apart.content(sender, long.id)).cloned() {
            Some(payload) => self.hold(Entry { payload, ..entry }),
            None if number >= self.log.held() => {
                self.repair.known_end = self.repair.known_end.max(number.saturating_add(1));
                self.apart.wait(long, entry);
                self.look_for_gap();
            }
            None => (),
        }
    }

    /// A missing message is asked for after this time. The content of a long one is probably on its way.
    pub(crate) fn patience_for(&self, number: Number) -> Time {
        self.content_time(number).map_or(self.settings.gap, |content| self.settings.resend + content)
    }

    /// If the content of this message is awaited: the time that all awaited contents may take.
    fn content_time(&self, number: Number) -> Option<Time> {
        self.apart.awaited(number).map(|_| time_of(self.apart.awaited_bytes()))
    }

    /// The content of a long message has arrived, before its place is known or afterwards. Another member sends it only if it is asked.
    pub(crate) fn on_data(&mut self, from: MemberId, sender: MemberId, id: u64, payload: Bytes) {
        if from != sender && !self.apart.awaits(sender, id) {
            return;
        }
        let held = self.log.held();
        if let Some(entry) = self.apart.arrived(sender, id, payload) {
            self.hold(entry);
        }
        if from != sender {
            self.is_repaired(held);
        }
        self.install();
    }

    /// Another member lacks this content.
    pub(crate) fn on_need_data(&mut self, asker: MemberId, sender: MemberId, id: u64, number: Number) {
        let is_it = |entry: &&Rc<Entry>| entry.sender == sender && entry.long.is_some_and(|long| long.id == id);
        let kept = self.log.get(number).filter(is_it).map(|entry| &entry.payload);
        let own = self.mine.payload(id).filter(|_| self.is_me(sender));
        if let Some(payload) = kept.or(own).or_else(|| self.apart.content(sender, id)).cloned() {
            self.post(asker, Message::Data { sender, id, payload });
        }
    }

    /// Keep a message of the log. In another epoch's log its number is another message's.
    fn hold(&mut self, entry: Entry) {
        let (level, number) = (entry.level, entry.number);
        if self.ballot.epoch_at(number).is_some_and(|epoch| epoch != entry.epoch) {
            self.counters.stale += 1;
            return;
        }
        // As the sequencer does, before it says so in a beat: a fast group gives more numbers meanwhile than a log keeps.
        self.log.free(self.log.held().saturating_sub(self.settings.kept as u64).min(self.delivered));
        let most = self.settings.kept + self.settings.capacity;
        self.repair.known_end = self.repair.known_end.max(number.saturating_add(1));
        if self.is_me(entry.sender) && entry.epoch == self.ballot.epoch() {
            let fetches = self.settings.dissemination == Dissemination::Fetch;
            self.mine.numbered(entry.seq, fetches, self.now, self.settings.resend);
        }
        if self.log.insert(Rc::new(entry), most) && level == Level::Safe {
            let lazy = if self.acks_at_once { Time::ZERO } else { LAZY };
            let at = self.now + lazy;
            self.ack_at = Some(self.ack_at.map_or(at, |other| other.min(at)));
        }
        self.look_for_gap();
    }

    /// Whether this member acknowledges safe messages at once. One member more than needed does, so that one may be missing.
    pub(crate) fn is_among_first(&self) -> bool {
        let view = self.ballot.view();
        let first = (1..view.members.len())
            .find(|count| view.meets_each_majority(|id| view.rank(id).is_some_and(|rank| rank < *count)));
        view.rank(self.me.id).is_some_and(|rank| first.is_none_or(|first| rank <= first))
    }

    /// All hear what this member holds, if it is time.
    pub(crate) fn acknowledge(&mut self) {
        if self.ack_at.is_some_and(|at| at <= self.now) && self.ballot.is_open() {
            self.ack_at = None;
            if self.log.held() > self.acked {
                self.acked = self.log.held();
                self.multicast(Message::Ack(self.own_ack()));
            }
        }
    }

    /// How far another member is. An acknowledgement may come late or again, also from a stranger that has recorded it: without news it does not
    /// count.
    pub(crate) fn mark(&mut self, from: MemberId, ack: &Ack) {
        let mark = self.marks.entry(from).or_default();
        let Some(merged) = mark.last_ack.map_or(Some(*ack), |last| last.merge(ack)) else { return };
        mark.hear(self.now);
        mark.last_ack = Some(merged);
        if ack.epoch == self.ballot.epoch() {
            mark.held = mark.held.max(ack.held);
        }
    }

    /// Each majority of the view has a member that holds all before this number.
    pub(crate) fn safe(&self) -> Number {
        let held = self.marks.values().map(|mark| mark.held).chain([self.log.held()]);
        held.filter(|held| *held > self.safe_to && self.is_safe(held - 1)).max().unwrap_or(self.safe_to)
    }

    /// Whether each majority of the view has a member that holds all up to this number.
    fn is_safe(&self, number: Number) -> bool {
        if number < self.safe_to {
            return true;
        }
        let holds = |id: MemberId| match self.is_me(id) {
            true => self.log.held() > number,
            false => self.marks.get(&id).is_some_and(|mark| mark.held > number),
        };
        self.ballot.view().meets_each_majority(holds)
    }

    /// The next message for the program.
    pub(crate) fn deliver(&mut self) -> Option<Delivery> {
        if !self.ballot.is_open() || self.role != Role::Member || !self.ballot.view().has(self.me.id) {
            return None;
        }
        let number = self.delivered;
        let entry = self.log.get(number).filter(|_| number < self.log.held())?;
        if entry.level == Level::Safe && !self.is_safe(number) && !mutants::is_active(Mutant::SafeAtOnce) {
            return None;
        }
        let (sender, level, payload) = (entry.sender, entry.level, entry.payload.clone());
        if let Some(long) = entry.long {
            self.apart.forget(sender, long.id);
        }
        let is_mine = self.is_me(sender) && entry.epoch > self.returned;
        if !self.givings.is_empty() {
            let entry = entry.clone();
            self.give_delivered(&entry);
        }
        self.delivered += 1;
        let own = is_mine.then(|| self.mine.delivered()).flatten();
        Some(Delivery { number, sender, level, payload, own })
    }

    /// Begin or end the wait for missing messages.
    pub(crate) fn look_for_gap(&mut self) {
        let end = self.log_end();
        let from = self.repair.from;
        self.repair.at = match (self.log.gap(end), self.repair.at) {
            (None, _) => None,
            (Some((first, _)), Some(at)) if first == from => Some(at),
            (Some((first, _)), _) => Some(self.now + self.patience_for(first)),
        };
        if self.log.held() != from {
            (self.repair.from, self.repair.copies) = (self.log.held(), 0);
        }
    }

    /// Beyond the last number that is known to be part of the log.
    fn log_end(&self) -> Number {
        match self.ballot.pending() {
            Some(pending) => pending.base(),
            None => self.log.end().max(self.repair.known_end),
        }
    }

    /// Ask for the first gap, each time another member that may have what is missing.
    pub(crate) fn ask_for_gap(&mut self) {
        if self.repair.at.is_none_or(|at| at > self.now) || mutants::is_active(Mutant::GapForEver) {
            return;
        }
        let Some((from, to)) = self.log.gap(self.log_end()) else { return };
        let pending = self.ballot.pending();
        let epoch = pending.map_or(self.ballot.epoch(), |pending| pending.view.epoch);
        let near = pending.map_or(self.ballot.view(), |pending| &pending.view);
        let rank = near.rank(self.me.id).unwrap_or(0);
        let awaited = self.apart.awaited(from);
        // A content's sender has it, and those that have said so.
        let holds = |id: MemberId| {
            awaited.is_some_and(|(sender, _)| sender == id) || self.marks.get(&id).is_some_and(|mark| mark.held > from)
        };
        let voters = || self.ballot.voters().into_iter().filter(|id| !near.has(*id));
        let others = || near.ids().chain(voters()).filter(|id| !self.is_me(*id)).collect();
        // Only the sequencer knows a process that joins.
        let mut others: Vec<MemberId> = if self.learns() { vec![near.sequencer] } else { others() };
        let count = others.len();
        others.rotate_left(rank.min(count));
        others.sort_by_key(|id| !holds(*id));
        let asked = others.get(self.repair.attempt % count.max(1)).copied();
        // A busy network gets further copies of a long content ever more seldom.
        let content = self.content_time(from).unwrap_or_default();
        let pause =
            self.settings.resend.min(self.settings.gap * 5) + content * (1 << self.repair.copies.min(MOST_DOUBLED));
        self.repair.at = Some(self.now + pause);
        let needs_state =
            self.ballot.pending().is_some() && self.repair.state_again_at <= self.now && !self.takes_state();
        if let Some(holder) = self.repair.state_of.take().filter(|_| needs_state) {
            self.repair.state_again_at = self.now + STATE_AGAIN;
            self.post(holder, Message::NeedState { epoch });
        } else if let Some(asked) = asked {
            self.repair.attempt = self.repair.attempt.wrapping_add(1);
            self.repair.copies += u32::from(holds(asked));
            let message = match awaited {
                Some((sender, Long { id, .. })) => Message::NeedData { sender, id, number: from },
                None => Message::Repair { epoch, from, to: to.min(from + REPAIRED) },
            };
            self.post(asked, message);
        }
    }

    /// Another member lacks these.
    pub(crate) fn on_repair(&mut self, asker: MemberId, epoch: Epoch, from: Number, to: Number) {
        let is_pending = self.ballot.pending().is_some_and(|pending| pending.view.epoch == epoch);
        if epoch != self.ballot.epoch() && !is_pending {
            return;
        }
        // The pending view's log has other messages from there on.
        let to = if let Role::Diverged { cut, .. } = self.role { to.min(cut) } else { to };
        let here = (from..to.min(from.saturating_add(REPAIRED))).filter_map(|number| self.log.get(number));
        let order = |entry: &Rc<Entry>| match entry.long {
            Some(_) => Entry { payload: Bytes::new(), ..**entry },
            None => (**entry).clone(),
        };
        let mut bytes = 0;
        let fits = |entry: &Entry| {
            let is_first = bytes == 0;
            bytes += entry.payload.len() + 64;
            is_first || bytes <= REPAIRED_BYTES
        };
        let entries: Vec<Entry> = here.map(order).take_while(fits).collect();
        let first = self.log.first();
        if !entries.is_empty() || from < first {
            self.post(asker, Message::Repaired { epoch, entries, first });
        }
    }

    /// Another member has sent what was missing.
    pub(crate) fn on_repaired(&mut self, from: MemberId, epoch: Epoch, entries: Vec<Entry>, first: Number) {
        let base = self.ballot.pending().filter(|pending| pending.view.epoch == epoch).map(|pending| pending.base());
        if self.role != Role::Member || base.is_none() && !(epoch == self.ballot.epoch() && self.ballot.is_open()) {
            return;
        }
        let held = self.log.held();
        for entry in entries.into_iter().filter(|entry| base.is_none_or(|base| entry.number < base)) {
            self.place(entry);
        }
        if self.log.held() < first {
            self.repair.state_of = Some(from);
        }
        self.is_repaired(held);
    }

    /// A member has answered. If the gap before is filled, the next one is asked for at once, and of the same member.
    fn is_repaired(&mut self, held: Number) {
        if self.log.held() > held {
            self.counters.repaired += self.log.held() - held;
            self.repair.attempt = self.repair.attempt.wrapping_sub(1);
            self.repair.at = self.repair.at.map(|_| self.now);
            self.ask_for_gap();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::Settings;
    use crate::view::Member;

    #[test]
    fn an_old_acknowledgement_changes_nothing() {
        let me = Member { id: MemberId(1), name: "m1".into(), link: 0 };
        let mut core = Core::found(me, Settings::default(), Time::ZERO);
        let ack = |epoch, beat, held| Ack { epoch: Epoch(epoch), beat, held, consumed: held };
        let mut mark = |now, ack| {
            core.now = Time::from_secs(now);
            core.mark(MemberId(2), &ack);
            let mark = core.marks[&MemberId(2)];
            (mark.heard_at.as_secs(), mark.last_ack.expect("one"), mark.held)
        };
        assert_eq!(mark(1, ack(1, 5, 7)), (1, ack(1, 5, 7), 7));
        assert_eq!(mark(2, ack(1, 4, 6)), (1, ack(1, 5, 7), 7), "older");
        assert_eq!(mark(3, ack(1, 5, 7)), (1, ack(1, 5, 7), 7), "the same again");
        assert_eq!(mark(4, ack(1, 5, 9)), (4, ack(1, 5, 9), 9));
        assert_eq!(mark(5, ack(1, 6, 8)), (5, ack(1, 6, 9), 9), "two that crossed");
        assert_eq!(mark(6, ack(2, 1, 3)), (6, ack(2, 1, 3), 9), "another epoch");
        assert_eq!(mark(7, ack(1, 9, 9)), (6, ack(2, 1, 3), 9));
    }
}
