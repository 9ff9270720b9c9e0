//! The process's endpoints: opened, written to, read, closed.

use std::cell::{Ref, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::time::Instant;

use am_api::{ConnectionChange, ConnectionEvent, Counters, Endpoint, EndpointSet, Node, NotOpen, ReturnReason};
use slotmap::{SlotMap, new_key_type};

use crate::claim::Claim;
use crate::descriptor::Signal;
use crate::edge::{Edge, Left, Target};
use crate::inbox::{Arrivals, FIRST, Inbox, MORE, SHORT, TOO_LONG};
use crate::readiness::Readiness;
use crate::{Dpid, Nid, Nodes, OpenError, ReadError, WriteError};

/// The shortest pool.
const MIN_POOL: usize = 4096;

/// Sends for all endpoints, and receives nothing.
const DOOR: &str = "dp-door";

new_key_type! {
    /// An endpoint of this process.
    pub(crate) struct PointId;
}

/// An endpoint that this process has opened. It is a file descriptor ([`AsFd`]): `poll`, `select` and `epoll` say when a message can be
/// read. When it is dropped, the endpoint is closed, as soon as what was written has been accepted.
#[derive(Debug)]
pub struct Point {
    pub(crate) id: PointId,
    fd: OwnedFd,
}

impl AsFd for Point {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl From<Point> for OwnedFd {
    fn from(point: Point) -> OwnedFd {
        point.fd
    }
}

/// Where a message that was read lies in its endpoint's pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place(Range<usize>);

impl Place {
    /// The first byte's offset in the pool.
    pub fn start(&self) -> usize {
        self.0.start
    }

    /// Its length.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Never: a message has at least one byte.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// What an endpoint has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Messages written.
    pub written: u64,
    /// Bytes of these.
    pub bytes_written: u64,
    /// Writes that found no room at the receiver.
    pub stalls: u64,
    /// Messages that arrived in the pool.
    pub received: u64,
}

/// An endpoint.
pub(crate) struct PointState<M> {
    pub(crate) dpid: Dpid,
    pub(crate) inbox: Rc<RefCell<Inbox<M>>>,
    pub(crate) edge: Option<Edge>,
    pub(crate) traffic: Traffic,
    /// It goes when everything that it wrote has been accepted.
    pub(crate) is_closing: bool,
    _claim: Option<Claim>,
}

/// The process's part of the graph: its endpoints, on one node. `M` is the memory of the pools.
pub struct Dp<M> {
    pub(crate) node: Node,
    pub(crate) nodes: Nodes,
    pub(crate) door: Endpoint<()>,
    pub(crate) set: EndpointSet<()>,
    pub(crate) points: SlotMap<PointId, PointState<M>>,
    pub(crate) by_dpid: BTreeMap<Dpid, PointId>,
    pub(crate) arrivals: Rc<Arrivals>,
    /// Endpoints with a long message that has not left yet.
    pub(crate) sending: Vec<PointId>,
    /// Edges that were redirected, until what was written to them has been accepted.
    pub(crate) old_edges: Vec<(PointId, Edge)>,
    /// Endpoints whose descriptor was closed, and when they go at the latest.
    pub(crate) closing: Vec<(PointId, Instant)>,
    /// A connection ended, and may have left a message incomplete.
    pub(crate) has_ended: bool,
    /// Acknowledgements and credits of the last turn have not left yet.
    pub(crate) owes: bool,
    pub(crate) readiness: Readiness,
}

impl<M: AsRef<[u8]> + AsMut<[u8]> + 'static> Dp<M> {
    /// On a node that is open. Its name must be [`Nodes::own_name`].
    ///
    /// # Errors
    /// The node has such an endpoint already, or the process has no descriptor left.
    pub fn new(node: Node, nodes: Nodes) -> Result<Dp<M>, OpenError> {
        let door = node.endpoint(DOOR)?;
        let readiness = Readiness::new(&door).map_err(OpenError::Descriptor)?;
        let set = EndpointSet::new(&node);
        let (points, by_dpid, arrivals) = Default::default();
        let (sending, old_edges) = Default::default();
        let (closing, has_ended, owes) = Default::default();
        Ok(Dp { node, nodes, door, set, points, by_dpid, arrivals, sending, old_edges, closing, has_ended, owes, readiness })
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
        let mut endpoint = self.node.endpoint_with_tag::<()>(&dpid.endpoint(), nodes.tag())?;
        let arrivals = self.arrivals.clone();
        let id = self.points.insert_with_key(|id| PointState {
            dpid,
            inbox: Rc::new(RefCell::new(Inbox::new(id, memory, arrivals))),
            edge: None,
            traffic: Traffic::default(),
            is_closing: false,
            _claim: claim,
        });
        self.receive(&mut endpoint, id);
        self.readiness.watch(id, signal.as_fd()).map_err(OpenError::Descriptor)?;
        self.points[id].inbox.borrow_mut().signal = Some(signal);
        self.by_dpid.insert(dpid, id);
        // It is of this node.
        _ = self.set.insert(endpoint);
        Ok(Point { id, fd })
    }

    /// The handlers of an endpoint.
    fn receive(&self, endpoint: &mut Endpoint<()>, id: PointId) {
        let inbox = &self.points[id].inbox;
        let own = inbox.clone();
        endpoint.on_request(SHORT, move |(), request| own.borrow_mut().on_short(&request.message));
        let own = inbox.clone();
        endpoint.on_request(FIRST, move |(), request| own.borrow_mut().on_first(request));
        let own = inbox.clone();
        endpoint.on_request(MORE, move |(), request| own.borrow_mut().on_more(&request.message));
        let own = inbox.clone();
        endpoint.on_reply(TOO_LONG, move |(), reply| own.borrow_mut().on_too_long(reply.from(), reply.word(0)));
        let (own, nodes) = (inbox.clone(), self.nodes.clone());
        endpoint.on_connection(move |(), event| on_connection(&mut own.borrow_mut(), &nodes, &event));
    }

    /// Send a message along the endpoint's edge. It never waits: where the receiver has no room it is [`WriteError::Full`]. A message
    /// longer than a frame is copied, and leaves with this call and later ones; until it has, the next is `Full`.
    ///
    /// # Errors
    /// See [`WriteError`].
    #[inline]
    pub fn write(&mut self, point: &Point, message: &[u8]) -> Result<(), WriteError> {
        let Dp { points, door, owes, sending, .. } = self;
        let state = points.get_mut(point.id).ok_or(WriteError::Closed)?;
        if message.is_empty() {
            return Err(WriteError::Empty);
        }
        let Some(edge) = &mut state.edge else { return Err(WriteError::NotConnected) };
        let Target::Remote(to) = edge.target else { return self.write_local(point.id, message) };
        match edge.write(to, door, message) {
            Ok(left) => {
                door.flush();
                *owes = false;
                if left == Left::Part {
                    sending.push(point.id);
                }
            }
            Err(error) => {
                state.traffic.stalls += u64::from(error == WriteError::Full);
                return Err(error);
            }
        }
        state.traffic.written += 1;
        state.traffic.bytes_written += message.len() as u64;
        Ok(())
    }

    /// Send to an endpoint of this process.
    fn write_local(&mut self, from: PointId, message: &[u8]) -> Result<(), WriteError> {
        let closed = WriteError::Ended(NotOpen::Dead(ReturnReason::Closed));
        let edge = self.points[from].edge.as_ref().map(|edge| edge.target);
        let Some(Target::Local(to)) = edge else { return Err(closed) };
        let state = self.points.get(to).filter(|state| !state.is_closing).ok_or(closed)?;
        let (len, most) = (message.len(), state.inbox.borrow().pool.size());
        let is_taken = state.inbox.borrow_mut().on_local(message);
        let traffic = &mut self.points[from].traffic;
        if !is_taken {
            traffic.stalls += u64::from(len <= most);
            return Err(if len > most { WriteError::TooLong { len, most } } else { WriteError::Full });
        }
        traffic.written += 1;
        traffic.bytes_written += len as u64;
        self.signal_arrivals(None);
        Ok(())
    }

    /// The next message, in the order of arrival; `None` while there is none. It never waits. The message stays where it is until it is
    /// given back by [`fsync`](Dp::fsync).
    ///
    /// # Errors
    /// See [`ReadError`].
    #[inline]
    pub fn read(&mut self, point: &Point) -> Result<Option<Place>, ReadError> {
        let read = |inbox: &mut Inbox<M>| inbox.pool.read().map(Place);
        self.read_by(point, read)
    }

    /// The UNIX call: read the next message into `buffer`, and give it back. Of a longer one the rest is dropped, as a datagram's is.
    /// Returns the message's length.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub fn read_into(&mut self, point: &Point, buffer: &mut [u8]) -> Result<Option<usize>, ReadError> {
        self.read_by(point, |inbox| {
            let mut whole = 0;
            let copy = |message: &[u8]| {
                whole = message.len();
                let len = whole.min(buffer.len());
                buffer[..len].copy_from_slice(&message[..len]);
            };
            inbox.take_with(copy).then_some(whole)
        })
    }

    #[inline]
    fn read_by<T>(
        &mut self,
        point: &Point,
        mut read: impl FnMut(&mut Inbox<M>) -> Option<T>,
    ) -> Result<Option<T>, ReadError> {
        let state = self.points.get(point.id).ok_or(ReadError::Closed)?;
        let mut inbox = state.inbox.borrow_mut();
        if let Some(found) = read(&mut inbox) {
            inbox.settle_signal(point.as_fd());
            return Ok(Some(found));
        }
        // What arrives for this endpoint now is read at once: its descriptor need not say so.
        inbox.is_listed = true;
        drop(inbox);
        self.turn();
        self.signal_arrivals(Some(point.id));
        let state = self.points.get(point.id).ok_or(ReadError::Closed)?;
        let mut inbox = state.inbox.borrow_mut();
        inbox.is_listed = false;
        let found = read(&mut inbox);
        if found.is_none()
            && inbox.has_lost()
            && let Some((nid, dpid)) = inbox.lost.pop_front()
        {
            inbox.settle_signal(point.as_fd());
            return Err(ReadError::Lost { nid, dpid });
        }
        inbox.settle_signal(point.as_fd());
        Ok(found)
    }

    /// The bytes of a message that was read and not given back yet.
    pub fn bytes(&self, point: &Point, place: &Place) -> Option<Ref<'_, [u8]>> {
        let inbox = self.points.get(point.id)?.inbox.borrow();
        Ref::filter_map(inbox, |inbox| inbox.pool.memory().as_ref().get(place.0.clone())).ok()
    }

    /// The other end of the endpoint's edge.
    pub fn edge(&self, point: &Point) -> Option<(Nid, Dpid)> {
        let edge = self.points.get(point.id)?.edge.as_ref()?;
        Some((edge.nid, edge.dpid))
    }

    /// Give back the oldest `count` messages of those that were read. Returns whether there were so many; else nothing happens.
    #[inline]
    pub fn fsync(&mut self, point: &Point, count: usize) -> bool {
        let Some(state) = self.points.get(point.id) else { return false };
        state.inbox.borrow_mut().free(count)
    }

    /// Close an endpoint now. What was not accepted by its receiver yet comes to nothing: ask [`is_accepted`](Dp::is_accepted) before.
    pub fn close(&mut self, point: Point) {
        self.remove(point.id);
    }

    pub(crate) fn remove(&mut self, id: PointId) {
        let Some(state) = self.points.remove(id) else { return };
        self.by_dpid.remove(&state.dpid);
        self.set.remove(&state.dpid.endpoint());
        self.old_edges.retain(|(of, _)| *of != id);
    }

    /// Whether the receivers have accepted everything that was written to this endpoint.
    pub fn is_accepted(&self, point: &Point) -> bool {
        self.is_settled(point.id)
    }

    pub(crate) fn is_settled(&self, id: PointId) -> bool {
        let is_done = |edge: &Edge| match edge.target {
            Target::Remote(to) => !edge.is_sending() && self.door.is_accepted(to),
            Target::Local(_) => true,
        };
        self.points.get(id).is_none_or(|state| state.edge.as_ref().is_none_or(is_done))
            && !self.old_edges.iter().any(|(of, _)| *of == id)
    }

    /// What an endpoint has done.
    pub fn traffic(&self, point: &Point) -> Option<Traffic> {
        let state = self.points.get(point.id)?;
        Some(Traffic { received: state.inbox.borrow().received, ..state.traffic })
    }

    /// How many endpoints there are whose descriptors were not closed.
    pub fn open_count(&self) -> usize {
        self.points.len() - self.closing.len()
    }

    /// Whether the receivers have accepted everything that was written to any endpoint.
    pub fn is_all_accepted(&self) -> bool {
        self.points.keys().all(|id| self.is_settled(id))
    }

    /// Whether the endpoint is there, and its descriptor was not closed.
    pub fn is_open(&self, point: &Point) -> bool {
        self.points.get(point.id).is_some_and(|state| !state.is_closing)
    }

    /// The memory of the endpoint's pool.
    pub fn memory(&self, point: &Point) -> Option<Ref<'_, M>> {
        let inbox = self.points.get(point.id)?.inbox.borrow();
        Some(Ref::map(inbox, |inbox| inbox.pool.memory()))
    }

    /// The nodes of the graph.
    pub fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    /// Everything counted so far, in every layer.
    pub fn counters(&self) -> Counters {
        self.node.counters()
    }
}

/// A connection of an endpoint opened or ended.
fn on_connection<M: AsRef<[u8]> + AsMut<[u8]>>(
    inbox: &mut Inbox<M>,
    nodes: &Nodes,
    event: &ConnectionEvent<'_, ()>,
) {
    let ConnectionChange::Ended(reason) = event.change else { return };
    let peer = (nodes.nid_of(event.peer.node.as_str()), Dpid::of_endpoint(event.peer.endpoint.as_str()));
    let has_died = matches!(reason, ReturnReason::Unreachable | ReturnReason::Restarted);
    inbox.on_ended(event.connection, peer.0.zip(peer.1).filter(|_| has_died));
}

impl<M> fmt::Debug for Dp<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dp").field("nodes", &self.nodes).field("dpids", &self.by_dpid.keys()).finish_non_exhaustive()
    }
}
