//! Gives numbers, and the credits that bound them: a table of [`stamp`](am_wire::stamp), by which a network may stamp too.
//!
//! A credit stands for room for one message at every member. A sender needs one for each message. A credit is in one of three
//! places, and their sum is the group's capacity:
//!
//! ```text
//!   pool ──granted with a number──▶ a sender's ──a message is stamped──▶ in flight ──every member has handled it──▶ pool
//! ```

use std::fmt;
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;

use am_wire::group::GroupHeader;
use am_wire::stamp::{self, Destination, OpenStampsError, Opening, REMEMBERED, Refusal, SenderState, Stamp, Stamps};
use am_wire::{Address, HashKey};

use crate::mutants::{self, Mutant};
use crate::settings::{Dissemination, Settings};
use crate::view::{Epoch, Number, Time, View};

/// A table of stamps that the network reads, too.
#[derive(Clone)]
pub struct StampTable {
    /// The table.
    pub stamps: Arc<dyn Deref<Target = Stamps> + Send + Sync>,
    /// The key of its tags, or zeros.
    pub key: HashKey,
    /// The table's time, in nanoseconds, when the member's is 0.
    pub clock: u64,
    /// Lets the network send this number of copies of each message that it stamps. Returns whether it does.
    pub copy: Option<Rc<dyn Fn(usize) -> bool>>,
}

impl StampTable {
    /// A table that no network reads.
    pub(crate) fn private() -> StampTable {
        StampTable { stamps: Arc::new(Box::new(Stamps::new())), key: HashKey::default(), clock: 0, copy: None }
    }

    /// Whether the network can serve this destination. For copies it is asked to send this number of them.
    fn serves(&self, to: Destination, copies: usize) -> bool {
        to != Destination::Copies || self.copy.as_ref().is_some_and(|copy| copy(copies))
    }

    fn time(&self, time: Time) -> u64 {
        self.clock.saturating_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl fmt::Debug for StampTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StampTable").field("clock", &self.clock).finish_non_exhaustive()
    }
}

/// A network that stamps a frame at this moment keeps its table from being opened anew. It takes microseconds.
const OPEN_ATTEMPTS: usize = 10_000;

/// The number of a sender's first message of an epoch. Numbers wrap, and so early that every test sees it.
pub(crate) const FIRST_SEQ: u32 = u32::MAX - 1;

/// The most credits of a sender when an epoch begins.
const MOST_AT_ONCE: u64 = REMEMBERED as u64 / 2;

/// Gives the numbers of one epoch, until it is dropped.
#[derive(Debug)]
pub(crate) struct Sequencer {
    pub(crate) epoch: Epoch,
    group: u64,
    senders: usize,
    recycled: Number,
    capacity: u64,
    table: StampTable,
}

impl Sequencer {
    /// Begin an epoch at a number, without a lease. Messages before it that are not recycled use credits.
    pub(crate) fn new(
        view: &View,
        next: Number,
        recycled: Number,
        settings: &Settings,
        table: &StampTable,
    ) -> Sequencer {
        // With fewer, the senders of later slots would wait for credits that others hold and do not use.
        let capacity = settings.capacity.max(2 * view.members.len()) as u64;
        let recycled = recycled.clamp(next.saturating_sub(capacity), next);
        let share = (capacity / (2 * view.members.len().max(1) as u64)).clamp(1, MOST_AT_ONCE);
        let (mut pool, last) = (capacity - (next - recycled), view.members.len() - 1);
        let is_starved = mutants::is_active(Mutant::Starved) && view.epoch > Epoch(3);
        let sender = |(slot, address): (usize, Address)| {
            let limit = if is_starved && slot == last { 0 } else { share.min(pool) };
            pool -= limit;
            Some(SenderState { address, next: FIRST_SEQ, limit: FIRST_SEQ.wrapping_add(limit as u32) })
        };
        let senders: Vec<Option<SenderState>> = view.links().enumerate().map(sender).collect();
        let own = view.slot(view.sequencer);
        let copies: Vec<Address> =
            view.links().enumerate().filter(|(slot, _)| Some(*slot) != own).map(|(_, to)| to).collect();
        let to = match settings.dissemination {
            Dissemination::Multicast => Destination::Group,
            Dissemination::Copies => Destination::Copies,
            Dissemination::Fetch => Destination::Sender,
        };
        let opening = Opening {
            group: view.group,
            key: table.key,
            epoch: view.epoch.0,
            lease_until: 0,
            next,
            recycled,
            capacity: capacity as u32,
            share: share as u32,
            senders: &senders,
            to,
            copies: &copies,
        };
        let is_busy = || table.stamps.open(&opening) == Err(OpenStampsError::Busy);
        // A network that does not finish a stamp has crashed. Its table stays closed.
        let is_served = view.has_links() && table.serves(to, copies.len());
        let table = if is_served && !(0..OPEN_ATTEMPTS).all(|_| is_busy()) {
            table.clone()
        } else {
            let private = StampTable::private();
            _ = private.stamps.open(&Opening { key: private.key, ..opening });
            private
        };
        Sequencer { epoch: view.epoch, group: view.group, senders: senders.len(), recycled, capacity, table }
    }

