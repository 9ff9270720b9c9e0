//! The stamp: gives the messages of a group their numbers. The XDP program does the same with the same memory
//! (`bpf/sequence.h`), without waking its host.
//!
//! ```text
//!   frame to stamp ──▶ group? epoch? lease? sender? tag? ──▶ next of its sender? ──▶ credit? ──▶ number
//!                                                            an earlier one: the number that it has
//! ```
//!
//! Several processors stamp at once, and so does the sequencer's own process for its own messages. The processor that moves the sender's
//! `next` on by compare-and-swap has the message, and takes the next number. The message after it waits until that number is
//! written down, so the numbers of a sender ascend. Nothing is undone after a number was taken: no number is skipped.
//!
//! *Credits*: a message needs one, and holds it until the sequencer's process [recycles](Stamps::recycle) its number, because all
//! members have it. A sender whose credits run low gets more with its stamp (Bal et al., §4.2). Credits are in the pool, granted to a sender, or
//! used by a number, and their [sum](Credits::sum) never changes.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use core::sync::atomic::{AtomicI64, AtomicU32, AtomicU64};

use crate::Address;
use crate::group::{self, GroupFrame, GroupHeader};
use crate::siphash::HashKey;

/// Senders of an epoch.
pub const SENDERS: usize = 64;

/// Messages of a sender whose numbers are remembered, for those that it sends again.
pub const REMEMBERED: usize = 128;

/// Bits that are remembered of a number. No sender sends a message again after 2³⁷ numbers.
pub const NUMBER_BITS: u32 = 37;

/// Why a message is not stamped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Refusal {
    /// The table is not of this group.
    NoGroup,
    /// The table is closed, or open for another epoch.
    Epoch,
    /// The sequencer's process has not renewed its lease.
    Lease,
    /// The epoch has no such sender.
    Sender,
    /// The frame is not from the sender's address.
    Address,
    /// The tag is not that of the group's key.
    Tag,
    /// A message before it has no number yet.
    Gap,
    /// It is so old that its number is forgotten.
    Forgotten,
    /// The sender has no credit, and the pool has none.
    Credit,
}

impl Refusal {
    /// All of them, in the order of their numbers.
    pub const ALL: [Refusal; 9] = [
        Refusal::NoGroup,
        Refusal::Epoch,
        Refusal::Lease,
        Refusal::Sender,
        Refusal::Address,
        Refusal::Tag,
        Refusal::Gap,
        Refusal::Forgotten,
        Refusal::Credit,
    ];
}

/// What a message gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Its place in the order.
    pub number: u64,
    /// The sender's credit: its messages before this one may be stamped.
    pub limit: u32,
    /// Whether it had this number before.
    pub is_again: bool,
}

/// A sender of an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenderState {
    /// Its address. Frames from another are not stamped.
    pub address: Address,
    /// The number of its next message. Earlier ones are not stamped.
    pub next: u32,
    /// Its credit.
    pub limit: u32,
}

/// What [`Stamps::open`] needs.
#[derive(Clone, Copy, Debug)]
pub struct Opening<'a> {
    /// The group.
    pub group: u64,
    /// The key of its tags, or zeros.
    pub key: HashKey,
    /// The epoch: not 0, and never used for this group before.
    pub epoch: u32,
    /// When the lease ends, in nanoseconds of the system's monotonic clock.
    pub lease_until: u64,
    /// The first number.
    pub next: u64,
    /// Numbers before this one hold no credit.
    pub recycled: u64,
    /// All credits: the messages that each member has room for.
    pub capacity: u32,
    /// A sender gets this many credits at once.
    pub share: u32,
    /// The senders by their place, at most [`SENDERS`].
    pub senders: &'a [Option<SenderState>],
    /// Where the stamped frames go.
    pub to: Destination,
    /// The receivers of copies, at most [`SENDERS`].
    pub copies: &'a [Address],
}

