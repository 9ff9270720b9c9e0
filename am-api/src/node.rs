//! Nodes: AM-II's bundle, what is known to the network under one name.

use std::fmt;
use std::path::Path;

use am_engine::Idle;
use am_proto::{Member, Peer};
use am_transport::{Command, PeerAddressError};
use am_wire::Address;
use am_wire::control::{Name, NodeId};

use crate::names::{self, InvalidName};
use crate::node_state::{NodeRc, NodeState};
use crate::peers_file::{self, Place};
use crate::{Endpoint, PeersFileError, Problem};
use am_input::text_file;

/// A node on the network, with one transport and any number of endpoints,
/// all of one thread: whichever endpoint is polled turns the loop for all.
///
/// Endpoints keep their node running. When the last of them and the `Node` are
/// dropped, every connection is closed and the peers are notified. What was
/// sent may be lost then: see [Ending](crate#ending).
pub struct Node {
    pub(crate) state: NodeRc,
    pub(crate) name: Name,
    pub(crate) idle: Idle,
}

/// Why there is no such endpoint.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// What it should be called.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// The name is in use.
    #[error("this node has an endpoint named `{0}` already; choose another name or close the first")]
    Taken(Name),
    /// There are too many.
    #[error("this node has all the endpoints it can have; close some")]
    TooMany,
    /// This process was forked.
    #[error("{}", am_proto::FORKED)]
    Forked,
}

am_transport::debug_as_display!(EndpointError);

impl From<am_proto::EndpointError> for EndpointError {
    fn from(error: am_proto::EndpointError) -> Self {
        match error {
            am_proto::EndpointError::NameTaken(name) => EndpointError::Taken(name),
            am_proto::EndpointError::TooMany => EndpointError::TooMany,
            am_proto::EndpointError::Forked => EndpointError::Forked,
        }
    }
}

impl Node {
    /// A new endpoint. `S` is the state that its handlers work on.
    pub fn endpoint<S>(&self, name: &str) -> Result<Endpoint<S>, EndpointError> {
        self.endpoint_with_tag(name, 0)
    }

    /// The same with a tag. Only endpoints that give the tag can connect to it (AM-II's message tags: a guard against mistakes,
    /// not a secret).
    pub fn endpoint_with_tag<S>(&self, name: &str, tag: u64) -> Result<Endpoint<S>, EndpointError> {
        let name = names::parse(name)?;
        let mut node = self.state.borrow_mut();
        let id = node.core().add_endpoint(name, tag)?;
        node.core().set_all_handlers(id, false);
        drop(node);
        Ok(Endpoint::new(self.state.clone(), id, name, self.idle.clone(), None))
    }

