//! Frames of a group: one Ethernet multicast that reaches every member, for layers that make an order of them.
//!
//! A frame may be lost, duplicated or late, as on the network. The layer above repairs that. What this module adds to the network is the
//! [stamp](Multicast::stamps): where the transport's XDP program can, it numbers the messages of a group without waking the process.

use std::fmt;
use std::ops::Deref;

use am_proto::EndpointId;
use am_ring::Frame;
use am_transport::{Command, JoinedGroup, PeerAddressError, SharedStamps};
use am_wire::frame::LinkAddresses;
use am_wire::group::{self, GROUP_PAYLOAD_AT, GroupHeader};
use am_wire::{Address, Buffer, HashKey};

use crate::Endpoint;
use crate::endpoint::{GroupMessage, Head, group_payload};
use crate::node_state::{NodeRc, NodeState, borrow_to_drop};

/// A group that this node has joined. Dropping it leaves the group.
pub struct Multicast {
    node: NodeRc,
    group: u64,
    key: HashKey,
    joined: JoinedGroup,
}

/// Why a group cannot be joined.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub enum MulticastError {
    /// The transport carries no group frames, or no more groups.
    #[error(transparent)]
    Unsupported(#[from] PeerAddressError),
    /// An endpoint of this node has joined it.
    #[error("an endpoint of this node has joined the group {0:#x} already: drop its `Multicast` first")]
    Taken(u64),
    /// 0 is no group.
    #[error("0 is no group: choose a random number")]
    Zero,
}

am_transport::debug_as_display!(MulticastError);

/// Why a group frame was not sent.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MulticastSendError {
    /// The payload does not fit a frame.
    #[error("{needs} bytes do not fit a group frame: {most} do")]
    TooLarge {
        /// Bytes of the payload.
        needs: usize,
        /// The most that fit.
        most: usize,
    },
    /// The transport's queue is full, or no frame is free: try again after a poll.
    #[error("there is no room for another frame: poll, and send again")]
    Full,
}

am_transport::debug_as_display!(MulticastSendError);

/// A group message kept beyond its handler, in the memory where it arrived. It derefs to the payload, and may go to another thread. It withholds
/// a frame from the node's pool, and no credit.
pub struct OwnedGroupMessage {
    /// The header.
    pub header: GroupHeader,
    frame: Frame,
}

impl<S> Endpoint<S> {
    /// Join a group: from now on `run` gets its frames when this endpoint is polled. An endpoint has one such handler, for all its groups.
    ///
    /// # Errors
    /// [`MulticastError`]: it says why this transport cannot.
    pub fn join_group(
        &mut self,
        group: u64,
        run: impl FnMut(&mut S, GroupMessage<'_, S>) + 'static,
    ) -> Result<Multicast, MulticastError> {
        let mut node = self.node.borrow_mut();
        let joined = node.join_group(self.id, group)?;
        let key = node.core().group_key(group);
        drop(node);
        self.handlers.get_mut().group = Some(Box::new(run));
        Ok(Multicast { node: self.node.clone(), group, key, joined })
    }
}

impl Multicast {
    /// The group.
    pub fn group(&self) -> u64 {
        self.group
    }

    /// Send a frame to the group: to every node on the link that has joined it, but not to this one. It leaves with the next poll, or
    /// [`flush`](Endpoint::flush).
    ///
    /// # Errors
    /// [`MulticastSendError`].
    pub fn send(&self, header: &GroupHeader, payload: &[u8]) -> Result<(), MulticastSendError> {
        self.send_to(group::address(self.group), header, payload)
    }

    /// Send a frame to one member, by its node's [`link_address`](crate::Node::link_address).
    ///
    /// # Errors
    /// [`MulticastSendError`].
    pub fn send_to(&self, to: Address, header: &GroupHeader, payload: &[u8]) -> Result<(), MulticastSendError> {
        self.send_parts_to(to, header, [payload, &[]])
    }