/// Where a stamped frame goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Destination {
    /// To the group's address, as one multicast.
    #[default]
    Group,
    /// To each address of [`Opening::copies`].
    Copies,
    /// Back to its sender, which sends the message with its number to the group.
    Sender,
}

/// Why a table does not open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenStampsError {
    /// A frame is being stamped under the previous epoch. Ask again; it takes microseconds.
    Busy,
    /// Epoch 0, group 0, too many senders or copies, or more credits granted and used than there are.
    Invalid,
}

/// A sender in the table, as in `bpf/sequence.h`.
#[derive(Debug)]
#[repr(C)]
struct Sender {
    /// As a number; 0: no sender.
    address: AtomicU64,
    next: AtomicU32,
    limit: AtomicU32,
    /// The last messages: see [`Remembered`].
    numbers: [AtomicU64; REMEMBERED],
}

/// The sequencer's table of one group. The XDP program maps the same memory, so it consists of atomics alone.
#[derive(Debug)]
#[repr(C)]
pub struct Stamps {
    group: AtomicU64,
    key: [AtomicU64; 2],
    lease_until: AtomicU64,
    /// The group's address, as a number.
    address: AtomicU64,
    /// 0: closed.
    epoch: AtomicU32,
    share: AtomicU32,
    /// What only the process uses.
    capacity: AtomicU32,
    /// A [`Destination`].
    to: AtomicU32,
    recycled: AtomicU64,
    /// Stamps that are being made. A table opens again only after the last one of the previous epoch.
    busy: AtomicU64,
    next: AtomicU64,
    /// Credits that no sender has. Below 0 for a moment: a processor that takes too much gives it back.
    pool: AtomicI64,
    senders: [Sender; SENDERS],
    /// As numbers, 0 behind the last.
    copies: [AtomicU64; SENDERS],
}

/// Where the credits are. While a frame is being stamped, a part may be on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credits {
    /// In the pool.
    pub pool: i64,
    /// Granted to senders, and not used.
    pub granted: i64,
    /// Used by numbers that are not recycled.
    pub used: i64,
    /// What they sum up to.
    pub capacity: i64,
}

impl Credits {
    /// All of them: the capacity, or something is wrong.
    pub const fn sum(&self) -> i64 {
        self.pool + self.granted + self.used
    }
}

/// The number of a message, in one word, so that it is written at once: two bits of state, the upper 25 bits of the message's
/// sequence number (its place in the ring has the others), and the lower 37 bits of its number.
#[derive(Clone, Copy)]
struct Remembered(u64);

impl Remembered {
    const STAMPED: u64 = 1 << 62;
    /// Not of this epoch.
    const SEALED: u64 = 2 << 62;

    const fn mark(seq: u32) -> u64 {
        (seq as u64 / REMEMBERED as u64) << NUMBER_BITS
    }

    const fn new(seq: u32, number: u64) -> Remembered {
        Remembered(Self::STAMPED | Self::mark(seq) | (number & ((1 << NUMBER_BITS) - 1)))
    }

    const fn sealed(seq: u32) -> Remembered {
        Remembered(Self::SEALED | Self::mark(seq))
    }

    /// Whether this is about the message.
    const fn is_of(self, seq: u32) -> bool {
        self.0 >> 62 != 0 && self.0 << 2 >> (2 + NUMBER_BITS) == Self::mark(seq) >> NUMBER_BITS
    }

    const fn is_sealed(self) -> bool {
        self.0 >> 62 == 2
    }

    /// The whole number: it is below `next`, and not far.
    const fn number(self, next: u64) -> u64 {
        next.wrapping_sub(next.wrapping_sub(self.0) & ((1 << NUMBER_BITS) - 1))
    }
}

impl Sender {
    const fn new() -> Sender {
        Sender {
            address: AtomicU64::new(0),
            next: AtomicU32::new(0),
            limit: AtomicU32::new(0),
            numbers: [const { AtomicU64::new(0) }; REMEMBERED],
        }
    }

