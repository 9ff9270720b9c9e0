//! A graph as a whole: its vertices, its edges, and the shapes that programs are written for.
//!
//! ```text
//!   ring:3                    mesh:2x2                     tree:3
//!   0.1 ─▶ 1.0                0.2 ◀─▶ 1.4                  0.2 ◀─▶ 1.1
//!   1.1 ─▶ 2.0                0.3 ◀─▶ 2.1  ...             0.3 ◀─▶ 2.1
//!   2.1 ─▶ 0.0                2.2 ◀─▶ 3.4
//! ```
//!
//! `0.1` is DPID 1 of vertex 0. A vertex is the process of that rank.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashSet};
use std::fmt;

use crate::Dpid;

/// The most vertices, as many as `am-run` starts processes.
pub const MAX_VERTICES: usize = 65_536;

/// DPIDs of the generated graphs.
pub mod dpids {
    use crate::Dpid;

    /// Where the edges of a ring arrive, and where an edge of an own graph arrives that names no endpoint.
    pub const INBOX: Dpid = Dpid(0);
    /// Where an edge of a ring leaves.
    pub const NEXT: Dpid = Dpid(1);
    /// A mesh: the endpoint that has both edges of the neighbour in the row above.
    pub const NORTH: Dpid = Dpid(1);
    /// In the next column.
    pub const EAST: Dpid = Dpid(2);
    /// In the row below.
    pub const SOUTH: Dpid = Dpid(3);
    /// In the column before.
    pub const WEST: Dpid = Dpid(4);
    /// A tree: the endpoint that has both edges of the parent.
    pub const PARENT: Dpid = Dpid(1);
    /// Of the first child.
    pub const LEFT: Dpid = Dpid(2);
    /// Of the second one.
    pub const RIGHT: Dpid = Dpid(3);
}

/// An endpoint of a vertex.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct End {
    /// The vertex.
    pub vertex: u32,
    /// The endpoint's number there.
    pub dpid: Dpid,
}

impl End {
    /// The endpoint of this number.
    pub fn new(vertex: u32, dpid: Dpid) -> End {
        End { vertex, dpid }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.vertex, self.dpid)
    }
}

/// An edge of a graph: a channel in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GraphEdge {
    /// Where it leaves.
    pub from: End,
    /// Where it arrives.
    pub to: End,
}

/// Why there is no such graph.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub enum GraphError {
    /// No vertex.
    #[error("a graph has at least one vertex")]
    NoVertices,
    /// More processes than a job has.
    #[error("{0} vertices: a graph has {MAX_VERTICES} at most")]
    TooMany(usize),
    /// An edge of a vertex that is not there.
    #[error("there is no vertex {vertex}: they count from 0, and there are {count}")]
    NoVertex {
        /// The number.
        vertex: u32,
        /// How many there are.
        count: usize,
    },
    /// Two edges leave one endpoint.
    #[error(
        "two edges leave DPID {dpid} of vertex {vertex}: an endpoint has at most one edge out of it, so number one of them otherwise"
    )]
    TwoEdges {
        /// The vertex's name.
        vertex: String,
        /// The endpoint.
        dpid: Dpid,
    },
    /// Two vertices have one name.
    #[error("two vertices are called `{0}`")]
    SameName(String),
    /// The text form is wrong.
    #[error("`{part}`: {why}")]
    Text {
        /// The part of the text.
        part: String,
        /// What is wrong with it.
        why: &'static str,
    },
}

am_api::debug_as_display!(GraphError);

/// A graph: how many vertices, their names, and the edges in their order.
///
/// Its text is what `DP_GRAPH` holds: [`Display`](fmt::Display) writes it, [`FromStr`](std::str::FromStr) reads it.
///
/// ```
/// use am_dp::Graph;
///
/// let graph: Graph = "ring:3".parse()?;
/// assert_eq!(graph.to_string(), "3 0.1>1.0 1.1>2.0 2.1>0.0");
/// let graph: Graph = "2=source,sink 0.1>1.0 0.2>1.0".parse()?;
/// assert_eq!((graph.name(0).as_ref(), graph.edges_from(0).count()), ("source", 2));
/// # Ok::<(), am_dp::GraphError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graph {
    count: usize,
    /// Of all vertices, or of none: then a vertex is called by its number.
    names: Vec<String>,
    edges: Vec<GraphEdge>,
}

