//! Commands from a node to its transport, and notices from the transport to the node.

use std::cell::OnceCell;
use std::fmt;
use std::ops::Deref;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use am_wire::bounce::RejectTemplate;
use am_wire::group::JoinedGroups;
use am_wire::stamp::Stamps;
use am_wire::{Address, AddressSet, Flow};

use crate::{Caps, Transport};

/// A command of a node to its transport. A transport ignores a command that it has no use for.
#[derive(Clone, Copy, Debug)]
pub enum Command<'a> {
    /// A flow id of this node is in use from now on, or was closed. Steering admits its frames, or drops them.
    Steer {
        /// The id.
        flow: Flow,
        /// Whether it is in use.
        open: bool,
    },
    /// The first bytes of the rejects for a flow's requests. While the node is [full](Command::RxFull), the XDP program bounces
    /// requests with it before the host sees them. On other transports the host rejects. A template is valid until the flow closes
    /// or another template replaces it. The node has verified the template's destination address, so the [gate](am_wire::gate) treats
    /// that address as known from then on.
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
    /// The peer at this address is silent. A transport that knows that the peer's process lives reports [`Notice::PeerAlive`]. With
    /// [`Address::BROADCAST`], the node searches for a peer: the transport reports each process that it knows to live as
    /// [`Notice::StrangerAlive`].
    AskAlive(Address),
    /// The thread is about to wait. If the next [`receive`](Transport::receive) finds nothing, a frame that arrives later makes one
    /// of the [descriptors](crate::Caps::wake) readable. Before this command they need not become readable, unless the transport
    /// [wakes by level](crate::Caps::wakes_by_level).
    BeforeSleep,
    /// The node leaves, and sends its last frames. If the queue of a peer is full, frames to that peer are dropped after this time, so
    /// that the other peers get theirs.
    Leave(Duration),
    /// A peer may be at this address, written as the [name](crate::Caps::name) of its transport: `udp:10.0.0.7:7000`. Broadcasts, and
    /// so discovery, reach it from now on. A repetition changes nothing. The transport may allocate, because this command comes at
    /// set-up and not in each turn.
    AddPeer(&'a str),
    /// Send this frame, the node's beacon to all, to each [added](Command::AddPeer) address from which no control frame has arrived since it
    /// was added. A broadcast would reach all peers, and all would answer. Set-ups that search repeat the command: the transport leaves
    /// out an address that was asked lately, for longer and longer.
    Introduce(&'a [u8]),
    /// No peer is at this address any more. Frames that still arrive from there count as frames of an unknown host. Removing an
    /// address that was never added is no error.
    RemovePeer(&'a str),
    /// Serve one more link address, for nodes behind this one: a switch in this process decides about their flows. From now on,
    /// well-formed frames of the network's EtherTypes to this address are handed over, whatever their flow; control frames pass the
    /// [gate](am_wire::gate) first. Frames may be sent with it as their source, and the peers' answers to them arrive. A broadcast or
    /// multicast frame is still handed over once. A repetition changes nothing. A transport serves at most [`AddressSet::MAX`] added
    /// addresses.
    AddAddress(Address),
    /// No longer serve an added address, and revoke the queue that was lent to it. Removing an address that was never added is no error.
    RemoveAddress(Address),
    /// Lend a queue of the device to the process of an added address. Frames to the address that arrive on the queue go to that
    /// process, and not through this transport. A queue that was lent to the address before is revoked.
    LendQueue {
        /// The address.
        to: Address,
        /// Set on success.
        lent: &'a OnceCell<LentQueue>,
    },
    /// Hand over the [frames of a group](am_wire::group) from now on: those to the group's address, and those to this node. A frame to the group's
    /// address is sent like any other, and reaches the other nodes on the link that have joined the group.
    JoinGroup {
        /// The group.
        group: u64,
        /// Set on success.
        joined: &'a OnceCell<JoinedGroup>,
    },
    /// Send this number of copies of each frame that the transport stamps for a group, while its table has [that
    /// destination](am_wire::stamp::Destination::Copies). 0 ends that, and says whether it is possible.
    CopyStamped {
        /// The group.
        group: u64,
        /// How many.
        copies: usize,
    },
    /// No longer hand over the frames of a group, nor stamp them. Leaving a group that was never joined is no error.
    LeaveGroup(u64),
}

/// The table by which the transport stamps the frames of a group.
pub type SharedStamps = Arc<dyn Deref<Target = Stamps> + Send + Sync>;

/// What a node gets that has joined a group.
pub struct JoinedGroup {
    /// Frames to be stamped are stamped by this table and sent on, without waking the process, while it is open for the group. Otherwise, and without such a table, they are handed over. The error is why the transport does not stamp.
    pub stamps: Result<SharedStamps, String>,
}

impl fmt::Debug for JoinedGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinedGroup").field("stamps", &self.stamps.as_ref().map(|_| ())).finish()
    }
}

