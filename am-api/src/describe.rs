//! How a connection travels: framing, path, sizes.

use std::fmt;

use am_proto::{FlowState, FramingWhy};
use am_wire::Framing;

use crate::node_state::NodeState;
use crate::{Connection, EndpointName};

/// How an open connection travels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// The endpoint at the other side.
    pub peer: EndpointName,
    /// What frames to it look like.
    pub framing: Framing,
    /// Why that framing.
    pub why: FramingWhy,
    /// The most bytes of words (8 each) and payload in one message.
    pub max_body: usize,
    /// The transport, as it was named at run time.
    pub transport: String,
    /// The mode that it is in: `veth copy`, `zero-copy`, `memory`.
    pub mode: String,
    /// Of several transports the one in use now, and why.
    pub path: Option<String>,
}

impl Description {
    pub(crate) fn of(node: &NodeState, connection: Connection) -> Option<Description> {
        let core = node.engine.core();
        let FlowState::Open { framing, why, max_body } = core.state(connection.0) else { return None };
        let caps = node.transport.caps();
        Some(Description {
            peer: EndpointName::of(core.peer_names(connection.0)?),
            framing,
            why,
            max_body,
            transport: caps.name.clone(),
            mode: caps.mode.clone(),
            path: core.address(connection.0).and_then(|to| node.transport.peer(to).path),
        })
    }
}

impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = match self.why {
            FramingWhy::Configured => "as configured",
            FramingWhy::NothingLearns => "forged sources pass, nothing learns them",
            FramingWhy::Shared => "forged sources pass, and not these two nodes alone can send",
            FramingWhy::SwitchLearns => "forged sources pass, a switch learns them",
            FramingWhy::ForgedDropped => "forged sources do not arrive, or not on every path",
        };
        let Description { peer, framing, max_body, transport, mode, path, .. } = self;
        match path {
            Some(path) => write!(f, "{peer} by {path}")?,
            None => write!(f, "{peer} by {transport} ({mode})")?,
        }
        write!(f, ", {framing} framing ({why}), {max_body} bytes a message")
    }
}
