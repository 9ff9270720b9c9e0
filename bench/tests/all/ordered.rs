//! am-bench ordered: every stack carries messages in a group, and what is compared is what was measured.

use crate::common::{check_groups, plotted, run, text};

const SHORT: &[&str] = &["--rounds", "1", "--time", "0.02"];

#[test]
fn groups_over_the_loopback_interface_go_on_without_their_sequencer() {
    let asked = ["ordered", "--json", "--hosts", "udp", "--members", "3", "--size", "3000"];
    let (lines, svg) = plotted(&[&asked, SHORT]);
    check_groups(&lines, 3, 3000, "udp", &["am", "agreed", "safe", "openraft"]);
    assert!(svg.ends_with("</svg>\n"));
    for stack in ["am", "agreed", "safe", "openraft"] {
        assert!(svg.contains(&format!("\n{stack}\n")), "{stack}");
    }
}

#[test]
fn a_group_of_two_says_what_is_wanted_and_what_the_paper_has() {
    let said = run(&[&["ordered", "--hosts", "shm", "--members", "2", "--size", "64"], SHORT]);
    assert!(said.status.success(), "{}", text(&said.stderr));
    assert!(text(&said.stderr).contains("no Corosync: a host has one daemon: give --hosts veth"));
    let said = text(&said.stdout);
    for part in [
        "groups of 2 (",
        "each a process; all share ",
        "  totally ordered multicast  LCP/FM",
        "867 µs",
        "  multicast latency over a message's",
        "agreed_over_am",
        "at most 2.60",
        "one round, stacks taken in turn",
    ] {
        assert!(said.contains(part), "no {part}: {said}");
    }
}
