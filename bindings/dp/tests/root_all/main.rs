//! C programs on several hosts: network namespaces with a switch between them. Needs root.

mod redirect;

use std::process::Command;

use am_testing::c_program::{Library, Program, Running, run};
use am_testing::directed_point::{Nodes, preload_library, start, start_with, table};
use am_testing::lab::{ADDRESSES, Lab};

/// The library under test.
const LIBRARY: Library = Library { name: "amdp", root: env!("CARGO_MANIFEST_DIR") };

fn ping_by_launcher(lab: &Lab, transport: &str) {
    let program = LIBRARY.build("examples/ping.c");
    let libraries = format!("LD_LIBRARY_PATH={}", program.libraries().display());
    let hosts = ADDRESSES[..2].join(",");
    let mut command = Command::new(LIBRARY.beside("am-run"));
    command.args(["-H", &hosts, "--rsh", &lab.shell(), "--transport", transport, "-x", &libraries]);
    let said = run(command.arg(program.path()).args(["1500", "1000"]));
    assert!(said.contains("1000 round trips of 1500 bytes"), "{said}");
}

#[test]
fn the_papers_ping_pong_by_the_launcher() {
    let lab = Lab::new();
    ping_by_launcher(&lab, "udp");
    ping_by_launcher(&lab, "xdp:am0");
}

#[test]
fn the_papers_ping_pong_through_a_daemon_on_each_host() {
    let lab = Lab::new();
    let _daemons = lab.share("xdp:am0");
    ping_by_launcher(&lab, &format!("amd:{}", lab.socket().display()));
}

#[test]
fn over_a_cable_the_preload_library_leaves_the_librarys_descriptors_open() {
    use am_netns::{Host, VethOptions, veth};
    let (alpha, beta) = (Host::new("alpha").unwrap(), Host::new("beta").unwrap());
    let _cable = veth(&alpha, "am0", &beta, "am0", &VethOptions::default()).unwrap();
    let (program, directory) = (LIBRARY.build("tests/c/spared.c"), tempfile::tempdir().unwrap());
    let library = preload_library(LIBRARY, &directory);
    let preload = |command: &mut Command| _ = command.env("LD_PRELOAD", &library);
    let said = alpha.enter(|| start_with(&program, 1, Nodes::Transport("xdp:am0"), &[], preload).end()).unwrap();
    assert_eq!(said, "spared\n");
}

#[test]
fn the_papers_ping_pong_over_a_cable_by_a_table() {
    use am_netns::{Host, VethOptions, veth};
    let (alpha, beta) = (Host::new("alpha").unwrap(), Host::new("beta").unwrap());
    let _cable = veth(&alpha, "am0", &beta, "am0", &VethOptions::default()).unwrap();
    let program = LIBRARY.build("examples/ping.c");
    let file = table(&["0 xdp:am0".to_owned(), "1 xdp:am0".to_owned()]);
    let nodes = Nodes::Table(file.path());
    let other = beta.enter(|| start(&program, 1, nodes, &["200000", "100"])).unwrap();
    let said = alpha.enter(|| start(&program, 0, nodes, &["200000", "100"])).unwrap().end();
    assert!(said.contains("100 round trips of 200000 bytes"), "{said}");
    other.end();
}

/// A process on a host.
fn on(lab: &Lab, host: usize, program: &Program, nid: usize, arguments: &[&str]) -> Running {
    let mut command = Command::new("sh");
    command.args(lab.shell().split(' ').skip(1)).args([ADDRESSES[host], "env", &format!("DP_NID={nid}")]);
    command.arg(format!("AM_TRANSPORT=amd:{}", lab.socket().display()));
    command.arg(format!("LD_LIBRARY_PATH={}", program.libraries().display())).arg(program.path()).args(arguments);
    Running::of(&mut command)
}

/// Processes that share a NID, each with DPIDs of its own, and a daemon between them and the others.
#[test]
fn processes_of_one_node_share_its_dpids_through_a_daemon() {
    let lab = Lab::new();
    let _daemons = lab.share("xdp:am0");
    let (owners, program) = (LIBRARY.build("tests/c/owners.c"), LIBRARY.build("tests/c/shared_nid.c"));
    let mut first = on(&lab, 0, &owners, 3, &["first"]);
    assert_eq!(first.line(), "mine");
    assert_eq!(on(&lab, 0, &owners, 3, &["second"]).end(), "its\n");
    first.kill();
    let mut holders = ["5", "7", "8"].map(|dpid| on(&lab, 0, &program, 3, &["holder", dpid]));
    holders.iter_mut().for_each(|holder| assert_eq!(holder.line(), "open"));
    on(&lab, 1, &program, 4, &["writer", "7", "5"]).end();
    on(&lab, 0, &program, 3, &["writer", "8"]).end();
    holders.into_iter().for_each(|holder| assert_eq!(holder.end(), "got it\n"));
}
