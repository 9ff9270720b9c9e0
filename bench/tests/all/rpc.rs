//! am-bench rpc: every stack is called, and what is compared is what was measured.

use crate::common::{check_calls, plotted, run, text};

#[test]
fn every_stack_is_called_over_the_loopback_interface() {
    let short = ["--rounds", "2", "--time", "0.02"];
    let (lines, svg) = plotted(&[&["rpc", "--json", "--hosts", "udp", "--size", "3000"], &short]);
    check_calls(&lines, 3000, "udp");
    assert!(svg.ends_with("</svg>\n"));
    for stack in ["am", "rpc", "tonic", "tarpc"] {
        assert!(svg.contains(&format!("\n{stack}\n")), "{stack}");
    }
}

#[test]
fn a_table_says_what_is_wanted_and_what_the_paper_has() {
    let said = run(&[&["rpc", "--hosts", "shm", "--size", "64", "--rounds", "1", "--time", "0.005"]]);
    assert!(said.status.success(), "{}", text(&said.stderr));
    let said = text(&said.stdout);
    for part in [
        "  RPC latency over a message's",
        "585 µs",
        "rpc_over_am",
        "at most 1.3 wanted: ",
        "one round, stacks taken in turn",
    ] {
        assert!(said.contains(part), "no {part}: {said}");
    }
}