/// A queue of a device for another process, as two descriptors. The process needs nothing else. Closing both ends the loan.
#[derive(Debug)]
pub struct LentQueue {
    /// The socket, bound to the queue.
    pub socket: OwnedFd,
    /// The memory of its frames.
    pub memory: OwnedFd,
    /// The sizes of its memory and rings.
    pub shape: QueueShape,
}

/// The shape of a lent queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueShape {
    /// The queue's number.
    pub queue: u32,
    /// Bytes of a chunk of the memory.
    pub chunk: u32,
    /// Chunks.
    pub chunks: u32,
    /// Entries of each ring.
    pub entries: u32,
    /// Whether the device reads and writes the memory itself.
    pub zero_copy: bool,
}

impl Command<'_> {
    /// The result of `control` on a transport that has neither peer addresses (its link decides which nodes are on it) nor added
    /// addresses.
    ///
    /// # Errors
    /// [`PeerAddressError::Needless`] for an address of a peer, [`PeerAddressError::NotServed`] for an address to be served,
    /// [`PeerAddressError::NoQueue`] for a queue, [`PeerAddressError::NoGroup`] for a group, [`PeerAddressError::NoCopies`] for copies.
    pub fn without_peers(&self, caps: &Caps) -> Result<(), PeerAddressError> {
        match *self {
            Command::AddPeer(_) | Command::RemovePeer(_) => {
                Err(PeerAddressError::Needless { transport: caps.name.clone() })
            }
            Command::AddAddress(address) => {
                Err(PeerAddressError::not_served(caps, address, "it serves no address but its own"))
            }
            Command::LendQueue { .. } => Err(PeerAddressError::NoQueue {
                transport: caps.name.clone(),
                why: "only `xdp:` has such queues".into(),
                may_come: false,
            }),
            Command::JoinGroup { .. } => Err(PeerAddressError::NoGroup {
                transport: caps.name.clone(),
                why: "it carries no group frames".into(),
            }),
            Command::CopyStamped { .. } => Err(PeerAddressError::NoCopies {
                transport: caps.name.clone(),
                why: "only the XDP program of `xdp:` does".into(),
            }),
            _ => Ok(()),
        }
    }
}

/// Why an address of a peer cannot be added or removed, or why an address cannot be served.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
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
    /// The transport cannot serve this link address ([`Command::AddAddress`]).
    #[error("`{transport}` cannot serve the address {address}: {why}")]
    NotServed {
        /// The transport.
        transport: String,
        /// The address.
        address: Address,
        /// Why, and what to do.
        why: String,
    },
    /// The transport cannot lend a queue ([`Command::LendQueue`]).
    #[error("`{transport}` has no queue to lend: {why}")]
    NoQueue {
        /// The transport.
        transport: String,
        /// Why, and what to do.
        why: String,
        /// Whether another attempt soon may succeed: a queue that was not lent is in use, and the kernel may still be releasing it.
        may_come: bool,
    },
    /// The transport cannot hand over the frames of a group ([`Command::JoinGroup`]).
    #[error("`{transport}` does not join the group: {why}")]
    NoGroup {
        /// The transport.
        transport: String,
        /// Why, and what to do.
        why: String,
    },
    /// The transport sends no copies of the frames that it stamps ([`Command::CopyStamped`]).
    #[error("`{transport}` sends no copies of stamped frames: {why}")]
    NoCopies {
        /// The transport.
        transport: String,
        /// Why, and what to do.
        why: String,
    },
}

