//! The process that has a node.
//!
//! A child that is forked from it has a copy of the node, and is refused: what both sent would break the parent's connections. And the
//! program may close the node's descriptors by number, which ends the node.

use am_api::{Owner, own};

/// This process has a node. It is dropped after the node.
#[derive(Debug)]
pub struct NodeOwner {
    /// How many descriptors of the library the program had closed when the node was opened.
    losses: u32,
    _owner: Owner,
}

impl NodeOwner {
    /// The node is open. `owner` was made before, since a child may be forked while it opens.
    pub fn new(owner: Owner) -> NodeOwner {
        NodeOwner { losses: own::losses(), _owner: owner }
    }

    /// Whether the program has closed descriptors of the library since.
    #[cold]
    pub fn is_lost(&self) -> bool {
        own::losses() != self.losses
    }
}
