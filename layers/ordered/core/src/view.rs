//! The members of a group, and which of them are a majority.

use std::fmt;
use std::time::Duration;

use am_wire::Address;
use am_wire::stamp::SENDERS;
use serde::{Deserialize, Serialize};

/// A time since any origin that the member's program chooses. It never goes back.
pub type Time = Duration;

/// A member's id. A process that joins again has another id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct MemberId(pub u64);

impl fmt::Display for MemberId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}", self.0)
    }
}

/// A member: its id, and the name by which others reach it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Member {
    /// The id.
    pub id: MemberId,
    /// The name. It is the program's own.
    pub name: String,
    /// The link address at which the member takes frames of the group, as a number; 0: it takes none.
    pub link: u64,
}

/// The number of a view. Each change of the view has a higher one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Epoch(pub u32);

impl Epoch {
    /// Whether a group can have got this far.
    pub(crate) fn is_possible(self) -> bool {
        self.0 <= 1 << 30
    }
}

/// A place in the order. The first message of a group has 0.
pub type Number = u64;

/// No group gets this far: with a message in each nanosecond it takes 36 years. So sums of numbers have room.
pub(crate) const MOST_NUMBER: Number = 1 << 60;

/// The members of a group during an epoch.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct View {
    /// The group: a random number, never 0.
    pub group: u64,
    /// Its number.
    pub epoch: Epoch,
    /// The members. A member's slot is its index.
    pub members: Vec<Member>,
    /// The member that gives the numbers.
    pub sequencer: MemberId,
    /// Half of the members are a majority if the member with this name is among them.
    pub tie_break: Option<String>,
}

impl View {
    /// Whether a group can have this view.
    pub(crate) fn is_possible(&self) -> bool {
        let is_once = |id: MemberId| self.ids().filter(|other| *other == id).count() == 1;
        self.epoch.is_possible() && self.members.len() <= SENDERS && self.has(self.sequencer) && self.ids().all(is_once)
    }

    /// A member's slot.
    pub fn slot(&self, id: MemberId) -> Option<usize> {
        self.members.iter().position(|member| member.id == id)
    }

    /// Whether the view has this member.
    pub fn has(&self, id: MemberId) -> bool {
        self.slot(id).is_some()
    }

    /// The members' names.
    pub fn names(&self) -> impl Iterator<Item = &str> + '_ {
        self.members.iter().map(|member| &*member.name)
    }

    /// The members' ids.
    pub fn ids(&self) -> impl Iterator<Item = MemberId> + '_ {
        self.members.iter().map(|member| member.id)
    }

    /// The members' link addresses. A member without one has another that no link has.
    pub(crate) fn links(&self) -> impl Iterator<Item = Address> + '_ {
        let link = |(slot, member): (usize, &Member)| if member.link == 0 { slot as u64 + 1 } else { member.link };
        self.members.iter().enumerate().map(link).map(Address::from_u64)
    }

    /// Whether all members take frames of the group.
    pub fn has_links(&self) -> bool {
        self.members.iter().all(|member| member.link != 0)
    }

    /// Whether the members that `has` names are a majority: more than half, or half with the tie-break.
    pub fn is_majority(&self, has: impl Fn(MemberId) -> bool) -> bool {
        let count = self.ids().filter(|id| has(*id)).count();
        let breaks_tie = || {
            let tie_break = self.tie_break.as_ref();
            self.members.iter().any(|member| Some(&member.name) == tie_break && has(member.id))
        };
        count * 2 > self.members.len() || count * 2 == self.members.len() && breaks_tie()
    }

    /// Whether each majority has one of the members that `has` names: the others are none. So what these hold survives each
    /// change of the view.
    pub fn meets_each_majority(&self, has: impl Fn(MemberId) -> bool) -> bool {
        !self.is_majority(|id| !has(id))
    }

    /// How far a member's slot is behind the sequencer's, in a circle. The sequencer itself has 0.
    pub fn rank(&self, id: MemberId) -> Option<usize> {
        let (own, first) = (self.slot(id)?, self.slot(self.sequencer).unwrap_or(0));
        Some((own + self.members.len() - first) % self.members.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(count: u64, tie_break: Option<&str>) -> View {
        let members = (0..count).map(|id| Member { id: MemberId(id), name: format!("m{id}"), link: 0 });
        let tie_break = tie_break.map(str::to_owned);
        View { group: 1, epoch: Epoch(1), members: members.collect(), sequencer: MemberId(1), tie_break }
    }

    #[test]
    fn a_majority_is_more_than_half() {
        let three = view(3, None);
        assert!(three.is_majority(|id| id.0 != 1) && !three.is_majority(|id| id.0 == 1));
        let four = view(4, None);
        assert!(four.is_majority(|id| id.0 != 1) && !four.is_majority(|id| id.0 < 2));
    }

    #[test]
    fn half_with_the_tie_break_is_a_majority() {
        let two = view(2, Some("m1"));
        assert!(two.is_majority(|id| id.0 == 1) && !two.is_majority(|id| id.0 == 0));
        assert!(two.meets_each_majority(|id| id.0 == 1) && !two.meets_each_majority(|id| id.0 == 0));
        let three = view(3, Some("m1"));
        assert!(!three.is_majority(|id| id.0 == 1), "one of three is no half");
    }

    #[test]
    fn two_of_three_meet_each_majority() {
        let (three, four) = (view(3, None), view(4, None));
        assert!(three.meets_each_majority(|id| id.0 < 2) && !three.meets_each_majority(|id| id.0 < 1));
        assert!(four.meets_each_majority(|id| id.0 < 2) && !four.meets_each_majority(|id| id.0 < 1));
    }

    #[test]
    fn ranks_begin_at_the_sequencer() {
        let four = view(4, None);
        assert_eq!([1, 2, 3, 0].map(|id| four.rank(MemberId(id))), [0, 1, 2, 3].map(Some));
        assert_eq!(four.rank(MemberId(9)), None);
    }
}