    fn remembered(&self, seq: u32) -> (&AtomicU64, Remembered) {
        let place = &self.numbers[seq as usize % REMEMBERED];
        (place, Remembered(place.load(Acquire)))
    }

    fn set(&self, state: Option<&SenderState>) {
        self.numbers.iter().for_each(|number| number.store(0, Relaxed));
        let (next, limit) = state.map_or((0, 0), |state| (state.next, state.limit));
        self.next.store(next, Relaxed);
        self.limit.store(limit, Relaxed);
        let before = next.wrapping_sub(1);
        self.numbers[before as usize % REMEMBERED].store(Remembered::sealed(before).0, Relaxed);
        self.address.store(state.map_or(0, |state| state.address.to_u64()), Relaxed);
    }
}

impl Default for Stamps {
    fn default() -> Stamps {
        Stamps::new()
    }
}

impl Stamps {
    /// A closed table.
    pub const fn new() -> Stamps {
        let [zero, one, two] = [const { AtomicU64::new(0) }; 3];
        Stamps {
            group: zero,
            key: [one, two],
            lease_until: AtomicU64::new(0),
            address: AtomicU64::new(0),
            epoch: AtomicU32::new(0),
            share: AtomicU32::new(0),
            capacity: AtomicU32::new(0),
            to: AtomicU32::new(0),
            recycled: AtomicU64::new(0),
            busy: AtomicU64::new(0),
            next: AtomicU64::new(0),
            pool: AtomicI64::new(0),
            senders: [const { Sender::new() }; SENDERS],
            copies: [const { AtomicU64::new(0) }; SENDERS],
        }
    }

    /// Begin an epoch. One thread opens and closes.
    ///
    /// # Errors
    /// [`OpenStampsError`]. The table is closed then.
    pub fn open(&self, opening: &Opening<'_>) -> Result<(), OpenStampsError> {
        self.close();
        let granted = |state: &SenderState| i64::from(state.limit.wrapping_sub(state.next) as i32);
        let granted: i64 = opening.senders.iter().flatten().map(granted).sum();
        let used = opening.next.checked_sub(opening.recycled).ok_or(OpenStampsError::Invalid)? as i64;
        let pool = i64::from(opening.capacity) - granted - used;
        let has_too_many = opening.senders.len() > SENDERS || opening.copies.len() > SENDERS;
        if opening.epoch == 0 || opening.group == 0 || has_too_many || pool < 0 || granted < 0 {
            return Err(OpenStampsError::Invalid);
        }
        if self.busy.load(SeqCst) != 0 {
            return Err(OpenStampsError::Busy);
        }
        self.group.store(opening.group, Relaxed);
        self.key.iter().zip(opening.key).for_each(|(place, key)| place.store(key, Relaxed));
        self.lease_until.store(opening.lease_until, Relaxed);
        self.address.store(group::address(opening.group).to_u64(), Relaxed);
        self.share.store(opening.share, Relaxed);
        self.capacity.store(opening.capacity, Relaxed);
        self.recycled.store(opening.recycled, Relaxed);
        self.next.store(opening.next, Relaxed);
        self.pool.store(pool, Relaxed);
        self.to.store(opening.to as u32, Relaxed);
        let receivers = opening.copies.iter().map(|address| address.to_u64());
        self.copies
            .iter()
            .zip(receivers.chain([0; SENDERS]))
            .for_each(|(place, address)| place.store(address, Relaxed));
        for (place, sender) in self.senders.iter().enumerate() {
            sender.set(opening.senders.get(place).and_then(Option::as_ref));
        }
        self.epoch.store(opening.epoch, SeqCst);
        Ok(())
    }

    /// Stamp nothing any more. A stamp that is being made may still be finished: see [`Stamps::is_at_rest`].
    pub fn close(&self) {
        self.epoch.store(0, SeqCst);
    }

    /// Whether the table is closed, and no stamp is being made: its numbers and credits are final.
    pub fn is_at_rest(&self) -> bool {
        self.epoch.load(SeqCst) == 0 && self.busy.load(SeqCst) == 0
    }