    /// Send a frame whose payload lies in two places.
    ///
    /// # Errors
    /// [`MulticastSendError`].
    pub fn send_parts_to(
        &self,
        to: Address,
        header: &GroupHeader,
        parts: [&[u8]; 2],
    ) -> Result<(), MulticastSendError> {
        let NodeState { engine, transport, .. } = &mut *self.node.borrow_mut();
        let caps = transport.caps();
        let needs = parts[0].len() + parts[1].len();
        let most = caps.max_frame.saturating_sub(GROUP_PAYLOAD_AT);
        let too_large = MulticastSendError::TooLarge { needs, most };
        if needs > most {
            return Err(too_large);
        }
        let ethertype = engine.core().config().ethertype;
        let link = LinkAddresses { to, from: caps.address, ethertype };
        let mut frame = engine.pool().take().ok_or(MulticastSendError::Full)?;
        let space = frame.space().ok_or(MulticastSendError::Full)?;
        let payload = group::payload(space, needs).map_err(|_| too_large)?;
        let (first, second) = payload.split_at_mut(parts[0].len());
        first.copy_from_slice(parts[0]);
        second.copy_from_slice(parts[1]);
        let header = header.signed(self.key, payload);
        let length = group::emit(space, &link, &header, needs).map_err(|_| too_large)?;
        frame.set_len(length);
        if engine.send_frame(to, &frame, &mut ***transport) { Ok(()) } else { Err(MulticastSendError::Full) }
    }

    /// The key by which frames of this group are signed and checked, derived from the [segment key](crate::Builder::segment_key); zeros without one.
    pub fn key(&self) -> HashKey {
        self.key
    }

    /// Whether the network multiplies a frame to the group. Elsewhere it leaves once for each peer.
    pub fn is_one_frame(&self) -> bool {
        let node = self.node.borrow();
        let caps = node.transport.caps();
        caps.hears_all && !caps.reliable
    }

    /// The most bytes of a payload.
    pub fn max_payload(&self) -> usize {
        self.node.borrow().transport.caps().max_frame.saturating_sub(GROUP_PAYLOAD_AT)
    }

    /// The table by which the XDP program of this node's transport stamps messages of the group and sends them on, while it is
    /// [open](am_wire::stamp::Stamps::open). This process may [stamp](am_wire::stamp::stamp) its own messages by it at the same time. Frames to be stamped
    /// arrive at the handler of [`Endpoint::join_group`] otherwise, and this process stamps by a table of its own.
    ///
    /// # Errors
    /// Why the transport does not stamp.
    pub fn stamps(&self) -> Result<&SharedStamps, &str> {
        self.joined.stamps.as_ref().map_err(String::as_str)
    }

    /// Let the XDP program of this node's transport send this number of copies of each message that it stamps, while the table of
    /// [`stamps`](Multicast::stamps) names [their receivers](am_wire::stamp::Opening::copies). 0 ends that, and says whether it is possible.
    ///
    /// # Errors
    /// Why it is not.
    pub fn set_copies(&self, copies: usize) -> Result<(), PeerAddressError> {
        self.node.borrow_mut().transport.control(Command::CopyStamped { group: self.group, copies })
    }

    /// The time by which leases are judged, in nanoseconds: that of the system's monotonic clock.
    pub fn lease_clock() -> u64 {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
    }
}

impl Drop for Multicast {
    fn drop(&mut self) {
        if let Some(mut node) = borrow_to_drop(&self.node) {
            node.core().leave_group(self.group);
            // Leaving cannot fail.
            _ = node.transport.control(Command::LeaveGroup(self.group));
        }
    }
}

impl fmt::Debug for Multicast {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Multicast").field("group", &self.group).field("joined", &self.joined).finish_non_exhaustive()
    }
}

impl NodeState {
    fn join_group(&mut self, endpoint: EndpointId, group: u64) -> Result<JoinedGroup, MulticastError> {
        if group == 0 {
            return Err(MulticastError::Zero);
        }
        if !self.core().join_group(group, endpoint) {
            return Err(MulticastError::Taken(group));
        }
        let joined = std::cell::OnceCell::new();
        if let Err(why) = self.transport.control(Command::JoinGroup { group, joined: &joined }) {
            self.core().leave_group(group);
            return Err(why.into());
        }
        let unknown = || JoinedGroup { stamps: Err("the transport does not say whether it stamps".to_owned()) };
        Ok(joined.into_inner().unwrap_or_else(unknown))
    }
}

impl<S> GroupMessage<'_, S> {
    /// Keep the message when the handler returns, without copying it.
    pub fn keep(&self) -> OwnedGroupMessage {
        OwnedGroupMessage { header: self.header, frame: self.frame.share() }
    }
}

impl Deref for OwnedGroupMessage {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        group_payload(&self.frame)
    }
}

impl fmt::Debug for OwnedGroupMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnedGroupMessage")
            .field("header", &self.header)
            .field("payload", &Head(self))
            .finish_non_exhaustive()
    }
}
