//! Connections: two endpoints agree on a connection (AM-II's `AM_Map`).

use std::fmt;
use std::time::Duration;

use am_proto::{FlowState, FramingWhy, ReturnReason};
use am_transport::PeerInfo;
use am_wire::control::{Incarnation, Name};
use am_wire::{Framing, WORD_BYTES};

use crate::names::{self, InvalidName};
use crate::node_state::{NodeState, longest_payload};
use crate::{Connection, Endpoint, EndpointName, NotOpen};

/// Why the set-up of a connection could not begin.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// The name of the node or of the endpoint is invalid.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// This node has no free flow id.
    #[error("no flow id is left on this node: close connections that are no longer used")]
    NoFlow,
    /// The endpoint has been closed.
    #[error("this endpoint is closed")]
    Closed,
    /// The name is this node's own.
    #[error(
        "`{0}` is this node itself, and a node has no connection with itself: call the handler's function instead, or open a second node \
         under another name"
    )]
    OwnNode(Name),
    /// This process was forked.
    #[error("{}", am_proto::FORKED)]
    Forked,
}

am_transport::debug_as_display!(ConnectError);

impl From<am_proto::ConnectError> for ConnectError {
    fn from(error: am_proto::ConnectError) -> Self {
        match error {
            am_proto::ConnectError::NoFlow => ConnectError::NoFlow,
            am_proto::ConnectError::NoEndpoint => ConnectError::Closed,
            am_proto::ConnectError::Forked => ConnectError::Forked,
            am_proto::ConnectError::OwnName(name) => ConnectError::OwnNode(name),
        }
    }
}

/// The transport, the framing and the sizes of an open connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// The endpoint at the other side.
    pub peer: EndpointName,
    /// The run of its node: see [`Endpoint::incarnation`]. `None` if the peer has not named it.
    pub incarnation: Option<Incarnation>,
    /// The framing of frames to it.
    pub framing: Framing,
    /// Why it has this framing.
    pub why: FramingWhy,
    /// The most bytes of words (8 each) and payload in one frame.
    pub max_body: usize,
    /// What the peer [accepts](crate::Builder::max_message) in one message. A payload that does not fit a frame travels in several. If
    /// this is less than a frame, a message has one frame at most.
    pub max_message: usize,
    /// The own end: the transport, as it was named at run time.
    pub transport: String,
    /// The peer's address on its transport, where that is more than the link address: `udp:10.0.0.8:7000`.
    pub address: Option<String>,
    /// The transport's mode: `veth copy`, `zero-copy`, `memory`.
    pub mode: String,
    /// If there are several transports, the one in use now, and why.
    pub path: Option<String>,
}

impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = match self.why {
            FramingWhy::Configured => "as configured",
            FramingWhy::NothingLearns => "any source address passes, and no switch learns it",
            FramingWhy::Shared => "any source address passes, but other nodes can send too",
            FramingWhy::SwitchLearns => "any source address passes, and a switch learns it",
            FramingWhy::ForgedDropped => "frames pass with the true source address only, on one path at least",
        };
        let Description { peer, framing, max_body, max_message, transport, address, mode, path, .. } = self;
        match path {
            Some(path) => write!(f, "{peer} by {path}")?,
            None => write!(f, "{peer} by {} ({mode})", address.as_ref().unwrap_or(transport))?,
        }
        write!(f, ", {framing} framing ({why}), {max_body} bytes a frame, ")?;
        if max_message > max_body { write!(f, "{max_message} a message") } else { f.write_str("one frame a message") }
    }
}

impl Description {
    /// The longest payload of a message with any number of words: see [`Endpoint::max_payload`].
    pub fn max_payload(&self) -> usize {
        longest_payload(self.max_body, self.max_message)
    }
}

impl<S> Endpoint<S> {
    /// Ask for a connection with an endpoint of a node. The peer's handlers get requests in the order in which they are sent,
    /// and this side's handlers get replies in the order in which they are sent. The set-up continues while this side polls.
    /// Until it is finished, requests fail with [`Connecting`](crate::RequestError::Connecting).
    ///
    /// A connection that was refused or has ended keeps its flow id, so that [`Endpoint::ready`] can return the reason. Close it
    /// before connecting again: a node has 16,383 flow ids.
    ///
    /// # Errors
    /// See [`ConnectError`]. This call does not wait, so it does not report whether the peer exists.
    pub fn connect(&self, node: &str, endpoint: &str) -> Result<Connection, ConnectError> {
        self.connect_with_tag(node, endpoint, 0)
    }

    /// As [`connect`](Self::connect), with an endpoint that has a tag. Only endpoints that give its tag can connect to it.
    ///
    /// # Errors
    /// As for [`Endpoint::connect`].
    pub fn connect_with_tag(&self, node: &str, endpoint: &str, tag: u64) -> Result<Connection, ConnectError> {
        self.connect_as((node, endpoint, tag), true)
    }

    /// As [`connect_with_tag`](Self::connect_with_tag), for messages that need no order. A lost or rejected message does not
    /// delay later ones (no head-of-line blocking).
    ///
    /// # Errors
    /// As for [`Endpoint::connect`].
    pub fn connect_unordered(&self, node: &str, endpoint: &str, tag: u64) -> Result<Connection, ConnectError> {
        self.connect_as((node, endpoint, tag), false)
    }

