//! A node in a forked child: the parent's stays as it is, and the child's copy has no connection.

use am_engine::Engine;
use am_proto::{Core, FORKED};
use am_ring::{Disown, Owned, Owner};
use am_transport::{Forked, Transport};

use crate::node_state::NodeState;

impl Disown for NodeState {
    /// Every connection has ended with [`ReturnReason::Forked`](crate::ReturnReason::Forked), and the transport leads nowhere.
    fn disown(&mut self) {
        // The parent's owner has mapped its page.
        let Ok(owner) = Owner::new() else { return };
        let nowhere: Box<dyn Transport> = Box::new(Forked::new(self.transport.caps(), FORKED));
        let core = Core::forked(self.engine.core().config().clone(), self.clock.now());
        let engine = Engine::new(core, nowhere.caps().pool.clone());
        let mut childs =
            NodeState::new(engine, Owned::new(owner, nowhere), self.clock.clone(), self.bulk.message_memory());
        // The child's copies of prepared messages are counted down when they are dropped.
        childs.prepared = self.prepared;
        // Its end would be the parent's, or run code of the program that uses the node.
        std::mem::forget(std::mem::replace(self, childs));
    }
}
