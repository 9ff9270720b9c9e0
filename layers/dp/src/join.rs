//! A process becomes a vertex: its endpoints are opened and connected as a graph says.

use std::task::Poll;
use std::time::Duration;

use crate::connect::Attempt;
use crate::dp::Dp;
use crate::graph::Graph;
use crate::{ConnectError, Dpid, Nid, OpenError, Point};

/// Why a process has not become a vertex.
#[derive(thiserror::Error)]
pub enum JoinError {
    /// Another number of processes than vertices.
    #[error(
        "the graph has {vertices} vertices, and the job {nodes} processes: start as many as it has vertices, with `dp-graph run`"
    )]
    Size {
        /// The graph's vertices.
        vertices: usize,
        /// The job's processes.
        nodes: usize,
    },
    /// No vertex has this process's number.
    #[error("the graph has {vertices} vertices, and none is called by this process's NID {nid}: they count from 0")]
    NoVertex {
        /// The graph's vertices.
        vertices: usize,
        /// This process's number.
        nid: Nid,
    },
    /// An endpoint.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// An edge.
    #[error("the edge from DPID {from}: {why}")]
    Connect {
        /// Where it was to leave.
        from: Dpid,
        /// Why there is none.
        why: ConnectError,
    },
}

am_api::debug_as_display!(JoinError);

impl<M: AsRef<[u8]> + AsMut<[u8]> + 'static> Dp<M> {
    /// Which vertex of the graph this process is: the one with its NID's number, which is its rank in a job.
    ///
    /// # Errors
    /// None, or the job has another number of processes.
    pub fn vertex_of(&self, graph: &Graph) -> Result<u32, JoinError> {
        let (vertices, nid) = (graph.count(), self.nodes().own());
        if let Some(nodes) = self.nodes().count().filter(|nodes| *nodes != vertices) {
            return Err(JoinError::Size { vertices, nodes });
        }
        if nid.0 as usize >= vertices {
            return Err(JoinError::NoVertex { vertices, nid });
        }
        Ok(nid.0)
    }

    /// Open all endpoints that the graph gives to this process, with `memory` for each pool, then connect those with an edge out of
    /// them. This waits for the processes at the other ends; where all processes join with the same graph, meet at a barrier afterwards
    /// before the first one closes an endpoint, and poll until all are there.
    ///
    /// # Errors
    /// See [`JoinError`]. Nothing stays open then.
    pub fn join(
        &mut self,
        graph: &Graph,
        mut memory: impl FnMut(Dpid) -> M,
        timeout: Duration,
    ) -> Result<Vec<(Dpid, Point)>, JoinError> {
        let vertex = self.vertex_of(graph)?;
        let mut points = vec![];
        let joined = graph.endpoints(vertex).into_iter().try_for_each(|dpid| {
            points.push((dpid, self.open(dpid, memory(dpid))?));
            Ok(())
        });
        let joined = joined.and_then(|()| self.connect_all(graph, vertex, &points, timeout));
        match joined {
            Ok(()) => Ok(points),
            Err(why) => {
                points.into_iter().for_each(|(_, point)| self.close(point));
                Err(why)
            }
        }
    }

    fn connect_all(
        &mut self,
        graph: &Graph,
        vertex: u32,
        points: &[(Dpid, Point)],
        timeout: Duration,
    ) -> Result<(), JoinError> {
        let point_of = |dpid: Dpid| points.iter().find(|(of, _)| *of == dpid).map(|(_, point)| point);
        let begin = |edge: &crate::GraphEdge| {
            let point = point_of(edge.from.dpid)?;
            Some((edge.from.dpid, self.begin_connect(point, Nid(edge.to.vertex), edge.to.dpid)))
        };
        let mut attempts: Vec<(Dpid, Attempt)> = graph.edges_from(vertex).filter_map(begin).collect();
        let mut result = Ok(());
        self.wait_until(timeout, |dp| {
            result = dp.join_step(&mut attempts, false);
            result.is_err() || attempts.is_empty()
        });
        result.and_then(|()| self.join_step(&mut attempts, true))
    }

    /// Go on with all these attempts, by the DPIDs that their edges leave from. Those that are done go; the first failure ends all.
    /// `is_late`: those that are not done now have failed.
    ///
    /// # Errors
    /// [`JoinError::Connect`].
    pub fn join_step(&mut self, attempts: &mut Vec<(Dpid, Attempt)>, is_late: bool) -> Result<(), JoinError> {
        let mut failed = None;
        attempts.retain_mut(|(from, attempt)| match self.connect_step(attempt) {
            Poll::Pending => true,
            Poll::Ready(result) => {
                failed = failed.take().or(result.err().map(|why| (*from, why)));
                false
            }
        });
        if failed.is_some() || is_late {
            for (from, attempt) in attempts.drain(..) {
                let why = self.give_up(attempt);
                failed.get_or_insert((from, why));
            }
        }
        failed.map_or(Ok(()), |(from, why)| Err(JoinError::Connect { from, why }))
    }
}
