//! C programs over AF_XDP, on hosts with a cable between them.

use std::process::Command;

use crate::LIBRARY;
use am_netns::{Host, VethOptions, veth};
use am_testing::c_program::{Program, Running};
use am_testing::lab::{ADDRESSES, Lab, leave_each_number_alone};

/// Programs 0 and 1, or 1 and 2, on a host each. Returns what the first one has said.
fn on_two_hosts(program: &Program, hosts: [&Host; 2], transport: &str, names: [&str; 2]) -> String {
    let start = |at: usize| hosts[at].enter(|| program.start(transport, &[names[at]])).unwrap();
    pass_addresses([start(0), start(1)])
}

/// Two programs pass each other their addresses. Returns what the first one has said.
fn pass_addresses(mut both: [Running; 2]) -> String {
    let [first, second] = both.each_mut().map(Running::line);
    both[0].write(&format!("{second}\n"));
    both[1].write(&format!("{first}\n"));
    let [first, second] = both;
    let said = first.end();
    second.end();
    said
}

#[test]
fn the_same_programs_run_over_a_cable() {
    let (alpha, beta) = (Host::new("alpha").unwrap(), Host::new("beta").unwrap());
    let _cable = veth(&alpha, "am0", &beta, "am0", &VethOptions::default()).unwrap();
    let (ping, every) = (LIBRARY.build("examples/ping.c"), LIBRARY.build("tests/c/every.c"));
    let said = on_two_hosts(&ping, [&alpha, &beta], "xdp:am0", ["0", "1"]);
    assert!(said.contains("1000 round trips without data") && said.contains(" 0 bytes wrong"), "{said}");
    let said = on_two_hosts(&every, [&alpha, &beta], "xdp:am0", ["1", "2"]);
    assert_eq!(said, "3000 counted, 2000 replied, 20 lengths, 0 wrong\n");
}

/// A program on a host, over the host's daemon.
fn behind_daemon(lab: &Lab, host: usize, program: &Program, own: &str) -> Running {
    let mut command = Command::new("sh");
    command.args(lab.shell().split(' ').skip(1)).args([ADDRESSES[host], "env"]);
    command.arg(format!("AM_TRANSPORT=amd:{}", lab.socket().display()));
    command.arg(format!("LD_LIBRARY_PATH={}", program.libraries().display())).arg(program.path()).arg(own);
    Running::of(&mut command)
}

/// Two tasks share the NIC of a host, and two are on two hosts.
#[test]
fn tasks_share_a_nic_through_a_daemon() {
    let lab = Lab::new();
    let _daemons = lab.share("xdp:am0");
    let every = LIBRARY.build("tests/c/every.c");
    for hosts in [[0, 0], [0, 1]] {
        let said = pass_addresses([0, 1].map(|at| behind_daemon(&lab, hosts[at], &every, ["1", "2"][at])));
        assert_eq!(said, "3000 counted, 2000 replied, 20 lengths, 0 wrong\n", "{hosts:?}");
    }
}

/// The BPF loader and libxdp close theirs by number.
#[test]
fn a_file_with_any_of_the_librarys_numbers_is_left_alone() {
    leave_each_number_alone(&LIBRARY.build("tests/c/one_number.c"));
}
