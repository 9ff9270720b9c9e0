//! A node's place in its group, and how the group's first node chooses a member for a peer.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use am_proto::ChooseMember;

/// How a group chooses the member that gets a peer's connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// The member with the fewest connections.
    #[default]
    Load,
    /// By a hash of the peer's node name: all connections of a node go to the same member, also after a restart of either. While that
    /// member is not open, they go to the next one.
    PeerName,
}

/// The load of a member whose node is not open.
const CLOSED: usize = usize::MAX;

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

    /// What chooses the member of a peer, if this is the first member.
    pub(crate) fn chooser(&self) -> Option<ChooseMember> {
        if self.number != 0 {
            return None;
        }
        let loads = self.loads.clone();
        Some(match self.placement {
            Placement::Load => {
                // A member's load does not yet show the peers that were given to it a moment ago.
                let mut given = vec![0u64; loads.len()];
                Box::new(move |_| {
                    let load = |number: &usize| (loads[*number].load(Relaxed), given[*number]);
                    let chosen = (0..loads.len()).min_by_key(load).unwrap_or(0);
                    given[chosen] += 1;
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

/// The place of a node that is open. A member gets peers only while it is.
#[derive(Debug)]
pub(crate) struct Membership(Place);

impl Membership {
    pub(crate) fn new(place: Place) -> Membership {
        place.set_load(0);
        Membership(place)
    }

    /// Publish the number of this member's connections.
    pub(crate) fn set_load(&self, connections: usize) {
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
