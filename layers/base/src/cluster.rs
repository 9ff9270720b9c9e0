//! The nodes of a program: their numbers and their names.

use std::fmt;

use am_api::{InvalidName, Name, tag_of};
use am_spmd::Place;

/// The number of a node, from 0: its place in the [`Cluster`]'s list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Rank(pub usize);

impl Rank {
    /// The number for a node that has left before this node learned its name. It cannot be answered.
    pub const GONE: Rank = Rank(usize::MAX);
}

impl fmt::Display for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// All nodes of a program, by number, and the number of this one. All nodes must have the same list, in the same order: nodes with
/// different lists refuse each other's connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    names: Vec<String>,
    own: Rank,
    tag: u64,
}

/// Why a list is no cluster.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClusterError {
    /// The list has no node of this number.
    #[error("this should be node {own}, but the list has {nodes}: they count from 0")]
    Own {
        /// The number.
        own: Rank,
        /// Names in the list.
        nodes: usize,
    },
    /// A name in the list is invalid.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// Two nodes of one name.
    #[error("two nodes are called `{0}`: each needs a name of its own")]
    Twice(String),
}

am_api::debug_as_display!(ClusterError);

impl Cluster {
    /// The nodes of these names, of which this is number `own`.
    ///
    /// # Errors
    /// See [`ClusterError`].
    pub fn new<N: AsRef<str>>(names: impl IntoIterator<Item = N>, own: Rank) -> Result<Cluster, ClusterError> {
        let mut list: Vec<String> = Vec::new();
        for text in names {
            let name = text.as_ref().to_owned();
            if list.contains(&name) {
                return Err(ClusterError::Twice(name));
            }
            Name::new(&name).ok_or_else(|| InvalidName(name.clone()))?;
            list.push(name);
        }
        if own.0 >= list.len() {
            return Err(ClusterError::Own { own, nodes: list.len() });
        }
        let tag = tag_of(list.iter().map(String::as_str));
        Ok(Cluster { names: list, own, tag })
    }

    /// The processes of a job, by rank.
    pub fn of_place(place: &Place) -> Cluster {
        let names = (0..place.size()).map(|rank| place.node_name(rank)).collect();
        Cluster { names, own: Rank(place.rank()), tag: tag_of([place.job()]) }
    }

    /// The number of this node.
    pub fn own(&self) -> Rank {
        self.own
    }

    /// How many nodes there are, this one included.
    pub fn nodes(&self) -> usize {
        self.names.len()
    }

    /// The name of a node.
    pub fn name(&self, of: Rank) -> Option<&str> {
        self.names.get(of.0).map(String::as_str)
    }

    /// The number of the node with this name.
    pub fn rank(&self, name: &str) -> Option<Rank> {
        self.names.iter().position(|each| each == name).map(Rank)
    }

    /// The name of this node.
    pub fn own_name(&self) -> &str {
        &self.names[self.own.0]
    }

    /// A number that all nodes with the same list compute: a guard against nodes that number each other differently (AM-II's tag).
    pub fn tag(&self) -> u64 {
        self.tag
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_has_a_name_and_a_name_a_number() {
        let cluster = Cluster::new(["alpha", "beta"], Rank(1)).unwrap();
        assert_eq!((cluster.own(), cluster.own_name(), cluster.nodes()), (Rank(1), "beta", 2));
        assert_eq!((cluster.name(Rank(0)), cluster.rank("beta")), (Some("alpha"), Some(Rank(1))));
        assert_eq!((cluster.name(Rank(2)), cluster.rank("gamma")), (None, None));
    }

    #[test]
    fn an_invalid_list_says_why() {
        assert_eq!(Cluster::new(["a", "b"], Rank(2)), Err(ClusterError::Own { own: Rank(2), nodes: 2 }));
        assert_eq!(Cluster::new(["a", "b", "a"], Rank(0)), Err(ClusterError::Twice("a".into())));
        assert_eq!(Cluster::new([""], Rank(0)), Err(ClusterError::Name(InvalidName(String::new()))));
        assert_eq!(Cluster::new([""; 0], Rank(0)), Err(ClusterError::Own { own: Rank(0), nodes: 0 }));
    }

    #[test]
    fn the_tag_distinguishes_lists_and_not_nodes() {
        let tag = |names: &[&str], own| Cluster::new(names, Rank(own)).unwrap().tag();
        assert_eq!(tag(&["a", "b"], 0), tag(&["a", "b"], 1));
        assert_ne!(tag(&["a", "b"], 0), tag(&["b", "a"], 0));
        assert_ne!(tag(&["ab", "c"], 0), tag(&["a", "bc"], 0));
    }
}
