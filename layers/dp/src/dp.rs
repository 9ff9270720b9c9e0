//! [`Dp`], the endpoints of a process: opening and closing them.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::time::Instant;

use am_api::{Counters, Description, Endpoint, EndpointSet, Node};

use crate::claim::Claim;
use crate::descriptor::Signal;
use crate::edge::{Edge, Target};
use crate::inbox::Inbox;
use crate::inboxes::Inboxes;
use crate::point::{Point, PointId};
use crate::readiness::Readiness;
use crate::{Dpid, Nid, Nodes, OpenError};

/// The smallest pool.
const MIN_POOL: usize = 4096;

/// The name of the endpoint that sends for all others. It receives nothing.
const SENDER: &str = "dp-door";

/// Counts of an endpoint's messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Messages written.
    pub written: u64,
    /// Bytes of the messages written.
    pub bytes_written: u64,
    /// Writes that found no room at the receiver.
    pub stalls: u64,
    /// Messages that arrived in the pool.
    pub received: u64,
}

/// The state of an endpoint, except its inbox.
pub(crate) struct PointState {
    serial: u32,
    pub(crate) dpid: Dpid,
    pub(crate) edge: Option<Edge>,
    pub(crate) traffic: Traffic,
    /// The endpoint closes when all its messages have been accepted.
    pub(crate) is_closing: bool,
    _claim: Option<Claim>,
}

/// The process's part of the graph: its endpoints, on one node. `M` is the memory of the pools.
pub struct Dp<M> {
    pub(crate) node: Node,
    pub(crate) nodes: Nodes,
    pub(crate) sender: Endpoint<()>,
    pub(crate) set: EndpointSet<Inboxes<M>>,
    pub(crate) inboxes: Inboxes<M>,
    pub(crate) points: Vec<Option<PointState>>,
    pub(crate) by_dpid: BTreeMap<Dpid, PointId>,
    next_serial: u32,
    /// Endpoints with a long message or a refusal that was not sent as a whole.
    pub(crate) sending: Vec<PointId>,
    /// Edges that were redirected, until their messages have been accepted.
    pub(crate) old_edges: Vec<(PointId, Edge)>,
    /// Endpoints whose descriptor was closed, and the latest time at which they are closed.
    pub(crate) closing: Vec<(PointId, Instant)>,
    /// A connection ended, and may have left a message incomplete.
    pub(crate) has_ended: bool,
    /// Acknowledgements and credits of the last turn, or messages of a stream, were not sent yet.
    pub(crate) needs_flush: bool,
    /// Messages written since the last turn.
    pub(crate) streak: u32,
    /// The number of reads in a row that found nothing.
    pub(crate) idle_reads: u32,
    /// Endpoints whose descriptors were readable at the last check.
    pub(crate) watched: Vec<PointId>,
    pub(crate) readiness: Readiness,
}

