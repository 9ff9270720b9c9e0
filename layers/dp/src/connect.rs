//! Connecting an endpoint to another: the edge of the graph.

use std::task::Poll;
use std::time::{Duration, Instant};

use am_api::{Connection, NotOpen, Refusal};
use am_base::Link;

use crate::dp::Dp;
use crate::edge::{Edge, Target};
use crate::point::{Point, PointId};
use crate::{ConnectError, Dpid, Nid};

/// The pause before a process is asked again.
const RETRY: Duration = Duration::from_millis(5);

/// Why a node was not found.
const NOT_LISTED: &str = "the list of nodes does not have it";
const NOT_FOUND: &str = "no process of it was found yet";
const GONE: &str = "its process has gone, and no other has come";

/// An edge that is being made. See [`Dp::connect_step`].
#[derive(Debug)]
#[must_use = "an attempt that is dropped leaves its connections open: call `Dp::give_up`"]
pub struct Attempt {
    point: PointId,
    nid: Nid,
    dpid: Dpid,
    /// A link to each process that may have the endpoint.
    tries: Vec<Link>,
    /// The error if the attempt ended now.
    why: ConnectError,
}

impl<M: AsRef<[u8]> + AsMut<[u8]> + 'static> Dp<M> {
    /// Connect an endpoint to the one with this DPID on that node. An existing edge is redirected: messages that were written before go
    /// to the old end, and later ones to the new end. This polls until the other end answers.
    ///
    /// # Errors
    /// See [`ConnectError`], when the time is over. An existing edge stays as it was.
    pub fn connect(&mut self, point: &Point, nid: Nid, dpid: Dpid, timeout: Duration) -> Result<(), ConnectError> {
        let mut attempt = self.begin_connect(point, nid, dpid);
        let mut result = Poll::Pending;
        let is_over = self.wait_until(timeout, |dp| {
            result = dp.connect_step(&mut attempt);
            result.is_ready()
        });
        match result {
            Poll::Ready(result) if is_over => result,
            _ => Err(self.give_up(attempt)),
        }
    }

    /// Begin to connect, as [`connect`](Dp::connect) does, in steps: see [`connect_step`](Dp::connect_step).
    pub fn begin_connect(&self, point: &Point, nid: Nid, dpid: Dpid) -> Attempt {
        let why = if self.inboxes.was_seen(nid) { GONE } else { NOT_FOUND };
        Attempt { point: point.id, nid, dpid, tries: vec![], why: ConnectError::NoNode { nid, why } }
    }

    /// The next step of an attempt. Call it between polls, until it is ready.
    ///
    /// # Errors
    /// The errors of [`connect`](Dp::connect) that do not go away by waiting.
    pub fn connect_step(&mut self, attempt: &mut Attempt) -> Poll<Result<(), ConnectError>> {
        let Attempt { point, nid, dpid, .. } = *attempt;
        if self.point(point).is_none_or(|state| state.is_closing) {
            return Poll::Ready(Err(ConnectError::Closed));
        }
        if !self.nodes.may_have(nid) {
            return Poll::Ready(Err(self.not_listed(nid)));
        }
        if nid == self.nodes.own() {
            attempt.why = ConnectError::NoPoint { nid, dpid };
            if let Some(&to) = self.by_dpid.get(&dpid) {
                self.drop_tries(attempt);
                self.redirect(point, Edge::new((nid, dpid), Target::Local(to)));
                return Poll::Ready(Ok(()));
            }
        }
        if self.resume(point, (nid, dpid)) {
            self.drop_tries(attempt);
            return Poll::Ready(Ok(()));
        }
        let now = Instant::now();
        self.find_processes(attempt);
        for at in 0..attempt.tries.len() {
            match self.step_one(attempt, at, now) {
                Ok(None) => {}
                Ok(Some(connection)) => {
                    attempt.tries.remove(at);
                    self.drop_tries(attempt);
                    self.redirect(point, Edge::new((nid, dpid), Target::Remote(connection)));
                    return Poll::Ready(Ok(()));
                }
                Err(error) => {
                    self.drop_tries(attempt);
                    return Poll::Ready(Err(error));
                }
            }
        }
        Poll::Pending
    }

    /// Why there is no node of this number.
    #[cold]
    fn not_listed(&self, nid: Nid) -> ConnectError {
        match self.nodes.count() {
            Some(1) => ConnectError::Alone(nid),
            _ => ConnectError::NoNode { nid, why: NOT_LISTED },
        }
    }

    /// If the endpoint's edge already leads there, or an old one still does, make it the edge, so that earlier and later messages keep
    /// their order. Returns whether there is one.
    fn resume(&mut self, point: PointId, to: (Nid, Dpid)) -> bool {
        let is_there = |edge: &Edge| {
            (edge.nid, edge.dpid) == to && matches!(edge.target, Target::Remote(to) if self.sender.is_open(to))
        };
        if self.point(point).and_then(|state| state.edge.as_ref()).is_some_and(is_there) {
            return true;
        }
        let Some(at) = self.old_edges.iter().position(|(of, edge)| *of == point && is_there(edge)) else {
            return false;
        };
        let (_, edge) = self.old_edges.remove(at);
        if edge.is_sending() {
            self.sending.push(point);
        }
        self.redirect(point, edge);
        true
    }

    /// Add the processes of the node that became known since the last step.
    fn find_processes(&mut self, attempt: &mut Attempt) {
        for process in self.nodes.processes(attempt.nid, &self.node) {
            if process != self.nodes.own_name() && !attempt.tries.iter().any(|known| known.node() == Some(&process)) {
                attempt.tries.push(Link::to(process, attempt.dpid.endpoint(), self.nodes.tag()));
                self.inboxes.note_seen(attempt.nid);
            }
        }
    }

    /// Ask one process, or check its answer. Returns the connection once it is open.
    fn step_one(&mut self, attempt: &mut Attempt, at: usize, now: Instant) -> Result<Option<Connection>, ConnectError> {
        let Attempt { point, nid, dpid, ref mut tries, ref mut why } = *attempt;
        let endpoint = self.set.member(point.index as usize).ok_or(ConnectError::Closed)?;
        let asked = tries[at].connect(endpoint, now).map_err(|error| match error {
            am_api::ConnectError::NoFlow => ConnectError::NoFlow,
            // The names are valid, and none is this node's.
            _ => ConnectError::Closed,
        });
        let Some(connection) = asked? else { return Ok(None) };
        let not_open = match endpoint.ready(connection) {
            Ok(()) => return Ok(Some(connection)),
            Err(NotOpen::Connecting) => return Ok(None),
            Err(NotOpen::Refused(Refusal::Tag)) => return Err(ConnectError::OtherList(nid)),
            Err(not_open) => not_open,
        };
        tries[at].end(now + RETRY);
        endpoint.close(connection);
        *why = match not_open {
            NotOpen::Refused(Refusal::NoEndpoint) => ConnectError::NoPoint { nid, dpid },
            why => ConnectError::Unreachable { nid, why },
        };
        Ok(None)
    }

    /// End an attempt. Returns why there is no edge yet.
    pub fn give_up(&mut self, mut attempt: Attempt) -> ConnectError {
        let asked = attempt.tries.iter().any(|one| one.connection().is_some());
        self.drop_tries(&mut attempt);
        match attempt.why {
            ConnectError::NoNode { nid, .. } if asked => ConnectError::Unreachable { nid, why: NotOpen::Connecting },
            why => why,
        }
    }

    fn drop_tries(&mut self, attempt: &mut Attempt) {
        for one in std::mem::take(&mut attempt.tries) {
            if let Some(connection) = one.connection() {
                self.close_connection(attempt.point, connection);
            }
        }
    }

    /// Set the endpoint's edge. The old one is closed when its messages have been accepted.
    fn redirect(&mut self, point: PointId, edge: Edge) {
        let Some(state) = self.point_mut(point) else { return };
        if let Some(old) = state.edge.replace(edge)
            && matches!(old.target, Target::Remote(_))
        {
            self.old_edges.push((point, old));
        }
    }
}
