//! Groups: several nodes under one name, each on a thread of its own. The first member has the group's name. A peer that asks
//! it for a flow is told which member to ask instead, and asks that one.
//!
//! ```text
//!   alpha                      server            server#1
//!     │ Connect to "server" ─────▶│                  │
//!     │◀──────────── Refuse: #1 ──│                  │
//!     │ Connect to "server#1" ──────────────────────▶│
//!     │◀───────────────────────────────────── Accept │
//! ```

use am_wire::control::{Name, Refusal};
use am_wire::{Address, Buffer};

use crate::FlowId;
use crate::config::{ChooseMember, Placement};
use crate::node::Core;

impl<B: Buffer> Core<B> {
    /// From above: this node is the first of a group. Peers that ask it for a flow from now on are given to the member that
    /// `choose` names. That member's node has the name [`Name::member`].
    pub fn place_peers(&mut self, choose: ChooseMember) {
        self.placement = Placement(Some(choose));
    }

    /// The connections of this node: asked for, open and closing.
    pub fn connection_count(&self) -> usize {
        self.flows.len()
    }

    /// Why this node does not take a peer itself: another member of its group shall.
    pub(crate) fn other_member(&mut self, peer: Name) -> Option<Refusal> {
        let choose = self.placement.0.as_mut()?;
        Some(choose(peer)).filter(|member| *member != 0).map(Refusal::Member)
    }

    /// The peer is the first of a group, and names the member to ask instead. False if there is no such member: the peer is
    /// in no group, or the member is this node.
    pub(crate) fn follow_to_member(&mut self, id: FlowId, member: u8) -> bool {
        let Some(record) = self.flows.get_mut(id) else { return false };
        let Some(name) = record.peer.node_name.member(member).filter(|name| *name != self.config.name) else {
            return false;
        };
        (record.peer.node_name, record.peer.node) = (name, None);
        // A repeated answer of the first member finds no flow that waits for it.
        record.route.to = Address::default();
        record.setup.tries = 0;
        self.counters.redirected += 1;
        self.advance_setup(self.now, id.flow);
        true
    }
}
