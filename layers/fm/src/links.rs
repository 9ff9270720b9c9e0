//! The connections of this node: one for each peer, made at its first use. And the errors of a send.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use am_api::{
    ConnectError, Connection, ConnectionChange, ConnectionEvent, Endpoint, HandlerId, NotOpen, Refusal, ReplyError,
    RequestError, ReturnReason,
};

use crate::{Cluster, Rank};

/// The endpoint for FM's messages, on every node.
pub(crate) const ENDPOINT: &str = "fm";

/// The endpoint that a waiting handler polls. It runs the node's loop, and has no handlers, so that none runs within another.
pub(crate) const PUMP: &str = "fm-pump";

/// How long a waiting handler polls the pump before it checks its patience.
const SLICE: Duration = Duration::from_millis(1);

/// The most ended connections that are remembered, because their messages may still wait to be handled.
const ENDED: usize = 256;

/// Why a message was not sent. No part of it was sent or kept.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// No node has this number.
    #[error("there is no node {dest}: the list has {nodes}, which count from 0")]
    NoSuchNode {
        /// The number.
        dest: Rank,
        /// Nodes in the list.
        nodes: usize,
    },
    /// A message to oneself.
    #[error("node {0} is this one: call the function")]
    Own(Rank),
    /// The message does not fit into one frame.
    #[error("{size} bytes, but a message is one frame, here at most {most} bytes: send it in parts")]
    TooLarge {
        /// Bytes.
        size: usize,
        /// The most bytes.
        most: usize,
    },
    /// The node does not answer, or has ended.
    #[error("node {dest}: {why}")]
    Unreachable {
        /// The destination.
        dest: Rank,
        /// Why there is no open connection.
        why: NotOpen,
    },
    /// The node has another list of nodes.
    #[error("node {0} refuses us: its list of nodes is not the same as here, or it does not speak FM")]
    Stranger(Rank),
    /// A handler has waited for room longer than its patience.
    #[error(
        "a handler waited {waited:?} for node {dest}, which does not extract; is it in a handler too, and waits for us? \
         let handlers send one answer to where their message came from, and send all else outside of them"
    )]
    Stuck {
        /// The destination.
        dest: Rank,
        /// How long the handler waited.
        waited: Duration,
    },
    /// This node has no free flow id.
    #[error("no flow id is left on this node: it has connections with too many nodes at once")]
    NoFlow,
}

am_api::debug_as_display!(SendError);

impl SendError {
    pub(crate) fn of_connect(error: ConnectError, dest: Rank) -> SendError {
        match error {
            ConnectError::NoFlow => SendError::NoFlow,
            ConnectError::OwnNode(_) => SendError::Own(dest),
            // The names of a cluster are checked, and its endpoint is open as long as the `Fm`.
            ConnectError::Closed | ConnectError::Name(_) => SendError::Unreachable { dest, why: NotOpen::Closed },
            ConnectError::Forked => SendError::Unreachable { dest, why: NotOpen::Dead(ReturnReason::Forked) },
        }
    }

    /// The error of a request, if it is not temporary.
    pub(crate) fn of_request(error: RequestError, dest: Rank) -> SendError {
        let unreachable = |why| SendError::Unreachable { dest, why };
        match error {
            RequestError::TooLarge { needs, most } => SendError::TooLarge { size: needs, most },
            RequestError::Refused(Refusal::Tag) => SendError::Stranger(dest),
            RequestError::Refused(why) => unreachable(NotOpen::Refused(why)),
            RequestError::Dead(reason) => unreachable(NotOpen::Dead(reason)),
            RequestError::Connecting => unreachable(NotOpen::Connecting),
            // The other errors are temporary, or do not occur: there are four words, and the node exists.
            _ => unreachable(NotOpen::Closed),
        }
    }

