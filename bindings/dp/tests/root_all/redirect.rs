//! Eight processes on four hosts, whose edges are redirected while messages flow: each message arrives once, where it was written to.

use crate::LIBRARY;
use am_testing::directed_point::{dp_graph, run_to_end};
use am_testing::lab::{ADDRESSES, Lab};

/// Two edges out of each vertex, all into the inboxes.
fn graph() -> String {
    let edges =
        (0..8).map(|vertex| format!("    v{vertex} -> v{}; v{vertex} -> v{};\n", (vertex + 1) % 8, (vertex + 3) % 8));
    let order = (0..8).map(|vertex| format!("    v{vertex};\n"));
    format!("digraph {{\n{}}}\n", order.chain(edges).collect::<String>())
}

fn redirect(lab: &Lab, transport: &str) {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("eight.dot");
    std::fs::write(&file, graph()).expect("a file");
    let program = LIBRARY.build("tests/c/redirect.c");
    let hosts = ADDRESSES.map(|address| format!("{address}:2")).join(",");
    let seed = std::env::var("AM_DP_SEED").unwrap_or_else(|_| "1".to_owned());
    let turns = std::env::var("AM_DP_REDIRECTS").unwrap_or_else(|_| "100".to_owned());
    println!("again with AM_DP_SEED={seed} AM_DP_REDIRECTS={turns}");
    let mut command = dp_graph(LIBRARY, &program);
    // Small pools: the receivers are full again and again, so old edges live on while new ones are used.
    command.args([
        "-x",
        "DP_POOL=16384",
        "-H",
        &hosts,
        "--rsh",
        &lab.shell(),
        "--transport",
        transport,
        "--every",
        "0.2",
        "--json",
    ]);
    command.arg(&file).arg(program.path()).args([&seed, &turns, "60"]);
    let (output, errors) = run_to_end(&mut command);
    let mut written = 0u64;
    for vertex in 0..8 {
        let start = format!("vertex {vertex}: ");
        let line = errors.lines().find_map(|line| line.strip_prefix(&start)).expect("each says its end");
        assert!(line.ends_with("arrived once"), "{output}{errors}");
        written += line.split(' ').next().and_then(|count| count.parse::<u64>().ok()).expect("a number");
    }
    // What dp-graph shows at the end: each edge, with all its messages. An edge says its end to each vertex.
    let json = |line: &str| serde_json::from_str::<serde_json::Value>(line).expect("JSON");
    let lines: Vec<_> = output.lines().map(json).collect();
    let last = &lines[lines.len() - 16..];
    let sum = |what: &str| last.iter().map(|edge| edge[what].as_u64().expect("a number")).sum::<u64>();
    assert_eq!(sum("messages"), written + 16 * 8, "{output}{errors}");
    let turns: u64 = turns.parse().expect("a number");
    assert!(last.iter().all(|edge| edge["redirected"] == true) && sum("redirects") > 16 * turns / 2, "{last:?}");
    println!("{written} messages, {} redirects", sum("redirects"));
}

#[test]
fn over_udp() {
    redirect(&Lab::new(), "udp");
}

/// Over AF_XDP on a veth: the two processes of each host share it.
#[test]
fn through_a_daemon_on_each_host() {
    let lab = Lab::new();
    let _daemons = lab.share("xdp:am0");
    redirect(&lab, &format!("amd:{}", lab.socket().display()));
}
