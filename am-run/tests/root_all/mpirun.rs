//! The same program started by Open MPI's launcher, without am-run.

use std::process::Command;

use crate::job::{Job, example};
use crate::lab::{ADDRESSES, Lab};

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
    // The hosts share this machine's files and its name; each needs its own for mpirun's files. mpirun passes one text to a
    // remote shell, as ssh takes it.
    let own = "mkdir -p \"$TMPDIR\" && hostname \"$0\" && exec \"$@\"";
    let text = format!(
        "#!/bin/sh\nhost=$1; shift; export TMPDIR={}/files-$host\nexec {} \"$host\" unshare --uts sh -c '{own}' \"h${{host##*.}}\" sh -c \"$*\"\n",
        lab.directory().display(),
        lab.shell()
    );
    let shell = lab.directory().join("enter.sh");
    std::fs::write(&shell, text).expect("a file");
    assert!(Command::new("chmod").arg("+x").arg(&shell).status().expect("chmod").success());
    // mpirun's own connections need an address that its hosts reach, so it runs on the first.
    let network = "--mca oob_tcp_if_include 10.78.0.0/24 --mca plm_rsh_no_tree_spawn 1";
    let text = format!(
        "mpirun.openmpi --allow-run-as-root -n 4 --host {} --mca plm_rsh_agent {} {network} {}",
        ADDRESSES.join(","),
        shell.display(),
        example("ring")
    );
    let job = Job::start(Command::new(&shell).args([ADDRESSES[0], &text]));
    let ended = job.end();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    for address in ADDRESSES {
        assert!(ended.output().contains(&format!(" by udp:{address}:")), "{ended:?}");
    }
}