    fn connect_as(
        &self,
        (node, endpoint, tag): (&str, &str, u64),
        is_ordered: bool,
    ) -> Result<Connection, ConnectError> {
        let to = (names::parse(node)?, names::parse(endpoint)?, tag);
        let mut node = self.node.borrow_mut();
        let now = node.clock.now();
        Ok(Connection(node.core().connect(now, self.id, to, is_ordered)?))
    }

    /// Whether the connection is open, so that requests can be sent.
    pub fn is_open(&self, to: Connection) -> bool {
        self.ready(to).is_ok()
    }

    /// Whether the connection is open; the error is the reason why it is not.
    pub fn ready(&self, to: Connection) -> Result<(), NotOpen> {
        self.node.borrow().open_flow(to.0).map(|_| ())
    }

    /// For how long the peer has been alive without polling. `None` if it polls. Its handler may sleep, it may compute, or it
    /// may be stopped while a daemon or the kernel shows that it lives. Messages to it wait, and those in flight are not lost.
    /// A node notices this only while messages wait for the peer.
    pub fn not_polling_for(&self, to: Connection) -> Option<Duration> {
        let node = self.node.borrow();
        let since = node.engine.core().not_polling_since(to.0)?;
        Some(node.clock.now() - since)
    }

    /// The number of requests that can be sent on the connection now.
    pub fn credit(&self, to: Connection) -> usize {
        let node = self.node.borrow();
        let core = node.engine.core();
        if node.bulk.may_follow(core, to.0) { core.credit(to.0, am_wire::Class::Request) } else { 0 }
    }

    /// Whether the peer's node has accepted all sent requests and replies, or they have returned. A program that is about to
    /// end waits until this is true: [`wait_accepted`](Endpoint::wait_accepted).
    pub fn is_accepted(&self, to: Connection) -> bool {
        let node = self.node.borrow();
        !node.engine.core().has_unacknowledged(to.0) && node.bulk.message_bytes_on(to.0) == 0
    }

    /// The bytes of messages longer than a frame that this node keeps for the connection, because the peer does not have all of
    /// them. For a program that limits what it keeps for a slow peer.
    pub fn kept_bytes(&self, to: Connection) -> usize {
        self.node.borrow().bulk.message_bytes_on(to.0)
    }

    /// The longest payload of a message on this connection, with any number of words: what the peer
    /// [accepts](crate::Builder::max_message), or what fits a frame beside four words. If that is a frame, a message with fewer words may
    /// have a [longer payload](Endpoint::frame_payload). `None` while the connection is not open.
    pub fn max_payload(&self, to: Connection) -> Option<usize> {
        self.node.borrow().max_payload(to.0)
    }

    /// The longest payload of a message with `words` words that travels in one frame. A longer one costs a copy and a frame for
    /// each further piece. `None` while the connection is not open.
    pub fn frame_payload(&self, to: Connection, words: usize) -> Option<usize> {
        let (_, max_body) = self.node.borrow().open_flow(to.0).ok()?;
        max_body.checked_sub(words.checked_mul(WORD_BYTES)?)
    }

    /// The endpoint at the other side. `None` for a closed connection.
    pub fn peer(&self, of: Connection) -> Option<EndpointName> {
        self.node.borrow().engine.core().peer_names(of.0).map(EndpointName::of)
    }

    /// The run of the peer's node. After a restart it is another one. A connection that opens within moments of a restart may still have the
    /// run before: once this node has verified the new one, that connection ends with
    /// [`Restarted`](ReturnReason::Restarted). A connection never leads to two runs. `None` for a closed connection.
    pub fn incarnation(&self, of: Connection) -> Option<Incarnation> {
        self.node.borrow().engine.core().peer_run(of.0)
    }

    /// The connection's framing and the reason for it, its sizes, and its transport. `None` while it is not open.
    pub fn describe(&self, of: Connection) -> Option<Description> {
        let node = self.node.borrow();
        let (core, caps) = (node.engine.core(), node.transport.caps());
        let FlowState::Open { framing, why, max_body, max_message } = core.state(of.0) else { return None };
        let PeerInfo { address, path, .. } = core.address(of.0).map(|to| node.transport.peer(to)).unwrap_or_default();
        Some(Description {
            peer: EndpointName::of(core.peer_names(of.0)?),
            incarnation: core.peer_run(of.0),
            framing,
            why,
            max_body,
            max_message,
            transport: caps.name.clone(),
            address,
            mode: caps.mode.clone(),
            path,
        })
    }

    /// Close the connection. The next poll or flush notifies the peer.
    pub fn close(&self, to: Connection) {
        let mut node = self.node.borrow_mut();
        let NodeState { log, engine, events, bulk, .. } = &mut *node;
        log.note_closed(to.0, engine.core());
        events.closed(self.id, to.0);
        bulk.close(engine.core_mut(), to.0);
        engine.core_mut().close(to.0);
        drop(node);
        self.end_calls(to, ReturnReason::Closed);
    }
}