    pub(crate) fn next(&self) -> Number {
        self.table.stamps.next()
    }

    pub(crate) fn recycled(&self) -> Number {
        self.recycled
    }

    fn sender(&self, slot: usize) -> SenderState {
        self.table.stamps.sender(slot).unwrap_or(SenderState { address: Address::default(), next: 0, limit: 0 })
    }

    /// No sender can get a credit before messages in flight are handled.
    pub(crate) fn is_exhausted(&self) -> bool {
        let has_none = |sender: SenderState| sender.next == sender.limit;
        self.table.stamps.pool() <= 0 && (0..self.senders).any(|slot| has_none(self.sender(slot)))
    }

    /// A sender's limit.
    pub(crate) fn limit(&self, slot: usize) -> u32 {
        self.sender(slot).limit
    }

    /// Each sender's limit.
    pub(crate) fn limits(&self) -> Vec<u32> {
        (0..self.senders).map(|slot| self.limit(slot)).collect()
    }

    /// Numbers are given until this time.
    pub(crate) fn renew(&self, until: Time) {
        self.table.stamps.renew(self.table.time(until));
    }

    /// Give no number any more.
    pub(crate) fn close(&self) {
        self.table.stamps.close();
    }

    /// The number of a message: the next, or the one that it had before.
    pub(crate) fn stamp(&self, now: Time, slot: u16, seq: u32) -> Result<Stamp, Refusal> {
        let header = GroupHeader::to_stamp(self.group, self.epoch.0, slot, seq);
        let header = GroupHeader { tag: header.tag_under(self.table.key), ..header };
        stamp::stamp(&self.table.stamps, &header, self.sender(slot.into()).address, self.table.time(now))
    }

    /// All before this number are handled everywhere: their credits are free. A sender without credit gets some.
    pub(crate) fn recycle(&mut self, to: Number) {
        let to = to.min(self.next()).max(self.recycled);
        let twice = if mutants::is_active(Mutant::CreditTwice) { to - self.recycled } else { 0 };
        self.table.stamps.recycle(to + twice);
        self.recycled = to;
        if !mutants::is_active(Mutant::Starved) {
            self.table.stamps.refill();
        }
    }

    /// Whether the credits add up to the group's capacity.
    pub(crate) fn is_whole(&self) -> bool {
        let granted = |slot| self.sender(slot).limit.wrapping_sub(self.sender(slot).next) as i32;
        let granted: i64 = (0..self.senders).map(|slot| i64::from(granted(slot))).sum();
        self.table.stamps.pool() + granted + (self.next() - self.recycled) as i64 == self.capacity as i64
    }
}

impl Drop for Sequencer {
    /// Another sequencer gives numbers from now on.
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::view::{Member, MemberId};

    const NOW: Time = Time::from_secs(1);

    fn view(senders: u64, link: impl Fn(u64) -> u64) -> View {
        let member = |id| Member { id: MemberId(id), name: String::new(), link: link(id) };
        let members = (1..=senders).map(member).collect();
        View { group: 7, epoch: Epoch(1), members, sequencer: MemberId(1), tie_break: None }
    }

