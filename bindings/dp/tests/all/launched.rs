//! One program on graphs of several shapes, started by dp-graph.

use crate::LIBRARY;
use std::collections::BTreeSet;

use am_testing::directed_point::{dp_graph, run_to_end};

const ROUNDS: u64 = 300;

/// Run the example on a graph. Returns standard output, and the table at the end.
fn rounds(graph: &str, count: usize, transport: &str) -> Vec<Vec<String>> {
    let program = LIBRARY.build("examples/rounds.c");
    let mut command = dp_graph(LIBRARY, &program);
    command.args(["--transport", transport, "--every", "0.05", graph]).arg(program.path()).arg(ROUNDS.to_string());
    let (output, errors) = run_to_end(&mut command);
    assert_eq!(output.lines().filter(|line| line.ends_with("all there")).count(), count, "{output}{errors}");
    assert!(!errors.contains('\u{1e}'), "{errors}");
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect();
    let lines: Vec<Vec<String>> = errors.lines().map(words).collect();
    assert_eq!(lines[0][..3], ["from", "to", "messages/s"], "{errors}");
    lines[1..].to_vec()
}

/// Each edge has brought a message in each round, and leads where the graph says.
fn check(rows: &[Vec<String>], edges: &[(&str, &str)]) {
    assert!(rows.iter().all(|row| row.len() == 6 && row[5] == ROUNDS.to_string()), "{rows:?}");
    let shown: BTreeSet<(&str, &str)> = rows.iter().map(|row| (&row[0][..], &row[1][..])).collect();
    assert_eq!(shown, edges.iter().copied().collect());
}

#[test]
fn a_ring() {
    check(&rounds("ring:4", 4, "udp"), &[("0:1", "1:0"), ("1:1", "2:0"), ("2:1", "3:0"), ("3:1", "0:0")]);
}

#[test]
fn a_mesh() {
    let pairs = [("0:2", "1:4"), ("0:3", "2:1"), ("1:3", "3:1"), ("2:2", "3:4")];
    let both: Vec<_> = pairs.into_iter().flat_map(|(from, to)| [(from, to), (to, from)]).collect();
    check(&rounds("mesh:2x2", 4, "udp"), &both);
}

#[test]
fn a_tree() {
    let pairs = [("0:2", "1:1"), ("0:3", "2:1"), ("1:2", "3:1")];
    let both: Vec<_> = pairs.into_iter().flat_map(|(from, to)| [(from, to), (to, from)]).collect();
    check(&rounds("tree:4", 4, "udp"), &both);
}

#[test]
fn an_own_graph_and_what_is_written_of_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let (own, live) = (directory.path().join("own.dot"), directory.path().join("live.dot"));
    std::fs::write(&own, "digraph { source -> left -> sink; source -> right; right:5 -> sink:1 }").expect("a file");
    let program = LIBRARY.build("examples/rounds.c");
    let mut command = dp_graph(LIBRARY, &program);
    command.args(["--transport", "shm", "--every", "0.05", "--json"]).arg("--dot").arg(&live).arg(own);
    let (output, errors) = run_to_end(command.arg(program.path()).arg(ROUNDS.to_string()));
    assert!(errors.contains("source of 4: 300 rounds, 2 out, 0 in, all there"), "{output}{errors}");
    let json = |line: &str| serde_json::from_str::<serde_json::Value>(line).expect("JSON");
    let lines: Vec<_> = output.lines().map(json).collect();
    let last = &lines[lines.len() - 1];
    assert_eq!((&last["from"]["vertex"], &last["from"]["dpid"]), (&"right".into(), &5.into()), "{last}");
    assert_eq!((&last["to"]["dpid"], &last["messages"]), (&1.into(), &ROUNDS.into()), "{last}");
    assert_eq!(errors.lines().count(), 4, "with JSON there is no table: {errors}");
    let text = std::fs::read_to_string(live).expect("it was written");
    assert!(text.contains("\"right\":5 -> \"sink\":1 [label=\""), "{text}");
}

#[test]
fn barriers_of_two_threads_are_two() {
    let directory = tempfile::tempdir().expect("a directory");
    let program = LIBRARY.build("tests/c/barriers.c");
    run_to_end(dp_graph(LIBRARY, &program).arg("ring:2").arg(program.path()).arg(directory.path().join("mark")));
}

/// The size of the job is the graph's.
#[test]
fn a_program_without_the_launcher_is_told() {
    let program = LIBRARY.build("examples/rounds.c");
    let output = std::process::Command::new(program.path())
        .env("LD_LIBRARY_PATH", program.libraries())
        .env("DP_GRAPH", "ring:3")
        .output()
        .expect("it starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("the graph has 3 vertices, and the job 1 processes"), "{errors}");
}

/// A launcher gives a process one place. It is there for the second call, too.
#[test]
fn a_second_call_without_a_node_fails_for_the_same_reason() {
    let program = LIBRARY.build("tests/c/owners.c");
    let mut command = dp_graph(LIBRARY, &program);
    let (output, errors) =
        run_to_end(command.args(["--transport", "xdp:nowhere", "ring:1"]).arg(program.path()).arg("fails"));
    assert!(output.contains("nowhere"), "{output}{errors}");
}
