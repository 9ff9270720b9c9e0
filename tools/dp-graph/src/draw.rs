//! A graph as DOT: a box with a field for each endpoint, so that each edge ends at its DPIDs. dp-graph reads it again.

use std::collections::BTreeSet;
use std::fmt::Write;

use am_dp::{Dpid, Graph};

use crate::live::Row;

/// The graph; with rows, its present edges and their rates.
pub(crate) fn draw(graph: &Graph, rows: &[Row]) -> String {
    let mut text = String::from("digraph {\n    node [shape=record];\n");
    let mut write = |line: std::fmt::Arguments<'_>| _ = text.write_fmt(line);
    for (vertex, dpids) in (0..).zip(endpoints(graph, rows)) {
        let name = graph.name(vertex);
        write(format_args!("    {} [label=\"{}\"];\n", quoted(&name), label(&name, &dpids)));
    }
    let end = |end: am_dp::End| format!("{}:{}", quoted(&graph.name(end.vertex)), end.dpid);
    if rows.is_empty() {
        graph.edges().iter().for_each(|edge| write(format_args!("    {} -> {};\n", end(edge.from), end(edge.to))));
    }
    for row in rows {
        let rate = row.rate;
        let figures =
            format!("{:.0} messages/s\\n{:.2} MB/s\\n{:.0} stalls/s", rate.messages, rate.megabytes, rate.stalls);
        let redirected = row.redirected().map_or_else(String::new, |how| format!("\\n{how}\", color=\"red"));
        write(format_args!("    {} -> {} [label=\"{figures}{redirected}\"];\n", end(row.from), end(row.to)));
    }
    text.push_str("}\n");
    text
}

/// Of each vertex, those of the graph and those of its present edges. One pass: a graph may have many edges.
fn endpoints(graph: &Graph, rows: &[Row]) -> Vec<BTreeSet<Dpid>> {
    let mut endpoints = vec![BTreeSet::new(); graph.count()];
    let planned = graph.edges().iter().flat_map(|edge| [edge.from, edge.to]);
    for end in planned.chain(rows.iter().flat_map(|row| [row.from, row.to])) {
        // A row's ends are vertices of the graph.
        endpoints.get_mut(end.vertex as usize).into_iter().for_each(|dpids| _ = dpids.insert(end.dpid));
    }
    endpoints
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\""))
}

/// A record: the name, and below it the endpoints.
fn label(name: &str, dpids: &BTreeSet<Dpid>) -> String {
    let mut label = String::new();
    for letter in name.chars() {
        if "\\\"{}|<> ".contains(letter) {
            label.push('\\');
        }
        label.push(if letter.is_control() { '?' } else { letter });
    }
    let fields: Vec<String> = dpids.iter().map(|dpid| format!("<{dpid}> {dpid}")).collect();
    if fields.is_empty() { label } else { format!("{{{label}|{{{}}}}}", fields.join("|")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dot;
    use crate::live::Live;

    #[test]
    fn what_is_drawn_is_read() {
        for graph in ["ring:3", "mesh:2x3", "tree:5", "4=a,b%20%22c%22,d%5C,%7Be%7C%3Cf%3E%7D 0.3>1.2 1.1>0.0 2.7>3.1"]
        {
            let graph: Graph = graph.parse().unwrap();
            for rows in [vec![], Live::new(graph.clone()).rows()] {
                let again = dot::parse(&draw(&graph, &rows)).unwrap();
                assert_eq!((again.count(), again.edges()), (graph.count(), graph.edges()));
                assert!((0..graph.count() as u32).all(|vertex| graph.name(vertex) == again.name(vertex)));
            }
        }
    }

    #[test]
    fn a_redirected_edge_is_red() {
        let graph: Graph = "3=a,b,c 0.1>1.0".parse().unwrap();
        let mut live = Live::new(graph.clone());
        live.take(&"\u{1e}dp 0 1000000 1>1.0:10,1000,0,0,0".parse().unwrap());
        live.take(&"\u{1e}dp 0 2000000 1>2.5:30,3000000,4,0,1".parse().unwrap());
        let text = draw(&graph, &live.rows());
        let edge = "    \"a\":1 -> \"c\":5 [label=\"20 messages/s\\n3.00 MB/s\\n4 stalls/s\\nredirected once\", color=\"red\"];\n";
        assert!(text.contains(edge), "{text}");
        assert!(text.contains("\"c\" [label=\"{c|{<5> 5}}\"]"), "{text}");
    }

    /// With a pass over all edges for each vertex, this takes minutes.
    #[test]
    fn a_large_graph_is_drawn_in_time() {
        let start = std::time::Instant::now();
        let graph: Graph = "ring:65536".parse().unwrap();
        assert_eq!(draw(&graph, &Live::new(graph.clone()).rows()).lines().count(), 3 + 2 * 65536);
        assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
    }
}
