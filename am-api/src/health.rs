//! What keeps a node from working as it should.

use am_proto::NameConflict;
use am_wire::control::Incarnation;
use am_wire::{Address, Reason};

use crate::node_state::NodeState;
use crate::{NotOpen, NotReached, Problem};

impl NodeState {
    /// What keeps the node from working as it should.
    #[cold]
    pub(crate) fn health(&mut self) -> Result<(), Problem> {
        let NodeState { engine, transport, .. } = self;
        if let Some(error) = engine.link_error(&mut ***transport) {
            return Err(Problem::Link(error));
        }
        let core = self.engine.core();
        let other_key = || Problem::OtherKey { frames: core.counters().control_unauthenticated };
        let other_key = core.has_unauthenticated().then(other_key);
        let late = self.engine.lateness().map(Problem::Late);
        self.duplicate_name()
            .or_else(|| self.lost_name())
            .or_else(|| self.short_frames())
            .or(other_key)
            .or(late)
            .map_or(Ok(()), Err)
    }

    /// A connection did not open for this reason.
    #[cold]
    pub(crate) fn not_reached(&mut self, why: NotOpen) -> NotReached {
        let core = self.engine.core();
        let peers = core.peers();
        let seen = peers.filter(|peer| peer.incarnation != Incarnation(0)).map(|peer| peer.name).collect();
        let mut of_another_version = core.counters().dropped[Reason::Version as usize];
        self.transport.counters(&mut |name, frames| {
            if name.ends_with("_drop_unknown_version") {
                of_another_version += frames;
            }
        });
        NotReached {
            why,
            transport: self.transport.caps().name.clone(),
            seen,
            of_another_version,
            problem: self.health().err().map(Box::new),
        }
    }

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