    /// How many messages can be on their way at once, of all its connections together: [`Builder::send_frames`](crate::Builder::send_frames),
    /// or what the transport had.
    pub fn send_frames(&self) -> usize {
        self.state.borrow().engine.core().config().send_frames
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    /// The six bytes that stand for this node in frames.
    pub fn link_address(&self) -> Address {
        self.state.borrow().transport.caps().address
    }

    /// Name and mode of its transport: `xdp:eth1 (veth copy)`.
    pub fn transport(&self) -> String {
        let node = self.state.borrow();
        let caps = node.transport.caps();
        format!("{} ({})", caps.name, caps.mode)
    }

    /// The nodes that are known, by discovery or from the static table.
    pub fn peers(&self) -> Vec<Peer> {
        self.state.borrow().engine.core().peers().copied().collect()
    }

    /// The present members. Once an endpoint [watches](crate::Endpoint::on_members), these are the nodes that have answered
    /// this one; a node that crashes is missing about two seconds later. Otherwise these are all nodes of which a beacon
    /// arrived, which may be gone.
    pub fn members(&self) -> Vec<Member> {
        self.state.borrow().engine.core().members().collect()
    }

    /// Look for a node at this address, as that node's [`local_address`](Node::local_address) returns it: `udp:10.0.0.7:7000`. The
    /// node there is asked for its name, and learns of this one. It is enough that one of the two does this. The other one
    /// learns of it with the next [beacon](crate::Builder::beacon), 5 s at most: until then its connects to this node fail.
    ///
    /// A transport that reaches every node on its link (AF_XDP, shared memory) needs no addresses.
    pub fn add_peer_address(&self, address: &str) -> Result<(), PeerAddressError> {
        let mut node = self.state.borrow_mut();
        node.transport.control(Command::AddPeer(address))?;
        node.on_address_added();
        Ok(())
    }

    /// Look for no node at this address any more. Existing connections stay: [`Node::remove_peer`] ends them.
    pub fn remove_peer_address(&self, address: &str) -> Result<(), PeerAddressError> {
        self.state.borrow_mut().transport.control(Command::RemovePeer(address))
    }

    /// A peer that is known without discovery, from now on: as [`Builder::peer`](crate::Builder::peer), while the node runs.
    ///
    /// # Errors
    /// The name is invalid.
    pub fn add_peer(&self, name: &str, address: Address) -> Result<(), InvalidName> {
        let peer = names::fixed(name, address)?;
        self.state.borrow_mut().core().add_peer(peer);
        Ok(())
    }

    /// Load a static table of peers: known without discovery, and never forgotten for others. A later call replaces what
    /// the earlier one loaded; connections with peers that are no longer in the file stay. The file has a line for each
    /// peer:
    ///
    /// ```text
    /// # name  address
    /// beta    02:00:00:00:00:02     as `Node::link_address` returns it (AF_XDP, DPDK)
    /// gamma   udp:10.0.0.7:7000     as `Node::local_address` returns it (UDP, TCP)
    /// ```
    ///
    /// A node that is found at a local address is known by the name that it gives itself; the name in the file is for the
    /// reader.
    ///
    /// # Errors
    /// The file cannot be read, or a line is wrong: the error says which. If the transport refuses an address, the lines
    /// before it are in use.
    pub fn load_peers(&self, path: impl AsRef<Path>) -> Result<(), PeersFileError> {
        let path = path.as_ref();
        let text = text_file::read(path).map_err(|error| PeersFileError::Read { path: path.into(), error })?;
        let wrong = |(line, why)| PeersFileError::Line { path: path.into(), line, why };
        let entries = peers_file::parse(&text).map_err(wrong)?;
        let mut node = self.state.borrow_mut();
        let before = std::mem::take(&mut node.loaded_peers);
        for entry in
            before.iter().filter(|old| !entries.iter().any(|new| (new.name, &new.place) == (old.name, &old.place)))
        {
            match &entry.place {
                Place::Link(_) => node.core().release_peer(NodeId::of(&entry.name)),
                // An address that was added before cannot be wrong now.
                Place::Local(place) => _ = node.transport.control(Command::RemovePeer(place)),
            }
        }
        for entry in entries {
            match &entry.place {
                &Place::Link(address) => node.core().add_peer(names::unseen(entry.name, address)),
                Place::Local(place) => {
                    let added = node.transport.control(Command::AddPeer(place));
                    added.map_err(|error| wrong((entry.line, error.into())))?;
                }
            }
            node.loaded_peers.push(entry);
        }
        node.on_address_added();
        Ok(())
    }

    /// Forget a peer. Connections with it end, as if it had closed them. Messages in flight return, and the peer is
    /// notified. The peer is known again when a frame of it arrives.
    ///
    /// # Errors
    /// The name is invalid. An unknown peer is no error.
    pub fn remove_peer(&self, name: &str) -> Result<(), InvalidName> {
        let node = NodeId::of(&names::parse(name)?);
        self.state.borrow_mut().core().remove_peer(node);
        Ok(())
    }

    /// The address of this node on its transport, as text. [`Node::add_peer_address`] of other nodes takes it, if they have a
    /// transport of this kind. A link-local address names this host's interface: another host leaves out what is behind the `%`.
    pub fn local_address(&self) -> String {
        self.state.borrow().transport.caps().name.clone()
    }

    /// Whether one of its endpoints has [pending events](Endpoint::pending_events). A program with many endpoints that cannot be in an
    /// [`EndpointSet`](crate::EndpointSet) polls one of them, which receives for all of the node, and then those that have such events.
    pub fn has_work(&self) -> bool {
        let node = self.state.borrow();
        node.has_work() || node.has_bulk()
    }

    /// Whether the node works as it should, and what keeps it from that, as long as it lasts. [`Problem`] lists the kinds.
    pub fn health(&self) -> Result<(), Problem> {
        self.state.borrow_mut().health()
    }

    /// The text of a failure that names a peer, with what keeps this node itself from its peers, if anything does.
    #[cold]
    pub fn explain(&self, failure: &dyn fmt::Display) -> String {
        self.health().map_or_else(|problem| format!("{failure}; of this node: {problem}"), |()| failure.to_string())
    }

    /// Everything counted so far, in every layer.
    pub fn counters(&self) -> Counters {
        Counters::of(&self.state.borrow())
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A snapshot of every counter of a node: names and values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters(Vec<(&'static str, u64)>);

impl Counters {
    pub(crate) fn of(node: &NodeState) -> Counters {
        let (bulk, long) = (node.bulk.counters, node.bulk.long.counters);
        let mut all = vec![
            ("unhandled", node.tally.unhandled),
            ("no_reply_frame", node.tally.no_reply_frame),
            ("late_answers", node.tally.late_answers),
            ("heartbeats_sent", node.engine.heartbeats()),
            ("bulk_segments_sent", bulk.sent),
            ("bulk_segments_deposited", bulk.deposited),
            ("bulk_lent", bulk.lent),
            ("bulk_unreadable", bulk.unreadable),
            ("bulk_refused", bulk.refused),
            ("bulk_senseless", bulk.malformed),
            ("long_sent", bulk.messages_sent),
            ("long_received", long.received),
            ("long_waited", long.waited),
            ("long_evicted", long.evicted),
            ("long_malformed", long.malformed),
        ];
        node.engine.core().counters().each(&mut |name, value| all.push((name, value)));
        node.transport.counters(&mut |name, value| all.push((name, value)));
        Counters(all)
    }

    /// The counter of this name; 0 where there is none.
    pub fn get(&self, name: &str) -> u64 {
        self.iter().filter(|(each, _)| *each == name).map(|(_, value)| value).sum()
    }

    /// All of them: this layer's, the protocol's, the transport's.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.0.iter().copied()
    }
}

impl fmt::Display for Counters {
    /// Those that have counted something, one a line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter().filter(|(_, value)| *value > 0).try_for_each(|(name, value)| writeln!(f, "{name:24} {value:>12}"))
    }
}
