//! What keeps a node from working as it should, except its link.

use am_proto::NameConflict;
use am_wire::Address;

use crate::Problem;
use crate::node_state::NodeState;

impl NodeState {
    /// Two nodes with the same name, and their addresses.
    #[cold]
    pub(crate) fn duplicate_name(&self) -> Option<Problem> {
        let NameConflict { name, addresses } = self.engine.core().name_conflict()?;
        let [first, second] = addresses.map(|address| self.place_of(address));
        Some(Problem::DuplicateName { name, first, second })
    }

    /// A peer talks with another node of this one's name.
    #[cold]
    pub(crate) fn lost_name(&self) -> Option<Problem> {
        let core = self.engine.core();
        let peer = self.place_of(core.name_lost()?);
        Some(Problem::NameTaken { name: core.config().name, peer })
    }

    /// A link address, and the peer address where the transport knows it.
    fn place_of(&self, address: Address) -> String {
        let caps = self.transport.caps();
        let known =
            self.transport.peer(address).address.or_else(|| (address == caps.address).then(|| caps.name.clone()));
        known.map_or_else(|| address.to_string(), |known| format!("{address} ({known})"))
    }

    /// A peer that frames of the full length do not reach.
    pub(crate) fn short_frames(&self) -> Option<Problem> {
        let (peer, max_frame) = self.engine.core().shortened_peers().next()?;
        Some(Problem::ShortFrames { peer: peer.name, max_frame })
    }
}
