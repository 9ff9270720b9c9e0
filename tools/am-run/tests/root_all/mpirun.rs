//! The same program started by Open MPI's launcher, without am-run.

use std::process::Command;

use crate::job::{Job, am_run, example};
use am_testing::lab::{ADDRESSES, Lab};

/// mpirun, as root, without its warnings about that.
fn mpirun(arguments: &[&str]) -> Command {
    let mut command = Command::new("mpirun.openmpi");
    command.args(["--allow-run-as-root", "--oversubscribe"]).args(arguments);
    command
}

fn four_on_the_ring(command: &mut Command, by: &str) {
    let ended = Job::start(command).end();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.output.iter().any(|line| line == "4 processes on the ring"), "{ended:?}");
    assert_eq!(ended.output.iter().filter(|line| line.contains(by)).count(), 4, "{ended:?}");
}

#[test]
fn four_processes_on_one_host() {
    for (transport, by) in [("udp", " by udp:127.0.0.1:"), ("shm", " by shm:")] {
        let transport = format!("AM_TRANSPORT={transport}");
        four_on_the_ring(&mut mpirun(&["-n", "4", "-x", &transport, &example("ring")]), by);
    }
}

#[test]
fn a_process_on_each_of_four_hosts() {
    let lab = Lab::new();
    let job = Job::start(&mut lab.mpirun(&example("ring")));
    let ended = job.end();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    for address in ADDRESSES {
        assert!(ended.output().contains(&format!(" by udp:{address}:")), "{ended:?}");
    }
}

/// The loopback network, by its name.
#[test]
fn a_network_of_one_host_may_be_named() {
    for scheme in ["udp", "tcp"] {
        let transport = format!("AM_TRANSPORT={scheme}:127.0.0.0/8");
        four_on_the_ring(
            &mut mpirun(&["-n", "4", "-x", &transport, &example("ring")]),
            &format!(" by {scheme}:127.0.0.1:"),
        );
    }
}

/// Each in the other: the processes are those of the inner one.
#[test]
fn of_two_launchers_the_inner_one_counts() {
    let ring = example("ring");
    let mut outer = am_run();
    outer.args(["-n", "1", "mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-n", "4", &ring]);
    four_on_the_ring(&mut outer, " by udp:127.0.0.1:");
    let inner = am_run().get_program().display().to_string();
    four_on_the_ring(&mut mpirun(&["-n", "1", &inner, "-n", "4", &ring]), " by udp:127.0.0.1:");
}

#[test]
fn blobs_have_any_length() {
    let meet = example("meet");
    let ended = Job::start(&mut mpirun(&["-n", "4", &meet, "blobs"])).end();
    assert_eq!(ended.output().matches(": all blobs of 4").count(), 4, "{ended:?}");
}
