//! The endpoints of an interface: one for each other task. They are found by their handle, by the tid that the program has given them, and
//! by the connections that lead to them.

use std::collections::BTreeMap;
use std::ffi::{CString, c_int};
use std::rc::Rc;

use am_api::Connection;

use crate::code::{Code, Failure};
use crate::handle::{Handle, Kind, no_endpoint};
use crate::place::Place;

/// Where an endpoint leads.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) place: Place,
    /// Its address as text, and its host: what the program gets.
    pub(crate) text: CString,
    pub(crate) host: CString,
    pub(crate) connection: Connection,
}

impl Target {
    pub(crate) fn new(place: Place, connection: Connection) -> Target {
        let text = |text: String| CString::new(text).unwrap_or_default();
        Target { text: text(place.text()), host: text(place.host.clone()), place, connection }
    }
}

/// An endpoint.
#[derive(Debug, Default)]
struct Peer {
    /// The tid under which it is in the list of tasks.
    tid: Option<c_int>,
    target: Option<Rc<Target>>,
}

/// The endpoints of an interface.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    endpoints: BTreeMap<Handle, Peer>,
    by_tid: BTreeMap<c_int, Handle>,
    /// All connections that are open, and the node to which each leads.
    nodes: BTreeMap<Connection, String>,
    by_connection: BTreeMap<Connection, Handle>,
}

impl Tasks {
    pub(crate) fn allocate(&mut self) -> Handle {
        let handle = Handle::new(Kind::Endpoint);
        self.endpoints.insert(handle, Peer::default());
        handle
    }

    fn peer(&mut self, endpoint: Handle) -> Result<&mut Peer, Failure> {
        self.endpoints.get_mut(&endpoint).ok_or_else(|| no_endpoint(endpoint))
    }

    /// Put the endpoint into the list of tasks.
    pub(crate) fn insert(&mut self, endpoint: Handle, tid: c_int) -> Result<(), Failure> {
        let is_taken = self.by_tid.contains_key(&tid);
        let peer = self.peer(endpoint)?;
        if let Some(tid) = peer.tid {
            let text = format!("this endpoint is in the list as task {tid}: call am_remove_task first");
            return Err(Failure::new(Code::Task, text));
        }
        if is_taken {
            let text = format!("another endpoint is in the list as task {tid}: call am_remove_task first");
            return Err(Failure::new(Code::Task, text));
        }
        peer.tid = Some(tid);
        self.by_tid.insert(tid, endpoint);
        Ok(())
    }

    /// Take the task out of the list.
    pub(crate) fn remove(&mut self, tid: c_int) -> Result<(), Failure> {
        let endpoint = self.by_tid.remove(&tid).ok_or_else(|| no_task(tid))?;
        self.peer(endpoint)?.tid = None;
        Ok(())
    }

    /// The endpoint of a task in the list.
    #[inline]
    pub(crate) fn endpoint(&self, tid: c_int) -> Result<Handle, Failure> {
        self.by_tid.get(&tid).copied().ok_or_else(|| no_task(tid))
    }

    /// Where an endpoint leads.
    #[inline]
    pub(crate) fn target(&self, endpoint: Handle) -> Result<&Rc<Target>, Failure> {
        let peer = self.endpoints.get(&endpoint).ok_or_else(|| no_endpoint(endpoint))?;
        peer.target.as_ref().ok_or_else(|| Failure::plain(Code::NotConnected))
    }

    /// # Errors
    /// There is no such endpoint.
    pub(crate) fn check(&self, endpoint: Handle) -> Result<(), Failure> {
        if self.endpoints.contains_key(&endpoint) { Ok(()) } else { Err(no_endpoint(endpoint)) }
    }

    /// The endpoint that leads to a node.
    pub(crate) fn endpoint_of_node(&self, node: &str) -> Option<Handle> {
        let leads = |peer: &Peer| peer.target.as_ref().is_some_and(|target| target.place.node == node);
        self.endpoints.iter().find(|(_, peer)| leads(peer)).map(|(handle, _)| *handle)
    }

    /// The endpoint leads there from now on, and so do all connections with that node.
    pub(crate) fn connect(&mut self, endpoint: Handle, place: Place, connection: Connection) -> Result<(), Failure> {
        let node = place.node.clone();
        self.peer(endpoint)?.target = Some(Rc::new(Target::new(place, connection)));
        self.nodes.insert(connection, node.clone());
        let connections = self.nodes.iter().filter(|(_, other)| **other == node);
        self.by_connection.extend(connections.map(|(connection, _)| (*connection, endpoint)));
        Ok(())
    }

    /// The endpoint leads nowhere. Returns where it led, and the connections.
    pub(crate) fn disconnect(&mut self, endpoint: Handle) -> Option<(Rc<Target>, Vec<Connection>)> {
        let target = self.endpoints.get_mut(&endpoint)?.target.take()?;
        let connections = self.connections(endpoint);
        for connection in &connections {
            self.by_connection.remove(connection);
            self.nodes.remove(connection);
        }
        Some((target, connections))
    }

    /// Remove the endpoint, which leads nowhere.
    pub(crate) fn deallocate(&mut self, endpoint: Handle) {
        let tid = self.endpoints.remove(&endpoint).and_then(|peer| peer.tid);
        tid.into_iter().for_each(|tid| _ = self.by_tid.remove(&tid));
    }

    /// The connections that lead to an endpoint.
    pub(crate) fn connections(&self, endpoint: Handle) -> Vec<Connection> {
        self.by_connection.iter().filter(|(_, to)| **to == endpoint).map(|(connection, _)| *connection).collect()
    }

    /// All connections.
    pub(crate) fn all_connections(&self) -> Vec<Connection> {
        self.nodes.keys().copied().collect()
    }

    /// A task of this node has connected.
    pub(crate) fn accepted(&mut self, connection: Connection, node: &str) {
        self.nodes.insert(connection, node.to_owned());
        if let Some(endpoint) = self.endpoint_of_node(node) {
            self.by_connection.insert(connection, endpoint);
        }
    }

    /// A connection has ended. An endpoint that leads there keeps it, as the reason of later failures. Returns whether none does.
    pub(crate) fn ended(&mut self, connection: Connection) -> bool {
        let endpoint = self.by_connection.get(&connection).and_then(|endpoint| self.endpoints.get(endpoint));
        let target = endpoint.and_then(|peer| peer.target.as_ref());
        let is_kept = target.is_some_and(|target| target.connection == connection);
        if !is_kept {
            self.nodes.remove(&connection);
            self.by_connection.remove(&connection);
        }
        !is_kept
    }

    /// A connection with this node that the node has asked for.
    pub(crate) fn accepted_from(&self, node: &str) -> Option<Connection> {
        self.nodes.iter().find(|(_, other)| *other == node).map(|(connection, _)| *connection)
    }

    /// The tid of the task to which a connection leads.
    #[inline]
    pub(crate) fn tid(&self, connection: Connection) -> Option<c_int> {
        self.endpoints.get(self.by_connection.get(&connection)?)?.tid
    }
}

#[cold]
fn no_task(tid: c_int) -> Failure {
    Failure::new(
        Code::Task,
        format!("there is no task {tid} in the list of this interface: am_insert_task puts it there"),
    )
}
