//! Say which mode you are in, and why.

use std::fmt;

use am_proto::{FlowState, FramingWhy};
use am_wire::Framing;

use crate::Connection;
use crate::shared::Shared;

/// How an open conversation travels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// Name of the peer's node.
    pub node: String,
    /// Name of the peer's endpoint.
    pub endpoint: String,
    /// What our frames to it look like.
    pub framing: Framing,
    /// Why like that.
    pub why: FramingWhy,
    /// The most bytes of words (8 each) and payload in one message.
    pub max_body: usize,
    /// The transport, as it was named at run time.
    pub transport: String,
    /// The mode that it is in: `veth copy`, `zero-copy`, `memory`.
    pub mode: String,
    /// Of several transports the one that is taken now, and why.
    pub way: Option<String>,
}

impl Description {
    pub(crate) fn of(shared: &Shared, remote: Connection) -> Option<Description> {
        let core = shared.engine.core();
        let FlowState::Open { framing, why, max_body } = core.state(remote.0) else { return None };
        let (node, endpoint) = core.remote(remote.0)?;
        let caps = shared.transport.caps();
        Some(Description {
            node: node.to_string(),
            endpoint: endpoint.to_string(),
            framing,
            why,
            max_body,
            transport: caps.name.clone(),
            mode: caps.mode.clone(),
            way: core.address(remote.0).and_then(|to| shared.transport.way_to(to)),
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
        let Description { node, endpoint, framing, max_body, transport, mode, way, .. } = self;
        match way {
            Some(way) => write!(f, "{node}/{endpoint} by {way}")?,
            None => write!(f, "{node}/{endpoint} by {transport} ({mode})")?,
        }
        write!(f, ", {framing} framing ({why}), {max_body} bytes a message")
    }
}
