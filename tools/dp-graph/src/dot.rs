//! A graph from DOT. Attributes are for drawing: they mean nothing here.

use std::collections::HashMap;

use am_dp::{Dpid, End, Graph, GraphEdge, GraphError, dpids};
use graphviz_rust::dot_structures::{Edge, EdgeTy, Graph as Dot, Id, NodeId, Port, Stmt, Subgraph, Vertex};

use crate::syntax;

/// Why a text is no graph.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DotError {
    #[error("there is no graph in it: write `digraph {{ a -> b }}`, for instance")]
    Empty,
    #[error("{0}")]
    Syntax(String),
    #[error("an undirected graph: write `digraph` and `->`, because a channel has one direction")]
    Undirected,
    #[error("more than {MAX_DEPTH} levels of `{{`")]
    Deep,
    #[error("an edge of a subgraph is not supported: write one for each of its vertices")]
    EdgeOfSubgraph,
    #[error("`{vertex}:{port}`: a port is the DPID of an endpoint, a number from 0")]
    Port { vertex: String, port: String },
    #[error("a vertex has a name, not HTML: {0}")]
    Html(String),
    #[error(transparent)]
    Graph(#[from] GraphError),
}

/// Graphs and subgraphs in each other.
const MAX_DEPTH: usize = 12;

/// An end of an edge as it is written: the DPID may be missing.
type Written = (u32, Option<Dpid>);

/// What was read so far.
#[derive(Default)]
struct Reader {
    names: Vec<String>,
    numbers: HashMap<String, u32>,
    edges: Vec<(Written, Written)>,
}

/// Read a graph.
pub(crate) fn parse(text: &str) -> Result<Graph, DotError> {
    let mut reader = Reader::default();
    check_text(text)?;
    let is_strict = match graphviz_rust::parse(text).map_err(|said| DotError::Syntax(syntax::why(text, &said)))? {
        Dot::Graph { .. } => return Err(DotError::Undirected),
        Dot::DiGraph { stmts, strict, .. } => {
            reader.statements(&stmts)?;
            strict
        }
    };
    if is_strict {
        // In a strict graph a second edge from here to there is the first.
        let mut known = std::collections::HashSet::new();
        reader.edges.retain(|((from, _), (to, _))| known.insert((*from, *to)));
    }
    let edges = numbered(&reader.edges);
    Ok(Graph::named(reader.names, edges)?)
}

