//! Where a message goes: the peer's endpoint, and the handler in its table.

use std::fmt;

use am_proto::FlowId;
use am_wire::control::Name;

/// A connection of two endpoints, as this node names it: small, copied freely, a key for maps. It stays valid as a name when
/// the connection has ended; a later one with the same peer has another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Connection(pub(crate) FlowId);

/// Index into the receiving endpoint's table of handlers: what a message names
/// instead of a function. Requests and replies have a table each.
///
/// ```
/// use am_api::HandlerId;
/// const ECHO: HandlerId = HandlerId(0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HandlerId(pub u8);

/// The name of an endpoint on the network: its node's, and its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EndpointName {
    /// The node.
    pub node: Name,
    /// The endpoint of that node.
    pub endpoint: Name,
}

impl EndpointName {
    pub(crate) fn of((node, endpoint): (Name, Name)) -> EndpointName {
        EndpointName { node, endpoint }
    }
}

impl fmt::Display for EndpointName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.node, self.endpoint)
    }
}
