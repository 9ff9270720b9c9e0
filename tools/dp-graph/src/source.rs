//! The argument GRAPH: a file or a generated graph.

use std::path::Path;

use am_dp::Graph;

use crate::dot;
use am_input::text_file;

/// Shapes that need no file.
const SHAPES: [&str; 3] = ["ring:", "mesh:", "tree:"];

pub(crate) fn load(graph: &str) -> Result<Graph, String> {
    if SHAPES.iter().any(|shape| graph.starts_with(shape)) {
        return graph.parse().map_err(|why: am_dp::GraphError| named(graph, &why.to_string()));
    }
    let text = text_file::read(Path::new(graph)).map_err(|why| {
        format!("{graph}: {why}. A graph is a file in DOT, or `ring:NUMBER`, `mesh:ROWSxCOLUMNS` or `tree:NUMBER`")
    })?;
    let read = dot::parse(&text).map_err(|why| format!("{graph}: {why}"))?;
    check_names(&read).map_err(|why| format!("{graph}: {why}"))?;
    Ok(read)
}

/// DOT has no escapes for control characters, and a terminal acts on them.
fn check_names(graph: &Graph) -> Result<(), String> {
    let mut names = (0..graph.count() as u32).map(|vertex| graph.name(vertex));
    match names.find(|name| name.contains(char::is_control)) {
        Some(name) => Err(format!("the name `{}` has a control character", name.escape_debug())),
        None => Ok(()),
    }
}

/// The reason with the graph's name, which some reasons have already.
fn named(graph: &str, why: &str) -> String {
    if why.contains(graph) { why.to_owned() } else { format!("`{graph}`: {why}") }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_name_has_no_control_characters() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_str().unwrap();
        for (name, shown) in [("a\u{1b}[2J", "`a\\u{1b}[2J`"), ("a\nb", "`a\\nb`"), ("\u{9b}", "`\\u{9b}`")] {
            fs::write(path, format!("digraph {{ \"{name}\" -> b }}")).unwrap();
            let why = load(path).unwrap_err();
            assert!(why.ends_with(&format!("the name {shown} has a control character")), "{why}");
        }
    }

    #[test]
    fn a_graph_is_a_file_or_a_shape() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_str().unwrap();
        fs::write(path, "digraph { a -> b }").unwrap();
        assert_eq!(load(path).unwrap().to_string(), "2=a,b 0.1>1.0");
        assert_eq!(load("ring:2").unwrap().to_string(), "2 0.1>1.0 1.1>0.0");
        fs::write(path, "graph { a -- b }").unwrap();
        for (graph, says) in [
            (path, format!("{path}: an undirected graph")),
            ("no-such.dot", "no-such.dot: No such file".to_owned()),
            ("star:5", "or `ring:NUMBER`".to_owned()),
            ("mesh:3", "`mesh:3`: a generated graph is".to_owned()),
            ("tree:0", "`tree:0`: a graph has at least one vertex".to_owned()),
        ] {
            let why = load(graph).unwrap_err();
            assert!(why.contains(&says), "{graph}: {why}");
        }
    }
}