    fn sequencer(senders: u64, next: Number, recycled: Number, capacity: usize) -> Sequencer {
        let view = view(senders, |_| 0);
        let sequencer = Sequencer::new(
            &view,
            next,
            recycled,
            &Settings { capacity, ..Settings::default() },
            &StampTable::private(),
        );
        sequencer.renew(2 * NOW);
        sequencer
    }

    /// A sender's message by its place in the epoch.
    fn stamp(sequencer: &Sequencer, slot: u16, nth: u32) -> Result<Stamp, Refusal> {
        sequencer.stamp(NOW, slot, FIRST_SEQ.wrapping_add(nth))
    }

    fn number(stamp: Result<Stamp, Refusal>) -> Number {
        stamp.expect("a number").number
    }

    #[test]
    fn a_message_that_comes_again_keeps_its_number() {
        let sequencer = sequencer(2, 50, 50, 64);
        let number = |slot, nth| number(stamp(&sequencer, slot, nth));
        assert_eq!((number(0, 0), number(1, 0), number(0, 0), number(0, 1)), (50, 51, 50, 52));
        assert_eq!(stamp(&sequencer, 0, 3), Err(Refusal::Gap));
        assert_eq!(stamp(&sequencer, 2, 0), Err(Refusal::Sender));
        assert_eq!(sequencer.stamp(2 * NOW, 0, FIRST_SEQ.wrapping_add(2)), Err(Refusal::Lease));
        assert!(sequencer.is_whole() && sequencer.next() == 53);
    }

    #[test]
    fn a_sender_without_credit_waits_until_messages_are_handled() {
        let mut sequencer = sequencer(2, 0, 0, 8);
        let stamped = (0..).find(|nth| stamp(&sequencer, 0, *nth).is_err()).expect("an end");
        assert_eq!(stamped, 6, "two are the other sender's");
        assert_eq!(stamp(&sequencer, 0, 6), Err(Refusal::Credit));
        assert!(sequencer.is_exhausted() && sequencer.is_whole());
        sequencer.recycle(1);
        assert_eq!(sequencer.limits(), [7, 2].map(|nth| FIRST_SEQ.wrapping_add(nth)));
        assert!(stamp(&sequencer, 0, 6).is_ok() && stamp(&sequencer, 1, 0).is_ok() && sequencer.is_whole());
        sequencer.recycle(100);
        assert!(sequencer.is_whole() && sequencer.recycled() == sequencer.next());
    }

    #[test]
    fn credits_are_whole_when_an_epoch_begins_with_messages_in_flight() {
        assert!(sequencer(4, 30, 25, 8).is_whole());
        let full = sequencer(4, 30, 3, 8);
        assert!(full.is_whole() && full.is_exhausted() && full.recycled() == 22);
    }

    #[test]
    fn a_closed_table_gives_no_numbers() {
        let sequencer = sequencer(1, 0, 0, 8);
        sequencer.close();
        assert_eq!(stamp(&sequencer, 0, 0), Err(Refusal::Epoch));
    }

    /// Copies go to all but the sequencer, and the network's table is taken only if the network sends them.
    #[test]
    fn a_network_that_sends_no_copies_gives_no_numbers() {
        let view = view(3, |id| 10 * id);
        let settings = Settings { dissemination: Dissemination::Copies, ..Settings::default() };
        for sends in [true, false] {
            let asked = Rc::new(std::cell::Cell::new(0));
            let (in_call, shared) = (asked.clone(), StampTable::private());
            let copy = move |copies| {
                in_call.set(copies);
                sends
            };
            let table = StampTable { copy: Some(Rc::new(copy)), ..shared.clone() };
            let sequencer = Sequencer::new(&view, 0, 0, &settings, &table);
            assert_eq!((asked.get(), shared.stamps.epoch()), (2, u32::from(sends)));
            let copies: Vec<u64> = shared.stamps.copies().map(Address::to_u64).collect();
            assert_eq!(copies, if sends { vec![20, 30] } else { vec![] });
            sequencer.renew(2 * NOW);
            assert!(stamp(&sequencer, 2, 0).is_ok());
        }
    }
}
