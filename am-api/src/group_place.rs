//! A node's place in its group, and how the group's first node chooses a member for a peer.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use am_proto::{ChooseMember, Core};
use am_wire::Buffer;

/// How a group chooses the member for a peer's connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// The member with the fewest connections.
    #[default]
    Load,
    /// By a hash of the peer's node name: all connections of a node go to the same member, also after a restart of the peer or the
    /// member. While that member is not open, they go to the next one.
    PeerName,
}

/// The load of a member whose node is not open.
const CLOSED: usize = usize::MAX;

/// The first member's estimate of a member's load. The load that a member publishes does not count peers that were just sent to it, and
/// these may be many.
#[derive(Clone, Default)]
struct Chosen {
    /// The member's published load when it was last read.
    load: usize,
    /// The number of peers that were sent to the member and do not count in its published load yet.
    pending: usize,
    /// The number of peers that were ever sent to the member.
    given: u64,
}

/// After this many peers, half of the pending ones are forgotten: they did not reach the member, or have left again.
const PENDING_HALF_LIFE: u64 = 64;

impl Chosen {
    /// The member's load with the pending peers, and the tie-breaker: the number of peers that were ever sent to it.
    fn expected_load(&mut self, load: usize) -> (usize, u64) {
        self.pending = self.pending.saturating_sub(load.saturating_sub(self.load));
        self.load = load;
        if load == CLOSED {
            self.pending = 0;
        }
        (load.saturating_add(self.pending), self.given)
    }

    fn give(&mut self) {
        (self.pending, self.given) = (self.pending + 1, self.given + 1);
    }
}

/// A node's place in its group.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) number: usize,
    loads: Arc<[AtomicUsize]>,
    placement: Placement,
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Place")
            .field("number", &self.number)
            .field("placement", &self.placement)
            .finish_non_exhaustive()
    }
}

impl Place {
    /// The places of a group of this size.
    pub(crate) fn all(size: usize, placement: Placement) -> impl Iterator<Item = Place> {
        let loads: Arc<[AtomicUsize]> = (0..size).map(|_| AtomicUsize::new(CLOSED)).collect();
        (0..size).map(move |number| Place { number, loads: loads.clone(), placement })
    }

    /// The function that chooses the member for a peer. `None` if this is not the first member.
    pub(crate) fn chooser(&self) -> Option<ChooseMember> {
        if self.number != 0 {
            return None;
        }
        let loads = self.loads.clone();
        Some(match self.placement {
            Placement::Load => {
                let mut members = vec![Chosen::default(); loads.len()];
                let mut total = 0_u64;
                Box::new(move |_| {
                    total += 1;
                    if total.is_multiple_of(PENDING_HALF_LIFE) {
                        members.iter_mut().for_each(|member| member.pending /= 2);
                    }
                    let seen = members.iter_mut().zip(&*loads);
                    let expected = seen.map(|(member, load)| member.expected_load(load.load(Relaxed)));
                    let least = expected.enumerate().min_by_key(|(_, expected)| *expected);
                    let chosen = least.map_or(0, |(number, _)| number);
                    members[chosen].give();
                    chosen as u8
                })
            }
            Placement::PeerName => Box::new(move |peer| {
                let mut hasher = DefaultHasher::new();
                peer.as_str().hash(&mut hasher);
                let first = (hasher.finish() % loads.len() as u64) as usize;
                let mut all = (first..loads.len()).chain(0..first);
                all.find(|number| loads[*number].load(Relaxed) != CLOSED).unwrap_or(0) as u8
            }),
        })
    }

    fn set_load(&self, connections: usize) {
        self.loads[self.number].store(connections, Relaxed);
    }
}

/// The place of an open node. Dropping it marks the member as closed, so that it gets no peers.
#[derive(Debug)]
pub(crate) struct Membership(Place);

impl Membership {
    pub(crate) fn new(place: Place) -> Membership {
        place.set_load(0);
        Membership(place)
    }

    /// Report the number of a node's connections to its group, if it is in one.
    pub(crate) fn publish<B: Buffer>(of: &Option<Membership>, core: &Core<B>) {
        if let Some(membership) = of {
            membership.set_load(core.connection_count());
        }
    }

    fn set_load(&self, connections: usize) {
        self.0.set_load(connections);
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.0.set_load(CLOSED);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use am_wire::control::Name;

    /// The members of an open group, and what its first one does.
    fn group(size: usize, placement: Placement) -> (Vec<Membership>, ChooseMember) {
        let places: Vec<Place> = Place::all(size, placement).collect();
        let choose = places[0].chooser().expect("it is the first");
        assert!(places[1].chooser().is_none());
        (places.into_iter().map(Membership::new).collect(), choose)
    }

    fn peer(number: usize) -> Name {
        Name::new(&format!("peer{number}")).expect("a name")
    }

    #[test]
    fn the_least_loaded_member_is_chosen_and_of_equals_the_one_that_got_fewer() {
        let (mut all, mut choose) = group(3, Placement::Load);
        assert_eq!([0; 6].map(|_| choose(peer(1))), [0, 1, 2, 0, 1, 2]);
        [5, 7, 5].into_iter().zip(&all).for_each(|(load, member)| member.set_load(load));
        assert_eq!([0; 3].map(|_| choose(peer(1))), [0, 2, 0]);
        all[1].set_load(4);
        assert_eq!(choose(peer(1)), 1);
        drop(all.remove(1));
        assert_eq!([0; 2].map(|_| choose(peer(1))), [2, 0], "a closed member gets none");
    }

    #[test]
    fn a_member_whose_load_shows_late_is_not_preferred() {
        let (all, mut choose) = group(4, Placement::Load);
        let mut given = [0; 4];
        for _ in 0..64 {
            given[choose(peer(1)) as usize] += 1;
            all[0].set_load(given[0]);
        }
        assert_eq!(given, [16; 4]);
        (0..4).for_each(|member| all[member].set_load(16));
        assert_eq!([0; 4].map(|_| choose(peer(1))), [0, 1, 2, 3]);
    }

    #[test]
    fn peers_that_never_come_are_forgotten() {
        let (all, mut choose) = group(2, Placement::Load);
        all[0].set_load(1000);
        assert_eq!([0; 60].map(|_| choose(peer(1))), [1; 60]);
        all[0].set_load(40);
        assert_eq!([0; 5].map(|_| choose(peer(1))), [0, 0, 0, 1, 1]);
    }

    #[test]
    fn a_peers_name_chooses_the_same_member_each_time_while_it_is_open() {
        let (mut all, mut choose) = group(4, Placement::PeerName);
        let mut chosen = || (0..100).map(|number| choose(peer(number))).collect::<Vec<u8>>();
        let first = chosen();
        assert_eq!(first, chosen());
        assert!((0..4).all(|member| first.iter().filter(|it| **it == member).count() > 10), "{first:?}");
        drop(all.remove(2));
        let next = first.iter().map(|member| if *member == 2 { 3 } else { *member });
        assert_eq!(chosen(), next.collect::<Vec<u8>>());
    }
}