    pub(crate) fn of_reply(error: ReplyError, dest: Rank) -> SendError {
        match error {
            ReplyError::TooLarge { needs, most } => SendError::TooLarge { size: needs, most },
            ReplyError::Dead(reason) => SendError::Unreachable { dest, why: NotOpen::Dead(reason) },
            // Only `Closed` occurs: there are four words, and the node exists.
            ReplyError::Closed | ReplyError::NodeDropped | ReplyError::TooManyWords { .. } => {
                SendError::Unreachable { dest, why: NotOpen::Dead(ReturnReason::Closed) }
            }
        }
    }
}

/// The state of sends, which those inside and outside of handlers share. No field is borrowed while a handler runs.
pub(crate) struct Links {
    pub(crate) cluster: Cluster,
    pump: RefCell<Endpoint<()>>,
    /// The connection to each node, by number.
    to: RefCell<Vec<Option<Connection>>>,
    /// The node of each connection.
    whose: RefCell<HashMap<Connection, Rank>>,
    /// The last lookup in `whose`.
    last: Cell<Option<(Connection, Rank)>>,
    ended: RefCell<VecDeque<Connection>>,
    pub(crate) patience: Cell<Duration>,
}

impl Links {
    pub(crate) fn new(cluster: Cluster, pump: Endpoint<()>) -> Links {
        Links {
            to: RefCell::new(vec![None; cluster.nodes()]),
            cluster,
            pump: RefCell::new(pump),
            whose: RefCell::default(),
            last: Cell::default(),
            ended: RefCell::default(),
            patience: Cell::new(Duration::from_secs(5)),
        }
    }

    /// The connection with a node. If there is none, ask for one.
    pub(crate) fn link<S>(&self, endpoint: &Endpoint<S>, dest: Rank) -> Result<Connection, SendError> {
        let known = self.to.borrow().get(dest.0).copied().flatten();
        known.map_or_else(|| self.connect(endpoint, dest), Ok)
    }

    #[cold]
    fn connect<S>(&self, endpoint: &Endpoint<S>, dest: Rank) -> Result<Connection, SendError> {
        let nodes = self.cluster.nodes();
        let name = self.cluster.name(dest).ok_or(SendError::NoSuchNode { dest, nodes })?;
        if dest == self.cluster.own() {
            return Err(SendError::Own(dest));
        }
        let connected = endpoint.connect_with_tag(name, ENDPOINT, self.cluster.tag());
        let connection = connected.map_err(|error| SendError::of_connect(error, dest))?;
        self.to.borrow_mut()[dest.0] = Some(connection);
        self.whose.borrow_mut().insert(connection, dest);
        Ok(connection)
    }

    /// Whether there is a connection already.
    pub(crate) fn has_link(&self, dest: Rank) -> bool {
        self.to.borrow().get(dest.0).is_some_and(Option::is_some)
    }

    /// A connection has ended: the next send asks for a new one.
    pub(crate) fn forget<S>(&self, endpoint: &Endpoint<S>, connection: Connection) {
        endpoint.close(connection);
        self.to.borrow_mut().iter_mut().filter(|link| **link == Some(connection)).for_each(|link| *link = None);
        let mut ended = self.ended.borrow_mut();
        if ended.contains(&connection) {
            return;
        }
        ended.push_back(connection);
        if ended.len() > ENDED
            && let Some(oldest) = ended.pop_front()
        {
            self.whose.borrow_mut().remove(&oldest);
            self.last.set(None);
        }
    }

    /// The node of this connection. [`Rank::GONE`] if it has left before this node learned its name.
    #[inline]
    pub(crate) fn whose<S>(&self, endpoint: &Endpoint<S>, connection: Connection) -> Rank {
        match self.last.get() {
            Some((last, rank)) if last == connection => rank,
            _ => self.look_up(endpoint, connection).unwrap_or(Rank::GONE),
        }
    }

    fn look_up<S>(&self, endpoint: &Endpoint<S>, connection: Connection) -> Option<Rank> {
        let known = self.whose.borrow().get(&connection).copied();
        let rank = known.or_else(|| {
            let name = endpoint.peer(connection)?.node;
            self.cluster.rank(name.as_str()).inspect(|rank| _ = self.whose.borrow_mut().insert(connection, *rank))
        })?;
        self.last.set(Some((connection, rank)));
        Some(rank)
    }