crate::debug_as_display!(PeerAddressError);

impl PeerAddressError {
    /// This transport cannot serve this address.
    pub fn not_served(caps: &Caps, address: Address, why: impl Into<String>) -> PeerAddressError {
        PeerAddressError::NotServed { transport: caps.name.clone(), address, why: why.into() }
    }

    /// The node has joined as many groups as it can.
    pub fn too_many_groups(caps: &Caps) -> PeerAddressError {
        let why = format!("a node joins at most {} of them; leave another one first", JoinedGroups::MAX);
        PeerAddressError::NoGroup { transport: caps.name.clone(), why }
    }

    /// Check that a transport that serves these addresses can serve another one.
    ///
    /// # Errors
    /// [`PeerAddressError::NotServed`]: no node can have the address, or there is no room for it.
    pub fn check_added(caps: &Caps, address: Address, served: &AddressSet) -> Result<(), PeerAddressError> {
        let why = if address.is_group() || address.to_u64() == 0 {
            "no node can have it"
        } else if address == caps.address {
            "it is the transport's own"
        } else if served.is_full() && !served.contains(address) {
            "it serves as many as it can; remove another one first"
        } else {
            return Ok(());
        };
        Err(PeerAddressError::not_served(caps, address, why))
    }
}

/// A notice of a transport to its node. See [`Transport::poll_notices`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice<'a> {
    /// Steering dropped a frame for this flow, which is not open here. Only the last such flow is reported, once. The peer may have
    /// missed the close of the flow, so the node notifies it.
    UnknownFlow(Flow),
    /// The peer at this address has ended. The operating system reports it, so no node on the link can forge it. Reported once.
    PeerGone(Address),
    /// The process of the peer at this address lives, whether it sends anything or not. The operating system reports it. The
    /// answer to [`Command::AskAlive`].
    PeerAlive(Address),
    /// A process lives for which the node has not asked by address. [`Address::BROADCAST`] if the transport does not know its address
    /// yet. If the node does not know the process either, its program may be busy, and send its first beacon later.
    StrangerAlive(Address),
    /// Frames to this address can take a new path. Reported once.
    NewPath(Address),
    /// Why no frame leaves or arrives now: the interface is down, the kernel refuses all frames, or the socket was closed. Reported
    /// at each poll until the error is over. The node may send nothing meanwhile, so the transport must check by itself whether it is
    /// over. It must check its own descriptors, because the interface's index or name may be another interface's by then.
    LinkError(&'a str),
}

/// What a transport knows of a peer, for reports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerInfo {
    /// Its address, written as the name of its transport, if that is more than the link address.
    pub address: Option<String>,
    /// Whether the transport knows which peer has this link address. Then a frame to the address is not flooded.
    pub is_known: bool,
    /// The path that frames to it take, and why, if there are several.
    pub path: Option<String>,
}

/// Shorthands for tests and tools that use a transport without a node.
pub trait TransportExt: Transport {
    /// [`Command::Steer`]: admit frames for a flow, or drop them.
    fn steer(&mut self, flow: Flow, open: bool) {
        // Only commands with an address can fail.
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

    /// [`Command::AddAddress`].
    ///
    /// # Errors
    /// [`PeerAddressError::NotServed`].
    fn add_address(&mut self, address: Address) -> Result<(), PeerAddressError> {
        self.control(Command::AddAddress(address))
    }

    /// [`Command::RemoveAddress`].
    fn remove_address(&mut self, address: Address) {
        // Only commands that add something, or name a peer, can fail.
        _ = self.control(Command::RemoveAddress(address));
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
