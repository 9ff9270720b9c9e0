//! What a node tells its transport besides frames, and what the transport tells the node.

use am_wire::bounce::Back;
use am_wire::{Address, Flow};

use crate::{Caps, IntroduceError, Transport};

/// What a node tells its transport. A transport ignores what it has no use for.
#[derive(Clone, Copy, Debug)]
pub enum Command<'a> {
    /// A flow id of this node is in use from now on, or no longer. Steering follows.
    Steer {
        /// The id.
        flow: Flow,
        /// Whether it is in use.
        open: bool,
    },
    /// The start of the rejects of a flow's requests, for a program that rejects them before the host sees them
    /// ([`RxFull`](Command::RxFull)). Elsewhere the host rejects. It is valid until the flow closes, or until the next one.
    /// The node has checked where it leads: the [gate](am_wire::gate) knows that address from then on.
    RejectTemplate {
        /// The flow of the requests.
        flow: Flow,
        /// The start of their rejects.
        template: &'a Back,
    },
    /// There is no room for requests, or there is again.
    RxFull(bool),
    /// The most credits that were ever granted together: so many frames may arrive at once.
    RxCredit(usize),
    /// Frames to this address seem not to arrive. A transport with another path takes it.
    ReportLoss(Address),
    /// A peer may be at this address, written as the [name](crate::Caps::name) of its transport: `udp:10.0.0.7:7000`.
    /// Frames to all reach it from now on, so discovery does. The second time changes nothing. The node says this at set-up
    /// and not in each turn: the transport may allocate.
    AddPeer(&'a str),
    /// No peer is at this address any more. Frames that still come from there are a stranger's. An address that was
    /// never added is no error.
    RemovePeer(&'a str),
}

impl Command<'_> {
    /// The answer of a transport whose link decides which nodes are on it: it has no use for peer addresses.
    ///
    /// # Errors
    /// [`IntroduceError::Needless`] for an address of a peer.
    pub fn without_peers(&self, caps: &Caps) -> Result<(), IntroduceError> {
        match self {
            Command::AddPeer(_) | Command::RemovePeer(_) => {
                Err(IntroduceError::Needless { transport: caps.name.clone() })
            }
            _ => Ok(()),
        }
    }
}

/// What a transport tells its node: see [`Transport::poll_notices`](crate::Transport::poll_notices).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice<'a> {
    /// Steering dropped a frame for this flow, which is not open here; once, of several the last. The peer may have
    /// missed that the flow was closed. The node notifies it.
    UnknownFlow(Flow),
    /// The peer at this address has ended, says the operating system, so nobody on the link can forge it; once.
    PeerGone(Address),
    /// Frames to this address can take a path that they could not take before; once.
    NewPath(Address),
    /// Why nothing leaves or arrives now: the interface is down, the socket was closed. Each time while that is so.
    LinkError(&'a str),
}

/// A peer, as its transport sees it, for people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerInfo {
    /// Its address, written as the name of its transport, where that says more than the link address.
    pub address: Option<String>,
    /// The path that frames to it take, and why, where there are several.
    pub path: Option<String>,
}

/// Shorthand for tests and tools that use a transport without a node.
pub trait TransportExt: Transport {
    /// Let frames for a flow in, or no longer.
    fn steer(&mut self, flow: Flow, open: bool) {
        // Only addresses of peers can be refused.
        _ = self.control(Command::Steer { flow, open });
    }

    /// [`Command::AddPeer`].
    ///
    /// # Errors
    /// See [`IntroduceError`].
    fn add_peer(&mut self, address: &str) -> Result<(), IntroduceError> {
        self.control(Command::AddPeer(address))
    }

    /// [`Command::RemovePeer`].
    ///
    /// # Errors
    /// See [`IntroduceError`].
    fn remove_peer(&mut self, address: &str) -> Result<(), IntroduceError> {
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