    /// A connection opened or ended. One that a peer opened serves both ways.
    pub(crate) fn on_connection<S>(&self, event: &ConnectionEvent<'_, S>) {
        let Some(rank) = self.cluster.rank(event.peer.node.as_str()) else { return };
        match event.change {
            ConnectionChange::Accepted => {
                self.whose.borrow_mut().insert(event.connection, rank);
                self.to.borrow_mut()[rank.0].get_or_insert(event.connection);
            }
            ConnectionChange::Ended(_) => {
                self.whose.borrow_mut().insert(event.connection, rank);
                self.forget(event.endpoint, event.connection);
            }
            ConnectionChange::Opened | ConnectionChange::Failed(_) => {}
        }
    }

    /// Send from a handler. If there is no room, wait for it, and run no other handler meanwhile.
    pub(crate) fn send_and_wait<S>(
        &self,
        endpoint: &Endpoint<S>,
        dest: Rank,
        handler: HandlerId,
        words: &[u64],
        bytes: &[u8],
    ) -> Result<(), SendError> {
        let mut since = None;
        loop {
            let to = self.link(endpoint, dest)?;
            match endpoint.try_request(to, handler, words, bytes) {
                Ok(()) => return Ok(()),
                Err(error) if error.is_temporary() => self.wait(endpoint, to, dest, &mut since)?,
                Err(error) => {
                    if !endpoint.is_open(to) {
                        self.forget(endpoint, to);
                    }
                    return Err(SendError::of_request(error, dest));
                }
            }
        }
    }

    #[cold]
    fn wait<S>(
        &self,
        endpoint: &Endpoint<S>,
        to: Connection,
        dest: Rank,
        since: &mut Option<Instant>,
    ) -> Result<(), SendError> {
        let waited = since.get_or_insert_with(Instant::now).elapsed();
        if waited > self.patience.get() {
            return Err(SendError::Stuck { dest, waited });
        }
        let mut pump = self.pump.borrow_mut();
        pump.poll(&mut ());
        pump.wait_until(&mut (), SLICE, |()| endpoint.credit(to) > 0);
        Ok(())
    }

    /// Wait until there are open connections with all nodes. Runs no handlers. Returns the nodes that had not answered when the time was
    /// over.
    pub(crate) fn meet<S>(&self, endpoint: &Endpoint<S>, timeout: Duration) -> Result<Vec<usize>, SendError> {
        let start = Instant::now();
        loop {
            self.pump.borrow_mut().poll(&mut ());
            let mut missing = Vec::new();
            for dest in (0..self.cluster.nodes()).map(Rank).filter(|dest| *dest != self.cluster.own()) {
                let to = self.link(endpoint, dest)?;
                match endpoint.ready(to) {
                    Ok(()) => continue,
                    Err(NotOpen::Refused(Refusal::Tag)) => return Err(SendError::Stranger(dest)),
                    Err(NotOpen::Connecting) => {}
                    Err(_) => self.forget(endpoint, to),
                }
                missing.push(dest.0);
            }
            if missing.is_empty() || start.elapsed() >= timeout {
                return Ok(missing);
            }
            self.pump.borrow_mut().wait_until(&mut (), SLICE, |()| false);
        }
    }

    /// Wait until all sent messages have been accepted. Runs no handlers. Returns the nodes that had not accepted all when the time was
    /// over.
    pub(crate) fn drain<S>(&self, endpoint: &Endpoint<S>, timeout: Duration) -> Vec<usize> {
        let whose = self.whose.borrow();
        let under_way = || whose.iter().filter(|(connection, _)| !endpoint.is_accepted(**connection));
        let mut pump = self.pump.borrow_mut();
        pump.poll(&mut ());
        pump.wait_until(&mut (), timeout, |()| under_way().next().is_none());
        let mut late: Vec<usize> = under_way().map(|(_, rank)| rank.0).collect();
        late.sort_unstable();
        late.dedup();
        late
    }
}