    /// The epoch; 0 while the table is closed.
    pub fn epoch(&self) -> u32 {
        self.epoch.load(Acquire)
    }

    /// The next number: all before it are given.
    pub fn next(&self) -> u64 {
        self.next.load(Acquire)
    }

    /// The lease ends at this time, in nanoseconds of the system's monotonic clock.
    pub fn renew(&self, until: u64) {
        self.lease_until.store(until, Release);
    }

    /// All members have what has a number before this one: its credits go back to the pool. One thread recycles. A smaller number than before
    /// changes nothing, nor does one that is not given.
    pub fn recycle(&self, before: u64) {
        let recycled = self.recycled.load(Relaxed);
        let credits = before.min(self.next()).saturating_sub(recycled);
        self.recycled.store(recycled + credits, Relaxed);
        self.pool.fetch_add(credits as i64, AcqRel);
    }

    /// Give credits to the senders that have none, as far as the pool has some. Others get them with a stamp.
    pub fn refill(&self) {
        for sender in self.senders.iter().filter(|sender| sender.address.load(Relaxed) != 0) {
            let next = sender.next.load(Acquire);
            if sender.limit.load(Acquire) == next {
                refill(self, sender, next);
            }
        }
    }

    /// Credits in the pool. Below 0 for a moment while a frame is being stamped.
    pub fn pool(&self) -> i64 {
        self.pool.load(Acquire)
    }

    /// The sender at this place, as it is now.
    pub fn sender(&self, place: usize) -> Option<SenderState> {
        let sender = self.senders.get(place)?;
        let address = sender.address.load(Relaxed);
        let (next, limit) = (sender.next.load(Acquire), sender.limit.load(Acquire));
        (address != 0).then_some(SenderState { address: Address::from_u64(address), next, limit })
    }

    /// Where the credits are.
    pub fn credits(&self) -> Credits {
        let granted = |state: SenderState| i64::from(state.limit.wrapping_sub(state.next) as i32);
        Credits {
            pool: self.pool(),
            granted: (0..SENDERS).filter_map(|place| self.sender(place)).map(granted).sum(),
            used: self.next() as i64 - self.recycled.load(Acquire) as i64,
            capacity: self.capacity.load(Relaxed).into(),
        }
    }

    /// The receivers of a copy of each stamped frame.
    pub fn copies(&self) -> impl Iterator<Item = Address> + '_ {
        let addresses = self.copies.iter().map(|address| address.load(Relaxed));
        addresses.take_while(|&address| address != 0).map(Address::from_u64)
    }

    /// The key of the group.
    pub fn key(&self) -> HashKey {
        [self.key[0].load(Relaxed), self.key[1].load(Relaxed)]
    }
}

/// Stamp a message that its sender sent from this address. `now` is a time of the system's monotonic clock, in nanoseconds.
///
/// # Errors
/// Why it gets no number. Nothing has changed then, but that the sender may have got credits.
pub fn stamp(stamps: &Stamps, header: &GroupHeader, from: Address, now: u64) -> Result<Stamp, Refusal> {
    if stamps.group.load(Relaxed) != header.group {
        return Err(Refusal::NoGroup);
    }
    // Before the epoch is read: see `Stamps::open`.
    stamps.busy.fetch_add(1, SeqCst);
    let answer = find_sender(stamps, header, from, now).and_then(|sender| stamp_for(stamps, sender, header.seq));
    stamps.busy.fetch_sub(1, SeqCst);
    answer
}

/// The header of the stamped frame.
pub fn stamped(stamps: &Stamps, header: &GroupHeader, stamp: &Stamp) -> GroupHeader {
    let Stamp { number, limit, .. } = *stamp;
    let header = GroupHeader { what: GroupFrame::Stamped, number, limit, ..*header };
    GroupHeader { tag: header.tag_under(stamps.key()), ..header }
}