impl Graph {
    /// A graph of `vertices` vertices.
    ///
    /// # Errors
    /// See [`GraphError`].
    pub fn new(count: usize, edges: Vec<GraphEdge>) -> Result<Graph, GraphError> {
        Graph { count, names: vec![], edges }.checked()
    }

    /// A graph of vertices with these names.
    ///
    /// # Errors
    /// See [`GraphError`].
    pub fn named(names: Vec<String>, edges: Vec<GraphEdge>) -> Result<Graph, GraphError> {
        Graph { count: names.len(), names, edges }.checked()
    }

    fn checked(self) -> Result<Graph, GraphError> {
        let count = self.count;
        match count {
            0 => return Err(GraphError::NoVertices),
            1..=MAX_VERTICES => {}
            _ => return Err(GraphError::TooMany(count)),
        }
        let mut names = HashSet::new();
        if let Some(name) = self.names.iter().find(|name| !names.insert(*name)) {
            return Err(GraphError::SameName(name.clone()));
        }
        let mut used = HashSet::new();
        for edge in &self.edges {
            for vertex in [edge.from.vertex, edge.to.vertex] {
                if vertex as usize >= count {
                    return Err(GraphError::NoVertex { vertex, count });
                }
            }
            if !used.insert(edge.from) {
                let vertex = self.name(edge.from.vertex).into_owned();
                return Err(GraphError::TwoEdges { vertex, dpid: edge.from.dpid });
            }
        }
        Ok(self)
    }

    /// A ring: DPID 1 of each vertex leads to DPID 0 of the next.
    ///
    /// # Errors
    /// No vertices, or too many.
    pub fn ring(count: usize) -> Result<Graph, GraphError> {
        let of = |vertex: usize, dpid| End::new(vertex as u32, dpid);
        let edge = |at| GraphEdge { from: of(at, dpids::NEXT), to: of((at + 1) % count, dpids::INBOX) };
        Graph::new(count, (0..limited(count)?).map(edge).collect())
    }

    /// A mesh: an endpoint towards each neighbour, with an edge to the neighbour's endpoint and one from it. They are DPIDs 1 to the
    /// north, 2 to the east, 3 to the south, 4 to the west; a vertex at the border has fewer.
    ///
    /// # Errors
    /// No vertices, or too many.
    pub fn mesh(rows: usize, columns: usize) -> Result<Graph, GraphError> {
        let count = limited(rows.saturating_mul(columns))?;
        let mut edges = vec![];
        for at in 0..count {
            let (row, column) = (at / columns, at % columns);
            if column + 1 < columns {
                both_ways(&mut edges, (at, dpids::EAST), (at + 1, dpids::WEST));
            }
            if row + 1 < rows {
                both_ways(&mut edges, (at, dpids::SOUTH), (at + columns, dpids::NORTH));
            }
        }
        Graph::new(count, edges)
    }

    /// A binary tree: the children of vertex `v` are `2v + 1` and `2v + 2`. DPID 1 has both edges of the parent, DPIDs 2 and 3 those of
    /// the children.
    ///
    /// # Errors
    /// No vertices, or too many.
    pub fn tree(count: usize) -> Result<Graph, GraphError> {
        let mut edges = vec![];
        for at in 1..limited(count)? {
            let side = if at % 2 == 1 { dpids::LEFT } else { dpids::RIGHT };
            both_ways(&mut edges, ((at - 1) / 2, side), (at, dpids::PARENT));
        }
        Graph::new(count, edges)
    }

    /// How many vertices there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Whether the vertices have names of their own.
    pub fn has_names(&self) -> bool {
        !self.names.is_empty()
    }

