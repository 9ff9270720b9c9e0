//! Conversations come and go: what an endpoint may want to know of it.

use std::fmt;

use am_wire::control::Name;

use crate::{FlowChange, Port, Remote};

/// See [`crate::Endpoint::on_flow`].
#[derive(Clone, Copy, Debug)]
pub struct FlowEvent<'a> {
    /// What happened.
    pub change: FlowChange,
    /// To the conversation with whom.
    pub remote: Remote,
    /// The names of the node and the endpoint at the other side.
    pub names: (Name, Name),
    /// When it is over: requests, and replies, of this endpoint that had been acknowledged, and that the other side dropped
    /// without a handler because it left. They are the last ones of those that did not come back.
    pub unhandled: [u32; 2],
    /// The endpoint, as far as handlers may use it.
    pub port: &'a Port,
}

impl fmt::Display for FlowEvent<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (node, endpoint) = &self.names;
        match (self.change, self.port.ready(self.remote)) {
            (FlowChange::Accepted, _) => write!(f, "{node}/{endpoint}: connected to this endpoint"),
            (FlowChange::Ended(reason), _) => write!(f, "{node}/{endpoint}: over: {reason}"),
            (FlowChange::Settled, Ok(())) => write!(f, "{node}/{endpoint}: open"),
            (FlowChange::Settled, Err(why)) => write!(f, "{node}/{endpoint}: not open: {why}"),
        }
    }
}