/// The address to which the stamped frame of a message goes that its sender sent from this one. [Copies](Stamps::copies) get theirs
/// later.
pub fn destination(stamps: &Stamps, from: Address) -> Address {
    let to = if stamps.to.load(Relaxed) == Destination::Sender as u32 {
        from.to_u64()
    } else {
        stamps.address.load(Relaxed)
    };
    Address::from_u64(to)
}

fn find_sender<'a>(stamps: &'a Stamps, header: &GroupHeader, from: Address, now: u64) -> Result<&'a Sender, Refusal> {
    let epoch = stamps.epoch.load(SeqCst);
    if epoch == 0 || header.epoch != epoch {
        return Err(Refusal::Epoch);
    }
    if now >= stamps.lease_until.load(Acquire) {
        return Err(Refusal::Lease);
    }
    let sender = stamps.senders.get(usize::from(header.sender)).ok_or(Refusal::Sender)?;
    match sender.address.load(Relaxed) {
        0 => Err(Refusal::Sender),
        address if address != from.to_u64() => Err(Refusal::Address),
        _ if !header.is_authentic(stamps.key()) => Err(Refusal::Tag),
        _ => Ok(sender),
    }
}

fn stamp_for(stamps: &Stamps, sender: &Sender, seq: u32) -> Result<Stamp, Refusal> {
    let next = sender.next.load(Acquire);
    let back = next.wrapping_sub(seq);
    if back as usize > REMEMBERED {
        return Err(if (back as i32) < 0 { Refusal::Gap } else { Refusal::Forgotten });
    }
    refill(stamps, sender, next);
    let number = if back == 0 { give(stamps, sender, seq)? } else { look_up(stamps, sender, seq, back)? };
    Ok(Stamp { number, limit: sender.limit.load(Acquire), is_again: back != 0 })
}

/// Give the sender credits if it has less than half of its share.
fn refill(stamps: &Stamps, sender: &Sender, next: u32) {
    let share = stamps.share.load(Relaxed);
    let left = sender.limit.load(Acquire).wrapping_sub(next) as i32;
    if i64::from(left) * 2 >= i64::from(share) || stamps.pool.load(Relaxed) <= 0 {
        return;
    }
    let taken = take(&stamps.pool, share.into());
    sender.limit.fetch_add(taken as u32, AcqRel);
}

/// Take up to `most` of what is there.
fn take(from: &AtomicI64, most: i64) -> i64 {
    let before = from.fetch_sub(most, AcqRel);
    let taken = before.clamp(0, most);
    if taken < most {
        from.fetch_add(most - taken, AcqRel);
    }
    taken
}

/// A number for the sender's next message.
fn give(stamps: &Stamps, sender: &Sender, seq: u32) -> Result<u64, Refusal> {
    if sender.limit.load(Acquire).wrapping_sub(seq) as i32 <= 0 {
        return Err(Refusal::Credit);
    }
    // The message before it: its number is taken, but perhaps on another processor, and not yet written down.
    let before = seq.wrapping_sub(1);
    if !sender.remembered(before).1.is_of(before) {
        return Err(Refusal::Gap);
    }
    // From here on the message is this processor's.
    if sender.next.compare_exchange(seq, seq.wrapping_add(1), SeqCst, SeqCst).is_err() {
        return Err(Refusal::Gap);
    }
    let number = stamps.next.fetch_add(1, SeqCst);
    sender.remembered(seq).0.store(Remembered::new(seq, number).0, SeqCst);
    Ok(number)
}

/// The number that an earlier message has.
fn look_up(stamps: &Stamps, sender: &Sender, seq: u32, back: u32) -> Result<u64, Refusal> {
    let (_, remembered) = sender.remembered(seq);
    if remembered.is_of(seq) && !remembered.is_sealed() {
        return Ok(remembered.number(stamps.next.load(SeqCst)));
    }
    // Only the last one can be without its number for a moment.
    Err(if back == 1 && !remembered.is_of(seq) { Refusal::Gap } else { Refusal::Forgotten })
}
