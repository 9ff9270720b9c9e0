//! Jobs on four hosts, by am-run.

use nix::sys::signal::Signal::SIGKILL;

use crate::job::{Ended, Job, am_run, example, runs, until};
use am_testing::lab::{ADDRESSES, Lab};

/// am-run on all hosts, each with this many slots.
fn start(lab: &Lab, slots: usize, arguments: &[&str]) -> Job {
    let hosts: Vec<String> = ADDRESSES.iter().map(|address| format!("{address}:{slots}")).collect();
    Job::start(am_run().args(["-H", &hosts.join(","), "--rsh", &lab.shell()]).args(arguments))
}

fn ring(slots: usize, transport: &str) -> Ended {
    ring_in(&Lab::new(), slots, transport)
}

fn ring_in(lab: &Lab, slots: usize, transport: &str) -> Ended {
    let ended = start(lab, slots, &["--transport", transport, &example("ring")]).end();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.output().contains(&format!("{} processes on the ring", 4 * slots)), "{ended:?}");
    ended
}

#[test]
fn four_hosts_over_udp() {
    let ended = ring(1, "udp");
    for address in ADDRESSES {
        assert!(ended.output().contains(&format!(" by udp:{address}:")), "{ended:?}");
    }
}

#[test]
fn four_hosts_over_xdp() {
    ring(1, "xdp:am0");
}

/// The processes of a host share its interface by a daemon.
#[test]
fn two_processes_on_each_of_four_hosts_over_one_nic_each() {
    let lab = Lab::new();
    let _daemons = lab.share("xdp:am0");
    ring_in(&lab, 2, &format!("amd:{}", lab.socket().display()));
}

#[test]
fn several_processes_on_an_interface_are_told_of_the_daemon() {
    let lab = Lab::new();
    let ended = start(&lab, 2, &["--transport", "xdp:am0", &example("ring")]).end();
    assert!(ended.code != Some(0) && ended.errors().contains("sudo amd run xdp:am0"), "{ended:?}");
}

#[test]
fn shared_memory_on_a_host_and_udp_between() {
    ring(2, "shm+udp:10.78.0.0/24");
}

#[test]
fn a_killed_launcher_leaves_nothing_on_any_host() {
    let lab = Lab::new();
    let mut job = start(&lab, 1, &["sh", "-c", "echo $$; exec sleep 1000"]);
    let pids: Vec<u32> = (0..4).map(|_| job.line().parse().expect("a process id")).collect();
    job.signal(SIGKILL);
    job.end();
    until("gone", || pids.iter().all(|pid| !runs(*pid)));
}

#[test]
fn a_process_that_fails_on_one_host_ends_those_on_the_others() {
    let lab = Lab::new();
    let ended = start(&lab, 1, &["sh", "-c", "echo $$; test $AM_RANK = 2 && exit 3; exec sleep 1000"]).end();
    assert_eq!(ended.code, Some(3), "{ended:?}");
    assert!(ended.errors().contains("rank 2 on host 10.78.0.3 ended with exit code 3"), "{ended:?}");
    until("gone", || ended.output.iter().all(|pid| !runs(pid.parse().expect("a process id"))));
}