impl<M: AsRef<[u8]> + AsMut<[u8]> + 'static> Dp<M> {
    /// The endpoints of this process, on an open node. Its name must be [`Nodes::own_name`].
    ///
    /// # Errors
    /// The node already has a `Dp`, or the process has no descriptor left.
    pub fn new(node: Node, nodes: Nodes) -> Result<Dp<M>, OpenError> {
        let sender = node.endpoint(SENDER)?;
        let readiness = Readiness::new(&sender).map_err(OpenError::Descriptor)?;
        Ok(Dp {
            set: EndpointSet::new(&node),
            inboxes: Inboxes::new(nodes.clone()),
            node,
            nodes,
            sender,
            points: vec![],
            by_dpid: BTreeMap::new(),
            next_serial: 0,
            sending: vec![],
            old_edges: vec![],
            closing: vec![],
            has_ended: false,
            needs_flush: false,
            streak: 0,
            idle_reads: 0,
            watched: vec![],
            readiness,
        })
    }

    /// Open the endpoint of this DPID, with memory for its token buffer pool.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(&mut self, dpid: Dpid, memory: M) -> Result<Point, OpenError> {
        let size = memory.as_ref().len();
        if size < MIN_POOL {
            return Err(OpenError::PoolSize { size, least: MIN_POOL });
        }
        if self.by_dpid.contains_key(&dpid) {
            return Err(OpenError::InUse(dpid));
        }
        let nodes = &self.nodes;
        let claim = nodes.has_siblings().then(|| Claim::new(nodes.scope(), nodes.own(), dpid)).transpose();
        let claim = claim.map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse => OpenError::InUse(dpid),
            _ => OpenError::Descriptor(error),
        })?;
        let (signal, fd) = Signal::pair().map_err(OpenError::Descriptor)?;
        let mut endpoint = self.node.endpoint_with_tag::<Inboxes<M>>(&dpid.endpoint(), nodes.tag())?;
        let index = Rc::new(Cell::new(usize::MAX));
        let own = index.clone();
        endpoint.on_connection(move |inboxes, event| inboxes.on_connection(own.get(), &event));
        // Messages are not handled one by one: see `EndpointSet::receive_each`.
        endpoint.on_unhandled(|_, _| {});
        let Ok(at) = self.set.insert(endpoint) else { unreachable!("it is of this node") };
        index.set(at);
        self.next_serial += 1;
        let serial = self.next_serial;
        let id = PointId { index: at as u32, serial };
        if let Err(why) = self.readiness.watch(id, signal.as_fd()) {
            self.set.remove_member(at);
            return Err(OpenError::Descriptor(why));
        }
        self.inboxes.insert(id, Inbox::new(serial, memory, signal));
        if self.points.len() <= at {
            self.points.resize_with(at + 1, || None);
        }
        let traffic = Traffic::default();
        self.points[at] = Some(PointState { serial, dpid, edge: None, traffic, is_closing: false, _claim: claim });
        self.by_dpid.insert(dpid, id);
        Ok(Point { id, fd })
    }

    pub(crate) fn point(&self, id: PointId) -> Option<&PointState> {
        self.points.get(id.index as usize)?.as_ref().filter(|point| point.serial == id.serial)
    }

    #[inline]
    pub(crate) fn point_mut(&mut self, id: PointId) -> Option<&mut PointState> {
        point_mut(&mut self.points, id)
    }

    /// The other end of the endpoint's edge.
    pub fn edge(&self, point: &Point) -> Option<(Nid, Dpid)> {
        let edge = self.point(point.id)?.edge.as_ref()?;
        Some((edge.nid, edge.dpid))
    }

    /// The framing, the transport and the mode of the endpoint's edge. `None` if there is no edge, or if it leads to this process.
    pub fn describe(&self, point: &Point) -> Option<Description> {
        match self.point(point.id)?.edge.as_ref()?.target {
            Target::Remote(to) => self.sender.describe(to),
            Target::Local(_) => None,
        }
    }

    /// The number of an endpoint of this process.
    pub fn dpid(&self, point: &Point) -> Option<Dpid> {
        Some(self.point(point.id)?.dpid)
    }

    /// Close an endpoint now. Messages that their receivers have not accepted yet are lost: check [`is_accepted`](Dp::is_accepted) before.
    pub fn close(&mut self, point: Point) {
        self.remove(point.id);
    }

    pub(crate) fn remove(&mut self, id: PointId) {
        if self.point(id).is_none() {
            return;
        }
        let Some(state) = self.points[id.index as usize].take() else { return };
        self.by_dpid.remove(&state.dpid);
        self.set.remove_member(id.index as usize);
        self.inboxes.remove(id);
        self.old_edges.retain(|(of, _)| *of != id);
    }

    /// Whether the receivers have accepted all messages of this endpoint.
    pub fn is_accepted(&self, point: &Point) -> bool {
        self.is_settled(point.id)
    }

    pub(crate) fn is_settled(&self, id: PointId) -> bool {
        let is_done = |edge: &Edge| match edge.target {
            Target::Remote(to) => !edge.is_sending() && self.sender.is_accepted(to),
            Target::Local(_) => true,
        };
        self.point(id).is_none_or(|state| state.edge.as_ref().is_none_or(is_done))
            && !self.old_edges.iter().any(|(of, _)| *of == id)
    }

    /// The counts of an endpoint's messages.
    pub fn traffic(&self, point: &Point) -> Option<Traffic> {
        let state = self.point(point.id)?;
        Some(Traffic { received: self.inboxes.get(point.id)?.received, ..state.traffic })
    }

    /// The number of endpoints whose descriptors were not closed.
    pub fn open_count(&self) -> usize {
        self.by_dpid.len() - self.closing.len()
    }

    /// Whether the receivers have accepted the messages of all endpoints. A receiver that lives and does not poll accepts nothing, however
    /// long this takes, so a loop that waits for this needs a bound.
    pub fn is_all_accepted(&self) -> bool {
        self.by_dpid.values().all(|&id| self.is_settled(id))
    }

    /// Whether the descriptor of the endpoint with this DPID was closed, and the endpoint only waits for its messages to be accepted.
    pub fn is_closing(&self, dpid: Dpid) -> bool {
        self.by_dpid.get(&dpid).and_then(|&id| self.point(id)).is_some_and(|state| state.is_closing)
    }

    /// Whether the endpoint exists, and its descriptor was not closed.
    pub fn is_open(&self, point: &Point) -> bool {
        self.point(point.id).is_some_and(|state| !state.is_closing)
    }

    /// The memory of the endpoint's pool.
    pub fn memory(&self, point: &Point) -> Option<&M> {
        Some(self.inboxes.get(point.id)?.pool.memory())
    }

    /// The nodes of the graph.
    pub fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    /// The text of a failure that names a node, with the reason why this node does not reach its peers, as [`Node::explain`].
    pub fn explain(&self, failure: &dyn fmt::Display) -> String {
        self.node.explain(failure)
    }

    /// The counters of all layers.
    pub fn counters(&self) -> Counters {
        self.node.counters()
    }
}

#[inline]
pub(crate) fn point_mut(points: &mut [Option<PointState>], id: PointId) -> Option<&mut PointState> {
    points.get_mut(id.index as usize)?.as_mut().filter(|point| point.serial == id.serial)
}

/// A message or a refusal of this endpoint could not be sent yet.
#[cold]
pub(crate) fn note_sending(sending: &mut Vec<PointId>, id: PointId) {
    if !sending.contains(&id) {
        sending.push(id);
    }
}

impl<M> fmt::Debug for Dp<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dp").field("nodes", &self.nodes).field("dpids", &self.by_dpid.keys()).finish_non_exhaustive()
    }
}
