//! Conversations come and go: what an endpoint may want to know of it.

use std::fmt;

use am_wire::control::Name;

use crate::{Connection, ConnectionChange, Port};

/// See [`crate::Endpoint::on_connection`].
#[derive(Clone, Copy, Debug)]
pub struct ConnectionEvent<'a> {
    /// What happened.
    pub change: ConnectionChange,
    /// To the conversation with whom.
    pub remote: Connection,
    /// The names of the node and the endpoint at the other side.
    pub names: (Name, Name),
    /// When it is over: requests, and replies, of this endpoint that had been acknowledged, and that the other side dropped
    /// without a handler because it left. They are the last ones of those that did not come back.
    pub unhandled: [u32; 2],
    /// The endpoint, as far as handlers may use it.
    pub port: &'a Port,
}

impl fmt::Display for ConnectionEvent<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (node, endpoint) = &self.names;
        match (self.change, self.port.ready(self.remote)) {
            (ConnectionChange::Accepted, _) => write!(f, "{node}/{endpoint}: connected to this endpoint"),
            (ConnectionChange::Ended(reason), _) => write!(f, "{node}/{endpoint}: over: {reason}"),
            (ConnectionChange::Settled, Ok(())) => write!(f, "{node}/{endpoint}: open"),
            (ConnectionChange::Settled, Err(why)) => write!(f, "{node}/{endpoint}: not open: {why}"),
        }
    }
}