    /// The name of a vertex; without a name of its own, its number.
    pub fn name(&self, vertex: u32) -> Cow<'_, str> {
        self.names.get(vertex as usize).map_or_else(|| vertex.to_string().into(), |name| name.as_str().into())
    }

    /// All edges, in their order.
    pub fn edges(&self) -> &[GraphEdge] {
        &self.edges
    }

    /// The edges that leave a vertex.
    pub fn edges_from(&self, vertex: u32) -> impl Iterator<Item = &GraphEdge> {
        self.edges.iter().filter(move |edge| edge.from.vertex == vertex)
    }

    /// The edges that arrive at a vertex.
    pub fn edges_to(&self, vertex: u32) -> impl Iterator<Item = &GraphEdge> {
        self.edges.iter().filter(move |edge| edge.to.vertex == vertex)
    }

    /// The endpoints of a vertex.
    pub fn endpoints(&self, vertex: u32) -> BTreeSet<Dpid> {
        let ends = self.edges.iter().flat_map(|edge| [edge.from, edge.to]);
        ends.filter(|end| end.vertex == vertex).map(|end| end.dpid).collect()
    }
}

/// Before edges are made for them.
fn limited(count: usize) -> Result<usize, GraphError> {
    if count > MAX_VERTICES { Err(GraphError::TooMany(count)) } else { Ok(count) }
}

fn both_ways(edges: &mut Vec<GraphEdge>, one: (usize, Dpid), other: (usize, Dpid)) {
    let [one, other] = [one, other].map(|(vertex, dpid)| End::new(vertex as u32, dpid));
    edges.extend([GraphEdge { from: one, to: other }, GraphEdge { from: other, to: one }]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_leads_around() {
        let ring = Graph::ring(4).unwrap();
        assert_eq!((ring.count(), ring.edges().len()), (4, 4));
        for vertex in 0..4 {
            assert_eq!((ring.edges_from(vertex).count(), ring.edges_to(vertex).count()), (1, 1));
            assert_eq!(ring.endpoints(vertex), [Dpid(0), Dpid(1)].into());
        }
        assert_eq!(Graph::ring(1).unwrap().edges()[0].to, End::new(0, dpids::INBOX), "alone, it leads to itself");
    }

    #[test]
    fn a_mesh_has_both_ways_between_neighbours() {
        let mesh = Graph::mesh(3, 4).unwrap();
        assert_eq!((mesh.count(), mesh.edges().len()), (12, 2 * (3 * 3 + 2 * 4)));
        assert_eq!(mesh.endpoints(0), [dpids::EAST, dpids::SOUTH].into());
        assert_eq!(mesh.endpoints(5).len(), 4);
        for edge in mesh.edges() {
            let back = GraphEdge { from: edge.to, to: edge.from };
            assert!(mesh.edges().contains(&back), "{edge:?}");
        }
        assert_eq!(Graph::mesh(1, 1).unwrap().edges(), []);
    }

    #[test]
    fn a_tree_has_one_parent_for_each_but_the_root() {
        let tree = Graph::tree(7).unwrap();
        assert_eq!(tree.edges().len(), 12);
        assert_eq!(tree.endpoints(0), [dpids::LEFT, dpids::RIGHT].into());
        assert_eq!(tree.endpoints(2), [dpids::PARENT, dpids::LEFT, dpids::RIGHT].into());
        assert_eq!(tree.endpoints(6), [dpids::PARENT].into());
        assert_eq!(tree.edges_from(6).next().unwrap().to, End::new(2, dpids::RIGHT));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let edge = |from: (u32, u32), to: (u32, u32)| GraphEdge {
            from: End::new(from.0, Dpid(from.1)),
            to: End::new(to.0, Dpid(to.1)),
        };
        let twice = Graph::new(3, vec![edge((0, 1), (1, 0)), edge((0, 1), (2, 0))]);
        assert_eq!(twice, Err(GraphError::TwoEdges { vertex: "0".into(), dpid: Dpid(1) }));
        assert_eq!(Graph::new(2, vec![edge((0, 1), (2, 0))]), Err(GraphError::NoVertex { vertex: 2, count: 2 }));
        assert_eq!(Graph::ring(0), Err(GraphError::NoVertices));
        assert_eq!(Graph::mesh(usize::MAX, 2), Err(GraphError::TooMany(usize::MAX)));
        assert_eq!(Graph::tree(MAX_VERTICES + 1), Err(GraphError::TooMany(MAX_VERTICES + 1)));
        assert_eq!(Graph::named(vec!["a".into(), "a".into()], vec![]), Err(GraphError::SameName("a".into())));
        // Many edges may arrive at one endpoint.
        assert!(Graph::new(2, vec![edge((0, 1), (1, 0)), edge((0, 2), (1, 0)), edge((1, 0), (1, 0))]).is_ok());
    }
}
