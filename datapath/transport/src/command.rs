//! Commands from a node to its transport, and notices from the transport to the node.

use am_wire::bounce::RejectTemplate;
use am_wire::{Address, Flow};

use crate::{Caps, Transport};

/// A command of a node to its transport. A transport ignores a command that it has no use for.
#[derive(Clone, Copy, Debug)]
pub enum Command<'a> {
    /// A flow id of this node is in use from now on, or no longer. Steering admits its frames, or drops them.
    Steer {
        /// The id.
        flow: Flow,
        /// Whether it is in use.
        open: bool,
    },
    /// The first bytes of the rejects for a flow's requests. With it the XDP program bounces requests before the host sees them
    /// ([`RxFull`](Command::RxFull)); on other transports the host rejects. It is valid until the flow closes, or the next template
    /// replaces it. The node has verified its destination address, so the [gate](am_wire::gate) treats that as known from then on.
    RejectTemplate {
        /// The flow of the requests.
        flow: Flow,
        /// The first bytes of their rejects.
        template: &'a RejectTemplate,
    },
    /// Whether the node has no room for requests.
    RxFull(bool),
    /// The largest sum of credits granted so far. This many frames may arrive at once.
    RxCredit(usize),
    /// Frames to this address seem not to arrive. A transport with several paths changes to another.
    ReportLoss(Address),
    /// The thread is about to wait. If the next [`receive`](Transport::receive) finds nothing, a frame that arrives later makes one
    /// of the [descriptors](crate::Caps::wake) readable. Before this command they need not become readable.
    BeforeSleep,
    /// A peer may be at this address, written as the [name](crate::Caps::name) of its transport: `udp:10.0.0.7:7000`. Broadcasts reach
    /// it from now on, and so does discovery. A repetition changes nothing. The transport may allocate, because this command comes at
    /// set-up and not in each turn.
    AddPeer(&'a str),
    /// No peer is at this address any more. Frames that still arrive from there count as an unknown host's. Removing an address
    /// that was never added is no error.
    RemovePeer(&'a str),
}

impl Command<'_> {
    /// The result of `control` on a transport without peer addresses: its link decides which nodes are on it.
    ///
    /// # Errors
    /// [`PeerAddressError::Needless`] for an address of a peer.
    pub fn without_peers(&self, caps: &Caps) -> Result<(), PeerAddressError> {
        let is_refused = matches!(self, Command::AddPeer(_) | Command::RemovePeer(_));
        if is_refused { Err(PeerAddressError::Needless { transport: caps.name.clone() }) } else { Ok(()) }
    }
}

/// Why a peer address cannot be added or removed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PeerAddressError {
    /// The link decides which nodes are on it.
    #[error("`{transport}` reaches every node on its link: leave out the peer's address")]
    Needless {
        /// The transport.
        transport: String,
    },
    /// The text is not an address of this transport.
    #[error("`{place}` is no address: write {example}, for instance")]
    NoPlace {
        /// The text.
        place: String,
        /// An example of an address.
        example: &'static str,
    },
    /// No peer of this transport can have the address.
    #[error("`{place}` is no peer's address: {why}")]
    NoPeer {
        /// The address.
        place: String,
        /// Why, and what to write instead.
        why: String,
    },
    /// There is no room for another address.
    #[error("{known} peer addresses are known, and there is no room for more: remove some")]
    TooMany {
        /// How many are known.
        known: usize,
    },
    /// The system refused.
    #[error("`{place}` cannot be reached: {why}")]
    System {
        /// The address.
        place: String,
        /// What the system says, and what to do.
        why: String,
    },
}

/// A notice of a transport to its node. See [`Transport::poll_notices`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice<'a> {
    /// Steering dropped a frame for this flow, which is not open here. Only the last such flow is reported, once. The peer may have
    /// missed the close of the flow, so the node notifies it.
    UnknownFlow(Flow),
    /// The peer at this address has ended. The operating system reports it, so no node on the link can forge it. Reported once.
    PeerGone(Address),
    /// Frames to this address can take a new path. Reported once.
    NewPath(Address),
    /// Why no frame leaves or arrives now: the interface is down, or the socket was closed. Reported at each poll while it holds.
    LinkError(&'a str),
}

/// A transport's knowledge of a peer, for reports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerInfo {
    /// Its address, written as the name of its transport, if that is more than the link address.
    pub address: Option<String>,
    /// The path that frames to it take, and why, if there are several.
    pub path: Option<String>,
}

/// Shorthands for tests and tools that use a transport without a node.
pub trait TransportExt: Transport {
    /// [`Command::Steer`]: admit frames for a flow, or drop them.
    fn steer(&mut self, flow: Flow, open: bool) {
        // Only commands with a peer address can fail.
        _ = self.control(Command::Steer { flow, open });
    }

    /// [`Command::AddPeer`].
    ///
    /// # Errors
    /// See [`PeerAddressError`].
    fn add_peer(&mut self, address: &str) -> Result<(), PeerAddressError> {
        self.control(Command::AddPeer(address))
    }

    /// [`Command::RemovePeer`].
    ///
    /// # Errors
    /// See [`PeerAddressError`].
    fn remove_peer(&mut self, address: &str) -> Result<(), PeerAddressError> {
        self.control(Command::RemovePeer(address))
    }

    /// [`Notice::LinkError`]. Other notices are lost.
    fn link_error(&mut self) -> Option<String> {
        let mut error = None;
        self.poll_notices(&mut |notice| {
            if let Notice::LinkError(why) = notice {
                error = Some(why.to_owned());
            }
        });
        error
    }

    /// [`Notice::UnknownFlow`]. Other notices are lost.
    fn unknown_flow(&mut self) -> Option<Flow> {
        let mut unknown = None;
        self.poll_notices(&mut |notice| {
            if let Notice::UnknownFlow(flow) = notice {
                unknown = Some(flow);
            }
        });
        unknown
    }
}

impl<T: Transport + ?Sized> TransportExt for T {}
