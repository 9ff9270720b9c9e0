//! The text of a graph, as processes get it in the variable `DP_GRAPH`.
//!
//! ```text
//!   ring:8   mesh:3x3   tree:7                        a generated graph
//!   3 0.1>1.0 1.1>2.0                                 three vertices; edges from VERTEX.DPID to VERTEX.DPID
//!   3=alpha,beta,the%20last 0.1>1.0 1.1>2.0           the same with names
//! ```

use std::fmt;
use std::str::FromStr;

use crate::Dpid;
use crate::graph::{End, Graph, GraphEdge, GraphError};

const SHAPES: &str = "a generated graph is `ring:NUMBER`, `mesh:ROWSxCOLUMNS` or `tree:NUMBER`";
const COUNT: &str =
    "a graph begins with the number of its vertices, as in `3 0.1>1.0`, or is `ring:3`, `mesh:2x3` or `tree:7`";
const NAMES: &str =
    "as many names as vertices, as in `2=alpha,beta`; other bytes than letters, digits, `_`, `-` and `.` as %20";
const EDGE: &str = "an edge is VERTEX.DPID>VERTEX.DPID, as in `0.1>1.0`";

fn wrong(part: &str, why: &'static str) -> GraphError {
    GraphError::Text { part: part.to_owned(), why }
}

impl FromStr for Graph {
    type Err = GraphError;

    fn from_str(text: &str) -> Result<Graph, GraphError> {
        let mut words = text.split_whitespace();
        let head = words.next().ok_or_else(|| wrong("", COUNT))?;
        if let Some((shape, size)) = head.split_once(':') {
            return match words.next() {
                None => generated(shape, size).ok_or_else(|| wrong(head, SHAPES))?,
                Some(more) => Err(wrong(more, "nothing follows a generated graph")),
            };
        }
        let (count, names) = head.split_once('=').map_or((head, None), |(count, names)| (count, Some(names)));
        let count: usize = count.parse().map_err(|_| wrong(head, COUNT))?;
        let edges = words.map(|word| edge(word).ok_or_else(|| wrong(word, EDGE))).collect::<Result<Vec<_>, _>>()?;
        let Some(names) = names else { return Graph::new(count, edges) };
        let names: Option<Vec<String>> = names.split(',').map(decode).collect();
        let names = names.filter(|names| names.len() == count).ok_or_else(|| wrong(head, NAMES))?;
        Graph::named(names, edges)
    }
}

/// `None`: no such shape, or a size that is none.
fn generated(shape: &str, size: &str) -> Option<Result<Graph, GraphError>> {
    match shape {
        "ring" => Some(Graph::ring(size.parse().ok()?)),
        "tree" => Some(Graph::tree(size.parse().ok()?)),
        "mesh" => {
            let (rows, columns) = size.split_once('x')?;
            Some(Graph::mesh(rows.parse().ok()?, columns.parse().ok()?))
        }
        _ => None,
    }
}

fn edge(word: &str) -> Option<GraphEdge> {
    let end = |text: &str| {
        let (vertex, dpid) = text.split_once('.')?;
        Some(End::new(vertex.parse().ok()?, Dpid(dpid.parse().ok()?)))
    };
    let (from, to) = word.split_once('>')?;
    Some(GraphEdge { from: end(from)?, to: end(to)? })
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_-.".contains(&byte)
}

fn decode(text: &str) -> Option<String> {
    let mut bytes = vec![];
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        match first {
            b'%' => {
                let digits = std::str::from_utf8(after.get(..2)?).ok()?;
                bytes.push(u8::from_str_radix(digits, 16).ok()?);
                rest = &after[2..];
            }
            byte if is_plain(*byte) => {
                bytes.push(*byte);
                rest = after;
            }
            _ => return None,
        }
    }
    String::from_utf8(bytes).ok()
}

impl fmt::Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.count())?;
        for vertex in (0..self.count() as u32).filter(|_| self.has_names()) {
            f.write_str(if vertex == 0 { "=" } else { "," })?;
            for byte in self.name(vertex).bytes() {
                match is_plain(byte) {
                    true => write!(f, "{}", char::from(byte))?,
                    false => write!(f, "%{byte:02X}")?,
                }
            }
        }
        self.edges().iter().try_for_each(|edge| write!(f, " {}>{}", edge.from, edge.to))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn shapes_are_read() {
        assert_eq!("ring:5".parse(), Graph::ring(5));
        assert_eq!("mesh:2x3".parse(), Graph::mesh(2, 3));
        assert_eq!(" tree:7\n".parse(), Graph::tree(7));
    }

    #[test]
    fn a_wrong_text_says_what_is_wrong() {
        for (text, says) in [
            ("", "begins with the number"),
            ("three 0.1>1.0", "`three`: a graph begins"),
            ("ring:x", "`ring:x`: a generated graph is"),
            ("mesh:3", "`mesh:3`: a generated graph is"),
            ("star:3", "`star:3`: a generated graph is"),
            ("ring:3 0.1>1.0", "nothing follows"),
            ("ring:0", "at least one vertex"),
            ("0", "at least one vertex"),
            ("2 0.1", "`0.1`: an edge is VERTEX.DPID>VERTEX.DPID"),
            ("2 0.1>1.x", "`0.1>1.x`: an edge is"),
            ("2 0.1>2.0", "no vertex 2"),
            ("2 0.1>1.0 0.1>1.1", "two edges leave DPID 1 of vertex 0"),
            ("3=a,b", "as many names as vertices"),
            ("2=a,b%2", "as many names as vertices"),
            ("2=a,a", "two vertices are called `a`"),
            ("2=a,b 1.1>0.0 1.1>1.0", "two edges leave DPID 1 of vertex b"),
        ] {
            let why = text.parse::<Graph>().unwrap_err().to_string();
            assert!(why.contains(says), "{text}: {why}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            names in prop::collection::hash_set(".{1,12}", 1..9),
            ends in prop::collection::hash_map((0u32..9, 0u32..9), (0u32..9, any::<u32>()), 0..20),
            with_names: bool,
        ) {
            let names: Vec<String> = names.into_iter().collect();
            let count = names.len() as u32;
            let of = |(vertex, dpid): (u32, u32)| End::new(vertex, Dpid(dpid));
            let edges = ends.into_iter().map(|(from, to)| GraphEdge { from: of(from), to: of(to) });
            let edges: Vec<_> = edges.filter(|edge| edge.from.vertex < count && edge.to.vertex < count).collect();
            let graph = if with_names { Graph::named(names, edges) } else { Graph::new(count as usize, edges) };
            let graph = graph.unwrap();
            prop_assert_eq!(graph.to_string().parse(), Ok(graph));
        }
    }
}
