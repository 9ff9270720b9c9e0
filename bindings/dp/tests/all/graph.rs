//! Processes that are vertices of a graph. (dp-graph's tests start them through am-run.)

use crate::LIBRARY;
use std::process::{Command, Stdio};

use am_dp::Report;

use am_testing::c_program::Program;
use am_testing::directed_point::{Nodes, start_with, table, udp_line};

fn fails(program: &Program, graph: Option<&str>) -> String {
    let nodes = table(&[udp_line(0), udp_line(1)]);
    let set = |command: &mut Command| {
        graph.into_iter().for_each(|graph| _ = command.env("DP_GRAPH", graph));
    };
    start_with(program, 1, Nodes::Table(nodes.path()), &["fails"], set).end()
}

/// Without a launcher: by the table of nodes.
#[test]
fn an_own_graph_by_a_table_of_nodes() {
    let program = LIBRARY.build("tests/c/graph.c");
    let nodes = table(&[udp_line(0), udp_line(1), udp_line(2)]);
    let set = |command: &mut Command| _ = command.env("DP_GRAPH", "3=source,left,right 0.1>1.0 0.2>2.0 1.1>2.0");
    let go = |nid| start_with(&program, nid, Nodes::Table(nodes.path()), &["shape"], set);
    let all = [go(0), go(1), go(2)];
    let said: String = all.into_iter().map(|process| process.end()).collect();
    assert_eq!(said, "source: 2 out, 0 in, sum 0\nleft: 1 out, 1 in, sum 0\nright: 0 out, 2 in, sum 1\n");
}

#[test]
fn a_wrong_graph_says_what_is_wrong() {
    let program = LIBRARY.build("tests/c/graph.c");
    for (graph, says) in [
        (None, "DP_GRAPH is not set"),
        (Some("star:5"), "DP_GRAPH: `star:5`: a generated graph is"),
        (Some("2 0.1>1.0 0.1>0.0"), "two edges leave DPID 1 of vertex 0"),
        (Some("1"), "the graph has 1 vertices, and the job 2 processes"),
    ] {
        let said = fails(&program, graph);
        assert!(said.contains(says), "{said}");
    }
}

/// The last line has everything, also of an endpoint that was closed before.
#[test]
fn live_figures_are_lines_of_standard_error() {
    let program = LIBRARY.build("tests/c/graph.c");
    let mut command = Command::new(program.path());
    command.arg("shape").env("LD_LIBRARY_PATH", program.libraries()).env("DP_GRAPH", "ring:1");
    command.env("DP_GRAPH_REPORT", "1").stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = command.output().expect("it runs");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "0: 1 out, 1 in, sum 0\n", "{output:?}");
    let errors = String::from_utf8(output.stderr).expect("a text");
    let reports: Vec<Report> = errors.lines().map(|line| line.parse().expect("a report")).collect();
    let last = reports.last().expect("at least one");
    assert_eq!(last.points.len(), 2, "{last:?}");
    let (read, write) = (last.points[0], last.points[1]);
    assert_eq!((read.dpid.0, read.edge, read.traffic.received), (0, None, 1));
    assert_eq!((write.dpid.0, write.traffic.written, write.traffic.bytes_written), (1, 1, 4));
    assert_eq!(write.edge.map(|(nid, dpid)| (nid.0, dpid.0)), Some((0, 0)));
}