/// What the parser does not refuse, outside of texts and comments: it takes both arrows in both kinds of graph, and its time doubles with
/// each level in which something is wrong.
fn check_text(text: &str) -> Result<(), DotError> {
    let (mut rest, mut depth, mut is_empty) = (text, 0usize, true);
    while let Some(letter) = rest.chars().next() {
        match letter {
            '-' if rest.starts_with("--") => return Err(DotError::Undirected),
            '{' if depth == MAX_DEPTH => return Err(DotError::Deep),
            '{' => (depth, is_empty) = (depth + 1, false),
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        rest = &rest[syntax::opaque(rest).map_or(letter.len_utf8(), |opaque| opaque.len)..];
    }
    if is_empty { Err(DotError::Empty) } else { Ok(()) }
}

/// The k-th edge out of a vertex leaves at DPID k unless it says otherwise.
fn numbered(written: &[(Written, Written)]) -> Vec<GraphEdge> {
    let mut out = HashMap::<u32, u32>::new();
    let number = |((from, from_dpid), (to, to_dpid)): &(Written, Written)| {
        let k = out.entry(*from).or_default();
        *k += 1;
        let from = End::new(*from, from_dpid.unwrap_or(Dpid(*k)));
        GraphEdge { from, to: End::new(*to, to_dpid.unwrap_or(dpids::INBOX)) }
    };
    written.iter().map(number).collect()
}

impl Reader {
    fn statements(&mut self, statements: &[Stmt]) -> Result<(), DotError> {
        statements.iter().try_for_each(|statement| match statement {
            Stmt::Node(node) => self.end(&node.id).map(drop),
            // It groups vertices, as for drawing.
            Stmt::Subgraph(Subgraph { stmts, .. }) => self.statements(stmts),
            Stmt::Edge(edge) => self.edge(edge),
            Stmt::Attribute(_) | Stmt::GAttribute(_) => Ok(()),
        })
    }

    fn edge(&mut self, edge: &Edge) -> Result<(), DotError> {
        let vertices = match &edge.ty {
            EdgeTy::Pair(from, to) => vec![from, to],
            EdgeTy::Chain(chain) => chain.iter().collect(),
        };
        let ends = vertices.into_iter().map(|vertex| match vertex {
            Vertex::N(id) => self.end(id),
            Vertex::S(_) => Err(DotError::EdgeOfSubgraph),
        });
        let ends = ends.collect::<Result<Vec<_>, _>>()?;
        self.edges.extend(ends.windows(2).map(|pair| (pair[0], pair[1])));
        Ok(())
    }

    /// A vertex, with the DPID that its port says.
    fn end(&mut self, NodeId(id, port): &NodeId) -> Result<Written, DotError> {
        let name = text(id)?;
        let dpid = match port {
            // A compass point alone is for drawing.
            None | Some(Port(None, _)) => None,
            Some(Port(Some(port), _)) => {
                let port = text(port)?;
                let dpid = port.parse().map_err(|_| DotError::Port { vertex: name.clone(), port })?;
                Some(Dpid(dpid))
            }
        };
        let next = self.names.len() as u32;
        let number = *self.numbers.entry(name.clone()).or_insert(next);
        if number == next {
            self.names.push(name);
        }
        Ok((number, dpid))
    }
}

fn text(id: &Id) -> Result<String, DotError> {
    match id {
        Id::Plain(text) | Id::Anonymous(text) => Ok(text.clone()),
        Id::Html(text) => Err(DotError::Html(text.clone())),
        Id::Escaped(quoted) => {
            let inner = quoted.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(quoted);
            let mut text = String::new();
            let mut letters = inner.chars();
            while let Some(letter) = letters.next() {
                match (letter, letters.as_str().chars().next()) {
                    ('\\', Some(escaped @ ('"' | '\\'))) => {
                        letters.next();
                        text.push(escaped);
                    }
                    _ => text.push(letter),
                }
            }
            Ok(text)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> String {
        parse(text).unwrap().to_string()
    }

    #[test]
    fn levels_have_a_limit() {
        let nested = |levels: usize| format!("digraph {{ {} \"}}\" /* }} */", "subgraph {".repeat(levels - 1));
        assert_eq!(read(&format!("{}{}", nested(MAX_DEPTH), "}".repeat(MAX_DEPTH))), "1=%7D");
        assert!(matches!(parse(&nested(MAX_DEPTH)), Err(DotError::Syntax(_))), "not closed");
        assert!(matches!(parse(&nested(100_000)), Err(DotError::Deep)));
        for before in ["l=\"\\\\\\\" \"", "l=<<b>5\" #1</b>>", "// one\r"] {
            let text = format!("digraph {{ a [{before}] {}", "subgraph {".repeat(1000));
            assert!(matches!(parse(&text), Err(DotError::Deep)), "{before}");
        }
        let html = format!("digraph {{ a [l=<{}x{}>] }}", "<b>".repeat(10_000), "</b>".repeat(10_000));
        assert_eq!(read(&html), "1=a");
    }

    #[test]
    fn vertices_are_numbered_as_they_are_mentioned() {
        assert_eq!(read("digraph { b; a -> b; c }"), "3=b,a,c 1.1>0.0");
        assert_eq!(read("digraph G { 1 -> 2 -> 1 }"), "2=1,2 0.1>1.0 1.1>0.0");
        assert_eq!(read("digraph { \"the \\\"last\\\"\" }"), "1=the%20%22last%22");
    }

    #[test]
    fn edges_out_of_a_vertex_are_numbered_from_1() {
        assert_eq!(read("digraph { a -> b; a -> c; b -> c; a -> a }"), "3=a,b,c 0.1>1.0 0.2>2.0 1.1>2.0 0.3>0.0");
    }

    #[test]
    fn ports_are_dpids() {
        assert_eq!(
            read("digraph { a:3 -> b:2; a -> b; a:\"7\" -> b:4:n; a:e -> b:_ }"),
            "2=a,b 0.3>1.2 0.2>1.0 0.7>1.4 0.4>1.0"
        );
        assert_eq!(read("digraph { a -> b:5 -> c }"), "3=a,b,c 0.1>1.5 1.5>2.0");
    }

    #[test]
    fn what_is_for_drawing_means_nothing() {
        let text = r#"/* -- all */ digraph pipe { rankdir=LR; node [shape=box] // -- boxes
            subgraph cluster_one { label="one"; a [label="A", color=red]; a -> b [weight=3] }
            b -> c [label="b -- \"c\""]; # -- the last
        }"#;
        assert_eq!(read(text), "3=a,b,c 0.1>1.0 1.1>2.0");
    }

    #[test]
    fn in_a_strict_graph_an_edge_is_there_once() {
        assert_eq!(read("strict digraph { a -> b; a -> b; b -> a }"), "2=a,b 0.1>1.0 1.1>0.0");
        assert_eq!(read("digraph { a -> b; a -> b }"), "2=a,b 0.1>1.0 0.2>1.0");
    }

    #[test]
    fn what_is_no_graph_says_why() {
        for (text, says) in [
            ("", "there is no graph in it"),
            ("// digraph { a }\n", "there is no graph in it"),
            ("digraph { a -> }", "line 1, column 16: `}` cannot stand here"),
            ("digraph { a -> b", "the graph is not closed: `}` is missing"),
            ("graph { a -- b }", "an undirected graph: write `digraph`"),
            ("digraph { a -> b; \"x\\\"\" a -- b }", "an undirected graph: write `digraph`"),
            ("digraph { }", "at least one vertex"),
            ("digraph { a -> { b c } }", "an inner `{` needs `subgraph`"),
            ("digraph { a -> subgraph { b c } }", "an edge of a subgraph is not supported"),
            ("digraph { a:x -> b }", "`a:x`: a port is the DPID"),
            ("digraph { a -> b:-1 }", "`b:-1`: a port is the DPID"),
            ("digraph { a:1 -> b; a:1 -> c }", "two edges leave DPID 1 of vertex a"),
            ("digraph { a:2 -> b; a -> c }", "two edges leave DPID 2 of vertex a"),
            ("digraph { <<b>x</b>> -> c }", "not HTML"),
        ] {
            let why = parse(text).unwrap_err().to_string();
            assert!(why.contains(says), "{text}: {why}");
        }
    }
}
