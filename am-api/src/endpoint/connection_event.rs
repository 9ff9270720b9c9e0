//! What happens to connections, as an endpoint's handler gets it.

use std::fmt;

use crate::events::Change;
use crate::node_state::NodeState;
use crate::{Connection, ConnectionChange, Endpoint, EndpointName};

/// What [`Endpoint::on_connection`]'s handler gets.
pub struct ConnectionEvent<'a, S> {
    /// What happened.
    pub change: ConnectionChange,
    /// The connection that it happened to.
    pub connection: Connection,
    /// The endpoint at the other side.
    pub peer: EndpointName,
    /// Of a connection that ended: how many requests, and how many replies, of this endpoint the peer acknowledged and then
    /// dropped without a handler, because it left. They are the last ones of those that did not come back.
    pub unhandled: [u32; 2],
    /// The endpoint: handlers send through it.
    pub endpoint: &'a Endpoint<S>,
}

impl<S> Clone for ConnectionEvent<'_, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for ConnectionEvent<'_, S> {}

impl<S> fmt::Debug for ConnectionEvent<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionEvent")
            .field("change", &self.change)
            .field("connection", &self.connection)
            .field("peer", &self.peer)
            .field("unhandled", &self.unhandled)
            .finish_non_exhaustive()
    }
}

impl<S> fmt::Display for ConnectionEvent<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let peer = &self.peer;
        match self.change {
            ConnectionChange::Opened => write!(f, "{peer}: open"),
            ConnectionChange::Failed(why) => write!(f, "{peer}: not open: {why}"),
            ConnectionChange::Accepted => write!(f, "{peer}: connected to this endpoint"),
            ConnectionChange::Ended(reason) => write!(f, "{peer}: ended: {reason}"),
        }
    }
}

impl<S> Endpoint<S> {
    pub(crate) fn next_connection_event(&self) -> Option<(Connection, Change)> {
        let NodeState { events, engine, .. } = &mut *self.node.borrow_mut();
        events.pop(self.id, engine.core())
    }
}
